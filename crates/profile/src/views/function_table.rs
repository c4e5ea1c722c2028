//! The table of functions of one event, for files and pages.

use std::sync::Arc;

use crate::aggregate::LongPhases;
use crate::export::{ExportedEvent, Source};
use crate::profile::{FunctionShare, HiddenRows, ModuleShare, Options};
use crate::views::function_rows::Rows;

/// A function as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionName {
    /// The innermost one.
    pub(crate) name: Arc<str>,
    /// The function that holds its code, if it was inlined there.
    pub(crate) inlined_into: Option<Arc<str>>,
}

/// Names of the functions and commands of rows.
#[derive(Debug, Clone, Default)]
pub struct FunctionNames {
    pub(crate) functions: Vec<FunctionName>,
    pub(crate) commands: Vec<String>,
}

impl FunctionNames {
    fn of(&self, row: &FunctionShare) -> Option<&FunctionName> {
        self.functions.get(row.function? as usize)
    }

    /// Name of a row's function; `None` where its module has no name for it. Foreign text.
    #[must_use]
    pub fn function_of(&self, row: &FunctionShare) -> Option<&str> {
        self.of(row).map(|function| &*function.name)
    }

    /// The function that holds its code, if it was inlined there.
    #[must_use]
    pub fn inlined_into(&self, row: &FunctionShare) -> Option<&str> {
        self.of(row)?.inlined_into.as_deref()
    }

    /// Name of the threads a row is of. Foreign text.
    #[must_use]
    pub fn command_of(&self, row: &FunctionShare) -> &str {
        self.commands.get(row.command as usize).map_or("-", String::as_str)
    }
}

/// Functions of one event, the largest share first, equal ones in the order of their names.
#[derive(Debug, Clone)]
pub struct FunctionTable {
    /// As many as were asked for.
    pub rows: Vec<FunctionShare>,
    /// All others.
    pub hidden: HiddenRows,
    /// Modules, the largest share first.
    pub modules: Vec<ModuleShare>,
    /// Phases of the program that are too long for intervals.
    pub long_phases: Option<LongPhases>,
    /// Blocks of time with samples; an interval needs [`pmuscope_stats::MIN_BLOCKS`].
    pub blocks: usize,
    /// Names of the rows.
    pub names: FunctionNames,
}

