//! Intervals, bootstrap and tests for repeated measurements. No I/O.

#![forbid(unsafe_code)]
