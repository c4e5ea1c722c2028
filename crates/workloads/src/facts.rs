//! What a workload knows of itself at its end: the truth that measurements are checked against.

use pmuscope_machine::child::Usage;
use serde::{Deserialize, Serialize};

/// Kind and version of the object.
pub const SCHEMA: &str = "pmuscope/workload/1";

/// What a workload did, by its own clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
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
    /// `ring`: packets, and how fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingFacts>,
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

impl Facts {
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
            ring: None,
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
        let mut facts = Facts::new("stencil", Some(2), 2.0, &usage);
        let stencil = StencilFacts { size: 4, steps: 8, mops: 0.5, checksum: 0.25 };
        facts.stencil = Some(stencil);
        let text = serde_json::to_string(&facts).unwrap();
        assert!(
            text.starts_with(r#"{"schema":"pmuscope/workload/1","workload":"stencil""#),
            "{text}"
        );
        assert!(!text.contains("functions") && !text.contains("wrapper"), "{text}");
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
    }
}
