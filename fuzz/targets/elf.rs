//! An ELF file from anywhere: its build id, and names from its tables of symbols.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, symbols};
use pmuscope_symbols::read_build_id;

fuzz_target!(|bytes: &[u8]| {
    let path = file("elf", bytes);
    let _ = read_build_id(&path);
    symbols::ask_file(&mut symbols::symbolizer(false), &path, None);
});
