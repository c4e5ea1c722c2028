//! `pmuscope bench numa`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_bench::numa::{
    self, Fitted, NumaBench, Options, Policy, ProgramBench, Suite, Test, UsableNodes, named, own,
};
use pmuscope_bench::{Benchmark, Repetition};
use pmuscope_console::exit::{Exit, failure};
use pmuscope_console::say;
use pmuscope_machine::place::affinity;
use pmuscope_machine::{Machine, Topology};
use pmuscope_measure::Extract;
use pmuscope_numa::convergence::Criterion;
use pmuscope_report::BenchKind;

use super::runs::RunOutputArgs;
use super::{BenchJob, Here, this_program};
use crate::commands::duration;
use crate::commands::record::size;

/// Flags of `pmuscope bench numa`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope bench numa                                   six tests, best and worst binding, balancing on and off: 2 min
  pmuscope bench numa --suite full --json=numa.json     all of perf bench numa mem -a, and two more
  pmuscope bench numa --tests 2x3-convergence,4x4-convergence --policies best,off,on -r 5
  pmuscope bench numa --suite mine.toml --perturb 10s --json=numa.json --resume
  pmuscope bench numa --metric-from 'bops=bOPS.([0-9]+)' -- ./four-jvms    any program

Tests are named PROCESSESxTHREADS: 2x3 is two processes of three threads. Policies: best and worst bind
threads and memory as well and as badly as possible; interleave and weighted-interleave spread pages;
as-is leaves the kernel's settings; off, on and on-fast set its balancing during a run; numad and balance
run a daemon as well.")]
pub(crate) struct Args {
    /// Run this suite: quick, standard, full, guest or a TOML file
    #[arg(long, value_name = "SUITE", default_value = "quick")]
    suite: String,
    /// Run only these tests, of any suite
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tests: Vec<String>,
    /// Compare these placement policies
    ///
    /// [default: best,worst,interleave,off,on; quick without interleave; a program
    /// interleave,off,on; on one node best]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Policy::NAMES.to_vec())]
    policies: Vec<String>,
    /// Run each bandwidth test for DURATION [default: the suite's]
    ///
    /// 60s in standard and full.
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds)]
    seconds: Option<f64>,
    /// Stop convergence tests after DURATION [default: the suite's]
    ///
    /// 100s in standard and full.
    #[arg(long = "time-limit", alias = "limit", value_name = "DURATION", value_parser = duration::positive_seconds)]
    limit: Option<f64>,
    /// Move a thread to the last CPU and back every DURATION
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds)]
    perturb: Option<f64>,
    /// Count as converged within PERCENT of the best binding
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    within: f64,
    /// Require convergence to hold for DURATION
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds, default_value = "2s")]
    hold: f64,
    /// Take a snapshot every DURATION (a plain number: ms)
    #[arg(
        short = 'I',
        long,
        value_name = "DURATION", value_parser = duration::milliseconds_in(10, 999),
        default_value = "250ms"
    )]
    interval: u64,
    /// Query N pages per snapshot, over all processes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4096,
        value_parser = clap::value_parser!(u64).range(64..)
    )]
    pages: u64,
    /// Run each test N times per policy [default: 3; quick 2]
    #[arg(short, long, value_name = "N")]
    repeat: Option<usize>,
    /// Seed the random order of runs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Continue the runs in the file of --json
    #[arg(long)]
    resume: bool,
    /// List the tests that fit this machine, and run nothing
    #[arg(long)]
    list: bool,
    /// Add a metric from the program's output; repeatable
    ///
    /// The first group of the last match.
    #[arg(long, value_name = "NAME=REGEX", requires = "command")]
    metric_from: Vec<String>,
    #[command(flatten)]
    output: RunOutputArgs,
    /// Run this program instead of the tests
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["suite", "tests", "perturb", "list"])]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, here: &Here) -> anyhow::Result<Exit> {
    args.check()?;
    let (machine, topology) = (&here.machine, &here.facts.topology);
    let room = args.room(machine, topology)?;
    let nothing_to_place = nothing_to_place(&room);
    if !args.command.is_empty() {
        let benchmark = args.program((machine, topology), room)?;
        return args.make(here, benchmark, (nothing_to_place, &[]));
    }
    let (tests, seconds, notes) = args.tests()?;
    let tests: Vec<Fitted> = tests.iter().map(|test| Fitted::new(test, &room)).collect();
    if args.list {
        for fitted in &tests {
            println_line(&format!("{:26} {}", fitted.test.name, fitted.describe()))?;
        }
        return Ok(Exit::Done);
    }
    let options = args.options(tests, room, seconds)?;
    args.make(here, NumaBench { machine, topology, options }, (nothing_to_place, &notes))
}

