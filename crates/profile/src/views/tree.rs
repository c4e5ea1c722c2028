//! Call trees: from the outermost function in, or from the sampled function out.

use rustc_hash::FxHashMap;

use super::{Place, Sums, places};
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
    pub nodes: Vec<Node>,
}

/// A function on one way to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The function; `None` of the root.
    pub place: Option<Place>,
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
    let root = Node { place: None, own: Sums::default(), total: Sums::default(), children: vec![] };
    let mut nodes = vec![root];
    let mut known: FxHashMap<(usize, u32), usize> = FxHashMap::default();
    let mut path: Vec<u32> = Vec::new();
    for cell in counts.of_event(event) {
        path.clear();
        path.extend(counts.stacks.frames(cell.stack).map(|frame| place_of[frame as usize]));
        if direction == Direction::Callees {
            path.reverse();
        }
        let sums = Sums { samples: cell.samples, weight: cell.weight };
        let mut at = 0;
        nodes[at].total.add(sums);
        for &place in &path {
            let next = nodes.len();
            at = *known.entry((at, place)).or_insert_with(|| {
                nodes[at].children.push(next);
                next
            });
            if at == next {
                let place = Some(places.get(place).clone());
                nodes.push(Node {
                    place,
                    own: Sums::default(),
                    total: Sums::default(),
                    children: vec![],
                });
            }
            nodes[at].total.add(sums);
        }
        nodes[at].own.add(sums);
    }
    sort_children(&mut nodes);
    CallTree { nodes }
}

/// The heaviest first; equal ones by name, so that the order never depends on chance.
fn sort_children(nodes: &mut [Node]) {
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
    fn paths(tree: &CallTree) -> BTreeMap<Vec<Place>, (u64, u64)> {
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
            let mut expected: BTreeMap<Vec<Place>, (u64, u64)> = BTreeMap::new();
            for sample in &samples {
                let place = |&call: &usize| Place {
                    function: name(call).map(Into::into),
                    module: module(call),
                };
                let mut path: Vec<Place> = sample.calls.iter().map(place).collect();
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
