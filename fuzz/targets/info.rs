//! Our own metadata in a recording, from the feature section and from records.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_perfdata::info::RecordingInfo;

fuzz_target!(|bytes: &[u8]| {
    for info in [RecordingInfo::from_json(bytes), RecordingInfo::from_record(bytes)] {
        let Some(info) = info else { continue };
        black_box((info.samples(), info.lost()));
        for event in &info.events {
            black_box(event.unsampled());
        }
        let mut record = Vec::new();
        info.append_record(&mut record);
        black_box(info.to_json());
    }
});
