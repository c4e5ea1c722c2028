//! Rows by any dimensions: command and CPU, module and line, whatever is asked for.
//!
//! A row is who and where together. Who (command, process, thread, CPU, node) is the same for all
//! frames of a stack; where (module, function, line, address) has one value for the innermost frame,
//! which the sample is *in*, and one for each caller, which it is *under*. A row that comes several
//! times in one stack (recursion) counts it once:
//!
//! ```text
//!  main ► f ► g ► f          self:  f            in or under:  main, f, g
//! ```

use std::sync::Arc;

use pmuscope_stats::Interval;
use pmuscope_symbols::Line;
use rustc_hash::FxHashMap;

use super::{Numbers, Sums};
use crate::aggregate::{AddsTo, Aggregate, CodeFrame, SampleCell};

/// What can tell rows apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Name of the thread.
    Command,
    /// Process id.
    Process,
    /// Thread id.
    Thread,
    /// CPU.
    Cpu,
    /// Node of the CPU.
    Node,
    /// File or other module.
    Module,
    /// Function, by name: functions of one name in two modules are one row unless modules are asked
    /// for too.
    Function,
    /// Source line.
    Line,
    /// Address in its module.
    Address,
}

impl Dimension {
    /// All of them, with the words for them.
    pub const ALL: [(&'static str, Self); 9] = [
        ("command", Self::Command),
        ("process", Self::Process),
        ("thread", Self::Thread),
        ("cpu", Self::Cpu),
        ("node", Self::Node),
        ("module", Self::Module),
        ("function", Self::Function),
        ("line", Self::Line),
        ("address", Self::Address),
    ];

    /// Whether frames of one stack can differ in it.
    #[must_use]
    pub fn is_place(self) -> bool {
        matches!(self, Self::Module | Self::Function | Self::Line | Self::Address)
    }
}

/// A value of a dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Not known.
    Unknown,
    /// Command or function. Foreign text.
    Name(Arc<str>),
    /// Process, thread, CPU or node.
    Number(i64),
    /// Index into the recording's modules.
    Module(u32),
    /// Source line. Foreign text.
    Line(Line),
    /// Address in its module.
    Address(u64),
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// One per dimension, in the order asked for.
    pub keys: Vec<Key>,
    /// In it.
    pub own: Sums,
    /// In it or under it.
    pub total: Sums,
    /// Share of `own` in all weight of the event, 0 to 1.
    pub share: f64,
    /// Share of `total`, 0 to 1.
    pub total_share: f64,
    /// 95 % interval of `share`.
    pub interval: Option<Interval>,
}

/// Rows of one event by `by`, the largest share first, then the largest total. The first `intervals`
/// of them get an interval where there are enough blocks of time. `node_of` tells a CPU's node.
#[must_use]
pub fn rows(
    counts: &Aggregate,
    event: u32,
    by: &[Dimension],
    node_of: &dyn Fn(u32) -> Option<u32>,
    intervals: usize,
) -> Vec<Row> {
    let mut groups = Groups::new(counts, by);
    let mut sums: FxHashMap<RowId, (Sums, Sums)> = FxHashMap::default();
    let mut all = Sums::default();
    let mut seen: Vec<u32> = Vec::new();
    for cell in counts.of_event(event) {
        let cell_sums = Sums { samples: cell.samples, weight: cell.weight };
        let who = groups.who(counts, cell, node_of);
        all.add(cell_sums);
        seen.clear();
        for (depth, frame) in counts.stacks.frames(cell.stack).enumerate() {
            let place = groups.places[frame as usize];
            if seen.contains(&place) {
                continue;
            }
            seen.push(place);
            let (own, total) = sums.entry((who, place)).or_default();
            total.add(cell_sums);
            if depth == 0 {
                own.add(cell_sums);
            }
        }
        if seen.is_empty() {
            let (own, total) = sums.entry((who, groups.nowhere)).or_default();
            own.add(cell_sums);
            total.add(cell_sums);
        }
    }
    let share = |weight: u64| if all.weight > 0 { weight as f64 / all.weight as f64 } else { 0.0 };
    let mut found: Vec<(RowId, Row)> = sums
        .into_iter()
        .map(|(id, (own, total))| {
            let (share, total_share) = (share(own.weight), share(total.weight));
            (id, Row { keys: groups.keys(id), own, total, share, total_share, interval: None })
        })
        .collect();
    found.sort_by(|(_, a), (_, b)| {
        let size = |row: &Row| (row.own.weight, row.total.weight, row.own.samples);
        size(b).cmp(&size(a)).then_with(|| a.keys.cmp(&b.keys))
    });
    add_intervals(&mut found, counts, event, &mut groups, node_of, intervals);
    found.into_iter().map(|(_, row)| row).collect()
}

