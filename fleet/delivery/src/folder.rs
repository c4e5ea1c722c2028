//! A folder, local or shared, that files are delivered to.
//!
//! ```text
//!  spool/…/NAME.parquet ─ copy ─► sink/…/.NAME.part ─ fsync ─► link to NAME.parquet ─► remove .NAME.part
//! ```
//! A link is made only if the name is free, also on a file system that many hosts share: what is delivered for a second
//! time finds its name taken, and is there once.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::SinkError;

/// A folder that files are delivered to.
#[derive(Debug, Clone)]
pub struct FolderSink {
    root: PathBuf,
}

impl FolderSink {
    /// Delivers to this folder, which is made if it is not there.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Delivers `source` as `path` below the folder; does nothing if it was delivered before.
    ///
    /// # Errors
    /// [`SinkError`]; there is no file of that name then, or another one.
    pub fn deliver(&self, source: &Path, path: &Path) -> Result<(), SinkError> {
        let target = self.root.join(path);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SinkError::Io { path, source }
        };
        let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(failed(&target)(io::ErrorKind::InvalidInput.into()));
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let part = folder.join(format!(".{}.part", name.to_string_lossy()));
        let copied = copy(source, &part).map_err(failed(&part));
        let linked = copied.and_then(|()| link(&part, &target));
        // What is left of it has a name that no reader takes.
        let _ = fs::remove_file(&part);
        linked?;
        // The name itself is on disk only with its folder.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed(folder))
    }
}

fn copy(source: &Path, part: &Path) -> io::Result<()> {
    // Of an agent that was killed: it may be linked to its final name already, and must not be written to.
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (mut from, mut to) = (File::open(source)?, File::create_new(part)?);
    io::copy(&mut from, &mut to)?;
    to.sync_all()
}

/// Gives a finished file its name, unless the same is there.
fn link(part: &Path, target: &Path) -> Result<(), SinkError> {
    match fs::hard_link(part, target) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_same = same_contents(part, target)
                .map_err(|source| SinkError::Io { path: target.to_owned(), source })?;
            if is_same { Ok(()) } else { Err(SinkError::Taken(target.display().to_string())) }
        }
        Err(source) => Err(SinkError::Io { path: target.to_owned(), source }),
    }
}

fn same_contents(one: &Path, other: &Path) -> io::Result<bool> {
    let hash = |path: &Path| -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        let (mut file, mut buffer) = (File::open(path)?, vec![0; 1 << 16]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.finalize()),
                length => _ = hasher.update(&buffer[..length]),
            }
        }
    };
    Ok(fs::metadata(one)?.len() == fs::metadata(other)?.len() && hash(one)? == hash(other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_delivered_twice_is_there_once_and_another_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::write(&source, "rows").unwrap();
        let sink = FolderSink::new(&folder.path().join("sink"));
        let path = Path::new("v1/samples/date=2026-11-26/web-1.parquet");
        for _ in 0..2 {
            sink.deliver(&source, path).unwrap();
        }
        let target = folder.path().join("sink").join(path);
        assert_eq!(fs::read(&target).unwrap(), b"rows");
        fs::write(&source, "others").unwrap();
        let error = sink.deliver(&source, path).unwrap_err().to_string();
        assert!(error.contains("another agent has this host name"), "{error}");
        assert_eq!(fs::read(&target).unwrap(), b"rows");
        let names = fs::read_dir(target.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "a part is left");
    }

    /// Killed after the link, before what it was linked from was removed.
    #[test]
    fn what_was_delivered_is_never_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("x.parquet"));
        fs::write(&source, "others").unwrap();
        fs::write(&target, "rows").unwrap();
        fs::hard_link(&target, folder.path().join(".x.parquet.part")).unwrap();
        let error = FolderSink::new(folder.path()).deliver(&source, Path::new("x.parquet"));
        assert!(matches!(error, Err(SinkError::Taken(_))), "{error:?}");
        assert_eq!(fs::read(&target).unwrap(), b"rows");
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        fs::write(&file, "").unwrap();
        let error = FolderSink::new(&file).deliver(&file, Path::new("v1/x.parquet")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
    }
}
