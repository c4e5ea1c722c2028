//! `pmuscope stat`.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use clap::builder::ArgPredicate;
use pmuscope_console::exit::{Exit, bad_input, beside, not_possible};
use pmuscope_console::output::{Format, Formats, OutputArgs, wrote};
use pmuscope_console::say;
use pmuscope_counters::Host;
use pmuscope_counters::spawn::Status;
use pmuscope_events::Event;
use pmuscope_events::metrics::{Formula, Metric, Metrics};
use pmuscope_machine::{FileKind, Machine, Target, text_mark};
use pmuscope_measure::arms::ArmCommand;
use pmuscope_measure::counting::{
    Aggregation, CommandOutput, Counted, CounterSnapshot, Ended, OpenFailure, Options, Recorded,
    RepeatedCount, Signal,
};
use pmuscope_measure::units::Units;
use pmuscope_measure::{
    Labels, MeasureError, Plan, Planned, Program, RunDone, RunFile, RunObserver, arms,
};
use pmuscope_report::{
    LineFormat, Separator, Style, Tool, counts_lines, counts_notes, counts_text, figures_delimited,
    figures_head, intervals_text, to_json,
};

use super::bench::runs::{PreflightCpus, RunOutput, begin, keep, tell_concerns};
use super::counting::{
    Absent, Asked, CountingProgress, UnitArgs, UserMode, add_absent, by_default, name_units,
    refused,
};
use super::doctor;
use super::event_lists::{EventListArgs, catalog};
use super::hooks::{HookArgs, Hooks};
use super::target::{COMMAND, RUNNING, TargetArgs, WHILE, describe};
use super::versus::{VersusArgs, name_arms};
use crate::commands::duration;
use crate::replace;
use crate::signals::stop_pipe;
use crate::terminal;

/// Forms of counts: a file of any other name has the text, as perf's does.
#[derive(Debug, Clone)]
pub(crate) struct StatFormats;

impl Formats for StatFormats {
    const ALL: &[Format] = &[Format::Text, Format::Json, Format::Csv, Format::Tsv, Format::Html];
    const SCHEMA: &str = "pmuscope/runs/1";
    const OTHER: Option<&str> = Some("any other name: text");
}

/// Flags of `pmuscope stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope stat -- make -j8                      count a command's events
  pmuscope stat -r 5 -e page-faults,cs -- ./a    five runs, means with 95% CIs
  pmuscope stat -a --per-node -- sleep 10        the whole machine, per NUMA node
  pmuscope stat -I 1s -p 4711                    a running process, every second
  pmuscope stat --per packet=10e6 -- ./basic1    per unit of work
  pmuscope stat -o a.json -r 10 -- ./a           for pmuscope compare
  pmuscope stat -r 20 --vs './b -x' -- ./a       compare two commands by interleaved runs
  pmuscope stat --parameter n=1,2,4 -- make -j{n}   compare values of an argument")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs<{ RUNNING | COMMAND | WHILE }>,
    /// Do not count children
    #[arg(short = 'i', long, help_heading = "Target")]
    no_inherit: bool,
    /// Count these events, in perf's syntax; repeatable
    ///
    /// Events in braces are counted together.
    #[arg(short, long, value_name = "EVENT", help_heading = "Events")]
    event: Vec<String>,
    /// Compute these metrics or groups, or "all"
    ///
    /// Where their events are counted; pmuscope metrics --list shows them.
    #[arg(
        short = 'M',
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "all",
        help_heading = "Events"
    )]
    metrics: Vec<String>,
    /// Run each command N times [with --vs, --parameter: 10]
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 1,
        default_value_ifs([
            ("commands", ArgPredicate::IsPresent, "10"),
            ("parameters", ArgPredicate::IsPresent, "10"),
        ]),
        help_heading = "Runs"
    )]
    repeat: usize,
    #[command(flatten)]
    versus: VersusArgs,
    #[command(flatten)]
    hooks: HookArgs,
    /// Print counts every DURATION (a plain number: ms)
    #[arg(short = 'I', long = "interval", alias = "interval-print", value_name = "DURATION", value_parser = duration::milliseconds, help_heading = "Runs")]
    interval_print: Option<u64>,
    /// Stop after N intervals
    #[arg(long, value_name = "N", requires = "interval_print", help_heading = "Runs")]
    interval_count: Option<usize>,
    /// Start counting after DURATION (a plain number: ms)
    #[arg(short = 'D', long, value_name = "DURATION", value_parser = duration::milliseconds, help_heading = "Runs")]
    delay: Option<u64>,
    /// Stop after DURATION (a plain number: ms)
    #[arg(long, value_name = "DURATION", value_parser = duration::milliseconds, help_heading = "Runs")]
    timeout: Option<u64>,
    #[command(flatten)]
    units: UnitArgs,
    #[command(flatten)]
    parts: Parts,
    /// Print values separated by SEP, in perf's order
    #[arg(short = 'x', long, value_name = "SEP", help_heading = "Output")]
    field_separator: Option<String>,
    /// Print one JSON object per metric, in perf's names
    #[arg(short = 'j', conflicts_with = "field_separator", help_heading = "Output")]
    json_lines: bool,
    /// Append to the FILE of -o
    #[arg(long, help_heading = "Output")]
    append: bool,
    #[command(flatten, next_help_heading = "Output")]
    results: OutputArgs<StatFormats>,
    /// Program to run
    #[arg(trailing_var_arg = true, value_name = "CMD", help_heading = "Target")]
    command: Vec<OsString>,
}

