//! `jit-PID.dump`: functions that a runtime compiled, with their lines.
//!
//! The format is that of the kernel's `tools/perf/Documentation/jitdump-specification.txt`. Records
//! have the time at which a function was created: [`GeneratedCode`] looks addresses up by it. Without a time the later
//! function wins where memory was reused, as with perf maps.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use crate::demangle::Demangler;
use rustc_hash::FxHashMap;

use crate::perf_map::open_no_link;
use crate::unwind::{Arch, Gap, Rule, UnwindScratch, generated};
use crate::{Line, RangeMap, Symbol};

/// `JiTD`, as a number.
const MAGIC: u32 = 0x4a69_5444;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;
const CODE_UNWINDING: u32 = 4;
/// More of a file is not read.
const LARGEST: u64 = 4 << 30;
/// More of a record is not looked at: a load record is a name and then code, which is passed over.
const MOST_OF_LOAD: u64 = 64 << 10;
const MOST_OF_DEBUG: u64 = 16 << 20;
/// What a header has behind its first 12 bytes: machine, padding, process, time, flags.
const HEADER_REST: u64 = 28;
/// Where the flags are in that.
const FLAGS_AT: usize = 20;
/// Flag: times are those of the CPU's own clock.
const CPU_TIMES: u8 = 1;
/// Size of a page of addresses, bytes as a power of two.
const PAGE_BITS: u32 = 12;
/// Functions on pages that are kept, 4 bytes each.
const MOST_ENTRIES: usize = 64 << 20;
/// Pages that a function may reach over, and its bytes: beyond that it is damage.
const MOST_PAGES: usize = 4096;
const LARGEST_FUNCTION: u64 = (MOST_PAGES as u64) << PAGE_BITS;
/// Lines that are kept, all functions together.
const MOST_LINES: usize = 16 << 20;

/// Functions by address.
#[derive(Debug, Default)]
pub(crate) struct JitDump {
    /// With where each starts, for a part of one may have been overwritten.
    functions: RangeMap<(u64, Arc<JitFunction>)>,
    /// Lines of the function that is to follow, and where it starts.
    pending: Option<(u64, Vec<(u64, Line)>)>,
    /// Unwind information of the function that is to follow.
    pending_frames: Option<Arc<[u8]>>,
    /// Lines of all functions.
    lines: usize,
    /// Everything that was put anywhere, in the order of the dump.
    loads: Vec<CodeLoad>,
    /// Its times are those of the CPU's own clock, which no recording has.
    has_cpu_times: bool,
}

