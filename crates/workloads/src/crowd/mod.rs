//! Threads that are created one after another, wait in the kernel, are let go all at once and end: what a
//! thread costs that does nothing, as the C library makes it and nothing around it.

mod sys;

use crate::error::WorkloadError;

/// Threads that wait.
#[derive(Debug)]
pub struct Crowd(sys::Threads);

impl Crowd {
    /// Creates so many threads, which wait until the crowd is dismissed or dropped. They inherit from the
    /// calling thread what threads inherit.
    ///
    /// # Errors
    /// [`WorkloadError::System`] if the kernel allows no more threads or memory; those that were created have
    /// ended then.
    pub fn create(threads: usize) -> Result<Self, WorkloadError> {
        let system = |source| WorkloadError::system(format!("start {threads} threads"), source);
        sys::Threads::create(threads).map(Self).map_err(system)
    }

    /// Lets all go at once and waits until the last has ended.
    pub fn dismiss(self) {
        drop(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_machine::Machine;
    use std::collections::BTreeSet;

    fn threads() -> BTreeSet<u32> {
        Machine::host().threads(std::process::id()).unwrap().into_iter().collect()
    }

    #[test]
    fn threads_are_there_until_they_are_dismissed() {
        let before = threads();
        let crowd = Crowd::create(20).unwrap();
        let during = threads();
        // Other tests have threads of their own, which come and go.
        let ours: BTreeSet<u32> = during.difference(&before).copied().collect();
        assert!(ours.len() >= 20, "{before:?} {during:?}");
        crowd.dismiss();
        let after = threads();
        assert!(ours.intersection(&after).count() + 20 <= ours.len(), "{ours:?} {after:?}");
    }
}
