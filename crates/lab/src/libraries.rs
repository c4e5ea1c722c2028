//! The libraries that a program needs, as its own loader finds them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Paths of all libraries that `loader` would load for `program`.
///
/// # Errors
/// A sentence: which library is missing.
pub(crate) fn needed(loader: &str, program: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new(loader)
        .arg("--list")
        .arg(program)
        .output()
        .map_err(|error| format!("its loader {loader} does not run here: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("its loader cannot list its libraries: {}", said.trim()));
    }
    parse(&text)
}

/// Lines are `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld.so (0x…)`, for what the kernel itself
/// provides `linux-vdso.so.1 (0x…)`.
fn parse(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let named = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = named.rsplit_once(" (").map_or(named, |(path, _)| path);
        if path == "not found" {
            let name = line.split(' ').next().unwrap_or_default();
            return Err(format!("its library {name} is not installed"));
        }
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_from_the_loaders_list() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 \
                    (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(parse(text).unwrap(), expected.map(PathBuf::from));
        assert!(parse("\tlibx.so.1 => not found\n").unwrap_err().contains("libx.so.1"));
    }
}
