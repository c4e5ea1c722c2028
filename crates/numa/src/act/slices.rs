//! Pages of other processes, moved a little at a time.
//!
//! ```text
//! region  |--|======2 MiB======|======2 MiB======|====--|     blocks: a huge page moves as a whole,
//!                     ▲ cursor                                so a block is moved whole or not at all
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use pmuscope_machine::pages::{PageState, move_to, states};
use pmuscope_machine::{Machine, place};

use super::ActError;
use crate::balance::{Goal, Owed, Slice, Turns};

/// Pages looked at in one call at most, however few of them are to move: a millisecond or two.
const LOOKED_AT: usize = 1 << 13;

/// Moves pages of processes.
#[derive(Debug)]
pub(super) struct Mover {
    machine: Machine,
    page: u64,
    /// Bytes of a huge page.
    block: u64,
    /// Memory of the process whose turn it is.
    regions: Option<(u32, Vec<Range<u64>>)>,
    /// How far pages have been laid on nodes in turn.
    turns: Option<Turns>,
}

impl Mover {
    pub(super) fn new(machine: &Machine, block: u64) -> Self {
        let page = place::page_size() as u64;
        Self { machine: machine.clone(), page, block: block.max(page), regions: None, turns: None }
    }

    /// As [`crate::balance::World::move_slice`]; the cursor is an address.
    pub(super) fn slice(
        &mut self,
        pid: u32,
        goal: &Goal,
        cursor: &mut u64,
        bytes: u64,
    ) -> Result<Slice, ActError> {
        if *cursor == 0 || self.regions.as_ref().is_none_or(|(of, _)| *of != pid) {
            let regions = crate::observe::writable(&self.machine.mappings(pid)?, self.page);
            self.regions = Some((pid, regions));
        }
        if *cursor == 0 {
            self.turns = match goal {
                Goal::Interleave { nodes } => Some(Turns::new(nodes, self.block)),
                Goal::To { .. } | Goal::Back { .. } => None,
            };
        }
        let mut owed = match goal {
            Goal::Back { owed, .. } => owed.clone(),
            Goal::To { .. } | Goal::Interleave { .. } => Owed::default(),
        };
        let regions = self.regions.as_ref().map_or(&[][..], |(_, regions)| regions);
        let mut left = bytes;
        let mut looked_at = 0;
        let mut done = true;
        let mut orders = Vec::new();
        let mut origins = Vec::new();
        for block in blocks(regions, self.block, *cursor) {
            let pages: Vec<u64> = block.clone().step_by(self.page as usize).collect();
            if looked_at > 0 && looked_at + pages.len() > LOOKED_AT {
                done = false;
                break;
            }
            looked_at += pages.len();
            let now = states(Some(pid), &pages).map_err(|error| refused(pid, error))?;
            // Its turn is only over once it moves.
            let mut turns = self.turns.clone();
            let turn = match turns.as_mut() {
                Some(turns) => turn(turns, &now, self.page),
                None => owed.next(),
            };
            let wanted: Vec<((u64, u32), u32)> = (pages.iter().zip(&now))
                .filter_map(|(&page, state)| {
                    let from = state.node()?;
                    let to = target(goal, turn, from)?;
                    Some(((page, to), from))
                })
                .collect();
            let size = wanted.len() as u64 * self.page;
            if size > left {
                done = false;
                break;
            }
            left -= size;
            self.turns = turns;
            if let Some(to) = turn {
                owed.pay(to, size);
            }
            orders.extend(wanted.iter().map(|(order, _)| *order));
            origins.extend(wanted.iter().map(|(_, from)| *from));
            *cursor = block.end;
        }
        // All at once: each call makes all CPUs give back the pages that they hold for a moment.
        let after = move_to(Some(pid), &orders).map_err(|error| refused(pid, error))?;
        let mut moved = BTreeMap::new();
        let mut stayed = 0;
        for ((&(_, to), from), state) in orders.iter().zip(origins).zip(after) {
            if state == PageState::On(to) {
                *moved.entry((from, to)).or_default() += self.page;
            } else {
                stayed += self.page;
            }
        }
        Ok(Slice { moved: moved.into_iter().collect(), refused: stayed, done })
    }
}

/// Where the pages of a block go if pages are laid in turn; `None` if none of them is there.
fn turn(turns: &mut Turns, pages: &[PageState], page: u64) -> Option<u32> {
    let mut by_node: BTreeMap<u32, u64> = BTreeMap::new();
    for node in pages.iter().filter_map(|state| state.node()) {
        *by_node.entry(node).or_default() += page;
    }
    let (&at, _) = by_node.iter().max_by_key(|(_, bytes)| **bytes)?;
    turns.next(at, by_node.values().sum())
}

