//! A folder for the files of one guest, in memory where possible, gone at the end.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "pmuscope-lab-";

/// The folder; removed with all that is in it when dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, for this user only, and removes those of programs that were killed.
    pub(crate) fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let make = |parent: &Path| {
            remove_orphans(parent);
            let path = parent.join(&name);
            std::fs::DirBuilder::new().mode(0o700).create(&path).map(|()| Self(path))
        };
        make(Path::new(MEMORY)).or_else(|_| make(&std::env::temp_dir()))
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody is left to tell; the next guest tries again.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Results may be hundreds of MiB of memory, so those of a killed program cannot stay.
fn remove_orphans(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let Some(pid) = rest.split('-').next().filter(|pid| pid.parse::<u32>().is_ok()) else {
            continue;
        };
        // A process id that is used again keeps a folder until that process has ended.
        if !Path::new("/proc").join(pid).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path("file");
        std::fs::write(&path, "x").unwrap();
        let folder = path.parent().unwrap().to_owned();
        // No process has a number this large (PID_MAX_LIMIT is 2^22).
        let orphan = folder.with_file_name(format!("{PREFIX}4294967295-0"));
        std::fs::create_dir(&orphan).unwrap();
        let other = Scratch::new().unwrap();
        assert!(!orphan.exists() && folder.exists());
        drop((scratch, other));
        assert!(!folder.exists());
    }
}
