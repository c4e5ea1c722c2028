//! Sampled minor faults, and what each page was before.
//!
//! ```text
//!  asked            asked            asked
//!  ──┬────────────────┬────────────────┬──► time
//!    │  x    x   x    │   x  x         │        x: a fault; what its page was is known from the question
//!    └──── drained ───┴──── drained ───┘           before it
//! ```
//!
//! Not every page is asked for each time, but a page of each stretch of memory, chosen by its address, so that the
//! same pages are asked for again. Of a mapping where nearly all of many pages were there, or nearly none was, the
//! others are taken to be alike. A page that faulted was there from then on, as long as its mapping is and no question
//! says otherwise; of other pages that were not asked for it is known that nothing is known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::Range;

use pmuscope_abi::record::{Records, kind};
use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type, software};
use pmuscope_counters::{
    CountersError, EventRequest, Kernel, OpenOptions, Ring, RingSize, SamplingSet, Scope,
};
use pmuscope_machine::pages::PageState;
use pmuscope_machine::{Machine, Topology};
use rustix::time::{ClockId, clock_gettime};

use super::sharing::{Before, Fault};
use crate::Nodes;

/// Bytes of a ring, of which each thread has one: some 1,600 samples.
const RING: u64 = 64 << 10;
/// The event as perf names it.
const EVENT: &str = "minor-faults";

/// A fault as the kernel tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, nanoseconds of the monotonic clock.
    pub time: u64,
    /// The address.
    pub address: u64,
    /// The CPU it happened on.
    pub cpu: u32,
}

/// What was not sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missed {
    /// Samples that did not fit the ring.
    pub lost: u64,
    /// Times that the kernel suspended sampling.
    pub throttled: u64,
}

/// Minor faults of a process, sampled.
#[derive(Debug)]
pub struct Faults {
    /// Keeps the events open.
    _set: SamplingSet,
    rings: Vec<Ring>,
    /// What was not sampled so far.
    pub missed: Missed,
}

impl Faults {
    /// Samples one in `period` minor faults of these threads from now on. Threads that they start are not sampled:
    /// that would take an event for each thread on each CPU, and each opening interrupts one.
    ///
    /// # Errors
    /// [`CountersError`].
    pub fn open(
        kernel: &dyn Kernel,
        machine: &Machine,
        topology: &Topology,
        tids: Vec<u32>,
        period: u64,
    ) -> Result<Self, CountersError> {
        let attr = Attr {
            event_type: event_type::SOFTWARE,
            config: software::PAGE_FAULTS_MIN,
            sample: period,
            sample_type: SampleType::TID | SampleType::TIME | SampleType::ADDR | SampleType::CPU,
            flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::USE_CLOCKID,
            clockid: CLOCK_MONOTONIC,
            ..Attr::default()
        };
        let request = EventRequest {
            name: EVENT.to_owned(),
            attr,
            leader: None,
            cpus: None,
            any_task: false,
            max_precise: false,
        };
        let scope = Scope::Threads(tids);
        let options = OpenOptions { ring_size: RingSize::AtMost(RING) };
        let mut set = SamplingSet::open(kernel, machine, topology, &scope, vec![request], options)?;
        let rings = set.take_rings();
        Ok(Self { _set: set, rings, missed: Missed::default() })
    }

    /// Hands over what was sampled since the last call, thread by thread.
    pub fn drain(&mut self, mut each: impl FnMut(Sample)) {
        for ring in &mut self.rings {
            let pending = ring.pending();
            // A record may lie across the seam.
            let whole = [pending.first, pending.second].concat();
            let end = pending.end();
            for (header, record) in Records::new(&whole) {
                match header.kind {
                    kind::SAMPLE => sample(record).into_iter().for_each(&mut each),
                    // Header, id, number.
                    kind::LOST => self.missed.lost += word(record, 16).unwrap_or(0),
                    kind::THROTTLE => self.missed.throttled += 1,
                    _ => {}
                }
            }
            ring.release(end);
        }
    }
}

/// `CLOCK_MONOTONIC`.
const CLOCK_MONOTONIC: i32 = 1;

fn word(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?))
}

