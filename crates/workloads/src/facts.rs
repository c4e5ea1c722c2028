//! What a workload knows of itself at its end: the truth that measurements are checked against.

use pmuscope_machine::child::Usage;
use serde::{Deserialize, Serialize};

/// Kind and version of the object.
pub const SCHEMA: &str = "pmuscope/workload/1";

/// What a workload did, by its own clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFacts {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name as on the command line.
    pub workload: String,
    /// Threads that did the work; absent for a program that is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Seconds of work, without start and end of the process (CLOCK_MONOTONIC).
    pub time_s: f64,
    /// User seconds of the whole process until now.
    pub user_s: f64,
    /// System seconds of the whole process until now.
    pub system_s: f64,
    /// Peak resident memory, bytes.
    pub max_rss_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// `command`: CPU seconds of the process that ran it, which are in no other field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapper_cpu_s: Option<f64>,
    /// `share-mix`: what each function took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionFacts>,
    /// `function-mix`: what each function did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixFacts>,
    /// `stencil`: how much was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stencil: Option<StencilFacts>,
    /// `orders`: requests, and how fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<OrdersFacts>,
    /// `ring`: packets, and how fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingFacts>,
    /// `memory`: bytes, and how fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryFacts>,
    /// `waits`: who waited, how often and for how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitsFacts>,
    /// `exact-loop`: instructions of the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
}

/// What `function-mix` did: counted, not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixFacts {
    /// Processes.
    pub processes: usize,
    /// Seed of the order, as text.
    pub seed: String,
    /// Rounds, of all threads.
    pub rounds: u64,
    /// Deepest nesting of calls.
    pub deepest: usize,
    /// Functions, in the order of their numbers.
    pub functions: Vec<MixFunction>,
}

/// What a function of `function-mix` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixFunction {
    /// Symbol, as a profiler shows it, without the path in front.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Instructions of its loops in each call; those around them are not in it, some twenty.
    pub instructions_per_call: u64,
    /// Page faults of each call.
    pub faults_per_call: u64,
}

impl MixFunction {
    /// Instructions of all calls.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.calls * self.instructions_per_call
    }
}

/// One function of `share-mix`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionFacts {
    /// Symbol, as a profiler shows it, without the path in front.
    pub name: String,
    /// CPU seconds inside it, all threads together (CLOCK_THREAD_CPUTIME_ID).
    pub cpu_s: f64,
    /// Of the CPU seconds inside all functions, 0..=1.
    pub share: f64,
    /// How often it was called.
    pub calls: u64,
}

/// Work of the order service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrdersFacts {
    /// Requests served, by all threads.
    pub requests: u64,
    /// Requests per second.
    pub per_s: f64,
}

/// Work of the ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingFacts {
    /// How a side knows what is full: `basic` or `fastforward`.
    pub mode: String,
    /// 1 or 2.
    pub processes: usize,
    /// Packets that went through.
    pub packets: u64,
    /// Million packets in a second.
    pub mpps: f64,
    /// CPU of each process when it began, the producer's first; empty in old results.
    #[serde(default)]
    pub cpus: Vec<u32>,
}

/// Waits of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitsFacts {
    /// Process.
    pub pid: u32,
    /// Seconds that each wait was to last.
    pub length_s: f64,
    /// The threads.
    pub threads: Vec<WaitingThread>,
}

/// A thread and its waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingThread {
    /// Its name.
    pub name: String,
    /// Its number.
    pub tid: u32,
    /// The function that it waits in, without the path in front.
    pub function: String,
    /// Name of the thread that wakes it; `None`: a timer does.
    #[serde(default)]
    pub woken_by: Option<String>,
    /// How often it waited.
    pub waits: u64,
    /// Seconds from before each wait until after it (CLOCK_MONOTONIC).
    pub waited_s: f64,
    /// Seconds from before the first to after the last.
    pub time_s: f64,
    /// Times it gave up its CPU since it began, as the kernel counts, up to the last wait.
    pub voluntary_switches: u64,
    /// Times its CPU was taken from it since it began, up to the last wait.
    pub involuntary_switches: u64,
    /// Seconds on a CPU from the first to the last wait; `None` where the kernel does not tell.
    pub on_cpu_s: Option<f64>,
    /// Seconds meanwhile that it could run and waited for a CPU; `None` where the kernel does not tell.
    pub run_queue_s: Option<f64>,
}