/// What counts are summed over.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(multiple = false)]
struct Parts {
    /// Show each CPU separately
    #[arg(short = 'A', long, help_heading = "Sums")]
    no_aggr: bool,
    /// Sum per core
    #[arg(long, help_heading = "Sums")]
    per_core: bool,
    /// Sum per die
    #[arg(long, help_heading = "Sums")]
    per_die: bool,
    /// Sum per socket
    #[arg(long, help_heading = "Sums")]
    per_socket: bool,
    /// Sum per NUMA node
    #[arg(long, help_heading = "Sums")]
    per_node: bool,
    /// Show each thread separately (with -p or -t)
    #[arg(long, help_heading = "Sums")]
    per_thread: bool,
}

impl Parts {
    fn aggregation(self, target: &Target) -> Result<Aggregation, String> {
        let by_cpu = [
            (self.no_aggr, Aggregation::Cpu, "-A"),
            (self.per_core, Aggregation::Core, "--per-core"),
            (self.per_die, Aggregation::Die, "--per-die"),
            (self.per_socket, Aggregation::Socket, "--per-socket"),
            (self.per_node, Aggregation::Node, "--per-node"),
        ];
        if let Some((_, aggregation, flag)) = by_cpu.into_iter().find(|(asked, ..)| *asked) {
            return match target.is_of_cpus() {
                true => Ok(aggregation),
                false => Err(format!("{flag}: counts of a task are of no CPU. Try: {flag} -a")),
            };
        }
        match (self.per_thread, target) {
            (true, target) if target.is_by_number() => Ok(Aggregation::Thread),
            (true, _) => Err("--per-thread: needs threads that run already. Try: -p PID".into()),
            (false, _) => Ok(Aggregation::Global),
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    let mut units = args.units.units()?;
    let metrics = chosen_metrics(&args.metrics)?;
    let commands = args.versus.with("stat", &args.command)?;
    let (options, absent, aggregation) = args.options(&units, &machine)?;
    let options = Options { command: commands[0].command.clone(), ..options };
    let events: Vec<&Event> = options.groups.iter().flat_map(|group| &group.events).collect();
    name_units(&mut units, &events);
    let not_computed = not_computed(&args, &metrics, &events);
    for (metric, needs) in &not_computed {
        say!("warning: -M {metric}: not computed, since not all of {needs} are counted here");
    }
    let output = args.run_output()?;
    output.check()?;
    let of_arms: Vec<Options> = commands
        .iter()
        .map(|arm| Options { command: arm.command.clone(), ..options.clone() })
        .collect();
    let counters = of_arms
        .iter()
        .map(|options| RepeatedCount::new(&Host, &machine, options))
        .collect::<Result<Vec<RepeatedCount<'_>>, MeasureError>>()
        .map_err(|error| refused(&error, !options.command.is_empty()))?;
    // A single look at a program should not wait for one at the machine.
    let repeated = args.repeat > 1 && options.target == Target::Command;
    let preflight = if repeated { PreflightCpus::Allowed } else { PreflightCpus::Not };
    let mut file = begin(&machine, &doctor::facts()?, preflight)?;
    if repeated {
        tell_concerns(&file);
    }
    let about = match name_arms(&mut file, &commands) {
        None => describe(&options.target, &options.command),
        Some(commands) if options.target == Target::Command => commands,
        Some(commands) => format!("{} while {commands} ran", describe(&options.target, &[])),
    };
    file.parameters.insert("target".to_owned(), about);
    let mut lines = ResultLines::new(&args, &output, &metrics)?;
    let kept = output.path();
    let arms = commands;
    let stat =
        Stat { args: &args, kept, options: &options, arms, counters, absent, aggregation, units };
    let exit = match stat.count(&mut file, &mut lines) {
        // What was measured is kept, and shown.
        Err(error) if !file.runs.is_empty() => {
            file.why = Some(error.to_string());
            let _ = lines.finish(&file);
            return Err(error);
        }
        exit => exit?,
    };
    beside(&options.command, lines.finish(&file))?;
    Ok(if not_computed.is_empty() { exit } else { exit.with_missing() })
}

/// What was asked for by name, of which nothing can be computed of these events, with what the first needs.
fn not_computed(args: &Args, metrics: &Metrics, events: &[&Event]) -> Vec<(String, String)> {
    let counted: Vec<String> = events.iter().map(|event| metrics.canonical(&event.name)).collect();
    let is_counted = |name: &str| counted.contains(&metrics.canonical(name));
    let can_be = |formula: &Formula| formula.variables().iter().all(|one| is_counted(&one.event));
    let needs = |metric: &Metric| {
        let first = metric.formulas.first().map(Formula::variables).unwrap_or_default();
        let mut names: Vec<&str> = first.iter().map(|variable| &variable.event[..]).collect();
        names.dedup();
        names.join(", ")
    };
    let asked = args.metrics.iter().filter(|name| *name != "all");
    asked
        .filter_map(|name| {
            let chosen = metrics.chosen(&[name]).ok()?;
            let is_lost = !chosen.iter().any(|metric| metric.formulas.iter().any(can_be));
            is_lost
                .then(|| (name.clone(), chosen.first().map_or_else(String::new, |one| needs(one))))
        })
        .collect()
}

impl Args {
    /// Whether lines are perf's, whatever the file is called.
    fn format_is_lines(&self) -> bool {
        self.field_separator.is_some() || self.json_lines
    }

    /// How results are written for programs, where that is not JSON.
    fn lines(&self) -> Option<ResultForm> {
        let separator = self.field_separator.clone().map(LineFormat::Separated);
        if let Some(format) = separator.or(self.json_lines.then_some(LineFormat::Json)) {
            return Some(ResultForm::Perf(format));
        }
        let separator =
            |format| self.results.asks_for(format).then(|| format.separator()).flatten();
        separator(Format::Csv).or_else(|| separator(Format::Tsv)).map(ResultForm::Table)
    }

    /// The first line of a table.
    fn head(&self, separator: Separator) -> String {
        figures_head(self.interval_print.is_some(), separator)
    }

    /// Where results go. `-x` and `-j` write lines to the file of `-o`, whatever it is called, as perf does.
    fn run_output(&self) -> anyhow::Result<RunOutput> {
        let mut output = RunOutput::of(&self.results)?;
        let results = &mut output.results;
        if self.format_is_lines() {
            results.other = self.results.file().map(Path::to_owned).or(results.other.take());
            if results.other.is_some() {
                results.json = self.results.file_of(Format::Json);
                results.html = self.results.file_of(Format::Html);
            }
        }
        // The counts are printed by this command itself, there.
        let lines = match results.tables.is_empty() {
            true => None,
            false => results.tables.remove(0).1,
        };
        results.other = lines.or(results.other.take()).or(results.text.take());
        Ok(output)
    }

    /// Validated; with what was asked for and the machine does not have, and what sums are over.
    fn options(
        &self,
        units: &Units,
        machine: &Machine,
    ) -> anyhow::Result<(Options, Absent, Aggregation)> {
        let target = self.target.target("stat", &self.command)?;
        self.hooks.check("stat", &self.command)?;
        let aggregation = self.parts.aggregation(&target).map_err(bad_input)?;
        if self.repeat == 0 {
            return Err(bad_input("-r 0: no run, so nothing would be counted. Try: -r 5"));
        }
        if self.append && self.results.file().is_none() {
            return Err(bad_input("--append adds to a file. Try: -o FILE --append"));
        }
        if self.interval_print == Some(0) {
            return Err(bad_input("-I 0: an interval has at least 1 millisecond. Try: -I 1000"));
        }
        let of_one = [(self.interval_print.is_some(), "-I"), (self.format_is_lines(), "-x and -j")];
        if let Some((_, flag)) = of_one.iter().find(|(asked, _)| *asked && self.versus.is_asked()) {
            return Err(bad_input(format!(
                "{flag}: prints the runs of one command, --vs and --parameter compare several. Try: --json=FILE, and \
                 pmuscope compare --csv FILE"
            )));
        }
        if self.interval_print.is_some() && units.are_of_whole_runs() {
            return Err(bad_input(
                "-I: --per, --per-from, --per-file and --metric-from are the work of a whole run, not of its intervals. \
                 Try: --per-event, or without -I",
            ));
        }
        let Asked { groups, absent } = asked(self, units.events(), &target, machine)?;
        let milliseconds = |ms: Option<u64>| ms.map(Duration::from_millis);
        let options = Options {
            target,
            inherit: !self.no_inherit,
            groups,
            pinned: false,
            command: self.command.clone(),
            output: self.hooks.output(units.need_output()),
            delay: milliseconds(self.delay),
            timeout: milliseconds(self.timeout),
            interval: milliseconds(self.interval_print),
            intervals: self.interval_count,
        };
        Ok((options, absent, aggregation))
    }
}

impl Args {
    /// The file of -o.
    fn file(&self, path: &Path, is_printed: bool) -> anyhow::Result<File> {
        let kind = match self.lines() {
            _ if is_printed => FileKind::RunFile,
            Some(ResultForm::Perf(LineFormat::Json)) => FileKind::CounterLines,
            Some(ResultForm::Table(_)) => FileKind::Table,
            Some(ResultForm::Perf(LineFormat::Separated(_))) | None => FileKind::Text,
        };
        match self.lines() {
            _ if self.append => {}
            Some(ResultForm::Table(separator)) if kind == FileKind::Table => {
                replace::check_table(path, &self.head(separator))?;
            }
            _ => replace::check(path, kind)?,
        }
        let mut options = File::options();
        options.create(true).append(self.append).write(true).truncate(!self.append);
        let file = options.open(path).and_then(|mut file| {
            let found = file.metadata()?;
            if kind == FileKind::Text && found.is_file() && found.len() == 0 {
                file.write_all(text_mark().as_bytes())?;
            }
            Ok(file)
        });
        file.with_context(|| format!("cannot write {}", path.display()))
    }
}

/// All runs of one command line.
struct Stat<'a> {
    args: &'a Args,
    /// Where results are kept.
    kept: Option<&'a Path>,
    options: &'a Options,
    /// The commands, and what counts each.
    arms: Vec<ArmCommand>,
    counters: Vec<RepeatedCount<'a>>,
    /// What was asked for and the machine does not have.
    absent: Absent,
    aggregation: Aggregation,
    units: Units,
}

/// How a run ended.
#[derive(Clone, Copy)]
struct RunEnd {
    status: Option<Status>,
    ended: Ended,
    /// Events that could not be opened.
    refused: bool,
}

impl Stat<'_> {
    /// Counts as often as asked for, or until the user says so.
    fn count(&self, file: &mut RunFile, lines: &mut ResultLines<'_>) -> anyhow::Result<Exit> {
        let stop = stop_pipe().context("cannot listen for signals")?;
        let signal = Signal(stop.as_fd());
        let clock = Instant::now();
        let arms = self.counters.len();
        let mut ends: Vec<RunEnd> = Vec::new();
        if !self.warm_up(signal)? {
            file.why = Some("interrupted".to_owned());
            return Ok(Exit::Incomplete);
        }
        let mut watch =
            Keeping { path: self.kept, progress: (arms > 1).then(|| CountingProgress::new(None)) };
        let plan = Plan::interleaved(1, arms, self.args.repeat, Plan::random_seed());
        let made = plan.make_runs(
            file,
            &mut watch,
            |_, _| false,
            |file, planned, _| {
                if signal.is_given() || !self.hooks(planned.arm).before(signal)? {
                    return Ok(false);
                }
                ends.push(self.once(planned, signal, file, lines)?);
                self.hooks(planned.arm).after(signal)?;
                Ok(ends.last().is_some_and(|last| last.ended != Ended::Interrupted))
            },
        );
        file.duration_s = clock.elapsed().as_secs_f64();
        if arms == 1 {
            // There is no order to draw.
            file.seed = None;
        }
        made.map_err(|error: anyhow::Error| error)?;
        let done = ends.iter().filter(|end| end.ended != Ended::Interrupted).count();
        let planned = plan.runs.len();
        let last = match arms {
            1 => ends.pop(),
            _ => of_arms(&ends),
        };
        let Some(last) = last else { return Ok(Exit::Incomplete) };
        let is_command = !self.options.command.is_empty();
        // What runs without us is watched until somebody says so.
        let fewer = done < planned && (is_command || self.args.repeat > 1);
        // Of our own choice nobody asked for what the machine does not have.
        let refused = (last.refused || !self.absent.is_empty()) && !self.args.event.is_empty();
        let exit = Exit::of(
            last.status.map(|status| status.shell()),
            refused || fewer || !file.notices.is_empty(),
        );
        if fewer && is_command {
            file.why = Some("interrupted".to_owned());
        } else {
            file.finish(exit.status());
        }
        Ok(exit)
    }

