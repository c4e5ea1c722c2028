//! Whether threads share what they access in a cache line, or only the line.
//!
//! Caches move whole lines. Where one thread writes some bytes of a line and another one other bytes, the
//! line goes to and fro as if both used the same variable (false sharing): to put them into lines of
//! their own is all it takes.

use std::collections::BTreeMap;

use pmuscope_perfdata::watch::{Access, WatchInfo};

use super::estimate::{expansion, is_always};

/// Bytes of a line where the recording does not say.
const LINE: u32 = 64;
/// Fewer hits than this tell nothing.
const LEAST: u64 = 30;
/// A thread with a smaller share of a line's hits (it set it up, say) does not count.
const SLIGHT: f64 = 0.01;
/// A word whose other threads have a smaller share of its hits belongs to one.
const FOREIGN: f64 = 0.05;
/// Threads that are told of.
const MOST: usize = 1024;

/// What goes on in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharingVerdict {
    /// Threads use words of their own.
    FalseSharing,
    /// Threads use the same words.
    TrueSharing,
    /// Some words have a thread of their own, some have several.
    Both,
    /// One thread uses it.
    OneThread,
    /// Threads used it one after the other: nothing moved to and fro.
    InTurn,
    /// Several threads read it and none writes it: each cache has a copy.
    ReadOnly,
    /// Too few hits to tell.
    NotEnough,
    /// Several of these are possible by the words and times that were watched.
    Inconclusive,
}

/// A cache line with several words that were watched.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheLine {
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u32,
    /// The process; `None` where it is the kernel's.
    pub pid: Option<u32>,
    /// What is going on.
    pub verdict: SharingVerdict,
    /// Words were not watched all the time, or not together.
    pub is_estimate: bool,
    /// Only writes were watched: who reads the line is not seen.
    pub writes_only: bool,
    /// The words that were watched, by address.
    pub words: Vec<Word>,
    /// The threads that hit it, most hits first: process and thread.
    pub threads: Vec<(u32, u32)>,
    /// All hits that were counted.
    pub hits: u64,
    /// Share of the hits (the estimated ones, if it is an estimate) by another thread than the one
    /// which hit the same word most.
    pub foreign_share: f64,
    /// Records of it, and how often one was of another thread than the one before.
    pub records: u64,
    /// See `records`.
    pub handovers: u64,
    /// Other processes hit this address too. Whether that is the same memory is not known.
    pub other_processes: u32,
}

/// A word of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// Position among the points.
    pub point: u32,
    /// First byte in the line.
    pub offset: u32,
    /// Length.
    pub bytes: u8,
    /// Hits by thread, as in [`CacheLine::threads`]: counted, and over all the time.
    pub hits: Vec<(u64, f64)>,
}

/// Which thread was the last to hit each line, and how often that changed.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    lines: rustc_hash::FxHashMap<(u64, Option<u32>), (u32, u64, u64)>,
}

/// Lines with processes that are followed.
const MOST_LINES: usize = 1 << 16;

impl Handovers {
    pub(super) fn add(&mut self, line: u64, pid: Option<u32>, tid: u32) {
        if self.lines.len() >= MOST_LINES && !self.lines.contains_key(&(line, pid)) {
            return;
        }
        let (last, records, handovers) = self.lines.entry((line, pid)).or_insert((tid, 0, 0));
        *records += 1;
        *handovers += u64::from(*last != tid);
        *last = tid;
    }
}

/// Bytes of a line.
pub(super) fn line_bytes(info: &WatchInfo) -> u32 {
    info.cache_line.filter(|bytes| bytes.is_power_of_two()).unwrap_or(LINE)
}

/// The line that an address is in.
pub(super) fn line_of(info: &WatchInfo, address: u64) -> u64 {
    address & !u64::from(line_bytes(info) - 1)
}

/// Hits of a point by process and thread.
pub(super) type ByThread = BTreeMap<(u32, u32, u32), u64>;

/// All lines of which at least two words of data were watched, by address, those of a process together.
pub(super) fn lines(
    info: &WatchInfo,
    by_thread: &ByThread,
    handovers: &Handovers,
) -> Vec<CacheLine> {
    let mut lines: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (point, at) in info.points.iter().zip(0..) {
        let target = info.targets.get(point.target as usize);
        if target.is_some_and(|target| target.access != Access::Execute) {
            lines.entry(line_of(info, point.address)).or_default().push(at);
        }
    }
    lines.retain(|_, points| points.len() > 1);
    let mut found = Vec::new();
    for (address, points) in lines {
        let in_kernel = in_kernel(info, points[0]);
        let mut processes: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for ((point, pid, _), hits) in by_thread {
            if points.contains(point) {
                *processes.entry((!in_kernel).then_some(*pid)).or_default() += hits;
            }
        }
        let others = processes.len().saturating_sub(1) as u32;
        // Nobody hit it.
        if processes.is_empty() {
            processes.insert(None, 0);
        }
        for pid in processes.into_keys() {
            let mut line = line(info, address, &points, pid, by_thread);
            line.other_processes = others;
            if let Some(&(_, records, handovers)) = handovers.lines.get(&(address, pid)) {
                (line.records, line.handovers) = (records, handovers);
            }
            line.verdict = judge(&line);
            found.push(line);
        }
    }
    found.sort_by_key(|line| (std::cmp::Reverse(line.hits), line.address, line.pid));
    found
}

