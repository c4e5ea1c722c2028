//! The feature sections of Android's simpleperf: names of events and symbols of files, since the files
//! are on a phone.
//!
//! ```text
//!  128  { u32 size; path\0; u32 kind; u64 lowest address; u32 symbols: { u64 address; u32 size; name\0 };
//!         of files with dex code: u32 number, u64 each; of others: u64 offset of the lowest address }…
//!  129  { key\0 value\0 }…, of which event_type_info has lines of name,type,config
//!  132  { u32 size; protocol buffer with the fields of 128 }…
//! ```
//!
//! In 2016 the symbols were records among the others instead:
//!
//! ```text
//!  32770  u64 kind, u64 number of the file, u64 lowest address, path\0
//!  32771  u64 address, u64 size, u64 number of the file, name\0
//! ```

use std::collections::BTreeSet;

use pmuscope_abi::Attr;

use super::bytes::{Fields, until_zero};

/// Symbols of one file.
pub(super) const FILES: u32 = 128;
/// Facts by name.
pub(super) const FACTS: u32 = 129;
/// The same as [`FILES`], written since 2021.
pub(super) const FILES_2: u32 = 132;

/// The kind of a record that introduces a file.
pub(super) const FILE: u32 = 32770;
/// The kind of a record of a symbol.
pub(super) const SYMBOL: u32 = 32771;

/// Kinds of files, as simpleperf numbers them.
const DEX: u64 = 3;
const SYMBOL_MAP: u64 = 4;

/// Symbols of a file, as the recorder found them when it recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSymbols {
    /// Path, or a name in brackets, as in the mappings.
    pub path: Vec<u8>,
    /// Addresses of the symbols are those at which the code ran.
    pub absolute: bool,
    /// What is added to an offset in the file to have an address of the symbols.
    pub bias: u64,
    /// By address; ranges may overlap.
    symbols: BTreeSet<FileSymbol>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileSymbol {
    address: u64,
    size: u64,
    name: Box<str>,
}

impl FileSymbols {
    /// The raw name of the symbol at an address, as symbols count it. Foreign text.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<&str> {
        let next = address.checked_add(1).map(FileSymbol::at);
        let symbol = match next {
            Some(next) => self.symbols.range(..next).next_back()?,
            None => self.symbols.last()?,
        };
        (address - symbol.address < symbol.size).then_some(&symbol.name)
    }

    /// Number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    fn new(path: &[u8], kind: u64, lowest: u64, offset: u64, symbols: Vec<FileSymbol>) -> Self {
        let bias = if kind == DEX { 0 } else { lowest.wrapping_sub(offset) };
        let absolute = kind == SYMBOL_MAP || is_compiled_code(path);
        Self { path: path.to_vec(), absolute, bias, symbols: symbols.into_iter().collect() }
    }

    /// Adds a symbol from a record of 2016.
    pub(super) fn add(&mut self, symbol: FileSymbol) {
        self.symbols.insert(symbol);
    }
}

impl FileSymbol {
    /// A symbol that sorts before all others at an address.
    fn at(address: u64) -> Self {
        Self { address, size: 0, name: "".into() }
    }
}

/// The number of a file and the file, of a record of [`FILE`].
pub(super) fn file_record(mut fields: Fields<'_>) -> Option<(u64, FileSymbols)> {
    let (kind, number, lowest) = (fields.u64()?, fields.u64()?, fields.u64()?);
    Some((number, FileSymbols::new(until_zero(fields.rest()), kind, lowest, 0, Vec::new())))
}

/// The number of the symbol's file and the symbol, of a record of [`SYMBOL`].
pub(super) fn symbol_record(mut fields: Fields<'_>) -> Option<(u64, FileSymbol)> {
    let (address, size, number) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let name = String::from_utf8_lossy(until_zero(fields.rest())).into();
    Some((number, FileSymbol { address, size, name }))
}