    fn hooks(&self, arm: usize) -> Hooks<'_> {
        Hooks { args: &self.args.hooks, arm: &self.arms[arm] }
    }

    /// Warm-up runs of each command, without counts; false after a signal.
    fn warm_up(&self, signal: Signal<'_>) -> anyhow::Result<bool> {
        for (arm, counter) in self.counters.iter().enumerate() {
            for _ in 0..self.args.hooks.warmup {
                if signal.is_given() || !self.hooks(arm).before(signal)? {
                    return Ok(false);
                }
                let (counted, _) = counter
                    .count(signal, &mut |_, _| {})
                    .map_err(|error| refused(&error, !self.options.command.is_empty()))?;
                if counted.ended == Ended::Interrupted {
                    return Ok(false);
                }
                self.hooks(arm).after(signal)?;
            }
        }
        Ok(true)
    }

    fn once(
        &self,
        planned: &Planned,
        signal: Signal<'_>,
        file: &mut RunFile,
        lines: &mut ResultLines<'_>,
    ) -> anyhow::Result<RunEnd> {
        let before = self.units.before(!self.options.command.is_empty());
        let counter = &self.counters[planned.arm];
        let recorded = Recorded {
            order: planned.order,
            round: (self.args.repeat > 1 || self.counters.len() > 1).then_some(planned.round),
            labels: Labels::new(),
            arm: arms::labels(planned.arm, self.counters.len()),
            aggregation: self.aggregation,
        };
        let mut live = |moments: (Option<&CounterSnapshot>, &CounterSnapshot),
                        refused: &[OpenFailure]| {
            lines.show_interval((counter, &recorded), moments, (refused, &self.absent));
        };
        let (counted, refusals) = counter
            .count(signal, &mut live)
            .map_err(|error| refused(&error, !self.options.command.is_empty()))?;
        let first = recorded.add(file, counter, (&counted, &refusals));
        if self.options.output == CommandOutput::Kept && !self.args.hooks.discards() {
            // The user is to see it as without us, if later.
            let output = counted.output.as_bytes();
            std::io::stdout().write_all(output).context("cannot write to standard output")?;
        }
        for run in first..file.runs.len() {
            add_absent(file, run, &self.absent);
            let missing = self.units.count(file, run, &counted.output, &before);
            file.notices.extend(missing);
        }
        file.notices.extend(counted.notices);
        Ok(RunEnd { status: counted.status, ended: counted.ended, refused: !refusals.is_empty() })
    }
}

