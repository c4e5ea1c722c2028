//! Waits of a recording made up byte by byte; some names are wider than a terminal.

use std::sync::Arc;

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::waits::CollectedWaits;
use pmuscope_profile::{Filter, Options};
use pmuscope_symbols::KernelIdentity;

use super::*;
use pmuscope_testkit::wait_file::{Recording, Step, What};

const MAIN: (u32, u32) = (100, 100);
const OTHER: (u32, u32) = (100, 101);
const FUTEX: &[&str] = &["__schedule", "schedule", "schedule_timeout", "futex_do_wait"];
const PIPE: &[&str] = &["__schedule", "schedule", "pipe_read"];
/// As C++ has them.
const LONG: &str =
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_wait()";

/// Two threads that wait for each other, for an interrupt and for a CPU.
fn waits(has_wakings: bool) -> Waits {
    let out = |preempted| What::Out { preempted };
    let wakes = |interrupt, from| What::Wakes { tid: 100, interrupt, from };
    let mut steps: Vec<Step> = vec![
        (10, MAIN, What::Leaves(FUTEX)),
        (10, MAIN, out(false)),
        (12, OTHER, What::In),
        (25, OTHER, wakes(false, &["try_to_wake_up", "wake_up_q", "futex_wake"])),
        (30, MAIN, What::In),
        (40, MAIN, What::Leaves(PIPE)),
        (40, MAIN, out(false)),
        (45, OTHER, wakes(true, &["try_to_wake_up", "hrtimer_wakeup"])),
        (46, MAIN, What::In),
        (60, MAIN, What::Leaves(&["__schedule", "schedule"])),
        (60, MAIN, out(true)),
        (65, MAIN, What::In),
        (70, OTHER, What::Leaves(FUTEX)),
        (70, OTHER, out(false)),
    ];
    steps.retain(|(.., what)| has_wakings || !matches!(what, What::Wakes { .. }));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    let names = vec![(100, 100, "main"), (100, 101, "thread-pool/012")];
    Recording { steps, names, seconds: 0.1, has_wakings }.write(&path);
    let recording = RecordingFile::open(&path).unwrap();
    let (collected, reader) = CollectedWaits::read(&recording, Filter::default(), None).unwrap();
    let running = KernelIdentity::default();
    collected.waits(&reader, &running, Options::COUNTS, &mut |_| Vec::new()).unwrap()
}

/// The rows, with one more whose names are long.
fn rows(waits: &Waits, by: &[WaitBy]) -> Vec<WaitRow> {
    let mut rows = waits.rows(by, 10);
    let mut long = rows[0].clone();
    for key in &mut long.keys {
        if matches!(key, WaitKey::Function(..) | WaitKey::None) {
            *key = WaitKey::Function(LONG.into(), 0);
        }
    }
    for waker in &mut long.wakers {
        waker.function = Some(Arc::from(LONG));
    }
    rows.insert(1, long);
    rows
}

#[test]
fn waits_fit_the_terminal() {
    let waits = waits(true);
    for (name, by) in [
        ("waits", &[WaitBy::Wait][..]),
        ("waits-by-thread", &[WaitBy::Command, WaitBy::Thread, WaitBy::Function, WaitBy::Wait]),
    ] {
        let rows = rows(&waits, by);
        let limits = RowLimits::ALL;
        let view = WaitsView { file: "x.data", waits: &waits, by, rows: &rows, limits };
        crate::widths::fits(name, |style| view.text(style));
    }
}

#[test]
fn waits_without_wakeups_fit_the_terminal() {
    let (waits, by) = (waits(false), [WaitBy::Wait]);
    let rows = rows(&waits, &by);
    let limits = RowLimits { rows: Some(2), ..RowLimits::ALL };
    let view = WaitsView { file: "x.data", waits: &waits, by: &by, rows: &rows, limits };
    crate::widths::fits("waits-without-wakeups", |style| view.text(style));
}