/// No file system has longer names, bytes.
const LONGEST_NAME: usize = 255;

/// Whether a path is one under which simpleperf records code that the Android runtime compiled: a file
/// that it wrote itself, with symbols at the addresses of the code.
#[must_use]
pub fn is_compiled_code(path: &[u8]) -> bool {
    const CACHES: [&[u8]; 2] = [b"_jit_app_cache:", b"_jit_zygote_cache:"];
    const TEMPORARY: &[u8] = b"TemporaryFile-";
    // A recording can have paths of 64 kB, each of which would be searched.
    let end = &path[path.len().saturating_sub(LONGEST_NAME + 1)..];
    let name = match end.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => &end[slash + 1..],
        None if path.len() <= LONGEST_NAME => path,
        None => return false,
    };
    let is_temporary = name.starts_with(TEMPORARY) && name.len() == TEMPORARY.len() + 6;
    is_temporary || CACHES.iter().any(|cache| name.windows(cache.len()).any(|part| part == *cache))
}

/// The files of feature 128.
pub(super) fn files(mut fields: Fields<'_>) -> Vec<FileSymbols> {
    let mut next = || {
        let size = usize::try_from(fields.u32()?).ok()?;
        Some(Fields::new(fields.take(size)?, fields.endian()))
    };
    std::iter::from_fn(|| next().map(file)).flatten().collect()
}

fn file(mut fields: Fields<'_>) -> Option<FileSymbols> {
    let path = text(&mut fields)?;
    let (kind, lowest) = (u64::from(fields.u32()?), fields.u64()?);
    let number = fields.u32()?;
    let mut symbols = Vec::new();
    for _ in 0..number {
        let (address, size) = (fields.u64()?, fields.u32()?.into());
        let name = String::from_utf8_lossy(text(&mut fields)?).into();
        symbols.push(FileSymbol { address, size, name });
    }
    // Older versions wrote no offset: then the file is mapped from its start.
    let offset = if kind == DEX { 0 } else { fields.u64().unwrap_or(0) };
    Some(FileSymbols::new(path, kind, lowest, offset, symbols))
}

fn text<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let text = until_zero(fields.rest());
    fields.take(text.len() + 1)?;
    Some(text)
}

/// The files of feature 132.
pub(super) fn messages(mut fields: Fields<'_>) -> Vec<FileSymbols> {
    let mut next = || {
        let size = usize::try_from(fields.u32()?).ok()?;
        fields.take(size)
    };
    std::iter::from_fn(|| next().map(message)).collect()
}

/// Numbers of fields of a file's message: path, kind, lowest address, symbols, and two messages that
/// have the offset of the lowest address as their first field.
fn message(bytes: &[u8]) -> FileSymbols {
    let (mut path, mut kind, mut lowest, mut offset) = (&[][..], 0, 0, 0);
    let mut symbols = Vec::new();
    for (number, value) in ProtoFields(bytes) {
        match (number, value) {
            (1, ProtoValue::Bytes(bytes)) => path = bytes,
            (2, ProtoValue::Number(value)) => kind = value,
            (3, ProtoValue::Number(value)) => lowest = value,
            (4, ProtoValue::Bytes(bytes)) => symbols.push(symbol(bytes)),
            (6 | 7, ProtoValue::Bytes(bytes)) => {
                let first = ProtoFields(bytes).find_map(|(number, value)| match value {
                    ProtoValue::Number(value) if number == 1 => Some(value),
                    _ => None,
                });
                offset = first.unwrap_or(0);
            }
            _ => {}
        }
    }
    FileSymbols::new(path, kind, lowest, offset, symbols)
}

fn symbol(bytes: &[u8]) -> FileSymbol {
    let mut found = FileSymbol::at(0);
    for (number, value) in ProtoFields(bytes) {
        match (number, value) {
            (1, ProtoValue::Number(value)) => found.address = value,
            (2, ProtoValue::Number(value)) => found.size = value,
            (3, ProtoValue::Bytes(bytes)) => found.name = String::from_utf8_lossy(bytes).into(),
            _ => {}
        }
    }
    found
}

