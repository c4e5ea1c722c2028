//! `jit-PID.dump`: names of addresses, code by time, and how it is left.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use pmuscope_fuzz::{file, symbols};
use pmuscope_symbols::unwind::{Arch, UnwindScratch};
use pmuscope_symbols::{GeneratedCode, Module};

/// No process has this number.
const PID: i32 = 2_147_483_000;
/// Addresses and times that seeds know, and the ends of both.
const ADDRESSES: [u64; 6] = [0, 0x10, 0x4f, 0x80, 0x7f00_0000_1000, u64::MAX];
const TIMES: [u64; 5] = [0, 5, 10, 15, u64::MAX];

fuzz_target!(|bytes: &[u8]| {
    let path = file("jit.dump", bytes);
    by_time(&path);
    let mut symbolizer = symbols::symbolizer(true);
    symbolizer.add_jit_dump(PID, path);
    let addresses: Vec<u64> = (0..0x100).chain([0x1000, 0x7f00_0000_1000, u64::MAX]).collect();
    black_box(symbolizer.resolve(&Module::Jit { pid: PID, origin: None }, &addresses));
});

/// Code by time of one dump read twice, as of a process with several.
fn by_time(path: &std::path::Path) {
    let Ok(mut code) = GeneratedCode::read(path) else { return };
    code.read_more(path).expect("it was read before");
    let mut scratch = UnwindScratch::default();
    for (address, time) in
        ADDRESSES.into_iter().flat_map(|address| TIMES.map(|time| (address, time)))
    {
        let Some(found) = code.at(address, time) else { continue };
        assert!(
            found.from <= time && time < found.until || time == u64::MAX,
            "{found:?} at {time}"
        );
        assert_eq!(code.address(found.place), Some(address), "{found:?}");
        assert!(code.symbol(found.place).is_some(), "{found:?}");
        for arch in [Arch::X86_64, Arch::Aarch64] {
            black_box(code.rule(found.place, arch, &mut scratch)).ok();
        }
    }
}
