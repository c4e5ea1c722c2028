//! Counts and names to the model of views: see [`crate::aggregate`].
//!
//! Numbers of functions, frames, stacks and tasks follow from what they stand for, never from which
//! thread came first.

use std::sync::Arc;

use pmuscope_perfdata::reader::ReadError;

use crate::aggregate::{Aggregate, Cell, Series, Stacks, Task, TaskId, Timeline};
use crate::collect::{Collected, Counted};
use crate::counter::{Counts, TaskKey, Where};
use crate::located::Located;
use crate::naming::Named;
use crate::paths::Paths;
use crate::profile::Detail;
use crate::series::in_parallel;
use crate::table::{Interned, mix};
use crate::tasks::{CommOf, Tasks};
use crate::tree::Tree;

impl Collected {
    /// Adds up. The logs of the counts are used up, and the symbols of `named`.
    ///
    /// # Errors
    /// If samples are counted only now, and the operating system fails to read.
    pub(crate) fn aggregate(
        &mut self,
        named: &mut Named,
        detail: Detail,
    ) -> Result<Aggregate, ReadError> {
        let symbols = std::mem::take(&mut named.symbols);
        let paths = Paths::new(&self.state.modules, &named.places, symbols, detail);
        let (stacks, by_counter) = match &self.counted {
            Counted::All(counts) => stacks(counts, named, &paths),
            Counted::Places(_, again) => {
                let (stacks, of_paths) = paths.stacks();
                let located = located(named, &paths, &of_paths);
                self.counted = Counted::All(again.count_located(&self.state, &located)?);
                (stacks, Vec::new())
            }
        };
        let Counted::All(counts) = &mut self.counted else { return Ok(Aggregate::default()) };
        let (tasks, task_numbers) = tasks(&self.state.tasks, counts);
        let counters: Vec<Counter<'_>> = counts
            .iter()
            .zip(&task_numbers)
            .enumerate()
            .map(|(at, (counts, tasks))| {
                let stacks = by_counter.get(at).map(Vec::as_slice).unwrap_or_default();
                Counter { counts, stacks, tasks }
            })
            .collect();
        let shift = self.clock.shift();
        let sums = in_parallel(&counters, |counter| counter.sums(shift));
        let (cells, numbers) = together(sums);
        let logs: Vec<_> =
            counts.iter_mut().map(|counts| std::mem::take(&mut counts.log)).collect();
        Ok(Aggregate {
            functions: paths.functions,
            frames: paths.frames.list,
            stacks,
            tasks,
            cells,
            series: Series::of_logs(logs.into_iter().zip(numbers), shift),
            timeline: self.timeline(),
        })
    }

    fn timeline(&self) -> Timeline {
        Timeline {
            start: self.clock.origin().unwrap_or(0),
            block_ns: 1_u64.checked_shl(self.clock.shift()).unwrap_or(u64::MAX),
            blocks: self.blocks() as u32,
        }
    }
}

/// Each task once, in order; and which one each counter's are.
fn tasks(all: &Tasks, counts: &[Counts]) -> (Vec<Task>, Vec<Vec<TaskId>>) {
    let task = |key: &TaskKey| {
        let command: Arc<str> = match key.comm {
            CommOf::Told(comm) => String::from_utf8_lossy(all.name(comm)).as_ref().into(),
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
    let mut tree = Tree::default();
    let numbers =
        in_parallel(counts, |counts| named.places.numbers(counts.by.places(), &named.same));
    let mut reached: Vec<Vec<u32>> = counts
        .iter()
        .zip(numbers)
        .map(|(counts, numbers)| match &counts.by {
            Where::Stacks => Vec::new(),
            Where::Places(_) => {
                let node = |place: u32| tree.below(Tree::ROOT, paths.of(place));
                numbers.into_iter().map(node).collect()
            }
            Where::Nodes { nodes, .. } => {
                let mut reached = Vec::with_capacity(nodes.len() + 1);
                reached.push(Tree::ROOT);
                for node in nodes {
                    let path = paths.of(numbers[node.of as usize]);
                    reached.push(tree.below(reached[node.parent as usize], path));
                }
                reached
            }
        })
        .collect();
    let (stacks, renumbered) = tree.in_order();
    for node in reached.iter_mut().flatten() {
        *node = renumbered[*node as usize];
    }
    (stacks, reached)
}

/// Which stack each place comes to.
fn located(named: &Named, paths: &Paths, stack_of_path: &[u32]) -> Located {
    let mut located = Located::new(&named.same);
    let mut numbers = 0..;
    for (addresses, module) in named.places.addresses.iter().zip(0..) {
        let stack = |number: u32| stack_of_path[paths.number(number) as usize];
        let places = addresses.iter().copied().zip(numbers.by_ref().map(stack));
        located.push_module(module, places);
    }
    located
}

/// What a cell is of, in the order of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    event: u32,
    stack: u32,
    task: TaskId,
    cpu: Option<u32>,
}

/// A counter, and what its numbers stand for.
struct Counter<'a> {
    counts: &'a Counts,
    /// By place or node, unless it counted stacks.
    stacks: &'a [u32],
    tasks: &'a [TaskId],
}

