//! Which events are recorded, and how often they sample where the command line says so.

use pmuscope_console::exit::{Exit, bad_input, failure, not_possible};
use pmuscope_console::say;
use pmuscope_console::say::is_verbose;
use pmuscope_events::{
    Catalog, EventError, Group, KnownCpu, MachineCatalog, Sampling as EventSampling, default_event,
    memory_events, memory_population, parse,
};
use pmuscope_machine::{Machine, Target};
use pmuscope_recorder::Sampling;
use pmuscope_report::escape_lines;

use crate::commands::event_lists::{EventListArgs, catalog};

/// What the default event was replaced by, and why; -v has what that means.
const NO_PMU: &str = "no hardware PMU (typical in VMs); sampling cpu-clock instead of cycles";

/// What sampling by a software timer means.
const NO_PMU_DETAILS: &str = "cpu-clock measures time, not cycles. Code that runs with \
    interrupts off is attributed to where they come back on. Another event: -e EVENT, of pmuscope list";

/// Prints what the user has to know; details with `-v`.
pub(in crate::commands) fn say_notices(notices: &[String]) {
    for notice in notices {
        say!("note: {}", escape_lines(notice));
        if notice == NO_PMU && is_verbose() {
            say!("  {NO_PMU_DETAILS}");
        }
    }
}

/// The events of `-e`.
pub(in crate::commands) fn asked(
    texts: &[String],
    machine: &Machine,
) -> anyhow::Result<Vec<Group>> {
    let catalog = catalog(machine, &EventListArgs::default())?;
    let mut groups = Vec::new();
    for text in texts {
        groups.extend(parse(text, &catalog).map_err(|error| {
            let exit = if error.is_of_machine() { Exit::NotPossible } else { Exit::BadInput };
            failure(exit, with_list(&error))
        })?);
    }
    Ok(groups)
}

/// The events of `--sharing`, and of which accesses their samples are.
pub(super) fn of_memory(
    machine: &Machine,
    as_cpu: Option<&KnownCpu>,
) -> anyhow::Result<(Vec<Group>, Vec<String>)> {
    let of = |catalog: &dyn Catalog| {
        let refused = |why: String| match as_cpu {
            Some(cpu) => not_possible(format!("--sharing --as {}: {why}", cpu.name)),
            None => not_possible(format!("--sharing: {why}")),
        };
        let groups = memory_events(catalog).map_err(refused)?;
        let population = memory_population(catalog).map_err(|why| refused(why.to_string()))?;
        Ok((groups, population))
    };
    match as_cpu {
        Some(cpu) => of(&cpu.catalog()),
        None => of(&MachineCatalog::new(machine).map_err(not_possible)?),
    }
}

/// The error, with where events are listed, unless it says what to type itself.
pub(in crate::commands) fn with_list(error: &EventError) -> String {
    let text = error.to_string();
    match text.contains("Try") || text.contains("did you mean") || text.contains("Did you mean") {
        true => text,
        false => format!("{text}. Try: pmuscope list"),
    }
}

/// What was asked for, or the default, and what the user has to know about it.
pub(in crate::commands) fn or_default(
    asked: Vec<Group>,
    target: &Target,
    machine: &Machine,
) -> anyhow::Result<(Vec<Group>, Vec<String>)> {
    if !asked.is_empty() {
        return Ok((asked, Vec::new()));
    }
    let catalog = MachineCatalog::new(machine).map_err(bad_input)?;
    default(&catalog, target, machine).map_err(bad_input)
}

/// The event where none is named: without its kernel half where only that is allowed.
fn default(
    catalog: &dyn Catalog,
    target: &Target,
    machine: &Machine,
) -> Result<(Vec<Group>, Vec<String>), EventError> {
    let (mut groups, notice) = default_event(catalog)?;
    let mut notices: Vec<String> = notice.iter().map(|_| NO_PMU.to_owned()).collect();
    if let Some(level) = forbids_kernel(machine, target) {
        // All groups are the same event, one per kind of core.
        if let Some(event) = groups.first().and_then(|group| group.events.first()) {
            let colon = if event.typed.contains(':') { "" } else { ":" };
            let text = format!("{}{colon}u", event.typed);
            groups = parse(&text, catalog)?;
            notices.push(format!(
                "sampling user mode only ({text}), since perf_event_paranoid is {level} and pmuscope has no \
                 CAP_PERFMON. Try: sudo sysctl kernel.perf_event_paranoid=1"
            ));
        }
    }
    Ok((groups, notices))
}

/// `kernel.perf_event_paranoid`, where it keeps us from observing the kernel of these tasks. Whole CPUs and cgroups need
/// more rights anyway; leaving out the kernel would not help.
pub(in crate::commands) fn forbids_kernel(machine: &Machine, target: &Target) -> Option<i32> {
    let level = machine.limits().perf_event_paranoid?;
    (level > 1 && !machine.rights().can_watch_all() && !target.is_of_cpus()).then_some(level)
}

/// What `-c` or `-F` asks for holds for all events that do not say themselves, also for those that
/// sample every time where nothing is asked for (tracepoints, breakpoints).
pub(in crate::commands) fn set_rate(groups: &mut [Group], rate: Sampling) {
    let rate = match rate {
        Sampling::Period(period) => EventSampling::Period(period),
        Sampling::Frequency(hz) => EventSampling::Frequency(hz),
    };
    for event in groups.iter_mut().flat_map(|group| &mut group.events) {
        event.sampling.get_or_insert(rate);
    }
}
