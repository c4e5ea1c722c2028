//! Addresses in memory, each of which holds the next: one way through all of them, in random order.

/// Bytes from one to the next: a cache line, on CPUs with the longest ones.
const LINE: usize = 128;
/// Words of a line.
const WORDS: usize = LINE / size_of::<usize>();

/// Lines that point at each other in a circle.
#[derive(Debug)]
pub(super) struct Chain {
    words: Vec<usize>,
}

impl Chain {
    /// A circle through so many bytes, at least through one line.
    pub(super) fn new(bytes: usize, rng: &mut fastrand::Rng) -> Self {
        let lines = (bytes / LINE).max(1);
        let mut order: Vec<u32> = (0..lines as u32).collect();
        rng.shuffle(&mut order);
        let mut chain = Self { words: vec![0; lines * WORDS] };
        for (at, next) in order.iter().zip(order.iter().cycle().skip(1)) {
            chain.words[*at as usize * WORDS] = chain.address(*next as usize * WORDS);
        }
        chain
    }

    /// The address of a word.
    pub(super) fn address(&self, at: usize) -> usize {
        (&raw const self.words[at]).expose_provenance()
    }

    /// The word at an address that the chain holds.
    pub(super) fn index(&self, address: usize) -> usize {
        (address - self.address(0)) / size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_goes_through_all() {
        let chain = Chain::new(1000 * LINE, &mut fastrand::Rng::with_seed(1));
        let mut seen = std::collections::BTreeSet::new();
        let mut at = 0;
        while seen.insert(at) {
            at = chain.index(chain.words[at]);
        }
        assert_eq!((at, seen.len()), (0, 1000));
        assert_eq!(Chain::new(0, &mut fastrand::Rng::with_seed(1)).words.len(), WORDS);
    }
}
