//! Trees of call chains: of places while counting, of frames afterwards, whose nodes are then numbered
//! so that they do not depend on the order of growth.

use crate::aggregate::{ASIDE, Stacks};
use crate::count::stack_room::StackRoom;
use crate::table::{HashIndex, mix};

/// A bit of [`Node::of`]: the place is where the function that is called from this node was entered,
/// see [`grow`].
pub(crate) const ENTERED: u32 = 1 << 31;

/// A place or frame, called from what its parent stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// Number of the place or frame, and perhaps [`ENTERED`] or [`ASIDE`].
    pub(crate) of: u32,
}

impl Node {
    /// The number of the place or frame.
    fn number(self) -> u32 {
        self.of & !(ENTERED | ASIDE)
    }

    fn is_aside(self) -> bool {
        self.of & ASIDE != 0
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
        if node.is_aside() {
            frames.iter_mut().for_each(|frame| *frame |= ASIDE);
        }
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

/// Children of a node that are looked for one after another; those of a node with more are in a hash table.
const FEW: usize = 8;
/// A bit of [`TreeNode::first`]: the node has more children than [`FEW`].
const WIDE: u32 = 1 << 31;
/// No node.
const NO_NODE: u32 = !WIDE;
/// Numbers of nodes that are there.
const MOST_NODES: usize = NO_NODE as usize;

/// A tree in growth.
///
/// Most nodes have one child or a few, and a chain that is met for the first time adds its nodes one behind the other. So
/// children are lists, the one that was found last at the front: a walk goes on where memory was just read. The few
/// nodes with many children have these in a hash table, too.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The first is the root.
    nodes: Vec<TreeNode>,
    /// Children of nodes with many.
    of_wide: HashIndex,
    /// Nodes that it has room for, and where more is to be had.
    most: usize,
    room: Option<StackRoom>,
}

#[derive(Debug, Clone, Copy)]
struct TreeNode {
    parent: u32,
    of: u32,
    /// The first child, perhaps with [`WIDE`], and the next child of the same parent.
    first: u32,
    next: u32,
}

impl Default for Tree {
    fn default() -> Self {
        let root = TreeNode { parent: 0, of: 0, first: NO_NODE, next: NO_NODE };
        Self { nodes: vec![root], of_wide: HashIndex::default(), most: MOST_NODES, room: None }
    }
}

impl Tree {
    /// The node that has no caller.
    pub(crate) const ROOT: u32 = 0;
    /// What is not in a tree without room for more.
    pub(crate) const LEFT_OUT: u32 = NO_NODE;

    /// A tree of as many nodes as there is room for.
    pub(crate) fn within(room: StackRoom) -> Self {
        Self { most: 1 + room.take(), room: Some(room), ..Self::default() }
    }

    /// The node of `of`, called from `parent`; [`Tree::LEFT_OUT`] where there is no room for it, and below that.
    #[inline]
    pub(crate) fn child(&mut self, parent: u32, of: u32) -> u32 {
        let Some(&TreeNode { first, .. }) = self.nodes.get(parent as usize) else {
            return Self::LEFT_OUT;
        };
        match self.nodes.get((first & !WIDE) as usize) {
            Some(child) if child.of == of => first & !WIDE,
            _ if first & WIDE != 0 => self.child_of_wide(parent, of),
            _ => self.child_of_narrow(parent, of),
        }
    }

    /// Of a node with few children, the first of which it is not.
    fn child_of_narrow(&mut self, parent: u32, of: u32) -> u32 {
        let first = self.nodes[parent as usize].first;
        let (mut before, mut children) = (first, 0);
        while let Some(&TreeNode { next, .. }) = self.nodes.get(before as usize) {
            children += 1;
            let Some(&child) = self.nodes.get(next as usize) else { break };
            if child.of == of {
                self.nodes[before as usize].next = child.next;
                self.nodes[next as usize].next = first;
                self.nodes[parent as usize].first = next;
                return next;
            }
            before = next;
        }
        if !self.has_room() {
            return Self::LEFT_OUT;
        }
        let new = self.push(parent, of);
        if children == FEW {
            self.nodes[parent as usize].first |= WIDE;
            let mut child = new;
            while let Some(&TreeNode { of, next, .. }) = self.nodes.get(child as usize) {
                self.of_wide.find_or_insert(hash(parent, of), child, |_| false);
                child = next;
            }
        }
        new
    }