fn in_kernel(info: &WatchInfo, point: u32) -> bool {
    let target =
        info.points.get(point as usize).and_then(|one| info.targets.get(one.target as usize));
    target.is_some_and(|target| target.in_kernel)
}

fn line(
    info: &WatchInfo,
    address: u64,
    points: &[u32],
    pid: Option<u32>,
    by_thread: &ByThread,
) -> CacheLine {
    let mut points = points.to_vec();
    points.sort_by_key(|&point| info.points[point as usize].address);
    let mut threads: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (&(point, of, tid), hits) in by_thread {
        if points.contains(&point) && pid.is_none_or(|pid| pid == of) {
            *threads.entry((of, tid)).or_default() += hits;
        }
    }
    let hits = threads.values().sum();
    let mut threads: Vec<((u32, u32), u64)> = threads.into_iter().collect();
    threads.sort_by_key(|&(thread, hits)| (std::cmp::Reverse(hits), thread));
    threads.truncate(MOST);
    let threads: Vec<(u32, u32)> = threads.into_iter().map(|(thread, _)| thread).collect();
    let word = |&point: &u32| {
        let factor = expansion(info, point);
        let of = |&(pid, tid): &(u32, u32)| {
            let hits = by_thread.get(&(point, pid, tid)).copied().unwrap_or(0);
            (hits, hits as f64 * factor)
        };
        let watched = &info.points[point as usize];
        Word {
            point,
            offset: (watched.address - address) as u32,
            bytes: watched.bytes,
            hits: threads.iter().map(of).collect(),
        }
    };
    let access = |point: &u32| {
        let target = info.points[*point as usize].target as usize;
        info.targets.get(target).map(|target| target.access)
    };
    let mut line = CacheLine {
        address,
        bytes: line_bytes(info),
        pid,
        verdict: SharingVerdict::NotEnough,
        is_estimate: !is_always(info, &points),
        writes_only: points.iter().all(|point| access(point) == Some(Access::Write)),
        words: points.iter().map(word).collect(),
        threads,
        hits,
        foreign_share: 0.0,
        records: 0,
        handovers: 0,
        other_processes: 0,
    };
    let all: f64 = line.words.iter().map(Word::all).sum();
    let foreign: f64 = line.words.iter().map(|word| word.all() - word.largest()).sum();
    line.foreign_share = if all > 0.0 { foreign / all } else { 0.0 };
    line
}

impl Word {
    fn all(&self) -> f64 {
        self.hits.iter().map(|hits| hits.1).sum()
    }

    fn largest(&self) -> f64 {
        self.hits.iter().map(|hits| hits.1).fold(0.0, f64::max)
    }

    /// The thread that has most of its hits.
    fn owner(&self) -> Option<usize> {
        let largest = self.largest();
        self.hits.iter().position(|hits| hits.1 == largest).filter(|_| largest > 0.0)
    }
}

