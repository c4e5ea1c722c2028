//! Recordings of other machines, with an index of what an independent parser found in each.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::thread;

use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use pmuscope_perfdata::reader::Reader;
use pmuscope_testkit::corpus::{IndexRow, corpus};

use super::{Found, read};

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap()
}

/// Samples per event as the index has them, `name:samples` each; as far as the line goes, which the
/// index cuts. Names there come from another program.
fn counts(row: &IndexRow) -> Vec<u64> {
    // Where that program cannot tell events apart it counts all.
    let parts = row["events:samples"].split(' ').filter(|part| !part.starts_with("all:"));
    parts.map_while(|part| part.rsplit(':').next()?.parse().ok()).collect()
}

#[test]
fn every_good_file_is_read_whole_and_in_order() {
    for path in corpus().recordings() {
        let name = file_name(&path);
        let row = corpus().row(&path);
        // Compressed records are opaque to the index.
        let opaque = row["record_counts"].contains("COMPRESSED");
        let found = read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        if !opaque {
            let total: u64 = found.samples.iter().sum();
            assert_eq!(total.to_string(), row["n_samples"], "{name}: {found:?}");
            let counts = counts(row);
            let is_of_all = row["events:samples"].starts_with("all:");
            let is_enough = counts.len() == found.samples.len() || counts.len() > 3;
            assert!(is_of_all || is_enough, "{name}: {counts:?}");
            assert_eq!(found.samples[..counts.len()], counts, "{name}: {:?}", found.names);
        }
        assert_eq!(found.tally.late, 0, "{name}");
        assert_eq!(found.tally.malformed, 0, "{name}");
        assert_eq!(found.tally.samples_of_no_event, 0, "{name}");
        assert!(found.tally.unknown_kinds.is_empty(), "{name}: {:?}", found.tally);
        assert_eq!(found.undecoded, 0, "{name}");
        // One file has a record of size 0 in it, in another perf's messages follow the records.
        let damaged = name.contains("corrupted") || name.contains("sleep.compressed2.pipe");
        assert_eq!(found.tally.stopped.is_some(), damaged, "{name}: {:?}", found.tally);
    }
}

/// Kinds as the index names them.
const KINDS: [(&str, u32); 34] = [
    ("MMAP", 1),
    ("LOST", 2),
    ("COMM", 3),
    ("EXIT", 4),
    ("THROTTLE", 5),
    ("UNTHROTTLE", 6),
    ("FORK", 7),
    ("READ", 8),
    ("SAMPLE", 9),
    ("MMAP2", 10),
    ("AUX", 11),
    ("ITRACE_START", 12),
    ("LOST_SAMPLES", 13),
    ("SWITCH", 14),
    ("SWITCH_CPU", 15),
    ("NAMESPACES", 16),
    ("KSYMBOL", 17),
    ("BPF_EVENT", 18),
    ("CGROUP", 19),
    ("TEXT_POKE", 20),
    ("AUX_OUTPUT_HW_ID", 21),
    ("ATTR", 64),
    ("EVENT_TYPE", 65),
    ("TRACING_DATA", 66),
    ("BUILD_ID", 67),
    ("FINISHED_ROUND", 68),
    ("ID_INDEX", 69),
    ("AUXTRACE_INFO", 70),
    ("AUXTRACE", 71),
    ("THREAD_MAP", 73),
    ("CPU_MAP", 74),
    ("EVENT_UPDATE", 78),
    ("TIME_CONV", 79),
    ("FEATURE", 80),
];

/// Records of every kind, those that nobody here uses too, and the hardware trace that is skipped.
#[test]
fn every_record_of_every_good_file_is_counted() {
    let (mut compared, mut traces) = (0, 0);
    for path in corpus().recordings() {
        let name = file_name(&path);
        let row = corpus().row(&path);
        if row["record_counts"].contains("COMPRESSED") {
            continue;
        }
        let tally = read(&path).unwrap().tally;
        let mut raw = Reader::open_raw(&path).unwrap();
        let mut offset = None;
        while let Some(entry) = raw.next().unwrap() {
            assert!(offset.is_none_or(|last| last < entry.offset), "{name} at {}", entry.offset);
            offset = Some(entry.offset);
        }
        assert_eq!(raw.tally().kinds, tally.kinds, "{name}");
        assert_eq!(raw.tally().unknown_kinds, tally.unknown_kinds, "{name}");
        for part in row["record_counts"].split(';') {
            // A remark stands there for one file.
            let Some((kind, number)) = part.split_once('=') else { continue };
            if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == kind) {
                assert_eq!(tally.kinds.get(*kind).to_string(), number, "{name}: {part}");
                compared += 1;
            }
        }
        // "AUX:intel_pt:149968B" among the features.
        let trace = row["features"].split(' ').find_map(|part| part.strip_prefix("AUX:"));
        if let Some(bytes) = trace.and_then(|trace| trace.rsplit(':').next()) {
            assert_eq!(format!("{}B", tally.skipped_bytes), bytes, "{name}");
            traces += 1;
        }
    }
    assert!(compared > 300 && traces > 0, "{compared} {traces}");
}

