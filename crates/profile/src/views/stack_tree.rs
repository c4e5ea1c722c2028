//! Stacks as a tree of what their frames come to, taken apart only where somebody looks.
//!
//! Frames that come to the same under the same caller are one branch: places within a function, or a function that is
//! inlined here and called there. A branch keeps the stacks that it is made of, so that what it leads on to is found
//! without a lookup:
//!
//! ```text
//!  stacks     f+10 ─┬─ g        branch f: f+10, f+24        its callees: g of both, h
//!             f+24 ─┼─ g
//!                   └─ h
//! ```
//! The heaviest branches are all that tables and pictures show; a branch weighs no more than its caller.

use super::Sums;
use super::stack_sums::StackSums;
use crate::aggregate::{StackId, Stacks};

/// Stacks with what was counted in them, from the outermost frame in.
#[derive(Debug)]
pub struct StackTree<'a> {
    stacks: &'a Stacks,
    /// By frame.
    keys: &'a [u32],
    sums: StackSums,
}

/// Stacks that come to the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackBranch {
    /// What the innermost frame comes to.
    pub key: u32,
    /// What was counted in it and in all below.
    pub total: Sums,
    /// Nodes of the sums.
    members: Vec<u32>,
}

impl<'a> StackTree<'a> {
    /// Of what was counted in stacks, in any order and each as often as wanted; `keys` tell for each frame what it
    /// comes to.
    #[must_use]
    pub fn new(
        stacks: &'a Stacks,
        keys: &'a [u32],
        own: impl IntoIterator<Item = (StackId, Sums), IntoIter: ExactSizeIterator>,
    ) -> Self {
        Self { stacks, keys, sums: StackSums::new(stacks, own) }
    }

    /// All of them; its key means nothing.
    #[must_use]
    pub fn root(&self) -> StackBranch {
        if self.sums.len() == 0 {
            return StackBranch { key: 0, total: Sums::default(), members: Vec::new() };
        }
        let total = self.sums.total(StackSums::ROOT);
        StackBranch { key: 0, total, members: vec![StackSums::ROOT] }
    }

    /// What a branch calls, by key.
    #[must_use]
    pub fn callees(&self, branch: &StackBranch) -> Vec<StackBranch> {
        let below = branch.members.iter().flat_map(|&node| self.sums.callees(node));
        let mut below: Vec<(u32, u32)> = below.map(|node| (self.key(node), node)).collect();
        below.sort_unstable();
        let same = below.chunk_by(|(a, _), (b, _)| a == b);
        let branch = |same: &[(u32, u32)]| StackBranch {
            key: same[0].0,
            total: sum(same.iter().map(|(_, node)| self.sums.total(*node))),
            members: same.iter().map(|(_, node)| *node).collect(),
        };
        same.map(branch).collect()
    }

    /// What was counted in a branch itself.
    #[must_use]
    pub fn own(&self, branch: &StackBranch) -> Sums {
        let below = branch.members.iter().flat_map(|&node| self.sums.callees(node));
        branch.total.less(sum(below.map(|node| self.sums.total(node))))
    }

    fn key(&self, node: u32) -> u32 {
        let frame = self.stacks.frame(self.sums.stack(node));
        frame.map_or(0, |frame| self.keys[frame as usize])
    }
}

fn sum(all: impl Iterator<Item = Sums>) -> Sums {
    all.fold(Sums::default(), Sums::and)
}

/// Stacks with what was counted in them, from the innermost frame out.
#[derive(Debug)]
pub struct CallersTree<'a> {
    stacks: &'a Stacks,
    keys: &'a [u32],
    root: CallersBranch,
}

/// Stacks that end in the same frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallersBranch {
    /// What the outermost of these frames comes to.
    pub key: u32,
    /// What was counted in them.
    pub total: Sums,
    /// The callers of each, and what was counted there.
    rests: Vec<(StackId, Sums)>,
}

impl<'a> CallersTree<'a> {
    /// As [`StackTree::new`].
    #[must_use]
    pub fn new(
        stacks: &'a Stacks,
        keys: &'a [u32],
        own: impl IntoIterator<Item = (StackId, Sums)>,
    ) -> Self {
        let mut rests: Vec<(StackId, Sums)> = Vec::new();
        for (stack, sums) in own {
            // Cells of one stack differ in who ran, and lie next to each other.
            match rests.last_mut().filter(|last| last.0 == stack) {
                Some(last) => last.1.add(sums),
                None => rests.push((stack, sums)),
            }
        }
        let total = sum(rests.iter().map(|(_, sums)| *sums));
        Self { stacks, keys, root: CallersBranch { key: 0, total, rests } }
    }

    /// All of them; its key means nothing.
    #[must_use]
    pub fn root(&self) -> &CallersBranch {
        &self.root
    }

    /// What called a branch, by key.
    #[must_use]
    pub fn callers(&self, branch: &CallersBranch) -> Vec<CallersBranch> {
        let next = |&(stack, sums): &(StackId, Sums)| {
            let (frame, caller) = (self.stacks.frame(stack)?, self.stacks.parent(stack)?);
            Some((self.keys[frame as usize], caller, sums))
        };
        let above: Vec<(u32, StackId, Sums)> = branch.rests.iter().filter_map(next).collect();
        let above = by_key_and_caller(above);
        let same = above.chunk_by(|a, b| a.0 == b.0);
        let branch = |same: &[(u32, StackId, Sums)]| CallersBranch {
            key: same[0].0,
            total: sum(same.iter().map(|(.., sums)| *sums)),
            rests: same
                .chunk_by(|a, b| a.1 == b.1)
                .map(|same| (same[0].1, sum(same.iter().map(|(.., sums)| *sums))))
                .collect(),
        };
        same.map(branch).collect()
    }

    /// What was counted in stacks that have no more callers.
    #[must_use]
    pub fn own(&self, branch: &CallersBranch) -> Sums {
        let ended = branch.rests.iter().filter(|(stack, _)| *stack == Stacks::ROOT);
        sum(ended.map(|(_, sums)| *sums))
    }
}

/// In the order of keys and callers. Callers of stacks in order are in order as a rule, as those of all cells are: then
/// what has the same key need only be put together.
fn by_key_and_caller(mut all: Vec<(u32, StackId, Sums)>) -> Vec<(u32, StackId, Sums)> {
    let keys = all.iter().map(|one| one.0 as usize + 1).max().unwrap_or(0);
    if keys > all.len() || !all.is_sorted_by_key(|one| one.1) {
        all.sort_unstable_by_key(|&(key, caller, _)| (key, caller));
        return all;
    }
    let mut nexts = vec![0_u32; keys + 1];
    for (key, ..) in &all {
        nexts[*key as usize + 1] += 1;
    }
    for at in 1..nexts.len() {
        nexts[at] += nexts[at - 1];
    }
    let mut sorted = vec![(0, Stacks::ROOT, Sums::default()); all.len()];
    for one in all {
        let next = &mut nexts[one.0 as usize];
        sorted[*next as usize] = one;
        *next += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_together_is_sorted(
            mut all in proptest::collection::vec((0_u32..9, 0_u32..50), 0..40), in_order in any::<bool>(),
        ) {
            if in_order {
                all.sort_by_key(|one| one.1);
            }
            let all: Vec<_> = all.into_iter().map(|(key, caller)| (key, caller, Sums::default())).collect();
            let mut sorted = all.clone();
            sorted.sort_by_key(|&(key, caller, _)| (key, caller));
            prop_assert_eq!(by_key_and_caller(all), sorted);
        }
    }
}
