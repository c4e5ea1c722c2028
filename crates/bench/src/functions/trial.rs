//! Which counters work here, found out by trying them around next to nothing.

use super::Options;
use super::arms::FunctionsArm;
use super::commands::Tools;
use crate::runner::Bench;

/// What is counted beside cycles where the machine has it, in this order: those at the end go first
/// where not all fit on the PMU. The first one must be there.
const COUNTERS: [&str; 5] =
    ["instructions", "page-faults", "branch-misses", "cache-misses", "cache-references"];

/// Seconds of a trial.
const MOMENT_S: f64 = 0.01;

/// What is counted, and what is not, with the reason.
pub(super) type Counters = (Vec<&'static str>, Vec<(&'static str, String)>);

/// Which counters can be counted in one group with cycles.
///
/// # Errors
/// Why not even instructions can.
pub(super) fn counters(
    options: &Options,
    arm: &FunctionsArm,
    bench: &Bench<'_>,
) -> Result<Counters, String> {
    let (mut found, mut without) = (Vec::new(), Vec::new());
    for counter in COUNTERS {
        let with: Vec<&'static str> = found.iter().copied().chain([counter]).collect();
        match try_arm(options, &with, arm, bench) {
            Ok(()) => found = with,
            Err(why) if found.is_empty() => return Err(why),
            Err(why) => without.push((counter, reason(why))),
        }
    }
    Ok((found, without))
}

/// The recorder's words are of one thread and CPU; these are the usual cases.
fn reason(why: String) -> String {
    if why.contains("ENOENT") || why.contains("EOPNOTSUPP") {
        "this PMU does not have it".to_owned()
    } else if why.contains("EINVAL") {
        "it does not fit on the PMU together with the others".to_owned()
    } else {
        why
    }
}

/// Runs the arm with these counters for a moment.
///
/// # Errors
/// Why it does not work, as a sentence fragment.
pub(super) fn try_arm(
    options: &Options,
    counters: &[&'static str],
    arm: &FunctionsArm,
    bench: &Bench<'_>,
) -> Result<(), String> {
    let tools = Tools { options, folder: bench.folder(), counters };
    let argv = tools.record(arm, MOMENT_S, 1);
    arm.recorder.attempt(options.perf.as_deref(), &argv, bench)
}
