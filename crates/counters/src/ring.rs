//! A sampling ring buffer, as its reader uses it.

use std::ops::Range;

use pmuscope_abi::record::Records;

use crate::sys::RingMemory;

/// The ring buffer of one CPU (or of one thread), read by one reader at a time.
#[derive(Debug)]
pub struct Ring {
    memory: RingMemory,
    tail: u64,
    cpu: Option<u32>,
    tid: Option<u32>,
    backward: bool,
}

/// Unread whole records in a ring buffer: one piece, or two if they wrap.
#[derive(Debug, Clone, Copy)]
pub struct Pending<'a> {
    /// From the tail to the head or the end of the data area.
    pub first: &'a [u8],
    /// From the start of the data area to the head; empty unless the records wrap.
    pub second: &'a [u8],
    head: u64,
}

impl<'a> Pending<'a> {
    /// Whole records that were copied out of a ring buffer.
    #[must_use]
    pub fn of_copy(bytes: &'a [u8]) -> Self {
        Self::of_pieces(bytes, &[])
    }

    /// As [`Pending::of_copy`], in two pieces.
    #[must_use]
    pub fn of_pieces(first: &'a [u8], second: &'a [u8]) -> Self {
        Self { first, second, head: 0 }
    }

    /// Bytes in both pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Whether there are no unread records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in this range; 0 is the first unread byte.
    ///
    /// # Panics
    /// If the range is not within [`Pending::len`].
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let seam = self.first.len();
        let first = &self.first[range.start.min(seam)..range.end.min(seam)];
        let second = &self.second[range.start.max(seam) - seam..range.end.max(seam) - seam];
        Self { first, second, head: self.head }
    }

    /// The position to pass to [`Ring::release`] when these bytes are no longer needed.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.head
    }
}

impl Ring {
    pub(crate) fn new(
        memory: RingMemory,
        cpu: Option<u32>,
        tid: Option<u32>,
        backward: bool,
    ) -> Self {
        Self { memory, tail: 0, cpu, tid, backward }
    }

    /// Whether the kernel writes it backwards and overwrites old records: [`Ring::backward`] copies
    /// it, and no reader drains it.
    #[must_use]
    pub fn is_backward(&self) -> bool {
        self.backward
    }

