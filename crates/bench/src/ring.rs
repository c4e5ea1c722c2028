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
    Aggregation, CommandOutput, Ended, Options as Counting, Recorded, RepeatedCount,
};
use pmuscope_measure::{Extract, Labels, Origin, Planned};
use pmuscope_workloads::ring::{Mode, NAME};

use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, labels};

/// Label that tells arms apart: `basic-2`.
pub const ARM: &str = pmuscope_measure::arms::ARM;
/// Unit of work.
pub const PACKET: &str = "packet";
/// Million packets in a second, by the program's own clock.
pub const MPPS: &str = "mpps";

/// Packets through rings.
pub struct RingBench<'a> {
    /// Who counts.
    pub kernel: &'a dyn Kernel,
    /// This machine.
    pub machine: &'a Machine,
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
    /// This program.
    pub program: PathBuf,
}

impl RingBench<'_> {
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

impl Benchmark for RingBench<'_> {
    type Arm = (Mode, usize);

    fn parameters(&self) -> Labels {
        labels([
            ("packets", self.packets.to_string()),
            ("burst", self.burst.to_string()),
            ("bytes_written", self.bytes_written.to_string()),
            ("bytes_read", self.bytes_read.to_string()),
        ])
    }

    fn arms(&mut self, _: &mut Bench<'_>) -> Result<Vec<Self::Arm>, BenchError> {
        let of = |&mode: &Mode| self.processes.iter().map(move |&processes| (mode, processes));
        Ok(self.modes.iter().flat_map(of).collect())
    }

    fn labels(&self, (mode, processes): &Self::Arm) -> Labels {
        labels([(ARM, format!("{}-{processes}", mode.name()))])
    }

    fn run(
        &mut self,
        arm: &Self::Arm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let counting = Counting {
            target: Target::Command,
            inherit: true,
            groups: self.groups.clone(),
            pinned: false,
            command: self.command(*arm),
            output: CommandOutput::Kept,
            delay: None,
            timeout: None,
            interval: None,
            intervals: None,
        };
        let counter = RepeatedCount::new(self.kernel, self.machine, &counting)?;
        let (counted, refused) = counter.count(bench.stop, &mut |_, _| {})?;
        if counted.ended == Ended::Interrupted {
            return Ok(false);
        }
        let labels = self.labels(arm);
        let recorded = Recorded {
            order: planned.order,
            round: Some(planned.round),
            labels: Labels::new(),
            arm: labels.clone(),
            aggregation: Aggregation::Global,
        };
        let run = recorded.add(bench.file, &counter, (&counted, &refused));
        bench.file.runs[run].units.insert(PACKET.to_owned(), self.packets as f64);
        if let Ok(extract) = Extract::new(MPPS, "Mpps", r"^Mpps = ([0-9.]+)") {
            let kind = (extract.unit.as_str(), Origin::Program);
            bench.file.add(run, &labels, MPPS, kind, extract.find(&counted.output));
        }
        let exit = counted.status.map_or(0, |status| status.shell());
        if exit != 0 {
            bench.watch.failed(exit, &counted.output);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_counters::fake::FakeKernel;

    #[test]
    fn each_arm_has_its_command_line() {
        let bench = RingBench {
            kernel: &FakeKernel::default(),
            machine: &Machine::host(),
            modes: vec![Mode::Basic, Mode::FastForward],
            processes: vec![1, 2],
            packets: 7,
            burst: 3,
            bytes_written: 8,
            bytes_read: 0,
            groups: Vec::new(),
            program: "/bin/pmuscope".into(),
        };
        let words: Vec<String> = bench
            .command((Mode::FastForward, 2))
            .iter()
            .map(|word| word.to_string_lossy().into())
            .collect();
        let expected = "/bin/pmuscope workload ring --mode fastforward --processes 2 --packets 7 \
                        --burst 3 --bytes-written 8 --bytes-read 0";
        assert_eq!(words.join(" "), expected);
    }
}
