//! Heap objects in shared lines of simulated threads, by the allocations of the same recording.

use pmuscope_profile::sharing::{LineHeapObject, SharedLine, SharedLines};

use crate::sharing::read_all;
use pmuscope_testkit::sharing_file::{CODE, HeapMoment, HeapStep, MEMORY, Pmu, Program, example};

/// Where code is called from, in the file.
const FIRST: u64 = 0x2000;
const SECOND: u64 = 0x3000;

/// An allocation of `size` bytes at `offset` of the memory.
fn allocate(offset: u64, size: u64, caller: u64) -> HeapStep {
    let base = CODE & !0xfff;
    let callers = [base + caller, base + caller + 0x800];
    HeapStep::Allocate { address: MEMORY + offset, size, callers }
}

fn free(offset: u64) -> HeapStep {
    HeapStep::Free { address: MEMORY + offset }
}

fn found(program: &Program, heap: &[HeapMoment]) -> SharedLines {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    program.run().write_heap(program, &path, heap);
    read_all(&path)
}

fn line(found: &SharedLines, number: u64) -> &SharedLine {
    found.lines.iter().find(|line| line.address == MEMORY + 64 * number).unwrap()
}

/// Address of the first byte, size, and where the call of the site ends.
fn object(found: &SharedLines, object: &LineHeapObject) -> (u64, u64, u64) {
    let site = &found.heap.as_ref().unwrap().stacks[object.stack as usize].site;
    (object.address - MEMORY, object.size, site.address.unwrap() + 1)
}

fn objects(found: &SharedLines, number: u64) -> Vec<(u64, u64, u64)> {
    line(found, number).heap_objects.iter().map(|one| object(found, one)).collect()
}

#[test]
fn each_offset_is_of_the_object_that_has_it() {
    // Line 1: a word of each of three threads. Line 2: words at 0 and 40.
    let heap = [
        (0.0, 0, allocate(60, 12, FIRST)),
        (0.0, 0, allocate(72, 4, SECOND)),
        (0.0, 0, allocate(80, 1000, FIRST)),
        (0.0, 1, allocate(4096, 64, FIRST)),
    ];
    let found = found(&example(Pmu::Pebs), &heap);
    assert_eq!(objects(&found, 1), [(60, 12, FIRST), (72, 4, SECOND), (80, 1000, FIRST)]);
    let of_offset = |number, offset: u32| {
        let line = line(&found, number);
        let one = line.offsets.iter().find(|one| one.offset == offset).unwrap();
        one.heap_object.map(|at| object(&found, &line.heap_objects[at as usize]).0)
    };
    let offsets = [0, 8, 16].map(|offset| of_offset(1, offset));
    assert_eq!(offsets, [Some(60), Some(72), Some(80)]);
    assert_eq!((of_offset(2, 0), of_offset(2, 40)), (Some(80), Some(80)));
    // Line 0 is of no object.
    assert_eq!(objects(&found, 0), []);
    let heap = found.heap.as_ref().unwrap();
    assert_eq!((heap.counts.allocations, heap.counts.unpaired, heap.counts.lost), (4, 0, 0));
    let accesses = |number| {
        let sums = line(&found, number).sums;
        sums.loads() + sums.stores()
    };
    assert_eq!(heap.unnamed, accesses(0));
    let named =
        |number| line(&found, number).heap_objects.iter().map(|one| one.accesses).sum::<u64>();
    assert_eq!([named(1), named(2)], [accesses(1), accesses(2)]);
    // The whole stack is there.
    let stack = &heap.stacks[line(&found, 1).heap_objects[0].stack as usize];
    let places: Vec<u64> = stack.frames.iter().filter_map(|frame| frame.address).collect();
    assert_eq!(places, [FIRST - 1, FIRST + 0x7ff]);
}

#[test]
fn memory_that_is_used_again_is_of_the_object_of_the_time() {
    let heap = [
        (0.0, 0, allocate(64, 64, FIRST)),
        (0.5, 1, free(64)),
        (0.5, 2, allocate(64, 64, SECOND)),
        (0.9, 2, free(64)),
    ];
    let found = found(&example(Pmu::Ibs), &heap);
    assert_eq!(objects(&found, 1), [(64, 64, FIRST), (64, 64, SECOND)]);
    let shares = line(&found, 1).heap_objects.iter();
    let all = line(&found, 1).sums;
    let all = (all.loads() + all.stores()) as f64;
    let shares: Vec<f64> = shares.map(|one| one.accesses as f64 / all).collect();
    assert!((shares[0] - 0.5).abs() < 0.05 && (shares[1] - 0.4).abs() < 0.05, "{shares:?}");
}

#[test]
fn lost_records_name_nothing_wrongly() {
    let heap = [
        (0.0, 0, allocate(64, 64, FIRST)),
        // Its free was lost, and so was what came after it for a while.
        (0.3, 1, HeapStep::Lose),
        (0.6, 2, allocate(72, 24, SECOND)),
    ];
    let found = found(&example(Pmu::Pebs), &heap);
    assert_eq!(objects(&found, 1), [(64, 64, FIRST), (72, 24, SECOND)]);
    let certain: Vec<bool> =
        line(&found, 1).heap_objects.iter().map(|one| one.is_certain).collect();
    assert_eq!(certain, [false, true]);
    // The newer one takes the whole of the older.
    let offsets = &line(&found, 1).offsets;
    let accesses: u64 = line(&found, 1).heap_objects[0].accesses;
    assert!(accesses > 0 && offsets.iter().all(|one| one.heap_object.is_some()));
    assert_eq!(found.heap.as_ref().unwrap().counts.lost, 5);
}

#[test]
fn recordings_without_allocations_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let program = example(Pmu::Pebs);
    program.run().write(&program, &path);
    let found = read_all(&path);
    assert!(found.heap.is_none());
    assert!(found.lines.iter().all(|line| line.heap_objects.is_empty()));
}
