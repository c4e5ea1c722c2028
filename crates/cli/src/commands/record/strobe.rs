//! Windows: `--strobe`, and perf's words for it in an event.

use std::io;
use std::path::PathBuf;

use pmuscope_abi::AttrFlags;
use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_counters::Host;
use pmuscope_events::metrics::{Metric, Metrics, Need};
use pmuscope_events::{Event, EventError, Group, MachineCatalog, Reason, Sampling, parse};
use pmuscope_machine::{Machine, OwnCgroup, Target};
use pmuscope_recorder::{ChosenEvents, INSTEAD_OF_WINDOWS, Lacking, StrobeOptions, choose_events};
use pmuscope_report::escape;

use super::flags::Args;
use crate::commands::counting::by_reason;

/// What makes windows where nothing else is named.
const WINDOW_EVENT: &str = "cycles:u";
/// What is counted in them where nothing is named: what these groups of metrics need, as far as the
/// machine has it.
const METRICS: [&str; 2] = ["basic", "branches"];

/// Largest window, period and jitter: minutes of any event.
const LARGEST: u64 = (1 << 40) - 1;

/// What is recorded, for a recording with windows.
pub(super) struct Strobed {
    pub(super) options: StrobeOptions,
    /// One: the event that makes windows, and what is counted in them.
    pub(super) groups: Vec<Group>,
    pub(super) target: Target,
    pub(super) notices: Vec<String>,
}

/// The settings of `--strobe=WINDOW,period=P,jitter=J,burst=N,event=E`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    window: Option<u64>,
    period: Option<u64>,
    jitter: Option<u64>,
    burst: Option<u32>,
    event: Option<String>,
}

/// `None` for a recording without windows. `groups` are the events of `-e`, none if there was none.
pub(super) fn strobed(
    args: &Args,
    groups: &[Group],
    target: &Target,
    machine: &Machine,
) -> anyhow::Result<Option<Strobed>> {
    let alternating = groups.iter().flat_map(|group| &group.events).find(|e| is_alternating(e));
    let settings = match (&args.strobe, alternating) {
        (None, None) if args.metrics.is_empty() => return Ok(None),
        (None, None) => {
            let names = args.metrics.join(",");
            return Err(bad_input(format!(
                "--metrics {names}: metrics are counted in windows. Try: --strobe --metrics {names}"
            )));
        }
        (Some(text), _) => Settings::parse(text).map_err(bad_input)?,
        (None, Some(event)) => Settings::of_event(event),
    };
    let conflict = conflict(args);
    if let Some(flag) = conflict {
        return Err(bad_input(format!("--strobe with {flag}: not possible. Try: without {flag}")));
    }
    let catalog = MachineCatalog::new(machine).map_err(bad_input)?;
    let window = window_event(&settings, alternating, &catalog)?;
    let burst = settings.burst.unwrap_or(1);
    let (mut sets, mut notices) = (Vec::new(), Vec::new());
    if groups.is_empty() || !args.metrics.is_empty() {
        let chosen = metric_sets(&args.metrics, &window, burst as usize + 1, &catalog)?;
        // What only the default named is not missed.
        notices.extend(args.metrics.first().and_then(|_| left_out(&chosen.lacking)));
        sets.extend(chosen.sets);
    }
    let others = groups.iter().flat_map(|group| &group.events).filter(|e| e.attr != window.attr);
    sets.extend(others.map(|event| vec![event.clone()]));
    let mut events = vec![window];
    for event in sets.iter().flatten() {
        if !events.iter().any(|known| known.attr == event.attr) {
            events.push(event.clone());
        }
    }
    let (target, only, notice) = target_and_filter(target, machine);
    let defaults = StrobeOptions::default();
    let options = StrobeOptions {
        window: settings.window.unwrap_or(defaults.window),
        period: settings.period,
        jitter: settings.jitter.unwrap_or(0),
        burst,
        only,
        sets,
    };
    let group = Group { name: None, events, leader_sampling: true, weak: false, braces: true };
    notices.extend(notice);
    Ok(Some(Strobed { options, groups: vec![group], target, notices }))
}

