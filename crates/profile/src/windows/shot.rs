//! Samples as far as windows need them, and the stream of those of one group on one CPU or thread.
//!
//! What a window is follows from a sample and the two before it in its stream. Threads take stretches
//! of the file in any order, so the first two samples of a stream in a stretch wait until all is read,
//! and are then judged with the last two of the stretch before:
//!
//! ```text
//!  stretch     │ a b c d … y z │ a b c … │
//!  at once          └c, d, …┘      └c …┘
//!  at the end    a b             a b        with y z of the stretch before
//! ```

use pmuscope_perfdata::reader::scan::SampleFields;
use rustc_hash::FxHashMap;

/// Counts of a group that are looked at.
pub(crate) const MOST: usize = pmuscope_perfdata::strobe::MOST_MEMBERS;
/// No CPU.
pub(crate) const NO_CPU: u32 = u32::MAX;

/// A sample with the counts of its group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shot {
    pub(crate) time: u64,
    pub(crate) event: u32,
    pub(crate) cpu: u32,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    /// Number of the place.
    pub(crate) place: u32,
    /// Whether the filter lets a window end here.
    pub(crate) passes: bool,
    /// Counts that were read.
    number: u8,
    pub(crate) values: [u64; MOST],
}

impl Shot {
    const EMPTY: Self = Self {
        time: 0,
        event: 0,
        cpu: NO_CPU,
        pid: -1,
        tid: -1,
        place: 0,
        passes: false,
        number: 0,
        values: [0; MOST],
    };

    /// Becomes this sample, which has counts.
    #[inline]
    pub(crate) fn set(&mut self, hit: &SampleFields<'_>, place: u32, passes: bool) {
        let (pid, tid) = hit.task.unwrap_or((-1, -1));
        self.time = hit.time;
        self.event = hit.event as u32;
        self.cpu = hit.cpu.unwrap_or(NO_CPU);
        self.pid = pid;
        self.tid = tid;
        self.place = place;
        self.passes = passes;
        let copied = hit.read.map_or(0, |read| read.copy_to(&mut self.values));
        // What was there before may have had more.
        let before = usize::from(self.number);
        if copied < before {
            self.values[copied..before].fill(0);
        }
        self.number = copied as u8;
    }
}

/// What separates the streams of a recording; `None` for samples without counts.
#[inline]
pub(crate) fn stream(hit: &SampleFields<'_>) -> Option<u64> {
    hit.read?.stream(hit.cpu, hit.task)
}

/// The events that were counted, by the ids of their descriptors, else by their order from the one that
/// sampled on.
pub(crate) fn events(hit: &SampleFields<'_>, of_id: &FxHashMap<u64, u32>) -> Vec<u32> {
    let Some(read) = hit.read else { return Vec::new() };
    let event = |(at, id): (usize, Option<u64>)| match id {
        Some(id) => of_id.get(&id).copied().unwrap_or(u32::MAX),
        None => (hit.event + at) as u32,
    };
    read.iter().take(MOST).map(|one| one.id).enumerate().map(event).collect()
}

/// The samples of one stream in a stretch that others need. They stay where they were put: a sample is
/// large, and most are needed for two more only.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) key: u64,
    /// Number of its group.
    pub(crate) group: u32,
    /// Samples so far, up to 2.
    number: u8,
    /// Where the latest one is.
    latest: u8,
    first: [Shot; 2],
    last: [Shot; 3],
}

impl Stream {
    pub(crate) fn new(key: u64, group: u32) -> Self {
        Self { key, group, number: 0, latest: 2, first: [Shot::EMPTY; 2], last: [Shot::EMPTY; 3] }
    }

    /// Takes the next sample, which `set` puts down; it and the two before it, the latest one last,
    /// where all three belong to this stretch.
    #[inline]
    pub(crate) fn push(&mut self, set: impl FnOnce(&mut Shot)) -> Option<[&Shot; 3]> {
        let latest = usize::from(self.latest);
        let next = if latest == 2 { 0 } else { latest + 1 };
        self.latest = next as u8;
        set(&mut self.last[next]);
        if self.number < 2 {
            self.first[usize::from(self.number)] = self.last[next];
            self.number += 1;
            return None;
        }
        let before = if next == 2 { 0 } else { next + 1 };
        Some([&self.last[before], &self.last[latest], &self.last[next]])
    }

    /// Its first samples, which are not judged yet.
    pub(crate) fn first(&self) -> &[Shot] {
        &self.first[..usize::from(self.number)]
    }

    /// Its last two samples, the latest one last; `None` where it has only one.
    pub(crate) fn last(&self) -> Option<[&Shot; 2]> {
        let latest = usize::from(self.latest);
        (self.number == 2).then(|| [&self.last[(latest + 2) % 3], &self.last[latest]])
    }
}

/// The last two samples of a stream; the latest one last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    pub(crate) before: Option<Shot>,
    pub(crate) latest: Option<Shot>,
}

impl Tail {
    pub(crate) fn push(&mut self, shot: Shot) {
        self.before = self.latest.replace(shot);
    }
}