/// A function at its addresses, from a time on.
#[derive(Debug, Clone)]
struct CodeLoad {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    time: u64,
    start: u64,
    size: u64,
    function: Arc<JitFunction>,
    /// Its `.eh_frame`, if the runtime describes how it is left.
    frames: Option<Arc<[u8]>>,
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
        Self::of_file(open_no_link(path)?, demangler)
    }

    /// The dump in an open file.
    pub(crate) fn of_file(file: File, demangler: &mut Demangler) -> io::Result<Self> {
        let mut reader = Reader { file: BufReader::new(file), big: false, left: LARGEST };
        let size = reader.header()?;
        let front = reader.bytes(size.min(HEADER_REST))?;
        reader.skip(size - front.len() as u64)?;
        let at = if reader.big { HEADER_REST as usize - 1 } else { FLAGS_AT };
        let flags = front.get(at).copied().unwrap_or(0);
        let mut dump = Self { has_cpu_times: flags & CPU_TIMES != 0, ..Self::default() };
        while dump.record(&mut reader, demangler).unwrap_or(false) {}
        Ok(dump)
    }

    /// The function at `address`, with the line if the dump has one.
    pub(crate) fn get(&self, address: u64) -> Option<Symbol> {
        let (start, function) = self.functions.get(address)?;
        Some(function.symbol(address.saturating_sub(*start)))
    }

    /// Takes one record; whether there may be more.
    fn record(&mut self, reader: &mut Reader, demangler: &mut Demangler) -> io::Result<bool> {
        let (kind, size) = (reader.u32()?, reader.u32()?);
        let time = reader.u64()?;
        let Some(size) = u64::from(size).checked_sub(16) else { return Ok(false) };
        let most = if kind == DEBUG_INFO { MOST_OF_DEBUG } else { MOST_OF_LOAD };
        let body = reader.bytes(size.min(most))?;
        reader.skip(size - body.len() as u64)?;
        let mut body = Body { bytes: &body, big: reader.big };
        // One that is too short tells nothing; the next may.
        let _ = match kind {
            CODE_LOAD => self.load(time, &mut body, demangler),
            CODE_MOVE => self.moved(time, &mut body),
            DEBUG_INFO => self.debug(&mut body, demangler),
            CODE_UNWINDING => self.unwinding(&mut body),
            CODE_CLOSE => return Ok(false),
            _ => None,
        };
        Ok(true)
    }

    fn load(&mut self, time: u64, body: &mut Body<'_>, demangler: &mut Demangler) -> Option<()> {
        let _pid_tid_vma = (body.u64()?, body.u64()?);
        let (start, size, _index) = (body.u64()?, body.u64()?, body.u64()?);
        let name = demangler.name(body.text()?);
        // Lines come in a record of their own, before the function.
        let lines = self.pending.take().filter(|(of, _)| *of == start).map(|(_, lines)| lines);
        let function = Arc::new(JitFunction { name, lines: lines.unwrap_or_default() });
        let frames = self.pending_frames.take();
        self.loads.push(CodeLoad { time, start, size, function: Arc::clone(&function), frames });
        self.functions.insert(start, start.saturating_add(size.max(1)), (start, function));
        Some(())
    }

    fn moved(&mut self, time: u64, body: &mut Body<'_>) -> Option<()> {
        let _pid_tid_vma = (body.u64()?, body.u64()?);
        let (from, to, size) = (body.u64()?, body.u64()?, body.u64()?);
        let function = Arc::clone(&self.functions.get(from)?.1);
        let moved = |load: &&CodeLoad| Arc::ptr_eq(&load.function, &function);
        let frames = self.loads.iter().rfind(moved).and_then(|load| load.frames.clone());
        self.loads.push(CodeLoad {
            time,
            start: to,
            size,
            function: Arc::clone(&function),
            frames,
        });
        self.functions.remove(from, from.saturating_add(size));
        self.functions.insert(to, to.saturating_add(size), (to, function));
        Some(())
    }

    /// `.eh_frame` and, behind it, `.eh_frame_hdr`, which is not needed for one function.
    fn unwinding(&mut self, body: &mut Body<'_>) -> Option<()> {
        let (all, header, _mapped) = (body.u64()?, body.u64()?, body.u64()?);
        let size = usize::try_from(all.checked_sub(header)?).ok()?;
        self.pending_frames =
            body.bytes.get(..size).filter(|frames| !frames.is_empty()).map(Arc::from);
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

impl JitFunction {
    /// The symbol of a place so far behind its start.
    fn symbol(&self, at: u64) -> Symbol {
        let after = self.lines.partition_point(|(from, _)| *from <= at);
        let line = after.checked_sub(1).map(|index| self.lines[index].1.clone());
        Symbol { line, ..Symbol::named(Arc::clone(&self.name)) }
    }
}

/// Code that a process generated, by time: each function has places of its own, whatever was at its addresses before.
///
/// ```text
///  time      │ 10          │ 20           │ 30
///  0x7f0000  │ first ──────│──────────────│ third ───►       samples at 0x7f0010: first until 30, then third
///  0x7f0100  │             │ second ──────│───────────►
///  place     │ FIRST_PLACE │ + first.size │ + second.size
/// ```
#[derive(Debug, Clone, Default)]
pub struct GeneratedCode {
    loads: Vec<CodeLoad>,
    /// Place of each.
    places: Vec<u64>,
    /// By page of addresses the loads that touch it, in the order of time.
    by_page: FxHashMap<u64, Vec<u32>>,
    /// Entries in that.
    entries: usize,
}

/// Code at an address at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratedPlace {
    /// The place, from [`GeneratedCode::FIRST_PLACE`] on.
    pub place: u64,
    /// Since when it is there, nanoseconds of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Until when; `u64::MAX` if nothing takes its place.
    pub until: u64,
}

impl GeneratedCode {
    /// Places begin here, where no address is.
    pub const FIRST_PLACE: u64 = 1 << 62;

