//! A program cut to what is loaded and the names of its functions.

use object::elf::{FileHeader64, SHT_NOBITS, SHT_SYMTAB, STB_LOCAL, STT_FUNC, SectionHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, SectionIndex};

/// Sizes of a section's header and of a symbol in 64-bit files.
const HEADER: usize = 64;
const SYMBOL: usize = 24;
/// Where the file's header says where those of sections lie.
const SECTION_OFFSET: std::ops::Range<usize> = 0x28..0x30;

/// The first `loaded` bytes, the sections' headers with the numbers that they had, and behind them
/// symbols of functions only. `None` for files without symbols, or that are not as they should be.
pub(crate) fn with_functions(bytes: &[u8], loaded: usize) -> Option<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok().filter(|endian| *endian == Endianness::Little)?;
    let headers = header.section_headers(endian, bytes).ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let table = sections.symbols(endian, bytes, SHT_SYMTAB).ok()?;
    let names = usize::from(header.e_shstrndx(endian).0);
    let section_names = headers.get(names)?.data(endian, bytes).ok()?;

    let (mut locals, mut others, mut strings) = (Vec::new(), Vec::new(), vec![0]);
    for symbol in table.iter().filter(|symbol| symbol.st_type() == STT_FUNC) {
        let name = symbol.name(endian, table.strings()).ok()?;
        let at = u32::try_from(strings.len()).ok()?;
        strings.extend_from_slice(name);
        strings.push(0);
        let to = if symbol.st_bind() == STB_LOCAL { &mut locals } else { &mut others };
        to.extend(at.to_le_bytes());
        to.extend([symbol.st_info().0, symbol.st_other().0]);
        to.extend(symbol.st_shndx(endian).0.to_le_bytes());
        to.extend(symbol.st_value(endian).to_le_bytes());
        to.extend(symbol.st_size(endian).to_le_bytes());
    }
    if locals.is_empty() && others.is_empty() {
        return None;
    }
    // The first symbol is none; locals come before others.
    let first_other = 1 + locals.len() / SYMBOL;
    let symbols = [vec![0; SYMBOL], locals, others].concat();

    let mut out = bytes.get(..loaded)?.to_vec();
    let symtab = append(&mut out, &symbols);
    let strtab = append(&mut out, &strings);
    let shstrtab = append(&mut out, section_names);
    let is = |index: SectionIndex, number: usize| index.0 == number;
    let mut all = Vec::with_capacity(headers.len() * HEADER);
    for (number, section) in headers.iter().enumerate() {
        if is(table.section(), number) {
            all.extend(moved(section, endian, symtab, symbols.len(), first_other as u32));
        } else if is(table.string_section(), number) {
            all.extend(moved(section, endian, strtab, strings.len(), 0));
        } else if number == names {
            all.extend(moved(section, endian, shstrtab, section_names.len(), 0));
        } else {
            let end = section.sh_offset(endian).checked_add(section.sh_size(endian))?;
            let is_there = section.sh_type(endian) == SHT_NOBITS || end <= loaded as u64;
            all.extend(if is_there { raw(section, endian) } else { [0; HEADER] });
        }
    }
    let at = append(&mut out, &all);
    out.get_mut(SECTION_OFFSET)?.copy_from_slice(&(at as u64).to_le_bytes());
    Some(out)
}

/// Appends at a multiple of eight; where that is.
fn append(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    out.resize(out.len().next_multiple_of(8), 0);
    let at = out.len();
    out.extend_from_slice(bytes);
    at
}

/// The header of a section that lies elsewhere now.
fn moved(
    section: &SectionHeader64<Endianness>,
    endian: Endianness,
    at: usize,
    size: usize,
    info: u32,
) -> [u8; HEADER] {
    let mut header = raw(section, endian);
    header[0x18..0x20].copy_from_slice(&(at as u64).to_le_bytes());
    header[0x20..0x28].copy_from_slice(&(size as u64).to_le_bytes());
    header[0x2c..0x30].copy_from_slice(&info.to_le_bytes());
    header
}

/// A header as it stands in the file.
fn raw(section: &SectionHeader64<Endianness>, endian: Endianness) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let words = [
        (0x00, u64::from(section.sh_name(endian)), 4),
        (0x04, u64::from(section.sh_type(endian).0), 4),
        (0x08, section.sh_flags(endian).0, 8),
        (0x10, section.sh_addr(endian), 8),
        (0x18, section.sh_offset(endian), 8),
        (0x20, section.sh_size(endian), 8),
        (0x28, u64::from(section.sh_link(endian)), 4),
        (0x2c, u64::from(section.sh_info(endian)), 4),
        (0x30, section.sh_addralign(endian), 8),
        (0x38, section.sh_entsize(endian), 8),
    ];
    for (at, word, size) in words {
        header[at..at + size].copy_from_slice(&word.to_le_bytes()[..size]);
    }
    header
}
