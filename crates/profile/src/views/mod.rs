//! Questions to an [`Aggregate`]: rows by any dimensions, call trees,
//! the neighbors of a function, a function from inside.
//!
//! Weight is what cells weigh by: units of the event where samples carry their period, else samples.

mod accessor;
mod annotate;
pub(crate) mod annotation;
mod balance;
mod branches;
mod cell_ranks;
mod data;
pub(crate) mod function_rows;
pub(crate) mod function_table;
mod memory;
mod neighbors;
mod query;
mod ranked_rows;
mod row_order;
mod rows;
mod side_by_side;
mod stack_sums;
mod stack_tree;
mod tally;
mod tree;
mod weights;

pub use accessor::{AccessBy, Accessor, AccessorNames, ClassCounts};
pub use annotate::{
    CodeHolder, FunctionHits, Hit, InlinedCode, Sampled, function_hits, inlined_into, sampled,
};
pub use balance::{Balance, balance};
pub use branches::{BranchEnd, BranchRow, BranchSums, Branches, branches};
pub use cell_ranks::{CellRanks, RowIntervals};
pub use data::{DataAddresses, DataBy, DataRow, DataSums, data_addresses};
pub use function_rows::ranked_functions;
pub use memory::{AccessKind, AccessRow, Accesses, accesses};
pub use neighbors::{Neighbor, Neighbors, neighbors};
pub use ranked_rows::RankedRows;
pub use rows::{Dimension, Key, Row, ranked_rows, rows, rows_over_time};
pub use side_by_side::{SideRow, SideShare, side_by_side};
pub use stack_tree::{CallersBranch, CallersTree, StackBranch, StackTree};
pub use tree::{CallNode, CallTree, Direction, call_tree};
pub use weights::Weights;

use std::sync::Arc;

use crate::aggregate::{Aggregate, FrameId, SampleCell};
use crate::table::ValueNumbers;

/// Samples and what they weigh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Samples.
    pub samples: u64,
    /// Their weight.
    pub weight: u64,
}

impl Sums {
    /// Those of a cell.
    fn of(cell: &SampleCell) -> Self {
        Self { samples: cell.samples, weight: cell.weight }
    }

    /// Those of cells together.
    fn of_all(cells: &[SampleCell]) -> Self {
        cells.iter().fold(Self::default(), |mut sums, cell| {
            sums.add(Self::of(cell));
            sums
        })
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight = self.weight.saturating_add(other.weight);
    }

    /// Both together.
    fn and(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    /// Without those of a part.
    fn less(self, part: Self) -> Self {
        Self {
            samples: self.samples.saturating_sub(part.samples),
            weight: self.weight.saturating_sub(part.weight),
        }
    }
}

/// What a frame is where places within a function are not told apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSite {
    /// Name of the function; `None` where there is no symbol. Foreign text.
    pub function: Option<Arc<str>>,
    /// Index into the recording's modules.
    pub module: u32,
}

impl CallSite {
    fn of(counts: &Aggregate, frame: FrameId) -> Self {
        let frame = &counts.frames[frame as usize];
        let function = frame.function.map(|at| Arc::clone(&counts.functions[at as usize].name));
        Self { function, module: frame.module }
    }
}

/// What the frames of an aggregate are, where places within a function are not told apart.
#[derive(Debug, Clone, Default)]
pub struct CallSites {
    /// For each frame the index of its call site.
    pub of_frame: Vec<u32>,
    /// Each call site once.
    pub list: Vec<CallSite>,
}

impl CallSites {
    /// Those of all frames.
    #[must_use]
    pub fn of(counts: &Aggregate) -> Self {
        let (of_frame, places) = places(counts);
        Self { of_frame, list: places.list }
    }
}

