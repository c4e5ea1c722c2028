//! Waits of threads whose time is all known.

use std::path::Path;

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_perfdata::watch::WatchTarget;
use pmuscope_profile::waits::{
    CollectedWaits, OffCpuKind, WaitBy, WaitKey, WaitRow, Waits, WaitsError,
};
use pmuscope_profile::{Filter, Options};
use pmuscope_symbols::KernelIdentity;
use tempfile::TempDir;

use pmuscope_testkit::wait_file::{
    FUTEX, MAIN, MS, OTHER, PIPE, Recording, Step, Switches, What, steps,
};

fn read(path: &Path, filter: Filter) -> Waits {
    let (collected, reader) =
        CollectedWaits::read(&RecordingFile::open(path).unwrap(), filter, None).unwrap();
    let options = Options::COUNTS;
    // The recording itself names all functions.
    let running = KernelIdentity::default();
    collected.waits(&reader, &running, options, &mut |_| Vec::new()).unwrap()
}

fn waits(steps: Vec<Step>) -> Waits {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.data");
    let names = vec![(100, 100, "main"), (100, 101, "other")];
    Recording { steps, names, seconds: 0.1, has_wakings: true }.write(&path);
    read(&path, Filter::default())
}

fn row<'a>(rows: &'a [WaitRow], name: &str) -> &'a WaitRow {
    let is = |row: &&WaitRow| match &row.keys[0] {
        WaitKey::Function(function, _) => **function == *name,
        WaitKey::State(kind) => format!("{kind:?}") == name,
        _ => false,
    };
    rows.iter().find(is).unwrap_or_else(|| panic!("no {name}: {rows:#?}"))
}

#[test]
fn each_row_has_its_time_and_who_ended_it() {
    let waits = waits(steps());
    let rows = waits.rows(&[WaitBy::Wait], 10);
    let futex = row(&rows, "futex_do_wait");
    // Of main 20 ms, 15 of them until it was woken; of the other 30 up to the end.
    assert_eq!((futex.sums.waits, futex.sums.ns), (2, 50 * MS));
    assert_eq!((futex.sums.blocked_ns, futex.sums.queued_ns), (15 * MS, 5 * MS));
    assert_eq!((futex.sums.last_past, futex.sums.lengths.n()), ((1, 30 * MS), 1));
    assert_eq!(futex.sums.longest_ns(), Some((30 * MS, true)));
    let waker = &futex.wakers[0];
    assert_eq!(waker.command.as_deref(), Some("other"));
    assert_eq!((waker.function.as_deref(), waker.waits), (Some("futex_wake"), 1));
    let pipe = row(&rows, "pipe_read");
    assert_eq!((pipe.sums.ns, pipe.sums.queued_ns), (6 * MS, MS));
    assert_eq!((&pipe.wakers[0].command, &pipe.wakers[0].task), (&None, &None));
    assert_eq!(pipe.wakers[0].function.as_deref(), Some("hrtimer_wakeup"));
    let preempted = row(&rows, "Preempted");
    assert_eq!((preempted.sums.ns, preempted.kind), (5 * MS, Some(OffCpuKind::Preempted)));
    let before = row(&rows, "Unknown");
    assert_eq!((before.sums.begun_before, before.sums.ns), ((1, 12 * MS), 12 * MS));
}

#[test]
fn all_time_of_all_threads_adds_up() {
    let waits = waits(steps());
    let wall = &waits.wall;
    assert_eq!((wall.total_ns(), wall.unknown_ns), (200 * MS, 0));
    assert_eq!((wall.running_ns, wall.off_ns), ((69 + 58) * MS, (31 + 42) * MS));
    assert_eq!((waits.threads, waits.silent), (2, 0));
    let by_thread = waits.rows(&[WaitBy::Thread, WaitBy::Command], 0);
    let of = |tid: i64| {
        let row = by_thread.iter().find(|row| row.keys[0] == WaitKey::Number(tid)).unwrap();
        (row.keys[1].clone(), row.sums.ns / MS)
    };
    assert_eq!(of(100), (WaitKey::Name("main".into()), 31));
    assert_eq!(of(101), (WaitKey::Name("other".into()), 42));
    // As a profile, blocked, preempted and on a run queue are events that weigh by time.
    let weight = |event| {
        let cells = waits.profile.aggregate.of_event(event).iter();
        cells.map(|cell| cell.weight).sum::<u64>()
    };
    assert_eq!([0, 1, 2, 3, 4].map(weight), [50 * MS, 5 * MS, 0, 12 * MS, 6 * MS]);
    let blocked = &waits.by_kind[0];
    assert_eq!((blocked.ns, blocked.queued_ns), (56 * MS, 6 * MS));
}

