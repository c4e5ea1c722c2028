//! Cells to shares of functions: a row for each command and function.
//!
//! Rows are nearly as many as cells, and only the largest are looked at as a rule. So a row is a few
//! numbers until it is known to be among those, and only these are put in order and get their names.
//!
//! A row has what was spent in its function (self), and if totals are asked for also what was spent in all
//! that it called. Functions that only called others then have rows too:
//!
//! ```text
//!  main ► f ► g ► f          self:  f            total:  main, f (once), g
//! ```

use std::sync::Arc;

use pmuscope_stats::MIN_BLOCKS;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Sums;
use super::cell_ranks::CellRanks;
use super::function_table::{FunctionName, FunctionNames, FunctionTable};
use super::query::{CellsByWho, KeyedSums, NONE, RowKeys, add_totals, own_rows};
use crate::aggregate::{
    Aggregate, CodeFrame, FrameId, FunctionId, LongPhases, SampleCell, StackId,
};
use crate::facts::EventFacts;
use crate::pool::in_parallel;
use crate::profile::{
    EventProfile, FunctionShare, HiddenRows, Intervals, ModuleShare, Options, RankBy, Total,
};
use crate::table::{Interned, mix};
use crate::timeline::modules::UNKNOWN;

/// Rows that are there whatever is asked for: notes compare the first two.
const LEAST: usize = 2;

/// What the innermost frames of a stack come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InnermostFrames {
    module: u32,
    inner: Option<FunctionId>,
    /// The function that holds its code, if it was inlined.
    outer: Option<FunctionId>,
}

impl InnermostFrames {
    const NOWHERE: Self = Self { module: UNKNOWN, inner: None, outer: None };

    /// Of a frame; `holder` finds the function that holds its code if it was inlined.
    fn new(frame: &CodeFrame, holder: impl FnOnce() -> Option<FunctionId>) -> Self {
        let is_inlined = frame.inlined && frame.function.is_some();
        let outer = is_inlined.then(holder).flatten();
        Self { module: frame.module, inner: frame.function, outer }
    }

    fn hash(&self) -> u64 {
        let word = |id: Option<u32>| id.map_or(0, |id| 1 + u64::from(id));
        mix(mix(self.module.into(), word(self.inner)), word(self.outer))
    }
}

/// What the cells of an event come to.
struct Found {
    functions: Vec<FunctionShare>,
    modules: Vec<ModuleShare>,
    hidden: HiddenRows,
    /// Blocks of time with samples.
    blocks: usize,
    long_phases: Option<LongPhases>,
}

/// [`Found`] before any row has an interval.
struct RankedTable {
    functions: Vec<FunctionShare>,
    modules: Vec<ModuleShare>,
    hidden: HiddenRows,
    /// Where the cells of the rows are that get an interval.
    ranks: CellRanks,
}

/// All functions of an event by command, the largest first, and where the cells of the `most` largest are: intervals take
/// longer than rows, so they can be asked for later. Shares are of the period if `by_period`, else of the samples. Rows
/// have totals, and functions that only called others have rows, where stacks have calls.
#[must_use]
pub fn ranked_functions(
    counts: &Aggregate,
    event: u32,
    by_period: bool,
    most: usize,
) -> (FunctionTable, CellRanks) {
    let options = Options {
        intervals: Intervals::Largest(most),
        totals: counts.has_calls(),
        ..Options::default()
    };
    let mut rows = Rows::new(counts);
    let by_period = by_period && rows.has_weight(event);
    let RankedTable { functions, modules, hidden, ranks } = rows.ranked(event, by_period, options);
    let names = rows.names;
    (FunctionTable { rows: functions, hidden, modules, long_phases: None, blocks: 0, names }, ranks)
}

