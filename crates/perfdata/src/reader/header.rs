//! The header of a file: where the sections are, checked against the file before they are used.
//!
//! ```text
//!  0        8      16        24      40     56           72                 104
//!  ├ magic ─┼ size ┼ entry ──┼ attrs ┼ data ┼ event types ┼ feature bitmap ─┤
//!     8       u64    u64       {offset, size: u64} each      256 bits
//! ```
//! In the stream format ("pipe") only magic and size (16) are there, and attributes come as records.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use pmuscope_abi::{ATTR_SIZE_VER0, ATTR_SIZE_VER9, Attr, AttrFlags};

use super::about::MOST_IDS;
use super::bytes::{Endian, Fields};
use super::error::ReadError;
use super::event::Event;
use super::name;

/// Bytes of a header with its feature bitmap.
const SIZE: u64 = 104;
/// Bytes of the header that perf wrote before there were features.
const SIZE_WITHOUT_FEATURES: u64 = 72;
/// Bytes of the stream format's header.
pub(super) const STREAM_SIZE: u64 = 16;
/// Bytes of a section's place: offset and size.
const SECTION: u64 = 16;
/// An attribute entry beyond this is not one.
const LARGEST_ATTR: u64 = 4096;
/// Bytes of all attributes that are believed: a file can have a hole of any size.
const LARGEST_ATTRS: u64 = 64 << 20;
/// Bytes of all ids that are believed.
const LARGEST_IDS: u64 = 8 * MOST_IDS as u64;
/// No file is larger, bytes: ext4's limit.
const LARGEST_FILE: u64 = 16 << 40;
/// The likely cause where a section ends after the file.
const TRUNCATED: &str = "; the file may be truncated";
/// Cause where no file can be so large.
const CORRUPT: &str = "; the header is corrupt";

/// A piece of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HeaderSection {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl HeaderSection {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { offset: fields.u64()?, size: fields.u64()? })
    }

    /// First byte behind it; `None` beyond the end of the file.
    pub(super) fn end_within(self, file_size: u64) -> Option<u64> {
        self.offset.checked_add(self.size).filter(|&end| end <= file_size)
    }
}

/// What a header says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) endian: Endian,
    /// `None` in the stream format.
    pub(super) layout: Option<FileLayout>,
}

/// Sections of the file format.
#[derive(Debug)]
pub(super) struct FileLayout {
    pub(super) events: Vec<Event>,
    /// The records, cut to what the file has.
    pub(super) data: HeaderSection,
    /// Bit and place of each feature that lies in the file.
    pub(super) features: Vec<(u32, HeaderSection)>,
    /// What the sizes say about the end of the recording.
    pub(super) state: FileState,
}

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Closed in order, or a stream.
    Closed,
    /// The recorder never wrote its final tables.
    NotClosed,
    /// The file is shorter than its header says: bytes there, bytes promised.
    Truncated {
        /// Bytes the file has.
        has: u64,
        /// Bytes it should have.
        should: u64,
    },
}

impl FileState {
    /// Whether the header promises more than any file has: then it is corrupt, and the file need not be cut.
    #[must_use]
    pub fn is_corrupt(self) -> bool {
        matches!(self, Self::Truncated { should, .. } if should > LARGEST_FILE)
    }
}

/// Byte order by the first 8 bytes.
pub(super) fn endian_of(magic: &[u8]) -> Option<Endian> {
    match magic {
        b"PERFILE2" | b"PERFFILE" => Some(Endian::Little),
        b"2ELIFREP" | b"ELIFFREP" => Some(Endian::Big),
        _ => None,
    }
}

/// Reads the header of `file`.
pub(super) fn read(file: &File, path: &Path) -> Result<Header, ReadError> {
    let io = |source| ReadError::Io { path: path.to_path_buf(), what: "read", source };
    let file_size = file.metadata().map_err(io)?.len();
    let front =
        read_section(file, HeaderSection { offset: 0, size: SIZE.min(file_size) }).map_err(io)?;
    let Some(endian) = front.get(..8).and_then(endian_of) else {
        return Err(ReadError::magic(path, &front));
    };
    let mut fields = Fields::new(&front[8..], endian);
    match fields.u64() {
        Some(STREAM_SIZE) => return Ok(Header { endian, layout: None }),
        Some(SIZE | SIZE_WITHOUT_FEATURES) => {}
        size => {
            let found = size.map_or("missing".into(), |size| size.to_string());
            let problem = format!("{found}; expected 16, 72 or 104");
            return Err(ReadError::Header { path: path.to_path_buf(), field: "size", problem });
        }
    }
    let source = HeaderSource { file, path, file_size, endian };
    source.layout(&front).map(|layout| Header { endian, layout: Some(layout) })
}

