//! What stands behind `-e`, on a machine that never changes, and on one whose kernel describes a unit
//! in words from anywhere.

#![no_main]

use std::hint::black_box;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pmuscope_events::{Format, describe, parse, parse_branch_filter};
use pmuscope_fuzz::catalogue::Fixed;

static MACHINE: LazyLock<Fixed> = LazyLock::new(Fixed::new);

fuzz_target!(|text: &str| {
    match parse(text, &*MACHINE) {
        Ok(groups) => {
            for event in groups.iter().flat_map(|group| &group.events) {
                black_box(describe(&event.attr));
            }
        }
        Err(error) => {
            black_box((error.piece(), error.column(), error.to_string()));
        }
    }
    let _ = parse_branch_filter(text);
    if let Some(format) = Format::parse(text) {
        black_box((format.bits(), format.max(), format.pack(u64::MAX, 1), format.pack(0, 7)));
    }
    if let Some((format, event)) = text.split_once('\n') {
        let odd = Fixed::with_odd_unit(format, event);
        let _ = parse("odd/e,a=1,b=0x3/,odd/e/,odd/a=0xffffffffffffffff/", &odd);
    }
});
