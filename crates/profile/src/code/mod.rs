//! Questions of other programs about the code of a recording's modules: names of addresses, source, instructions.
//!
//! ```text
//!  (name, id, address) ─► module of the recording ─► Symbolizer ─► names, lines, inlined functions
//!                         none other                            ├─► source: a file that the address names
//!                                                               └─► instructions, by objdump
//! ```
//!
//! Modules are named as the Firefox export names its libraries: the last part of the path, and the build ID in
//! Breakpad's form ([`crate::export::firefox`]). Addresses are those of the export too.

pub mod symbol_api;

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pmuscope_symbols::{
    DisassembleError, KernelMatch, Line, NoCode, SourceError, Symbol, Symbolizer,
};
use rustc_hash::FxHashMap;

use crate::export::FunctionRanges;
use crate::export::firefox::breakpad_id;
use crate::profile::{ModuleSummary, Profile};
use crate::timeline::modules::ModuleKind;
use crate::views::annotation::listing;

/// More code is not disassembled at once, bytes.
const MOST_CODE: u64 = 1 << 20;

/// Answers about the code of a recording's modules.
#[derive(Debug)]
pub struct CodeQueries {
    modules: Vec<ModuleSummary>,
    /// By name and id; `None` where several modules have both.
    by_name: FxHashMap<(String, String), Option<usize>>,
    kernel: KernelMatch,
    symbolizer: Symbolizer,
    objdump: OsString,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// The recording has no such module, or several that nothing distinguishes.
    #[error("the recording has no module {0} with this ID")]
    Module(String),
    /// Its addresses are not those of a file.
    #[error("{0} is not a file: its addresses are answered only in the exported profile")]
    NoFile(String),
    /// Debug information has another file at that address, or none.
    #[error("debug information does not name {0} at this address")]
    NotNamed(String),
    /// The source file cannot be read.
    #[error("{file}: {error}")]
    Source {
        /// Its path. Foreign text.
        file: String,
        /// Why.
        error: SourceError,
    },
    /// The code is not available.
    #[error("no code: {0}")]
    Code(#[from] NoCode),
    /// It cannot be disassembled.
    #[error("no instructions: {0}. Try: apt install binutils")]
    Disassembler(#[from] DisassembleError),
}

/// The function at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolAt {
    /// Its name, line, and functions that were inlined there.
    pub symbol: Arc<Symbol>,
    /// Where it begins and ends; `None` where symbol tables have only its name.
    pub range: Option<Range<u64>>,
}

/// Instructions from an address on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disassembly {
    /// The architecture, as uname(1) names it.
    pub arch: &'static str,
    /// Bytes that they take.
    pub bytes: u64,
    /// How far each is from the first, bytes, and its text. Foreign text.
    pub instructions: Vec<(u64, String)>,
}

/// Which instructions are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeExtent {
    /// Where they begin, as the module counts addresses.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// They go on to the end of the function, however many bytes that are.
    pub whole_function: bool,
}

impl CodeQueries {
    /// Answers about modules of `profile`, with names by `symbolizer` and instructions by `objdump`, a program's name
    /// or path.
    #[must_use]
    pub fn new(profile: &Profile, symbolizer: Symbolizer, objdump: OsString) -> Self {
        let mut by_name = FxHashMap::default();
        for (at, module) in profile.modules.iter().enumerate() {
            let of_this_name = by_name.entry(name_of(module)).or_insert(Some(at));
            if *of_this_name != Some(at) {
                *of_this_name = None;
            }
        }
        let modules = profile.modules.clone();
        Self { modules, by_name, kernel: profile.kernel, symbolizer, objdump }
    }

    /// Where functions of the export begin and end.
    #[must_use]
    pub fn function_ranges(&self, profile: &Profile) -> FunctionRanges {
        FunctionRanges::new(profile, &self.symbolizer)
    }

