//! More distinct stacks than the memory limit has room for. A program of one test: the limit is that of all readers of a
//! process.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use pmuscope_perfdata::reader::{DEFAULT_MEMORY, Reader, limit_memory};
use pmuscope_profile::{Collected, GroupBy, Options, Profile};
use pmuscope_symbols::{KernelIdentity, Symbolizer};

const SAMPLES: u64 = 400_000;
/// The least that there is, and nodes that it has room for: 80 bytes each (`count/stack_room.rs`).
const LIMIT: usize = 64 << 20;
const ROOM: usize = LIMIT / 80;

/// On that many threads, or in order.
fn profile(path: &Path, threads: Option<usize>) -> Profile {
    let mut reader = Reader::open(path).unwrap();
    let by = GroupBy { chains: true, ..GroupBy::default() };
    let collected = match threads {
        Some(threads) => Collected::read(&mut reader, by, threads, None),
        None => Collected::in_order(&mut reader, by, None),
    };
    let mut symbolizer = Symbolizer::new(pmuscope_symbols::Options { inlined: false });
    let running = KernelIdentity::default();
    let options = Options { detail: pmuscope_profile::Detail::Address, ..Options::default() };
    let profile = collected
        .unwrap()
        .profile(&reader, &running, options, &mut |requests| symbolizer.resolve_all(requests));
    profile.unwrap()
}

/// Samples by the frame in which they were taken; and those that have no callers.
fn leaves(profile: &Profile) -> (BTreeMap<u64, u64>, u64) {
    let counts = &profile.aggregate;
    let (mut leaves, mut alone) = (BTreeMap::new(), 0);
    for cell in &counts.cells {
        let frame = counts.stacks.frame(cell.stack).unwrap();
        *leaves.entry(counts.frames[frame as usize].address.unwrap()).or_default() += cell.samples;
        alone += if counts.stacks.frames(cell.stack).count() == 1 { cell.samples } else { 0 };
    }
    (leaves, alone)
}

#[test]
fn samples_without_room_for_their_callers_count_where_they_were_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    pmuscope_testkit::distinct_stacks::write(SAMPLES, &path).unwrap();
    limit_memory(DEFAULT_MEMORY);
    let whole = profile(&path, Some(2));
    let (expected, alone) = leaves(&whole);
    assert_eq!((whole.without_callers, alone), (0, 0));
    assert_eq!(expected.values().sum::<u64>(), SAMPLES);
    assert!(whole.aggregate.stacks.len() > ROOM, "the recording is too small");
    limit_memory(LIMIT);
    for threads in [Some(1), Some(2), Some(7), None] {
        let limited = profile(&path, threads);
        let (found, alone) = leaves(&limited);
        assert_eq!(found, expected, "{threads:?}");
        assert_eq!(limited.without_callers, alone, "{threads:?}");
        assert!(alone > 0 && alone < SAMPLES, "{threads:?}: {alone}");
        // Each leaf once more, without callers.
        assert!(limited.aggregate.stacks.len() <= ROOM + 1 + found.len(), "{threads:?}");
    }
}
