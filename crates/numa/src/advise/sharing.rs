//! Who uses which memory, by sampled faults.
//!
//! A minor fault tells a thread, a CPU and an address. On a page that was not there before it is a *first touch*:
//! it says where the page came to lie, not who will use it. On a page that was there it is a *use*, as the kernel's
//! balancing makes them fault ([`pmuscope_machine::NumaCounters::hint_faults`]) (or a copy on the first write).
//! Two uses of a page by different threads mean that it is shared. That two uses by one thread mean that it is private
//! holds only if others had the chance to be the first in between: the kernel has to make the page fault again. So
//! where blocks are judged, uses by one thread in quick succession are one.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Bytes of a block, where single pages were not seen twice: a huge page of most machines.
pub const BLOCK: u64 = 2 << 20;
/// So many pages or blocks that were used twice tell something.
pub const ENOUGH: u64 = 20;

/// Uses of a block by one thread that are less apart than this, nanoseconds, are one: a scan takes a second and more.
const GAP: u64 = 500_000_000;

/// What a page was before a fault on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// On this node, by its place among nodes.
    On(usize),
    /// On some node: it faulted since it was asked for, and may have moved.
    There,
    /// Nowhere.
    Absent,
    /// Nobody asked.
    Unknown,
}

/// A sampled fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The thread.
    pub tid: u32,
    /// The place of its CPU's node among nodes; `None` for a CPU that came online later.
    pub node: Option<usize>,
    /// The page.
    pub page: u64,
    /// When, nanoseconds.
    pub time: u64,
    /// What it was before.
    pub before: Before,
}

/// What faults tell of memory and those who use it. Numbers are of samples, not of all faults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// Faults sampled.
    pub faults: u64,
    /// On pages that were not there before.
    pub first_touches: u64,
    /// On pages that were.
    pub uses: u64,
    /// On pages of which it is not known.
    pub unknown: u64,
    /// Uses of pages whose node is known.
    pub placed_uses: u64,
    /// Those of them from the node of the page.
    pub local_uses: u64,
    /// Pages, or blocks of memory, that were used at least twice.
    pub judged: u64,
    /// Those of them that several threads used.
    pub shared: u64,
    /// Bytes of what was judged: a page, or [`BLOCK`].
    pub granule_bytes: u64,
}

impl Sharing {
    /// The share, 0 to 1, of what was used twice that several threads used; `None` with too little.
    #[must_use]
    pub fn shared_share(&self) -> Option<f64> {
        (self.judged >= ENOUGH).then(|| self.shared as f64 / self.judged as f64)
    }

    /// The share, 0 to 1, of uses that were local; `None` with too few.
    #[must_use]
    pub fn local_share(&self) -> Option<f64> {
        let enough = self.placed_uses >= 5 * ENOUGH;
        enough.then(|| self.local_uses as f64 / self.placed_uses as f64)
    }
}

/// Adds up faults.
#[derive(Debug)]
pub struct FaultTally {
    page: u64,
    sum: Sharing,
    /// Most pages and blocks to remember; of later ones nothing is known.
    room: usize,
    pages: HashMap<u64, Users>,
    blocks: HashMap<u64, Users>,
}

/// Who used a page or block.
#[derive(Debug, Clone, Copy)]
struct Users {
    last: u32,
    time: u64,
    uses: u32,
    several: bool,
}

impl FaultTally {
    /// An empty one for pages of so many bytes.
    #[must_use]
    pub fn new(page: u64) -> Self {
        /// Some 50 MB.
        const ROOM: usize = 1 << 20;
        let (pages, blocks) = (HashMap::new(), HashMap::new());
        Self { page, sum: Sharing::default(), room: ROOM, pages, blocks }
    }

    /// Counts a fault.
    pub fn add(&mut self, fault: &Fault) {
        self.sum.faults += 1;
        match fault.before {
            Before::Absent => self.sum.first_touches += 1,
            Before::Unknown => self.sum.unknown += 1,
            Before::On(_) | Before::There => {
                self.sum.uses += 1;
                if let Before::On(node) = fault.before {
                    self.sum.placed_uses += 1;
                    self.sum.local_uses += u64::from(fault.node == Some(node));
                }
                let room = self.room;
                used(&mut self.pages, room, fault.page / self.page, fault);
                used(&mut self.blocks, room, fault.page / BLOCK, fault);
            }
        }
    }

    /// What it came to. Pages are judged where enough were used twice; else blocks, which threads may share
    /// without sharing a page.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        let judged = |users: &HashMap<u64, Users>| {
            let twice = users.values().filter(|users| users.uses > 1);
            twice.fold((0, 0), |(all, shared), users| (all + 1, shared + u64::from(users.several)))
        };
        let pages = judged(&self.pages);
        let (of, granule_bytes) =
            if pages.0 >= ENOUGH { (pages, self.page) } else { (judged(&self.blocks), BLOCK) };
        Sharing { judged: of.0, shared: of.1, granule_bytes, ..self.sum.clone() }
    }
}

