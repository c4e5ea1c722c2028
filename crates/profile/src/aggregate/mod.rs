//! The model that views, exports and comparisons are made of: distinct call stacks with counts.
//!
//! Everything is there once and pointed to by number, so that size follows from what is distinct:
//!
//! ```text
//!  cell ──► stack ──► parent stack ──► … ──► root          samples, weight, blocks of time
//!    │        └────► frame ──► function, module, line
//!    ├────► task: command, process, thread
//!    └────► event, CPU
//! ```
//!
//! A stack is a node of a tree; it stands for itself and all its callers. Without call chains each
//! stack has one frame (or several, where functions were inlined) under the root.

use std::sync::Arc;

use pmuscope_symbols::Line;

mod narrow;
mod phases;
mod series;

pub use narrow::{CellCounts, Narrowing};
pub use phases::LongPhases;
pub use series::{AddsTo, RowSeries, Series};

/// Index into [`Aggregate::functions`].
pub type FunctionId = u32;
/// Index into [`Aggregate::frames`].
pub type FrameId = u32;
/// Index into [`Stacks`]; [`Stacks::ROOT`] is the empty stack.
pub type StackId = u32;
/// Index into [`Aggregate::tasks`].
pub type TaskId = u32;

/// Counts of a recording, by what was asked to be told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Functions, each name once per module.
    pub functions: Vec<Function>,
    /// Places in functions that stacks are made of.
    pub frames: Vec<CodeFrame>,
    /// The tree of all call stacks.
    pub stacks: Stacks,
    /// Who ran.
    pub tasks: Vec<Task>,
    /// The counts; one cell for each distinct (event, stack, task, CPU), in that order.
    pub cells: Vec<SampleCell>,
    /// Counts of the cells by time.
    pub series: Series,
    /// How time is divided.
    pub timeline: Timeline,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name, demangled. Foreign text.
    pub name: Arc<str>,
    /// Index into the recording's modules.
    pub module: u32,
    /// Functions of this name that differ in their parameters, where more than one had samples; else 0.
    pub overloads: u32,
}

/// A place in a function, as far as it was asked to be told apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CodeFrame {
    /// The function; `None` where the address has no name.
    pub function: Option<FunctionId>,
    /// Index into the recording's modules.
    pub module: u32,
    /// Address as the module counts it: an offset in the file, bytes, or the address itself. Present
    /// where addresses are told apart, and where there is no function.
    pub address: Option<u64>,
    /// Source line, where lines are told apart and known.
    pub line: Option<Line>,
    /// Whether its code was inlined into the function of the parent stack's frame.
    pub inlined: bool,
}

/// A tree of call stacks. A parent comes before its children; stacks of recordings are numbered level by level, so
/// that children of one parent are next to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stacks {
    nodes: Vec<StackNode>,
    /// Whether they are numbered level by level: known as they come, because a view asks for it once for each thread.
    is_by_level: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StackNode {
    parent: StackId,
    frame: FrameId,
}

impl Default for Stacks {
    fn default() -> Self {
        let root = StackNode { parent: Self::ROOT, frame: FrameId::MAX };
        Self { nodes: vec![root], is_by_level: true }
    }
}

impl Stacks {
    /// The empty stack: what has no callers is below it.
    pub const ROOT: StackId = 0;

    /// Only the empty stack, with room for this number of stacks.
    pub(crate) fn with_capacity(stacks: usize) -> Self {
        let mut made = Self::default();
        made.nodes.reserve_exact(stacks.saturating_sub(1));
        made
    }

    /// Adds a stack: `frame`, called from `parent`. The caller sees to it that it is not there yet.
    pub fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        self.is_by_level &= self.nodes.last().is_some_and(|last| last.parent <= parent);
        self.nodes.push(StackNode { parent, frame });
        (self.nodes.len() - 1) as StackId
    }

    /// Number of stacks, the empty one included.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // the root is always there
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The caller of a stack; `None` of the root.
    #[inline]
    #[must_use]
    pub fn parent(&self, stack: StackId) -> Option<StackId> {
        (stack != Self::ROOT).then(|| self.nodes[stack as usize].parent)
    }

    /// The innermost frame of a stack; `None` of the root.
    #[inline]
    #[must_use]
    pub fn frame(&self, stack: StackId) -> Option<FrameId> {
        (stack != Self::ROOT).then(|| self.nodes[stack as usize].frame)
    }

    /// Stacks level by level, and the place of each there; `None` where they are numbered so.
    pub(crate) fn levels(&self) -> Option<(Vec<StackId>, Vec<StackId>)> {
        (!self.is_by_level).then(|| {
            let mut rank = vec![Self::ROOT; self.len()];
            let mut depth = vec![0_u32; self.len()];
            for (at, node) in self.nodes.iter().enumerate().skip(1) {
                depth[at] = depth[node.parent as usize] + 1;
            }
            let mut order: Vec<StackId> = (0..self.len() as StackId).collect();
            // Those of one level by the places of their callers, which are known when their level is reached.
            order.sort_by_key(|&stack| depth[stack as usize]);
            let levels = order.chunk_by_mut(|a, b| depth[*a as usize] == depth[*b as usize]);
            let mut next = 0;
            for level in levels {
                level.sort_by_key(|&stack| rank[self.nodes[stack as usize].parent as usize]);
                for &mut stack in level {
                    rank[stack as usize] = next;
                    next += 1;
                }
            }
            (order, rank)
        })
    }

    /// Frames of a stack, the innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let up = std::iter::successors(Some(stack), |&stack| self.parent(stack));
        up.map_while(|stack| self.frame(stack))
    }
}

