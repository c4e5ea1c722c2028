//! Which events are counted in which run: planned by what is known of the units, proven by trial.

use pmuscope_abi::{Attr, AttrFlags};
use pmuscope_counters::{Fit, Kernel, errno_name, open_refusal, try_group};
use pmuscope_events::metrics::Metrics;
use pmuscope_events::schedule::{
    Constraint, EventPlan, PlannedGroup, Request, Shape, Slot, Trial, plan, prove,
};
use pmuscope_events::{Event, Group, Origin};
use pmuscope_machine::Target;

use crate::counting::not_for_tasks;

/// More counters than any unit has.
const MOST_COUNTERS: u32 = 16;
/// Events of the kernel in one run: each costs its program a little.
const MOST_SOFTWARE: usize = 32;
/// Fixed counters of Intel's cores (Intel SDM, volume 3, "Fixed-function performance counters").
const FIXED_INSTRUCTIONS: u8 = 0;
const FIXED_CYCLES: u8 = 1;

/// An event that is counted in no run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncountedEvent {
    /// Its name.
    pub event: String,
    /// Why, with what to type.
    pub why: String,
}

/// What is counted in each run.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// Groups of each run: references first. One group for each unit of the hardware; events of the kernel
    /// are alone.
    pub runs: Vec<Vec<Group>>,
    /// Names of what is counted in every run.
    pub references: Vec<String>,
    /// Events that cannot be counted here.
    pub refused: Vec<UncountedEvent>,
    /// No schedule has fewer runs.
    pub least: usize,
}

/// Spreads `events` over runs, with as many of `references` in each as fit, to be counted over `target`.
/// Groups are tried on this thread, or those of units that count for whole CPUs on one of theirs.
#[must_use]
pub fn schedule(
    kernel: &dyn Kernel,
    target: &Target,
    events: &[Event],
    references: &[Event],
) -> Schedule {
    let of_tasks = !target.is_of_cpus();
    let metrics = Metrics::builtin();
    let mut units =
        MachineUnits { kernel, of_tasks, metrics, names: Vec::new(), shapes: Vec::new() };
    let mut refused = Vec::new();
    let references: Vec<&Event> =
        references.iter().filter(|event| units.refusal(event).is_none()).collect();
    let is_reference =
        |event: &Event| references.iter().any(|reference| reference.name == event.name);
    let mut countable: Vec<&Event> = Vec::new();
    for event in events.iter().filter(|event| !is_reference(event)) {
        match units.refusal(event) {
            Some(why) => refused.push(UncountedEvent { event: event.name.clone(), why }),
            None => countable.push(event),
        }
    }
    let reference_requests: Vec<Request> =
        references.iter().map(|event| units.request(event, &references)).collect();
    let requests: Vec<Request> =
        countable.iter().map(|event| units.request(event, &references)).collect();
    let planned = plan(&units.shapes, &reference_requests, &requests);
    let attempt = |group: &PlannedGroup| {
        let attrs = members(group, &references, &countable).map(|event| event.attr.clone());
        units.attempt(group.unit, &attrs.collect::<Vec<Attr>>(), &countable, group)
    };
    let proven = prove(&units.shapes, &reference_requests, &requests, planned, attempt);
    refused.extend(proven.refused.iter().map(|refused| UncountedEvent {
        event: countable[refused.index].name.clone(),
        why: refused.why.to_string(),
    }));
    let mut runs = groups(&proven, &units, &references, &countable);
    // Nothing but references was asked for.
    if runs.is_empty() && events.iter().any(is_reference) {
        let group = |event: &&Event| single((*event).clone());
        runs.push(references.iter().map(group).collect());
    }
    Schedule {
        runs,
        references: references.iter().map(|event| event.name.clone()).collect(),
        refused,
        least: proven.least,
    }
}

