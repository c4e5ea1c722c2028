//! Whether an arm works here, found out by running it around next to nothing.

use pmuscope_measure::child;

use super::arms::{CaptureArm, Recorder};
use super::commands::Tools;
use super::workload;
use crate::recording::recording_path;

/// Runs the arm around a stencil of a few cells, until `stop`.
///
/// # Errors
/// Why it does not work, as a sentence fragment.
pub(super) fn try_arm(
    tools: &Tools<'_>,
    arm: &CaptureArm,
    stop: impl FnMut() -> bool,
) -> Result<(), String> {
    if arm.recorder == Recorder::Perf && tools.options.perf.is_none() {
        return Err("perf is not installed".to_owned());
    }
    let nothing = workload::stencil(tools.options, 1, 2, &["--steps", "1"]);
    let argv = tools.record(arm, &nothing);
    let outcome = child::run(&argv, tools.folder, stop).map_err(|error| error.to_string())?;
    // perf built without a feature says so and goes on without it.
    let ignored = outcome.output.lines().find(|line| line.contains("being ignored"));
    if let Some(line) = ignored {
        return Err(line.trim().to_owned());
    }
    if outcome.exit() != 0 {
        return Err(complaint(&outcome.output, outcome.exit()));
    }
    if arm.recorder != Recorder::Nothing && !recording_path(tools.folder).exists() {
        return Err("it wrote no recording".to_owned());
    }
    Ok(())
}

/// What a program that failed had to say: the first line that looks like an error, else the last.
pub(crate) fn complaint(output: &str, exit: i32) -> String {
    // perf puts the word on a line of its own.
    let says = |line: &&str| !line.is_empty() && *line != "Error:";
    let lines = || output.lines().map(str::trim).filter(says);
    let is_error = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["pmuscope:", "error", "cannot", "failed", "invalid", "unknown", "not "]
            .iter()
            .any(|word| line.contains(word))
    };
    match lines().find(is_error).or(lines().next_back()) {
        Some(line) => format!("exit status {exit}: {line}"),
        None => format!("exit status {exit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_the_reason_is_found() {
        let perf = "\n  Error: unknown option `affinity=cpu'\n\n Usage: perf record [<options>]\n";
        assert_eq!(complaint(perf, 129), "exit status 129: Error: unknown option `affinity=cpu'");
        let perf = "Error:\nAccess to performance monitoring is not permitted.\nConsider\n";
        let said = "exit status 255: Access to performance monitoring is not permitted.";
        assert_eq!(complaint(perf, 255), said);
        assert_eq!(complaint("some text\nthe end\n", 3), "exit status 3: the end");
        assert_eq!(complaint("", 139), "exit status 139");
    }
}