/// Number of the who and of the where.
type RowId = (u32, u32);

struct Groups<'a> {
    by: &'a [Dimension],
    who: Numbers<Vec<Key>>,
    place: Numbers<Vec<Key>>,
    /// Number of each frame's place.
    places: Vec<u32>,
    /// Number of the place of a sample without any frame.
    nowhere: u32,
}

impl<'a> Groups<'a> {
    fn new(counts: &Aggregate, by: &'a [Dimension]) -> Self {
        let mut place = Numbers::new();
        let wanted = || by.iter().filter(|dimension| dimension.is_place());
        let key = |frame: &CodeFrame| wanted().map(|one| place_key(counts, frame, *one)).collect();
        let places = counts.frames.iter().map(|frame| place.of(key(frame))).collect();
        let nowhere = place.of(wanted().map(|_| Key::Unknown).collect());
        Self { by, who: Numbers::new(), place, places, nowhere }
    }

    fn who(
        &mut self,
        counts: &Aggregate,
        cell: &SampleCell,
        node_of: &dyn Fn(u32) -> Option<u32>,
    ) -> u32 {
        let wanted = self.by.iter().filter(|dimension| !dimension.is_place());
        self.who.of(wanted.map(|one| who_key(counts, cell, *one, node_of)).collect())
    }

    /// Both parts in the order asked for.
    fn keys(&self, (who, place): RowId) -> Vec<Key> {
        let (mut who, mut place) = (self.who.get(who).iter(), self.place.get(place).iter());
        let next = |one: &Dimension| if one.is_place() { place.next() } else { who.next() };
        self.by.iter().map(next).map(|key| key.cloned().unwrap_or(Key::Unknown)).collect()
    }
}

fn place_key(counts: &Aggregate, frame: &CodeFrame, dimension: Dimension) -> Key {
    let key = match dimension {
        Dimension::Module => Some(Key::Module(frame.module)),
        Dimension::Function => {
            frame.function.map(|at| Key::Name(Arc::clone(&counts.functions[at as usize].name)))
        }
        Dimension::Line => frame.line.clone().map(Key::Line),
        Dimension::Address => frame.address.map(Key::Address),
        _ => None,
    };
    key.unwrap_or(Key::Unknown)
}

fn who_key(
    counts: &Aggregate,
    cell: &SampleCell,
    dimension: Dimension,
    node_of: &dyn Fn(u32) -> Option<u32>,
) -> Key {
    let task = &counts.tasks[cell.task as usize];
    let number = |number: Option<i64>| number.map(Key::Number);
    let key = match dimension {
        Dimension::Command => Some(Key::Name(Arc::clone(&task.command))),
        Dimension::Process => number(task.pid.map(i64::from)),
        Dimension::Thread => number(task.tid.map(i64::from)),
        Dimension::Cpu => number(cell.cpu.map(i64::from)),
        Dimension::Node => number(cell.cpu.and_then(node_of).map(i64::from)),
        _ => None,
    };
    key.unwrap_or(Key::Unknown)
}

