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

use super::Sums;
use super::stack_sums::StackSums;
use crate::aggregate::{AddsTo, Aggregate, FrameId, RowSeries, SampleCell, StackId, Stacks};

/// Not known yet; or a cell whose row is not among the largest.
pub(super) const NONE: u32 = u32::MAX;

/// What rows are passed apart by.
pub(super) trait RowKeys {
    /// The numbers of who ran, one for each cell.
    fn whos(&mut self, cells: &[SampleCell]) -> Vec<u32>;
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

/// Cells by who ran in them.
pub(super) struct CellsByWho {
    /// Who, for each cell.
    whos: Vec<u32>,
    /// One more than the largest of these.
    limit: usize,
}

impl CellsByWho {
    pub(super) fn new(keys: &mut impl RowKeys, cells: &[SampleCell]) -> Self {
        let whos = keys.whos(cells);
        let limit = limit(&whos);
        Self { whos, limit }
    }

    fn who(&self, cell: u32) -> u32 {
        self.whos[cell as usize]
    }

    /// Indices of the cells in the order of who.
    fn order(&self) -> Vec<u32> {
        by_number(&self.whos, self.limit)
    }
}

/// The rows of cells, by what and who, and the row of each.
pub(super) fn own_rows(
    keys: &mut impl RowKeys,
    cells: &[SampleCell],
    by_who: &CellsByWho,
) -> (Vec<KeyedSums>, Vec<u32>) {
    let whats: Vec<u32> = cells.iter().map(|cell| keys.what(cell.stack)).collect();
    let pairs = by_who.limit.saturating_mul(keys.whats());
    if pairs <= cells.len().saturating_mul(MOST_PAIRS) {
        return rows_by_pair(cells, &whats, keys.whats(), by_who, pairs);
    }
    let order = in_order_of(by_who.order(), &whats, keys.whats());
    let mut rows: Vec<KeyedSums> = Vec::new();
    let mut row_of_cell = vec![NONE; cells.len()];
    let key = |cell: u32| (whats[cell as usize], by_who.who(cell));
    for own in order.chunk_by(|&a, &b| key(a) == key(b)) {
        let (what, who) = key(own[0]);
        let mut row = KeyedSums { what, who, ..KeyedSums::default() };
        for &at in own {
            row.own.add(Sums::of(&cells[at as usize]));
            row_of_cell[at as usize] = rows.len() as u32;
        }
        rows.push(row);
    }
    (rows, row_of_cell)
}

/// Pairs of who and what for each cell, up to which a table of all pairs is quicker than putting the cells in order.
const MOST_PAIRS: usize = 4;

/// [`own_rows`] in one pass over the cells, by a table with a place for each of all `pairs`.
fn rows_by_pair(
    cells: &[SampleCell],
    whats: &[u32],
    most_whats: usize,
    by_who: &CellsByWho,
    pairs: usize,
) -> (Vec<KeyedSums>, Vec<u32>) {
    let mut row_of_pair = vec![NONE; pairs];
    let mut rows: Vec<KeyedSums> = Vec::new();
    let row_of_cell = cells.iter().zip(whats).zip(&by_who.whos).map(|((cell, &what), &who)| {
        let row = &mut row_of_pair[who as usize * most_whats + what as usize];
        if *row == NONE {
            *row = rows.len() as u32;
            rows.push(KeyedSums { what, who, ..KeyedSums::default() });
        }
        rows[*row as usize].own.add(Sums::of(cell));
        *row
    });
    let row_of_cell = row_of_cell.collect();
    (rows, row_of_cell)
}

/// Adds what was spent under each row, and rows of functions that only called others. What comes several times in
/// one stack (recursion) counts once.
pub(super) fn add_totals(
    keys: &mut impl RowKeys,
    stacks: &Stacks,
    cells: &[SampleCell],
    by_who: &CellsByWho,
    rows: &mut Vec<KeyedSums>,
) {
    let whos: Vec<u32> = rows.iter().map(|row| row.who).collect();
    let own_rows = by_number(&whos, limit(&whos));
    // Each key with cells has rows too, so both lists have the same keys in the same order.
    let own_rows = own_rows.chunk_by(|&a, &b| whos[a as usize] == whos[b as usize]);
    let order = by_who.order();
    let all_cells = order.chunk_by(|&a, &b| by_who.who(a) == by_who.who(b));
    let mut totals = WalkTotals::default();
    // Rows of the thread, CPU or other key that is summed up now, by number of what.
    let mut row_of_what: Vec<u32> = Vec::new();
    for (own_rows, cells_of_one) in own_rows.zip(all_cells) {
        let who = by_who.who(cells_of_one[0]);
        row_of_what.resize(keys.whats(), NONE);
        for &row in own_rows {
            row_of_what[rows[row as usize].what as usize] = row;
        }
        let own = cells_of_one.iter().map(|&cell| &cells[cell as usize]);
        let sums = StackSums::new(stacks, own.map(|cell| (cell.stack, Sums::of(cell))));
        totals.add_all(keys, stacks, &sums);
        totals.take_each(|what, total| {
            let row = row_of_what.get(what as usize).copied().filter(|&row| row != NONE);
            let at = row.map_or(rows.len(), |row| row as usize);
            if at == rows.len() {
                rows.push(KeyedSums { what, who, ..KeyedSums::default() });
            }
            rows[at].total.add(total);
        });
        for &row in own_rows {
            row_of_what[rows[row as usize].what as usize] = NONE;
        }
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

/// One more than the largest number.
fn limit(numbers: &[u32]) -> usize {
    numbers.iter().max().map_or(0, |last| *last as usize + 1)
}

/// Indices of `numbers`, which are below `limit`, in their order; of equal ones in the order given.
fn by_number(numbers: &[u32], limit: usize) -> Vec<u32> {
    in_order_of((0..numbers.len() as u32).collect(), numbers, limit)
}

/// `indices` of `numbers`, each once, in the order of these; of equal ones as they are. Numbers are below `limit`.
fn in_order_of(mut indices: Vec<u32>, numbers: &[u32], limit: usize) -> Vec<u32> {
    if limit < 2 {
        return indices;
    }
    // Few of many events are put in order without going over all that others have.
    if numbers.len() < limit / 16 {
        indices.sort_by_key(|&index| numbers[index as usize]);
        return indices;
    }
    let mut ends = vec![0_u32; limit + 1];
    for &number in numbers {
        ends[number as usize + 1] += 1;
    }
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut order = vec![0; indices.len()];
    for index in indices {
        let end = &mut ends[numbers[index as usize] as usize];
        order[*end as usize] = index;
        *end += 1;
    }
    order
}
