//! A new order of a structure's fields, so that threads do not share cache lines by accident.
//!
//! ```text
//!  units      fields that stay together: bit-fields of one word, a base class, an array
//!  classes    by who uses them: written and read by one thread; written by one, read by others; written by several;
//!             only read; not used
//!  regions    one for each class, each from the beginning of a line on; fields that are not used fill the gaps
//! ```
//! That no two classes share a line is both the least false sharing that an order can have and always possible, but for
//! base classes, which have to be in front. What is left is the number of lines: within a region, fields in the order of their alignments leave no gaps; of two orders with
//! as many lines the one that moves fewer fields is taken. Fields of which no line was sampled are a class, too: nothing is
//! known of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pmuscope_symbols::definitions::{FieldRole, LayoutKind, TypeLayout};

/// Structures with more fields keep their order.
const MOST_FIELDS: usize = 400;
/// Larger alignments are those of pages, bytes.
const LARGEST_ALIGN: u64 = 1 << 20;
/// A field with a smaller share of an object's accesses, and no writes, counts as not used; a gain that is a smaller share
/// of what an object's contended loads cost is none.
const SLIGHT: f64 = 0.01;
/// A thread with a smaller share of a field's accesses or writes than this of the main thread's does not count.
const MINOR: f64 = 0.05;

/// What a thread did with a word of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldUse {
    /// Which of several objects of the type.
    pub(super) instance: u64,
    /// Where the word begins in the type, bytes.
    pub(super) offset: u64,
    pub(super) thread: u32,
    /// The line that it is in.
    pub(super) line: u64,
    /// Loads and writes.
    pub(super) accesses: u64,
    /// What contended loads cost.
    pub(super) cost: u64,
    /// 0 where they are too few to count.
    pub(super) writes: u64,
}

/// Who uses a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FieldClass {
    /// Not in a line that was sampled.
    Unmeasured,
    Untouched,
    ReadMostly,
    /// Written by one thread, which alone reads it.
    Private(u32),
    /// Written by one thread, read by others.
    Published(u32),
    /// Written by these.
    Shared(Vec<u32>),
    /// An array with each element in lines that nothing else is in.
    Padded,
}

/// A field in its new place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedField {
    /// Position in the fields of the old layout.
    pub field: usize,
    /// New offset, bytes.
    pub offset: u64,
    /// New size, bytes: larger than before where elements are padded.
    pub bytes: u64,
    /// It has to be aligned to a line, as what uses it differs from what uses the field before.
    pub begins_line: bool,
    /// From one element to the next, of an array whose elements are to be in different lines.
    pub element_stride: Option<u64>,
    /// Threads that write it, in order: positions in [`SharedLines::threads`](super::SharedLines::threads).
    pub writers: Vec<u32>,
    /// Threads that read it and do not write it, in order.
    pub readers: Vec<u32>,
    /// Whether samples show who uses it: not where no contended line has it.
    pub is_measured: bool,
}

/// A structure with a new order of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// In their new order.
    pub fields: Vec<PlacedField>,
    /// New size, bytes.
    pub bytes: u64,
    /// New alignment: a line, or more where it was more.
    pub align: u64,
    /// False sharing that is left: what contended loads of words that no other thread writes cost in lines that others
    /// write.
    pub remaining_cost: u64,
}

/// Fields that stay together.
#[derive(Debug, Clone)]
struct FieldUnit {
    fields: Range<usize>,
    offset: u64,
    bytes: u64,
    align: u64,
    /// Before all others: base classes, pointers to virtual functions.
    is_first: bool,
    /// After all others: an array without an end.
    is_last: bool,
    /// Old and new stride of elements that get lines of their own.
    padded: Option<(u64, u64)>,
    class: FieldClass,
}

impl FieldUnit {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Bytes in the new layout.
    fn new_bytes(&self) -> u64 {
        match self.padded {
            Some((old, new)) => (self.bytes / old).saturating_mul(new),
            None => self.bytes,
        }
    }

