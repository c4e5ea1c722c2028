//! A loop with a known number of instructions: what counts them can be held against it.
//!
//! The process around it has instructions of its own, always nearly the same: the difference between
//! runs of N and 2 N rounds is that of N rounds.

mod sys;

use std::time::Instant;

use pmuscope_machine::child::own_usage;

use crate::error::WorkloadError;
use crate::facts::WorkloadFacts;

pub use sys::PER_ROUND;

/// Name on the command line.
pub const NAME: &str = "exact-loop";

/// Goes round `rounds` times, at least once, and does nothing else: [`PER_ROUND`] instructions each.
pub fn go_round(rounds: u64) {
    sys::rounds(rounds);
}

/// Goes round `rounds` times.
///
/// # Errors
/// If there is no round to do, or usage cannot be read.
pub fn run(rounds: u64) -> Result<WorkloadFacts, WorkloadError> {
    let Some(instructions) = rounds.checked_mul(sys::PER_ROUND).filter(|n| *n > 0) else {
        let what = format!("--rounds {rounds}: use 1 to 2^62");
        return Err(WorkloadError::Options { workload: NAME, what });
    };
    let started = Instant::now();
    sys::rounds(rounds);
    let time_s = started.elapsed().as_secs_f64();
    let usage = own_usage().map_err(|e| WorkloadError::system("read the resource usage", e))?;
    let mut facts = WorkloadFacts::new(NAME, Some(1), time_s, &usage);
    facts.instructions = Some(instructions);
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_ends_and_knows_its_instructions() {
        assert_eq!(run(1_000_000).unwrap().instructions, Some(2_000_000));
        for wrong in [0, u64::MAX] {
            assert!(run(wrong).unwrap_err().to_string().contains("--rounds"));
        }
    }
}
