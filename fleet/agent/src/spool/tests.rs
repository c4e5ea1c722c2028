use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pmuscope_dataset::{IntervalRow, SampleRow, StackRow};
use pmuscope_delivery::FolderSink;

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
        service: "redis".into(),
        event: "cpu-clock".into(),
        stack_id,
        samples: samples / 2,
        weight: samples,
        weight_unit: "us".into(),
        batch: number,
        ..SampleRow::default()
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
        unpushed_samples: None,
        off_cpu_rss_bytes: None,
        measurement_rss_bytes: None,
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

/// Delivers to folders; returns how many files all have now, and what went wrong.
fn deliver(spool: &mut Spool, folders: &[&Path]) -> (u64, Vec<String>) {
    let sinks: Vec<FileSink> =
        folders.iter().map(|folder| FolderSink::new(folder).into()).collect();
    let delivery = spool.deliver(&sinks, Instant::now() + Duration::from_secs(60)).unwrap();
    (delivery.files, delivery.errors.values().map(ToString::to_string).collect())
}

fn tables(root: &Path) -> BTreeSet<String> {
    let files = Dataset::new(root).files().unwrap();
    files.iter().map(|file| file.table().to_owned()).collect()
}

#[test]
fn bins_are_delivered_whole_and_once() {
    let (root, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut spool = Spool::open(root.path(), 1 << 30).unwrap();
    bin(&spool, 1, 100);
    bin(&spool, 2, 60);
    assert_eq!(spool.waiting().unwrap().files, 10);
    assert_eq!(deliver(&mut spool, &[to.path()]), (10, vec![]));
    assert_eq!(spool.waiting().unwrap(), Backlog::default());
    assert_eq!(tables(to.path()).len(), 5);
    // As after a crash between delivery and removal.
    bin(&spool, 1, 100);
    assert_eq!(deliver(&mut spool, &[to.path()]), (5, vec![]));
    assert_eq!(spool.waiting().unwrap().files, 0);
}

#[test]
fn what_cannot_be_delivered_waits_and_intervals_come_last() {
    let (root, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut spool = Spool::open(root.path(), 1 << 30).unwrap();
    bin(&spool, 1, 100);
    // A file where a folder has to be: nothing of the table `samples` can be delivered.
    fs::create_dir(to.path().join("v1")).unwrap();
    fs::write(to.path().join("v1/samples"), "").unwrap();
    let (delivered, errors) = deliver(&mut spool, &[to.path()]);
    assert!(errors.len() == 1 && errors[0].contains("v1/samples"), "{errors:?}");
    assert_eq!((delivered, spool.waiting().unwrap().files), (3, 2));
    assert_eq!(tables(root.path()), ["intervals".to_owned(), "samples".to_owned()].into());
}

#[test]
fn a_bin_whose_name_is_taken_keeps_no_other_from_delivery() {
    let (root, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut spool = Spool::open(root.path(), 1 << 30).unwrap();
    let folder = to.path().join("v1/samples/date=1970-01-01");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("web-1-00000000000001.parquet"), "another agent's").unwrap();
    bin(&spool, 1, 100);
    bin(&spool, 2, 60);
    let (delivered, errors) = deliver(&mut spool, &[to.path()]);
    assert!(errors.len() == 1 && errors[0].contains("another agent has"), "{errors:?}");
    assert_eq!((delivered, spool.waiting().unwrap().files), (8, 2));
}

/// One of them cannot be written: the other one has all, and nothing is lost for the first one.
#[test]
fn a_file_waits_until_all_sinks_have_it() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [root, first, second] = folders.each_ref().map(|folder| folder.path());
    let mut spool = Spool::open(root, 1 << 30).unwrap();
    bin(&spool, 1, 100);
    bin(&spool, 2, 60);
    fs::write(second.join("v1"), "no folder").unwrap();
    let (delivered, errors) = deliver(&mut spool, &[first, second]);
    assert_eq!((delivered, errors.len(), spool.waiting().unwrap().files), (0, 1, 10));
    assert_eq!(tables(first).len(), 5);
    fs::remove_file(second.join("v1")).unwrap();
    // What the first one has does not go there again: it could not be written.
    fs::remove_dir_all(first).unwrap();
    fs::write(first, "no folder").unwrap();
    assert_eq!(deliver(&mut spool, &[first, second]), (10, vec![]));
    assert_eq!((tables(second).len(), spool.waiting().unwrap().files), (5, 0));
}

#[test]
fn delivery_ends_in_time_and_the_rest_waits() {
    let (root, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut spool = Spool::open(root.path(), 1 << 30).unwrap();
    bin(&spool, 1, 100);
    let sinks = [FolderSink::new(to.path()).into()];
    let delivery = spool.deliver(&sinks, Instant::now()).unwrap();
    assert_eq!((delivery.files, spool.waiting().unwrap().files), (0, 5));
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
    assert_eq!(full.shrink().unwrap(), Some(100));
    let rest = full.waiting().unwrap();
    assert_eq!(all.files - rest.files, 3, "samples, services and stacks of one bin");
    assert!(rest.bytes < all.bytes);
    assert_eq!(full.shrink().unwrap(), None);
    drop(full);
    let tiny = Spool::open(root.path(), 1).unwrap();
    assert_eq!(tiny.shrink().unwrap(), Some(100));
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
    let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["web-1-00000000000001.parquet"]);
    assert_eq!(spool.waiting().unwrap().files, 5);
}
