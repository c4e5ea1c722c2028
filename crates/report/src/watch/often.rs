//! Values that hits found, and changes of values: which of them came often.

use pmuscope_profile::hits::{Frequent, Hits, TargetHits};

use super::sheets;
use super::{WatchView, words::of_hits};
use crate::number::count;
use crate::section::{Body, Section};
use crate::sheet::Sheet;

/// A value, or a change of values, has a row only if it is that large a part.
const FREQUENT: f64 = 0.01;

/// Values of a target, or pairs of an old and a new one.
pub(super) struct Often {
    pub(super) is_pair: bool,
    /// Of all hits.
    pub(super) total: u64,
    /// How many there were; `None` where they are too many.
    pub(super) distinct: Option<u64>,
    /// By how much a count may be too small.
    pub(super) short_by: u64,
    /// Of hits that have no row.
    pub(super) others: u64,
    pub(super) rows: Vec<OftenRow>,
}

/// A value, or a change from `old` to `new`, or what is in no other row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OftenRow {
    pub(super) is_others: bool,
    pub(super) point: u32,
    pub(super) old: u64,
    pub(super) new: u64,
    pub(super) hits: u64,
}

impl Often {
    pub(super) fn values(target: &TargetHits) -> Self {
        let row = |&((point, new), hits): &_| OftenRow { point, new, hits, ..OftenRow::default() };
        Self::new(false, &target.values, row)
    }

    pub(super) fn changes(target: &TargetHits) -> Self {
        let row =
            |&((point, old, new), hits): &_| OftenRow { is_others: false, point, old, new, hits };
        Self::new(true, &target.transitions, row)
    }

    fn new<K>(is_pair: bool, of: &Frequent<K>, row: impl Fn(&(K, u64)) -> OftenRow) -> Self {
        let Frequent { total, distinct, short_by, .. } = *of;
        let rows = of.rows.iter().map(row).collect();
        Self { is_pair, total, distinct, short_by, others: of.others(), rows }
    }

    /// The rows that are worth it, at most `limit`, and what is in none of them.
    fn frequent(&self, limit: usize) -> Vec<OftenRow> {
        let is_frequent = |row: &&OftenRow| {
            row.hits > 1 && row.hits as f64 >= FREQUENT * self.total.max(1) as f64
        };
        let mut rows: Vec<_> = self.rows.iter().filter(is_frequent).take(limit).copied().collect();
        let shown = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.hits));
        let hits = self.total.saturating_sub(shown);
        if hits > 0 && !rows.is_empty() {
            rows.push(OftenRow { is_others: true, hits, ..OftenRow::default() });
        }
        rows
    }

    /// The part of a page, and of a text unless it is `for_pages`.
    pub(super) fn section<'b>(
        &self,
        view: WatchView<'_>,
        target: &TargetHits,
        for_pages: bool,
    ) -> Section<'b> {
        let what = if self.is_pair { "changes" } else { "values" };
        let section = Section::new("", format!("Most frequent {what}")).beside();
        if self.total == 0 {
            return section;
        }
        let distinct = match self.distinct {
            Some(number) => format!("{} distinct", count(number)),
            None => "too many to count exactly".to_owned(),
        };
        let short = match self.short_by {
            0 => String::new(),
            short => format!("; counts may be low by up to {}", count(short)),
        };
        let rows = self.frequent(view.limits.values);
        let section = section
            .about(format!("{distinct}, in {}{short}.", of_hits(target, self.total)))
            .for_pages(for_pages || rows.is_empty());
        if rows.is_empty() {
            let seldom = match self.rows.first().map(|row| row.hits) {
                Some(2..) => "None reaches 1%.",
                _ => "None occurred twice.",
            };
            return section.with(Body::Line(seldom.to_owned()));
        }
        section.sheet(self.sheet(view.hits, target, &rows))
    }

    /// All of it, or some `rows`.
    pub(super) fn sheet<'b>(
        &self,
        hits: &Hits,
        target: &TargetHits,
        rows: &[OftenRow],
    ) -> Sheet<'b> {
        // Counts may be too small, or stand for more.
        let sign = match (self.short_by > 0, target.written > target.records) {
            (true, _) => "≥ ",
            (false, true) => "~",
            (false, false) => "",
        };
        sheets::often(hits, self, rows, sign)
    }
}
