//! `pmuscope sharing --watch LINE`: what watchpoints count on the words of a cache line in a live process.
//!
//! ```text
//!  LINE   1, 2, …   a line of the recording ─► its address in its process; by name in another one ─┐
//!         queue     a variable, field or address, as `watch` takes it ────────────────────────────┴► words of the line
//!         ─► survey (of a running process): which words are accessed at all ─► these, for writes and for reads
//! ```

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::{Form, Format};
use pmuscope_counters::spawn::Status;
use pmuscope_machine::{Machine, Target};
use pmuscope_profile::hits::Hits;
use pmuscope_profile::sharing::{SharedLine, SharedLines, WatchedLine};
use pmuscope_recorder::Summary;
use pmuscope_report::{SampledLine, WatchLimits, WatchedLinesView, escape};
use pmuscope_watch::resolve::{LineWord, WordAccess, line_words};
use pmuscope_watch::target::Target as WatchTarget;

use super::Args;
use crate::commands::watch::{self, TargetRequest, WatchRequest, WatchedPart};
use crate::commands::windows::WithDumps;
use crate::commands::{duration, program};

/// Offsets with a smaller share of a line's samples are not watched.
const SLIGHT: f64 = 0.01;
/// Extra time of the program that watching may take.
const MOST_SLOWDOWN: f64 = 0.1;
/// Debug registers of x86, and at least as many as arm64 has.
const SLOTS: usize = 4;
/// A first look at as many words as there are debug registers.
const LOOK: Duration = Duration::from_millis(250);
/// Records per second: enough that every hit is written down until the slowdown is reached.
const MOST_RECORDS: u64 = 1_000_000;

/// Flags of `--watch`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Watch")]
pub(super) struct WatchLineArgs {
    /// Count reads and writes of a line in a live process
    ///
    /// LINE is the number of a line in the table, if its process still runs, or what pmuscope watch takes: a variable, a
    /// field, *pointer or 0xADDRESS, with -p PID or -- CMD.
    #[arg(long, value_name = "LINE")]
    watch: Option<String>,
    /// Stop watching after DURATION (a plain number: ms)
    #[arg(long, value_name = "DURATION", value_parser = duration::milliseconds)]
    timeout: Option<u64>,
    /// Program to start and watch
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl WatchLineArgs {
    pub(super) fn is_asked(&self) -> bool {
        self.watch.is_some()
    }

    /// Without `--watch` there is nothing to start and nothing to stop.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let flag = match (self.timeout, self.command.is_empty()) {
            (Some(_), _) => "--timeout",
            (None, false) => "-- CMD",
            (None, true) => return Ok(()),
        };
        Err(bad_input(format!(
            "{flag}: needs --watch LINE. Try: pmuscope record --sharing -- CMD, to sample a program"
        )))
    }
}

pub(super) fn run(args: &Args, form: &Form) -> anyhow::Result<Exit> {
    let typed = args.watched.watch.as_deref().unwrap_or_default();
    let machine = Machine::host();
    let number: Option<usize> = typed.parse().ok();
    let sampled = match number.is_some() || args.input.is_named() {
        true => Some(sampled(args)?),
        false => None,
    };
    let line = sampled.as_ref().map(|found| line_of(found, typed, number)).transpose()?.flatten();
    let target = target(args, line)?;
    program::find(&args.watched.command)?;
    let request = request(&machine, args, target, (typed, line.filter(|_| number.is_some())))?;
    let (hits, summary, status) = watched(&machine, &request, args)?;
    let exit = watch::ended(&summary, status);
    let lines = WatchedLine::all(&hits);
    let sampled = sampled.as_ref().zip(line).map(|(found, line)| SampledLine { found, line });
    let limits = match form.format {
        Format::Text => WatchLimits::TEXT,
        Format::Html => WatchLimits::PAGE,
        _ => WatchLimits::ALL,
    };
    let view = WatchedLinesView::new((&hits, &lines), sampled, limits);
    let exit = if view.nothing().is_some() { exit.with_missing() } else { exit };
    form.show(&view, &exit)?;
    Ok(exit)
}

