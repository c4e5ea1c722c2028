//! Where boxes stand: each below its parent, siblings from the widest, from any tree of weights.

use std::cmp::Reverse;

use super::{DEEPEST, FlameBox, FlameLimits, LeftOut};

/// A tree of weights, with what its boxes show. Node 0 is the root.
pub(super) trait FlameTree {
    /// Number of nodes.
    fn size(&self) -> usize;
    /// The node's own weight and that of all below; at least the sum of its children.
    fn weight(&self, at: u32) -> u64;
    /// The nodes right below that are in the picture.
    fn below(&self, at: u32) -> impl Iterator<Item = u32>;
    /// What siblings of equal weight are ordered by, so that the picture does not depend on chance.
    fn name(&self, at: u32) -> &str;
    /// What the box shows.
    fn face(&self, at: u32) -> Face;
}

/// What a box shows, wherever it stands.
#[derive(Debug, PartialEq)]
pub(super) struct Face {
    pub(super) name: String,
    pub(super) module: Option<String>,
    /// `#rrggbb`.
    pub(super) color: String,
    pub(super) samples: u64,
    pub(super) note: Option<String>,
    pub(super) figures: Option<String>,
}

/// Boxes, and what is not among them.
#[derive(Debug)]
pub(super) struct FlameLayout {
    pub(super) boxes: Vec<FlameBox>,
    pub(super) left_out: LeftOut,
}

impl FlameLayout {
    pub(super) fn new(tree: &impl FlameTree, limits: FlameLimits) -> Self {
        let total = tree.weight(0);
        let narrowest = narrowest(tree, limits);
        let mut left_out =
            LeftOut { below: narrowest as f64 / total.max(1) as f64, ..LeftOut::default() };
        let mut boxes: Vec<FlameBox> = Vec::new();
        let mut open = vec![(0_u32, 0_u32, 0_u64)];
        while let Some((at, depth, start)) = open.pop() {
            let weight = tree.weight(at);
            if weight < narrowest || depth > DEEPEST {
                let size = number_below(tree, at);
                left_out.boxes += size;
                left_out.too_deep += if depth > DEEPEST { size } else { 0 };
                continue;
            }
            let children = children(tree, at);
            let inner: u64 = children.iter().map(|&child| tree.weight(child)).sum();
            let own = weight.saturating_sub(inner);
            boxes.push(FlameBox::new(tree.face(at), depth, start, (weight, own)));
            let mut next = start;
            for child in children {
                open.push((child, depth + 1, next));
                next += tree.weight(child);
            }
        }
        boxes.sort_by_key(|one| (one.depth, one.start));
        Self { boxes, left_out }
    }

    /// Largest depth of a box.
    pub(super) fn deepest(&self) -> u32 {
        self.boxes.iter().map(|one| one.depth).max().unwrap_or(0)
    }
}

impl FlameBox {
    pub(super) fn new(face: Face, depth: u32, start: u64, (weight, own): (u64, u64)) -> Self {
        let Face { name, module, color, samples, note, figures } = face;
        Self { name, module, color, depth, start, weight, own, samples, note, figures }
    }
}

/// The heaviest first; equal ones by name.
fn children(tree: &impl FlameTree, at: u32) -> Vec<u32> {
    let mut children: Vec<u32> = tree.below(at).collect();
    children.sort_by_key(|&child| (Reverse(tree.weight(child)), tree.name(child), child));
    children
}

/// Number of nodes from this one on.
fn number_below(tree: &impl FlameTree, at: u32) -> usize {
    let mut size = 0;
    let mut open = vec![at];
    while let Some(at) = open.pop() {
        size += 1;
        open.extend(tree.below(at));
    }
    size
}

/// The smallest weight that is drawn. A caller weighs at least as much as what it calls, so what is
/// drawn is a tree.
fn narrowest(tree: &impl FlameTree, limits: FlameLimits) -> u64 {
    let by_share = (tree.weight(0) as f64 * limits.share).ceil() as u64;
    let mut weights: Vec<u64> = (0..tree.size() as u32).map(|at| tree.weight(at)).collect();
    let by_number = if weights.len() > limits.boxes && limits.boxes > 0 {
        let (_, last, _) = weights.select_nth_unstable_by(limits.boxes, |a, b| b.cmp(a));
        *last + 1
    } else {
        0
    };
    by_share.max(by_number).max(1)
}
