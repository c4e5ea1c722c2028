//! Build IDs, which distinguish two builds of the same file name.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, FileKind, elf};

use crate::Error;

/// Headers and notes of real programs are some kilobytes, bytes.
const MOST_READ: usize = 16 << 20;

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

    /// The bytes without the zeros that perf's older records pad an id with.
    #[must_use]
    pub(crate) fn significant(&self) -> &[u8] {
        significant(&self.0)
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
    let failed = |reason: String| Error::Elf { path: path.to_path_buf(), reason };
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    // Read, not mapped: this is called for files that may be written to at this very moment.
    let cache = ReadCache::new(ReadBudget { file, left: MOST_READ });
    note(&cache).map_err(|error| failed(error.to_string()))
}

fn note<'a>(data: impl ReadRef<'a>) -> object::Result<Option<BuildId>> {
    match FileKind::parse(data)? {
        FileKind::Elf64 => note_of::<elf::FileHeader64<Endianness>>(data),
        FileKind::Elf32 => note_of::<elf::FileHeader32<Endianness>>(data),
        _ => Ok(None),
    }
}

/// Segments have it in what runs, sections in what was stripped to debug information.
fn note_of<'a, Elf: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'a>,
) -> object::Result<Option<BuildId>> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, data)? {
        if let Some(mut notes) = segment.notes(endian, data)? {
            while let Some(note) = notes.next()? {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                    return Ok(BuildId::new(note.desc()).ok());
                }
            }
        }
    }
    for section in header.section_headers(endian, data)? {
        if let Some(mut notes) = section.notes(endian, data)? {
            while let Some(note) = notes.next()? {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                    return Ok(BuildId::new(note.desc()).ok());
                }
            }
        }
    }
    Ok(None)
}

/// A file of which only so much is read: headers of a damaged one can point anywhere, any number of
/// times.
struct ReadBudget {
    file: File,
    left: usize,
}

impl Read for ReadBudget {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.left);
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::other(
                "its headers point to more data than a build ID can need",
            ));
        }
        let read = self.file.read(&mut buffer[..most])?;
        self.left -= read;
        Ok(read)
    }
}

impl Seek for ReadBudget {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
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
