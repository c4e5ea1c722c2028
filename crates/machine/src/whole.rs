//! Files that appear whole or not at all: written beside their place, under a name that was not there
//! before, and renamed when they are done.
//!
//! A folder may be others' too. Nothing that somebody else has put there is followed or written to: the file
//! beside is made by `O_EXCL`, which takes no link for a new file (open(2)), and the rename replaces a link
//! and leaves alone what it leads to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Names that are tried; more are not there by chance.
const NAMES: u32 = 100;

/// A file that is not there yet. What is written goes beside its place until [`WholeFile::finish`]; without
/// that it is removed, and what was under the name stays.
///
/// A device, a pipe or a terminal is written to as it is: it cannot be replaced.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    file: File,
    /// Where it is written; `None` if straight to its place, or done.
    beside: Option<PathBuf>,
}

impl WholeFile {
    /// Begins a file that is to be at `path`, with `mode` less the umask.
    ///
    /// # Errors
    /// If the folder is not there or cannot be written to.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        if is_stream(path) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Self { path: path.to_owned(), file, beside: None });
        }
        if path.file_name().is_none() || path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for number in 0..NAMES {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}-{number}.part", std::process::id()));
            let beside = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside) {
                Ok(file) => return Ok(Self { path: path.to_owned(), file, beside: Some(beside) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// What is written to, for what needs a file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// If it cannot be renamed; then it is removed.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(beside) = &self.beside else { return Ok(()) };
        std::fs::rename(beside, &self.path)?;
        self.beside = None;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // What was written so far is of no use; if it cannot be removed, nothing is lost.
            let _ = std::fs::remove_file(beside);
        }
    }
}

/// Whether it is there and is no file. A link to such a thing (`/dev/stdout`) counts only if it is root's or
/// the user's own.
fn is_stream(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_own = std::fs::symlink_metadata(path)
        .is_ok_and(|found| !found.file_type().is_symlink() || [0, user].contains(&found.uid()));
    is_own
        && std::fs::metadata(path).is_ok_and(|found| {
            let kind = found.file_type();
            kind.is_char_device() || kind.is_fifo() || kind.is_socket()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// Names in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }

    fn put(path: &Path, text: &str) -> io::Result<()> {
        let mut file = WholeFile::create(path, 0o600)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    }

    #[test]
    fn a_file_is_there_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        fs::write(&path, "before").unwrap();
        let mut file = WholeFile::create(&path, 0o600).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        drop(file);
        assert_eq!(
            (names(folder.path()), &*fs::read(&path).unwrap()),
            (vec!["a.html".into()], &b"before"[..])
        );
        put(&path, "after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(names(folder.path()), ["a.html"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn links_that_somebody_else_has_put_there_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("a.html"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        for number in 0..3 {
            let name = format!("a.html.{}-{number}.part", std::process::id());
            symlink(&victim, folder.path().join(name)).unwrap();
        }
        put(&path, "page").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "page");
        // All names taken: an error, and nothing is touched.
        for number in 3..NAMES {
            let name = format!("a.html.{}-{number}.part", std::process::id());
            symlink(&victim, folder.path().join(name)).unwrap();
        }
        assert_eq!(put(&path, "other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "page");
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        let reader = path.clone();
        let read = std::thread::spawn(move || fs::read_to_string(reader).unwrap());
        put(&link, "page").unwrap();
        assert_eq!(read.join().unwrap(), "page");
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(names(folder.path()), ["link", "pipe"]);
    }

    #[test]
    fn no_file_is_no_place_for_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(put(folder.path(), "x").is_err());
        assert!(put(&folder.path().join("none/a"), "x").is_err());
        assert!(names(folder.path()).is_empty());
    }
}
