//! Trees of stacks to one, each of which is in order already: no lookup, two at a time, pairs on all CPUs.
//!
//! ```text
//!  a   main ─┬─ f ─ x        b   main ─┬─ g          children of one node are in the order of their frames,
//!            └─ g                      └─ h ─ x      so those of a and of b are merged as sorted lists are
//!
//!      main ─┬─ f ─ x      level by level: all nodes of a level are known before the next one begins
//!            ├─ g
//!            └─ h ─ x
//! ```

use crate::aggregate::{StackId, Stacks};
use crate::pool::in_parallel;

/// One tree, in the order of [`Tree::in_order`](super::tree::Tree::in_order) as all of `trees` are, and where the stacks of each
/// are in it.
pub(crate) fn merge_all(trees: Vec<Stacks>) -> (Stacks, Vec<Vec<StackId>>) {
    let itself = |stacks: &Stacks| (0..stacks.len() as StackId).collect();
    let mut all: Vec<(Stacks, Vec<Vec<StackId>>)> = trees
        .into_iter()
        .map(|stacks| (itself(&stacks), stacks))
        .map(|(own, stacks)| (stacks, vec![own]))
        .collect();
    while all.len() > 1 {
        let mut rest = all.into_iter();
        let pairs = std::iter::from_fn(|| Some((rest.next()?, rest.next())));
        all = in_parallel(pairs.collect::<Vec<_>>(), |(a, b)| match b {
            None => a,
            Some(b) => merge(a, b),
        });
    }
    all.pop().unwrap_or_default()
}

/// A tree, and where the stacks of those are that it was made of.
type Merged = (Stacks, Vec<Vec<StackId>>);

fn merge((a, of_a): Merged, (b, of_b): Merged) -> Merged {
    let (stacks, [places_a, places_b]) = merge_two(&a, &b);
    drop((a, b));
    let moved = |mut numbers: Vec<StackId>, places: &[StackId]| {
        numbers.iter_mut().for_each(|number| *number = places[*number as usize]);
        numbers
    };
    let from_a = of_a.into_iter().map(|numbers| moved(numbers, &places_a));
    let from_b = of_b.into_iter().map(|numbers| moved(numbers, &places_b));
    (stacks, from_a.chain(from_b).collect())
}

/// No stack of that tree.
const NONE: StackId = StackId::MAX;

fn merge_two(a: &Stacks, b: &Stacks) -> (Stacks, [Vec<StackId>; 2]) {
    let mut merged = Stacks::with_capacity(a.len().max(b.len()));
    let mut places = [vec![Stacks::ROOT; a.len()], vec![Stacks::ROOT; b.len()]];
    let (mut a, mut b) = (Children::new(a), Children::new(b));
    // What each merged stack is in either tree.
    let mut parts: Vec<[StackId; 2]> = Vec::with_capacity(a.stacks.len().max(b.stacks.len()));
    parts.push([Stacks::ROOT; 2]);
    let mut parent = 0;
    while let Some(&[in_a, in_b]) = parts.get(parent) {
        // Children come in the order of their parents in all three trees.
        loop {
            let (of_a, of_b) = (a.next_of(in_a), b.next_of(in_b));
            let frame =
                of_a.map(|(_, frame)| frame).into_iter().chain(of_b.map(|(_, frame)| frame)).min();
            let Some(frame) = frame else { break };
            let stack = merged.push(parent as StackId, frame);
            let mut part = [NONE; 2];
            if let Some((child, _)) = of_a.filter(|(_, other)| *other == frame) {
                (part[0], places[0][child as usize]) = (child, stack);
                a.next += 1;
            }
            if let Some((child, _)) = of_b.filter(|(_, other)| *other == frame) {
                (part[1], places[1][child as usize]) = (child, stack);
                b.next += 1;
            }
            parts.push(part);
        }
        parent += 1;
    }
    (merged, places)
}

/// The stacks of a tree one after another, which are the children of one after another.
struct Children<'a> {
    stacks: &'a Stacks,
    next: StackId,
}

impl<'a> Children<'a> {
    fn new(stacks: &'a Stacks) -> Self {
        Self { stacks, next: Stacks::ROOT + 1 }
    }

    /// The next child of a stack, with its [marked frame](Stacks::marked_frame).
    fn next_of(&self, parent: StackId) -> Option<(StackId, u32)> {
        let is_there = (self.next as usize) < self.stacks.len();
        let next = Some(self.next).filter(|_| is_there && parent != NONE)?;
        (self.stacks.parent(next) == Some(parent)).then_some(())?;
        Some((next, self.stacks.marked_frame(next)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_trees_are_the_tree_of_all_paths(
            all in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(0_u32..4, 0..5), 0..15), 0..6),
        ) {
            let grow = |paths: &[Vec<u32>]| {
                let mut tree = Tree::default();
                for path in paths {
                    tree.below(Tree::ROOT, path);
                }
                tree.in_order().0
            };
            let trees: Vec<Stacks> = all.iter().map(|paths| grow(paths)).collect();
            let (merged, places) = merge_all(trees.clone());
            prop_assert_eq!(&merged, &grow(&all.concat()));
            for (own, places) in trees.iter().zip(places) {
                prop_assert_eq!(own.len(), places.len());
                for (stack, place) in (0..).zip(places) {
                    prop_assert!(own.frames(stack).eq(merged.frames(place)));
                }
            }
        }
    }
}
