//! `pmuscope workload memory`: flags and text.

use std::path::PathBuf;

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input, failure};
use pmuscope_machine::MemoryPolicy;
use pmuscope_workloads::memory::{
    self, Access, FirstTouch, Init, Options, Order, Sizes, Thp, parse_tasks,
};
use pmuscope_workloads::{MemoryFacts, MemoryThread, WorkloadError, WorkloadFacts};

use crate::commands::duration;
use crate::commands::record::size;

/// Flags of `pmuscope workload memory`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope workload memory --thread 1G --seconds 5                 read bandwidth of one thread
  pmuscope workload memory --processes 2 --threads 3 --process 512M --access both --order random
  pmuscope workload memory --thread 1G --order chase --latency     nanoseconds per load
  pmuscope workload memory --thread 1G --cpus 0 --policy bind:1    from the memory of another node

Sizes take K, M, G. Lists of tasks are those of perf bench numa: 0,2 or 0-3 or 0-6#2, 0_4 for a task with four,
0x3 for three tasks with one. A GB is 10^9 bytes loaded and stored.")]
pub(crate) struct Args {
    /// Run N processes
    #[arg(long, value_name = "N", default_value_t = 1)]
    processes: usize,
    /// Run N threads per process
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Share SIZE of memory between all processes
    #[arg(long, value_name = "SIZE")]
    global: Option<String>,
    /// Share SIZE of memory within each process
    #[arg(long, value_name = "SIZE")]
    process: Option<String>,
    /// Guard the first SIZE of --process by a lock
    #[arg(long, value_name = "SIZE")]
    process_locked: Option<String>,
    /// Give each thread SIZE of its own memory
    #[arg(long, value_name = "SIZE")]
    thread: Option<String>,
    /// Set what is done with memory
    ///
    /// both: load, add, store; zero: memset; stream: non-temporal stores; copy: first half to
    /// second half.
    #[arg(long, value_name = "WHAT", default_value = "read", value_parser = Access::NAMES.to_vec())]
    access: String,
    /// Set the order of accesses
    ///
    /// random: each cache line once per round; chase: each load yields the next address.
    #[arg(long, value_name = "ORDER", default_value = "forward", value_parser = Order::NAMES.to_vec())]
    order: String,
    /// Run for at most DURATION [default: 5s, or all rounds]
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    seconds: Option<f64>,
    /// Access all memory N times per thread [default: as time allows]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Initialize memory with this
    #[arg(long, value_name = "WHAT", default_value = "random", value_parser = Init::NAMES.to_vec())]
    init: String,
    /// Set which thread first touches memory
    ///
    /// own: each thread its own memory and its share of the rest; or all from the node of the first
    /// CPU.
    #[arg(long, value_name = "HOW", default_value = "own", value_parser = FirstTouch::NAMES.to_vec())]
    first_touch: String,
    /// Use transparent huge pages
    #[arg(long, value_name = "WHEN", default_value = "system", value_parser = Thp::NAMES.to_vec())]
    thp: String,
    /// Bind tasks to these CPUs, in order
    ///
    /// Tasks beyond the list run anywhere.
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Bind memory of tasks to these NUMA nodes, in order
    #[arg(long, value_name = "LIST", conflicts_with = "policy")]
    memory_nodes: Option<String>,
    /// Set the memory policy of all tasks
    ///
    /// default, local, bind:NODES, interleave:NODES or weighted-interleave:NODES.
    #[arg(long, value_name = "POLICY", default_value = "default")]
    policy: MemoryPolicy,
    /// Rotate threads through each other's memory in N phases
    #[arg(long, value_name = "N", default_value_t = 1)]
    phases: u64,
    /// Read all memory of a process from one thread last
    #[arg(long)]
    reduce: bool,
    /// Move a thread to the last CPU and back every DURATION
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    perturb: Option<f64>,
    /// Print percentiles of load latency (with --order chase)
    #[arg(long)]
    latency: bool,
    /// Pause for DURATION per 64 KiB (a plain number: ns)
    #[arg(long, value_name = "DURATION", value_parser = duration::nanoseconds, default_value = "0")]
    pause: u64,
    /// Seed orders and values
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Publish placement in FILE while running, for observers
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Attach to this control file
    #[arg(long, value_name = "FILE", hide = true)]
    attach: Option<PathBuf>,
    /// Be this process of the workload
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    attach_process: usize,
}

