//! A part of what was counted, as counts of its own: some threads, a span of time, stacks through a function.
//!
//! All that views need is kept: frames, functions and stacks keep their numbers, so what was looked up by number for all
//! counts holds for the part too. Time is kept in blocks, so a span is one of whole blocks.

use std::ops::Range;

use super::series::GONE;
use crate::aggregate::{Aggregate, CodeFrame, SampleCell, Series, StackId, Stacks, Timeline};

/// Which counts are kept.
pub struct Narrowing<'a> {
    /// Which cells.
    pub keeps: &'a dyn Fn(&SampleCell) -> bool,
    /// Which blocks of time; `None` for all.
    pub blocks: Option<Range<u32>>,
}

/// The counts of an [`Aggregate`], apart from what they are of: functions, frames, stacks and tasks.
#[derive(Debug, Clone, Default)]
pub struct CellCounts {
    cells: Vec<SampleCell>,
    series: Series,
    timeline: Timeline,
}

impl CellCounts {
    /// How time is divided.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.timeline
    }

    /// What a narrowing keeps, with the intervals that follow from it alone. A cell without a count in the span is not there
    /// any more.
    #[must_use]
    pub fn narrowed(&self, narrowing: &Narrowing<'_>) -> Self {
        let mut timeline = self.timeline;
        let blocks = narrowing
            .blocks
            .as_ref()
            .map(|blocks| blocks.start.min(timeline.blocks)..blocks.end.min(timeline.blocks));
        let sums =
            blocks.as_ref().map(|blocks| self.series.sums_of_cells(blocks, self.cells.len()));
        let mut numbers = vec![GONE; self.cells.len()];
        let mut cells = Vec::new();
        for (at, cell) in self.cells.iter().enumerate().filter(|(_, cell)| (narrowing.keeps)(cell))
        {
            let (samples, weight) =
                sums.as_ref().map_or((cell.samples, cell.weight), |sums| sums[at]);
            if samples > 0 {
                numbers[at] = cells.len() as u32;
                cells.push(SampleCell { samples, weight, ..cell.clone() });
            }
        }
        let mut series = self.series.renumbered(&numbers);
        if let Some(blocks) = blocks {
            let before = u64::from(blocks.start).saturating_mul(timeline.block_ns);
            timeline.start = timeline.start.saturating_add(before);
            timeline.blocks = blocks.end.saturating_sub(blocks.start);
            series.keep_blocks(blocks);
        }
        Self { cells, series, timeline }
    }
}

impl Aggregate {
    /// Shows other counts of the same stacks; returns those before.
    pub fn replace_counts(&mut self, counts: CellCounts) -> CellCounts {
        CellCounts {
            cells: std::mem::replace(&mut self.cells, counts.cells),
            series: std::mem::replace(&mut self.series, counts.series),
            timeline: std::mem::replace(&mut self.timeline, counts.timeline),
        }
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
            .map(|row| {
                (format!("{:?}", row.keys), row.own.samples, row.own.weight, row.total.weight)
            })
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
            let mut counts = aggregate(&samples);
            let all = counts.timeline.blocks;
            let span = first..first + blocks;
            let functions = counts.functions.clone();
            let wanted = |frame: &CodeFrame| {
                let function = frame.function.map(|at| &*functions[at as usize].name);
                function == name(through).as_deref()
            };
            let is_through = counts.stacks_through(&wanted);
            let narrowing = Narrowing {
                keeps: &|cell| cell.task as usize == task && is_through[cell.stack as usize],
                blocks: Some(span.clone()),
            };
            let whole = counts.replace_counts(CellCounts::default());
            counts.replace_counts(whole.narrowed(&narrowing));
            let part = counts;
            let is_left = |sample: &&Plain| {
                let names: Vec<_> = sample.calls.iter().map(|&call| name(call)).collect();
                sample.task == task && span.contains(&sample.block) && names.contains(&name(through))
            };
            let left: Vec<Plain> = samples.iter().filter(is_left).cloned().collect();
            prop_assert_eq!(by_function(&part), by_function(&aggregate(&left)));
            let sums = part.row_series(1, false, |_| crate::aggregate::AddsTo::Row(0));
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
        let narrowing = Narrowing { keeps: &|_| true, blocks: Some(3..9) };
        let part = CellCounts::default().narrowed(&narrowing);
        assert_eq!((part.cells.len(), part.timeline().blocks), (0, 0));
    }
}
