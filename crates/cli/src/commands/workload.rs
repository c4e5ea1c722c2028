//! `pmuscope workload`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use pmuscope_console::exit::{Exit, bad_input, failure};
use pmuscope_console::output::Output;
use pmuscope_console::say;
use pmuscope_machine::FileKind;
use pmuscope_report::number::counted;
use pmuscope_report::to_json;
use pmuscope_workloads::{
    MixFacts, WaitsFacts, WorkloadError, WorkloadFacts, command, exact, function_mix, mix, orders,
    ring, stencil, waits,
};

use crate::commands::duration;
use crate::commands::workload_memory;
use crate::commands::workload_regions::CountArgs;
use crate::terminal;

/// Flags of `pmuscope workload`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: WorkloadCommand,
}

#[derive(Debug, Subcommand)]
enum WorkloadCommand {
    /// Call known functions in random order; prints calls and instructions
    FunctionMix(FunctionMixArgs),
    /// Spend set shares of CPU time in three functions
    ShareMix(ShareMixArgs),
    /// Sweep a grid with threads and barriers; prints Mop/s
    Stencil(StencilArgs),
    /// Serve orders: parse, sort, sum, reply; print requests per second
    Orders(OrdersArgs),
    /// Run a loop with a known number of instructions
    ExactLoop(ExactArgs),
    /// Send packets through shared memory; prints Mpps
    Ring(RingArgs),
    /// Access memory, placed as asked; prints GB/s or ns per load
    Memory(Box<MemoryArgs>),
    /// Block on a futex, a pipe and a timer for set times
    Waits(WaitsArgs),
    /// Run any program and report its resource usage
    Command(CommandArgs),
}

/// What the workloads with threads know.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Run N threads [default: one per allowed CPU]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Pin each thread to one CPU
    #[arg(long)]
    pin: bool,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Debug, clap::Args)]
struct JsonArgs {
    /// Print the results as JSON, or write them to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
}

impl JsonArgs {
    /// Asks, before anything runs, whether the file can be written.
    fn check(&self) -> anyhow::Result<()> {
        match &self.json {
            Some(Some(file)) => Output::to(Some(file)).check(FileKind::Json),
            _ => Ok(()),
        }
    }

