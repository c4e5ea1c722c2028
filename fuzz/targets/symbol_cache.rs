//! Symbols as cache files and bundles hold them, with the magic and the checksum right: chance would
//! never find these.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// Magic and checksum.
const FRONT: usize = 12;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = [&b"pmusym\0\x03\0\0\0\0"[..], bytes].concat();
    let checksum = crc32fast::hash(&whole[FRONT..]);
    whole[FRONT - 4..FRONT].copy_from_slice(&checksum.to_le_bytes());
    pmuscope_symbols::fuzzing::stored(whole);
});
