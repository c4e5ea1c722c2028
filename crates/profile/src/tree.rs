//! Trees of call chains: of places while counting, of frames afterwards, whose nodes are then numbered
//! so that they do not depend on the order of growth.

use crate::aggregate::Stacks;
use crate::table::{Interned, mix};

/// A place or frame, called from what its parent stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// Number of the place or frame.
    pub(crate) of: u32,
}

/// A tree in growth.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Interned<Node>,
}

impl Tree {
    /// The node that has no caller and is not in the list: nodes count from 1.
    pub(crate) const ROOT: u32 = 0;

    /// The node of `of`, called from `parent`.
    #[inline]
    pub(crate) fn child(&mut self, parent: u32, of: u32) -> u32 {
        let hash = mix(parent.into(), u64::from(of) << 32 | u64::from(of));
        1 + self.nodes.intern(hash, Node { parent, of })
    }

    /// The node reached from `node` by a path.
    pub(crate) fn below(&mut self, node: u32, path: &[u32]) -> u32 {
        path.iter().fold(node, |parent, &of| self.child(parent, of))
    }

    /// Nodes from number 1 on, a parent before its children.
    pub(crate) fn into_nodes(self) -> Vec<Node> {
        self.nodes.list
    }

    /// The tree level by level, the children of a node in the order of their frames; and the new
    /// number of each node.
    pub(crate) fn in_order(self) -> (Stacks, Vec<u32>) {
        let nodes = self.nodes.list;
        // Children of each node, one node after another.
        let mut ends = vec![0_u32; nodes.len() + 2];
        for node in &nodes {
            ends[node.parent as usize + 2] += 1;
        }
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let mut children = vec![0_u32; nodes.len()];
        for (number, node) in nodes.iter().enumerate() {
            let end = &mut ends[node.parent as usize + 1];
            children[*end as usize] = number as u32 + 1;
            *end += 1;
        }
        let frame = |node: u32| nodes[node as usize - 1].of;
        let mut stacks = Stacks::default();
        let mut numbers = vec![Stacks::ROOT; nodes.len() + 1];
        let mut queue = std::collections::VecDeque::from([Self::ROOT]);
        while let Some(node) = queue.pop_front() {
            let at = node as usize;
            let own = &mut children[ends[at] as usize..ends[at + 1] as usize];
            own.sort_unstable_by_key(|&child| frame(child));
            for &mut child in own {
                numbers[child as usize] = stacks.push(numbers[at], frame(child));
                queue.push_back(child);
            }
        }
        (stacks, numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grown(paths: &[Vec<u32>]) -> (Stacks, Vec<u32>) {
        let mut tree = Tree::default();
        let nodes: Vec<u32> = paths.iter().map(|path| tree.below(Tree::ROOT, path)).collect();
        let (stacks, numbers) = tree.in_order();
        (stacks, nodes.iter().map(|&node| numbers[node as usize]).collect())
    }

    proptest! {
        #[test]
        fn paths_come_back_under_numbers_that_do_not_depend_on_the_order(
            paths in proptest::collection::vec(proptest::collection::vec(0_u32..4, 0..5), 0..40),
        ) {
            let (stacks, numbers) = grown(&paths);
            for (path, &number) in paths.iter().zip(&numbers) {
                let mut frames: Vec<u32> = stacks.frames(number).collect();
                frames.reverse();
                prop_assert_eq!(&frames, path);
            }
            for stack in 1..stacks.len() as u32 {
                prop_assert!(stacks.parent(stack).unwrap() < stack);
            }
            let reversed: Vec<_> = paths.iter().rev().cloned().collect();
            let (other, mut others) = grown(&reversed);
            others.reverse();
            prop_assert_eq!(numbers, others);
            prop_assert_eq!(stacks.len(), other.len());
        }
    }
}
