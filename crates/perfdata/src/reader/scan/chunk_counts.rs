//! Counts in samples ([`SampledCounts`]) across the borders of chunks, which threads take in any order: what
//! each count was when it was read last before a chunk.
//!
//! ```text
//!  chunk            │ 0          │ 1          │ 2          │
//!  last of a count  │      1000  │            │       2900 │   found by the first pass
//!  before it        │ -          │            │ 1000       │   put together from those, chunk by chunk
//! ```

use std::collections::HashMap;
use std::mem;

use super::super::{CountKey, SampledCounts};
use super::SampleFields;

/// What the chunk at hand has for counts.
#[derive(Debug, Default)]
pub(super) struct ChunkCounting {
    last: HashMap<CountKey, u64>,
    /// Times of the first and the last sample of each stream, by its first count.
    times: HashMap<CountKey, (u64, u64)>,
    went_back: bool,
}

impl ChunkCounting {
    pub(super) fn take(&mut self, counts: &SampledCounts, hit: &SampleFields<'_>) {
        let Some(each) = counts.each(hit) else { return };
        for (at, (key, value)) in each.enumerate() {
            self.last.insert(key, value);
            if at == 0 {
                let (_, last) = self.times.entry(key).or_insert((hit.time, hit.time));
                self.went_back |= hit.time < *last;
                *last = hit.time;
            }
        }
    }

    pub(super) fn end_chunk(&mut self) -> ChunkCounts {
        ChunkCounts {
            last: self.last.drain().collect(),
            times: self.times.drain().map(|(key, (first, last))| (key, first, last)).collect(),
            went_back: mem::take(&mut self.went_back),
        }
    }
}

/// The counts of a chunk's samples, as its last samples have them.
#[derive(Debug, Default)]
pub(super) struct ChunkCounts {
    pub(super) last: Vec<(CountKey, u64)>,
    pub(super) times: Vec<(CountKey, u64, u64)>,
    went_back: bool,
}

/// Counts, chunk by chunk.
#[derive(Debug, Default)]
pub(super) struct JoinedCounts {
    last: HashMap<CountKey, u64>,
    times: HashMap<CountKey, u64>,
    /// Of each chunk: what its counts were before it.
    pub(super) before: Vec<Vec<(CountKey, u64)>>,
    /// Samples of a descriptor do not stand in the order of time: differences of their counts are found
    /// by reading in order only.
    pub(super) went_back: bool,
}

impl JoinedCounts {
    pub(super) fn add(&mut self, chunk: &ChunkCounts) {
        self.went_back |= chunk.went_back;
        for &(key, first, last) in &chunk.times {
            let before = self.times.insert(key, last);
            self.went_back |= before.is_some_and(|before| first < before);
        }
        let replace = |&(key, value): &(CountKey, u64)| Some((key, self.last.insert(key, value)?));
        self.before.push(chunk.last.iter().filter_map(replace).collect());
    }
}
