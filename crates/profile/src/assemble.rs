//! Counts and names to the model of views: see [`crate::aggregate`].
//!
//! Numbers of functions, frames, stacks and tasks follow from what they stand for, never from which
//! thread came first.

use std::sync::Arc;

use pmuscope_symbols::{Line, Symbol};
use rustc_hash::FxHashMap;

use crate::aggregate::{
    Aggregate, Cell, Frame, FrameId, Function, FunctionId, Series, Task, TaskId, Timeline,
};
use crate::collect::Collected;
use crate::counter::{Counts, TaskKey};
use crate::modules::ModuleKind;
use crate::naming::Named;
use crate::profile::Detail;
use crate::series::in_parallel;
use crate::table::{Interned, mix};
use crate::tasks::{CommOf, Place};
use crate::tree::Tree;

impl Collected {
    /// Adds up; the counts are used up.
    pub(crate) fn aggregate(&mut self, named: &Named, detail: Detail) -> Aggregate {
        let frames = Frames::new(self, named, detail);
        let timeline = self.timeline();
        let mut tree = Tree::default();
        let stacks: Vec<Vec<u32>> = self
            .counts
            .iter()
            .zip(&named.numbers)
            .map(|(counts, numbers)| stacks(counts, numbers, &frames, &mut tree))
            .collect();
        let (nodes, renumbered) = tree.in_order();
        let (tasks, task_numbers) = self.tasks();
        let counters: Vec<Counter<'_>> = self
            .counts
            .iter()
            .zip(&stacks)
            .zip(&task_numbers)
            .map(|((counts, stacks), tasks)| Counter { counts, stacks, tasks })
            .collect();
        let shift = self.clock.shift();
        let sums = in_parallel(&counters, |counter| counter.sums(&renumbered, shift));
        let (cells, numbers) = together(sums);
        let logs = std::mem::take(&mut self.counts).into_iter().map(|counts| counts.log);
        Aggregate {
            functions: frames.functions,
            frames: frames.frames,
            stacks: nodes,
            tasks,
            cells,
            series: Series::of_logs(logs.zip(numbers), shift),
            timeline,
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
        // Places are in order, so the next is often in the same function.
        let mut latest: (&[FrameId], u32) = (&[], Tree::ROOT);
        let node = |place: u32| {
            let path = path(place);
            if latest.0 != path {
                latest = (path, tree.below(Tree::ROOT, path));
            }
            latest.1
        };
        return (0..counts.places.len() as u32).map(node).collect();
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
        for (place, symbol) in named.places.iter().zip(named.symbols.iter().flatten()) {
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
    /// By place or chain: the node, numbered as the tree grew.
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
    fn sums(&self, renumbered: &[u32], shift: u32) -> Sums {
        let (keys, mut of_cell) = self.keys(renumbered);
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
    fn keys(&self, renumbered: &[u32]) -> (Vec<Key>, Vec<u32>) {
        let Self { counts, stacks, tasks } = self;
        let mut keys: Interned<Key> = Interned::default();
        let mut of_cell = vec![0; counts.cells.len()];
        // The last key of each group: cells come in the order of places, so the next place of a group
        // is often in the same function.
        let mut latest = vec![(u32::MAX, 0); counts.groups.len()];
        for cell in &counts.cells {
            let stack = renumbered[stacks[cell.what as usize] as usize];
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
