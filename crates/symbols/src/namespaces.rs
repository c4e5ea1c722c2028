//! Other views of the file system: containers have their own.

use std::path::{Path, PathBuf};

use crate::image::Home;
use crate::locate::below;

/// More processes are not looked at.
const MOST_PROCESSES: usize = 1 << 16;
/// More mount namespaces are not searched.
const MOST_NAMESPACES: usize = 256;

/// The root of a process.
///
/// ```text
/// process in a container            its files in /proc/PID/maps     where we can open them
/// root is a file system             /usr/bin/x                      /proc/PID/root/usr/bin/x
/// root is a folder of one (chroot)  /srv/root/usr/bin/x             /proc/PID/root/usr/bin/x
/// ```
///
/// The second is what the kernel shows of a file that our own root does not lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRoot {
    root: PathBuf,
    /// Where the root is, as far as we can tell.
    shown: Option<PathBuf>,
}

impl ProcessRoot {
    /// The root of a process that runs on this machine.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self::new(PathBuf::from(format!("/proc/{pid}/root")))
    }

    fn new(root: PathBuf) -> Self {
        let shown = std::fs::read_link(&root).ok().filter(|shown| shown != Path::new("/"));
        Self { root, shown }
    }

    /// Where a file may be opened that `/proc/PID/maps` or a recording shows as `path`.
    pub fn candidates(&self, path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        self.places(path).map(|home| below(&home.root, &home.path))
    }

    /// The place that the process itself has for a file shown as `path`.
    pub(crate) fn inside(&self, path: &Path) -> Home {
        let inside = self.shown.as_ref().and_then(|shown| path.strip_prefix(shown).ok());
        let path = inside.map_or_else(|| path.to_owned(), |path| Path::new("/").join(path));
        Home { root: self.root.clone(), path }
    }

    /// The same, as paths below the root.
    pub(crate) fn places(&self, path: &Path) -> impl Iterator<Item = Home> + use<> {
        let inside = self.shown.as_ref().and_then(|shown| path.strip_prefix(shown).ok());
        let root = self.root.clone();
        let paths = [Some(path.to_owned()), inside.map(Path::to_owned)];
        paths.into_iter().flatten().map(move |path| Home { root: root.clone(), path })
    }
}

/// Roots of all mount namespaces but ours that a living process shows.
///
/// A recording does not say in which one a file was mapped; whoever opens a file below one of them
/// has to check its build id.
pub(crate) fn other_roots() -> Vec<ProcessRoot> {
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
            roots.push(ProcessRoot::new(folder.join("root")));
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
    fn the_drawing_is_right() {
        let root = |shown: Option<&str>| ProcessRoot {
            root: PathBuf::from("/proc/7/root"),
            shown: shown.map(PathBuf::from),
        };
        let of = |root: ProcessRoot, path: &str| -> Vec<PathBuf> {
            root.candidates(Path::new(path)).collect()
        };
        let file = PathBuf::from("/proc/7/root/usr/bin/x");
        assert_eq!(of(root(None), "/usr/bin/x"), std::slice::from_ref(&file));
        assert!(of(root(Some("/srv/root")), "/srv/root/usr/bin/x").contains(&file));
        // Our own root leads to it, but not to the same file.
        assert!(of(root(Some("/srv/root")), "/usr/bin/x").contains(&file));
    }

    #[test]
    fn our_own_namespace_is_not_another() {
        assert_eq!(of_process(std::process::id() as i32), None);
        let own = std::fs::read_link("/proc/self/ns/mnt").unwrap();
        for root in other_roots() {
            let namespace = std::fs::read_link(root.root.with_file_name("ns/mnt"));
            assert!(namespace.map_or(true, |namespace| namespace != own), "{root:?}");
        }
    }
}
