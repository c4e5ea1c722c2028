//! `jit-PID.dump`: functions that a runtime compiled, with their lines.
//!
//! The format is that of the kernel's `tools/perf/Documentation/jitdump-specification.txt`. Records
//! have the time at which a function was created; addresses are looked up without a time, so if memory
//! was reused the later function wins, as with perf maps.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use crate::demangle::Demangler;
use crate::{Line, RangeMap, Symbol};

/// `JiTD`, as a number.
const MAGIC: u32 = 0x4a69_5444;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;
/// More of a file is not read.
const LARGEST: u64 = 4 << 30;
/// More of a record is not looked at: a load record is a name and then code, which is passed over.
const MOST_OF_LOAD: u64 = 64 << 10;
const MOST_OF_DEBUG: u64 = 16 << 20;
/// Lines that are kept, all functions together.
const MOST_LINES: usize = 16 << 20;

/// Functions by address.
#[derive(Debug, Default)]
pub(crate) struct JitDump {
    /// With where each starts, for a part of one may have been overwritten.
    functions: RangeMap<(u64, Arc<JitFunction>)>,
    /// Lines of the function that is to follow, and where it starts.
    pending: Option<(u64, Vec<(u64, Line)>)>,
    /// Lines of all functions.
    lines: usize,
}

#[derive(Debug)]
struct JitFunction {
    name: Arc<str>,
    /// Bytes from the start of the function, ascending, at which a line begins.
    lines: Vec<(u64, Line)>,
}

impl JitDump {
    /// Reads the dump at `path`. What is damaged ends it; what came before stays.
    pub(crate) fn read(path: &Path, demangler: &mut Demangler) -> io::Result<Self> {
        // Anyone may write to /tmp: a link there could lead anywhere.
        if !std::fs::symlink_metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut reader =
            Reader { file: BufReader::new(File::open(path)?), big: false, left: LARGEST };
        let size = reader.header()?;
        reader.skip(size)?;
        let mut dump = Self::default();
        while dump.record(&mut reader, demangler).unwrap_or(false) {}
        Ok(dump)
    }

    /// The function at `address`, with the line if the dump has one.
    pub(crate) fn get(&self, address: u64) -> Option<Symbol> {
        let (start, function) = self.functions.get(address)?;
        let at = address.saturating_sub(*start);
        let after = function.lines.partition_point(|(from, _)| *from <= at);
        let line = after.checked_sub(1).map(|index| function.lines[index].1.clone());
        Some(Symbol { line, ..Symbol::named(Arc::clone(&function.name)) })
    }

    /// Takes one record; whether there may be more.
    fn record(&mut self, reader: &mut Reader, demangler: &mut Demangler) -> io::Result<bool> {
        let (kind, size) = (reader.u32()?, reader.u32()?);
        let _time = reader.u64()?;
        let Some(size) = u64::from(size).checked_sub(16) else { return Ok(false) };
        let most = if kind == DEBUG_INFO { MOST_OF_DEBUG } else { MOST_OF_LOAD };
        let body = reader.bytes(size.min(most))?;
        reader.skip(size - body.len() as u64)?;
        let mut body = Body { bytes: &body, big: reader.big };
        // One that is too short tells nothing; the next may.
        let _ = match kind {
            CODE_LOAD => self.load(&mut body, demangler),
            CODE_MOVE => self.moved(&mut body),
            DEBUG_INFO => self.debug(&mut body, demangler),
            CODE_CLOSE => return Ok(false),
            _ => None,
        };
        Ok(true)
    }

    fn load(&mut self, body: &mut Body<'_>, demangler: &mut Demangler) -> Option<()> {
        let _pid_tid_vma = (body.u64()?, body.u64()?);
        let (start, size, _index) = (body.u64()?, body.u64()?, body.u64()?);
        let name = demangler.name(body.text()?);
        // Lines come in a record of their own, before the function.
        let lines = self.pending.take().filter(|(of, _)| *of == start).map(|(_, lines)| lines);
        let function = Arc::new(JitFunction { name, lines: lines.unwrap_or_default() });
        self.functions.insert(start, start.saturating_add(size.max(1)), (start, function));
        Some(())
    }

    fn moved(&mut self, body: &mut Body<'_>) -> Option<()> {
        let _pid_tid_vma = (body.u64()?, body.u64()?);
        let (from, to, size) = (body.u64()?, body.u64()?, body.u64()?);
        let function = Arc::clone(&self.functions.get(from)?.1);
        self.functions.remove(from, from.saturating_add(size));
        self.functions.insert(to, to.saturating_add(size), (to, function));
        Some(())
    }

    fn debug(&mut self, body: &mut Body<'_>, demangler: &mut Demangler) -> Option<()> {
        let (start, count) = (body.u64()?, body.u64()?);
        let mut lines: Vec<(u64, Line)> = Vec::new();
        for _ in 0..count {
            let Some((address, number, _column)) = body.line() else { break };
            let Some(file) = body.text() else { break };
            // The same file as before is told by one byte of all ones.
            let file = match (file, lines.last()) {
                ([0xff], Some((_, last))) => Arc::clone(&last.file),
                (file, _) => demangler.text(&String::from_utf8_lossy(file)),
            };
            if self.lines == MOST_LINES {
                break;
            }
            self.lines += 1;
            let offset = address.saturating_sub(start);
            lines.push((offset, Line { file, number: Some(number).filter(|&number| number > 0) }));
        }
        lines.sort_by_key(|(offset, _)| *offset);
        self.pending = Some((start, lines));
        Some(())
    }
}

struct Reader {
    file: BufReader<File>,
    /// Whether the dump is of the other byte order than a little-endian one.
    big: bool,
    left: u64,
}

