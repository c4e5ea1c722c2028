//! Text of the source files named by debug information.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

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
}

/// The lines of the source file at `path`, below `root` if that is given and it is there. Foreign text;
/// bytes that are no UTF-8 are replaced.
///
/// # Errors
/// If it cannot be read, or is no text file.
pub(crate) fn read(root: Option<&Path>, path: &Path) -> Result<Vec<String>, SourceError> {
    let below = root.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
    let path = below.as_deref().filter(|below| below.exists()).unwrap_or(path);
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(SourceError::NotRegular);
    }
    if metadata.len() > LARGEST {
        return Err(SourceError::TooLarge);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
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
}
