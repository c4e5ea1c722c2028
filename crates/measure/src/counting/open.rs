//! From groups of events to open descriptors.

use std::collections::BTreeSet;

use pmuscope_abi::{AttrFlags, ReadFormat};
use pmuscope_counters::{
    CountersError, CountingSet, EventRequest, Kernel, Reading, ResourceNeed, Scope, Value,
    offline_notice, raise_open_files,
};
use pmuscope_events::{Event, Group};
use pmuscope_machine::{Machine, Target, Topology};

use super::{Counting, Options};
use crate::error::MeasureError;

/// An event that cannot be counted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFailure {
    /// Index into the events.
    pub event: usize,
    /// Why, with what to type.
    pub why: String,
}

/// Groups that are open, and events that are not.
#[derive(Debug)]
pub(super) struct Opened {
    sets: Vec<SubGroup>,
    /// Events that cannot be opened, in their order.
    pub(super) refused: Vec<OpenFailure>,
    /// Sentences on what was done otherwise than asked for.
    pub(super) notices: BTreeSet<String>,
}

/// Groups of events that do not count on the same CPUs.
const SPLIT: &str = "events that count on different CPUs cannot form a group: they were counted \
    separately";

/// A group, or what of a weak one is opened by itself.
#[derive(Debug)]
struct SubGroup {
    set: CountingSet,
    /// Index among all events of each request.
    events: Vec<usize>,
}

/// Opens groups for a scope.
pub(super) struct Opening<'a> {
    pub(super) kernel: &'a dyn Kernel,
    pub(super) machine: &'a Machine,
    pub(super) topology: &'a Topology,
    pub(super) options: &'a Options,
    pub(super) scope: &'a Scope,
}

impl Opening<'_> {
    /// Opens what can be opened.
    ///
    /// # Errors
    /// What is not of one event: no descriptors left, all threads gone.
    pub(super) fn open(&self, events: &[Counting]) -> Result<Opened, MeasureError> {
        let each = events.iter().map(|one| self.scope.descriptors(one.event.cpus.as_ref()));
        let need = ResourceNeed::new(events.len() as u64, self.scope.descriptors(None));
        raise_open_files(need.opened(each.sum()))?;
        let mut opened = Opened { sets: Vec::new(), refused: Vec::new(), notices: BTreeSet::new() };
        for (index, group) in self.options.groups.iter().enumerate() {
            let members: Vec<usize> =
                (0..events.len()).filter(|&event| events[event].group == index).collect();
            self.open_group(group, &members, &mut opened)?;
        }
        opened.refused.sort_by_key(|refusal| refusal.event);
        Ok(opened)
    }

    fn open_group(
        &self,
        group: &Group,
        members: &[usize],
        opened: &mut Opened,
    ) -> Result<(), MeasureError> {
        if let Some(why) = group.events.iter().find_map(|event| self.impossible(event)) {
            let refusals = members.iter().map(|&event| OpenFailure { event, why: why.clone() });
            opened.refused.extend(refusals);
            return Ok(());
        }
        if group.events.iter().any(|event| event.cpus != group.events[0].cpus) {
            opened.notices.insert(SPLIT.to_owned());
            return self.open_apart(group, members, opened);
        }
        match self.open_together(&group.events) {
            Ok(set) => {
                opened.notices.extend(offline_notice(set.offline()));
                opened.sets.push(SubGroup { set, events: members.to_vec() });
            }
            Err(error) if !is_of_one_event(&error) => return Err(error.into()),
            Err(_) if group.weak && members.len() > 1 => {
                self.open_apart(group, members, opened)?;
            }
            Err(error) => {
                let why = error.to_string();
                let refusals = members.iter().map(|&event| OpenFailure { event, why: why.clone() });
                opened.refused.extend(refusals);
            }
        }
        Ok(())
    }

    fn open_apart(
        &self,
        group: &Group,
        members: &[usize],
        opened: &mut Opened,
    ) -> Result<(), MeasureError> {
        for (event, &index) in group.events.iter().zip(members) {
            let alone = Group { events: vec![event.clone()], ..group.clone() };
            self.open_group(&alone, &[index], opened)?;
        }
        Ok(())
    }

    fn open_together(&self, events: &[Event]) -> Result<CountingSet, CountersError> {
        let is_group = events.len() > 1;
        let requests = events.iter().enumerate().map(|(i, event)| self.request(event, i, is_group));
        let requests = requests.collect();
        CountingSet::open(self.kernel, self.machine, self.topology, self.scope, requests)
    }

    /// Why the kernel need not even be asked.
    fn impossible(&self, event: &Event) -> Option<String> {
        if let Some(why) = &event.not_countable {
            return Some(why.to_string());
        }
        if !self.options.target.is_of_cpus() {
            return not_for_tasks(event);
        }
        let cpus = match self.scope {
            Scope::Cpus(cpus) | Scope::Cgroup { cpus, .. } => cpus,
            _ => return None,
        };
        let can = event.cpus.as_ref()?;
        let nowhere = can.iter().all(|cpu| !cpus.contains(cpu));
        nowhere
            .then(|| format!("{} is counted only on CPU {can}, not on {cpus}. Try: -a", event.name))
    }

    fn request(&self, event: &Event, index: usize, is_group: bool) -> EventRequest {
        let mut attr = event.attr.clone();
        let leads = index == 0;
        attr.read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        if is_group {
            attr.read_format |= ReadFormat::GROUP | ReadFormat::ID;
        }
        let on_exec = self.options.target == Target::Command && self.options.delay.is_none();
        let inherit = event.inherit.unwrap_or(self.options.inherit)
            && matches!(self.scope, Scope::Tasks { inherit: true, .. });
        attr.flags.set(AttrFlags::DISABLED, leads);
        attr.flags.set(AttrFlags::ENABLE_ON_EXEC, leads && on_exec);
        attr.flags.set(AttrFlags::INHERIT, inherit);
        if self.options.pinned && event.attr.event_type != pmuscope_abi::event_type::SOFTWARE {
            attr.flags.set(AttrFlags::PINNED, leads);
        }
        EventRequest {
            name: event.name.clone(),
            attr,
            leader: (!leads).then_some(0),
            cpus: event.cpus.clone(),
            any_task: false,
            max_precise: event.max_precise,
        }
    }
}

