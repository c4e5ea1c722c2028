//! Counts events around a block of code, once.
//!
//! ```text
//! cargo run -p pmuscope-region --example block
//! ```

use std::hint::black_box;

use pmuscope_region::{RegionError, Report, measure};

/// Sums up numbers, and what that took.
///
/// # Errors
/// None of the events can be counted here.
pub(crate) fn run() -> Result<(u64, Report), RegionError> {
    // What this machine cannot count (cycles in most virtual machines) is refused with the reason, not 0.
    let events = ["task-clock", "page-faults", "instructions:u", "cycles:u"];
    measure(|| (0..1_000_000_u64).map(black_box).sum(), &events)
}

#[allow(dead_code)] // a test takes this file as a module
#[allow(clippy::print_stdout)]
fn main() -> Result<(), RegionError> {
    let (sum, report) = run()?;
    println!("the sum is {sum}\n{report}");
    Ok(())
}
