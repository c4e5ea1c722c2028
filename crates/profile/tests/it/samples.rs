//! Samples one by one are those that are counted, whatever the way they are read.

use std::collections::BTreeMap;

use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::samples::SampleRow;
use pmuscope_profile::{Collected, GroupBy, Profile, TasksBy};

use super::corpus::files;
use super::passes::finished;

const APART: GroupBy = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: false };

/// Samples by event, stack and task, as the cells of the profile have them.
fn counted(profile: &Profile) -> BTreeMap<(u32, u32, u32), u64> {
    let cells = profile.aggregate.cells.iter();
    cells.map(|cell| ((cell.event, cell.stack, cell.task), cell.samples)).collect()
}

#[test]
fn every_sample_that_counts_is_there_once_in_the_order_of_time() {
    let mut samples_seen = 0;
    for path in files(false) {
        let read = |threads: usize| {
            let mut reader = Reader::open(&path).unwrap();
            let collected = Collected::read_samples(&mut reader, APART, threads, None).unwrap();
            finished(&reader, collected)
        };
        let profile = read(3);
        let samples = profile.samples.as_ref().unwrap();
        let rows: Vec<SampleRow> = samples.range(0..samples.len()).collect();
        let mut sums = BTreeMap::new();
        for row in &rows {
            *sums.entry((row.event, row.stack, row.runner)).or_insert(0) += 1;
            let task = &profile.aggregate.tasks[row.runner as usize];
            assert_eq!(row.task, task.pid.zip(task.tid), "{}", path.display());
        }
        assert_eq!(sums, counted(&profile), "{}", path.display());
        if rows.iter().all(|row| row.time.is_some()) {
            assert!(rows.is_sorted_by_key(|row| row.time), "{}", path.display());
        }
        let alone = read(1);
        let alone = alone.samples.as_ref().unwrap();
        assert!(alone.range(0..alone.len()).eq(rows.iter().copied()), "{}", path.display());
        samples_seen += rows.len();
    }
    assert!(samples_seen > 1000, "{samples_seen}");
}

#[test]
fn what_is_counted_does_not_change_when_samples_are_kept() {
    for path in files(false) {
        let mut reader = Reader::open(&path).unwrap();
        let collected = Collected::read(&mut reader, APART, 2, None).unwrap();
        let counted = finished(&reader, collected);
        let mut reader = Reader::open(&path).unwrap();
        let kept = Collected::read_samples(&mut reader, APART, 2, None).unwrap();
        let kept = finished(&reader, kept);
        assert_eq!(counted.aggregate, kept.aggregate, "{}", path.display());
        assert!(counted.samples.is_none());
    }
}
