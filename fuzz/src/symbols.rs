//! Questions to whatever gives addresses names.

use std::hint::black_box;
use std::path::Path;

use pmuscope_symbols::{BuildId, Module, Options, Sources, Symbolizer};

/// This machine's debug files and caches are no part of the input.
#[must_use]
pub fn symbolizer(inlined: bool) -> Symbolizer {
    let threads = std::num::NonZeroUsize::new(1);
    let sources = Sources { debug_dirs: Vec::new(), threads, ..Sources::default() };
    Symbolizer::with_sources(Options { inlined }, sources)
}

/// Asks for symbols of a file: of the beginning of its code and of the ends of what there can be.
///
/// # Panics
/// If an answer is missing.
pub fn ask_file(symbolizer: &mut Symbolizer, path: &Path, build_id: Option<&BuildId>) {
    let addresses: Vec<u64> =
        (0..0x2000).step_by(16).chain([0x40_1000, 1 << 40, u64::MAX - 1, u64::MAX]).collect();
    let found = symbolizer.resolve(&Module::file(path, build_id), &addresses);
    assert_eq!(found.symbols.len(), addresses.len());
    black_box(found);
}
