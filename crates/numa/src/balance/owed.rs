//! Bytes on a node that have to go back to other nodes when a change is undone.
//!
//! ```text
//! node 0 owes node 1 three pages and node 2 two; its blocks have two pages each
//!
//! block     A A   B B   C C   D D
//! goes to    1     2     1     -      in all no more than a block too much is paid, and no node gets more
//!                                     than a block more than it is owed
//! ```

use serde::{Deserialize, Serialize};

/// Bytes that are to go back from one node to others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// Numbers of nodes, and the bytes that each is still to get; below zero: it got more than its own.
    nodes: Vec<(u32, i64)>,
}

impl Owed {
    /// Adds `bytes` to what `node` is owed.
    pub fn add(&mut self, node: u32, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        match self.nodes.iter_mut().find(|(known, _)| *known == node) {
            Some((_, owed)) => *owed = owed.saturating_add(bytes),
            None => self.nodes.push((node, bytes)),
        }
    }

    /// Bytes that are still to go back to all nodes together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sum: i64 = self.nodes.iter().fold(0, |sum, (_, owed)| sum.saturating_add(*owed));
        u64::try_from(sum).unwrap_or(0)
    }

    /// Where the next block goes: to the node that is owed most. `None` once all is paid.
    #[must_use]
    pub fn next(&self) -> Option<u32> {
        // Of equals the first.
        let &(node, _) = self.nodes.iter().rev().max_by_key(|(_, owed)| owed)?;
        (self.bytes() > 0).then_some(node)
    }

    /// Records that `bytes` were moved to `node`.
    pub fn pay(&mut self, node: u32, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        for (_, owed) in self.nodes.iter_mut().filter(|(known, _)| *known == node) {
            *owed = owed.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_drawing_is_right() {
        let mut owed = Owed::default();
        owed.add(1, 3);
        owed.add(2, 2);
        let mut blocks = Vec::new();
        for _ in ["A", "B", "C", "D"] {
            let next = owed.next();
            if let Some(node) = next {
                owed.pay(node, 2);
            }
            blocks.push(next);
        }
        assert_eq!(blocks, [Some(1), Some(2), Some(1), None]);
    }

    proptest! {
        #[test]
        fn all_is_paid_and_no_node_gets_more_than_a_block_too_much(
            shares in prop::collection::vec(0u64..40, 1..6), blocks in prop::collection::vec(1u64..9, 200),
        ) {
            let mut owed = Owed::default();
            for (node, &bytes) in shares.iter().enumerate() {
                owed.add(node as u32, bytes);
            }
            let mut got = vec![0; shares.len()];
            for block in blocks {
                let Some(node) = owed.next() else { break };
                owed.pay(node, block);
                got[node as usize] += block;
            }
            let (all, paid) = (shares.iter().sum::<u64>(), got.iter().sum::<u64>());
            prop_assert!(paid >= all && paid < all + 8, "{paid} of {all}");
            for (share, got) in shares.iter().zip(&got) {
                prop_assert!(*got < share + 8, "{got} of {share}");
            }
        }
    }
}