/// Makes rows of cells.
pub(crate) struct Rows<'a> {
    aggregate: &'a Aggregate,
    whats: Interned<InnermostFrames>,
    /// What each stack comes to, where that is known already.
    what_of_stack: Vec<u32>,
    /// What each frame comes to that is not inlined, where that is known already.
    what_of_frame: Vec<u32>,
    /// Names of what has been among the largest rows, and their numbers.
    names: FunctionNames,
    function_ids: FxHashMap<(FunctionId, Option<FunctionId>), u32>,
    /// By task.
    command_ids: Vec<u32>,
    /// Blocks with samples of each event, once somebody asks.
    filled: Option<FxHashMap<u32, usize>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(aggregate: &'a Aggregate) -> Self {
        let mut commands: Vec<String> = Vec::new();
        let command_ids = aggregate
            .tasks
            .iter()
            .map(|task| {
                // Tasks are in the order of their names.
                if commands.last().is_none_or(|last| **last != *task.command) {
                    commands.push(task.command.to_string());
                }
                commands.len() as u32 - 1
            })
            .collect();
        Self {
            aggregate,
            whats: Interned::default(),
            what_of_stack: vec![NONE; aggregate.stacks.len()],
            what_of_frame: Vec::new(),
            names: FunctionNames { functions: Vec::new(), commands },
            function_ids: FxHashMap::default(),
            command_ids,
            filled: None,
        }
    }

    /// Names of the functions and commands of all rows that were made.
    pub(crate) fn into_names(self) -> FunctionNames {
        self.names
    }

    /// The rows of one event and their names.
    pub(crate) fn table(mut self, event: u32, by_period: bool, options: Options) -> FunctionTable {
        let by_period = by_period && self.has_weight(event);
        let Found { functions, modules, hidden, blocks, long_phases } =
            self.find(event, by_period, options);
        FunctionTable { rows: functions, hidden, modules, long_phases, blocks, names: self.names }
    }

    fn has_weight(&self, event: u32) -> bool {
        self.aggregate.of_event(event).iter().any(|cell| cell.weight > 0)
    }

    pub(crate) fn event(
        &mut self,
        index: u32,
        facts: EventFacts,
        options: Options,
    ) -> EventProfile {
        let Sums { samples, weight } = Sums::of_all(self.aggregate.of_event(index));
        let by_period = facts.has_period && weight > 0;
        let Found { functions, modules, hidden, blocks, long_phases } =
            self.find(index, by_period, options);
        let period = if facts.has_period {
            Some(weight)
        } else {
            facts.fixed_period.map(|period| period.saturating_mul(samples))
        };
        EventProfile {
            index,
            name: facts.name,
            samples,
            period,
            frequency: facts.frequency,
            fixed_period: facts.fixed_period,
            by_period,
            lost: None,
            lost_at_most: 0,
            by_cpu: Vec::new(),
            blocks,
            long_phases,
            modules,
            functions,
            hidden,
        }
    }

    fn find(&mut self, index: u32, by_period: bool, options: Options) -> Found {
        let RankedTable { mut functions, modules, hidden, ranks } =
            self.ranked(index, by_period, options);
        let (blocks, long_phases) = match Sums::of_all(self.aggregate.of_event(index)).samples {
            0 => (0, None),
            samples if samples < MIN_BLOCKS as u64 => {
                // No interval is possible: of many small events not each goes over all that was counted.
                let filled = self.filled.get_or_insert_with(|| self.aggregate.filled_blocks());
                (filled.get(&index).copied().unwrap_or(0), None)
            }
            _ => {
                let found = ranks.intervals(self.aggregate);
                for (at, row) in functions.iter_mut().enumerate() {
                    (row.interval, row.freedom) = (found.interval(at), found.freedom(at));
                }
                (found.blocks, found.long_phases)
            }
        };
        Found { functions, modules, hidden, blocks, long_phases }
    }

    fn ranked(&mut self, index: u32, by_period: bool, options: Options) -> RankedTable {
        let cells = self.aggregate.of_event(index);
        let Sums { samples, weight } = Sums::of_all(cells);
        let measure = Measure { by_period, total: if by_period { weight } else { samples } };
        let by_who = CellsByWho::new(self, cells);
        let (mut rows, row_of_cell) = own_rows(self, cells, &by_who);
        let own = rows.len();
        if options.totals {
            add_totals(self, &self.aggregate.stacks, cells, &by_who, &mut rows);
        }
        drop(by_who);
        let most = options.rows.map_or(rows.len(), |rows| rows.max(LEAST));
        let order = self.largest_by(&rows, most, by_period, options.rank);
        let mut share = |row: &u32| self.share(&rows[*row as usize], measure, options.totals);
        let functions: Vec<FunctionShare> = order.iter().map(&mut share).collect();
        let modules = self.modules(&rows[..own], measure);
        let hidden = hidden(&rows, &functions, measure);
        let with_interval = &order[..order.len().min(options.intervals.rows())];
        let ranks = CellRanks::new(index, by_period, row_of_cell, with_interval, rows.len());
        RankedTable { functions, modules, hidden, ranks }
    }

    /// The largest rows by what is asked for.
    fn largest_by(
        &mut self,
        rows: &[KeyedSums],
        most: usize,
        by_period: bool,
        by: RankBy,
    ) -> Vec<u32> {
        let all = || (0..rows.len() as u32).collect();
        match by {
            RankBy::Own | RankBy::Total => self.largest(rows, all(), most, by_period, by),
            RankBy::Either => {
                let mut order = self.largest(rows, all(), most, by_period, RankBy::Own);
                if most < rows.len() {
                    let total = self.largest(rows, all(), most, by_period, RankBy::Total);
                    let known: FxHashSet<u32> = order.iter().copied().collect();
                    let more = total.into_iter().filter(|row| !known.contains(row)).collect();
                    // All of these have less than the last of the others, or come after it.
                    order.extend(self.largest(rows, more, most, by_period, RankBy::Own));
                }
                order
            }
        }
    }

    /// The largest of the rows in `order`, the largest first; equal ones by their names, so that the order never
    /// depends on chance. By own samples, totals order only what has none, so that a table without totals has the same
    /// rows first.
    fn largest(
        &mut self,
        rows: &[KeyedSums],
        mut order: Vec<u32>,
        most: usize,
        by_period: bool,
        by: RankBy,
    ) -> Vec<u32> {
        let size = |row: u32| {
            let row = &rows[row as usize];
            let (own, total) = match by_period {
                true => (row.own.weight, row.total.weight),
                false => (row.own.samples, row.total.samples),
            };
            match by {
                RankBy::Total => std::cmp::Reverse((total, own, row.own.samples)),
                RankBy::Own | RankBy::Either => {
                    let total = if row.own.samples == 0 { total } else { 0 };
                    std::cmp::Reverse((own, row.own.samples, total))
                }
            }
        };
        if most < order.len() {
            // Names decide between equal ones only: whatever is as large as the last stays for now.
            let (_, &mut last, _) = order.select_nth_unstable_by_key(most - 1, |&row| size(row));
            order.retain(|&row| size(row) <= size(last));
        }
        let names: Vec<Option<u32>> =
            order.iter().map(|&row| self.name(rows[row as usize].what)).collect();
        let ranks = ranks(&self.names.functions, names.iter().flatten().copied());
        let mut keys: Vec<_> = order
            .iter()
            .zip(names)
            .map(|(&row, name)| {
                let KeyedSums { what, who, .. } = rows[row as usize];
                let module = self.whats.list[what as usize].module;
                (size(row), name.map(|name| ranks[&name]), who, module, row)
            })
            .collect();
        drop(order);
        keys.sort_unstable();
        keys.truncate(most);
        keys.into_iter().map(|(.., row)| row).collect()
    }

    /// The number of a function's name.
    fn name(&mut self, what: u32) -> Option<u32> {
        let InnermostFrames { inner, outer, .. } = self.whats.list[what as usize];
        let (inner, functions) = (inner?, &mut self.names.functions);
        let names = &self.aggregate.functions;
        Some(*self.function_ids.entry((inner, outer)).or_insert_with(|| {
            let name = |id: FunctionId| Arc::clone(&names[id as usize].name);
            functions.push(FunctionName { name: name(inner), inlined_into: outer.map(name) });
            functions.len() as u32 - 1
        }))
    }

    fn share(&mut self, row: &KeyedSums, measure: Measure, totals: bool) -> FunctionShare {
        let weight = measure.of(row.own);
        let total = totals.then(|| {
            let share = measure.share(measure.of(row.total));
            Total { samples: row.total.samples, share }
        });
        FunctionShare {
            command: row.who,
            module: self.whats.list[row.what as usize].module as usize,
            function: self.name(row.what),
            samples: row.own.samples,
            weight,
            share: measure.share(weight),
            interval: None,
            freedom: None,
            total,
        }
    }

    fn modules(&self, rows: &[KeyedSums], measure: Measure) -> Vec<ModuleShare> {
        let mut by_module: FxHashMap<u32, (u64, u64, u64)> = FxHashMap::default();
        for row in rows {
            let InnermostFrames { module, inner, .. } = self.whats.list[row.what as usize];
            let (samples, named, weight) = by_module.entry(module).or_default();
            *samples += row.own.samples;
            *named += if inner.is_some() { row.own.samples } else { 0 };
            *weight += measure.of(row.own);
        }
        let share = |(module, (samples, named, weight))| {
            let (module, share) = (module as usize, measure.share(weight));
            ModuleShare { module, samples, named, share }
        };
        let mut modules: Vec<ModuleShare> = by_module.into_iter().map(share).collect();
        modules.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.module.cmp(&b.module)));
        modules
    }
}

