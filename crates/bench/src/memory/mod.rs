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
use pmuscope_measure::{MeasureError, Origin, Plan, Planned, Run, RunFile, RunObserver, unix_ns};
use pmuscope_workloads::memory::{self, Access, Thp};
use pmuscope_workloads::{WorkloadError, WorkloadFacts};

use crate::scratch::Scratch;
use arms::{MeasuredAs, MemoryArm};

pub use arms::{NodeCpus, nodes};

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
    /// How often each arm runs.
    pub rounds: usize,
    /// Seed of the order.
    pub seed: u64,
    /// This program.
    pub program: PathBuf,
    /// Where files may be put that are gone at the end.
    pub scratch: PathBuf,
}

/// Why it is not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryBenchError {
    /// Times are not the machine's.
    #[error(
        "memory has no speed here: instructions are run by {0}, so bandwidth and latency would be the emulator's. \
         Run it on the machine itself; pmuscope workload memory counts bytes and faults here too"
    )]
    Emulated(String),
    /// Nothing to measure.
    #[error("{0}")]
    Options(String),
    /// A run could not be made.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Results cannot be kept.
    #[error(transparent)]
    Measure(#[from] MeasureError),
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

/// Runs all arms in random order and adds them to `file`, until `stop` says so; false then.
///
/// # Errors
/// If the machine is emulated, if there is nothing to measure, or a run cannot be made.
pub fn memory(
    machine: &Machine,
    options: &Options,
    file: &mut RunFile,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn RunObserver,
) -> Result<bool, MemoryBenchError> {
    if let Some(sign) = machine.surroundings(&machine.processor()).emulator {
        return Err(MemoryBenchError::Emulated(format!("{} ({})", sign.name, sign.evidence)));
    }
    let nodes = nodes(machine).map_err(MemoryBenchError::Options)?;
    let (arms, notices) = arms::arms(&nodes, options);
    if arms.is_empty() {
        return Err(MemoryBenchError::Options(notices.join(". ")));
    }
    file.notices.extend(notices);
    describe(options, file);
    let scratch = Scratch::new(&options.scratch).map_err(|source| MeasureError::File {
        what: "make a folder in",
        path: options.scratch.clone(),
        source,
    })?;
    let plan = Plan::new(arms.len(), options.rounds, options.seed);
    let make = |file: &mut RunFile, planned: &Planned, _: &mut dyn RunObserver| {
        if stop() {
            return Ok(false);
        }
        let started = SystemTime::now();
        let arm = &arms[planned.arm];
        match measure(arm, options, scratch.path()) {
            Ok(measured) => add(file, planned, arm, (started, &measured)),
            // Its processes hear the user's signal too.
            Err(_) if stop() => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok::<_, MemoryBenchError>(true)
    };
    plan.make_runs(file, watch, |_, _| false, make)
}

fn describe(options: &Options, file: &mut RunFile) {
    let mut set = |key: &str, value: String| file.parameters.insert(key.to_owned(), value);
    set("bytes", options.bytes.to_string());
    set("seconds", options.seconds.to_string());
    set("thp", options.thp.name().to_owned());
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

fn add(
    file: &mut RunFile,
    planned: &Planned,
    arm: &MemoryArm,
    (started, measured): (SystemTime, &RunMeasurement),
) {
    let (index, labels) = (file.runs.len(), arm.labels());
    let none = || "the workload does not tell".to_owned();
    let figures = [
        (BANDWIDTH, "GB/s", measured.gb_per_s, !matches!(arm.what, MeasuredAs::Latency)),
        (LOAD_TIME, "ns", measured.ns_per_load, !matches!(arm.what, MeasuredAs::Bandwidth(_))),
    ];
    for (metric, unit, value, _) in figures.into_iter().filter(|(_, _, _, is_there)| *is_there) {
        file.add(index, &labels, metric, (unit, Origin::Program), value.ok_or_else(none));
    }
    file.runs.push(Run {
        index,
        order: planned.order,
        round: Some(planned.round),
        labels,
        started: unix_ns(started),
        duration_s: measured.seconds,
        exit: Some(0),
        why: None,
        units: Default::default(),
    });
}
