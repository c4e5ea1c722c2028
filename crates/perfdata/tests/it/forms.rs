//! One recording in every form there is: either byte order, file or stream, old or new magic, with
//! attributes of any size, plain or compressed in either way. Each must read the same.

use std::fs;
use std::io::Write as _;

use pmuscope_abi::record::{HEADER_SIZE, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType};
use pmuscope_perfdata::reader::{Reader, Record};

/// Bytes of a file of either byte order.
#[derive(Default, Clone)]
struct Out {
    bytes: Vec<u8>,
    big: bool,
}

impl Out {
    fn new(big: bool) -> Self {
        Self { bytes: Vec::new(), big }
    }

    fn put(mut self, little: &[u8]) -> Self {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(little);
        if self.big {
            self.bytes[at..].reverse();
        }
        self
    }

    fn u16(self, value: u16) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn record(self, kind: u32, misc: u16, body: &[u8]) -> Self {
        let size = (HEADER_SIZE + body.len()) as u16;
        self.u32(kind).u16(misc).u16(size).raw(body)
    }

    /// `sample_id_all`'s end: TID, TIME, CPU, IDENTIFIER.
    fn trailer(self, time: u64, id: u64) -> Self {
        self.u32(7).u32(8).u64(time).u32(3).u32(0).u64(id)
    }
}

/// How the recording is written.
#[derive(Debug, Clone, Copy)]
struct Form {
    big: bool,
    stream: bool,
    magic: &'static [u8; 8],
    attr_size: usize,
    /// Kind of the record that holds compressed ones.
    packed: Option<u32>,
}

const COMPRESSED2: u32 = 83;
const AUXTRACE: u32 = 71;
const IDS: [u64; 2] = [0x1_0000_0002, 77];

fn attr(config: u64) -> Attr {
    Attr {
        config,
        sample: 1000,
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU
            | SampleType::RAW,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::EXCLUDE_KERNEL | AttrFlags::BUILD_ID,
        precise_ip: 1,
        ..Attr::default()
    }
}

/// Widths in bytes of the fields of `perf_event_attr`.
const WIDTHS: [usize; 23] = [4, 4, 8, 8, 8, 8, 8, 4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8, 8];

/// The attribute as a machine of that byte order has it; what is beyond the known size is not zero.
fn attr_bytes(form: Form, config: u64) -> Vec<u8> {
    let mut native = attr(config).to_bytes();
    native[4..8].copy_from_slice(&(form.attr_size as u32).to_le_bytes());
    if form.big {
        let word = u64::from_le_bytes(native[40..48].try_into().unwrap());
        // Bit fields are filled from the other end; a field of two bits keeps its own order.
        let precise = word >> 15 & 3;
        let word = (word & !(3 << 15)).reverse_bits() | precise << 47;
        native[40..48].copy_from_slice(&word.to_le_bytes());
    }
    let mut out = Out::new(form.big);
    let mut at = 0;
    for width in WIDTHS {
        out = out.put(&native[at..at + width]);
        at += width;
    }
    out.bytes.resize(form.attr_size.max(at), 0xee);
    out.bytes.truncate(form.attr_size);
    out.bytes
}

fn sample(out: Out, id: u64, time: u64) -> Out {
    let body = Out::new(out.big).u64(id).u64(0x1000 + time).u32(7).u32(8).u64(time).u32(3).u32(0);
    let body = body.u32(4).raw(b"rawb");
    out.record(kind::SAMPLE, misc::USER, &body.bytes)
}

/// Records of the kernel, out of order, and one that nobody knows.
fn records(big: bool) -> Out {
    let name = Out::new(big).u32(7).u32(8).raw(b"name\0\0\0\0").trailer(5, IDS[0]);
    let mapping = Out::new(big)
        .u32(7)
        .u32(8)
        .u64(0x1000)
        .u64(0x2000)
        .u64(0x30)
        .raw(&[16, 0, 0, 0])
        .raw(&[0xab; 20])
        .u32(5)
        .u32(2)
        .raw(b"/bin/name\0\0\0\0\0\0\0")
        .trailer(6, IDS[1]);
    let out = Out::new(big).record(kind::COMM, misc::COMM_EXEC, &name.bytes);
    let out = out.record(kind::MMAP2, misc::USER | misc::MMAP_BUILD_ID, &mapping.bytes);
    let out = sample(sample(sample(out, IDS[0], 10), IDS[0], 30), IDS[1], 20);
    let out = out.record(63, 0, &[0; 16]);
    out.record(kind::FINISHED_ROUND, 0, &[])
}

/// The data section: part of the records plain, hardware trace, the rest compressed if asked for.
fn data(form: Form) -> Vec<u8> {
    let plain = records(form.big).bytes;
    let trace = Out::new(form.big).u64(24).u64(0).u64(0).u32(0).u32(0).u32(0).u32(0);
    let out = Out::new(form.big).record(AUXTRACE, 0, &trace.bytes).raw(&[0xff; 24]);
    let Some(kind) = form.packed else { return out.raw(&plain).bytes };
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    let mut out = out;
    // Pieces of one zstd stream, cut without regard to records.
    for piece in plain.chunks(50) {
        encoder.write_all(piece).unwrap();
        encoder.flush().unwrap();
        let packed = std::mem::take(encoder.get_mut());
        if kind == COMPRESSED2 {
            let mut body = Out::new(form.big).u64(packed.len() as u64).raw(&packed).bytes;
            body.resize(body.len().next_multiple_of(8), 0xcc);
            out = out.record(kind, 0, &body);
        } else {
            out = out.record(kind, 0, &packed);
        }
    }
    out.bytes
}