/// Header, then pid and tid, time, address, CPU: in the order of the bits of `sample_type`.
fn sample(record: &[u8]) -> Option<Sample> {
    let half = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
    Some(Sample {
        pid: half(8)?,
        tid: half(12)?,
        time: word(record, 16)?,
        address: word(record, 24)?,
        cpu: half(32)?,
    })
}

/// What pages were when they were last asked for.
#[derive(Debug, Default)]
pub struct Watched {
    page: u64,
    /// Nanoseconds of the monotonic clock after the question.
    asked_at: u64,
    pages: HashMap<u64, Before>,
    /// Memory that there was then, ascending, with what is taken for pages that were not asked for.
    regions: Vec<(Range<u64>, Before)>,
    /// Pages that faulted, and were there from then on.
    faulted: HashSet<u64>,
    /// By start of region: the share of its pages that was there.
    density: BTreeMap<u64, f64>,
}

/// If all of so many pages were alike, at most some 6 % of the others are otherwise (95 % of the time: 3 / n).
const MANY: usize = 50;
/// A page that is being moved is not there for a moment, nor is one that is being given back: nearly all are as good
/// as all.
const NEARLY: f64 = 0.9;
/// Most faulted pages to remember: some 50 MB.
const FAULTED: usize = 1 << 20;

/// What pages of a region are taken for that were not asked for.
fn others(asked: usize, there: usize) -> Before {
    let share = there as f64 / asked.max(1) as f64;
    match share {
        _ if asked < MANY => Before::Unknown,
        share if share >= NEARLY => Before::There,
        share if share <= 1.0 - NEARLY => Before::Absent,
        _ => Before::Unknown,
    }
}

impl Watched {
    /// Nothing yet, of pages of so many bytes.
    #[must_use]
    pub fn new(page: u64) -> Self {
        Self { page, ..Self::default() }
    }

    /// Asks for about `budget` pages of these regions, which ascend, by `ask`; the number asked for.
    ///
    /// # Errors
    /// What `ask` says.
    pub fn ask(
        &mut self,
        regions: Vec<Range<u64>>,
        budget: u64,
        nodes: &Nodes,
        mut ask: impl FnMut(&[u64]) -> io::Result<Vec<PageState>>,
    ) -> io::Result<u64> {
        let mut addresses = Vec::new();
        let mut counts = Vec::with_capacity(regions.len());
        let strides = self.strides(&regions, budget);
        for (region, stride) in regions.iter().zip(strides) {
            let before = addresses.len();
            addresses.extend(chosen(region, stride, self.page));
            counts.push(addresses.len() - before);
        }
        let states = ask(&addresses)?;
        self.pages.clear();
        self.density.clear();
        self.regions.clear();
        let mut all = addresses.iter().zip(&states);
        for (region, count) in regions.into_iter().zip(counts) {
            let mut there = 0;
            for (&address, state) in all.by_ref().take(count) {
                let before = match state {
                    PageState::On(node) => {
                        there += 1;
                        nodes.place(*node).map_or(Before::There, Before::On)
                    }
                    PageState::Absent => Before::Absent,
                    PageState::Refused(_) => Before::Unknown,
                };
                if before == Before::Absent {
                    self.faulted.remove(&address);
                }
                self.pages.insert(address, before);
            }
            self.density.insert(region.start, there as f64 / count.max(1) as f64);
            self.regions.push((region, others(count, there)));
        }
        let regions = &self.regions;
        self.faulted.retain(|&page| region_of(regions, page).is_some());
        let now = clock_gettime(ClockId::Monotonic);
        self.asked_at = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        Ok(addresses.len() as u64)
    }

    /// What a fault was. Faults of one page come in order of time.
    pub fn fault(&mut self, sample: &Sample, nodes: &Nodes) -> Fault {
        let page = sample.address / self.page * self.page;
        let before = if sample.time < self.asked_at {
            self.remember(page);
            Before::Unknown
        } else {
            self.before(page)
        };
        Fault { tid: sample.tid, node: nodes.of_cpu(sample.cpu), page, time: sample.time, before }
    }

