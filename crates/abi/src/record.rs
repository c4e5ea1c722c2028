//! Records: the unit in which the kernel writes a ring and in which `perf.data` holds its data.
//!
//! ```text
//!  0        4      6      8                                    size
//!  ├─ type ─┼ misc ┼ size ┼─ body ─────────────┬─ id_sample ───┤
//!     u32     u16    u16     (by type)          only with sample_id_all, not in SAMPLE
//! ```

/// Bytes of a record header.
pub const HEADER_SIZE: usize = 8;

/// Record types, `perf_event_header.type`. Below 64 they are the kernel's, from 64 on the tools'.
pub mod kind {
    /// A mapping, first form.
    pub const MMAP: u32 = 1;
    /// Records dropped because the ring buffer was full.
    pub const LOST: u32 = 2;
    /// A thread's name.
    pub const COMM: u32 = 3;
    /// A task ended.
    pub const EXIT: u32 = 4;
    /// Sampling suspended by the kernel.
    pub const THROTTLE: u32 = 5;
    /// Sampling resumed.
    pub const UNTHROTTLE: u32 = 6;
    /// A task began.
    pub const FORK: u32 = 7;
    /// Counter values.
    pub const READ: u32 = 8;
    /// A sample.
    pub const SAMPLE: u32 = 9;
    /// A mapping, second form.
    pub const MMAP2: u32 = 10;
    /// AUX data available.
    pub const AUX: u32 = 11;
    /// Samples lost by the hardware's own buffer.
    pub const LOST_SAMPLES: u32 = 13;
    /// Context switch.
    pub const SWITCH: u32 = 14;
    /// Context switch, system-wide form.
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// Namespaces of a task.
    pub const NAMESPACES: u32 = 16;
    /// A kernel symbol came or went.
    pub const KSYMBOL: u32 = 17;
    /// A BPF program came or went.
    pub const BPF_EVENT: u32 = 18;
    /// A cgroup's path.
    pub const CGROUP: u32 = 19;
    /// Deprecated tool record that readers pass over; carries our own metadata.
    pub const HEADER_EVENT_TYPE: u32 = 65;
    /// All buffers have been read once since the last such record.
    pub const FINISHED_ROUND: u32 = 68;
    /// Ids of all events with their CPU and thread.
    pub const ID_INDEX: u32 = 69;
    /// Difference between the monotonic clock and TSC.
    pub const TIME_CONV: u32 = 79;
    /// A feature section as a record: number and payload.
    pub const HEADER_FEATURE: u32 = 80;
    /// Compressed records, unpadded.
    pub const COMPRESSED: u32 = 81;
    /// End of the synthesised state.
    pub const FINISHED_INIT: u32 = 82;
}

/// Bits of `perf_event_header.misc`.
pub mod misc {
    /// The low three bits are the CPU mode.
    pub const CPUMODE_MASK: u16 = 7;
    /// Kernel mode.
    pub const KERNEL: u16 = 1;
    /// User mode.
    pub const USER: u16 = 2;
    /// COMM: by exec, not by rename.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// MMAP: not executable.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// MMAP2: a build ID instead of device and inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// See [`kind`].
    pub kind: u32,
    /// See [`misc`].
    pub misc: u16,
    /// Bytes of the whole record, header included.
    pub size: u16,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` if there are fewer than 8.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER_SIZE] = bytes.first_chunk()?;
        Some(Self {
            kind: u32::from_ne_bytes([head[0], head[1], head[2], head[3]]),
            misc: u16::from_ne_bytes([head[4], head[5]]),
            size: u16::from_ne_bytes([head[6], head[7]]),
        })
    }
}

/// Walks whole records in a contiguous piece of memory. Stops at the first header that is cut off,
/// smaller than itself, or longer than what is left; [`Records::rest`] is what was not walked.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// A walk over `bytes`, which start at a record.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes after the last record that was returned.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (Header, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header = Header::read(self.rest)?;
        let size = usize::from(header.size);
        if size < HEADER_SIZE || size > self.rest.len() {
            return None;
        }
        let (record, rest) = self.rest.split_at(size);
        self.rest = rest;
        Some((header, record))
    }
}

/// Builds one record after another into a byte vector.
///
/// ```
/// use pmuscope_abi::record::{RecordBuilder, Records, kind};
/// let mut out = Vec::new();
/// RecordBuilder::new(&mut out, kind::COMM, 0).u32(7).u32(7).text("xz").finish();
/// assert_eq!(Records::new(&out).count(), 1);
/// assert_eq!(out.len(), 24);
/// ```
#[derive(Debug)]
pub struct RecordBuilder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> RecordBuilder<'a> {
    /// Begins a record at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, kind: u32, misc: u16) -> Self {
        let start = out.len();
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(&misc.to_ne_bytes());
        out.extend_from_slice(&[0; 2]);
        Self { out, start }
    }

    /// Appends a byte.
    #[must_use]
    pub fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    /// Appends a u16.
    #[must_use]
    pub fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends a u32.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends a u64.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends bytes as they are.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self
    }

    /// Appends a string with its terminating zero, padded to 8 bytes as the kernel does for names.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.name(text.as_bytes())
    }

    /// As [`RecordBuilder::text`], for names that need not be UTF-8 (paths, thread names).
    #[must_use]
    pub fn name(self, name: &[u8]) -> Self {
        self.out.extend_from_slice(name);
        self.out.push(0);
        let used = self.out.len() - self.start;
        self.out.resize(self.start + used.next_multiple_of(8), 0);
        self
    }

    /// Writes the size into the header.
    ///
    /// # Panics
    /// If the record is over 65,535 bytes: the caller bounds what it puts in (a path is at most 4096).
    pub fn finish(self) {
        let size = self.out.len() - self.start;
        let size = u16::try_from(size).expect("the size of a record that we build fits in a u16");
        self.out[self.start + 6..self.start + 8].copy_from_slice(&size.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_walk_stops_before_anything_cut_or_impossible() {
        let mut bytes = Vec::new();
        RecordBuilder::new(&mut bytes, kind::SAMPLE, misc::USER).u64(1).finish();
        RecordBuilder::new(&mut bytes, kind::LOST, 0).u64(1).u64(2).finish();
        let mut walk = Records::new(&bytes[..20]);
        assert_eq!(walk.next().map(|(h, _)| h.kind), Some(kind::SAMPLE));
        assert!(walk.next().is_none());
        assert_eq!(walk.rest().len(), 4);

        let zero_size = [9, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Records::new(&zero_size).count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_built_is_walked(bodies in proptest::collection::vec(
            (1_u32..90, proptest::collection::vec(any::<u8>(), 0..200)), 0..50)) {
            let mut bytes = Vec::new();
            for (kind, body) in &bodies {
                RecordBuilder::new(&mut bytes, *kind, 0).bytes(body).finish();
            }
            let walked: Vec<_> = Records::new(&bytes)
                .map(|(h, r)| (h.kind, r[HEADER_SIZE..].to_vec())).collect();
            prop_assert_eq!(walked, bodies);
        }

        #[test]
        fn a_walk_never_leaves_its_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut walk = Records::new(&bytes);
            let walked: usize = walk.by_ref().map(|(_, r)| r.len()).sum();
            prop_assert_eq!(walked + walk.rest().len(), bytes.len());
        }
    }
}
