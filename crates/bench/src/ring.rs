//! What a packet costs on its way through a ring: within one process, and between two, whose caches send
//! its lines to and fro.
//!
//! A question of 2016: the same program did 69 million packets a second in one process and 5 million in
//! two. Each arm is one way to tell what is full, with one process or two.

use std::ffi::OsString;
use std::path::PathBuf;

use pmuscope_counters::Kernel;
use pmuscope_events::Group;
use pmuscope_machine::{Machine, Target};
use pmuscope_measure::counting::{
    Aggregation, Ended, Options as Counting, Recorded, RepeatedCount, Signal,
};
use pmuscope_measure::{
    Extract, Labels, MeasureError, Origin, Plan, Planned, RunFile, RunObserver,
};
use pmuscope_workloads::ring::{Mode, NAME};

/// Label that tells arms apart: `basic-2`.
pub const ARM: &str = pmuscope_measure::arms::ARM;
/// Unit of work.
pub const PACKET: &str = "packet";
/// Million packets in a second, by the program's own clock.
pub const MPPS: &str = "mpps";

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Ways to tell what is full.
    pub modes: Vec<Mode>,
    /// Numbers of processes: 1, 2.
    pub processes: Vec<usize>,
    /// Packets of each run.
    pub packets: u64,
    /// Packets in a row within one process.
    pub burst: u64,
    /// Bytes of each packet that are written.
    pub bytes_written: usize,
    /// Bytes of each packet that are read.
    pub bytes_read: usize,
    /// Events to count.
    pub groups: Vec<Group>,
    /// How often each arm runs.
    pub rounds: usize,
    /// Seed of the order.
    pub seed: u64,
    /// This program.
    pub program: PathBuf,
}

impl Options {
    fn arms(&self) -> Vec<(Mode, usize)> {
        let of = |&mode: &Mode| self.processes.iter().map(move |&processes| (mode, processes));
        self.modes.iter().flat_map(of).collect()
    }

    fn command(&self, (mode, processes): (Mode, usize)) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![self.program.clone().into()];
        argv.extend(["workload", NAME, "--mode", mode.name()].map(OsString::from));
        let mut add = |flag: &str, value: u64| argv.extend([flag.into(), value.to_string().into()]);
        add("--processes", processes as u64);
        add("--packets", self.packets);
        add("--burst", self.burst);
        add("--bytes-written", self.bytes_written as u64);
        add("--bytes-read", self.bytes_read as u64);
        argv
    }
}

/// Runs all arms in random order and adds them to `file`, up to where `stop` is given; false then.
///
/// # Errors
/// If a run cannot be made or counted, or results cannot be kept.
pub fn ring(
    (kernel, machine): (&dyn Kernel, &Machine),
    options: &Options,
    file: &mut RunFile,
    stop: Signal<'_>,
    watch: &mut dyn RunObserver,
) -> Result<bool, MeasureError> {
    let arms = options.arms();
    let plan = Plan::new(arms.len(), options.rounds, options.seed);
    describe(options, file);
    let mpps = Extract::new(MPPS, "Mpps", r"^Mpps = ([0-9.]+)").ok();
    let make = |file: &mut RunFile, planned: &Planned, watch: &mut dyn RunObserver| {
        if stop.is_given() {
            return Ok(false);
        }
        let arm = arms[planned.arm];
        let counting = Counting {
            target: Target::Command,
            inherit: true,
            groups: options.groups.clone(),
            pinned: false,
            command: options.command(arm),
            keep_output: true,
            delay: None,
            timeout: None,
            interval: None,
            intervals: None,
        };
        let counter = RepeatedCount::new(kernel, machine, &counting)?;
        let (counted, refused) = counter.count(stop, &mut |_, _| {})?;
        if counted.ended == Ended::Interrupted {
            return Ok(false);
        }
        let labels = Labels::from([(ARM.to_owned(), format!("{}-{}", arm.0.name(), arm.1))]);
        let recorded = Recorded {
            order: planned.order,
            round: Some(planned.round),
            labels: Labels::new(),
            arm: labels.clone(),
            aggregation: Aggregation::Global,
        };
        let run = recorded.add(file, &counter, (&counted, &refused));
        file.runs[run].units.insert(PACKET.to_owned(), options.packets as f64);
        if let Some(extract) = &mpps {
            let kind = (extract.unit.as_str(), Origin::Program);
            file.add(run, &labels, MPPS, kind, extract.find(&counted.output));
        }
        let exit = counted.status.map_or(0, |status| status.shell());
        if exit != 0 {
            watch.failed(exit, &counted.output);
        }
        Ok(true)
    };
    plan.make_runs(file, watch, |_, _| false, make)
}

/// What all runs have in common.
fn describe(options: &Options, file: &mut RunFile) {
    let mut set = |key: &str, value: u64| file.parameters.insert(key.to_owned(), value.to_string());
    set("packets", options.packets);
    set("burst", options.burst);
    set("bytes_written", options.bytes_written as u64);
    set("bytes_read", options.bytes_read as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_has_its_command_line() {
        let options = Options {
            modes: vec![Mode::Basic, Mode::FastForward],
            processes: vec![1, 2],
            packets: 7,
            burst: 3,
            bytes_written: 8,
            bytes_read: 0,
            groups: Vec::new(),
            rounds: 1,
            seed: 1,
            program: "/bin/pmuscope".into(),
        };
        let arms = options.arms();
        assert_eq!(arms.len(), 4);
        let words: Vec<String> =
            options.command(arms[3]).iter().map(|word| word.to_string_lossy().into()).collect();
        let expected = "/bin/pmuscope workload ring --mode fastforward --processes 2 --packets 7 \
                        --burst 3 --bytes-written 8 --bytes-read 0";
        assert_eq!(words.join(" "), expected);
    }
}