/// Bytes of a section that is known to lie in the file.
pub(super) fn read_section(file: &File, section: HeaderSection) -> std::io::Result<Vec<u8>> {
    let size = usize::try_from(section.size).map_err(|_| std::io::ErrorKind::InvalidData)?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, section.offset)?;
    Ok(bytes)
}

struct HeaderSource<'a> {
    file: &'a File,
    path: &'a Path,
    file_size: u64,
    endian: Endian,
}

impl HeaderSource<'_> {
    fn wrong(&self, field: &'static str, problem: String) -> ReadError {
        ReadError::Header { path: self.path.to_path_buf(), field, problem }
    }

    fn bytes(&self, section: HeaderSection) -> Result<Vec<u8>, ReadError> {
        read_section(self.file, section).map_err(|source| ReadError::Io {
            path: self.path.to_path_buf(),
            what: "read",
            source,
        })
    }

    fn layout(&self, front: &[u8]) -> Result<FileLayout, ReadError> {
        let mut fields = Fields::new(front.get(16..).unwrap_or_default(), self.endian);
        let mut word = || fields.u64().unwrap_or(0);
        let entry = word();
        let [attrs, data] = [(); 2].map(|()| HeaderSection { offset: word(), size: word() });
        let events = self.events(entry, attrs)?;
        let bitmap = front.get(72..).unwrap_or_default();
        let bits: Vec<u32> = feature_bits(bitmap, self.endian);

        if data.offset > self.file_size {
            let why = self.truncated(data);
            let problem = format!("{} in a file of {} bytes{why}", data.offset, self.file_size);
            return Err(self.wrong("data.offset", problem));
        }
        let rest = self.file_size - data.offset;
        let (size, state) = if data.size == 0 && self.has_table(&bits, data.offset)? {
            (0, FileState::Closed) // and no record came
        } else if data.size == 0 {
            // Sizes are written at close: perf leaves 0 when it is killed.
            (rest, FileState::NotClosed)
        } else if data.size > rest {
            let should = data.offset.saturating_add(data.size);
            (rest, FileState::Truncated { has: self.file_size, should })
        } else if bits.is_empty() && front.len() as u64 == SIZE {
            (data.size, FileState::NotClosed)
        } else {
            (data.size, FileState::Closed)
        };
        let data = HeaderSection { offset: data.offset, size };
        let mut layout = FileLayout { events, data, features: Vec::new(), state };
        if state == FileState::Closed {
            self.features(&bits, &mut layout)?;
        }
        Ok(layout)
    }

    /// Whether a table of features stands at `offset`, and not records: those begin with a kind and a
    /// size, which together are an offset far behind the end of any file.
    fn has_table(&self, bits: &[u32], offset: u64) -> Result<bool, ReadError> {
        let table = HeaderSection { offset, size: bits.len() as u64 * SECTION };
        let Some(end) = table.end_within(self.file_size).filter(|_| !bits.is_empty()) else {
            return Ok(false);
        };
        let bytes = self.bytes(table)?;
        let mut fields = Fields::new(&bytes, self.endian);
        let mut sections = std::iter::from_fn(|| HeaderSection::read(&mut fields));
        let lies_behind = |section: HeaderSection| {
            section.offset >= end && section.end_within(self.file_size).is_some()
        };
        Ok(sections.all(lies_behind))
    }

    /// Places of the features: a table right behind the data, one entry per bit, in their order.
    fn features(&self, bits: &[u32], layout: &mut FileLayout) -> Result<(), ReadError> {
        let offset = layout.data.offset + layout.data.size;
        let table = HeaderSection { offset, size: bits.len() as u64 * SECTION };
        if table.end_within(self.file_size).is_none() {
            let should = offset + table.size;
            layout.state = FileState::Truncated { has: self.file_size, should };
            return Ok(());
        }
        let bytes = self.bytes(table)?;
        let mut fields = Fields::new(&bytes, self.endian);
        for &bit in bits {
            let Some(section) = HeaderSection::read(&mut fields) else { break };
            if section.end_within(self.file_size).is_some() {
                layout.features.push((bit, section));
            } else {
                let should = section.offset.saturating_add(section.size);
                layout.state = FileState::Truncated { has: self.file_size, should };
            }
        }
        Ok(())
    }

    /// The likely cause where a section ends after the file.
    fn truncated(&self, section: HeaderSection) -> &'static str {
        match section.end_within(self.file_size) {
            Some(_) => "",
            None if section.offset.saturating_add(section.size) > LARGEST_FILE => CORRUPT,
            None => TRUNCATED,
        }
    }

    /// Entries of attribute and place of its ids.
    fn events(&self, entry: u64, attrs: HeaderSection) -> Result<Vec<Event>, ReadError> {
        if attrs.end_within(self.file_size).is_none() || attrs.size > LARGEST_ATTRS {
            let problem = format!(
                "{} bytes at {} in a file of {} bytes{}",
                attrs.size,
                attrs.offset,
                self.file_size,
                self.truncated(attrs)
            );
            return Err(self.wrong("attrs", problem));
        }
        let smallest = ATTR_SIZE_VER0 as u64 + SECTION;
        if !(smallest..=LARGEST_ATTR).contains(&entry) {
            let problem = format!("{entry} bytes; expected {smallest} to {LARGEST_ATTR}");
            return Err(self.wrong("attr_size", problem));
        }
        let bytes = self.bytes(attrs)?;
        let mut events = Vec::new();
        let mut id_bytes = 0_u64;
        for bytes in bytes.chunks_exact(entry as usize) {
            let (attr, place) = bytes.split_at(bytes.len() - SECTION as usize);
            let ids = HeaderSection::read(&mut Fields::new(place, self.endian)).unwrap_or_default();
            // The lists do not overlap, so together they cannot be longer than the file.
            id_bytes = id_bytes.saturating_add(ids.size);
            let most = self.file_size.min(LARGEST_IDS);
            if ids.end_within(self.file_size).is_none() || id_bytes > most {
                let problem = format!(
                    "{} bytes at {} for event {} in a file of {} bytes{}",
                    ids.size,
                    ids.offset,
                    events.len(),
                    self.file_size,
                    self.truncated(ids)
                );
                return Err(self.wrong("attrs.ids", problem));
            }
            let ids = ids_from(&self.bytes(ids)?, self.endian);
            let attr = attr_from(attr, self.endian).ok_or_else(|| {
                self.wrong("attrs", format!("event {} declares too small a size", events.len()))
            })?;
            events.push(Event { name: name::of(&attr), attr, ids });
        }
        if events.is_empty() {
            Err(ReadError::NoEvents(self.path.to_path_buf()))
        } else {
            Ok(events)
        }
    }
}

