//! What can be done about a line, and what that can gain at most.
//!
//! ```text
//!  false sharing   of parts of one variable    innermost structure or array that has all of them: a new order of its
//!                                              fields, elements in lines of their own
//!                  of several variables        a line for each
//!  true sharing    of a word that several write      a copy for each thread or CPU
//!                  of a word that one writes         fewer writes
//!                  most of it between NUMA nodes     threads on one node
//! ```
//! The gain is what contended loads cost that would find their line where it was left: an upper bound, as other accesses may
//! become slower, and as a program may wait elsewhere then.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pmuscope_symbols::definitions::{PartLayout, TypeLayout};

use super::arrange::{Arrangement, FieldUse, arrange, cost_apart, cost_now, false_cost};
use super::verdict::{SLIGHT, WordUse, counted};
use super::{AccessSums, SharedLine};
use crate::hits::SharingVerdict;

/// A part of a line's cost below which advice is not worth it.
const LEAST_GAIN: f64 = 0.01;
/// Advice on placement: the part of contended loads that are of other nodes, and of accesses that are of one node.
const MOSTLY: f64 = 0.5;

/// What to do about a line.
#[derive(Debug, Clone, PartialEq)]
pub struct LineAdvice {
    /// What.
    pub advice: SharingAdvice,
    /// What that gains at most, in the unit of [`AccessSums::cost`](super::AccessSums::cost); in contended loads, where
    /// none says how long it took.
    pub cost: u64,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SharingAdvice {
    /// Another order of the fields of a structure.
    Rearrange {
        /// The structure as it is.
        object: AdvisedObject,
        /// Its new order.
        arrangement: Arrangement,
    },
    /// A line, or several, for each element of an array.
    PadElements {
        /// The array; its layout is that of an element.
        object: AdvisedObject,
        /// From one element to the next then, bytes.
        stride: u64,
    },
    /// A line for each of these variables. Foreign text.
    Separate(Vec<Arc<str>>),
    /// A copy for each thread or CPU of the words at these offsets, which several threads write.
    Copies(Vec<u32>),
    /// Fewer writes to the words at these offsets, which one thread writes for others.
    Batch(Vec<u32>),
    /// The same as for another line, whose layout also has this one: its position in
    /// [`SharedLines::lines`](super::SharedLines::lines).
    AsLine(u32),
}

/// What a layout is of.
#[derive(Debug, Clone, PartialEq)]
pub struct AdvisedObject {
    /// The variable. Foreign text.
    pub variable: Arc<str>,
    /// The part of it, or of elements of it: `.slots[]`. Foreign text.
    pub path: String,
    /// Its type.
    pub layout: TypeLayout,
    /// From one element to the next, and the number of elements if known, where it is an element of an array.
    pub repeated: Option<(u64, Option<u64>)>,
}

/// Uses of a line by word and thread, with the number of all accesses.
pub(super) type LineUses = Vec<(WordUse, u64)>;

/// Part of a variable of which the layout is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartQuery {
    pub(super) line: usize,
    /// Where the variable begins, where the process has it.
    pub(super) start: u64,
    pub(super) variable: Arc<str>,
    /// Offsets in the line.
    pub(super) offsets: Vec<u32>,
    /// The same in the variable or object.
    pub(super) within: Vec<u64>,
    /// There is no variable: `variable` is the type of an object.
    pub(super) is_type: bool,
}

/// A use that counts: threads and writes that are too few for a verdict are left out.
#[derive(Debug, Clone, Copy)]
struct CountedUse {
    one: WordUse,
    accesses: u64,
}

/// Uses of a line that count, as for the verdict; without sampled writes, contended loads are taken for some.
fn counted_uses(uses: &LineUses, has_cost: bool) -> Vec<CountedUse> {
    let words: Vec<WordUse> = uses.iter().map(|one| one.0).collect();
    let counted = counted(&words);
    let counts = |one: &&(WordUse, u64)| {
        counted.iter().any(|other| (other.0.word, other.0.thread) == (one.0.word, one.0.thread))
    };
    let of = |&(one, accesses): &(WordUse, u64)| {
        let mut counted = counted.iter();
        let same =
            |other: &&(&WordUse, bool)| (other.0.word, other.0.thread) == (one.word, one.thread);
        let writes = counted.find(same).is_some_and(|other| other.1);
        let writes = if writes { one.writes.max(one.contended).max(1) } else { 0 };
        let cost = if has_cost { one.cost } else { one.contended };
        CountedUse { one: WordUse { writes, cost, ..one }, accesses }
    };
    uses.iter().filter(counts).map(of).collect()
}

