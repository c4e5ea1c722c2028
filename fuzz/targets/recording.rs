//! A `perf.data` file in order, all kinds of records, with all that a sample can carry; our own
//! metadata in it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, recording};
use pmuscope_perfdata::read_info;
use pmuscope_perfdata::reader::Reader;

fuzz_target!(|bytes: &[u8]| {
    let path = file("perf.data", bytes);
    recording::read(Reader::open_all(&path));
    recording::read(Reader::open(&path));
    let _ = read_info(&path);
});