/// Tests, their seconds (of bandwidth, and the most of convergence), and what to know of their names.
type Chosen = (Vec<Test>, (f64, f64), Vec<String>);

/// Said before anything runs.
fn nothing_to_place(room: &UsableNodes) -> Option<&'static str> {
    (room.nodes.len() == 1).then_some(
        "one node with CPUs and memory: all memory is equally near, there is nothing to place, and policies cannot \
         differ. Try: pmuscope lab run --nodes 2 --cpus 8 -- bench numa --suite guest",
    )
}

fn println_line(line: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{line}").context("cannot write to standard output")
}

impl Args {
    fn check(&self) -> anyhow::Result<()> {
        if self.rounds() == 0 || !(0.0..100.0).contains(&self.within) {
            return Err(failure(Exit::BadInput, "-r from 1; --within 0 or more and below 100"));
        }
        if self.resume && self.output.results()?.json.is_none() {
            let text = "--resume needs the run file to continue. Try: --json=FILE --resume";
            return Err(failure(Exit::BadInput, text));
        }
        Ok(())
    }

    /// Says what is to be known, and runs the tests or the program.
    fn make<B: Benchmark>(
        &self,
        here: &Here,
        benchmark: B,
        (note, notes): (Option<&str>, &[String]),
    ) -> anyhow::Result<Exit> {
        for note in notes.iter().map(String::as_str).chain(note) {
            say!("note: {note}");
        }
        let resume = self.output.results()?.json.filter(|path| self.resume && path.exists());
        let rounds = Repetition::new(self.rounds(), self.seed);
        let rounds = Repetition { resume, ..rounds };
        let job = BenchJob::new(benchmark, rounds, BenchKind::Numa, &self.output)?;
        BenchJob { notices: notes.to_vec(), ..job }.run(here)
    }

