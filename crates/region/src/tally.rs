//! What a thread has counted in a region.

use pmuscope_counters::OwnCounts;

use crate::blocks::Blocks;

/// What one entry into a region has counted.
pub(crate) struct Counted<'a> {
    /// At the entry and at the exit; `None` where nothing could be read.
    pub(crate) between: Option<(&'a OwnCounts, &'a OwnCounts)>,
    /// Units of work that it did.
    pub(crate) units: f64,
    /// Entries into regions within it.
    pub(crate) inner: u64,
}

/// Sums over all entries of a thread into a region.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Entries that were counted all of the time.
    pub(crate) whole: u64,
    /// Entries that were counted a part of the time: in none of the sums.
    pub(crate) partly: u64,
    /// Entries of which nothing is known.
    pub(crate) unmeasured: u64,
    /// Entries into regions within those that were counted.
    pub(crate) inner: u64,
    /// Units of work of those that were counted.
    pub(crate) units: f64,
    /// Looks at the counters that took no system call.
    pub(crate) in_user_space: u64,
    /// Looks at the counters by `read(2)`.
    pub(crate) by_call: u64,
    /// Nanoseconds between the readings, while the thread ran; `None` if a reading could not tell.
    pub(crate) enabled_ns: Option<u64>,
    /// Of these, nanoseconds that were not counted.
    pub(crate) missed_ns: u64,
    /// Of each event.
    pub(crate) totals: Vec<u64>,
    /// Units and counts by block.
    pub(crate) blocks: Blocks,
}

impl Tally {
    /// Nothing yet, of so many events.
    pub(crate) fn new(events: usize) -> Self {
        Self {
            whole: 0,
            partly: 0,
            unmeasured: 0,
            inner: 0,
            units: 0.0,
            in_user_space: 0,
            by_call: 0,
            enabled_ns: Some(0),
            missed_ns: 0,
            totals: vec![0; events],
            blocks: Blocks::new(events + 1),
        }
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, counted: &Counted<'_>) {
        let Some((before, after)) = counted.between else {
            self.unmeasured += 1;
            return;
        };
        for reading in [before, after] {
            let readings =
                if reading.in_user_space { &mut self.in_user_space } else { &mut self.by_call };
            *readings += 1;
        }
        let missed = after.missed_ns.saturating_sub(before.missed_ns);
        self.missed_ns += missed;
        self.enabled_ns = self
            .enabled_ns
            .zip(after.enabled_ns.zip(before.enabled_ns))
            .map(|(sum, (after, before))| sum.saturating_add(after.saturating_sub(before)));
        if missed > 0 {
            self.partly += 1;
            return;
        }
        self.whole += 1;
        self.inner += counted.inner;
        self.units += counted.units;
        // A count may pass 2^64; what lies between two readings does not.
        let difference = |event: usize| after.counts[event].wrapping_sub(before.counts[event]);
        for (event, total) in self.totals.iter_mut().enumerate() {
            *total = total.saturating_add(difference(event));
        }
        let counts = (0..self.totals.len()).map(|event| difference(event) as f64);
        self.blocks.add(std::iter::once(counted.units).chain(counts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(count: u64, missed_ns: u64, enabled_ns: Option<u64>) -> OwnCounts {
        let mut counts = [0; pmuscope_counters::MAX_OWN_EVENTS];
        counts[0] = count;
        OwnCounts { counts, missed_ns, enabled_ns, in_user_space: enabled_ns.is_none() }
    }

    fn add(tally: &mut Tally, before: &OwnCounts, after: &OwnCounts) {
        tally.add(&Counted { between: Some((before, after)), units: 2.0, inner: 3 });
    }

    #[test]
    fn a_count_that_wraps_is_still_a_difference() {
        let mut tally = Tally::new(1);
        add(&mut tally, &reading(u64::MAX - 4, 0, Some(10)), &reading(5, 0, Some(30)));
        assert_eq!((tally.whole, tally.totals[0], tally.inner), (1, 10, 3));
        assert_eq!((tally.units, tally.enabled_ns, tally.by_call), (2.0, Some(20), 2));
    }

    #[test]
    fn what_was_not_counted_all_of_the_time_is_in_no_sum() {
        let mut tally = Tally::new(1);
        add(&mut tally, &reading(100, 5, Some(10)), &reading(200, 9, Some(110)));
        tally.add(&Counted { between: None, units: 1.0, inner: 0 });
        add(&mut tally, &reading(300, 9, Some(200)), &reading(350, 9, None));
        assert_eq!((tally.whole, tally.partly, tally.unmeasured), (1, 1, 1));
        assert_eq!((tally.totals[0], tally.missed_ns, tally.units), (50, 4, 2.0));
        assert_eq!((tally.enabled_ns, tally.in_user_space, tally.by_call), (None, 1, 3));
        assert_eq!(tally.blocks.iter().map(|(entries, _)| entries).sum::<u64>(), 1);
    }
}
