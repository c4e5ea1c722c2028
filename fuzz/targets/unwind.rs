//! An ELF file from anywhere: how its functions are left, with registers and a stack from anywhere.
//! Inputs are a byte of choices, the stack behind its length, and the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, take, take_part, unwinding};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let choices = take(&mut rest, 1).first().copied().unwrap_or(0);
    let stack = take_part(&mut rest);
    unwinding::walk_file(&file("unwind", rest), choices, stack);
});
