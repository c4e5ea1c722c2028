//! A program or library without section headers: build id, names, and how its functions are left, by the tables that the
//! dynamic loader and exceptions use.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, symbols, unwinding};
use pmuscope_symbols::read_build_id;

/// Of files of 32 bits, and of 64: where the ELF header says where section headers are, and how many.
const HEADERS: [[std::ops::Range<usize>; 2]; 2] =
    [[0x20..0x24, 0x30..0x34], [0x28..0x30, 0x3c..0x40]];

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    let is_64 = bytes.get(4) == Some(&2);
    for range in HEADERS[usize::from(is_64)].clone() {
        if let Some(part) = bytes.get_mut(range) {
            part.fill(0);
        }
    }
    let path = file("sectionless", &bytes);
    let _ = read_build_id(&path);
    symbols::ask_file(&mut symbols::symbolizer(false), &path, None);
    unwinding::walk_file(&path, 0, &[]);
});