fn judge(line: &CacheLine) -> SharingVerdict {
    if line.hits < LEAST {
        return SharingVerdict::NotEnough;
    }
    let all: f64 = line.words.iter().map(Word::all).sum();
    let counts = |thread: usize| {
        line.words.iter().map(|word| word.hits[thread].1).sum::<f64>() >= SLIGHT * all
    };
    let threads: Vec<usize> = (0..line.threads.len()).filter(|&thread| counts(thread)).collect();
    if threads.len() < 2 {
        return SharingVerdict::OneThread;
    }
    // Each gave way to the next for good. Of words that were armed in turns this is not to be seen.
    if !line.is_estimate && line.records >= LEAST && line.handovers < 2 * line.threads.len() as u64
    {
        return SharingVerdict::InTurn;
    }
    let words = line.words.iter().filter(|word| word.all() >= SLIGHT * all);
    let (shared, own): (Vec<&Word>, Vec<&Word>) =
        words.partition(|word| word.all() - word.largest() >= FOREIGN * word.all());
    let mut owners: Vec<usize> = own.iter().filter_map(|word| word.owner()).collect();
    owners.sort_unstable();
    owners.dedup();
    // A word of one thread beside a word of several moves with it, too.
    match (shared.is_empty(), owners.len()) {
        (true, 0 | 1) => SharingVerdict::OneThread,
        (true, _) => SharingVerdict::FalseSharing,
        (false, 0) => SharingVerdict::TrueSharing,
        (false, _) => SharingVerdict::Both,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::watch::{ArmedBlock, WatchPoint, WatchTarget};

    fn info(words: u32) -> WatchInfo {
        let point = |at: u32| WatchPoint {
            event: at,
            target: 0,
            address: 0x1040 + 8 * u64::from(at),
            bytes: 8,
        };
        WatchInfo {
            targets: vec![WatchTarget { bytes: 64, ..WatchTarget::default() }],
            points: (0..words).map(point).collect(),
            ..WatchInfo::default()
        }
    }

    /// Point, thread, hits, all of process 1; records alternate unless `blocks` of one thread.
    fn judged(info: &WatchInfo, hits: &[(u32, u32, u64)], alternate: bool) -> CacheLine {
        let by_thread: ByThread =
            hits.iter().map(|&(point, tid, hits)| ((point, 1, tid), hits)).collect();
        let mut handovers = Handovers::default();
        let mut records: Vec<(u64, u32)> = Vec::new();
        for &(_, tid, hits) in hits {
            records.extend((0..hits).map(|at| (at, tid)));
        }
        if alternate {
            records.sort_unstable();
        }
        records.iter().for_each(|&(_, tid)| handovers.add(0x1040, Some(1), tid));
        let lines = lines(info, &by_thread, &handovers);
        assert_eq!(lines.len(), 1);
        lines.into_iter().next().unwrap()
    }

    #[test]
    fn verdicts_follow_who_hit_what() {
        let info = info(8);
        let verdict = |hits: &[(u32, u32, u64)]| judged(&info, hits, true).verdict;
        assert_eq!(verdict(&[]), SharingVerdict::NotEnough);
        assert_eq!(verdict(&[(0, 1, 10), (1, 2, 10)]), SharingVerdict::NotEnough);
        assert_eq!(verdict(&[(0, 1, 100), (1, 1, 100)]), SharingVerdict::OneThread);
        // Another one set it up.
        assert_eq!(
            verdict(&[(0, 1, 1000), (1, 1, 1000), (0, 2, 1), (1, 2, 1)]),
            SharingVerdict::OneThread
        );
        assert_eq!(verdict(&[(0, 1, 100), (1, 2, 100), (2, 3, 50)]), SharingVerdict::FalseSharing);
        assert_eq!(verdict(&[(0, 1, 500), (1, 2, 500), (0, 3, 2)]), SharingVerdict::FalseSharing);
        assert_eq!(verdict(&[(0, 1, 100), (0, 2, 90)]), SharingVerdict::TrueSharing);
        assert_eq!(verdict(&[(0, 1, 100), (0, 2, 90), (3, 2, 90)]), SharingVerdict::Both);
    }

    #[test]
    fn threads_that_follow_each_other_share_nothing() {
        let info = info(2);
        let hits = [(0, 1, 500), (1, 2, 500)];
        assert_eq!(judged(&info, &hits, false).verdict, SharingVerdict::InTurn);
        let line = judged(&info, &hits, true);
        assert_eq!(
            (line.verdict, line.records, line.handovers),
            (SharingVerdict::FalseSharing, 1000, 999)
        );
        assert_eq!((line.foreign_share, line.writes_only, line.is_estimate), (0.0, true, false));
        assert_eq!(line.words[1].hits, [(0, 0.0), (500, 500.0)]);
    }

    #[test]
    fn words_that_took_turns_are_estimated() {
        let mut info = info(2);
        info.blocks = (0..20)
            .map(|at| ArmedBlock {
                from_ns: at * 10,
                until_ns: at * 10 + 10,
                armed_ns: 10,
                hits: if at % 2 == 0 { vec![20, 0] } else { vec![0, 20] },
                points: vec![at as u32 % 2],
                ..ArmedBlock::default()
            })
            .collect();
        // In turns, a thread's records stand together.
        let line = judged(&info, &[(0, 1, 200), (1, 2, 200)], false);
        assert_eq!((line.verdict, line.is_estimate), (SharingVerdict::FalseSharing, true));
        assert_eq!(line.words[0].hits, [(200, 400.0), (0, 0.0)]);
    }

    #[test]
    fn a_line_of_two_processes_is_judged_for_each() {
        let info = info(2);
        let by_thread: ByThread =
            [((0, 1, 1), 100), ((1, 1, 2), 100), ((1, 7, 7), 300)].into_iter().collect();
        let lines = lines(&info, &by_thread, &Handovers::default());
        let told: Vec<_> =
            lines.iter().map(|line| (line.pid, line.verdict, line.other_processes)).collect();
        let expected =
            [(Some(7), SharingVerdict::OneThread, 1), (Some(1), SharingVerdict::FalseSharing, 1)];
        assert_eq!(told, expected);
    }
}