    fn before(&mut self, page: u64) -> Before {
        // What is not mapped there was mapped since.
        let of_region = region_of(&self.regions, page).unwrap_or(Before::Absent);
        let unasked = if self.remember(page) { Before::There } else { of_region };
        let state = self.pages.entry(page).or_insert(unasked);
        // Now it is there, on a node that is not known.
        std::mem::replace(state, Before::There)
    }

    /// That a page has faulted; whether it had before.
    fn remember(&mut self, page: u64) -> bool {
        match self.faulted.len() < FAULTED {
            true => !self.faulted.insert(page),
            false => self.faulted.contains(&page),
        }
    }

    /// Of how many pages of each region one is asked for: by what is thought to be there, and of regions that were
    /// never seen, which are mostly reserved only, by the root of their size.
    fn strides(&self, regions: &[Range<u64>], budget: u64) -> Vec<u64> {
        let pages = |region: &Range<u64>| (region.end - region.start) / self.page;
        if regions.iter().map(pages).sum::<u64>() <= budget {
            return vec![1; regions.len()];
        }
        let weight = |region: &Range<u64>| {
            let pages = pages(region) as f64;
            match self.density.get(&region.start) {
                Some(density) => (pages * density).max(pages.sqrt()),
                None => pages.sqrt(),
            }
        };
        let all: f64 = regions.iter().map(weight).sum();
        let stride = |region: &Range<u64>| {
            let asked = (budget as f64 * weight(region) / all).ceil().max(1.0) as u64;
            pages(region).div_ceil(asked).max(1)
        };
        regions.iter().map(stride).collect()
    }
}

/// What pages are taken for that were not asked for, by the region that they are in.
fn region_of(regions: &[(Range<u64>, Before)], page: u64) -> Option<Before> {
    let behind = regions.partition_point(|(region, _)| region.start <= page);
    let (region, others) = regions[..behind].last()?;
    (page < region.end).then_some(*others)
}

