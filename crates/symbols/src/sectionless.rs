//! Section headers for programs and libraries that have none (sstrip, packers), since running needs none.
//!
//! ```text
//!  PT_DYNAMIC       DT_SYMTAB, DT_STRTAB ─► .dynsym, .dynstr; the number of symbols by DT_HASH or DT_GNU_HASH
//!  PT_GNU_EH_FRAME  ─► .eh_frame_hdr, and .eh_frame where that points
//!  PT_INTERP        ─► .interp
//!  PT_NOTE          ─► .note, which may have the build ID
//!  PT_LOAD          ─► .text, .data
//! ```
//!
//! They are appended to a copy of the file, whose bytes keep their offsets, so everything else reads it as any other file.
//! Sources: the ELF part of the System V ABI, and the Linux Standard Base on `.eh_frame_hdr` and `PT_GNU_EH_FRAME`.

use object::read::elf::{Dyn as _, FileHeader, GnuHashTable, ProgramHeader as _, Sym as _};
use object::{Endianness, FileKind, U32, elf};

/// Larger files are not copied, bytes.
const LARGEST: usize = 256 << 20;
/// Programs have some ten segments.
const MOST_SEGMENTS: usize = 64;
/// Where `.eh_frame` is, in four bytes relative to themselves: the form that all linkers write.
const RELATIVE_FRAMES: [u8; 2] = [1, 0x1b];
const NAMES: &[u8] =
    b"\0.text\0.data\0.dynsym\0.dynstr\0.eh_frame_hdr\0.eh_frame\0.interp\0.note\0.shstrtab\0";

/// A copy of an ELF file of a program or library with section headers; `None` if it has some, or is no such file.
pub(crate) fn with_section_headers(bytes: &[u8]) -> Option<Vec<u8>> {
    match FileKind::parse(bytes).ok()? {
        FileKind::Elf64 => completed::<elf::FileHeader64<Endianness>>(bytes),
        FileKind::Elf32 => completed::<elf::FileHeader32<Endianness>>(bytes),
        _ => None,
    }
}

fn completed<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<Vec<u8>> {
    let file = HeaderlessProgram::<Elf>::of(bytes)?;
    let mut out = CompletedFile::copy_of(bytes, &file);
    let mut sections = vec![NewSection::default()];
    sections.extend(file.segments.iter().map(LoadSegment::section));
    out.add_symbols(&file, &mut sections);
    sections.extend(file.frames().into_iter().flatten());
    sections.extend(file.interpreter());
    sections.extend(file.notes());
    let (offset, size) = (out.bytes.len() as u64, NAMES.len() as u64);
    out.bytes.extend(NAMES);
    let kind = elf::SHT_STRTAB.0;
    sections.push(NewSection { name: ".shstrtab", kind, offset, size, ..NewSection::default() });
    out.add_headers(&sections);
    Some(out.bytes)
}

/// A part of the file that is mapped.
struct LoadSegment {
    offset: u64,
    /// In the file, bytes.
    size: u64,
    address: u64,
    /// In memory, bytes: no less than in the file.
    memory: u64,
    is_code: bool,
}

impl LoadSegment {
    /// Offset in the file of an address, and how much of the segment follows in the file.
    fn place(&self, address: u64) -> Option<(u64, u64)> {
        let inside = address.checked_sub(self.address).filter(|inside| *inside < self.size)?;
        Some((self.offset + inside, self.size - inside))
    }

    /// Data in memory go on beyond what the file has of them.
    fn section(&self) -> NewSection {
        let &Self { offset, address, .. } = self;
        let alloc = elf::SHF_ALLOC.0;
        let (name, kind, flags, size) = match self.is_code {
            true => (".text", elf::SHT_PROGBITS.0, alloc | elf::SHF_EXECINSTR.0, self.size),
            false => (".data", elf::SHT_NOBITS.0, alloc | elf::SHF_WRITE.0, self.memory),
        };
        NewSection { name, kind, flags, address, offset, size, ..NewSection::default() }
    }
}

/// A section header to be.
#[derive(Default)]
struct NewSection {
    name: &'static str,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: usize,
    align: u64,
    entry: u64,
}

/// Program headers of a file without section headers.
struct HeaderlessProgram<'a, Elf: FileHeader<Endian = Endianness>> {
    bytes: &'a [u8],
    endian: Endianness,
    headers: &'a [Elf::ProgramHeader],
    segments: Vec<LoadSegment>,
}