/// Why an event cannot be counted for commands, processes and threads, if it cannot.
pub(crate) fn not_for_tasks(event: &Event) -> Option<String> {
    (!event.knows_tasks())
        .then(|| format!("{} counts per CPU, socket or node, not per process. Try: -a", event.name))
}

/// Whether another event may open all the same.
fn is_of_one_event(error: &CountersError) -> bool {
    matches!(error, CountersError::Open { source, .. }
        if !matches!(source.raw_os_error(), Some(libc::ESRCH | libc::EMFILE | libc::ENFILE | libc::ENOMEM)))
}

impl Opened {
    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    pub(super) fn enable(&self, kernel: &dyn Kernel) -> Result<(), CountersError> {
        self.sets.iter().try_for_each(|part| part.set.enable(kernel))
    }

    pub(super) fn disable(&self, kernel: &dyn Kernel) -> Result<(), CountersError> {
        self.sets.iter().try_for_each(|part| part.set.disable(kernel))
    }

    /// Reads all groups, by index among all events.
    pub(super) fn read(&self, kernel: &dyn Kernel) -> Result<Vec<Reading>, CountersError> {
        let mut readings = Vec::new();
        for part in &self.sets {
            let of_part = part.set.read(kernel)?.into_iter();
            readings.extend(
                of_part.map(|reading| Reading { event: part.events[reading.event], ..reading }),
            );
        }
        readings.sort_by_key(|reading| (reading.event, reading.cpu, reading.tid));
        Ok(readings)
    }
}

/// What was counted since `before`, of the same descriptors in the same order.
pub(super) fn since(now: &[Reading], before: &[Reading]) -> Vec<Reading> {
    let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
    now.iter()
        .zip(before)
        .map(|(now, then)| Reading {
            value: now.value.zip(then.value).map(|(now, then)| Value {
                value: now.value.saturating_sub(then.value),
                enabled_ns: less(now.enabled_ns, then.enabled_ns),
                running_ns: less(now.running_ns, then.running_ns),
                ..now
            }),
            ..*now
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::CommandOutput;
    use pmuscope_counters::fake::FakeKernel;
    use pmuscope_events::lists::NotCountable;
    use pmuscope_events::{MachineCatalog, parse};
    use pmuscope_machine::CpuSet;

    /// Opens these events on CPU 0, the second of which an event list calls not countable.
    #[test]
    fn what_would_count_nothing_is_refused_and_the_others_are_opened() {
        let machine = Machine::host();
        let topology = machine.topology().unwrap();
        let catalog = MachineCatalog::new(&machine).unwrap();
        let mut groups = parse("page-faults,minor-faults,{cs,migrations}", &catalog).unwrap();
        groups[1].events[0].not_countable = Some(NotCountable::PebsThreshold("x".into()));
        let options = Options {
            target: Target::Cpus(CpuSet::from_iter([0])),
            inherit: true,
            groups,
            pinned: false,
            command: Vec::new(),
            output: CommandOutput::Inherited,
            delay: None,
            timeout: None,
            interval: None,
            intervals: None,
        };
        let events: Vec<Counting> = options
            .groups
            .iter()
            .enumerate()
            .flat_map(|(group, list)| {
                list.events.iter().map(move |event| Counting { event: event.clone(), group })
            })
            .collect();
        let kernel = FakeKernel::default();
        let scope = Scope::Cpus(CpuSet::from_iter([0]));
        let (machine, topology) = (&machine, &topology);
        let opening =
            Opening { kernel: &kernel, machine, topology, options: &options, scope: &scope };
        let opened = opening.open(&events).unwrap();
        assert_eq!(opened.refused.len(), 1);
        assert_eq!(opened.refused[0].event, 1);
        assert!(opened.refused[0].why.contains("its count stays 0"), "{:?}", opened.refused);
        let calls = kernel.opened();
        assert_eq!(calls.len(), 3);
        // Members of a group begin with their leader, which counts nothing until it is told to.
        let flags: Vec<(bool, bool)> = calls
            .iter()
            .map(|call| (call.in_group, call.attr.flags.contains(AttrFlags::DISABLED)))
            .collect();
        assert_eq!(flags, [(false, true), (false, true), (true, false)]);
    }
}
