//! One thread's block of the grid, and how blocks see each other's edges.

use std::sync::{Mutex, PoisonError};

/// Floating-point operations per cell and step: three additions, one multiplication.
pub(super) const OPERATIONS_PER_CELL: f64 = 4.0;

/// Value outside the grid's first row; zero outside the other edges.
const TOP: f64 = 1.0;

/// `size` rows of `size` cells, now and after the step.
pub(super) struct Block {
    size: usize,
    now: Vec<f64>,
    next: Vec<f64>,
    /// The rows above and below, as of now.
    above: Vec<f64>,
    below: Vec<f64>,
}

impl Block {
    /// All zero. Made by the thread that works on it, so that its pages lie near that thread.
    pub(super) fn new(size: usize) -> Self {
        let zeros = |cells| vec![0.0; cells];
        Self {
            size,
            now: zeros(size * size),
            next: zeros(size * size),
            above: zeros(size),
            below: zeros(size),
        }
    }

    /// Makes every cell the mean of its four neighbors.
    pub(super) fn sweep(&mut self) {
        let size = self.size;
        for (row, next) in self.next.chunks_exact_mut(size).enumerate() {
            let at = |row: usize| &self.now[row * size..(row + 1) * size];
            let up = if row == 0 { &self.above[..] } else { at(row - 1) };
            let down = if row + 1 == size { &self.below[..] } else { at(row + 1) };
            sweep_row(next, up, at(row), down);
        }
        std::mem::swap(&mut self.now, &mut self.next);
    }

    /// Sum of all cells.
    pub(super) fn sum(&self) -> f64 {
        self.now.iter().sum()
    }
}

/// A symbol of its own, where nearly all time goes.
#[inline(never)]
fn sweep_row(next: &mut [f64], up: &[f64], row: &[f64], down: &[f64]) {
    let size = next.len();
    // Equal lengths known, the loop needs no bounds checks and becomes vector code.
    let (up, row, down) = (&up[..size], &row[..size], &down[..size]);
    for i in 1..size - 1 {
        next[i] = 0.25 * (up[i] + down[i] + row[i - 1] + row[i + 1]);
    }
    next[0] = 0.25 * (up[0] + down[0] + row[1]);
    next[size - 1] = 0.25 * (up[size - 1] + down[size - 1] + row[size - 2]);
}

/// First and last rows of all blocks, by parity of the step: while a step reads one, the next is
/// written to the other, so that one barrier per step is enough. Each row has one writer and one
/// reader, a step apart, so that no lock is ever waited for.
pub(super) struct Edges {
    rows: Vec<[[Mutex<Vec<f64>>; 2]; 2]>,
}

const FIRST: usize = 0;
const LAST: usize = 1;

impl Edges {
    pub(super) fn new(blocks: usize, size: usize) -> Self {
        let row = |_| Mutex::new(vec![0.0; size]);
        let edge = |_| std::array::from_fn(row);
        Self { rows: (0..blocks).map(|_| std::array::from_fn(edge)).collect() }
    }

    /// Copies the neighbors' edges into the block, as of this step.
    pub(super) fn fetch(&self, block: &mut Block, index: usize, step: u64) {
        match index.checked_sub(1) {
            Some(above) => copy(&self.rows[above][LAST][parity(step)], &mut block.above),
            None => block.above.fill(TOP),
        }
        if index + 1 < self.rows.len() {
            copy(&self.rows[index + 1][FIRST][parity(step)], &mut block.below);
        }
    }

    /// Hands out the block's edges for the step after this one.
    pub(super) fn publish(&self, block: &Block, index: usize, step: u64) {
        let write = |edge: usize, row: &[f64]| {
            let mut out = self.rows[index][edge][parity(step + 1)]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            out.copy_from_slice(row);
        };
        write(FIRST, &block.now[..block.size]);
        write(LAST, &block.now[block.now.len() - block.size..]);
    }
}

fn parity(step: u64) -> usize {
    (step % 2) as usize
}

fn copy(from: &Mutex<Vec<f64>>, to: &mut [f64]) {
    to.copy_from_slice(&from.lock().unwrap_or_else(PoisonError::into_inner));
}
