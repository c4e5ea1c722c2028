//! Build ids; address to function, line and inlined frames.
//!
//! A [`Symbolizer`] takes all addresses of one [`Module`] at once, because opening a file and reading
//! its tables is what costs. It answers with one [`Symbol`] per address, and with a [`State`] that says
//! why there is none where there is none.
//!
//! ```no_run
//! use pmuscope_symbols::{Module, Options, Symbolizer};
//!
//! let mut symbolizer = Symbolizer::new(Options { inlined: true });
//! let module = Module::File { path: "/usr/bin/xz".as_ref(), build_id: None };
//! let found = symbolizer.resolve(&module, &[0x4f20]);
//! println!("{:?}: {:?}", found.state, found.symbols[0]);
//! ```
//!
//! A file is used only if it is the one that ran: where the recording has a build id, the file's must
//! be the same.

mod build_id;
mod elf;
mod error;
mod kernel;
mod perf_map;
mod range;
mod symbol;

use std::path::Path;

pub use build_id::{BuildId, read_build_id};
pub use error::Error;
pub use kernel::{KernelIdentity, KernelMatch};
pub use perf_map::PerfMap;
pub use range::RangeMap;
pub use symbol::{Frame, Line, State, Symbol};

use symbol::Names;

/// How much to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Inlined functions and source lines too; needs debug information and time.
    pub inlined: bool,
}

/// What addresses belong to, and what they count from.
#[derive(Debug, Clone, Copy)]
pub enum Module<'a> {
    /// An ELF file; addresses are offsets in the file, bytes.
    File {
        /// Where it was when it ran.
        path: &'a Path,
        /// What the recording says it was.
        build_id: Option<&'a BuildId>,
    },
    /// The running kernel; addresses as recorded.
    Kernel,
    /// The kernel's page of functions for programs; addresses count from its start.
    Vdso,
    /// Code that a runtime made, described in `/tmp/perf-PID.map`; addresses as recorded.
    Jit {
        /// The process.
        pid: i32,
    },
}

/// Symbols of addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// One per address, in their order.
    pub symbols: Vec<Option<Symbol>>,
    /// Whether symbols could be had.
    pub state: State,
}

/// Finds symbols. Files stay open and parsed as long as it lives.
#[derive(Debug)]
pub struct Symbolizer {
    blaze: blazesym::symbolize::Symbolizer,
    options: Options,
    names: Names,
}

impl Symbolizer {
    /// A symbolizer with nothing read yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let blaze = blazesym::symbolize::Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(options.inlined)
            .enable_inlined_fns(options.inlined)
            .build();
        Self { blaze, options, names: Names::default() }
    }

    /// Symbols of `addresses` in `module`; each should be there once, their order does not matter.
    pub fn resolve(&mut self, module: &Module<'_>, addresses: &[u64]) -> Resolved {
        let found = match *module {
            Module::File { path, build_id } => self.file(path, build_id, addresses),
            Module::Kernel => self.kernel(addresses),
            Module::Vdso => self.vdso(addresses),
            Module::Jit { pid } => self.jit(pid, addresses),
        };
        match found {
            Ok(symbols) => {
                let found = symbols.iter().flatten().count();
                let state =
                    if found > 0 || symbols.is_empty() { State::Found } else { State::NoSymbols };
                Resolved { symbols, state }
            }
            Err(state) => Resolved { symbols: vec![None; addresses.len()], state },
        }
    }
}
