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

use super::Sums;
use super::cell_ranks::CellRanks;
use super::query::{CellsByWho, NONE, RowKeys, add_totals, own_rows};
use super::ranked_rows::{RankedRows, RowNames};
use super::row_order::in_order;
use crate::aggregate::{Aggregate, CodeFrame, FrameId, Function, RowSeries, SampleCell, StackId};
use crate::table::ValueNumbers;

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
    let (ranked, ranks) = ranked_rows(counts, event, by, node_of, intervals);
    let mut rows: Vec<Row> = (0..ranked.len()).filter_map(|at| ranked.row(counts, at)).collect();
    let found = ranks.intervals(counts);
    for (at, row) in rows.iter_mut().enumerate() {
        row.interval = found.interval(at);
    }
    rows
}

/// [`rows`] as numbers, and where the cells of the `most` largest are: names and intervals cost more than rows, so who
/// shows rows can ask for them later.
#[must_use]
pub fn ranked_rows(
    counts: &Aggregate,
    event: u32,
    by: &[Dimension],
    node_of: &dyn Fn(u32) -> Option<u32>,
    most: usize,
) -> (RankedRows, CellRanks) {
    let Ranked { rows, order, row_of_cell } = ranked(counts, event, by, node_of);
    let largest = &order[..most.min(order.len())];
    (rows, CellRanks::new(event, true, row_of_cell, largest, order.len()))
}

/// The `most` largest rows, without intervals, and the sums of their weight by block of time.
#[must_use]
pub fn rows_over_time(
    counts: &Aggregate,
    event: u32,
    by: &[Dimension],
    node_of: &dyn Fn(u32) -> Option<u32>,
    most: usize,
) -> (Vec<Row>, RowSeries) {
    let Ranked { rows, order, row_of_cell } = ranked(counts, event, by, node_of);
    let places = (0..rows.len()).filter(|&at| rows.sums(at).0.samples > 0).take(most);
    let (largest, found): (Vec<u32>, Vec<Row>) =
        places.filter_map(|at| Some((order[at], rows.row(counts, at)?))).unzip();
    let ranks = CellRanks::new(event, true, row_of_cell, &largest, order.len());
    (found, ranks.series(counts))
}

/// Rows, the largest first.
struct Ranked {
    rows: RankedRows,
    /// The number of each before they were sorted.
    order: Vec<u32>,
    /// That number, for each cell of the event.
    row_of_cell: Vec<u32>,
}

fn ranked(
    counts: &Aggregate,
    event: u32,
    by: &[Dimension],
    node_of: &dyn Fn(u32) -> Option<u32>,
) -> Ranked {
    let cells = counts.of_event(event);
    let mut groups = Groups::new(counts, by, node_of);
    let by_who = CellsByWho::new(&mut groups, cells);
    let (mut sums, row_of_cell) = own_rows(&mut groups, cells, &by_who);
    let all = sums.iter().fold(Sums::default(), |all, row| all.and(row.own));
    if by.iter().any(|dimension| dimension.is_place()) {
        add_totals(&mut groups, &counts.stacks, cells, &by_who, &mut sums);
    } else {
        // A thread has nothing below it that is not in it.
        sums.iter_mut().for_each(|row| row.total = row.own);
    }
    drop(by_who);
    let names = RowNames::new(by, groups.who.list, groups.frame_of_place);
    let order = in_order(&sums, &names.runs(counts, &sums));
    let rows = order.iter().map(|&at| sums[at as usize]).collect();
    Ranked { rows: RankedRows::new(rows, names, all.weight), order, row_of_cell }
}

struct Groups<'a> {
    counts: &'a Aggregate,
    by: &'a [Dimension],
    node_of: &'a dyn Fn(u32) -> Option<u32>,
    who: ValueNumbers<Vec<Key>>,
    /// Number of each frame's place.
    places: Vec<u32>,
    /// A frame of each place.
    frame_of_place: Vec<Option<FrameId>>,
    /// Number of the place of a sample without any frame.
    nowhere: u32,
}

/// What frames are passed apart by; `None` where rows are not by it, or where it is not known. Names of functions are
/// numbers: there are far more frames than functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct PlaceValues<'a> {
    module: Option<u32>,
    name: Option<u32>,
    line: Option<&'a Line>,
    address: Option<u64>,
}

impl<'a> Groups<'a> {
    fn new(
        counts: &'a Aggregate,
        by: &'a [Dimension],
        node_of: &'a dyn Fn(u32) -> Option<u32>,
    ) -> Self {
        let names = names(counts, by);
        let mut numbers: FxHashMap<PlaceValues<'_>, u32> = FxHashMap::default();
        let mut frame_of_place: Vec<Option<FrameId>> = Vec::new();
        let mut number = |values: PlaceValues<'a>, frame: Option<FrameId>| {
            *numbers.entry(values).or_insert_with(|| {
                frame_of_place.push(frame);
                (frame_of_place.len() - 1) as u32
            })
        };
        let is_by = |dimension| by.contains(&dimension);
        let by_module = is_by(Dimension::Module);
        let (by_line, by_address) = (is_by(Dimension::Line), is_by(Dimension::Address));
        let values = |frame: &'a CodeFrame| PlaceValues {
            module: by_module.then_some(frame.module),
            name: frame.function.and_then(|at| names.get(at as usize).copied()),
            line: frame.line.as_ref().filter(|_| by_line),
            address: frame.address.filter(|_| by_address),
        };
        let places =
            (0..).zip(&counts.frames).map(|(at, frame)| number(values(frame), Some(at))).collect();
        let nowhere = number(PlaceValues::default(), None);
        let who = ValueNumbers::default();
        Self { counts, by, node_of, who, places, frame_of_place, nowhere }
    }
}

