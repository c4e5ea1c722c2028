//! Machine code of functions: their bytes, start and end.
//!
//! ```text
//!  file of a program     segments of the file
//!  kernel                /proc/kcore: as it is now, patched places too; else vmlinux
//! ```

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use object::Architecture;
use object::read::{Object as _, ObjectSegment as _};
use pmuscope_machine::Machine;

use crate::image::{Image, Segments, of_io};
use crate::kallsyms::Kallsyms;
use crate::locate::Locator;
use crate::table::SymbolTable;
use crate::{Module, ModuleFile, Sources, State, file, kernel};

/// More than this is no function but a missing symbol, bytes.
const LARGEST: u64 = 4 << 20;
/// The kernel's memory as an ELF file.
const KCORE: &str = "/proc/kcore";
/// Its headers are smaller, bytes.
const KCORE_HEADERS: usize = 1 << 20;

/// Where a header of ELF64 says where section headers are, and how many.
const SECTION_FIELDS: [Range<usize>; 2] = [40..48, 60..64];

/// The code of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Where it begins, as the recording counts addresses of its module.
    pub start: u64,
    /// Where it begins, as the file's symbol table counts; `objdump -d` prints these.
    pub address: u64,
    /// The code.
    pub bytes: Vec<u8>,
    /// The architecture that executes it.
    pub architecture: Architecture,
    /// The file that it is from.
    pub path: PathBuf,
}

impl Code {
    /// The architecture as uname(1) names the machine; `unknown` of others than those that can be disassembled.
    #[must_use]
    pub fn machine(&self) -> &'static str {
        match self.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::I386 => "i686",
            Architecture::Aarch64 => "aarch64",
            Architecture::Arm => "arm",
            Architecture::Riscv64 => "riscv64",
            Architecture::PowerPc64 => "ppc64le",
            Architecture::S390x => "s390x",
            Architecture::LoongArch64 => "loongarch64",
            _ => "unknown",
        }
    }
}

/// Why there is no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCode {
    /// The module's file is not available.
    #[error("its file is not available")]
    File(State),
    /// Neither the kernel's memory nor its image can be read; the reason for the former.
    #[error("/proc/kcore: {0}")]
    Kernel(String),
    /// A JIT runtime generated it, and left only names.
    #[error("a JIT runtime generated it in memory, and no file contains it")]
    InMemory,
    /// No symbol table says where functions begin and end.
    #[error("no symbol table gives its start and end")]
    NoRange,
    /// The size in bytes that its symbol has.
    #[error("its symbol claims a size of {0} bytes")]
    TooLarge(u64),
}

/// The functions at `addresses`, each once, in order; addresses outside of all are left out.
pub(crate) fn at(
    sources: &Sources,
    module: &Module<'_>,
    addresses: &[u64],
) -> Result<Vec<Code>, NoCode> {
    let locator = Locator::new(sources);
    let found = match module {
        Module::File(file) => {
            let (image, debug) = with_symbols(&locator, *file)?;
            in_image(&image, debug.as_ref(), addresses)?
        }
        Module::Vdso => in_image(&file::vdso().map_err(NoCode::File)?, None, addresses)?,
        Module::Kernel => in_kernel(&locator, addresses)?,
        Module::Jit { .. } => return Err(NoCode::InMemory),
    };
    if found.is_empty() { Err(NoCode::NoRange) } else { Ok(found) }
}

/// For each of `addresses`, where the function there begins and ends, as the recording counts addresses of its module;
/// `None` outside of all.
pub(crate) fn ranges_at(
    sources: &Sources,
    module: &Module<'_>,
    addresses: &[u64],
) -> Result<Vec<Option<Range<u64>>>, NoCode> {
    let locator = Locator::new(sources);
    match module {
        Module::File(file) => {
            let (image, debug) = with_symbols(&locator, *file)?;
            ranges_in_image(&image, debug.as_ref(), addresses)
        }
        Module::Vdso => ranges_in_image(&file::vdso().map_err(NoCode::File)?, None, addresses),
        Module::Kernel => {
            let kallsyms = Kallsyms::of_running().map_err(|error| NoCode::File(of_io(&error)))?;
            Ok(addresses.iter().map(|&address| kallsyms.range(address)).collect())
        }
        Module::Jit { .. } => Err(NoCode::InMemory),
    }
}

/// The file that ran, and the file that has its symbol table where it was stripped.
fn with_symbols(
    locator: &Locator<'_>,
    file: ModuleFile<'_>,
) -> Result<(Image, Option<Image>), NoCode> {
    let image = locator.file(file).map_err(NoCode::File)?;
    let own_id = image.build_id();
    let debug =
        locator.debug_file(&image, file.build_id.or(own_id.as_ref()), |file| file.has(".symtab"));
    Ok((image, debug.image))
}