impl Reader {
    /// Reads the fixed part of the header; bytes of it that are left.
    fn header(&mut self) -> io::Result<u64> {
        let magic = self.u32()?;
        if magic.swap_bytes() == MAGIC {
            self.big = true;
        } else if magic != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a jitdump"));
        }
        let _version = self.u32()?;
        let size = self.u32()?;
        Ok(u64::from(size).saturating_sub(12))
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take(N as u64)?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> io::Result<u32> {
        let bytes = self.array()?;
        Ok(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn u64(&mut self) -> io::Result<u64> {
        let bytes = self.array()?;
        Ok(if self.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// All of the next `size` bytes, or an error.
    fn bytes(&mut self, size: u64) -> io::Result<Vec<u8>> {
        self.take(size)?;
        let mut bytes = Vec::new();
        if self.file.by_ref().take(size).read_to_end(&mut bytes)? as u64 != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    fn skip(&mut self, size: u64) -> io::Result<()> {
        self.take(size)?;
        self.file.seek_relative(i64::try_from(size).map_err(io::Error::other)?)
    }

    fn take(&mut self, size: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(size).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(())
    }
}

/// A record's fields.
struct Body<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> Body<'a> {
    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(if self.big { u64::from_be_bytes(*bytes) } else { u64::from_le_bytes(*bytes) })
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(if self.big { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
    }

    /// Address, line, column.
    fn line(&mut self) -> Option<(u64, u32, u32)> {
        Some((self.u64()?, self.u32()?, self.u32()?))
    }

    /// Up to the next zero.
    fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.iter().position(|&byte| byte == 0)?;
        let (text, rest) = self.bytes.split_at(end);
        self.bytes = &rest[1..];
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A dump of records, as a runtime writes it.
    #[derive(Default)]
    struct Writer(Vec<u8>);

    impl Writer {
        fn new() -> Self {
            let mut bytes = Vec::new();
            for word in [MAGIC, 1, 40, 62, 0, 1234] {
                bytes.extend(u32::to_le_bytes(word));
            }
            bytes.extend([0; 16]);
            Self(bytes)
        }

        fn record(&mut self, kind: u32, body: &[u8]) {
            self.0.extend(kind.to_le_bytes());
            self.0.extend((body.len() as u32 + 16).to_le_bytes());
            self.0.extend(7_u64.to_le_bytes());
            self.0.extend(body);
        }

        fn words(words: &[u64]) -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        }

        fn load(&mut self, start: u64, size: u64, name: &str) {
            let mut body = Self::words(&[0, start, start, size, 1]);
            body.extend(name.as_bytes());
            body.push(0);
            body.extend(vec![0x90; size as usize]);
            self.record(CODE_LOAD, &body);
        }

        fn lines(&mut self, start: u64, lines: &[(u64, u32, &[u8])]) {
            let mut body = Self::words(&[start, lines.len() as u64]);
            for (address, line, file) in lines {
                body.extend(address.to_le_bytes());
                body.extend(line.to_le_bytes());
                body.extend(0_u32.to_le_bytes());
                body.extend(*file);
                body.push(0);
            }
            self.record(DEBUG_INFO, &body);
        }

        fn read(&self) -> io::Result<JitDump> {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &self.0).unwrap();
            JitDump::read(file.path(), &mut Demangler::default())
        }
    }

    fn dump() -> Writer {
        let mut writer = Writer::new();
        writer.lines(0x1000, &[(0x1000, 5, b"a.js"), (0x1010, 6, b"\xff")]);
        writer.load(0x1000, 0x40, "first");
        writer.load(0x2000, 0x10, "second");
        writer.record(CODE_MOVE, &Writer::words(&[0, 0x1000, 0x1000, 0x5000, 0x40, 1]));
        writer.load(0x2008, 0x10, "third");
        writer
    }

    fn told(dump: &JitDump, address: u64) -> Option<(String, Option<u32>)> {
        let symbol = dump.get(address)?;
        Some((symbol.name.to_string(), symbol.line.and_then(|line| line.number)))
    }

    #[test]
    fn functions_have_lines_and_may_move_and_be_replaced() {
        let dump = dump().read().unwrap();
        assert_eq!(told(&dump, 0x1000), None, "moved away");
        assert_eq!(told(&dump, 0x5000), Some(("first".into(), Some(5))));
        assert_eq!(told(&dump, 0x5011), Some(("first".into(), Some(6))));
        assert_eq!(&*dump.get(0x5011).unwrap().line.unwrap().file, "a.js");
        assert_eq!(told(&dump, 0x2007), Some(("second".into(), None)));
        assert_eq!(told(&dump, 0x2008), Some(("third".into(), None)));
    }

    #[test]
    fn a_cut_dump_keeps_what_came_before_and_another_file_is_refused() {
        let mut writer = dump();
        let whole = writer.0.len();
        writer.load(0x9000, 0x100, "cut");
        writer.0.truncate(whole + 60);
        let dump = writer.read().unwrap();
        assert!(told(&dump, 0x5000).is_some());
        assert_eq!(told(&dump, 0x9000), None);
        assert!(Writer(b"something else entirely".to_vec()).read().is_err());
        assert!(Writer(Vec::new()).read().is_err());
    }

    proptest! {
        #[test]
        fn damaged_dumps_do_no_harm(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ) {
            let mut writer = dump();
            for (at, value) in changes {
                let at = at.index(writer.0.len());
                writer.0[at] = value;
            }
            if let Ok(dump) = writer.read() {
                let _ = (dump.get(0x5000), dump.get(u64::MAX));
            }
        }
    }
}
