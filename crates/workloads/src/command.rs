//! Any program, run as the only child, so that what it used is known apart from whoever started
//! this process: a recorder waits for its command too, and its own usage then holds both.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use pmuscope_machine::child::{own_usage, wait};

use crate::error::WorkloadError;
use crate::facts::WorkloadFacts;

/// Name on the command line.
pub const NAME: &str = "command";

/// Runs `argv` to its end with this process's input and output. The facts are the program's own,
/// but for [`WorkloadFacts::wrapper_cpu_s`].
///
/// # Errors
/// If there is nothing to run, or it cannot be started or waited for.
pub fn run(argv: &[OsString]) -> Result<(WorkloadFacts, ExitStatus), WorkloadError> {
    let Some((program, arguments)) = argv.split_first() else {
        let what = "no command. Try: -- sleep 1".to_owned();
        return Err(WorkloadError::Options { workload: NAME, what });
    };
    let what = format!("start {}", program.to_string_lossy());
    let started = Instant::now();
    let child = Command::new(program)
        .args(arguments)
        .spawn()
        .map_err(|error| WorkloadError::system(what, error))?;
    let (status, usage) =
        wait(child, || false).map_err(|error| WorkloadError::system("wait for it", error))?;
    let mut facts = WorkloadFacts::new(NAME, None, started.elapsed().as_secs_f64(), &usage);
    let own = own_usage().map_err(|e| WorkloadError::system("read the resource usage", e))?;
    facts.wrapper_cpu_s = Some(own.user_s + own.system_s);
    Ok((facts, status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_the_programs() {
        let (facts, status) = run(&["sleep".into(), "0.05".into()]).unwrap();
        assert!(status.success() && facts.time_s >= 0.05);
        // A process that sleeps has fewer pages than one that runs tests.
        assert!(facts.max_rss_bytes > 0 && facts.wrapper_cpu_s.unwrap() > 0.0);
        assert!(run(&[]).unwrap_err().to_string().contains("-- sleep 1"));
        let error = run(&["/nonexistent".into()]).unwrap_err().to_string();
        assert!(error.starts_with("workload: cannot start /nonexistent: "), "{error}");
    }
}
