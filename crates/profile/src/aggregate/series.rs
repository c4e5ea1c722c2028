//! What each cell counted when: read once by whoever asks, never spread out.
//!
//! The counters' logs stay as they are, some two bytes an entry; beside each lies which cell of the
//! [`Aggregate`] each of its own counted for. Whoever wants counts by time says for each cell which row
//! it adds to, and every log is read through once, each on a thread of its own:
//!
//! ```text
//!  log of a counter   (its cell, block, samples) (…) (…)
//!                          │
//!  its cells ─► cell ─► row        rows × blocks: sums
//! ```

use std::ops::Range;
use std::sync::Arc;

use pmuscope_stats::{Interval, MIN_BLOCKS, Share, Shares};
use rustc_hash::FxHashMap;

use crate::aggregate::LongPhases;
use crate::aggregate::{Aggregate, BlockCount, SampleCell, StackId};
use crate::count::log::{Log, LoggedCount};
use crate::pool::in_parallel;
use crate::timeline::blocks::MOST;

/// A cell that is not there any more.
pub(super) const GONE: u32 = u32::MAX;

/// Counts of all cells by time.
#[derive(Debug, Clone, Default)]
pub struct Series {
    parts: Vec<SeriesPart>,
    /// Blocks are of 2^shift ns.
    shift: u32,
    /// The blocks that count, which are numbered from the first of them; `None` for all.
    blocks: Option<Range<u32>>,
}

#[derive(Debug, Clone)]
struct SeriesPart {
    /// Shared by all parts of the same counts.
    log: Arc<Log>,
    /// For each cell of the log, which one of the model it counted for.
    cells: Vec<u32>,
}

impl SeriesPart {
    /// Every count of a cell that is there, in blocks of 2^shift ns, whether the block counts or not.
    fn for_each(&self, shift: u32, mut take: impl FnMut(u32, BlockCount)) {
        for LoggedCount { cell, block, samples, weight } in self.log.entries(shift) {
            let cell = self.cells[cell as usize];
            if cell != GONE {
                take(cell, BlockCount { block, samples, weight });
            }
        }
    }
}

/// What a cell adds to where rows are added up by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddsTo {
    /// Nothing: it is of another event.
    Nothing,
    /// The total only.
    Total,
    /// The total and a row.
    Row(usize),
}

/// Sums by block of time, of samples or of weight.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSeries {
    /// One per block.
    pub totals: Vec<f64>,
    /// Row by row, one per block.
    pub rows: Vec<f64>,
}

impl Series {
    /// Counts as they come: cell and count.
    pub fn from_counts(counts: impl IntoIterator<Item = (u32, BlockCount)>) -> Self {
        let (mut log, mut cells) = (Log::new(0), 0);
        for (cell, BlockCount { block, samples, weight }) in counts {
            log.push(LoggedCount { cell, block, samples, weight });
            cells = cells.max(cell + 1);
        }
        let parts = vec![SeriesPart { log: Arc::new(log), cells: (0..cells).collect() }];
        Self { parts, shift: 0, blocks: None }
    }

    /// Logs with the cells that theirs counted for; blocks are of 2^shift ns.
    pub(crate) fn of_logs(logs: impl IntoIterator<Item = (Log, Vec<u32>)>, shift: u32) -> Self {
        let parts =
            logs.into_iter().map(|(log, cells)| SeriesPart { log: Arc::new(log), cells }).collect();
        Self { parts, shift, blocks: None }
    }

    /// Samples and weight of each cell, of `cells` cells, in these blocks.
    pub(super) fn sums_of_cells(&self, blocks: &Range<u32>, cells: usize) -> Vec<(u64, u64)> {
        let mut sums = vec![(0_u64, 0_u64); cells];
        self.for_each(|cell, count| {
            if let Some((samples, weight)) = sums.get_mut(cell as usize)
                && blocks.contains(&count.block)
            {
                *samples += u64::from(count.samples);
                *weight = weight.saturating_add(count.weight);
            }
        });
        sums
    }

    /// Leaves out all blocks but these, which are numbered from 0 then.
    pub(super) fn keep_blocks(&mut self, blocks: Range<u32>) {
        let start = self.blocks.as_ref().map_or(0, |before| before.start);
        self.blocks = Some(start + blocks.start..start + blocks.end);
    }