/// Events of a planned group, references first.
fn members<'e>(
    group: &'e PlannedGroup,
    references: &'e [&'e Event],
    events: &'e [&'e Event],
) -> impl Iterator<Item = &'e Event> {
    let of = |list: &'e [&'e Event]| move |slot: &Slot| list[slot.index];
    group.references.iter().map(of(references)).chain(group.events.iter().map(of(events)))
}

fn groups(
    plan: &EventPlan,
    units: &MachineUnits<'_>,
    references: &[&Event],
    events: &[&Event],
) -> Vec<Vec<Group>> {
    let of_run = |run: &pmuscope_events::schedule::Run| {
        run.groups
            .iter()
            .flat_map(|group| {
                let events: Vec<Event> = members(group, references, events).cloned().collect();
                if units.shapes[group.unit].software.is_some() {
                    return events.into_iter().map(single).collect();
                }
                vec![Group { events, braces: true, ..single_shell() }]
            })
            .collect()
    };
    plan.runs.iter().map(of_run).collect()
}

fn single(event: Event) -> Group {
    Group { events: vec![event], ..single_shell() }
}

fn single_shell() -> Group {
    Group { name: None, events: Vec::new(), leader_sampling: false, weak: false, braces: false }
}

/// Units of the machine that count what was asked for.
struct MachineUnits<'a> {
    kernel: &'a dyn Kernel,
    /// Whether commands, processes or threads are to be counted.
    of_tasks: bool,
    /// Knows an event by all its names.
    metrics: Metrics,
    names: Vec<String>,
    shapes: Vec<Shape>,
}

impl MachineUnits<'_> {
    /// Why an event cannot be counted at all, by trial.
    fn refusal(&self, event: &Event) -> Option<String> {
        if let Some(why) = not_for_tasks(event).filter(|_| self.of_tasks) {
            return Some(why);
        }
        if let Some(why) = &event.not_countable {
            return Some(why.to_string());
        }
        match try_group(self.kernel, std::slice::from_ref(&event.attr), cpu_of(event)) {
            Fit::Refused(error) => Some(format!(
                "{}{}",
                open_refusal(&error),
                match event.origin {
                    Origin::Hardware =>
                        ". The PMU lacks it, or it is not available here. Try: pmuscope doctor",
                    _ => ". Try: sudo pmuscope …, or pmuscope doctor",
                }
            )),
            // Whether it is counted with nothing beside it is seen when groups are tried.
            Fit::AtOnce | Fit::NotAtOnce => None,
        }
    }

    fn request(&mut self, event: &Event, references: &[&Event]) -> Request {
        let unit = self.unit(event, references);
        let name = self.metrics.canonical(&event.name);
        let constraint = match (event.origin, &name[..]) {
            _ if event.constraint.is_some() => event.needs(),
            (Origin::Hardware, "cycles") => Constraint::any().or_fixed(FIXED_CYCLES),
            (Origin::Hardware, "instructions") => Constraint::any().or_fixed(FIXED_INSTRUCTIONS),
            _ => Constraint::any(),
        };
        Request { unit, constraint }
    }

    /// Index of the unit, whose shape is found by trial when it is first asked for.
    fn unit(&mut self, event: &Event, references: &[&Event]) -> usize {
        let is_of_kernel = !matches!(event.origin, Origin::Hardware | Origin::Pmu);
        let name = if is_of_kernel { "kernel" } else { &event.pmu };
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return index;
        }
        let shape = match is_of_kernel {
            true => Shape::software(name, MOST_SOFTWARE),
            false => self.shape(event, references),
        };
        self.names.push(name.to_owned());
        self.shapes.push(shape);
        self.shapes.len() - 1
    }

    /// How many counters take copies of an event, and which references have one of their own beside them.
    fn shape(&self, event: &Event, references: &[&Event]) -> Shape {
        let general = general_event(event);
        let cpu = cpu_of(event);
        let fits = |attrs: &[Attr]| matches!(try_group(self.kernel, attrs, cpu), Fit::AtOnce);
        // What cannot be opened takes no counter: then the event itself is the measure.
        let copied =
            if fits(std::slice::from_ref(&general)) { general } else { event.attr.clone() };
        let copies = |n: u32| vec![copied.clone(); n as usize];
        let mut shape = Shape::by_trial(&event.pmu, MOST_COUNTERS, |n| fits(&copies(n)));
        if event.origin != Origin::Hardware {
            return shape;
        }
        for (number, name) in [(FIXED_CYCLES, "cycles"), (FIXED_INSTRUCTIONS, "instructions")] {
            let of_unit =
                |one: &&&Event| one.pmu == event.pmu && self.metrics.canonical(&one.name) == name;
            let Some(reference) = references.iter().find(of_unit) else { continue };
            let mut attrs = copies(shape.general);
            attrs.push(reference.attr.clone());
            shape = shape.fixed_by_trial(number, fits(&attrs));
        }
        shape
    }

    fn attempt(
        &self,
        unit: usize,
        attrs: &[Attr],
        events: &[&Event],
        group: &PlannedGroup,
    ) -> Trial {
        // The kernel's own events are open at the same time whatever they are.
        if self.shapes[unit].software.is_some() {
            return Trial::Counted;
        }
        let cpu = group.events.first().and_then(|slot| cpu_of(events[slot.index]));
        match try_group(self.kernel, attrs, cpu) {
            Fit::AtOnce => Trial::Counted,
            Fit::NotAtOnce => Trial::NotAtOnce,
            Fit::Refused(error) => Trial::Refused(errno_name(&error)),
        }
    }
}

