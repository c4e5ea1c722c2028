//! The named benchmarks: what runs, in which arms; hands back runs.
