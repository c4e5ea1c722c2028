//! Every cache line once, in random order.

/// The numbers from 0 to `count` - 1, each exactly once, in an order that follows from a seed.
///
/// A linear congruential generator modulo a power of two goes through all numbers below it (Hull and
/// Dobell, 1962: odd increment, multiplier 1 modulo 4). Its low bits repeat soon, so numbers are mixed by
/// steps that can be undone each; those that are too large are left out. No memory, no number twice.
#[derive(Debug, Clone)]
pub(super) struct Shuffled {
    count: u64,
    mask: u64,
    shift: u32,
    state: u64,
    increment: u64,
    /// Steps of the generator until it is through.
    left: u64,
}

/// Knuth's, of MMIX; 1 modulo 4.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// 2^64 divided by the golden ratio, odd.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Shuffled {
    /// An order of `count` numbers, at least one.
    pub(super) fn new(count: u64, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let bits = (u64::BITS - (count - 1).leading_zeros()).max(2);
        let mask = u64::MAX >> (u64::BITS - bits);
        let (state, increment) = (rng.u64(..) & mask, rng.u64(..) | 1);
        // Saturates for counts that no memory has.
        let left = mask.saturating_add(1);
        Self { count, mask, shift: bits.div_ceil(2), state, increment, left }
    }

    /// Fills `lines` with the next numbers and tells how many there are; 0 when all have been. A call may find
    /// fewer than there is room for.
    pub(super) fn fill(&mut self, lines: &mut [u64]) -> usize {
        let mut found = 0;
        while found == 0 && self.left > 0 {
            let steps = self.left.min(lines.len() as u64);
            for _ in 0..steps {
                self.state =
                    self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment) & self.mask;
                let line = self.mixed();
                // Without a branch, which could not be foreseen: after one that is too large, the next goes to
                // the same place. There is room for all steps.
                lines[found] = line;
                found += usize::from(line < self.count);
            }
            self.left -= steps;
        }
        found
    }

    fn mixed(&self) -> u64 {
        let mut mixed = self.state ^ (self.state >> self.shift);
        mixed = mixed.wrapping_mul(MIX) & self.mask;
        mixed ^= mixed >> self.shift;
        mixed.wrapping_mul(MULTIPLIER) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(count: u64, seed: u64, room: usize) -> Vec<u64> {
        let mut shuffled = Shuffled::new(count, seed);
        let (mut all, mut lines) = (Vec::new(), vec![0; room]);
        loop {
            let found = shuffled.fill(&mut lines);
            if found == 0 {
                return all;
            }
            all.extend_from_slice(&lines[..found]);
        }
    }

    proptest! {
        #[test]
        fn each_number_is_there_exactly_once(count in 1..5000_u64, seed: u64, room in 1..600_usize) {
            let mut numbers = all(count, seed, room);
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    /// What hardware looks for in addresses: neighbors, and steps of equal length.
    #[test]
    fn steps_are_of_all_lengths() {
        for count in [1 << 12, (1 << 12) + 1, 5000] {
            let numbers = all(count, 3, 256);
            assert_ne!(numbers, all(count, 4, 256));
            let steps: Vec<u64> =
                numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
            let near = steps.iter().filter(|&&step| step.wrapping_add(2) <= 4).count();
            let same = steps.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert!(near < 40 && same < 20, "{count}: {near} near, {same} the same");
        }
    }
}
