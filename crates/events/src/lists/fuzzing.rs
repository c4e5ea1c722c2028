//! Ways in for fuzzing: parts that are reached only by way of files otherwise.

use std::hint::black_box;

use super::choose::{Identity, mapfile};
use super::index;

/// An index whose checksum is right, of no files.
pub fn index(rest: &[u8]) {
    let Some((contents, stored)) = index::parse(index::with_checksum(rest), &[]) else { return };
    for file in &contents.files {
        black_box(stored.events(file.block));
    }
}

/// A table of CPUs, held against one.
pub fn mapfile_matches(text: &str) {
    let (vendor, stepping) = ("GenuineIntel".to_owned(), Some(7));
    let identity = Identity::X86 { vendor, family: 6, model: 0x55, stepping };
    for map in mapfile(text, "") {
        black_box((identity.matches(&map.pattern), map.is_about("CLX/core.json")));
    }
}
