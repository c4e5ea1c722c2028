//! Counts and names to the model of views: see [`crate::aggregate`].
//!
//! Numbers of functions, frames, stacks and tasks follow from what they stand for, never from which
//! thread came first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use pmuscope_perfdata::reader::ReadError;

use super::paths::Paths;
use crate::aggregate::{Aggregate, SampleCell, Series, Stacks, Task, TaskId, Timeline};
use crate::count::address_to_stack::AddressToStack;
use crate::count::code_lines::LINE;
use crate::count::collect::{Collected, CountState};
use crate::count::counter::{CellKey, Counts, Where};
use crate::count::group::{SampleGroup, TaskKey};
use crate::count::log::Log;
use crate::count::merge::merge_all;
use crate::count::named_chains::NamedPlaces;
use crate::count::tree::{Tree, grow};
use crate::names::naming::{Named, Places};
use crate::pool::in_parallel;
use crate::profile::Detail;
use crate::samples::{LogPart, Samples};
use crate::timeline::tasks::{CommOf, Tasks};

impl Collected {
    /// Adds up. The logs of the counts are used up, and the symbols of `named`. Samples come along where they were
    /// kept.
    ///
    /// # Errors
    /// If samples are counted only now, and the operating system fails to read.
    pub(crate) fn aggregate(
        &mut self,
        named: &mut Named,
        detail: Detail,
    ) -> Result<(Aggregate, Option<Samples>), ReadError> {
        let symbols = std::mem::take(&mut named.symbols);
        let mut paths = Paths::new(&self.state.modules, &named.places, symbols, detail);
        let (stacks, by_counter) = match &self.counted {
            CountState::All(counts) => stacks(counts, named, &paths),
            CountState::Places(_, again) => {
                let (of_places, of_paths) = paths.stacks();
                let located = located(named, &paths, &of_paths);
                let functions = paths.functions_of_frames();
                // They take some 20 bytes each, and nobody asks for them again.
                named.places = Places::default();
                paths.forget_places();
                let places =
                    NamedPlaces { located: &located, stacks: &of_places, functions: &functions };
                let mut counts = again.count_located(&self.state, places)?;
                let found = chained(&mut counts).unwrap_or((of_places, Vec::new()));
                self.counted = CountState::All(counts);
                found
            }
        };
        let CountState::All(counts) = &mut self.counted else {
            return Ok((Aggregate::default(), None));
        };
        let (tasks, task_numbers) = tasks(&self.state.tasks, counts);
        let samples = kept_samples(counts, &by_counter, &task_numbers);
        let (runners, by_group) = runners(counts, &task_numbers);
        let shift = self.clock.shift();
        let stacks_of = by_counter.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let own =
            counts.iter_mut().zip(stacks_of).zip(by_group).map(|((counts, stacks), runners)| {
                let (cells, log) =
                    (std::mem::take(&mut counts.cells), std::mem::take(&mut counts.log));
                let stacks = stacks.filter(|_| !matches!(counts.by, Where::Stacks));
                Own { cells, log, groups: &counts.groups, stacks, runners }
            });
        let sorted = in_parallel(own, |own| own.sorted(shift));
        let (cells, numbers) = together(&sorted, &runners);
        let logs = sorted.into_iter().map(|sorted| sorted.log);
        let aggregate = Aggregate {
            functions: paths.functions,
            frames: paths.frames.list,
            stacks,
            tasks,
            cells,
            series: Series::of_logs(logs.zip(numbers), shift),
            timeline: self.timeline(),
        };
        Ok((aggregate, samples))
    }

    fn timeline(&self) -> Timeline {
        Timeline {
            start: self.clock.origin().unwrap_or(0),
            block_ns: 1_u64.checked_shl(self.clock.shift()).unwrap_or(u64::MAX),
            blocks: self.blocks() as u32,
        }
    }
}

/// The samples of all counters, if these kept them; they are taken out.
fn kept_samples(
    counts: &mut [Counts],
    stacks: &[Vec<u32>],
    tasks: &[Vec<TaskId>],
) -> Option<Samples> {
    let part = |((counts, stacks), tasks): ((&mut Counts, &Vec<u32>), &Vec<TaskId>)| {
        let groups = counts.groups.iter();
        let groups = groups.map(|group| (group.event, tasks[group.task as usize])).collect();
        Some(LogPart { log: counts.samples.take()?, stacks: stacks.clone(), groups })
    };
    let parts: Option<Vec<LogPart>> = counts.iter_mut().zip(stacks).zip(tasks).map(part).collect();
    parts.filter(|parts| !parts.is_empty()).map(Samples::new)
}

