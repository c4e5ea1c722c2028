//! What was read, and the part of it that the filters leave.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use pmuscope_profile::aggregate::{Aggregate, CellCounts, Timeline};
use pmuscope_profile::views::{
    CallSites, CellRanks, RankedRows, RowIntervals, ranked_functions, ranked_rows,
};
use pmuscope_profile::{EventProfile, ModuleSummary, Profile};

use crate::rows_table::{RowsTable, TableRows};
use crate::rows_view::RowsKind;
use crate::step::{FilterStep, narrow};

/// Samples, counted; all views are made of them.
pub(crate) struct SeenCounts {
    /// The recording, with the counts that the steps leave.
    profile: Profile,
    /// All counts; `None` where the profile has them.
    all: Option<CellCounts>,
    /// Time of all that was read.
    time: Timeline,
    /// Frames by function, the same for all parts.
    sites: CallSites,
    /// The node of each CPU.
    nodes: BTreeMap<u32, u32>,
    steps: Vec<FilterStep>,
    /// Index of the event that is shown.
    event: usize,
    /// Samples that are left and their weight, of each event.
    left: Vec<(u64, u64)>,
    /// Those without any filter.
    left_of_all: Vec<(u64, u64)>,
    /// Tables that were made last.
    tables: RefCell<RecentTables>,
}

/// Tables by rows, so that one that is gone back to is not made again.
#[derive(Default)]
struct RecentTables {
    /// The newest last.
    tables: Vec<RecentTable>,
    /// What the intervals of the newest are counted by, where they are not yet.
    ranks: Option<CellRanks>,
}

struct RecentTable {
    kind: RowsKind,
    event: usize,
    steps: Vec<FilterStep>,
    table: Rc<RowsTable>,
}

impl RecentTables {
    /// Bytes of the rows of all tables, but that there is always one.
    const MOST_BYTES: usize = 160 << 20;

    fn find(&self, kind: RowsKind, event: usize, steps: &[FilterStep]) -> Option<Rc<RowsTable>> {
        let is_it =
            |one: &&RecentTable| one.kind == kind && one.event == event && one.steps == steps;
        self.tables.iter().find(is_it).map(|one| Rc::clone(&one.table))
    }

    fn keep(&mut self, table: RecentTable, ranks: CellRanks) {
        self.forget_ranks();
        self.tables.push(table);
        self.ranks = Some(ranks);
        let bytes_of = |one: &RecentTable| one.table.rows.len() * one.table.rows.bytes_of_row();
        let mut bytes: usize = self.tables.iter().map(bytes_of).sum();
        while bytes > Self::MOST_BYTES && self.tables.len() > 1 {
            bytes -= bytes_of(&self.tables.remove(0));
        }
    }

    /// The newest table is not there any more if its intervals were not counted: nobody could do so later.
    fn forget_ranks(&mut self) {
        if self.ranks.take().is_some() {
            self.tables.pop();
        }
    }
}

impl SeenCounts {
    pub(crate) fn new(profile: Profile, nodes: BTreeMap<u32, u32>) -> Self {
        let sites = CallSites::of(&profile.aggregate);
        // Others are often there for their records.
        let main = profile.aggregate.main_event(profile.events.iter().map(|event| event.index));
        let is_main = |event: &EventProfile| Some(event.index) == main;
        let event = profile.events.iter().position(is_main).unwrap_or(0);
        let time = profile.aggregate.timeline;
        let left = left(&profile);
        Self {
            all: None,
            time,
            sites,
            nodes,
            steps: Vec::new(),
            event,
            left_of_all: left.clone(),
            left,
            tables: RefCell::default(),
            profile,
        }
    }

    /// Takes another profile of the same samples, without filters. What number each DSO has in it.
    pub(crate) fn replace_profile(&mut self, profile: Profile) -> Vec<u32> {
        let event = self.event;
        let numbers: HashMap<&str, u32> =
            profile.modules.iter().map(|module| &*module.path).zip(0..).collect();
        let number = |module: &ModuleSummary| numbers.get(&*module.path).copied();
        let modules = self.profile.modules.iter().map(|one| number(one).unwrap_or(u32::MAX));
        let modules = modules.collect();
        *self = Self { event, ..Self::new(profile, std::mem::take(&mut self.nodes)) };
        modules
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    pub(crate) fn modules(&self) -> &[ModuleSummary] {
        &self.profile.modules
    }

    pub(crate) fn sites(&self) -> &CallSites {
        &self.sites
    }

    /// What is left.
    pub(crate) fn seen(&self) -> &Aggregate {
        &self.profile.aggregate
    }

    /// Counts of the samples left by the filters, in stacks that are callchains as recorded.
    pub(crate) fn chains(&self) -> Cow<'_, Aggregate> {
        let seen = self.seen();
        seen.by_chain().map_or(Cow::Borrowed(seen), Cow::Owned)
    }

