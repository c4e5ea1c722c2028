//! An ELF file (or one in memory), opened: sections, segments, build id.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use object::read::{CompressionFormat, Object as _, ObjectSection as _, ObjectSegment as _};

use crate::{BuildId, State, sectionless, sys};

/// No section is decompressed to more than this, bytes.
const LARGEST_SECTION: u64 = 1 << 30;
/// No `.gnu_debugdata` is: it holds nothing but a symbol table.
const LARGEST_DEBUGDATA: u64 = 256 << 20;
/// Memory the xz decoder may take for its dictionary, KiB.
const XZ_MEMORY: u32 = 128 << 10;

/// An ELF file whose bytes are at hand.
#[derive(Debug)]
pub(crate) struct Image {
    path: PathBuf,
    data: Data,
    /// Where debug files of a file of another root are.
    home: Option<Home>,
}

/// The place of a file below the root of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    /// `/proc/PID/root`.
    pub(crate) root: PathBuf,
    /// Its path, as processes with this root see it.
    pub(crate) path: PathBuf,
}

#[derive(Debug)]
enum Data {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

/// A section's bytes: where they are in the file, or decompressed.
#[derive(Debug)]
pub(crate) enum SectionBytes {
    Plain(Range<usize>),
    Decompressed(Vec<u8>),
}

impl SectionBytes {
    /// Bytes that are not the file's.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Decompressed(bytes) => bytes.len() as u64,
        }
    }
}

impl Image {
    /// Opens the file at `path`. Only a regular one: a recording can name a pipe, which would block,
    /// or a device.
    pub(crate) fn open(path: &Path) -> Result<Self, State> {
        let map = match regular(path)? {
            (_, 0) => return Err(State::Unreadable("the file is empty".into())),
            (file, _) => sys::map(&file).map_err(|error| of_io(&error))?,
        };
        let data = sectionless::with_section_headers(&map).map_or(Data::Mapped(map), Data::Owned);
        let image = Self { path: path.to_path_buf(), data, home: None };
        image.elf()?;
        Ok(image)
    }

    /// Takes `bytes`, that were found in `path`, as a file.
    pub(crate) fn in_memory(path: &Path, bytes: Vec<u8>) -> Self {
        let bytes = sectionless::with_section_headers(&bytes).unwrap_or(bytes);
        Self { path: path.to_path_buf(), data: Data::Owned(bytes), home: None }
    }

    /// The same, of another root.
    pub(crate) fn with_home(self, home: Home) -> Self {
        Self { home: Some(home), ..self }
    }

    pub(crate) fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Mapped(map) => map,
            Data::Owned(bytes) => bytes,
        }
    }

    /// Bytes in memory, if it is not mapped.
    pub(crate) fn memory(&self) -> u64 {
        match &self.data {
            Data::Mapped(_) => 0,
            Data::Owned(bytes) => bytes.len() as u64,
        }
    }

    /// The file's headers; cheap.
    pub(crate) fn elf(&self) -> Result<object::File<'_>, State> {
        object::File::parse(self.bytes()).map_err(|error| {
            match self.bytes().starts_with(b"\x7fELF") {
                true => State::Unreadable(error.to_string()),
                false => State::NotElf,
            }
        })
    }

    pub(crate) fn build_id(&self) -> Option<BuildId> {
        BuildId::new(self.elf().ok()?.build_id().ok()??).ok()
    }

    /// Whether there is such a section with bytes in this file: separate debug files keep the headers
    /// of sections that they do not have.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.elf().is_ok_and(|elf| {
            elf.section_by_name(name)
                .and_then(|section| section.file_range())
                .is_some_and(|(_, size)| size > 0)
        })
    }

    /// A section; `None` if it is not there, damaged, or too large once decompressed.
    pub(crate) fn section(&self, name: &str) -> Option<SectionBytes> {
        let elf = self.elf().ok()?;
        let section = elf.section_by_name(name)?;
        let range = section.compressed_file_range().ok()?;
        let start = usize::try_from(range.offset).ok()?;
        let end = start.checked_add(usize::try_from(range.compressed_size).ok()?)?;
        let bytes = self.bytes().get(start..end)?;
        if range.uncompressed_size > LARGEST_SECTION {
            return None;
        }
        match range.format {
            CompressionFormat::None => Some(SectionBytes::Plain(start..end)),
            CompressionFormat::Zlib => {
                let decoder = flate2::bufread::ZlibDecoder::new(bytes);
                decompress(decoder, LARGEST_SECTION).map(SectionBytes::Decompressed)
            }
            CompressionFormat::Zstandard => {
                let decoder = zstd::stream::read::Decoder::with_buffer(bytes).ok()?;
                decompress(decoder, LARGEST_SECTION).map(SectionBytes::Decompressed)
            }
            _ => None,
        }
    }

    /// Bytes of a section of this file.
    pub(crate) fn contents<'a>(&'a self, section: &'a SectionBytes) -> &'a [u8] {
        match section {
            SectionBytes::Plain(range) => self.bytes().get(range.clone()).unwrap_or_default(),
            SectionBytes::Decompressed(bytes) => bytes,
        }
    }

    /// The symbol table that distributions leave in stripped files: a small ELF file, compressed, in
    /// the section `.gnu_debugdata`.
    pub(crate) fn debugdata(&self) -> Option<Self> {
        let section = self.section(".gnu_debugdata")?;
        let bytes = self.contents(&section);
        let decoder = lzma_rust2::XzReader::new_mem_limit(bytes, true, XZ_MEMORY);
        let image = Self::in_memory(&self.path, decompress(decoder, LARGEST_DEBUGDATA)?);
        image.elf().is_ok().then_some(image)
    }

    /// What is mapped from where: offset in the file to address.
    pub(crate) fn segments(&self) -> Segments {
        let Ok(elf) = self.elf() else { return Segments::default() };
        let mut segments = Segments::default();
        for segment in elf.segments() {
            let (offset, size) = segment.file_range();
            let (end, address) = (offset.saturating_add(size), segment.address());
            if offset < end {
                segments.filled.push((offset, end, address));
            }
            if segment.size() > size {
                let zeroed =
                    (end, offset.saturating_add(segment.size()), address.wrapping_add(size));
                segments.zeroed.push(zeroed);
            }
        }
        segments
    }

    /// The file that `.gnu_debuglink` names, with its checksum.
    pub(crate) fn debug_link(&self) -> Option<(Cow<'_, [u8]>, u32)> {
        let elf = self.elf().ok()?;
        let (name, crc) = elf.gnu_debuglink().ok()??;
        Some((Cow::Owned(name.to_vec()), crc))
    }

    /// The file that `.gnu_debugaltlink` names (what dwz moved out of several files), with its id.
    pub(crate) fn debug_alt_link(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let elf = self.elf().ok()?;
        let (name, id) = elf.gnu_debugaltlink().ok()??;
        Some((name.to_vec(), id.to_vec()))
    }
}