    /// The CPU that the events of this buffer are on; `None` in per-thread mode.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        self.cpu
    }

    /// The thread that the events of this buffer belong to, in per-thread mode.
    #[must_use]
    pub fn tid(&self) -> Option<u32> {
        self.tid
    }

    /// Bytes of the data area.
    #[must_use]
    pub fn size(&self) -> usize {
        self.memory.data_size()
    }

    /// Number of unread bytes.
    #[must_use]
    pub fn waiting(&self) -> usize {
        (self.memory.head() - self.tail) as usize
    }

    /// The unread bytes, by a single reading of the head: what arrives afterwards belongs to the
    /// next reading.
    #[must_use]
    pub fn pending(&self) -> Pending<'_> {
        let head = self.memory.head();
        let (first, second) = self.memory.bytes(self.tail, head);
        Pending { first, second, head }
    }

    /// A copy of what a flight-recorder ring (`write_backward`, mapped read-only) holds, newest record
    /// first, whole records only.
    ///
    /// ```text
    ///   the head moves down, from 0 through u64::MAX, also while we copy:
    ///
    ///   head after   head before: newest record of the copy          head before + size
    ///   ├────────────┼───────────────────────────────────┬───────────┤
    ///   │ new        │ good                              │ overwritten by "new", and perhaps by
    ///                                                    │ records in the making
    /// ```
    ///
    /// The ring is not paused: nothing is lost, and what was overwritten during the copy is cut off its
    /// old end, with room for a record in the making in each of the kernel's four contexts (task,
    /// softirq, irq, NMI). Layout as in `tools/lib/perf/mmap.c:overwrite_rb_find_range`.
    #[must_use]
    pub fn backward(&self) -> Vec<u8> {
        const CONTEXTS: u64 = 4;
        let size = self.size() as u64;
        let before = self.memory.head();
        let held = before.wrapping_neg().min(size);
        let mut bytes = self.memory.copy_while_written(before, held as usize);
        let overwritten = before.wrapping_sub(self.memory.head());
        // Also where it was not full before the copy: it may have become so meanwhile.
        let largest = Records::new(&bytes).map(|(header, _)| u64::from(header.size)).max();
        let doubtful = overwritten.saturating_add(CONTEXTS * largest.unwrap_or(0));
        bytes.truncate(size.saturating_sub(doubtful) as usize);
        let rest = {
            let mut records = Records::new(&bytes);
            records.by_ref().for_each(drop);
            records.rest().len()
        };
        bytes.truncate(bytes.len() - rest);
        bytes
    }

    /// Returns the space before `end` to the kernel.
    pub fn release(&mut self, end: u64) {
        debug_assert!(end >= self.tail, "space is released in order");
        self.tail = end;
        self.memory.set_tail(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(pending: &Pending<'_>) -> Vec<u8> {
        [pending.first, pending.second].concat()
    }

    #[test]
    fn bytes_come_out_once_in_order_and_across_the_end() {
        let memory = RingMemory::anonymous(rustix::param::page_size()).unwrap();
        let size = memory.data_size();
        let mut ring = Ring::new(memory, Some(3), None, false);
        let mut sent = Vec::new();
        let mut received = Vec::new();
        for round in 0..50_u32 {
            let piece: Vec<u8> = (0..size as u32 * 2 / 3).map(|i| (i + round) as u8).collect();
            ring.memory.produce(&piece);
            sent.extend_from_slice(&piece);
            assert_eq!(ring.waiting(), piece.len());
            let pending = ring.pending();
            received.extend(collect(&pending));
            let end = pending.end();
            ring.release(end);
            assert!(ring.pending().is_empty());
        }
        assert_eq!(sent, received);
    }

    #[test]
    fn a_part_is_cut_from_both_pieces() {
        let bytes = [0, 1, 2, 3, 4, 5];
        for seam in 0..=bytes.len() {
            let (first, second) = bytes.split_at(seam);
            let pending = Pending::of_pieces(first, second);
            for (start, end) in [(0, 6), (0, 0), (1, 3), (2, 6), (3, 5), (6, 6)] {
                assert_eq!(collect(&pending.part(start..end)), bytes[start..end], "seam {seam}");
            }
        }
    }

    #[test]
    fn a_backward_ring_gives_whole_records_newest_first() {
        use pmuscope_abi::record::RecordBuilder;
        let memory = RingMemory::anonymous(rustix::param::page_size()).unwrap();
        let size = memory.data_size();
        let ring = Ring::new(memory, Some(0), None, true);
        assert!(ring.backward().is_empty());
        let numbers = |bytes: &[u8]| -> Vec<u64> {
            Records::new(bytes)
                .map(|(_, record)| u64::from_ne_bytes(record[8..16].try_into().unwrap()))
                .collect()
        };
        let mut record = Vec::new();
        for number in 1..=1000_u64 {
            record.clear();
            RecordBuilder::new(&mut record, 9, 0).u64(number).u64(0).finish();
            ring.memory.produce_backward(&record);
            if number == 3 {
                assert_eq!(numbers(&ring.backward()), [3, 2, 1]);
            }
        }
        // A full ring gives up four records' worth at its old end.
        let newest: Vec<u64> = (0..size as u64 / 24 - 4).map(|age| 1000 - age).collect();
        assert_eq!(numbers(&ring.backward()), newest);
    }

    #[test]
    fn what_is_not_released_is_seen_again() {
        let memory = RingMemory::anonymous(rustix::param::page_size()).unwrap();
        let ring = Ring::new(memory, None, Some(7), true);
        ring.memory.produce(b"12345678");
        assert_eq!(collect(&ring.pending()), b"12345678");
        assert_eq!(collect(&ring.pending()), b"12345678");
    }
}
