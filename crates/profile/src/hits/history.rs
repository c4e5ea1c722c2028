//! Hits one by one: from what to what, the first and the last of them and a sample of those between.
//!
//! Where the trap comes after the access (x86), a hit has found the new value, and the one before told
//! the old one. Where it comes before (arm64), a hit has found the old value, and what the next one finds
//! is what this one wrote: if none was left out between the two. The last one's new value is not known.
//! Either way another thread may have written in between.
//!
//! ```text
//!                write 5      write 7      write 7
//!  after          2 → 5        5 → 7        7 → 7
//!  before         2 ┐          5 ┐          7 ┐
//!                   └─→ 5        └─→ 7        └─→ ?
//! ```

use std::collections::BTreeMap;

use pmuscope_perfdata::watch::{Access, Hit, HitFlags};
use rustc_hash::FxHashMap;

use super::bottom_k::BottomKSample;

/// A hit that was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitRecord {
    /// Its number among those of its target, from 0, in the order of time.
    pub number: u64,
    /// On the clock of the time stamps, nanoseconds.
    pub time_ns: u64,
    /// Position among the points.
    pub point: u32,
    /// Process.
    pub pid: i32,
    /// CPU.
    pub cpu: Option<u32>,
    /// Position in [`Hits::threads`](super::Hits::threads).
    pub thread: u32,
    /// Position in [`Hits::sites`](super::Hits::sites).
    pub site: u32,
    /// The value before, as far as it is known.
    pub old: Option<u64>,
    /// The value after, as far as it is known.
    pub new: Option<u64>,
    /// Number among all hits of its point in its process, from 1; 0 where that is not known.
    pub sequence: u64,
    /// Hits it stands for.
    pub stands_for: u64,
}

/// Hits in the order of time, as far as they are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The first ones.
    pub first: Vec<HitRecord>,
    /// Of those between, any as likely as any other.
    pub between: Vec<HitRecord>,
    /// The last ones.
    pub last: Vec<HitRecord>,
    /// How many are not here.
    pub left_out: u64,
}

impl History {
    /// All that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &HitRecord> {
        self.first.iter().chain(&self.between).chain(&self.last)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut HitRecord> {
        self.first.iter_mut().chain(&mut self.between).chain(&mut self.last)
    }
}

/// Processes of points whose last hit waits for the next one; with more, all are let go.
const MOST_WAITING: usize = 1 << 16;

/// Tells from what to what a hit went.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// The last hit of each point in each process.
    waiting: FxHashMap<(u32, i32), HitRecord>,
}

impl Pairs {
    /// Takes a hit, `written` all but its values; gives to `done` those of which all is known that ever
    /// will be.
    pub(super) fn take(
        &mut self,
        hit: Option<Hit>,
        access: Access,
        mut written: HitRecord,
        mut done: impl FnMut(HitRecord),
    ) {
        let Some(hit) = hit else { return done(written) };
        let value = hit.flags.contains(HitFlags::VALUE).then_some(hit.value);
        let before = hit.flags.contains(HitFlags::OLD).then_some(hit.old);
        written.sequence = hit.sequence;
        // To read changes nothing: what was found was there before and is there after.
        if hit.flags.contains(HitFlags::AFTER) || access == Access::Read {
            (written.old, written.new) = (before, value);
            return done(written);
        }
        written.old = value;
        if self.waiting.len() >= MOST_WAITING {
            self.finish(&mut done);
        }
        let last = self.waiting.insert((written.point, written.pid), written);
        if let Some(mut last) = last {
            let is_next = last.sequence > 0 && written.sequence == last.sequence + 1;
            last.new = value.filter(|_| is_next);
            done(last);
        }
    }

    /// Lets those go that have no next one, in the order of time.
    pub(super) fn finish(&mut self, done: impl FnMut(HitRecord)) {
        let mut waiting: Vec<HitRecord> =
            self.waiting.drain().map(|(_, written)| written).collect();
        waiting.sort_unstable_by_key(|written| (written.time_ns, written.number));
        waiting.into_iter().for_each(done);
    }
}

/// Keeps hits, which may come a little out of order.
#[derive(Debug)]
pub(super) struct Keeper {
    ends: usize,
    first: BTreeMap<u64, HitRecord>,
    last: BTreeMap<u64, HitRecord>,
    between: BottomKSample<HitRecord>,
}

