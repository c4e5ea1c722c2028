//! A program with skeletons of units, and the file that has the units: of one unit, or a package. Inputs are a byte that
//! says which, the program behind its length, and the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, symbols, take, take_part};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let is_package = take(&mut rest, 1).first().is_some_and(|choice| choice & 1 == 1);
    let program = file("split", take_part(&mut rest));
    let (wanted, other) =
        if is_package { ("split.dwp", "unit.dwo") } else { ("unit.dwo", "split.dwp") };
    file(wanted, rest);
    file(other, &[]);
    symbols::ask_file(&mut symbols::symbolizer(true), &program, None);
});
