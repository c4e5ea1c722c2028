//! The table of functions: how much was spent in each, and how much in it and all that it called.

use std::sync::Arc;

use pmuscope_stats::Interval;
use rustc_hash::FxHashMap;

use crate::aggregate::{AddsTo, Aggregate, FrameId, FunctionId, StackId};
use crate::profile::ModuleShare;

use super::Event;

/// A function in a command.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionRow {
    /// Name of the threads. Foreign text.
    pub command: Arc<str>,
    /// Index of the module.
    pub module: u32,
    /// The function; `None` where its module has no name for it.
    pub function: Option<FunctionId>,
    /// Samples in the function itself.
    pub samples: u64,
    /// Their weight, see [`Event::value`].
    pub weight: u64,
    /// Samples in it or in what it called.
    pub total_samples: u64,
    /// Their weight.
    pub total_weight: u64,
    /// Of all weight of the event, 0 to 1.
    pub share: f64,
    /// Of all weight of the event, in it or in what it called, 0 to 1.
    pub total_share: f64,
    /// 95 % interval of `share`.
    pub interval: Option<Interval>,
}

/// What makes a row: number of the command, module, function.
type Key = (u32, u32, Option<FunctionId>);

/// Rows of one event, the largest share first, equal ones in the order of their names. The first
/// `intervals` of them get an interval, where there are enough blocks of time for one.
#[must_use]
pub fn functions(counts: &Aggregate, event: &Event, intervals: usize) -> Vec<FunctionRow> {
    let commands = Commands::new(counts);
    let mut rows = Rows { counts, rows: FxHashMap::default(), path: Vec::new() };
    for ((command, stack), sums) in by_stack(counts, event, &commands) {
        rows.add(command, stack, sums);
    }
    let mut rows = rows.finish(event, &commands);
    add_intervals(&mut rows, counts, event, &commands, intervals);
    rows
}

/// Samples of one event by module, the largest share first.
#[must_use]
pub fn modules(counts: &Aggregate, event: &Event) -> Vec<ModuleShare> {
    let mut by_module: FxHashMap<u32, (Sums, u64)> = FxHashMap::default();
    let mut total = 0_u64;
    for cell in counts.of_event(event.index) {
        let Some(frame) = counts.stacks.frame(cell.stack) else { continue };
        let frame = &counts.frames[frame as usize];
        let (sums, named) = by_module.entry(frame.module).or_default();
        sums.add(Sums { samples: cell.samples, weight: event.value(cell) });
        *named += if frame.function.is_some() { cell.samples } else { 0 };
        total = total.saturating_add(event.value(cell));
    }
    let mut modules: Vec<ModuleShare> = by_module
        .into_iter()
        .map(|(module, (sums, named))| ModuleShare {
            module: module as usize,
            samples: sums.samples,
            named,
            share: share(sums.weight, total),
        })
        .collect();
    modules.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.module.cmp(&b.module)));
    modules
}

/// Tasks told apart by their name only.
struct Commands {
    names: Vec<Arc<str>>,
    of_task: Vec<u32>,
}

impl Commands {
    fn new(counts: &Aggregate) -> Self {
        let mut names: Vec<Arc<str>> =
            counts.tasks.iter().map(|task| task.command.clone()).collect();
        names.sort_unstable();
        names.dedup();
        // Every name is in the list it was just put in.
        let of_task = counts
            .tasks
            .iter()
            .map(|task| names.binary_search(&task.command).unwrap_or_default() as u32)
            .collect();
        Self { names, of_task }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    samples: u64,
    weight: u64,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
    }
}

/// Stacks are walked once per command, not once per CPU and thread too.
fn by_stack(
    counts: &Aggregate,
    event: &Event,
    commands: &Commands,
) -> FxHashMap<(u32, StackId), Sums> {
    let mut sums: FxHashMap<(u32, StackId), Sums> = FxHashMap::default();
    for cell in counts.of_event(event.index) {
        let key = (commands.of_task[cell.task as usize], cell.stack);
        let one = Sums { samples: cell.samples, weight: event.value(cell) };
        sums.entry(key).or_default().add(one);
    }
    sums
}

struct Rows<'a> {
    counts: &'a Aggregate,
    /// Spent in itself, and with what it called.
    rows: FxHashMap<Key, (Sums, Sums)>,
    /// Rows that the stack in hand has been counted for: a function that calls itself counts once.
    path: Vec<Key>,
}

fn key(counts: &Aggregate, command: u32, frame: FrameId) -> Key {
    let frame = &counts.frames[frame as usize];
    (command, frame.module, frame.function)
}

