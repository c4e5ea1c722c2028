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

use pmuscope_perfdata::reader::scan::Hit;
use rustc_hash::FxHashMap;

/// Counts of a group that are looked at.
pub(crate) const MOST: usize = 16;
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
    pub(crate) values: [u64; MOST],
}

/// Counts as they were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) values: [u64; MOST],
    /// Id of the descriptor that leads the group, where counts have ids.
    leader: Option<u64>,
}

/// The counts of a sample; `None` if it has none.
#[inline]
pub(crate) fn counts(hit: &Hit<'_>) -> Option<Counts> {
    let mut each = hit.read?.iter();
    let first = each.next()?;
    let mut counts = Counts { values: [0; MOST], leader: first.id };
    counts.values[0] = first.value;
    for (to, one) in counts.values[1..].iter_mut().zip(each) {
        *to = one.value;
    }
    Some(counts)
}

/// Id of the descriptor that leads the group of a sample, where counts have ids.
#[inline]
pub(crate) fn leader(hit: &Hit<'_>) -> Option<u64> {
    hit.read?.iter().next()?.id
}

impl Counts {
    /// What tells the streams of a recording apart: the descriptor that leads the group, else the CPU
    /// or thread.
    #[inline]
    pub(crate) fn stream(&self, hit: &Hit<'_>) -> u64 {
        const BY_CPU: u64 = 1 << 62;
        const BY_THREAD: u64 = 1 << 63;
        match (self.leader, hit.cpu, hit.task) {
            (Some(id), _, _) => id,
            (None, Some(cpu), _) => BY_CPU | u64::from(cpu),
            (None, None, Some((_, tid))) => BY_THREAD | u64::from(tid as u32),
            (None, None, None) => BY_THREAD,
        }
    }
}

/// The events that were counted, by the ids of their descriptors, else by their order from the one that
/// sampled on.
pub(crate) fn events(hit: &Hit<'_>, of_id: &FxHashMap<u64, u32>) -> Vec<u32> {
    let Some(read) = hit.read else { return Vec::new() };
    let event = |(at, id): (usize, Option<u64>)| match id {
        Some(id) => of_id.get(&id).copied().unwrap_or(u32::MAX),
        None => (hit.event + at) as u32,
    };
    read.iter().take(MOST).map(|one| one.id).enumerate().map(event).collect()
}

/// The samples of one stream in a stretch that others need.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) key: u64,
    /// Number of its group.
    pub(crate) group: u32,
    /// Samples so far, up to 2.
    number: u8,
    first: [Shot; 2],
    last: [Shot; 2],
}

impl Stream {
    pub(crate) fn new(key: u64, group: u32, shot: Shot) -> Self {
        Self { key, group, number: 1, first: [shot; 2], last: [shot; 2] }
    }

    /// Takes the next sample; those before it, if both belong to this stretch.
    #[inline]
    pub(crate) fn push(&mut self, shot: Shot) -> Option<[Shot; 2]> {
        let [_, latest] = self.last;
        let before = (self.number == 2).then_some(self.last);
        if self.number == 1 {
            self.first[1] = shot;
            self.number = 2;
        }
        self.last = [latest, shot];
        before
    }

    /// Its first samples, which are not judged yet.
    pub(crate) fn first(&self) -> &[Shot] {
        &self.first[..usize::from(self.number)]
    }

    /// Its last samples, the latest one last.
    pub(crate) fn last(&self) -> &[Shot] {
        &self.last[2 - usize::from(self.number)..]
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
