//! What was counted in which block of time, in a few bytes per entry.
//!
//! A cell counts within one block; when its samples move on to another, what it has goes to the log.
//! Blocks may double while counting goes on (see [`crate::blocks`]), so the log is in parts of one
//! length of block each.

/// A count of a cell in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) cell: u32,
    pub(crate) block: u32,
    pub(crate) samples: u32,
    pub(crate) weight: u64,
}

#[derive(Debug, Clone)]
struct Part {
    shift: u32,
    bytes: Vec<u8>,
}

/// Entries in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    parts: Vec<Part>,
}

impl Log {
    /// Nothing yet; blocks are of 2^shift ns.
    pub(crate) fn new(shift: u32) -> Self {
        Self { parts: vec![Part { shift, bytes: Vec::new() }] }
    }

    /// From now on blocks are of 2^shift ns.
    pub(crate) fn set_shift(&mut self, shift: u32) {
        self.parts.push(Part { shift, bytes: Vec::new() });
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        let Some(Part { bytes, .. }) = self.parts.last_mut() else { return };
        let is_weighted = entry.weight != u64::from(entry.samples);
        write(bytes, entry.cell.into());
        write(bytes, entry.block.into());
        write(bytes, u64::from(entry.samples) << 1 | u64::from(is_weighted));
        if is_weighted {
            write(bytes, entry.weight);
        }
    }

    /// All entries, with blocks of 2^shift ns, which are not shorter than those written.
    pub(crate) fn entries(&self, shift: u32) -> impl Iterator<Item = Entry> + '_ {
        self.parts.iter().flat_map(move |part| {
            let mut rest = &part.bytes[..];
            let halvings = shift.saturating_sub(part.shift);
            std::iter::from_fn(move || {
                let mut entry = read_entry(&mut rest)?;
                // A jump of the clock can halve more often than a number has bits.
                entry.block = entry.block.checked_shr(halvings).unwrap_or(0);
                Some(entry)
            })
        })
    }
}

fn read_entry(rest: &mut &[u8]) -> Option<Entry> {
    let (cell, block) = (read(rest)? as u32, read(rest)? as u32);
    let samples = read(rest)?;
    let weight = if samples & 1 == 1 { read(rest)? } else { samples >> 1 };
    Some(Entry { cell, block, samples: (samples >> 1) as u32, weight })
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

    proptest! {
        #[test]
        fn entries_come_back(
            written in proptest::collection::vec(
                (any::<u32>(), any::<u32>(), any::<u32>(), proptest::option::of(any::<u64>())), 0..50),
            more in 0_u32..40,
        ) {
            let mut log = Log::new(20);
            let mut expected = Vec::new();
            for (number, (cell, block, samples, weight)) in written.into_iter().enumerate() {
                if number == 20 {
                    log.set_shift(20 + more);
                }
                let entry = Entry { cell, block, samples, weight: weight.unwrap_or(samples.into()) };
                log.push(entry);
                let halvings = if number < 20 { more } else { 0 };
                expected.push(Entry { block: block.checked_shr(halvings).unwrap_or(0), ..entry });
            }
            prop_assert_eq!(log.entries(20 + more).collect::<Vec<_>>(), expected);
        }
    }
}
