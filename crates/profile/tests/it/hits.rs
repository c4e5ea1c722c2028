//! Hits of watchpoints in whole recordings, against all writes there were.

use std::collections::BTreeMap;

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_perfdata::watch::{Access, ArmedBlock, Means, ValueKind, WatchTarget};
use pmuscope_profile::hits::{HitRecord, Hits, HitsError, Options, SharingVerdict, ValueRead};
use pmuscope_symbols::{KernelIdentity, Line, Request, Resolved, State, Symbol};
use proptest::prelude::*;

use pmuscope_testkit::hit_file::{CODE, Recording, START, Write};

/// Bytes of a function, in the file from 0x1000 on.
const FUNCTION: u64 = 0x100;

/// Functions of [`FUNCTION`] bytes, of lines of 16.
fn named(requests: &[Request<'_>]) -> Vec<Resolved> {
    let symbol = |&address: &u64| {
        let line =
            Line { file: "/src/counter.c".into(), number: Some((address % FUNCTION / 16) as u32) };
        let name = format!("f{}", (address - 0x1000) / FUNCTION).into();
        Some(Symbol { line: Some(line), ..Symbol::named(name) }.into())
    };
    let one = |request: &Request<'_>| Resolved {
        symbols: request.addresses.iter().map(symbol).collect(),
        state: State::Found,
    };
    requests.iter().map(one).collect()
}

fn read(recording: &Recording, options: &Options) -> Result<Hits, HitsError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("watch.data");
    recording.write(&path);
    Hits::read(
        &RecordingFile::open(&path).unwrap(),
        options,
        &KernelIdentity::default(),
        &mut named,
    )
}

fn counter(bytes: u64) -> WatchTarget {
    WatchTarget {
        name: "counter".into(),
        value: ValueKind::Unsigned,
        address: 0x7000_0040,
        bytes,
        ..WatchTarget::default()
    }
}

fn threads() -> Vec<(u32, u32, String)> {
    [(100, 100, "main"), (100, 101, "one"), (100, 102, "two"), (200, 200, "other")]
        .map(|(pid, tid, name)| (pid, tid, name.to_owned()))
        .to_vec()
}

/// Writes of four threads in two processes to two points.
fn writes() -> impl Strategy<Value = Vec<Write>> {
    let one = (0_usize..4, 0_u64..6, 0_u32..2, 0_u64..9, any::<bool>(), 1_u64..1000);
    proptest::collection::vec(one, 0..120).prop_map(|writes| {
        let (mut time, mut last) = (0, BTreeMap::<(u32, u32), u64>::new());
        let threads = threads();
        let writes = writes.into_iter().map(|(thread, place, point, value, is_kept, wait)| {
            time += wait;
            let (pid, tid, _) = threads[thread];
            let value = match value {
                // Steps and writes of what is there are common.
                0..=3 => last.get(&(point, pid)).map_or(1, |last| last + 1),
                4 => last.get(&(point, pid)).copied().unwrap_or(0),
                value => value,
            };
            last.insert((point, pid), value);
            // Behind the instruction, at the first byte of the next line or function.
            let ip = CODE + FUNCTION * (place / 2) + 16 * (place % 2 + 1);
            Write { time, pid, tid, ip, point, value, is_kept }
        });
        writes.collect()
    })
}

fn recording(arch: &'static str, writes: &[Write], all: bool) -> Recording {
    let mut writes = writes.to_vec();
    writes.iter_mut().for_each(|write| write.is_kept |= all);
    let other = WatchTarget { name: "other".into(), address: 0x7000_0080, ..counter(8) };
    let recording = Recording { arch, writes, names: threads(), ..Recording::default() };
    recording.target(counter(8)).target(other)
}

