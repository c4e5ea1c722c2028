//! Which places have samples: a bit for each byte of code near one.
//!
//! ```text
//!  module, 512 bytes of it ─► block  │ 64 bytes: a bit for each byte │
//! ```
//! Samples lie close together, in functions that run: a place takes some 15 bytes.

use pmuscope_perfdata::reader::scan::SampleFields;

use crate::count::chains::{Last, StackFrame, steps};
use crate::count::task_cache::{SampleTask, TaskCache};
use crate::table::{HashIndex, mix};
use crate::timeline::finder::{AddressTable, Finder, UNKNOWN_PLACE};
use crate::timeline::lookup::Lookup;
use crate::timeline::modules::ModuleId;
use crate::timeline::tasks::ModuleAddress;
use crate::timeline::visit::SampleVisitor;

/// Samples in a batch: more than memory answers at once.
const BATCH: usize = 32;
/// Bytes of code in a block.
const BLOCK: u64 = 512;

type Bits = [u64; (BLOCK / 64) as usize];

#[derive(Debug)]
struct AddressBlock {
    module: ModuleId,
    /// Its first address is this many times [`BLOCK`].
    number: u64,
    bits: Bits,
}

/// Places that are marked.
#[derive(Debug, Default)]
pub(crate) struct SampledAddresses {
    blocks: Vec<AddressBlock>,
    table: HashIndex,
}

impl SampledAddresses {
    fn mark(&mut self, place: ModuleAddress) {
        let Self { blocks, table } = self;
        let ModuleAddress { module, address } = place;
        let (new, number, bit) = (blocks.len(), address / BLOCK, address % BLOCK);
        let found = table.find_or_insert(hash(place), new as u32, |other| {
            let block = &blocks[other as usize];
            block.number == number && block.module == module
        }) as usize;
        if found == new {
            blocks.push(AddressBlock { module, number, bits: Bits::default() });
        }
        blocks[found].bits[bit as usize / 64] |= 1 << (bit % 64);
    }

    /// Marks all of `places`. None of the first loads depends on another one, so that memory works on
    /// them at the same time.
    fn mark_all(&mut self, places: &[ModuleAddress]) {
        let first = |place: &ModuleAddress| {
            let block = self.table.likely(hash(*place)).and_then(|at| self.blocks.get(at as usize));
            block.map_or(0, |block| block.bits[(place.address % BLOCK / 64) as usize])
        };
        std::hint::black_box(places.iter().map(first).fold(0, |all, bits| all | bits));
        places.iter().for_each(|&place| self.mark(place));
    }
}

#[inline]
fn hash(place: ModuleAddress) -> u64 {
    mix(place.address / BLOCK, place.module.into())
}

/// Marks where samples were taken, and where from it was called.
#[derive(Debug)]
pub(crate) struct Marker {
    who: TaskCache,
    by: MarkBy,
    waiting: Vec<ModuleAddress>,
    marks: SampledAddresses,
}

/// What is marked.
#[derive(Debug)]
enum MarkBy {
    /// Where samples were taken.
    Places(Finder),
    /// Their callers, too.
    Chains(Chains),
}

/// Steps of chains that may be new.
#[derive(Debug)]
struct Chains {
    /// By slot of the thread.
    last: Vec<Last<()>>,
    steps: Vec<StackFrame>,
    /// Addresses that are marked.
    marked: AddressTable<()>,
}

impl Marker {
    pub(crate) fn new(who: TaskCache) -> Self {
        let by = match who.apart().chains {
            false => MarkBy::Places(Finder::default()),
            true => MarkBy::Chains(Chains {
                last: vec![Last::default(); TaskCache::SLOTS],
                steps: Vec::new(),
                marked: AddressTable::default(),
            }),
        };
        let waiting = Vec::with_capacity(BATCH);
        Self { who, by, waiting, marks: SampledAddresses::default() }
    }

    pub(crate) fn finish(mut self) -> SampledAddresses {
        self.marks.mark_all(&self.waiting);
        self.marks
    }
}

impl SampleVisitor for Marker {
    #[inline]
    fn sample<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        time: Option<u64>,
    ) {
        let Some(ran) = self.who.ran(lookup, at, hit, time) else { return };
        match &mut self.by {
            MarkBy::Places(finder) => self.waiting.push(finder.find(lookup, at, ran.view, hit)),
            MarkBy::Chains(chains) => chains.mark(lookup, at, ran, hit, &mut self.waiting),
        }
        if self.waiting.len() >= BATCH {
            self.marks.mark_all(&self.waiting);
            self.waiting.clear();
        }
    }
}

impl Chains {
    /// Notes what is new in a chain.
    fn mark<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        ran: SampleTask,
        hit: &SampleFields<'_>,
        new: &mut Vec<ModuleAddress>,
    ) {
        let Self { last, steps: chain, marked } = self;
        let last = &mut last[ran.slot];
        steps(hit, chain);
        if hit.ip.is_none() {
            new.push(UNKNOWN_PLACE);
        }
        let shared = last.keep_shared(ran.view, lookup.stamp(at), chain);
        let (_, mut holds) = last.end();
        for &step in chain.iter().rev().skip(shared) {
            let address = (step.mode, step.address);
            let ((), held) = marked.find((lookup, at), ran.view, address, |place| new.push(place));
            holds = holds.and(held);
            last.push(step, (), holds);
        }
    }
}

/// All places that are marked in any of `marks`: of each module its addresses, in order. A module counts
/// as the one that `same` tells for it.
pub(crate) fn addresses(marks: &[SampledAddresses], same: &[ModuleId]) -> Vec<Vec<u64>> {
    let mut all: Vec<(ModuleId, u64, &Bits)> = marks
        .iter()
        .flat_map(|marks| &marks.blocks)
        .map(|block| (same[block.module as usize], block.number, &block.bits))
        .collect();
    all.sort_unstable_by_key(|&(module, number, _)| (module, number));
    let mut addresses = vec![Vec::new(); same.len()];
    for blocks in all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (module, number, _) = blocks[0];
        for word in 0..Bits::default().len() {
            let mut bits = blocks.iter().fold(0, |all, (_, _, bits)| all | bits[word]);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                let address = number * BLOCK + 64 * word as u64 + u64::from(bit);
                addresses[module as usize].push(address);
            }
        }
    }
    addresses
}
