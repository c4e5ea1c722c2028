//! How many bytes may be moved, and when.

use std::time::Duration;

/// A token bucket over bytes. In every stretch of a second or more, at most the rate times its length is
/// moved, from whenever it begins: what may be granted at once and what flows in during a second add up to
/// the rate, and nothing flows in while pages are being moved, however long that takes.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Bytes that flow in per second.
    inflow: f64,
    /// Bytes that can be there at once.
    depth: f64,
    level: f64,
    at: Duration,
}

/// Why a budget cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{rate} bytes per second are too few: pages move in units of {unit} bytes, which need a budget \
     of at least {least}"
)]
pub struct TooSmall {
    /// What was asked for, bytes per second.
    pub rate: u64,
    /// What moves as a whole, bytes.
    pub unit: u64,
    /// The smallest that can be, bytes per second.
    pub least: u64,
}

impl Budget {
    /// `rate` bytes per second, where `unit` bytes move as a whole (a huge page). Nothing is there yet at
    /// time 0.
    ///
    /// # Errors
    /// [`TooSmall`] if the rate is less than two units per second.
    pub fn new(rate: u64, unit: u64) -> Result<Self, TooSmall> {
        let least = 2 * unit.max(1);
        if rate < least {
            return Err(TooSmall { rate, unit, least });
        }
        let depth = (rate / 10).max(unit) as f64;
        Ok(Self { inflow: rate as f64 - depth, depth, level: 0.0, at: Duration::ZERO })
    }

    /// Bytes per second of a move that takes long, at least: what flows in, less what waiting costs.
    #[must_use]
    pub fn long_run_rate(&self) -> f64 {
        0.95 * self.inflow
    }

    /// What may be moved now, bytes: nothing, or all that is wanted, or as much as is ever granted at once. At least
    /// one of `unit`. Once it is moved, [`Budget::moved`] must be told.
    ///
    /// Never only a part of that: each move has its own cost on all CPUs, however little is moved.
    pub fn take(&mut self, now: Duration, wanted: u64, unit: u64) -> u64 {
        // Time that goes backwards brings nothing.
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        self.level = (self.level + passed.as_secs_f64() * self.inflow).min(self.depth);
        let granted = self.at_once(wanted, unit);
        if self.level < granted {
            return 0;
        }
        self.level -= granted;
        granted as u64
    }

    fn at_once(&self, wanted: u64, unit: u64) -> f64 {
        (wanted.max(unit) as f64).min(self.depth.floor())
    }

    /// What was granted has been moved by now, but for the bytes that are left.
    pub fn moved(&mut self, now: Duration, left: u64) {
        self.at = self.at.max(now);
        self.level = (self.level + left as f64).min(self.depth);
    }

    /// How long until [`Budget::take`] grants that.
    #[must_use]
    pub fn wait_for(&self, wanted: u64, unit: u64) -> Duration {
        let missing = (self.at_once(wanted, unit) - self.level).max(0.0);
        // A little more, so that rounding does not cost another wait.
        Duration::from_secs_f64(missing / self.inflow) + Duration::from_millis(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn less_than_two_units_per_second_is_refused() {
        let error = Budget::new(1 << 20, 2 << 20).unwrap_err();
        assert_eq!(error.least, 4 << 20);
        assert!(Budget::new(4 << 20, 2 << 20).is_ok());
    }

    #[test]
    fn nearly_all_of_the_rate_is_granted_in_the_long_run() {
        let (rate, unit) = (64 << 20, 2 << 20);
        let mut budget = Budget::new(rate, unit).unwrap();
        let mut now = Duration::ZERO;
        let mut sum = 0;
        while now < Duration::from_secs(100) {
            sum += budget.take(now, u64::MAX, unit);
            now += budget.wait_for(u64::MAX, unit);
        }
        assert!(sum as f64 > 100.0 * budget.long_run_rate(), "{sum}");
        assert!(budget.long_run_rate() > 0.85 * rate as f64);
    }

    proptest! {
        /// Against all pairs of grants.
        #[test]
        fn no_stretch_of_a_second_or_more_gets_more_than_the_rate(
            rate in 4_000_000u64..1_000_000_000,
            unit in prop::sample::select(vec![4096u64, 65_536, 2_000_000]),
            asks in prop::collection::vec(
                (0.0..0.7f64, 0u64..500_000_000, 0.0..1.0f64, 0.0..3.0f64),
                1..60,
            ),
        ) {
            let mut budget = Budget::new(rate, unit).unwrap();
            let mut now = 0.0;
            let mut grants = Vec::new();
            for (pause, wanted, moved, takes) in asks {
                now += pause;
                let granted = budget.take(Duration::from_secs_f64(now), wanted, unit);
                prop_assert!(granted == 0 || granted >= unit);
                let used = (granted as f64 * moved) as u64;
                if granted > 0 {
                    now += takes;
                    budget.moved(Duration::from_secs_f64(now), granted - used);
                    grants.push((now, used));
                }
            }
            for first in 0..grants.len() {
                let mut sum = 0;
                for last in first..grants.len() {
                    sum += grants[last].1;
                    let length = (grants[last].0 - grants[first].0).max(1.0);
                    prop_assert!(sum as f64 <= rate as f64 * length + 1.0, "{sum} in {length} s");
                }
            }
        }
    }
}
