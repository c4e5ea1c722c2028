//! Formats of tracepoints and simpleperf's own features, wherever a recording has them.

use std::fs;

use pmuscope_abi::record::misc;
use pmuscope_perfdata::reader::{Reader, Record};
use pmuscope_perfdata::writer::TracingData;

use pmuscope_testkit::plain_file::{PlainFile, attr, simpleperf_files, tracepoint, tracing_record};

const ID: u64 = 1329;

fn formats() -> Vec<u8> {
    let format =
        format!("name: main\nID: {ID}\nformat:\n\tfield:int x;\toffset:8;\tsize:4;\tsigned:1;\n");
    let formats = vec![("probe_here".to_owned(), format.into_bytes())];
    TracingData { page_bytes: 4096, formats, ..TracingData::default() }.to_bytes()
}

fn recording() -> PlainFile {
    let mut file = PlainFile { attrs: vec![tracepoint(ID), attr(0, 0)], ..PlainFile::default() };
    for time in 1..=10 {
        file.sample(time % 2, misc::USER, 0x1000, 100 * time as u64, &[0; 12]);
    }
    file
}

/// Names and numbers of samples, by the reader and by the first pass of an analysis.
fn found(bytes: &[u8]) -> (Vec<String>, Vec<u64>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    fs::write(&path, bytes).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut samples = vec![0; reader.events().len()];
    while let Some(entry) = reader.next().unwrap() {
        if let Record::Sample(sample) = entry.record {
            samples[sample.event] += 1;
        }
    }
    assert_eq!(reader.tally().stopped, None);
    let names = |reader: &Reader| -> Vec<String> {
        reader.events().iter().map(|event| event.name.clone()).collect()
    };
    let skipped = reader.tally().skipped_bytes;
    let mut again = Reader::open(&path).unwrap();
    if let Some(index) = again.index(2).unwrap() {
        assert_eq!((index.samples(), names(&again)), (&samples[..], names(&reader)));
        assert_eq!(again.tally().skipped_bytes, skipped);
    }
    (names(&reader), samples, skipped)
}

#[test]
fn formats_inside_their_record_do_not_hide_the_samples_after_it() {
    let mut file = recording();
    file.data = [tracing_record(&formats(), true), file.data].concat();
    let expected = (vec!["probe_here:main".to_owned(), "cycles".to_owned()], vec![5, 5], 0);
    assert_eq!(found(&file.file()), expected);
    assert_eq!(found(&file.stream(&[])), expected);
}

#[test]
fn formats_after_their_record_are_stepped_over_and_read() {
    let formats = formats();
    let front = tracing_record(&formats, false);
    let (names, samples, skipped) = found(&recording().stream(&front));
    assert_eq!((&*names[0], &samples[..]), ("probe_here:main", &[5, 5][..]));
    assert_eq!(skipped, formats.len().next_multiple_of(8) as u64);
    // Where they are cut off, what came before them counts.
    let whole = recording().stream(&front);
    for cut in [10, 100] {
        let end = whole.len() - recording().data.len() - cut;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.data");
        fs::write(&path, &whole[..end]).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        assert!(reader.next().unwrap().is_none() && reader.tally().stopped.is_some());
    }
}

#[test]
fn a_section_of_formats_names_tracepoints_and_has_their_fields() {
    let features = vec![(1, formats())];
    let file = PlainFile { features, ..recording() };
    assert_eq!(found(&file.file()).0, ["probe_here:main", "cycles"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    fs::write(&path, file.file()).unwrap();
    let reader = Reader::open(&path).unwrap();
    let known = &reader.metadata().tracepoints;
    assert_eq!((known.len(), &*known[0].fields[0].name), (1, "x"));
}

#[test]
fn simpleperfs_names_of_events_and_symbols_of_files_are_read() {
    let files = simpleperf_files(&[("/system/lib/a.so", 2, 0x1000, &[(0x1100, 16, "f")])]);
    let facts = b"clockid\0perf\0event_type_info\0here:main,2,1329\ncpu-cycles:u,0,0\0".to_vec();
    let file = PlainFile { features: vec![(128, files), (129, facts)], ..recording() };
    assert_eq!(found(&file.file()).0, ["here:main", "cpu-cycles:u"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    fs::write(&path, file.file()).unwrap();
    let reader = Reader::open(&path).unwrap();
    let symbols = &reader.metadata().symbols;
    assert_eq!((symbols.len(), symbols[0].name(0x1101)), (1, Some("f")));
}