impl RowKeys for Rows<'_> {
    fn whos(&mut self, cells: &[SampleCell]) -> Vec<u32> {
        cells.iter().map(|cell| self.command_ids[cell.task as usize]).collect()
    }

    fn what(&mut self, stack: StackId) -> u32 {
        let known = self.what_of_stack[stack as usize];
        if known != NONE {
            return known;
        }
        let aggregate = self.aggregate;
        let mut frames =
            aggregate.stacks.frames(stack).map(|frame| &aggregate.frames[frame as usize]);
        // A cell is of one place at least.
        let what = frames.next().map_or(InnermostFrames::NOWHERE, |leaf| {
            let holder = || frames.find(|frame| !frame.inlined)?.function;
            InnermostFrames::new(leaf, holder)
        });
        let number = self.whats.intern(what.hash(), what);
        self.what_of_stack[stack as usize] = number;
        number
    }

    /// `above` is the function that holds the code of those that are inlined.
    fn what_below(&mut self, above: u32, frame: FrameId) -> (u32, u32) {
        let code = &self.aggregate.frames[frame as usize];
        let holder = if code.inlined { above } else { code.function.unwrap_or(NONE) };
        let known = self.what_of_frame.get(frame as usize).copied().unwrap_or(NONE);
        if !code.inlined && known != NONE {
            return (known, holder);
        }
        let what = InnermostFrames::new(code, || Some(holder).filter(|&holder| holder != NONE));
        let what = self.whats.intern(what.hash(), what);
        if !code.inlined {
            self.what_of_frame.resize(self.aggregate.frames.len(), NONE);
            self.what_of_frame[frame as usize] = what;
        }
        (what, holder)
    }

    fn nowhere(&mut self) -> u32 {
        let what = InnermostFrames::NOWHERE;
        self.whats.intern(what.hash(), what)
    }

    fn whats(&self) -> usize {
        self.whats.list.len()
    }
}

