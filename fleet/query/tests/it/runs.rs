//! Runs of benchmarks on hosts whose means are known.

use std::path::Path;

use pmuscope_dataset::{Dataset, Rows, RunRow, RunValueRow, Timestamp};
use pmuscope_query::{ColumnFilter, Engine, FleetRun, FleetRuns, Selection, ShareBy, runs};

/// 2025-11-25, midnight UTC.
const DAY: i64 = 1_764_028_800_000_000;
const SECOND: i64 = 1_000_000;

/// Runs of a file: host, CPU model, command, seconds of each run.
struct File<'a> {
    host: &'a str,
    cpu_model: &'a str,
    command_id: i64,
    arm: Option<&'a str>,
    wall_s: &'a [f64],
}

impl<'a> File<'a> {
    fn new(host: &'a str, wall_s: &'a [f64]) -> Self {
        Self { host, cpu_model: "small", command_id: 1, arm: None, wall_s }
    }

    fn rows(&self, batch: i64) -> Rows {
        let run = |at: usize| RunRow {
            start: Timestamp(DAY + at as i64 * 60 * SECOND),
            duration_us: 2 * SECOND,
            host: self.host.into(),
            service: Some("shop".into()),
            version: Some("1".into()),
            benchmark: "gzip".into(),
            command_id: self.command_id,
            arm: self.arm.map(Into::into),
            run: at as i64,
            usable: true,
            exit_status: Some(0),
            cpu_model: Some(self.cpu_model.into()),
            tool: "test".into(),
            batch,
            ..RunRow::default()
        };
        let value = |at: usize, name: &str, unit: &str, value: Option<f64>| RunValueRow {
            start: Timestamp(DAY + at as i64 * 60 * SECOND),
            host: self.host.into(),
            service: Some("shop".into()),
            version: Some("1".into()),
            run: at as i64,
            name: name.into(),
            value,
            value_unit: unit.into(),
            origin: "clock".into(),
            batch,
            ..RunValueRow::default()
        };
        let runs = (0..self.wall_s.len()).map(run).collect();
        let of_run = |(at, &wall)| {
            [
                value(at, "wall", "s", Some(wall)),
                value(at, "faults", "", Some(100.0)),
                // What was not measured is no 0.
                value(at, "cycles", "", None),
            ]
        };
        let run_values = self.wall_s.iter().enumerate().flat_map(of_run).collect();
        Rows { runs, run_values, ..Rows::default() }
    }
}

fn write(root: &Path, name: &str, rows: Rows) {
    Dataset::new(root).write_all(rows, Timestamp(DAY), name).unwrap();
}

fn fleet(files: &[File<'_>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (at, file) in files.iter().enumerate() {
        write(folder.path(), &format!("{}-{at}", file.host), file.rows(at as i64));
    }
    folder
}

fn asked(folder: &tempfile::TempDir, selection: &Selection, by: &[ShareBy]) -> FleetRuns {
    let engine = Engine::open(&folder.path().into()).unwrap();
    engine.select(selection, None).unwrap();
    runs(&engine, by, 20).unwrap()
}

const BENCHMARK: [ShareBy; 1] = [ShareBy::Benchmark];

#[track_caller]
fn mean_is(row: &FleetRun, mean: f64) {
    let found = row.mean.unwrap();
    assert!((found.value - mean).abs() < 1e-9, "{row:?}");
}

