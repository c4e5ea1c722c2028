//! Windows of recordings that are in several files, of several groups, were not closed, or whose events were
//! opened anew.

use std::path::{Path, PathBuf};

use pmuscope_events::metrics::Metrics;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::Names;
use pmuscope_profile::windows::{Attribution, Cause, Options, Windows};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State};

use crate::windows::{cells, options, program, read_with, row, simulated};
use pmuscope_testkit::simulator::{COUNTS, Form, Function, Run, write};

fn read(run: &Run) -> Windows {
    simulated(run)
}

/// Names of functions with their windows, and how many of these count.
fn rows(windows: &Windows) -> Vec<(String, u64, u64)> {
    let of = |row: &pmuscope_profile::windows::WindowRow| {
        (format!("{:?}", row.key.function), row.windows(), row.kept())
    };
    windows.rows.iter().map(of).collect()
}

#[test]
fn files_that_follow_one_another_have_all_windows_but_those_between_them() {
    let whole = Run { functions: program(), cycles: 1e8, ..Run::default() };
    let (first, second) =
        (Run { ended_at: 4.3e7, ..whole.clone() }, Run { begun_at: 4.3e7, ..whole.clone() });
    let [whole, first, second] = [whole, first, second].map(|run| read(&run));
    let both = first.total.windows() + second.total.windows();
    // On each of two CPUs the border can lie within a window.
    assert!(both <= whole.total.windows() && both + 2 >= whole.total.windows(), "{both}");
    assert!(second.total.kept() + 4 >= second.total.windows() * 9 / 10, "{:?}", second.by_cpu);
    assert_eq!(second.total.rejected(Cause::WrongOffset), 0);
    assert!(first.kind == whole.kind && second.kind == whole.kind);
}

/// Two groups take turns from epoch to epoch, and every period has a burst of three windows.
#[test]
fn groups_that_take_turns_add_up_burst_by_burst() {
    let run = Run {
        functions: program(),
        burst: 3,
        turns: vec![vec![0, 1], vec![0, 2, 3]],
        cycles: 6e8,
        ..Run::default()
    };
    let windows = read(&run);
    // Three windows a period of 200,003 cycles and some, on two CPUs.
    let expected = 3.0 * 2.0 * run.cycles / (1.01 * run.period as f64);
    let all = windows.total.windows() as f64;
    assert!((all / expected - 1.0).abs() < 0.03, "{all} {expected}");
    assert_eq!(windows.leaders.len(), 2);
    assert_eq!(windows.total.rejected(Cause::WrongOffset), 0);
    assert_eq!(windows.total.rejected(Cause::NoStart), 0);
    for function in &run.functions[..4] {
        let row = row(&windows, function.name);
        let cells = cells(&windows, row);
        // CPI is of the windows of both groups, misses of those of one.
        assert_eq!(cells[0].windows, row.kept());
        assert_eq!(cells[1].windows + cells[2].windows, row.kept(), "{COUNTS:?}");
        for (cell, truth) in cells.iter().zip(function.truth()) {
            let half = cell.interval.map_or(1e9, |one| one.half_width());
            let off = (cell.value.unwrap() - truth).abs();
            assert!(off < 2.5 * half, "{} {cell:?} {truth}", function.name);
        }
    }
}

#[test]
fn a_killed_recording_has_the_windows_of_a_closed_one() {
    let closed = Run { functions: program(), cycles: 1e8, ..Run::default() };
    let killed = Run { killed: true, ..closed.clone() };
    let [closed, killed] = [closed, killed].map(|run| read(&run));
    assert!(closed.total.windows() > 900);
    assert_eq!(rows(&killed), rows(&closed));
    assert_eq!(killed.outside, closed.outside);
}

/// A CPU was away for a moment: its events are others, whose ids are in the stream only.
#[test]
fn events_that_were_opened_anew_go_on_also_where_the_recorder_was_killed() {
    let whole = Run { functions: program(), cycles: 1e8, ..Run::default() };
    let reopened = Run { reopened: Some(1), ..whole.clone() };
    let killed = Run { killed: true, ..reopened.clone() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(&killed, &path);
    for threads in [1, 2] {
        let windows = read_with(&killed, &path, &Options { threads, ..options() }).unwrap();
        assert_eq!(windows.tally.samples_of_no_event, 0, "{threads} threads");
    }
    let [whole, reopened, killed] = [whole, reopened, killed].map(|run| read(&run));
    assert_eq!(rows(&reopened), rows(&whole));
    assert_eq!(rows(&killed), rows(&whole));
    assert_eq!(killed.by_cpu, whole.by_cpu);
}

/// Keeps what it is told of.
#[derive(Default)]
struct Dumps(Vec<(i32, PathBuf)>);

impl Names for Dumps {
    fn jit_dump(&mut self, pid: i32, path: &Path) {
        self.0.push((pid, path.to_owned()));
    }

    fn resolve(&mut self, requests: &[Request<'_>]) -> Vec<Resolved> {
        assert_eq!(self.0.len(), 1, "dumps come before addresses");
        let nameless = |one: &Request<'_>| Resolved {
            symbols: vec![None; one.addresses.len()],
            state: State::Found,
        };
        requests.iter().map(nameless).collect()
    }
}

#[test]
fn descriptions_of_code_that_was_made_are_handed_on_before_addresses() {
    let run = Run {
        functions: program(),
        cycles: 2e7,
        jit_dump: Some("/tmp/jit-100.dump"),
        ..Run::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(&run, &path);
    let mut dumps = Dumps::default();
    let running = KernelIdentity::default();
    Windows::read(
        &RecordingFile::open(&path).unwrap(),
        &options(),
        &Metrics::builtin(),
        &running,
        &mut dumps,
    )
    .unwrap();
    assert_eq!(dumps.0, [(100, PathBuf::from("/tmp/jit-100.dump"))]);
}

/// Without discarding, windows of functions shorter than ten windows are still marked.
#[test]
fn attribution_to_the_end_marks_short_functions_as_discarding_does() {
    let mut functions = program();
    functions[4] = Function { weight: 20.0, ..functions[4] };
    let run = Run { functions, form: Form::Strobe, cycles: 3e8, ..Run::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    write(&run, &path);
    let read = |attribution| read_with(&run, &path, &Options { attribution, ..options() }).unwrap();
    let (none, discard) = (read(Attribution::None), read(Attribution::Discard));
    let marked = |windows: &Windows, name: &str| {
        let cells = cells(windows, row(windows, name));
        cells.iter().all(|cell| cell.value.is_some() && cell.interval.is_none())
    };
    for windows in [&none, &discard] {
        assert!(marked(windows, "leaf") && !marked(windows, "division"));
    }
    assert!(row(&none, "leaf").kept() > row(&discard, "leaf").kept());
}