/// For each function the number of its name; nothing where rows are not by name.
fn names<'a>(counts: &'a Aggregate, by: &[Dimension]) -> Vec<u32> {
    if !by.contains(&Dimension::Function) {
        return Vec::new();
    }
    let mut numbers: FxHashMap<&'a str, u32> = FxHashMap::default();
    let number = |function: &'a Function| {
        let next = numbers.len() as u32;
        *numbers.entry(&*function.name).or_insert(next)
    };
    counts.functions.iter().map(number).collect()
}

impl RowKeys for Groups<'_> {
    fn whos(&mut self, cells: &[SampleCell]) -> Vec<u32> {
        use Dimension::{Command, Cpu, Node, Process, Thread};
        let is_by = |dimensions: &[Dimension]| self.by.iter().any(|one| dimensions.contains(one));
        let (by_task, by_cpu) = (is_by(&[Command, Process, Thread]), is_by(&[Cpu, Node]));
        if !by_task && !by_cpu {
            let who = self.who.number(Vec::new());
            return vec![who; cells.len()];
        }
        let mut who_of = FxHashMap::default();
        // Cells of one thread on one CPU are often next to each other.
        let mut last = None;
        let mut who = |cell: &SampleCell| {
            let key = (by_task.then_some(cell.task), cell.cpu.filter(|_| by_cpu));
            if let Some((of, who)) = last
                && of == key
            {
                return who;
            }
            let who = *who_of.entry(key).or_insert_with(|| {
                let wanted = self.by.iter().filter(|dimension| !dimension.is_place());
                let keys = wanted.map(|one| who_key(self.counts, cell, *one, self.node_of));
                self.who.number(keys.collect())
            });
            last = Some((key, who));
            who
        };
        cells.iter().map(&mut who).collect()
    }

    fn what(&mut self, stack: StackId) -> u32 {
        let frame = self.counts.stacks.frame(stack);
        frame.map_or(self.nowhere, |frame| self.places[frame as usize])
    }

    fn what_below(&mut self, _: u32, frame: FrameId) -> (u32, u32) {
        (self.places[frame as usize], NONE)
    }

    fn nowhere(&mut self) -> u32 {
        self.nowhere
    }

    fn whats(&self) -> usize {
        self.frame_of_place.len()
    }
}

pub(super) fn place_key(counts: &Aggregate, frame: &CodeFrame, dimension: Dimension) -> Key {
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

        /// Rows are found by their keys, which have the order that sorting them has.
        #[test]
        fn keys_find_and_order_rows(samples in samples(), by in dimensions(), wanted in 0_usize..9) {
            let counts = aggregate(&samples);
            let (ranked, _) = ranked_rows(&counts, 0, &by, &|cpu| Some(cpu + 7), 3);
            let found: Vec<Row> =
                (0..ranked.len()).map(|at| ranked.row(&counts, at).unwrap()).collect();
            let size = |row: &Row| (row.own.weight, row.total.weight, row.own.samples);
            let order = |a: &Row, b: &Row| {
                (std::cmp::Reverse(size(a)), &a.keys) < (std::cmp::Reverse(size(b)), &b.keys)
            };
            prop_assert!(found.is_sorted_by(order));
            for (row, at) in found.iter().zip(0..) {
                prop_assert_eq!(ranked.position(&counts, &row.keys), Some(at));
                prop_assert_eq!(ranked.position(&counts, &row.keys[1..]), None);
                prop_assert_eq!(ranked.sums(at), (row.own, row.total));
            }
            let all: BTreeSet<&Key> = found.iter().flat_map(|row| &row.keys).collect();
            if let Some(wanted) = all.into_iter().nth(wanted) {
                let has = |row: &Row| row.keys.contains(wanted);
                let expected: Vec<u32> =
                    found.iter().zip(0..).filter(|(row, _)| has(row)).map(|(_, at)| at).collect();
                prop_assert_eq!(ranked.with_key(&counts, |key| key == wanted), expected);
            }
            for dimension in 0..by.len() {
                let keys: Vec<&Key> = found.iter().map(|row| &row.keys[dimension]).collect();
                let distinct: BTreeSet<&Key> = keys.iter().copied().collect();
                let rank = |key: &&Key| distinct.iter().position(|one| one == key).unwrap() as u32;
                let expected: Vec<u32> = keys.iter().map(rank).collect();
                prop_assert_eq!(ranked.key_ranks(&counts, dimension), expected);
            }
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
