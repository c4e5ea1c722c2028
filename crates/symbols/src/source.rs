//! Text of the source files named by debug information.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// No source file that people read is larger, bytes.
const LARGEST: u64 = 16 << 20;

/// Why a source file cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A pipe or a device, which a recording can name too.
    #[error("it is not a regular file")]
    NotRegular,
    /// Larger than source is.
    #[error("it is larger than {} MiB", LARGEST >> 20)]
    TooLarge,
    /// Its path leads to another place than it names.
    #[error("it is outside of the folder that its path names")]
    Elsewhere,
}

/// The lines of the source file at `path`, below `root` if that is given and it is there. Foreign text;
/// bytes that are no UTF-8 are replaced.
///
/// # Errors
/// If it cannot be read, or is no text file.
pub(crate) fn read(root: Option<&Path>, path: &Path) -> Result<Vec<String>, SourceError> {
    let text = text(&open(root, path)?.0)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The text of the source file at `path`, of which debug information is the only proof that it is one. It must be where
/// its path says: below `root` if it was found there, else in the folder that the path names or below that. A link that
/// leads elsewhere is refused, as is a path that depends on where this program runs.
///
/// # Errors
/// If it is elsewhere, cannot be read, or is no text file.
pub(crate) fn read_in_place(root: Option<&Path>, path: &Path) -> Result<String, SourceError> {
    let (file, found, is_below_root) = open(root, path)?;
    if !found.is_absolute() {
        return Err(SourceError::Elsewhere);
    }
    let place = match root.filter(|_| is_below_root) {
        Some(root) => root.canonicalize()?,
        None => found.parent().ok_or(SourceError::Elsewhere)?.canonicalize()?,
    };
    // The name of what was opened, whatever happens to the path meanwhile.
    let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if !opened.starts_with(&place) {
        return Err(SourceError::Elsewhere);
    }
    text(&file)
}

/// Opens the file at `path`, and the path that was opened; whether it was below `root`.
fn open(root: Option<&Path>, path: &Path) -> io::Result<(File, PathBuf, bool)> {
    let below = root.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
    let below = below.filter(|below| below.exists());
    let is_below = below.is_some();
    let found = below.unwrap_or_else(|| path.to_path_buf());
    // A pipe that nobody writes to would not be opened otherwise.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(&found)?;
    Ok((file, found, is_below))
}

fn text(file: &File) -> Result<String, SourceError> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(SourceError::NotRegular);
    }
    if metadata.len() > LARGEST {
        return Err(SourceError::TooLarge);
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_from_below_the_root_first() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.c");
        std::fs::write(&path, b"one\ntwo \xff\n").unwrap();
        assert_eq!(read(None, &path).unwrap().len(), 2);
        let named = Path::new("/a.c");
        assert_eq!(read(Some(root.path()), named).unwrap()[0], "one");
        assert!(matches!(read(None, named), Err(SourceError::Io(_))));
        assert!(matches!(read(None, root.path()), Err(SourceError::NotRegular)));
        let large = root.path().join("large.c");
        File::create(&large).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(matches!(read(None, &large), Err(SourceError::TooLarge)));
    }
    #[test]
    fn what_is_read_in_place_is_where_its_path_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("root/src")).unwrap();
        std::fs::create_dir(path("linked")).unwrap();
        std::fs::write(path("root/src/a.c"), "one\n").unwrap();
        std::fs::write(path("secret"), "key\n").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, path(name)).unwrap();
        link("a.c", "root/src/same.c");
        link("../../secret", "root/src/out.c");
        link("root/src", "folder");
        let elsewhere = |root: Option<&Path>, path: &Path| {
            matches!(read_in_place(root, path), Err(SourceError::Elsewhere))
        };
        for name in ["root/src/a.c", "root/src/../src/a.c", "root/src/same.c", "folder/a.c"] {
            assert_eq!(read_in_place(None, &path(name)).unwrap(), "one\n", "{name}");
        }
        assert!(elsewhere(None, &path("root/src/out.c")));
        assert!(elsewhere(None, Path::new("src/lib.rs")), "it depends on the working directory");
        let root = path("root");
        let below = |name: &str| read_in_place(Some(&root), Path::new(name));
        assert_eq!(below("/src/a.c").unwrap(), "one\n");
        assert_eq!(below("src/a.c").unwrap(), "one\n");
        for name in ["/src/out.c", "/../secret", "../secret", "/src/../../secret"] {
            assert!(elsewhere(Some(&root), Path::new(name)), "{name}");
        }
        assert!(matches!(
            read_in_place(None, &path("linked")),
            Err(SourceError::NotRegular | SourceError::Io(_))
        ));
        let pipe = path("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert!(matches!(read_in_place(None, &pipe), Err(SourceError::NotRegular)));
    }
}
