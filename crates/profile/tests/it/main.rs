//! Whole recordings, against what `perf report` makes of them and against damage.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod advice;
mod corpus;
mod counts;
mod exports;
mod heap;
mod hits;
mod metric_diffs;
mod passes;
mod perf_report;
mod phases;
mod recorded_symbols;
mod samples;
mod sharing;
mod waits;
mod window_files;
mod windows;

use std::path::Path;

use pmuscope_machine::Machine;
use pmuscope_perfdata::reader::{ReadError, Reader};
use pmuscope_profile::{Collected, Options, Profile};
use pmuscope_symbols::{KernelIdentity, Symbolizer};

fn profile(path: &Path) -> Result<Profile, ReadError> {
    let mut reader = Reader::open(path)?;
    let collected = Collected::from_reader(&mut reader)?;
    let mut symbolizer = Symbolizer::new(pmuscope_symbols::Options { inlined: false });
    let running = KernelIdentity::of_running(&Machine::host());
    collected.profile(&reader, &running, Options::default(), &mut |requests| {
        symbolizer.resolve_all(requests)
    })
}
