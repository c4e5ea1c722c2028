//! Reads a recording and prints the functions with most of its samples.
//!
//! ```text
//! cargo run -p pmuscope-profile --example top_functions -- perf.data
//! ```

use std::error::Error;
use std::io::Write;
use std::path::Path;

use pmuscope_machine::Machine;
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::{Collected, Options};
use pmuscope_symbols::{KernelIdentity, Options as SymbolOptions, Symbolizer};

/// Functions that are printed.
const ROWS: usize = 10;

/// Writes a table of each event.
///
/// # Errors
/// `file` is no recording, is damaged in front, or `out` does not take the text.
pub(crate) fn run(file: &Path, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::open(file)?;
    // Addresses are counted on all CPUs, then each distinct one gets its name.
    let collected = Collected::from_reader(&mut reader)?;
    let mut symbolizer = Symbolizer::new(SymbolOptions { inlined: true });
    // Names of this machine's kernel are taken only if it is the kernel that was recorded.
    let kernel = KernelIdentity::of_running(&Machine::host());
    let profile = collected.profile(&reader, &kernel, Options::default(), &mut |requests| {
        symbolizer.resolve_all(requests)
    })?;
    for event in &profile.events {
        writeln!(out, "{}: {} samples", event.name, event.samples)?;
        for row in event.functions.iter().take(ROWS) {
            // There is no interval where the recording is too short for one.
            let interval = row.interval.map_or(String::from("-"), |interval| {
                format!("{:.1} to {:.1} %", interval.low * 100.0, interval.high * 100.0)
            });
            let share = row.share * 100.0;
            writeln!(out, "{share:6.2} %  {interval:>16}  {}", profile.name_of(row))?;
        }
    }
    Ok(())
}

#[allow(dead_code)] // a test takes this file as a module
fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("which recording? Try: top_functions perf.data")?;
    run(file.as_ref(), &mut std::io::stdout().lock())
}
