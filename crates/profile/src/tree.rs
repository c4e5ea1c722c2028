//! Grows the tree of stacks, then numbers its nodes so that they do not depend on the order of growth.

use crate::aggregate::{FrameId, Stacks};
use crate::table::{Interned, mix};

/// A node below another. Node 0 is the root, which is not in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    parent: u32,
    frame: FrameId,
}

/// A tree in growth.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Interned<Node>,
}

impl Tree {
    /// The node reached from `node` by a path of frames.
    pub(crate) fn below(&mut self, node: u32, path: &[FrameId]) -> u32 {
        path.iter().fold(node, |parent, &frame| {
            let hash = mix(parent.into(), u64::from(frame) << 32 | u64::from(frame));
            1 + self.nodes.intern(hash, Node { parent, frame })
        })
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
        let frame = |node: u32| nodes[node as usize - 1].frame;
        let mut stacks = Stacks::default();
        let mut numbers = vec![Stacks::ROOT; nodes.len() + 1];
        let mut queue = std::collections::VecDeque::from([0_u32]);
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

    fn grown(paths: &[Vec<FrameId>]) -> (Stacks, Vec<u32>) {
        let mut tree = Tree::default();
        let nodes: Vec<u32> = paths.iter().map(|path| tree.below(0, path)).collect();
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
                let mut frames: Vec<FrameId> = stacks.frames(number).collect();
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
