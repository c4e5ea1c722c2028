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

use std::collections::BTreeSet;
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

/// Bit of a frame in [`Stacks::push`]: sampled address outside the sample's callchain. A precise event has the address of its
/// instruction, and a callchain that begins at its interrupt.
pub(crate) const ASIDE: FrameId = 1 << 30;

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
    /// Whether a stack has a frame outside its callchain, see [`Stacks::chain`].
    has_asides: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StackNode {
    parent: StackId,
    frame: FrameId,
}

impl Default for Stacks {
    fn default() -> Self {
        let root = StackNode { parent: Self::ROOT, frame: FrameId::MAX };
        Self { nodes: vec![root], is_by_level: true, has_asides: false }
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
        self.has_asides |= frame & ASIDE != 0;
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
        (stack != Self::ROOT).then(|| self.nodes[stack as usize].frame & !ASIDE)
    }

    /// The innermost frame of a stack that is not the root, as it was [pushed](Stacks::push).
    pub(crate) fn marked_frame(&self, stack: StackId) -> FrameId {
        self.nodes[stack as usize].frame
    }

    /// The part of a stack that is its callchain as recorded: all of it, but for samples of precise events whose interrupt
    /// came in the kernel. Their innermost frame is the instruction in the program, which no callchain has.
    #[must_use]
    pub fn chain(&self, stack: StackId) -> StackId {
        let mut up = std::iter::successors(Some(stack), |&stack| self.parent(stack));
        let is_of_chain = |stack: &StackId| {
            *stack == Self::ROOT || self.nodes[*stack as usize].frame & ASIDE == 0
        };
        up.find(is_of_chain).unwrap_or(Self::ROOT)
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
    /// Counts by callchain as recorded ([`Stacks::chain`]), for views of stacks; `None` if they equal the counts by stack.
    /// Samples in a function (self) follow from the counts by stack.
    #[must_use]
    pub fn by_chain(&self) -> Option<Self> {
        self.stacks.has_asides.then(|| {
            let chains: Vec<StackId> =
                (0..self.stacks.len() as StackId).map(|stack| self.stacks.chain(stack)).collect();
            let mut by_chain = self.clone();
            by_chain.move_stacks(&chains);
            by_chain
        })
    }

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

    /// The event with the most samples that have callers; without any, the event with the most samples. The first of equal
    /// ones.
    #[must_use]
    pub fn main_event(&self, events: impl IntoIterator<Item = u32>) -> Option<u32> {
        let weight = |event: u32| {
            let cells = self.of_event(event);
            let has_caller = |cell: &&SampleCell| {
                self.stacks.parent(cell.stack).is_some_and(|parent| parent != Stacks::ROOT)
            };
            let called = cells.iter().filter(has_caller).map(|cell| cell.samples).sum::<u64>();
            (called, cells.iter().map(|cell| cell.samples).sum::<u64>())
        };
        let events = events.into_iter().map(|event| (weight(event), std::cmp::Reverse(event)));
        events.max().map(|(_, std::cmp::Reverse(event))| event)
    }

    /// Part of the samples, 0 to 1, whose callers are lost or wrong, as they lead through `module`, where no code is. Beyond
    /// an outermost function, for which `is_outermost` holds, nothing is lost, also where a runtime's own functions lie
    /// between.
    ///
    /// ```text
    ///  [unknown] ─ main ─ work              whole
    ///  [unknown] ─ start ─ main ─ work      whole
    ///  [unknown] ─ work                     lost
    ///  main ─ [unknown] ─ work              wrong
    /// ```
    #[must_use]
    pub fn misled_through(&self, module: u32, is_outermost: impl Fn(&str) -> bool) -> f64 {
        #[derive(Clone, Copy, PartialEq)]
        enum CallerState {
            Whole,
            /// Nothing but the module so far.
            Beyond,
            /// Callees of the module, with no outermost function so far.
            Called,
            /// The module, called by what is known.
            Within,
            Misled,
        }
        let mut ways = vec![CallerState::Whole; self.stacks.len()];
        for stack in 1..self.stacks.len() as StackId {
            let parent = self.stacks.parent(stack).unwrap_or(Stacks::ROOT);
            let frame = self.stacks.frame(stack);
            let is_there = frame.is_some_and(|frame| self.frames[frame as usize].module == module);
            let name = frame.and_then(|frame| self.function_of(frame));
            ways[stack as usize] = match ways[parent as usize] {
                CallerState::Whole if is_there && parent == Stacks::ROOT => CallerState::Beyond,
                CallerState::Whole if is_there => CallerState::Within,
                CallerState::Whole => CallerState::Whole,
                CallerState::Beyond if is_there => CallerState::Beyond,
                CallerState::Beyond | CallerState::Called if name.is_some_and(&is_outermost) => {
                    CallerState::Whole
                }
                CallerState::Beyond | CallerState::Called if !is_there => CallerState::Called,
                _ => CallerState::Misled,
            };
        }
        let sum = |cells: &mut dyn Iterator<Item = &SampleCell>| {
            cells.map(|cell| cell.samples).sum::<u64>()
        };
        let all = sum(&mut self.cells.iter());
        let is_misled = |cell: &&SampleCell| {
            matches!(ways[cell.stack as usize], CallerState::Called | CallerState::Misled)
        };
        sum(&mut self.cells.iter().filter(is_misled)) as f64 / all.max(1) as f64
    }

    /// Part of the samples, 0 to 1, of events with callers whose only function of a program is none that nothing calls, for
    /// which `is_outermost` holds: its callers are lost. `is_program` says of a module whether it is code of a program.
    ///
    /// ```text
    ///  work                                 lost
    ///  work ─ sys_read ─ …                  lost
    ///  main                                 whole
    /// ```
    #[must_use]
    pub fn without_caller(
        &self,
        is_program: impl Fn(u32) -> bool,
        is_outermost: impl Fn(&str) -> bool,
    ) -> f64 {
        // Whether all so far is one function that must have a caller; the kernel's frames do not count.
        let mut alone = vec![false; self.stacks.len()];
        // Functions that were called, not inlined.
        let mut calls = vec![0_u32; self.stacks.len()];
        for stack in 1..self.stacks.len() as StackId {
            let parent = self.stacks.parent(stack).unwrap_or(Stacks::ROOT);
            let Some(frame) = self.stacks.frame(stack) else { continue };
            let CodeFrame { module, inlined, .. } = self.frames[frame as usize];
            let of_program = is_program(module);
            calls[stack as usize] = calls[parent as usize].saturating_add(u32::from(!inlined));
            alone[stack as usize] = match parent {
                Stacks::ROOT => {
                    let name = self.function_of(frame);
                    of_program && name.is_some_and(|name| !is_outermost(name))
                }
                parent => alone[parent as usize] && (inlined || !of_program),
            };
        }
        let has_caller = |cell: &&SampleCell| calls[cell.stack as usize] > 1;
        let with_callers: BTreeSet<u32> =
            self.cells.iter().filter(has_caller).map(|cell| cell.event).collect();
        let cells = || self.cells.iter().filter(|cell| with_callers.contains(&cell.event));
        let all: u64 = cells().map(|cell| cell.samples).sum();
        let lost = cells().filter(|cell| alone[cell.stack as usize]).map(|cell| cell.samples);
        lost.sum::<u64>() as f64 / all.max(1) as f64
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

    /// Event, samples, and (function, module) of each frame, the outermost first.
    type MadeStack<'a> = (u32, u64, &'a [(&'a str, u32)]);

    fn made(stacks: &[MadeStack<'_>]) -> Aggregate {
        let mut aggregate = Aggregate { stacks: Stacks::with_capacity(8), ..Aggregate::default() };
        for &(event, samples, frames) in stacks {
            let mut stack = Stacks::ROOT;
            for &(name, module) in frames {
                let function = (!name.is_empty()).then(|| {
                    let name: Arc<str> = name.into();
                    aggregate.functions.push(Function { name, module, overloads: 0 });
                    (aggregate.functions.len() - 1) as FunctionId
                });
                aggregate.frames.push(CodeFrame { function, ..frame(module) });
                stack = aggregate.stacks.push(stack, (aggregate.frames.len() - 1) as FrameId);
            }
            let cell = SampleCell { event, stack, task: 0, cpu: None, samples, weight: samples };
            aggregate.cells.push(cell);
        }
        aggregate
    }

    #[test]
    fn callers_beyond_an_outermost_function_are_not_missed() {
        let (unknown, code) = (("", 0), |name| (name, 1));
        let stacks: [&[(&str, u32)]; 8] = [
            &[unknown, unknown, code("main"), code("work")],
            &[code("main"), code("work")],
            &[unknown],
            &[unknown, code("work")],
            &[code("main"), unknown, code("work")],
            &[code("main"), unknown],
            &[unknown, code("start"), code("main"), code("work")],
            &[unknown, code("start"), unknown, code("main"), code("work")],
        ];
        let counts = made(&stacks.map(|frames| (0, 10, frames)));
        let share = counts.misled_through(0, |name| name == "main");
        assert!((share - 3.0 / 8.0).abs() < 1e-12, "{share}");
    }

    #[test]
    fn a_single_function_of_a_program_misses_its_callers() {
        const KERNEL: u32 = 2;
        let (code, kernel) = (|name| (name, 1), |name| (name, KERNEL));
        let stacks: [MadeStack<'_>; 7] = [
            (0, 10, &[code("work")]),
            (0, 10, &[code("work"), kernel("read")]),
            (0, 10, &[code("main")]),
            (0, 10, &[code("main"), code("work")]),
            (0, 10, &[kernel("idle")]),
            (0, 10, &[("", 1)]),
            // Of an event without callchains.
            (1, 90, &[code("work")]),
        ];
        let share = made(&stacks).without_caller(|module| module != KERNEL, |name| name == "main");
        assert!((share - 2.0 / 6.0).abs() < 1e-12, "{share}");
    }

    #[test]
    fn the_main_event_is_the_largest_with_callers() {
        let (deep, flat): (&[_], &[_]) = (&[("main", 1), ("work", 1)], &[("work", 1)]);
        let main = |stacks: &[MadeStack<'_>]| made(stacks).main_event(0..3);
        assert_eq!(main(&[(0, 434, deep), (1, 100_767, deep), (2, 5, deep)]), Some(1));
        assert_eq!(main(&[(0, 10, deep), (1, 900, flat), (2, 5, deep)]), Some(0));
        assert_eq!(main(&[(0, 10, flat), (1, 10, flat)]), Some(0), "of equal ones the first");
        assert_eq!(made(&[]).main_event([]), None);
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
