//! What was counted in which block of time, in some two bytes per entry.
//!
//! A cell counts within one block; when samples move on to another, what was counted goes to the log, in
//! the order of cells, so that only the steps from one to the next are written:
//!
//! ```text
//!  0, block 3 │ cell 5: 1 sample │ cell 6: 1 │ cell 90: 4 │ 0, block 4 │ cell 2: 1 │ …
//!  0  3         5+1 ·2             1 ·2        84 ·2+1, 8   0  4         2+1 ·2
//! ```
//! A step is at least 1, so that 0 can say that a block begins. Blocks may double while counting goes on
//! (see [`crate::timeline::blocks`]), so the log is in parts of one length of block each.

/// A count of a cell in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoggedCount {
    pub(crate) cell: u32,
    pub(crate) block: u32,
    pub(crate) samples: u32,
    pub(crate) weight: u64,
}

#[derive(Debug, Clone)]
struct LogSegment {
    shift: u32,
    bytes: Vec<u8>,
    /// Block of the last entry, and the cell behind its own.
    latest: Option<(u32, u64)>,
}

impl LogSegment {
    fn new(shift: u32) -> Self {
        Self { shift, bytes: Vec::new(), latest: None }
    }
}

/// Entries in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    parts: Vec<LogSegment>,
}

impl Log {
    /// Nothing yet; blocks are of 2^shift ns.
    pub(crate) fn new(shift: u32) -> Self {
        Self { parts: vec![LogSegment::new(shift)] }
    }

    /// From now on blocks are of 2^shift ns.
    pub(crate) fn set_shift(&mut self, shift: u32) {
        self.parts.push(LogSegment::new(shift));
    }

    /// Short where it is of the block of the entry before, and of a cell not far behind that one's.
    #[inline]
    pub(crate) fn push(&mut self, entry: LoggedCount) {
        let Some(LogSegment { bytes, latest, .. }) = self.parts.last_mut() else { return };
        let cell = u64::from(entry.cell);
        let behind = latest.filter(|(block, behind)| *block == entry.block && *behind <= cell);
        let behind = behind.map_or_else(
            || {
                bytes.push(0);
                write(bytes, entry.block.into());
                0
            },
            |(_, behind)| behind,
        );
        let is_one = entry.samples == 1 && entry.weight == 1;
        write(bytes, (cell + 1 - behind) << 1 | u64::from(!is_one));
        if !is_one {
            let is_weighted = entry.weight != u64::from(entry.samples);
            write(bytes, u64::from(entry.samples) << 1 | u64::from(is_weighted));
            if is_weighted {
                write(bytes, entry.weight);
            }
        }
        *latest = Some((entry.block, cell + 1));
    }

    /// All entries, with blocks of 2^shift ns, which are not shorter than those written.
    pub(crate) fn entries(&self, shift: u32) -> impl Iterator<Item = LoggedCount> + '_ {
        self.parts.iter().flat_map(move |part| {
            let halvings = shift.saturating_sub(part.shift);
            let mut entries = Entries { rest: &part.bytes, block: 0, behind: 0 };
            std::iter::from_fn(move || {
                let mut entry = entries.next()?;
                // A jump of the clock can halve more often than a number has bits.
                entry.block = entry.block.checked_shr(halvings).unwrap_or(0);
                Some(entry)
            })
        })
    }
}

/// Entries of a part.
struct Entries<'a> {
    rest: &'a [u8],
    block: u32,
    /// The cell behind that of the last entry.
    behind: u64,
}

impl Entries<'_> {
    #[inline]
    fn next(&mut self) -> Option<LoggedCount> {
        let rest = &mut self.rest;
        let mut step = read(rest)?;
        if step == 0 {
            (self.block, self.behind) = (read(rest)? as u32, 0);
            step = read(rest)?;
        }
        self.behind += step >> 1;
        let (mut samples, mut weight) = (1, 1);
        if step & 1 == 1 {
            let both = read(rest)?;
            samples = (both >> 1) as u32;
            weight = if both & 1 == 1 { read(rest)? } else { both >> 1 };
        }
        Some(LoggedCount { cell: (self.behind - 1) as u32, block: self.block, samples, weight })
    }
}

/// Seven bits a byte, the lowest first; the eighth tells that more follow.
#[inline]
fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[inline]
fn read(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Small ones often, so that entries follow one another.
    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![3 => 0_u32..4, 1 => any::<u32>()]
    }

    #[test]
    fn neighbors_in_a_block_take_a_byte_each() {
        let mut log = Log::new(20);
        for cell in 0..60 {
            log.push(LoggedCount { cell, block: 200, samples: 1, weight: 1 });
        }
        assert_eq!(log.parts[0].bytes.len(), 3 + 60);
    }

    proptest! {
        #[test]
        fn entries_come_back(
            written in proptest::collection::vec(
                (number(), number(), number(), proptest::option::of(any::<u64>())), 0..50),
            more in 0_u32..40,
        ) {
            let mut log = Log::new(20);
            let mut expected = Vec::new();
            for (number, (cell, block, samples, weight)) in written.into_iter().enumerate() {
                if number == 20 {
                    log.set_shift(20 + more);
                }
                let entry = LoggedCount { cell, block, samples, weight: weight.unwrap_or(samples.into()) };
                log.push(entry);
                let halvings = if number < 20 { more } else { 0 };
                expected.push(LoggedCount { block: block.checked_shr(halvings).unwrap_or(0), ..entry });
            }
            prop_assert_eq!(log.entries(20 + more).collect::<Vec<_>>(), expected);
        }
    }
}