impl Keeper {
    /// `ends` at the beginning and at the end each, `between` of the others.
    pub(super) fn new(ends: usize, between: usize) -> Self {
        Self {
            ends,
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            between: BottomKSample::new(between),
        }
    }

    pub(super) fn take(&mut self, written: HitRecord) {
        if written.number < self.ends as u64 {
            self.first.insert(written.number, written);
            return;
        }
        self.last.insert(written.number, written);
        if self.last.len() > self.ends
            && let Some((number, written)) = self.last.pop_first()
        {
            self.between.add(number, written);
        }
    }

    pub(super) fn finish(self) -> History {
        let between = self.between.seen();
        let sample = self.between.finish();
        History {
            first: self.first.into_values().collect(),
            left_out: between - sample.len() as u64,
            between: sample,
            last: self.last.into_values().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(number: u64, pid: i32) -> HitRecord {
        HitRecord {
            number,
            time_ns: number * 10,
            point: 0,
            pid,
            cpu: None,
            thread: 0,
            site: 0,
            old: None,
            new: None,
            sequence: 0,
            stands_for: 1,
        }
    }

    /// Writes of processes to their own copies, some of which are not written down.
    fn writes() -> impl Strategy<Value = Vec<(i32, u64, bool)>> {
        proptest::collection::vec((1_i32..4, 0_u64..5, any::<bool>()), 0..60)
    }

    proptest! {
        /// What is told of a write is what it was: all of it after the access, before it where the
        /// next one is there.
        #[test]
        fn pairs_are_what_was_written(writes in writes(), after in any::<bool>()) {
            let mut pairs = Pairs::default();
            let mut memory = BTreeMap::<i32, (u64, u64)>::new();
            let (mut found, mut truth, mut next_is_there) = (Vec::new(), Vec::new(), Vec::new());
            for (number, &(pid, value, is_kept)) in writes.iter().enumerate() {
                let (old, sequence) = memory.get(&pid).copied().unwrap_or((99, 0));
                memory.insert(pid, (value, sequence + 1));
                truth.push((old, value));
                let next = writes[number + 1..].iter().find(|other| other.0 == pid);
                next_is_there.push(next.is_some_and(|next| next.2));
                if !is_kept {
                    continue;
                }
                let mut flags = HitFlags::VALUE;
                flags.set(HitFlags::AFTER, after);
                // After: the first write has no hit before it.
                flags.set(HitFlags::OLD, after && sequence > 0);
                let at_hit = if after { value } else { old };
                let hit = Hit { flags, value: at_hit, old, sequence: sequence + 1 };
                let number = number as u64;
                pairs.take(Some(hit), Access::Write, written(number, pid), |one| found.push(one));
            }
            pairs.finish(|one| found.push(one));
            found.sort_by_key(|one| one.number);
            prop_assert_eq!(found.len(), writes.iter().filter(|write| write.2).count());
            for one in found {
                let (old, new) = truth[one.number as usize];
                if after {
                    prop_assert_eq!((one.old, one.new), ((one.sequence > 1).then_some(old), Some(new)));
                } else {
                    let new = next_is_there[one.number as usize].then_some(new);
                    prop_assert_eq!((one.old, one.new), (Some(old), new));
                }
            }
        }

        #[test]
        fn ends_are_kept_whatever_comes_late(
            total in 0_u64..200, ends in 0_usize..30, between in 0_usize..30, late in 0_u64..4,
        ) {
            let mut keeper = Keeper::new(ends, between);
            // Each is up to `late` too late.
            let mut order: Vec<u64> = (0..total).collect();
            order.sort_by_key(|number| number + (number * 7) % (late + 1));
            order.into_iter().for_each(|number| keeper.take(written(number, 1)));
            let history = keeper.finish();
            let numbers = |list: &[HitRecord]| list.iter().map(|one| one.number).collect::<Vec<_>>();
            let ends = ends as u64;
            prop_assert_eq!(numbers(&history.first), (0..total.min(ends)).collect::<Vec<_>>());
            let all: Vec<u64> = history.iter().map(|one| one.number).collect();
            prop_assert!(all.iter().collect::<std::collections::BTreeSet<_>>().len() == all.len());
            prop_assert_eq!(all.len() as u64 + history.left_out, total);
            if late <= ends {
                let from = total.saturating_sub(ends).max(total.min(ends));
                prop_assert_eq!(numbers(&history.last), (from..total).collect::<Vec<_>>());
            }
        }
    }
}
