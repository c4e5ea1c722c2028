//! The sampling rate that keeps the budget.
//!
//! ```text
//!  after some bins:  overhead = (CPU time of the agent + samples · kernel's part) / (time · CPUs)
//!    above the budget             ► a lower rate for the next bins, at least a quarter of this one
//!      unless samples are less than a tenth of it, by what fewer of them have saved since the rate was lowered first:
//!
//!  overhead  ┤ ●  first lowered from here                the line through both, down to no sample at all,
//!            ┤      ╲___                                 tells what samples cost now
//!            ┤          ● now
//!            └─┴────────┴── samples per second
//!
//!    below half of it             ► up to twice the rate, never above what is configured
//! ```
//! Rates are primes: they are in step with nothing that a machine does at regular times. Events are opened again for a new
//! rate, so that each sample stands for the time of its own.

/// What the kernel spends on a sample with its call stack, seconds: an upper bound of what docs/benchmarks.md has.
const KERNEL_S: f64 = 5e-6;
/// Part of the budget that a lower rate is to use, so that noise does not carry it over.
const AIM: f64 = 0.8;
/// Below this part of the budget the rate may rise again.
const RELAX_BELOW: f64 = 0.5;
/// A rate falls to this part of itself at most at once: one odd bin is no reason for silence.
const STEP: f64 = 0.25;
/// A lower rate is of no use where samples are less than this part of the overhead.
const LEAST_OF_SAMPLES: f64 = 0.1;
/// An overhead this many times as large as the one from which the rate was lowered first is another matter.
const ANOTHER_MATTER: f64 = 1.5;

/// What bins have cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct BinCost {
    /// CPU time of the agent, seconds.
    pub(crate) cpu_s: f64,
    /// Samples.
    pub(crate) samples: u64,
    /// Length, seconds.
    pub(crate) seconds: f64,
    /// CPUs of the machine.
    pub(crate) cpus: usize,
}

impl BinCost {
    /// Both together.
    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu_s += other.cpu_s;
        self.samples += other.samples;
        self.seconds += other.seconds;
        self.cpus = self.cpus.max(other.cpus);
    }

    /// Samples per second.
    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.samples as f64 / self.seconds } else { 0.0 }
    }

    /// The part of the overhead that samples are of, by an earlier cost at a higher rate; `None` where that says nothing.
    pub(crate) fn overhead_of_samples(&self, before: &Self) -> Option<f64> {
        let (fewer, saved) = (before.rate() - self.rate(), before.overhead() - self.overhead());
        let says = fewer > 0.0 && self.overhead() < ANOTHER_MATTER * before.overhead();
        says.then(|| saved / fewer * self.rate())
    }

    /// CPU time that recording took, as a part of the machine's, 0 to 1.
    pub(crate) fn overhead(&self) -> f64 {
        let all = self.seconds * self.cpus.max(1) as f64;
        if all > 0.0 { (self.cpu_s + self.samples as f64 * KERNEL_S) / all } else { 0.0 }
    }
}

/// The rate of the next bins, if it has to change: from `now`, with a budget of 0 to 1 of the machine, and never above
/// `configured`. `before` is what bins had cost when the rate was lowered first.
pub(crate) fn next_rate(
    now: u64,
    configured: u64,
    budget: f64,
    cost: &BinCost,
    before: Option<&BinCost>,
) -> Option<u64> {
    let overhead = cost.overhead();
    let wanted = if overhead > budget {
        let of_samples = before.and_then(|before| cost.overhead_of_samples(before));
        if of_samples.is_some_and(|of_samples| of_samples < LEAST_OF_SAMPLES * overhead) {
            return None;
        }
        now as f64 * (AIM * budget / overhead).max(STEP)
    } else if overhead < RELAX_BELOW * budget && now < configured {
        (now as f64 * (AIM * budget / overhead.max(1e-9)).min(2.0)).min(configured as f64)
    } else {
        return None;
    };
    // What is configured need not be a prime.
    let rate = if wanted >= configured as f64 { configured } else { prime_up_to(wanted as u64) };
    (rate != now).then_some(rate)
}

