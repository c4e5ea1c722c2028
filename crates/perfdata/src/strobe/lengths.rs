//! The actual lengths of the windows of a recording, which may differ from the requested length.

use super::{Epoch, StrobeInfo};

/// Lengths of windows by the offsets of epochs, in units of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// The shortest.
    pub shortest: u64,
    /// The one in the middle: half of the epochs have one that is not longer.
    pub median: u64,
    /// The longest.
    pub longest: u64,
    /// Where a shorter one was aimed at than there can be: what the two system calls take that enable
    /// the events.
    pub calls: Option<u64>,
    /// Whether the recording asked for windows of many lengths.
    pub jitter: bool,
}

impl Lengths {
    /// Shortest and longest, where that is more than the scatter of one length.
    #[must_use]
    pub fn varied(&self) -> Option<(u64, u64)> {
        (self.jitter && self.shortest < self.longest).then_some((self.shortest, self.longest))
    }
}

impl StrobeInfo {
    /// Lengths as recorded; `None` where there is no epoch, as in the copies in the stream.
    #[must_use]
    pub fn lengths(&self) -> Option<Lengths> {
        let mut lengths: Vec<u64> = self.epochs.iter().filter_map(Epoch::length).collect();
        lengths.sort_unstable();
        let too_long = |epoch: &&Epoch| {
            epoch
                .length()
                .is_some_and(|length| length > epoch.window.saturating_add(self.tolerance))
        };
        Some(Lengths {
            shortest: *lengths.first()?,
            median: *lengths.get((lengths.len() - 1) / 2)?,
            longest: *lengths.last()?,
            // Any other try is not accepted.
            calls: self.epochs.iter().filter(too_long).filter_map(Epoch::length).min(),
            jitter: self.jitter > 0,
        })
    }
}

impl Epoch {
    /// How long its windows are. Those of a burst are of one length.
    fn length(&self) -> Option<u64> {
        self.offsets.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(tolerance: u64, epochs: &[(u64, u64)]) -> Option<Lengths> {
        let epoch = |&(window, offset): &(u64, u64)| {
            let offsets = vec![offset, 2 * offset];
            Epoch { window, offsets, ..Epoch::default() }
        };
        let epochs = epochs.iter().map(epoch).collect();
        StrobeInfo { tolerance, epochs, ..StrobeInfo::default() }.lengths()
    }

    #[test]
    fn lengths_are_the_offsets_of_epochs() {
        let found = lengths(30, &[(332, 332), (378, 380), (340, 338)]).unwrap();
        assert_eq!((found.shortest, found.median, found.longest), (332, 338, 380));
        assert_eq!(found.calls, None);
        assert_eq!(lengths(30, &[]), None);
    }

    #[test]
    fn what_the_calls_take_is_told_where_less_was_aimed_at() {
        let found = lengths(2, &[(20, 88), (20, 88)]).unwrap();
        assert_eq!((found.median, found.calls), (88, Some(88)));
        let found = lengths(2, &[(200, 201), (40, 90), (20, 88)]).unwrap();
        assert_eq!((found.shortest, found.longest, found.calls), (88, 201, Some(88)));
    }
}
