//! What sorting costs per number: blocks of random numbers, each an entry into a region.
//!
//! ```text
//! cargo run -p pmuscope-region --example sort
//! cargo run -p pmuscope-region --example sort -- instructions:u branch-misses:u
//! ```

use std::hint::black_box;

use pmuscope_region::{RegionError, Report, Unit, setup};

const BLOCKS: usize = 200;
const NUMBERS: usize = 2000;

/// Counts `events` while blocks are filled and sorted.
///
/// # Errors
/// If none of them can be counted here.
pub(crate) fn run(events: &[&str]) -> Result<Report, RegionError> {
    let set = setup(events)?;
    let (block, fill, sort) = (set.region("block"), set.region("fill"), set.region("sort"));
    let mut state = 1_u64;
    for _ in 0..BLOCKS {
        let mut whole = block.enter();
        whole.did(NUMBERS as f64);

        let mut entry = fill.enter();
        let mut numbers: Vec<u64> = (0..NUMBERS).map(|_| random(&mut state)).collect();
        entry.did(NUMBERS as f64);
        drop(entry);

        let mut entry = sort.enter();
        numbers.sort_unstable();
        black_box(&numbers);
        entry.did(NUMBERS as f64);
    }
    Ok(set.report(&[Unit::done("number")]))
}

/// Marsaglia's xorshift.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[allow(dead_code)] // a test takes this file as a module
#[allow(clippy::print_stdout)]
fn main() -> Result<(), RegionError> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let usual = ["task-clock", "page-faults", "context-switches", "instructions:u", "cycles:u"];
    let report = run(if asked.is_empty() { &usual } else { &asked })?;
    println!("{report}");
    Ok(())
}
