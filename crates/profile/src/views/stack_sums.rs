//! Sums over the stacks of some cells and all their callers, without a lookup for each.
//!
//! Numbers of stacks go level by level, so callers of stacks from the last to the first are in that order too. Two
//! queues in order are merged, and what is taken gives its sums to its caller:
//!
//! ```text
//!  stacks of cells, the last first   9 7 4 2 ─┐
//!                                             ├─► the larger head ─► node ─► its caller, at the end of the queue
//!  callers of what was taken         6 5 3 1 ─┘
//! ```
//! All callees of a stack have larger numbers, so a stack has all its sums when it is taken.

use std::collections::VecDeque;
use std::ops::Range;

use super::Sums;
use crate::aggregate::{StackId, Stacks};

/// There are sums of a good part of all stacks where those of one in this many are given.
const DENSE: usize = 8;

/// A tree of stacks, level by level; the callees of one are next to each other.
#[derive(Debug)]
pub(crate) struct StackSums {
    stacks: Vec<StackId>,
    /// Sums of each and of all below.
    totals: Vec<Sums>,
    /// Where the callees of each begin; they end where those of the next begin.
    callees: Vec<u32>,
}

impl StackSums {
    /// The empty stack, which is there if anything is.
    pub(crate) const ROOT: u32 = 0;

    /// Of sums of stacks, in any order and each as often as wanted. Where there are sums of a good part of all stacks, the
    /// queues are of no use: one pass over all stacks from the last to the first gives each sum to the caller.
    pub(crate) fn new(
        stacks: &Stacks,
        own: impl IntoIterator<Item = (StackId, Sums), IntoIter: ExactSizeIterator>,
    ) -> Self {
        let own = own.into_iter();
        let Some((order, rank)) = stacks.levels() else {
            if own.len() * DENSE >= stacks.len() {
                return Self::of_most(stacks, own);
            }
            let mut own: Vec<(StackId, Sums)> = own.collect();
            if !own.is_sorted_by_key(|(stack, _)| *stack) {
                own.sort_unstable_by_key(|(stack, _)| *stack);
            }
            return Self::of_levels(own, |stack| stacks.parent(stack));
        };
        let mut own: Vec<(StackId, Sums)> =
            own.map(|(stack, sums)| (rank[stack as usize], sums)).collect();
        own.sort_unstable_by_key(|(stack, _)| *stack);
        let parent = |at: u32| Some(rank[stacks.parent(order[at as usize])? as usize]);
        let mut sums = Self::of_levels(own, parent);
        sums.stacks.iter_mut().for_each(|stack| *stack = order[*stack as usize]);
        sums
    }

    fn of_most(stacks: &Stacks, own: impl ExactSizeIterator<Item = (StackId, Sums)>) -> Self {
        let mut totals: Vec<Sums> = vec![Sums::default(); stacks.len()];
        let mut is_there = vec![false; stacks.len()];
        for (stack, sums) in own {
            totals[stack as usize].add(sums);
            is_there[stack as usize] = true;
        }
        for stack in (1..stacks.len()).rev() {
            let Some(caller) = stacks.parent(stack as StackId).filter(|_| is_there[stack]) else {
                continue;
            };
            let sums = totals[stack];
            totals[caller as usize].add(sums);
            is_there[caller as usize] = true;
        }
        let mut there = is_there.iter().copied();
        totals.retain(|_| there.next().unwrap_or_default());
        let stacks_there = (0..).zip(&is_there).filter(|(_, is_there)| **is_there);
        let there: Vec<StackId> = stacks_there.map(|(stack, _)| stack).collect();
        let callees = callees(&there, |stack| stacks.parent(stack));
        Self { stacks: there, totals, callees }
    }

