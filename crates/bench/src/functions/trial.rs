//! What works here, found out by trying it around next to nothing.

use std::path::Path;

use pmuscope_measure::child;

use super::arms::FunctionsArm;
use super::commands::Tools;
use super::{Options, has_facts};
use crate::capture::complaint;
use crate::recording::{Recorder, recording_path};

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
    folder: &Path,
    arm: &FunctionsArm,
    mut stop: impl FnMut() -> bool,
) -> Result<Counters, String> {
    let (mut found, mut without) = (Vec::new(), Vec::new());
    for counter in COUNTERS {
        let with: Vec<&'static str> = found.iter().copied().chain([counter]).collect();
        match try_arm(&Tools { options, folder, counters: &with }, arm, &mut stop) {
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
        "it does not fit on the PMU beside the others".to_owned()
    } else {
        why
    }
}

/// Runs the arm for a moment, until `stop`.
///
/// # Errors
/// Why it does not work, as a sentence fragment.
pub(super) fn try_arm(
    tools: &Tools<'_>,
    arm: &FunctionsArm,
    stop: impl FnMut() -> bool,
) -> Result<(), String> {
    if arm.recorder == Recorder::Perf && tools.options.perf.is_none() {
        return Err("perf is not installed".to_owned());
    }
    let argv = tools.record(arm, MOMENT_S, 1);
    let outcome = child::run(&argv, tools.folder, stop).map_err(|error| error.to_string())?;
    if outcome.exit() != 0 || !has_facts(tools.folder) {
        return Err(complaint(&outcome.output, outcome.exit()));
    }
    if arm.recorder != Recorder::Nothing && !recording_path(tools.folder).exists() {
        return Err("it wrote no recording".to_owned());
    }
    Ok(())
}