impl Source<'_> {
    /// The functions of an event.
    #[must_use]
    pub fn functions(&self, event: &ExportedEvent, options: Options) -> FunctionTable {
        Rows::new(self.counts).table(event.index, event.by_period, options)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::export::sample::{self, arbitrary};
    use crate::profile::{Intervals, RankBy, Total};

    fn totals(intervals: Intervals) -> Options {
        Options { totals: true, intervals, ..Options::default() }
    }

    #[test]
    fn a_function_has_its_own_samples_and_those_of_what_it_called() {
        let made = sample::made();
        let table = made.source().functions(&made.events()[0], totals(Intervals::Largest(10)));
        let row = |name: &str| {
            table.rows.iter().find(|row| table.names.function_of(row) == Some(name)).unwrap()
        };
        let samples = |name: &str| (row(name).samples, row(name).total.unwrap().samples);
        assert_eq!(samples("main"), (10, 100));
        assert_eq!(samples("recurse"), (30, 30));
        assert_eq!(samples("memcpy;x").1, 60);
        assert_eq!(table.names.inlined_into(row("memcpy;x")), Some("main"));
        assert!(table.rows.windows(2).all(|pair| pair[0].share >= pair[1].share));
    }

    #[test]
    fn intervals_hold_their_share_and_need_blocks_of_time() {
        let mut made = sample::made();
        let event = made.events()[0].clone();
        let rows = made.source().functions(&event, totals(Intervals::Largest(1))).rows;
        let interval = rows[0].interval.unwrap();
        assert!(interval.contains(rows[0].share) && rows[1].interval.is_none());
        made.counts.timeline.blocks = 29;
        let rows = made.source().functions(&event, totals(Intervals::Largest(1))).rows;
        assert_eq!(rows[0].interval, None);
    }

    #[test]
    fn without_totals_functions_that_only_call_have_no_row() {
        let made = sample::made();
        let event = &made.events()[0];
        let rows = made.source().functions(event, Options::default()).rows;
        assert!(rows.iter().all(|row| row.total.is_none() && row.samples > 0));
        let with = made.source().functions(event, totals(Intervals::None)).rows;
        let own: Vec<u64> = with.iter().map(|row| row.samples).filter(|&own| own > 0).collect();
        assert_eq!(own, rows.iter().map(|row| row.samples).collect::<Vec<_>>());
    }

    /// The largest rows by a size, as their own and total samples.
    fn first(
        table: &FunctionTable,
        most: usize,
        size: impl Fn(&(u64, u64)) -> (u64, u64),
    ) -> Vec<(u64, u64)> {
        let sums = table.rows.iter().map(|row| (row.samples, row.total.map_or(0, |of| of.samples)));
        let mut sums: Vec<(u64, u64)> = sums.collect();
        sums.sort_by_key(|sums| std::cmp::Reverse(size(sums)));
        sums.truncate(most);
        sums
    }

    proptest! {
        /// Against all rows, put in order.
        #[test]
        fn rows_are_the_largest_by_what_is_asked_for(made in arbitrary(), most in 2..12usize) {
            let event = &made.events()[0];
            let all = made.source().functions(event, totals(Intervals::None));
            let ranked = |rank| {
                let options = Options { rows: Some(most), rank, ..totals(Intervals::None) };
                made.source().functions(event, options)
            };
            let sums = |table: &FunctionTable| -> Vec<(u64, u64)> {
                table.rows.iter().map(|row| (row.samples, row.total.unwrap().samples)).collect()
            };
            let by_own = first(&all, most, |&(own, total)| (own, total));
            let by_total = first(&all, most, |&(own, total)| (total, own));
            // Names decide between those of equal size.
            let own = |rows: &[(u64, u64)]| rows.iter().map(|row| row.0).collect::<Vec<_>>();
            let total = |rows: &[(u64, u64)]| rows.iter().map(|row| row.1).collect::<Vec<_>>();
            prop_assert_eq!(own(&sums(&ranked(RankBy::Own))), own(&by_own));
            prop_assert_eq!(total(&sums(&ranked(RankBy::Total))), total(&by_total));
            let either = sums(&ranked(RankBy::Either));
            prop_assert!(either.len() <= 2 * most);
            prop_assert!(own(&either).is_sorted_by(|a, b| a >= b), "{either:?}");
            prop_assert_eq!(&own(&either)[..by_own.len()], own(&by_own));
            let mut totals = total(&either);
            totals.sort_by(|a, b| b.cmp(a));
            prop_assert_eq!(&totals[..by_total.len()], total(&by_total));
        }

        /// Against sums over every cell one by one.
        #[test]
        fn rows_are_sums_over_samples(made in arbitrary()) {
            let event = &made.events()[0];
            let counts = &made.counts;
            let mut own: BTreeMap<_, u64> = BTreeMap::new();
            let mut total: BTreeMap<_, u64> = BTreeMap::new();
            for cell in counts.cells.iter().filter(|cell| cell.event == event.index) {
                let command = counts.tasks[cell.task as usize].command.to_string();
                let frames: Vec<_> = counts
                    .stacks
                    .frames(cell.stack)
                    .map(|frame| &counts.frames[frame as usize])
                    .collect();
                let name = |at: usize| {
                    let function = frames[at].function?;
                    Some(counts.functions[function as usize].name.to_string())
                };
                let holder = |at: usize| {
                    let is_inlined = frames[at].inlined && frames[at].function.is_some();
                    let outer = (at..frames.len()).find(|&at| !frames[at].inlined);
                    outer.filter(|_| is_inlined).and_then(name)
                };
                let keys: Vec<_> = (0..frames.len())
                    .map(|at| (command.clone(), frames[at].module as usize, name(at), holder(at)))
                    .collect();
                if let Some(first) = keys.first() {
                    *own.entry(first.clone()).or_default() += cell.samples;
                }
                for key in keys.into_iter().collect::<BTreeSet<_>>() {
                    *total.entry(key).or_default() += cell.samples;
                }
            }
            let table = made.source().functions(event, totals(Intervals::None));
            let mut found: BTreeMap<_, (u64, u64)> = BTreeMap::new();
            for row in &table.rows {
                let names = &table.names;
                let own = |name: Option<&str>| name.map(str::to_owned);
                let key = (
                    names.command_of(row).to_owned(),
                    row.module,
                    own(names.function_of(row)),
                    own(names.inlined_into(row)),
                );
                let Total { samples, .. } = row.total.unwrap();
                // Functions of one name are rows of their own where their numbers differ.
                let sums = found.entry(key).or_default();
                *sums = (sums.0 + row.samples, sums.1.max(samples));
            }
            prop_assert_eq!(found.len(), total.len());
            for (key, (samples, of_all)) in &found {
                prop_assert_eq!(*samples, own.get(key).copied().unwrap_or(0));
                prop_assert!(*of_all <= total[key]);
            }
            let by_module: u64 = table.modules.iter().map(|module| module.samples).sum();
            prop_assert_eq!(by_module, own.values().sum::<u64>());
        }
    }
}
