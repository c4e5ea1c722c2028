//! Build IDs; addresses to functions, lines and inlined frames.
//!
//! A [`Symbolizer`] takes all addresses of all modules at once, because opening a file and reading its
//! tables is the expensive part, and modules are independent. It returns one [`Symbol`] per address,
//! and a [`State`] that explains missing symbols.
//!
//! ```text
//!  request ─► cache, by build id ─► symbol tables ─► debug information ─► cache
//!             (a few stat calls)    one module       pieces of a module
//!                                   per thread       per thread
//! ```
//!
//! ```no_run
//! use pmuscope_symbols::{Module, Options, Request, Symbolizer};
//!
//! let mut symbolizer = Symbolizer::new(Options { inlined: true });
//! let module = Module::file("/usr/bin/xz".as_ref(), None);
//! let found = symbolizer.resolve_all(&[Request { module, addresses: &[0x4f20] }]);
//! println!("{:?}: {:?}", found[0].state, found[0].symbols[0]);
//! ```
//!
//! The tables for unwinding stacks come from the same files: [`unwind`].
//!
//! A file is used only if it is the one that ran: if the recording has a build ID, the file must have
//! the same. `unsafe` is in `sys.rs` only (the mapping of files).

#![deny(missing_docs)]
mod build_id;
mod bundle;
mod cache;
mod code;
mod code_origin;
mod codec;
mod debuginfod;
pub mod definitions;
mod demangle;
mod disassemble;
mod dwarf;
mod error;
mod file;
mod foreign;
mod function_offsets;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod held_code;
mod image;
mod jit;
mod jit_dump;
mod kallsyms;
mod kept;
mod kernel;
mod layout;
mod locate;
mod mapped;
mod module;
mod namespaces;
mod objects;
mod perf_map;
mod plt;
mod pool;
mod range;
mod resident;
mod resolve;
mod runtimes;
mod sectionless;
mod source;
mod split;
mod symbol;
mod sys;
mod table;
pub mod unwind;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use build_id::{BuildId, read_build_id, read_package_note};
pub use bundle::{Bundle, BundleError};
pub use cache::user_cache;
pub use code::{Code, NoCode};
pub use code_origin::{CodeCopy, CodeOrigin};
pub use debuginfod::{debuginfod_available, debuginfod_failure};
use definitions::{AccessedField, Definitions, FieldAt, UnknownAccess};
pub use demangle::demangle;
pub use disassemble::{DisassembleError, Instruction, disassemble};
pub use error::Error;
pub use function_offsets::{dynamic_loader, function_offsets};
pub use held_code::HeldCode;
pub use jit_dump::{GeneratedCode, GeneratedPlace};
pub use kept::HeldFile;
pub use kernel::{KernelIdentity, KernelMatch, KernelShift, TextAddress};
pub use mapped::{Doubt, FileOrigin, Inode, RecordingOrigin};
pub use module::{Module, ModuleFile};
pub use namespaces::ProcessRoot;
pub use objects::DataObject;
pub use perf_map::PerfMap;
pub use range::RangeMap;
pub use resident::Resident;
pub use source::SourceError;
pub use split::MissingSplit;
pub use symbol::{Frame, Line, State, Symbol};

/// How much to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Inlined functions and source lines too; needs debug information and time.
    pub inlined: bool,
}

/// Where symbols may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// Root directory that is searched first for files of the recording.
    pub symfs: Option<PathBuf>,
    /// Folders of separate debug information.
    pub debug_dirs: Vec<PathBuf>,
    /// Folder for what is found, for later runs; `None`: nothing is kept. See [`user_cache`].
    pub cache: Option<PathBuf>,
    /// Folder of the copies that recordings made ([`HeldFile::keep`], [`HeldCode::keep`]); `None`: they are not used.
    pub copies: Option<PathBuf>,
    /// Whether to ask the servers in `DEBUGINFOD_URLS`. See [`debuginfod_available`].
    pub debuginfod: bool,
    /// Most threads to use; `None`: as many as there are CPUs.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Sources {
    /// This machine's files, and the copies in [`user_cache`]; nothing is kept, nothing is asked for over a network.
    fn default() -> Self {
        Self {
            symfs: None,
            debug_dirs: vec!["/usr/lib/debug".into()],
            cache: None,
            copies: user_cache(),
            debuginfod: false,
            threads: None,
        }
    }
}

/// Addresses of one module.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The module.
    pub module: Module<'a>,
    /// Its addresses; each should be there once. Ascending order saves sorting.
    pub addresses: &'a [u64],
}

/// Symbols of addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// One per address, in their order; most addresses of a function share one.
    pub symbols: Vec<Option<Arc<Symbol>>>,
    /// Whether symbols could be had.
    pub state: State,
}