    fn child_of_wide(&mut self, parent: u32, of: u32) -> u32 {
        let has_room = self.has_room();
        let Self { nodes, of_wide, .. } = self;
        let new = nodes.len() as u32;
        let is_it = |node| {
            let node: TreeNode = nodes[node as usize];
            (node.parent, node.of) == (parent, of)
        };
        if !has_room {
            return of_wide.find(hash(parent, of), is_it).unwrap_or(Self::LEFT_OUT);
        }
        let node = of_wide.find_or_insert(hash(parent, of), new, is_it);
        if node == new { self.push(parent, of) } else { node }
    }

    /// Whether there is room for one more node.
    #[inline]
    fn has_room(&mut self) -> bool {
        self.nodes.len() < self.most || self.has_more_room()
    }

    #[cold]
    fn has_more_room(&mut self) -> bool {
        let more = self.room.as_ref().map_or(0, StackRoom::take);
        self.most = (self.most + more).min(MOST_NODES);
        self.nodes.len() < self.most
    }

    /// The node of a sample without its callers, of which there is one for each place: it has always room.
    pub(crate) fn without_callers(&mut self, path: &[u32]) -> u32 {
        let most = std::mem::replace(&mut self.most, MOST_NODES);
        let node = self.below(Self::ROOT, path);
        self.most = most;
        node
    }

    /// A new node, its parent's first child.
    fn push(&mut self, parent: u32, of: u32) -> u32 {
        let new = self.nodes.len() as u32;
        let first = &mut self.nodes[parent as usize].first;
        let next = *first & !WIDE;
        *first = new | *first & WIDE;
        self.nodes.push(TreeNode { parent, of, first: NO_NODE, next });
        new
    }

    /// The node reached from `node` by a path.
    pub(crate) fn below(&mut self, node: u32, path: &[u32]) -> u32 {
        path.iter().fold(node, |parent, &of| self.child(parent, of))
    }

    /// Nodes from number 1 on, a parent before its children.
    pub(crate) fn into_nodes(self) -> Vec<Node> {
        let node = |node: TreeNode| Node { parent: node.parent, of: node.of };
        self.nodes.into_iter().skip(1).map(node).collect()
    }