fn ranges_in_image(
    image: &Image,
    separate: Option<&Image>,
    offsets: &[u64],
) -> Result<Vec<Option<Range<u64>>>, NoCode> {
    let segments = image.segments();
    with_tables(image, separate, |_, range| {
        let one = |&offset: &u64| {
            let found = range(segments.address(offset)?)?;
            let start = segments.offset(found.start)?;
            Some(start..start.checked_add(found.end - found.start)?)
        };
        Ok(offsets.iter().map(one).collect())
    })
}

/// Calls `with` with the file and what finds the function at one of its addresses.
fn with_tables<T>(
    image: &Image,
    separate: Option<&Image>,
    with: impl FnOnce(&object::File<'_>, &dyn Fn(u64) -> Option<Range<u64>>) -> Result<T, NoCode>,
) -> Result<T, NoCode> {
    let elf = image.elf().map_err(NoCode::File)?;
    let mini = image.debugdata();
    let other = separate.or(mini.as_ref()).and_then(|other| other.elf().ok());
    let tables = [
        SymbolTable::of_symtab(&elf),
        other.as_ref().map(SymbolTable::of_symtab).unwrap_or_default(),
        SymbolTable::of_dynsym(&elf),
    ];
    with(&elf, &|address| tables.iter().find_map(|table| table.range(address)))
}

/// Distinct ranges that hold one of `addresses`, in order.
fn ranges(
    addresses: impl Iterator<Item = u64>,
    of: impl Fn(u64) -> Option<Range<u64>>,
) -> Result<Vec<Range<u64>>, NoCode> {
    let mut found: Vec<Range<u64>> = addresses.filter_map(of).collect();
    found.sort_unstable_by_key(|range| (range.start, range.end));
    found.dedup();
    match found.iter().map(|range| range.end - range.start).find(|&bytes| bytes > LARGEST) {
        Some(bytes) => Err(NoCode::TooLarge(bytes)),
        None => Ok(found),
    }
}

/// Functions of `image`; `separate` has its symbol table where it was stripped.
fn in_image(image: &Image, separate: Option<&Image>, offsets: &[u64]) -> Result<Vec<Code>, NoCode> {
    let segments = image.segments();
    with_tables(image, separate, |elf, range| {
        let addresses = offsets.iter().filter_map(|&offset| segments.address(offset));
        let code = |range: &Range<u64>| code(image, elf, &segments, range);
        Ok(ranges(addresses, range)?.iter().filter_map(code).collect())
    })
}

fn code(
    image: &Image,
    elf: &object::File<'_>,
    segments: &Segments,
    range: &Range<u64>,
) -> Option<Code> {
    let start = segments.offset(range.start)?;
    let from = usize::try_from(start).ok()?;
    let bytes = image.bytes().get(from..from.checked_add((range.end - range.start) as usize)?)?;
    Some(Code {
        start,
        address: range.start,
        bytes: bytes.to_vec(),
        architecture: elf.architecture(),
        path: image.path().to_path_buf(),
    })
}

/// Functions of the running kernel and its modules.
fn in_kernel(locator: &Locator<'_>, addresses: &[u64]) -> Result<Vec<Code>, NoCode> {
    let kallsyms = Kallsyms::of_running().map_err(|error| NoCode::File(of_io(&error)))?;
    if !kallsyms.are_visible() {
        return Err(NoCode::File(State::KernelHidden));
    }
    let ranges = ranges(addresses.iter().copied(), |address| kallsyms.range(address))?;
    let of_memory = CodeBytes::open(Path::new(KCORE));
    if let Ok(memory) = &of_memory {
        return Ok(ranges.iter().filter_map(|range| memory.code(range)).collect());
    }
    let id = Machine::host().kernel_build_id().and_then(|id| crate::BuildId::new(&id).ok());
    let linked = id.and_then(|id| kernel::linked(locator, &kallsyms, &id).0);
    match (linked, of_memory) {
        (Some((image, moved)), _) => {
            let elf = image.elf().map_err(NoCode::File)?;
            let segments = image.segments();
            let one = |range: &Range<u64>| {
                let there = range.start.wrapping_sub(moved)..range.end.wrapping_sub(moved);
                let code = code(&image, &elf, &segments, &there)?;
                Some(Code { start: range.start, address: range.start, ..code })
            };
            Ok(ranges.iter().filter_map(one).collect())
        }
        (None, Err(error)) => Err(NoCode::Kernel(error.to_string())),
        (None, Ok(_)) => Ok(Vec::new()),
    }
}

/// Memory as an ELF file that cannot be mapped.
struct CodeBytes {
    file: File,
    path: PathBuf,
    architecture: Architecture,
    /// Address, size, offset in the file.
    segments: Vec<(u64, u64, u64)>,
}

impl CodeBytes {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut headers = vec![0; KCORE_HEADERS];
        let read = file.read_at(&mut headers, 0)?;
        headers.truncate(read);
        // Segments are all that counts; where a file has sections, they lie beyond what was read.
        for fields in SECTION_FIELDS {
            headers.get_mut(fields).unwrap_or_default().fill(0);
        }
        let elf = object::File::parse(&*headers).map_err(io::Error::other)?;
        let segments = elf.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (segment.address(), size, offset)
        });
        let (architecture, segments) = (elf.architecture(), segments.collect());
        Ok(Self { file, path: path.to_path_buf(), architecture, segments })
    }

    fn code(&self, range: &Range<u64>) -> Option<Code> {
        let inside = |(start, size, _): &&(u64, u64, u64)| {
            range.start >= *start && range.end - start <= *size
        };
        let (start, _, offset) = self.segments.iter().find(inside)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file.read_exact_at(&mut bytes, offset.checked_add(range.start - start)?).ok()?;
        Some(Code {
            start: range.start,
            address: range.start,
            bytes,
            architecture: self.architecture,
            path: self.path.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Symbolizer};

    /// Addresses of a function of this very program: where it is in memory, and in its file.
    fn own() -> (PathBuf, u64) {
        let here = own as fn() -> (PathBuf, u64) as usize as u64;
        let mappings = Machine::host().mappings(std::process::id()).unwrap();
        let mapping = mappings.iter().find(|one| (one.start..one.end).contains(&here)).unwrap();
        let path = std::env::current_exe().unwrap();
        (path, here - mapping.start + mapping.offset)
    }

    #[test]
    fn a_function_of_a_file_has_the_bytes_that_are_in_memory() {
        let (path, offset) = own();
        let module = Module::file(&path, None);
        let symbolizer = Symbolizer::new(Options { inlined: false });
        let found = symbolizer.code(&module, &[offset + 1, offset + 3, u64::MAX]).unwrap();
        let [code] = &found[..] else { panic!("{found:?}") };
        assert_eq!((code.start, &code.path), (offset, &path));
        let mut memory = vec![0; code.bytes.len()];
        let here = own as fn() -> (PathBuf, u64) as usize as u64;
        File::open("/proc/self/mem").unwrap().read_exact_at(&mut memory, here).unwrap();
        assert_eq!(code.bytes, memory);
        let ranges = symbolizer.function_ranges(&module, &[offset + 1, u64::MAX]).unwrap();
        assert_eq!(ranges, [Some(offset..offset + code.bytes.len() as u64), None]);
        assert_eq!(symbolizer.code(&module, &[u64::MAX]), Err(NoCode::NoRange));
        let gone = Module::file(Path::new("/nowhere"), None);
        assert_eq!(symbolizer.code(&gone, &[1]), Err(NoCode::File(State::FileMissing)));
        assert_eq!(
            symbolizer.code(&Module::Jit { pid: 1, origin: None }, &[1]),
            Err(NoCode::InMemory)
        );
    }

    /// Our own program stands for the kernel's memory: an ELF file with addresses.
    #[test]
    fn memory_is_read_by_address_and_not_beyond_it() {
        let (path, _) = own();
        let memory = CodeBytes::open(&path).unwrap();
        let (start, size, offset) = memory.segments[0];
        let code = memory.code(&(start + 8..start + 24)).unwrap();
        let file = std::fs::read(&path).unwrap();
        let from = offset as usize + 8;
        assert_eq!((code.start, &code.bytes[..]), (start + 8, &file[from..from + 16]));
        assert_eq!(memory.code(&(start + size - 8..start + size + 8)), None);
        assert!(CodeBytes::open(Path::new("/proc/self/status")).is_err());
    }

    #[test]
    fn what_claims_too_much_is_refused() {
        let range = |address: u64| Some(0..if address == 1 { LARGEST } else { LARGEST + 1 });
        let found = ranges([1, 1].into_iter(), range).unwrap();
        assert_eq!((found.len(), found[0].end), (1, LARGEST));
        assert_eq!(ranges([1, 2].into_iter(), range), Err(NoCode::TooLarge(LARGEST + 1)));
    }
}