/// Fields of a protocol buffer; ends where it is damaged.
struct ProtoFields<'a>(&'a [u8]);

enum ProtoValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> ProtoFields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(head)
    }
}

impl<'a> Iterator for ProtoFields<'a> {
    type Item = (u64, ProtoValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => ProtoValue::Number(self.varint()?),
            1 => ProtoValue::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                ProtoValue::Bytes(self.take(length)?)
            }
            5 => ProtoValue::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

/// An event by type and configuration, as the facts name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypeName {
    pub(super) name: String,
    kind: u32,
    config: u64,
}

impl TypeName {
    /// Whether it names events of this attribute.
    pub(super) fn is_of(&self, attr: &Attr) -> bool {
        (self.kind, self.config) == (attr.event_type, attr.config)
    }
}

/// The names of events among the facts of feature 129, in the order of the events.
pub(super) fn event_names(bytes: &[u8]) -> Vec<TypeName> {
    let mut words = bytes.split(|&byte| byte == 0);
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        if key == b"event_type_info" {
            let text = String::from_utf8_lossy(value);
            return text.lines().filter_map(type_name).collect();
        }
    }
    Vec::new()
}

/// `NAME,TYPE,CONFIG`; a name may have commas itself.
fn type_name(line: &str) -> Option<TypeName> {
    let (rest, config) = line.rsplit_once(',')?;
    let (name, kind) = rest.rsplit_once(',')?;
    let (kind, config) = (kind.parse().ok()?, config.parse().ok()?);
    (!name.is_empty()).then(|| TypeName { name: name.to_owned(), kind, config })
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Endian;
    use super::*;
    use proptest::prelude::*;

    fn old(kind: u32, tail: &[u8]) -> Vec<u8> {
        let mut body = b"/system/lib/a.so\0".to_vec();
        body.extend(kind.to_le_bytes());
        body.extend(0x20000_u64.to_le_bytes());
        body.extend(2_u32.to_le_bytes());
        for (address, size, name) in [(0x20200_u64, 0x10_u32, "_Z1bv"), (0x20100, 0x80, "a")] {
            body.extend(address.to_le_bytes());
            body.extend(size.to_le_bytes());
            body.extend(name.bytes().chain([0]));
        }
        body.extend(tail);
        [&(body.len() as u32).to_le_bytes()[..], &body].concat()
    }

    fn names(file: &FileSymbols) -> [Option<&str>; 4] {
        [0x200ff, 0x20100, 0x2017f, 0x20205].map(|address| file.name(address))
    }

    #[test]
    fn symbols_of_both_versions_are_the_same() {
        let read = |bytes: &[u8]| files(Fields::new(bytes, Endian::Little));
        let with_offset = read(&old(2, &0x1f000_u64.to_le_bytes()));
        assert_eq!(names(&with_offset[0]), [None, Some("a"), Some("a"), Some("_Z1bv")]);
        assert_eq!((with_offset[0].bias, with_offset[0].absolute), (0x1000, false));
        assert_eq!(read(&old(2, &[]))[0].bias, 0x20000);
        assert_eq!(read(&old(3, &[0; 4]))[0].bias, 0);
        assert!(read(&old(4, &[]))[0].absolute);

        let symbol = |address: &[u8], size: u8, name: &str| {
            let mut body = [&[0x08][..], address, &[0x10, size, 0x1a, name.len() as u8]].concat();
            body.extend(name.bytes());
            [&[0x22, body.len() as u8][..], &body].concat()
        };
        let mut message = vec![0x0a, 16];
        message.extend(b"/system/lib/a.so");
        message.extend([0x10, 2, 0x18, 0x80, 0x80, 0x08]); // ELF, 0x20000
        message.extend(symbol(&[0x80, 0x84, 0x08], 0x10, "_Z1bv"));
        message.extend(symbol(&[0x80, 0x82, 0x08], 0x7f, "a"));
        message.extend([0x32, 4, 0x08, 0x80, 0xe0, 0x07]); // at 0x1f000
        let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
        bytes.extend(message);
        let new = messages(Fields::new(&bytes, Endian::Little));
        assert_eq!(names(&new[0]), [None, Some("a"), None, Some("_Z1bv")]);
        assert_eq!((&new[0].path, new[0].bias), (&with_offset[0].path, 0x1000));
    }

    #[test]
    fn records_of_2016_say_the_same() {
        let record = |words: [u64; 3], text: &[u8]| {
            [&words.map(u64::to_le_bytes).concat()[..], text, &[0; 8]].concat()
        };
        fn fields(bytes: &[u8]) -> Fields<'_> {
            Fields::new(bytes, Endian::Little)
        }
        let bytes = record([2, 7, 0x20000], b"/system/lib/a.so");
        let (number, mut file) = file_record(fields(&bytes)).unwrap();
        assert_eq!((number, file.len(), file.bias), (7, 0, 0x20000));
        for (address, size, name) in [(0x20200, 0x10, b"_Z1bv".as_slice()), (0x20100, 0x80, b"a")] {
            let bytes = record([address, size, 7], name);
            let (number, symbol) = symbol_record(fields(&bytes)).unwrap();
            assert_eq!(number, 7);
            file.add(symbol);
        }
        assert_eq!(names(&file), [None, Some("a"), Some("a"), Some("_Z1bv")]);
        assert_eq!(file.name(u64::MAX), None);
        assert!(file_record(fields(&bytes[..20])).is_none());
    }

    #[test]
    fn events_have_the_names_that_the_user_typed() {
        let facts =
            b"timestamp\x001\0event_type_info\0sched:sched_switch,2,47\ncpu-cycles,0,0\n,1,1\0";
        let found = event_names(facts);
        let names: Vec<_> = found.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["sched:sched_switch", "cpu-cycles"]);
        assert!(found[0].is_of(&Attr { event_type: 2, config: 47, ..Attr::default() }));
        assert_eq!(event_names(b"a\0b\0c"), []);
    }

    #[test]
    fn code_of_the_android_runtime_is_known_by_its_path() {
        assert!(is_compiled_code(b"./TemporaryFile-gutP02"));
        assert!(is_compiled_code(b"/data/local/tmp/perf.data_jit_app_cache:9472-10264"));
        assert!(!is_compiled_code(b"/tmp/TemporaryFile-of-mine.so"));
        assert!(!is_compiled_code(b"/system/lib64/libc.so"));
        // A name may be so long, and a path longer.
        let longest = [&b"_jit_app_cache:"[..], &[b'1'; LONGEST_NAME - 15]].concat();
        assert!(is_compiled_code(&longest));
        assert!(is_compiled_code(&[&b"/data".repeat(1000)[..], b"/", &longest].concat()));
        assert!(!is_compiled_code(&[&longest[..], b"1"].concat()), "no file has this name");
    }

    proptest! {
        #[test]
        fn no_bytes_can_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for fields in [Fields::new(&bytes, Endian::Little), Fields::new(&bytes, Endian::Big)] {
                files(fields);
                messages(fields);
            }
            message(&bytes);
            event_names(&bytes);
            for fields in [Fields::new(&bytes, Endian::Little), Fields::new(&bytes, Endian::Big)] {
                file_record(fields);
                symbol_record(fields);
            }
        }

        #[test]
        fn a_damaged_file_gives_what_can_be_read(at in 0_usize..77, byte in any::<u8>()) {
            let mut bytes = old(2, &[0; 8]);
            bytes[at] = byte;
            files(Fields::new(&bytes, Endian::Little));
        }
    }
}