    /// What the dump at `path` says; nothing if its times are not those of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// If it cannot be read, or is no jitdump.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut code = Self::default();
        code.add(JitDump::read(path, &mut Demangler::default())?);
        Ok(code)
    }

    /// Adds what another dump of the process says.
    ///
    /// # Errors
    /// As [`GeneratedCode::read`].
    pub fn read_more(&mut self, path: &Path) -> io::Result<()> {
        self.add(JitDump::read(path, &mut Demangler::default())?);
        Ok(())
    }

    fn add(&mut self, dump: JitDump) {
        if dump.has_cpu_times {
            return;
        }
        let mut next = self
            .places
            .last()
            .zip(self.loads.last())
            .map_or(Self::FIRST_PLACE, |last| last.0.saturating_add(last.1.size.max(1)));
        let mut loads = dump.loads;
        loads.sort_by_key(|load| load.time);
        for mut load in loads {
            load.size = load.size.clamp(1, LARGEST_FUNCTION);
            let number = self.loads.len() as u32;
            let last = load.start.saturating_add(load.size.max(1) - 1);
            // More pages than that has no function; a damaged dump says anything.
            for page in (load.start >> PAGE_BITS..=last >> PAGE_BITS).take(MOST_PAGES) {
                if self.entries == MOST_ENTRIES {
                    break;
                }
                self.entries += 1;
                self.by_page.entry(page).or_default().push(number);
            }
            self.places.push(next);
            next = next.saturating_add(load.size.max(1));
            self.loads.push(load);
        }
        for numbers in self.by_page.values_mut() {
            numbers.sort_by_key(|&number| self.loads[number as usize].time);
        }
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Code at an address at a time, nanoseconds of `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn at(&self, address: u64, time: u64) -> Option<GeneratedPlace> {
        let numbers = self.by_page.get(&(address >> PAGE_BITS))?;
        let load = |number: &u32| &self.loads[*number as usize];
        let covers = |number: &&u32| {
            let load = load(number);
            address.checked_sub(load.start).is_some_and(|inside| inside < load.size.max(1))
        };
        let behind = numbers.partition_point(|number| load(number).time <= time);
        let (before, after) = numbers.split_at(behind);
        let number = *before.iter().rfind(covers)?;
        let found = &self.loads[number as usize];
        Some(GeneratedPlace {
            place: self.places[number as usize] + (address - found.start),
            from: found.time,
            until: after.iter().find(covers).map_or(u64::MAX, |next| load(next).time),
        })
    }

    fn load_of(&self, place: u64) -> Option<(&CodeLoad, u64)> {
        let at = self.places.partition_point(|start| *start <= place).checked_sub(1)?;
        let inside = place - self.places[at];
        let load = &self.loads[at];
        (inside < load.size.max(1)).then_some((load, inside))
    }

    /// The function at a place.
    #[must_use]
    pub fn symbol(&self, place: u64) -> Option<Symbol> {
        let (load, inside) = self.load_of(place)?;
        Some(load.function.symbol(inside))
    }

    /// How the function at a place is left.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn rule(&self, place: u64, arch: Arch, scratch: &mut UnwindScratch) -> Result<Rule, Gap> {
        let (load, inside) = self.load_of(place).ok_or(Gap::Generated)?;
        let frames = load.frames.as_deref().ok_or(Gap::Generated)?;
        generated::rule(frames, load.size, inside, arch, scratch).unwrap_or(Err(Gap::Generated))
    }

    /// The address that a place had.
    #[must_use]
    pub fn address(&self, place: u64) -> Option<u64> {
        let (load, inside) = self.load_of(place)?;
        Some(load.start + inside)
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

    #[test]
    fn memory_that_is_used_again_has_both_functions_each_at_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jit-1.dump");
        let mut dump = Writer::new();
        for (time, start, name) in
            [(10, 0x7000, "first"), (20, 0x7100, "second"), (30, 0x7000, "third")]
        {
            let at = dump.0.len() + 8;
            dump.load(start, 0x100, name);
            dump.0[at..at + 8].copy_from_slice(&u64::to_le_bytes(time));
        }
        std::fs::write(&path, &dump.0).unwrap();
        let code = GeneratedCode::read(&path).unwrap();
        let at = |address, time| {
            let found = code.at(address, time)?;
            let name = code.symbol(found.place).unwrap().name.to_string();
            assert_eq!(code.address(found.place), Some(address));
            Some((name, found.from, found.until))
        };
        assert_eq!(at(0x7010, 9), None);
        assert_eq!(at(0x7010, 10), Some(("first".into(), 10, 30)));
        assert_eq!(at(0x70ff, 29), Some(("first".into(), 10, 30)));
        assert_eq!(at(0x7000, 30), Some(("third".into(), 30, u64::MAX)));
        assert_eq!(at(0x7100, 99), Some(("second".into(), 20, u64::MAX)));
        assert_eq!((at(0x7200, 99), code.symbol(7), code.address(u64::MAX)), (None, None, None));
        // Of the CPU's own clock nothing can be said.
        dump.0[32] = 1;
        std::fs::write(&path, &dump.0).unwrap();
        assert!(GeneratedCode::read(&path).unwrap().is_empty());
    }

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
                let mut code = GeneratedCode::default();
                code.add(dump);
                for address in [0x5000, 0x5008, 0x6000, u64::MAX] {
                    if let Some(found) = code.at(address, u64::MAX) {
                        prop_assert_eq!(code.address(found.place), Some(address));
                        prop_assert!(code.symbol(found.place).is_some());
                    }
                }
                let mut scratch = UnwindScratch::default();
                let _ = code.rule(GeneratedCode::FIRST_PLACE, Arch::X86_64, &mut scratch);
            }
        }
    }
}