    /// The same policies for a program of the user's.
    fn program<'m>(
        &self,
        (machine, topology): (&'m Machine, &'m Topology),
        room: UsableNodes,
    ) -> anyhow::Result<ProgramBench<'m>> {
        let extracts =
            self.metric_from.iter().map(|text| Extract::named(text).context("--metric-from"));
        Ok(ProgramBench {
            machine,
            topology,
            command: self.command.clone(),
            extracts: extracts.collect::<anyhow::Result<_>>()?,
            policies: self.policies(&room),
            room,
            interval: Duration::from_millis(self.interval),
            pages: self.pages,
            program: this_program()?,
        })
    }

    fn policies(&self, room: &UsableNodes) -> Vec<Policy> {
        use Policy::{Best, Interleave, Off, On, Worst};
        if !self.policies.is_empty() {
            return self.policies.iter().filter_map(|name| Policy::named(name)).collect();
        }
        match self.suite() {
            // Where all memory is equally near, policies are alike.
            _ if room.nodes.len() == 1 => vec![Best],
            _ if !self.command.is_empty() => vec![Interleave, Off, On],
            Some(Suite::Quick) => vec![Best, Worst, Off, On],
            _ => vec![Best, Worst, Interleave, Off, On],
        }
    }

    fn suite(&self) -> Option<Suite> {
        Suite::named(&self.suite)
    }

    fn rounds(&self) -> usize {
        let is_quick = self.suite() == Some(Suite::Quick) && self.command.is_empty();
        self.repeat.unwrap_or(if is_quick { 2 } else { 3 })
    }

    fn room(&self, machine: &Machine, topology: &Topology) -> anyhow::Result<UsableNodes> {
        let allowed = affinity().context("cannot read the CPU affinity")?;
        let nodes = machine.allowed_nodes_of(std::process::id());
        let room =
            UsableNodes::new(topology, (&allowed, nodes.as_ref()), machine.available_bytes());
        if room.nodes.is_empty() {
            let text = "no node has both memory and CPUs that this process may use: look at taskset -p $$, and at \
                        cpuset.cpus and cpuset.mems of its cgroup";
            return Err(failure(Exit::NotPossible, text));
        }
        Ok(room)
    }

    fn tests(&self) -> anyhow::Result<Chosen> {
        let (suite, seconds) = match Suite::named(&self.suite) {
            Some(suite) => (suite.tests(), suite.seconds()),
            None => self.own_suite()?,
        };
        if self.tests.is_empty() {
            return Ok((suite, seconds, Vec::new()));
        }
        let all: Vec<Test> = suite.into_iter().chain(numa::all()).collect();
        let notes = self.tests.iter().filter_map(|name| numa::note_on(name, &all)).collect();
        let wanted = self.tests.iter().map(|name| {
            named(name, &all).cloned().ok_or_else(|| {
                let text = format!(
                    "there is no test {name}. Try: pmuscope bench numa --suite full --list"
                );
                failure(Exit::BadInput, text)
            })
        });
        Ok((wanted.collect::<anyhow::Result<_>>()?, seconds, notes))
    }

    fn own_suite(&self) -> anyhow::Result<(Vec<Test>, (f64, f64))> {
        let bad = |why: String| {
            let names = Suite::NAMES.join(", ");
            failure(
                Exit::BadInput,
                format!("--suite {}: {why}. Try: {names}, or a TOML file", self.suite),
            )
        };
        let text = std::fs::read_to_string(&self.suite).map_err(|error| bad(error.to_string()))?;
        own(&text, size::bytes).map_err(|error| bad(error.to_string()))
    }

    fn options(
        &self,
        tests: Vec<Fitted>,
        room: UsableNodes,
        (seconds, limit): (f64, f64),
    ) -> anyhow::Result<Options> {
        Ok(Options {
            tests,
            policies: self.policies(&room),
            room,
            seconds: (self.seconds.unwrap_or(seconds), self.limit.unwrap_or(limit)),
            perturb: self.perturb,
            criterion: Criterion { within: self.within / 100.0, hold_s: self.hold },
            interval: Duration::from_millis(self.interval),
            pages: self.pages,
            program: this_program()?,
            scratch: scratch(),
        })
    }
}

/// Control files are read again and again: not on a disk, where that can be had.
fn scratch() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use pmuscope_bench::numa::UsableNode;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn room(nodes: u32) -> UsableNodes {
        let node = |id: u32| UsableNode {
            id,
            cpus: (8 * id..8 * id + 8).collect(),
            free_bytes: Some(32 << 30),
            distances: (0..nodes).map(|to| if to == id { 10 } else { 20 }).collect(),
        };
        UsableNodes { nodes: (0..nodes).map(node).collect(), available_bytes: None }
    }

    fn args(words: &[&str]) -> Args {
        Line::parse_from(std::iter::once("numa").chain(words.iter().copied())).args
    }

    fn options(words: &[&str], nodes: u32) -> Options {
        let args = args(words);
        let (tests, seconds, _) = args.tests().unwrap();
        let room = room(nodes);
        let tests = tests.iter().map(|test| Fitted::new(test, &room)).collect();
        args.options(tests, room, seconds).unwrap()
    }

    /// Work alone; memory has to be touched before it, for each of 34 runs.
    #[test]
    fn quick_takes_less_than_two_minutes() {
        for nodes in [1, 2, 4] {
            let (arms, _) = options(&[], nodes).arms(1);
            let round: f64 = arms.iter().filter_map(|arm| arm.work.seconds).sum();
            let most = round * args(&[]).rounds() as f64;
            assert!(most > 0.0 && most <= 90.0, "{most}");
        }
        assert_eq!(args(&[]).rounds(), 2);
        assert_eq!(args(&["--suite", "standard"]).rounds(), 3);
    }

    #[test]
    fn on_one_node_nothing_is_run_twice_that_cannot_differ() {
        assert_eq!(options(&[], 1).policies, [Policy::Best]);
        assert_eq!(options(&["--policies", "off,on"], 1).policies, [Policy::Off, Policy::On]);
        assert!(nothing_to_place(&room(1)).unwrap().contains("nothing to place"));
        assert_eq!(nothing_to_place(&room(2)), None);
    }
}