/// Where a page goes; `None`: it stays.
fn target(goal: &Goal, turn: Option<u32>, at: u32) -> Option<u32> {
    let to = match goal {
        Goal::To { from, to } if at == *from => *to,
        Goal::To { .. } => return None,
        Goal::Back { from, .. } if at == *from => turn?,
        Goal::Back { .. } => return None,
        Goal::Interleave { .. } => turn?,
    };
    (to != at).then_some(to)
}

/// The regions from an address on, cut where huge pages begin.
fn blocks(regions: &[Range<u64>], block: u64, from: u64) -> impl Iterator<Item = Range<u64>> {
    regions.iter().flat_map(move |region| {
        let mut start = region.start.max(from);
        let end = region.end;
        std::iter::from_fn(move || {
            if start >= end {
                return None;
            }
            let next = (start / block + 1).saturating_mul(block).min(end);
            let range = start..next;
            start = next;
            Some(range)
        })
    })
}

fn refused(pid: u32, source: std::io::Error) -> ActError {
    if crate::observe::is_end(&source) {
        ActError::Gone { pid }
    } else if source.kind() == std::io::ErrorKind::PermissionDenied {
        ActError::NotPermitted { pid }
    } else {
        ActError::Pages { pid, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Its parent has not noticed yet.
    #[test]
    fn a_process_whose_memory_is_gone_has_ended() {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), options).unwrap();
        let error = states(Some(pid), &[0x1000]).map_err(|error| refused(pid, error)).unwrap_err();
        assert!(matches!(error, ActError::Gone { .. }), "{error}");
        child.wait().unwrap();
    }

    #[test]
    fn pages_go_where_the_goal_says() {
        let to = Goal::To { from: 0, to: 1 };
        assert_eq!([0, 1, 2].map(|at| target(&to, None, at)), [Some(1), None, None]);
        let turns = Goal::Interleave { nodes: vec![0, 3] };
        assert_eq!([0, 3, 5].map(|at| target(&turns, Some(3), at)), [Some(3), None, Some(3)]);
        assert_eq!(target(&turns, None, 0), None, "nothing is there");
        let back = Goal::Back { from: 1, owed: Owed::default() };
        assert_eq!([0, 1, 2].map(|at| target(&back, Some(2), at)), [None, Some(2), None]);
        assert_eq!(target(&back, None, 1), None, "all is back");
    }

    #[test]
    fn the_turn_of_a_block_is_counted_by_its_pages() {
        let mut turns = Turns::new(&[0, 3], 4 * 4096);
        let [on, none] = [PageState::On, |_| PageState::Absent];
        assert_eq!(turn(&mut turns, &[on(3), none(0), on(3), on(0)], 4096), Some(3));
        assert_eq!(turn(&mut turns, &[none(0); 4], 4096), None);
        assert_eq!(turn(&mut turns, &[on(3); 4], 4096), Some(0), "the first is on 3 already");
    }

    proptest! {
        /// From any address on, every byte of the regions once, in order, no block over a border of huge pages.
        #[test]
        fn blocks_are_the_regions(
            pieces in prop::collection::vec((1u64..50, 1u64..50), 0..6), from in 0u64..400,
        ) {
            let mut at = 0;
            let mut regions = Vec::new();
            for (gap, size) in pieces {
                regions.push(at + gap..at + gap + size);
                at += gap + size;
            }
            let bytes: Vec<u64> = blocks(&regions, 16, from).flatten().collect();
            let all: Vec<u64> = regions.iter().cloned().flatten().filter(|&b| b >= from).collect();
            prop_assert_eq!(bytes, all);
            for block in blocks(&regions, 16, from) {
                prop_assert_eq!(block.start / 16, (block.end - 1) / 16);
            }
        }
    }

    #[test]
    fn own_memory_that_is_there_already_does_not_move() {
        let machine = Machine::host();
        let mut mover = Mover::new(&machine, 2 << 20);
        let own = std::process::id();
        let goal = Goal::To { from: 1_000, to: 0 };
        let mut cursor = 0;
        for _ in 0..10_000 {
            let before = cursor;
            match mover.slice(own, &goal, &mut cursor, 4 << 20) {
                Err(error) => return eprintln!("skipped: {error}"),
                Ok(slice) if slice.done => {
                    assert_eq!(slice, Slice { done: true, ..Slice::default() });
                    return;
                }
                Ok(_) => assert!(cursor > before, "every call gets further"),
            }
        }
        panic!("no end after {cursor:x}");
    }
}
