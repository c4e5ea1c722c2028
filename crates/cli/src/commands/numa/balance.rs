//! `pmuscope numa balance`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input, beside, failure, not_possible};
use pmuscope_console::output::{Format, OutputArgs, wrote};
use pmuscope_console::say;
use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::{FileKind, Machine, Target, child::own_usage};
use pmuscope_measure::Plan;
use pmuscope_numa::act::{ActError, HostOptions, HostWorld, Targets, block_bytes, folder};
use pmuscope_numa::balance::{
    BalanceError, BalanceSummary, Budget, Ended, LogEvent, LogLine, Options, Stop, names,
    run as place,
};
use pmuscope_numa::observe::{LEAST_PAGES, PAGES};
use pmuscope_report::{Balanced, number};

use super::family;
use super::follow::{Ends, Woken};
use crate::commands::duration;
use crate::commands::program;
use crate::commands::record::size;
use crate::commands::target::{CGROUP, COMMAND, PROCESSES, TargetArgs};
use crate::{replace, signals};

/// Decisions over which pages must not go back and forth.
const WINDOWS: u64 = 60;

pmuscope_console::forms!(BalanceFormats: Text Json Csv Tsv, "pmuscope/numa-balance/1");

/// Flags of `pmuscope numa balance`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa balance -p 4242 --dry-run            show what would be done, and why
  pmuscope numa balance -p 4242 --seconds 60
  pmuscope numa balance --cgroup db.slice --budget 256M --log moves.jsonl
  pmuscope numa balance -p 4242 --metric-cmd ./rate  keep what increases the number it prints
  pmuscope numa balance -- ./server")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs<{ PROCESSES | CGROUP | COMMAND }>,
    /// Ignore children
    #[arg(short = 'i', long, help_heading = "Target")]
    no_inherit: bool,
    /// Show what would be done, and why; change nothing
    #[arg(short = 'n', long, help_heading = "Placement")]
    dry_run: bool,
    /// Move at most SIZE per second
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_budget, help_heading = "Placement")]
    budget: u64,
    /// Set the length of a time block (a plain number: ms)
    ///
    /// Blocks before and after each change are compared.
    #[arg(
        short = 'I',
        long,
        value_name = "DURATION", value_parser = duration::milliseconds_in(50, u64::MAX),
        default_value = "1s", help_heading = "Placement")]
    interval: u64,
    /// Compare N blocks before and after each change
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(3..=1000), help_heading = "Placement")]
    blocks: u64,
    /// Query N pages per block, over all processes
    #[arg(
        long,
        value_name = "N",
        default_value_t = PAGES,
        value_parser = clap::value_parser!(u64).range(LEAST_PAGES..), help_heading = "Placement")]
    pages: u64,
    /// Stop after DURATION [default: when the processes end]
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds, help_heading = "Placement")]
    seconds: Option<f64>,
    /// Judge by a command's last number: more is better
    ///
    /// Run by sh; it prints how fast the processes work.
    #[arg(long, value_name = "CMD", help_heading = "Placement")]
    metric_cmd: Option<String>,
    /// Log observations and decisions to FILE, one JSON object per line
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    log: Option<PathBuf>,
    /// Print only errors
    #[arg(short, long, conflicts_with_all = ["json", "csv", "output", "format"], help_heading = "Output")]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs<BalanceFormats>,
    /// Program to run and place
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn parse_budget(text: &str) -> Result<u64, String> {
    size::bytes("--budget", text)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    let target = args.target.target("numa balance", &args.command)?;
    let checked = check(&machine, args)?;
    program::find(&args.command)?;
    beside(&args.command, balance(&machine, args, target, checked))
}

