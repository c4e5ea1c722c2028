//! One function from inside: its samples by instruction and by source line.
//!
//! The function is the one whose code the address lies in, whatever was inlined there; the line is that
//! of the innermost inlined function, as debug information has it.

use std::hash::Hash;
use std::sync::Arc;

use pmuscope_stats::Interval;
use pmuscope_symbols::Line;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Sums;
use super::query::{NONE, series_of};
use crate::aggregate::{Aggregate, CodeFrame, FunctionId, SampleCell};
use crate::table::ValueNumbers;

/// Samples at one place of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit<K> {
    /// The place.
    pub key: K,
    /// Taken there.
    pub sums: Sums,
    /// Share of all weight of the event, 0 to 1.
    pub share: f64,
    /// 95 % interval of the share.
    pub interval: Option<Interval>,
}

/// Samples of one event in one function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionHits {
    /// All of them.
    pub own: Hit<()>,
    /// By address, as the module counts it; in order.
    pub addresses: Vec<Hit<u64>>,
    /// By source line, in order; samples without one are in `own` only.
    pub lines: Vec<Hit<Line>>,
}

/// A function whose code samples were taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    /// The function.
    pub function: FunctionId,
    /// Samples of all events.
    pub samples: u64,
}

/// Functions that hold code in which samples were taken, the one with the most samples first.
#[must_use]
pub fn sampled(counts: &Aggregate) -> Vec<Sampled> {
    let mut sums: FxHashMap<FunctionId, u64> = FxHashMap::default();
    for cell in &counts.cells {
        if let Some(function) = holder(counts, cell).and_then(|frame| frame.function) {
            *sums.entry(function).or_default() += cell.samples;
        }
    }
    let mut found: Vec<Sampled> =
        sums.into_iter().map(|(function, samples)| Sampled { function, samples }).collect();
    let name = |one: &Sampled| &counts.functions[one.function as usize].name;
    found.sort_by(|a, b| {
        (b.samples.cmp(&a.samples))
            .then_with(|| name(a).cmp(name(b)))
            .then(a.function.cmp(&b.function))
    });
    found
}

/// Names of functions that hold code inlined from one that is called `name`, in order.
#[must_use]
pub fn inlined_into(counts: &Aggregate, name: &str) -> Vec<Arc<str>> {
    let function = |id: FunctionId| &counts.functions[id as usize].name;
    let mut found: FxHashSet<&Arc<str>> = FxHashSet::default();
    for cell in &counts.cells {
        let mut inlined = own_frames(counts, cell).take_while(|frame| frame.inlined);
        if inlined.any(|frame| frame.function.is_some_and(|id| **function(id) == *name)) {
            found.extend(holder(counts, cell).and_then(|frame| frame.function).map(function));
        }
    }
    let mut found: Vec<Arc<str>> = found.into_iter().cloned().collect();
    found.sort_unstable();
    found
}

/// Where the samples of an event lie in a function; `None` if there are none. Of `counts` that tell
/// addresses and lines apart.
#[must_use]
pub fn function_hits(counts: &Aggregate, event: u32, function: FunctionId) -> Option<FunctionHits> {
    let is_in =
        |cell: &SampleCell| holder(counts, cell).filter(|frame| frame.function == Some(function));
    let own = hits(counts, event, |cell| is_in(cell).map(|_| ())).pop()?;
    Some(FunctionHits {
        own,
        addresses: hits(counts, event, |cell| is_in(cell)?.address),
        lines: hits(counts, event, |cell| {
            is_in(cell)?;
            own_frames(counts, cell).next()?.line.clone()
        }),
    })
}

/// Frames of the place where samples were taken, the innermost first, callers behind them.
fn own_frames<'a>(counts: &'a Aggregate, cell: &SampleCell) -> impl Iterator<Item = &'a CodeFrame> {
    counts.stacks.frames(cell.stack).map(|frame| &counts.frames[frame as usize])
}

/// The frame of the function that holds the code.
fn holder<'a>(counts: &'a Aggregate, cell: &SampleCell) -> Option<&'a CodeFrame> {
    own_frames(counts, cell).find(|frame| !frame.inlined)
}

