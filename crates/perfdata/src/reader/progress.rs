//! The progress of reading, for display meanwhile.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The stage that a reader is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Records in their order.
    Records,
    /// Headers of all records, the first pass.
    Headers,
    /// Samples, in each further one.
    Samples,
}

/// Bytes read, of the total. Each stage counts from 0.
#[derive(Debug, Default)]
pub struct Progress {
    stage: AtomicU8,
    /// 0 if unknown.
    all: AtomicU64,
    done: AtomicU64,
}

impl Progress {
    /// The current stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            1 => Stage::Headers,
            2 => Stage::Samples,
            _ => Stage::Records,
        }
    }

    /// How much of the stage is done, 0 to 1; `None` if unknown, as for a stream.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let (all, done) = (self.all.load(Ordering::Relaxed), self.done.load(Ordering::Relaxed));
        (all > 0).then(|| (done as f64 / all as f64).min(1.0))
    }

    /// A stage of `all` bytes begins.
    pub(super) fn begin(&self, stage: Stage, all: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// So many bytes are done.
    pub(super) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts what goes through it.
pub(super) struct CountingRead<R> {
    pub(super) input: R,
    pub(super) progress: Arc<Progress>,
}

impl<R: Read> Read for CountingRead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_through_is_counted_by_stage() {
        let progress = Arc::new(Progress::default());
        assert_eq!((progress.stage(), progress.share()), (Stage::Records, None));
        progress.begin(Stage::Records, 8);
        let mut input = CountingRead { input: &[0_u8; 8][..], progress: Arc::clone(&progress) };
        input.read_exact(&mut [0; 6]).unwrap();
        assert_eq!(progress.share(), Some(0.75));
        progress.begin(Stage::Headers, 4);
        progress.add(5);
        assert_eq!((progress.stage(), progress.share()), (Stage::Headers, Some(1.0)));
        progress.begin(Stage::Samples, 4);
        assert_eq!((progress.stage(), progress.share()), (Stage::Samples, Some(0.0)));
    }
}
