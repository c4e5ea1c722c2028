//! Merging changes no sum, whatever happens in between.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pmuscope_compaction::{Compaction, CompactionError};
use pmuscope_dataset::{Dataset, FrameRow, IntervalRow, Rows, SampleRow, StackRow, Timestamp};
use pmuscope_query::Engine;

/// 2025-11-25, midnight UTC.
const DAY: i64 = 1_764_028_800_000_000;
/// Five minutes.
const BIN_US: i64 = 300_000_000;
/// What bins are merged to.
const HOUR_US: i64 = 3_600_000_000;

fn sample(host: &str, bin: i64, stack_id: i64, samples: i64) -> SampleRow {
    SampleRow {
        start: Timestamp(DAY + bin * BIN_US),
        bin_us: BIN_US,
        host: host.into(),
        boot: Some("b".into()),
        service: "shop".into(),
        event: "cpu-clock".into(),
        stack_id,
        samples,
        weight: samples * 10_000,
        weight_unit: "us".into(),
        batch: 1,
        ..SampleRow::default()
    }
}

fn interval(host: &str, bin: i64, samples: i64) -> IntervalRow {
    IntervalRow {
        start: Timestamp(DAY + bin * BIN_US),
        bin_us: BIN_US,
        host: host.into(),
        boot: Some("b".into()),
        event: "cpu-clock".into(),
        cpus: Some(4),
        recorded_us: BIN_US,
        samples,
        lost: None,
        throttled: 0,
        own_cpu_us: Some(7),
        recorder: None,
        batch: 1,
    }
}

fn stack(id: i64, name: Option<&str>) -> (StackRow, FrameRow) {
    let row = StackRow {
        stack_id: id,
        digest: format!("{id:032x}").into(),
        leaf: name.map(Into::into),
        leaf_module: "/bin/shop".into(),
        depth: 1,
    };
    let frame = FrameRow {
        stack_id: id,
        depth: 0,
        inline_depth: 0,
        build_id: None,
        address: Some(id),
        function: name.map(Into::into),
        module: "/bin/shop".into(),
        file: None,
        line: None,
    };
    (row, frame)
}

/// Delivers a bin of a host as an agent does; only some hosts know the names of functions.
fn deliver(root: &Path, host: &str, bin: i64) {
    let samples: Vec<SampleRow> = (1..=3).map(|id| sample(host, bin, id, 10 * id + bin)).collect();
    let name = (host == "a").then_some("f");
    let stacks: Vec<(StackRow, FrameRow)> = (1..=3).map(|id| stack(id, name)).collect();
    let (stacks, frames) = stacks.into_iter().unzip();
    let sum = samples.iter().map(|row| row.samples).sum();
    let rows = Rows {
        samples,
        frames,
        stacks,
        intervals: vec![interval(host, bin, sum)],
        ..Rows::default()
    };
    let when = Timestamp(DAY + bin * BIN_US);
    Dataset::new(root).write_all(rows, when, &format!("{host}-{bin:04}")).unwrap();
}

fn fleet() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for host in ["a", "b"] {
        (0..24).for_each(|bin| deliver(folder.path(), host, bin));
    }
    folder
}

/// Samples by host and stack.
type StackSums = BTreeMap<(String, i64), i64>;

/// Samples; then recorded time and names, of all.
fn sums(root: &Path) -> (StackSums, i64, Vec<Option<String>>) {
    let engine = Engine::open(&root.into()).unwrap();
    let rows = engine
        .rows("SELECT host, stack_id, sum(samples) AS samples FROM samples_files GROUP BY host, stack_id")
        .unwrap();
    let keys = rows.texts("host").unwrap().into_iter().zip(rows.numbers("stack_id").unwrap());
    let samples = keys.zip(rows.numbers("samples").unwrap()).collect();
    let recorded = engine.rows("SELECT sum(recorded_us) AS us FROM intervals_files").unwrap();
    let names = engine
        .rows("SELECT stack_id, max(leaf) AS leaf FROM stacks_files GROUP BY stack_id ORDER BY stack_id")
        .unwrap();
    (samples, recorded.numbers("us").unwrap()[0], names.optional_texts("leaf").unwrap())
}

