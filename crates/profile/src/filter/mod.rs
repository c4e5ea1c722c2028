//! Which samples count.
//!
//! A filter is asked while samples are counted, before anything is looked up for them: what it leaves
//! out costs next to nothing, and shares, intervals and blocks of time are of what is left. Only
//! functions have no names by then: those are asked for when all addresses have theirs.

mod request;
mod times;

use std::ops::RangeInclusive;

use crate::aggregate::Aggregate;
use crate::profile::ModuleSummary;

pub use request::{FilterError, FilterRequest, cpu_nodes, sample_times};
pub use times::Times;

/// Which samples count. What is empty or `None` lets all of them pass; a sample that does not say what
/// it is asked for does not pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// Names of threads, whole.
    pub comms: Vec<Vec<u8>>,
    /// By number of the CPU; CPUs beyond the end do not pass.
    pub cpus: Option<Vec<bool>>,
    /// Nanoseconds of the recording's clock, both ends included.
    pub times: Vec<RangeInclusive<u64>>,
    /// By index of the event.
    pub events: Option<Vec<bool>>,
    /// Modules that samples were taken in: whole paths, or the last parts of paths.
    pub dsos: Vec<String>,
    /// Parts of the name of the function that the sample was taken in, or of ones inlined there; after `=` the whole name.
    /// A sample that passes has all of them.
    pub symbols: Vec<String>,
    /// Parts of the name of that function or of any caller; after `=` the whole name. A sample that passes has all of them.
    pub focus: Vec<String>,
    /// Processes and threads that the recording is of, where its events were of all tasks.
    pub targets: Targets,
    /// How it was asked for: names of the flags and their values. Foreign text.
    pub asked: Vec<(&'static str, String)>,
}

/// Processes, their descendants among them, and threads, each ascending; what is empty is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Process ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
}

impl Targets {
    /// Whether a task is one of them.
    #[must_use]
    #[inline]
    pub fn has(&self, task: Option<(i32, i32)>) -> bool {
        // They may be thousands, which started one another.
        let one_of = |list: &[i32], id: Option<i32>| {
            list.is_empty() || id.is_some_and(|id| list.binary_search(&id).is_ok())
        };
        one_of(&self.pids, task.map(|(pid, _)| pid)) && one_of(&self.tids, task.map(|(_, tid)| tid))
    }
}

/// What is asked of a sample or record. What it does not say is `None`.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Process and thread.
    pub task: Option<(i32, i32)>,
    /// Name of the thread.
    pub comm: &'a [u8],
    /// CPU.
    pub cpu: Option<u32>,
    /// Nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// Index of the event, of a sample.
    pub event: Option<usize>,
}

impl Filter {
    /// Whether every sample and record passes, as far as that can be known before functions have names.
    #[must_use]
    pub fn passes_all(&self) -> bool {
        let Self { pids, tids, comms, cpus, times, events, targets, .. } = self;
        let Targets { pids: target_pids, tids: target_tids } = targets;
        [pids, tids, target_pids, target_tids].iter().all(|ids| ids.is_empty())
            && (comms.is_empty() && times.is_empty() && cpus.is_none() && events.is_none())
    }

    /// Whether a sample or record passes, as far as that can be told before functions have names.
    #[must_use]
    pub fn passes(&self, facts: &Facts<'_>) -> bool {
        facts.event.is_none_or(|event| self.passes_event(event))
            && self.passes_task(facts.task, facts.comm)
            && self.passes_moment(facts.cpu, facts.time)
    }

    /// Whether nothing that comes at or after a time passes.
    #[must_use]
    pub fn is_over(&self, time: Option<u64>) -> bool {
        let last = self.times.iter().map(|range| *range.end()).max();
        last.zip(time).is_some_and(|(last, time)| time > last)
    }

    /// Whether samples of an event pass.
    #[must_use]
    pub fn passes_event(&self, event: usize) -> bool {
        self.events.as_ref().is_none_or(|events| events.get(event).copied().unwrap_or(false))
    }

    pub(crate) fn passes_task(&self, task: Option<(i32, i32)>, comm: &[u8]) -> bool {
        let one_of = |list: &[i32], id: Option<i32>| {
            list.is_empty() || id.is_some_and(|id| list.contains(&id))
        };
        self.targets.has(task)
            && one_of(&self.pids, task.map(|(pid, _)| pid))
            && one_of(&self.tids, task.map(|(_, tid)| tid))
            && (self.comms.is_empty() || self.comms.iter().any(|name| name == comm))
    }

    /// By CPU and time.
    #[inline]
    pub(crate) fn passes_moment(&self, cpu: Option<u32>, time: Option<u64>) -> bool {
        let on = |cpus: &Vec<bool>| cpu.and_then(|cpu| cpus.get(cpu as usize)).copied();
        self.cpus.as_ref().is_none_or(|cpus| on(cpus).unwrap_or(false))
            && (self.times.is_empty()
                || time.is_some_and(|time| self.times.iter().any(|range| range.contains(&time))))
    }

    /// Whether it asks for names of functions.
    pub(crate) fn is_by_name(&self) -> bool {
        [&self.symbols, &self.focus, &self.dsos].iter().any(|names| !names.is_empty())
    }

