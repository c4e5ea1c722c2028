//! `pmuscope sweep`.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, bad_input, failure, not_possible};
use pmuscope_console::say;
use pmuscope_counters::Host;
use pmuscope_events::metrics::Metrics;
use pmuscope_events::topdown::{Fitted, fit, methods};
use pmuscope_events::{Catalog, Event, parse};
use pmuscope_machine::{CpuSet, Machine, Pmu, Target, place};
use pmuscope_measure::arms::ArmCommand;
use pmuscope_measure::counting::{CommandOutput, Options, Signal};
use pmuscope_measure::sweep::{After, Schedule, Sweep, drifts, schedule};
use pmuscope_measure::topdown;
use pmuscope_measure::{Concern, Labels, Origin, Plan, RunFile, load};
use pmuscope_report::{number, sweep_text};

use super::bench::runs::{PreflightCpus, RunOutput, RunOutputArgs, begin, tell_concerns};
use super::counting::{
    Absent, Asked, CountingProgress, UnitArgs, UserMode, by_reason, name_units, refused, select,
};
use super::doctor;
use super::event_lists::{EventListArgs, catalog};
use super::target::{COMMAND, RUNNING, TargetArgs, describe};
use super::versus::{VersusArgs, name_arms};
use crate::commands::duration;
use crate::signals::stop_pipe;
use crate::terminal;

/// Flags of `pmuscope sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope sweep -e '^l2_rqsts|^dtlb' --per packet=10e6 -- ./basic1
  pmuscope sweep -e '.*' -r 5 --json=a.json -- ./a    every event, without multiplexing
  pmuscope sweep -e 'syscalls:sys_enter_' --per-from 'request=served.([0-9]+)' -- ./server
  pmuscope sweep -e '.*' -p 4711 --slice 2s           a program that cannot be rerun
  pmuscope sweep -e '.*' --json=a.json --resume -- ./a
  pmuscope sweep -e '^l2' --vs './b -x' -- ./a        compare two commands by interleaved runs
  pmuscope sweep --topdown -- ./a                     where pipeline slots go (top-down)")]
pub(crate) struct Args {
    /// Count these events: names, or a regular expression; repeatable
    ///
    /// In perf's syntax. An expression without a colon does not match tracepoints.
    #[arg(
        short,
        long,
        value_name = "EVENT",
        required_unless_present = "topdown",
        help_heading = "Events"
    )]
    event: Vec<String>,
    /// Break down pipeline slots (top-down analysis)
    ///
    /// Level 1, then what is below its significant categories, in further runs; "all": below each.
    #[arg(
        long,
        value_name = "DEPTH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "weighty",
        hide_possible_values = true,
        conflicts_with_all = ["event", "resume"],
        help_heading = "Events"
    )]
    topdown: Option<Depth>,
    /// Show which run counts which events; count nothing
    #[arg(short = 'n', long, help_heading = "Events")]
    dry_run: bool,
    #[command(flatten)]
    target: TargetArgs<{ RUNNING | COMMAND }>,
    /// Set the length of each time slice (with -p, -a)
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds, conflicts_with = "command", help_heading = "Target")]
    slice: Option<f64>,
    /// Do not count children
    #[arg(short = 'i', long, help_heading = "Target")]
    no_inherit: bool,
    /// Count each event N times; a CI needs 2
    #[arg(short, long, value_name = "N", default_value_t = 5, help_heading = "Runs")]
    repeat: usize,
    #[command(flatten)]
    versus: VersusArgs,
    /// Seed the random order of runs
    #[arg(long, value_name = "N", help_heading = "Runs")]
    seed: Option<u64>,
    /// Continue the sweep in the file of --json
    #[arg(long, help_heading = "Runs")]
    resume: bool,
    #[command(flatten)]
    units: UnitArgs,
    #[command(flatten, next_help_heading = "Output")]
    output: RunOutputArgs,
    /// Program to run
    #[arg(trailing_var_arg = true, value_name = "CMD", help_heading = "Target")]
    command: Vec<OsString>,
}

