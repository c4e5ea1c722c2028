//! Rows of a run file that `pmuscope stat` wrote, and of files that are wrong.

use std::path::Path;

use pmuscope_dataset::{Rows, RunValueRow, RunsError, RunsOrigin, Timestamp, run_rows};
use pmuscope_measure::{Guest, RunFile, parse};

/// What `pmuscope stat -r 5 --per MiB=1 -e … --json=stat.json -- gzip -kf data` wrote, with the parts of the machine that are read.
const STAT: &str = include_str!("../data/stat.json");

fn file() -> RunFile {
    parse(STAT.as_bytes(), Path::new("stat.json")).unwrap()
}

fn origin() -> RunsOrigin {
    RunsOrigin { batch: 7, ..RunsOrigin::default() }
}

fn rows(file: &RunFile) -> Rows {
    run_rows(file, &origin()).unwrap()
}

fn values<'a>(rows: &'a Rows, name: &str) -> Vec<&'a RunValueRow> {
    rows.run_values.iter().filter(|row| &*row.name == name).collect()
}

#[test]
fn every_run_is_a_row_and_every_value_is_as_it_was_measured() {
    let file = file();
    let rows = rows(&file);
    assert_eq!((rows.runs.len(), rows.hosts.len()), (5, 1));
    for (row, run) in rows.runs.iter().zip(&file.runs) {
        assert_eq!((&*row.host, &*row.benchmark, row.arm.as_deref()), ("web-1", "gzip", None));
        assert_eq!((row.run, row.usable, row.exit_status), (run.index as i64, true, Some(0)));
        assert_eq!(row.start.0, run.started.parse::<i64>().unwrap() / 1000);
        assert!((row.duration_us as f64 / 1e6 - run.duration_s).abs() < 1e-6);
        assert!(row.tool.starts_with("pmuscope ") && row.kernel.is_some() && row.boot.is_none());
    }
    let expected: usize = file.series.iter().map(|series| series.values.len()).sum();
    let work = values(&rows, "MiB");
    assert_eq!(work.len(), 5);
    assert!(work.iter().all(|row| &*row.origin == "work" && row.value == Some(1.0)));
    assert_eq!(rows.run_values.len(), expected + work.len());
    for series in &file.series {
        let found = values(&rows, &series.metric);
        assert_eq!(found.len(), series.values.len(), "{}", series.metric);
        for (row, value) in found.iter().zip(&series.values) {
            assert_eq!((row.value, &*row.value_unit), (value.value, &*series.unit));
            assert_eq!((row.run, row.batch), (value.run as i64, 7));
        }
    }
    // What its descriptors read, added up.
    let [faults, ..] = values(&rows, "page-faults")[..] else { panic!("{rows:?}") };
    assert_eq!(faults.count.map(|count| count as f64), faults.value);
    assert_eq!(&*faults.origin, "software");
    assert!(faults.enabled_us > Some(0) && faults.enabled_us == faults.running_us);
    // This machine has no such counter: no value, and the reason.
    let [cycles, ..] = values(&rows, "cycles")[..] else { panic!("{rows:?}") };
    assert!(cycles.value.is_none() && cycles.count.is_none() && cycles.why.is_some());
}

#[test]
fn what_is_said_of_a_file_is_in_its_rows() {
    let origin = RunsOrigin {
        host: Some("web-9".into()),
        service: Some("shop".into()),
        version: Some("1.3".into()),
        benchmark: Some("compress".into()),
        batch: 1,
    };
    let rows = run_rows(&file(), &origin).unwrap();
    let run = &rows.runs[0];
    assert_eq!((&*run.host, &*run.benchmark), ("web-9", "compress"));
    assert_eq!((run.service.as_deref(), run.version.as_deref()), (Some("shop"), Some("1.3")));
    let value = &rows.run_values[0];
    assert_eq!((&*value.host, value.service.as_deref()), ("web-9", Some("shop")));
    assert_eq!(&*rows.hosts[0].host, "web-9");
}

#[test]
fn arms_settings_and_guests_are_columns() {
    let mut file = file();
    let labels = [("arm", "B"), ("cell", "old"), ("threads", "4")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    file.runs[1].labels = labels.into();
    file.runs[2].exit = Some(3);
    file.guests.push(Guest {
        cell: "old".into(),
        kernel: Some("5.10.1".into()),
        acceleration: Some("tcg".into()),
        ..Guest::default()
    });
    file.series[0].labels = [("arm", "B"), ("cpu", "0")].map(|(a, b)| (a.into(), b.into())).into();
    let rows = rows(&file);
    let [_, guest, failed, ..] = &rows.runs[..] else { panic!("{rows:?}") };
    assert_eq!(guest.arm.as_deref(), Some("B"));
    assert_eq!(guest.settings.as_deref(), Some(";cell=old;threads=4;"));
    assert_eq!((guest.emulator.as_deref(), guest.kernel.as_deref()), (Some("tcg"), Some("5.10.1")));
    assert_eq!((failed.usable, failed.exit_status), (false, Some(3)));
    assert_eq!(values(&rows, &file.series[0].metric)[0].part.as_deref(), Some(";cpu=0;"));
}

/// Slices of a run are no runs.
#[test]
fn intervals_are_added_up_to_their_run() {
    let mut file = file();
    for run in &mut file.runs {
        run.order = 0;
        run.labels.insert("interval".to_owned(), run.index.to_string());
    }
    let rows = rows(&file);
    let [run] = &rows.runs[..] else { panic!("{rows:?}") };
    assert!(run.usable && run.settings.is_none());
    let [faults] = values(&rows, "page-faults")[..] else { panic!("{rows:?}") };
    let series = file.series.iter().find(|series| series.metric == "page-faults").unwrap();
    assert_eq!(faults.value, Some(series.numbers().iter().sum()));
}

#[test]
fn what_a_file_lacks_or_claims_is_an_error() {
    let why = |change: &dyn Fn(&mut RunFile)| {
        let mut file = file();
        change(&mut file);
        run_rows(&file, &origin()).unwrap_err()
    };
    assert_eq!(why(&|file| file.machine = serde_json::Value::Null), RunsError::NoHost);
    for text in ["", "yesterday", "-", "99999999999999999999999999"] {
        let error = why(&|file| file.runs[1].started = text.to_owned()).to_string();
        assert!(error.contains("run 1 starts at") && error.contains("Try: "), "{error}");
    }
    assert_eq!(why(&|file| file.runs[1].index = 0), RunsError::Twice(0));
    let far = |file: &mut RunFile| file.runs[0].started = "0".into();
    assert!(matches!(why(&far), RunsError::TooLong(20_000..)));
    // Names are in each row: few bytes of a file would become many.
    let long = |file: &mut RunFile| {
        file.series[0].metric = "x".repeat(1 << 20);
        let value = file.series[0].values[0].clone();
        file.series[0].values = vec![value; 300];
    };
    assert_eq!(why(&long), RunsError::TooMany);
    let mut empty = file();
    empty.runs.clear();
    empty.series.clear();
    assert_eq!(run_rows(&empty, &origin()).unwrap(), Rows::default());
}

#[test]
fn a_run_begins_at_its_own_time() {
    let mut file = file();
    file.runs[0].started = "1764028800000001999".into();
    assert_eq!(rows(&file).runs[0].start, Timestamp(1_764_028_800_000_001));
}
