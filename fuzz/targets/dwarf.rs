//! An ELF file from anywhere: lines and inlined functions from its debug information.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, symbols};

fuzz_target!(|bytes: &[u8]| {
    symbols::ask_file(&mut symbols::symbolizer(true), &file("dwarf", bytes), None);
});
