//! The build id: what tells two builds of one file name apart.

use std::fmt;
use std::path::Path;

use crate::Error;

/// A GNU build id, 1 to 20 bytes (ELF note `NT_GNU_BUILD_ID`; the kernel's records hold at most 20).
///
/// ```
/// let id = pmuscope_symbols::BuildId::new(&[0xab, 0x01]).expect("two bytes");
/// assert_eq!(id.to_string(), "ab01");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// Longest id that a `perf.data` record can hold, bytes.
    pub const MAX: usize = 20;

    /// Takes `bytes` as an id.
    ///
    /// # Errors
    /// If there are none, or more than [`BuildId::MAX`].
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() || bytes.len() > Self::MAX {
            return Err(Error::BuildIdLength { length: bytes.len() });
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether both name the same build. perf's older records always hold 20 bytes, a shorter id
    /// padded with zeros: trailing zeros therefore do not count.
    #[must_use]
    pub fn same_build(&self, other: &Self) -> bool {
        significant(&self.0) == significant(&other.0)
    }
}

fn significant(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// The build id of the ELF file at `path`; `None` if the file has no such note, or one that no
/// record could hold (longer than [`BuildId::MAX`]).
///
/// # Errors
/// If the file cannot be opened or is no ELF file.
pub fn read_build_id(path: &Path) -> Result<Option<BuildId>, Error> {
    let found = blazesym::helper::read_elf_build_id(path)
        .map_err(|source| Error::Elf { path: path.to_path_buf(), source })?;
    Ok(found.and_then(|bytes| BuildId::new(&bytes).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_elf_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plain.txt");
        std::fs::write(&path, "no ELF here, but longer than any ELF header would need to be....")
            .unwrap();
        let error = read_build_id(&path).unwrap_err().to_string();
        assert!(error.contains("plain.txt"), "{error}");
        assert!(read_build_id(&dir.path().join("none")).is_err());
    }

    #[test]
    fn our_own_file_is_readable() {
        // Whether it has an id depends on the linker; that it can be asked does not.
        read_build_id(Path::new("/proc/self/exe")).unwrap();
    }

    #[test]
    fn lengths_are_checked_and_padding_is_no_difference() {
        assert!(BuildId::new(&[]).is_err());
        assert!(BuildId::new(&[1; 21]).is_err());
        let short = BuildId::new(&[1, 2, 3]).unwrap();
        let mut padded = [0_u8; 20];
        padded[..3].copy_from_slice(&[1, 2, 3]);
        assert!(short.same_build(&BuildId::new(&padded).unwrap()));
        assert!(!short.same_build(&BuildId::new(&[1, 2, 4]).unwrap()));
    }
}
