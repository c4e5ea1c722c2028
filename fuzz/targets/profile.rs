//! A `perf.data` file in two passes on several threads, and in order, to a profile without names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, recording};
use pmuscope_profile::{Detail, GroupBy, TasksBy};

fuzz_target!(|bytes: &[u8]| {
    let path = file("perf.data", bytes);
    let apart = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: true };
    let one = recording::profile(&path, Detail::Function);
    let other = recording::profile_in_order(&path, apart);
    recording::shared_lines(&path);
    if let (Ok(one), Ok(other)) = (one, other) {
        recording::adds_up(&one);
        recording::adds_up(&other);
        assert_eq!(one.samples(), other.samples(), "both ways to read count the same");
    }
});