/// What shares are of.
#[derive(Debug, Clone, Copy)]
struct Measure {
    by_period: bool,
    total: u64,
}

impl Measure {
    fn of(self, sums: Sums) -> u64 {
        if self.by_period { sums.weight } else { sums.samples }
    }

    fn share(self, weight: u64) -> f64 {
        if self.total > 0 { weight as f64 / self.total as f64 } else { 0.0 }
    }
}

/// All rows but those in `shown`.
fn hidden(rows: &[KeyedSums], shown: &[FunctionShare], measure: Measure) -> HiddenRows {
    let sum = |of: fn(&FunctionShare) -> u64| shown.iter().map(of).sum::<u64>();
    let samples: u64 = rows.iter().map(|row| row.own.samples).sum();
    HiddenRows {
        rows: rows.len() - shown.len(),
        samples: samples - sum(|row| row.samples),
        share: measure.share(measure.total - sum(|row| row.weight)),
    }
}

/// Names that are put in order by one thread, at most.
const FEW_NAMES: usize = 10_000;

/// The rank of each name of `used`; equal ones have the same. Rows are many more, and numbers compare faster.
fn ranks(names: &[FunctionName], used: impl Iterator<Item = u32>) -> FxHashMap<u32, u32> {
    let mut order: Vec<u32> = used.collect();
    order.sort_unstable();
    order.dedup();
    let by_name = |a: &u32, b: &u32| names[*a as usize].cmp(&names[*b as usize]);
    if order.len() > FEW_NAMES {
        let middle = order.len() / 2;
        let (first, second) = order.split_at_mut(middle);
        in_parallel([first, second], |half| half.sort_unstable_by(by_name));
    }
    // What is in order already, this sort makes use of.
    order.sort_by(by_name);
    let mut rank = 0;
    let mut before = None;
    let number = |name: u32| {
        rank +=
            u32::from(before.is_some_and(|before| names[before as usize] != names[name as usize]));
        before = Some(name);
        (name, rank)
    };
    order.into_iter().map(number).collect()
}
