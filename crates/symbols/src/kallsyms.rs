//! `/proc/kallsyms`: functions of the running kernel and of its modules, at their current
//! addresses.

use std::io::{self, BufRead as _, BufReader, Read};
use std::ops::Range;

/// Far beyond the 10 to 20 MiB of a distribution kernel.
const LARGEST: u64 = 1 << 28;
/// A longer line is no symbol's.
const LONGEST_LINE: u64 = 4 << 10;
/// What is taken for the size of the last function.
const LAST: u64 = 4096;

/// Symbols by address.
#[derive(Debug, Default)]
pub(crate) struct Kallsyms {
    /// Ascending, one per address.
    entries: Vec<KernelSymbol>,
    /// All names.
    names: Vec<u8>,
    /// The kernel's own text, from `_stext` or `_text` to `_etext`.
    image: Option<Range<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KernelSymbol {
    address: u64,
    /// What is not code only ends what is before it.
    code: bool,
    start: u32,
    length: u32,
}

impl Kallsyms {
    /// Those of the running kernel.
    pub(crate) fn of_running() -> io::Result<Self> {
        Self::read(std::fs::File::open("/proc/kallsyms")?)
    }

    pub(crate) fn read(file: impl Read) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(1 << 16, file.take(LARGEST));
        let mut found = Self::default();
        let (mut from, mut to) = (None::<u64>, None);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Some((address, kind, name)) = parse(line.trim_ascii_end()) else { continue };
            match name {
                b"_stext" | b"_text" => from = Some(from.map_or(address, |from| from.min(address))),
                b"_etext" => to = Some(address),
                _ => {}
            }
            found.push(address, kind, name);
        }
        found.image = from.zip(to).filter(|(from, to)| from < to && *from > 0).map(|(a, b)| a..b);
        // Of several names for one address perf(1) shows the last in the file; so do we.
        found.entries.sort_unstable_by_key(|entry| {
            (entry.address, !entry.code, std::cmp::Reverse(entry.start))
        });
        found.entries.dedup_by_key(|entry| entry.address);
        Ok(found)
    }

    fn push(&mut self, address: u64, kind: u8, name: &[u8]) {
        let Ok(start) = u32::try_from(self.names.len()) else { return };
        let length = name.len() as u32; // a line is 4 KiB at most
        self.names.extend_from_slice(name);
        self.entries.push(KernelSymbol {
            address,
            code: matches!(kind, b't' | b'T' | b'w' | b'W'),
            start,
            length,
        });
    }

    /// Whether the kernel shows addresses to this user; without the right all are 0.
    pub(crate) fn are_visible(&self) -> bool {
        self.entries.last().is_some_and(|entry| entry.address > 0)
    }

    /// Number and name of the function at `address`.
    pub(crate) fn get(&self, address: u64) -> Option<(u32, &[u8])> {
        let (at, range) = self.find(address)?;
        let at = if address + 1 == range.end && self.is_padding(at) { at + 1 } else { at };
        Some((at as u32, &self.names[self.entries[at].range()]))
    }

    /// Whether an entry is the padding in front of the function that comes next (`CONFIG_CALL_PADDING`, `__pfx_NAME`). Its last
    /// byte is looked up for a frame at the function's first byte, which no call returns to: callers are looked up one before.
    fn is_padding(&self, at: usize) -> bool {
        let name = |at: usize| self.entries.get(at).map(|entry| &self.names[entry.range()]);
        let padded = name(at).and_then(|name| name.strip_prefix(b"__pfx_"));
        padded.is_some() && padded == name(at + 1)
    }

    /// Name of what is no code at `address`.
    pub(crate) fn object(&self, address: u64) -> Option<&[u8]> {
        let at = self.entries.partition_point(|entry| entry.address <= address).checked_sub(1)?;
        let (entry, next) = (&self.entries[at], self.entries.get(at + 1)?);
        let is_it = !entry.code && entry.address > 0 && address < next.address;
        is_it.then(|| &self.names[entry.range()])
    }

    /// Where the function at `address` begins and, at the latest, ends.
    pub(crate) fn range(&self, address: u64) -> Option<Range<u64>> {
        self.find(address).map(|(_, range)| range)
    }

    fn find(&self, address: u64) -> Option<(usize, Range<u64>)> {
        let at = self.entries.partition_point(|entry| entry.address <= address).checked_sub(1)?;
        let entry = &self.entries[at];
        let next = self.entries.get(at + 1).map(|next| next.address);
        let range = entry.address..next.unwrap_or(entry.address.saturating_add(LAST));
        (entry.code && range.contains(&address)).then_some((at, range))
    }

    /// Where the kernel's own text lies.
    pub(crate) fn image(&self) -> Option<Range<u64>> {
        self.image.clone()
    }

    /// Address of the symbol `name`.
    pub(crate) fn address_of(&self, name: &[u8]) -> Option<u64> {
        let mut named = self.entries.iter().filter(|entry| &self.names[entry.range()] == name);
        named.next().map(|entry| entry.address)
    }
}

