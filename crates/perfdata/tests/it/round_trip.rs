//! What the writer writes, the reader reads: any attributes, ids, records, features, plain or
//! compressed, closed or cut off.

use std::fs;
use std::io::Write as _;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, BranchSampleType, ReadFormat, SampleType};
use pmuscope_perfdata::reader::{FileState, Reader, Record, Sample};
use pmuscope_perfdata::writer::{
    BuildIdEntry, DATA_SIZE_OFFSET, Features, FileEvent, NodeEntry, closing, data_size_patch, front,
};
use proptest::prelude::*;
use proptest::sample::select;

const COMPRESSED2: u32 = 83;
/// Fields that a sample may have or not.
const OPTIONAL: [SampleType; 19] = [
    SampleType::IP,
    SampleType::TID,
    SampleType::ADDR,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::PERIOD,
    SampleType::READ,
    SampleType::CALLCHAIN,
    SampleType::RAW,
    SampleType::BRANCH_STACK,
    SampleType::REGS_USER,
    SampleType::STACK_USER,
    SampleType::WEIGHT_STRUCT,
    SampleType::DATA_SRC,
    SampleType::TRANSACTION,
    SampleType::REGS_INTR,
    SampleType::PHYS_ADDR,
    SampleType::CGROUP,
    SampleType::DATA_PAGE_SIZE,
];

/// A recording before it has bytes.
#[derive(Debug, Clone)]
struct Spec {
    events: Vec<FileEvent>,
    records: Vec<PlannedRecord>,
    features: Features,
    /// Kind of the records that hold compressed ones, and the bytes in each.
    packed: Option<(u32, usize)>,
}

/// A record of an event at a time; what it says follows from `seed`.
#[derive(Debug, Clone)]
struct PlannedRecord {
    event: usize,
    id: usize,
    time: u64,
    seed: u64,
    what: u8,
}

fn attr() -> impl Strategy<Value = Attr> {
    let types = proptest::bits::u32::masked((1 << OPTIONAL.len()) - 1);
    (types, 0..32_u64, any::<[u64; 6]>(), any::<u16>(), 0..4_u8).prop_map(
        |(types, read_format, words, depth, precise_ip)| {
            let mut sample_type = SampleType::IDENTIFIER | SampleType::TIME;
            for (number, bit) in OPTIONAL.iter().enumerate() {
                sample_type |= if types >> number & 1 == 1 { *bit } else { SampleType::empty() };
            }
            Attr {
                event_type: words[0] as u32,
                config: words[1],
                sample: words[2],
                sample_type,
                read_format: ReadFormat::from_bits_retain(read_format),
                flags: AttrFlags::from_bits_retain(words[3] & !(3 << 15))
                    | AttrFlags::SAMPLE_ID_ALL,
                precise_ip,
                branch_sample_type: BranchSampleType::from_bits_retain(words[4] & 0x3_ffff),
                sample_regs_user: words[5],
                sample_regs_intr: words[5].rotate_left(9) & 0xff,
                sample_max_stack: depth,
                config3: words[0] >> 60,
                ..Attr::default()
            }
        },
    )
}

fn events() -> impl Strategy<Value = Vec<FileEvent>> {
    let event = (attr(), "[a-z:/=,-]{1,20}", 1..5_usize);
    proptest::collection::vec(event, 1..4).prop_map(|events| {
        let mut next_id = 7;
        let mut build = |(attr, name, ids): (Attr, String, usize)| {
            let ids = (0..ids).map(|_| {
                next_id += 11;
                next_id
            });
            FileEvent { attr, name, ids: ids.collect() }
        };
        events.into_iter().map(&mut build).collect()
    })
}

fn features() -> impl Strategy<Value = Features> {
    let text = || proptest::option::of("[ -~äöü]{0,80}");
    let build_id =
        ("/[a-z/ ]{0,90}", proptest::collection::vec(any::<u8>(), 1..=20), any::<bool>());
    let node = (any::<u32>(), any::<u64>(), "[0-9,-]{0,70}");
    (
        [text(), text(), text(), text(), text()],
        proptest::option::of(any::<(u32, u32)>()),
        proptest::collection::vec("[ -~]{0,70}", 0..5),
        proptest::collection::vec(build_id, 0..4),
        proptest::collection::vec(node, 0..3),
    )
        .prop_map(|(texts, cpus, command_line, build_ids, nodes)| {
            let [hostname, os_release, version, arch, cpu_description] = texts;
            let build_ids = build_ids.into_iter();
            Features {
                hostname,
                os_release,
                version,
                arch,
                cpu_description,
                cpus,
                command_line,
                build_ids: build_ids
                    .map(|(path, build_id, kernel)| BuildIdEntry {
                        path: path.into_bytes(),
                        build_id,
                        kernel,
                    })
                    .collect(),
                nodes: nodes
                    .into_iter()
                    .map(|(id, total_kib, cpus)| NodeEntry { id, total_kib, free_kib: 0, cpus })
                    .collect(),
                ..Features::default()
            }
        })
}