/// How the runs of several commands ended together: as the first that failed.
fn of_arms(ends: &[RunEnd]) -> Option<RunEnd> {
    let is_bad = |end: &&RunEnd| end.status.is_some_and(|status| status.shell() != 0);
    let end = ends.iter().find(is_bad).or_else(|| ends.last())?;
    let refused = ends.iter().any(|end| end.refused);
    Some(RunEnd { status: end.status, ended: end.ended, refused })
}

/// Keeps results in the file asked for after each run, and says how far several commands are.
struct Keeping<'a> {
    path: Option<&'a Path>,
    progress: Option<CountingProgress<'a>>,
}

impl RunObserver for Keeping<'_> {
    fn done(&mut self, done: &RunDone<'_>) {
        if let Some(progress) = &mut self.progress {
            progress.done(done);
        }
    }

    fn failed(&mut self, exit: u8, output: &str) {
        if let Some(progress) = &mut self.progress {
            progress.failed(exit, output);
        }
    }

    fn keep(&mut self, file: &RunFile) -> Result<(), MeasureError> {
        // It is tried again at the end, where a failure is shown below the counts.
        let _ = keep(file, self.path);
        Ok(())
    }
}

/// What to count, units of work among it.
fn asked<'a>(
    args: &'a Args,
    of_units: impl Iterator<Item = &'a str>,
    target: &Target,
    machine: &Machine,
) -> anyhow::Result<Asked> {
    let mut asked = by_default(&args.event, machine)?;
    let catalog = catalog(machine, &EventListArgs::default())?;
    of_units.into_iter().try_for_each(|text| asked.add(text, &catalog))?;
    if let Some(user) = UserMode::of(machine, target)
        && user.limit(&mut asked)
    {
        say!("note: {}", user.notice());
    }
    if let ([], Some((event, why))) = (&asked.groups[..], asked.absent.first()) {
        return Err(not_possible(format!("{event}: {why}")));
    }
    Ok(asked)
}