impl Args {
    /// Runs it; nothing to tell if this is one process of a workload that another one tells of.
    pub(crate) fn run(&self) -> anyhow::Result<Option<WorkloadFacts>> {
        if let Some(control) = &self.attach {
            memory::attach(control, self.attach_process).map_err(|error| refused(&error))?;
            return Ok(None);
        }
        let options = self.options().map_err(bad_input)?;
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        memory::run(&program, &options, self.control.as_deref())
            .map(Some)
            .map_err(|error| refused(&error))
    }

    fn options(&self) -> Result<Options, String> {
        let bytes = |flag: &str, text: &Option<String>| {
            text.as_deref().map_or(Ok(0), |text| size::bytes(flag, text))
        };
        let tasks = |flag: &str, text: &Option<String>| {
            text.as_deref().map_or(Ok(Vec::new()), |text| parse_tasks(flag, text))
        };
        let defaults = Options::default();
        Ok(Options {
            processes: self.processes,
            threads: self.threads,
            sizes: Sizes {
                global: bytes("--global", &self.global)?,
                process: bytes("--process", &self.process)?,
                locked: bytes("--process-locked", &self.process_locked)?,
                thread: bytes("--thread", &self.thread)?,
            },
            access: Access::named(&self.access).unwrap_or(defaults.access),
            order: Order::named(&self.order).unwrap_or(defaults.order),
            seconds: self.seconds.or(if self.rounds.is_none() { defaults.seconds } else { None }),
            rounds: self.rounds,
            init: Init::named(&self.init).unwrap_or(defaults.init),
            first_touch: FirstTouch::named(&self.first_touch).unwrap_or(defaults.first_touch),
            thp: Thp::named(&self.thp).unwrap_or(defaults.thp),
            cpus: tasks("--cpus", &self.cpus)?,
            memory_nodes: tasks("--memory-nodes", &self.memory_nodes)?,
            policy: self.policy.clone(),
            phases: self.phases,
            reduce: self.reduce,
            perturb: self.perturb,
            latency: self.latency,
            pause_ns: self.pause,
            seed: self.seed,
        })
    }
}

fn refused(error: &WorkloadError) -> anyhow::Error {
    let exit = match error {
        WorkloadError::System { .. } => Exit::NotPossible,
        _ => Exit::BadInput,
    };
    failure(exit, error.to_string())
}

/// Lines of what `memory` did.
pub(crate) fn text(facts: &MemoryFacts) -> String {
    let vectors = facts.vector_bits.map_or(String::new(), |bits| format!(", {bits}-bit vectors"));
    let mut text = format!(
        "Processes = {}\nAccess = {}, {}{vectors}\nMemory = {}\n",
        facts.processes,
        facts.access,
        facts.order,
        sizes(facts)
    );
    text += &format!("Rounds = {}\nBytes = {}\n", facts.rounds, facts.bytes);
    let figure = |number: Option<f64>, decimals: usize, unit: &str| match number {
        Some(number) => format!("{number:.decimals$}{unit}"),
        None if facts.emulated => "- (emulated)".to_owned(),
        None => "-".to_owned(),
    };
    text += &format!("GB/s total = {}\n", figure(facts.gb_per_s, 3, ""));
    if facts.by_thread.len() > 1 {
        let spread = facts.spread.map(|spread| 100.0 * spread);
        text += &format!("Spread between threads = {}\n", figure(spread, 2, " %"));
    }
    if facts.order == Order::Chase.name() {
        text += &format!("ns per load = {}\n", figure(facts.ns_per_load, 2, ""));
    }
    if let Some(times) = &facts.load_times {
        text += &format!(
            "ns per load, means of {} = {:.1} p50, {:.1} p90, {:.1} p99, {:.1} p99.9, {:.1} max\n",
            times.batch, times.p50_ns, times.p90_ns, times.p99_ns, times.p999_ns, times.max_ns
        );
    }
    for thread in &facts.by_thread {
        text += &of_thread(thread, &figure(thread.gb_per_s, 3, " GB/s"));
    }
    for process in &facts.by_process {
        if let (Some(bytes), Some(seconds)) = (process.reduce_bytes, process.reduce_s) {
            let seconds = figure(Some(seconds).filter(|_| !facts.emulated), 3, " s");
            text += &format!("Process {} reduced = {bytes} bytes in {seconds}\n", process.process);
        }
    }
    if facts.perturbations > 0 {
        text += &format!("Perturbations = {}\n", facts.perturbations);
    }
    text
}