fn spec() -> impl Strategy<Value = Spec> {
    let spot = (any::<usize>(), any::<usize>(), 1..1000_u64, any::<u64>(), 0..6_u8);
    let packed = (select(vec![kind::COMPRESSED, COMPRESSED2]), 1..3000_usize);
    (events(), proptest::collection::vec(spot, 0..60), features(), proptest::option::of(packed))
        .prop_map(|(events, spots, features, packed)| {
            let records = spots
                .into_iter()
                .map(|(event, id, time, seed, what)| {
                    let event = event % events.len();
                    let id = id % events[event].ids.len();
                    PlannedRecord { event, id, time, seed, what }
                })
                .collect();
            Spec { events, records, features, packed }
        })
}

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    fn words(&mut self, most: u64) -> Vec<u64> {
        let number = self.next() % (most + 1);
        (0..number).map(|_| self.next()).collect()
    }
}

/// A sample's words behind its identifier, and what a reader should say of it.
fn sample_words(attr: &Attr, spot: &PlannedRecord) -> (Vec<u64>, Vec<String>) {
    let mut numbers = Numbers(spot.seed);
    let (mut words, mut said) = (Vec::new(), Vec::new());
    let mut word = |words: &mut Vec<u64>, name: &str, mask: u64| {
        let value = numbers.next() & mask;
        words.push(value);
        said.push(format!("{name} {value}"));
    };
    let has = |bit| attr.sample_type.contains(bit);
    if has(SampleType::IP) {
        word(&mut words, "ip", u64::MAX);
    }
    if has(SampleType::TID) {
        word(&mut words, "task", u64::MAX);
    }
    words.push(spot.time);
    for (bit, name) in [(SampleType::ADDR, "address"), (SampleType::STREAM_ID, "stream")] {
        if has(bit) {
            word(&mut words, name, u64::MAX);
        }
    }
    if has(SampleType::CPU) {
        word(&mut words, "cpu", u32::MAX.into());
    }
    if has(SampleType::PERIOD) {
        word(&mut words, "period", u64::MAX);
    }
    if has(SampleType::READ) {
        let format = attr.read_format;
        let times = u64::from((format & ReadFormat::from_bits_retain(3)).bits().count_ones());
        let each =
            1 + u64::from((format & (ReadFormat::ID | ReadFormat::LOST)).bits().count_ones());
        let group = numbers.next() % 4;
        let total = if format.contains(ReadFormat::GROUP) {
            words.push(group);
            times + group * each
        } else {
            times + each
        };
        words.extend((0..total).map(|_| numbers.next()));
        let values = if format.contains(ReadFormat::GROUP) { group } else { 1 };
        said.push(format!("{values} counts"));
    }
    let mut list = |words: &mut Vec<u64>, name: &str, most: u64| {
        let values = numbers.words(most);
        words.push(values.len() as u64);
        said.push(format!("{name} {values:?}"));
        words.extend(values);
    };
    if has(SampleType::CALLCHAIN) {
        list(&mut words, "chain", 20);
    }
    if has(SampleType::RAW) {
        // A u32 of bytes that with itself makes whole words.
        words.push(4 | numbers.next() << 32);
        said.push("raw 4 bytes".into());
    }
    if has(SampleType::BRANCH_STACK) {
        let branches = numbers.next() % 5;
        words.push(branches);
        if attr.branch_sample_type.contains(BranchSampleType::HW_INDEX) {
            words.push(3);
        }
        words.extend((0..3 * branches).map(|_| numbers.next()));
        said.push(format!("{branches} branches"));
    }
    if has(SampleType::REGS_USER) {
        words.push(2);
        words.extend((0..attr.sample_regs_user.count_ones()).map(|_| numbers.next()));
        said.push(format!("{} registers", attr.sample_regs_user.count_ones()));
    }
    if has(SampleType::STACK_USER) {
        words.extend([16, numbers.next(), numbers.next(), 9]);
        said.push("stack 9 of 16".into());
    }
    for (bit, name) in [
        (SampleType::WEIGHT_STRUCT, "weight"),
        (SampleType::DATA_SRC, "source"),
        (SampleType::TRANSACTION, "transaction"),
    ] {
        if has(bit) {
            let value = numbers.next();
            words.push(value);
            let value = if name == "weight" { value & 0xffff_ffff } else { value };
            said.push(format!("{name} {value}"));
        }
    }
    if has(SampleType::REGS_INTR) {
        words.push(0);
    }
    for (bit, name) in [
        (SampleType::PHYS_ADDR, "physical"),
        (SampleType::CGROUP, "cgroup"),
        (SampleType::DATA_PAGE_SIZE, "page"),
    ] {
        if has(bit) {
            let value = numbers.next();
            words.push(value);
            said.push(format!("{name} {value}"));
        }
    }
    (words, said)
}

