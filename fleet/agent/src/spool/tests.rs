use std::collections::BTreeSet;
use std::sync::Arc;

use pmuscope_dataset::{IntervalRow, SampleRow, StackRow};

use super::*;

const BIN_US: i64 = 300_000_000;

fn host() -> Arc<str> {
    "web-1".into()
}

/// A bin of two stacks with that many samples.
fn bin(spool: &Spool, number: i64, samples: i64) {
    let start = Timestamp(number * BIN_US);
    let sample = |stack_id| SampleRow {
        start,
        bin_us: BIN_US,
        host: host(),
        boot: None,
        service: "redis".into(),
        version: None,
        unit: None,
        container: None,
        pod: None,
        event: "cpu-clock".into(),
        stack_id,
        samples: samples / 2,
        weight: samples,
        weight_unit: "us".into(),
        batch: number,
    };
    let stack = |stack_id| StackRow {
        stack_id,
        digest: format!("{stack_id:032x}").into(),
        leaf: Some("serve".into()),
        leaf_module: "/usr/bin/redis".into(),
        depth: 1,
    };
    let interval = IntervalRow {
        start,
        bin_us: BIN_US,
        host: host(),
        boot: None,
        event: "cpu-clock".into(),
        cpus: Some(2),
        recorded_us: BIN_US,
        samples,
        lost: Some(0),
        throttled: 0,
        own_cpu_us: Some(1000),
        recorder: None,
        batch: number,
    };
    let agent = AgentRow {
        start,
        bin_us: BIN_US,
        host: host(),
        boot: None,
        agent: "pmuscope-fleet".into(),
        cpu_us: 1000,
        rss_bytes: None,
        unidentified_samples: 0,
        dropped_samples: 0,
        waiting_files: 0,
        frequency_hz: Some(100),
        batch: number,
    };
    let rows = Rows {
        samples: vec![sample(1), sample(2)],
        stacks: vec![stack(1), stack(2)],
        intervals: vec![interval],
        ..Rows::default()
    };
    spool.add(rows, agent, start, &format!("web-1-{number:014}")).unwrap();
}

fn tables(root: &Path) -> BTreeSet<String> {
    let spool = Dataset::new(root);
    let has = |table: &&str| {
        let days = names(&spool.folder(table)).unwrap();
        days.iter().any(|day| !names(&spool.folder(table).join(day)).unwrap().is_empty())
    };
    ORDER.iter().filter(|table| has(table)).map(ToString::to_string).collect()
}

#[test]
fn bins_are_delivered_whole_and_once() {
    let (root, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let spool = Spool::open(root.path(), 1 << 30).unwrap();
    bin(&spool, 1, 100);
    bin(&spool, 2, 60);
    assert_eq!(spool.waiting().unwrap().files, 8);
    let (delivered, result) = spool.deliver(&FolderSink::new(to.path())).unwrap();
    result.unwrap();
    assert_eq!((delivered, spool.waiting().unwrap()), (8, Backlog::default()));
    assert_eq!(tables(to.path()).len(), 4);
    // As after a crash between delivery and removal.
    bin(&spool, 1, 100);
    let (again, result) = spool.deliver(&FolderSink::new(to.path())).unwrap();
    result.unwrap();
    assert_eq!((again, spool.waiting().unwrap().files), (4, 0));
}

#[test]
fn what_cannot_be_delivered_waits_and_intervals_come_last() {
    let (root, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let spool = Spool::open(root.path(), 1 << 30).unwrap();
    bin(&spool, 1, 100);
    // A file where a folder has to be: nothing of the table `samples` can be delivered.
    fs::create_dir(to.path().join("v1")).unwrap();
    fs::write(to.path().join("v1/samples"), "").unwrap();
    let (delivered, result) = spool.deliver(&FolderSink::new(to.path())).unwrap();
    assert!(result.unwrap_err().to_string().contains("v1/samples"));
    assert_eq!((delivered, spool.waiting().unwrap().files), (2, 2));
    assert_eq!(tables(root.path()), ["intervals".to_owned(), "samples".to_owned()].into());
}

#[test]
fn a_bin_whose_name_is_taken_keeps_no_other_from_delivery() {
    let (root, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let spool = Spool::open(root.path(), 1 << 30).unwrap();
    let folder = to.path().join("v1/samples/date=1970-01-01");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("web-1-00000000000001.parquet"), "another agent's").unwrap();
    bin(&spool, 1, 100);
    bin(&spool, 2, 60);
    let (delivered, result) = spool.deliver(&FolderSink::new(to.path())).unwrap();
    assert!(matches!(result, Err(SinkError::Taken(_))), "{result:?}");
    assert_eq!((delivered, spool.waiting().unwrap().files), (6, 2));
}

#[test]
fn a_full_spool_drops_the_oldest_samples_and_counts_them() {
    let root = tempfile::tempdir().unwrap();
    let spool = Spool::open(root.path(), 1 << 30).unwrap();
    for (number, samples) in [(1, 100), (2, 60), (3, 40)] {
        bin(&spool, number, samples);
    }
    let all = spool.waiting().unwrap();
    drop(spool);
    let full = Spool::open(root.path(), all.bytes - 1).unwrap();
    assert_eq!(full.shrink().unwrap(), 100);
    let rest = full.waiting().unwrap();
    assert_eq!(all.files - rest.files, 2, "samples and stacks of one bin");
    assert!(rest.bytes < all.bytes);
    assert_eq!(full.shrink().unwrap(), 0);
    drop(full);
    let tiny = Spool::open(root.path(), 1).unwrap();
    assert_eq!(tiny.shrink().unwrap(), 100);
    assert_eq!(tables(root.path()), ["agent".to_owned(), "intervals".to_owned()].into());
}

#[test]
fn a_spool_has_one_agent_and_nothing_unfinished() {
    let root = tempfile::tempdir().unwrap();
    let spool = Spool::open(root.path(), 1 << 30).unwrap();
    bin(&spool, 1, 100);
    bin(&spool, 2, 60);
    let folder = root.path().join("v1/samples/date=1970-01-01");
    fs::write(folder.join(".web-1-2.part"), "half").unwrap();
    // Killed before its last file was there.
    fs::remove_file(root.path().join("v1/intervals/date=1970-01-01/web-1-00000000000002.parquet"))
        .unwrap();
    let error = Spool::open(root.path(), 1).unwrap_err().to_string();
    assert!(error.contains("in use by another agent"), "{error}");
    drop(spool);
    let spool = Spool::open(root.path(), 1 << 30).unwrap();
    assert_eq!(names(&folder).unwrap(), ["web-1-00000000000001.parquet"]);
    assert_eq!(spool.waiting().unwrap().files, 4);
}
