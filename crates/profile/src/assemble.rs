//! Counts and names to the model of views: see [`crate::aggregate`].
//!
//! Numbers of functions, frames, stacks and tasks follow from what they stand for, never from which
//! thread came first.

use std::sync::Arc;

use pmuscope_symbols::{Line, Symbol};
use rustc_hash::FxHashMap;

use crate::aggregate::{
    Aggregate, BlockCount, Cell, Frame, FrameId, Function, FunctionId, Task, TaskId, Timeline,
};
use crate::collect::Collected;
use crate::counter::{Counts, TaskKey};
use crate::modules::ModuleKind;
use crate::naming::Named;
use crate::profile::Detail;
use crate::table::{Interned, mix};
use crate::tasks::{CommOf, Place};
use crate::tree::Tree;

impl Collected {
    pub(crate) fn aggregate(&self, named: &Named, detail: Detail) -> Aggregate {
        let frames = Frames::new(self, named, detail);
        let mut tree = Tree::default();
        let stacks: Vec<Vec<u32>> = self
            .counts
            .iter()
            .zip(&named.numbers)
            .map(|(counts, numbers)| stacks(counts, numbers, &frames, &mut tree))
            .collect();
        let (nodes, renumbered) = tree.in_order();
        let (tasks, task_numbers) = self.tasks();
        let mut sums = Sums::default();
        for ((counts, stacks), tasks) in self.counts.iter().zip(&stacks).zip(&task_numbers) {
            sums.add(self, counts, |what| renumbered[stacks[what as usize] as usize], tasks);
        }
        let (cells, blocks) = sums.finish();
        Aggregate {
            functions: frames.functions,
            frames: frames.frames,
            stacks: nodes,
            tasks,
            cells,
            blocks,
            timeline: self.timeline(),
        }
    }

    fn timeline(&self) -> Timeline {
        Timeline {
            start: self.clock.origin().unwrap_or(0),
            block_ns: 1_u64.checked_shl(self.clock.shift()).unwrap_or(u64::MAX),
            blocks: self.blocks() as u32,
        }
    }

    /// Each task once, in order; and which one each counter's are.
    fn tasks(&self) -> (Vec<Task>, Vec<Vec<TaskId>>) {
        let task = |key: &TaskKey| {
            let command: Arc<str> = match key.comm {
                CommOf::Told(comm) => {
                    String::from_utf8_lossy(self.state.tasks.name(comm)).as_ref().into()
                }
                CommOf::Unnamed(tid) => format!(":{tid}").into(),
            };
            Task { command, pid: key.pid, tid: key.tid }
        };
        let by_counter: Vec<Vec<Task>> =
            self.counts.iter().map(|counts| counts.tasks.iter().map(task).collect()).collect();
        let mut all: Vec<Task> = by_counter.iter().flatten().cloned().collect();
        let key = |task: &Task| (Arc::clone(&task.command), task.pid, task.tid);
        all.sort_unstable_by_key(key);
        all.dedup();
        let number = |task: &Task| {
            all.binary_search_by(|other| key(other).cmp(&key(task))).unwrap_or(0) as TaskId
        };
        let numbers = by_counter.iter().map(|tasks| tasks.iter().map(number).collect()).collect();
        (all, numbers)
    }
}

/// For each place or chain of a counter, the node of its frames.
fn stacks(counts: &Counts, numbers: &[u32], frames: &Frames, tree: &mut Tree) -> Vec<u32> {
    let path = |place: u32| frames.path(numbers[place as usize]);
    let Some(chains) = &counts.chains else {
        return (0..counts.places.len() as u32)
            .map(|place| tree.below(Tree::ROOT, path(place)))
            .collect();
    };
    let mut reached = Vec::with_capacity(chains.len() + 1);
    reached.push(Tree::ROOT);
    for node in chains {
        reached.push(tree.below(reached[node.parent as usize], path(node.of)));
    }
    reached
}

/// What places came to.
struct Frames {
    functions: Vec<Function>,
    frames: Vec<Frame>,
    /// Frames of all places, the outermost first.
    paths: Vec<FrameId>,
    /// Where each place's end.
    ends: Vec<u32>,
    function_ids: FxHashMap<(u32, Arc<str>), FunctionId>,
    frame_ids: FxHashMap<Frame, FrameId>,
    /// Of the last place, where that is one function: places are in order, so the next is often of it.
    latest: Option<(u32, Arc<str>, FrameId)>,
}

impl Frames {
    fn new(collected: &Collected, named: &Named, detail: Detail) -> Self {
        let mut frames = Self {
            functions: Vec::new(),
            frames: Vec::new(),
            paths: Vec::new(),
            ends: Vec::new(),
            function_ids: FxHashMap::default(),
            frame_ids: FxHashMap::default(),
            latest: None,
        };
        let modules = collected.state.modules.list();
        for (place, symbol) in named.places.iter().zip(&named.symbols) {
            let address = match modules[place.module as usize].kind {
                ModuleKind::Other | ModuleKind::KernelLoaded => None,
                _ => Some(place.address),
            };
            frames.add(place, address, symbol.as_ref(), detail);
        }
        frames
    }