/// A stream is the same by a pipe; a file comes by a redirection.
#[test]
fn recordings_come_by_a_named_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in corpus().recordings().iter().filter(|path| file_name(path).contains("pipe")) {
        let direct = read(path).unwrap();
        let piped = thread::scope(|scope| {
            scope.spawn(|| fs::write(&pipe, fs::read(path).unwrap()));
            read(&pipe).unwrap()
        });
        assert_eq!(direct.tally, piped.tally);
        assert_eq!((direct.samples, direct.ip_sums), (piped.samples, piped.ip_sums));
    }
}

/// Sums of instruction addresses per event by linux-perf-data; `None` where it fails.
fn by_other_reader(path: &Path) -> Option<Vec<(u64, u64)>> {
    let bytes = fs::read(path).unwrap();
    let is_stream = bytes.get(8) == Some(&16);
    let parsed = catch_unwind(AssertUnwindSafe(|| {
        if is_stream {
            let PerfFileReader { mut perf_file, mut record_iter } =
                PerfFileReader::parse_pipe(&bytes[..]).ok()?;
            let events = perf_file.event_attributes().len();
            sum(events, || Some(record_iter.next_record(&mut perf_file).ok()?.map(sample_of)))
        } else {
            let PerfFileReader { mut perf_file, mut record_iter } =
                PerfFileReader::parse_file(std::io::Cursor::new(&bytes[..])).ok()?;
            let events = perf_file.event_attributes().len();
            sum(events, || Some(record_iter.next_record(&mut perf_file).ok()?.map(sample_of)))
        }
    }));
    parsed.ok().flatten()
}

fn sample_of(record: PerfFileRecord<'_>) -> Option<(usize, u64)> {
    let PerfFileRecord::EventRecord { attr_index, record } = record else { return None };
    match record.parse() {
        Ok(EventRecord::Sample(sample)) => Some((attr_index, sample.ip.unwrap_or(0))),
        _ => None,
    }
}

/// `next` gives `None` for an error, `Some(None)` at the end, `Some(Some(None))` for no sample.
fn sum(
    events: usize,
    mut next: impl FnMut() -> Option<Option<Option<(usize, u64)>>>,
) -> Option<Vec<(u64, u64)>> {
    let mut sums = vec![(0, 0_u64); events];
    while let Some(record) = next()? {
        if let Some((event, ip)) = record {
            sums[event].0 += 1;
            sums[event].1 = sums[event].1.wrapping_add(ip);
        }
    }
    Some(sums)
}

#[test]
fn another_reader_finds_the_same_samples() {
    let mut compared = 0;
    for path in corpus().recordings() {
        let name = file_name(&path);
        let Some(theirs) = by_other_reader(&path) else {
            eprintln!("{name}: the other reader fails");
            continue;
        };
        let Found { samples, ip_sums, .. } = read(&path).unwrap();
        let ours: Vec<_> = samples.into_iter().zip(ip_sums).collect();
        if ours.iter().map(|(count, _)| count).sum::<u64>()
            != theirs.iter().map(|(count, _)| count).sum::<u64>()
        {
            eprintln!("{name}: the other reader skips samples: {theirs:?}, ours {ours:?}");
            continue;
        }
        assert_eq!(ours, theirs, "{name}");
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn malformed_files_end_in_an_error_or_in_what_was_before_the_damage() {
    for path in corpus().malformed() {
        match read(&path) {
            Ok(found) => eprintln!("{}: {} records", file_name(&path), found.tally.records),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(file_name(&path)), "{text}");
            }
        }
    }
}

/// Each good file, cut in many places and with bytes changed: no panic, and never more samples.
#[test]
fn damaged_copies_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.data");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for path in corpus().recordings() {
        let whole = fs::read(&path).unwrap();
        if whole.len() > 500_000 {
            continue;
        }
        for _ in 0..12 {
            fs::write(&copy, &whole[..random(whole.len())]).unwrap();
            let _ = read(&copy);
            let mut bytes = whole.clone();
            for _ in 0..8 {
                // Most of what can be damaged to effect is in front.
                let range = if random(2) == 0 { bytes.len().min(400) } else { bytes.len() };
                let at = random(range);
                bytes[at] = [0, 0xff, 0x80, random(256) as u8][random(4)];
            }
            fs::write(&copy, &bytes).unwrap();
            let _ = read(&copy);
        }
    }
}
