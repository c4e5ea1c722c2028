//! Metrics of a fleet of simulated machines, whose functions do what is known.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pmuscope_dataset::{
    Dataset, ImportOrigin, PROFILE, TaskIdentity, Timestamp, WINDOWS_EVENT, WindowsOf, rows,
    window_rows,
};
use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::metrics::{MetricCell, Table};
use pmuscope_profile::windows::{Options, Windows};
use pmuscope_profile::{Collected, GroupBy, Profile};
use pmuscope_query::{
    Engine, FleetMetricRow, FleetMetrics, MetricSource, Selection, ShareBy, metrics,
};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, State, Symbol};

use pmuscope_testkit::simulator::{Function, Run, name_at, write};

/// Those of [`Function::truth`], then a share of all functions.
const NAMES: [&str; 5] = ["CPI", "BM/KI", "CM/KI", "%CM", "%CY"];

fn program() -> Vec<Function> {
    vec![
        Function { branch_misses: 0.0001, ..Function::plain("division", 60_000.0, 0.2) },
        Function { branch_misses: 0.03, ..Function::plain("branches", 20_000.0, 0.9) },
        Function {
            cache_references: 0.5,
            cache_misses: 0.4,
            weight: 0.3,
            ..Function::plain("chase", 12_000.0, 0.28)
        },
        Function::plain("leaf", 150.0, 4.0),
    ]
}

/// A host's run.
fn run(seed: u64) -> Run {
    Run { functions: program(), seed, cycles: 1e8, ..Run::default() }
}

fn named(run: &Run, requests: &[Request<'_>]) -> Vec<Resolved> {
    let symbol = |&address: &u64| {
        name_at(&run.functions, address).map(|name| Symbol::named(name.into()).into())
    };
    let one = |request: &Request<'_>| Resolved {
        symbols: request.addresses.iter().map(symbol).collect(),
        state: State::Found,
    };
    requests.iter().map(one).collect()
}

fn read(run: &Run, path: &Path) -> (Windows, Profile) {
    let recording = RecordingFile::open(path).unwrap();
    let (options, running) = (Options::default(), KernelIdentity::default());
    let names = &mut |requests: &[Request<'_>]| named(run, requests);
    let windows =
        Windows::read(&recording, &options, &Metrics::builtin(), &running, names).unwrap();
    let mut reader = recording.reader().unwrap();
    let collected = Collected::read(&mut reader, GroupBy::default(), 1, None).unwrap();
    (windows, collected.profile(&reader, &running, PROFILE, names).unwrap())
}

/// A recording of each of these hosts in a dataset, and the windows of the first.
fn fleet(hosts: u64) -> (tempfile::TempDir, Windows) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.data");
    let dataset = Dataset::new(&folder.path().join("fleet"));
    let mut first = None;
    for host in 0..hosts {
        let run = run(host);
        write(&run, &path);
        let (windows, profile) = read(&run, &path);
        let name = format!("host-{host}");
        let origin = ImportOrigin {
            host: Some(Arc::from(&*name)),
            started: Some(Timestamp(1_764_028_800_000_000)),
            bin: Duration::from_secs(300),
            batch: host as i64,
        };
        let mix = || TaskIdentity::of_service("mix".into());
        let mut made = rows(&profile, &origin, &|_| mix()).unwrap();
        let of = WindowsOf { service: Some("mix".into()), version: None };
        made.append(window_rows(&windows, &profile, &origin, &of).unwrap());
        let cycles = made.windows.iter().filter(|row| &*row.event == "cycles");
        let kept: i64 = cycles.map(|row| row.windows).sum();
        assert_eq!(kept.unsigned_abs(), windows.total.kept());
        assert!(made.windows.iter().all(|row| !row.event.is_empty()));
        dataset.write_all(made, origin.started.unwrap(), &name).unwrap();
        first.get_or_insert(windows);
    }
    (folder, first.unwrap())
}

fn asked(folder: &tempfile::TempDir, chosen: &[&Metric], known: &Metrics) -> FleetMetrics {
    let engine = Engine::open(&folder.path().join("fleet").as_path().into()).unwrap();
    let event = Some(WINDOWS_EVENT.to_owned());
    engine.select(&Selection { event, ..Selection::default() }, None).unwrap();
    metrics(&engine, MetricSource::Windows, (&[ShareBy::Function], 10), known, chosen).unwrap()
}

fn row<'a>(found: &'a FleetMetrics, function: &str) -> &'a FleetMetricRow {
    found.rows.iter().find(|row| row.keys == [function]).unwrap()
}

#[test]
fn one_host_has_the_values_of_its_recording_and_no_intervals() {
    let (folder, windows) = fleet(1);
    let known = Metrics::builtin();
    let chosen = known.chosen(&NAMES).unwrap();
    let found = asked(&folder, &chosen, &known);
    let table = Table::new(&windows, &known, &chosen);
    for one in &windows.rows {
        let function = one.key.function.as_deref().unwrap_or_default();
        let cells: Vec<MetricCell> = table.cells(one);
        for (cell, metric) in cells.iter().zip(&row(&found, function).metrics) {
            assert_eq!(cell.windows, metric.counted, "{function}");
            assert!(metric.interval.is_none(), "{function}: {metric:?}");
            let (Some(value), Some(expected)) = (metric.value, cell.value) else {
                assert_eq!(metric.value, cell.value, "{function}");
                continue;
            };
            // Counts of all windows that end in a function are whole numbers here.
            let off = (value - expected).abs();
            assert!(off <= 1e-3 * expected.abs(), "{function}: {value}, {expected}");
        }
    }
    assert_eq!(found.total.unwrap().counted, windows.total.kept());
}

#[test]
fn intervals_over_hosts_hold_what_functions_do() {
    let (folder, _) = fleet(8);
    let known = Metrics::builtin();
    let chosen = known.chosen(&NAMES).unwrap();
    let found = asked(&folder, &chosen, &known);
    assert_eq!((found.coverage.hosts.len(), found.event_sets.len()), (8, 1));
    let mut held = 0;
    for function in &program()[..3] {
        let row = row(&found, function.name);
        assert_eq!(row.hosts, 8);
        for (metric, truth) in row.metrics.iter().zip(function.truth()) {
            if truth == 0.0 {
                assert_eq!(metric.value.unwrap_or(0.0), 0.0, "{}", function.name);
                continue;
            }
            let interval = metric.interval.unwrap();
            let off = (metric.value.unwrap() - truth).abs();
            assert!(off < 2.5 * interval.half_width(), "{} {metric:?} {truth}", function.name);
            held += usize::from((interval.low..=interval.high).contains(&truth));
        }
        let share = row.metrics[4].interval.unwrap();
        assert!(share.high < 100.0 && share.low > 0.0, "{share:?}");
    }
    // Of seven: the seeds are fixed.
    assert!(held >= 6, "{held}");
    // Too short for windows of 300 cycles.
    assert!(row(&found, "leaf").metrics[0].interval.is_none());
    let share = found.total.unwrap().metrics[4];
    assert!((share.value.unwrap() - 100.0).abs() < 1e-9, "{share:?}");
}
