//! A function as it is shown from inside: samples, instructions, source text.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmuscope_symbols::{
    Code, DisassembleError, Instruction, Line, Module, NoCode, Symbolizer, disassemble,
};
use rustc_hash::FxHashMap;

use crate::profile::{EventProfile, ModuleSummary, Profile};
use crate::timeline::modules::ModuleKind;
use crate::views::{CodeHolder, FunctionHits, InlinedCode, function_hits};

/// All there is to show of one function.
#[derive(Debug)]
pub struct Annotation<'a> {
    /// Its name; `[unknown]` for all code of a module that has no function. Foreign text.
    pub function: &'a str,
    /// The module that it lies in.
    pub module: &'a ModuleSummary,
    /// Events with samples in it.
    pub events: Vec<(&'a EventProfile, FunctionHits)>,
    /// Its instructions: one listing for each place that has its name, in order.
    pub listings: Result<Vec<Listing>, NoInstructions>,
    /// Source files of its code, in order of their paths.
    pub sources: Vec<SourceFile>,
    /// What was inlined into it, and where.
    pub inlined: InlinedCode,
    /// The name of a function whose code in it is marked. Foreign text.
    pub marked: Option<&'a str>,
}

/// Why there are no instructions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoInstructions {
    /// The code is not to be had.
    #[error(transparent)]
    Code(#[from] NoCode),
    /// It cannot be taken apart.
    #[error(transparent)]
    Disassembler(#[from] DisassembleError),
    /// A guest's, the hypervisor's, or loaded by the kernel at run time.
    #[error("no file contains its code")]
    NoFile,
}

/// Instructions of a function, from its first to its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The file that they are from.
    pub path: PathBuf,
    /// In order.
    pub instructions: Vec<Listed>,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Where it lies, as samples count addresses of the module.
    pub at: u64,
    /// Where it lies, as the file's symbol table counts.
    pub address: u64,
    /// What it does; with the name of the function that it calls or jumps to. Foreign text.
    pub text: String,
    /// Its source line, in the innermost function inlined there.
    pub line: Option<Line>,
    /// Name of that function; `None` where nothing was inlined. Foreign text.
    pub inlined: Option<Arc<str>>,
}

/// A source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path, as the compiler noted it. Foreign text.
    pub path: Arc<str>,
    /// Its lines, or why it cannot be read. Foreign text.
    pub text: Result<Vec<String>, String>,
}

impl<'a> Annotation<'a> {
    /// Everything about the code at `place` of `profile`, whose counts tell addresses and lines apart. The
    /// instructions are by `objdump`, a program's name or path.
    #[must_use]
    pub fn new(
        profile: &'a Profile,
        place: CodeHolder,
        symbolizer: &mut Symbolizer,
        objdump: &OsStr,
    ) -> Self {
        let counts = &profile.aggregate;
        let module = &profile.modules[place.module as usize];
        let hits =
            |event: &'a EventProfile| Some((event, function_hits(counts, event.index, place)?));
        let events: Vec<_> = profile.events.iter().filter_map(hits).collect();
        let addresses: BTreeSet<u64> =
            events.iter().flat_map(|(_, hits)| &hits.addresses).map(|hit| hit.key).collect();
        let addresses: Vec<u64> = addresses.into_iter().collect();
        let listings = listings(profile, module, &addresses, symbolizer, objdump);
        let of_hits = events.iter().flat_map(|(_, hits)| &hits.lines).map(|hit| &hit.key);
        let of_code = listings.iter().flatten().flat_map(|listing| &listing.instructions);
        let paths: BTreeSet<&Arc<str>> = of_hits
            .chain(of_code.filter_map(|one| one.line.as_ref()))
            .map(|line| &line.file)
            .collect();
        let source = |path: &Arc<str>| SourceFile {
            path: Arc::clone(path),
            text: symbolizer.source(Path::new(&**path)).map_err(|error| error.to_string()),
        };
        let sources = paths.into_iter().map(source).collect();
        let mut inlined = InlinedCode::of(counts, place);
        for one in listings.iter().flatten().flat_map(|listing| &listing.instructions) {
            if let Some(name) = &one.inlined {
                inlined.add(Some(one.at), one.line.as_ref(), name);
            }
        }
        let function = place.name(counts).unwrap_or("[unknown]");
        Self { function, module, events, listings, sources, inlined, marked: None }
    }