    /// Where an offset of the old layout comes to be in the unit.
    fn new_within(&self, offset: u64) -> u64 {
        let within = offset - self.offset;
        match self.padded {
            Some((old, new)) => within / old * new + within % old,
            None => within,
        }
    }
}

/// What contended loads of words cost that no other thread writes, in lines where another thread writes another word.
/// Words are given with their line.
pub(super) fn false_cost<W: Ord + Copy>(uses: &[(u64, W, &FieldUse)]) -> u64 {
    let mut lines: BTreeMap<u64, Vec<(W, &FieldUse)>> = BTreeMap::new();
    for &(line, word, one) in uses {
        lines.entry(line).or_default().push((word, one));
    }
    let of_line = |uses: &Vec<(W, &FieldUse)>| -> u64 {
        let writing = uses.iter().filter(|(_, one)| one.writes > 0);
        let writers: BTreeSet<(W, u32)> = writing.map(|(word, one)| (*word, one.thread)).collect();
        let (mut of_word, mut of_thread) = (BTreeMap::new(), BTreeMap::new());
        for &(word, thread) in &writers {
            *of_word.entry(word).or_insert(0_usize) += 1;
            *of_thread.entry(thread).or_insert(0_usize) += 1;
        }
        let is_false = |word: W, thread: u32| {
            let own = usize::from(writers.contains(&(word, thread)));
            let words = of_word.get(&word).copied().unwrap_or(0);
            let threads = of_thread.get(&thread).copied().unwrap_or(0);
            words == own && writers.len() + own > words + threads
        };
        let costs = uses.iter().filter(|(word, one)| one.cost > 0 && is_false(*word, one.thread));
        costs.fold(0, |sum, (_, one)| sum.saturating_add(one.cost))
    };
    lines.values().fold(0, |sum, uses| sum.saturating_add(of_line(uses)))
}

/// False sharing within objects as they are.
pub(super) fn cost_now(uses: &[FieldUse]) -> u64 {
    let placed = uses.iter().map(|one| (one.line, (one.instance, one.offset), one));
    false_cost(&placed.collect::<Vec<_>>())
}

/// False sharing within objects if each begins a line.
pub(super) fn cost_apart(uses: &[FieldUse], line_bytes: u64) -> u64 {
    let by_instance = instances(uses);
    let cost = |uses: &Vec<&FieldUse>| {
        let placed = uses.iter().map(|one| (one.offset / line_bytes, one.offset, *one));
        false_cost(&placed.collect::<Vec<_>>())
    };
    by_instance.values().fold(0, |sum, uses| sum.saturating_add(cost(uses)))
}

fn instances(uses: &[FieldUse]) -> BTreeMap<u64, Vec<&FieldUse>> {
    let mut by_instance: BTreeMap<u64, Vec<&FieldUse>> = BTreeMap::new();
    uses.iter().for_each(|one| by_instance.entry(one.instance).or_default().push(one));
    by_instance
}

/// A new order of the fields of `layout`, where that has less false sharing; `measured` are offsets in it that are in
/// sampled lines. `None` also where the order cannot be chosen: unions, packed structures, virtual base classes.
pub(super) fn arrange(
    layout: &TypeLayout,
    uses: &[FieldUse],
    line_bytes: u64,
    measured: &[Range<u64>],
) -> Option<Arrangement> {
    if !can_change(layout) {
        return None;
    }
    let mut units = units(layout)?;
    let by_unit = of_units(&units, uses);
    classify(&mut units, &by_unit, measured);
    pad_arrays(layout, &mut units, &by_unit, line_bytes);
    let order = [false, true].map(|by_align| regions(&units, line_bytes, by_align));
    let best = order.into_iter().min_by_key(|one| (one.bytes / line_bytes, one.moved))?;
    let remaining_cost = remaining(&units, &best, &by_unit, line_bytes);
    let now = cost_now(uses);
    let all = uses.iter().fold(0_u64, |sum, one| sum.saturating_add(one.cost));
    let gain = now.checked_sub(remaining_cost).filter(|&gain| gain > 0)?;
    if (gain as f64) < SLIGHT * all as f64 {
        return None;
    }
    let align = layout.align.max(line_bytes);
    let bytes = best.bytes.next_multiple_of(align);
    let fields = placed_fields(layout, &units, &best, &by_unit);
    Some(Arrangement { fields, bytes, align, remaining_cost })
}

