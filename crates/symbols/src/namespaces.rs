//! Other views of the file system: containers have their own.

use std::path::{Path, PathBuf};

/// More processes are not looked at.
const MOST_PROCESSES: usize = 1 << 16;
/// More mount namespaces are not searched.
const MOST_NAMESPACES: usize = 256;

/// Roots of all mount namespaces but ours that a living process shows, as `/proc/PID/root`.
///
/// A recording does not say in which one a file was mapped; whoever opens a file below one of them
/// has to check its build id.
pub(crate) fn other_roots() -> Vec<PathBuf> {
    let Ok(own) = std::fs::read_link("/proc/self/ns/mnt") else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut known = vec![own];
    let mut roots = Vec::new();
    for entry in entries.flatten().take(MOST_PROCESSES) {
        let folder = entry.path();
        if pid_of(&folder).is_none() {
            continue;
        }
        // Fails for processes of other users: their files are not for us.
        let Ok(namespace) = std::fs::read_link(folder.join("ns/mnt")) else { continue };
        if !known.contains(&namespace) {
            known.push(namespace);
            roots.push(folder.join("root"));
        }
        if roots.len() == MOST_NAMESPACES {
            break;
        }
    }
    roots
}

/// The root of process `pid`, and the number it has for itself, if it lives in another mount
/// namespace than ours.
pub(crate) fn of_process(pid: i32) -> Option<(PathBuf, i32)> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let own = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    let other = std::fs::read_link(folder.join("ns/mnt")).ok()?;
    if own == other {
        return None;
    }
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some((folder.join("root"), inner.split_whitespace().last()?.parse().ok()?))
}

fn pid_of(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_namespace_is_not_another() {
        assert_eq!(of_process(std::process::id() as i32), None);
        let own = std::fs::read_link("/proc/self/ns/mnt").unwrap();
        for root in other_roots() {
            let namespace = std::fs::read_link(root.with_file_name("ns/mnt"));
            assert!(namespace.map_or(true, |namespace| namespace != own), "{root:?}");
        }
    }
}
