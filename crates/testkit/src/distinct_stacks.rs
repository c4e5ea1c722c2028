//! A recording in which hardly any two samples have the same call chain: the worst case for whatever counts by chain.
//!
//! One process with one file mapped, which does not exist, so that each of its addresses is a frame. A chain has eight
//! callers, each one of six, and one of 20,000 addresses below them, all drawn at random: 34 billion chains, so that of ten
//! million some 15,000 come twice.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type};
use pmuscope_perfdata::writer::{Features, FileEvent, closing, front};

const PROCESS: u32 = 77;
const MAPPED_AT: u64 = 0x40_0000;
/// Places in the file, 16 bytes apart: of leaves, and of each level of callers.
const LEAVES: u64 = 20_000;
const CALLERS: u64 = 6;
const LEVELS: u64 = 8;
/// Between two samples, nanoseconds.
const INTERVAL: u64 = 1000;
/// Stands in call chains before addresses of the program (`PERF_CONTEXT_USER`).
const CONTEXT_USER: u64 = -512_i64 as u64;

/// Writes it.
///
/// # Errors
/// Those of writing.
pub fn write(samples: u64, path: &Path) -> io::Result<()> {
    let events = [FileEvent {
        attr: Attr {
            event_type: event_type::SOFTWARE,
            sample: INTERVAL,
            sample_type: SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::CPU
                | SampleType::CALLCHAIN,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        },
        name: "cpu-clock".into(),
        ids: vec![1],
    }];
    let front = front(&events);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(&front)?;
    let mut size = 0;
    let mut record = Vec::new();
    program(&mut record);
    let mut random = Random(1);
    for number in 0..=samples {
        out.write_all(&record)?;
        size += record.len() as u64;
        record.clear();
        sample(&mut record, 1_000_000_000 + number * INTERVAL, &mut random);
    }
    let closing = closing(&events, &Features::default(), front.len() as u64, size);
    out.write_all(&closing.tail)?;
    out.into_inner()?.write_all_at(&closing.header, 0)
}

/// What ran.
fn program(out: &mut Vec<u8>) {
    let own = u64::from(PROCESS) | u64::from(PROCESS) << 32;
    // Thread, time, CPU and event of a record that is not a sample.
    let made_by = [own, 1, 0, 1].map(u64::to_ne_bytes).concat();
    RecordBuilder::new(out, kind::COMM, misc::COMM_EXEC)
        .u64(own)
        .text("stacks")
        .bytes(&made_by)
        .finish();
    RecordBuilder::new(out, kind::MMAP, misc::USER)
        .u64(own)
        .u64(MAPPED_AT)
        .u64(16 * (LEAVES + LEVELS * CALLERS))
        .u64(0)
        .text("/nowhere/stacks")
        .bytes(&made_by)
        .finish();
}

fn sample(out: &mut Vec<u8>, time: u64, random: &mut Random) {
    let address = |place: u64| MAPPED_AT + 16 * place;
    let own = u64::from(PROCESS) | u64::from(PROCESS) << 32;
    let ip = address(random.below(LEAVES));
    let mut record = RecordBuilder::new(out, kind::SAMPLE, misc::USER);
    for word in [1, ip, own, time, 0, LEVELS + 2, CONTEXT_USER, ip] {
        record = record.u64(word);
    }
    let caller = |level| address(LEAVES + level * CALLERS + random.below(CALLERS)) + 5;
    (0..LEVELS).map(caller).fold(record, RecordBuilder::u64).finish();
}

/// The constants of Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