/// Whether the order of fields can be chosen, and is known well enough for it.
fn can_change(layout: &TypeLayout) -> bool {
    let is_free = layout.kind == LayoutKind::Record && !layout.is_packed;
    let is_small = layout.fields.len() <= MOST_FIELDS && layout.bytes <= u64::from(u32::MAX);
    let is_within =
        |offset: u64, bytes: u64| offset.checked_add(bytes).is_some_and(|end| end <= layout.bytes);
    let mut fields = layout.fields.iter();
    let is_whole = fields.all(|field| {
        let is_aligned = field.align.is_power_of_two() && field.align <= LARGEST_ALIGN;
        let bits = field.bits.is_none_or(|(first, width)| is_within(first / 8, width.div_ceil(8)));
        is_aligned
            && bits
            && is_within(field.offset, if field.bits.is_some() { 0 } else { field.bytes })
    });
    is_free && is_small && is_whole && !layout.has_virtual_bases && !layout.fields.is_empty()
}

/// Fields that cannot be taken apart, in order; `None` where something does not fit.
fn units(layout: &TypeLayout) -> Option<Vec<FieldUnit>> {
    let mut units: Vec<FieldUnit> = Vec::new();
    let mut after_bits = false;
    for (at, field) in layout.fields.iter().enumerate() {
        let bits = field.bits.map(|(first, width)| (first / 8, (first + width).div_ceil(8)));
        let (start, end) = match bits {
            Some((first, end)) => (field.offset.min(first), end),
            None => (field.offset, field.offset.checked_add(field.bytes)?),
        };
        let is_last = end == start && at + 1 == layout.fields.len() && field.array.is_some();
        let is_first = field.role != FieldRole::Member || (start == 0 && end == 0);
        let mut unit = FieldUnit {
            fields: at..at + 1,
            offset: start,
            bytes: end - start,
            align: field.align.max(1),
            is_first,
            is_last,
            padded: None,
            class: FieldClass::Untouched,
        };
        // What overlaps, adjoining bit-fields, and what has no size.
        let mut adjoins = bits.is_some() && after_bits;
        while let Some(last) = units
            .last()
            .filter(|last| !is_last && (last.end() > unit.offset || adjoins || unit.bytes == 0))
        {
            adjoins = false;
            let first = last.offset.min(unit.offset);
            unit.bytes = last.end().max(unit.end()) - first;
            unit.offset = first;
            unit.align = unit.align.max(last.align);
            unit.fields.start = last.fields.start;
            unit.is_first |= last.is_first;
            units.pop();
        }
        after_bits = bits.is_some();
        units.push(unit);
    }
    // Where a unit begins, its alignment has to hold; else the whole cannot be moved.
    units.iter().all(|unit| unit.offset.is_multiple_of(unit.align)).then_some(units)
}

/// Uses by unit; of several objects, threads are numbered in the order of their accesses to each.
type UnitUses = Vec<Vec<(FieldUse, u32)>>;

fn of_units(units: &[FieldUnit], uses: &[FieldUse]) -> UnitUses {
    let mut by_unit: UnitUses = vec![Vec::new(); units.len()];
    let by_instance = instances(uses);
    let is_one = by_instance.len() == 1;
    for uses in by_instance.values() {
        let mut of_thread: BTreeMap<u32, u64> = BTreeMap::new();
        for one in uses {
            *of_thread.entry(one.thread).or_default() += one.accesses;
        }
        let mut ranked: Vec<(u32, u64)> = of_thread.into_iter().collect();
        ranked.sort_by_key(|&(thread, accesses)| (std::cmp::Reverse(accesses), thread));
        let ranks: BTreeMap<u32, u32> = ranked.iter().map(|(thread, _)| *thread).zip(0..).collect();
        for one in uses {
            let after = units.partition_point(|unit| unit.offset <= one.offset);
            let Some(at) = after.checked_sub(1).filter(|&at| one.offset < units[at].end()) else {
                continue;
            };
            by_unit[at].push((**one, if is_one { one.thread } else { ranks[&one.thread] }));
        }
    }
    by_unit
}

