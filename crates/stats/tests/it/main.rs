//! Coverage and claims by simulation: an interval is right if it covers as often as it says. Values of
//! other programs: SciPy and statsmodels.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod coverage;
mod reference;
mod simulated;