/// Cells of an event added up by key; those without one are in none.
fn hits<K: Clone + Ord + Hash>(
    counts: &Aggregate,
    event: u32,
    key: impl Fn(&SampleCell) -> Option<K>,
) -> Vec<Hit<K>> {
    let cells = counts.of_event(event);
    let mut keys = ValueNumbers::default();
    let number = |cell| key(cell).map_or(NONE, |key| keys.number(key));
    let row_of_cell: Vec<u32> = cells.iter().map(number).collect();
    let mut sums = vec![Sums::default(); keys.list.len()];
    for (cell, &row) in cells.iter().zip(&row_of_cell).filter(|(_, row)| **row != NONE) {
        sums[row as usize].add(Sums::of(cell));
    }
    let all = Sums::of_all(cells).weight.max(1) as f64;
    let mut intervals =
        series_of(counts, event, sums.len(), true, &row_of_cell).intervals().into_iter();
    let hit = |(key, sums): (K, Sums)| {
        let (share, interval) = (sums.weight as f64 / all, intervals.next().flatten());
        Hit { key, sums, share, interval }
    };
    let mut found: Vec<Hit<K>> = keys.list.into_iter().zip(sums).map(hit).collect();
    found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{BlockCount, Function, Series, Stacks, Task, Timeline};

    /// Function 0 holds addresses 16 and 20, with function 1 inlined at 20; function 2 holds 64. Each
    /// block has one sample at 16, two at 20, one at 64.
    fn counts() -> Aggregate {
        let line = |number| Some(Line { file: "/a.c".into(), number: Some(number) });
        let frame = |function, address, number, inlined| CodeFrame {
            function: Some(function),
            module: 0,
            address: Some(address),
            line: line(number),
            inlined,
        };
        let mut stacks = Stacks::default();
        let plain = stacks.push(Stacks::ROOT, 0);
        let outer = stacks.push(Stacks::ROOT, 1);
        let inner = stacks.push(outer, 2);
        let other = stacks.push(Stacks::ROOT, 3);
        let cell = |stack, samples| SampleCell {
            event: 0,
            stack,
            task: 0,
            cpu: None,
            samples,
            weight: samples,
        };
        let block = |cell: u32, samples: u32| {
            (0..40).map(move |block| (cell, BlockCount { block, samples, weight: samples.into() }))
        };
        Aggregate {
            functions: ["outer", "inner", "other"]
                .map(|name| Function { name: name.into(), module: 0, overloads: 0 })
                .to_vec(),
            frames: vec![
                frame(0, 16, 5, false),
                frame(0, 20, 6, false),
                frame(1, 20, 90, true),
                frame(2, 64, 7, false),
            ],
            stacks,
            tasks: vec![Task { command: "x".into(), pid: None, tid: None }],
            cells: vec![cell(plain, 40), cell(inner, 80), cell(other, 40)],
            series: Series::from_counts(block(0, 1).chain(block(1, 2)).chain(block(2, 1))),
            timeline: Timeline { start: 0, block_ns: 1, blocks: 40 },
        }
    }

    #[test]
    fn samples_lie_at_addresses_and_at_the_innermost_lines() {
        let found = function_hits(&counts(), 0, 0).unwrap();
        assert_eq!((found.own.sums.samples, found.own.share), (120, 0.75));
        let interval = found.own.interval.unwrap();
        assert!(interval.contains(0.75), "{interval:?}");
        let at: Vec<(u64, u64)> =
            found.addresses.iter().map(|hit| (hit.key, hit.sums.samples)).collect();
        assert_eq!(at, [(16, 40), (20, 80)]);
        let lines: Vec<(Option<u32>, f64)> =
            found.lines.iter().map(|hit| (hit.key.number, hit.share)).collect();
        assert_eq!(lines, [(Some(5), 0.25), (Some(90), 0.5)]);
        assert_eq!(function_hits(&counts(), 0, 1), None, "it is inlined only");
        assert_eq!(function_hits(&counts(), 7, 0), None);
    }

    #[test]
    fn functions_are_those_that_hold_the_code() {
        let found: Vec<(u32, u64)> =
            sampled(&counts()).iter().map(|one| (one.function, one.samples)).collect();
        assert_eq!(found, [(0, 120), (2, 40)]);
        assert_eq!(inlined_into(&counts(), "inner"), ["outer".into()]);
        assert!(inlined_into(&counts(), "outer").is_empty());
    }
}