fn sizes(facts: &MemoryFacts) -> String {
    let kinds = [
        (facts.global_bytes, "global"),
        (facts.process_bytes, "per process"),
        (facts.locked_bytes, "of it under a lock"),
        (facts.thread_bytes, "per thread"),
    ];
    let of_kind = |(bytes, kind): &(u64, &str)| format!("{} KiB {kind}", bytes / 1024);
    let kinds: Vec<String> = kinds.iter().filter(|(bytes, _)| *bytes > 0).map(of_kind).collect();
    format!("{}; policy {}", kinds.join(", "), facts.policy)
}

fn of_thread(thread: &MemoryThread, speed: &str) -> String {
    let cpu = thread.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
    format!(
        "Thread {}.{} = {speed}, {} rounds, {} bytes, CPU {cpu}, {:.3} s user {:.3} s system\n",
        thread.process, thread.thread, thread.rounds, thread.bytes, thread.user_s, thread.system_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(emulated: bool) -> MemoryFacts {
        let measured = |number: f64| (!emulated).then_some(number);
        let thread = |thread: usize, speed: f64| MemoryThread {
            process: 0,
            thread,
            tid: 7,
            cpu: Some(3),
            rounds: 2,
            bytes: 8 << 20,
            start_ns: 0,
            end_ns: 1000,
            gb_per_s: measured(speed),
            user_s: 1.5,
            system_s: 0.25,
            minor_faults: 0,
            major_faults: 0,
        };
        MemoryFacts {
            processes: 1,
            threads: 2,
            global_bytes: 0,
            process_bytes: 4 << 20,
            locked_bytes: 1 << 20,
            thread_bytes: 0,
            access: "read".to_owned(),
            order: "forward".to_owned(),
            policy: "interleave:0-1".to_owned(),
            vector_bits: Some(256),
            emulated,
            rounds: 4,
            bytes: 16 << 20,
            gb_per_s: measured(20.5),
            spread: measured(0.125),
            ns_per_load: None,
            load_times: None,
            perturbations: 0,
            by_process: Vec::new(),
            by_thread: vec![thread(0, 10.0), thread(1, 11.5)],
        }
    }

    #[test]
    fn what_was_done_is_told_line_by_line() {
        insta::assert_snapshot!(text(&facts(false)), @r"
        Processes = 1
        Access = read, forward, 256-bit vectors
        Memory = 4096 KiB per process, 1024 KiB of it under a lock; policy interleave:0-1
        Rounds = 4
        Bytes = 16777216
        GB/s total = 20.500
        Spread between threads = 12.50 %
        Thread 0.0 = 10.000 GB/s, 2 rounds, 8388608 bytes, CPU 3, 1.500 s user 0.250 s system
        Thread 0.1 = 11.500 GB/s, 2 rounds, 8388608 bytes, CPU 3, 1.500 s user 0.250 s system
        ");
    }

    #[test]
    fn an_emulated_machine_has_no_speed() {
        insta::assert_snapshot!(text(&facts(true)), @r"
        Processes = 1
        Access = read, forward, 256-bit vectors
        Memory = 4096 KiB per process, 1024 KiB of it under a lock; policy interleave:0-1
        Rounds = 4
        Bytes = 16777216
        GB/s total = - (emulated)
        Spread between threads = - (emulated)
        Thread 0.0 = - (emulated), 2 rounds, 8388608 bytes, CPU 3, 1.500 s user 0.250 s system
        Thread 0.1 = - (emulated), 2 rounds, 8388608 bytes, CPU 3, 1.500 s user 0.250 s system
        ");
    }
}