fn chosen_metrics(names: &[String]) -> anyhow::Result<Metrics> {
    let mut metrics = Metrics::builtin();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let chosen: Vec<String> = metrics
        .chosen(&names)
        .map_err(|name| {
            let text = format!("-M {name}: no such metric. Try: pmuscope metrics --list");
            bad_input(text)
        })?
        .into_iter()
        .map(|metric| metric.name.clone())
        .collect();
    metrics.list.retain(|metric| chosen.contains(&metric.name));
    Ok(metrics)
}

/// How results are written for programs.
enum ResultForm {
    /// As perf does, without heads.
    Perf(LineFormat),
    /// A table with its columns in the first line.
    Table(Separator),
}

/// Where results go.
struct ResultLines<'a> {
    args: &'a Args,
    output: &'a RunOutput,
    metrics: &'a Metrics,
    out: Box<dyn Write>,
    /// Heads of columns were printed.
    begun: bool,
    /// What could not be written: told at the end.
    failed: Option<std::io::Error>,
}

impl<'a> ResultLines<'a> {
    fn new(args: &'a Args, output: &'a RunOutput, metrics: &'a Metrics) -> anyhow::Result<Self> {
        let (out, begun): (Box<dyn Write>, bool) = match Self::path(output) {
            None => (Box::new(std::io::stdout()), false),
            Some(path) => {
                let file = args.file(path, output.is_printed())?;
                // A table that is added to has its head.
                let has_head = file.metadata().is_ok_and(|found| found.len() > 0);
                let is_table = matches!(args.lines(), Some(ResultForm::Table(_)));
                (Box::new(file), is_table && has_head)
            }
        };
        Ok(Self { args, output, metrics, out, begun, failed: None })
    }

