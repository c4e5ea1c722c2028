//! The kernel's own image: where its text lies, its modules, build ids.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use serde::Serialize;

use crate::Machine;

/// Far beyond the 10 to 20 MiB of a distribution kernel.
const KALLSYMS_BYTES: u64 = 1 << 28;
const MODULES_BYTES: u64 = 1 << 24;
const NOTES_BYTES: u64 = 1 << 20;
const IOMEM_BYTES: u64 = 1 << 24;
/// `NT_GNU_BUILD_ID` of include/uapi/linux/elf.h.
const BUILD_ID_NOTE: u32 = 3;

/// Where the kernel's text lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelText {
    /// The symbol that `start` is the address of: `_stext` or `_text`.
    pub symbol: String,
    /// First address.
    pub start: u64,
    /// One past the last address: that of `_etext`.
    pub end: u64,
}

/// A loaded kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelModule {
    /// Its name, with underscores.
    pub name: String,
    /// Where its text starts.
    pub address: u64,
    /// Bytes it takes, data included (as `/proc/modules` counts).
    pub size: u64,
    /// Its file below `/lib/modules/RELEASE`, if listed there; may be compressed.
    pub path: Option<PathBuf>,
}

impl Machine {
    /// Where the kernel's text lies: `/proc/kallsyms`. `None` where addresses are hidden from this
    /// process (`kptr_restrict`).
    ///
    /// All lines up to `_etext` take the kernel tens of milliseconds to write. On x86-64 the length of the text is in
    /// `/proc/iomem`, too, where this process may read its addresses.
    pub fn kernel_text(&self) -> Option<KernelText> {
        self.kernel_text_by_length().or_else(|| text_of(self.kallsyms(1 << 16)?))
    }

    fn kernel_text_by_length(&self) -> Option<KernelText> {
        // Elsewhere the resource ends with more than the text: on arm64 with `__init_begin` (arch/arm64/kernel/setup.c).
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let iomem = self.bytes("proc/iomem", IOMEM_BYTES).ok()?;
        let length = length_of_code(&String::from_utf8_lossy(&iomem))?;
        let (symbol, start) = first_of_text(self.kallsyms(1 << 12)?)?;
        Some(KernelText { symbol, start, end: start.checked_add(length)? })
    }

    fn kallsyms(&self, buffer: usize) -> Option<impl BufRead> {
        let file = File::open(self.path("proc/kallsyms")).ok()?;
        Some(BufReader::with_capacity(buffer, file.take(KALLSYMS_BYTES)))
    }

    /// Whether the running kernel lists a function of this name, addresses hidden or not. To find that it does not takes
    /// tens of milliseconds.
    pub(crate) fn has_kernel_function(&self, name: &str) -> bool {
        let Some(list) = self.kallsyms(1 << 16) else { return false };
        list.lines().map_while(Result::ok).any(|line| line.split(' ').nth(2) == Some(name))
    }

    /// Where the kernel's text starts, as [`KernelText::start`]: that is among the first lines of `/proc/kallsyms`.
    pub fn kernel_text_start(&self) -> Option<u64> {
        first_of_text(self.kallsyms(1 << 12)?).map(|(_, start)| start)
    }

    /// Loaded modules, by address: `/proc/modules`; empty where there are none or addresses are hidden.
    pub fn modules(&self) -> Vec<KernelModule> {
        let Ok(text) = self.bytes("proc/modules", MODULES_BYTES) else { return Vec::new() };
        let text = String::from_utf8_lossy(&text);
        let mut modules: Vec<KernelModule> = text.lines().filter_map(module).collect();
        modules.retain(|module| module.address != 0);
        if !modules.is_empty() {
            let mut files = self.module_files();
            for module in &mut modules {
                module.path = files.remove(&module.name);
            }
        }
        modules.sort_by_key(|module| module.address);
        modules
    }

    /// Build id of the running kernel: `/sys/kernel/notes`.
    pub fn kernel_build_id(&self) -> Option<Vec<u8>> {
        build_id(&self.bytes("sys/kernel/notes", NOTES_BYTES).ok()?)
    }