/// Threads that write, and those that use a unit, leaving out those with little of it.
fn main_threads(
    uses: &[(FieldUse, u32)],
    name: impl Fn(&(FieldUse, u32)) -> u32,
) -> (Vec<u32>, Vec<u32>) {
    let most = |number: fn(&FieldUse) -> u64| -> Vec<u32> {
        let mut of_thread: BTreeMap<u32, u64> = BTreeMap::new();
        for one in uses {
            *of_thread.entry(name(one)).or_default() += number(&one.0);
        }
        let largest = of_thread.values().copied().max().unwrap_or(0) as f64;
        let counts = |number: u64| number > 0 && number as f64 >= MINOR * largest;
        of_thread.into_iter().filter(|&(_, number)| counts(number)).map(|one| one.0).collect()
    };
    (most(|one| one.writes), most(|one| one.accesses))
}

fn classify(units: &mut [FieldUnit], by_unit: &UnitUses, measured: &[Range<u64>]) {
    let accesses = |uses: &[(FieldUse, u32)]| uses.iter().map(|one| one.0.accesses).sum::<u64>();
    let all: u64 = by_unit.iter().map(|uses| accesses(uses)).sum();
    for (unit, uses) in units.iter_mut().zip(by_unit) {
        let (writers, users) = main_threads(uses, |one| one.1);
        let is_slight = (accesses(uses) as f64) < SLIGHT * all as f64;
        let is_measured = |part: &Range<u64>| part.start < unit.end() && unit.offset < part.end;
        unit.class = match writers[..] {
            [] if unit.bytes > 0 && !measured.iter().any(is_measured) => FieldClass::Unmeasured,
            [] if users.is_empty() || is_slight => FieldClass::Untouched,
            [] => FieldClass::ReadMostly,
            [one] if users.iter().all(|user| *user == one) => FieldClass::Private(one),
            [one] => FieldClass::Published(one),
            _ => FieldClass::Shared(writers),
        };
    }
}

/// Elements of arrays that threads share by accident get lines of their own.
fn pad_arrays(layout: &TypeLayout, units: &mut [FieldUnit], by_unit: &UnitUses, line_bytes: u64) {
    for (unit, uses) in units.iter_mut().zip(by_unit) {
        let field = &layout.fields[unit.fields.start];
        let (1, Some(array)) = (unit.fields.len(), &field.array) else { continue };
        let is_whole = array.length.and_then(|all| all.checked_mul(array.stride));
        if unit.bytes == 0 || is_whole != Some(unit.bytes) || array.stride == 0 {
            continue;
        }
        let within = |one: &FieldUse| one.offset - unit.offset;
        let cost = |line: &dyn Fn(u64) -> u64| {
            let placed = uses.iter().map(|(one, _)| {
                // Lines of one object are not those of another.
                let line = (one.instance << 32).wrapping_add(line(within(one)));
                (line, (one.instance, one.offset), one)
            });
            false_cost(&placed.collect::<Vec<_>>())
        };
        let stride = array.stride.next_multiple_of(line_bytes);
        let new = |at: u64| (at / array.stride * stride + at % array.stride) / line_bytes;
        let (now, padded) = (cost(&|at| at / line_bytes), cost(&new));
        if padded < now && stride != array.stride {
            unit.padded = Some((array.stride, stride));
            (unit.align, unit.class) = (line_bytes.max(unit.align), FieldClass::Padded);
        }
    }
}

/// Units of one class, in lines that they share with no other class.
#[derive(Debug, Clone, Default)]
struct FieldRegion {
    units: Vec<usize>,
}

impl FieldRegion {
    /// Units in the order in which they are placed.
    fn order(&self, units: &[FieldUnit], by_align: bool) -> Vec<usize> {
        let mut order = self.units.clone();
        order.sort_by_key(|&at| {
            let unit = &units[at];
            let rank = if by_align { u64::MAX - unit.align } else { 0 };
            (!unit.is_first, unit.is_last, if unit.is_first || unit.is_last { 0 } else { rank }, at)
        });
        order
    }