fn used(users: &mut HashMap<u64, Users>, room: usize, granule: u64, fault: &Fault) {
    if users.len() >= room && !users.contains_key(&granule) {
        return;
    }
    let (last, time) = (fault.tid, fault.time);
    let users = users.entry(granule).or_insert(Users { last, time, uses: 0, several: false });
    let is_another = users.last != last;
    if users.uses == 0 || is_another || time.saturating_sub(users.time) >= GAP {
        users.uses = users.uses.saturating_add(1);
        users.several |= is_another;
        (users.last, users.time) = (last, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const PAGE: u64 = 4096;

    fn fault(tid: u32, page: u64, before: Before) -> Fault {
        Fault { tid, node: Some(0), page: page * PAGE, time: 0, before }
    }

    /// One fault each second.
    fn sharing(faults: impl IntoIterator<Item = Fault>) -> Sharing {
        let mut tally = FaultTally::new(PAGE);
        for (fault, second) in faults.into_iter().zip(0..) {
            tally.add(&Fault { time: second * 1_000_000_000, ..fault });
        }
        tally.sharing()
    }

    #[test]
    fn a_first_touch_says_nothing_of_sharing() {
        let touched = (0..100).map(|page| fault(page as u32 % 4, page, Before::Absent));
        let found = sharing(touched.chain([fault(1, 5, Before::Unknown)]));
        assert_eq!((found.faults, found.first_touches, found.unknown), (101, 100, 1));
        assert_eq!((found.shared_share(), found.local_share()), (None, None));
    }

    #[test]
    fn pages_that_one_thread_uses_are_private() {
        let uses = |tid: fn(u64) -> u32| {
            sharing((0..3).flat_map(|round| (0..100).map(move |page| (round, page))).map(
                |(round, page)| fault(tid(page) + (round as u32 & tid(1)), page, Before::On(0)),
            ))
        };
        assert_eq!(uses(|_| 0).shared_share(), Some(0.0));
        let found = uses(|page| 2 * page as u32 + 1);
        assert_eq!((found.shared_share(), found.granule_bytes), (Some(1.0), PAGE));
        assert_eq!(found.local_share(), Some(1.0));
    }

    #[test]
    fn where_no_page_is_seen_twice_blocks_are_judged() {
        // A page each of 50 blocks, and then another one.
        let block = BLOCK / PAGE;
        let uses = (0..50).flat_map(|n| {
            [fault(7, n * block, Before::On(0)), fault(8, n * block + 1, Before::On(1))]
        });
        let found = sharing(uses);
        assert_eq!((found.judged, found.shared, found.granule_bytes), (50, 50, BLOCK));
        assert_eq!((found.uses, found.local_uses), (100, 50));
    }

    /// Threads that go through shared memory one behind the other: after each scan every block belongs to whoever
    /// comes first.
    #[test]
    fn one_pass_over_a_block_is_one_use() {
        let mut tally = FaultTally::new(PAGE);
        let pass = |tally: &mut FaultTally, begin: u64, shift: u64| {
            for page in 0..40 * BLOCK / PAGE / 8 {
                let page = page * 8;
                let block = page * PAGE / BLOCK;
                let tid = ((block + shift) % 4) as u32;
                tally.add(&Fault { time: begin + page, ..fault(tid, page + shift, Before::There) });
            }
        };
        pass(&mut tally, 0, 0);
        assert_eq!((tally.sharing().judged, tally.sharing().shared_share()), (0, None));
        pass(&mut tally, 2 * GAP, 1);
        assert_eq!(tally.sharing().shared_share(), Some(1.0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut tally = FaultTally { room: 10, ..FaultTally::new(PAGE) };
        (0..1000).for_each(|page| tally.add(&fault(1, page, Before::On(0))));
        assert_eq!(tally.pages.len(), 10);
        assert_eq!(tally.sharing().uses, 1000);
    }

    proptest! {
        /// Against the users of each page, listed one by one.
        #[test]
        fn sharing_is_what_a_list_of_users_says(
            faults in prop::collection::vec((0..5u32, 0..60u64, 0..4u8), 0..600),
        ) {
            let before = |kind| match kind {
                0 => Before::Absent,
                1 => Before::Unknown,
                2 => Before::There,
                _ => Before::On(1),
            };
            let mut users: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for &(tid, page, _) in faults.iter().filter(|fault| fault.2 >= 2) {
                users.entry(page).or_default().push(tid);
            }
            let twice: Vec<&Vec<u32>> = users.values().filter(|users| users.len() > 1).collect();
            let shared = twice.iter().filter(|users| users.iter().any(|tid| *tid != users[0])).count();
            let found = sharing(faults.iter().map(|&(tid, page, kind)| fault(tid, page, before(kind))));
            prop_assert_eq!(found.faults, faults.len() as u64);
            prop_assert_eq!(found.faults, found.first_touches + found.uses + found.unknown);
            let placed = faults.iter().filter(|fault| fault.2 == 3).count() as u64;
            prop_assert_eq!((found.placed_uses, found.local_uses), (placed, 0), "all ran on node 0");
            if twice.len() as u64 >= ENOUGH {
                prop_assert_eq!((found.judged, found.shared), (twice.len() as u64, shared as u64));
                prop_assert_eq!(found.granule_bytes, PAGE);
            }
        }
    }
}