/// Mapped parts of a file: first offset, end, and address of the first.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    filled: Vec<(u64, u64, u64)>,
    /// The part of a segment in memory that is not in the file (`.bss`), as if the file went on.
    zeroed: Vec<(u64, u64, u64)>,
}

impl Segments {
    /// Of parts of a file: first offset, end, and address of the first.
    pub(crate) fn of(filled: Vec<(u64, u64, u64)>) -> Self {
        Self { filled, zeroed: Vec::new() }
    }

    /// Address, as symbols and debug information count it, of an offset in the file.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        at(&self.filled, offset)
    }

    /// The same of data, also where a segment in memory goes on beyond what the file has of it.
    pub(crate) fn data_address(&self, offset: u64) -> Option<u64> {
        // The padding after read-only data, which has no variables, may reach over the segment that follows it:
        // of several, it is the last.
        let holds = |part: &&(u64, u64, u64)| (part.0..part.1).contains(&offset);
        let zeroed = || self.zeroed.iter().filter(holds).max_by_key(|part| part.0);
        let beyond = || zeroed().map(|(start, _, address)| (offset - start).wrapping_add(*address));
        self.address(offset).or_else(beyond)
    }

    /// Where the last of these ends, as an offset; `None` if no segment goes on.
    pub(crate) fn data_end(&self) -> Option<u64> {
        self.zeroed.iter().map(|(_, end, _)| *end).max()
    }

    /// The other way round: offset in the file of an address.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        self.filled.iter().find_map(|(start, end, at)| {
            let inside = address.checked_sub(*at).filter(|inside| *inside < end - start)?;
            Some(start + inside)
        })
    }
}

fn at(parts: &[(u64, u64, u64)], offset: u64) -> Option<u64> {
    let part = parts.iter().find(|(start, end, _)| (*start..*end).contains(&offset));
    part.map(|(start, _, address)| (offset - start).wrapping_add(*address))
}

/// Opens a regular file; with its size.
fn regular(path: &Path) -> Result<(File, u64), State> {
    let metadata = std::fs::metadata(path).map_err(|error| of_io(&error))?;
    if !metadata.is_file() {
        return Err(State::Unreadable("it is not a regular file".into()));
    }
    Ok((File::open(path).map_err(|error| of_io(&error))?, metadata.len()))
}

pub(crate) fn of_io(error: &std::io::Error) -> State {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => State::FileMissing,
        std::io::ErrorKind::PermissionDenied => State::NotAllowed,
        _ => State::Unreadable(error.to_string()),
    }
}

/// All bytes of `decoder`; `None` on damage, or if there are more than `most`.
fn decompress(decoder: impl Read, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Image::open(&dir.path().join("none")).unwrap_err(), State::FileMissing);
        assert!(matches!(Image::open(dir.path()), Err(State::Unreadable(_))));
        let text = dir.path().join("text");
        std::fs::write(&text, "int main;").unwrap();
        assert_eq!(Image::open(&text).unwrap_err(), State::NotElf);
        std::fs::write(&text, b"\x7fELF and no more").unwrap();
        assert!(matches!(Image::open(&text), Err(State::Unreadable(_))));
        let empty = dir.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        assert!(matches!(Image::open(&empty), Err(State::Unreadable(_))));
    }

    proptest! {
        /// Our own program with bytes changed and its end cut off: any answer will do.
        #[test]
        fn damaged_files_do_no_harm(
            changes in proptest::collection::vec((0_usize..4096, any::<u8>()), 0..40),
            cut in 0_usize..8192,
        ) {
            let mut bytes = std::fs::read("/proc/self/exe").unwrap();
            bytes.truncate(8192);
            bytes.truncate(8192 - cut);
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            let image = Image::in_memory(Path::new("x"), bytes);
            let _ = (image.build_id(), image.debug_link(), image.debug_alt_link());
            let _ = (image.segments().address(4000), crate::layout::segments(&image));
            for name in [".debug_info", ".symtab", ".gnu_debugdata"] {
                if let Some(section) = image.section(name) {
                    let _ = image.contents(&section);
                }
            }
            let _ = image.debugdata();
        }
    }

    #[test]
    fn what_unpacks_to_more_than_is_allowed_is_refused() {
        let most = 1000;
        assert_eq!(decompress(std::io::repeat(1), most), None);
        assert_eq!(
            decompress(std::io::repeat(1).take(most), most).map(|all| all.len()),
            Some(1000)
        );
    }
}