    /// Offsets from its beginning, and its end.
    fn place(&self, units: &[FieldUnit], by_align: bool) -> (Vec<(usize, u64)>, u64) {
        let mut end = 0_u64;
        let place = |at: usize| {
            let start = end.next_multiple_of(units[at].align);
            end = start.saturating_add(units[at].new_bytes());
            (at, start)
        };
        (self.order(units, by_align).into_iter().map(place).collect(), end)
    }

    fn lines(&self, units: &[FieldUnit], line_bytes: u64, by_align: bool) -> u64 {
        self.place(units, by_align).1.div_ceil(line_bytes)
    }

    fn with(&self, more: &[usize]) -> Self {
        Self { units: [&self.units[..], more].concat() }
    }
}

/// A whole order.
#[derive(Debug)]
struct FieldOrder {
    /// Units with their offsets, and whether a region begins with it.
    placed: Vec<(usize, u64, bool)>,
    bytes: u64,
    moved: usize,
}

fn regions(units: &[FieldUnit], line_bytes: u64, by_align: bool) -> FieldOrder {
    let mut regions: Vec<FieldRegion> = Vec::new();
    let mut of_class: BTreeMap<(FieldClass, usize), usize> = BTreeMap::new();
    let mut idle: Vec<usize> = Vec::new();
    // What has to be in front is one region, with all that is used like it.
    let first: Vec<usize> = (0..units.len()).filter(|&at| units[at].is_first).collect();
    let is_used = |class: &FieldClass| *class != FieldClass::Untouched;
    let used: BTreeSet<&FieldClass> =
        first.iter().map(|&at| &units[at].class).filter(|class| is_used(class)).collect();
    if !used.is_empty() {
        regions.push(FieldRegion { units: first.clone() });
        if let [only] = used.iter().collect::<Vec<_>>()[..] {
            of_class.insert(((*only).clone(), 0), 0);
        }
    }
    for (at, unit) in units.iter().enumerate() {
        if unit.is_first && !used.is_empty() {
            continue;
        }
        if !is_used(&unit.class) {
            idle.push(at);
            continue;
        }
        let alone = if unit.class == FieldClass::Padded { at } else { 0 };
        let region = *of_class.entry((unit.class.clone(), alone)).or_insert_with(|| {
            regions.push(FieldRegion::default());
            regions.len() - 1
        });
        regions[region].units.push(at);
    }
    if regions.is_empty() {
        regions.push(FieldRegion::default());
    }
    let pinned = |at: &usize| units[*at].is_first || units[*at].is_last;
    let (ends, mut idle): (Vec<usize>, Vec<usize>) = idle.into_iter().partition(pinned);
    for at in ends {
        let region = if units[at].is_first { regions.first_mut() } else { regions.last_mut() };
        region.into_iter().for_each(|region| region.units.push(at));
    }
    if by_align {
        idle.sort_by_key(|&at| (std::cmp::Reverse(units[at].new_bytes()), at));
    }
    fill(units, &mut regions, &idle, line_bytes, by_align);
    assemble(units, &regions, line_bytes, by_align)
}

/// Puts units that are not used where lines have room, near to where they were; the others where they need the fewest lines.
fn fill(
    units: &[FieldUnit],
    regions: &mut [FieldRegion],
    idle: &[usize],
    line_bytes: u64,
    by_align: bool,
) {
    let lines = |region: &FieldRegion| region.lines(units, line_bytes, by_align);
    let mut known: Vec<u64> = regions.iter().map(lines).collect();
    let mut left = Vec::new();
    for &at in idle {
        let before =
            |region: &FieldRegion| region.units.iter().filter(|&&one| one < at).max().copied();
        let mut near: Vec<usize> = (0..regions.len()).collect();
        near.sort_by_key(|&region| (std::cmp::Reverse(before(&regions[region])), region));
        let fits = |&region: &usize| lines(&regions[region].with(&[at])) <= known[region];
        match near.into_iter().find(fits) {
            Some(region) => regions[region].units.push(at),
            None => left.push(at),
        }
    }
    let more = |region: usize| lines(&regions[region].with(&left)) - known[region];
    let last = (0..regions.len()).rev().min_by_key(|&region| more(region));
    if let Some(region) = last.filter(|_| !left.is_empty()) {
        regions[region].units.extend(&left);
        known[region] = lines(&regions[region]);
    }
}

