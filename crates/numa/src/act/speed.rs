//! How fast processes go: the first of what a user's command prints and instructions per second.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pmuscope_abi::{Attr, AttrFlags, ReadFormat, event_type, hardware};
use pmuscope_counters::{CountersError, CountingSet, EventRequest, Host, Scope};
use pmuscope_machine::{CpuSet, Machine, Topology};

use super::ActError;
use crate::balance::Judge;

/// A command that takes longer has no answer.
const LONGEST: Duration = Duration::from_secs(10);

/// What measures speed.
#[derive(Debug)]
pub(super) enum Speed {
    Metric(String),
    Instructions { set: CountingSet, last: Option<(Instant, f64)> },
    None,
}

impl Speed {
    /// The first that can be had. With a metric it is run once, so that a mistake shows at once. Why there
    /// is no better one is told beside.
    pub(super) fn choose(
        machine: &Machine,
        topology: &Topology,
        metric: Option<&str>,
        pids: &[u32],
    ) -> Result<(Self, Option<String>), ActError> {
        if let Some(command) = metric {
            ask(command)?;
            return Ok((Self::Metric(command.to_owned()), None));
        }
        match count(machine, topology, pids) {
            Ok(set) => Ok((Self::Instructions { set, last: None }, None)),
            Err(error) => Ok((Self::None, Some(error.to_string()))),
        }
    }

    pub(super) fn judge(&self) -> Judge {
        match self {
            Self::Metric(_) => Judge::Metric,
            Self::Instructions { .. } => Judge::Instructions,
            Self::None => Judge::Locality,
        }
    }

    /// Since the last call; `None` if it cannot be told for this stretch.
    pub(super) fn measure(&mut self) -> Option<f64> {
        match self {
            Self::Metric(command) => ask(command).ok(),
            Self::Instructions { set, last } => {
                let sum: f64 =
                    set.read(&Host).ok()?.iter().filter_map(|it| it.value).map(whole).sum();
                let now = Instant::now();
                let before = last.replace((now, sum));
                let (then, old) = before?;
                let seconds = now.duration_since(then).as_secs_f64();
                (seconds > 0.0).then(|| (sum - old).max(0.0) / seconds)
            }
            Self::None => None,
        }
    }
}

/// The count as it would be had the event been on a counter all the time.
fn whole(value: pmuscope_counters::Value) -> f64 {
    let count = value.value as f64;
    match (value.enabled_ns, value.running_ns) {
        (Some(enabled), Some(running)) if running > 0 => count * enabled as f64 / running as f64,
        _ => count,
    }
}

/// Instructions in user space of these processes and of what they start from now on.
fn count(
    machine: &Machine,
    topology: &Topology,
    pids: &[u32],
) -> Result<CountingSet, CountersError> {
    let attr = Attr {
        event_type: event_type::HARDWARE,
        config: hardware::INSTRUCTIONS,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV | AttrFlags::INHERIT,
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::default()
    };
    let request = EventRequest {
        name: "instructions:u".to_owned(),
        attr,
        leader: None,
        cpus: None,
        any_task: false,
        max_precise: false,
    };
    let tids = pids.iter().flat_map(|&pid| machine.threads(pid).unwrap_or_default()).collect();
    let scope = Scope::Tasks { tids, inherit: true, cpus: CpuSet::new() };
    CountingSet::open(&Host, machine, topology, &scope, vec![request])
}

/// The last number that a command prints.
fn ask(command: &str) -> Result<f64, ActError> {
    let failed = |why: String| ActError::Metric { command: command.to_owned(), why };
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("sh: {error}")))?;
    let out = child.stdout.take();
    // What it prints beyond a pipe's size must not hold it up.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(out) = out {
            // A broken pipe ends the text where it is.
            let _ = out.take(1 << 20).read_to_end(&mut bytes);
        }
        bytes
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() > LONGEST => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("it took more than {} s", LONGEST.as_secs())));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    let text = reader.join().unwrap_or_default();
    if !status.success() {
        return Err(failed(format!("it ended with {status}")));
    }
    last_number(&String::from_utf8_lossy(&text))
        .ok_or_else(|| failed("it printed no number".to_owned()))
}

fn last_number(text: &str) -> Option<f64> {
    let words = text.split(|c: char| c.is_whitespace() || ",;=:".contains(c));
    words.filter_map(|word| word.parse::<f64>().ok()).rfind(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(last_number("12 requests, 3.5e3 per second\n"), Some(3500.0));
        assert_eq!(last_number("rate=7"), Some(7.0));
        assert_eq!(last_number("nan inf none"), None);
    }

    #[test]
    fn a_command_that_tells_nothing_says_why() {
        assert_eq!(ask("echo 1 2 42").unwrap(), 42.0);
        for (command, why) in [("echo none", "no number"), ("exit 3", "exit status: 3")] {
            let error = ask(command).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