/// How far `--topdown` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Depth {
    /// Below the significant categories of level 1
    Weighty,
    /// Below every category
    All,
}

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    let target = args.target()?;
    if args.repeat == 0 {
        return Err(bad_input("-r 0: no run, so nothing would be counted. Try: -r 5"));
    }
    if args.slice.is_some_and(|slice| !slice.is_finite() || slice <= 0.0) {
        return Err(bad_input("--slice: a slice of time is longer than 0 seconds. Try: --slice 2"));
    }
    if args.versus.is_asked() && args.topdown.is_some() {
        return Err(bad_input(
            "--topdown: is of one command, --vs and --parameter compare several. Try: -e REGEX --vs",
        ));
    }
    let commands = args.versus.with("sweep -e REGEX", &args.command)?;
    let mut units = args.units.units()?;
    let catalog = catalog(&machine, &EventListArgs::default())?;
    let fitted = match args.topdown {
        Some(_) => Some(fit_topdown(&machine, &catalog)?),
        None => None,
    };
    let (mut asked, mut references) = chosen(&args.event, units.events(), &catalog)?;
    if let Some(user) = UserMode::of(&machine, &target) {
        user.limit_all(&mut references);
        if user.limit(&mut asked) {
            say!("note: {}", user.notice());
        }
    }
    name_units(&mut units, &references.iter().collect::<Vec<_>>());
    let events: Vec<Event> = asked.groups.into_iter().flat_map(|group| group.events).collect();
    let planned = match &fitted {
        Some(fitted) => topdown::level_1(&Host, &target, fitted, &references),
        None => schedule(&Host, &target, &events, &references),
    };
    let mut missing: Absent = asked.absent;
    missing.extend(pairs(&planned));
    if args.dry_run {
        let text = plan_text(&planned, &missing);
        terminal::print(&text)?;
        return Ok(if missing.is_empty() { Exit::Done } else { Exit::Incomplete });
    }
    if let (Some(_), Some((event, why))) = (&fitted, missing.first()) {
        let text = format!("--topdown: {event} cannot be counted here. {why}");
        return Err(not_possible(text));
    }
    if planned.runs.is_empty() {
        let first =
            missing.first().map_or(String::new(), |(event, why)| format!(" {event}: {why}"));
        let text = format!("none of the {} events can be counted here.{first}", missing.len());
        return Err(not_possible(text));
    }
    let cpus = args.target.cpus().map_err(bad_input)?;
    let cpus = cpus.filter(|_| target == Target::Command);
    let output = RunOutput::of(&args.output)?;
    output.check()?;
    if args.resume && output.path().is_none() {
        let text = "--resume needs the run file to continue. Try: --json=FILE --resume";
        return Err(bad_input(text));
    }
    let mut file = args.file(&machine, (&target, cpus.as_ref()), (&planned, &commands), &output)?;
    if let Some(cpus) = &cpus {
        pin(cpus)?;
    }
    let command_output = match target {
        Target::Command => CommandOutput::Kept,
        _ => CommandOutput::Inherited,
    };
    let seed = file.seed.as_deref().and_then(|seed| seed.parse().ok());
    let of_arms: Vec<Vec<OsString>> = commands.iter().map(|arm| arm.command.clone()).collect();
    let sweep = Sweep {
        kernel: &Host,
        machine: &machine,
        options: Options {
            output: command_output,
            target,
            inherit: !args.no_inherit,
            groups: Vec::new(),
            pinned: true,
            command: commands[0].command.clone(),
            delay: None,
            timeout: args.slice.map(Duration::from_secs_f64),
            interval: None,
            intervals: None,
        },
        schedule: &planned,
        arms: &of_arms,
        rounds: args.repeat,
        seed: seed.or(args.seed).unwrap_or_else(Plan::random_seed),
        units: &units,
        after: After::default(),
    };
    if let Some(fitted) = &fitted {
        topdown::describe(&mut file, fitted);
    }
    args.finish(&sweep, (file, &output), (&missing, fitted.as_ref(), &references))
}

/// The method of top-down analysis for this machine.
fn fit_topdown(machine: &Machine, catalog: &dyn Catalog) -> anyhow::Result<Fitted> {
    let topology = machine.topology()?;
    let smt = machine.smt(&topology).active;
    fit(&methods(), catalog, smt).map_err(|error| not_possible(format!("--topdown: {error}")))
}

impl Args {
    fn target(&self) -> anyhow::Result<Target> {
        let target = match self.dry_run {
            true => self.target.asked("sweep", &self.command)?.unwrap_or(Target::System),
            false => self.target.target("sweep -e REGEX", &self.command)?,
        };
        if target != Target::Command && self.slice.is_none() && !self.dry_run {
            let text =
                format!("{target}: runs already, and is counted in slices of time. Try: --slice 2");
            return Err(bad_input(text));
        }
        Ok(target)
    }

