//! A recording as it stands in the file, record by record, and as `pmuscope script --dump` prints it.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::file;
use pmuscope_perfdata::reader::Reader;
use pmuscope_report::script::{dump_entry, dump_event, dump_head};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::open_raw(&file("perf.data", bytes)) else { return };
    let mut text = dump_head(reader.metadata(), reader.endian());
    let events = reader.events().to_vec();
    for (number, event) in events.iter().enumerate() {
        dump_event(&mut text, number, event);
    }
    while let Ok(Some(entry)) = reader.next() {
        text.clear();
        dump_entry(&mut text, &entry, &events);
        black_box(&text);
    }
    black_box(reader.tally());
});
