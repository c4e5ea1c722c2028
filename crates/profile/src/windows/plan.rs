//! What makes a window in a recording: which groups of events there are, and how long a window is.

use pmuscope_abi::{AttrFlags, event_type};
use pmuscope_events::metrics::{Metrics, name_of_code};
use pmuscope_perfdata::reader::{Event, Metadata};
use pmuscope_perfdata::strobe::StrobeInfo;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::filter::Targets;

/// What the first pass saw of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupFacts {
    /// Events in the order of their counts.
    pub(crate) events: Vec<u32>,
    /// What its leader counted from sample to sample.
    pub(crate) lengths: SpacingCounts,
}

/// How far samples are from each other, by powers of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpacingCounts {
    numbers: [u64; 65],
    sums: [u128; 65],
}

impl Default for SpacingCounts {
    fn default() -> Self {
        Self { numbers: [0; 65], sums: [0; 65] }
    }
}

impl SpacingCounts {
    pub(crate) fn add(&mut self, length: u64) {
        let at = 64 - length.leading_zeros() as usize;
        self.numbers[at] += 1;
        self.sums[at] += u128::from(length);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for at in 0..self.numbers.len() {
            self.numbers[at] += other.numbers[at];
            self.sums[at] += other.sums[at];
        }
    }

    /// Number and mean of those whose power of two is such.
    fn mean(&self, is: impl Fn(usize) -> bool) -> (u64, u64) {
        let of = (0..self.numbers.len()).filter(|&at| is(at));
        let (number, sum) =
            of.fold((0, 0), |(number, sum), at| (number + self.numbers[at], sum + self.sums[at]));
        (number, (sum / u128::from(number.max(1))) as u64)
    }

    /// Mean of the short and the long ones, where two periods of a group take turns: each kind is at
    /// least a fifth of all, and the short ones are less than half of the period.
    fn alternating(&self, period: u64) -> Option<(u64, u64)> {
        let limit = 64 - (period / 2).leading_zeros() as usize;
        let ((shorts, short), (longs, long)) =
            (self.mean(|at| at < limit), self.mean(|at| at >= limit));
        let all = shorts + longs;
        (all >= 20 && shorts * 5 >= all && longs * 5 >= all && short > 0).then_some((short, long))
    }
}

/// How windows of a group come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Two events or more with the same period, one after the other: number of the group in
    /// [`StrobeInfo::groups`].
    Strobe(usize),
    /// From each sample to the next, so many units; `None` where there is no fixed period.
    BackToBack(Option<u64>),
    /// As before, but a long window, which does not count, and a short one take turns.
    Alternating {
        /// Mean length of the short ones.
        short: u64,
        /// What is longer is a long one.
        limit: u64,
    },
}

/// A group of events that are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) scheme: Scheme,
    /// In the order of their counts.
    pub(crate) events: Vec<u32>,
    /// Names that formulas use; empty for counts that are another one's once more.
    pub(crate) names: Vec<String>,
    /// Positions of the events whose samples bound windows.
    pub(crate) edges: Vec<usize>,
    /// Position of the count of context switches.
    pub(crate) switches: Option<usize>,
    /// Position of the count of returns.
    pub(crate) returns: Option<usize>,
}

/// What makes a window.
#[derive(Debug, Default)]
pub(crate) struct WindowPlan {
    pub(crate) groups: Vec<Group>,
    pub(crate) strobe: Option<StrobeInfo>,
    /// Ids of descriptors.
    pub(crate) of_id: FxHashMap<u64, u32>,
    /// Processes and threads that windows are of.
    pub(crate) targets: Targets,
}

/// Ids of all descriptors, and their events.
pub(crate) fn ids(events: &[Event]) -> FxHashMap<u64, u32> {
    let each =
        (0_u32..).zip(events).flat_map(|(at, event)| event.ids.iter().map(move |&id| (id, at)));
    each.collect()
}

impl WindowPlan {
    pub(crate) fn new(
        events: &[Event],
        metadata: &Metadata,
        seen: &[GroupFacts],
        forks: &[(i32, i32)],
        metrics: &Metrics,
    ) -> Self {
        let strobe = metadata.info.as_ref().and_then(|info| info.strobe.clone());
        let name = |event: &Event| match code_name(event, metadata) {
            Some(name) => name.to_owned(),
            None => metrics.canonical(&event.name),
        };
        let group = |seen| Group::new(events, strobe.as_ref(), seen, &name);
        let groups = seen.iter().map(group).collect();
        let targets =
            strobe.as_ref().map_or_else(Targets::default, |strobe| targets(strobe, forks));
        Self { groups, strobe, of_id: ids(events), targets }
    }

    /// The number of a group.
    pub(crate) fn group(&self, events: &[u32]) -> Option<u32> {
        self.groups.iter().position(|group| group.events == events).map(|at| at as u32)
    }
}