    /// The tree level by level, the children of a node in the order of their frames; and the new
    /// number of each node.
    ///
    /// Nodes lie in memory as chains were met, level by level each would be somewhere else. So nothing is followed from
    /// node to node: they are distributed over the levels in the order in which they lie, and each level is sorted.
    pub(crate) fn in_order(self) -> (Stacks, Vec<u32>) {
        let Self { nodes, of_wide, .. } = self;
        drop(of_wide);
        let (by_level, ends) = levels(&nodes);
        let mut stacks = Stacks::with_capacity(nodes.len());
        let mut numbers = vec![Stacks::ROOT; nodes.len()];
        let mut level: Vec<(u64, u32)> = Vec::new();
        for ends in ends.windows(2) {
            level.clear();
            level.extend(by_level[ends[0]..ends[1]].iter().map(|&node| {
                let TreeNode { parent, of, .. } = nodes[node as usize];
                (u64::from(numbers[parent as usize]) << 32 | u64::from(of), node)
            }));
            level.sort_unstable();
            for &(key, node) in &level {
                numbers[node as usize] = stacks.push((key >> 32) as u32, key as u32);
            }
        }
        (stacks, numbers)
    }
}

/// Nodes by their distance from the root, those of one level in the order in which they came; and where each level ends, the
/// root's first.
fn levels(nodes: &[TreeNode]) -> (Vec<u32>, Vec<usize>) {
    let mut depths: Vec<u32> = Vec::with_capacity(nodes.len());
    let mut ends: Vec<usize> = Vec::new();
    for (node, at) in nodes.iter().zip(0_usize..) {
        // A parent comes before its children; the root is its own.
        let depth = if at == 0 { 0 } else { depths[node.parent as usize] + 1 };
        depths.push(depth);
        ends.resize(ends.len().max(depth as usize + 1), 0);
        ends[depth as usize] += 1;
    }
    let mut next = Vec::with_capacity(ends.len());
    let mut sum = 0;
    for end in &mut ends {
        next.push(sum);
        sum += *end;
        *end = sum;
    }
    let mut by_level = vec![0; nodes.len()];
    for (depth, node) in depths.into_iter().zip(0_u32..) {
        let at = &mut next[depth as usize];
        by_level[*at] = node;
        *at += 1;
    }
    (by_level, ends)
}

fn hash(parent: u32, of: u32) -> u64 {
    mix(parent.into(), u64::from(of) << 32 | u64::from(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Paths in a tree of at most `nodes` nodes.
    fn grown_within(nodes: usize, paths: &[Vec<u32>]) -> (Tree, Vec<u32>) {
        let mut tree = Tree::within(StackRoom::of_nodes(nodes));
        let reached = paths.iter().map(|path| tree.below(Tree::ROOT, path)).collect();
        (tree, reached)
    }

    fn grown(paths: &[Vec<u32>]) -> (Stacks, Vec<u32>) {
        let mut tree = Tree::default();
        let nodes: Vec<u32> = paths.iter().map(|path| tree.below(Tree::ROOT, path)).collect();
        let (stacks, numbers) = tree.in_order();
        (stacks, nodes.iter().map(|&node| numbers[node as usize]).collect())
    }

    proptest! {
        /// What has room is as in a tree without a limit, whatever comes after it; the rest is left out, and has a node
        /// without callers.
        #[test]
        fn a_full_tree_keeps_what_it_has(
            paths in proptest::collection::vec(proptest::collection::vec(0_u32..30, 1..4), 0..120),
            nodes in 0_usize..100,
        ) {
            let (mut tree, reached) = grown_within(nodes, &paths);
            let (mut all, expected) = grown_within(1000, &paths);
            prop_assert!(tree.nodes.len() <= 1 + nodes);
            let mut is_full = false;
            for (at, path) in paths.iter().enumerate() {
                is_full |= reached[at] == Tree::LEFT_OUT;
                prop_assert!(is_full || reached[at] == expected[at]);
                // Once left out, always left out; once there, always there.
                prop_assert_eq!(tree.below(Tree::ROOT, path), reached[at]);
                if reached[at] != Tree::LEFT_OUT {
                    let nodes = tree.nodes.clone();
                    let parent = |node: u32| nodes[node as usize].parent;
                    let of = std::iter::successors(Some(reached[at]), |&node| Some(parent(node)))
                        .take_while(|&node| node != Tree::ROOT)
                        .map(|node| nodes[node as usize].of);
                    prop_assert_eq!(of.collect::<Vec<_>>(), path.iter().rev().copied().collect::<Vec<_>>());
                }
            }
            for path in &paths {
                let leaf = &path[path.len() - 1..];
                let node = tree.without_callers(leaf);
                prop_assert_ne!(node, Tree::LEFT_OUT);
                prop_assert_eq!(tree.without_callers(leaf), node);
                prop_assert_eq!(all.without_callers(leaf), all.below(Tree::ROOT, leaf));
            }
        }

        #[test]
        fn paths_come_back_under_numbers_that_do_not_depend_on_the_order(
            paths in proptest::collection::vec(proptest::collection::vec(0_u32..30, 0..4), 0..120),
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