fn balance(
    machine: &Machine,
    args: &Args,
    target: Target,
    (options, state): (Options, PathBuf),
) -> anyhow::Result<Exit> {
    let form = args.output.form()?;
    let stop = signals::stop_pipe().context("cannot listen for signals")?;
    let is_for_programs = form.format != Format::Text;
    let mut log = Log::new(args.log.as_deref(), is_for_programs || args.quiet)?;
    let mut child = program::start(&args.command)?;
    let target = child.as_ref().map_or(target, |child| Target::Processes(vec![child.pid()]));
    let targets = targets(machine, target, !args.no_inherit)?;
    let mut names = BTreeMap::new();
    let before = own_usage().map_or(0.0, |usage| usage.user_s + usage.system_s);
    let placed = {
        let ends = Ends { stop: stop.as_fd(), child: child.as_ref().map(HeldChild::pidfd) };
        let wait = |length: Duration| match ends.wait(length) {
            Woken::Time => None,
            Woken::Stop => {
                // Taken, so that the next one is seen as another.
                let _ = rustix::io::read(&stop, &mut [0; 1]);
                Some(Stop::Asked)
            }
            Woken::Child => Some(Stop::Gone),
        };
        let host = HostOptions {
            targets,
            metric: args.metric_cmd.clone(),
            limit: args.seconds.map(Duration::from_secs_f64),
            folder: state,
            wait: Box::new(wait),
            pages: args.pages,
            seed: Plan::random_seed(),
        };
        let mut world = HostWorld::new(machine, host).map_err(refused)?;
        let summary = place(&mut world, &options, &mut |entry| {
            name_processes(machine, &entry, &mut names);
            log.write(&entry);
        });
        let no_speed = world.no_speed().map(str::to_owned);
        summary.map(|summary| (summary, no_speed, world.refused().clone()))
    };
    let after = own_usage().map_or(0.0, |usage| usage.user_s + usage.system_s);
    let mut exit = Exit::Done;
    if let Some(child) = &mut child {
        // Without us it goes on as it would have.
        let goes_on = matches!(&placed, Ok((summary, ..)) if summary.ended != Ended::Asked);
        exit = Exit::Target(program::end(child, !goes_on)?.shell());
    }
    let (summary, no_speed, others) = placed.map_err(|error| match error {
        BalanceError::World(error) => refused(error),
        other => not_possible(other),
    })?;
    log.finish()?;
    if log.is_incomplete || !others.is_empty() || nothing_seen(&summary) {
        exit = exit.with_missing();
    }
    if args.quiet {
        return Ok(exit);
    }
    let emulator = machine.emulated_by();
    let balanced = Balanced {
        judges_speed: summary.judge.is_speed(),
        no_speed: no_speed.as_deref(),
        nodes: machine.topology().map_or(0, |topology| topology.nodes.len()),
        budget: args.budget,
        dry_run: args.dry_run,
        names: &names,
        refused: &others,
        cost_s: after - before,
        emulator: emulator.as_deref(),
        summary: &summary,
    };
    form.show(&balanced, &exit)?;
    Ok(exit)
}

/// What can be told before anything is started.
fn check(machine: &Machine, args: &Args) -> anyhow::Result<(Options, PathBuf)> {
    if let Some(path) = &args.log {
        replace::check(path, FileKind::BalanceLog)?;
    }
    let topology = machine.topology().map_err(|error| super::refused(&error))?;
    if topology.nodes.len() < 2 {
        let text = "the machine has one NUMA node: all memory is local, and there is nothing to place. Try: pmuscope lab \
                    run --nodes 2 --cpus 8 -- ...";
        return Err(not_possible(text));
    }
    let unit = block_bytes(machine);
    Budget::new(args.budget, unit).map_err(|error| bad_input(format!("--budget: {error}")))?;
    let state = folder().ok_or_else(|| not_possible(pmuscope_numa::act::StateError::NoFolder))?;
    let least = Duration::from_millis(args.interval) * (2 * args.blocks as u32 + 1);
    if let Some(seconds) = args.seconds.filter(|&s| s < least.as_secs_f64() && !args.dry_run) {
        let text = format!(
            "--seconds {seconds}: to judge a change takes {} blocks of {} ms: {:.1} s. Try: a larger --seconds, or \
             smaller -I or --blocks",
            2 * args.blocks + 1,
            args.interval,
            least.as_secs_f64()
        );
        return Err(bad_input(text));
    }
    let options = Options {
        block: Duration::from_millis(args.interval),
        blocks: usize::try_from(args.blocks).unwrap_or(usize::MAX),
        budget: args.budget,
        unit,
        dry_run: args.dry_run,
        settled: 0,
        windows: WINDOWS,
    };
    Ok((options, state))
}

