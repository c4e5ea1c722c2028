//! Whether a module's samples have symbols.

use pmuscope_profile::{ModuleKind, ModuleShare, ModuleSummary, SymbolState};

/// Part of a file's samples without a function from which on it counts as stripped: some code has no name
/// in any file (stubs, pieces of assembler).
const STRIPPED: f64 = 0.1;

/// What counts for a module's samples. A stripped file still names what it exports, and a server may export
/// half of itself: the other half is missing all the same.
pub(crate) fn effective(module: &ModuleSummary, row: &ModuleShare) -> SymbolState {
    let most = if module.kind == ModuleKind::File { STRIPPED } else { 0.5 };
    match &module.symbols {
        SymbolState::Found | SymbolState::Unproven(_) | SymbolState::SplitMissing(_)
            if unnamed(row) > most =>
        {
            SymbolState::NoSymbols
        }
        state => state.clone(),
    }
}

/// The part of a module's samples that have no function.
pub(crate) fn unnamed(row: &ModuleShare) -> f64 {
    1.0 - row.named as f64 / row.samples.max(1) as f64
}

/// The first 12 digits of a build id, enough to distinguish builds at a glance.
pub(crate) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