impl Rows<'_> {
    fn add(&mut self, command: u32, stack: StackId, sums: Sums) {
        self.path.clear();
        for (depth, frame) in self.counts.stacks.frames(stack).enumerate() {
            self.path.push(key(self.counts, command, frame));
            if depth == 0 {
                self.rows.entry(self.path[0]).or_default().0.add(sums);
            }
        }
        self.path.sort_unstable();
        self.path.dedup();
        for key in &self.path {
            self.rows.entry(*key).or_default().1.add(sums);
        }
    }

    fn finish(self, event: &Event, commands: &Commands) -> Vec<FunctionRow> {
        let whole = self.counts.of_event(event.index);
        let whole = whole.iter().fold(0_u64, |sum, cell| sum.saturating_add(event.value(cell)));
        let mut rows: Vec<FunctionRow> = self
            .rows
            .into_iter()
            .map(|((command, module, function), (own, total))| FunctionRow {
                command: commands.names[command as usize].clone(),
                module,
                function,
                samples: own.samples,
                weight: own.weight,
                total_samples: total.samples,
                total_weight: total.weight,
                share: share(own.weight, whole),
                total_share: share(total.weight, whole),
                interval: None,
            })
            .collect();
        let name =
            |row: &FunctionRow| row.function.map(|id| &self.counts.functions[id as usize].name);
        rows.sort_by(|a, b| {
            (b.weight, b.total_weight)
                .cmp(&(a.weight, a.total_weight))
                .then_with(|| name(a).cmp(&name(b)))
                .then_with(|| (&a.command, a.module).cmp(&(&b.command, b.module)))
        });
        rows
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

fn add_intervals(
    rows: &mut [FunctionRow],
    counts: &Aggregate,
    event: &Event,
    commands: &Commands,
    most: usize,
) {
    let most = most.min(rows.len());
    if most == 0 {
        return;
    }
    let number = |row: &FunctionRow| commands.names.binary_search(&row.command).unwrap_or_default();
    let wanted: FxHashMap<Key, usize> = rows[..most]
        .iter()
        .enumerate()
        .map(|(at, row)| ((number(row) as u32, row.module, row.function), at))
        .collect();
    let series = counts.row_series(most, event.by_period, |cell| {
        let frame = counts.stacks.frame(cell.stack).filter(|_| cell.event == event.index);
        let Some(frame) = frame else { return AddsTo::Nothing };
        let key = key(counts, commands.of_task[cell.task as usize], frame);
        wanted.get(&key).map_or(AddsTo::Total, |&row| AddsTo::Row(row))
    });
    for (row, interval) in rows.iter_mut().zip(series.intervals()) {
        row.interval = interval;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::super::sample::{self, arbitrary};
    use super::*;

    #[test]
    fn a_function_has_its_own_samples_and_those_of_what_it_called() {
        let made = sample::made();
        let rows = functions(&made.counts, &made.events()[0], 10);
        let row = |name: &str| {
            let name_of = |row: &&FunctionRow| {
                row.function.is_some_and(|id| &*made.counts.functions[id as usize].name == name)
            };
            rows.iter().find(name_of).unwrap()
        };
        assert_eq!((row("main").samples, row("main").total_samples), (10, 100));
        assert_eq!((row("recurse").samples, row("recurse").total_samples), (30, 30));
        assert_eq!(row("memcpy;x").total_samples, 60);
        assert!(rows.windows(2).all(|pair| pair[0].share >= pair[1].share));
    }

    #[test]
    fn intervals_hold_their_share_and_need_blocks_of_time() {
        let mut made = sample::made();
        let event = made.events()[0].clone();
        let rows = functions(&made.counts, &event, 1);
        let interval = rows[0].interval.unwrap();
        assert!(interval.contains(rows[0].share) && rows[1].interval.is_none());
        made.counts.timeline.blocks = 29;
        assert_eq!(functions(&made.counts, &event, 1)[0].interval, None);
    }

    proptest! {
        /// Against sums over every sample one by one.
        #[test]
        fn rows_are_sums_over_samples(made in arbitrary()) {
            let event = &made.events()[0];
            let counts = &made.counts;
            let mut own: BTreeMap<_, u64> = BTreeMap::new();
            let mut total: BTreeMap<_, u64> = BTreeMap::new();
            for cell in counts.cells.iter().filter(|cell| cell.event == event.index) {
                let command = &counts.tasks[cell.task as usize].command;
                let keys: Vec<_> = counts
                    .stacks
                    .frames(cell.stack)
                    .map(|frame| &counts.frames[frame as usize])
                    .map(|frame| (command.clone(), frame.module, frame.function))
                    .collect();
                if let Some(first) = keys.first() {
                    *own.entry(first.clone()).or_default() += cell.samples;
                }
                for key in keys.into_iter().collect::<BTreeSet<_>>() {
                    *total.entry(key).or_default() += cell.samples;
                }
            }
            let rows = functions(counts, event, 0);
            prop_assert_eq!(rows.len(), total.len());
            for row in &rows {
                let key = (row.command.clone(), row.module, row.function);
                prop_assert_eq!(row.samples, own.get(&key).copied().unwrap_or(0));
                prop_assert_eq!(row.total_samples, total[&key]);
            }
            let by_module: u64 = modules(counts, event).iter().map(|module| module.samples).sum();
            prop_assert_eq!(by_module, own.values().sum::<u64>());
        }
    }
}
