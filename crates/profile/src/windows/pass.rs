//! The visitors of the two passes over the samples: first where they are and which groups there are, then windows.

use std::collections::BTreeMap;

use pmuscope_perfdata::reader::scan::SampleFields;
use rustc_hash::FxHashMap;

use super::judge::{Judge, WindowVerdict};
use super::place::Finder;
use super::plan::{GroupFacts, SpacingCounts};
use super::rows::{NAMELESS, Spots};
use super::shot::{NO_CPU, Shot, Stream, Tail, events, stream};
use super::sums::RowSums;
use super::{Cause, CpuWindows};
use crate::table::{Interned, mix};
use crate::timeline::blocks::Clock;
use crate::timeline::lookup::Lookup;
use crate::timeline::tasks::ModuleAddress;
use crate::timeline::visit::SampleVisitor;

/// Distances between samples that a thread looks at: enough to tell two periods from one.
const MOST_LENGTHS: u32 = 1 << 16;

/// The first pass.
#[derive(Debug)]
pub(super) struct FirstPass<'a> {
    finder: Finder,
    of_id: &'a FxHashMap<u64, u32>,
    pub(super) places: Interned<ModuleAddress>,
    pub(super) seen: Vec<GroupFacts>,
    /// Group of each stream, and the leader's last count.
    streams: FxHashMap<u64, (usize, Option<u64>)>,
    /// The stream that was met last.
    latest: Option<u64>,
    lengths: u32,
    pub(super) times: Option<(u64, u64)>,
    pub(super) samples: u64,
}

impl<'a> FirstPass<'a> {
    pub(super) fn new(finder: Finder, of_id: &'a FxHashMap<u64, u32>) -> Self {
        Self {
            finder,
            of_id,
            places: Interned::default(),
            seen: Vec::new(),
            streams: FxHashMap::default(),
            latest: None,
            lengths: 0,
            times: None,
            samples: 0,
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.samples += other.samples;
        for seen in other.seen {
            match self.seen.iter_mut().find(|known| known.events == seen.events) {
                Some(known) => known.lengths.merge(&seen.lengths),
                None => self.seen.push(seen),
            }
        }
        for place in other.places.list {
            self.places.intern(mix(place.address, place.module.into()), place);
        }
        self.times = match (self.times, other.times) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

impl SampleVisitor for FirstPass<'_> {
    const SPLITS_COUNTS: bool = false;

    fn begin(&mut self, _: u64) {
        self.streams.values_mut().for_each(|stream| stream.1 = None);
    }

    #[inline]
    fn sample<L: Lookup>(&mut self, lookup: &L, at: L::At, hit: &SampleFields<'_>, _: Option<u64>) {
        let Self { finder, places, seen, streams, .. } = self;
        let (_, passes) = finder.find(lookup, at, hit, |place| {
            places.intern(mix(place.address, place.module.into()), place)
        });
        if passes {
            let (first, last) = self.times.unwrap_or((hit.time, hit.time));
            self.times = Some((first.min(hit.time), last.max(hit.time)));
        }
        self.samples += 1;
        let Some(key) = stream(hit) else { return };
        // Groups that take turns may come late.
        if self.lengths >= MOST_LENGTHS && (self.latest == Some(key) || streams.contains_key(&key))
        {
            self.latest = Some(key);
            return;
        }
        let stream = streams.entry(key).or_insert_with(|| {
            let events = events(hit, self.of_id);
            let known = seen.iter().position(|seen| seen.events == events);
            let group = known.unwrap_or_else(|| {
                seen.push(GroupFacts { events, lengths: SpacingCounts::default() });
                seen.len() - 1
            });
            (group, None)
        });
        if self.lengths < MOST_LENGTHS {
            let mut count = [0];
            hit.read.map(|read| read.copy_to(&mut count));
            let before = stream.1.replace(count[0]);
            if let Some(length) = before.and_then(|before| count[0].checked_sub(before)) {
                seen[stream.0].lengths.add(length);
                self.lengths += 1;
            }
        }
    }
}

/// What windows need besides the samples.
#[derive(Debug)]
pub(super) struct PassContext<'a> {
    pub(super) judge: Judge<'a>,
    pub(super) spots: &'a Spots,
    pub(super) clock: &'a Clock,
    /// Whether windows that start in another function count.
    pub(super) keeps_others: bool,
}

/// Sums of a thread.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) rows: Vec<RowSums>,
    pub(super) outside: u64,
    pub(super) foreign: u64,
    pub(super) by_cpu: BTreeMap<u32, CpuWindows>,
    /// The CPU at hand, and what is not in `by_cpu` yet.
    latest: (u32, CpuWindows),
}

impl Sums {
    fn row(&mut self, row: u32) -> &mut RowSums {
        if self.rows.len() <= row as usize {
            self.rows.resize(row as usize + 1, RowSums::default());
        }
        &mut self.rows[row as usize]
    }

    fn merge(&mut self, other: &Self) {
        for (row, sums) in (0..).zip(&other.rows) {
            self.row(row).merge(sums);
        }
        self.outside += other.outside;
        self.foreign += other.foreign;
        other.by_cpu.iter().for_each(|(&cpu, &windows)| self.add_cpu(cpu, windows));
        self.add_cpu(other.latest.0, other.latest.1);
    }

    fn add_cpu(&mut self, cpu: u32, windows: CpuWindows) {
        if windows.windows > 0 {
            let sum = self.by_cpu.entry(cpu).or_default();
            sum.windows += windows.windows;
            sum.wrong_offset += windows.wrong_offset;
        }
    }

