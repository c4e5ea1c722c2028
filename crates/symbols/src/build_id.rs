//! Build IDs, which distinguish two builds of the same file name.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use object::read::elf::{FileHeader, Note, ProgramHeader as _, SectionHeader as _};
use object::read::{Object as _, ReadCache, ReadRef};
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
    Ok(read_note(path, &BUILD_ID)?.and_then(|id| BuildId::new(&id).ok()))
}

/// The same of an open file; its position changes.
///
/// # Errors
/// If it is no ELF file, or cannot be read.
pub(crate) fn build_id_of(file: File) -> object::Result<Option<BuildId>> {
    let cache = ReadCache::new(ReadBudget { file, left: MOST_READ });
    Ok(note(&cache, &BUILD_ID)?.and_then(|id| BuildId::new(&id).ok()))
}

/// The name in `.gnu_debuglink` of an open file, whose position changes; `None` without one.
pub(crate) fn debug_link_of(file: File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(ReadBudget { file, left: MOST_READ });
    let elf = object::File::parse(&cache).ok()?;
    Some(elf.gnu_debuglink().ok()??.0.to_vec())
}

/// The note of a build ID.
const BUILD_ID: NoteKind = NoteKind { owner: elf::ELF_NOTE_GNU, kind: elf::NT_GNU_BUILD_ID };

/// What the ELF file at `path` says of the package that it is from: JSON with `name` and `version`, as distributions put it
/// into the note `FDO` of type `0xcafe1a7e` (systemd's "Package Metadata for Executable Files"). `None` without such a note.
///
/// # Errors
/// If the file cannot be opened or is no ELF file.
pub fn read_package_note(path: &Path) -> Result<Option<String>, Error> {
    let is_package = NoteKind { owner: b"FDO", kind: elf::NoteType(0xcafe_1a7e) };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
    Ok(read_note(path, &is_package)?.map(text))
}

/// Which note.
struct NoteKind {
    owner: &'static [u8],
    kind: elf::NoteType,
}

/// The first note of that kind.
fn read_note(path: &Path, wanted: &NoteKind) -> Result<Option<Vec<u8>>, Error> {
    let failed = |reason: String| Error::Elf { path: path.to_path_buf(), reason };
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    // Read, not mapped: this is called for files that may be written to at this very moment.
    let cache = ReadCache::new(ReadBudget { file, left: MOST_READ });
    note(&cache, wanted).map_err(|error| failed(error.to_string()))
}

fn note<'a>(data: impl ReadRef<'a>, wanted: &NoteKind) -> object::Result<Option<Vec<u8>>> {
    match FileKind::parse(data)? {
        FileKind::Elf64 => note_of::<elf::FileHeader64<Endianness>>(data, wanted),
        FileKind::Elf32 => note_of::<elf::FileHeader32<Endianness>>(data, wanted),
        _ => Ok(None),
    }
}

/// Segments have it in what runs, sections in what was stripped to debug information.
fn note_of<'a, Elf: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'a>,
    wanted: &NoteKind,
) -> object::Result<Option<Vec<u8>>> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let is_wanted =
        |note: &Note<'_, Elf>| note.name() == wanted.owner && note.n_type(endian) == wanted.kind;
    for segment in header.program_headers(endian, data)? {
        if let Some(mut notes) = segment.notes(endian, data)? {
            while let Some(note) = notes.next()? {
                if is_wanted(&note) {
                    return Ok(Some(note.desc().to_vec()));
                }
            }
        }
    }
    for section in header.section_headers(endian, data)? {
        if let Some(mut notes) = section.notes(endian, data)? {
            while let Some(note) = notes.next()? {
                if is_wanted(&note) {
                    return Ok(Some(note.desc().to_vec()));
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

    /// A little-endian ELF file of 64 bits with nothing but a segment of these notes: owner, type, contents.
    fn elf_of_notes(notes: &[(&[u8], u32, &[u8])]) -> Vec<u8> {
        let mut segment = Vec::new();
        let padded = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        for (owner, kind, contents) in notes {
            for number in [owner.len() as u32 + 1, contents.len() as u32, *kind] {
                segment.extend(number.to_le_bytes());
            }
            segment.extend(padded(&[owner, &b"\0"[..]].concat()));
            segment.extend(padded(contents));
        }
        let (header, program) = (64_u64, 56_u64);
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        // ET_EXEC, EM_X86_64, version; entry, program headers, section headers; flags and sizes.
        file.extend([2_u16, 62].map(u16::to_le_bytes).concat());
        file.extend(1_u32.to_le_bytes());
        file.extend([0_u64, header, 0].map(u64::to_le_bytes).concat());
        file.extend(0_u32.to_le_bytes());
        file.extend([64_u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
        // PT_NOTE, readable; offset, addresses, sizes, alignment.
        file.extend([4_u32, 4].map(u32::to_le_bytes).concat());
        let (at, size) = (header + program, segment.len() as u64);
        file.extend([at, at, at, size, size, 4].map(u64::to_le_bytes).concat());
        file.extend(segment);
        file
    }

    #[test]
    fn the_package_is_read_from_its_own_note_and_the_id_from_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("redis");
        let json = br#"{"type":"deb","name":"redis","version":"7.0.15-1"}"#;
        let id: (&[u8], u32, &[u8]) = (b"GNU", 3, &[7; 20]);
        std::fs::write(&path, elf_of_notes(&[(b"FDO", 1, b"x"), (b"FDO", 0xcafe_1a7e, json), id]))
            .unwrap();
        let text = read_package_note(&path).unwrap().unwrap();
        assert_eq!(text.as_bytes(), json, "without the zeros that fill it up");
        assert_eq!(read_build_id(&path).unwrap(), Some(BuildId::new(&[7; 20]).unwrap()));
        std::fs::write(&path, elf_of_notes(&[id])).unwrap();
        assert_eq!(read_package_note(&path).unwrap(), None);
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
