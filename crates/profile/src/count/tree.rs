//! Trees of call chains: of places while counting, of frames afterwards, whose nodes are then numbered
//! so that they do not depend on the order of growth.

use crate::aggregate::Stacks;
use crate::table::{Interned, mix};

/// A bit of [`Node::of`]: the place is where the function that is called from this node was entered,
/// see [`grow`].
pub(crate) const ENTERED: u32 = 1 << 31;

/// A place or frame, called from what its parent stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// Number of the place or frame, and perhaps [`ENTERED`].
    pub(crate) of: u32,
}

impl Node {
    /// The number of the place or frame.
    fn number(self) -> u32 {
        self.of & !ENTERED
    }

    fn is_entered(self) -> bool {
        self.of & ENTERED != 0
    }
}

/// Adds chains of places as chains of frames: `path` puts the frames of a place into a buffer, the
/// outermost first. Returns what each node comes to, from the root on.
///
/// A function in which a sample was taken is there once: where it was entered counts only if that was
/// another function, which jumped on (a stub, a tail call). `is_same` compares frames by function.
pub(crate) fn grow(
    tree: &mut Tree,
    nodes: &[Node],
    mut path: impl FnMut(u32, &mut Vec<u32>),
    is_same: impl Fn(u32, u32) -> bool,
) -> Vec<u32> {
    let mut reached = Vec::with_capacity(nodes.len() + 1);
    reached.push(Tree::ROOT);
    let (mut frames, mut entered) = (Vec::new(), Vec::new());
    for node in nodes {
        let mut parent = reached[node.parent as usize];
        if node.is_entered() {
            // What it comes to depends on what is called from it.
            reached.push(parent);
            continue;
        }
        frames.clear();
        path(node.number(), &mut frames);
        let above = (node.parent as usize).checked_sub(1).map(|at| nodes[at]);
        if let Some(above) = above.filter(|above| above.is_entered()) {
            entered.clear();
            path(above.number(), &mut entered);
            let functions = entered.first().zip(frames.first());
            if !functions.is_some_and(|(&a, &b)| is_same(a, b)) {
                parent = tree.below(parent, &entered);
            }
        }
        reached.push(tree.below(parent, &frames));
    }
    reached
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