/// Each task once, in order; and which one each counter's are.
fn tasks(all: &Tasks, counts: &[Counts]) -> (Vec<Task>, Vec<Vec<TaskId>>) {
    let task = |key: &TaskKey| {
        let command: Arc<str> = match key.comm {
            CommOf::Recorded(comm) => String::from_utf8_lossy(all.name(comm)).as_ref().into(),
            CommOf::Unnamed(tid) => format!(":{tid}").into(),
        };
        Task { command, pid: key.pid, tid: key.tid }
    };
    let by_counter: Vec<Vec<Task>> =
        counts.iter().map(|counts| counts.tasks.iter().map(task).collect()).collect();
    let mut each: Vec<Task> = by_counter.iter().flatten().cloned().collect();
    let key = |task: &Task| (Arc::clone(&task.command), task.pid, task.tid);
    each.sort_unstable_by_key(key);
    each.dedup();
    let number = |task: &Task| {
        each.binary_search_by(|other| key(other).cmp(&key(task))).unwrap_or(0) as TaskId
    };
    let numbers = by_counter.iter().map(|tasks| tasks.iter().map(number).collect()).collect();
    (each, numbers)
}

/// The tree of all stacks, and for each counter the stack of each place or node.
fn stacks(counts: &[Counts], named: &Named, paths: &Paths) -> (Stacks, Vec<Vec<u32>>) {
    let grown = in_parallel(counts, |counts| {
        let numbers = named.places.numbers(counts.by.places(), &named.same);
        let mut tree = Tree::default();
        let reached: Vec<u32> = match &counts.by {
            // They are only counted when places have names.
            Where::Stacks | Where::Chains { .. } => Vec::new(),
            Where::Places(_) => {
                let node = |place: u32| tree.below(Tree::ROOT, paths.of(place));
                numbers.into_iter().map(node).collect()
            }
            Where::Nodes { nodes, .. } => {
                let path = |of: u32, to: &mut Vec<u32>| {
                    to.extend_from_slice(paths.of(numbers[of as usize]));
                };
                grow(&mut tree, nodes, path, |a, b| paths.same_function(a, b))
            }
        };
        let (stacks, numbers) = tree.in_order();
        (stacks, reached.into_iter().map(|node| numbers[node as usize]).collect())
    });
    merged(grown)
}

/// The tree of the stacks of all counters, and for each the stack of each of its numbers; `None` where nothing has
/// callers.
fn chained(counts: &mut [Counts]) -> Option<(Stacks, Vec<Vec<u32>>)> {
    let own = counts.iter_mut().map(|counts| match &mut counts.by {
        Where::Chains { stacks, numbers } => {
            Some((std::mem::take(stacks), std::mem::take(numbers)))
        }
        _ => None,
    });
    own.collect::<Option<Vec<_>>>().map(merged)
}

/// One tree of the stacks of several, and the numbers of each in it.
fn merged(own: Vec<(Stacks, Vec<u32>)>) -> (Stacks, Vec<Vec<u32>>) {
    let (trees, numbers): (Vec<Stacks>, Vec<Vec<u32>>) = own.into_iter().unzip();
    let (stacks, places) = merge_all(trees);
    let numbers = in_parallel(numbers.into_iter().zip(places), |(mut numbers, places)| {
        numbers.iter_mut().for_each(|number| *number = places[*number as usize]);
        numbers
    });
    (stacks, numbers)
}

/// Which stack each place comes to.
fn located(named: &Named, paths: &Paths, stack_of_path: &[u32]) -> AddressToStack {
    let lines = |addresses: &Vec<u64>| addresses.chunk_by(|a, b| a / LINE == b / LINE).count();
    let lines = named.places.addresses.iter().map(lines).sum();
    let mut located = AddressToStack::new(&named.same, lines);
    let mut numbers = 0..;
    for (addresses, module) in named.places.addresses.iter().zip(0..) {
        let stack = |number: u32| stack_of_path[paths.number(number) as usize];
        let places = addresses.iter().copied().zip(numbers.by_ref().map(stack));
        located.push_module(module, places);
    }
    located
}

/// Who ran where: task and CPU.
type Runner = (TaskId, Option<u32>);

/// Each runner once, in order; and which one each group of each counter is.
fn runners(counts: &[Counts], tasks: &[Vec<TaskId>]) -> (Vec<Runner>, Vec<Vec<u32>>) {
    let of_groups = |(counts, tasks): (&Counts, &Vec<TaskId>)| -> Vec<Runner> {
        counts.groups.iter().map(|group| (tasks[group.task as usize], group.cpu)).collect()
    };
    let by_counter: Vec<Vec<Runner>> = counts.iter().zip(tasks).map(of_groups).collect();
    let mut each: Vec<Runner> = by_counter.iter().flatten().copied().collect();
    each.sort_unstable();
    each.dedup();
    let number = |runner: &Runner| each.binary_search(runner).unwrap_or(0) as u32;
    let numbers = by_counter.iter().map(|runners| runners.iter().map(number).collect()).collect();
    (each, numbers)
}

