//! Names of symbols in the forms of C++ and Rust.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| pmuscope_symbols::fuzzing::demangle(bytes));
