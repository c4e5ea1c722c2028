//! Call trees: from the outermost function in, or from the sampled function out.

use rustc_hash::FxHashMap;

use super::{CallSite, Sums, places};
use crate::aggregate::{Aggregate, StackId};
use crate::table::ValueNumbers;

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

/// The call tree of one event. Frames of one function are one node, whatever line they are at.
#[must_use]
pub fn call_tree(counts: &Aggregate, event: u32, direction: Direction) -> CallTree {
    let (place_of, places) = places(counts);
    let mut growing = Growing::new(places);
    match direction {
        Direction::Callees => from_outside(counts, event, &place_of, &mut growing),
        Direction::Callers => from_inside(counts, event, &place_of, &mut growing),
    }
    let Growing { mut nodes, .. } = growing;
    sort_children(&mut nodes);
    CallTree { nodes }
}

/// Each stack once, behind its callers: what is distinct is looked up, not what was sampled.
fn from_outside(counts: &Aggregate, event: u32, place_of: &[u32], growing: &mut Growing) {
    let stacks = &counts.stacks;
    let mut own = vec![Sums::default(); stacks.len()];
    let mut is_met = vec![false; stacks.len()];
    for cell in counts.of_event(event) {
        own[cell.stack as usize].add(Sums::of(cell));
        is_met[cell.stack as usize] = true;
    }
    let mut total = own.clone();
    let numbers = 0..stacks.len() as StackId;
    // Callers come before what they call.
    for (stack, parent) in numbers.clone().rev().filter_map(|at| Some((at, stacks.parent(at)?))) {
        if is_met[stack as usize] {
            is_met[parent as usize] = true;
            let sums = total[stack as usize];
            total[parent as usize].add(sums);
        }
    }
    let mut node_of = vec![0; stacks.len()];
    for stack in numbers {
        let at = stack as usize;
        if !is_met[at] {
            continue;
        }
        if let (Some(parent), Some(frame)) = (stacks.parent(stack), stacks.frame(stack)) {
            node_of[at] = growing.child(node_of[parent as usize], place_of[frame as usize]);
        }
        let node = &mut growing.nodes[node_of[at]];
        node.own.add(own[at]);
        node.total.add(total[at]);
    }
}

/// Stacks read from their inner end share nothing that is known before.
fn from_inside(counts: &Aggregate, event: u32, place_of: &[u32], growing: &mut Growing) {
    for cell in counts.of_event(event) {
        let sums = Sums::of(cell);
        let mut at = 0;
        growing.nodes[at].total.add(sums);
        for frame in counts.stacks.frames(cell.stack) {
            at = growing.child(at, place_of[frame as usize]);
            growing.nodes[at].total.add(sums);
        }
        growing.nodes[at].own.add(sums);
    }
}

/// A tree of which each node is found by its parent and its function.
struct Growing {
    nodes: Vec<CallNode>,
    known: FxHashMap<(usize, u32), usize>,
    places: ValueNumbers<CallSite>,
}

impl Growing {
    fn new(places: ValueNumbers<CallSite>) -> Self {
        let root = CallNode {
            place: None,
            own: Sums::default(),
            total: Sums::default(),
            children: vec![],
        };
        Self { nodes: vec![root], known: FxHashMap::default(), places }
    }

    fn child(&mut self, parent: usize, place: u32) -> usize {
        let Self { nodes, known, places } = self;
        *known.entry((parent, place)).or_insert_with(|| {
            let next = nodes.len();
            nodes[parent].children.push(next);
            let place = Some(places.list[place as usize].clone());
            let (own, total) = (Sums::default(), Sums::default());
            nodes.push(CallNode { place, own, total, children: vec![] });
            next
        })
    }
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
            prop_assert_eq!(paths(&call_tree(&aggregate(&samples), 0, direction)), expected);
        }
    }
}
