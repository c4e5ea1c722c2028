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

use crate::file_kind::Replace;

/// Names that are tried; more are not there by chance.
const NAMES: u32 = 100;

/// A file that is not there yet. What is written goes beside its place until [`AtomicFile::finish`]; without
/// that it is removed, and what was under the name stays.
///
/// A device, a pipe or a terminal is written to as it is: it cannot be replaced. So is what a path names by an
/// open descriptor (`/dev/stdout`), file or not.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: File,
    replace: Replace,
    /// Where it is written; `None` if straight to its place, or done.
    beside: Option<PathBuf>,
}

impl AtomicFile {
    /// Begins a file that is to be at `path`, with `mode` less the umask, where `replace` allows what is there.
    ///
    /// # Errors
    /// If the folder is not there or cannot be written to, or a file is there that must stay.
    pub fn create(path: &Path, mode: u32, replace: Replace) -> io::Result<Self> {
        if is_stream(path) {
            // To its end: what others wrote to it before stays.
            let file = OpenOptions::new().append(true).open(path)?;
            return Ok(Self { path: path.to_owned(), file, replace, beside: None });
        }
        replace.check(path)?;
        if path.file_name().is_none() || path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for number in 0..NAMES {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}-{number}.part", std::process::id()));
            let beside = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside) {
                Ok(file) => {
                    return Ok(Self { path: path.to_owned(), file, replace, beside: Some(beside) });
                }
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
    /// If it cannot be renamed, or a file is there that must stay; then it is removed.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(beside) = &self.beside else { return Ok(()) };
        if let Replace::Own(kind) = self.replace {
            kind.check_against(&self.path, beside)?;
        }
        std::fs::rename(beside, &self.path)?;
        self.beside = None;
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // What was written so far is of no use; if it cannot be removed, nothing is lost.
            let _ = std::fs::remove_file(beside);
        }
    }
}

/// Whether it is there and is no file, or names an open descriptor. A link to such a thing (`/dev/stdout`) counts
/// only if it is root's or the user's own.
pub(crate) fn is_stream(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_own = std::fs::symlink_metadata(path)
        .is_ok_and(|found| !found.file_type().is_symlink() || [0, user].contains(&found.uid()));
    is_own
        && std::fs::metadata(path).is_ok_and(|found| {
            let kind = found.file_type();
            kind.is_char_device() || kind.is_fifo() || kind.is_socket() || is_descriptor(path)
        })
}

/// Whether it is a name of an open descriptor: `/proc/self/fd/1`, or a link to that.
fn is_descriptor(path: &Path) -> bool {
    let is_below_proc = |path: &Path| {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        folder.is_some_and(|folder| folder.starts_with("/proc"))
    };
    let target = std::fs::read_link(path).ok();
    is_below_proc(path) || target.is_some_and(|target| is_below_proc(&target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_kind::FileKind;
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
        let mut file = AtomicFile::create(path, 0o600, Replace::Anything)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    }

    #[test]
    fn a_file_is_there_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        fs::write(&path, "before").unwrap();
        let mut file = AtomicFile::create(&path, 0o600, Replace::Anything).unwrap();
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
    fn a_file_of_another_kind_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrap.sh");
        let write = |text: &str, replace: Replace| {
            let mut file = AtomicFile::create(&path, 0o600, replace)?;
            file.write_all(text.as_bytes())?;
            file.finish()
        };
        fs::write(&path, "#!/bin/sh\n").unwrap();
        for kind in [FileKind::RunFile, FileKind::Page, FileKind::Table, FileKind::Text] {
            let refused = write("event,share\n", Replace::Own(kind)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{kind:?}");
            assert!(refused.to_string().contains("Try: another name, or --force"), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\n");
            assert_eq!(names(folder.path()), ["wrap.sh"]);
        }
        write("event,share\n1\n", Replace::Anything).unwrap();
        write("event,share\n2\n", Replace::Own(FileKind::Table)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "event,share\n2\n");
    }

    /// As `/dev/stdout` of a shell's `> FILE`: the name must go on to lead to the descriptor.
    #[test]
    fn a_name_of_a_descriptor_is_written_to_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "before\n").unwrap();
        let file = File::open(&path).unwrap();
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        symlink(&descriptor, &link).unwrap();
        for name in [link.clone(), descriptor.into()] {
            put(&name, "after\n").unwrap();
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\nafter\nafter\n");
        assert_eq!(names(folder.path()), ["file", "link"]);
    }

    #[test]
    fn no_file_is_no_place_for_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(put(folder.path(), "x").is_err());
        assert!(put(&folder.path().join("none/a"), "x").is_err());
        assert!(names(folder.path()).is_empty());
    }
}