impl KernelSymbol {
    fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }
}

/// `ffffffff81000000 T _stext` or `ffffffffc0401000 t ext4_sync   [ext4]`.
pub(crate) fn parse(line: &[u8]) -> Option<(u64, u8, &[u8])> {
    let (address, rest) = line.split_at_checked(line.iter().position(|&byte| byte == b' ')?)?;
    let [b' ', kind, b' ', name @ ..] = rest else { return None };
    let name = name.split(|&byte| byte == b'\t').next()?;
    let address = u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()?;
    (!name.is_empty()).then_some((address, *kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t __do_thing
ffffffff81000100 T do_thing
ffffffff81000180 T memcpy
ffffffff81000180 T __pi_memcpy
ffffffff81000180 D not_code
ffffffff81000200 T _etext
ffffffff82000000 D data
no symbol
ffffffffc0000000 t module_function	[ext4]
";

    fn name(symbols: &Kallsyms, address: u64) -> Option<&str> {
        symbols.get(address).map(|(_, name)| std::str::from_utf8(name).unwrap())
    }

    #[test]
    fn functions_end_where_anything_else_begins() {
        let symbols = Kallsyms::read(TEXT.as_bytes()).unwrap();
        assert!(symbols.are_visible());
        assert_eq!(symbols.image(), Some(0xffff_ffff_8100_0000..0xffff_ffff_8100_0200));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_00ff), Some("startup_64"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0101), Some("do_thing"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_01ff), Some("__pi_memcpy"));
        assert_eq!(name(&symbols, 0xffff_ffff_8200_0000), None);
        assert_eq!(name(&symbols, 0xffff_ffff_c000_0fff), Some("module_function"));
        assert_eq!(name(&symbols, 0xffff_ffff_c000_1000), None);
        assert_eq!(name(&symbols, 0), None);
        assert_eq!(symbols.address_of(b"data"), Some(0xffff_ffff_8200_0000));
    }

    /// The first frame of a kernel thread is the first byte of the function that it returns to.
    #[test]
    fn a_frame_at_the_first_byte_is_of_the_function_not_of_its_padding() {
        let text = "ffffffff81000000 T _stext
ffffffff81000020 t __pfx_ret_from_fork_asm
ffffffff81000030 T ret_from_fork_asm
ffffffff81000080 t __pfx_lone
ffffffff81000090 T other
ffffffff810000a0 T _etext
";
        let symbols = Kallsyms::read(text.as_bytes()).unwrap();
        let name = |address: u64| name(&symbols, 0xffff_ffff_8100_0000 + address);
        assert_eq!(
            (name(0x2e), name(0x2f)),
            (Some("__pfx_ret_from_fork_asm"), Some("ret_from_fork_asm"))
        );
        assert_eq!((name(0x30), name(0x8f)), (Some("ret_from_fork_asm"), Some("__pfx_lone")));
    }

    #[test]
    fn hidden_addresses_are_seen() {
        let text = "0000000000000000 T _stext\n0000000000000000 T _etext\n";
        let symbols = Kallsyms::read(text.as_bytes()).unwrap();
        assert!(!symbols.are_visible());
        assert_eq!(symbols.image(), None);
        assert!(!Kallsyms::default().are_visible());
    }
}