    /// The same, with the code of a function that was inlined into it marked.
    #[must_use]
    pub fn marking(self, inlined: Option<&'a str>) -> Self {
        Self { marked: inlined, ..self }
    }

    /// Whether an address is in the marked code.
    #[must_use]
    pub fn marks_address(&self, at: u64) -> bool {
        self.marked.is_some() && self.inlined.addresses.get(&at).map(|name| &**name) == self.marked
    }

    /// Whether a source line is in the marked code.
    #[must_use]
    pub fn marks_line(&self, line: &Line) -> bool {
        self.marked.is_some() && self.inlined.lines.get(line).map(|name| &**name) == self.marked
    }
}

/// The instructions of the functions at `addresses`.
fn listings(
    profile: &Profile,
    module: &ModuleSummary,
    addresses: &[u64],
    symbolizer: &mut Symbolizer,
    objdump: &OsStr,
) -> Result<Vec<Listing>, NoInstructions> {
    let source = module.source().ok_or(NoInstructions::NoFile)?;
    // The code at hand is that of the kernel that runs here.
    match (module.kind, profile.kernel.state()) {
        (ModuleKind::Kernel, Some(state)) => return Err(NoCode::File(state).into()),
        (ModuleKind::Vdso, Some(state)) if !profile.kernel.same_image() => {
            return Err(NoCode::File(state).into());
        }
        _ => {}
    }
    let code = symbolizer.code(&source, addresses)?;
    let one = |code: &Code| listing(code, &source, symbolizer, objdump);
    Ok(code.iter().map(one).collect::<Result<_, _>>()?)
}

/// The instructions of `code`, with names of what they call and jump to.
///
/// # Errors
/// Those of the disassembler.
pub(crate) fn listing(
    code: &Code,
    module: &Module<'_>,
    symbolizer: &mut Symbolizer,
    objdump: &OsStr,
) -> Result<Listing, DisassembleError> {
    let instructions = disassemble(objdump, code)?;
    let at = |address: u64| address.wrapping_sub(code.address).wrapping_add(code.start);
    let places: Vec<u64> = instructions.iter().map(|one| at(one.address)).collect();
    let symbols = symbolizer.resolve(module, &places).symbols;
    let end = code.address.saturating_add(code.bytes.len() as u64);
    let outside = |target: &u64| !(code.address..end).contains(target);
    let targets: BTreeSet<u64> =
        instructions.iter().filter_map(|one| one.target).filter(outside).collect();
    let targets: Vec<u64> = targets.into_iter().collect();
    let there: Vec<u64> = targets.iter().map(|&target| at(target)).collect();
    let names = symbolizer.resolve(module, &there).symbols;
    let names: FxHashMap<u64, Arc<str>> = targets
        .into_iter()
        .zip(names)
        .filter_map(|(target, symbol)| Some((target, Arc::clone(&symbol?.name))))
        .collect();
    let text = |one: &Instruction| match one.target.and_then(|target| names.get(&target)) {
        Some(name) => format!("{} <{name}>", one.text),
        None => one.text.clone(),
    };
    let listed = instructions.iter().zip(places).zip(symbols).map(|((one, at), symbol)| {
        let inner = symbol.as_ref().and_then(|symbol| symbol.inlined.last());
        Listed {
            at,
            address: one.address,
            text: text(one),
            inlined: inner.map(|inner| Arc::clone(&inner.name)),
            line: match inner {
                Some(inner) => inner.line.clone(),
                None => symbol.as_ref().and_then(|symbol| symbol.line.clone()),
            },
        }
    });
    Ok(Listing { path: code.path.clone(), instructions: listed.collect() })
}