    fn path(&self, place: u32) -> &[FrameId] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.paths[start as usize..self.ends[place as usize] as usize]
    }

    fn add(
        &mut self,
        place: &Place,
        address: Option<u64>,
        symbol: Option<&Symbol>,
        detail: Detail,
    ) {
        let module = place.module;
        match symbol {
            None => {
                self.push(Frame { function: None, module, address, line: None, inlined: false });
            }
            Some(symbol) if detail == Detail::Function && symbol.inlined.is_empty() => {
                let known = self
                    .latest
                    .as_ref()
                    .filter(|(of, name, _)| *of == module && Arc::ptr_eq(name, &symbol.name));
                if let Some(&(_, _, frame)) = known {
                    self.paths.push(frame);
                } else {
                    let frame = self.named(module, &symbol.name, None, None, false);
                    self.latest = Some((module, Arc::clone(&symbol.name), frame));
                }
            }
            Some(symbol) => {
                let address = address.filter(|_| detail == Detail::Address);
                let line =
                    |line: &Option<Line>| line.as_ref().filter(|_| detail >= Detail::Line).cloned();
                self.named(module, &symbol.name, address, line(&symbol.line), false);
                for inner in &symbol.inlined {
                    self.named(module, &inner.name, address, line(&inner.line), true);
                }
            }
        }
        self.ends.push(self.paths.len() as u32);
    }

    fn named(
        &mut self,
        module: u32,
        name: &Arc<str>,
        address: Option<u64>,
        line: Option<Line>,
        inlined: bool,
    ) -> FrameId {
        let function = Some(self.function(module, name));
        self.push(Frame { function, module, address, line, inlined })
    }

    fn function(&mut self, module: u32, name: &Arc<str>) -> FunctionId {
        let functions = &mut self.functions;
        *self.function_ids.entry((module, Arc::clone(name))).or_insert_with(|| {
            functions.push(Function { name: Arc::clone(name), module });
            (functions.len() - 1) as FunctionId
        })
    }

    fn push(&mut self, frame: Frame) -> FrameId {
        let frames = &mut self.frames;
        let id = *self.frame_ids.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            (frames.len() - 1) as FrameId
        });
        self.paths.push(id);
        id
    }
}

/// What a cell is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    event: u32,
    stack: u32,
    task: TaskId,
    cpu: Option<u32>,
}

/// Counts of cells, added up over counters.
#[derive(Default)]
struct Sums {
    keys: Interned<Key>,
    /// Samples and weight, by key.
    totals: Vec<(u64, u64)>,
    /// The count of each key that was added to last, in `counts`.
    latest: Vec<usize>,
    counts: Vec<(u32, BlockCount)>,
}

impl Sums {
    fn add(
        &mut self,
        collected: &Collected,
        counts: &Counts,
        stack: impl Fn(u32) -> u32,
        tasks: &[TaskId],
    ) {
        let number = |cell: &crate::counter::CellKey| {
            let group = counts.groups[cell.group as usize];
            let task = tasks[group.task as usize];
            let key = Key { event: group.event, stack: stack(cell.what), task, cpu: group.cpu };
            let cpu = key.cpu.map_or(0, |cpu| 1 + u64::from(cpu));
            let place = u64::from(key.stack) << 32 | u64::from(key.task);
            self.keys.intern(mix(mix(place, key.event.into()), cpu), key)
        };
        let numbers: Vec<u32> = counts.cells.iter().map(number).collect();
        self.totals.resize(self.keys.list.len(), (0, 0));
        self.latest.resize(self.keys.list.len(), usize::MAX);
        for entry in counts.log.entries(collected.clock.shift()) {
            let key = numbers[entry.cell as usize];
            let (samples, weight) = &mut self.totals[key as usize];
            *samples += u64::from(entry.samples);
            *weight = weight.saturating_add(entry.weight);
            let (block, samples, weight) = (entry.block, entry.samples, entry.weight);
            let count = BlockCount { block, samples, weight };
            // Counters go through time in order, more or less.
            let latest = &mut self.latest[key as usize];
            let is_merged =
                self.counts.get_mut(*latest).is_some_and(|(_, other)| merge(other, count));
            if !is_merged {
                *latest = self.counts.len();
                self.counts.push((key, count));
            }
        }
    }

    fn finish(mut self) -> (Vec<Cell>, Vec<BlockCount>) {
        let mut order: Vec<u32> = (0..self.keys.list.len() as u32).collect();
        order.sort_unstable_by_key(|&key| self.keys.list[key as usize]);
        let mut ranks = vec![0; order.len()];
        for (rank, &key) in order.iter().enumerate() {
            ranks[key as usize] = rank as u32;
        }
        self.counts.iter_mut().for_each(|(key, _)| *key = ranks[*key as usize]);
        // Equal blocks of a cell that no count could hold together stay apart, largest first.
        self.counts.sort_unstable_by_key(|(cell, count)| {
            (*cell, count.block, std::cmp::Reverse((count.samples, count.weight)))
        });
        let mut blocks: Vec<BlockCount> = Vec::new();
        let mut cells: Vec<Cell> = order
            .iter()
            .map(|&key| {
                let Key { event, stack, task, cpu } = self.keys.list[key as usize];
                let (samples, weight) = self.totals[key as usize];
                Cell { event, stack, task, cpu, samples, weight, blocks: 0..0 }
            })
            .collect();
        let mut rest = &self.counts[..];
        for (number, cell) in cells.iter_mut().enumerate() {
            let own = rest.partition_point(|(of, _)| *of as usize <= number);
            let start = blocks.len();
            for (_, count) in &rest[..own] {
                let merged = blocks[start..].last_mut().is_some_and(|last| merge(last, *count));
                if !merged {
                    blocks.push(*count);
                }
            }
            cell.blocks = start as u32..blocks.len() as u32;
            rest = &rest[own..];
        }
        (cells, blocks)
    }
}

/// Adds `count` to one of the same block, if that can hold it.
fn merge(to: &mut BlockCount, count: BlockCount) -> bool {
    let samples = to.samples.checked_add(count.samples).filter(|_| to.block == count.block);
    if let Some(samples) = samples {
        to.samples = samples;
        to.weight = to.weight.saturating_add(count.weight);
    }
    samples.is_some()
}
