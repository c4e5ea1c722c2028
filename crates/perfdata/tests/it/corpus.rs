//! Files from real machines, in the folder that the variable `PMUSCOPE_CORPUS` names: an `INDEX.tsv`
//! with a line per file says what an independent parser found in each.

use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{PerfFileReader, PerfFileRecord};

use super::{Found, read};

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("PMUSCOPE_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: PMUSCOPE_CORPUS does not name a folder of perf.data files");
    }
    folder
}

/// Lines of the index by file name, as maps from column to value.
fn index(folder: &Path) -> HashMap<String, HashMap<String, String>> {
    let text = fs::read_to_string(folder.join("INDEX.tsv")).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
    lines
        .map(|line| {
            let values = line.split('\t').map(str::to_owned);
            let row: HashMap<_, _> =
                columns.iter().map(|name| (*name).to_owned()).zip(values).collect();
            (row["file"].clone(), row)
        })
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_none_or(|ext| ext != "tsv"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap()
}

#[test]
fn every_good_file_is_read_whole_and_in_order() {
    let Some(folder) = corpus() else { return };
    let index = index(&folder);
    for path in files(&folder) {
        let name = file_name(&path);
        let row = &index[name];
        // Compressed records are opaque to the index.
        let opaque = row["record_counts"].contains("COMPRESSED");
        let found = read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        if !opaque {
            let total: u64 = found.samples.iter().sum();
            assert_eq!(total.to_string(), row["n_samples"], "{name}: {found:?}");
            for (event, samples) in found.names.iter().zip(&found.samples) {
                // Counts per event end with ":<samples>"; names there come from another program.
                let counted = row["events:samples"]
                    .split(' ')
                    .any(|part| part.rsplit(':').next() == Some(&samples.to_string()));
                assert!(counted || found.names.len() > 4, "{name}: {event} {samples}");
            }
        }
        assert_eq!(found.tally.late, 0, "{name}");
        assert_eq!(found.tally.malformed, 0, "{name}");
        assert_eq!(found.tally.samples_of_no_event, 0, "{name}");
        // One file has a record of size 0 in it, in another perf's messages follow the records.
        let damaged = name.contains("corrupted") || name.contains("sleep.compressed2.pipe");
        assert_eq!(found.tally.stopped.is_some(), damaged, "{name}: {:?}", found.tally);
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
    let Some(folder) = corpus() else { return };
    let mut compared = 0;
    for path in files(&folder) {
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
    let Some(folder) = corpus() else { return };
    for path in files(&folder.join("malformed")) {
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
    let Some(folder) = corpus() else { return };
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.data");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for path in files(&folder) {
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