    /// The file that has what would be printed.
    fn path(output: &RunOutput) -> Option<&Path> {
        output.results.other.as_deref().filter(|path| path.as_os_str() != "-")
    }

    /// Whether results are printed while they come.
    fn is_live(&self) -> bool {
        self.args.interval_print.is_some() && !self.output.is_printed()
    }

    fn show_interval(
        &mut self,
        (counter, recorded): (&RepeatedCount<'_>, &Recorded),
        moments: (Option<&CounterSnapshot>, &CounterSnapshot),
        (refused, absent): (&[OpenFailure], &Absent),
    ) {
        if !self.is_live() {
            return;
        }
        let Tool { name, version } = Tool::PMUSCOPE;
        let tool = Program { name: name.to_owned(), version: version.to_owned() };
        let now = SystemTime::now();
        let mut file = RunFile::new(tool, Vec::new(), now);
        recorded.add_interval(&mut file, counter, &Counted::begun(now), moments, refused);
        add_absent(&mut file, 0, absent);
        let text = match self.args.lines() {
            Some(ResultForm::Perf(format)) => counts_lines(&file, &format),
            Some(ResultForm::Table(separator)) => self.table(&file, separator),
            None => intervals_text(&file, !self.begun),
        };
        self.begun = true;
        self.print(&text);
    }

    /// The table, without its first line where that was written already.
    fn table(&self, file: &RunFile, separator: Separator) -> String {
        let table = figures_delimited(file, separator);
        match table.split_once('\n').filter(|_| self.begun) {
            Some((_, rows)) => rows.to_owned(),
            None => table,
        }
    }

    fn print(&mut self, text: &str) {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn finish(mut self, file: &RunFile) -> anyhow::Result<()> {
        let path = Self::path(self.output);
        let style = match path {
            Some(_) => Style::PLAIN,
            None => terminal::style(),
        };
        let text = match (self.output.is_printed(), self.args.lines()) {
            (true, _) => to_json(file)?,
            // Lines were printed as they came; what they lack has its reasons below them.
            (_, None) if self.is_live() => counts_notes(file, self.metrics, &style),
            _ if self.is_live() => String::new(),
            (_, Some(ResultForm::Perf(format))) => counts_lines(file, &format),
            (_, Some(ResultForm::Table(separator))) => self.table(file, separator),
            _ => counts_text(file, self.metrics, &style),
        };
        self.print(&text);
        // What cannot be saved is seen at least.
        self.output.write(file)?;
        if let (Some(path), None) = (path, &self.failed) {
            wrote(path);
        }
        let what = match path {
            Some(path) => format!("cannot write {}", path.display()),
            None => "cannot write to standard output".to_owned(),
        };
        self.failed.map_or(Ok(()), |error| Err(error).context(what))
    }
}
