//! The engine of all tables: cells of an event to rows, each of who ran and of what its stacks come to.
//!
//! ```text
//!  cell ─┬─ task, CPU ─► who ──┐
//!        └─ stack ─┬─ innermost frame ─► what ─┴─► row: own (in it)
//!                  └─ StackSums ─► each frame, once a stack ─► what ──► row: total (in it or under it)
//! ```
//! Rows are nearly as many as cells, so they are numbers; what these stand for is up to [`RowKeys`], and nobody has
//! to ask for all of it.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Sums;
use super::stack_sums::StackSums;
use crate::aggregate::{AddsTo, Aggregate, FrameId, RowSeries, SampleCell, StackId, Stacks};

/// Not known yet; or a cell whose row is not among the largest.
pub(super) const NONE: u32 = u32::MAX;

/// What rows are passed apart by.
pub(super) trait RowKeys {
    /// The number of who ran.
    fn who(&self, cell: &SampleCell) -> u32;
    /// The number of what a stack comes to.
    fn what(&mut self, stack: StackId) -> u32;
    /// The number of what a frame comes to, and a value that is passed to its callees as `above`; [`NONE`] for the
    /// outermost frame.
    fn what_below(&mut self, above: u32, frame: FrameId) -> (u32, u32);
    /// The number of what a stack without any frame comes to.
    fn nowhere(&mut self) -> u32;
    /// Numbers that [`RowKeys::what`] has given.
    fn whats(&self) -> usize;
}

/// A row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyedSums {
    pub(super) what: u32,
    pub(super) who: u32,
    /// In it.
    pub(super) own: Sums,
    /// In it or under it; 0 where that is not asked for.
    pub(super) total: Sums,
}

/// The rows of cells, and the row of each.
pub(super) fn own_rows(
    keys: &mut impl RowKeys,
    cells: &[SampleCell],
) -> (Vec<KeyedSums>, Vec<u32>) {
    let whats: Vec<u32> = cells.iter().map(|cell| keys.what(cell.stack)).collect();
    let who = |cell: u32| keys.who(&cells[cell as usize]);
    let mut order = by_number(&whats, keys.whats());
    let mut rows: Vec<KeyedSums> = Vec::new();
    let mut row_of_cell = whats;
    let mut rest = &mut order[..];
    while let Some(&first) = rest.first() {
        let what = row_of_cell[first as usize];
        let same = rest.iter().take_while(|&&cell| row_of_cell[cell as usize] == what).count();
        let (own, behind) = std::mem::take(&mut rest).split_at_mut(same);
        own.sort_by_key(|&cell| who(cell));
        for own in own.chunk_by(|&a, &b| who(a) == who(b)) {
            let mut row = KeyedSums { what, who: who(own[0]), ..KeyedSums::default() };
            for &at in own {
                row.own.add(Sums::of(&cells[at as usize]));
                row_of_cell[at as usize] = rows.len() as u32;
            }
            rows.push(row);
        }
        rest = behind;
    }
    (rows, row_of_cell)
}

/// Adds what was spent under each row, and rows of functions that only called others. What comes several times in
/// one stack (recursion) counts once.
pub(super) fn add_totals(
    keys: &mut impl RowKeys,
    stacks: &Stacks,
    cells: &[SampleCell],
    rows: &mut Vec<KeyedSums>,
) {
    let mut numbers: FxHashMap<(u32, u32), usize> =
        rows.iter().enumerate().map(|(at, row)| ((row.what, row.who), at)).collect();
    let whos: Vec<u32> = cells.iter().map(|cell| keys.who(cell)).collect();
    let order = by_number(&whos, whos.iter().max().map_or(0, |last| *last as usize + 1));
    let mut totals = WalkTotals::default();
    for cells_of_one in order.chunk_by(|a, b| whos[*a as usize] == whos[*b as usize]) {
        let who = whos[cells_of_one[0] as usize];
        let own = cells_of_one.iter().map(|&cell| &cells[cell as usize]);
        let sums = StackSums::new(stacks, own.map(|cell| (cell.stack, Sums::of(cell))).collect());
        totals.add_all(keys, stacks, &sums);
        totals.take_each(|what, total| {
            let at = *numbers.entry((what, who)).or_insert_with(|| {
                rows.push(KeyedSums { what, who, ..KeyedSums::default() });
                rows.len() - 1
            });
            rows[at].total.add(total);
        });
    }
}