fn add_intervals(
    rows: &mut [(RowId, Row)],
    counts: &Aggregate,
    event: u32,
    groups: &mut Groups<'_>,
    node_of: &dyn Fn(u32) -> Option<u32>,
    most: usize,
) {
    let most = most.min(rows.len());
    let wanted: FxHashMap<RowId, usize> =
        rows[..most].iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    let series = counts.row_series(most, true, |cell| {
        if cell.event != event {
            return AddsTo::Nothing;
        }
        let who = groups.who(counts, cell, node_of);
        let frame = counts.stacks.frame(cell.stack);
        let place = frame.map_or(groups.nowhere, |frame| groups.places[frame as usize]);
        wanted.get(&(who, place)).map_or(AddsTo::Total, |&row| AddsTo::Row(row))
    });
    for ((_, row), interval) in rows.iter_mut().zip(series.intervals()) {
        row.interval = interval;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::tests::{Plain, aggregate, module, name, samples};
    use super::*;
    use proptest::prelude::*;

    const TASKS: [(&str, i64, i64); 3] = [("one", 1, 1), ("one", 1, 2), ("two", 3, 3)];

    fn key(sample: &Plain, function: usize, dimension: Dimension) -> Key {
        let (command, pid, tid) = TASKS[sample.task];
        match dimension {
            Dimension::Command => Key::Name(command.into()),
            Dimension::Process => Key::Number(pid),
            Dimension::Thread => Key::Number(tid),
            Dimension::Cpu => Key::Number(sample.cpu.into()),
            Dimension::Node => Key::Number(i64::from(sample.cpu) + 7),
            Dimension::Module => Key::Module(module(function)),
            Dimension::Function => {
                name(function).map_or(Key::Unknown, |name| Key::Name(name.into()))
            }
            Dimension::Line => Key::Unknown,
            Dimension::Address => {
                if function < 4 {
                    Key::Unknown
                } else {
                    Key::Address(0x10)
                }
            }
        }
    }

    fn dimensions() -> impl Strategy<Value = Vec<Dimension>> {
        let all: Vec<Dimension> = Dimension::ALL.map(|(_, dimension)| dimension).to_vec();
        proptest::sample::subsequence(all, 1..4).prop_shuffle()
    }

    proptest! {
        #[test]
        fn rows_hold_what_a_count_by_hand_holds(samples in samples(), by in dimensions()) {
            let mut own: BTreeMap<Vec<Key>, u64> = BTreeMap::new();
            let mut total: BTreeMap<Vec<Key>, u64> = BTreeMap::new();
            for sample in &samples {
                let keys = |function: usize| {
                    by.iter().map(|one| key(sample, function, *one)).collect::<Vec<_>>()
                };
                *own.entry(keys(*sample.calls.last().unwrap())).or_default() += sample.weight;
                let under: BTreeSet<_> = sample.calls.iter().map(|&call| keys(call)).collect();
                for keys in under {
                    *total.entry(keys).or_default() += sample.weight;
                }
            }
            let counts = aggregate(&samples);
            let found = rows(&counts, 0, &by, &|cpu| Some(cpu + 7), 3);
            prop_assert_eq!(found.len(), total.len());
            for row in &found {
                prop_assert_eq!(row.total.weight, total[&row.keys]);
                prop_assert_eq!(row.own.weight, own.get(&row.keys).copied().unwrap_or(0));
            }
            let shares: f64 = found.iter().map(|row| row.share).sum();
            prop_assert!((shares - 1.0).abs() < 1e-9);
            prop_assert!(found.is_sorted_by(|a, b| a.share >= b.share));
        }
    }

    #[test]
    fn long_recordings_have_intervals() {
        let sample = |block: u32| Plain {
            task: 0,
            cpu: 0,
            calls: vec![0, (block % 2) as usize],
            block: block % 40,
            weight: 1,
        };
        let counts = aggregate(&(0..400).map(sample).collect::<Vec<_>>());
        let found = rows(&counts, 0, &[Dimension::Function], &|_| None, 1);
        let interval = found[0].interval.unwrap();
        assert!(interval.contains(found[0].share), "{interval:?}");
        assert_eq!(found[1].interval, None, "only one was asked for");
    }
}
