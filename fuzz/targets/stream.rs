//! A recording as `perf record -o -` writes it: the input is what follows the header of 16 bytes. Its
//! first byte says which byte order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, recording};
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::GroupBy;

fuzz_target!(|bytes: &[u8]| {
    let Some((&order, records)) = bytes.split_first() else { return };
    let (magic, size) = match order & 1 {
        0 => (*b"PERFILE2", 16_u64.to_le_bytes()),
        _ => (*b"2ELIFREP", 16_u64.to_be_bytes()),
    };
    let path = file("stream.data", &[&magic, &size, records].concat());
    recording::read(Reader::open_all(&path));
    if let Ok(profile) = recording::profile_in_order(&path, GroupBy::default()) {
        recording::adds_up(&profile);
    }
});
