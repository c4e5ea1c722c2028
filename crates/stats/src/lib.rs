//! Intervals, bootstrap and tests for repeated measurements. No I/O.

#![forbid(unsafe_code)]

mod dist;
mod interval;
mod order;
mod share;

pub use dist::{normal_cdf, normal_quantile, t_cdf, t_quantile};
pub use interval::{Estimate, Interval, LEVEL};
pub use order::{mad, median, outliers, quantile, quantile_sorted};
pub use share::{MIN_BLOCKS, ShareBootstrap, block_bootstrap_share};