    /// Whether it asks for CPUs or times.
    pub(crate) fn is_by_moment(&self) -> bool {
        self.cpus.is_some() || !self.times.is_empty()
    }

    /// The time from the first that passes to the last one that is nearest to `time`.
    #[inline]
    pub(crate) fn nearest(&self, time: u64) -> u64 {
        let (mut first, mut last) = (u64::MAX, 0);
        for range in &self.times {
            (first, last) = (first.min(*range.start()), last.max(*range.end()));
        }
        if self.times.is_empty() { time } else { time.max(first).min(last.max(first)) }
    }

    /// Nanoseconds that pass of those between two times.
    pub(crate) fn duration(&self, first: u64, last: u64) -> u64 {
        if self.times.is_empty() {
            return last.saturating_sub(first);
        }
        let part = |range: &RangeInclusive<u64>| {
            (*range.end()).min(last).saturating_sub((*range.start()).max(first))
        };
        self.times.iter().map(part).sum()
    }

    /// Leaves out cells by the names of their modules and functions; returns how many samples that were.
    pub(crate) fn keep_named(&self, counts: &mut Aggregate, modules: &[ModuleSummary]) -> u64 {
        if !self.is_by_name() {
            return 0;
        }
        let by_function = |wanted: &String| -> Vec<bool> {
            counts.functions.iter().map(|one| is_named(&one.name, wanted)).collect()
        };
        let mut kept: Vec<Vec<bool>> = Vec::new();
        if !self.dsos.is_empty() {
            let is_one = |one: &ModuleSummary| self.dsos.iter().any(|name| one.is_called(name));
            let is_in: Vec<bool> = modules.iter().map(is_one).collect();
            let has = |module: u32| is_in.get(module as usize).copied().unwrap_or(false);
            kept.push(counts.stacks_in(&|frame| has(frame.module)));
        }
        for wanted in &self.symbols {
            kept.push(counts.stacks_in_function(&by_function(wanted)));
        }
        for wanted in &self.focus {
            let is_it = by_function(wanted);
            let has = |function: Option<u32>| function.is_some_and(|at| is_it[at as usize]);
            kept.push(counts.stacks_through(&|frame| has(frame.function)));
        }
        let mut left_out = 0;
        counts.retain_cells(|cell| {
            let keeps = kept.iter().all(|kept| kept[cell.stack as usize]);
            left_out += if keeps { 0 } else { cell.samples };
            keeps
        });
        left_out
    }
}

/// Whether a function has the name that is wanted: a part of it, or after `=` the whole name.
#[must_use]
pub fn is_named(name: &str, wanted: &str) -> bool {
    match wanted.strip_prefix('=') {
        Some(whole) => name == whole,
        None => name.contains(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_by_a_part_or_as_a_whole() {
        let asked = [("parse", true), ("arse_l", true), ("=parse", false), ("=parse_line", true)];
        for (wanted, expected) in asked {
            assert_eq!(is_named("parse_line", wanted), expected, "{wanted}");
        }
        assert!(is_named("operator=", "r=") && is_named("operator=", "=operator="));
    }

    #[test]
    fn what_is_not_told_does_not_pass_where_it_is_asked_for() {
        let filter = Filter {
            pids: vec![7],
            comms: vec![b"sh".to_vec()],
            times: vec![10..=20, 30..=40],
            events: Some(vec![true, false]),
            ..Filter::default()
        };
        let good =
            Facts { task: Some((7, 8)), comm: b"sh", cpu: None, time: Some(15), event: Some(0) };
        assert!(filter.passes(&good) && filter.passes(&Facts { event: None, ..good }));
        assert!(filter.passes(&Facts { time: Some(40), ..good }));
        for bad in [
            Facts { event: Some(1), ..good },
            Facts { event: Some(2), ..good },
            Facts { task: None, ..good },
            Facts { task: Some((8, 7)), ..good },
            Facts { comm: b"ls", ..good },
            Facts { time: None, ..good },
            Facts { time: Some(25), ..good },
        ] {
            assert!(!filter.passes(&bad), "{bad:?}");
        }
        assert!(!filter.is_over(Some(40)) && filter.is_over(Some(41)) && !filter.is_over(None));
        let cpus = Filter { cpus: Some(vec![false, true]), ..Filter::default() };
        assert!(Filter::default().passes_all() && !filter.passes_all() && !cpus.passes_all());
        let on = |cpu| cpus.passes_moment(cpu, None);
        assert_eq!([None, Some(0), Some(1), Some(2)].map(on), [false, false, true, false]);
    }

    #[test]
    fn time_that_passes_is_cut_and_added_up() {
        let filter = Filter { times: vec![30..=40, 10..=20], ..Filter::default() };
        assert_eq!([0, 15, 25, 50].map(|time| filter.nearest(time)), [10, 15, 25, 40]);
        assert_eq!(filter.duration(15, 32), 7);
        assert_eq!(Filter::default().duration(15, 32), 17);
        assert_eq!(Filter::default().nearest(3), 3);
    }
}
