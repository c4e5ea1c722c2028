//! Files by our own writer.

use std::fs;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::info::{EventInfo, RecordingInfo};
use pmuscope_perfdata::reader::{FileState, Reader, Record, StopReason};
use pmuscope_perfdata::writer::{DATA_SIZE_OFFSET, Features, FileEvent, closing, front};

use super::read;

fn events() -> Vec<FileEvent> {
    let attr = Attr {
        event_type: event_type::SOFTWARE,
        sample: 1_000_000,
        sample_type: SampleType::IDENTIFIER | SampleType::IP | SampleType::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let event = |name: &str, ids: &[u64]| FileEvent {
        attr: attr.clone(),
        name: name.into(),
        ids: ids.to_vec(),
    };
    vec![event("cpu-clock:u", &[1, 2]), event("second", &[3])]
}

fn sample(out: &mut Vec<u8>, id: u64, time: u64) {
    RecordBuilder::new(out, kind::SAMPLE, misc::USER).u64(id).u64(0x1000 + time).u64(time).finish();
}

/// Two rings of different events and a loss, in one round, with our own record between.
fn body() -> Vec<u8> {
    let mut out = Vec::new();
    let info = RecordingInfo {
        scope: "system-wide".into(),
        events: vec![EventInfo { samples: 3, ..EventInfo::default() }],
        ..RecordingInfo::default()
    };
    [(1, 10), (1, 30), (3, 20), (2, 40)].iter().for_each(|&(id, time)| sample(&mut out, id, time));
    RecordBuilder::new(&mut out, kind::LOST, 0).u64(3).u64(7).u64(25).u64(3).finish();
    info.append_record(&mut out);
    RecordBuilder::new(&mut out, kind::FINISHED_ROUND, 0).finish();
    out
}

fn times(reader: &mut Reader) -> Vec<(usize, u64)> {
    let mut seen = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        match entry.record {
            Record::Sample(sample) => seen.push((sample.event, sample.time.unwrap())),
            Record::Lost { event, count } => {
                assert_eq!((event, count, entry.time), (Some(1), 7, Some(25)));
            }
            other => panic!("{other:?}"),
        }
    }
    seen
}

const EXPECTED: [(usize, u64); 4] = [(0, 10), (1, 20), (0, 30), (0, 40)];

#[test]
fn a_closed_file_has_names_metadata_and_its_own_story() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("closed.data");
    let mut file = front(&events());
    let data_offset = file.len() as u64;
    file.extend(body());
    let data_size = file.len() as u64 - data_offset;
    let info = RecordingInfo { complete: true, scope: "final".into(), ..RecordingInfo::default() };
    let features = Features {
        hostname: Some("host".into()),
        info: Some(info.to_json()),
        ..Features::default()
    };
    let end = closing(&events(), &features, data_offset, data_size);
    file.extend_from_slice(&end.tail);
    file[..end.header.len()].copy_from_slice(&end.header);
    fs::write(&path, &file).unwrap();

    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.state(), FileState::Closed);
    assert_eq!(reader.events()[0].name, "cpu-clock:u");
    assert_eq!(reader.metadata().hostname.as_deref(), Some("host"));
    assert_eq!(times(&mut reader), EXPECTED);
    // The copy in the stream does not replace the one written at close.
    assert_eq!(reader.metadata().info.as_ref().unwrap().scope, "final");
    assert_eq!(reader.tally().stopped, None);
}

#[test]
fn a_recording_that_was_killed_gives_both_events_and_the_last_copy_of_its_story() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("killed.data");
    let mut file = front(&events());
    let whole = body();
    let at = DATA_SIZE_OFFSET as usize;
    file[at..at + 8].copy_from_slice(&(whole.len() as u64).to_ne_bytes());
    file.extend_from_slice(&whole);
    file.extend_from_slice(&[9, 0, 0]); // half a header of the next flush
    fs::write(&path, &file).unwrap();

    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.state(), FileState::NotClosed);
    assert_eq!(reader.events()[0].name, "cpu-clock");
    assert_eq!(times(&mut reader), EXPECTED);
    assert_eq!(reader.metadata().info.as_ref().unwrap().scope, "system-wide");

    // Killed before the first flush patched the size: as far as whole records go.
    file[at..at + 8].fill(0);
    fs::write(&path, &file).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(times(&mut reader), EXPECTED);
    assert_eq!(reader.tally().stopped.as_ref().unwrap().reason, StopReason::CutOff);

    // Cut off, as by a copy that did not finish.
    file[at..at + 8].copy_from_slice(&(whole.len() as u64).to_ne_bytes());
    fs::write(&path, &file[..file.len() - 60]).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(matches!(reader.state(), FileState::Truncated { .. }));
    assert_eq!(read(&path).unwrap().samples, [3, 1]);
}

