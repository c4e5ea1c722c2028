//! Which NUMA node has which physical memory: perf's feature `MEM_TOPOLOGY`
//! (`tools/perf/Documentation/perf.data-file-format.txt`).
//!
//! ```text
//!  version, block size, nodes │ node, bits, bits, bitmap │ node, bits, bits, bitmap │ …      all u64
//! ```
//! Bit N of a node's bitmap is block N of physical memory, `/sys/devices/system/node/nodeX/memoryN`.

use crate::reader::Endian;
use crate::reader::bytes::Fields;

const VERSION: u64 = 1;
/// A bitmap with more words than this is damaged: 2^24 blocks of 128 MiB are 2 PiB.
const MOST_WORDS: u64 = 1 << 18;

/// Nodes with the blocks of physical memory that they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryNodes {
    block_bytes: u64,
    /// Each node with a bitmap of its blocks.
    nodes: Vec<(u32, Vec<u64>)>,
}

impl MemoryNodes {
    /// Of blocks of this size, by number.
    pub fn new(block_bytes: u64, nodes: impl IntoIterator<Item = (u32, Vec<u64>)>) -> Self {
        let bitmap = |blocks: Vec<u64>| {
            let mut words: Vec<u64> = Vec::new();
            for block in blocks.into_iter().filter(|block| block / 64 < MOST_WORDS) {
                let at = (block / 64) as usize;
                words.resize(words.len().max(at + 1), 0);
                words[at] |= 1 << (block % 64);
            }
            words
        };
        let nodes = nodes.into_iter().map(|(node, blocks)| (node, bitmap(blocks))).collect();
        Self { block_bytes, nodes }
    }

    /// The node that has the memory at a physical address; `None` where none has it, as of memory of devices.
    #[must_use]
    pub fn node_of(&self, physical: u64) -> Option<u32> {
        let block = physical.checked_div(self.block_bytes)?;
        let (at, bit) = (usize::try_from(block / 64).ok()?, block % 64);
        let has = |words: &Vec<u64>| words.get(at).is_some_and(|word| word >> bit & 1 == 1);
        self.nodes.iter().find(|(_, words)| has(words)).map(|(node, _)| *node)
    }

    /// Number of nodes with memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it knows of no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The feature; `None` of a version that nobody knows, and of what is cut.
    pub(crate) fn read(bytes: &[u8], endian: Endian) -> Option<Self> {
        let mut fields = Fields::new(bytes, endian);
        let (version, block_bytes, number) = (fields.u64()?, fields.u64()?, fields.u64()?);
        if version != VERSION {
            return None;
        }
        let mut nodes = Vec::new();
        for _ in 0..number {
            let (node, _bits, bits) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let words = bits.div_ceil(64);
            if words > MOST_WORDS {
                return None;
            }
            let words = (0..words).map(|_| fields.u64()).collect::<Option<_>>()?;
            nodes.push((u32::try_from(node).ok()?, words));
        }
        Some(Self { block_bytes, nodes })
    }

    /// The same as bytes of this machine.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut words = vec![VERSION, self.block_bytes, self.nodes.len() as u64];
        for (node, bitmap) in &self.nodes {
            let last = bitmap.last().map_or(0, |word| 64 - u64::from(word.leading_zeros()));
            let bits = (bitmap.len() as u64).saturating_sub(1) * 64 + last;
            words.extend([u64::from(*node), bits, bits]);
            words.extend(bitmap);
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn native() -> Endian {
        if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little }
    }

    #[test]
    fn addresses_are_of_the_node_that_has_their_block() {
        let nodes = MemoryNodes::new(128 * MIB, [(0, vec![0, 1, 64]), (2, vec![2, 63])]);
        let node = |mib: u64| nodes.node_of(mib * MIB);
        assert_eq!([node(0), node(255), node(64 * 128)], [Some(0); 3]);
        assert_eq!([node(256), node(63 * 128)], [Some(2); 2]);
        assert_eq!([node(3 * 128), node(65 * 128), node(u64::MAX / MIB)], [None; 3]);
        assert_eq!(MemoryNodes::default().node_of(0), None);
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_not() {
        let nodes = MemoryNodes::new(MIB, [(0, vec![0, 64]), (7, vec![1]), (9, vec![])]);
        let bytes = nodes.to_bytes();
        assert_eq!(MemoryNodes::read(&bytes, native()), Some(nodes));
        for length in 0..bytes.len() {
            assert_eq!(MemoryNodes::read(&bytes[..length], native()), None, "{length}");
        }
        let huge = [VERSION, MIB, 1, 0, u64::MAX, u64::MAX].map(u64::to_ne_bytes).concat();
        assert_eq!(MemoryNodes::read(&huge, native()), None);
    }
}