fn feature_names(form: Form) -> Vec<u8> {
    let mut out = Out::new(form.big).u32(2).u32(form.attr_size as u32);
    for (number, id) in IDS.iter().enumerate() {
        out = out.raw(&attr_bytes(form, number as u64)).u32(1);
        out = out.u32(8).raw(if number == 0 { b"one\0\0\0\0\0" } else { b"two\0\0\0\0\0" });
        out = out.u64(*id);
    }
    out.bytes
}

fn magic(form: Form) -> Out {
    Out::new(form.big).put(form.magic)
}

fn stream(form: Form) -> Vec<u8> {
    let mut out = magic(form).u64(16);
    for (number, id) in IDS.iter().enumerate() {
        let body = Out::new(form.big).raw(&attr_bytes(form, number as u64)).u64(*id);
        out = out.record(64, 0, &body.bytes);
    }
    let names = Out::new(form.big).u64(12).raw(&feature_names(form));
    out.record(80, 0, &names.bytes).raw(&data(form)).bytes
}

fn file(form: Form) -> Vec<u8> {
    const HEADER: u64 = 104;
    let (entry, data) = (form.attr_size as u64 + 16, data(form));
    let attrs_size = 2 * entry;
    let data_at = HEADER + 16 + attrs_size;
    let mut out = magic(form).u64(HEADER).u64(entry).u64(HEADER + 16).u64(attrs_size);
    out = out.u64(data_at).u64(data.len() as u64).u64(0).u64(0);
    out = out.u64(1 << 12 | 1 << 3).u64(0).u64(0).u64(0); // host name, names of events
    for id in IDS {
        out = out.u64(id);
    }
    for number in 0..2 {
        out = out.raw(&attr_bytes(form, number)).u64(HEADER + 8 * number).u64(8);
    }
    let host = Out::new(form.big).u32(8).raw(b"machine\0").bytes;
    let names = feature_names(form);
    let host_at = data_at + data.len() as u64 + 32;
    out = out.raw(&data).u64(host_at).u64(host.len() as u64);
    out = out.u64(host_at + host.len() as u64).u64(names.len() as u64);
    out.raw(&host).raw(&names).bytes
}

/// What a reader makes of it, in words.
fn told(bytes: &[u8]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    fs::write(&path, bytes).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut told = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        let time = entry.time;
        told.push(match entry.record {
            Record::Sample(s) => {
                let raw = s.details().unwrap().raw.map(<[u8]>::to_vec);
                format!("{time:?} {} {:x?} {:?} {:?} {raw:?}", s.event, s.ip, s.tid, s.cpu)
            }
            Record::Comm(c) => format!("{time:?} {} {} {:?} {}", c.pid, c.tid, c.name, c.exec),
            Record::Mmap(m) => {
                let place = (m.pid, m.start, m.length, m.offset, m.executable);
                format!("{time:?} {place:x?} {:?} {:?} {:?}", m.path, m.build_id, m.protection)
            }
            other => format!("{time:?} {other:?}"),
        });
    }
    for event in reader.events() {
        let (flags, precise) = (event.attr.flags, event.attr.precise_ip);
        told.push(format!(
            "{} {:?} {} {flags:?} {precise}",
            event.name, event.ids, event.attr.config
        ));
    }
    let tally = reader.tally();
    assert_eq!((tally.malformed, tally.late, &tally.stopped), (0, 0, &None));
    told.push(format!("{:?} {} bytes", tally.unknown_kinds, tally.skipped_bytes));
    told
}

fn bytes(form: Form) -> Vec<u8> {
    if form.stream { stream(form) } else { file(form) }
}

#[test]
fn every_form_says_the_same() {
    let plain =
        Form { big: false, stream: false, magic: b"PERFILE2", attr_size: 136, packed: None };
    let expected = told(&bytes(plain));
    insta::assert_snapshot!(expected.join("\n"), @r#"
    Some(5) 7 8 [110, 97, 109, 101] true
    Some(6) (7, 1000, 2000, 30, true) [47, 98, 105, 110, 47, 110, 97, 109, 101] Some([171, 171, 171, 171, 171, 171, 171, 171, 171, 171, 171, 171, 171, 171, 171, 171]) Some((5, 2))
    Some(10) 0 Some(100a) Some(8) Some(3) Some([114, 97, 119, 98])
    Some(20) 1 Some(1014) Some(8) Some(3) Some([114, 97, 119, 98])
    Some(30) 0 Some(101e) Some(8) Some(3) Some([114, 97, 119, 98])
    one [4294967298] 0 AttrFlags(EXCLUDE_KERNEL | SAMPLE_ID_ALL | BUILD_ID) 1
    two [77] 1 AttrFlags(EXCLUDE_KERNEL | SAMPLE_ID_ALL | BUILD_ID) 1
    {63: 1} 24 bytes
    "#);
    for big in [false, true] {
        for stream in [false, true] {
            for magic in [b"PERFILE2", b"PERFFILE"] {
                for attr_size in [64, 112, 136, 200] {
                    for packed in [None, Some(kind::COMPRESSED), Some(COMPRESSED2)] {
                        let form = Form { big, stream, magic, attr_size, packed };
                        assert_eq!(told(&bytes(form)), expected, "{form:?}");
                    }
                }
            }
        }
    }
}

/// Ended by force: the header still says that there are no data.
#[test]
fn a_file_that_was_never_finished_is_read_to_its_end() {
    let form = Form { big: true, stream: false, magic: b"PERFILE2", attr_size: 112, packed: None };
    let whole = bytes(form);
    let mut unfinished = whole[..whole.len() - feature_names(form).len() - 12 - 32].to_vec();
    unfinished[48..56].fill(0);
    let (expected, found) = (told(&whole), told(&unfinished));
    assert_eq!(found[..5], expected[..5]);
    assert_eq!(found.last(), expected.last());
}
