//! Whether a change helped: blocks of time before it against blocks after it.

use pmuscope_stats::{LEVEL, difference_of_means, ratio_of_means};
use serde::{Deserialize, Serialize};

/// What is compared before and after: the first of these that can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judge {
    /// What a command of the user prints.
    Metric,
    /// Instructions per second of all processes, in user space.
    Instructions,
    /// Bytes per second of all nodes' memory.
    Bandwidth,
    /// Only where memory and threads are; says nothing about speed.
    Locality,
}

impl Judge {
    /// Whether it measures speed. Only then is "not slower" claimed.
    #[must_use]
    pub fn is_speed(self) -> bool {
        self != Self::Locality
    }
}

impl std::fmt::Display for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Metric => "the metric",
            Self::Instructions => "instructions per second",
            Self::Bandwidth => "memory bandwidth of all nodes",
            Self::Locality => "locality only",
        })
    }
}

/// How after differs from before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedVerdict {
    /// More, beyond the noise.
    Better,
    /// Less, beyond the noise.
    Worse,
    /// Within the noise, or too little was measured.
    Same,
}

/// After against before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BeforeAfter {
    /// What it comes to.
    pub verdict: SpeedVerdict,
    /// Speed: after over before. Locality: after minus before.
    pub value: Option<f64>,
    /// 95 % interval of the value.
    pub interval: Option<(f64, f64)>,
    /// Blocks on the side that has fewer.
    pub n: usize,
}

/// A difference in locality below this is nobody's concern: sampled pages and ticks are no finer.
pub const LOCALITY_STEP: f64 = 0.02;

/// Speed, positive values where more is better: better or worse if the interval of the ratio (Welch) leaves
/// out 1.
#[must_use]
pub fn compare_speed(before: &[f64], after: &[f64]) -> BeforeAfter {
    let n = before.len().min(after.len());
    let Some(estimate) = ratio_of_means(before, after, LEVEL) else {
        return BeforeAfter { verdict: SpeedVerdict::Same, value: None, interval: None, n };
    };
    let verdict = match estimate.interval {
        Some(interval) if interval.low > 1.0 => SpeedVerdict::Better,
        Some(interval) if interval.high < 1.0 => SpeedVerdict::Worse,
        _ => SpeedVerdict::Same,
    };
    let interval = estimate.interval.map(|interval| (interval.low, interval.high));
    BeforeAfter { verdict, value: Some(estimate.value), interval, n: estimate.n }
}

/// Shares, locality above all: better or worse if the interval of the difference (Welch) leaves out 0 and the
/// difference is at least [`LOCALITY_STEP`].
#[must_use]
pub fn compare_shares(before: &[f64], after: &[f64]) -> BeforeAfter {
    let n = before.len().min(after.len());
    let Some(estimate) = difference_of_means(before, after, LEVEL) else {
        return BeforeAfter { verdict: SpeedVerdict::Same, value: None, interval: None, n };
    };
    let verdict = match estimate.interval {
        Some(interval) if interval.low > 0.0 && estimate.value >= LOCALITY_STEP => {
            SpeedVerdict::Better
        }
        Some(interval) if interval.high < 0.0 && estimate.value <= -LOCALITY_STEP => {
            SpeedVerdict::Worse
        }
        _ => SpeedVerdict::Same,
    };
    let interval = estimate.interval.map(|interval| (interval.low, interval.high));
    BeforeAfter { verdict, value: Some(estimate.value), interval, n: estimate.n }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_beyond_the_noise_only() {
        let quiet = [100.0, 101.0, 99.0, 100.5, 99.5];
        let faster = quiet.map(|value| value * 1.1);
        assert_eq!(compare_speed(&quiet, &faster).verdict, SpeedVerdict::Better);
        assert_eq!(compare_speed(&faster, &quiet).verdict, SpeedVerdict::Worse);
        assert_eq!(compare_speed(&quiet, &quiet).verdict, SpeedVerdict::Same);
        let noisy = [60.0, 140.0, 100.0, 80.0, 120.0];
        let noisy_faster = noisy.map(|value| value * 1.1);
        let comparison = compare_speed(&noisy, &noisy_faster);
        assert_eq!((comparison.verdict, comparison.n), (SpeedVerdict::Same, 5));
        assert!((comparison.value.unwrap() - 1.1).abs() < 1e-12);
    }

    #[test]
    fn too_little_is_no_difference() {
        assert_eq!(compare_speed(&[100.0], &[200.0]).verdict, SpeedVerdict::Same);
        assert_eq!(compare_speed(&[], &[200.0; 5]).verdict, SpeedVerdict::Same);
        assert_eq!(compare_speed(&[0.0; 5], &[200.0; 5]).value, None);
        assert_eq!(compare_shares(&[0.1], &[0.9]).verdict, SpeedVerdict::Same);
        assert_eq!(compare_shares(&[], &[0.9]).value, None);
    }

    #[test]
    fn locality_without_noise_needs_a_step() {
        assert_eq!(compare_shares(&[0.5; 5], &[1.0; 5]).verdict, SpeedVerdict::Better);
        assert_eq!(compare_shares(&[1.0; 5], &[0.5; 5]).verdict, SpeedVerdict::Worse);
        assert_eq!(compare_shares(&[0.5; 5], &[0.51; 5]).verdict, SpeedVerdict::Same);
        let wandering = [0.0, 1.0, 0.5, 1.0, 0.0];
        assert_eq!(compare_shares(&wandering, &[0.6; 5]).verdict, SpeedVerdict::Same);
    }

    #[test]
    fn only_three_judges_know_speed() {
        let all = [Judge::Metric, Judge::Instructions, Judge::Bandwidth, Judge::Locality];
        assert_eq!(all.map(Judge::is_speed), [true, true, true, false]);
    }
}
