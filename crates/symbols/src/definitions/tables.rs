//! Names in symbol tables.

use object::read::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol};
use object::{SectionFlags, SegmentFlags, SymbolKind, SymbolSection, elf};

use super::names::{Nearest, is_file};
use super::{Definitions, Segment};
use crate::demangle::Demangler;
use crate::image::Image;

/// What a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefinitionKind {
    Data,
    ThreadLocal,
    Code,
}

/// A symbol of the name asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// As it reads.
    pub(super) name: String,
    pub(super) address: u64,
    /// Bytes; 0: not known.
    pub(super) size: u64,
    /// The source file, of names that only one has.
    pub(super) file: Option<String>,
}

impl Found {
    /// What to type for it and no other.
    pub(super) fn qualified(&self) -> String {
        match &self.file {
            Some(file) => format!("{file}:{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Symbols called `name`, as they are or as they read: those with the whole name, else those whose
/// last parts it is. Global ones come before those of single files; of a place only one is there.
pub(super) fn find(
    of: &Definitions,
    name: &str,
    file: Option<&str>,
    kind: DefinitionKind,
) -> Vec<Found> {
    let name = name.trim_start_matches("::");
    let last = name.rsplit("::").next().unwrap_or(name);
    let mut demangler = Demangler::default();
    let mut whole: Vec<Found> = Vec::new();
    let mut parts: Vec<Found> = Vec::new();
    each(of, |symbol| {
        if symbol.kind != kind || file.is_some_and(|file| !symbol.is_of(file)) {
            return;
        }
        let mangled = symbol.raw.starts_with(b"_Z") || symbol.raw.starts_with(b"_R");
        let found = |reads: &str| Found {
            name: reads.to_owned(),
            address: symbol.address,
            size: symbol.size,
            file: symbol.file.map(|file| String::from_utf8_lossy(file).into_owned()),
        };
        if symbol.raw == name.as_bytes() {
            whole.push(found(name));
        } else if mangled && contains(symbol.raw, last.as_bytes()) {
            let reads = demangler.name(symbol.raw);
            match reads.strip_suffix(name) {
                Some("") => whole.push(found(&reads)),
                Some(before) if before.ends_with("::") => parts.push(found(&reads)),
                _ => {}
            }
        }
    });
    let mut found = if whole.is_empty() { parts } else { whole };
    if found.iter().any(|one| one.file.is_none()) {
        found.retain(|one| one.file.is_none());
    }
    found.sort_by_key(|one| (one.address, std::cmp::Reverse(one.size)));
    found.dedup_by_key(|one| one.address);
    found
}

/// Names like `name`.
pub(super) fn near(of: &Definitions, name: &str, kind: DefinitionKind) -> Vec<String> {
    let mut nearest = Nearest::new(name);
    offer(of, kind, &mut nearest);
    nearest.names()
}

pub(super) fn offer(of: &Definitions, kind: DefinitionKind, nearest: &mut Nearest<'_>) {
    let mut demangler = Demangler::default();
    each(of, |symbol| {
        if symbol.kind == kind {
            nearest.offer(&demangler.name(symbol.raw));
        }
    });
}

struct Symbol<'data> {
    raw: &'data [u8],
    address: u64,
    size: u64,
    kind: DefinitionKind,
    /// The source file, of local symbols.
    file: Option<&'data [u8]>,
}

impl Symbol<'_> {
    fn is_of(&self, file: &str) -> bool {
        self.file.is_some_and(|own| is_file(&String::from_utf8_lossy(own), basename(file)))
    }
}

/// Symbol tables keep no folders.
fn basename(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

/// Hands all symbols with a place to `take`; those that two tables have twice.
fn each(of: &Definitions, mut take: impl FnMut(&Symbol<'_>)) {
    let others = [of.separate.as_deref(), of.mini.as_ref()];
    for image in std::iter::once(&*of.image).chain(others.into_iter().flatten()) {
        let Ok(elf) = image.elf() else { continue };
        let code = executable_sections(&elf);
        let mut file = None;
        for symbol in elf.symbols() {
            if symbol.kind() == SymbolKind::File {
                file = symbol.name_bytes().ok();
            } else if let Some(symbol) = read(&symbol, &code, file) {
                take(&symbol);
            }
        }
        for symbol in elf.dynamic_symbols() {
            read(&symbol, &code, None).iter().for_each(&mut take);
        }
    }
}

/// By number of the section: whether it is code.
fn executable_sections(elf: &object::File<'_>) -> Vec<bool> {
    let mut code = Vec::new();
    for section in elf.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let index = section.index().0;
        code.resize(code.len().max(index + 1), false);
        code[index] = sh_flags.contains(elf::SHF_EXECINSTR);
    }
    code
}

fn read<'data>(
    symbol: &impl ObjectSymbol<'data>,
    code: &[bool],
    file: Option<&'data [u8]>,
) -> Option<Symbol<'data>> {
    let SymbolSection::Section(section) = symbol.section() else { return None };
    let is_code = *code.get(section.0)?;
    let kind = match symbol.kind() {
        SymbolKind::Text if is_code => DefinitionKind::Code,
        SymbolKind::Data if !is_code => DefinitionKind::Data,
        SymbolKind::Tls => DefinitionKind::ThreadLocal,
        SymbolKind::Unknown if is_code => DefinitionKind::Code,
        SymbolKind::Unknown => DefinitionKind::Data,
        _ => return None,
    };
    let raw = symbol.name_bytes().ok().filter(|raw| !raw.is_empty())?;
    let file = file.filter(|_| symbol.is_local());
    Some(Symbol { raw, address: symbol.address(), size: symbol.size(), kind, file })
}

/// Parts of a file that are mapped.
/// Where a thread-local variable of a program is, from the thread pointer; `offset` is that in the block of all of them, as
/// symbols have it. `None` on other machines, and without such a block.
///
/// The block of the program itself is next to what the thread pointer points to: below it on x86-64, above two words on
/// arm64 (U. Drepper, ELF Handling For Thread-Local Storage, variants II and I).
pub(super) fn from_thread_pointer(image: &Image, offset: u64) -> Option<u64> {
    let elf = image.elf().ok()?;
    let is_own = |section: &object::read::Section<'_, '_>| match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(elf::SHF_TLS),
        _ => false,
    };
    let sections: Vec<_> = elf.sections().filter(is_own).collect();
    let start = sections.iter().map(|section| section.address()).min()?;
    let end = sections.iter().map(|one| one.address().saturating_add(one.size())).max()?;
    let align = sections.iter().map(|section| section.align()).max()?.max(1);
    let size = (end - start).checked_next_multiple_of(align)?;
    match elf.architecture() {
        object::Architecture::X86_64 => Some(offset.wrapping_sub(size)),
        object::Architecture::Aarch64 => {
            Some(offset.wrapping_add(16_u64.checked_next_multiple_of(align)?))
        }
        _ => None,
    }
}

pub(super) fn segments(image: &Image) -> Vec<Segment> {
    let Ok(elf) = image.elf() else { return Vec::new() };
    elf.segments()
        .map(|segment| Segment {
            address: segment.address(),
            size: segment.size(),
            offset: segment.file_range().0,
            executable: matches!(
                segment.flags(),
                SegmentFlags::Elf { p_flags, .. } if p_flags.contains(elf::PF_X)
            ),
        })
        .collect()
}