impl Settings {
    fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        let wrong = |piece: &str, why: &str| {
            format!(
                "--strobe={text}: {piece}: {why}. Try: --strobe=WINDOW,period=P,jitter=J,burst=N,\
                 event=EVENT with numbers of the event, as in --strobe=300,period=1000000"
            )
        };
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let (key, value) = piece.split_once('=').unwrap_or(("window", piece));
            let number = |from: u64| {
                let number = value.parse().ok().filter(|number| (from..=LARGEST).contains(number));
                let why = || format!("not a number from {from} to {LARGEST}");
                number.ok_or_else(|| wrong(piece, &why()))
            };
            match key {
                "window" => settings.window = Some(number(1)?),
                "period" => settings.period = Some(number(1)?),
                "jitter" => settings.jitter = Some(number(0)?),
                // How many there may be depends on the counters, which the plan knows.
                "burst" => {
                    let windows = value.parse();
                    settings.burst = Some(windows.map_err(|_| wrong(piece, "not a number"))?);
                }
                "event" => settings.event = Some(value.to_owned()),
                _ => return Err(wrong(piece, "not known")),
            }
        }
        Ok(settings)
    }

    /// `period=` and `alt-period=` alternate: a window every so many as both together.
    /// `alt-period-jitter=` is a number of random bits.
    fn of_event(event: &Event) -> Self {
        let window = event.alternate_period;
        let period = match event.sampling {
            Some(Sampling::Period(period)) => Some(period.saturating_add(window.unwrap_or(0))),
            _ => None,
        };
        let bits = event.alternate_jitter.unwrap_or(0).min(32);
        Self { window, period, jitter: Some((1 << bits) - 1), ..Self::default() }
    }
}

fn is_alternating(event: &Event) -> bool {
    event.alternate_period.is_some()
}

/// Such an event comes when the kernel gets to it, not a given number of counts after another.
fn is_of_software(event: &Event) -> bool {
    use pmuscope_abi::event_type::{BREAKPOINT, SOFTWARE, TRACEPOINT};
    matches!(event.attr.event_type, SOFTWARE | TRACEPOINT | BREAKPOINT)
}

/// A flag that does not go together with windows.
fn conflict(args: &Args) -> Option<&'static str> {
    let asked = [
        (args.overwrite, "--overwrite"),
        (args.control.is_some(), "--control"),
        (args.budget.is_some(), "--budget"),
        (args.sampling_cost, "--sampling-cost"),
        (args.count.is_some(), "-c (windows have period=)"),
        (args.freq.is_some(), "-F (windows have period=)"),
        (args.branch_any || args.branch_filter.is_some(), "branch stacks"),
        (args.data || args.phys_data, "data addresses"),
        (args.weight, "-W"),
        (args.period, "-P"),
        (args.per_thread, "--per-thread"),
    ];
    asked.into_iter().find(|(asked, _)| *asked).map(|(_, flag)| flag)
}

/// The event that makes windows.
fn window_event(
    settings: &Settings,
    alternating: Option<&Event>,
    catalog: &MachineCatalog<'_>,
) -> anyhow::Result<Event> {
    let read = |text: &str| -> anyhow::Result<Vec<Event>> {
        let groups = parse(text, catalog).map_err(|error| refused(&error))?;
        Ok(groups.into_iter().flat_map(|group| group.events).collect())
    };
    let window = match (&settings.event, alternating) {
        (Some(text), _) => one(read(text)?, text)?,
        (None, Some(event)) => event.clone(),
        (None, None) => one(read(WINDOW_EVENT)?, WINDOW_EVENT)?,
    };
    if is_of_software(&window) {
        return Err(bad_input(format!(
            "--strobe: {} is counted by the kernel, not by a PMU. {INSTEAD_OF_WINDOWS}",
            window.typed
        )));
    }
    if !window.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
        return Err(bad_input(format!(
            "--strobe: windows are of user mode, since entering and leaving the kernel is longer than a \
             window. Try: {}:u",
            window.typed
        )));
    }
    Ok(window)
}

fn refused(error: &EventError) -> anyhow::Error {
    if error.is_of_machine() {
        not_possible(without_pmu("--strobe", error))
    } else {
        bad_input(error)
    }
}

/// Why there are no windows. What stands in for an event of the CPU elsewhere makes none.
pub(in crate::commands) fn without_pmu(flag: &str, error: &EventError) -> String {
    let why = match &*error.reason {
        Reason::NoCpuPmu => "no hardware PMU (typical in VMs)".into(),
        _ => error.to_string(),
    };
    format!("{flag}: {why}. {INSTEAD_OF_WINDOWS}")
}