    /// Prints the text, or JSON instead; JSON goes to the file as well.
    fn show(&self, text: &str, json: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<()> {
        match self.json {
            Some(None) => terminal::print(&json()?)?,
            _ => terminal::print(text)?,
        }
        self.keep(json)
    }

    /// Writes the file, if one was asked for.
    fn keep(&self, json: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<()> {
        match &self.json {
            Some(Some(file)) => Output::to(Some(file)).print(FileKind::Json, &json()?),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, clap::Args)]
struct MemoryArgs {
    #[command(flatten)]
    memory: workload_memory::Args,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Debug, clap::Args)]
struct WaitsArgs {
    /// Block N times per thread
    #[arg(long, value_name = "N", default_value_t = waits::Options::default().rounds)]
    rounds: u64,
    /// Block for DURATION each time (a plain number: ms)
    #[arg(long, value_name = "DURATION", value_parser = duration::milliseconds, default_value = "20ms")]
    length: u64,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Debug, clap::Args)]
struct CommandArgs {
    #[command(flatten)]
    json: JsonArgs,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct ExactArgs {
    /// Run N iterations
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    rounds: u64,
    #[command(flatten)]
    count: CountArgs,
    #[command(flatten)]
    json: JsonArgs,
}

impl ExactArgs {
    fn run(&self) -> anyhow::Result<Exit> {
        let Some(report) = self.count.run(self.rounds)? else {
            return tell(&exact::run(self.rounds)?, &self.json);
        };
        self.json.show(&report.to_string(), || Ok(format!("{}\n", report.to_json())))?;
        // What was asked for and is not there is said in the report.
        Ok(if report.refused.is_empty() { Exit::Done } else { Exit::Incomplete })
    }
}

#[derive(Debug, clap::Args)]
struct RingArgs {
    /// Detect full slots by indices (basic) or slot flags (fastforward)
    #[arg(long, value_name = "MODE", default_value = "basic", value_parser = ["basic", "fastforward"])]
    mode: String,
    /// Run both sides in one process (1) or two (2)
    #[arg(long, value_name = "N", default_value_t = 2)]
    processes: usize,
    /// Send N packets
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    packets: u64,
    /// With one process: switch sides every N packets
    #[arg(long, value_name = "N", default_value_t = 100)]
    burst: u64,
    /// Make the producer write N bytes per packet
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes_written: usize,
    /// Make the consumer read N bytes per packet
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes_read: usize,
    /// Leave placement to the scheduler
    #[arg(long)]
    no_pin: bool,
    /// The ring that another process made: how it starts its consumer
    #[arg(long, value_name = "PATH", hide = true)]
    attach: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

impl RingArgs {
    fn run(&self) -> anyhow::Result<Exit> {
        let options = ring::Options {
            mode: match self.mode.as_str() {
                "fastforward" => ring::Mode::FastForward,
                _ => ring::Mode::Basic,
            },
            processes: self.processes,
            packets: self.packets,
            burst: self.burst,
            bytes_written: self.bytes_written,
            bytes_read: self.bytes_read,
            pin: !self.no_pin,
        };
        if let Some(path) = &self.attach {
            ring::attach(path, &options)?;
            return Ok(Exit::Done);
        }
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        tell(&ring::run(&program, &options)?, &self.json)
    }
}

#[derive(Debug, clap::Args)]
struct FunctionMixArgs {
    /// Run only this function, by name or number
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Run N rounds per thread [default: as time allows]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Run for at most DURATION [default: 10s, or all rounds]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Seed the order of calls
    ///
    /// Each thread and process uses the next seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Scale the length of calls by FACTOR
    ///
    /// A call has about ten thousand instructions.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    length: f64,
    /// Give each thread's pointer_chase N MiB of memory
    #[arg(long, value_name = "N", default_value_t = 64)]
    memory: usize,
    /// Run N threads per process
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Run N processes concurrently
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// Pin each thread to one CPU
    #[arg(long)]
    pin: bool,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Debug, clap::Args)]
struct ShareMixArgs {
    /// Run for DURATION
    #[arg(long, value_name = "DURATION", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Set shares of integer_division, polynomial and branches
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "60,30,10")]
    shares: Vec<f64>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct OrdersArgs {
    /// Run for DURATION
    #[arg(long, value_name = "DURATION", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct StencilArgs {
    /// Sweep N times [default: as time allows]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Run for at most DURATION [default: 10s, or all steps]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Give each thread N x N cells of 16 bytes
    #[arg(long, value_name = "N", default_value_t = 1024)]
    size: usize,
    #[command(flatten)]
    common: CommonArgs,
}

fn seconds(text: &str) -> Result<Duration, String> {
    duration::parse(text, duration::PlainUnit::Seconds)
}

impl FunctionMixArgs {
    fn run(&self) -> anyhow::Result<WorkloadFacts> {
        let only = self.only.as_deref().map(function_mix::Options::function).transpose()?;
        let defaults = function_mix::Options::default();
        let options = function_mix::Options {
            only,
            rounds: self.rounds,
            duration: self.seconds.or(if self.rounds.is_none() { defaults.duration } else { None }),
            seed: self.seed,
            length: self.length,
            memory: self.memory.saturating_mul(1 << 20),
            threads: self.threads,
            pin: self.pin,
        };
        match self.processes {
            None => Ok(function_mix::run(&options)?),
            Some(processes) => {
                let program =
                    std::env::current_exe().context("cannot find the path of this program")?;
                Ok(function_mix::run_processes(&program, processes, &options)?)
            }
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.workload {
        WorkloadCommand::FunctionMix(args) => tell(&args.run()?, &args.json),
        WorkloadCommand::ShareMix(args) => {
            let shares = args.shares.as_slice().try_into().map_err(|_| {
                let given = args.shares.len();
                bad_input(format!("--shares needs three numbers, got {given}"))
            })?;
            let options = mix::Options {
                duration: args.seconds,
                threads: args.common.threads,
                shares,
                pin: args.common.pin,
            };
            tell(&mix::run(&options)?, &args.common.json)
        }
        WorkloadCommand::Stencil(args) => {
            let by_default = stencil::Options::default().duration;
            let options = stencil::Options {
                threads: args.common.threads,
                size: args.size,
                steps: args.steps,
                duration: args.seconds.or(if args.steps.is_none() { by_default } else { None }),
                pin: args.common.pin,
            };
            tell(&stencil::run(&options)?, &args.common.json)
        }
        WorkloadCommand::Orders(args) => {
            let common = &args.common;
            let (threads, pin) = (common.threads, common.pin);
            let options = orders::Options { duration: args.seconds, threads, pin };
            tell(&orders::run(&options)?, &common.json)
        }
        WorkloadCommand::ExactLoop(args) => args.run(),
        WorkloadCommand::Ring(args) => args.run(),
        WorkloadCommand::Memory(args) => {
            args.json.check()?;
            args.memory.run()?.map_or(Ok(Exit::Done), |facts| tell(&facts, &args.json))
        }
        WorkloadCommand::Waits(args) => {
            let length = Duration::from_millis(args.length);
            tell(&waits::run(&waits::Options { rounds: args.rounds, length })?, &args.json)
        }
        WorkloadCommand::Command(args) => {
            args.json.check()?;
            let (facts, status) = command::run(&args.command).map_err(not_started)?;
            // The program's own output is all there is on stdout: others look for figures in it.
            match &args.json.json {
                None => say!("{}", text(&facts).trim_end()),
                Some(None) => say!("{}", to_json(&facts)?.trim_end()),
                Some(Some(_)) => args.json.keep(|| Ok(to_json(&facts)?))?,
            }
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            // Both kinds of status fit a byte.
            Ok(Exit::Target(u8::try_from(code).unwrap_or(u8::MAX)))
        }
    }
}

fn tell(facts: &WorkloadFacts, args: &JsonArgs) -> anyhow::Result<Exit> {
    args.show(&text(facts), || Ok(to_json(facts)?))?;
    Ok(Exit::Done)
}

/// 127 where the program is not there, 126 where it cannot be executed, as env(1) has it.
fn not_started(error: WorkloadError) -> anyhow::Error {
    let status = match &error {
        WorkloadError::System { source, .. } if source.kind() == ErrorKind::NotFound => 127,
        WorkloadError::System { .. } => 126,
        _ => return error.into(),
    };
    failure(Exit::Target(status), error.to_string())
}

/// `key = value` lines, as the NAS benchmarks print them, so that `--time-from` and
/// `--metric-from` of other commands read them too.
fn text(facts: &WorkloadFacts) -> String {
    let threads = facts.threads.map_or(String::new(), |n| format!(": {}", counted(n, "thread")));
    let mut text = format!("{}{threads}\n", facts.workload);
    for function in &facts.functions {
        let (share, cpu_s) = (100.0 * function.share, function.cpu_s);
        text += &format!("{:<16} = {share:.3} % ({cpu_s:.3} s CPU)\n", function.name);
    }
    if let Some(mix) = &facts.mix {
        text += &mix_text(mix);
    }
    if let Some(stencil) = &facts.stencil {
        text += &format!("Size = {0} x {0} per thread\n", stencil.size);
        text += &format!("Steps = {}\n", stencil.steps);
        text += &format!("Mop/s total = {:.2}\n", stencil.mops);
        text += &format!("Checksum = {}\n", stencil.checksum);
    }
    if let Some(orders) = &facts.orders {
        text += &format!("Requests = {}\nRequests/s = {:.1}\n", orders.requests, orders.per_s);
    }
    if let Some(ring) = &facts.ring {
        text += &format!("Mode = {}\nProcesses = {}\n", ring.mode, ring.processes);
        let cpus: Vec<String> = ring.cpus.iter().map(ToString::to_string).collect();
        text += &format!("CPUs = {}\n", cpus.join(","));
        text += &format!("Packets = {}\nMpps = {:.3}\n", ring.packets, ring.mpps);
    }
    if let Some(memory) = &facts.memory {
        text += &workload_memory::text(memory);
    }
    if let Some(waits) = &facts.waits {
        text += &waits_text(waits);
    }
    if let Some(instructions) = facts.instructions {
        text += &format!("Instructions = {instructions}\n");
    }
    text += &format!("Time in seconds = {:.3}\n", facts.time_s);
    text += &format!("CPU in seconds = {:.3} user {:.3} system\n", facts.user_s, facts.system_s);
    text
}

/// Who waited, for how long, and who woke.
fn waits_text(waits: &WaitsFacts) -> String {
    let mut text = format!("Length = {:.3} s\n", waits.length_s);
    for thread in &waits.threads {
        let by = thread.woken_by.as_deref().unwrap_or("a timer");
        text += &format!(
            "{:<16} = {:.6} s in {} waits, woken by {by}; {} switches of its own will, {} not\n",
            thread.name,
            thread.waited_s,
            thread.waits,
            thread.voluntary_switches,
            thread.involuntary_switches
        );
    }
    text
}

/// What was called; functions that were not have no line.
fn mix_text(mix: &MixFacts) -> String {
    let mut text = format!(
        "Processes = {}\nSeed = {}\nRounds = {}\nDeepest nesting = {}\n",
        mix.processes, mix.seed, mix.rounds, mix.deepest
    );
    for (number, function) in (1..).zip(&mix.functions) {
        if function.calls == 0 {
            continue;
        }
        let (calls, each) = (function.calls, function.instructions_per_call);
        text +=
            &format!("{number:>2} {:<16} = {calls} calls, {each} instructions each", function.name);
        if function.faults_per_call > 0 {
            text += &format!(", {} page faults each", function.faults_per_call);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_tells_what_it_called() {
        let facts: WorkloadFacts = serde_json::from_str(
            r#"{"schema": "pmuscope/workload/1", "workload": "function-mix", "threads": 2,
                "time_s": 1.5, "user_s": 1.25, "system_s": 0.25, "max_rss_bytes": 1,
                "minor_faults": 1, "major_faults": 0,
                "mix": {"processes": 2, "seed": "1", "rounds": 40, "deepest": 3, "functions": [
                  {"name": "nops", "calls": 40, "instructions_per_call": 660, "faults_per_call": 0},
                  {"name": "isb", "calls": 0, "instructions_per_call": 10, "faults_per_call": 0},
                  {"name": "pages", "calls": 40, "instructions_per_call": 55, "faults_per_call": 2}
                ]}}"#,
        )
        .unwrap();
        insta::assert_snapshot!(text(&facts), @r"
        function-mix: 2 threads
        Processes = 2
        Seed = 1
        Rounds = 40
        Deepest nesting = 3
         1 nops             = 40 calls, 660 instructions each
         3 pages            = 40 calls, 55 instructions each, 2 page faults each
        Time in seconds = 1.500
        CPU in seconds = 1.250 user 0.250 system
        ");
    }

    #[test]
    fn facts_are_printed_as_key_and_value() {
        let facts: WorkloadFacts = serde_json::from_str(
            r#"{"schema": "pmuscope/workload/1", "workload": "stencil", "threads": 2,
                "time_s": 11.3100001, "user_s": 22.6, "system_s": 0.01, "max_rss_bytes": 1,
                "minor_faults": 1, "major_faults": 0,
                "functions": [{"name": "f", "cpu_s": 1.5, "share": 0.25, "calls": 1}],
                "stencil": {"size": 1024, "steps": 8000, "mops": 5934.5, "checksum": 1.5}}"#,
        )
        .unwrap();
        insta::assert_snapshot!(text(&facts), @r"
        stencil: 2 threads
        f                = 25.000 % (1.500 s CPU)
        Size = 1024 x 1024 per thread
        Steps = 8000
        Mop/s total = 5934.50
        Checksum = 1.5
        Time in seconds = 11.310
        CPU in seconds = 22.600 user 0.010 system
        ");
    }
}