/// The variable that an offset of a line is in, and where that begins.
fn variable(line: &SharedLine, word: u32) -> Option<(Arc<str>, u64)> {
    let mut offsets = line.offsets.iter().filter(|one| one.word == word);
    offsets.find_map(|one| {
        let at = line.address.checked_add(u64::from(one.offset))?;
        Some((Arc::clone(one.object.as_ref()?), at.checked_sub(one.within?)?))
    })
}

/// The same of an object without a variable: its type.
fn object(line: &SharedLine, word: u32) -> Option<(Arc<str>, u64, bool)> {
    if let Some((name, start)) = variable(line, word) {
        return Some((name, start, false));
    }
    let mut offsets = line.offsets.iter().filter(|one| one.word == word && one.object.is_none());
    offsets.find_map(|one| {
        let at = line.address.checked_add(u64::from(one.offset))?;
        Some((Arc::clone(one.type_name.as_ref()?), at.checked_sub(one.within?)?, true))
    })
}

fn is_false(line: &SharedLine) -> bool {
    matches!(line.verdict.verdict, SharingVerdict::FalseSharing | SharingVerdict::Both)
}

/// Parts of variables that lines with false sharing are of; only of the first `most` lines.
pub(super) fn queries(lines: &[SharedLine], uses: &[LineUses], most: usize) -> Vec<PartQuery> {
    let mut all = Vec::new();
    for (number, (line, uses)) in lines.iter().zip(uses).enumerate().take(most) {
        if !is_false(line) || line.in_kernel {
            continue;
        }
        let uses = counted_uses(uses, true);
        let sum: u64 = uses.iter().map(|one| one.accesses).sum();
        let mut of_word: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
        for one in &uses {
            let word = of_word.entry(one.one.word).or_default();
            *word = (word.0 + one.accesses, word.1 || one.one.writes > 0);
        }
        // Words that are hardly used would make the part larger than need be.
        of_word.retain(|_, (accesses, is_written)| {
            *is_written || *accesses as f64 >= SLIGHT * sum as f64
        });
        let mut by_variable: BTreeMap<(u64, Arc<str>, bool), Vec<u32>> = BTreeMap::new();
        for &word in of_word.keys() {
            let Some((name, start, is_type)) = object(line, word) else { continue };
            by_variable.entry((start, name, is_type)).or_default().push(word);
        }
        all.extend(by_variable.into_iter().map(|((start, variable, is_type), offsets)| {
            let at = |offset: &u32| (line.address + u64::from(*offset)).saturating_sub(start);
            let within = offsets.iter().map(at).collect();
            PartQuery { line: number, start, variable, offsets, within, is_type }
        }));
    }
    all
}

/// Advice for all lines; `parts` are the answers to [`queries`].
pub(super) fn advise(
    lines: &mut [SharedLine],
    uses: &[LineUses],
    parts: &[(PartQuery, Option<PartLayout>)],
    (line_bytes, has_cost): (u32, bool),
) {
    let uses: Vec<Vec<CountedUse>> = uses.iter().map(|uses| counted_uses(uses, has_cost)).collect();
    let scene = LineScene { lines, uses: &uses, line_bytes: u64::from(line_bytes) };
    let mut advice: Vec<Vec<LineAdvice>> = scene.of_words();
    for (number, one) in scene.separations() {
        advice[number].push(one);
    }
    for (of_lines, one) in scene.layouts(parts) {
        for &line in of_lines.iter().skip(1) {
            let cost = 0;
            let advice_of_line = SharingAdvice::AsLine(of_lines[0] as u32);
            advice[line].push(LineAdvice { advice: advice_of_line, cost });
        }
        if let Some(&first) = of_lines.first() {
            advice[first].insert(0, one);
        }
    }
    lines.iter_mut().zip(advice).for_each(|(line, advice)| line.advice = advice);
}