/// What processes and threads did with memory. GB are 10^9 bytes; what is measured in time is `None` on an
/// emulated machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// Processes.
    pub processes: usize,
    /// Threads of each.
    pub threads: usize,
    /// Bytes shared by all processes.
    pub global_bytes: u64,
    /// Bytes of each process.
    pub process_bytes: u64,
    /// So many of these under a lock.
    pub locked_bytes: u64,
    /// Bytes of each thread.
    pub thread_bytes: u64,
    /// What was done.
    pub access: String,
    /// In which order.
    pub order: String,
    /// Where memory was taken from.
    pub policy: String,
    /// Bits of the vectors that were loaded or stored at once; `None` where the order or the C library says.
    pub vector_bits: Option<u64>,
    /// Whether an emulator ran the instructions.
    pub emulated: bool,
    /// Rounds that are whole, of all threads.
    pub rounds: u64,
    /// Bytes loaded and stored, by all threads.
    pub bytes: u64,
    /// Bytes of all threads by the time from the first start to the last end.
    pub gb_per_s: Option<f64>,
    /// The fastest thread's speed less the slowest's, as a share of the fastest's; `None` for one thread.
    pub spread: Option<f64>,
    /// Of a chase: nanoseconds of all threads by their loads.
    pub ns_per_load: Option<f64>,
    /// Of a chase, where asked for: how times of loads differed.
    pub load_times: Option<LoadTimes>,
    /// How often a thread was moved.
    pub perturbations: u64,
    /// Each process.
    pub by_process: Vec<MemoryProcess>,
    /// Each thread, process after process.
    pub by_thread: Vec<MemoryThread>,
}

/// Percentiles of the time of a load, by the mean of each batch of loads; within 1.6 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadTimes {
    /// Loads of a batch.
    pub batch: u64,
    /// Batches.
    pub batches: u64,
    /// Half of all batches took so long at most, nanoseconds for each load.
    pub p50_ns: f64,
    /// Nine of ten.
    pub p90_ns: f64,
    /// 99 of 100.
    pub p99_ns: f64,
    /// 999 of 1,000.
    pub p999_ns: f64,
    /// All.
    pub max_ns: f64,
}

/// What a process of `memory` used, its start and end included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryProcess {
    /// Its number, from 0.
    pub process: usize,
    /// Its process id.
    pub pid: u32,
    /// User seconds.
    pub user_s: f64,
    /// System seconds.
    pub system_s: f64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Bytes that its first thread read at the end, where asked to.
    pub reduce_bytes: Option<u64>,
    /// Seconds that took.
    pub reduce_s: Option<f64>,
}

/// What a thread of `memory` did, from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryThread {
    /// Number of its process, from 0.
    pub process: usize,
    /// Its number within that, from 0.
    pub thread: usize,
    /// Its thread id.
    pub tid: u32,
    /// The CPU it ended on.
    pub cpu: Option<u32>,
    /// Rounds that are whole.
    pub rounds: u64,
    /// Bytes loaded and stored.
    pub bytes: u64,
    /// When it began, nanoseconds after the first of all.
    pub start_ns: u64,
    /// When it ended, by the same clock.
    pub end_ns: u64,
    /// Its bytes by its time.
    pub gb_per_s: Option<f64>,
    /// User seconds of the work.
    pub user_s: f64,
    /// System seconds of the work.
    pub system_s: f64,
    /// Page faults without I/O during the work: hint faults of NUMA balancing are among them.
    pub minor_faults: u64,
    /// Page faults with I/O during the work.
    pub major_faults: u64,
}

/// Work of the stencil.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StencilFacts {
    /// Edge of each thread's block, in cells.
    pub size: usize,
    /// Sweeps done.
    pub steps: u64,
    /// Million floating-point operations per second, all threads together.
    pub mops: f64,
    /// Sum of all cells: the same for equal threads, size and steps.
    pub checksum: f64,
}

impl WorkloadFacts {
    /// Facts with what the process has used up to now.
    pub(crate) fn new(workload: &str, threads: Option<usize>, time_s: f64, usage: &Usage) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            workload: workload.to_owned(),
            threads,
            time_s,
            user_s: usage.user_s,
            system_s: usage.system_s,
            max_rss_bytes: usage.max_rss_bytes,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            wrapper_cpu_s: None,
            functions: Vec::new(),
            mix: None,
            stencil: None,
            orders: None,
            ring: None,
            memory: None,
            waits: None,
            instructions: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_json() {
        let usage = Usage { user_s: 1.5, system_s: 0.25, ..Usage::default() };
        let mut facts = WorkloadFacts::new("stencil", Some(2), 2.0, &usage);
        let stencil = StencilFacts { size: 4, steps: 8, mops: 0.5, checksum: 0.25 };
        facts.stencil = Some(stencil);
        let text = serde_json::to_string(&facts).unwrap();
        assert!(
            text.starts_with(r#"{"schema":"pmuscope/workload/1","workload":"stencil""#),
            "{text}"
        );
        assert!(!text.contains("functions") && !text.contains("wrapper"), "{text}");
        assert_eq!(serde_json::from_str::<WorkloadFacts>(&text).unwrap(), facts);
    }
}
