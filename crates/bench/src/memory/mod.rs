//! Bandwidth and latency of memory, from the CPUs of each node to the memory of each: at rest, and latency while
//! others load memory.
//!
//! Bandwidth takes all CPUs of a node, each with a thread of its own memory; latency takes one, which follows a
//! chain of addresses in random order. For the loaded latency one CPU of a node follows the chain while all
//! others read the same node's memory, with ever shorter pauses; their bandwidth is taken from outside, from
//! the moment the chain is followed to the moment it ends.

mod arms;
mod loaded;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pmuscope_machine::Machine;
use pmuscope_measure::{Labels, Origin, Planned};
use pmuscope_workloads::memory::{self, Access, Thp};
use pmuscope_workloads::{WorkloadError, WorkloadFacts};

use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, labels};
use arms::MeasuredAs;

pub use arms::{MemoryArm, NodeCpus, nodes};

/// Label: what was measured: an [`Access`], [`LATENCY`] or [`LOADED`].
pub const WHAT: &str = "what";
/// [`WHAT`]: of one CPU, the rest of the node at rest.
pub const LATENCY: &str = "latency";
/// [`WHAT`]: the same while the others read.
pub const LOADED: &str = "loaded";
/// Label: the node whose CPUs did it.
pub const CPUS: &str = "cpus";
/// Label: the node whose memory it was.
pub const MEMORY: &str = "memory";
/// Label of [`LOADED`]: nanoseconds that the others wait after each 64 KiB.
pub const PAUSE: &str = "pause_ns";
/// Metric: 10^9 bytes loaded and stored in a second; of [`LOADED`]: by the others.
pub const BANDWIDTH: &str = "bandwidth";
/// Metric: nanoseconds of a load.
pub const LOAD_TIME: &str = "load";

/// Caches hold so small a part of the memory, at most.
const OF_CACHES: u64 = 4;
/// At least so much.
const LEAST: u64 = 256 << 20;
/// Of what is available, and of a node's memory, at most this part.
const PART: u64 = 4;
/// Sizes are multiples of this.
const UNIT: u64 = 2 << 20;

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What all CPUs of a node do.
    pub accesses: Vec<Access>,
    /// Whether latency is measured.
    pub latency: bool,
    /// Pauses of those that load memory, nanoseconds; none: no loaded latency.
    pub pauses: Vec<u64>,
    /// Bytes of each run, over all its threads.
    pub bytes: u64,
    /// Seconds of each run.
    pub seconds: f64,
    /// Threads of a node at most.
    pub threads: Option<usize>,
    /// Huge pages.
    pub thp: Thp,
    /// This program.
    pub program: PathBuf,
    /// Where files may be put that are gone at the end.
    pub scratch: PathBuf,
}

/// Bytes that say more of memory than of caches, as far as there is room: four times the caches that are
/// largest, together; at most a fourth of what is available.
pub fn bytes_by_default(machine: &Machine) -> u64 {
    let caches = machine.topology().map(|topology| machine.caches(&topology)).unwrap_or_default();
    let largest = caches.iter().map(|cache| cache.bytes * cache.count as u64).max();
    let wanted = largest.unwrap_or(0).saturating_mul(OF_CACHES).max(LEAST);
    let room = machine.available_bytes().map_or(LEAST, |bytes| bytes / PART);
    (wanted.min(room) / UNIT).max(1) * UNIT
}

/// Bandwidth and latency between nodes.
pub struct MemoryBench<'a> {
    /// This machine.
    pub machine: &'a Machine,
    /// What to run.
    pub options: Options,
}

impl Benchmark for MemoryBench<'_> {
    type Arm = MemoryArm;

    fn parameters(&self) -> Labels {
        labels([
            ("bytes", self.options.bytes.to_string()),
            ("seconds", self.options.seconds.to_string()),
            ("thp", self.options.thp.name().to_owned()),
        ])
    }

    fn scratch(&self) -> Option<&Path> {
        Some(&self.options.scratch)
    }

    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<MemoryArm>, BenchError> {
        if let Some(sign) = self.machine.virtualization(&self.machine.processor()).emulator {
            return Err(BenchError::Emulated(format!("{} ({})", sign.name, sign.evidence)));
        }
        let nodes = nodes(self.machine).map_err(BenchError::Options)?;
        let (arms, notices) = arms::arms(&nodes, &self.options);
        if arms.is_empty() {
            return Err(BenchError::Options(notices.join(". ")));
        }
        bench.file.notices.extend(notices);
        Ok(arms)
    }

    fn labels(&self, arm: &MemoryArm) -> Labels {
        arm.labels()
    }

    fn seconds(&self, _: &MemoryArm) -> Option<f64> {
        Some(self.options.seconds)
    }

    fn run(
        &mut self,
        arm: &MemoryArm,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let started = SystemTime::now();
        let measured = measure(arm, &self.options, bench.folder())?;
        let (index, labels) = (bench.file.runs.len(), arm.labels());
        let file = &mut *bench.file;
        let mut add = |metric: &str, unit: &str, value: Option<f64>| {
            let value = value.ok_or_else(|| "the workload does not report it".to_owned());
            file.add(index, &labels, metric, (unit, Origin::Program), value);
        };
        if !matches!(arm.what, MeasuredAs::Latency) {
            add(BANDWIDTH, "GB/s", measured.gb_per_s);
        }
        if !matches!(arm.what, MeasuredAs::Bandwidth(_)) {
            add(LOAD_TIME, "ns", measured.ns_per_load);
        }
        file.add_run(planned, labels, (started, measured.seconds));
        Ok(true)
    }
}

/// What one run found.
struct RunMeasurement {
    seconds: f64,
    gb_per_s: Option<f64>,
    ns_per_load: Option<f64>,
}

impl RunMeasurement {
    fn of(facts: &WorkloadFacts) -> Self {
        let memory = facts.memory.as_ref();
        Self {
            seconds: facts.time_s,
            gb_per_s: memory.and_then(|memory| memory.gb_per_s),
            ns_per_load: memory.and_then(|memory| memory.ns_per_load),
        }
    }
}

fn measure(
    arm: &MemoryArm,
    options: &Options,
    scratch: &Path,
) -> Result<RunMeasurement, WorkloadError> {
    let run = |workload: &memory::Options| memory::run(&options.program, workload, None);
    match &arm.what {
        MeasuredAs::Bandwidth(access) => {
            run(&arm.bandwidth(*access, options)).map(|f| RunMeasurement::of(&f))
        }
        MeasuredAs::Latency => run(&arm.latency(options)).map(|f| RunMeasurement::of(&f)),
        MeasuredAs::Loaded { pause_ns } => loaded::measure(arm, *pause_ns, options, scratch),
    }
}