fn files(root: &Path, table: &str) -> Vec<String> {
    let folder = root.join("v1").join(table).join("date=2025-11-25");
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn merge(root: &Path) -> pmuscope_compaction::Merged {
    let compaction = Compaction::open(root).unwrap();
    let days = compaction.days().unwrap();
    assert_eq!(days.len(), 1);
    compaction.merge(&days[0], HOUR_US).unwrap()
}

#[test]
fn sums_are_the_same_in_a_file_of_hours_and_a_second_run_does_nothing() {
    let folder = fleet();
    let root = folder.path();
    let before = sums(root);
    assert_eq!((before.0.len(), before.1), (6, 48 * BIN_US));
    let merged = merge(root);
    assert_eq!((merged.files, merged.files_after), (5 * 48, 5));
    assert!(merged.bytes_after * 4 < merged.bytes, "{merged:?}");
    assert_eq!(sums(root), before);
    let engine = Engine::open(&root.into()).unwrap();
    let rows = engine.rows("SELECT count(*) AS n, max(bin_us) AS us FROM samples_files").unwrap();
    let of_services = engine.rows("SELECT sum(samples) AS n FROM services_files").unwrap();
    assert_eq!(of_services.numbers("n").unwrap()[0], before.0.values().sum::<i64>());
    // Two hosts, two hours, three stacks.
    assert_eq!((rows.numbers("n").unwrap()[0], rows.numbers("us").unwrap()[0]), (12, HOUR_US));
    for table in ["samples", "services", "stacks", "frames", "intervals"] {
        assert_eq!(files(root, table), ["merged-0000.parquet"], "{table}");
    }
    assert_eq!(merge(root), pmuscope_compaction::Merged::default());
}

#[test]
fn what_comes_later_is_merged_with_the_rest() {
    let folder = fleet();
    let root = folder.path();
    merge(root);
    deliver(root, "late", 3);
    let before = sums(root);
    assert_eq!(before.0.len(), 9);
    assert_eq!(merge(root).files, 5 * 2);
    assert_eq!(sums(root), before);
    assert_eq!(files(root, "samples"), ["merged-0000.parquet"]);
}

/// As a process leaves it that was killed: before the exchange, after it, and when the old files were gone already.
#[test]
fn what_a_killed_process_has_begun_is_finished_or_forgotten() {
    let folder = fleet();
    let root = folder.path();
    let before = sums(root);
    let seen = root.join("v1/samples/date=2025-11-25");
    let hidden = root.join(".compacting/samples/date=2025-11-25");
    // Half a new file, and its list of inputs.
    fs::create_dir_all(&hidden).unwrap();
    fs::write(hidden.join("merged-0000.parquet"), "half").unwrap();
    fs::write(hidden.join("inputs"), "a-0000.parquet\n").unwrap();
    drop(Compaction::open(root).unwrap());
    assert!(!hidden.exists() && files(root, "samples").len() == 48);
    assert_eq!(sums(root), before);
    // Exchanged, with a file that was delivered meanwhile: it is not among the inputs.
    merge(root);
    fs::create_dir_all(&hidden).unwrap();
    deliver(root, "late", 3);
    let late = seen.join("late-0003.parquet");
    fs::rename(&late, hidden.join("late-0003.parquet")).unwrap();
    fs::write(hidden.join("a-0000.parquet"), "merged already").unwrap();
    fs::write(seen.join("inputs"), "a-0000.parquet\n").unwrap();
    drop(Compaction::open(root).unwrap());
    assert_eq!(files(root, "samples"), ["late-0003.parquet", "merged-0000.parquet"]);
    assert!(!hidden.exists());
    assert_eq!(sums(root).0.len(), 9);
    // All is done but the list.
    fs::write(seen.join("inputs"), "a-0000.parquet\n").unwrap();
    drop(Compaction::open(root).unwrap());
    assert_eq!(files(root, "samples"), ["late-0003.parquet", "merged-0000.parquet"]);
}

#[test]
fn one_process_at_a_time_and_only_datasets() {
    let folder = fleet();
    let held = Compaction::open(folder.path()).unwrap();
    assert!(matches!(Compaction::open(folder.path()), Err(CompactionError::InUse(_))));
    drop(held);
    drop(Compaction::open(folder.path()).unwrap());
    let empty = tempfile::tempdir().unwrap();
    let error = Compaction::open(empty.path()).unwrap_err();
    assert!(error.to_string().contains("Try: "), "{error}");
    assert!(!empty.path().join(".compacting").exists());
}

#[test]
fn a_day_that_is_removed_is_gone_from_all_tables() {
    let folder = fleet();
    deliver(folder.path(), "a", 288);
    let compaction = Compaction::open(folder.path()).unwrap();
    let days = compaction.days().unwrap();
    assert_eq!(days.len(), 2);
    assert_eq!(compaction.remove(&days[0]).unwrap().files, 5 * 48);
    assert_eq!(compaction.days().unwrap(), days[1..]);
    assert_eq!(sums(folder.path()).1, BIN_US);
}

/// Questions join tables by bin: a table with bins of an hour next to one with bins of minutes would be wrong.
#[test]
fn what_cannot_be_merged_leaves_all_tables_as_they_were() {
    let folder = fleet();
    let root = folder.path();
    // The table that is merged last.
    let damaged = root.join("v1/samples/date=2025-11-25/damaged.parquet");
    fs::write(&damaged, "PAR1 nonsense PAR1").unwrap();
    let before: Vec<Vec<String>> =
        ["samples", "services", "intervals"].map(|table| files(root, table)).into();
    let compaction = Compaction::open(root).unwrap();
    let day = &compaction.days().unwrap()[0];
    let error = compaction.merge(day, HOUR_US).unwrap_err().to_string();
    assert!(error.contains("damaged.parquet"), "{error}");
    let after: Vec<Vec<String>> =
        ["samples", "services", "intervals"].map(|table| files(root, table)).into();
    assert_eq!(after, before);
    fs::remove_file(&damaged).unwrap();
    drop(compaction);
    assert_eq!(merge(root).files, 5 * 48);
}