/// An event of the same unit that takes any general counter: branch misses.
fn general_event(event: &Event) -> Attr {
    use pmuscope_abi::{event_type, hardware};
    if event.origin != Origin::Hardware {
        return event.attr.clone();
    }
    // Where several units count such events, their type is in the upper half, as in `cycles` itself.
    let extended = match event.attr.event_type {
        event_type::HARDWARE | event_type::HW_CACHE => event.attr.config >> 32 << 32,
        _ => u64::from(event.attr.event_type) << 32,
    };
    let flags = event.attr.flags & (AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    Attr {
        event_type: event_type::HARDWARE,
        config: extended | hardware::BRANCH_MISSES,
        flags,
        ..Attr::default()
    }
}

/// Units that count for whole CPUs are tried on one of theirs.
fn cpu_of(event: &Event) -> Option<u32> {
    match event.origin {
        Origin::Pmu => event.cpus.as_ref().and_then(|cpus| cpus.iter().next()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_counters::Host;
    use pmuscope_events::{MachineCatalog, parse};
    use pmuscope_machine::Machine;

    fn events(text: &str) -> Vec<Event> {
        let machine = Machine::host();
        let catalog = MachineCatalog::new(&machine).unwrap();
        parse(text, &catalog).unwrap().into_iter().flat_map(|group| group.events).collect()
    }

    #[test]
    fn events_of_the_kernel_are_all_in_one_run_with_their_reference() {
        let asked = events("page-faults,context-switches,task-clock,minor-faults");
        let schedule = schedule(&Host, &Target::Command, &asked, &events("task-clock"));
        assert_eq!((schedule.runs.len(), schedule.least), (1, 1));
        assert_eq!(schedule.references, ["task-clock"]);
        let names: Vec<&str> =
            schedule.runs[0].iter().map(|group| &group.events[0].name[..]).collect();
        assert_eq!(names, ["task-clock", "page-faults", "context-switches", "minor-faults"]);
        assert!(schedule.refused.is_empty());
    }

    #[test]
    fn what_does_not_open_is_refused_with_the_errno() {
        let mut asked = events("page-faults,minor-faults");
        asked[1].attr.config = 9999;
        let schedule = schedule(&Host, &Target::Command, &asked, &[]);
        assert_eq!(schedule.runs.len(), 1);
        assert_eq!(schedule.refused[0].event, "minor-faults");
        assert!(schedule.refused[0].why.contains("ENOENT"), "{:?}", schedule.refused);
    }
}