/// What to watch: in running processes, the words of the line that a first look finds accessed.
fn request(
    machine: &Machine,
    args: &Args,
    target: Target,
    (typed, line): (&str, Option<&SharedLine>),
) -> anyhow::Result<WatchRequest> {
    let bytes = args.line_bytes();
    let part = match line {
        Some(line) => of_samples(machine, args, &target, line)?,
        None => WatchedPart::Line(TargetRequest::parse(typed).map_err(bad_input)?, bytes),
    };
    let words = match (&part, target.pids()) {
        (WatchedPart::Line(TargetRequest::Named(of), _), [pid]) => {
            Some(line_words(machine, *pid, of, bytes).map_err(bad_input)?)
        }
        (WatchedPart::Words(words, _), _) => Some(words.clone()),
        _ => None,
    };
    // Of what can be watched; else the error says all.
    watch::warn(machine);
    let words = words.map(|words| accessed_now(machine, args, &target, words)).transpose()?;
    let part = words.map_or(part, |words| WatchedPart::Words(words, WordAccess::Apart));
    Ok(WatchRequest {
        targets: vec![part],
        command: args.watched.command.clone(),
        timeout: args.watched.timeout.map(Duration::from_millis),
        together: 2,
        ..of_words(target)
    })
}

/// A watch of words.
fn of_words(target: Target) -> WatchRequest {
    WatchRequest {
        target,
        targets: Vec::new(),
        command: Vec::new(),
        timeout: None,
        when: None,
        when_changed: false,
        count_only: false,
        max_stack: 0,
        max_records: MOST_RECORDS,
        most_slowdown: Some(MOST_SLOWDOWN),
        together: 1,
        keeps: false,
    }
}

/// The words with at least a hundredth of the accesses in a moment; all, if there were none.
fn accessed_now(
    machine: &Machine,
    args: &Args,
    target: &Target,
    words: Vec<LineWord>,
) -> anyhow::Result<Vec<LineWord>> {
    if words.len() * 2 <= SLOTS {
        return Ok(words);
    }
    let turns = words.len().div_ceil(SLOTS);
    let request = WatchRequest {
        targets: vec![WatchedPart::Words(words.clone(), WordAccess::Any)],
        timeout: Some(LOOK * turns as u32),
        count_only: true,
        ..of_words(target.clone())
    };
    let (hits, ..) = watched(machine, &request, args)?;
    let of_word = |word: &LineWord| {
        let end = word.address + word.bytes;
        let own = hits.info.targets.iter().zip(&hits.targets);
        let own = own.filter(|(target, _)| (word.address..end).contains(&target.address));
        own.map(|(_, hits)| hits.hits).sum::<u64>()
    };
    let counts: Vec<u64> = words.iter().map(of_word).collect();
    let all: u64 = counts.iter().sum();
    let is_accessed = |count: u64| all == 0 || count as f64 >= SLIGHT * all as f64;
    let kept = words.into_iter().zip(counts).filter(|(_, count)| is_accessed(*count));
    Ok(kept.map(|(word, _)| word).collect())
}

/// Watches, and reads what was recorded.
fn watched(
    machine: &Machine,
    request: &WatchRequest,
    args: &Args,
) -> anyhow::Result<(Hits, Summary, Option<Status>)> {
    let folder = tempfile::tempdir().context("cannot make a folder for the recording")?;
    let path = folder.path().join("watch.data");
    let (summary, status) = watch::watch(machine, request, &path)?;
    Ok((hits(args, &path)?, summary, status))
}

/// The lines of the recording.
fn sampled(args: &Args) -> anyhow::Result<SharedLines> {
    let path = args.input.path()?;
    let recording = args.symbols.open(&path)?;
    let mut symbolizer = args.symbols.symbolizer(true, &recording)?;
    // Process ids are of what is watched now.
    args.read(&recording, &path, pmuscope_profile::Filter::default(), &mut symbolizer)
}

/// The line that was typed: by number, or the one at that address.
fn line_of<'a>(
    found: &'a SharedLines,
    typed: &str,
    number: Option<usize>,
) -> anyhow::Result<Option<&'a SharedLine>> {
    let Some(number) = number else {
        let address =
            typed.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let is_it = |line: &&SharedLine| {
            address
                .is_some_and(|address| address & !u64::from(found.line_bytes - 1) == line.address)
        };
        return Ok(found.lines.iter().find(is_it));
    };
    let line = number.checked_sub(1).and_then(|at| found.lines.get(at));
    let lines = found.lines.len();
    line.map(Some).ok_or_else(|| {
        let text = match lines {
            0 => format!("--watch {number}: the recording has no shared cache line. Try: --watch VARIABLE -p PID"),
            _ => format!("--watch {number}: no such line. Try: 1 to {lines}, or --watch VARIABLE -p PID"),
        };
        bad_input(text)
    })
}