/// One page of each stretch of `stride`, always the same: by chance, but from its address.
fn chosen(region: &Range<u64>, stride: u64, page: u64) -> impl Iterator<Item = u64> {
    let (first, last) = (region.start / page, region.end / page);
    (first / stride..=last / stride).filter_map(move |stretch| {
        // splitmix64 (public domain, S. Vigna): neighbors do not fall in step.
        let mut z = stretch.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let at = stretch * stride + (z ^ (z >> 31)) % stride;
        (first..last).contains(&at).then_some(at * page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::topology;
    use pmuscope_abi::record::RecordBuilder;

    const PAGE: u64 = 4096;

    fn nodes() -> Nodes {
        Nodes::new(&topology(&[(0, &[0]), (1, &[1])]))
    }

    #[test]
    fn a_record_is_read_field_by_field() {
        let mut record = Vec::new();
        RecordBuilder::new(&mut record, kind::SAMPLE, 0)
            .u32(7)
            .u32(8)
            .u64(99)
            .u64(0x7000_1234)
            .u32(3)
            .u32(0)
            .finish();
        let expected = Sample { pid: 7, tid: 8, time: 99, address: 0x7000_1234, cpu: 3 };
        assert_eq!(sample(&record), Some(expected));
        assert_eq!(sample(&record[..30]), None);
    }

    #[test]
    fn a_fault_is_known_by_the_question_before_it() {
        let mut watched = Watched::new(PAGE);
        let state = |page: u64| match page {
            100..105 => PageState::On(1),
            105 => PageState::Refused(13),
            _ => PageState::Absent,
        };
        let ask = |pages: &[u64]| Ok(pages.iter().map(|at| state(at / PAGE)).collect());
        let memory = 100 * PAGE..110 * PAGE;
        let asked = watched.ask(Vec::from([memory]), 100, &nodes(), ask).unwrap();
        assert_eq!(asked, 10);
        let mut at = |page: u64, time| {
            let sample = Sample { pid: 1, tid: 2, time, address: page * PAGE + 9, cpu: 0 };
            watched.fault(&sample, &nodes())
        };
        let later = u64::MAX;
        let first =
            Fault { tid: 2, node: Some(0), page: 100 * PAGE, time: later, before: Before::On(1) };
        assert_eq!(at(100, later), first);
        assert_eq!(at(100, later).before, Before::There, "it may have moved");
        assert_eq!(at(107, later).before, Before::Absent);
        assert_eq!(at(107, later).before, Before::There);
        assert_eq!(at(105, later).before, Before::Unknown);
        assert_eq!(at(105, later).before, Before::There);
        assert_eq!(at(200, later).before, Before::Absent, "mapped since");
        assert_eq!(at(200, later).before, Before::There);
        assert_eq!(at(101, 0).before, Before::Unknown, "before it was asked for");
    }

    #[test]
    fn of_much_memory_the_same_part_is_asked_for_each_time() {
        let mut watched = Watched::new(PAGE);
        // Reserved space, and memory of which all is there.
        let regions =
            || vec![0..(1 << 16) * PAGE, (1 << 30) * PAGE..((1 << 30) + (1 << 24)) * PAGE];
        let state = |page: u64| if page < 1 << 16 { PageState::On(0) } else { PageState::Absent };
        let mut asked: Vec<Vec<u64>> = Vec::new();
        for _ in 0..3 {
            let ask = |pages: &[u64]| {
                asked.push(pages.to_vec());
                Ok(pages.iter().map(|at| state(at / PAGE)).collect())
            };
            watched.ask(regions(), 4096, &nodes(), ask).unwrap();
        }
        let there = |pages: &[u64]| pages.iter().filter(|at| **at / PAGE < 1 << 16).count();
        assert!(there(&asked[0]) < 1000 && there(&asked[1]) > 1500, "{}", there(&asked[1]));
        assert_eq!(asked[1], asked[2]);
        assert!(asked.iter().all(|pages| pages.len() < 6000 && pages.is_sorted()));
        let page = asked[2][0];
        assert_eq!(watched.before(page), Before::On(0));
        let other = |from: u64| {
            let of_region = (from..).step_by(PAGE as usize);
            of_region.into_iter().find(|page| !asked[2].contains(page)).unwrap()
        };
        // All that were asked for are there, or none is: so are the others.
        assert_eq!(watched.before(other(page)), Before::There);
        assert_eq!(watched.before(other((1 << 30) * PAGE)), Before::Absent);
    }

    /// Of half of the pages there, nothing is known of the others, until they fault.
    #[test]
    fn a_page_that_faulted_is_there_from_then_on() {
        let mut watched = Watched::new(PAGE);
        let (memory, other) = (0..(1 << 16) * PAGE, (1 << 20) * PAGE..(1 << 21) * PAGE);
        let regions = || Vec::from([memory.clone()]);
        let ask = |watched: &mut Watched, regions: Vec<Range<u64>>| {
            let state = |page: u64| {
                if page.is_multiple_of(2) { PageState::On(0) } else { PageState::Absent }
            };
            let ask = |pages: &[u64]| Ok(pages.iter().map(|at| state(at / PAGE)).collect());
            watched.ask(regions, 512, &nodes(), ask).unwrap();
        };
        ask(&mut watched, regions());
        let unasked = (0..).map(|page| page * PAGE).find(|at| !watched.pages.contains_key(at));
        let page = unasked.unwrap();
        assert_eq!(watched.before(page), Before::Unknown);
        assert_eq!(watched.before(page), Before::There);
        ask(&mut watched, regions());
        assert_eq!(watched.before(page), Before::There, "also after another question");
        ask(&mut watched, Vec::from([other]));
        ask(&mut watched, regions());
        assert_eq!(watched.before(page), Before::Unknown, "its mapping was gone");
    }

    #[test]
    fn pages_that_were_not_asked_for_are_taken_to_be_alike_only_where_many_are() {
        assert_eq!(others(MANY, MANY), Before::There);
        assert_eq!(others(MANY, 0), Before::Absent);
        assert_eq!(others(MANY, MANY - 1), Before::There, "one is being moved");
        assert_eq!(others(MANY, 1), Before::Absent);
        assert_eq!(others(MANY, MANY / 2), Before::Unknown);
        assert_eq!(others(MANY - 1, 0), Before::Unknown);
    }
}
