//! Recordings by our own writer.

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type, software};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::writer::{BuildIdEntry, Features, FileEvent, closing, front};

use crate::{Result, Seeds};

const KERNEL: u64 = 0xffff_ffff_8100_0000;
/// A record that describes an event, in streams.
const HEADER_ATTR: u32 = 64;
/// `PERF_RECORD_CALLCHAIN_DEFERRED`.
const CALLCHAIN_DEFERRED: u32 = 22;
/// Of `enum perf_callchain_context`.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
const CONTEXT_USER_DEFERRED: u64 = -640_i64 as u64;

/// Adds recordings as files, streams and folders, and our own metadata.
pub(crate) fn add(seeds: &Seeds) -> Result {
    let rich = SampleType::BRANCH_STACK
        | SampleType::REGS_USER
        | SampleType::STACK_USER
        | SampleType::WEIGHT
        | SampleType::DATA_SRC;
    for (name, more) in [
        ("plain", SampleType::empty()),
        ("chains", SampleType::PERIOD | SampleType::CALLCHAIN),
        ("rich", SampleType::PERIOD | SampleType::CALLCHAIN | rich),
    ] {
        let (events, data) = (events(more), records(more));
        let file = closed(&events, &data);
        seeds.add_recording(name, &file)?;
        seeds.add_recording(&format!("{name}-cut"), &file[..file.len() * 2 / 3])?;
        seeds.add_recording(&format!("{name}-packed"), &closed(&events, &packed(&data)?))?;
        seeds.add("stream", name, &stream(&events, &data))?;
        let part = file.get(..0x7fff).unwrap_or(&file);
        let length = |bytes: &[u8]| (bytes.len() as u16).to_le_bytes();
        let folder = [&length(part)[..], part, &length(&data[..0])[..], &data[..0], &data].concat();
        seeds.add("directory", name, &folder)?;
    }
    for (name, (events, data)) in [("deferred", deferred()), ("off-cpu", off_cpu())] {
        seeds.add_recording(name, &closed(&events, &data))?;
        seeds.add("stream", name, &stream(&events, &data))?;
    }
    let info = RecordingInfo { scope: "system-wide".into(), ..RecordingInfo::default() };
    seeds.add("info", "json", &info.to_json())?;
    let mut record = Vec::new();
    info.append_record(&mut record);
    seeds.add("info", "record", &record)
}

fn events(more: SampleType) -> Vec<FileEvent> {
    let common = SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::TIME
        | SampleType::CPU;
    let event = |(number, more): (u64, SampleType)| FileEvent {
        attr: Attr {
            event_type: event_type::SOFTWARE,
            config: 2 * number,
            sample: 1000,
            sample_type: common | more,
            flags: AttrFlags::SAMPLE_ID_ALL,
            sample_regs_user: 0xff,
            sample_stack_user: 64,
            ..Attr::default()
        },
        name: ["cpu-clock", "page-faults"][number as usize].into(),
        ids: vec![number + 1],
    };
    [(0, more), (1, SampleType::empty())].into_iter().map(event).collect()
}

/// A little of everything, in order.
fn records(more: SampleType) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, kernel, start) in
        [(&b"[kernel.kallsyms]_text"[..], true, KERNEL), (b"/bin/a", false, 0x1000)]
    {
        let mode = if kernel { misc::KERNEL } else { misc::USER };
        let record =
            RecordBuilder::new(&mut out, kind::MMAP, mode).u32(if kernel { u32::MAX } else { 7 });
        record.u32(7).u64(start).u64(0x10_0000).u64(0).name(name).bytes(&trailer(0)).finish();
    }
    for (kind, time) in [(kind::FORK, 10), (kind::EXIT, 900)] {
        let record = RecordBuilder::new(&mut out, kind, 0).u32(8).u32(7).u32(8).u32(7);
        record.u64(time).bytes(&trailer(time)).finish();
    }
    let comm = RecordBuilder::new(&mut out, kind::COMM, misc::COMM_EXEC).u32(7).u32(7);
    comm.name(b"program").bytes(&trailer(5)).finish();
    let function = RecordBuilder::new(&mut out, kind::KSYMBOL, 0).u64(KERNEL + 0x20_0000).u32(64);
    function.u16(1).u16(0).name(b"bpf_prog").bytes(&trailer(6)).finish();
    RecordBuilder::new(&mut out, kind::LOST, 0).u64(1).u64(3).bytes(&trailer(7)).finish();
    for time in (100..1000).step_by(30) {
        sample(&mut out, time, more);
        if time % 90 == 10 {
            RecordBuilder::new(&mut out, kind::FINISHED_ROUND, 0).finish();
        }
    }
    out
}