fn targets(machine: &Machine, target: Target, follow: bool) -> anyhow::Result<Targets> {
    let Target::Cgroup { path, .. } = target else {
        return family(machine, target.pids(), follow).map(Targets::Family);
    };
    let members = machine.cgroup_processes(&path).map_err(|error| super::refused(&error))?;
    if members.is_empty() {
        return Err(bad_input(format!("no process is in cgroup {path}")));
    }
    Ok(Targets::Cgroup(path))
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn refused(error: ActError) -> anyhow::Error {
    let exit = match error {
        ActError::Metric { .. } | ActError::Gone { .. } => Exit::BadInput,
        _ => Exit::NotPossible,
    };
    failure(exit, error.to_string())
}

/// It ended before anything could be said.
fn nothing_seen(summary: &BalanceSummary) -> bool {
    summary.rounds == 0 && summary.ended != Ended::Asked
}

fn name_processes(machine: &Machine, entry: &LogLine, names: &mut BTreeMap<u32, String>) {
    let LogEvent::Decided { plan, .. } = &entry.event else { return };
    for outlook in &plan.outlook {
        if let (false, Ok(task)) =
            (names.contains_key(&outlook.pid), machine.task(outlook.pid, outlook.pid))
        {
            names.insert(outlook.pid, String::from_utf8_lossy(&task.comm).into_owned());
        }
    }
}

/// Lines for programs to a file, and what matters to the terminal.
struct Log {
    file: Option<(PathBuf, BufWriter<File>)>,
    quiet: bool,
    failed: Option<std::io::Error>,
    is_incomplete: bool,
}

impl Log {
    fn new(path: Option<&Path>, quiet: bool) -> anyhow::Result<Self> {
        let file = path
            .map(|path| {
                let file = File::create(path);
                let file = file.with_context(|| format!("cannot write {}", path.display()))?;
                Ok::<_, anyhow::Error>((path.to_owned(), BufWriter::new(file)))
            })
            .transpose()?;
        Ok(Self { file, quiet, failed: None, is_incomplete: false })
    }

    fn write(&mut self, entry: &LogLine) {
        if let (Some((_, file)), None) = (&mut self.file, &self.failed) {
            let written = serde_json::to_writer(&mut *file, entry)
                .map_err(std::io::Error::other)
                .and_then(|()| file.write_all(b"\n"))
                // Whoever follows the file sees each line; after a kill all are there.
                .and_then(|()| file.flush());
            self.failed = written.err();
        }
        self.is_incomplete |=
            matches!(entry.event, LogEvent::Refused { .. } | LogEvent::PingPong { .. });
        if let (false, Some(line)) = (self.quiet, notice(&entry.event)) {
            say!("{:8.1} s  {line}", entry.t);
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        match (&self.file, self.failed.take()) {
            (Some((path, _)), Some(error)) => {
                Err(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
            }
            (Some((path, _)), None) => {
                if !self.quiet {
                    wrote(path);
                }
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}

/// What happened, if it matters to somebody who looks on.
fn notice(event: &LogEvent) -> Option<String> {
    Some(match event {
        LogEvent::Pinned { pid, nodes, threads } => {
            format!(
                "process {pid}: {} {} on {}",
                number::counted(*threads, "thread"),
                number::agree(*threads, "runs", "run"),
                names(nodes)
            )
        }
        LogEvent::Decided { plan, .. } if plan.bytes() > 0 => {
            format!("to move: {}", number::bytes(plan.bytes()))
        }
        LogEvent::Kept { pid, why } => format!("process {pid}: kept: {why}"),
        LogEvent::Undone { pid, why, bytes: 0 } => format!("process {pid}: undone: {why}"),
        LogEvent::Undone { pid, why, bytes } => {
            format!("process {pid}: undone: {why}; {} moved back", number::bytes(*bytes))
        }
        LogEvent::Refused { pid, why } => format!("process {pid}: left alone: {why}"),
        LogEvent::PingPong { pid, why } => format!("process {pid}: left alone: {why}"),
        _ => return None,
    })
}
