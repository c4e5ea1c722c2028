//! How windows came about, as the recording has it, which need not be as asked for.

use pmuscope_perfdata::strobe::StrobeInfo;

use super::WindowKind;

impl WindowKind {
    /// Windows of this event, of which nothing else is known.
    pub(super) fn of(event: String) -> Self {
        Self {
            event,
            window: None,
            range: None,
            asked: None,
            calls: None,
            period: None,
            burst: 1,
            strobed: false,
        }
    }

    /// Windows between two events that are out of phase.
    pub(super) fn strobed(strobe: &StrobeInfo) -> Self {
        let lengths = strobe.lengths();
        Self {
            // A recording that was killed at once has no epoch.
            window: Some(lengths.map_or(strobe.window, |one| one.median)),
            range: lengths.and_then(|one| one.varied()),
            asked: Some(strobe.window),
            calls: lengths.and_then(|one| one.calls),
            period: Some(strobe.period),
            burst: strobe.burst.max(1),
            strobed: true,
            ..Self::of(strobe.event.clone())
        }
    }

    /// What the length should be: two recordings with the same one differ by chance only.
    #[must_use]
    pub fn intended(&self) -> Option<u64> {
        self.calls.or(self.asked).or(self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::strobe::Epoch;

    fn kind(window: u64, jitter: u64, offsets: &[u64]) -> WindowKind {
        let epoch = |&offset: &u64| Epoch { window, offsets: vec![offset], ..Epoch::default() };
        let epochs = offsets.iter().map(epoch).collect();
        let tolerance = (window / 10).max(jitter);
        WindowKind::strobed(&StrobeInfo {
            window,
            jitter,
            tolerance,
            epochs,
            ..StrobeInfo::default()
        })
    }

    #[test]
    fn lengths_are_those_of_the_recording() {
        let calls = kind(20, 0, &[88, 88]);
        assert_eq!((calls.window, calls.asked, calls.calls), (Some(88), Some(20), Some(88)));
        let jitter = kind(300, 100, &[332, 378, 332]);
        assert_eq!(
            (jitter.window, jitter.range, jitter.calls),
            (Some(332), Some((332, 378)), None)
        );
        let scattered = kind(300, 0, &[299, 300, 301]);
        assert_eq!((scattered.window, scattered.range), (Some(300), None));
        assert_eq!(kind(300, 0, &[]).window, Some(300));
    }

    #[test]
    fn what_scatters_is_meant_to_be_of_one_length() {
        let meant = |window, offset| kind(window, 0, &[offset]).intended();
        assert_eq!(meant(300, 299), meant(300, 301));
        assert_eq!(meant(20, 88), Some(88));
    }
}