/// A host with many runs counts no more than one with few.
#[test]
fn a_mean_is_of_the_means_of_hosts_and_varies_with_them() {
    let folder = fleet(&[
        File::new("a", &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        File::new("b", &[1.5, 2.5]),
        File::new("c", &[3.0]),
    ]);
    let found = asked(&folder, &Selection::default(), &BENCHMARK);
    assert_eq!((found.runs, found.failed, found.hosts, found.all), (9, 0, 3, 2));
    assert_eq!(found.span_us, Some((DAY, DAY + (5 * 60 + 2) * SECOND)));
    let [wall, faults] = &found.rows[..] else { panic!("{found:?}") };
    assert_eq!((&*wall.keys[0], &*wall.name, &*wall.unit), ("gzip", "wall", "s"));
    assert_eq!((wall.hosts, wall.runs, wall.has_several_commands), (3, 9, false));
    mean_is(wall, 2.0);
    // Student's quantile of two degrees of freedom is 4.3027; the standard deviation of 1, 2 and 3 is 1.
    let interval = wall.mean.unwrap().interval.unwrap();
    assert!((interval.high - (2.0 + 4.302_652_73 / 3.0_f64.sqrt())).abs() < 1e-6, "{interval:?}");
    mean_is(faults, 100.0);
}

#[test]
fn two_hosts_have_no_interval() {
    let folder = fleet(&[File::new("a", &[1.0; 9]), File::new("b", &[2.0; 9])]);
    let found = asked(&folder, &Selection::default(), &BENCHMARK);
    mean_is(&found.rows[0], 1.5);
    assert_eq!(found.rows[0].mean.unwrap().interval, None);
}

#[test]
fn a_host_that_stands_out_is_named_with_its_ratio() {
    let means = [[1.0], [1.01], [0.99], [1.02], [0.98], [1.5]];
    let names = ["a", "b", "c", "d", "e", "slow"];
    let files: Vec<File<'_>> =
        names.iter().zip(&means).map(|(host, mean)| File::new(host, mean)).collect();
    let found = asked(&fleet(&files), &Selection::default(), &BENCHMARK);
    let [slow] = &found.rows[0].standing_out[..] else { panic!("{found:?}") };
    assert_eq!(slow.host, "slow");
    assert!((slow.ratio.unwrap() - 1.5 / 1.005).abs() < 1e-9, "{slow:?}");
    assert_eq!(found.rows[1].standing_out, [], "equal on all hosts");
}

#[test]
fn rows_are_by_what_was_asked_for() {
    let folder = fleet(&[
        File::new("a", &[1.0]),
        File { cpu_model: "large", ..File::new("b", &[0.5]) },
        File { cpu_model: "large", command_id: 2, ..File::new("c", &[0.7]) },
        File { arm: Some("B"), ..File::new("a", &[4.0]) },
    ]);
    let event = Some("wall".to_owned());
    let selection = Selection { event, ..Selection::default() };
    let rows = |by: &[ShareBy]| -> Vec<(String, f64)> {
        let found = asked(&folder, &selection, by);
        assert_eq!(found.rows.len() as i64, found.all);
        let row = |row: &FleetRun| {
            let mean = row.mean.unwrap().value;
            (row.keys.join(" "), (mean * 1000.0).round() / 1000.0)
        };
        found.rows.iter().map(row).collect()
    };
    let row = |keys: &str, mean: f64| (keys.to_owned(), mean);
    assert_eq!(rows(&[ShareBy::CpuModel]), [row("large", 0.6), row("small", 2.5)]);
    assert_eq!(rows(&[ShareBy::Host]), [row("a", 2.5), row("b", 0.5), row("c", 0.7)]);
    let by_arm = rows(&[ShareBy::Benchmark, ShareBy::Arm]);
    assert_eq!(by_arm, [row("gzip ", 0.733), row("gzip B", 4.0)]);
    let found = asked(&folder, &selection, &[ShareBy::CpuModel]);
    let mixed: Vec<bool> = found.rows.iter().map(|row| row.has_several_commands).collect();
    assert_eq!(mixed, [true, false]);
}

#[test]
fn what_is_not_usable_is_left_out_and_what_is_there_twice_counts_once() {
    let folder =
        fleet(&[File::new("a", &[1.0, 1.0]), File::new("b", &[2.0]), File::new("c", &[3.0])]);
    let file = File::new("b", &[8.0]);
    let mut broken = file.rows(7);
    broken.runs[0].usable = false;
    broken.runs[0].emulator = Some("none that counts".into());
    write(folder.path(), "b-broken", broken);
    // The import of the first file again, after its day was merged.
    write(folder.path(), "a-again", File::new("a", &[1.0, 1.0]).rows(0));
    let found = asked(&folder, &Selection::default(), &BENCHMARK);
    assert_eq!((found.runs, found.failed, found.hosts), (4, 1, 3));
    assert!(found.emulated.is_empty());
    assert_eq!((found.rows[0].runs, found.rows[0].hosts), (4, 3));
    mean_is(&found.rows[0], 2.0);
}

#[test]
fn filters_choose_runs_and_values() {
    let folder = fleet(&[File::new("a", &[1.0, 3.0]), File::new("b", &[2.0])]);
    let mut other = File::new("a", &[9.0]).rows(9);
    other.runs[0].benchmark = "zstd".into();
    other.runs[0].version = Some("2".into());
    other.run_values.iter_mut().for_each(|row| row.version = Some("2".into()));
    write(folder.path(), "other", other);
    let runs_of = |selection: &Selection| {
        let found = asked(&folder, selection, &BENCHMARK);
        (found.runs, found.rows.len())
    };
    let of =
        |condition: ColumnFilter| Selection { conditions: vec![condition], ..Selection::default() };
    assert_eq!(runs_of(&Selection::default()), (4, 4));
    assert_eq!(runs_of(&of(ColumnFilter::benchmarks(vec!["zstd".into()]))), (1, 2));
    let version = ColumnFilter::new("version", vec!["1".into()]).unwrap();
    assert_eq!(runs_of(&of(version)), (3, 2));
    let host = ColumnFilter::new("host", vec!["b".into()]).unwrap();
    assert_eq!(runs_of(&of(host)), (1, 2));
    let since = Some(Timestamp(DAY + SECOND));
    assert_eq!(runs_of(&Selection { since, ..Selection::default() }), (1, 2));
    let event = Some("faults".to_owned());
    assert_eq!(runs_of(&Selection { event, ..Selection::default() }), (4, 2));
    assert_eq!(ColumnFilter::new("benchmark", vec![]), None, "no other question has it");
}