/// What a reader says of a sample, in the same words.
fn say(sample: &Sample<'_>) -> Vec<String> {
    let details = sample.details().unwrap();
    let mut said = Vec::new();
    let mut word = |name: &str, value: Option<u64>| {
        said.extend(value.map(|value| format!("{name} {value}")));
    };
    word("ip", sample.ip);
    let task = sample.pid.zip(sample.tid).map(|(pid, tid)| {
        let (first, second) = if cfg!(target_endian = "big") { (tid, pid) } else { (pid, tid) };
        u64::from(first as u32) | u64::from(second as u32) << 32
    });
    word("task", task);
    word("address", sample.address);
    word("stream", sample.stream_id);
    word("cpu", sample.cpu.map(u64::from));
    word("period", sample.period);
    if let Some(read) = sample.read {
        said.push(format!("{} counts", read.iter().count()));
    }
    // An empty chain and none are the same to a reader.
    said.push(format!("chain {:?}", sample.callchain.iter().collect::<Vec<_>>()));
    said.extend(details.raw.map(|raw| format!("raw {} bytes", raw.len())));
    said.extend(details.branches.map(|branches| format!("{} branches", branches.iter().count())));
    said.extend(details.regs_user.map(|regs| format!("{} registers", regs.iter().count())));
    said.extend(
        details.stack_user.map(|s| format!("stack {} of {}", s.stack().len(), s.bytes.len())),
    );
    let mut word = |name: &str, value: Option<u64>| {
        said.extend(value.map(|value| format!("{name} {value}")));
    };
    word("weight", details.weight.map(|weight| weight.cost));
    word("source", details.data_source.map(|source| source.0));
    word("transaction", details.transaction);
    assert_eq!(details.regs_intr, None);
    word("physical", details.physical_address);
    word("cgroup", details.cgroup);
    word("page", details.data_page_size);
    said
}

/// `sample_id_all`'s fields of an event, behind any other record.
fn trailer<'a>(
    record: RecordBuilder<'a>,
    event: &FileEvent,
    spot: &PlannedRecord,
) -> RecordBuilder<'a> {
    let has = |bit| event.attr.sample_type.contains(bit);
    let mut record = record;
    if has(SampleType::TID) {
        record = record.u32(1).u32(2);
    }
    record = record.u64(spot.time);
    if has(SampleType::STREAM_ID) {
        record = record.u64(5);
    }
    if has(SampleType::CPU) {
        record = record.u32(6).u32(0);
    }
    record.u64(event.ids[spot.id])
}

/// Appends the record, and tells what a reader should say of it.
fn write(out: &mut Vec<u8>, event: &FileEvent, spot: &PlannedRecord) -> String {
    let pid = spot.seed as u32;
    let name = format!("name {}", spot.seed);
    match spot.what {
        0 => {
            let record = RecordBuilder::new(out, kind::COMM, 0).u32(pid).u32(9).text(&name);
            trailer(record, event, spot).finish();
            format!("comm {pid} {name}")
        }
        1 => {
            let record = RecordBuilder::new(out, kind::MMAP2, misc::USER).u32(pid).u32(9);
            let record = record.u64(spot.seed).u64(4096).u64(8192);
            let record = record.u32(8).u32(1).u64(77).u64(5).u32(5).u32(2).text(&name);
            trailer(record, event, spot).finish();
            format!("mmap {pid} {} {name} 77", spot.seed)
        }
        2 => {
            let record = RecordBuilder::new(out, kind::LOST, 0).u64(event.ids[spot.id]);
            trailer(record.u64(spot.seed), event, spot).finish();
            format!("lost {} of {}", spot.seed, spot.event)
        }
        _ => {
            let (words, mut said) = sample_words(&event.attr, spot);
            let record = RecordBuilder::new(out, kind::SAMPLE, misc::USER).u64(event.ids[spot.id]);
            words.iter().fold(record, |record, &word| record.u64(word)).finish();
            if !event.attr.sample_type.contains(SampleType::CALLCHAIN) {
                let at = said.iter().position(|word| {
                    let front = ["ip", "task", "address", "stream", "cpu", "period"];
                    !front.iter().any(|name| word.starts_with(name)) && !word.ends_with("counts")
                });
                said.insert(at.unwrap_or(said.len()), "chain []".into());
            }
            format!("sample of {} {said:?}", spot.event)
        }
    }
}