/// What a counter's cells come to.
struct Sums {
    /// In order.
    keys: Vec<Key>,
    /// Samples and weight, by key.
    totals: Vec<(u64, u64)>,
    /// The key of each cell of the log.
    of_cell: Vec<u32>,
}

impl Counter<'_> {
    fn sums(&self, shift: u32) -> Sums {
        let (keys, mut of_cell) = self.keys();
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|&key| keys[key as usize]);
        let mut ranks = vec![0; order.len()];
        for (rank, &key) in order.iter().enumerate() {
            ranks[key as usize] = rank as u32;
        }
        of_cell.iter_mut().for_each(|key| *key = ranks[*key as usize]);
        let keys: Vec<Key> = order.iter().map(|&key| keys[key as usize]).collect();
        let mut totals = vec![(0_u64, 0_u64); keys.len()];
        for entry in self.counts.log.entries(shift) {
            let (samples, weight) = &mut totals[of_cell[entry.cell as usize] as usize];
            *samples += u64::from(entry.samples);
            *weight = weight.saturating_add(entry.weight);
        }
        Sums { keys, totals, of_cell }
    }

    /// Each key once, and the key of each cell of the log.
    fn keys(&self) -> (Vec<Key>, Vec<u32>) {
        let Self { counts, stacks, tasks } = self;
        let mut keys: Interned<Key> = Interned::default();
        let mut of_cell = vec![0; counts.cells.len()];
        // The last key of each group: cells come in the order of places, so the next place of a group
        // is often in the same function.
        let mut latest = vec![(u32::MAX, 0); counts.groups.len()];
        for cell in &counts.cells {
            let stack = match counts.by {
                Where::Stacks => cell.what,
                _ => stacks[cell.what as usize],
            };
            let latest = &mut latest[cell.group as usize];
            if latest.0 != stack {
                let group = counts.groups[cell.group as usize];
                let task = tasks[group.task as usize];
                let cpu = group.cpu.map_or(0, |cpu| 1 + u64::from(cpu));
                let place = u64::from(stack) << 32 | u64::from(task);
                let hash = mix(mix(place, group.event.into()), cpu);
                let key = Key { event: group.event, stack, task, cpu: group.cpu };
                *latest = (stack, keys.intern(hash, key));
            }
            of_cell[cell.cell as usize] = latest.1;
        }
        (keys.list, of_cell)
    }
}

/// Cells of all counters, and for each counter which of them those of its log are.
fn together(sums: Vec<Sums>) -> (Vec<Cell>, Vec<Vec<u32>>) {
    let mut all: Vec<Key> = sums.iter().flat_map(|sums| &sums.keys).copied().collect();
    // Runs that are in order, which this sort makes use of.
    all.sort();
    all.dedup();
    let cell = |&Key { event, stack, task, cpu }: &Key| Cell {
        event,
        stack,
        task,
        cpu,
        samples: 0,
        weight: 0,
    };
    let mut cells: Vec<Cell> = all.iter().map(cell).collect();
    let mut numbers = Vec::new();
    for Sums { keys, totals, mut of_cell } in sums {
        let mut at = 0;
        let number = |(key, (samples, weight)): (&Key, &(u64, u64))| {
            at += all[at..].iter().take_while(|other| *other < key).count();
            cells[at].samples += samples;
            cells[at].weight = cells[at].weight.saturating_add(*weight);
            at as u32
        };
        let of_key: Vec<u32> = keys.iter().zip(&totals).map(number).collect();
        of_cell.iter_mut().for_each(|key| *key = of_key[*key as usize]);
        numbers.push(of_cell);
    }
    (cells, numbers)
}
