//! Symbols of files, and of the vdso, which is a file in memory.

use std::path::Path;

use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized};
use blazesym::{ErrorKind, Pid};
use pmuscope_machine::Machine;

use crate::symbol::Names;
use crate::{BuildId, Frame, Line, State, Symbol, Symbolizer, read_build_id};

type Found = Result<Vec<Option<Symbol>>, State>;

impl Symbolizer {
    pub(crate) fn file(
        &mut self,
        path: &Path,
        recorded: Option<&BuildId>,
        addresses: &[u64],
    ) -> Found {
        check_file(path)?;
        check_build(path, recorded)?;
        let Self { blaze, options, names } = self;
        let mut look_up = |debug_syms: bool, addresses: &[u64]| {
            let mut elf = Elf::new(path);
            elf.debug_syms = debug_syms;
            blaze
                .symbolize(&Source::Elf(elf), Input::FileOffset(addresses))
                .map(|found| found.into_iter().map(|one| symbol(one, names)).collect::<Vec<_>>())
        };
        // The symbol table has the names that other tools show (clones, Fortran's underscores);
        // debug information has inlined functions and lines, and names where the table is stripped.
        let mut symbols = look_up(false, addresses).map_err(|error| unreadable(&error))?;
        // The table of a stripped file still has what it exports; the rest may be in a separate file.
        let deeper: Vec<usize> =
            (0..addresses.len()).filter(|&at| options.inlined || symbols[at].is_none()).collect();
        let wanted: Vec<u64> = deeper.iter().map(|&at| addresses[at]).collect();
        // Damaged debug information does not spoil the symbol table.
        let from_debug = if wanted.is_empty() { Ok(Vec::new()) } else { look_up(true, &wanted) };
        for (at, found) in deeper.into_iter().zip(from_debug.unwrap_or_default()) {
            match (&mut symbols[at], found) {
                (Some(symbol), Some(found)) => {
                    symbol.line = found.line;
                    symbol.inlined = found.inlined;
                }
                (none @ None, found) => *none = found,
                (Some(_), None) => {}
            }
        }
        Ok(symbols)
    }

    /// Our own vdso: with the same kernel it is the one of every process.
    pub(crate) fn vdso(&mut self, addresses: &[u64]) -> Found {
        let mappings = Machine::host()
            .mappings(std::process::id())
            .map_err(|error| State::Unreadable(error.to_string()))?;
        let start = mappings
            .iter()
            .find(|mapping| mapping.path == b"[vdso]")
            .map(|mapping| mapping.start)
            .ok_or(State::FileMissing)?;
        let absolute: Vec<u64> = addresses.iter().map(|at| start.saturating_add(*at)).collect();
        let mut process = Process::new(Pid::Slf);
        (process.map_files, process.perf_map, process.debug_syms) = (false, false, false);
        let found = self
            .blaze
            .symbolize(&Source::Process(process), Input::AbsAddr(&absolute))
            .map_err(|error| unreadable(&error))?;
        Ok(found.into_iter().map(|one| symbol(one, &mut self.names)).collect())
    }
}

/// Only a regular file is opened: a recording can name a pipe, which would block, or a device.
fn check_file(path: &Path) -> Result<(), State> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(State::Unreadable("it is not a regular file".into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(State::FileMissing),
        Err(error) => Err(State::Unreadable(error.to_string())),
    }
}

/// It must be an ELF file, and the one that was recorded, if that is known.
fn check_build(path: &Path, recorded: Option<&BuildId>) -> Result<(), State> {
    let file = read_build_id(path).map_err(|error| match error {
        crate::Error::Elf { source, .. } => unreadable(&source),
        other => State::Unreadable(other.to_string()),
    })?;
    match (recorded, &file) {
        (None, _) => Ok(()),
        (Some(recorded), Some(found)) if found.same_build(recorded) => Ok(()),
        (Some(recorded), _) => Err(State::BuildIdDiffers { recorded: recorded.clone(), file }),
    }
}

fn unreadable(error: &blazesym::Error) -> State {
    match error.kind() {
        ErrorKind::NotFound => State::FileMissing,
        _ => State::Unreadable(error.to_string()),
    }
}

pub(crate) fn symbol(found: Symbolized<'_>, names: &mut Names) -> Option<Symbol> {
    let Sym { name, code_info, inlined, .. } = found.into_sym()?;
    if name.is_empty() {
        return None;
    }
    let name = names.intern(&name);
    let line = code_info.map(|code| line_of(&code, names));
    let inlined = inlined
        .iter()
        .map(|frame| Frame {
            name: names.intern(&frame.name),
            line: frame.code_info.as_ref().map(|code| line_of(code, names)),
        })
        .collect();
    Some(Symbol { name, line, inlined })
}

fn line_of(code: &CodeInfo<'_>, names: &mut Names) -> Line {
    Line { file: names.path(&code.to_path()), number: code.line }
}