#[test]
fn errors_name_file_and_field() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.data");
    let mut file = front(&events());
    let error = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let text = Reader::open(&path).unwrap_err().to_string();
        text.replace(path.to_str().unwrap(), "FILE")
    };
    insta::assert_snapshot!(error(b"\x7fELF\x02\x01\x01\0"), @r#"FILE is not a perf.data file: it starts with "\x7fELF\x02\x01\x01\x00", not "PERFILE2""#);
    insta::assert_snapshot!(error(b""), @r#"FILE is not a perf.data file: it is empty"#);
    file[16..24].copy_from_slice(&3_u64.to_ne_bytes());
    insta::assert_snapshot!(error(&file), @"FILE: invalid attr_size in the header: 3 bytes; expected 80 to 4096");
    file[24..32].copy_from_slice(&u64::MAX.to_ne_bytes());
    insta::assert_snapshot!(error(&file), @"FILE: invalid attrs in the header: 256 bytes at 18446744073709551615 in a file of 672 bytes; the header is corrupt");
    file[8..16].copy_from_slice(&99_u64.to_ne_bytes());
    insta::assert_snapshot!(error(&file), @"FILE: invalid size in the header: 99; expected 16, 72 or 104");
    let text = Reader::open(dir.path()).unwrap_err().to_string();
    assert!(text.contains("is a directory"), "{text}");
}

/// A file as a machine of the other byte order writes it, word by word.
fn foreign_file() -> Vec<u8> {
    let mut attr = Vec::new();
    let word32 = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_be_bytes());
    let word = |out: &mut Vec<u8>, value: u64| out.extend_from_slice(&value.to_be_bytes());
    let sample_type = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD;
    // type, size; config, sample, sample_type, read_format; flags from the most significant bit
    [0_u32, 64].iter().for_each(|&value| word32(&mut attr, value));
    [0, 4000, sample_type.bits(), 0].iter().for_each(|&value| word(&mut attr, value));
    let flags = AttrFlags::FREQ | AttrFlags::SAMPLE_ID_ALL | AttrFlags::EXCLUDE_KERNEL;
    word(&mut attr, flags.bits().reverse_bits());
    attr.resize(64, 0);

    let mut data = Vec::new();
    let header = |out: &mut Vec<u8>, kind: u32, misc: u16, size: u16| {
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&misc.to_be_bytes());
        out.extend_from_slice(&size.to_be_bytes());
    };
    header(&mut data, kind::SAMPLE, misc::USER, 40);
    [0xabc, 7 << 32 | 8, 20, 123_456].iter().for_each(|&value| word(&mut data, value));
    header(&mut data, kind::COMM, 0, 40);
    word(&mut data, 7 << 32 | 8);
    data.extend_from_slice(b"foreign\0");
    [7 << 32 | 8, 10].iter().for_each(|&value| word(&mut data, value));

    let mut file = b"2ELIFREP".to_vec();
    let (attrs, ids, body) = (104, 104 + 80, 104 + 80 + 8);
    let size = data.len() as u64;
    [104, 80, attrs, 80, body, size, 0, 0].iter().for_each(|&value| word(&mut file, value));
    [1 << 3, 0, 0, 0].iter().for_each(|&value| word(&mut file, value));
    file.extend_from_slice(&attr);
    [ids, 8, 42].iter().for_each(|&value| word(&mut file, value));
    file.extend_from_slice(&data);
    [body + size + 16, 8].iter().for_each(|&value| word(&mut file, value));
    word32(&mut file, 4);
    file.extend_from_slice(b"ppc\0");
    file
}

#[test]
fn the_other_byte_order_is_read_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreign.data");
    fs::write(&path, foreign_file()).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.metadata().hostname.as_deref(), Some("ppc"));
    assert_eq!((&*reader.events()[0].name, &reader.events()[0].ids[..]), ("cycles:u", &[42][..]));
    let entry = reader.next().unwrap().unwrap();
    let Record::Comm(comm) = entry.record else { panic!("{entry:?}") };
    assert_eq!((entry.time, comm.pid, comm.tid, comm.name), (Some(10), 7, 8, &b"foreign"[..]));
    let entry = reader.next().unwrap().unwrap();
    let Record::Sample(sample) = entry.record else { panic!("{entry:?}") };
    assert_eq!((sample.ip, sample.pid, sample.tid), (Some(0xabc), Some(7), Some(8)));
    assert_eq!((sample.time, sample.period), (Some(20), Some(123_456)));
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!(reader.state(), FileState::Closed);
}
