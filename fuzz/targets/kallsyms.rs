//! `/proc/kallsyms`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pmuscope_symbols::fuzzing::kallsyms(bytes));
