use std::sync::atomic::{AtomicU32, Ordering};

use pmuscope_counters::{Host, Kernel as _};
use pmuscope_perfdata::watch::Access;

use super::*;
use crate::points::{Opened, Point, PointScope};

static COUNTER: AtomicU32 = AtomicU32::new(5);

fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn watched(address: u64) -> ProgramPoint {
    ProgramPoint {
        point: 0,
        address,
        bytes: Some(4),
        argument: None,
        in_kernel: false,
        is_shared: false,
        kind: ValueKind::Unsigned,
        when: None,
        when_changed: false,
        records: true,
        depth: 16,
    }
}

fn point(address: u64) -> Point {
    Point {
        target: 0,
        address,
        bytes: 4,
        access: Access::Write,
        in_kernel: false,
        is_shared: false,
        is_brief: false,
    }
}

/// Runs `work` while a word is watched by the program; `None`, said, where that cannot be.
fn watch(
    change: impl FnOnce(&mut ProgramPoint),
    work: impl FnOnce(),
) -> Option<(Memory, Vec<Vec<u8>>, u64)> {
    let address = COUNTER.as_ptr().addr() as u64;
    let mut watched = watched(address);
    change(&mut watched);
    let memory = match Memory::new(1) {
        Ok(memory) => memory,
        Err(error) if error.is_permission() => {
            eprintln!("skipped: programs of BPF are not allowed here ({error})");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let program = load(&memory, &watched).unwrap();
    let thread = PointScope::Thread(own_thread());
    let (points, programs) = ([point(address)], [program]);
    let mut opened = Opened::none(&points, &[0]);
    opened.add(&Host, &points, &programs, thread).unwrap();
    memory.set_value(std::process::id(), 0, u64::from(COUNTER.load(Ordering::SeqCst))).unwrap();
    opened.arm(&Host).unwrap();
    work();
    opened.disarm(&Host).unwrap();
    let mut records = Vec::new();
    memory.ring().drain(|record| records.push(record.to_vec()));
    let counted = opened.counted(&Host).unwrap()[0].1;
    Some((memory, records, counted))
}

/// All tests here share the word, and a thread has few slots.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn hits_of_threads_that_are_started_later_are_seen_with_their_values() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    COUNTER.store(5, Ordering::SeqCst);
    let work = || {
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..50 {
                        COUNTER.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        // Written, but not changed.
        COUNTER.store(205, Ordering::SeqCst);
    };
    let Some((memory, records, counted)) = watch(|_| {}, work) else { return };
    assert_eq!((records.len(), counted), (201, 201));
    let totals = memory.totals().unwrap()[0];
    assert_eq!(totals, PointTotals { hits: 201, passed: 201, unattributed: 0, lost: 0 });
    let writers = memory.writers().unwrap();
    let sum = |of: fn(&Writer) -> u64| writers.iter().map(of).sum::<u64>();
    assert_eq!((sum(|w| w.hits), sum(|w| w.passed)), (201, 201));
    assert!(
        writers.len() >= 5 && writers.iter().all(|w| !w.in_kernel && w.pid == std::process::id())
    );
    let own: Vec<_> = writers.iter().filter(|writer| writer.tid == own_thread()).collect();
    assert_eq!(own.len(), 1);
    assert_eq!((own[0].hits, own[0].changed), (1, 0));
    // A hit reads what is there: what another thread has added meanwhile too.
    let last = records.iter().map(|record| word(record, 32)).max();
    assert_eq!(last, Some(205));
    let known = HitFlags::VALUE | HitFlags::OLD | HitFlags::AFTER;
    for (number, record) in records.iter().enumerate() {
        assert_eq!(word(record, 0) >> 32, u64::from(known.bits()), "flags of hit {number}");
        assert_eq!(word(record, 56) >> 32, 1, "hits it stands for");
        assert!(word(record, 24) != 0 && record.len() >= RECORD_HEAD + 8, "a stack");
        assert_eq!(word(record, RECORD_HEAD), word(record, 24), "it begins where the hit was");
    }
    let mut sequence: Vec<u64> = records.iter().map(|record| word(record, 48)).collect();
    sequence.sort_unstable();
    assert!(sequence.into_iter().eq(1..=201));
}

#[test]
fn only_what_is_wanted_is_written_down() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let work = || {
        for value in [5, 5, 9, 12, 12, 11] {
            COUNTER.store(value, Ordering::SeqCst);
        }
    };
    let values = |change: &dyn Fn(&mut ProgramPoint)| {
        COUNTER.store(5, Ordering::SeqCst);
        let (_, records, counted) = watch(change, work)?;
        assert_eq!(counted, 6);
        Some(records.iter().map(|record| word(record, 32)).collect::<Vec<_>>())
    };
    let when = |text: &'static str| {
        move |watched: &mut ProgramPoint| watched.when = Some(Condition::parse(text).unwrap())
    };
    let Some(changed) = values(&|watched| watched.when_changed = true) else { return };
    assert_eq!(changed, [9, 12, 11]);
    assert_eq!(values(&when("new > 10")).unwrap(), [12, 12, 11]);
    assert_eq!(values(&when("step < 0 || new == 5 && old == 5")).unwrap(), [5, 5, 11]);
    assert_eq!(values(&when("new & 1 && step != 0")).unwrap(), [9, 11]);
    assert_eq!(values(&|watched| watched.records = false).unwrap(), [0; 0]);
}

#[test]
fn signs_are_those_of_the_type() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let work = || COUNTER.store(-3_i32 as u32, Ordering::SeqCst);
    let records = |kind| {
        COUNTER.store(5, Ordering::SeqCst);
        let condition = Some(Condition::parse("new < 0").unwrap());
        let change = |watched: &mut ProgramPoint| (watched.when, watched.kind) = (condition, kind);
        Some(watch(change, work)?.1.len())
    };
    let Some(signed) = records(ValueKind::Signed) else { return };
    assert_eq!((signed, records(ValueKind::Unsigned).unwrap()), (1, 0));
}

#[test]
fn every_nth_stands_for_as_many() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let address = COUNTER.as_ptr().addr() as u64;
    let Ok(memory) = Memory::new(1) else {
        eprintln!("skipped: programs of BPF are not allowed here");
        return;
    };
    memory.control(10, FIRST_TIME).unwrap();
    let program = load(&memory, &watched(address)).unwrap();
    let thread = PointScope::Thread(own_thread());
    let (points, programs) = ([point(address)], [program]);
    let mut opened = Opened::none(&points, &[0]);
    opened.add(&Host, &points, &programs, thread).unwrap();
    opened.arm(&Host).unwrap();
    (0..95).for_each(|value| COUNTER.store(value, Ordering::SeqCst));
    opened.disarm(&Host).unwrap();
    let mut stands_for = Vec::new();
    memory.ring().drain(|record| stands_for.push(word(record, 56) >> 32));
    assert_eq!(stands_for, [10; 10]);
    assert_eq!(memory.totals().unwrap()[0].passed, 95);
    // Nothing is left open that would hold the slot.
    drop(opened);
    assert!(
        Host.open(&point(address).attr(), 0, -1, None, pmuscope_abi::OpenFlags::FD_CLOEXEC).is_ok()
    );
}