fn told(reader: &mut Reader) -> Vec<(u64, String)> {
    let mut told = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        let text = match entry.record {
            Record::Comm(comm) => format!("comm {} {}", comm.pid as u32, text(comm.name)),
            Record::Mmap(mmap) => {
                let inode = mmap.inode.unwrap().number;
                format!("mmap {} {} {} {inode}", mmap.pid as u32, mmap.start, text(mmap.path))
            }
            Record::Lost { event, count } => format!("lost {count} of {}", event.unwrap()),
            Record::Sample(sample) => format!("sample of {} {:?}", sample.event, say(&sample)),
            other => panic!("{other:?}"),
        };
        told.push((entry.time.unwrap(), text));
    }
    told
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn pack(plain: &[u8], record_kind: u32, piece: usize) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    let mut out = Vec::new();
    for piece in plain.chunks(piece) {
        encoder.write_all(piece).unwrap();
        encoder.flush().unwrap();
        let packed = std::mem::take(encoder.get_mut());
        let record = RecordBuilder::new(&mut out, record_kind, 0);
        if record_kind == COMPRESSED2 {
            let padding = packed.len().next_multiple_of(8) - packed.len();
            record.u64(packed.len() as u64).bytes(&packed).bytes(&[0; 8][..padding]).finish();
        } else {
            record.bytes(&packed).finish();
        }
    }
    out
}

fn check_features(reader: &Reader, wrote: &Features) {
    let read = reader.metadata();
    // A string ends at its first zero byte, of which there is none here.
    assert_eq!(read.hostname, wrote.hostname);
    assert_eq!(read.os_release, wrote.os_release);
    assert_eq!(read.version, wrote.version);
    assert_eq!(read.arch, wrote.arch);
    assert_eq!(read.cpu_model, wrote.cpu_description);
    assert_eq!(read.cpus, wrote.cpus.map(|(_, online)| online));
    let has_arguments = wrote.command_line.len() > 1;
    assert_eq!(read.command, if has_arguments { &wrote.command_line[..] } else { &[] });
    assert_eq!(read.nodes.unwrap_or(0) as usize, wrote.nodes.len());
    let ids: Vec<_> = read.build_ids.iter().map(|b| (b.kernel, &b.path, &b.id)).collect();
    let wrote: Vec<_> = wrote.build_ids.iter().map(|b| (b.kernel, &b.path, &b.build_id)).collect();
    assert_eq!(ids, wrote);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read(spec in spec()) {
        let mut plain = Vec::new();
        let mut expected: Vec<(u64, String)> = spec
            .records
            .iter()
            .map(|spot| (spot.time, write(&mut plain, &spec.events[spot.event], spot)))
            .collect();
        expected.sort_by_key(|(time, _)| *time);
        let data = match spec.packed {
            Some((kind, piece)) => pack(&plain, kind, piece),
            None => plain,
        };
        let mut file = front(&spec.events);
        let start = file.len() as u64;
        file.extend_from_slice(&data);

        // Cut off before it was closed: as far as the last patch of its size.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.data");
        let at = DATA_SIZE_OFFSET as usize;
        file[at..at + 8].copy_from_slice(&data_size_patch(data.len() as u64));
        fs::write(&path, &file).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        prop_assert_eq!(reader.state(), FileState::NotClosed);
        prop_assert_eq!(&told(&mut reader), &expected);

        let end = closing(&spec.events, &spec.features, start, data.len() as u64);
        file.extend_from_slice(&end.tail);
        file[..end.header.len()].copy_from_slice(&end.header);
        fs::write(&path, &file).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        prop_assert_eq!(reader.state(), FileState::Closed);
        for (event, wrote) in reader.events().iter().zip(&spec.events) {
            prop_assert_eq!(&event.name, &wrote.name);
            prop_assert_eq!(&event.attr, &wrote.attr);
            prop_assert_eq!(&event.ids, &wrote.ids);
        }
        check_features(&reader, &spec.features);
        prop_assert_eq!(&told(&mut reader), &expected);
        let tally = reader.tally();
        prop_assert_eq!((tally.malformed, tally.late, tally.stopped.is_none()), (0, 0, true));
    }
}
