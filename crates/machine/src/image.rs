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
    /// Where the kernel's text lies: `/proc/kallsyms`, read until `_etext`. `None` where addresses are
    /// hidden from this process (`kptr_restrict`).
    pub fn kernel_text(&self) -> Option<KernelText> {
        let file = File::open(self.path("proc/kallsyms")).ok()?;
        text_of(BufReader::with_capacity(1 << 16, file.take(KALLSYMS_BYTES)))
    }

    /// Where the kernel's text starts, as [`KernelText::start`]. That is among the first lines of `/proc/kallsyms`; all that
    /// are before `_etext` take the kernel tens of milliseconds to write.
    pub fn kernel_text_start(&self) -> Option<u64> {
        let file = File::open(self.path("proc/kallsyms")).ok()?;
        start_of_text(BufReader::with_capacity(1 << 12, file.take(KALLSYMS_BYTES)))
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

/// Where [`text_of`] has the start.
fn start_of_text(mut kallsyms: impl BufRead) -> Option<u64> {
    let mut line = Vec::new();
    while kallsyms.by_ref().take(4096).read_until(b'\n', &mut line).ok()? > 0 {
        if let Some((address, b"_stext" | b"_text")) = symbol(line.trim_ascii_end()) {
            return Some(address).filter(|&address| address != 0);
        }
        line.clear();
    }
    None
}

/// `ffffffff81000000 T _stext`, or with a module in brackets behind it.
fn symbol(line: &[u8]) -> Option<(u64, &[u8])> {
    // Only a few lines out of 200,000 matter: look at the end before parsing the address.
    if !line.ends_with(b"text") {
        return None;
    }
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
        assert_eq!(start_of_text(SYMBOLS.as_bytes()), Some(text.start));
    }

    #[test]
    fn hidden_addresses_are_no_text() {
        let hidden: String =
            SYMBOLS.lines().map(|line| format!("0000000000000000{}\n", &line[16..])).collect();
        assert_eq!(text_of(hidden.as_bytes()), None);
        assert_eq!(start_of_text(hidden.as_bytes()), None);
        assert_eq!(text_of(&b"ffffffff81000000 T _text\n"[..]), None);
        assert_eq!(text_of(&b""[..]), None);
        assert_eq!(start_of_text(&b""[..]), None);
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
