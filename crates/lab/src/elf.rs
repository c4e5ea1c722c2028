//! What the lab needs to know of a program: for which processor it is, what loads it, and where what
//! is loaded ends.

use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

use crate::Arch;
use crate::symbols;

/// Where fields of a 64-bit ELF header lie that tell of sections.
const SECTION_OFFSET: std::ops::Range<usize> = 0x28..0x30;
const SECTION_NUMBERS: std::ops::Range<usize> = 0x3c..0x40;

/// An ELF program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Elf {
    /// For which processor; `None` for one that guests do not have.
    pub arch: Option<Arch>,
    /// The program that loads it and its libraries; `None` if it is static.
    pub loader: Option<String>,
    /// Where the part of the file ends that is ever loaded.
    loaded: usize,
}

impl Elf {
    /// `None` for what is no ELF file, or one that cannot be right.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(&elf::ELFMAG) {
            return None;
        }
        let Ok(header) = FileHeader64::<Endianness>::parse(bytes) else {
            // 32 bits: a program, though for no guest of ours.
            return Some(Self { arch: None, loader: None, loaded: bytes.len() });
        };
        let endian = header.endian().ok()?;
        let arch = match header.e_machine(endian) {
            EM_X86_64 => Some(Arch::X86_64),
            EM_AARCH64 => Some(Arch::Aarch64),
            _ => None,
        };
        let (mut loader, mut loaded) = (None, 0);
        for segment in header.program_headers(endian, bytes).ok()? {
            let (offset, size) = segment.file_range(endian);
            let end = usize::try_from(offset.checked_add(size)?).ok()?;
            match segment.p_type(endian) {
                PT_INTERP => {
                    let name = segment.data(endian, bytes).ok()?;
                    let name = name.strip_suffix(b"\0").unwrap_or(name);
                    loader = Some(String::from_utf8(name.to_vec()).ok()?);
                }
                PT_LOAD => loaded = loaded.max(end),
                _ => {}
            }
        }
        (loaded <= bytes.len()).then_some(Self { arch, loader, loaded })
    }

    /// The program without what is never loaded, but for the names of functions: debug information is most
    /// of a file and would cost a guest seconds to unpack. Names are kept for reports made in the guest.
    pub(crate) fn cut(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(named) = symbols::with_functions(&bytes, self.loaded) {
            return named;
        }
        bytes.truncate(self.loaded);
        for field in [SECTION_OFFSET, SECTION_NUMBERS] {
            if let Some(field) = bytes.get_mut(field) {
                field.fill(0);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_runs_without_what_is_never_loaded() {
        let path = ["/bin/true", "/usr/bin/true"].into_iter().find(|p| std::fs::exists(p).unwrap());
        let bytes = std::fs::read(path.unwrap()).unwrap();
        let elf = Elf::of(&bytes).unwrap();
        assert_eq!(elf.arch, Arch::host().ok());
        let cut = elf.cut(bytes.clone());
        assert!(cut.len() < bytes.len());
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("true");
        std::fs::write(&program, &cut).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Command::new(&program).status().unwrap().success());
    }

    #[test]
    fn functions_keep_their_names() {
        use object::{Object as _, ObjectSymbol as _};
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let names = |bytes: &[u8]| -> std::collections::BTreeMap<String, u64> {
            let file = object::File::parse(bytes).unwrap();
            let is_function = |s: &object::Symbol<'_, '_>| {
                s.kind() == object::SymbolKind::Text && s.section_index().is_some()
            };
            let named = |s: object::Symbol<'_, '_>| (s.name().unwrap().to_owned(), s.address());
            file.symbols().filter(is_function).map(named).collect()
        };
        let cut = Elf::of(&bytes).unwrap().cut(bytes.clone());
        assert!(cut.len() * 2 < bytes.len(), "{} of {}", cut.len(), bytes.len());
        let kept = names(&cut);
        assert!(kept.len() > 100 && kept == names(&bytes), "{}", kept.len());
        // Sections of code keep their places, debug information is gone.
        let file = object::File::parse(&*cut).unwrap();
        use object::ObjectSection as _;
        let text = file.section_by_name(".text").unwrap();
        let before = object::File::parse(&*bytes).unwrap();
        assert_eq!(text.data().unwrap(), before.section_by_name(".text").unwrap().data().unwrap());
        assert!(file.section_by_name(".debug_info").is_none());
    }

    #[test]
    fn what_is_no_program_is_none() {
        assert_eq!(Elf::of(b"#!/bin/sh"), None);
        assert_eq!(Elf::of(b"\x7fELF"), Some(Elf { arch: None, loader: None, loaded: 4 }));
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        bytes.truncate(4096);
        assert_eq!(Elf::of(&bytes), None);
    }
}