/// All lines with what counts of their uses.
struct LineScene<'a> {
    lines: &'a [SharedLine],
    uses: &'a [Vec<CountedUse>],
    line_bytes: u64,
}

/// An object, or several in an array: key of what is asked for once.
type ObjectKey = (Option<i32>, Arc<str>, u64, Arc<str>, String, u64, String);

impl LineScene<'_> {
    /// Advice on words that several threads need.
    fn of_words(&self) -> Vec<Vec<LineAdvice>> {
        let one = |(line, uses): (&SharedLine, &Vec<CountedUse>)| match line.verdict.verdict {
            SharingVerdict::TrueSharing | SharingVerdict::Both => of_words(uses),
            _ => Vec::new(),
        };
        self.lines.iter().zip(self.uses).map(one).collect()
    }

    /// Lines in which variables disturb each other.
    fn separations(&self) -> Vec<(usize, LineAdvice)> {
        let mut found = Vec::new();
        for (number, (line, uses)) in self.lines.iter().zip(self.uses).enumerate() {
            if !is_false(line) || line.in_kernel {
                continue;
            }
            let named: Option<Vec<(u64, Arc<str>)>> = uses
                .iter()
                .map(|one| variable(line, one.one.word).map(|(name, start)| (start, name)))
                .collect();
            let Some(named) = named else { continue };
            let mut by_variable = named.clone();
            by_variable.sort_unstable();
            by_variable.dedup();
            if by_variable.len() < 2 {
                continue;
            }
            let field = |one: &CountedUse| self.use_of(line, one, 0, u64::from(one.one.word));
            let fields: Vec<FieldUse> = uses.iter().map(field).collect();
            let apart = |at: &(usize, &FieldUse)| {
                by_variable.binary_search(&named[at.0]).map_or(0, |variable| variable as u64)
            };
            let alone: Vec<(u64, u64, &FieldUse)> =
                fields.iter().enumerate().map(|at| (apart(&at), at.1.offset, at.1)).collect();
            let left = false_cost(&alone);
            if is_worth(cost_now(&fields).saturating_sub(left), uses) {
                let names = by_variable.into_iter().map(|(_, name)| name).collect();
                // Loads that wait for writes that were not sampled are among them: it is a bound.
                let all = uses.iter().filter(|one| is_false_use(one, uses));
                let all = all.fold(0_u64, |sum, one| sum.saturating_add(one.one.cost));
                let advice = SharingAdvice::Separate(names);
                found.push((number, LineAdvice { advice, cost: all.saturating_sub(left) }));
            }
        }
        found
    }

    fn use_of(&self, line: &SharedLine, of: &CountedUse, instance: u64, offset: u64) -> FieldUse {
        let WordUse { thread, cost, writes, .. } = of.one;
        let line = line.address / self.line_bytes;
        FieldUse { instance, offset, thread, line, accesses: of.accesses, cost, writes }
    }

    /// Advice on structures and arrays, each with the lines that have it, the first of them first.
    fn layouts(&self, parts: &[(PartQuery, Option<PartLayout>)]) -> Vec<(Vec<usize>, LineAdvice)> {
        let mut objects: BTreeMap<ObjectKey, (Vec<usize>, &PartQuery, &PartLayout)> =
            BTreeMap::new();
        for (query, part) in parts {
            let (Some(part), Some(line)) = (part, self.lines.get(query.line)) else { continue };
            let key = (
                line.pid,
                Arc::clone(&line.module),
                query.start,
                Arc::clone(&query.variable),
                part.path.clone(),
                part.offset,
                part.layout.name.clone(),
            );
            let object = objects.entry(key).or_insert_with(|| (Vec::new(), query, part));
            object.0.push(query.line);
        }
        let one = |(lines, query, part): (Vec<usize>, &PartQuery, &PartLayout)| {
            Some((lines, self.of_object(query, part)?))
        };
        objects.into_values().filter_map(one).collect()
    }

    fn of_object(&self, query: &PartQuery, part: &PartLayout) -> Option<LineAdvice> {
        let start = query.start.checked_add(part.offset)?;
        let (stride, length) = match part.repeated {
            Some(array) => (array.stride, array.length.unwrap_or(u64::MAX)),
            None => (u64::MAX, 1),
        };
        // Where an address is in the object: element and offset in its part.
        let within = |address: u64| {
            let at = address.checked_sub(start)?;
            let (instance, offset) = (at / stride, at % stride);
            (instance < length && offset < part.layout.bytes).then_some((instance, offset))
        };
        let of = self.lines.get(query.line)?;
        let (mut fields, mut measured): (Vec<FieldUse>, Vec<Range<u64>>) = Default::default();
        let mut all_false = 0_u64;
        for (line, uses) in self.lines.iter().zip(self.uses) {
            if line.pid != of.pid || line.module != of.module || line.in_kernel {
                continue;
            }
            measured.extend(covered(line.address, self.line_bytes, start, (stride, length), part));
            for one in uses {
                let is_it = object(line, one.one.word).is_some_and(|(name, from, is_type)| {
                    (from, name, is_type)
                        == (query.start, Arc::clone(&query.variable), query.is_type)
                });
                let address = line.address.checked_add(u64::from(one.one.word));
                let Some((instance, offset)) = address.filter(|_| is_it).and_then(within) else {
                    continue;
                };
                if is_false_use(one, uses) {
                    all_false = all_false.saturating_add(one.one.cost);
                }
                fields.push(self.use_of(line, one, instance, offset));
            }
        }
        let object = AdvisedObject {
            variable: Arc::clone(&query.variable),
            path: part.path.clone(),
            layout: part.layout.clone(),
            repeated: part.repeated.map(|array| (array.stride, array.length)),
        };
        if let Some(arrangement) = arrange(&part.layout, &fields, self.line_bytes, &measured) {
            // Elements in lines of their own may be enough.
            let apart = cost_apart(&fields, self.line_bytes);
            if part.repeated.is_none() || is_less(arrangement.remaining_cost, apart, &fields) {
                let cost = all_false.saturating_sub(arrangement.remaining_cost);
                let advice = SharingAdvice::Rearrange { object, arrangement };
                return Some(LineAdvice { advice, cost });
            }
        }
        let array =
            part.repeated.filter(|_| part.has_several || part.layout.bytes < self.line_bytes)?;
        let stride = array.stride.checked_next_multiple_of(self.line_bytes)?;
        let apart = cost_apart(&fields, self.line_bytes);
        let is_better = is_less(apart, cost_now(&fields), &fields);
        let cost = all_false.saturating_sub(apart);
        let advice = SharingAdvice::PadElements { object, stride };
        is_better.then_some(LineAdvice { advice, cost })
    }
}

