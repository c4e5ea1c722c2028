//! How much of the time points were armed, and how often they were hit in it, in blocks of time.
//!
//! Blocks are as short as their number allows: when there are too many, each two become one.

use pmuscope_perfdata::watch::ArmedBlock;

/// Blocks at most, unless there are more turns; at least half as many once there have been so many.
const MOST: usize = 512;
/// The same where turns are brief: such a turn ends after some hits, so a rate is the mean of its turns.
const MOST_BRIEF: usize = 2048;
/// Blocks of a turn at least.
const LEAST_OF_TURN: usize = 4;
/// A block at first, nanoseconds.
const SHORTEST: u64 = 10_000_000;

/// Blocks of one set of points, or of several that take turns.
#[derive(Debug)]
pub(super) struct Blocks {
    done: Vec<ArmedBlock>,
    /// Nanoseconds of a block.
    length: u64,
    /// Nanoseconds armed in all.
    armed: u64,
    most: usize,
}

impl Blocks {
    /// For so many sets of points that take turns.
    pub(super) fn new(turns: usize, has_brief: bool) -> Self {
        let most = if has_brief { MOST_BRIEF } else { MOST };
        let most = most.max(turns * LEAST_OF_TURN);
        Self { done: Vec::new(), length: SHORTEST, armed: 0, most }
    }

    /// Adds a stretch of time. `points` are those that had their turn, where not all fit.
    pub(super) fn add(&mut self, stretch: &ArmedBlock) {
        self.armed += stretch.armed_ns;
        match self.done.last_mut() {
            // A pause belongs to the slice before it, which tells what happened in both.
            Some(last)
                if last.points == stretch.points
                    && (stretch.armed_ns == 0
                        || stretch.until_ns - last.from_ns <= self.length) =>
            {
                join(last, stretch);
            }
            _ => self.done.push(stretch.clone()),
        }
        if self.done.len() >= self.most {
            self.halve();
        }
    }

    /// Joins neighbors of the same points. Where turns alternate there are none, so blocks of the same
    /// points that are two turns apart are joined: their times within stay right, their ends tell when.
    fn halve(&mut self) {
        self.length = self.length.saturating_mul(2);
        let mut halved: Vec<ArmedBlock> = Vec::with_capacity(self.done.len());
        for block in self.done.drain(..) {
            let same = halved.iter_mut().rev().find(|kept| {
                kept.points == block.points && block.until_ns - kept.from_ns <= self.length
            });
            match same {
                Some(kept) => join(kept, &block),
                None => halved.push(block),
            }
        }
        self.done = halved;
    }

    /// Nanoseconds armed in all.
    pub(super) fn armed(&self) -> u64 {
        self.armed
    }

    pub(super) fn all(&self) -> Vec<ArmedBlock> {
        self.done.clone()
    }
}

fn join(into: &mut ArmedBlock, block: &ArmedBlock) {
    into.until_ns = into.until_ns.max(block.until_ns);
    into.armed_ns += block.armed_ns;
    let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
    into.cpu_ns = sum(into.cpu_ns, block.cpu_ns);
    into.armed_cpu_ns = sum(into.armed_cpu_ns, block.armed_cpu_ns);
    into.hits.iter_mut().zip(&block.hits).for_each(|(into, more)| *into += more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stretch(from_ns: u64, until_ns: u64, armed_ns: u64, hits: u64) -> ArmedBlock {
        ArmedBlock { from_ns, until_ns, armed_ns, hits: vec![hits], ..ArmedBlock::default() }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_blocks_stay_few(
            lengths in proptest::collection::vec(1_000_u64..40_000_000, 1..5000),
        ) {
            let mut blocks = Blocks::new(1, false);
            let (mut now, mut armed, mut hits) = (0, 0, 0);
            for (number, length) in lengths.iter().enumerate() {
                let (on, hit) = (length / 3, number as u64 % 7);
                blocks.add(&stretch(now, now + length, on, hit));
                (now, armed, hits) = (now + length, armed + on, hits + hit);
            }
            let all = blocks.all();
            prop_assert!(all.len() <= MOST);
            prop_assert_eq!(all.iter().map(|block| block.armed_ns).sum::<u64>(), armed);
            prop_assert_eq!(all.iter().map(|block| block.hits[0]).sum::<u64>(), hits);
            prop_assert!(all.windows(2).all(|two| two[0].until_ns == two[1].from_ns));
        }
    }

    #[test]
    fn a_pause_belongs_to_the_slice_before_it() {
        let mut blocks = Blocks::new(1, false);
        blocks.add(&stretch(0, 10_000_000, 10_000_000, 4));
        blocks.add(&stretch(10_000_000, 110_000_000, 0, 0));
        blocks.add(&stretch(110_000_000, 120_000_000, 10_000_000, 5));
        let armed: Vec<_> = blocks.all().iter().map(|it| (it.until_ns, it.armed_ns)).collect();
        assert_eq!(armed, [(110_000_000, 10_000_000), (120_000_000, 10_000_000)]);
    }

    #[test]
    fn turns_stay_apart() {
        for turns in [2, 100, 1000] {
            let mut blocks = Blocks::new(turns, false);
            let times = 6_000 / turns as u64;
            for at in 0..times * turns as u64 {
                let mut block = stretch(at * 1_000_000, (at + 1) * 1_000_000, 900_000, 1);
                block.points = vec![at as u32 % turns as u32];
                blocks.add(&block);
            }
            let all = blocks.all();
            assert!(all.len() <= MOST.max(turns * LEAST_OF_TURN), "{}", all.len());
            for turn in 0..turns as u32 {
                let own = all.iter().filter(|block| block.points == [turn]);
                assert_eq!(own.map(|block| block.hits[0]).sum::<u64>(), times);
            }
        }
    }
}
