//! Samples of the counts that a group's leader reads: the same on any number of threads and in order.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_abi::{Attr, AttrFlags, ReadFormat, SampleType};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::reader::Reader;
use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_perfdata::strobe::StrobeInfo;
use pmuscope_perfdata::writer::{Features, FileEvent};
use pmuscope_profile::{Collected, Counting, Filter, GroupBy, Profile, TasksBy};

use crate::passes::{Random, finished, frames, stream, table, write_of};

const APART: GroupBy = GroupBy { chains: false, tasks: TasksBy::Thread, cpus: true };
const CPUS: usize = 3;
const FIRST: u64 = 1_000_000_000;
const STEP: u64 = 1000;

/// Ids are the number of the CPU and 1 (cycles) or 11 (instructions).
fn events(inherit: bool) -> Vec<FileEvent> {
    let event = |(name, id): (&str, u64)| {
        let mut flags = AttrFlags::SAMPLE_ID_ALL;
        flags.set(AttrFlags::INHERIT, inherit);
        FileEvent {
            attr: Attr {
                sample: 1000,
                sample_type: SampleType::IDENTIFIER
                    | SampleType::IP
                    | SampleType::TID
                    | SampleType::TIME
                    | SampleType::CPU
                    | SampleType::READ,
                read_format: ReadFormat::GROUP | ReadFormat::ID,
                flags,
                ..Attr::default()
            },
            name: name.into(),
            ids: (id..id + CPUS as u64).collect(),
        }
    };
    [("cycles", 1), ("instructions", 11)].map(event).into()
}

struct Taken {
    cpu: usize,
    tid: u32,
    time: u64,
    /// Of both events since they were read before.
    counted: [u64; 2],
    record: Vec<u8>,
}

fn take(random: &mut Random, inherit: bool, number: usize) -> Vec<Taken> {
    let mut counts: HashMap<(usize, u32), [u64; 2]> = HashMap::new();
    let one = |at: usize| {
        let (cpu, tid) = (random.below(CPUS as u64) as usize, 100 + random.below(4) as u32);
        let time = FIRST + STEP * at as u64;
        // Instructions stand still at times.
        let counted = [1 + random.below(1000), random.below(3) * random.below(500)];
        let sums = counts.entry((cpu, if inherit { tid } else { 0 })).or_default();
        sums.iter_mut().zip(counted).for_each(|(sum, counted)| *sum += counted);
        let (mut record, id) = (Vec::new(), 1 + cpu as u64);
        RecordBuilder::new(&mut record, kind::SAMPLE, misc::USER)
            .u64(id)
            .u64(0x1000 + 8 * random.below(20))
            .u32(tid)
            .u32(tid)
            .u64(time)
            .u64(cpu as u64)
            .u64(2)
            .u64(sums[0])
            .u64(id)
            .u64(sums[1])
            .u64(10 + id)
            .finish();
        Taken { cpu, tid, time, counted, record }
    };
    (0..number).map(one).collect()
}

/// The records as a recorder writes them: in rounds, ring by ring; of a ring in the order of time or, as
/// rings that are written backwards leave them, the other way.
fn data(taken: &[Taken], backward: bool) -> Vec<u8> {
    let mut data = Vec::new();
    for round in taken.chunks(100) {
        for cpu in 0..CPUS {
            let mut ring: Vec<_> = round.iter().filter(|one| one.cpu == cpu).collect();
            if backward {
                ring.reverse();
            }
            ring.iter().for_each(|one| data.extend_from_slice(&one.record));
        }
        RecordBuilder::new(&mut data, kind::FINISHED_ROUND, 0).finish();
    }
    data
}

/// Samples and units by event, thread and CPU.
type Sums = BTreeMap<(u32, i32, i32), (u64, u64)>;