/// Who ran: a command, a process or a thread, as was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Task {
    /// Name of the thread. Foreign text.
    pub command: Arc<str>,
    /// Process, where processes are told apart.
    pub pid: Option<i32>,
    /// Thread, where threads are told apart.
    pub tid: Option<i32>,
}

/// A count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleCell {
    /// Index of the event in the recording.
    pub event: u32,
    /// Where: the innermost stack.
    pub stack: StackId,
    /// Who.
    pub task: TaskId,
    /// CPU, where CPUs are told apart and known.
    pub cpu: Option<u32>,
    /// Samples.
    pub samples: u64,
    /// What they stand for: units of the event where samples carry their period, else samples.
    pub weight: u64,
}

/// Samples and weight in one block of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCount {
    /// Number of the block, see [`Timeline`].
    pub block: u32,
    /// Samples.
    pub samples: u32,
    /// Their weight, as [`SampleCell::weight`].
    pub weight: u64,
}

/// Time, divided into blocks of equal length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Time stamp of the first sample, nanoseconds of the recording's clock.
    pub start: u64,
    /// Length of a block, nanoseconds.
    pub block_ns: u64,
    /// Number of blocks; 0 where samples have no time stamps.
    pub blocks: u32,
}

impl Aggregate {
    /// Cells of one event.
    #[must_use]
    pub fn of_event(&self, event: u32) -> &[SampleCell] {
        let start = self.cells.partition_point(|cell| cell.event < event);
        let end = self.cells.partition_point(|cell| cell.event <= event);
        &self.cells[start..end]
    }

    /// Whether the weights of an event have a sum. If not, the periods in the recording are absurd, and
    /// its samples weigh one each from now on: whoever adds up weights need not fear an overflow.
    pub(crate) fn adds_up(&mut self, event: u32) -> bool {
        let mut weights = self.of_event(event).iter().map(|cell| cell.weight);
        // Weights of a cell stop at the largest number: then they are no sum either.
        let sum = weights.try_fold(0, u64::checked_add).filter(|&sum| sum < u64::MAX);
        drop(weights);
        if sum.is_none() {
            let cells = self.cells.iter_mut().filter(|cell| cell.event == event);
            cells.for_each(|cell| cell.weight = cell.samples);
        }
        sum.is_some()
    }

    /// Whether a stack is more than a function and what was inlined into it.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        (0..self.stacks.len() as StackId).any(|stack| {
            let is_below = self.stacks.parent(stack).is_some_and(|parent| parent != Stacks::ROOT);
            let frame = self.stacks.frame(stack);
            is_below && frame.is_some_and(|frame| !self.frames[frame as usize].inlined)
        })
    }

    /// Name of a frame's function, if it has one. Foreign text.
    #[must_use]
    pub fn function_of(&self, frame: FrameId) -> Option<&str> {
        let function = self.frames[frame as usize].function?;
        Some(&self.functions[function as usize].name)
    }

    /// Part of the samples whose callers lead through this module, 0 to 1: the function that was sampled may be
    /// anywhere.
    #[must_use]
    pub fn called_through(&self, module: u32) -> f64 {
        let is_there = |stack| {
            let frame = self.stacks.frame(stack);
            frame.is_some_and(|frame| self.frames[frame as usize].module == module)
        };
        // A parent comes before its children.
        let mut through = vec![false; self.stacks.len()];
        for stack in 1..self.stacks.len() as StackId {
            let parent = self.stacks.parent(stack).unwrap_or(Stacks::ROOT);
            through[stack as usize] = through[parent as usize] || is_there(parent);
        }
        let sum = |cells: &mut dyn Iterator<Item = &SampleCell>| {
            cells.map(|cell| cell.samples).sum::<u64>()
        };
        let all = sum(&mut self.cells.iter());
        let found = sum(&mut self.cells.iter().filter(|cell| through[cell.stack as usize]));
        found as f64 / all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: u32) -> CodeFrame {
        CodeFrame { function: None, module, address: None, line: None, inlined: false }
    }

    fn cell(stack: StackId, samples: u64) -> SampleCell {
        SampleCell { event: 0, stack, task: 0, cpu: None, samples, weight: samples }
    }

    #[test]
    fn callers_that_lead_through_a_module_are_counted_once_and_what_was_sampled_there_is_not() {
        let mut stacks = Stacks::default();
        let outer = stacks.push(Stacks::ROOT, 1);
        let lost = stacks.push(outer, 0);
        let again = stacks.push(lost, 0);
        let inner = stacks.push(again, 1);
        let cells = vec![cell(outer, 1), cell(lost, 2), cell(again, 4), cell(inner, 1)];
        let frames = vec![frame(7), frame(8)];
        let counts = Aggregate { frames, stacks, cells, ..Aggregate::default() };
        // Of eight samples five have frame 0 among their callers.
        assert!((counts.called_through(7) - 5.0 / 8.0).abs() < 1e-12);
        assert!((counts.called_through(9)).abs() < 1e-12);
        assert!(Aggregate::default().called_through(7).abs() < 1e-12);
    }
}