fn recording() -> Recording {
    let names = vec![(100, 100, "main"), (100, 101, "other")];
    Recording { steps: steps(), names, seconds: 0.1, has_wakings: true }
}

#[test]
fn switches_are_the_same_by_tracepoint() {
    let folder = TempDir::new().unwrap();
    let of_form = |form| {
        let path = folder.path().join("x.data");
        recording().write_in_form(&path, form);
        let waits = read(&path, Filter::default());
        let all = WaitBy::ALL.map(|(_, by)| by);
        (waits.rows(&all, 0), waits.wall, waits.threads, waits.has_stacks, waits.has_wakings)
    };
    let samples = of_form(Switches::Samples);
    assert_eq!(samples.1.total_ns(), 200 * MS);
    assert_eq!(of_form(Switches::Tracepoint), samples);
    assert_eq!(of_form(Switches::TracepointAlone), samples);
}

#[test]
fn a_thread_that_ends_has_no_time_after_its_end() {
    let folder = TempDir::new().unwrap();
    let of_form = |form| {
        let path = folder.path().join("x.data");
        let mut recording = recording();
        recording.steps.extend([(80, OTHER, What::In), (90, OTHER, What::Ends)]);
        recording.write_in_form(&path, form);
        let waits = read(&path, Filter::default());
        (waits.rows(&[WaitBy::Thread, WaitBy::Wait], 0), waits.wall, waits.broken)
    };
    let samples = of_form(Switches::Samples);
    assert_eq!((samples.1.total_ns(), samples.1.unknown_ns), (190 * MS, 0));
    assert_eq!(of_form(Switches::TracepointAlone), samples);
}

#[test]
fn switches_of_some_threads_by_tracepoint_do_not_show_waits() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.data");
    recording().write_in_form(&path, Switches::TracepointOfThreads);
    let recording = RecordingFile::open(&path).unwrap();
    let error = CollectedWaits::read(&recording, Filter::default(), None).unwrap_err();
    assert!(matches!(error, WaitsError::NoReturns { .. }), "{error}");
}

#[test]
fn time_around_a_loss_is_not_known_and_in_no_row() {
    let mut steps = steps();
    // Main leaves for the pipe unseen and is told to come back.
    steps.retain(|(at, task, _)| !(*task == MAIN && *at == 40));
    steps.push((48, MAIN, What::Lost(2)));
    steps.sort_by_key(|(at, ..)| *at);
    let waits = waits(steps);
    assert_eq!((waits.broken.beginnings, waits.wall.total_ns()), (1, 200 * MS));
    let rows = waits.rows(&[WaitBy::Wait], 0);
    assert!(rows.iter().all(|row| !format!("{:?}", row.keys).contains("pipe_read")), "{rows:#?}");
    // Main's time from 30 to 60, and the other's 58 on the CPU.
    assert_eq!(waits.wall.unknown_ns, (30 + 58) * MS);
    assert_eq!(waits.profile.lost.count, 2);
}

#[test]
fn a_wait_without_a_waking_says_so_and_what_is_left_of_the_waker_is_not_its() {
    let mut steps = steps();
    // The kernel drops the record of what ended main's first wait.
    steps.retain(|(at, ..)| *at != 25);
    let waits = waits(steps);
    let rows = waits.rows(&[WaitBy::Wait], 0);
    let futex = row(&rows, "futex_do_wait");
    // The other's wait lasts past the end: it was not woken.
    assert_eq!((futex.sums.waits, futex.sums.woken), (2, 0));
    assert_eq!((futex.sums.without_waking, futex.sums.queued_ns), ((1, 20 * MS), 0));
    assert!(futex.wakers.is_empty(), "{:?}", futex.wakers);
    assert_eq!(row(&rows, "pipe_read").sums.without_waking, (0, 0));
    // Nobody has to wake whoever could run.
    assert_eq!(row(&rows, "Preempted").sums.without_waking, (0, 0));
    assert_eq!(waits.by_kind[OffCpuKind::Blocked as usize].without_waking, (1, 20 * MS));
}

