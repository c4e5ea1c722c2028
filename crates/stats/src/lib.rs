//! Intervals, bootstrap and tests for repeated measurements. No I/O.
//!
//! Every function is pure: equal input (and seed) gives equal output. What cannot be estimated
//! from the values given is `None`, never a number.
//!
//! ```
//! use pmuscope_stats::{LEVEL, ratio_of_medians};
//!
//! let base = [11.31, 11.29, 11.35, 11.30, 11.33];
//! let measured = [14.37, 14.41, 14.35, 14.39, 14.30];
//! let ratio = ratio_of_medians(&base, &measured, LEVEL, 1).expect("values are positive");
//! assert!(ratio.interval.expect("five values are enough").contains(1.27));
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod bootstrap;
mod causes;
mod change_point;
mod correlation;
mod delta;
mod difference;
mod dist;
mod effect;
mod interval;
mod jackknife;
mod long_run;
mod mean;
mod moderate;
mod order;
mod pairs;
mod rank;
mod samples;
mod serial;
mod share;
mod slope;
mod special;
mod strata;
mod trend;

pub use bootstrap::{MIN_VALUES, median_interval, ratio_of_medians};
pub use causes::{Bearing, Candidate, Cause, rank_causes};
pub use change_point::{ChangePoint, change_points};
pub use correlation::{correlation, fisher_test, williams_test};
pub use delta::Spread;
pub use difference::{
    difference_of_estimates, difference_of_t_estimates, holm, p_of_zero, weighted_holm,
};
pub use dist::{normal_cdf, normal_quantile, t_cdf, t_quantile};
pub use effect::hedges_g;
pub use interval::{Estimate, Interval, LEVEL};
pub use jackknife::{LogError, LogRatio, MIN_CLUSTERS};
pub use long_run::{LongRun, MIN_OWN_PHASES, MIN_PHASES};
pub use mean::{
    difference_of_means, mean, mean_interval, paired_difference, ratio_of_means, std_dev, variance,
    welch_test,
};
pub use moderate::{Change, change_tests, paired_tests};
pub use order::{mad, median, outliers, quantile, quantile_sorted};
pub use pairs::{Pair, Pairs};
pub use rank::{
    hodges_lehmann_ratio, hodges_lehmann_shift, mann_whitney, paired_ratio, signed_rank_center,
};
pub use samples::TwoSamples;
pub use serial::correlation_in_time;
pub use share::{MIN_BLOCKS, Share, Shares, share_over_time};
pub use slope::{product, slope_within};
pub use strata::{Stratum, stratified_total};
pub use trend::trend;

/// The program of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
