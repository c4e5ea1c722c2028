//! Call trees: from the outermost function in, or from the sampled function out.

use super::stack_tree::{CallersBranch, CallersTree, StackBranch, StackTree};
use super::{CallSite, Sums, places};
use crate::aggregate::Aggregate;

/// Which end of the stacks the tree grows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the outermost caller to what it called.
    Callees,
    /// From the function a sample is in to its callers.
    Callers,
}

/// A tree of calls.
#[derive(Debug, Clone)]
pub struct CallTree {
    /// The first is the root, which stands for all samples; a parent comes before its children.
    pub nodes: Vec<CallNode>,
}

/// A function on one way to it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallNode {
    /// The function; `None` of the root.
    pub place: Option<CallSite>,
    /// Samples whose stack ends here, seen from the root.
    pub own: Sums,
    /// Samples of this way and all that go on from it.
    pub total: Sums,
    /// Nodes that go on from here, the heaviest first.
    pub children: Vec<usize>,
}

/// The call tree of one event. Frames of one function are one node, whatever line they are at. What weighs less than
/// `least` of all, 0 to 1, has no children.
#[must_use]
pub fn call_tree(counts: &Aggregate, event: u32, direction: Direction, least: f64) -> CallTree {
    let (place_of, places) = places(counts);
    let own = counts.of_event(event).iter().map(|cell| (cell.stack, Sums::of(cell)));
    let (stacks, keys, places) = (&counts.stacks, &place_of[..], &places.list);
    let mut nodes = match direction {
        Direction::Callees => grow(&StackTree::new(stacks, keys, own), places, least),
        Direction::Callers => grow(&CallersTree::new(stacks, keys, own), places, least),
    };
    sort_children(&mut nodes);
    CallTree { nodes }
}

/// A tree that is taken apart branch by branch.
trait Branches {
    type Branch;
    fn root(&self) -> Self::Branch;
    fn below(&self, branch: &Self::Branch) -> Vec<Self::Branch>;
    /// What its innermost frame comes to, what was counted in it, and in it and all below.
    fn sums(&self, branch: &Self::Branch) -> (u32, Sums, Sums);
}

impl Branches for StackTree<'_> {
    type Branch = StackBranch;

    fn root(&self) -> StackBranch {
        self.root()
    }

    fn below(&self, branch: &StackBranch) -> Vec<StackBranch> {
        self.callees(branch)
    }

    fn sums(&self, branch: &StackBranch) -> (u32, Sums, Sums) {
        (branch.key, self.own(branch), branch.total)
    }
}

impl Branches for CallersTree<'_> {
    type Branch = CallersBranch;

    fn root(&self) -> CallersBranch {
        self.root().clone()
    }

    fn below(&self, branch: &CallersBranch) -> Vec<CallersBranch> {
        self.callers(branch)
    }

    fn sums(&self, branch: &CallersBranch) -> (u32, Sums, Sums) {
        (branch.key, self.own(branch), branch.total)
    }
}

/// Nodes of all branches that lead through none below `least`.
fn grow<T: Branches>(tree: &T, places: &[CallSite], least: f64) -> Vec<CallNode> {
    let root = tree.root();
    let (_, own, total) = tree.sums(&root);
    let all = total.weight as f64;
    let mut nodes = vec![CallNode { place: None, own, total, children: Vec::new() }];
    let mut open = vec![(0, root)];
    while let Some((at, branch)) = open.pop() {
        for below in tree.below(&branch) {
            let (key, own, total) = tree.sums(&below);
            let (next, place) = (nodes.len(), places.get(key as usize).cloned());
            nodes.push(CallNode { place, own, total, children: Vec::new() });
            nodes[at].children.push(next);
            if total.weight as f64 / all >= least {
                open.push((next, below));
            }
        }
    }
    nodes
}

/// The heaviest first; equal ones by name, so that the order never depends on chance.
fn sort_children(nodes: &mut [CallNode]) {
    for at in 0..nodes.len() {
        let mut children = std::mem::take(&mut nodes[at].children);
        children.sort_by(|&a, &b| {
            let (a, b) = (&nodes[a], &nodes[b]);
            b.total.weight.cmp(&a.total.weight).then_with(|| a.place.cmp(&b.place))
        });
        nodes[at].children = children;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::{aggregate, module, name, samples};
    use super::*;
    use proptest::prelude::*;

    /// Weight of each path from the root, in it and below it.
    fn paths(tree: &CallTree) -> BTreeMap<Vec<CallSite>, (u64, u64)> {
        let mut found = BTreeMap::new();
        let mut open = vec![(0, Vec::new())];
        while let Some((at, path)) = open.pop() {
            let node = &tree.nodes[at];
            found.insert(path.clone(), (node.own.weight, node.total.weight));
            for &child in &node.children {
                let place = tree.nodes[child].place.clone().unwrap();
                open.push((child, [path.clone(), vec![place]].concat()));
            }
        }
        found
    }

    proptest! {
        #[test]
        fn each_way_weighs_what_went_it(samples in samples(), callers in any::<bool>()) {
            let mut expected: BTreeMap<Vec<CallSite>, (u64, u64)> = BTreeMap::new();
            for sample in &samples {
                let place = |&call: &usize| CallSite {
                    function: name(call).map(Into::into),
                    module: module(call),
                };
                let mut path: Vec<CallSite> = sample.calls.iter().map(place).collect();
                if callers {
                    path.reverse();
                }
                for end in 0..=path.len() {
                    let sums = expected.entry(path[..end].to_vec()).or_default();
                    sums.1 += sample.weight;
                    sums.0 += if end == path.len() { sample.weight } else { 0 };
                }
            }
            let direction = if callers { Direction::Callers } else { Direction::Callees };
            let counts = aggregate(&samples);
            prop_assert_eq!(paths(&call_tree(&counts, 0, direction, 0.0)), expected.clone());
            // What is shown of the heavy ones does not depend on the rest.
            let all = expected[&Vec::new()].1;
            let is_heavy = |path: &[CallSite]| expected[path].1 * 4 >= all;
            let heavy = expected.iter().filter(|(path, _)| {
                (0..path.len()).all(|end| is_heavy(&path[..end]))
            });
            let heavy = heavy.map(|(path, sums)| (path.clone(), *sums)).collect();
            prop_assert_eq!(paths(&call_tree(&counts, 0, direction, 0.25)), heavy);
        }
    }
}
