//! `/tmp/perf-PID.map`.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::file;
use pmuscope_symbols::PerfMap;

fuzz_target!(|bytes: &[u8]| {
    let map = PerfMap::read(&file("perf-1.map", bytes)).expect("a file that is there");
    assert_eq!(map.is_empty(), matches!(map.len(), 0));
    for address in (0..0x100).chain([0x1000, 1 << 47, u64::MAX]) {
        black_box(map.get(address));
    }
});
