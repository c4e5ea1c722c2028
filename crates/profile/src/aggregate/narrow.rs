//! A part of what was counted, as counts of its own: some threads, a span of time, stacks through a function.
//!
//! All that views need is kept: frames, functions and stacks keep their numbers, so what was looked up by number for all
//! counts holds for the part too. Time is kept in blocks, so a span is one of whole blocks.

use std::ops::Range;

use crate::aggregate::{Aggregate, CodeFrame, SampleCell, StackId, Stacks, Timeline};
use crate::pool::in_parallel;

/// Which counts are kept.
pub struct Narrowing<'a> {
    /// Which cells.
    pub keeps: &'a (dyn Fn(&SampleCell) -> bool + Sync),
    /// Which blocks of time; `None` for all.
    pub blocks: Option<Range<u32>>,
}

impl Aggregate {
    /// The counts that a narrowing keeps, with the intervals that follow from them alone. A cell without a count in the span
    /// is not there any more.
    #[must_use]
    pub fn narrowed(&self, narrowing: &Narrowing<'_>) -> Self {
        let mut part = Self {
            functions: self.functions.clone(),
            frames: self.frames.clone(),
            stacks: self.stacks.clone(),
            tasks: self.tasks.clone(),
            cells: self.cells.clone(),
            series: self.series.clone(),
            timeline: self.timeline,
        };
        if let Some(blocks) = &narrowing.blocks {
            part.keep_blocks(blocks.clone());
        }
        let is_of_span = narrowing.blocks.is_some();
        part.retain_cells(|cell| (!is_of_span || cell.samples > 0) && (narrowing.keeps)(cell));
        part
    }

    /// Counts only what was counted in some blocks.
    fn keep_blocks(&mut self, blocks: Range<u32>) {
        let Timeline { start, block_ns, blocks: all } = self.timeline;
        let blocks = blocks.start.min(all)..blocks.end.min(all);
        let cells = self.cells.len();
        let sums = in_parallel(self.series.parts(), |part| {
            let mut sums = vec![(0_u64, 0_u64); cells];
            part.for_each(self.series.shift(), |cell, count| {
                if let Some(sum) = sums.get_mut(cell as usize).filter(|_| blocks.contains(&count.block)) {
                    *sum = (sum.0 + u64::from(count.samples), sum.1.saturating_add(count.weight));
                }
            });
            sums
        });
        for (at, cell) in self.cells.iter_mut().enumerate() {
            let sum = |of: fn(&(u64, u64)) -> u64| {
                sums.iter().map(|one| of(&one[at])).fold(0, u64::saturating_add)
            };
            (cell.samples, cell.weight) = (sum(|one| one.0), sum(|one| one.1));
        }
        self.timeline = Timeline {
            start: start.saturating_add(u64::from(blocks.start).saturating_mul(block_ns)),
            block_ns,
            blocks: blocks.end.saturating_sub(blocks.start),
        };
        self.series.keep_blocks(blocks);
    }

    /// For each stack whether one of its frames is wanted: the sampled one, one inlined there, or any caller.
    #[must_use]
    pub fn stacks_through(&self, wanted: &dyn Fn(&CodeFrame) -> bool) -> Vec<bool> {
        let frames: Vec<bool> = self.frames.iter().map(wanted).collect();
        let mut through = vec![false; self.stacks.len()];
        // A parent comes before its children.
        for stack in 1..self.stacks.len() as StackId {
            let parent = self.stacks.parent(stack).unwrap_or(Stacks::ROOT);
            let frame = self.stacks.frame(stack);
            let is_here = frame.is_some_and(|frame| frames[frame as usize]);
            through[stack as usize] = is_here || through[parent as usize];
        }
        through
    }

    /// For each stack whether its innermost frame is wanted.
    #[must_use]
    pub fn stacks_in(&self, wanted: &dyn Fn(&CodeFrame) -> bool) -> Vec<bool> {
        let frames: Vec<bool> = self.frames.iter().map(wanted).collect();
        let is_in = |stack| self.stacks.frame(stack).is_some_and(|frame| frames[frame as usize]);
        (0..self.stacks.len() as StackId).map(is_in).collect()
    }

    /// For each stack whether the sample was taken in one of these functions, or in one inlined there.
    #[must_use]
    pub fn stacks_in_function(&self, wanted: &[bool]) -> Vec<bool> {
        let is_wanted = |frame: &CodeFrame| frame.function.is_some_and(|at| wanted[at as usize]);
        let is_in = |stack: StackId| {
            for frame in self.stacks.frames(stack) {
                let frame = &self.frames[frame as usize];
                if is_wanted(frame) || !frame.inlined {
                    return is_wanted(frame);
                }
            }
            false
        };
        (0..self.stacks.len() as StackId).map(is_in).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::tests::{Plain, aggregate, name, samples};
    use crate::views::{Dimension, rows};
    use proptest::prelude::*;

    /// Self and total by function, in samples and weight.
    fn by_function(counts: &Aggregate) -> Vec<(String, u64, u64, u64)> {
        let found = rows(counts, 0, &[Dimension::Function], &|_| None, 0);
        let mut all: Vec<_> = found
            .iter()
            .map(|row| (format!("{:?}", row.keys), row.own.samples, row.own.weight, row.total.weight))
            .collect();
        all.sort();
        all
    }

    proptest! {
        /// What is left of all counts is what the samples that are left come to.
        #[test]
        fn a_part_is_what_its_samples_alone_come_to(
            samples in samples(), task in 0_usize..3, first in 0_u32..50,
            blocks in 0_u32..50, through in 0_usize..5,
        ) {
            let counts = aggregate(&samples);
            let span = first..first + blocks;
            let wanted = |frame: &CodeFrame| {
                let function = frame.function.map(|at| &*counts.functions[at as usize].name);
                function == name(through).as_deref()
            };
            let is_through = counts.stacks_through(&wanted);
            let part = counts.narrowed(&Narrowing {
                keeps: &|cell| cell.task as usize == task && is_through[cell.stack as usize],
                blocks: Some(span.clone()),
            });
            let is_left = |sample: &&Plain| {
                let names: Vec<_> = sample.calls.iter().map(|&call| name(call)).collect();
                sample.task == task && span.contains(&sample.block) && names.contains(&name(through))
            };
            let left: Vec<Plain> = samples.iter().filter(is_left).cloned().collect();
            prop_assert_eq!(by_function(&part), by_function(&aggregate(&left)));
            let sums = part.row_series(1, false, |_| crate::aggregate::AddsTo::Row(0));
            let all = counts.timeline.blocks;
            prop_assert_eq!(sums.rows.len() as u32, span.end.min(all) - span.start.min(all));
            prop_assert_eq!(part.timeline.blocks as usize, sums.rows.len());
            for (sum, block) in sums.rows.iter().zip(span) {
                let expected = left.iter().filter(|sample| sample.block == block).count();
                prop_assert_eq!(*sum, expected as f64);
            }
        }
    }

    #[test]
    fn a_part_of_nothing_is_nothing() {
        let part = Aggregate::default().narrowed(&Narrowing { keeps: &|_| true, blocks: Some(3..9) });
        assert_eq!((part.cells.len(), part.timeline.blocks), (0, 0));
    }
}
