//! A setting of the machine that is changed for a moment.

use std::io;
use std::path::{Path, PathBuf};

/// A setting that was changed. It is put right when this goes, whatever ends us but SIGKILL.
#[derive(Debug)]
pub(crate) struct Changed {
    path: PathBuf,
    /// What it was before; `None` once it was put right.
    before: Option<String>,
}

/// A setting that could not be put right: the machine is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its file.
    pub path: PathBuf,
    /// What it was before.
    pub before: String,
    /// Why it cannot be put right.
    pub why: String,
}

impl Changed {
    /// Changes the setting in the file at `path`.
    pub(crate) fn to(path: &Path, value: &str) -> io::Result<Self> {
        let before = std::fs::read_to_string(path)?.trim().to_owned();
        // Also where writing fails it is put right: the file tells nothing of what became of it.
        let changed = Self { path: path.to_owned(), before: Some(before) };
        std::fs::write(path, value)?;
        Ok(changed)
    }

    /// Puts it right and tells where that fails.
    pub(crate) fn put_right(mut self) -> Result<(), Left> {
        let Some(before) = self.before.take() else { return Ok(()) };
        std::fs::write(&self.path, &before).map_err(|error| {
            let (path, why) = (self.path.clone(), error.to_string());
            Left { path, before, why }
        })
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Nobody is left who could be told.
            let _ = std::fs::write(&self.path, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("setting");
        std::fs::write(&path, "100000\n").unwrap();
        path
    }

    #[test]
    fn a_setting_is_put_right_also_by_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = setting(&folder);
        let read = || std::fs::read_to_string(&path).unwrap();
        let changed = Changed::to(&path, "100").unwrap();
        assert_eq!(read(), "100");
        changed.put_right().unwrap();
        assert_eq!(read(), "100000");
        let panics = || {
            let _changed = Changed::to(&path, "100").unwrap();
            panic!("in between");
        };
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(read(), "100000");
    }

    #[test]
    fn one_that_cannot_be_put_right_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = setting(&folder);
        let changed = Changed::to(&path, "100").unwrap();
        std::fs::remove_dir_all(folder.path()).unwrap();
        let left = changed.put_right().unwrap_err();
        assert_eq!((left.path, &*left.before), (path, "100000"));
        assert!(left.why.contains("No such file"), "{}", left.why);
    }
}