    /// `own` is in order, and so are callers of what is in order.
    fn of_levels(own: Vec<(StackId, Sums)>, parent: impl Fn(StackId) -> Option<StackId>) -> Self {
        let (mut stacks, mut totals) = (Vec::new(), Vec::new());
        let mut own = own.into_iter().rev().peekable();
        let mut callers: VecDeque<(StackId, Sums)> = VecDeque::new();
        let head = |own: Option<&(StackId, Sums)>, caller: Option<&(StackId, Sums)>| {
            own.map(|one| one.0).max(caller.map(|one| one.0))
        };
        while let Some(stack) = head(own.peek(), callers.front()) {
            let mut total = Sums::default();
            if let Some((_, sums)) = callers.front().filter(|(caller, _)| *caller == stack) {
                total.add(*sums);
                callers.pop_front();
            }
            while let Some((_, sums)) = own.next_if(|(one, _)| *one == stack) {
                total.add(sums);
            }
            stacks.push(stack);
            totals.push(total);
            match (parent(stack), callers.back_mut()) {
                (Some(caller), Some((last, sums))) if *last == caller => sums.add(total),
                (Some(caller), _) => callers.push_back((caller, total)),
                (None, _) => {}
            }
        }
        stacks.reverse();
        totals.reverse();
        let callees = callees(&stacks, parent);
        Self { stacks, totals, callees }
    }

    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.stacks.len()
    }

    /// The stack of a node.
    pub(crate) fn stack(&self, node: u32) -> StackId {
        self.stacks[node as usize]
    }

    /// What was counted in the stack of a node, and in all below.
    pub(crate) fn total(&self, node: u32) -> Sums {
        self.totals[node as usize]
    }

    /// The nodes right below.
    pub(crate) fn callees(&self, node: u32) -> Range<u32> {
        self.callees[node as usize]..self.callees[node as usize + 1]
    }
}

/// Where the callees of each stack begin, and one more at the end.
fn callees(stacks: &[StackId], parent: impl Fn(StackId) -> Option<StackId>) -> Vec<u32> {
    let mut begins = Vec::with_capacity(stacks.len() + 1);
    begins.push(1);
    for (at, &stack) in stacks.iter().enumerate().skip(1) {
        // Callers of all are among the nodes; those that this passes over call nothing.
        while begins.len() < stacks.len() && parent(stack) != Some(stacks[begins.len() - 1]) {
            begins.push(at as u32);
        }
    }
    begins.resize(stacks.len() + 1, stacks.len() as u32);
    begins
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    /// A tree whose stacks are called from any stack before them.
    fn stacks() -> impl Strategy<Value = (Vec<u32>, bool)> {
        (proptest::collection::vec(0_u32..1000, 0..60), any::<bool>())
    }

    proptest! {
        #[test]
        fn each_stack_has_the_sums_of_all_that_it_leads_to(
            (callers, by_level) in stacks(),
            own in proptest::collection::vec((0_usize..1000, 1_u64..9), 0..80),
        ) {
            let mut callers: Vec<u32> =
                callers.iter().zip(1..).map(|(&any, number)| any % number).collect();
            if by_level {
                callers.sort_unstable();
            }
            let mut made = Stacks::default();
            for &caller in &callers {
                made.push(caller, 0);
            }
            prop_assert_eq!(made.levels().is_none(), callers.is_sorted());
            let sums = |weight| Sums { samples: 1, weight };
            let own: Vec<(u32, Sums)> =
                own.iter().map(|&(any, weight)| ((any % made.len()) as u32, sums(weight))).collect();
            let mut expected: BTreeMap<u32, Sums> = BTreeMap::new();
            for &(stack, sums) in &own {
                let way = std::iter::successors(Some(stack), |&stack| made.parent(stack));
                way.for_each(|stack| expected.entry(stack).or_default().add(sums));
            }
            let found = StackSums::new(&made, own.clone());
            let totals: BTreeMap<u32, Sums> =
                (0..found.len() as u32).map(|node| (found.stack(node), found.total(node))).collect();
            prop_assert_eq!(totals.len(), found.len());
            prop_assert_eq!(totals, expected);
            let mut met = usize::from(found.len() > 0);
            for node in 0..found.len() as u32 {
                for callee in found.callees(node) {
                    prop_assert!(callee > node);
                    prop_assert_eq!(made.parent(found.stack(callee)), Some(found.stack(node)));
                    met += 1;
                }
            }
            prop_assert_eq!(met, found.len(), "each has its caller");
        }
    }
}
