//! Which node's turn it is where pages are laid on several.
//!
//! ```text
//! nodes 0 and 1, blocks in the order of their addresses
//!
//! found   0 0 1 1 1 1
//! left    0 1 1 0 1 0     what lies well stays: of six blocks two move to node 0 and one to node 1
//! ```
//!
//! Strict turns (the third block to node 0, the fourth to node 1) would move more, and end no more even where
//! blocks are not of one size: regions begin and end within huge pages.

/// Lays blocks on nodes in turn, one pass from the first to the last.
#[derive(Debug, Clone)]
pub struct Turns {
    /// Numbers of nodes, and the bytes laid there.
    laid: Vec<(u32, u64)>,
    unit: u64,
}

impl Turns {
    /// On these nodes; blocks have up to `unit` bytes.
    #[must_use]
    pub fn new(nodes: &[u32], unit: u64) -> Self {
        Self { laid: nodes.iter().map(|&node| (node, 0)).collect(), unit }
    }

    /// Where the next block goes, of which so many bytes are there, most of them on node `at`. It stays if that
    /// node has no more than one block more than another then; else it goes to the one that has least. `None`
    /// if there is no node.
    pub fn next(&mut self, at: u32, bytes: u64) -> Option<u32> {
        let &(emptiest, least) = self.laid.iter().min_by_key(|(_, laid)| laid)?;
        let stays = |&(node, laid): &(u32, u64)| {
            node == at && laid.saturating_add(bytes) <= least.saturating_add(self.unit)
        };
        let to = if self.laid.iter().any(stays) { at } else { emptiest };
        let laid = self.laid.iter_mut().find(|(node, _)| *node == to);
        if let Some((_, laid)) = laid {
            *laid = laid.saturating_add(bytes);
        }
        Some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lay(nodes: &[u32], unit: u64, found: &[(u32, u64)]) -> Vec<(u32, u64)> {
        let mut turns = Turns::new(nodes, unit);
        found.iter().map(|&(at, bytes)| (turns.next(at, bytes).unwrap(), bytes)).collect()
    }

    #[test]
    fn the_drawing_is_right() {
        let found = [0, 0, 1, 1, 1, 1].map(|node| (node, 2));
        let left: Vec<u32> = lay(&[0, 1], 2, &found).into_iter().map(|(node, _)| node).collect();
        assert_eq!(left, [0, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn what_lies_elsewhere_goes_round() {
        let found = [(5, 1); 6];
        let left: Vec<u32> = lay(&[0, 3, 4], 1, &found).into_iter().map(|(n, _)| n).collect();
        assert_eq!(left, [0, 3, 4, 0, 3, 4]);
        assert_eq!(Turns::new(&[], 1).next(0, 1), None);
    }

    proptest! {
        #[test]
        fn at_any_address_no_node_has_more_than_a_block_more_and_a_second_pass_moves_nothing(
            nodes in 1u32..5, found in prop::collection::vec((0u32..6, 1u64..9), 0..60),
        ) {
            let nodes: Vec<u32> = (0..nodes).collect();
            let left = lay(&nodes, 8, &found);
            let mut sums = vec![0; nodes.len()];
            for &(node, bytes) in &left {
                sums[node as usize] += bytes;
                let (most, least) = (sums.iter().max().unwrap(), sums.iter().min().unwrap());
                prop_assert!(most - least <= 8, "{sums:?}");
            }
            prop_assert_eq!(lay(&nodes, 8, &left), left);
        }
    }
}