/// Processes, or a command.
fn target(args: &Args, line: Option<&SharedLine>) -> anyhow::Result<Target> {
    let pids = args.filter.pids();
    match (pids, args.watched.command.is_empty(), line.and_then(|line| line.pid)) {
        ([], false, _) => Ok(Target::Command),
        ([], true, Some(pid)) => Ok(Target::Processes(vec![pid as u32])),
        ([], true, None) => {
            let owner = line.map(|line| match line.in_kernel {
                true => "the line is of the kernel",
                false => "the line is of a shared file",
            });
            let why = owner.unwrap_or("no process to watch");
            Err(bad_input(format!("--watch: {why}. Try: -p PID, or -- CMD")))
        }
        (pids, true, _) => Ok(Target::Processes(pids.iter().map(|&pid| pid as u32).collect())),
        (_, false, _) => Err(bad_input("-p and -- CMD are different targets. Try: one of them")),
    }
}

/// The sampled words of a line, in the process that had it; in another one the variable of the line.
fn of_samples(
    machine: &Machine,
    args: &Args,
    target: &Target,
    line: &SharedLine,
) -> anyhow::Result<WatchedPart> {
    let bytes = args.line_bytes();
    let is_its = line.pid.is_some_and(|pid| target.pids() == [pid as u32]);
    let (is_its, pid) = match target.pids() {
        [pid, ..] => (is_its, *pid),
        [] => (false, 0),
    };
    if !is_its {
        let name = line.offsets.iter().find_map(|offset| offset.object.clone());
        let Some(name) = name else {
            return Err(bad_input(format!(
                "--watch: the line is memory without a name ({}), which another process has elsewhere. Try: --watch \
                 VARIABLE, *POINTER or 0xADDRESS",
                escape(&line.module)
            )));
        };
        return Ok(WatchedPart::Line(TargetRequest::parse(&name).map_err(bad_input)?, bytes));
    }
    if line.in_kernel {
        return Err(bad_input(
            "--watch: the line is of the kernel. Try: pmuscope watch -a 'kernel!NAME'",
        ));
    }
    let at = format!("{:#x}/{bytes}", line.address);
    let at = WatchTarget::parse(&at).map_err(bad_input)?;
    let words = line_words(machine, pid, &at, bytes).map_err(bad_input)?;
    Ok(WatchedPart::Words(accessed(&words, line), WordAccess::Apart))
}

/// Words at which accesses were sampled, with the names that the samples found.
fn accessed(words: &[LineWord], line: &SharedLine) -> Vec<LineWord> {
    let accesses = |at: &pmuscope_profile::sharing::LineOffset| at.sums.loads() + at.sums.stores();
    let all: u64 = line.offsets.iter().map(accesses).sum();
    let named = |word: &LineWord| {
        let first = (word.address - line.address) as u32;
        let range = first..first + word.bytes as u32;
        let own = || line.offsets.iter().filter(|one| range.contains(&one.offset));
        let sampled: u64 = own().map(accesses).sum();
        let name = word.name.clone().or_else(|| {
            let of = |one: &pmuscope_profile::sharing::LineOffset| {
                Some(format!(
                    "{}{}",
                    one.object.as_deref()?,
                    one.field.as_deref().unwrap_or_default()
                ))
            };
            own().find_map(of)
        });
        (sampled as f64 >= SLIGHT * all as f64 && sampled > 0)
            .then(|| LineWord { name, ..word.clone() })
    };
    words.iter().filter_map(named).collect()
}

fn hits(args: &Args, path: &std::path::Path) -> anyhow::Result<Hits> {
    let recording = args.symbols.open(path)?;
    let mut symbolizer = args.symbols.symbolizer(true, &recording)?;
    let running = symbolizer.running_kernel();
    let options = pmuscope_profile::hits::Options::default();
    Ok(Hits::read(&recording, &options, &running, &mut WithDumps(&mut symbolizer))?)
}

impl Args {
    fn line_bytes(&self) -> u64 {
        self.line_size.into()
    }
}
