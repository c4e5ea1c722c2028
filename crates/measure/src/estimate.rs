//! Estimates as they go into JSON.

use pmuscope_stats::{Estimate, Interval};
use serde::Serialize;

/// An interval with its nominal coverage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// 0.95 for 95 %.
    pub level: f64,
}

impl From<Interval> for Limits {
    fn from(interval: Interval) -> Self {
        Self { low: interval.low, high: interval.high, level: interval.level }
    }
}

/// A number, how far it can be trusted, and how many runs stand behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimated {
    /// The estimate.
    pub value: f64,
    /// `None`: too few runs.
    pub interval: Option<Limits>,
    /// Runs, or pairs of runs.
    pub n: usize,
    /// Why there is no interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

impl From<Estimate> for Estimated {
    fn from(estimate: Estimate) -> Self {
        let interval = estimate.interval.map(Limits::from);
        let why = interval.is_none().then_some("too few runs for a confidence interval");
        Self { value: estimate.value, interval, n: estimate.n, why }
    }
}

/// Where resampling starts: fixed, so that one file always gives the same intervals.
pub(crate) const SEED: u64 = 0x7275_6e73_0000_0001;