    /// The function at each of `addresses` of the module with that name and id; `None` where there is none.
    ///
    /// # Errors
    /// If the recording has no such module.
    pub fn symbols(
        &mut self,
        name: &str,
        id: &str,
        addresses: &[u64],
    ) -> Result<Vec<Option<SymbolAt>>, NoAnswer> {
        let at = self.file(name, id)?;
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let module = self.modules[at].source();
        let module = module.ok_or_else(|| NoAnswer::NoFile(name.to_owned()))?;
        let symbols = self.symbolizer.resolve(&module, &sorted).symbols;
        let ranges = self.symbolizer.function_ranges(&module, &sorted);
        let ranges = ranges.unwrap_or_else(|_| vec![None; sorted.len()]);
        let answer = |address: &u64| {
            let at = sorted.binary_search(address).ok()?;
            Some(SymbolAt { symbol: symbols[at].clone()?, range: ranges[at].clone() })
        };
        Ok(addresses.iter().map(answer).collect())
    }

    /// The text of a source file that debug information names at `address`, and no other file.
    ///
    /// # Errors
    /// If it names none of this path there, or the file is not where its path says.
    pub fn source(
        &mut self,
        (name, id): (&str, &str),
        address: u64,
        file: &str,
    ) -> Result<String, NoAnswer> {
        let found = self.symbols(name, id, &[address])?.pop().flatten();
        let is_it = |line: &Option<Line>| line.as_ref().is_some_and(|line| *line.file == *file);
        let is_named = found.is_some_and(|SymbolAt { symbol, .. }| {
            is_it(&symbol.line) || symbol.inlined.iter().any(|frame| is_it(&frame.line))
        });
        if !is_named {
            return Err(NoAnswer::NotNamed(file.to_owned()));
        }
        let failed = |error| NoAnswer::Source { file: file.to_owned(), error };
        self.symbolizer.source_in_place(Path::new(file)).map_err(failed)
    }

    /// Instructions of the module with that name and id.
    ///
    /// # Errors
    /// If its file or objdump is not there, or no function is at that address.
    pub fn instructions(
        &mut self,
        (name, id): (&str, &str),
        extent: CodeExtent,
    ) -> Result<Disassembly, NoAnswer> {
        let at = self.file(name, id)?;
        let module = self.modules[at].source();
        let module = module.ok_or_else(|| NoAnswer::NoFile(name.to_owned()))?;
        let mut found = self.symbolizer.code(&module, &[extent.start])?;
        let mut code = found.pop().ok_or(NoCode::NoRange)?;
        let before = extent.start.saturating_sub(code.start).min(code.bytes.len() as u64);
        code.bytes.drain(..before as usize);
        code.start += before;
        code.address += before;
        let asked = if extent.whole_function { MOST_CODE } else { extent.bytes.min(MOST_CODE) };
        code.bytes.truncate(asked as usize);
        let listing = listing(&code, &module, &mut self.symbolizer, &self.objdump)?;
        let instructions =
            listing.instructions.into_iter().map(|one| (one.at - code.start, one.text)).collect();
        Ok(Disassembly { arch: code.machine(), bytes: code.bytes.len() as u64, instructions })
    }

    /// The one module with that name and id, which is a file.
    fn file(&self, name: &str, id: &str) -> Result<usize, NoAnswer> {
        let found = self.by_name.get(&(name.to_owned(), id.to_owned())).copied().flatten();
        let at = found.ok_or_else(|| NoAnswer::Module(name.to_owned()))?;
        match self.modules[at].kind {
            ModuleKind::File | ModuleKind::Jit { .. } => Ok(at),
            ModuleKind::Vdso if self.kernel.same_image() => Ok(at),
            // Viewers have no numbers as large as the kernel's addresses.
            _ => Err(NoAnswer::NoFile(name.to_owned())),
        }
    }
}

/// Name and id of a module, as the export has them.
fn name_of(module: &ModuleSummary) -> (String, String) {
    let id = module.build_id.as_ref().map(|id| breakpad_id(&id.to_string()));
    (module.short_name().to_owned(), id.unwrap_or_default())
}
