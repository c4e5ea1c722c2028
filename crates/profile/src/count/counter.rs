//! Counts samples: by who ran, where, and when. One for each thread that reads.
//!
//! Per sample there are two lookups in small tables that stay in the cache, [`TaskCache`] (the thread, and what
//! it sees) and [`Finder`] (what is mapped around the address), and one in the table of [`Cells`]. Where a sample was taken is a place, a node of a tree of places ([`Callers`]), or, where
//! places have names already, a stack ([`AddressToStack`]).

use pmuscope_perfdata::reader::Metadata;
use pmuscope_perfdata::reader::scan::SampleFields;

use crate::aggregate::Stacks;
use crate::count::address_to_stack::AddressToStack;
use crate::count::callers::{Called, Callers};
use crate::count::cells::{Cells, InArea, InGroup};
use crate::count::group::{SampleGroup, TaskKey};
use crate::count::log::Log;
use crate::count::named_chains::{NamedChains, NamedPlaces};
use crate::count::sample_log::SampleLog;
use crate::count::stack_room::StackRoom;
use crate::count::task_cache::TaskCache;
use crate::count::tree::Node;
use crate::count::unwinding::{Walked, Walker};
use crate::table::{Interned, mix};
use crate::timeline::blocks::Clock;
use crate::timeline::finder::Finder;
use crate::timeline::lookup::Lookup;
use crate::timeline::modules::ModuleId;
use crate::timeline::sideband::Sideband;
use crate::timeline::tasks::ModuleAddress;
use crate::timeline::visit::SampleVisitor;

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellKey {
    /// Its number in [`Counts::log`].
    pub(crate) cell: u32,
    /// Index into [`Counts::groups`].
    pub(crate) group: u32,
    /// Where: see [`Where`].
    pub(crate) what: u32,
}

/// What [`CellKey::what`] is a number of.
#[derive(Debug)]
pub(crate) enum Where {
    /// An index into these places, which are in order; so are the cells.
    Places(Vec<ModuleAddress>),
    /// A node of a tree of places, counted from 1.
    Nodes {
        /// What nodes are of.
        places: Vec<ModuleAddress>,
        /// Each distinct chain: its innermost place, and the node of its callers, which comes before.
        nodes: Vec<Node>,
    },
    /// A stack of [`AddressToStack`].
    Stacks,
    /// A number that stands for one of these stacks.
    Chains {
        stacks: Stacks,
        /// The stack of each number.
        numbers: Vec<u32>,
    },
}

/// What was counted.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) tasks: Vec<TaskKey>,
    pub(crate) groups: Vec<SampleGroup>,
    pub(crate) by: Where,
    /// Each cell of the log once.
    pub(crate) cells: Vec<CellKey>,
    /// All counts of the cells.
    pub(crate) log: Log,
    pub(crate) clock: Clock,
    /// Samples without a time: their blocks mean nothing.
    pub(crate) untimed: u64,
    /// Samples that the filter left out.
    pub(crate) left_out: u64,
    /// Samples of each event by the number of their CPU.
    pub(crate) by_cpu: Vec<Vec<u64>>,
    /// Samples of each event as they stand in the recording, those that are left out too.
    pub(crate) sampled: Vec<u64>,
    /// Where samples carry counts of others: those that stand in the recording and are not left out, by the
    /// number of their CPU.
    pub(crate) kept_by_cpu: Option<Vec<u64>>,
    /// Samples that count without their callers, for which there was no [room](StackRoom).
    pub(crate) without_callers: u64,
    /// What came of the stacks that samples carry, and of their places on the way.
    pub(crate) walked: Option<Walked>,
    /// The samples one by one, where they are kept.
    pub(crate) samples: Option<SampleLog>,
}

impl Where {
    /// The places that are counted by.
    pub(crate) fn places(&self) -> &[ModuleAddress] {
        match self {
            Self::Places(places) | Self::Nodes { places, .. } => places,
            Self::Stacks | Self::Chains { .. } => &[],
        }
    }
}

/// CPU numbers from here on are no numbers of CPUs.
const MOST_CPUS: u32 = 1 << 16;
/// Counts by event and CPU at most; 4,096 CPUs have as many for 512 events.
const MOST_CPUS_HELD: usize = 1 << 21;

/// What a counter counts by.
#[derive(Debug)]
enum CountBy<'a> {
    /// Places, in groups in modules.
    Places(Finder, Interned<(u32, ModuleId)>, Box<Cells<InArea>>),
    Nodes(Box<Callers<'a>>),
    Stacks(Finder, &'a AddressToStack),
    Chains(Box<NamedChains<'a>>),
}

/// Samples in a batch: more than memory answers at once.
const BATCH: usize = 32;

/// A sample whose stack is still to be looked up.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    group: u32,
    place: ModuleAddress,
    block: u32,
    weight: u64,
}

/// Counts samples.
#[derive(Debug)]
pub(crate) struct Counter<'a> {
    pub(super) who: TaskCache,
    /// Per event: whether its samples carry the period they stand for.
    has_period: Vec<bool>,
    by: CountBy<'a>,
    waiting: Vec<Waiting>,
    cells: Cells<InGroup>,
    clock: Clock,
    log: Log,
    untimed: u64,
    left_out: u64,
    by_cpu: Vec<Vec<u64>>,
    /// Counts in `by_cpu`.
    cpus_held: usize,
    sampled: Vec<u64>,
    kept_by_cpu: Option<Vec<u64>>,
    /// The recording's sample at hand is in `kept_by_cpu`, or there is none.
    is_kept: bool,
    /// All samples that count; `None` where they are only counted.
    samples: Option<Box<SampleLog>>,
}