/// Features a bitmap of `unsigned long` has. How wide that was is not said, and matters in big-endian
/// files only: there the host name, which every recorder writes, tells.
fn feature_bits(bitmap: &[u8], endian: Endian) -> Vec<u32> {
    const HOSTNAME: u32 = 3;
    let mut fields = Fields::new(bitmap, endian);
    let wide = bits_of(64, std::iter::from_fn(|| fields.u64()));
    if endian == Endian::Little || wide.contains(&HOSTNAME) {
        return wide;
    }
    let mut fields = Fields::new(bitmap, endian);
    let narrow = bits_of(32, std::iter::from_fn(|| fields.u32().map(u64::from)));
    if narrow.contains(&HOSTNAME) { narrow } else { wide }
}

fn bits_of(width: u32, words: impl Iterator<Item = u64>) -> Vec<u32> {
    let bits = |(index, word): (u32, u64)| {
        (0..width).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * width + bit)
    };
    (0..).zip(words).flat_map(bits).collect()
}

/// Ids, one u64 after another.
pub(super) fn ids_from(bytes: &[u8], endian: Endian) -> Vec<u64> {
    let mut fields = Fields::new(bytes, endian);
    std::iter::from_fn(|| fields.u64()).collect()
}

/// Widths in bytes of the fields of `perf_event_attr`, in their order.
const WIDTHS: [u8; 24] = [4, 4, 8, 8, 8, 8, 8, 4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8, 8, 8];