    /// Build id of a loaded module: `/sys/module/NAME/notes/.note.gnu.build-id`.
    pub fn module_build_id(&self, name: &str) -> Option<Vec<u8>> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return None;
        }
        let file = format!("sys/module/{name}/notes/.note.gnu.build-id");
        build_id(&self.bytes(file, NOTES_BYTES).ok()?)
    }

    /// Files by module name, from `/lib/modules/RELEASE/modules.dep`.
    fn module_files(&self) -> HashMap<String, PathBuf> {
        let Ok(kernel) = self.kernel() else { return HashMap::new() };
        let folder = format!("lib/modules/{}", kernel.release);
        let list = self.bytes(format!("{folder}/modules.dep"), MODULES_BYTES).unwrap_or_default();
        let list = String::from_utf8_lossy(&list);
        list.lines()
            .filter_map(|line| {
                let (file, _) = line.split_once(':')?;
                let name = file.rsplit('/').next()?.split(".ko").next()?.replace('-', "_");
                Some((name, self.path(&folder).join(file)))
            })
            .collect()
    }
}

/// Per-CPU symbols come first on some machines and are at 0: only the symbols asked for decide.
fn text_of(mut kallsyms: impl BufRead) -> Option<KernelText> {
    let mut start: Option<(String, u64)> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line longer than any symbol comes in pieces, none of which matches.
        let read = kallsyms.by_ref().take(4096).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return None;
        }
        let (address, symbol) = match symbol(line.trim_ascii_end()) {
            Some((0, b"_stext" | b"_text" | b"_etext")) => return None,
            Some((address, name @ (b"_stext" | b"_text" | b"_etext"))) => (address, name),
            _ => continue,
        };
        match (symbol, &start) {
            (b"_etext", Some((name, from))) if *from < address => {
                return Some(KernelText { symbol: name.clone(), start: *from, end: address });
            }
            (b"_etext", _) => return None,
            // `_text` may lie below `_stext` (head code) or be the same: the first one seen counts,
            // and `_stext` where both are at one address.
            (name, None) => start = Some((String::from_utf8_lossy(name).into_owned(), address)),
            (b"_stext", Some((_, from))) if *from == address => {
                start = Some(("_stext".to_owned(), address));
            }
            _ => {}
        }
    }
}

/// The symbol and the address that [`text_of`] has for the start: of `_text` and `_stext` the first, and `_stext` where both
/// are at one address.
fn first_of_text(mut kallsyms: impl BufRead) -> Option<(String, u64)> {
    let mut first: Option<(String, u64)> = None;
    let mut line = Vec::new();
    while kallsyms.by_ref().take(4096).read_until(b'\n', &mut line).ok()? > 0 {
        let symbol = parse(line.trim_ascii_end());
        match (symbol, &first) {
            // All symbols at one address stand together.
            (Some((address, _)), Some((_, start))) if address != *start => return first,
            (Some((0, b"_stext" | b"_text")), _) => return None,
            (Some((start, name @ b"_stext")), _) | (Some((start, name @ b"_text")), None) => {
                first = Some((String::from_utf8_lossy(name).into_owned(), start));
            }
            _ => {}
        }
        line.clear();
    }
    first
}

/// Bytes of `  01000000-02209987 : Kernel code`, which x86 has from `_text` to `_etext` (arch/x86/kernel/setup.c); `None`
/// where addresses are hidden.
fn length_of_code(iomem: &str) -> Option<u64> {
    let line = iomem.lines().find_map(|line| line.trim().strip_suffix(" : Kernel code"))?;
    let (first, last) = line.split_once('-')?;
    let [first, last] = [first, last].map(|word| u64::from_str_radix(word, 16).ok());
    let (first, last) = (first.filter(|&first| first != 0)?, last?);
    last.checked_sub(first)?.checked_add(1)
}

/// A line of [`parse`] that is about the text. Only a few out of 200,000 are: look at the end before parsing the address.
fn symbol(line: &[u8]) -> Option<(u64, &[u8])> {
    line.ends_with(b"text").then(|| parse(line))?
}

/// `ffffffff81000000 T _stext`, or with a module in brackets after it.
fn parse(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut words = line.split(|&byte| byte == b' ');
    let address = std::str::from_utf8(words.next()?).ok()?;
    let name = words.nth(1)?;
    Some((u64::from_str_radix(address, 16).ok()?, name))
}

/// `ext4 1019904 1 - Live 0xffffffffc0a00000 (E)`.
fn module(line: &str) -> Option<KernelModule> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?.to_owned();
    let size = words.next()?.parse().ok()?;
    let address = words.nth(3)?.strip_prefix("0x")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    Some(KernelModule { name, address, size, path: None })
}

