//! Directories as `perf record --threads` writes them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::reader::{Reader, Record, StopReason};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};
use pmuscope_testkit::{need, skip_unless};

use super::read;

fn sample(out: &mut Vec<u8>, time: u64) {
    RecordBuilder::new(out, kind::SAMPLE, misc::USER).u64(1).u64(0x1000).u64(time).finish();
}

/// Samples at the given times.
fn samples(times: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut out = Vec::new();
    times.into_iter().for_each(|time| sample(&mut out, time));
    out
}

/// Writes `dir/data` with two samples without a time, and the other parts.
fn write(dir: &Path, parts: &[Vec<u8>]) {
    let attr = Attr {
        event_type: event_type::SOFTWARE,
        sample: 1_000_000,
        sample_type: SampleType::IDENTIFIER | SampleType::IP | SampleType::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let events = [FileEvent { attr, name: "cpu-clock".into(), ids: vec![1] }];
    let mut file = front(&events);
    let start = file.len() as u64;
    file.extend(samples([0, 0]));
    let end = closing(&events, &Features::default(), start, file.len() as u64 - start);
    file.extend_from_slice(&end.tail);
    file[..end.header.len()].copy_from_slice(&end.header);
    fs::write(dir.join("data"), file).unwrap();
    for (number, part) in parts.iter().enumerate() {
        fs::write(dir.join(format!("data.{number}")), part).unwrap();
    }
}

fn times(path: &Path) -> (Vec<u64>, Reader) {
    let mut reader = Reader::open(path).unwrap();
    let mut times = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        let Record::Sample(sample) = entry.record else { panic!("{entry:?}") };
        times.push(sample.time.unwrap());
    }
    (times, reader)
}

#[test]
fn files_of_a_directory_come_out_as_one_recording_in_the_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    // Twelve parts of very different density, so that "data.10" must not come before "data.2".
    let rings: Vec<Vec<u64>> = (1..=12_u64)
        .map(|step| (1..20_000).map(|number| 10 + number * step * step).collect())
        .collect();
    let parts: Vec<Vec<u8>> = rings.iter().map(|times| samples(times.iter().copied())).collect();
    write(dir.path(), &parts);
    let (found, reader) = times(dir.path());
    let mut expected: Vec<u64> = rings.concat();
    expected.extend([0, 0]);
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!((reader.tally().late, &reader.tally().stopped), (0, &None));
    assert_eq!(reader.events()[0].name, "cpu-clock");
}

#[test]
fn a_damaged_part_costs_its_own_end_only_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let whole = samples([10, 30, 50]);
    write(dir.path(), &[whole[..whole.len() - 1].to_vec(), samples([20, 40, 60])]);
    let (found, reader) = times(dir.path());
    assert_eq!(found, [0, 0, 10, 20, 30, 40, 60]);
    let stopped = reader.tally().stopped.clone().unwrap();
    assert_eq!(stopped.file, Some(dir.path().join("data.0")));
    assert_eq!((stopped.offset, stopped.reason), (64, StopReason::CutOff));

    let mut raw = Reader::open_raw(dir.path()).unwrap();
    let mut places = Vec::new();
    while let Some(entry) = raw.next().unwrap() {
        let file = entry.file.unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        places.push((file, entry.offset));
    }
    let in_parts: Vec<_> = places.iter().filter(|(file, _)| file != "data").collect();
    assert_eq!(places.len(), 7);
    assert_eq!(in_parts[0], &("data.0".to_owned(), 0));
    assert_eq!(in_parts[4], &("data.1".to_owned(), 64));
}

#[test]
fn a_directory_with_something_else_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = Reader::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("without a \"data\" file"), "{error}");
    File::create(dir.path().join("data")).unwrap().write_all(b"something else").unwrap();
    let error = Reader::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("data is not a perf.data file"), "{error}");
}

/// The same samples as perf script finds.
#[test]
fn perfs_own_directory() {
    skip_unless!(need::perf_record(true));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.data");
    let record = pmuscope_testkit::perf()
        .args(["record", "-q", "-B", "-N", "-a", "-e", "cpu-clock", "-F", "2000"])
        .args(["--threads=cpu", "-o"])
        .arg(&path)
        .args(["--", "sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"])
        .output();
    let record = record.unwrap();
    assert!(record.status.success(), "{record:?}");
    let script = pmuscope_testkit::perf()
        .args(["script", "--ns", "-F", "time", "-f", "-i"])
        .arg(&path)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let found = read(&path).unwrap();
    let text = String::from_utf8_lossy(&script.stdout);
    assert_eq!(found.samples.iter().sum::<u64>(), text.lines().count() as u64);
    assert!(found.samples.iter().sum::<u64>() > 50, "{found:?}");
    assert_eq!((found.out_of_order, found.tally.late, found.tally.stopped), (0, 0, None));
}