/// What formulas call an event that was asked for by its code.
fn code_name(event: &Event, metadata: &Metadata) -> Option<&'static str> {
    // Where a machine has PMUs of several kinds, codes have the type of theirs.
    let is_code = event.attr.event_type == event_type::RAW || event.name.starts_with("armv8");
    let (arch, cpu) = (metadata.arch.as_deref(), metadata.cpu_model.as_deref());
    is_code.then(|| name_of_code(arch, cpu, event.attr.config)).flatten()
}

/// What the recording was asked for, with the descendants of its processes. Forks, parent and child, are
/// in the order of time: a parent comes before its children.
fn targets(strobe: &StrobeInfo, forks: &[(i32, i32)]) -> Targets {
    let mut pids: FxHashSet<i32> = strobe.only_processes.iter().map(|&pid| pid as i32).collect();
    for (parent, child) in forks {
        if pids.contains(parent) {
            pids.insert(*child);
        }
    }
    let mut pids: Vec<i32> = pids.into_iter().collect();
    pids.sort_unstable();
    let mut tids: Vec<i32> = strobe.only_threads.iter().map(|&tid| tid as i32).collect();
    tids.sort_unstable();
    Targets { pids, tids }
}

impl Group {
    /// The event whose samples begin windows.
    pub(crate) fn leader(&self) -> u32 {
        self.edges.first().and_then(|&edge| self.events.get(edge)).copied().unwrap_or(u32::MAX)
    }

    /// `name` is what formulas call an event.
    fn new(
        events: &[Event],
        strobe: Option<&StrobeInfo>,
        seen: &GroupFacts,
        name: &dyn Fn(&Event) -> String,
    ) -> Self {
        let event = |at: u32| events.get(at as usize);
        let of_strobe = strobe
            .and_then(|strobe| strobe.groups.iter().position(|group| group.events == seen.events));
        let fixed_period = event(seen.events[0])
            .filter(|event| !event.attr.flags.contains(AttrFlags::FREQ))
            .map(|event| event.attr.sample)
            .filter(|&period| period > 0);
        let position = |wanted: u32| seen.events.iter().position(|&at| at == wanted);
        let mut edges = vec![0];
        let mut switches = None;
        let scheme = if let (Some(at), Some(strobe)) = (of_strobe, strobe) {
            let group = &strobe.groups[at];
            edges = group.edges.iter().filter_map(|&edge| position(edge)).collect();
            switches = group.context_switches.and_then(position);
            Scheme::Strobe(at)
        } else {
            let taking_turns = fixed_period.and_then(|period| seen.lengths.alternating(period));
            match taking_turns {
                Some((short, long)) => {
                    Scheme::Alternating { short, limit: short + (long - short) / 2 }
                }
                None => Scheme::BackToBack(fixed_period),
            }
        };
        let mut names: Vec<String> = Vec::new();
        for (at, &number) in seen.events.iter().enumerate() {
            let name = event(number).map(name).unwrap_or_default();
            // B counts what A counts.
            let again = at > 0 && edges.contains(&at) || names.contains(&name);
            names.push(if again { String::new() } else { name });
        }
        let named = |is: &dyn Fn(&str) -> bool| names.iter().position(|name| is(name));
        let switches =
            switches.or_else(|| named(&|name| name == "context-switches" || name == "cs"));
        let returns = named(&|name| name.contains("br") && name.contains("return"));
        Self { scheme, events: seen.events.clone(), names, edges, switches, returns }
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_abi::Attr;

    use super::*;

    #[test]
    fn raw_codes_are_the_events_that_formulas_name() {
        let metadata = Metadata { arch: Some("aarch64".into()), ..Metadata::default() };
        let event = |event_type, config, name: &str| Event {
            attr: Attr { event_type, config, ..Attr::default() },
            name: name.into(),
            ids: Vec::new(),
        };
        let name = |event: &Event| code_name(event, &metadata);
        assert_eq!(name(&event(event_type::RAW, 0x11, "r0011")), Some("cycles"));
        assert_eq!(name(&event(8, 0x08, "armv8_pmuv3/event=0x8/")), Some("instructions"));
        // A tracepoint with that id is none.
        assert_eq!(name(&event(event_type::TRACEPOINT, 0x11, "sched:x")), None);
    }

    #[test]
    fn two_periods_are_seen_in_the_samples_only() {
        let lengths = |each: &[(u64, usize)]| {
            let mut lengths = SpacingCounts::default();
            each.iter().for_each(|&(length, n)| (0..n).for_each(|_| lengths.add(length)));
            lengths
        };
        let taking_turns = lengths(&[(999_700, 50), (310, 25), (290, 25)]);
        assert_eq!(taking_turns.alternating(999_700), Some((300, 999_700)));
        assert_eq!(lengths(&[(999_700, 100)]).alternating(999_700), None);
        // Some samples after a throttle.
        assert_eq!(lengths(&[(999_700, 100), (300, 10)]).alternating(999_700), None);
        assert_eq!(lengths(&[(300, 100), (70_000, 3)]).alternating(300), None);
    }
}
