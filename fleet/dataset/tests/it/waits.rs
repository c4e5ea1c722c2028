//! Waits of threads whose time is all known, as rows.

use std::sync::Arc;
use std::time::Duration;

use pmuscope_dataset::{ImportOrigin, PROFILE, TaskIdentity, Timestamp, WaitRow, wait_rows};
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::Filter;
use pmuscope_profile::aggregate::Task;
use pmuscope_profile::waits::{CollectedWaits, Waits};
use pmuscope_symbols::KernelIdentity;

use pmuscope_testkit::wait_file::{Recording, steps};

fn waits() -> Waits {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    let names = vec![(100, 100, "main"), (100, 101, "other")];
    Recording { steps: steps(), names, seconds: 0.1, has_wakings: true }.write(&path);
    let recording = RecordingFile::open(&path).unwrap();
    let (collected, reader) = CollectedWaits::read(&recording, Filter::default(), None).unwrap();
    // The recording itself names all functions.
    collected.waits(&reader, &KernelIdentity::default(), PROFILE, &mut |_| Vec::new()).unwrap()
}

#[test]
fn a_wait_is_a_row_by_its_length_with_its_time_on_a_run_queue() {
    let origin = ImportOrigin {
        host: Some("web-1".into()),
        started: Some(Timestamp(1_764_000_000_000_000)),
        bin: Duration::from_secs(300),
        batch: 7,
    };
    let identify = |task: &Task| TaskIdentity::of_service(Arc::clone(&task.command));
    let rows = wait_rows(&waits(), &origin, &identify).unwrap();
    let facts = |service: &str, wait: Option<&str>, state: &str| {
        let is = |row: &&WaitRow| {
            (&*row.service, row.wait.as_deref(), &*row.state) == (service, wait, state)
        };
        let found: Vec<&WaitRow> = rows.waits.iter().filter(is).collect();
        let [row] = found[..] else { panic!("{service} {wait:?}: {:#?}", rows.waits) };
        (row.length_ns, row.waits, row.time_us, row.queued_us)
    };
    let futex = facts("main", Some("futex_do_wait"), "blocked");
    assert_eq!(futex, (Some(1 << 24), 1, 20_000, 5_000));
    let pipe = facts("main", Some("pipe_read"), "blocked");
    assert_eq!(pipe, (Some(1 << 22), 1, 6_000, 1_000));
    assert_eq!(facts("main", None, "preempted"), (Some(1 << 22), 1, 5_000, 0));
    // It was going on at the end, so its length is not known.
    assert_eq!(facts("other", Some("futex_do_wait"), "blocked"), (None, 1, 30_000, 0));
    // With their stacks: time until the wakeup, and from then on.
    let weight = |event: &str| -> i64 {
        rows.samples.iter().filter(|row| &*row.event == event).map(|row| row.weight).sum()
    };
    assert_eq!(weight("off-cpu:blocked"), 15_000 + 5_000 + 30_000);
    assert_eq!(weight("off-cpu:run-queue"), 5_000 + 1_000);
    assert_eq!(weight("off-cpu:preempted"), 5_000);
    assert!(rows.samples.iter().all(|row| &*row.weight_unit == "us"));
    let blocked = rows.intervals.iter().filter(|row| &*row.event == "off-cpu:blocked");
    let recorded: Vec<_> = blocked.map(|row| (row.recorded_us / 1000, row.lost)).collect();
    assert_eq!(recorded, [(100, Some(0))]);
}