    /// Time of all that was read.
    pub(crate) fn time(&self) -> &Timeline {
        &self.time
    }

    pub(crate) fn steps(&self) -> &[FilterStep] {
        &self.steps
    }

    /// Sets the filters. Whatever was shown is to be made anew.
    pub(crate) fn set_steps(&mut self, steps: Vec<FilterStep>) {
        self.tables.get_mut().forget_ranks();
        let counts = &mut self.profile.aggregate;
        let all = match self.all.take() {
            Some(all) => all,
            None => counts.replace_counts(CellCounts::default()),
        };
        if steps.is_empty() {
            counts.replace_counts(all);
            self.left.clone_from(&self.left_of_all);
        } else {
            let nodes = &self.nodes;
            let node_of = |cpu: u32| nodes.get(&cpu).copied();
            let part = narrow(&self.profile, &all, &steps, &node_of);
            self.profile.aggregate.replace_counts(part);
            self.left = left(&self.profile);
            self.all = Some(all);
        }
        self.steps = steps;
    }

    pub(crate) fn node_of(&self) -> impl Fn(u32) -> Option<u32> + '_ {
        |cpu| self.nodes.get(&cpu).copied()
    }

    /// The event that is shown; `None` where the recording has none.
    pub(crate) fn event(&self) -> Option<&EventProfile> {
        self.profile.events.get(self.event)
    }

    /// Shows the next event, or the one before.
    pub(crate) fn turn_event(&mut self, forward: bool) {
        let events = self.profile.events.len().max(1);
        let step = if forward { 1 } else { events - 1 };
        self.event = (self.event + step) % events;
    }

    /// Samples of the event that are left, and their weight.
    pub(crate) fn left(&self) -> (u64, u64) {
        self.left.get(self.event).copied().unwrap_or_default()
    }

    /// Rows of the event; the first `intervals` will have an interval.
    pub(crate) fn rows(&self, kind: RowsKind, intervals: usize) -> Rc<RowsTable> {
        let Some(event) = self.event() else {
            let rows = TableRows::By(RankedRows::default());
            return Rc::new(RowsTable { rows, intervals: RowIntervals::default().into() });
        };
        let mut tables = self.tables.borrow_mut();
        if let Some(table) = tables.find(kind, self.event, &self.steps) {
            return table;
        }
        let (seen, index) = (self.seen(), event.index);
        let (rows, ranks) = match kind {
            RowsKind::Functions => {
                let (rows, ranks) = ranked_functions(seen, index, event.by_period, intervals);
                (TableRows::Functions(rows), ranks)
            }
            kind => {
                let (by, node_of) = (kind.dimensions(), self.node_of());
                let (rows, ranks) = ranked_rows(seen, index, by, &node_of, intervals);
                (TableRows::By(rows), ranks)
            }
        };
        let table = Rc::new(RowsTable { rows, intervals: OnceCell::new() });
        let recent = RecentTable {
            kind,
            event: self.event,
            steps: self.steps.clone(),
            table: Rc::clone(&table),
        };
        tables.keep(recent, ranks);
        table
    }

    /// Counts the intervals of the newest table; whether they were not counted yet.
    pub(crate) fn count_intervals(&self) -> bool {
        let mut tables = self.tables.borrow_mut();
        let Some(ranks) = tables.ranks.take() else { return false };
        if let Some(newest) = tables.tables.last() {
            newest.table.intervals.get_or_init(|| ranks.intervals(self.seen()));
        }
        true
    }

    /// Takes into the profile that the program's phases are too long for intervals, where the newest table of all functions
    /// says so; whether it does.
    pub(crate) fn note_long_phases(&mut self) -> bool {
        let tables = self.tables.borrow();
        let newest = tables.tables.last().filter(|one| {
            one.kind == RowsKind::Functions && one.steps.is_empty() && one.event == self.event
        });
        let found = newest.and_then(|one| one.table.intervals.get()?.long_phases);
        let Some(event) = self.profile.events.get_mut(self.event) else { return false };
        let is_new = found.is_some() && event.long_phases != found;
        if is_new {
            event.long_phases = found;
        }
        is_new
    }

    /// Whether a stack is more than a function and what was inlined into it.
    pub(crate) fn has_calls(&self) -> bool {
        self.profile.aggregate.has_calls()
    }
}

/// Samples of each event that are left, and their weight.
fn left(profile: &Profile) -> Vec<(u64, u64)> {
    let sums = profile.events.iter().map(|event| {
        let cells = profile.aggregate.of_event(event.index).iter();
        cells
            .fold((0, 0_u64), |sum, cell| (sum.0 + cell.samples, sum.1.saturating_add(cell.weight)))
    });
    sums.collect()
}