/// What each write of a point found, and what it left; `None` for a value that nobody knows.
fn truth(arch: &str, writes: &[Write]) -> Vec<(Write, Option<u64>, Option<u64>)> {
    let mut told = Vec::new();
    for (at, write) in writes.iter().enumerate() {
        let same = |other: &&Write| (other.point, other.pid) == (write.point, write.pid);
        let before = writes[..at].iter().rev().find(same);
        let next = writes[at + 1..].iter().find(same);
        let (old, new) = if arch == "x86_64" {
            (before.map(|before| before.value), Some(write.value))
        } else {
            // Memory is 0 at first; what was left is seen by the next one, if it is there.
            let old = before.map_or(0, |before| before.value);
            (Some(old), next.filter(|next| next.is_kept).map(|_| write.value))
        };
        told.push((*write, old, new));
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_numbers_are_those_of_the_writes(
        writes in writes(), arm in any::<bool>(), all in any::<bool>(), killed in any::<bool>(),
    ) {
        let arch = if arm { "aarch64" } else { "x86_64" };
        let recording = Recording { killed, ..recording(arch, &writes, all) };
        let truth = truth(arch, &recording.writes);
        let options = Options { ends: 7, between: 1000, values: 1000 };
        let hits = read(&recording, &options).unwrap();
        for (at, target) in hits.targets.iter().enumerate() {
            let here = truth.iter().filter(|one| one.0.point as usize == at);
            let kept: Vec<_> = here.clone().filter(|one| one.0.is_kept).collect();
            // A table of writers has all writes; what was killed has what was written down.
            let counted: Vec<_> = here.filter(|one| !killed || one.0.is_kept).collect();
            prop_assert_eq!(target.hits as usize, counted.len());
            prop_assert_eq!(target.records as usize, kept.len());
            prop_assert!(target.has_writers != killed || recording.writes.is_empty());

            // The matrix, by brute force.
            let mut cells = BTreeMap::<(String, u32, i32), u64>::new();
            for (write, ..) in &counted {
                let address = write.ip - CODE - u64::from(!arm);
                let function = format!("f{}", address / FUNCTION);
                let line = (address % FUNCTION / 16) as u32;
                *cells.entry((function, line, write.tid as i32)).or_default() += 1;
            }
            let mut found = BTreeMap::new();
            for row in &target.matrix.rows {
                let site = &hits.sites[row.site as usize];
                let line = site.line.as_ref().unwrap().number.unwrap();
                for (thread, counts) in &row.cells {
                    let thread = &hits.threads[*thread as usize];
                    let key = (site.function.as_ref().unwrap().to_string(), line, thread.tid);
                    prop_assert_eq!(found.insert(key, counts.hits), None);
                }
            }
            prop_assert_eq!(found, cells);

            // From what to what.
            let shown: Vec<&HitRecord> = target.history.iter().collect();
            let expected: Vec<_> =
                kept.iter().map(|one| (START + one.0.time, one.0.tid as i32, one.1, one.2)).collect();
            let told = shown.iter().map(|one| {
                (one.time_ns, hits.threads[one.thread as usize].tid, one.old, one.new)
            });
            prop_assert_eq!(told.collect::<Vec<_>>(), expected);
            let mut transitions = BTreeMap::<(u64, u64), u64>::new();
            for (_, old, new) in &kept {
                if let (Some(old), Some(new)) = (old, new) {
                    *transitions.entry((*old, *new)).or_default() += 1;
                }
            }
            let found: BTreeMap<(u64, u64), u64> =
                target.transitions.rows.iter().map(|row| ((row.0.1, row.0.2), row.1)).collect();
            prop_assert_eq!(&found, &transitions);

            // Shares by the kernel's count: a trap before the access compares what the hits before
            // left, so one fewer is known of each process.
            if !killed {
                let mut found_before = BTreeMap::<u32, u64>::new();
                let (mut known, mut changed, mut plus_one) = (0, 0, 0);
                for (write, old, _) in &counted {
                    let found = if arm { old.unwrap() } else { write.value };
                    if let Some(last) = found_before.insert(write.pid, found) {
                        known += 1;
                        changed += u64::from(last != found);
                        plus_one += u64::from(last + 1 == found);
                    }
                }
                let share = target.changed.map_or((0, 0), |share| (share.part, share.of));
                prop_assert_eq!(share, (changed, known));
                let share = target.plus_one.map_or((0, 0), |share| (share.part, share.of));
                prop_assert_eq!(share, (plus_one, known));
            } else {
                let changed: u64 =
                    transitions.iter().filter(|one| one.0.0 != one.0.1).map(|one| one.1).sum();
                let share = target.changed.map_or((0, 0), |share| (share.part, share.of));
                prop_assert_eq!(share, (changed, transitions.values().sum()));
            }
        }
        let read = if !recording.writes.iter().any(|write| write.is_kept) {
            ValueRead::Never
        } else if arm {
            ValueRead::Before
        } else {
            ValueRead::After
        };
        prop_assert_eq!(hits.value_read, read);
    }
}

fn steps(number: u64, is_kept: impl Fn(u64) -> bool) -> Vec<Write> {
    let write = |at: u64| Write {
        time: at * 1_000_000,
        pid: 100,
        tid: 101 + (at % 2) as u32,
        ip: CODE + 8,
        point: 0,
        value: at,
        is_kept: is_kept(at),
    };
    (1..=number).map(write).collect()
}

#[test]
fn a_counter_that_steps_by_one_does_so_in_every_hit() {
    let writes = steps(900, |at| at % 3 == 0);
    let recording = Recording { writes, names: threads(), ..Recording::default() };
    let hits = read(&recording.target(counter(8)), &Options::default()).unwrap();
    let target = &hits.targets[0];
    let share = target.plus_one.unwrap();
    // The first one is the only one of which the value before is not known.
    assert_eq!((share.part, share.of, share.value()), (899, 899, Some(1.0)));
    assert_eq!((target.hits, target.written, target.records), (900, 300, 300));
    let rate = target.rate.unwrap();
    assert_eq!((rate.value, rate.interval, target.estimate), (900.0, None, None));
    // The last value stands in the last block.
    let last = target.blocks.iter().filter_map(|block| block.values).next_back().unwrap();
    assert_eq!(last.max, 900.0);
}

#[test]
fn threads_that_ended_have_their_places_also_where_nothing_was_written_down() {
    let mut recording = Recording { writes: steps(50, |_| true), ..Recording::default() };
    recording.names = threads();
    recording.info.count_only = true;
    let hits = read(&recording.target(counter(8)), &Options::default()).unwrap();
    let target = &hits.targets[0];
    assert_eq!((hits.records, target.hits, target.exact), (0, 50, true));
    assert_eq!((hits.value_read, target.history.iter().count()), (ValueRead::Never, 0));
    let site = &hits.sites[target.matrix.rows[0].site as usize];
    assert_eq!(site.function.as_deref(), Some("f0"));
    let names: Vec<&str> =
        target.matrix.threads.iter().map(|one| &*hits.threads[one.0 as usize].command).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn points_that_were_armed_for_a_part_of_the_time_have_an_estimate() {
    let mut recording = Recording { writes: steps(1000, |_| true), ..Recording::default() };
    recording.names = threads();
    recording.info.blocks = (0..50)
        .map(|at| ArmedBlock {
            from_ns: START + at * 20_000_000,
            until_ns: START + (at + 1) * 20_000_000,
            armed_ns: 5_000_000,
            hits: vec![20],
            points: Vec::new(),
            ..ArmedBlock::default()
        })
        .collect();
    let hits = read(&recording.target(counter(8)), &Options::default()).unwrap();
    let target = &hits.targets[0];
    assert_eq!((hits.armed, hits.seconds), (Some(0.25), 1.0));
    assert_eq!((target.hits, target.estimate.unwrap().value), (1000, 4000.0));
    assert_eq!(target.rate.unwrap().value, 4000.0);
    assert!(target.plus_one.unwrap().interval.is_some());
}

#[test]
fn words_of_a_line_are_judged_by_who_writes_them() {
    let word = |at: u64, thread: u32, point: u32| Write {
        time: at * 1000,
        pid: 100,
        tid: 101 + thread,
        ip: CODE + 8,
        point,
        value: at,
        is_kept: true,
    };
    let verdict = |point_of: &dyn Fn(u64) -> u32| {
        let writes = (0..500).map(|at| word(at, (at % 2) as u32, point_of(at))).collect();
        let recording = Recording { writes, names: threads(), ..Recording::default() };
        let line = WatchTarget { value: ValueKind::Other, ..counter(64) };
        let hits = read(&recording.target(line), &Options::default()).unwrap();
        assert_eq!((hits.lines.len(), hits.lines[0].words.len()), (1, 8));
        (hits.lines[0].verdict, hits.lines[0].handovers)
    };
    assert_eq!(verdict(&|at| (at % 2) as u32 * 5), (SharingVerdict::FalseSharing, 499));
    assert_eq!(verdict(&|_| 3), (SharingVerdict::TrueSharing, 499));
}

#[test]
fn an_instruction_is_looked_up_where_it_is() {
    let mut writes = steps(3, |_| true);
    // The first byte of a function.
    writes.iter_mut().for_each(|write| write.ip = CODE + FUNCTION);
    let recording = Recording { writes, names: threads(), ..Recording::default() };
    let of = |access| {
        let target = WatchTarget { access, ..counter(8) };
        let hits = read(&recording.clone().target(target), &Options::default()).unwrap();
        hits.sites[0].function.clone().unwrap()
    };
    assert_eq!((&*of(Access::Execute), &*of(Access::Write)), ("f1", "f0"));
}

#[test]
fn other_recordings_are_told_what_they_are() {
    let recording = Recording { writes: steps(3, |_| true), foreign: true, ..Recording::default() };
    let error = read(&recording.target(counter(8)), &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("recording of breakpoints (mem:0x70000040/8:w)")
            && error.contains("Try: pmuscope report "),
        "{error}"
    );
}

#[test]
fn without_a_table_of_writers_the_kernel_may_still_have_counted() {
    let mut recording = Recording { writes: steps(300, |at| at % 3 != 0), ..Recording::default() };
    recording.names = threads();
    recording.no_writers = true;
    recording.info.means = Means::Samples;
    recording.info.blocks = vec![ArmedBlock {
        from_ns: START,
        until_ns: START + 1_000_000_000,
        armed_ns: 1_000_000_000,
        hits: vec![300],
        points: Vec::new(),
        ..ArmedBlock::default()
    }];
    let hits = read(&recording.target(counter(8)), &Options::default()).unwrap();
    let target = &hits.targets[0];
    assert_eq!((target.hits, target.exact, target.has_writers), (300, true, false));
    assert_eq!(
        (target.written, target.matrix.total.hits, target.matrix.unattributed),
        (200, 200, 100)
    );
}
