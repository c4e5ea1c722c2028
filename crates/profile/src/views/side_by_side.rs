//! Several events side by side: a row once, with its share of each.

use pmuscope_stats::Interval;
use rustc_hash::FxHashMap;

use super::{Key, Row};

/// A row's part of one event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SideShare {
    /// Samples in it.
    pub samples: u64,
    /// Of all weight of the event, 0 to 1.
    pub share: f64,
    /// 95 % interval of the share.
    pub interval: Option<Interval>,
}

/// A row of several events.
#[derive(Debug, Clone, PartialEq)]
pub struct SideRow {
    /// One per dimension.
    pub keys: Vec<Key>,
    /// One per event, in their order; `None` where the event has no sample in it.
    pub shares: Vec<Option<SideShare>>,
}

impl SideRow {
    /// Its largest share of any event.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.shares.iter().flatten().map(|one| one.share).fold(0.0, f64::max)
    }
}

/// Rows of several events by the same dimensions, put together; the largest share of the first event
/// first, then of the second. Rows that no sample was taken in, which are only under others, are left
/// out.
#[must_use]
pub fn side_by_side(events: Vec<Vec<Row>>) -> Vec<SideRow> {
    let number = events.len();
    let mut at: FxHashMap<Vec<Key>, usize> = FxHashMap::default();
    let mut found: Vec<SideRow> = Vec::new();
    for (event, rows) in events.into_iter().enumerate() {
        for row in rows.into_iter().filter(|row| row.own.samples > 0) {
            let (samples, share, interval) = (row.own.samples, row.share, row.interval);
            let place = *at.entry(row.keys).or_insert_with_key(|keys| {
                found.push(SideRow { keys: keys.clone(), shares: vec![None; number] });
                found.len() - 1
            });
            found[place].shares[event] = Some(SideShare { samples, share, interval });
        }
    }
    let share = |one: &Option<SideShare>| one.map_or(0.0, |one| one.share);
    found.sort_by(|a, b| {
        let by_share = a.shares.iter().zip(&b.shares).map(|(a, b)| share(b).total_cmp(&share(a)));
        by_share
            .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            .then_with(|| a.keys.cmp(&b.keys))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::Sums;
    use super::*;

    fn row(name: &str, samples: u64) -> Row {
        let sums = Sums { samples, weight: samples };
        let share = samples as f64 / 100.0;
        let keys = vec![Key::Name(name.into())];
        Row { keys, own: sums, total: sums, share, total_share: share, interval: None }
    }

    #[test]
    fn each_row_is_there_once_with_all_its_events() {
        let cycles = vec![row("a", 60), row("b", 40), row("main", 0)];
        let misses = vec![row("c", 70), row("b", 25), row("d", 5)];
        let found = side_by_side(vec![cycles, misses]);
        let shares = |row: &SideRow| {
            let shares: Vec<u64> =
                row.shares.iter().map(|one| one.map_or(0, |one| one.samples)).collect();
            (row.keys.clone(), shares)
        };
        let name = |name: &str| vec![Key::Name(name.into())];
        assert_eq!(
            found.iter().map(shares).collect::<Vec<_>>(),
            [
                (name("a"), vec![60, 0]),
                (name("b"), vec![40, 25]),
                (name("c"), vec![0, 70]),
                (name("d"), vec![0, 5])
            ]
        );
        assert_eq!((found[1].largest(), found[0].shares[1]), (0.4, None));
    }
}
