//! The mix in several processes at once.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::{NAME, Options, refused};
use crate::error::WorkloadError;
use crate::facts::{MixFacts, WorkloadFacts};

/// More than any machine has CPUs; a slip of the keyboard should not start a million processes.
const MOST: usize = 1024;

/// Runs the mix in `processes` processes of `program`, this one, and adds up what they tell. Each has a
/// seed of its own.
///
/// # Errors
/// A number without sense, or a process that cannot be started or fails.
pub fn run_processes(
    program: &Path,
    processes: usize,
    options: &Options,
) -> Result<WorkloadFacts, WorkloadError> {
    if processes == 0 || processes > MOST {
        return Err(refused(format!("--processes {processes}: use 1 to {MOST}")));
    }
    let started = Instant::now();
    let mut children = Vec::new();
    for process in 0..processes {
        let seed = options.seed.wrapping_add((process * options.threads) as u64);
        let argv = arguments(&Options { seed, ..options.clone() });
        let child = Command::new(program)
            .args(argv)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| WorkloadError::system("start a process of the mix", error))?;
        children.push(child);
    }
    // All are waited for, whatever becomes of the first.
    let told: Vec<Result<WorkloadFacts, WorkloadError>> =
        children.into_iter().map(facts_of).collect();
    let mut told = told.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
    let mut sum = told.next().ok_or_else(|| refused("no process".to_owned()))?;
    for facts in told {
        add(&mut sum, &facts);
    }
    sum.time_s = started.elapsed().as_secs_f64();
    if let Some(mix) = &mut sum.mix {
        mix.processes = processes;
        mix.seed = options.seed.to_string();
    }
    Ok(sum)
}

/// The command line of one process.
fn arguments(options: &Options) -> Vec<OsString> {
    let mut argv: Vec<OsString> = ["workload", NAME, "--json"].map(OsString::from).into();
    let mut add = |flag: &str, value: String| argv.extend([flag.into(), value.into()]);
    if let Some(only) = options.only {
        add("--only", (only + 1).to_string());
    }
    if let Some(rounds) = options.rounds {
        add("--rounds", rounds.to_string());
    }
    if let Some(duration) = options.duration {
        add("--seconds", duration.as_secs_f64().to_string());
    }
    add("--seed", options.seed.to_string());
    add("--length", options.length.to_string());
    add("--memory", (options.memory >> 20).to_string());
    add("--threads", options.threads.to_string());
    if options.pin {
        argv.push("--pin".into());
    }
    argv
}

fn facts_of(child: Child) -> Result<WorkloadFacts, WorkloadError> {
    let failed =
        |why: String| WorkloadError::system("run a process of the mix", std::io::Error::other(why));
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Adds what another process did.
fn add(sum: &mut WorkloadFacts, other: &WorkloadFacts) {
    sum.threads = Some(sum.threads.unwrap_or(0) + other.threads.unwrap_or(0));
    sum.user_s += other.user_s;
    sum.system_s += other.system_s;
    sum.max_rss_bytes = sum.max_rss_bytes.max(other.max_rss_bytes);
    sum.minor_faults += other.minor_faults;
    sum.major_faults += other.major_faults;
    let (Some(mix), Some(other)) = (&mut sum.mix, &other.mix) else { return };
    let MixFacts { rounds, deepest, functions, .. } = other;
    mix.rounds += rounds;
    mix.deepest = mix.deepest.max(*deepest);
    for (function, other) in mix.functions.iter_mut().zip(functions) {
        function.calls += other.calls;
    }
}