/// A cell of a counter in one number, in the order of what it is of: event, stack and runner, then its
/// number in the log. Numbers sort several times faster than structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packed(u128);

impl Packed {
    fn new(event: u32, stack: u32, runner: u32, cell: u32) -> Self {
        let word = |of: u32, at: u32| u128::from(of) << (32 * at);
        Self(word(event, 3) | word(stack, 2) | word(runner, 1) | word(cell, 0))
    }

    /// All but the cell.
    fn key(self) -> u128 {
        self.0 >> 32
    }

    /// Event, stack, runner, cell.
    fn parts(self) -> [u32; 4] {
        [3, 2, 1, 0].map(|at| (self.0 >> (32 * at)) as u32)
    }
}

/// A counter's own cells, and what their numbers stand for.
struct Own<'a> {
    cells: Vec<CellKey>,
    log: Log,
    groups: &'a [SampleGroup],
    /// By place or node; `None` where cells are of stacks.
    stacks: Option<Vec<u32>>,
    /// By group.
    runners: Vec<u32>,
}

/// The same in order, added up.
struct Sorted {
    cells: Vec<Packed>,
    totals: Totals,
    log: Log,
}

impl Own<'_> {
    fn sorted(self, shift: u32) -> Sorted {
        let Self { cells, log, groups, stacks, runners } = self;
        let packed = |CellKey { cell, group, what }: CellKey| {
            let stack = stacks.as_ref().map_or(what, |stacks| stacks[what as usize]);
            Packed::new(groups[group as usize].event, stack, runners[group as usize], cell)
        };
        let mut cells: Vec<Packed> = cells.into_iter().map(packed).collect();
        cells.sort_unstable();
        Sorted { totals: Totals::new(&log, cells.len(), shift), cells, log }
    }
}

/// Sums over time, by cell of a log.
struct Totals {
    samples: Vec<u64>,
    /// Empty where all samples weigh one.
    weights: Vec<u64>,
}

impl Totals {
    fn new(log: &Log, cells: usize, shift: u32) -> Self {
        let (mut samples, mut weights) = (vec![0_u64; cells], Vec::new());
        for entry in log.entries(shift) {
            if weights.is_empty() && entry.weight != u64::from(entry.samples) {
                weights.clone_from(&samples);
            }
            if let Some(weight) = weights.get_mut(entry.cell as usize) {
                *weight = weight.saturating_add(entry.weight);
            }
            samples[entry.cell as usize] += u64::from(entry.samples);
        }
        Self { samples, weights }
    }

    /// Samples and weight.
    fn of(&self, cell: u32) -> (u64, u64) {
        let samples = self.samples[cell as usize];
        (samples, self.weights.get(cell as usize).copied().unwrap_or(samples))
    }
}

/// Cells of all counters, and for each counter which of them those of its log are.
fn together(sorted: &[Sorted], runners: &[Runner]) -> (Vec<SampleCell>, Vec<Vec<u32>>) {
    // What is distinct is not known; memory that is not written to costs nothing.
    let most = sorted.iter().map(|one| one.cells.len()).sum();
    let mut cells: Vec<SampleCell> = Vec::with_capacity(most);
    let mut numbers: Vec<Vec<u32>> = sorted.iter().map(|one| vec![0; one.cells.len()]).collect();
    let mut latest = None;
    merge(sorted, |counter, packed| {
        let [event, stack, runner, own] = packed.parts();
        if latest != Some(packed.key()) {
            latest = Some(packed.key());
            let (task, cpu) = runners[runner as usize];
            cells.push(SampleCell { event, stack, task, cpu, samples: 0, weight: 0 });
        }
        numbers[counter][own as usize] = cells.len() as u32 - 1;
        let (samples, weight) = sorted[counter].totals.of(own);
        if let Some(cell) = cells.last_mut() {
            cell.samples += samples;
            cell.weight = cell.weight.saturating_add(weight);
        }
    });
    (cells, numbers)
}

/// All cells in order, each with the number of its counter.
fn merge(sorted: &[Sorted], mut take: impl FnMut(usize, Packed)) {
    let mut rest: Vec<_> = sorted.iter().map(|one| one.cells.iter().copied()).collect();
    let first = rest.iter_mut().enumerate().filter_map(|(at, cells)| Some((cells.next()?, at)));
    let mut heads: BinaryHeap<Reverse<(Packed, usize)>> = first.map(Reverse).collect();
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((packed, counter)) = *head;
        match rest[counter].next() {
            Some(behind) => *head = Reverse((behind, counter)),
            None => drop(PeekMut::pop(head)),
        }
        take(counter, packed);
    }
}
