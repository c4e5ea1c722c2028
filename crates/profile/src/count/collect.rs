//! Reads a recording: in passes on several threads where it can be read from any place on, else in order.
//!
//! ```text
//!  in passes   sideband, by time ─► Tasks, with their past ─► History ◄─ asks ── one per thread:
//!              samples, in no order ──────────────────────────────────► Marker: distinct places
//!                   … places get names …
//!              the same samples once more ────────────────────────────► Counter, by stack
//!       or     samples with stacks to be unwound ─────────────────────► Counter, by call chain
//!  in order    sideband ─► Tasks as they are now ◄── asks ── Counter, by call chain or place
//!              samples ─────────────────────────────────────►┘
//! ```
//! All come to the same: what is counted does not depend on the way or on the number of threads. The third
//! pass is worth it because functions are far fewer than addresses: what it counts stays in the cache.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_perfdata::reader::scan::{Index, Pieces};
use pmuscope_perfdata::reader::{Event, ReadError, Reader};
use pmuscope_symbols::{GeneratedCode, Module};

use crate::count::counter::{Counter, Counts};
use crate::count::group::{Counting, GroupBy};
use crate::count::named_chains::NamedPlaces;
use crate::count::sampled_addresses::{Marker, SampledAddresses};
use crate::count::stack_room::StackRoom;
use crate::count::task_cache::TaskCache;
use crate::count::unwinding::{ModuleRules, StepRule, Tables, UnwindFacts, Unwinding, Walker};
use crate::filter::Filter;
use crate::pool::{available_threads, in_parallel};
use crate::timeline::blocks::Clock;
use crate::timeline::modules::{ModuleId, RecordedFiles};
use crate::timeline::sideband::Sideband;
use crate::timeline::visit::{InOrder, Passes};

/// What a recording holds, before addresses have names.
#[derive(Debug)]
pub struct Collected {
    pub(crate) state: Sideband,
    pub(crate) counted: CountState,
    pub(crate) clock: Clock,
    pub(crate) filter: Filter,
}

/// How far counting is.
#[derive(Debug)]
pub(crate) enum CountState {
    /// All is counted, by chain or place.
    All(Vec<Counts>),
    /// Places are known; samples are counted when these have names.
    Places(Vec<SampledAddresses>, Box<Again>),
}

/// What goes over the samples.
#[derive(Debug)]
pub(crate) struct Again {
    passes: Passes,
    counting: Counting,
    has_period: Vec<bool>,
    clock: Clock,
    keeps_samples: bool,
}

/// What is counted, and whether samples are kept, too.
#[derive(Debug)]
struct CollectRequest {
    counting: Counting,
    keeps_samples: bool,
}

impl Collected {
    /// Reads all records that are left, on all CPUs, and tells apart only commands and addresses.
    ///
    /// # Errors
    /// Those of [`Collected::read`].
    pub fn from_reader(reader: &mut Reader) -> Result<Self, ReadError> {
        Self::read(reader, GroupBy::default(), available_threads(), None)
    }