impl<'a> Counter<'a> {
    /// By call chain, as far as there is room, or else by place.
    pub(crate) fn new(who: TaskCache, has_period: &[bool], clock: Clock, room: StackRoom) -> Self {
        let by = if who.apart().chains {
            CountBy::Nodes(Box::new(Callers::new(room)))
        } else {
            let has_weights = has_period.contains(&true);
            CountBy::Places(
                Finder::default(),
                Interned::default(),
                Box::new(Cells::new(has_weights)),
            )
        };
        Self::by(who, has_period, clock, by)
    }

    /// By stack, with callers or without: what places come to is known.
    pub(crate) fn of_located(
        who: TaskCache,
        has_period: &[bool],
        clock: Clock,
        places: NamedPlaces<'a>,
        room: StackRoom,
    ) -> Self {
        let by = if who.apart().chains {
            CountBy::Chains(Box::new(NamedChains::new(places, room)))
        } else {
            CountBy::Stacks(Finder::default(), places.located)
        };
        Self::by(who, has_period, clock, by)
    }

    fn by(who: TaskCache, has_period: &[bool], clock: Clock, by: CountBy<'a>) -> Self {
        Self {
            who,
            has_period: has_period.to_vec(),
            by,
            waiting: Vec::with_capacity(BATCH),
            cells: Cells::new(has_period.contains(&true)),
            log: Log::new(clock.shift()),
            clock,
            untimed: 0,
            left_out: 0,
            by_cpu: vec![Vec::new(); has_period.len()],
            sampled: vec![0; has_period.len()],
            kept_by_cpu: None,
            is_kept: true,
            cpus_held: 0,
            samples: None,
        }
    }

    /// Stacks that samples carry are to be unwound, where call chains are told apart.
    pub(crate) fn set_walker(&mut self, walker: Walker<'a>) {
        if let CountBy::Nodes(callers) = &mut self.by {
            callers.walker = Some(walker);
        }
    }

    /// Samples are kept, too, where call chains are told apart.
    pub(crate) fn keep_samples(&mut self) {
        self.samples = Some(Box::default());
    }

    /// Counts what waits.
    fn settle(&mut self) {
        let CountBy::Stacks(_, located) = &self.by else { return };
        located.look_ahead(self.waiting.iter().map(|one| one.place));
        for Waiting { group, place, block, weight } in self.waiting.drain(..) {
            let key = InGroup { group, what: located.stack(place) };
            self.cells.count(key, block, weight, &mut self.log);
        }
    }

    #[inline]
    fn count_cpu(&mut self, hit: &SampleFields<'_>) {
        let Some(cpu) = hit.cpu.filter(|&cpu| cpu < MOST_CPUS) else { return };
        let Some(counts) = self.by_cpu.get_mut(hit.event) else { return };
        if counts.len() <= cpu as usize {
            // Many events on CPUs of absurd numbers: a table of all is not to be had.
            let more = cpu as usize + 1 - counts.len();
            if self.cpus_held + more > MOST_CPUS_HELD {
                return;
            }
            self.cpus_held += more;
            counts.resize(cpu as usize + 1, 0);
        }
        counts[cpu as usize] += 1;
    }

    /// Counts the recording's sample at hand, of which one that it stands for counts.
    fn count_kept(&mut self, hit: &SampleFields<'_>) {
        self.is_kept = true;
        let Some(cpu) = hit.cpu.filter(|&cpu| cpu < MOST_CPUS) else { return };
        let kept = self.kept_by_cpu.get_or_insert_default();
        if kept.len() <= cpu as usize {
            kept.resize(cpu as usize + 1, 0);
        }
        kept[cpu as usize] += 1;
    }

    #[inline]
    fn block(&mut self, time: Option<u64>) -> u32 {
        let Some(time) = time else {
            self.untimed += 1;
            return 0;
        };
        let (block, halvings) = self.clock.block(self.who.filter.nearest(time));
        if halvings > 0 {
            self.flush();
            self.log.set_shift(self.clock.shift());
        }
        block
    }

    /// Writes down what the log does not have yet.
    fn flush(&mut self) {
        self.settle();
        self.cells.flush(&mut self.log);
        if let CountBy::Places(_, _, cells) = &mut self.by {
            cells.flush(&mut self.log);
        }
    }

