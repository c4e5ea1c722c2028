//! What the lab needs to know of a program: for which processor it is, what loads it, and where what
//! is loaded ends.

use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

use crate::Arch;

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

    /// The program without what is never loaded: symbols and debug information are most of a file and
    /// would cost a guest seconds to unpack.
    pub(crate) fn cut(&self, mut bytes: Vec<u8>) -> Vec<u8> {
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
    fn what_is_no_program_is_none() {
        assert_eq!(Elf::of(b"#!/bin/sh"), None);
        assert_eq!(Elf::of(b"\x7fELF"), Some(Elf { arch: None, loader: None, loaded: 4 }));
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        bytes.truncate(4096);
        assert_eq!(Elf::of(&bytes), None);
    }
}