fn sums(profile: &Profile) -> Sums {
    let mut sums = Sums::new();
    for ((event, _, _, tid, cpu, _), (samples, weight)) in table(profile) {
        let sum = sums.entry((event, tid, cpu as i32)).or_default();
        *sum = (sum.0 + samples, sum.1 + weight);
    }
    sums
}

fn expected(taken: &[Taken], keep: impl Fn(&Taken) -> bool) -> Sums {
    let mut sums = Sums::new();
    for one in taken.iter().filter(|one| keep(one)) {
        for (event, counted) in (0..).zip(one.counted).filter(|&(_, counted)| counted > 0) {
            let sum = sums.entry((event, one.tid as i32, one.cpu as i32)).or_default();
            *sum = (sum.0 + 1, sum.1 + counted);
        }
    }
    sums
}

/// Read in passes by this many threads, and whether it could be.
fn read(path: &Path, filter: &Filter, threads: usize) -> (Profile, bool) {
    let counting = Counting { apart: APART, filter: filter.clone(), ..Counting::default() };
    let mut reader = Reader::open(path).unwrap();
    if threads == 0 {
        let collected = Collected::in_order(&mut reader, counting, None).unwrap();
        return (finished(&reader, collected), false);
    }
    let pieces = Pieces { part: 70_000, chunk: 66 << 10, packed_chunk: 9000 };
    let collected = Collected::read_in(&mut reader, counting, threads, None, pieces).unwrap();
    let in_passes = format!("{:?}", reader.progress().stage()).contains("Samples");
    (finished(&reader, collected), in_passes)
}

#[test]
fn counts_go_on_from_chunk_to_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("led.data");
    for (seed, inherit) in [(1, false), (2, true)] {
        let taken = take(&mut Random(seed), inherit, 6000);
        let (plain, backward) = (data(&taken, false), data(&taken, true));
        assert!(plain.len() > 5 * (66 << 10), "{}", plain.len());
        let forms: [(&str, Vec<u8>, bool); 4] = [
            ("plain", plain.clone(), true),
            ("frames", frames(&plain), true),
            ("stream", stream(&plain), false),
            ("backward", backward, false),
        ];
        for (form, data, fits) in forms {
            write_of(&path, &events(inherit), &data, &Features::default());
            let time = |percent: u64| FIRST + STEP * (60 * percent);
            let filters = [
                (Filter::default(), expected(&taken, |_| true)),
                (
                    Filter { tids: vec![102], ..Filter::default() },
                    expected(&taken, |one| one.tid == 102),
                ),
                (
                    Filter { times: vec![time(40)..=time(70)], ..Filter::default() },
                    expected(&taken, |one| (time(40)..=time(70)).contains(&one.time)),
                ),
            ];
            for (filter, expected) in filters {
                for threads in [0, 1, 2, 7] {
                    let what = format!("{form}, {threads} threads, {filter:?}");
                    let (profile, in_passes) = read(&path, &filter, threads);
                    assert_eq!(in_passes, fits && threads > 0, "{what}");
                    assert_eq!(sums(&profile), expected, "{what}");
                    assert_eq!(profile.sampled, [6000, 0], "{what}");
                }
            }
        }
    }
}

#[test]
fn ends_of_windows_are_samples_of_their_own_event() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("windows.data");
    let taken = take(&mut Random(3), false, 500);
    let strobe = Some(StrobeInfo::default());
    let info = RecordingInfo { strobe, ..RecordingInfo::default() };
    let features = Features { info: Some(info.to_json()), ..Features::default() };
    write_of(&path, &events(false), &data(&taken, false), &features);
    for threads in [0, 1, 2] {
        let (profile, _) = read(&path, &Filter::default(), threads);
        let samples: Vec<u64> = profile.events.iter().map(|event| event.samples).collect();
        assert_eq!((samples, &profile.sampled[..]), (vec![500, 0], &[500, 0][..]));
        assert_eq!(profile.events[0].period, Some(500 * 1000));
    }
}
