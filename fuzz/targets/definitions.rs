//! An ELF file from anywhere: variables and what lies within them, functions and lines, by name.

#![no_main]

use std::hint::black_box;
use std::num::NonZeroUsize;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::file;
use pmuscope_symbols::Sources;
use pmuscope_symbols::definitions::Definitions;

/// Of the programs that inputs are made from, and one that none has.
const OBJECTS: [&str; 7] = [
    "head->table[2].inner.high",
    "**handle",
    "grid[1][2]",
    "push::calls",
    "a.c:hidden",
    "ns::Class::total",
    "hed",
];

fuzz_target!(|bytes: &[u8]| {
    let path = file("definitions", bytes);
    let sources =
        Sources { debug_dirs: Vec::new(), threads: NonZeroUsize::new(1), ..Sources::default() };
    let Ok(definitions) = Definitions::open(&sources, &path, None) else { return };
    for object in OBJECTS {
        let (file, name) =
            object.split_once(".c:").map_or((None, object), |(_, name)| (Some("a.c"), name));
        let expression = name.parse().expect("an expression");
        if let Ok(place) = black_box(definitions.data(file, &expression)) {
            let offsets = [0, 1, 9, 24, 1 << 20, u64::MAX];
            black_box(definitions.fields(&place.variable, place.base, &offsets));
        }
    }
    black_box(definitions.segments());
    let _ = black_box((definitions.functions("push"), definitions.line("a.c", 3)));
});
