//! What is drawn next: the heaviest of what was found. A branch weighs no more than the one it was found in, so all that is
//! drawn is found before what is not.

use std::cmp::{Ordering, Reverse};

/// An entry of a heap. The heaviest is the greatest; of equal ones the one that was found first, so that a picture does not
/// depend on chance.
#[derive(Debug)]
pub(super) struct Heaviest<T> {
    /// Its weight, in the unit of the picture.
    pub(super) weight: u64,
    /// Its number in the order of being found.
    pub(super) found: Reverse<usize>,
    /// What it is.
    pub(super) item: T,
}

impl<T> Heaviest<T> {
    pub(super) fn new(weight: u64, found: usize, item: T) -> Self {
        Self { weight, found: Reverse(found), item }
    }

    fn rank(&self) -> (u64, Reverse<usize>) {
        (self.weight, self.found)
    }
}

impl<T> Ord for Heaviest<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<T> PartialOrd for Heaviest<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Heaviest<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Heaviest<T> {}