/// What was spent in and under whatever frames come to.
#[derive(Debug, Default)]
struct WalkTotals {
    /// By number of what.
    found: Vec<WhatTotal>,
    /// Those that have any.
    touched: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct WhatTotal {
    sums: Sums,
    /// How often it is on the way to where the walk is.
    on_the_way: u32,
}

/// A stack whose callees are walked.
struct OpenStack {
    callees: Range<u32>,
    /// What it comes to.
    what: u32,
    /// The value that is passed to its callees.
    passed: u32,
}

impl WalkTotals {
    /// Walks a tree from the root down: a stack counts in whatever it comes to that is not on the way to it.
    fn add_all(&mut self, keys: &mut impl RowKeys, stacks: &Stacks, sums: &StackSums) {
        if sums.len() == 0 {
            return;
        }
        let callees = sums.callees(StackSums::ROOT);
        let below = callees.clone().map(|node| sums.total(node));
        let frameless = sums.total(StackSums::ROOT).less(below.fold(Sums::default(), Sums::and));
        if frameless != Sums::default() {
            let nowhere = keys.nowhere();
            self.enter(nowhere, frameless);
            self.leave(nowhere);
        }
        let mut way = vec![OpenStack { callees, what: NONE, passed: NONE }];
        while let Some(OpenStack { callees, what, passed }) = way.last_mut() {
            let Some(node) = callees.next() else {
                self.leave(*what);
                way.pop();
                continue;
            };
            let Some(frame) = stacks.frame(sums.stack(node)) else { continue };
            let (what, passed) = keys.what_below(*passed, frame);
            self.enter(what, sums.total(node));
            way.push(OpenStack { callees: sums.callees(node), what, passed });
        }
    }

    fn enter(&mut self, what: u32, sums: Sums) {
        let at = what as usize;
        if at >= self.found.len() {
            self.found.resize(at + 1, WhatTotal::default());
        }
        let total = &mut self.found[at];
        if total.on_the_way == 0 {
            if total.sums == Sums::default() {
                self.touched.push(what);
            }
            total.sums.add(sums);
        }
        total.on_the_way += 1;
    }

    fn leave(&mut self, what: u32) {
        // The root is nothing.
        if let Some(total) = self.found.get_mut(what as usize) {
            total.on_the_way -= 1;
        }
    }

    /// Hands out all, each once; then there is none.
    fn take_each(&mut self, mut take: impl FnMut(u32, Sums)) {
        for what in self.touched.drain(..) {
            take(what, std::mem::take(&mut self.found[what as usize].sums));
        }
    }
}

/// For each cell its place among the `largest` of so many rows, or [`NONE`].
pub(super) fn rank_cells(row_of_cell: &mut [u32], largest: &[u32], rows: usize) {
    let mut ranks = vec![NONE; rows];
    for (&row, rank) in largest.iter().zip(0..) {
        ranks[row as usize] = rank;
    }
    row_of_cell.iter_mut().for_each(|row| *row = ranks[*row as usize]);
}

/// Sums by time of so many rows of an event, by the place of each of its cells among them.
pub(super) fn series_of(
    aggregate: &Aggregate,
    event: u32,
    rows: usize,
    by_weight: bool,
    row_of_cell: &[u32],
) -> RowSeries {
    let mut row_of_next = row_of_cell.iter();
    aggregate.row_series(rows, by_weight, |cell| {
        // They are in the order of the cells.
        match (cell.event == event).then(|| row_of_next.next()).flatten() {
            None => AddsTo::Nothing,
            Some(&NONE) => AddsTo::Total,
            Some(&row) => AddsTo::Row(row as usize),
        }
    })
}

/// Indices of `numbers`, which are below `limit`, in their order; of equal ones in the order given.
fn by_number(numbers: &[u32], limit: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
    // Few of many events are put in order without going over all that others have.
    if numbers.len() < limit / 16 {
        order.sort_by_key(|&index| numbers[index as usize]);
        return order;
    }
    let mut ends = vec![0_u32; limit + 1];
    for &number in numbers {
        ends[number as usize + 1] += 1;
    }
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    for (&number, index) in numbers.iter().zip(0..) {
        let end = &mut ends[number as usize];
        order[*end as usize] = index;
        *end += 1;
    }
    order
}
