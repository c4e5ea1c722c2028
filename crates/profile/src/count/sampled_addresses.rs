//! Which places have samples: a bit for each byte of code near one.
//!
//! ```text
//!  module, 64 bytes of it ─► line  │ 64 bits │
//! ```
//! Samples lie close together, in functions that run.

use pmuscope_perfdata::reader::scan::SampleFields;

use crate::count::chains::{Last, StackFrame, steps};
use crate::count::code_lines::{CodeLines, LINE};
use crate::count::task_cache::{SampleTask, TaskCache};
use crate::timeline::finder::{AddressTable, Finder, UNKNOWN_PLACE};
use crate::timeline::lookup::Lookup;
use crate::timeline::modules::ModuleId;
use crate::timeline::tasks::ModuleAddress;
use crate::timeline::visit::SampleVisitor;

/// Samples in a batch: more than memory answers at once.
const BATCH: usize = 32;

/// Places that are marked.
#[derive(Debug, Default)]
pub(crate) struct SampledAddresses {
    lines: CodeLines,
}

impl SampledAddresses {
    /// Marks all of `places`.
    fn mark_all(&mut self, places: &[ModuleAddress]) {
        let firsts = places.iter().map(|&place| self.lines.look_ahead(place));
        std::hint::black_box(firsts.fold(0, |all, first| all | first));
        places.iter().for_each(|&place| self.lines.set(place, || 0));
    }
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
pub(crate) fn addresses(marks: Vec<SampledAddresses>, same: &[ModuleId]) -> Vec<Vec<u64>> {
    let mut all: Vec<(ModuleId, u64, u64)> = Vec::new();
    for marks in marks {
        all.extend(marks.lines.iter().map(|line| {
            let (module, number, bits) = line.parts();
            (same[module as usize], number, bits)
        }));
    }
    all.sort_unstable_by_key(|&(module, number, _)| (module, number));
    let mut addresses = vec![Vec::new(); same.len()];
    for lines in all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (module, number, _) = lines[0];
        let mut bits = lines.iter().fold(0, |all, (_, _, bits)| all | bits);
        while bits != 0 {
            addresses[module as usize].push(number * LINE + u64::from(bits.trailing_zeros()));
            bits &= bits - 1;
        }
    }
    addresses
}
