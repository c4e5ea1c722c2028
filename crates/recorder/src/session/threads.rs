//! Opens events for all threads of processes that go on starting threads.
//!
//! ```text
//!  list of threads ──── open events for each ──── list again
//!                  │                          │
//!      a thread born here has those events    a thread born here has its parent's events, and its
//!      that its parent had: none, or some     birth stands in a ring (FORK)
//! ```
//!
//! A thread in the second list that is not in the first is followed only if a ring tells its descent
//! from one that is. Otherwise it may be without events, and so may be all that come from it: then
//! everything is opened anew.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pmuscope_abi::record::{Records, kind};
use pmuscope_counters::{Ring, SamplingSet};
use pmuscope_machine::Machine;

use crate::error::RecorderError;

/// Processes that start threads faster than we can follow are tried for so long …
const LONGEST: Duration = Duration::from_secs(2);
/// … or so often.
const TRIES: u32 = 100;

/// Where threads may be missing after all tries.
pub(super) const MISSED_THREADS: &str = "the observed processes started threads faster than events \
    could be opened for them: threads created meanwhile, and their children, may be missing. Try: \
    pmuscope record -- COMMAND, or -a";

/// Calls `open` until no thread of `pids` can have been missed; false if that could not be reached.
pub(super) fn open_without_a_gap(
    machine: &Machine,
    pids: &[u32],
    mut open: impl FnMut(&[u32]) -> Result<SamplingSet, RecorderError>,
) -> Result<(SamplingSet, bool), RecorderError> {
    let end = Instant::now() + LONGEST;
    let mut tries = 0;
    loop {
        let before = machine.threads_of(pids)?;
        let set = open(&before)?;
        let whole = all_threads(machine, pids)
            .is_some_and(|after| missed(&before, &after, set.rings()).is_empty());
        tries += 1;
        if whole || tries == TRIES || Instant::now() > end {
            return Ok((set, whole));
        }
    }
}

/// All threads of the processes, if none can be missing in the list: reading it ends early where the thread that was read
/// last is gone.
pub(super) fn all_threads(machine: &Machine, pids: &[u32]) -> Option<Vec<u32>> {
    let mut tids = Vec::new();
    for &pid in pids {
        // A process that is gone by now has no new threads.
        let Ok(before) = machine.thread_count(pid) else { continue };
        let Ok(listed) = machine.threads(pid) else { continue };
        let Ok(after) = machine.thread_count(pid) else { continue };
        if [before, after] != [listed.len(); 2] {
            return None;
        }
        tids.extend(listed);
    }
    Some(tids)
}

/// Threads that may be without events.
fn missed(before: &[u32], after: &[u32], rings: &[Ring]) -> Vec<u32> {
    not_followed(before, after, || births_in(rings))
}

/// What rings tell of births.
pub(super) fn births_in(rings: &[Ring]) -> Vec<Birth> {
    let pieces = rings.iter().map(Ring::pending).flat_map(|p| [p.first, p.second]);
    births(&pieces.collect::<Vec<_>>().concat())
}

/// Those of `after` that neither are in `before` nor descend from it by what `births` tells.
fn not_followed(before: &[u32], after: &[u32], births: impl FnOnce() -> Vec<Birth>) -> Vec<u32> {
    let mut followed: BTreeSet<u32> = before.iter().copied().collect();
    if after.iter().any(|tid| !followed.contains(tid)) {
        let births = births();
        // Rings are not in the order of time among each other.
        loop {
            let known = followed.len();
            let of_followed = births.iter().filter(|birth| followed.contains(&birth.parent));
            let children: Vec<u32> = of_followed.map(|birth| birth.tid).collect();
            followed.extend(children);
            if followed.len() == known {
                break;
            }
        }
    }
    after.iter().copied().filter(|tid| !followed.contains(tid)).collect()
}

/// A thread and the one that started it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Birth {
    pub(super) tid: u32,
    pub(super) parent: u32,
    /// On the clock of the recording, nanoseconds.
    pub(super) time: u64,
}

/// FORK: header, process, parent process, thread, parent thread, time.
fn births(records: &[u8]) -> Vec<Birth> {
    let word = |record: &[u8], at: usize| {
        Some(u32::from_ne_bytes(*record.get(8 + 4 * at..)?.first_chunk()?))
    };
    Records::new(records)
        .filter(|(header, _)| header.kind == kind::FORK)
        .filter_map(|(_, record)| {
            let time = u64::from_ne_bytes(*record.get(24..)?.first_chunk()?);
            Some(Birth { tid: word(record, 2)?, parent: word(record, 3)?, time })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;

    #[test]
    fn births_are_found_between_other_records() {
        let mut records = Vec::new();
        RecordBuilder::new(&mut records, kind::COMM, 0).u64(1).finish();
        RecordBuilder::new(&mut records, kind::FORK, 0)
            .u32(1)
            .u32(1)
            .u32(12)
            .u32(10)
            .u64(7)
            .finish();
        RecordBuilder::new(&mut records, kind::EXIT, 0).u32(1).u32(1).u32(13).u32(10).finish();
        assert_eq!(births(&records), [Birth { tid: 12, parent: 10, time: 7 }]);
    }

    #[test]
    fn only_who_descends_from_the_first_list_is_followed() {
        let births = || {
            [(5, 4), (4, 1), (7, 6)]
                .map(|(tid, parent)| Birth { tid, parent, time: 0 })
                .into_iter()
                .collect()
        };
        let missed = |after: &[u32]| not_followed(&[1, 2], after, births);
        assert_eq!(missed(&[1, 2]), [0; 0]);
        assert_eq!(missed(&[2, 4, 5]), [0; 0]);
        assert_eq!(missed(&[1, 3]), [3], "born in no ring");
        assert_eq!(missed(&[1, 7]), [7], "of a parent that may have had only some of the events");
    }
}