    /// The number of a block; `None` where it does not count.
    #[inline]
    fn number(&self, block: u32) -> Option<u32> {
        match &self.blocks {
            None => Some(block),
            Some(blocks) => blocks.contains(&block).then(|| block - blocks.start),
        }
    }

    /// Every count, with its cell, in no order; a cell's block may come several times.
    pub fn for_each(&self, mut take: impl FnMut(u32, BlockCount)) {
        for part in &self.parts {
            part.for_each(self.shift, |cell, count| {
                if let Some(block) = self.number(count.block) {
                    take(cell, BlockCount { block, ..count });
                }
            });
        }
    }

    /// Every count in the order of cells and blocks, each block of a cell once.
    #[must_use]
    pub fn sorted(&self) -> Vec<(u32, BlockCount)> {
        let mut all = Vec::new();
        self.for_each(|cell, count| all.push((cell, count)));
        // Counts of one block that no number could hold stay apart, largest first.
        all.sort_unstable_by_key(|(cell, count)| {
            (*cell, count.block, std::cmp::Reverse((count.samples, count.weight)))
        });
        all.dedup_by(|(cell, next), (of, count)| {
            let samples = count.samples.checked_add(next.samples);
            let samples = samples.filter(|_| cell == of && count.block == next.block);
            if let Some(samples) = samples {
                count.samples = samples;
                count.weight = count.weight.saturating_add(next.weight);
            }
            samples.is_some()
        });
        all
    }

    /// Which cell of the model each cell of the first counter's log counted for; `u32::MAX` where that is
    /// not there any more.
    pub(crate) fn cells_of_first(&self) -> Vec<u32> {
        self.parts.first().map_or_else(Vec::new, |part| part.cells.clone())
    }

    /// The same counts of cells with other numbers, by their old ones; [`GONE`] for those that are no more.
    pub(super) fn renumbered(&self, numbers: &[u32]) -> Self {
        let number = |cell: &u32| numbers.get(*cell as usize).copied().unwrap_or(GONE);
        let part = |part: &SeriesPart| SeriesPart {
            log: Arc::clone(&part.log),
            cells: part.cells.iter().map(number).collect(),
        };
        let parts = in_parallel(&self.parts, part);
        Self { parts, shift: self.shift, blocks: self.blocks.clone() }
    }

    /// Gives cells other numbers, by their old ones; `None` for those that are no more.
    pub(crate) fn renumber(&mut self, numbers: &[Option<u32>]) {
        let number = |cell: u32| numbers.get(cell as usize).copied().flatten().unwrap_or(GONE);
        let cells = self.parts.iter_mut().flat_map(|part| &mut part.cells);
        cells.for_each(|cell| *cell = number(*cell));
    }
}

/// Equal if the same was counted, whoever counted it.
impl PartialEq for Series {
    fn eq(&self, other: &Self) -> bool {
        self.sorted() == other.sorted()
    }
}

impl Eq for Series {}

impl Aggregate {
    /// Sums of `rows` rows by block of time: of weights, or of samples.
    pub fn row_series(
        &self,
        rows: usize,
        by_weight: bool,
        mut adds_to: impl FnMut(&SampleCell) -> AddsTo,
    ) -> RowSeries {
        let blocks = self.timeline.blocks as usize;
        // Row 0 is the total of what is in no row.
        let row_of_cell: Vec<u32> = self
            .cells
            .iter()
            .map(|cell| match adds_to(cell) {
                AddsTo::Nothing => GONE,
                AddsTo::Total => 0,
                AddsTo::Row(row) => row as u32 + 1,
            })
            .collect();
        let part = |part: &SeriesPart| {
            let mut sums = vec![0.0; (rows + 1) * blocks];
            let row = |cell: &u32| row_of_cell.get(*cell as usize).copied().unwrap_or(GONE);
            let row_of_own: Vec<u32> = part.cells.iter().map(row).collect();
            for entry in part.log.entries(self.series.shift) {
                let row = row_of_own[entry.cell as usize];
                let block =
                    self.series.number(entry.block).map_or(usize::MAX, |block| block as usize);
                if row != GONE && block < blocks {
                    let value =
                        if by_weight { entry.weight as f64 } else { f64::from(entry.samples) };
                    sums[row as usize * blocks + block] += value;
                }
            }
            sums
        };
        let mut sums = in_parallel(&self.series.parts, part)
            .into_iter()
            .reduce(|mut all, one| {
                all.iter_mut().zip(one).for_each(|(sum, value)| *sum += value);
                all
            })
            .unwrap_or_else(|| vec![0.0; (rows + 1) * blocks]);
        let rows = sums.split_off(blocks);
        for (at, value) in rows.iter().enumerate() {
            sums[at % blocks] += value;
        }
        RowSeries { totals: sums, rows }
    }

