//! The perf.data format: write it, read it, order it.

#![forbid(unsafe_code)]