/// Offsets in the type that a line covers: in the elements that it is of.
fn covered(
    address: u64,
    line_bytes: u64,
    start: u64,
    (stride, length): (u64, u64),
    part: &PartLayout,
) -> Vec<Range<u64>> {
    let end = address.saturating_add(line_bytes);
    let Some(last) = end.checked_sub(1).and_then(|last| last.checked_sub(start)) else {
        return Vec::new();
    };
    let first = address.saturating_sub(start) / stride;
    let element = |instance: u64| {
        let from = start.saturating_add(instance.saturating_mul(stride));
        let (low, high) = (address.saturating_sub(from), end.saturating_sub(from));
        (low.min(part.layout.bytes))..(high.min(part.layout.bytes))
    };
    // Elements of a byte are the smallest.
    let last = (last / stride).min(length - 1).min(first.saturating_add(line_bytes));
    (first..=last).map(element).filter(|range| !range.is_empty()).collect()
}

/// Whether a use is one of false sharing: no other thread writes the word.
fn is_false_use(of: &CountedUse, uses: &[CountedUse]) -> bool {
    let mut same = uses.iter().filter(|one| one.one.word == of.one.word);
    !same.any(|one| one.one.thread != of.one.thread && one.one.writes > 0)
}

fn is_worth(gain: u64, uses: &[CountedUse]) -> bool {
    let all = uses.iter().fold(0_u64, |sum, one| sum.saturating_add(one.one.cost));
    gain > 0 && gain as f64 >= LEAST_GAIN * all as f64
}