/// The events of the metrics with these names, or of the default ones. A metric that is named itself
/// must be possible here; of a group's, those that are.
fn metric_sets(
    names: &[String],
    window: &Event,
    edges: usize,
    catalog: &MachineCatalog<'_>,
) -> anyhow::Result<ChosenEvents> {
    let metrics = Metrics::builtin();
    let asked: Vec<&str> = match names {
        [] => METRICS.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let listed = named(&metrics, &asked)?;
    let needs: Vec<Need> = listed
        .into_iter()
        .map(|metric| metrics.need(metric, catalog).map_err(|error| refused(&error)))
        .collect::<Result<_, _>>()?;
    let chosen = choose_events(&Host, window, edges, &needs);
    let by_name = |lacking: &&Lacking| asked.contains(&&lacking.metric[..]);
    let why = match chosen.lacking.iter().find(by_name) {
        Some(Lacking { metric, why }) => format!("{metric} cannot be had here: {why}"),
        None if chosen.lacking.len() < needs.len() || names.is_empty() => return Ok(chosen),
        None => left_out(&chosen.lacking).unwrap_or_default(),
    };
    Err(not_possible(format!("--metrics: {why}. Try: --metrics basic")))
}

fn named<'m>(metrics: &'m Metrics, names: &[&str]) -> anyhow::Result<Vec<&'m Metric>> {
    metrics.chosen(names).map_err(|name| {
        let meant = match metrics.nearest(name).as_slice() {
            [] => format!("groups are {}.", metrics.groups().join(", ")),
            nearest => format!("did you mean {}?", nearest.join(", ")),
        };
        let message = format!(
            "--metrics: there is no metric or group \"{}\"; {meant} All: pmuscope metrics --list",
            escape(name)
        );
        bad_input(message)
    })
}

/// What is said of metrics that cannot be had, by reason.
fn left_out(lacking: &[Lacking]) -> Option<String> {
    let each = |(why, metrics): (&str, Vec<&str>)| format!("{} ({why})", metrics.join(", "));
    let lacking = lacking.iter().map(|one| (&one.metric[..], &one.why[..]));
    let all: Vec<String> = by_reason(lacking).into_iter().map(each).collect();
    (!all.is_empty()).then(|| format!("not counted: {}", all.join("; ")))
}

fn one(events: Vec<Event>, text: &str) -> anyhow::Result<Event> {
    match <[Event; 1]>::try_from(events) {
        Ok([event]) => Ok(event),
        Err(several) => Err(bad_input(format!(
            "--strobe: {text} is {} events here, one on each kind of core, and windows are of one. \
                 Try: the kind, as in event=cpu_core/cycles/u, with -C and its CPUs",
            several.len()
        ))),
    }
}

/// Windows need events of CPUs: of the command's cgroup where one can be made, else of all tasks, and
/// windows of others are left out when the recording is read.
fn target_and_filter(
    target: &Target,
    machine: &Machine,
) -> (Target, Option<Target>, Option<String>) {
    match target {
        Target::Command => match OwnCgroup::new(machine) {
            Ok(_) => (Target::CommandInCgroup, None, None),
            Err(refused) => (
                Target::System,
                Some(Target::Command),
                Some(without_cgroup("the command", &refused)),
            ),
        },
        Target::Processes(pids) => {
            let only = Some(target.clone());
            let Some(cgroup) = machine.cgroup_of_only(pids) else {
                return (Target::System, only, Some(wide(ALONE)));
            };
            match OwnCgroup::below(&cgroup) {
                Ok(_) => {
                    let path = cgroup.display().to_string();
                    (Target::Cgroup { path, cpus: None }, only, None)
                }
                Err(refused) => {
                    (Target::System, only, Some(without_cgroup("our helper", &refused)))
                }
            }
        }
        Target::Threads(_) => (
            Target::System,
            Some(target.clone()),
            Some(wide("windows need events of CPUs, which are not of threads")),
        ),
        other => (other.clone(), None, None),
    }
}

/// Other tasks have the cgroup too.
const ALONE: &str = "windows need events of CPUs, and no cgroup has these processes alone";

fn without_cgroup(of: &str, (path, error): &(PathBuf, io::Error)) -> String {
    wide(&format!("no cgroup for {of} ({}: {error})", path.display()))
}

fn wide(why: &str) -> String {
    format!(
        "{why}: all tasks are sampled. `pmuscope metrics` leaves the others out, `pmuscope report` does not"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_a_window_and_named_numbers() {
        let parse = |text| Settings::parse(text).unwrap();
        assert_eq!(parse(""), Settings::default());
        assert_eq!(parse("1000").window, Some(1000));
        let all = parse("300,period=999983,jitter=0,burst=2,event=instructions:u");
        assert_eq!((all.window, all.period, all.jitter), (Some(300), Some(999_983), Some(0)));
        assert_eq!((all.burst, all.event.as_deref()), (Some(2), Some("instructions:u")));
        for wrong in ["x", "0", "period=0", "windows=3", "300,period", "burst=-1"] {
            let error = Settings::parse(wrong).unwrap_err();
            assert!(error.contains("Try: --strobe=WINDOW"), "{error}");
        }
    }

    #[test]
    fn no_number_is_larger_than_windows_can_be() {
        for setting in ["window", "period", "jitter"] {
            let text = format!("{setting}=18446744073709551615");
            let error = Settings::parse(&text).unwrap_err();
            assert!(error.contains(&format!("{text}: not a number from")), "{error}");
        }
    }
}
