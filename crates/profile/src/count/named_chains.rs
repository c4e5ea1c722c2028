//! Samples with callers to stacks, where places have names already: functions are far fewer than places, and so are their
//! chains.
//!
//! Most samples have a chain that was met before. So a chain is one number, made from that of its callers, and looked up once;
//! only what is not found walks the tree, beginning at the innermost caller with a known stack:
//!
//! ```text
//!  steps    main ─ run ─ parse ─ read      read: 64 bits of its place and of the number of parse
//!  number   n₁     n₂    n₃      n₄ ─► KnownChains ─► stack          as a rule
//!  stack    s₁     s₂     ?      ?  ◄─ the tree of frames            else
//! ```
//! Two chains of one number would count as one: among ten million distinct ones that happens with a probability of 3 in a
//! million (the birthday bound of 64 bits).

use pmuscope_perfdata::reader::scan::SampleFields;

use crate::aggregate::{ASIDE, Stacks};
use crate::count::address_to_stack::AddressToStack;
use crate::count::chains::{Last, StackFrame, steps};
use crate::count::stack_room::StackRoom;
use crate::count::task_cache::{SampleTask, TaskCache};
use crate::count::tree::{ENTERED, Tree};
use crate::table::mix;
use crate::timeline::finder::{AddressTable, UNKNOWN_PLACE};
use crate::timeline::lookup::Lookup;

/// Slots of [`KnownChains`] at first and at most, as powers of two: 16 bytes each.
const FEWEST: u32 = 12;
const MOST: u32 = 20;
/// A stack that was not looked up.
const NOT_KNOWN: u32 = u32::MAX;

/// What places come to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedPlaces<'a> {
    /// The stack of each.
    pub(crate) located: &'a AddressToStack,
    /// These stacks: one frame, or several where functions are inlined.
    pub(crate) stacks: &'a Stacks,
    /// By frame: equal ones are of one function, or of none in the same module.
    pub(crate) functions: &'a [u32],
}

/// Grows the tree of frames.
#[derive(Debug)]
pub(crate) struct NamedChains<'a> {
    places: NamedPlaces<'a>,
    table: AddressTable<u32>,
    growing: GrowingStacks<'a>,
    known: KnownChains,
    /// By slot of the thread.
    last: Vec<Last<ChainEnd>>,
    steps: Vec<StackFrame>,
    /// Samples that count for their place alone: there was no [room](StackRoom) for their callers.
    pub(crate) without_callers: u64,
}

/// The result of a chain up to one of its steps.
#[derive(Debug, Clone, Copy)]
struct ChainEnd {
    /// The stack of the place of its last step, and perhaps [`ENTERED`] or [`ASIDE`].
    place: u32,
    /// Of the chain.
    number: u64,
    /// Its node, or [`NOT_KNOWN`].
    node: u32,
}

impl<'a> NamedChains<'a> {
    pub(crate) fn new(places: NamedPlaces<'a>, room: StackRoom) -> Self {
        let tree = Tree::within(room);
        Self {
            places,
            table: AddressTable::default(),
            growing: GrowingStacks { places, tree, path: Vec::new() },
            known: KnownChains::default(),
            last: vec![Last::default(); TaskCache::SLOTS],
            steps: Vec::new(),
            without_callers: 0,
        }
    }

    /// The node of a sample's call chain; its innermost address is where the sample was taken.
    pub(crate) fn node<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        ran: SampleTask,
        hit: &SampleFields<'_>,
    ) -> u32 {
        let Self { places, table, growing, known, last, steps: chain, without_callers } = self;
        let last = &mut last[ran.slot];
        steps(hit, chain);
        let shared = last.keep_shared(ran.view, lookup.stamp(at), chain);
        let (end, mut holds) = last.end();
        let mut number = end.map_or(0, |end| end.number);
        for &step in chain.iter().rev().skip(shared) {
            let find = |place| places.located.stack(place);
            let (place, held) = table.find((lookup, at), ran.view, (step.mode, step.address), find);
            let place = place | step.role.mark();
            number = mix(number, place.into());
            holds = holds.and(held);
            last.push(step, ChainEnd { place, number, node: NOT_KNOWN }, holds);
        }
        let node = match end.filter(|_| last.len() == shared) {
            Some(ChainEnd { node, .. }) if node != NOT_KNOWN => node,
            _ => known.find_or_insert(number, || growing.walk(last)),
        };
        if let Some(step) = last.len().checked_sub(1) {
            last.came_to(step).node = node;
        }
        let end = last.len().checked_sub(1).map(|step| last.came_to(step).place);
        let (node, place) = match (hit.ip, end) {
            (Some(_), Some(place)) => (node, place),
            _ => {
                let unknown = places.located.stack(UNKNOWN_PLACE);
                (growing.below(node, end, unknown), unknown)
            }
        };
        if node != Tree::LEFT_OUT {
            return node;
        }
        *without_callers += 1;
        growing.without_callers(place)
    }

    /// The stacks, and which one each node is.
    pub(crate) fn finish(self) -> (Stacks, Vec<u32>) {
        let Self { growing, table, known, last, .. } = self;
        // To put the tree in order takes most memory of all.
        drop((table, known, last));
        growing.tree.in_order()
    }
}

