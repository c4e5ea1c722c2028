//! Estimates and their confidence intervals.

/// A confidence interval: a procedure that, repeated, covers the true value in `level` of cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end, in the unit of the estimate.
    pub low: f64,
    /// Upper end, in the unit of the estimate.
    pub high: f64,
    /// Nominal coverage, for example 0.95.
    pub level: f64,
}

/// The level used throughout the program.
pub const LEVEL: f64 = 0.95;

impl Interval {
    /// Half the width: the number after `±`.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Whether it contains `value`, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The interval of `f` of the value, for an increasing `f` (`exp`, a change of unit).
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), high: f(self.high), level: self.level }
    }
}

/// A number, its confidence interval, and the number of observations that it is based on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate itself.
    pub value: f64,
    /// `None` where the observations are too few for one at the asked level.
    pub interval: Option<Interval>,
    /// Observations (runs, pairs, blocks) used.
    pub n: usize,
}
