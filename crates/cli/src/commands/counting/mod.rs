//! What `stat` and `sweep` have in common: whose events, units of work, and how they end.

mod events;
mod progress;
mod select;
mod user_mode;

use std::ffi::OsString;
use std::path::PathBuf;

use pmuscope_counters::CountersError;
use pmuscope_events::Event;
use pmuscope_machine::CpuSet;
use pmuscope_measure::counting::CountingTarget;
use pmuscope_measure::units::{Before, Unit, UnitSource, Units};
use pmuscope_measure::{Extract, MeasureError, RunFile};

use super::program::not_started;
use crate::exit::{Exit, failure};

pub(super) use events::{Absent, Asked, by_default};
pub(super) use progress::CountingProgress;
pub(super) use select::select;
pub(super) use user_mode::UserMode;

/// Whose events are counted.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TargetArgs {
    /// Count everything on all CPUs
    #[arg(short = 'a', long, help_heading = "What to count")]
    all_cpus: bool,
    /// Count these processes, all their threads and new children
    #[arg(
        short,
        long,
        value_name = "PID,…",
        value_delimiter = ',',
        help_heading = "What to count"
    )]
    pid: Vec<u32>,
    /// Count these threads and their new children
    #[arg(
        short,
        long,
        value_name = "TID,…",
        value_delimiter = ',',
        help_heading = "What to count"
    )]
    tid: Vec<u32>,
    /// Count everything on these CPUs ("0-3,8")
    #[arg(short = 'C', long, value_name = "CPUS", help_heading = "What to count")]
    cpu: Option<String>,
    /// Count the members of this cgroup
    #[arg(short = 'G', long, value_name = "PATH", help_heading = "What to count")]
    cgroup: Option<String>,
    /// Do not follow children
    #[arg(short = 'i', long, help_heading = "What to count")]
    pub(super) no_inherit: bool,
}

impl TargetArgs {
    /// Whose events, or what contradicts itself; `name` is that of the command.
    pub(super) fn target(
        &self,
        name: &str,
        command: &[OsString],
    ) -> anyhow::Result<CountingTarget> {
        self.parse(name, command).map_err(|message| failure(Exit::BadInput, message))
    }

    fn parse(&self, name: &str, command: &[OsString]) -> Result<CountingTarget, String> {
        let cpus = self
            .cpu
            .as_deref()
            .map(|text| CpuSet::parse(text).map_err(|error| format!("-C {text}: {error}")))
            .transpose()?;
        let asked =
            [self.all_cpus, !self.pid.is_empty(), !self.tid.is_empty(), self.cgroup.is_some()];
        if asked.iter().filter(|asked| **asked).count() > 1 {
            return Err(
                "-a, -p, -t and -G say different things about what to count. Try one".into()
            );
        }
        match (&self.cgroup, cpus) {
            (Some(path), cpus) => Ok(CountingTarget::Cgroup { path: path.clone(), cpus }),
            (None, Some(cpus)) if !self.pid.is_empty() || !self.tid.is_empty() => {
                Err(format!("-C {cpus} with -p or -t: not supported. Try -C alone, or -p alone"))
            }
            (None, Some(cpus)) => Ok(CountingTarget::Cpus(cpus)),
            (None, None) if self.all_cpus => Ok(CountingTarget::System),
            (None, None) if !self.pid.is_empty() => Ok(CountingTarget::Processes(self.pid.clone())),
            (None, None) if !self.tid.is_empty() => Ok(CountingTarget::Threads(self.tid.clone())),
            (None, None) if !command.is_empty() => Ok(CountingTarget::Command),
            (None, None) => Err(format!(
                "nothing to count. Try: pmuscope {name} -- COMMAND, pmuscope {name} -p PID, or \
                 pmuscope {name} -a -- sleep 10"
            )),
        }
    }
}

/// In words, for the head of a table.
pub(super) fn describe(target: &CountingTarget, command: &[OsString]) -> String {
    let command: Vec<String> = command.iter().map(|word| word.to_string_lossy().into()).collect();
    let list = |one: &str, several: &str, numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        format!("{} {}", if numbers.len() == 1 { one } else { several }, numbers.join(","))
    };
    let what = match target {
        CountingTarget::Command => return command.join(" "),
        CountingTarget::System => "all CPUs".to_owned(),
        CountingTarget::Cpus(cpus) => format!("CPUs {cpus}"),
        CountingTarget::Cgroup { path, cpus: None } => format!("cgroup {path}"),
        CountingTarget::Cgroup { path, cpus: Some(cpus) } => {
            format!("cgroup {path} on CPUs {cpus}")
        }
        CountingTarget::Processes(pids) => list("process", "processes", pids),
        CountingTarget::Threads(tids) => list("thread", "threads", tids),
    };
    if command.is_empty() { what } else { format!("{what} while {} ran", command.join(" ")) }
}

