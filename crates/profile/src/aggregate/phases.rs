//! Phases of a program that are too long for the recording, so that nothing is known about chance.

use pmuscope_stats::{MIN_PHASES, Share};

/// Rows of at least this share of all show the phases of the program; what runs in one short stretch only
/// (its start) says little about what runs all the time.
const LARGE: f64 = 0.05;

/// Why there are no intervals: the recording holds fewer than [`MIN_PHASES`] phases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongPhases {
    /// Length of a phase, seconds, by the row where it is longest; at most that of the recording, as longer ones are
    /// not seen.
    pub seconds: f64,
    /// Length of the recording, seconds.
    pub recorded: f64,
}

impl LongPhases {
    /// Of the shares of rows over a recording of that many seconds; `None` where no row proves them too long.
    pub(crate) fn of(shares: &[Option<Share>], recorded: f64) -> Option<Self> {
        let is_large = |share: &&Share| (LARGE..=1.0 - LARGE).contains(&share.share);
        let few = shares.iter().flatten().filter(is_large).map(|share| share.long_run);
        let fewest = few.filter(|run| !run.is_enough()).map(|run| run.phases).reduce(f64::min)?;
        Some(Self { seconds: recorded / fewest.max(1.0), recorded })
    }

    /// The shares without intervals where one of them proves phases too long for the recording: a rare row's own
    /// samples are too few to show the phases it runs in.
    pub(crate) fn judge(mut shares: Vec<Option<Share>>) -> Vec<Option<Share>> {
        if Self::of(&shares, 1.0).is_some() {
            shares.iter_mut().flatten().for_each(|share| share.interval = None);
        }
        shares
    }

    /// Phases that the recording holds, 1 or more.
    #[must_use]
    pub fn seen(&self) -> f64 {
        self.recorded / self.seconds
    }

    /// The longer ones of two.
    #[must_use]
    pub fn longer(self, other: Self) -> Self {
        if other.seconds > self.seconds { other } else { self }
    }

    /// Seconds of recording that would hold enough of them.
    #[must_use]
    pub fn enough(&self) -> f64 {
        MIN_PHASES * self.seconds
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_stats::Shares;

    use super::*;

    /// A row that runs in the first `blocks` of 200 blocks and nowhere else.
    fn first(blocks: usize) -> Option<Share> {
        let parts: Vec<f64> = (0..200).map(|at| if at < blocks { 10.0 } else { 0.0 }).collect();
        Shares::new(&[10.0; 200]).unwrap().share(&parts)
    }

    #[test]
    fn a_row_that_runs_for_half_of_the_time_proves_long_phases() {
        let found = LongPhases::of(&[None, first(100)], 8.0).unwrap();
        assert!((0.5..20.0).contains(&found.seconds), "{found:?}");
        assert!(found.enough() > found.recorded, "{found:?}");
    }

    #[test]
    fn the_start_of_a_program_proves_nothing_about_the_rest() {
        assert_eq!(first(6).unwrap().interval, None);
        assert_eq!(LongPhases::of(&[first(6)], 8.0), None);
    }
}