/// The greatest prime that is not above a number; 1 where there is none.
fn prime_up_to(number: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (2..=number).rev().find(is_prime).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(cpu_s: f64, samples: u64) -> BinCost {
        BinCost { cpu_s, samples, seconds: 10.0, cpus: 2 }
    }

    #[test]
    fn overhead_is_of_the_whole_machine_and_has_the_kernels_part() {
        assert!((cost(0.1, 2000).overhead() - (0.1 + 0.01) / 20.0).abs() < 1e-12);
        assert!((BinCost { seconds: 0.0, ..cost(1.0, 1) }).overhead().abs() < 1e-12);
    }

    #[test]
    fn the_rate_falls_above_the_budget_and_rises_to_what_is_configured() {
        // 1% where 0.5% may be: 100 Hz become 40, of which 37 is prime.
        assert_eq!(next_rate(100, 100, 0.005, &cost(0.2, 0), None), Some(37));
        // Far above it, a quarter at once.
        assert_eq!(next_rate(100, 100, 0.005, &cost(10.0, 0), None), Some(23));
        assert_eq!(next_rate(37, 100, 0.005, &cost(0.08, 0), None), None, "within the budget");
        assert_eq!(next_rate(37, 100, 0.005, &cost(0.01, 0), None), Some(73));
        assert_eq!(next_rate(73, 100, 0.005, &cost(0.01, 0), None), Some(100));
        assert_eq!(next_rate(100, 100, 0.005, &cost(0.01, 0), None), None);
        assert_eq!(next_rate(1, 100, 0.005, &cost(10.0, 0), None), None, "slower is off");
        // A third of the samples, and little saved: the rest is not what samples cost. Far more than before is another matter.
        let now = cost(0.2, 740);
        assert_eq!(next_rate(37, 100, 0.005, &now, Some(&cost(0.21, 2000))), None);
        assert_eq!(next_rate(37, 100, 0.005, &now, Some(&cost(0.15, 2000))), None);
        assert_eq!(next_rate(37, 100, 0.005, &now, Some(&cost(0.4, 2000))), Some(13));
        assert_eq!(next_rate(37, 100, 0.005, &now, Some(&cost(0.1, 2000))), Some(13));
        let mut two = cost(0.1, 2000);
        two.add(&cost(0.3, 2000));
        assert_eq!(two, BinCost { cpu_s: 0.4, samples: 4000, seconds: 20.0, cpus: 2 });
    }

    proptest! {
        /// Whatever a machine costs by sample, some bins later the overhead is within the budget, or the rate is the least, or a
        /// lower one is of no use.
        #[test]
        fn the_budget_is_kept_after_some_bins(
            own_s in 1e-6..1e-3_f64, fixed_s in 0.0..0.05_f64, configured in 1_u64..1000, budget in 0.001..0.05_f64,
        ) {
            let of = |rate: u64| {
                let samples = rate * 2 * 10;
                cost(fixed_s + own_s * samples as f64, samples)
            };
            let (mut rate, mut before) = (configured, None);
            for _ in 0..12 {
                let next = next_rate(rate, configured, budget, &of(rate), before.as_ref()).unwrap_or(rate);
                if next < rate {
                    let now = of(rate);
                    before = before.filter(|before| now.overhead_of_samples(before).is_some());
                    before = before.or(Some(now));
                }
                rate = next;
                prop_assert!((1..=configured).contains(&rate));
            }
            let overhead = of(rate).overhead();
            let of_samples = overhead - cost(fixed_s, 0).overhead();
            let is_of_no_use = before.is_some() && of_samples < 0.101 * overhead;
            prop_assert!(overhead <= budget || rate < 3 || is_of_no_use, "{rate} Hz: {overhead}");
        }
    }
}
