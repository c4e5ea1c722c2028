//! What this program is, for what it writes.

use std::sync::OnceLock;

use pmuscope_machine::Facts;

/// A program of the house.
#[derive(Debug, Clone, Copy)]
pub struct ProgramInfo {
    /// The commit that it was built from, or why that is not known.
    pub commit: &'static str,
    /// How it finds what is known of this machine, if it does.
    pub facts: Option<fn() -> anyhow::Result<Facts>>,
}

static PROGRAM: OnceLock<ProgramInfo> = OnceLock::new();

/// Says what this program is, once, before anything is written.
pub fn set(program: ProgramInfo) {
    // Once per process; a second time would say the same.
    let _ = PROGRAM.set(program);
}

/// The commit that it was built from.
pub(crate) fn commit() -> &'static str {
    PROGRAM.get().map_or("-", |program| program.commit)
}

/// What is known of this machine, where the program finds that out.
pub(crate) fn facts() -> anyhow::Result<Option<Facts>> {
    PROGRAM.get().and_then(|program| program.facts).map(|facts| facts()).transpose()
}
