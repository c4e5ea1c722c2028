//! Archives in the form `newc`, which the kernel unpacks as its first root folder.
//!
//! Source: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Types of files in a mode (stat(2)).
const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTERS: u32 = 0o020_000;

/// The largest file that the form has room for.
const LARGEST: usize = u32::MAX as usize;

/// An archive in the making.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    known: BTreeSet<PathBuf>,
}

/// What an entry has beside its name and content.
struct NodeKind {
    mode: u32,
    device: (u32, u32),
}

impl Archive {
    /// Adds a folder and those above it, each once.
    pub(crate) fn folder(&mut self, path: &Path) {
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        for folder in above {
            if folder.parent().is_some() && self.known.insert(folder.to_owned()) {
                self.entry(folder, &NodeKind { mode: FOLDER | 0o755, device: (0, 0) }, &[]);
            }
        }
    }

    /// Adds a file with these permissions. Of two with one name the first stays. False if it is larger
    /// than the form allows (4 GiB).
    #[must_use]
    pub(crate) fn file(&mut self, path: &Path, permissions: u32, content: &[u8]) -> bool {
        if content.len() > LARGEST {
            return false;
        }
        self.leaf(
            path,
            &NodeKind { mode: REGULAR | (permissions & 0o7777), device: (0, 0) },
            content,
        );
        true
    }

    /// Whether there is something of this name.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.known.contains(path)
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &Path, target: &Path) {
        let target = target.as_os_str().as_encoded_bytes();
        self.leaf(path, &NodeKind { mode: LINK | 0o777, device: (0, 0) }, target);
    }

    /// Adds a character device.
    pub(crate) fn characters(&mut self, path: &Path, device: (u32, u32)) {
        self.leaf(path, &NodeKind { mode: CHARACTERS | 0o600, device }, &[]);
    }

    /// The archive, with its last entry.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), &NodeKind { mode: 0, device: (0, 0) }, &[]);
        self.bytes
    }

    fn leaf(&mut self, path: &Path, kind: &NodeKind, content: &[u8]) {
        if let Some(parent) = path.parent() {
            self.folder(parent);
        }
        if self.known.insert(path.to_owned()) {
            self.entry(path, kind, content);
        }
    }

    fn entry(&mut self, path: &Path, kind: &NodeKind, content: &[u8]) {
        let path = path.strip_prefix("/").unwrap_or(path).as_os_str().as_encoded_bytes();
        self.entries += 1;
        let links = if kind.mode & FOLDER == FOLDER { 2 } else { 1 };
        let fields = [
            self.entries, // inode: no two alike, or they would be hard links
            kind.mode,
            0, // user
            0, // group
            links,
            0, // time of modification
            content.len() as u32,
            0, // device the file is on
            0,
            kind.device.0,
            kind.device.1,
            path.len() as u32 + 1,
            0, // no checksum in this form
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut archive = Archive::default();
        assert!(archive.file(Path::new("/usr/bin/a b"), 0o755, b"hello"));
        assert!(archive.file(Path::new("/usr/bin/a b"), 0o600, b"not this one"));
        archive.link(Path::new("/init"), Path::new("/usr/bin/a b"));
        archive.characters(Path::new("/dev/console"), (5, 1));
        archive.finish()
    }

    #[test]
    fn entries_are_aligned_and_folders_come_first() {
        let bytes = sample();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(at("usr\0") < at("usr/bin\0") && at("usr/bin\0") < at("usr/bin/a b\0"));
        assert_eq!(text.matches("usr/bin/a b\0").count(), 1);
        assert!(!text.contains("not this one"));
        for (start, _) in text.match_indices("070701") {
            assert_eq!(start % 4, 0);
        }
    }

    #[test]
    fn cpio_reads_it() {
        let program = Command::new("cpio")
            .args(["-itv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = program else {
            eprintln!("skipped: cpio is not installed");
            return;
        };
        child.stdin.take().unwrap().write_all(&sample()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        for part in ["-rwxr-xr-x", "   5 ", "init -> /usr/bin/a b", "crw-------", "dev/console"] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }
}
