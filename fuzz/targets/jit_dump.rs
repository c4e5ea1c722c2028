//! `jit-PID.dump`.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, symbols};
use pmuscope_symbols::Module;

/// No process has this number.
const PID: i32 = 2_147_483_000;

fuzz_target!(|bytes: &[u8]| {
    let mut symbolizer = symbols::symbolizer(true);
    symbolizer.add_jit_dump(PID, file("jit.dump", bytes));
    let addresses: Vec<u64> = (0..0x100).chain([0x1000, 0x7f00_0000_1000, u64::MAX]).collect();
    black_box(symbolizer.resolve(&Module::Jit { pid: PID }, &addresses));
});
