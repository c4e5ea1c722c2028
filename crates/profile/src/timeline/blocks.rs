//! Blocks of equal time, whose number is bounded whether the length of the recording is known or not.
//!
//! A block is 2^shift ns. When time runs past the last block, blocks double and neighbors merge:
//! in the end a recording has between half of [`MOST`] and [`MOST`] of them, or as many milliseconds
//! as it lasted. Where the length is known from the start the blocks are the same, and never merge.

/// Most blocks at any moment. Half as many still make good intervals: resampling fewer, longer blocks
/// of shares that change slowly makes intervals too narrow.
pub(crate) const MOST: u64 = 256;
/// The shortest block: 2^20 ns, about a millisecond.
const FIRST_SHIFT: u32 = 20;
/// The shortest block of windows: 2^10 ns, about a microsecond.
const FINE_SHIFT: u32 = 10;

/// Time to block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clock {
    origin: Option<u64>,
    shift: u32,
    /// Latest time seen.
    last: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { origin: None, shift: FIRST_SHIFT, last: 0 }
    }
}

impl Clock {
    /// Blocks of a recording whose first and last time stamp, nanoseconds, are known.
    pub(crate) fn of(times: Option<(u64, u64)>) -> Self {
        Self::default().over(times)
    }

    /// The same with blocks down to a microsecond: windows back to back are many in a millisecond.
    pub(crate) fn fine(times: Option<(u64, u64)>) -> Self {
        Self { shift: FINE_SHIFT, ..Self::default() }.over(times)
    }

    fn over(mut self, times: Option<(u64, u64)>) -> Self {
        if let Some((first, last)) = times {
            self.block(first);
            self.block(last);
        }
        self
    }

    /// Blocks are of 2^shift ns.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// The first time stamp, nanoseconds.
    pub(crate) fn origin(&self) -> Option<u64> {
        self.origin
    }

    /// The block of a time stamp in nanoseconds, and how many doublings of the blocks it took; block
    /// numbers given before are to be halved that often.
    #[inline]
    pub(crate) fn block(&mut self, time: u64) -> (u32, u32) {
        let origin = *self.origin.get_or_insert(time);
        self.last = self.last.max(time);
        // What came too late to be put in order belongs to the first block as well as to any.
        let since = time.saturating_sub(origin);
        let before = self.shift;
        while since >> self.shift >= MOST {
            self.shift += 1;
        }
        ((since >> self.shift) as u32, self.shift - before)
    }

    /// The block that is nearest to a time, in blocks as they are now; `None` before the first.
    pub(crate) fn block_of(&self, time: u64) -> Option<u32> {
        let origin = self.origin?;
        Some(
            (time.clamp(origin, self.last.max(origin)).saturating_sub(origin) >> self.shift) as u32,
        )
    }

    /// Nanoseconds from the first to the last time stamp.
    pub(crate) fn span(&self) -> Option<u64> {
        self.origin.map(|origin| self.last.saturating_sub(origin))
    }

    /// Number of blocks so far.
    pub(crate) fn len(&self) -> usize {
        self.span().map_or(0, |span| (span >> self.shift) as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_second_has_many_blocks_and_a_day_no_more() {
        for end in [1_000_000_000_u64, 86_400_000_000_000] {
            let mut clock = Clock::default();
            clock.block(77);
            clock.block(77 + end);
            assert!((MOST as usize / 2..=MOST as usize).contains(&clock.len()), "{}", clock.len());
        }
    }

    proptest! {
        /// Halving as told gives the number that the final length of blocks gives.
        #[test]
        fn halved_numbers_are_those_of_the_final_blocks(
            times in proptest::collection::vec(
                prop_oneof![9 => 0_u64..1 << 45, 1 => any::<u64>()], 1..100),
        ) {
            let mut clock = Clock::default();
            let mut blocks: Vec<u32> = Vec::new();
            for time in &times {
                let (block, halvings) = clock.block(*time);
                blocks.iter_mut().for_each(|block| *block = block.checked_shr(halvings).unwrap_or(0));
                blocks.push(block);
            }
            for (time, block) in times.iter().zip(blocks) {
                let since = time.saturating_sub(times[0]);
                prop_assert_eq!(u64::from(block), since >> clock.shift);
                prop_assert!((block as usize) < clock.len());
            }
        }
    }
}