fn assemble(
    units: &[FieldUnit],
    regions: &[FieldRegion],
    line_bytes: u64,
    by_align: bool,
) -> FieldOrder {
    let mut regions: Vec<&FieldRegion> =
        regions.iter().filter(|one| !one.units.is_empty()).collect();
    let rank = |region: &FieldRegion| {
        let is = |test: fn(&FieldUnit) -> bool| region.units.iter().any(|&at| test(&units[at]));
        (!is(|unit| unit.is_first), is(|unit| unit.is_last), region.units.iter().min().copied())
    };
    regions.sort_by_key(|region| rank(region));
    let (mut placed, mut start) = (Vec::new(), 0_u64);
    for region in regions {
        let (of_region, end) = region.place(units, by_align);
        let align = region.units.iter().map(|&at| units[at].align).max().unwrap_or(1);
        start = start.next_multiple_of(line_bytes.max(align));
        placed.extend(of_region.iter().enumerate().map(|(number, &(at, offset))| {
            (at, start.saturating_add(offset), number == 0 && start > 0)
        }));
        start = start.saturating_add(end);
    }
    let order: Vec<usize> = placed.iter().map(|one| one.0).collect();
    let moved = order.len() - longest_rise(&order);
    FieldOrder { placed, bytes: start.next_multiple_of(line_bytes), moved }
}

/// How many numbers of a list can stay where they are so that the others can be moved to make it rise.
fn longest_rise(list: &[usize]) -> usize {
    // By length, the smallest number that ends such a list.
    let mut ends: Vec<usize> = Vec::new();
    for &number in list {
        let at = ends.partition_point(|&end| end < number);
        match ends.get_mut(at) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    ends.len()
}

/// False sharing within objects in the new order.
fn remaining(units: &[FieldUnit], order: &FieldOrder, by_unit: &UnitUses, line_bytes: u64) -> u64 {
    let mut placed = Vec::new();
    for &(at, start, _) in &order.placed {
        for (one, _) in &by_unit[at] {
            let offset = start.saturating_add(units[at].new_within(one.offset));
            // Lines of one object are not those of another.
            let line = (one.instance << 32).wrapping_add(offset / line_bytes);
            placed.push((line, (one.instance, one.offset), one));
        }
    }
    false_cost(&placed)
}

fn placed_fields(
    layout: &TypeLayout,
    units: &[FieldUnit],
    order: &FieldOrder,
    by_unit: &UnitUses,
) -> Vec<PlacedField> {
    let mut fields = Vec::with_capacity(layout.fields.len());
    for &(at, start, begins_line) in &order.placed {
        let unit = &units[at];
        for number in unit.fields.clone() {
            let field = &layout.fields[number];
            let end = field.offset.saturating_add(field.bytes);
            let is_one = unit.fields.len() == 1;
            let within =
                |one: &FieldUse| is_one || (field.offset..end.max(1)).contains(&one.offset);
            let uses: Vec<(FieldUse, u32)> =
                by_unit[at].iter().filter(|(one, _)| within(one)).copied().collect();
            let (writers, users) = main_threads(&uses, |one| one.0.thread);
            let readers = users.into_iter().filter(|user| !writers.contains(user)).collect();
            fields.push(PlacedField {
                field: number,
                offset: start.saturating_add(field.offset.saturating_sub(unit.offset)),
                bytes: if unit.padded.is_some() { unit.new_bytes() } else { field.bytes },
                begins_line: begins_line && number == unit.fields.start,
                element_stride: unit.padded.map(|(_, new)| new),
                writers,
                readers,
                is_measured: unit.class != FieldClass::Unmeasured,
            });
        }
    }
    fields
}

#[cfg(test)]
#[path = "arrange_tests.rs"]
mod tests;