#[test]
fn a_row_is_of_who_waits_not_of_the_way_to_wait_and_one_for_all_code_without_names() {
    let wait = |from: u64, stack| {
        let out = What::Out { preempted: false };
        [(from, MAIN, What::Leaves(stack)), (from, MAIN, out), (from + 5, MAIN, What::In)]
    };
    let socket = &["__schedule", "schedule", "schedule_timeout", "wait_woken", "pipe_read"];
    let waits = waits([wait(10, socket), wait(20, &["+16"]), wait(30, &["+4096"])].concat());
    let rows = waits.rows(&[WaitBy::Wait], 0);
    assert_eq!(row(&rows, "pipe_read").sums.ns, 5 * MS);
    let [unnamed, _] = &rows[..] else { panic!("{rows:#?}") };
    assert!(matches!(unnamed.keys[..], [WaitKey::Unnamed(_)]), "{unnamed:?}");
    assert_eq!((unnamed.sums.waits, unnamed.sums.ns), (2, 10 * MS));
}

#[test]
fn the_first_switch_of_anothers_recording_has_its_stack() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.data");
    let steps = vec![
        (10, MAIN, What::Leaves(FUTEX)),
        (11, MAIN, What::Out { preempted: false }),
        (30, MAIN, What::In),
        (40, MAIN, What::Out { preempted: true }),
    ];
    let names = vec![(100, 100, "main")];
    Recording { steps, names, seconds: 0.1, has_wakings: false }.write_as_others(&path);
    let waits = read(&path, Filter::default());
    let rows = waits.rows(&[WaitBy::Wait], 0);
    assert_eq!(row(&rows, "futex_do_wait").sums.ns, 20 * MS);
    assert_eq!((waits.wall.running_ns, waits.wall.unknown_ns), (10 * MS, 0));
}

#[test]
fn threads_can_be_left_out() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.data");
    let names = vec![(100, 100, "main"), (100, 101, "other"), (7, 7, "silent")];
    Recording { steps: steps(), names, seconds: 0.1, has_wakings: true }.write(&path);
    let main = read(&path, Filter { comms: vec![b"main".to_vec()], ..Filter::default() });
    assert_eq!((main.threads, main.silent, main.wall.total_ns()), (1, 0, 100 * MS));
    // Who wakes need not be asked for.
    let rows = main.rows(&[WaitBy::Wait], 0);
    assert_eq!(row(&rows, "futex_do_wait").wakers[0].command.as_deref(), Some("other"));
    assert_eq!(read(&path, Filter::default()).silent, 1);
}

#[test]
fn without_wakings_nothing_is_said_of_run_queues() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.data");
    let steps: Vec<Step> =
        steps().into_iter().filter(|step| !matches!(step.2, What::Wakes { .. })).collect();
    let names = vec![(100, 100, "main")];
    Recording { steps, names, seconds: 0.1, has_wakings: false }.write(&path);
    let waits = read(&path, Filter::default());
    assert!(waits.has_stacks && !waits.has_wakings);
    let rows = waits.rows(&[WaitBy::Wait], 0);
    assert!(rows.iter().all(|row| row.sums.woken == 0 && row.wakers.is_empty()), "{rows:#?}");
}

#[test]
fn a_thread_that_begins_waits_for_its_first_cpu() {
    let steps = vec![
        (10, OTHER, What::Begins),
        (14, OTHER, What::In),
        (20, OTHER, What::Leaves(PIPE)),
        (20, OTHER, What::Out { preempted: false }),
        (50, OTHER, What::In),
        (60, OTHER, What::Ends),
        // As recordings of whole CPUs have it.
        (60, OTHER, What::Leaves(PIPE)),
        (60, OTHER, What::Out { preempted: false }),
    ];
    let waits = waits(steps);
    assert_eq!((waits.wall.total_ns(), waits.wall.running_ns), (50 * MS, 16 * MS));
    let rows = waits.rows(&[WaitBy::Wait], 0);
    assert_eq!((row(&rows, "New").sums.ns, row(&rows, "pipe_read").sums.ns), (4 * MS, 30 * MS));
}

#[test]
fn a_recording_without_switches_is_told_from_one_without_waits() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.data");
    let recording =
        Recording { steps: Vec::new(), names: Vec::new(), seconds: 0.1, has_wakings: false };
    recording.write(&path);
    assert_eq!(read(&path, Filter::default()).threads, 0);
    let none = pmuscope_testkit::hit_file::Recording::default();
    let target = WatchTarget { bytes: 8, ..WatchTarget::default() };
    none.target(target).write(&path);
    let error = CollectedWaits::read(&RecordingFile::open(&path).unwrap(), Filter::default(), None)
        .unwrap_err();
    assert!(matches!(error, WaitsError::NotRecorded { .. }), "{error}");
}
