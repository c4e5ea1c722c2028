//! Internal parsers, exposed only for the fuzz targets, by the feature `fuzzing`.

use std::hint::black_box;

use crate::codec::Stored;
use crate::demangle::Demangler;
use crate::kallsyms::Kallsyms;

/// The name of a symbol.
pub fn demangle(raw: &[u8]) {
    black_box(Demangler::default().name(raw));
}

/// `/proc/kallsyms`.
pub fn kallsyms(text: &[u8]) {
    let Ok(found) = Kallsyms::read(text) else { return };
    black_box((found.are_visible(), found.image(), found.address_of(b"_stext")));
    for address in (0..0x100).chain([0xffff_ffff_8100_0000, u64::MAX]) {
        black_box(found.get(address));
    }
}

/// A cache file, under the key that it says it has.
///
/// # Panics
/// If what was believed when it was opened is not there afterwards.
pub fn stored(bytes: Vec<u8>) {
    let length = bytes.get(12..16).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    let start = length.and_then(|length| bytes.len().checked_sub(length as usize));
    let Some(key) = start.map(|start| bytes[start..].to_vec()) else { return };
    let Some(stored) = Stored::open(bytes, &key) else { return };
    let mut reader = stored.reader();
    for address in stored.addresses() {
        assert!(reader.get(address).is_some(), "{address:#x} is in the list");
    }
    black_box((reader.get(u64::MAX), stored.absent().count(), stored.len()));
}