/// What work the program does.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct UnitArgs {
    /// Each run does N of a unit of work: packet=10e6; may be given several times
    #[arg(long, value_name = "NAME=N", help_heading = "Units of work")]
    per: Vec<String>,
    /// The program prints how many it did: the first group of the last match;
    /// 'request=handled ([0-9.]+) requests'
    #[arg(long, value_name = "NAME=REGEX", help_heading = "Units of work")]
    per_from: Vec<String>,
    /// The program writes how many it did to FILE, in lines such as packet=10000000; of a process that runs
    /// already (-p), the growth of these numbers counts
    #[arg(long, value_name = "FILE", help_heading = "Units of work")]
    per_file: Vec<PathBuf>,
    /// Count EVENT (a tracepoint, a system call, any other) as units: write=syscalls:sys_enter_write
    #[arg(long, value_name = "NAME=EVENT", help_heading = "Units of work")]
    per_event: Vec<String>,
    /// A figure that the program prints, such as Mpps, becomes one of the result
    #[arg(long, value_name = "NAME=REGEX", help_heading = "Units of work")]
    metric_from: Vec<String>,
}

impl UnitArgs {
    /// Units of work and the program's own figures.
    pub(super) fn units(&self) -> anyhow::Result<(Units, Vec<Extract>)> {
        self.parse().map_err(|message| failure(Exit::BadInput, message))
    }

    fn parse(&self) -> Result<(Units, Vec<Extract>), String> {
        let mut units = Units { list: Vec::new(), files: self.per_file.clone() };
        for text in &self.per {
            let wrong = || format!("--per {text}: expected NAME=NUMBER, as in packet=10e6");
            let (name, number) = text.split_once('=').ok_or_else(wrong)?;
            let number: f64 = number.parse().map_err(|_| wrong())?;
            if name.is_empty() || !number.is_finite() || number <= 0.0 {
                return Err(wrong());
            }
            units.list.push(Unit { name: name.to_owned(), source: UnitSource::Number(number) });
        }
        let extract = |flag: &str, text: &String| {
            Extract::named(text).map_err(|error| format!("{flag} {error}"))
        };
        for text in &self.per_from {
            let extract = extract("--per-from", text)?;
            units
                .list
                .push(Unit { name: extract.metric.clone(), source: UnitSource::Output(extract) });
        }
        for text in &self.per_event {
            let wrong = || {
                format!(
                    "--per-event {text}: expected NAME=EVENT, as in write=syscalls:sys_enter_write"
                )
            };
            let (name, event) =
                text.split_once('=').filter(|(n, _)| !n.is_empty()).ok_or_else(wrong)?;
            let source = UnitSource::Event { typed: event.into(), names: Vec::new() };
            units.list.push(Unit { name: name.into(), source });
        }
        let figures = self.metric_from.iter().map(|text| extract("--metric-from", text));
        Ok((units, figures.collect::<Result<_, _>>()?))
    }
}

/// Tells units that are events what those are called where they are counted; the same event is in no two of them.
pub(super) fn name_units(units: &mut Units, events: &[&Event]) {
    units.name_events(|typed| {
        let mut found: Vec<&Event> = Vec::new();
        for &event in events.iter().filter(|event| event.typed == typed.trim()) {
            if !found.iter().any(|known| known.pmu == event.pmu && known.attr == event.attr) {
                found.push(event);
            }
        }
        found.into_iter().map(|event| event.name.clone()).collect()
    });
}

/// Puts what the program did and said of itself into a run of a file; tells what is missing.
pub(super) fn add_work(
    file: &mut RunFile,
    run: usize,
    (units, figures, before): (&Units, &[Extract], &Before),
    output: &str,
) -> Vec<String> {
    let labels = file.arm_of(run);
    for figure in figures {
        let kind = (figure.unit.as_str(), pmuscope_measure::Origin::Program);
        file.add(run, &labels, &figure.metric, kind, figure.find(output));
    }
    units.count(file, run, output, before)
}

/// Names in a run what this machine does not have, with the reason.
pub(super) fn add_absent(file: &mut RunFile, run: usize, absent: &[(String, String)]) {
    let labels = file.arm_of(run);
    for (event, why) in absent {
        let kind = ("", pmuscope_measure::Origin::Hardware);
        file.add(run, &labels, event, kind, Err(why.clone()));
    }
}

/// As env(1) has it where the command cannot be started. What is wrong with arguments or the machine is found
/// before that, and has the same status with and without a command.
pub(super) fn refused(error: &MeasureError, has_command: bool) -> anyhow::Error {
    let exit = match error {
        MeasureError::Counters(error @ CountersError::Spawn { .. }) => return not_started(error),
        MeasureError::Machine(_) | MeasureError::Cgroup { .. } => Exit::BadInput,
        MeasureError::NothingCounted { .. }
        | MeasureError::Counters(CountersError::Open { .. } | CountersError::OpenFiles { .. }) => {
            Exit::NotPossible
        }
        _ if has_command => Exit::Target(125),
        _ => Exit::NotPossible,
    };
    failure(exit, error.to_string())
}