    /// Reads all records that are left, on up to `threads` threads. Stacks that samples carry are
    /// unwound where call chains are told apart and `unwinding` says by what.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn read(
        reader: &mut Reader,
        counting: impl Into<Counting>,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        Self::read_in(reader, counting, threads, unwinding, Pieces::default())
    }

    /// As [`Collected::read`], in pieces of other sizes.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn read_in(
        reader: &mut Reader,
        counting: impl Into<Counting>,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
        pieces: Pieces,
    ) -> Result<Self, ReadError> {
        let request = CollectRequest { counting: counting.into(), keeps_samples: false };
        Self::count(reader, request, threads, unwinding, pieces)
    }

    /// As [`Collected::read`], with call chains, and every sample is kept as well: [`crate::Profile::samples`] then has
    /// them, for 56 bytes each.
    ///
    /// # Errors
    /// If the operating system fails to read.
    pub fn read_samples(
        reader: &mut Reader,
        counting: impl Into<Counting>,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        let counting = counting.into();
        let apart = GroupBy { chains: true, ..counting.apart };
        let counting = Counting { apart, ..counting };
        let request = CollectRequest { counting, keeps_samples: true };
        Self::count(reader, request, threads, unwinding, Pieces::default())
    }

    /// Not generic, as what loops over records should not be: it is compiled here, optimized as this crate is.
    fn count(
        reader: &mut Reader,
        request: CollectRequest,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
        pieces: Pieces,
    ) -> Result<Self, ReadError> {
        let has_stacks = reader.events().iter().any(Event::has_stacks);
        let unwinding = unwinding.filter(|_| request.counting.apart.chains && has_stacks);
        match reader.index_with_counts(threads, pieces)? {
            Some(index) => Self::in_passes(reader, index, request, threads, unwinding),
            None => Self::count_in_order(reader, request, unwinding),
        }
    }

    /// Reads all records that are left, one after another.
    ///
    /// # Errors
    /// Those of [`Reader::next`].
    pub fn in_order(
        reader: &mut Reader,
        counting: impl Into<Counting>,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        let request = CollectRequest { counting: counting.into(), keeps_samples: false };
        Self::count_in_order(reader, request, unwinding)
    }

    fn count_in_order(
        reader: &mut Reader,
        request: CollectRequest,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        let code_by_time = request.counting.code_by_time;
        let mut ordered = InOrder::new(&has_period(reader), request.counting);
        if code_by_time {
            ordered.state.read_code(reader.events(), reader.metadata());
        }
        if reader.events().iter().any(Event::is_off_cpu_time) {
            ordered.state.tasks.keep_ended();
        }
        if request.keeps_samples {
            ordered.visitor.keep_samples();
        }
        if let Some(unwinding) = unwinding {
            let tables = Arc::new(Tables::new(unwinding));
            ordered.visitor.set_walker(Walker::new(tables, Arc::default()));
        }
        ordered.read(reader, |_| {})?;
        Ok(ordered.finish())
    }

    fn in_passes(
        reader: &mut Reader,
        index: Index,
        CollectRequest { mut counting, keeps_samples }: CollectRequest,
        threads: usize,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<Self, ReadError> {
        // A chain of nothing but the sample's own place is that place.
        let has_callers = |event: &Event| event.has_chains() || event.has_stacks();
        counting.apart.chains &= keeps_samples || reader.events().iter().any(has_callers);
        let (passes, state) = match counting.code_by_time {
            true => Passes::with_code(reader, index, threads)?,
            false => Passes::new(reader, index, threads, |_| {})?,
        };
        let near = |time| counting.filter.nearest(time);
        let clock = Clock::of(passes.times().map(|(first, last)| (near(first), near(last))));
        let filter = counting.filter.clone();
        let (has_period, own_clock) = (has_period(reader), clock.clone());
        let again = Again { passes, counting, has_period, clock: own_clock, keeps_samples };
        let counted = match unwinding.filter(|_| again.counting.apart.chains) {
            // To unwind takes longer than all else: once has to do.
            Some(unwinding) => {
                let facts = UnwindFacts::new(reader.metadata(), &state, &unwinding);
                let (tables, facts) = (Arc::new(Tables::new(unwinding)), Arc::new(facts));
                let room = StackRoom::of_memory();
                CountState::All(again.count(&state, || {
                    let (clock, room) = (clock.clone(), room.clone());
                    let mut counter = Counter::new(again.who(), &again.has_period, clock, room);
                    counter.set_walker(Walker::new(Arc::clone(&tables), Arc::clone(&facts)));
                    counter
                })?)
            }
            None => {
                let markers = again.passes.visit(&state, || Marker::new(again.who()))?;
                let marks = markers.into_iter().map(Marker::finish).collect();
                CountState::Places(marks, Box::new(again))
            }
        };
        Ok(Self { state, counted, clock, filter })
    }
}

impl Again {
    /// Counts by stack: what places come to is known.
    pub(crate) fn count_located(
        &self,
        state: &Sideband,
        places: NamedPlaces<'_>,
    ) -> Result<Vec<Counts>, ReadError> {
        let room = StackRoom::of_memory();
        let counter = || {
            let (clock, room) = (self.clock.clone(), room.clone());
            Counter::of_located(self.who(), &self.has_period, clock, places, room)
        };
        self.count(state, counter)
    }

    fn who(&self) -> TaskCache {
        TaskCache::new(&self.counting)
    }