fn is_less(new: u64, old: u64, uses: &[FieldUse]) -> bool {
    let all = uses.iter().fold(0_u64, |sum, one| sum.saturating_add(one.cost));
    new < old && (old - new) as f64 >= LEAST_GAIN * all as f64
}

/// Advice on words that threads need of each other.
fn of_words(uses: &[CountedUse]) -> Vec<LineAdvice> {
    let mut by_word: BTreeMap<u32, Vec<&CountedUse>> = BTreeMap::new();
    uses.iter().for_each(|one| by_word.entry(one.one.word).or_default().push(one));
    let (mut copies, mut batch) = ((Vec::new(), 0_u64), (Vec::new(), 0_u64));
    for (word, uses) in by_word {
        let writers = uses.iter().filter(|one| one.one.writes > 0).count();
        // Those who only read would have to add copies up.
        let has_copies = writers > 1;
        let into = match writers {
            0 => continue,
            1 => &mut batch,
            _ => &mut copies,
        };
        let counts = |one: &CountedUse| (one.one.writes > 0) == has_copies;
        let costs = uses.iter().filter(|one| counts(one)).map(|one| one.one.cost);
        let cost = costs.fold(0, u64::saturating_add);
        if cost > 0 {
            into.0.push(word);
            into.1 = into.1.saturating_add(cost);
        }
    }
    let advice = [
        LineAdvice { advice: SharingAdvice::Copies(copies.0), cost: copies.1 },
        LineAdvice { advice: SharingAdvice::Batch(batch.0), cost: batch.1 },
    ];
    let mut advice: Vec<LineAdvice> =
        advice.into_iter().filter(|one| is_worth(one.cost, uses)).collect();
    advice.sort_by_key(|one| std::cmp::Reverse(one.cost));
    advice
}

/// A NUMA node for the threads that share a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodePlacement {
    /// The node that has most of its accesses.
    pub node: u32,
    /// Its share of them.
    pub share: f64,
    /// Share of contended loads that found the line in a cache of another node.
    pub remote_share: f64,
    /// What the threads of a line gain at most from being on one node: what contended loads from other nodes cost more
    /// than the mean of the others; all of it, where there are no others. In the unit of
    /// [`AccessSums::cost`](super::AccessSums::cost).
    pub cost: u64,
}

impl SharedLine {
    /// The node for the threads of a line, where most contended loads are from other nodes and most accesses of one;
    /// `node` gives that of a CPU. `None` also where a CPU's is not known.
    #[must_use]
    pub fn placement(&self, node: impl Fn(u32) -> Option<u32>) -> Option<NodePlacement> {
        let mut by_node: BTreeMap<u32, u64> = BTreeMap::new();
        let mut all = AccessSums::default();
        let known = self.cpus.iter().filter_map(|(cpu, sums)| Some(((*cpu)?, sums)));
        for (cpu, sums) in known {
            *by_node.entry(node(cpu)?).or_default() += sums.loads() + sums.stores();
            all.add(sums);
        }
        let (&node, &most) = by_node.iter().max_by_key(|(_, accesses)| **accesses)?;
        let (accesses, remote) = (all.loads() + all.stores(), all.remote());
        let share = most as f64 / accesses.max(1) as f64;
        let remote_share = remote as f64 / all.contended().max(1) as f64;
        let local = all.contended() - remote;
        let local_cost = all.cost.saturating_sub(all.remote_cost);
        let mean = if local == 0 { 0.0 } else { local_cost as f64 / local as f64 };
        let cost = all.remote_cost as f64 - mean * remote as f64;
        let is_clear = by_node.len() > 1 && share > MOSTLY && remote_share > MOSTLY && cost >= 1.0;
        is_clear.then_some(NodePlacement { node, share, remote_share, cost: cost as u64 })
    }
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