    /// Blocks of time in which each event has samples, by its number.
    pub(crate) fn filled_blocks(&self) -> FxHashMap<u32, usize> {
        let mut seen: FxHashMap<u32, [u64; MOST as usize / 64]> = FxHashMap::default();
        self.series.for_each(|cell, count| {
            let event = self.cells.get(cell as usize).map(|cell| cell.event);
            let (word, bit) = (count.block as usize / 64, count.block % 64);
            let words = event.map(|event| seen.entry(event).or_default());
            if let Some(word) = words.and_then(|words| words.get_mut(word)) {
                *word |= 1 << bit;
            }
        });
        let number = |words: [u64; MOST as usize / 64]| {
            words.iter().map(|word| word.count_ones() as usize).sum()
        };
        seen.into_iter().map(|(event, words)| (event, number(words))).collect()
    }

    /// Counts each stack as the one that `to` has for it; cells that are the same then are one.
    pub(crate) fn move_stacks(&mut self, to: &[StackId]) {
        let mut moved: Vec<(SampleCell, usize)> = self.cells.drain(..).zip(0..).collect();
        let key = |cell: &SampleCell| (cell.event, cell.stack, cell.task, cell.cpu);
        for (cell, _) in &mut moved {
            cell.stack = to.get(cell.stack as usize).copied().unwrap_or(cell.stack);
        }
        moved.sort_by_key(|(cell, _)| key(cell));
        let mut numbers = vec![None; moved.len()];
        for (cell, number) in moved {
            match self.cells.last_mut().filter(|last| key(last) == key(&cell)) {
                Some(last) => {
                    last.samples += cell.samples;
                    last.weight = last.weight.saturating_add(cell.weight);
                }
                None => self.cells.push(cell),
            }
            numbers[number] = Some(self.cells.len() as u32 - 1);
        }
        self.series.renumber(&numbers);
    }

    /// Leaves out cells.
    pub(crate) fn retain_cells(&mut self, mut keeps: impl FnMut(&SampleCell) -> bool) {
        let mut left = 0;
        let mut numbers = Vec::with_capacity(self.cells.len());
        self.cells.retain(|cell| {
            let keeps = keeps(cell);
            numbers.push(keeps.then_some(left));
            left += u32::from(keeps);
            keeps
        });
        self.series.renumber(&numbers);
    }
}