impl<'a, Elf: FileHeader<Endian = Endianness>> HeaderlessProgram<'a, Elf> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let header = Elf::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        if bytes.len() > LARGEST || !matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN) {
            return None;
        }
        let has_sections = header.section_headers(endian, bytes).map(|all| !all.is_empty());
        let headers = header.program_headers(endian, bytes).ok()?;
        let loads = headers.iter().filter(|one| one.p_type(endian) == elf::PT_LOAD);
        let segment = |one: &Elf::ProgramHeader| {
            let (offset, size) = one.file_range(endian);
            let is_code = one.p_flags(endian).contains(elf::PF_X);
            let memory = size.max(one.p_memsz(endian).into());
            LoadSegment { offset, size, address: one.p_vaddr(endian).into(), memory, is_code }
        };
        let segments: Vec<LoadSegment> = loads.take(MOST_SEGMENTS).map(segment).collect();
        let is_whole = |one: &LoadSegment| {
            one.offset.checked_add(one.size).is_some_and(|end| end <= bytes.len() as u64)
        };
        let has_code = segments.iter().any(|one| one.is_code && one.size > 0);
        // Headers that point beyond the end were cut off, if all that is mapped is there.
        let lacks = matches!(has_sections, Ok(false) | Err(_));
        (lacks && has_code && segments.iter().all(is_whole)).then_some(Self {
            bytes,
            endian,
            headers,
            segments,
        })
    }

    fn is_64() -> bool {
        size_of::<Elf::Word>() == 8
    }

    fn place(&self, address: u64) -> Option<(u64, u64)> {
        self.segments.iter().find_map(|one| one.place(address))
    }

    /// The file's bytes from an address on, to the end of the segment.
    fn at(&self, address: u64) -> Option<&'a [u8]> {
        let (offset, size) = self.place(address)?;
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    }

    /// Value of an entry of `PT_DYNAMIC`.
    fn dynamic(&self, wanted: elf::DynamicTag) -> Option<u64> {
        let all = |one: &Elf::ProgramHeader| one.dynamic(self.endian, self.bytes).ok().flatten();
        let entries = self.headers.iter().find_map(all)?;
        let in_use = entries.iter().take_while(|one| one.tag(self.endian) != elf::DT_NULL);
        in_use.clone().find(|one| one.tag(self.endian) == wanted).map(|one| one.val(self.endian))
    }

    /// The table of exported and imported symbols.
    fn symbols(&self) -> Option<&'a [Elf::Sym]> {
        let start = self.dynamic(elf::DT_SYMTAB)?;
        let table = self.at(start)?;
        let entry = size_of::<Elf::Sym>();
        let number = self.number_of_symbols(start, entry as u64)?;
        let number = usize::try_from(number).ok()?.min(table.len() / entry);
        object::slice_from_bytes(table, number).ok().map(|(symbols, _)| symbols)
    }

    /// Its length, which is said by nothing but the tables that lead to it.
    fn number_of_symbols(&self, start: u64, entry: u64) -> Option<u64> {
        let all = || {
            let table = self.at(self.dynamic(elf::DT_HASH)?)?;
            let number: &U32<Endianness> = object::from_bytes(table.get(4..)?).ok()?.0;
            Some(u64::from(number.get(self.endian)))
        };
        let exported = || {
            let table = self.at(self.dynamic(elf::DT_GNU_HASH)?)?;
            let table = GnuHashTable::<Elf>::parse(self.endian, table).ok()?;
            table.symbol_table_length(self.endian).map(u64::from)
        };
        // Linkers write names right after the symbols.
        let up_to_names = || Some(self.dynamic(elf::DT_STRTAB)?.checked_sub(start)? / entry);
        all().or_else(exported).or_else(up_to_names)
    }

    /// Number of the section that an address is in: that of its segment.
    fn section_of(&self, address: u64) -> Option<u16> {
        let holds = |one: &LoadSegment| {
            address.checked_sub(one.address).is_some_and(|inside| inside < one.memory)
        };
        self.segments.iter().position(holds).and_then(|at| u16::try_from(at + 1).ok())
    }

    /// The tables for unwinding.
    fn frames(&self) -> Option<[NewSection; 2]> {
        let is_it = |one: &&Elf::ProgramHeader| one.p_type(self.endian) == elf::PT_GNU_EH_FRAME;
        let header = self.headers.iter().find(is_it)?;
        let start = header.p_vaddr(self.endian).into();
        let bytes = self.at(start)?;
        if bytes.get(..2)? != RELATIVE_FRAMES {
            return None;
        }
        let distance: &U32<Endianness> = object::from_bytes(bytes.get(4..)?).ok()?.0;
        let distance = distance.get(self.endian).cast_signed();
        let frames = start.wrapping_add(4).wrapping_add_signed(i64::from(distance));
        let size = header.p_filesz(self.endian).into();
        Some([self.read_only(".eh_frame_hdr", start, size)?, {
            // An empty entry marks its end.
            self.read_only(".eh_frame", frames, u64::MAX)?
        }])
    }

    fn interpreter(&self) -> Option<NewSection> {
        let is_it = |one: &&Elf::ProgramHeader| one.p_type(self.endian) == elf::PT_INTERP;
        let header = self.headers.iter().find(is_it)?;
        let size = header.p_filesz(self.endian).into();
        self.read_only(".interp", header.p_vaddr(self.endian).into(), size)
    }

    fn notes(&self) -> impl Iterator<Item = NewSection> {
        let notes = self.headers.iter().filter(|one| one.p_type(self.endian) == elf::PT_NOTE);
        notes.take(MOST_SEGMENTS).filter_map(|one| {
            let (address, size) = (one.p_vaddr(self.endian).into(), one.p_filesz(self.endian));
            let (align, kind) = (one.p_align(self.endian).into(), elf::SHT_NOTE.0);
            let note = self.read_only(".note", address, size.into())?;
            Some(NewSection { kind, align, ..note })
        })
    }

    /// A section at an address, as large as its segment allows.
    fn read_only(&self, name: &'static str, address: u64, size: u64) -> Option<NewSection> {
        let (offset, left) = self.place(address)?;
        let (kind, flags) = (elf::SHT_PROGBITS.0, elf::SHF_ALLOC.0);
        let size = size.min(left);
        Some(NewSection { name, kind, flags, address, offset, size, ..NewSection::default() })
    }
}