/// The number of each frame's place, and the places.
fn places(counts: &Aggregate) -> (Vec<u32>, ValueNumbers<CallSite>) {
    let mut places = ValueNumbers::default();
    let of_frame = (0..counts.frames.len())
        .map(|at| places.number(CallSite::of(counts, at as FrameId)))
        .collect();
    (of_frame, places)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::aggregate::{
        BlockCount, CodeFrame, Function, SampleCell, Series, Stacks, Task, Timeline,
    };
    use proptest::prelude::*;

    /// A sample as the oracle sees it: who, where it ran, functions from the outermost in, block.
    #[derive(Debug, Clone)]
    pub(crate) struct Plain {
        pub(crate) task: usize,
        pub(crate) cpu: u32,
        pub(crate) calls: Vec<usize>,
        pub(crate) block: u32,
        pub(crate) weight: u64,
    }

    /// Function 4 has no name; functions 2 and 3 lie in module 1, the others in module 0.
    pub(crate) const FUNCTIONS: usize = 5;
    pub(crate) const BLOCKS: u32 = 40;

    pub(crate) fn name(function: usize) -> Option<String> {
        (function < 4).then(|| format!("f{function}"))
    }

    pub(crate) fn module(function: usize) -> u32 {
        u32::from((2..4).contains(&function))
    }

    pub(crate) fn samples() -> impl Strategy<Value = Vec<Plain>> {
        let calls = proptest::collection::vec(0..FUNCTIONS, 1..6);
        let one = (0..3_usize, 0..2_u32, calls, 0..BLOCKS, 1..9_u64).prop_map(
            |(task, cpu, calls, block, weight)| Plain { task, cpu, calls, block, weight },
        );
        proptest::collection::vec(one, 1..60)
    }

    /// What the engine makes of them: a cell per distinct event, stack, task and CPU.
    pub(crate) fn aggregate(samples: &[Plain]) -> Aggregate {
        let mut counts = Aggregate {
            functions: (0..4)
                .map(|at| Function {
                    name: format!("f{at}").into(),
                    module: module(at),
                    overloads: 0,
                })
                .collect(),
            frames: (0..FUNCTIONS)
                .map(|at| CodeFrame {
                    function: (at < 4).then_some(at as u32),
                    module: module(at),
                    address: (at >= 4).then_some(0x10),
                    line: None,
                    inlined: false,
                })
                .collect(),
            stacks: Stacks::default(),
            tasks: [("one", 1, 1), ("one", 1, 2), ("two", 3, 3)]
                .map(|(command, pid, tid)| Task {
                    command: command.into(),
                    pid: Some(pid),
                    tid: Some(tid),
                })
                .to_vec(),
            timeline: Timeline { start: 0, block_ns: 1, blocks: BLOCKS },
            ..Aggregate::default()
        };
        let mut known = std::collections::BTreeMap::new();
        let mut sums = std::collections::BTreeMap::<_, Vec<&Plain>>::new();
        for sample in samples {
            let stack = sample.calls.iter().fold(Stacks::ROOT, |parent, &call| {
                let stacks = &mut counts.stacks;
                *known.entry((parent, call)).or_insert_with(|| stacks.push(parent, call as u32))
            });
            sums.entry((stack, sample.task, sample.cpu)).or_default().push(sample);
        }
        let mut counted = Vec::new();
        for ((stack, task, cpu), samples) in sums {
            for block in 0..BLOCKS {
                let here: Vec<_> = samples.iter().filter(|one| one.block == block).collect();
                if !here.is_empty() {
                    let weight = here.iter().map(|one| one.weight).sum();
                    let count = BlockCount { block, samples: here.len() as u32, weight };
                    counted.push((counts.cells.len() as u32, count));
                }
            }
            counts.cells.push(SampleCell {
                event: 0,
                stack,
                task: task as u32,
                cpu: Some(cpu),
                samples: samples.len() as u64,
                weight: samples.iter().map(|one| one.weight).sum(),
            });
        }
        counts.series = Series::from_counts(counted);
        counts
    }
}
