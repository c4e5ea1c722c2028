//! What was read, and the part of it that the filters leave.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use pmuscope_profile::aggregate::{Aggregate, CellCounts, Timeline};
use pmuscope_profile::views::{CallSites, Dimension, Row, rows};
use pmuscope_profile::{EventProfile, ModuleSummary, Profile};

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
    /// Tables that were made last.
    tables: RefCell<RecentTables>,
}

/// Tables by rows, so that one that is gone back to is not made again.
#[derive(Default)]
struct RecentTables {
    /// The newest last.
    tables: Vec<RecentTable>,
}

struct RecentTable {
    by: Vec<Dimension>,
    event: usize,
    steps: Vec<FilterStep>,
    rows: Rc<Vec<Row>>,
}

impl RecentTables {
    /// Rows of all tables, but that there is always one: some 200 bytes each.
    const MOST_ROWS: usize = 1_000_000;

    fn find(&self, by: &[Dimension], event: usize, steps: &[FilterStep]) -> Option<Rc<Vec<Row>>> {
        let is_it = |one: &&RecentTable| one.by == by && one.event == event && one.steps == steps;
        self.tables.iter().find(is_it).map(|one| Rc::clone(&one.rows))
    }

    fn keep(&mut self, table: RecentTable) {
        self.tables.push(table);
        let mut rows: usize = self.tables.iter().map(|one| one.rows.len()).sum();
        while rows > Self::MOST_ROWS && self.tables.len() > 1 {
            rows -= self.tables.remove(0).rows.len();
        }
    }
}

impl SeenCounts {
    pub(crate) fn new(profile: Profile, nodes: BTreeMap<u32, u32>) -> Self {
        let sites = CallSites::of(&profile.aggregate);
        // The event with most samples: others are often there for their records.
        let most = profile
            .events
            .iter()
            .enumerate()
            .max_by_key(|(at, event)| (event.samples, std::cmp::Reverse(*at)));
        let event = most.map_or(0, |(at, _)| at);
        let time = profile.aggregate.timeline;
        let tables = RefCell::default();
        Self { all: None, time, sites, nodes, steps: Vec::new(), event, tables, profile }
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

    /// Time of all that was read.
    pub(crate) fn time(&self) -> &Timeline {
        &self.time
    }

    pub(crate) fn steps(&self) -> &[FilterStep] {
        &self.steps
    }

    /// Sets the filters. Whatever was shown is to be made anew.
    pub(crate) fn set_steps(&mut self, steps: Vec<FilterStep>) {
        let counts = &mut self.profile.aggregate;
        let all = match self.all.take() {
            Some(all) => all,
            None => counts.replace_counts(CellCounts::default()),
        };
        if steps.is_empty() {
            counts.replace_counts(all);
        } else {
            let nodes = &self.nodes;
            let node_of = |cpu: u32| nodes.get(&cpu).copied();
            let part = narrow(&self.profile, &all, &steps, &node_of);
            self.profile.aggregate.replace_counts(part);
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
        let Some(event) = self.event() else { return (0, 0) };
        let cells = self.seen().of_event(event.index).iter();
        cells.fold((0, 0), |sum, cell| (sum.0 + cell.samples, sum.1.saturating_add(cell.weight)))
    }

    /// Rows of the event, the largest first; the first `intervals` have an interval.
    pub(crate) fn rows(&self, by: &[Dimension], intervals: usize) -> Rc<Vec<Row>> {
        let Some(event) = self.event() else { return Rc::default() };
        if let Some(rows) = self.tables.borrow().find(by, self.event, &self.steps) {
            return rows;
        }
        let node_of = self.node_of();
        let rows = Rc::new(rows(self.seen(), event.index, by, &node_of, intervals));
        self.tables.borrow_mut().keep(RecentTable {
            by: by.to_vec(),
            event: self.event,
            steps: self.steps.clone(),
            rows: Rc::clone(&rows),
        });
        rows
    }

    /// Whether a stack is more than a function and what was inlined into it.
    pub(crate) fn has_calls(&self) -> bool {
        self.profile.aggregate.has_calls()
    }
}