/// The tree of frames, as places add to it.
#[derive(Debug)]
struct GrowingStacks<'a> {
    places: NamedPlaces<'a>,
    tree: Tree,
    path: Vec<u32>,
}

impl GrowingStacks<'_> {
    /// The node of a chain, beginning at the innermost step with a known node.
    fn walk(&mut self, last: &mut Last<ChainEnd>) -> u32 {
        let known = (0..last.len()).rev().find(|&step| last.came_to(step).node != NOT_KNOWN);
        let mut above = known.map(|step| *last.came_to(step));
        for step in known.map_or(0, |step| step + 1)..last.len() {
            let node = above.map_or(Tree::ROOT, |end| end.node);
            let end = last.came_to(step);
            end.node = self.below(node, above.map(|end| end.place), end.place);
            above = Some(*end);
        }
        above.map_or(Tree::ROOT, |end| end.node)
    }

    /// The node of a place that is called from `node`. `caller` is the place of that.
    ///
    /// A function in which a sample was taken is there once: where it was entered counts only if that was
    /// another function, which jumped on (a stub, a tail call).
    fn below(&mut self, node: u32, caller: Option<u32>, place: u32) -> u32 {
        if place & ENTERED != 0 {
            // What it comes to depends on what is called from it.
            return node;
        }
        let entered = caller.filter(|caller| caller & ENTERED != 0).map(|caller| caller & !ENTERED);
        let Some(entered) = entered else { return self.descend(node, place) };
        let function = |place| {
            let outermost = self.places.stacks.frames(place).last()?;
            Some(self.places.functions[outermost as usize])
        };
        let (a, b) = (function(entered), function(place));
        let node = if a.is_some() && a == b { node } else { self.descend(node, entered) };
        self.descend(node, place)
    }

    /// The node of a place alone, where there is no room for its callers.
    #[cold]
    fn without_callers(&mut self, place: u32) -> u32 {
        let Self { places, tree, path } = self;
        path.clear();
        path.extend(places.stacks.frames(place & !(ENTERED | ASIDE)));
        path.reverse();
        tree.without_callers(path)
    }

    /// The frames of a place, the outermost first.
    fn descend(&mut self, node: u32, place: u32) -> u32 {
        let Self { places, tree, path } = self;
        path.clear();
        path.extend(places.stacks.frames(place & !ASIDE));
        path.iter().rev().fold(node, |node, &frame| tree.child(node, frame | place & ASIDE))
    }
}

/// Nodes of chains that were met, by the numbers of these. What has no room is forgotten: it is walked again.
#[derive(Debug)]
struct KnownChains {
    /// 2^bits slots, indexed by the upper bits of the chain's number.
    slots: Vec<(u64, u32)>,
    bits: u32,
    /// Slots that are taken.
    taken: usize,
}

impl Default for KnownChains {
    fn default() -> Self {
        Self { slots: vec![(0, NOT_KNOWN); 1 << FEWEST], bits: FEWEST, taken: 0 }
    }
}

impl KnownChains {
    #[inline]
    fn find_or_insert(&mut self, number: u64, walk: impl FnOnce() -> u32) -> u32 {
        let slot = self.slots[(number >> (64 - self.bits)) as usize];
        if slot.0 == number && slot.1 != NOT_KNOWN {
            return slot.1;
        }
        let node = walk();
        if self.bits < MOST && self.taken * 2 > self.slots.len() {
            self.grow();
        }
        let slot = &mut self.slots[(number >> (64 - self.bits)) as usize];
        self.taken += usize::from(slot.1 == NOT_KNOWN);
        *slot = (number, node);
        node
    }

    fn grow(&mut self) {
        self.bits += 1;
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(0, NOT_KNOWN); 1 << self.bits];
        // Those of one slot come to two next to each other: none is lost.
        for slot in old.into_iter().filter(|slot| slot.1 != NOT_KNOWN) {
            self.slots[(slot.0 >> (64 - self.bits)) as usize] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However chains share slots and the table grows, each comes to its own node.
        #[test]
        fn a_chain_comes_to_the_node_that_its_walk_comes_to(
            numbers in proptest::collection::vec((0_u64..40, 0_u64..200), 0..3000),
        ) {
            let mut known = KnownChains { slots: vec![(0, NOT_KNOWN); 4], bits: 2, taken: 0 };
            let mut walks = 0;
            for &(high, low) in &numbers {
                let number = high << 58 | low;
                let expected = (high * 1000 + low) as u32;
                let found = known.find_or_insert(number, || {
                    walks += 1;
                    expected
                });
                prop_assert_eq!(found, expected);
                // What was just met is known.
                prop_assert_eq!(known.find_or_insert(number, || NOT_KNOWN - 1), expected);
            }
            prop_assert!(walks <= numbers.len());
            prop_assert!(known.bits <= MOST);
        }
    }
}
