//! A folder of our own for recordings, gone at the end however it ends.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::BenchError;

/// The folder; removed with all that is in it when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes it inside `parent`, for this user only.
    pub(crate) fn new(parent: &Path) -> Result<Self, BenchError> {
        let path = parent.join(format!("pmuscope-bench-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| BenchError::Scratch { path: parent.to_owned(), source })?;
        Ok(Self { path })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes everything in it: recordings of one run are not needed for the next.
    pub(crate) fn clear(&self) -> Result<(), BenchError> {
        self.remove_all().map_err(|source| BenchError::Scratch { path: self.path.clone(), source })
    }

    fn remove_all(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                std::fs::remove_dir_all(entry.path())?;
            } else {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody is left to tell; the name says whose it is.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        std::fs::write(scratch.path().join("a"), "x").unwrap();
        std::fs::create_dir(scratch.path().join("b")).unwrap();
        std::fs::write(scratch.path().join("b/c"), "x").unwrap();
        scratch.clear().unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        std::fs::write(scratch.path().join("a"), "x").unwrap();
        drop(scratch);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
