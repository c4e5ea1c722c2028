//! The recording that has the name already.

use std::fs;
use std::path::{Path, PathBuf};

use pmuscope_machine::Replace;

use super::output_error;
use crate::error::RecorderError;

/// Whether a recording may be put at `path`: what is there, and the one before it, are to be recordings too.
///
/// # Errors
/// If another file is there.
pub(super) fn check(path: &Path, replace: Replace) -> Result<(), RecorderError> {
    replace.check(path).map_err(output_error("write", path))?;
    // A first recording moves nothing to it.
    if !path.is_file() {
        return Ok(());
    }
    let old = with_ending(path, ".old");
    replace.check(&old).map_err(output_error("write", &old))
}

/// The previous recording, out of the way as `.old` until it is certain that a new one begins. What was
/// `.old` before then goes, not earlier.
///
/// ```text
///             keep            begun                  failed before
///   x         ──► x.old       (the new one)          x.old ──► x
///   x.old     ──► x.older     x.older is removed     x.older ──► x.old
/// ```
#[derive(Debug)]
pub(super) struct Previous {
    path: PathBuf,
    /// Something that is no file stands there (/dev/null, a pipe, a link to one): it is written to, never
    /// moved or removed.
    foreign: bool,
    begun: bool,
    old: Option<PathBuf>,
    older: Option<PathBuf>,
}

impl Previous {
    /// Makes room at `path`.
    ///
    /// # Errors
    /// Those of renaming, and where a file is there that `replace` does not allow to replace.
    pub(super) fn keep(path: &Path, replace: Replace) -> Result<Self, RecorderError> {
        let found = fs::symlink_metadata(path).ok();
        let is_file = found.as_ref().is_some_and(fs::Metadata::is_file);
        // Whoever made the link would choose which file is overwritten, and under sudo given away.
        if found.as_ref().is_some_and(fs::Metadata::is_symlink)
            && fs::metadata(path).map_or(true, |there| there.is_file())
        {
            return Err(RecorderError::Link { path: path.to_owned() });
        }
        check(path, replace)?;
        let mut previous = Self {
            path: path.to_owned(),
            foreign: found.is_some() && !is_file,
            begun: false,
            old: None,
            older: None,
        };
        if is_file {
            let (old, older) = (with_ending(path, ".old"), with_ending(path, ".older"));
            if fs::rename(&old, &older).is_ok() {
                previous.older = Some(older);
            }
            fs::rename(path, &old).map_err(output_error("rename", path))?;
            previous.old = Some(old);
        }
        Ok(previous)
    }

    /// The new recording has begun: what is in it is kept, however it ends.
    pub(super) fn begun(&mut self) {
        self.begun = true;
        if let Some(older) = self.older.take() {
            // Left behind, it only takes space.
            let _ = fs::remove_file(older);
        }
    }

    /// An error ended the recording. Unless it had begun, all is as it was.
    pub(super) fn failed(self) {
        if self.begun {
            return;
        }
        // Failing here changes no data; the error that led here is what the user has to see.
        match &self.old {
            Some(old) => drop(fs::rename(old, &self.path)),
            None if !self.foreign => drop(fs::remove_file(&self.path)),
            None => {}
        }
        if let (Some(older), Some(old)) = (self.older, self.old) {
            drop(fs::rename(older, old));
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with x, x.old and what else there is, as "name=content".
    fn listing(dir: &Path) -> Vec<String> {
        let mut list: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                format!("{name}={}", fs::read_to_string(path).unwrap())
            })
            .collect();
        list.sort();
        list
    }

    #[test]
    fn two_generations_come_back_if_nothing_was_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "2").unwrap();
        fs::write(with_ending(&path, ".old"), "1").unwrap();
        let previous = Previous::keep(&path, Replace::Anything).unwrap();
        fs::write(&path, "3").unwrap();
        assert_eq!(listing(dir.path()), ["x.old=2", "x.older=1", "x=3"]);
        previous.failed();
        assert_eq!(listing(dir.path()), ["x.old=1", "x=2"]);
    }

    #[test]
    fn one_generation_stays_once_recording_has_begun() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for content in ["1", "2", "3"] {
            Previous::keep(&path, Replace::Anything).unwrap().begun();
            fs::write(&path, content).unwrap();
        }
        assert_eq!(listing(dir.path()), ["x.old=2", "x=3"]);
    }

    #[test]
    fn a_first_recording_that_never_began_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let previous = Previous::keep(&path, Replace::Anything).unwrap();
        fs::write(&path, "1").unwrap();
        previous.failed();
        assert_eq!(listing(dir.path()), [""; 0]);
    }

    /// Whoever made it would choose what is overwritten.
    #[test]
    fn a_link_to_a_file_is_refused_and_so_is_one_to_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(dir.path().join("theirs"), "1").unwrap();
        for to in ["theirs", "nothing"] {
            std::os::unix::fs::symlink(to, &path).unwrap();
            let refused = Previous::keep(&path, Replace::Anything).unwrap_err().to_string();
            assert!(refused.contains("x: it is a symbolic link"), "{refused}");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(listing(dir.path()), ["theirs=1"]);
    }

    #[test]
    fn a_file_that_is_no_recording_is_neither_moved_nor_removed() {
        use pmuscope_machine::FileKind;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let keep = || Previous::keep(&path, Replace::Own(FileKind::Recording));
        fs::write(&path, "#!/bin/sh").unwrap();
        let refused = keep().unwrap_err().to_string();
        assert!(refused.contains("x: the file exists and is not a recording"), "{refused}");
        fs::write(&path, "PERFILE2").unwrap();
        fs::write(with_ending(&path, ".old"), "notes").unwrap();
        let refused = keep().unwrap_err().to_string();
        assert!(refused.contains("x.old: the file exists and is not a recording"), "{refused}");
        assert_eq!(listing(dir.path()), ["x.old=notes", "x=PERFILE2"]);
        fs::write(with_ending(&path, ".old"), "PERFILE2").unwrap();
        keep().unwrap().failed();
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        Previous::keep(&path, Replace::Anything).unwrap().failed();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    }
}