/// The file to be.
struct CompletedFile {
    bytes: Vec<u8>,
    endian: Endianness,
    is_64: bool,
}

impl CompletedFile {
    fn copy_of<Elf: FileHeader<Endian = Endianness>>(
        bytes: &[u8],
        file: &HeaderlessProgram<'_, Elf>,
    ) -> Self {
        let mut out = Self {
            bytes: bytes.to_vec(),
            endian: file.endian,
            is_64: HeaderlessProgram::<Elf>::is_64(),
        };
        out.align();
        out
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Appends the symbols, whose numbers of sections become those of the new ones.
    fn add_symbols<Elf: FileHeader<Endian = Endianness>>(
        &mut self,
        file: &HeaderlessProgram<'_, Elf>,
        sections: &mut Vec<NewSection>,
    ) -> Option<()> {
        let names = file.dynamic(elf::DT_STRTAB)?;
        let (symbols, length) = (file.symbols()?, file.dynamic(elf::DT_STRSZ)?);
        let names = file.read_only(".dynstr", names, length)?;
        let (offset, entry) = (self.bytes.len() as u64, size_of::<Elf::Sym>());
        // `st_shndx`, two bytes.
        let number_at = if self.is_64 { 6 } else { 14 };
        for symbol in symbols {
            let at = self.bytes.len() + number_at;
            self.bytes.extend(object::bytes_of(symbol));
            let is_defined = !symbol.is_undefined(file.endian) && !symbol.is_absolute(file.endian);
            if is_defined {
                let section = file.section_of(symbol.st_value(file.endian).into());
                let section = section.unwrap_or(elf::SHN_ABS.0);
                self.set(at, u64::from(section), 2);
            }
        }
        let (address, size) = (file.dynamic(elf::DT_SYMTAB)?, (symbols.len() * entry) as u64);
        sections.push(NewSection {
            name: ".dynsym",
            kind: elf::SHT_DYNSYM.0,
            flags: elf::SHF_ALLOC.0,
            link: sections.len() + 1,
            entry: entry as u64,
            align: 8,
            address,
            offset,
            size,
        });
        sections.push(NewSection { kind: elf::SHT_STRTAB.0, ..names });
        Some(())
    }

    /// Appends the headers of all sections, the last of which has their names, and says where they are.
    fn add_headers(&mut self, sections: &[NewSection]) {
        self.align();
        let start = self.bytes.len() as u64;
        let word = if self.is_64 { 8 } else { 4 };
        for section in sections {
            let name = [b"\0", section.name.as_bytes(), b"\0"].concat();
            let name = NAMES.windows(name.len()).position(|part| part == name);
            let name = name.map_or(0, |at| at as u64 + 1);
            let link = section.link as u64;
            for (value, size) in [
                (name, 4),
                (u64::from(section.kind), 4),
                (section.flags, word),
                (section.address, word),
                (section.offset, word),
                (section.size, word),
                (link, 4),
                (0, 4),
                (section.align.max(1), word),
                (section.entry, word),
            ] {
                self.bytes.extend(self.encoded(value, size).iter().take(size));
            }
        }
        let header = if self.is_64 { 64 } else { 40 };
        let number = sections.len() as u64;
        // `e_shoff`; `e_shentsize`, `e_shnum` and `e_shstrndx`.
        let (offset_at, sizes_at) = if self.is_64 { (0x28, 0x3a) } else { (0x20, 0x2e) };
        self.set(offset_at, start, word);
        for (at, value) in [(0, header), (2, number), (4, number - 1)] {
            self.set(sizes_at + at, value, 2);
        }
    }

    /// The first `size` bytes of it are the number.
    fn encoded(&self, value: u64, size: usize) -> [u8; 8] {
        let mut bytes = value.to_le_bytes();
        if self.endian == Endianness::Big {
            bytes[..size].reverse();
        }
        bytes
    }

    fn set(&mut self, at: usize, value: u64, size: usize) {
        let bytes = self.encoded(value, size);
        if let Some(part) = self.bytes.get_mut(at..at + size) {
            part.copy_from_slice(&bytes[..size]);
        }
    }
}
