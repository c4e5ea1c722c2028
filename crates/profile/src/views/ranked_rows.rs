//! Rows as numbers, the largest first. Names of a row are looked up when it is shown: there may be a million rows, and
//! a screen shows fifty.

use super::Sums;
use super::query::{KeyedSums, NONE};
use super::row_order::KeyRun;
use super::rows::{Dimension, Key, Row, place_key};
use crate::aggregate::{Aggregate, FrameId};

/// Rows of one event by some dimensions, the largest share first, then the largest total; equal ones in the order of their
/// keys. 40 bytes each. The counts passed to its functions must be those that it was made of, with any filter.
#[derive(Debug, Default)]
pub struct RankedRows {
    rows: Vec<KeyedSums>,
    names: RowNames,
    /// Of the event.
    weight: u64,
}

impl RankedRows {
    /// `rows` in their order, and the weight of the event.
    pub(super) fn new(mut rows: Vec<KeyedSums>, mut names: RowNames, weight: u64) -> Self {
        names.keep_those_of(&mut rows);
        Self { rows, names, weight }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Samples and weight in the row at this index (self), and in it with all that it called (total).
    #[must_use]
    pub fn sums(&self, at: usize) -> (Sums, Sums) {
        self.rows.get(at).map(|row| (row.own, row.total)).unwrap_or_default()
    }

    /// The row at this index, without an interval.
    #[must_use]
    pub fn row(&self, counts: &Aggregate, at: usize) -> Option<Row> {
        let row = self.rows.get(at)?;
        let share = |sums: Sums| match self.weight {
            0 => 0.0,
            all => sums.weight as f64 / all as f64,
        };
        Some(Row {
            keys: self.names.keys(counts, row).collect(),
            own: row.own,
            total: row.total,
            share: share(row.own),
            total_share: share(row.total),
            interval: None,
        })
    }

    /// Index of the row with these keys.
    #[must_use]
    pub fn position(&self, counts: &Aggregate, keys: &[Key]) -> Option<usize> {
        let wanted = |dimension: usize, key: &Key| keys.get(dimension) == Some(key);
        let all = self.names.by.len();
        self.rows_where(counts, |matches| matches == all, wanted).next()
    }

    /// Indices of rows of which a key is `wanted`, in order.
    pub fn with_key(&self, counts: &Aggregate, mut wanted: impl FnMut(&Key) -> bool) -> Vec<u32> {
        let places = self.rows_where(counts, |matches| matches > 0, |_, key| wanted(key));
        places.map(|at| at as u32).collect()
    }

    /// Indices of rows by the number of their keys that are `wanted`, a function of the dimension's index and the key. It
    /// is called once for each distinct key.
    fn rows_where(
        &self,
        counts: &Aggregate,
        takes: impl Fn(usize) -> bool,
        mut wanted: impl FnMut(usize, &Key) -> bool,
    ) -> impl Iterator<Item = usize> {
        let RowNames { by, whos, frames } = &self.names;
        let (places, of_who): (Vec<usize>, Vec<usize>) =
            (0..by.len()).partition(|&at| by[at].is_place());
        let whos: Vec<usize> = whos
            .iter()
            .map(|keys| of_who.iter().zip(keys).filter(|(at, key)| wanted(**at, key)).count())
            .collect();
        let whats: Vec<usize> = frames
            .iter()
            .map(|frame| {
                let key = |at: usize| frame_key(counts, *frame, by[at]);
                places.iter().filter(|&&at| wanted(at, &key(at))).count()
            })
            .collect();
        let matches = move |row: &KeyedSums| whos[row.who as usize] + whats[row.what as usize];
        let rows = self.rows.iter().enumerate();
        rows.filter(move |(_, row)| takes(matches(row))).map(|(at, _)| at)
    }

    /// For each row the rank of its key in one of the dimensions, by its number; equal for equal keys.
    #[must_use]
    pub fn key_ranks(&self, counts: &Aggregate, dimension: usize) -> Vec<u32> {
        let run = self.names.run(counts, &self.rows, dimension..dimension + 1);
        self.rows.iter().map(|row| run.rank(row)).collect()
    }
}

/// What the numbers of rows stand for.
#[derive(Debug, Default)]
pub(super) struct RowNames {
    by: Vec<Dimension>,
    /// Keys of who ran, in the order of the dimensions that are of it.
    whos: Vec<Vec<Key>>,
    /// A frame of each place; `None` for samples without any.
    frames: Vec<Option<FrameId>>,
}

impl RowNames {
    pub(super) fn new(by: &[Dimension], whos: Vec<Vec<Key>>, frames: Vec<Option<FrameId>>) -> Self {
        Self { by: by.to_vec(), whos, frames }
    }

    /// Forgets places that no row has.
    fn keep_those_of(&mut self, rows: &mut [KeyedSums]) {
        let mut numbers = vec![NONE; self.frames.len()];
        let mut kept = Vec::new();
        for row in rows {
            let number = &mut numbers[row.what as usize];
            if *number == NONE {
                *number = kept.len() as u32;
                kept.push(self.frames[row.what as usize]);
            }
            row.what = *number;
        }
        self.frames = kept;
    }

    /// In the order asked for.
    fn keys(&self, counts: &Aggregate, row: &KeyedSums) -> impl Iterator<Item = Key> {
        let mut who = self.whos[row.who as usize].iter();
        let frame = self.frames[row.what as usize];
        self.by.iter().map(move |one| match one.is_place() {
            true => frame_key(counts, frame, *one),
            false => who.next().cloned().unwrap_or(Key::Unknown),
        })
    }

    /// Dimensions one after another as rows are compared by them, those next to each other that are all of who or all of
    /// where together.
    pub(super) fn runs(&self, counts: &Aggregate, rows: &[KeyedSums]) -> Vec<KeyRun> {
        let mut next = 0;
        let run = |run: &[Dimension]| {
            let dimensions = next..next + run.len();
            next = dimensions.end;
            self.run(counts, rows, dimensions)
        };
        self.by.chunk_by(|a, b| a.is_place() == b.is_place()).map(run).collect()
    }

    /// Of dimensions that are all of who or all of where.
    fn run(
        &self,
        counts: &Aggregate,
        rows: &[KeyedSums],
        dimensions: std::ops::Range<usize>,
    ) -> KeyRun {
        let (before, run) = (&self.by[..dimensions.start], &self.by[dimensions]);
        if run.iter().all(|dimension| dimension.is_place()) {
            return KeyRun::new(rows, true, self.frames.len(), |what| -> Vec<Key> {
                run.iter().map(|one| frame_key(counts, self.frames[what as usize], *one)).collect()
            });
        }
        let first = before.iter().filter(|dimension| !dimension.is_place()).count();
        let keys = |who: u32| &self.whos[who as usize][first..first + run.len()];
        KeyRun::new(rows, false, self.whos.len(), keys)
    }
}

fn frame_key(counts: &Aggregate, frame: Option<FrameId>, dimension: Dimension) -> Key {
    frame.map_or(Key::Unknown, |frame| place_key(counts, &counts.frames[frame as usize], dimension))
}
