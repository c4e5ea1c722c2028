//! `--force`: which existing files outputs may replace. It holds for the whole command line.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pmuscope_machine::{FileKind, Replace};

use crate::exit::bad_input;

static FORCE: AtomicBool = AtomicBool::new(false);

/// Takes the flag from the command line.
pub fn force(is_given: bool) {
    FORCE.store(is_given, Ordering::Relaxed);
}

/// What an output of this kind may replace.
pub fn replace(kind: FileKind) -> Replace {
    if FORCE.load(Ordering::Relaxed) { Replace::Anything } else { Replace::Own(kind) }
}

/// Asks, before anything is measured, whether an output may be written there.
///
/// # Errors
/// If a file is there that must stay.
pub fn check(path: &Path, kind: FileKind) -> anyhow::Result<()> {
    replace(kind)
        .check(path)
        .map_err(|error| bad_input(format!("cannot write {}: {error}", path.display())))
}

/// The same for a table with these columns, its first line.
///
/// # Errors
/// If a file is there that must stay.
pub fn check_table(path: &Path, head: &str) -> anyhow::Result<()> {
    replace(FileKind::Table)
        .check_beginning(path, head)
        .map_err(|error| bad_input(format!("cannot write {}: {error}", path.display())))
}