/// User callchains that come later, one for two samples, and one that never comes.
fn deferred() -> (Vec<FileEvent>, Vec<u8>) {
    let mut events = events(SampleType::CALLCHAIN);
    events.iter_mut().for_each(|event| event.attr.flags |= AttrFlags::DEFER_CALLCHAIN);
    let mut out = Vec::new();
    for (time, cookie) in [(100, 7), (110, 7), (120, 9)] {
        let record = RecordBuilder::new(&mut out, kind::SAMPLE, misc::KERNEL);
        let record = record.u64(1).u64(KERNEL + time).u32(7).u32(7).u64(time).u64(1);
        let chain = [4, CONTEXT_KERNEL, KERNEL + time, CONTEXT_USER_DEFERRED, cookie];
        record.bytes(&words(&chain)).finish();
    }
    let later = RecordBuilder::new(&mut out, CALLCHAIN_DEFERRED, misc::USER);
    later.bytes(&words(&[7, 3, CONTEXT_USER, 0x1010, 0x1100])).bytes(&trailer(115)).finish();
    (events, out)
}

/// perf's off-CPU time: one wait, and the sum of others, which has no time of its own.
fn off_cpu() -> (Vec<FileEvent>, Vec<u8>) {
    let mut events = events(SampleType::empty());
    events.truncate(1);
    events[0].name = "offcpu-time".into();
    events[0].attr.config = software::BPF_OUTPUT;
    events[0].attr.sample_type |= SampleType::PERIOD | SampleType::RAW;
    let mut out = Vec::new();
    for (time, waited) in [(100, 5_000_000), (0xffff_ffff_0000_0001, 700)] {
        let record = RecordBuilder::new(&mut out, kind::SAMPLE, misc::USER);
        let record = record.u64(1).u64(0).u32(0).u32(0).u64(time).u64(1).u64(1);
        let raw = words(&[7 | 7 << 32, waited, 3, CONTEXT_USER, 0x1010, 0x1100, 1]);
        record.u32(raw.len() as u32 + 4).bytes(&raw).u32(0).finish();
    }
    (events, out)
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn trailer(time: u64) -> Vec<u8> {
    words(&[7 | 7 << 32, time, 1, 1])
}

fn sample(out: &mut Vec<u8>, time: u64, more: SampleType) {
    let (mode, ip) = match time % 60 {
        10 => (misc::KERNEL, KERNEL + time),
        _ => (misc::USER, 0x1000 + time),
    };
    let record = RecordBuilder::new(out, kind::SAMPLE, mode).u64(1).u64(ip);
    let record = record.u32(7 + (time % 2) as u32).u32(7).u64(time).u64(1);
    let mut fields: Vec<u64> = Vec::new();
    if more.contains(SampleType::PERIOD | SampleType::CALLCHAIN) {
        fields.extend([1000, 4, CONTEXT_USER, ip, 0x1100, 0x1200]);
    }
    if more.contains(SampleType::BRANCH_STACK) {
        fields.extend([2, 0x1000, 0x1010, 1, 0x1020, 0x1030, 2]);
        fields.push(2);
        fields.extend(0x100..0x108);
        fields.push(64);
        fields.extend([0; 8]);
        fields.extend([64, 30, 0x6810_0042]);
    }
    record.bytes(&words(&fields)).finish();
}

fn closed(events: &[FileEvent], data: &[u8]) -> Vec<u8> {
    let mut file = front(events);
    let start = file.len() as u64;
    file.extend_from_slice(data);
    let features = Features {
        hostname: Some("host".into()),
        os_release: Some("6.1.0".into()),
        arch: Some("x86_64".into()),
        cpus: Some((2, 2)),
        command_line: vec!["pmuscope".into(), "record".into()],
        build_ids: vec![BuildIdEntry {
            path: b"/bin/a".to_vec(),
            build_id: vec![7; 20],
            kernel: false,
        }],
        info: Some(RecordingInfo::default().to_json()),
        ..Features::default()
    };
    let end = closing(events, &features, start, data.len() as u64);
    file.extend_from_slice(&end.tail);
    file[..end.header.len()].copy_from_slice(&end.header);
    file
}

/// All records in two frames, one record each.
fn packed(data: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let records = pmuscope_abi::record::Records::new(data).map(|(_, record)| record.len());
    let half = records.take(12).sum();
    for piece in [&data[..half], &data[half..]] {
        let frame = zstd::bulk::compress(piece, 1)?;
        RecordBuilder::new(&mut out, kind::COMPRESSED, 0).bytes(&frame).finish();
    }
    Ok(out)
}

/// What follows the header of a stream, behind the byte for its order.
fn stream(events: &[FileEvent], data: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    for event in events {
        let attr = event.attr.to_sized_bytes(128);
        let ids: Vec<u8> = event.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        RecordBuilder::new(&mut out, HEADER_ATTR, 0).bytes(&attr).bytes(&ids).finish();
    }
    out.extend_from_slice(data);
    out
}
