//! One function from inside: its samples by instruction and by source line.
//!
//! The function is the one whose code the address lies in, whatever was inlined there; the line is that
//! of the innermost inlined function, as debug information has it. What has no function is of its module.

use std::hash::Hash;
use std::sync::Arc;

use pmuscope_stats::Interval;
use pmuscope_symbols::Line;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Sums;
use super::query::{NONE, series_of};
use crate::aggregate::{Aggregate, CodeFrame, FunctionId, SampleCell};
use crate::table::ValueNumbers;
use crate::timeline::modules::UNKNOWN;

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

/// A function that holds code, or all code of a module that has no function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeHolder {
    /// Index into the recording's modules.
    pub module: u32,
    /// The function; `None` where there is no symbol.
    pub function: Option<FunctionId>,
}

impl CodeHolder {
    fn of(counts: &Aggregate, cell: &SampleCell) -> Self {
        let frame = holder(counts, cell);
        Self {
            module: frame.map_or(UNKNOWN, |frame| frame.module),
            function: frame.and_then(|frame| frame.function),
        }
    }

    /// The function's name. Foreign text.
    #[must_use]
    pub fn name(self, counts: &Aggregate) -> Option<&str> {
        self.function.map(|function| &*counts.functions[function as usize].name)
    }
}

/// Code that samples were taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    /// Where.
    pub holder: CodeHolder,
    /// Samples of all events.
    pub samples: u64,
}

/// Functions that hold code in which samples were taken, and modules with samples that have no function; the most samples
/// first.
#[must_use]
pub fn sampled(counts: &Aggregate) -> Vec<Sampled> {
    let mut sums: FxHashMap<CodeHolder, u64> = FxHashMap::default();
    for cell in &counts.cells {
        *sums.entry(CodeHolder::of(counts, cell)).or_default() += cell.samples;
    }
    let mut found: Vec<Sampled> =
        sums.into_iter().map(|(holder, samples)| Sampled { holder, samples }).collect();
    let place = |one: &Sampled| (one.holder.module, one.holder.function);
    found.sort_by(|a, b| {
        (b.samples.cmp(&a.samples))
            .then_with(|| a.holder.name(counts).cmp(&b.holder.name(counts)))
            .then_with(|| place(a).cmp(&place(b)))
    });
    found
}

/// Functions that hold code inlined from one that is called `name`, in the order of their names.
#[must_use]
pub fn inlined_into(counts: &Aggregate, name: &str) -> Vec<CodeHolder> {
    let function = |id: FunctionId| &counts.functions[id as usize].name;
    let mut found: FxHashSet<CodeHolder> = FxHashSet::default();
    for cell in &counts.cells {
        let mut inlined = own_frames(counts, cell).take_while(|frame| frame.inlined);
        if inlined.any(|frame| frame.function.is_some_and(|id| **function(id) == *name)) {
            found.insert(CodeHolder::of(counts, cell));
        }
    }
    found.retain(|holder| holder.function.is_some());
    let mut found: Vec<CodeHolder> = found.into_iter().collect();
    found.sort_unstable_by_key(|holder| (holder.name(counts), holder.module));
    found
}

/// Where the samples of an event lie in a function; `None` if there are none. Of `counts` that tell
/// addresses and lines apart.
#[must_use]
pub fn function_hits(counts: &Aggregate, event: u32, place: CodeHolder) -> Option<FunctionHits> {
    let is_in = |cell: &SampleCell| CodeHolder::of(counts, cell) == place;
    let own = hits(counts, event, |cell| is_in(cell).then_some(())).pop()?;
    Some(FunctionHits {
        own,
        addresses: hits(counts, event, |cell| {
            is_in(cell).then(|| holder(counts, cell)?.address).flatten()
        }),
        lines: hits(counts, event, |cell| {
            is_in(cell).then(|| own_frames(counts, cell).next()?.line.clone()).flatten()
        }),
    })
}

/// Where functions were inlined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InlinedCode {
    /// Name of the innermost function that was inlined at an address, as the module counts it.
    pub addresses: FxHashMap<u64, Arc<str>>,
    /// The same of a source line.
    pub lines: FxHashMap<Line, Arc<str>>,
}

impl InlinedCode {
    /// As far as samples in the function say.
    #[must_use]
    pub fn of(counts: &Aggregate, place: CodeHolder) -> Self {
        let mut found = Self::default();
        let cells = counts.cells.iter().filter(|cell| CodeHolder::of(counts, cell) == place);
        for frame in cells.filter_map(|cell| own_frames(counts, cell).next()) {
            if let Some(function) = frame.function.filter(|_| frame.inlined) {
                let name = &counts.functions[function as usize].name;
                found.add(frame.address, frame.line.as_ref(), name);
            }
        }
        found
    }

    /// Adds a function that was inlined at an address and a line.
    pub(crate) fn add(&mut self, address: Option<u64>, line: Option<&Line>, name: &Arc<str>) {
        if let Some(address) = address {
            self.addresses.insert(address, Arc::clone(name));
        }
        if let Some(line) = line {
            self.lines.insert(line.clone(), Arc::clone(name));
        }
    }
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
        let place = |function| CodeHolder { module: 0, function: Some(function) };
        let found = function_hits(&counts(), 0, place(0)).unwrap();
        assert_eq!((found.own.sums.samples, found.own.share), (120, 0.75));
        let interval = found.own.interval.unwrap();
        assert!(interval.contains(0.75), "{interval:?}");
        let at: Vec<(u64, u64)> =
            found.addresses.iter().map(|hit| (hit.key, hit.sums.samples)).collect();
        assert_eq!(at, [(16, 40), (20, 80)]);
        let lines: Vec<(Option<u32>, f64)> =
            found.lines.iter().map(|hit| (hit.key.number, hit.share)).collect();
        assert_eq!(lines, [(Some(5), 0.25), (Some(90), 0.5)]);
        assert_eq!(function_hits(&counts(), 0, place(1)), None, "it is inlined only");
        assert_eq!(function_hits(&counts(), 7, place(0)), None);
    }

    #[test]
    fn code_without_a_function_is_of_its_module() {
        let mut counts = counts();
        counts.frames[3].function = None;
        let place = CodeHolder { module: 0, function: None };
        let found = function_hits(&counts, 0, place).unwrap();
        let at: Vec<u64> = found.addresses.iter().map(|hit| hit.key).collect();
        assert_eq!((found.own.sums.samples, at), (40, vec![64]));
        assert_eq!(sampled(&counts)[1], Sampled { holder: place, samples: 40 });
    }

    #[test]
    fn functions_are_those_that_hold_the_code() {
        let found: Vec<(Option<u32>, u64)> =
            sampled(&counts()).iter().map(|one| (one.holder.function, one.samples)).collect();
        assert_eq!(found, [(Some(0), 120), (Some(2), 40)]);
        let outer = CodeHolder { module: 0, function: Some(0) };
        assert_eq!(inlined_into(&counts(), "inner"), [outer]);
        let inlined = InlinedCode::of(&counts(), outer);
        let line = Line { file: "/a.c".into(), number: Some(90) };
        assert_eq!(inlined.addresses, [(20, "inner".into())].into_iter().collect());
        assert_eq!(inlined.lines, [(line, "inner".into())].into_iter().collect());
        assert!(inlined_into(&counts(), "outer").is_empty());
    }
}
