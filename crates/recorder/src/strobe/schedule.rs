//! Which period and which window an epoch gets.
//!
//! A program whose work repeats in step with the sampling period is always met at the same place. So
//! each epoch has a period of its own: a prime (of granules) near the one asked for, so that it shares
//! no factor with the program's.

/// Periods lie within this part of the one asked for, to either side.
const SPREAD: f64 = 0.03;

/// What epochs are drawn from. All numbers but the granule are units of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Period asked for.
    pub(crate) period: u64,
    /// Window asked for.
    pub(crate) window: u64,
    /// A window is drawn from `window` to `window + jitter`.
    pub(crate) jitter: u64,
    /// What counts are multiples of.
    pub(crate) granule: u64,
}

impl Schedule {
    /// The shortest period that an epoch may get.
    pub(crate) fn shortest_period(&self) -> u64 {
        (self.period as f64 * (1.0 - SPREAD)) as u64
    }

    /// A period and a window; `random` gives numbers from 0 to below 1.
    pub(crate) fn draw(&self, mut random: impl FnMut() -> f64) -> (u64, u64) {
        let granule = self.granule.max(1);
        let factor = 1.0 - SPREAD + 2.0 * SPREAD * random();
        let near = (self.period as f64 * factor / granule as f64) as u64;
        let window = self.window + (self.jitter as f64 * random()).round() as u64;
        (granule * next_prime(near), (window.next_multiple_of(granule)).max(granule))
    }
}

/// The smallest prime of at least `number`, and at least 2.
fn next_prime(number: u64) -> u64 {
    (number.max(2)..).find(|&candidate| is_prime(candidate)).unwrap_or(number)
}

fn is_prime(number: u64) -> bool {
    number >= 2
        && (2..)
            .take_while(|d: &u64| d.saturating_mul(*d) <= number)
            .all(|d| !number.is_multiple_of(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_primes_of_granules_near_what_was_asked() {
        let schedule = Schedule { period: 1_000_000, window: 300, jitter: 0, granule: 8 };
        let mut seen = std::collections::BTreeSet::new();
        for step in 0..50 {
            let (period, window) = schedule.draw(|| f64::from(step) / 50.0);
            assert!(period % 8 == 0 && is_prime(period / 8), "{period}");
            assert!((970_000 - 8..1_031_000).contains(&period), "{period}");
            assert!(period >= schedule.shortest_period() - 8);
            assert_eq!(window, 304, "a multiple of the granule, not shorter than asked");
            seen.insert(period);
        }
        assert_eq!(seen.len(), 50);
    }

    #[test]
    fn jitter_lengthens_windows_only() {
        let schedule = Schedule { period: 1000, window: 300, jitter: 60, granule: 1 };
        assert_eq!((schedule.draw(|| 0.0).1, schedule.draw(|| 0.999).1), (300, 360));
    }

    #[test]
    fn primes() {
        assert_eq!([0, 2, 8, 90, 199_990].map(next_prime), [2, 2, 11, 97, 199_999]);
    }
}