    /// Judges a sample by those before it in its stream.
    fn take(
        &mut self,
        shared: &PassContext<'_>,
        number: u32,
        before: Option<&Shot>,
        previous: Option<&Shot>,
        shot: &Shot,
    ) {
        if !shot.passes {
            return;
        }
        let Some(group) = shared.judge.plan.groups.get(number as usize) else { return };
        let verdict = shared.judge.verdict(group, before, previous, shot);
        match verdict {
            WindowVerdict::Nothing => return,
            WindowVerdict::Outside => {
                self.outside += 1;
                return;
            }
            WindowVerdict::Rejected(_) | WindowVerdict::Window => {}
        }
        if !shared.judge.plan.targets.has(Some((shot.pid, shot.tid))) {
            self.foreign += 1;
            return;
        }
        self.count_cpu(shot.cpu, verdict == WindowVerdict::Rejected(Cause::WrongOffset));
        let spot = shared.spots.spot(shot.place);
        let (WindowVerdict::Window, Some(start)) = (verdict, previous) else {
            if let WindowVerdict::Rejected(cause) = verdict {
                self.row(spot.row).reject(cause);
            }
            return;
        };
        let row = self.row(spot.row);
        if spot.symbol == NAMELESS {
            return row.reject(Cause::NoSymbol);
        }
        let is_same = shared.spots.spot(start.place).symbol == spot.symbol;
        row.same += u64::from(is_same);
        row.other += u64::from(!is_same);
        if !is_same && !shared.keeps_others {
            return row.reject(Cause::OtherSymbol);
        }
        let mut counted = [0; super::shot::MOST];
        let counters = group.events.len().min(counted.len());
        for (at, count) in counted[..counters].iter_mut().enumerate() {
            *count = shot.values[at].wrapping_sub(start.values[at]);
        }
        if !shared.keeps_others && group.returns.is_some_and(|at| counted[at] > 0) {
            return row.reject(Cause::Return);
        }
        let block = shared.clock.block_of(shot.time).unwrap_or(0);
        row.keep(number, block.into(), &counted[..counters]);
    }

    #[inline]
    fn count_cpu(&mut self, cpu: u32, is_wrong: bool) {
        if cpu == NO_CPU {
            return;
        }
        if cpu != self.latest.0 {
            let (before, windows) =
                std::mem::replace(&mut self.latest, (cpu, CpuWindows::default()));
            self.add_cpu(before, windows);
        }
        self.latest.1.windows += 1;
        self.latest.1.wrong_offset += u64::from(is_wrong);
    }
}

/// The second pass.
pub(super) struct Windower<'a> {
    shared: &'a PassContext<'a>,
    finder: Finder,
    sums: Sums,
    /// Streams of the stretch at hand.
    streams: Vec<Stream>,
    at: FxHashMap<u64, usize>,
    latest: usize,
    first_record: u64,
    stretches: Vec<(u64, Vec<Stream>)>,
}

impl<'a> Windower<'a> {
    pub(super) fn new(shared: &'a PassContext<'a>, finder: Finder) -> Self {
        Self {
            shared,
            finder,
            sums: Sums::default(),
            streams: Vec::new(),
            at: FxHashMap::default(),
            latest: 0,
            first_record: 0,
            stretches: Vec::new(),
        }
    }

    fn end(&mut self) {
        if !self.streams.is_empty() {
            self.stretches.push((self.first_record, std::mem::take(&mut self.streams)));
        }
        self.at.clear();
        self.latest = 0;
    }
}

impl SampleVisitor for Windower<'_> {
    const SPLITS_COUNTS: bool = false;

    fn begin(&mut self, first_record: u64) {
        self.end();
        self.first_record = first_record;
    }

    #[inline]
    fn sample<L: Lookup>(&mut self, lookup: &L, at: L::At, hit: &SampleFields<'_>, _: Option<u64>) {
        let Some(key) = stream(hit) else { return };
        let shared = self.shared;
        let (place, passes) = self.finder.find(lookup, at, hit, |place| shared.spots.number(place));
        if self.streams.get(self.latest).is_none_or(|stream| stream.key != key) {
            self.latest = *self.at.entry(key).or_insert_with(|| {
                let plan = shared.judge.plan;
                let group = plan.group(&events(hit, &plan.of_id));
                self.streams.push(Stream::new(key, group.unwrap_or(u32::MAX)));
                self.streams.len() - 1
            });
        }
        let stream = &mut self.streams[self.latest];
        let group = stream.group;
        if let Some([before, previous, shot]) = stream.push(|shot| shot.set(hit, place, passes)) {
            self.sums.take(shared, group, Some(before), Some(previous), shot);
        }
    }
}

/// Puts together what threads found, and judges what stands at the borders of stretches.
pub(super) fn together(windowers: Vec<Windower<'_>>) -> Sums {
    let mut sums = Sums::default();
    let mut stretches = Vec::new();
    let mut shared = None;
    for mut windower in windowers {
        windower.end();
        sums.merge(&windower.sums);
        stretches.append(&mut windower.stretches);
        shared = Some(windower.shared);
    }
    let Some(shared) = shared else { return sums };
    stretches.sort_by_key(|(first_record, _)| *first_record);
    let mut tails: FxHashMap<u64, Tail> = FxHashMap::default();
    for stream in stretches.iter().flat_map(|(_, streams)| streams) {
        let known = tails.entry(stream.key).or_default();
        let mut tail = *known;
        for shot in stream.first() {
            sums.take(shared, stream.group, tail.before.as_ref(), tail.latest.as_ref(), shot);
            tail.push(*shot);
        }
        if let Some([before, latest]) = stream.last() {
            tail = Tail { before: Some(*before), latest: Some(*latest) };
        }
        *known = tail;
    }
    let (cpu, windows) = std::mem::take(&mut sums.latest);
    sums.add_cpu(cpu, windows);
    sums
}
