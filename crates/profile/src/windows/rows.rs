//! Rows of the table: what places come to once they have names.

use std::sync::Arc;

use pmuscope_perfdata::reader::Metadata;
use pmuscope_symbols::{KernelIdentity, Symbol};

use super::By;
use crate::names::naming::{Resolve, look_up, same_modules};
use crate::profile::ModuleSummary;
use crate::table::{HashIndex, ValueNumbers, mix};
use crate::timeline::modules::{ModuleKind, UNKNOWN};
use crate::timeline::sideband::Sideband;
use crate::timeline::tasks::ModuleAddress;

/// No symbol.
pub(crate) const NAMELESS: u32 = u32::MAX;

/// What a place is to windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeClass {
    /// Number of its row.
    pub(crate) row: u32,
    /// Equal where two places are of the same function; [`NAMELESS`] where there is no name.
    pub(crate) symbol: u32,
}

/// What a row is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// Function, or inlined function; `None` where it has no name, and where rows are not of functions.
    /// Foreign text.
    pub function: Option<Arc<str>>,
    /// Index into the modules; `None` where rows are of modes.
    pub module: Option<u32>,
    /// The function that holds the code, if it was inlined there.
    pub inlined_into: Option<Arc<str>>,
    /// Source line, where rows are of lines and it is known.
    pub line: Option<(Arc<str>, Option<u32>)>,
    /// `kernel`, `user` or `other`, where rows are of modes.
    pub mode: Option<&'static str>,
}

/// Spreads places over a table.
#[inline]
fn hash(place: ModuleAddress) -> u64 {
    mix(place.address, place.module.into())
}

/// Places with their rows.
#[derive(Debug)]
pub(crate) struct Spots {
    places: Vec<ModuleAddress>,
    numbers: HashIndex,
    spots: Vec<CodeClass>,
    pub(crate) rows: Vec<RowKey>,
    pub(crate) modules: Vec<ModuleSummary>,
}

impl Spots {
    /// Names places, which are in order, each once.
    pub(crate) fn new(
        state: &Sideband,
        metadata: &Metadata,
        running: &KernelIdentity,
        by: By,
        places: Vec<ModuleAddress>,
        resolve: &mut Resolve<'_>,
    ) -> Self {
        let modules = state.modules.list();
        let mut addresses: Vec<Vec<u64>> = vec![Vec::new(); modules.len()];
        for place in &places {
            addresses[place.module as usize].push(place.address);
        }
        let kernel = state.kernel_identity(metadata).compare(running);
        let (found, summaries): (Vec<_>, Vec<_>) =
            look_up(state, &addresses, metadata, kernel, resolve).into_iter().unzip();
        let same = same_modules(state, metadata);
        let mut naming =
            Naming { by, rows: ValueNumbers::default(), symbols: ValueNumbers::default() };
        let symbols = found.iter().flatten();
        let spots = places.iter().zip(symbols).map(|(place, symbol)| {
            let kind = modules[place.module as usize].kind;
            naming.spot(same[place.module as usize], kind, symbol.as_deref())
        });
        let spots = spots.collect();
        let mut numbers = HashIndex::default();
        for (place, number) in places.iter().zip(0..) {
            numbers.find_or_insert(hash(*place), number, |_| false);
        }
        Self { places, numbers, spots, rows: naming.rows.list, modules: summaries }
    }

    /// The number of a place.
    #[inline]
    pub(crate) fn number(&self, place: ModuleAddress) -> u32 {
        let is_it = |number: u32| self.places[number as usize] == place;
        // All were found in the pass before.
        self.numbers.find(hash(place), is_it).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn spot(&self, place: u32) -> CodeClass {
        self.spots.get(place as usize).copied().unwrap_or(CodeClass { row: 0, symbol: NAMELESS })
    }
}

struct Naming {
    by: By,
    rows: ValueNumbers<RowKey>,
    symbols: ValueNumbers<(u32, Arc<str>, Option<Arc<str>>)>,
}

impl Naming {
    fn spot(&mut self, module: u32, kind: ModuleKind, symbol: Option<&Symbol>) -> CodeClass {
        let outer = symbol.map(|symbol| Arc::clone(&symbol.name));
        let inner = symbol.and_then(|symbol| symbol.inlined.last());
        let mut row = RowKey {
            function: outer.clone(),
            module: Some(module),
            inlined_into: None,
            line: None,
            mode: None,
        };
        match self.by {
            By::Function => {}
            By::Inlined => {
                if let Some(inner) = inner {
                    row.inlined_into = row.function.replace(Arc::clone(&inner.name));
                }
            }
            By::Line => {
                let line = inner.map_or_else(
                    || symbol.and_then(|symbol| symbol.line.as_ref()),
                    |inner| inner.line.as_ref(),
                );
                row.line = line.map(|line| (Arc::clone(&line.file), line.number));
            }
            By::Module => row.function = None,
            By::Mode => {
                let mode = match kind {
                    ModuleKind::Kernel | ModuleKind::KernelLoaded => "kernel",
                    ModuleKind::Other => "other",
                    _ => "user",
                };
                row = RowKey { function: None, module: None, mode: Some(mode), ..row };
            }
        }
        // A window is of one function, whatever part of it has a row; where rows are coarser, what they
        // are of needs no names.
        let same = match self.by {
            By::Function | By::Line => outer.map(|name| (module, name, None)),
            By::Inlined => outer.map(|name| (module, name, row.function.clone())),
            By::Module | By::Mode if module == UNKNOWN => None,
            By::Module => Some((module, Arc::default(), None)),
            By::Mode => Some((0, row.mode.unwrap_or_default().into(), None)),
        };
        let symbol = same.map(|same| self.symbols.number(same));
        CodeClass { row: self.rows.number(row), symbol: symbol.unwrap_or(NAMELESS) }
    }
}