/// An attribute in the byte order of the file.
pub(super) fn attr_from(bytes: &[u8], endian: Endian) -> Option<Attr> {
    let declared = Fields::new(bytes.get(4..)?, endian).u32()? as usize;
    // Size 0 is what the first version wrote.
    let known = if declared == 0 { ATTR_SIZE_VER0 } else { declared.min(bytes.len()) };
    let mut native = [0_u8; ATTR_SIZE_VER9];
    let mut fields = Fields::new(bytes.get(..known)?, endian);
    let mut at = 0;
    for width in WIDTHS {
        let field: &[u8] = match width {
            2 => &fields.u16().unwrap_or(0).to_ne_bytes(),
            4 => &fields.u32().unwrap_or(0).to_ne_bytes(),
            8 => &fields.u64().unwrap_or(0).to_ne_bytes(),
            _ => &[],
        };
        native[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    }
    let mut attr = Attr::from_bytes(&native).ok()?;
    if endian == Endian::Big {
        // Compilers for such machines fill bit fields from the most significant bit.
        let word = attr.flags.bits() | u64::from(attr.precise_ip) << 15;
        let reversed = word.reverse_bits();
        attr.flags = AttrFlags::from_bits_retain(reversed & !(3 << 15));
        // Two bits that are one number are not reversed among themselves.
        attr.precise_ip = (word >> 47 & 3) as u8;
    }
    (known >= ATTR_SIZE_VER0).then_some(attr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::SampleType;

    #[test]
    fn an_attr_of_the_other_byte_order_is_the_same_attr() {
        let attr = Attr {
            event_type: 1,
            config: 2,
            sample: 4000,
            sample_type: SampleType::IP | SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::FREQ,
            precise_ip: 1,
            sample_max_stack: 127,
            ..Attr::default()
        };
        let bytes = attr.to_bytes();
        assert_eq!(attr_from(&bytes, Endian::Little).as_ref(), Some(&attr));

        let mut swapped = Vec::new();
        let mut at = 0;
        for width in WIDTHS {
            let mut field = bytes[at..at + usize::from(width)].to_vec();
            field.reverse();
            if at == 40 {
                // Bit n of the one is bit 63 - n of the other; precise_ip is bits 15 and 16, 47 and 48.
                let word = u64::from_be_bytes(field[..].try_into().unwrap());
                let flags = (word & !(3 << 15)).reverse_bits();
                field = (flags | (word >> 15 & 3) << 47).to_be_bytes().to_vec();
            }
            swapped.extend(field);
            at += usize::from(width);
        }
        assert_eq!(attr_from(&swapped, Endian::Big).as_ref(), Some(&attr));
    }

    /// Newer kernels have larger attributes, older ones smaller: what is beyond is passed over, what is
    /// missing is zero. Size 0 stands for the first version's.
    #[test]
    fn attrs_of_other_sizes() {
        let attr =
            Attr { config: 7, sample: 9, config2: 5, config3: 6, config4: 8, ..Attr::default() };
        let mut newer = attr.to_bytes().to_vec();
        newer.extend_from_slice(&[0xff; 64]);
        newer[4] = newer.len() as u8;
        assert_eq!(attr_from(&newer, Endian::Little).as_ref(), Some(&attr));
        for (size, config2, config3) in [(64, 0, 0), (72, 5, 0), (128, 5, 0), (136, 5, 6)] {
            let mut older = attr.to_bytes()[..size].to_vec();
            older[4] = size as u8;
            let found = attr_from(&older, Endian::Little).unwrap();
            let words = (found.config, found.config2, found.config3, found.config4);
            assert_eq!(words, (7, config2, config3, 0), "{size}");
        }
        let mut first = attr.to_bytes();
        first[4] = 0;
        assert_eq!(attr_from(&first, Endian::Little).unwrap().config2, 0);
    }

    #[test]
    fn features_of_big_endian_machines_of_either_width() {
        let mut wide = [0; 32];
        wide[7] = 1 << 3 | 1 << 4; // bits 3 and 4 of a u64
        wide[0] = 1; // bit 56
        assert_eq!(feature_bits(&wide, Endian::Big), [3, 4, 56]);
        let mut narrow = [0; 32];
        narrow[3] = 1 << 3; // bit 3 of a u32
        narrow[7] = 1; // bit 0 of the second
        assert_eq!(feature_bits(&narrow, Endian::Big), [3, 32]);
        let mut little = [0; 32];
        little[0] = 1 << 3;
        little[4] = 1;
        assert_eq!(feature_bits(&little, Endian::Little), [3, 32]);
    }

    #[test]
    fn an_attr_that_is_too_short_is_none() {
        let mut bytes = Attr::default().to_bytes();
        assert_eq!(attr_from(&bytes[..60], Endian::Little), None);
        bytes[4] = 10;
        assert_eq!(attr_from(&bytes, Endian::Little), None);
    }
}