    /// The end.
    pub(crate) fn finish(mut self) -> Counts {
        self.flush();
        let keys = self.cells.into_keys();
        let as_they_are =
            keys.zip(0..).map(|(InGroup { group, what }, cell)| CellKey { cell, group, what });
        let (mut walked, mut without_callers) = (None, 0);
        let (cells, by) = match self.by {
            CountBy::Places(_, areas, cells) => {
                let (cells, places) = by_place(&cells.into_keys().collect::<Vec<_>>(), &areas.list);
                (cells, Where::Places(places))
            }
            CountBy::Nodes(callers) => {
                let Called { places, nodes, walked: of_stacks, without_callers: of_leaves } =
                    callers.finish();
                (walked, without_callers) = (of_stacks, of_leaves);
                (as_they_are.collect(), Where::Nodes { places, nodes })
            }
            CountBy::Chains(chains) => {
                without_callers = chains.without_callers;
                let (stacks, numbers) = chains.finish();
                (as_they_are.collect(), Where::Chains { stacks, numbers })
            }
            CountBy::Stacks(..) => (as_they_are.collect(), Where::Stacks),
        };
        Counts {
            tasks: self.who.tasks.list,
            groups: self.who.groups.list,
            by,
            cells,
            log: self.log,
            clock: self.clock,
            untimed: self.untimed,
            left_out: self.left_out,
            by_cpu: self.by_cpu,
            sampled: self.sampled,
            kept_by_cpu: self.kept_by_cpu,
            without_callers,
            walked,
            samples: self.samples.map(|log| *log),
        }
    }
}

impl SampleVisitor for Counter<'_> {
    fn learn(&mut self, metadata: &Metadata, state: &Sideband) {
        if let CountBy::Nodes(callers) = &mut self.by
            && let Some(walker) = &mut callers.walker
        {
            walker.tell(metadata, state);
        }
    }

    fn begin(&mut self, first_record: u64) {
        if let Some(log) = &mut self.samples {
            log.begin(first_record);
        }
    }

    #[inline]
    fn recorded(&mut self, hit: &SampleFields<'_>, carries_counts: bool) {
        if let Some(sampled) = self.sampled.get_mut(hit.event) {
            *sampled += 1;
        }
        self.is_kept = !carries_counts;
    }

    #[inline]
    fn sample<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        time: Option<u64>,
    ) {
        // Time goes on with what is left out: both ways to read divide it alike.
        let block = self.block(time);
        let Some(ran) = self.who.ran(lookup, at, hit, time) else {
            self.left_out += 1;
            return;
        };
        if !self.is_kept {
            self.count_kept(hit);
        }
        self.count_cpu(hit);
        let by_period = self.has_period.get(hit.event).copied().unwrap_or(false);
        let weight = if by_period { hit.period.unwrap_or(1) } else { 1 };
        let key = match &mut self.by {
            CountBy::Stacks(finder, _) => {
                let place = finder.find(lookup, at, ran.view, hit);
                self.waiting.push(Waiting { group: ran.group, place, block, weight });
                if self.waiting.len() == BATCH {
                    self.settle();
                }
                return;
            }
            CountBy::Nodes(callers) => {
                InGroup { group: ran.group, what: callers.node(lookup, at, ran, hit) }
            }
            CountBy::Chains(chains) => {
                InGroup { group: ran.group, what: chains.node(lookup, at, ran, hit) }
            }
            CountBy::Places(finder, areas, cells) => {
                let ModuleAddress { module, address } = finder.find(lookup, at, ran.view, hit);
                let hash = mix(ran.group.into(), module.into());
                let key = InArea::new(areas.intern(hash, (ran.group, module)), address);
                cells.count(key, block, weight, &mut self.log);
                return;
            }
        };
        if let Some(log) = &mut self.samples {
            log.push(hit, time, key);
        }
        self.cells.count(key, block, weight, &mut self.log);
    }
}

/// Cells of areas in the order of their places, and the places.
fn by_place(keys: &[InArea], areas: &[(u32, ModuleId)]) -> (Vec<CellKey>, Vec<ModuleAddress>) {
    // Module, address and cell in one number each: those sort several times faster than structures.
    let packed = |(key, cell): (&InArea, u32)| {
        let (_, module) = areas[key.area() as usize];
        u128::from(module) << 96 | u128::from(key.address()) << 32 | u128::from(cell)
    };
    let mut sorted: Vec<u128> = keys.iter().zip(0..).map(packed).collect();
    sorted.sort_unstable();
    let mut places: Vec<ModuleAddress> = Vec::new();
    let cell = |packed: u128| {
        let place = ModuleAddress { module: (packed >> 96) as u32, address: (packed >> 32) as u64 };
        if places.last() != Some(&place) {
            places.push(place);
        }
        let cell = packed as u32;
        let (group, _) = areas[keys[cell as usize].area() as usize];
        CellKey { cell, group, what: places.len() as u32 - 1 }
    };
    (sorted.into_iter().map(cell).collect(), places)
}
