//! `pmuscope sharing --watch LINE`: what watchpoints count on the words of a cache line in a live process.
//!
//! ```text
//!  LINE   1, 2, …   a line of the recording ─► its address in its process; by name in another one ─┐
//!         queue     a variable, field or address, as `watch` takes it ────────────────────────────┴► words of the line
//!         ─► looks (at a running process): which parts are one word, and which words are accessed
//!         ─► these as long as the slowdown allows, the others now and then, for writes and for reads
//! ```

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::{Form, Format};
use pmuscope_counters::spawn::Status;
use pmuscope_machine::{Machine, Target};
use pmuscope_profile::hits::Hits;
use pmuscope_profile::sharing::{SharedLine, SharedLines, WatchedLine, WatchedWord};
use pmuscope_recorder::Summary;
use pmuscope_report::{SampledLine, WatchLimits, WatchedLinesView, escape};
use pmuscope_watch::resolve::{Attention, LineWord, line_words};
use pmuscope_watch::target::Target as WatchTarget;

use super::Args;
use crate::commands::watch::{self, TargetRequest, WatchRequest, WatchedPart};
use crate::commands::windows::WithDumps;
use crate::commands::{duration, program};

/// Words with a smaller share of a line's accesses are watched now and then only.
const SLIGHT: f64 = 0.01;
/// Extra time of the program that watching may take.
const MOST_SLOWDOWN: f64 = 0.1;
/// Debug registers of x86, and at least as many as arm64 has.
const SLOTS: usize = 4;
/// Looks at all words of a line, for each turn of debug registers.
const LOOK: Duration = Duration::from_millis(100);
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

/// The request for the words of the line; in a running process, accessed words have most of the time.
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
    let words = words.map(|words| looked_at(machine, args, &target, words)).transpose()?;
    let targets = words.map_or_else(
        || vec![part],
        |(accessed, others)| {
            vec![
                WatchedPart::Words(accessed, Attention::Full),
                WatchedPart::Words(others, Attention::Brief),
            ]
        },
    );
    Ok(WatchRequest {
        targets,
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
        // Who reads and writes is all that is asked.
        values: false,
        count_only: false,
        max_stack: 0,
        max_records: MOST_RECORDS,
        most_slowdown: Some(MOST_SLOWDOWN),
        together: 1,
        keeps: false,
    }
}

/// The words with at least a hundredth of the accesses, and the others; all are the first, if there were no accesses.
/// Words without a type are looked at in halves until it shows whether threads use the same bytes.
fn looked_at(
    machine: &Machine,
    args: &Args,
    target: &Target,
    words: Vec<LineWord>,
) -> anyhow::Result<(Vec<LineWord>, Vec<LineWord>)> {
    if words.len() * 2 <= SLOTS && words.iter().all(|word| word.is_typed) {
        return Ok((words, Vec::new()));
    }
    let mut seen = look(machine, args, target, words)?;
    while let Some(doubtful) = doubtful(&seen) {
        let halves = doubtful.iter().flat_map(LineWord::halves).collect();
        seen.retain(|one| !doubtful.contains(&one.word));
        seen.extend(look(machine, args, target, halves)?);
    }
    seen.sort_by_key(|one| one.word.address);
    let all: f64 = seen.iter().map(|one| one.per_s).sum();
    let is_accessed = |one: &SeenWord| all <= 0.0 || one.per_s >= SLIGHT * all;
    let (accessed, others): (Vec<_>, Vec<_>) = seen.into_iter().partition(is_accessed);
    let words = |seen: Vec<SeenWord>| seen.into_iter().map(|one| one.word).collect();
    Ok((words(accessed), words(others)))
}

/// A word after a look.
struct SeenWord {
    word: LineWord,
    per_s: f64,
    /// Several threads access it, one of them for writing.
    is_contended: bool,
}

/// Words of which threads may use different bytes.
fn doubtful(seen: &[SeenWord]) -> Option<Vec<LineWord>> {
    let is_it = |one: &&SeenWord| one.is_contended && !one.word.is_typed && one.word.bytes > 1;
    let words: Vec<LineWord> = seen.iter().filter(is_it).map(|one| one.word.clone()).collect();
    (!words.is_empty()).then_some(words)
}

/// Looks at words in turns. Parts that turn out to be one variable are one word then.
fn look(
    machine: &Machine,
    args: &Args,
    target: &Target,
    words: Vec<LineWord>,
) -> anyhow::Result<Vec<SeenWord>> {
    let turns = (2 * words.len()).div_ceil(SLOTS);
    let request = WatchRequest {
        targets: vec![WatchedPart::Words(words.clone(), Attention::Brief)],
        timeout: Some(LOOK * turns as u32),
        count_only: true,
        together: 2,
        ..of_words(target.clone())
    };
    let (hits, ..) = watched(machine, &request, args)?;
    let lines = WatchedLine::all(&hits);
    let mut seen: Vec<SeenWord> = lines
        .iter()
        .flat_map(|line| {
            line.words.iter().zip(0_u32..).map(move |(word, number)| seen_word(line, word, number))
        })
        .collect();
    // Words of lines without accesses are no rows.
    let is_new = |word: &LineWord, seen: &[SeenWord]| {
        !seen.iter().any(|one| {
            (one.word.address..one.word.address + one.word.bytes).contains(&word.address)
        })
    };
    for word in words {
        if is_new(&word, &seen) {
            seen.push(SeenWord { word, per_s: 0.0, is_contended: false });
        }
    }
    Ok(seen)
}

fn seen_word(line: &WatchedLine, word: &WatchedWord, number: u32) -> SeenWord {
    let own = || line.accesses.iter().filter(move |one| one.word == number);
    let counted: u64 = own().map(pmuscope_profile::sharing::WatchedAccess::all).sum();
    let mut threads: Vec<u32> = own().map(|one| one.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    SeenWord {
        word: LineWord {
            name: Some(word.name.to_string()),
            address: line.address + u64::from(word.offset),
            bytes: word.bytes.into(),
            is_typed: !word.is_untyped,
        },
        per_s: counted as f64 * word.per_access,
        is_contended: threads.len() > 1 && own().any(|one| one.writes > 0),
    }
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

/// The words of a sampled line, in the process that had it; in another one the variable of the line.
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
    Ok(WatchedPart::Words(named(&words, line), Attention::Full))
}

/// Words with the names that the samples found.
fn named(words: &[LineWord], line: &SharedLine) -> Vec<LineWord> {
    let name = |word: &LineWord| {
        let first = (word.address - line.address) as u32;
        let range = first..first + word.bytes as u32;
        let own = line.offsets.iter().filter(|one| range.contains(&one.offset));
        own.filter_map(|one| {
            let field = one.field.as_deref().unwrap_or_default();
            Some(format!("{}{field}", one.object.as_deref()?))
        })
        .next()
    };
    let named = |word: &LineWord| LineWord {
        name: word.name.clone().or_else(|| name(word)),
        ..word.clone()
    };
    words.iter().map(named).collect()
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