    /// The file to add runs to: a new one, or that of an earlier sweep of the same.
    fn file(
        &self,
        machine: &Machine,
        (target, cpus): (&Target, Option<&CpuSet>),
        (schedule, commands): (&Schedule, &[ArmCommand]),
        output: &RunOutput,
    ) -> anyhow::Result<RunFile> {
        let preflight = match (target, cpus) {
            (Target::Command, Some(cpus)) => PreflightCpus::At(cpus),
            (Target::Command, None) => PreflightCpus::Allowed,
            _ => PreflightCpus::Not,
        };
        let mut file = begin(machine, &doctor::facts()?, preflight)?;
        file.concerns.extend(cpus.filter(|cpus| cpus.contains(0)).map(|_| first_cpu()));
        let list = |groups: &[pmuscope_events::Group]| {
            let names = groups.iter().flat_map(|group| &group.events).map(|event| &event.name[..]);
            names.collect::<Vec<_>>().join(",")
        };
        let runs: Vec<String> = schedule.runs.iter().map(|groups| list(groups)).collect();
        let about = name_arms(&mut file, commands);
        let mut set = |key: &str, value: String| file.parameters.insert(key.to_owned(), value);
        set("target", about.unwrap_or_else(|| describe(target, &self.command)));
        set("references", schedule.references.join(","));
        set("runs", runs.join(" | "));
        if let Some(slice) = self.slice {
            set("slice_s", slice.to_string());
        }
        let Some(path) = output.path().filter(|path| self.resume && path.exists()) else {
            tell_concerns(&file);
            return Ok(file);
        };
        tell_concerns(&file);
        let earlier = load(path)?;
        if earlier.parameters != file.parameters {
            let text = format!(
                "{}: is of another sweep (events, program or machine differ), and cannot be \
                 continued. Try: without --resume, or with another file",
                path.display()
            );
            return Err(bad_input(text));
        }
        Ok(earlier)
    }

    fn finish(
        &self,
        sweep: &Sweep<'_>,
        (mut file, output): (RunFile, &RunOutput),
        (missing, fitted, references): (&[(String, String)], Option<&Fitted>, &[Event]),
    ) -> anyhow::Result<Exit> {
        let stop = stop_pipe().context("cannot listen for signals")?;
        let mut watch = CountingProgress::new(output.path());
        let mut run = |sweep: &Sweep<'_>, file: &mut RunFile| {
            self.tell_plan(sweep, file);
            sweep
                .run(file, Signal(stop.as_fd()), &mut watch)
                .map_err(|error| refused(&error, !self.command.is_empty()))
        };
        let mut whole = run(sweep, &mut file)?;
        let mut complete = missing.is_empty();
        if let (true, Some(fitted)) = (whole, fitted) {
            let below = self.below(&file, fitted);
            let (target, known) = (&sweep.options.target, counted(sweep.schedule));
            let second = topdown::level_2(&Host, target, (fitted, references), &below, &known);
            add_missing(&mut file, &pairs(&second));
            let mut parts = below.iter().flat_map(|parent| fitted.method.parts(parent));
            complete &= second.refused.is_empty()
                && !parts.any(|part| fitted.missing.contains_key(&part.name));
            if !second.runs.is_empty() {
                say!("level 2, below {}", below.join(", "));
                let after = After { runs: file.runs.len(), groups: sweep.schedule.runs.len() };
                whole = run(&Sweep { schedule: &second, after, ..sweep.clone() }, &mut file)?;
            }
            topdown::add_shares(&mut file);
        }
        if file.runs.is_empty() {
            return Err(failure(Exit::Incomplete, "interrupted before the first run was over"));
        }
        if !whole {
            let runs = number::counted(file.runs.len(), "run");
            say!(
                "interrupted: {runs} of {} done; all results are of these",
                sweep.schedule.runs.len() * sweep.arms.len() * self.repeat
            );
        }
        add_missing(&mut file, missing);
        file.drift = drifts(&file, &sweep.schedule.references);
        output.finish(file, !whole, complete, |file, style| {
            sweep_text(file, &Metrics::builtin(), style)
        })
    }

    /// Says what is to come.
    fn tell_plan(&self, sweep: &Sweep<'_>, file: &RunFile) {
        let (runs, rounds) = (sweep.schedule.runs.len() * sweep.arms.len(), self.repeat);
        let left = (runs * rounds).saturating_sub(file.runs.len() - sweep.after.runs);
        let time = match self.slice.or_else(|| mean_of_runs(file)) {
            Some(each) => format!("about {}", number::duration(each * left as f64)),
            None => "duration known after the first".to_owned(),
        };
        let left = number::counted(left, "run");
        say!("{left} of {runs} × {rounds}, {time}; Ctrl-C keeps what is done");
    }

    /// Categories of level 1 to look below.
    fn below(&self, file: &RunFile, fitted: &Fitted) -> Vec<String> {
        match self.topdown {
            Some(Depth::All) => fitted.method.level_1().map(|one| one.name.clone()).collect(),
            _ => topdown::breakdown(file).map_or_else(Vec::new, |seen| seen.weighty()),
        }
    }
}

