//! Where functions begin in a file, by their names: for probes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use object::read::{Object as _, ObjectSymbol as _};
use object::{ObjectKind, SymbolKind};
use rustc_hash::FxHashMap;

use crate::image::Image;

/// Where functions begin in the program or library at `path`, bytes from the beginning of the file: for each of `names`,
/// as the symbol tables have them, `None` where it defines no such function. `None` of what is no program or library, or
/// cannot be read.
#[must_use]
pub fn function_offsets(path: &Path, names: &[&str]) -> Option<Vec<Option<u64>>> {
    let image = Image::open(path).ok()?;
    let elf = image.elf().ok()?;
    if !matches!(elf.kind(), ObjectKind::Executable | ObjectKind::Dynamic) {
        return None;
    }
    let segments = image.segments();
    let wanted: FxHashMap<&[u8], usize> =
        names.iter().enumerate().map(|(at, name)| (name.as_bytes(), at)).collect();
    let mut found = vec![None; names.len()];
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if symbol.is_undefined() || symbol.kind() != SymbolKind::Text {
            continue;
        }
        let number = symbol.name_bytes().ok().and_then(|name| wanted.get(name));
        if let Some(&number) = number.filter(|&&number| found[number].is_none()) {
            found[number] = segments.offset(symbol.address());
        }
    }
    Some(found)
}

/// The dynamic loader that the program at `path` asks for; `None` of a static program and of what is no program.
#[must_use]
pub fn dynamic_loader(path: &Path) -> Option<PathBuf> {
    let image = Image::open(path).ok()?;
    let section = image.section(".interp")?;
    let bytes = image.contents(&section);
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some(OsStr::from_bytes(&bytes[..end]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program_have_offsets_and_others_none() {
        let path = std::env::current_exe().unwrap();
        let found = function_offsets(&path, &["main", "no_such_function", "malloc"]).unwrap();
        assert!(found[0].is_some_and(|offset| offset > 0), "{found:?}");
        // The C library's.
        assert_eq!(found[1..], [None, None]);
        assert_eq!(function_offsets(Path::new("/proc/self/status"), &["main"]), None);
    }

    #[test]
    fn a_dynamic_program_names_its_loader() {
        let loader = dynamic_loader(&std::env::current_exe().unwrap());
        assert!(loader.is_none_or(|loader| loader.exists()));
        assert_eq!(dynamic_loader(Path::new("/etc/passwd")), None);
    }
}
