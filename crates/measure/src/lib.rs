//! Repeated runs: plan, order, repeat, environment check, the run file, comparison.

#![forbid(unsafe_code)]