/// Names of the events that a schedule counts.
fn counted(schedule: &Schedule) -> Vec<String> {
    let groups = schedule.runs.iter().flatten();
    groups.flat_map(|group| &group.events).map(|event| event.name.clone()).collect()
}

/// What a schedule cannot count, with the reason.
fn pairs(schedule: &Schedule) -> Absent {
    schedule.refused.iter().map(|one| (one.event.clone(), one.why.clone())).collect()
}

/// Names what cannot be counted in the first run, with the reason.
fn add_missing(file: &mut RunFile, missing: &[(String, String)]) {
    for (event, why) in missing {
        if !file.series.iter().any(|series| series.metric == *event) {
            file.add(0, &Labels::new(), event, ("", Origin::Hardware), Err(why.clone()));
        }
    }
}

/// What was asked for, and what is counted in every run: cycles and instructions, or the clock.
fn chosen<'a>(
    texts: &'a [String],
    of_units: impl Iterator<Item = &'a str>,
    catalog: &dyn Catalog,
) -> anyhow::Result<(Asked, Vec<Event>)> {
    let mut asked = Asked::default();
    for text in texts {
        select(&mut asked, text, catalog)?;
    }
    let has_pmu = catalog.pmus().iter().any(Pmu::is_core);
    if !has_pmu {
        say!(
            "note: no hardware PMU (typical in VMs); leaving out hardware events (see pmuscope doctor)"
        );
    }
    let mut texts: Vec<&str> = vec![if has_pmu { "cycles,instructions" } else { "task-clock" }];
    // The number of units has to be known of every run.
    texts.extend(of_units);
    let mut references = Vec::new();
    for text in texts {
        let groups = parse(text, catalog).map_err(not_possible)?;
        references.extend(groups.into_iter().flat_map(|group| group.events));
    }
    Ok((asked, references))
}

/// Seconds of a run so far.
fn mean_of_runs(file: &RunFile) -> Option<f64> {
    let sum: f64 = file.runs.iter().map(|run| run.duration_s).sum();
    (!file.runs.is_empty()).then(|| sum / file.runs.len() as f64)
}

/// What the first CPU does beside.
fn first_cpu() -> Concern {
    Concern {
        effect: "counts vary more there".to_owned(),
        why: "CPU 0 serves most interrupts of many machines".to_owned(),
        fix: Some("--cpu with others".to_owned()),
    }
}

/// Moves this process, and with it the program, to these CPUs.
fn pin(cpus: &CpuSet) -> anyhow::Result<()> {
    let refused = |why: String| not_possible(format!("--cpu {cpus}: {why}"));
    place::set_affinity(cpus).map_err(|error| refused(error.to_string()))?;
    // The kernel leaves out without a word what is not in the cpuset.
    let got = place::affinity().map_err(|error| refused(error.to_string()))?;
    if got != *cpus {
        return Err(refused(format!("only {got} may be used. See: cat /proc/self/cpuset")));
    }
    Ok(())
}

/// Which events are counted in which run.
fn plan_text(schedule: &Schedule, missing: &[(String, String)]) -> String {
    let mut out = format!(
        "{}, {} at least · in every run: {}\n",
        number::counted(schedule.runs.len(), "run"),
        schedule.least,
        schedule.references.join(", ")
    );
    for (number, groups) in schedule.runs.iter().enumerate() {
        let names = groups.iter().flat_map(|group| &group.events).map(|event| &event.name[..]);
        let own: Vec<&str> =
            names.filter(|name| !schedule.references.iter().any(|one| one == name)).collect();
        out += &format!("{:>4}  {}\n", number + 1, own.join(", "));
    }
    for (why, events) in by_reason(missing.iter().map(|(event, why)| (&event[..], &why[..]))) {
        out += &format!("   -  {}: {why}\n", events.join(", "));
    }
    out
}
