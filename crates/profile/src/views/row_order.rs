//! Rows in order: the largest first, those of one size by their keys.
//!
//! Most rows are of a sample or two, so keys decide, and these are names. Each distinct key is ranked once, and rows are
//! put in order by numbers:
//!
//! ```text
//!  by     command, process │ module, function │ cpu      runs: all of who ran, or all of where
//!  rank   of who             of the place       of who
//! ```

use std::cmp::{Ordering, Reverse};

use super::query::{KeyedSums, NONE};

/// Ranks of the keys that rows have in a run of dimensions; rows are compared by one run after the other.
pub(super) struct KeyRun {
    is_place: bool,
    /// By number of who or what; equal for equal keys.
    ranks: Vec<u32>,
}

impl KeyRun {
    /// Ranks those of the `numbers` who or whats that `rows` have.
    pub(super) fn new<K: Ord>(
        rows: &[KeyedSums],
        is_place: bool,
        numbers: usize,
        key: impl Fn(u32) -> K,
    ) -> Self {
        let mut run = Self { is_place, ranks: vec![NONE; numbers] };
        let mut found: Vec<(K, u32)> = Vec::new();
        for row in rows {
            let number = run.number(row);
            if std::mem::replace(&mut run.ranks[number as usize], 0) == NONE {
                found.push((key(number), number));
            }
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (equal, rank) in found.chunk_by(|a, b| a.0 == b.0).zip(0..) {
            for (_, number) in equal {
                run.ranks[*number as usize] = rank;
            }
        }
        run
    }

    fn number(&self, row: &KeyedSums) -> u32 {
        if self.is_place { row.what } else { row.who }
    }

    pub(super) fn rank(&self, row: &KeyedSums) -> u32 {
        self.ranks[self.number(row) as usize]
    }
}

/// What rows are compared by, side by side in memory.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RowRank {
    weight: Reverse<u64>,
    total: Reverse<u64>,
    samples: Reverse<u64>,
    /// Ranks of the first two runs.
    ranks: [u32; 2],
    /// Index of the row.
    at: u32,
}

/// Indices of `rows`, the largest first; rows of one size in the order of their keys, then of their indices.
pub(super) fn in_order(rows: &[KeyedSums], runs: &[KeyRun]) -> Vec<u32> {
    let (first, others) = runs.split_at(runs.len().min(2));
    let place = |(row, at): (&KeyedSums, u32)| RowRank {
        weight: Reverse(row.own.weight),
        total: Reverse(row.total.weight),
        samples: Reverse(row.own.samples),
        ranks: [0, 1].map(|at| first.get(at).map_or(0, |run| run.rank(row))),
        at,
    };
    let mut places: Vec<RowRank> = rows.iter().zip(0..).map(place).collect();
    if others.is_empty() {
        places.sort_unstable();
    } else {
        let size = |place: &RowRank| (place.weight, place.total, place.samples, place.ranks);
        let rest = |a: &RowRank, b: &RowRank| {
            let rank = |run: &KeyRun, place: &RowRank| run.rank(&rows[place.at as usize]);
            let ranks = others.iter().map(|run| rank(run, a).cmp(&rank(run, b)));
            ranks.fold(Ordering::Equal, Ordering::then).then(a.at.cmp(&b.at))
        };
        places.sort_unstable_by(|a, b| size(a).cmp(&size(b)).then_with(|| rest(a, b)));
    }
    places.into_iter().map(|place| place.at).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Sums;
    use super::*;

    /// The key of a number in a run.
    fn key(run: usize, number: u32) -> (usize, String) {
        (run, format!("{}", number * 7 % (3 + run as u32)))
    }

    proptest! {
        /// As sorting them by sizes and keys does, whatever who and where alternate.
        #[test]
        fn rows_are_in_the_order_of_sizes_and_keys(
            rows in proptest::collection::vec((0_u64..3, 0_u64..3, 0_u64..2, 0_u32..9, 0_u32..9), 0..60),
            runs in proptest::collection::vec(any::<bool>(), 0..5),
        ) {
            let rows: Vec<KeyedSums> = rows
                .into_iter()
                .map(|(weight, total, samples, who, what)| KeyedSums {
                    what,
                    who,
                    own: Sums { samples, weight },
                    total: Sums { samples, weight: total },
                })
                .collect();
            let keys = |row: &KeyedSums| -> Vec<(usize, String)> {
                let number = |place: bool| if place { row.what } else { row.who };
                runs.iter().zip(0..).map(|(&place, run)| key(run, number(place))).collect()
            };
            let mut expected: Vec<u32> = (0..rows.len() as u32).collect();
            expected.sort_by_key(|&at| {
                let row = &rows[at as usize];
                let sizes = [row.own.weight, row.total.weight, row.own.samples].map(Reverse);
                (sizes, keys(row), at)
            });
            let runs = runs.iter().zip(0_usize..);
            let runs: Vec<KeyRun> =
                runs.map(|(&place, run)| KeyRun::new(&rows, place, 9, |at| key(run, at))).collect();
            prop_assert_eq!(in_order(&rows, &runs), expected);
        }
    }
}
