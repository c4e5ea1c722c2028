//! The neighbors of a function: who calls it, and what it calls.
//!
//! A recursive function comes several times in one stack. Each sample counts once, at the outermost
//! time: its caller is who entered the recursion, what it calls there may be itself.
//!
//! ```text
//!  main ► f ► g ► f ► h        f: called by main, calls g
//! ```

use rustc_hash::FxHashMap;

use super::{CallSite, Sums, places};
use crate::aggregate::Aggregate;

/// A function that calls or is called.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbor {
    /// The function; `None` for what is no function: nobody calls it, or it calls nothing more.
    pub place: Option<CallSite>,
    /// Samples on the way between the two.
    pub sums: Sums,
}

/// A function with its callers and callees.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbors {
    /// Samples in the function or under it.
    pub total: Sums,
    /// Who calls it, the heaviest first; they add up to `total`.
    pub callers: Vec<Neighbor>,
    /// What it calls, the heaviest first; `None` is the function's own. They add up to `total`.
    pub callees: Vec<Neighbor>,
}

/// Neighbors of all functions that `is_it` accepts, taken as one; `None` if no sample has any.
#[must_use]
pub fn neighbors(
    counts: &Aggregate,
    event: u32,
    is_it: &dyn Fn(&CallSite) -> bool,
) -> Option<Neighbors> {
    let (place_of, places) = places(counts);
    let chosen: Vec<bool> = places.list.iter().map(is_it).collect();
    let mut total = Sums::default();
    let mut callers: FxHashMap<Option<u32>, Sums> = FxHashMap::default();
    let mut callees: FxHashMap<Option<u32>, Sums> = FxHashMap::default();
    let mut path: Vec<u32> = Vec::new();
    for cell in counts.of_event(event) {
        path.clear();
        path.extend(counts.stacks.frames(cell.stack).map(|frame| place_of[frame as usize]));
        // The innermost is first, so the outermost is the last.
        let Some(at) = path.iter().rposition(|&place| chosen[place as usize]) else { continue };
        let sums = Sums::of(cell);
        total.add(sums);
        callers.entry(path.get(at + 1).copied()).or_default().add(sums);
        callees.entry(at.checked_sub(1).map(|below| path[below])).or_default().add(sums);
    }
    let sorted = |found: FxHashMap<Option<u32>, Sums>| {
        let neighbor = |(place, sums): (Option<u32>, Sums)| Neighbor {
            place: place.map(|place| places.list[place as usize].clone()),
            sums,
        };
        let mut found: Vec<Neighbor> = found.into_iter().map(neighbor).collect();
        found.sort_by(|a, b| b.sums.weight.cmp(&a.sums.weight).then_with(|| a.place.cmp(&b.place)));
        found
    };
    (total.samples > 0).then(|| Neighbors {
        total,
        callers: sorted(callers),
        callees: sorted(callees),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::{aggregate, name, samples};
    use super::*;
    use proptest::prelude::*;

    fn by_name(found: &[Neighbor]) -> BTreeMap<Option<Option<String>>, u64> {
        let name = |place: &CallSite| place.function.as_deref().map(str::to_owned);
        found.iter().map(|one| (one.place.as_ref().map(name), one.sums.weight)).collect()
    }

    proptest! {
        #[test]
        fn each_sample_counts_once_at_the_outermost_time(samples in samples()) {
            let (mut callers, mut callees) = (BTreeMap::new(), BTreeMap::new());
            for sample in &samples {
                let Some(at) = sample.calls.iter().position(|&call| call == 1) else { continue };
                let named = |at: Option<usize>| at.map(|at| name(sample.calls[at]));
                *callers.entry(named(at.checked_sub(1))).or_default() += sample.weight;
                let below = (at + 1 < sample.calls.len()).then_some(at + 1);
                *callees.entry(named(below)).or_default() += sample.weight;
            }
            let is_it = |place: &CallSite| place.function.as_deref() == Some("f1");
            match neighbors(&aggregate(&samples), 0, &is_it) {
                Some(found) => {
                    prop_assert_eq!(by_name(&found.callers), callers);
                    prop_assert_eq!(by_name(&found.callees), callees);
                }
                None => prop_assert!(callers.is_empty()),
            }
        }
    }
}
