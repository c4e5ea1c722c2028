//! Stacks that a day's folder has already: each is delivered once per host and day, not with every bin.
//!
//! ```text
//!  bin 1   stacks A B C    ─► A B C
//!  bin 2   stacks A B D    ─► D           a reader finds all stacks of a day in the folder of that day
//!  dropped from the spool  ─► nothing is known any more: the next bin brings its stacks again
//!  the next day            ─► the same
//! ```
//! Names are most of what a bin takes. A stack that has more names than before, such as one whose symbols were found later,
//! is delivered again.

use std::collections::HashMap;

use pmuscope_dataset::Rows;

/// Stacks that are kept at most: beyond it all are forgotten, and delivered once more.
const MOST: usize = 1 << 20;
/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// Stacks that are in a day's folder.
#[derive(Debug, Default)]
pub(crate) struct KnownStacks {
    /// Days since 1970.
    day: Option<i64>,
    /// How many of its frames have names, by stack.
    named: HashMap<i64, u32>,
}

impl KnownStacks {
    /// Removes stacks and their frames from rows of a bin if they are known; returns what [`KnownStacks::add`] makes known once
    /// the rows are kept.
    pub(crate) fn prune(&mut self, rows: &mut Rows) -> BinStacks {
        let day = day_of(rows);
        if day.is_none() || day != self.day {
            self.forget();
        }
        let mut named: HashMap<i64, u32> =
            rows.stacks.iter().map(|row| (row.stack_id, 0)).collect();
        for frame in &rows.frames {
            if let Some(count) = named.get_mut(&frame.stack_id) {
                *count += u32::from(frame.function.is_some());
            }
        }
        named.retain(|id, count| self.named.get(id).is_none_or(|known| *count > *known));
        rows.stacks.retain(|row| named.contains_key(&row.stack_id));
        rows.frames.retain(|row| named.contains_key(&row.stack_id));
        BinStacks { day, named }
    }

    /// Stacks of a bin that is kept.
    pub(crate) fn add(&mut self, bin: BinStacks) {
        if self.named.len() + bin.named.len() > MOST {
            self.forget();
        }
        self.day = bin.day;
        self.named.extend(bin.named);
    }

    /// Nothing is known any more: files were dropped that may have had some.
    pub(crate) fn forget(&mut self) {
        self.named.clear();
    }
}

/// New stacks of a bin.
#[derive(Debug)]
pub(crate) struct BinStacks {
    day: Option<i64>,
    named: HashMap<i64, u32>,
}

/// The day of the rows; `None` if they are of several, as where the clock was set.
fn day_of(rows: &Rows) -> Option<i64> {
    let mut days = rows.intervals.iter().map(|row| row.start.0.div_euclid(DAY_US));
    let first = days.next()?;
    days.all(|day| day == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use pmuscope_dataset::{FrameRow, IntervalRow, StackRow, Timestamp};

    use super::*;

    /// A bin of a day with these stacks, each of one frame.
    fn bin(day: i64, stacks: &[(i64, Option<&str>)]) -> Rows {
        let interval = IntervalRow { start: Timestamp(day * DAY_US), ..IntervalRow::default() };
        let frame = |&(stack_id, function): &(i64, Option<&str>)| FrameRow {
            stack_id,
            function: function.map(Into::into),
            ..FrameRow::default()
        };
        let stack =
            |&(stack_id, _): &(i64, Option<&str>)| StackRow { stack_id, ..StackRow::default() };
        Rows {
            intervals: vec![interval],
            stacks: stacks.iter().map(stack).collect(),
            frames: stacks.iter().map(frame).collect(),
            ..Rows::default()
        }
    }

    /// Stacks that are left of a bin which is kept.
    fn kept(known: &mut KnownStacks, mut rows: Rows) -> Vec<i64> {
        let new = known.prune(&mut rows);
        known.add(new);
        assert_eq!(rows.frames.len(), rows.stacks.len());
        rows.stacks.iter().map(|row| row.stack_id).collect()
    }

    #[test]
    fn stacks_are_delivered_once_a_day_and_again_with_more_names() {
        let mut known = KnownStacks::default();
        assert_eq!(kept(&mut known, bin(1, &[(1, Some("f")), (2, None)])), [1, 2]);
        assert_eq!(kept(&mut known, bin(1, &[(1, Some("f")), (2, None), (3, None)])), [3]);
        assert_eq!(kept(&mut known, bin(1, &[(1, None), (2, Some("g"))])), [2]);
        assert_eq!(kept(&mut known, bin(2, &[(1, Some("f"))])), [1], "another folder");
        assert_eq!(kept(&mut known, bin(2, &[(1, Some("f"))])), [0_i64; 0]);
        known.forget();
        assert_eq!(kept(&mut known, bin(2, &[(1, Some("f"))])), [1]);
    }

    #[test]
    fn a_bin_that_is_not_kept_makes_nothing_known() {
        let mut known = KnownStacks::default();
        let _ = known.prune(&mut bin(1, &[(1, None)]));
        assert_eq!(kept(&mut known, bin(1, &[(1, None)])), [1]);
    }

    #[test]
    fn bins_of_two_days_bring_all_of_their_stacks() {
        let mut known = KnownStacks::default();
        kept(&mut known, bin(1, &[(1, None)]));
        let mut both = bin(1, &[(1, None)]);
        both.intervals.extend(bin(2, &[]).intervals);
        assert_eq!(kept(&mut known, both), [1]);
        assert_eq!(kept(&mut known, bin(2, &[(1, None)])), [1], "of which day is not known");
    }
}