impl RowSeries {
    /// Blocks that have samples.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.totals.iter().filter(|&&total| total > 0.0).count()
    }

    /// Each row's share with its 95% CI, by its long-run variance over time; none where too few blocks
    /// have samples. Where one row shows that the program's phases are too long for this recording, no
    /// row has an interval: a rare function's own samples are too few to show the phases it runs in.
    #[must_use]
    pub fn shares(&self) -> Vec<Option<Share>> {
        if self.filled() < MIN_BLOCKS {
            return Vec::new();
        }
        let Some(of_total) = Shares::new(&self.totals) else { return Vec::new() };
        let blocks = self.totals.len();
        LongPhases::judge(self.rows.chunks_exact(blocks).map(|row| of_total.share(row)).collect())
    }

    /// 95% CI of each row's share, as in [`RowSeries::shares`].
    #[must_use]
    pub fn intervals(&self) -> Vec<Option<Interval>> {
        self.shares().into_iter().map(|share| share?.interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::Timeline;

    const CELLS: u32 = 9;
    const BLOCKS: u32 = 5;

    fn counts() -> impl Strategy<Value = Vec<(u32, BlockCount)>> {
        let one = (0..CELLS, 0..BLOCKS, 1_u32..5, 1_u64..9);
        let count = |(cell, block, samples, weight)| (cell, BlockCount { block, samples, weight });
        proptest::collection::vec(one.prop_map(count), 0..80)
    }

    fn cell(event: u32) -> SampleCell {
        SampleCell { event, stack: 0, task: 0, cpu: None, samples: 0, weight: 0 }
    }

    proptest! {
        #[test]
        fn rows_are_sums_over_cells_and_blocks_however_counters_shared_the_work(
            counts in counts(), split in 0_usize..80, by_weight in any::<bool>(),
        ) {
            let (first, second) = counts.split_at(split.min(counts.len()));
            let mut series = Series::from_counts(first.iter().copied());
            series.parts.extend(Series::from_counts(second.iter().copied()).parts);
            prop_assert_eq!(&series, &Series::from_counts(counts.iter().rev().copied()));
            let aggregate = Aggregate {
                cells: (0..CELLS).map(cell).collect(),
                series,
                timeline: Timeline { start: 0, block_ns: 1, blocks: BLOCKS },
                ..Aggregate::default()
            };
            // Cells by their events: 0 to 2 make rows, 3 to 5 only count.
            let adds_to = |event: u32| match event {
                0..3 => AddsTo::Row(event as usize),
                3..6 => AddsTo::Total,
                _ => AddsTo::Nothing,
            };
            let made = aggregate.row_series(3, by_weight, |cell| adds_to(cell.event));
            let value = |count: &BlockCount| {
                if by_weight { count.weight as f64 } else { f64::from(count.samples) }
            };
            let sum = |fits: &dyn Fn(u32, u32) -> bool| -> f64 {
                let fitting = counts.iter().filter(|(cell, count)| fits(*cell, count.block));
                fitting.map(|(_, count)| value(count)).sum()
            };
            for block in 0..BLOCKS {
                let total = sum(&|cell, of| of == block && adds_to(cell) != AddsTo::Nothing);
                prop_assert_eq!(made.totals[block as usize], total);
                for row in 0..3 {
                    let own = sum(&|cell, of| of == block && cell == row);
                    prop_assert_eq!(made.rows[(row * BLOCKS + block) as usize], own);
                }
            }
        }

        #[test]
        fn counts_move_with_their_stacks(counts in counts(), to in proptest::collection::vec(0_u32..CELLS, CELLS as usize)) {
            let cells = (0..CELLS).map(|stack| SampleCell { stack, samples: 1, weight: 2, ..cell(0) });
            let mut aggregate = Aggregate {
                cells: cells.collect(),
                series: Series::from_counts(counts.iter().copied()),
                ..Aggregate::default()
            };
            aggregate.move_stacks(&to);
            let mut left = to.clone();
            left.sort_unstable();
            left.dedup();
            let stacks: Vec<u32> = aggregate.cells.iter().map(|cell| cell.stack).collect();
            prop_assert_eq!(&stacks, &left);
            let place = |cell: u32| left.binary_search(&to[cell as usize]).unwrap() as u32;
            let moved = counts.iter().map(|&(cell, count)| (place(cell), count));
            prop_assert_eq!(&aggregate.series, &Series::from_counts(moved));
            let samples: u64 = aggregate.cells.iter().map(|cell| cell.samples).sum();
            prop_assert_eq!(samples, u64::from(CELLS));
        }

        #[test]
        fn cells_that_are_left_keep_their_counts(counts in counts(), kept in 0_u32..512) {
            let keeps = |cell: u32| kept >> cell & 1 == 1;
            let mut aggregate = Aggregate {
                cells: (0..CELLS).map(cell).collect(),
                series: Series::from_counts(counts.iter().copied()),
                ..Aggregate::default()
            };
            aggregate.retain_cells(|cell| keeps(cell.event));
            let number = |cell: u32| (0..cell).filter(|&before| keeps(before)).count() as u32;
            let left = counts.iter().filter(|(cell, _)| keeps(*cell));
            let left = left.map(|&(cell, count)| (number(cell), count));
            prop_assert_eq!(&aggregate.series, &Series::from_counts(left));
            prop_assert!(aggregate.cells.iter().all(|cell| keeps(cell.event)));
        }
    }
}