    fn count<'c>(
        &self,
        state: &Sideband,
        mut counter: impl FnMut() -> Counter<'c>,
    ) -> Result<Vec<Counts>, ReadError> {
        let counter = || {
            let mut counter = counter();
            if self.keeps_samples {
                counter.keep_samples();
            }
            counter
        };
        Ok(in_parallel(self.passes.visit(state, counter)?, Counter::finish))
    }
}

/// For each event whether its samples stand for a period, their own or that of their counts.
pub(crate) fn has_period(reader: &Reader) -> Vec<bool> {
    let has_windows = reader.has_windows();
    let one = |event: &Event| event.has_period() || event.has_counts() && !has_windows;
    reader.events().iter().map(one).collect()
}

impl InOrder<Counter<'_>> {
    /// Counts by chain or place. One entry per event: whether its samples carry periods.
    pub(crate) fn new(has_period: &[bool], counting: impl Into<Counting>) -> Self {
        Self::going_on(Sideband::default(), has_period, counting)
    }

    /// The same, where records were taken before: nothing is counted yet, but who runs what is known.
    pub(crate) fn going_on(
        state: Sideband,
        has_period: &[bool],
        counting: impl Into<Counting>,
    ) -> Self {
        let who = TaskCache::new(&counting.into());
        let room = StackRoom::of_memory();
        Self::after(state, Counter::new(who, has_period, Clock::default(), room))
    }

    pub(crate) fn finish(self) -> Collected {
        let filter = self.visitor.who.filter.clone();
        let counts = self.visitor.finish();
        let (state, clock) = (self.state, counts.clock.clone());
        Collected { state, clock, counted: CountState::All(vec![counts]), filter }
    }
}

impl Collected {
    /// What was counted so far.
    pub(crate) fn counts(&self) -> &[Counts] {
        match &self.counted {
            CountState::All(counts) => counts,
            CountState::Places(..) => &[],
        }
    }

    /// Number of blocks that intervals may be made of; 0 if some samples have no time.
    pub(crate) fn blocks(&self) -> usize {
        if self.counts().iter().any(|counts| counts.untimed > 0) { 0 } else { self.clock.len() }
    }

    /// Descriptions of code made at run time, as runtimes mark them by mapping them: process, path.
    pub fn jit_dumps(&self) -> impl Iterator<Item = &(i32, PathBuf)> {
        self.state.jit_dumps.iter()
    }

    /// Hands out what stacks were unwound by: modules, in order, with the places that were met.
    ///
    /// # Errors
    /// The first one of `take`, which is not asked again.
    pub fn each_rules<E>(
        &self,
        mut take: impl FnMut(&Module<'_>, ModuleRules<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut found: BTreeMap<ModuleId, ModuleRules<'_>> = BTreeMap::new();
        let nothing = RecordedFiles::default();
        let mut facts = None;
        for counts in self.counts() {
            let Some(walked) = &counts.walked else { continue };
            facts = Some(&walked.facts);
            for (place, way) in counts.by.places().iter().zip(&walked.ways) {
                let rule = match way {
                    // Jitdumps bring their rules along.
                    Some(_) if place.address >= GeneratedCode::FIRST_PLACE => continue,
                    Some(StepRule::Rule(rule)) => Ok(&**rule),
                    Some(StepRule::Gap(gap)) => Err(*gap),
                    Some(StepRule::NotMapped | StepRule::ReturnProbe | StepRule::NoCode) | None => {
                        continue;
                    }
                };
                found.entry(place.module).or_default().insert(place.address, rule);
            }
        }
        for (module, rules) in found {
            let key = &self.state.modules.list()[module as usize];
            let id = facts.and_then(|facts| facts.build_id(key));
            // Why others have no rules follows from what they are.
            let files = facts.map_or(&nothing, |facts| facts.files());
            let mapped = self.state.modules.mapped(module, files);
            let source = key.source(id.as_ref(), mapped.as_ref());
            // Of generated code only what is known, as CPython's trampolines.
            let is_known = rules.values().any(Result::is_ok);
            match source {
                Some(source @ (Module::File(_) | Module::Vdso)) => take(&source, rules)?,
                Some(source @ Module::Jit { .. }) if is_known => take(&source, rules)?,
                _ => {}
            }
        }
        Ok(())
    }
}
