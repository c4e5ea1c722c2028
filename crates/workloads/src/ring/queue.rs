//! A ring of packets between one producer and one consumer, in two ways to tell what is full.
//!
//! ```text
//!  basic         line 0  write │ read          both sides change and look at one cache line,
//!                slots   n n n n n …           whatever they do
//!
//!  fastforward   slots   n n 0 0 n …           a slot that is not 0 is full; where each side is it
//!                                              knows itself (Giacomoni, Moseley and Vachharajani,
//!                                              FastForward, PPoPP 2008)
//! ```
//!
//! A packet is a buffer of the shared memory; what is in a slot is its number plus one. There are twice as
//! many buffers as slots, so none is used again before it was read.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Mode;

/// Packets that a ring holds.
pub(super) const SLOTS: usize = 1024;
/// Words of a cache line.
const LINE: usize = 8;
/// Where the indices are: those of the two sides on one line, as in rings that do not care.
const WRITE: usize = 0;
const READ: usize = 1;
/// Where slots begin.
const FIRST: usize = LINE;

/// Words of one ring with buffers of so many words each.
pub(super) const fn words(buffer: usize) -> usize {
    FIRST + SLOTS + 2 * SLOTS * buffer
}

/// Words of a buffer for packets of so many bytes: whole lines.
pub(super) const fn buffer_words(bytes: usize) -> usize {
    let lines = bytes.div_ceil(8 * LINE);
    LINE * if lines == 0 { 1 } else { lines }
}

/// One side's view of a ring.
pub(super) struct Side<'m> {
    memory: &'m [AtomicU64],
    mode: Mode,
    /// Words of a buffer.
    buffer: usize,
    /// Packets that this side has put in or taken out.
    at: u64,
}

impl<'m> Side<'m> {
    /// Of a ring in these words, which are [`words`].
    pub(super) fn new(memory: &'m [AtomicU64], mode: Mode, buffer: usize) -> Self {
        Self { memory, mode, buffer, at: 0 }
    }

    /// Packets so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn slot(&self, packet: u64) -> &'m AtomicU64 {
        &self.memory[FIRST + (packet % SLOTS as u64) as usize]
    }

    fn payload(&self, packet: u64) -> &'m [AtomicU64] {
        let number = (packet % (2 * SLOTS as u64)) as usize;
        let from = FIRST + SLOTS + number * self.buffer;
        &self.memory[from..from + self.buffer]
    }

    /// Puts a packet in, with so many words written; false if the ring is full.
    #[inline]
    pub(super) fn put(&mut self, words: usize) -> bool {
        let packet = self.at;
        let slot = self.slot(packet);
        let is_full = match self.mode {
            Mode::Basic => packet - self.memory[READ].load(Ordering::Acquire) >= SLOTS as u64,
            Mode::FastForward => slot.load(Ordering::Acquire) != 0,
        };
        if is_full {
            return false;
        }
        for word in &self.payload(packet)[..words] {
            word.store(packet, Ordering::Relaxed);
        }
        self.at = packet + 1;
        match self.mode {
            Mode::Basic => {
                slot.store(packet + 1, Ordering::Relaxed);
                self.memory[WRITE].store(packet + 1, Ordering::Release);
            }
            Mode::FastForward => slot.store(packet + 1, Ordering::Release),
        }
        true
    }

    /// Takes a packet out, with so many words read; the sum of its number and of what was read, or `None`
    /// if the ring is empty.
    #[inline]
    pub(super) fn take(&mut self, words: usize) -> Option<u64> {
        let packet = self.at;
        let slot = self.slot(packet);
        let number = match self.mode {
            Mode::Basic if self.memory[WRITE].load(Ordering::Acquire) == packet => return None,
            Mode::Basic => slot.load(Ordering::Relaxed),
            Mode::FastForward => slot.load(Ordering::Acquire),
        };
        let number = number.checked_sub(1)?;
        let read = self.payload(packet)[..words].iter();
        let sum = read.fold(number, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
        self.at = packet + 1;
        match self.mode {
            Mode::Basic => self.memory[READ].store(packet + 1, Ordering::Release),
            Mode::FastForward => slot.store(0, Ordering::Release),
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory(buffer: usize) -> Vec<AtomicU64> {
        (0..words(buffer)).map(|_| AtomicU64::new(0)).collect()
    }

    proptest! {
        /// Whatever the order of puts and takes, packets come out once each, in order, up to what a
        /// plain queue holds.
        #[test]
        fn it_is_a_bounded_queue(
            steps in proptest::collection::vec((any::<bool>(), 1..700_usize), 1..40),
            fast: bool,
        ) {
            let mode = if fast { Mode::FastForward } else { Mode::Basic };
            let memory = memory(LINE);
            let (mut producer, mut consumer) =
                (Side::new(&memory, mode, LINE), Side::new(&memory, mode, LINE));
            let (mut put, mut taken) = (0_u64, 0_u64);
            for (puts, times) in steps {
                for _ in 0..times {
                    if puts {
                        let fits = put - taken < SLOTS as u64;
                        prop_assert_eq!(producer.put(2), fits);
                        put += u64::from(fits);
                    } else {
                        let expected = (taken < put).then_some(3 * taken);
                        prop_assert_eq!(consumer.take(2), expected);
                        taken += u64::from(expected.is_some());
                    }
                }
            }
        }
    }

    #[test]
    fn two_threads_lose_nothing() {
        for mode in [Mode::Basic, Mode::FastForward] {
            let memory = memory(LINE);
            let count = 200_000_u64;
            let sum = std::thread::scope(|threads| {
                threads.spawn(|| {
                    let mut side = Side::new(&memory, mode, LINE);
                    while side.at() < count {
                        if !side.put(1) {
                            std::thread::yield_now();
                        }
                    }
                });
                let mut side = Side::new(&memory, mode, LINE);
                let mut sum = 0_u64;
                while side.at() < count {
                    match side.take(1) {
                        Some(read) => sum = sum.wrapping_add(read),
                        None => std::thread::yield_now(),
                    }
                }
                sum
            });
            assert_eq!(sum, count * (count - 1), "{mode:?}");
        }
    }

    #[test]
    fn buffers_are_whole_lines() {
        assert_eq!([0, 1, 64, 65].map(buffer_words), [8, 8, 8, 16]);
    }
}