/// Symbols of addresses, and where they are from.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedFrom {
    /// The symbols.
    pub resolved: Resolved,
    /// The file that was read for them: the debug file, where one was needed. `None` where none was: it is missing or
    /// refused, the cache or a bundle has the answer, or the module is no file.
    pub file: Option<PathBuf>,
}

/// Finds symbols.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    sources: Sources,
    bundle: Option<Bundle>,
    /// Jitdumps that processes wrote, as reported by the caller.
    jit_dumps: HashMap<i32, Vec<PathBuf>>,
    /// Names have parameters.
    signatures: bool,
    /// A debug file is enough where the file itself is missing.
    debug_files_alone: bool,
}

impl Symbolizer {
    /// A symbolizer that takes what is on this machine, and keeps nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::with_sources(options, Sources::default())
    }

    /// A symbolizer that takes symbols from `sources`.
    #[must_use]
    pub fn with_sources(options: Options, sources: Sources) -> Self {
        Self {
            options,
            sources,
            bundle: None,
            jit_dumps: HashMap::new(),
            signatures: false,
            debug_files_alone: false,
        }
    }

    /// Answers from `bundle` what it has an answer for.
    pub fn use_bundle(&mut self, bundle: Bundle) {
        self.bundle = Some(bundle);
    }

    /// From now on, names of functions are those with parameters, where symbols have them.
    pub fn show_signatures(&mut self) {
        self.signatures = true;
    }

    /// From now on, the debug file of a build is enough where the file that ran is nowhere, as on a machine that has debug
    /// packages only. Where code was in the missing file, strip(1) does not keep: that is taken from the layout of its
    /// segments, and only where linkers leave no other. Stubs of shared libraries (`name@plt`) have no names then. Answers
    /// should not be kept ([`Sources::cache`]): the file itself, once it is there, has more.
    pub fn use_debug_files_alone(&mut self) {
        self.debug_files_alone = true;
    }

    /// The kernel that symbols of the kernel are those of: the running one, or with a bundle that which
    /// ran when it was made.
    #[must_use]
    pub fn running_kernel(&self) -> KernelIdentity {
        match &self.bundle {
            Some(bundle) => bundle.kernel().clone(),
            None => KernelIdentity::of_running(&pmuscope_machine::Machine::host()),
        }
    }

    /// Reports that process `pid` mapped `path`, a `jit-PID.dump`, as runtimes do to leave a marker in
    /// the recording.
    pub fn add_jit_dump(&mut self, pid: i32, path: PathBuf) {
        let dumps = self.jit_dumps.entry(pid).or_default();
        // A recording may be read twice.
        if !dumps.contains(&path) {
            dumps.push(path);
        }
    }

    /// Symbols of all `requests`, one answer for each, in their order: the same whatever the number of
    /// threads.
    pub fn resolve_all(&mut self, requests: &[Request<'_>]) -> Vec<Resolved> {
        self.resolve_all_from(requests).into_iter().map(|found| found.resolved).collect()
    }

    /// The same with the files that were read.
    pub fn resolve_all_from(&mut self, requests: &[Request<'_>]) -> Vec<ResolvedFrom> {
        let mut found = resolve::all(self, requests);
        if self.signatures {
            found.iter_mut().for_each(|found| with_signatures(&mut found.resolved));
        }
        found
    }

    /// The code of the functions at `addresses` of `module`, each function once, in order.
    ///
    /// # Errors
    /// If the code is not available on this machine; [`NoCode`] says why.
    pub fn code(&self, module: &Module<'_>, addresses: &[u64]) -> Result<Vec<Code>, NoCode> {
        code::at(&self.sources, module, addresses)
    }

    /// For each of `addresses` of `module`, where the function there begins and ends, as [`Module`] counts addresses;
    /// `None` outside of all that symbol tables have a size for.
    ///
    /// # Errors
    /// If the module's symbol tables are not available on this machine; [`NoCode`] says why.
    pub fn function_ranges(
        &self,
        module: &Module<'_>,
        addresses: &[u64],
    ) -> Result<Vec<Option<Range<u64>>>, NoCode> {
        code::ranges_at(&self.sources, module, addresses)
    }

    /// Offset in the file of `path` where its data end in memory, as if the file also held what starts as
    /// zero (`.bss`); `None` if the file has nothing of that kind, or cannot be opened.
    #[must_use]
    pub fn data_end(&self, path: &Path) -> Option<u64> {
        objects::data_end(&self.sources, path)
    }

    /// The variable, or else the function, at each of `addresses` of `module`; `None` where no symbol table names one.
    #[must_use]
    pub fn objects(&self, module: &Module<'_>, addresses: &[u64]) -> Vec<Option<Arc<str>>> {
        let found = objects::at(&self.sources, module, addresses);
        found.into_iter().map(|one| Some(one?.0.name)).collect()
    }

    /// The same with how far into the object each address is; fields are not looked for.
    #[must_use]
    pub fn placed_objects(
        &self,
        module: &Module<'_>,
        addresses: &[u64],
    ) -> Vec<Option<DataObject>> {
        objects::without_start(objects::at(&self.sources, module, addresses))
    }

    /// The same with the field of a variable that each address is in, where debug information has it.
    #[must_use]
    pub fn data_objects(&self, module: &Module<'_>, addresses: &[u64]) -> Vec<Option<DataObject>> {
        objects::with_fields(&self.sources, module, addresses)
    }

    /// For each group of addresses of `module`: the innermost structure or array of a variable that has all of them, with
    /// its layout. `None` where they are of several variables, or debug information does not have it.
    #[must_use]
    pub fn part_layouts(
        &self,
        module: &Module<'_>,
        groups: &[Vec<u64>],
    ) -> Vec<Option<definitions::PartLayout>> {
        objects::parts(&self.sources, module, groups)
    }

    /// The same for objects of types: for each type's name and offsets in an object of it the innermost structure or array
    /// that has all of these.
    #[must_use]
    pub fn type_part_layouts(
        &self,
        module: &Module<'_>,
        groups: &[(Arc<str>, Vec<u64>)],
    ) -> Vec<Option<definitions::PartLayout>> {
        objects::parts_of_types(&self.sources, module, groups)
    }

    /// What the instruction at each of `addresses` of `module` loads or stores: the field of which type, by debug
    /// information, also of optimized code. Of x86-64 and AArch64 files; a load or store has one answer, whatever memory
    /// it accesses: `(struct queue).head`.
    #[must_use]
    pub fn accesses(
        &self,
        module: &Module<'_>,
        addresses: &[u64],
    ) -> Vec<Result<AccessedField, UnknownAccess>> {
        let Module::File(file) = module else {
            return vec![Err(UnknownAccess::NoDebugInformation); addresses.len()];
        };
        match Definitions::of(&self.sources, *file) {
            Ok(definitions) => definitions.accesses(addresses),
            Err(_) => vec![Err(UnknownAccess::NoDebugInformation); addresses.len()],
        }
    }

    /// For each instruction and offset, bytes: the field there of the object that the instruction accesses; see
    /// [`Symbolizer::accesses`].
    #[must_use]
    pub fn accessed_fields(
        &self,
        module: &Module<'_>,
        places: &[(u64, u64)],
    ) -> Vec<Option<FieldAt>> {
        let found = match module {
            Module::File(file) => Definitions::of(&self.sources, *file),
            _ => return vec![None; places.len()],
        };
        found.map_or_else(|_| vec![None; places.len()], |found| found.accessed_fields(places))
    }

    /// The lines of the source file at `path`, below the root of [`Sources::symfs`] if it is there.
    /// Foreign text; bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// If it cannot be read, or is no text file.
    pub fn source(&self, path: &Path) -> Result<Vec<String>, SourceError> {
        source::read(self.sources.symfs.as_deref(), path)
    }

    /// The text of the source file at `path`, which must be in the folder that its path names, or below that, or below
    /// the root of [`Sources::symfs`]: a link that leads elsewhere is refused. For answers to other programs, where debug
    /// information of a stranger's file could name any path. Foreign text; bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// If it is elsewhere, cannot be read, or is no text file.
    pub fn source_in_place(&self, path: &Path) -> Result<String, SourceError> {
        source::read_in_place(self.sources.symfs.as_deref(), path)
    }

    /// Symbols of `addresses` in `module`. Many modules at once are faster: [`Symbolizer::resolve_all`].
    pub fn resolve(&mut self, module: &Module<'_>, addresses: &[u64]) -> Resolved {
        let request = Request { module: *module, addresses };
        let nothing = || Resolved { symbols: vec![None; addresses.len()], state: State::NoSymbols };
        self.resolve_all(&[request]).pop().unwrap_or_else(nothing)
    }
}

/// Symbols with signatures for names; neighbors that share one go on to do so.
fn with_signatures(resolved: &mut Resolved) {
    let mut latest: Option<(Arc<Symbol>, Arc<Symbol>)> = None;
    for symbol in resolved.symbols.iter_mut().flatten() {
        let shown = match &latest {
            Some((before, shown)) if Arc::ptr_eq(before, symbol) => Arc::clone(shown),
            _ => Arc::new(symbol.with_signatures()),
        };
        latest = Some((Arc::clone(symbol), Arc::clone(&shown)));
        *symbol = shown;
    }
}

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