/// The build id in a sequence of ELF notes: name size, descriptor size, type, name, descriptor, both
/// padded to four bytes.
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    while let Some((header, rest)) = notes.split_at_checked(12) {
        let word = |at: usize| {
            let bytes = header.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(bytes))
        };
        let (name_size, descriptor_size) = (word(0)? as usize, word(4)? as usize);
        let name = rest.get(..name_size)?;
        let rest = rest.get(name_size.checked_next_multiple_of(4)?..)?;
        let descriptor = rest.get(..descriptor_size)?;
        if word(8)? == BUILD_ID_NOTE && name == b"GNU\0" {
            return (!descriptor.is_empty()).then(|| descriptor.to_vec());
        }
        notes = rest.get(descriptor_size.checked_next_multiple_of(4)?..).unwrap_or(&[]);
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SYMBOLS: &str = "0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t do_text\n\
        ffffffff82000000 T _etext\nffffffff82000001 T not_reached\n";

    #[test]
    fn finds_the_kernels_text() {
        let text = text_of(SYMBOLS.as_bytes()).unwrap();
        assert_eq!(text.symbol, "_stext");
        assert_eq!((text.start, text.end), (0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000));
        assert_eq!(first_of_text(SYMBOLS.as_bytes()), Some((text.symbol, text.start)));
        // Head code lies below the text.
        let apart = SYMBOLS.replace("ffffffff81000000 T _text", "ffffffff80ff0000 T _text");
        let text = text_of(apart.as_bytes()).unwrap();
        assert_eq!((text.symbol.as_str(), text.start), ("_text", 0xffff_ffff_80ff_0000));
        assert_eq!(first_of_text(apart.as_bytes()), Some((text.symbol, text.start)));
    }

    #[test]
    fn the_length_of_the_text_is_read_where_addresses_are_shown() {
        let shown = "00001000-0009fbff : System RAM\n00100000-7fffffff : System RAM\n  \
            01000000-02209987 : Kernel code\n  02400000-02dfffff : Kernel rodata\n";
        assert_eq!(length_of_code(shown), Some(0x0120_9988));
        assert_eq!(length_of_code("00000000-00000000 : Kernel code\n"), None);
        assert_eq!(length_of_code("02-01 : Kernel code\n"), None);
        assert_eq!(length_of_code("00001000-0009fbff : System RAM\n"), None);
    }

    /// Both ways, where this machine shows what they take.
    #[test]
    fn this_kernels_text_is_the_same_by_its_length() {
        let machine = Machine::host();
        let Some(by_length) = machine.kernel_text_by_length() else {
            eprintln!("skipped: no addresses in /proc/iomem or /proc/kallsyms, or not x86-64");
            return;
        };
        assert_eq!(Some(by_length), text_of(machine.kallsyms(1 << 16).unwrap()));
    }

    #[test]
    fn hidden_addresses_are_no_text() {
        let hidden: String =
            SYMBOLS.lines().map(|line| format!("0000000000000000{}\n", &line[16..])).collect();
        assert_eq!(text_of(hidden.as_bytes()), None);
        assert_eq!(first_of_text(hidden.as_bytes()), None);
        assert_eq!(text_of(&b"ffffffff81000000 T _text\n"[..]), None);
        assert_eq!(text_of(&b""[..]), None);
        assert_eq!(first_of_text(&b""[..]), None);
    }

    #[test]
    fn reads_a_line_of_modules() {
        let found = module("ext4 1019904 1 - Live 0xffffffffc0a00000 (E)").unwrap();
        assert_eq!((found.name.as_str(), found.size), ("ext4", 1_019_904));
        assert_eq!(found.address, 0xffff_ffff_c0a0_0000);
        assert_eq!(module("ext4 1019904 1"), None);
    }

    fn note(kind: u32, name: &[u8], descriptor: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [name.len() as u32, descriptor.len() as u32, kind] {
            out.extend(word.to_ne_bytes());
        }
        for part in [name, descriptor] {
            out.extend(part);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    #[test]
    fn finds_the_build_id_among_notes() {
        let notes = [note(0x101, b"Linux\0", b"\0\0\0\0"), note(3, b"GNU\0", b"12345678")].concat();
        assert_eq!(build_id(&notes), Some(b"12345678".to_vec()));
        assert_eq!(build_id(&notes[..20]), None);
        assert_eq!(build_id(&note(1, b"GNU\0", b"12345678")), None);
    }

    proptest! {
        #[test]
        fn no_notes_panic(notes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = build_id(&notes);
        }

        #[test]
        fn a_build_id_is_found_behind_any_note(
            kind in 4u32..100, name in "[a-z]{0,9}", other in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let notes = [note(kind, name.as_bytes(), &other), note(3, b"GNU\0", b"id")].concat();
            prop_assert_eq!(build_id(&notes), Some(b"id".to_vec()));
        }
    }
}
