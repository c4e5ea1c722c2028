//! Branches and accesses to memory: tables, and the results of `pmuscope/branches/1` and
//! `pmuscope/memory/1`.

use pmuscope_profile::views::{AccessRow, Accesses, BranchEnd, BranchRow, Branches};
use pmuscope_profile::{Filter, Walked};
use serde::Serialize;

use crate::number::{count, percent, significant};
use crate::recording::{RowLimits, asked};
use crate::{Cell, Column, Paint, Style, Table, escape, wrap};

/// The schema of [`BranchesReport`] in its envelope.
pub const BRANCHES_SCHEMA: &str = "pmuscope/branches/1";
/// The schema of [`AccessesReport`] in its envelope.
pub const ACCESSES_SCHEMA: &str = "pmuscope/memory/1";

/// The recording that rows are of, and which of them to show.
#[derive(Debug, Clone, Copy)]
pub struct DetailsView<'a> {
    /// Where it was read from.
    pub file: &'a str,
    /// What was left out.
    pub filter: &'a Filter,
    /// Which rows are shown.
    pub limits: RowLimits,
}

impl DetailsView<'_> {
    pub(super) fn head(&self, line: &str, samples: Walked, style: &Style) -> String {
        let line = format!("{line}    {}", escape(self.file));
        let mut out = format!("{}\n", style.paint(Paint::Bold, &style.text(&line)));
        if let Some(line) = self.kept(samples) {
            out.push_str(&wrap(&style.text(&line), style.width, 0));
            out.push('\n');
        }
        out.push('\n');
        out
    }

    /// What was asked to be left out, and how much that was; `None` where nothing was.
    #[must_use]
    pub fn kept(&self, samples: Walked) -> Option<String> {
        let (kept, read) = (count(samples.kept), count(samples.kept + samples.left_out));
        let is_asked = !self.filter.asked.is_empty();
        is_asked.then(|| format!("kept {kept} of {read} samples: {}", asked(self.filter)))
    }

    /// How many of the rows are shown.
    pub(super) fn shown(&self, rows: usize, share: impl Fn(usize) -> f64) -> usize {
        let large = (0..rows).take_while(|&row| share(row) >= self.limits.share).count();
        self.limits.rows.map_or(large, |most| most.min(large))
    }
}

/// What has no name.
pub(super) const UNKNOWN: &str = "[unknown]";

pub(super) fn share_of(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// Branches from function to function.
#[must_use]
pub fn branches_text(found: &Branches, view: &DetailsView<'_>, style: &Style) -> String {
    let (branches, samples) = (count(found.branches), count(found.with_stack));
    let mut out =
        view.head(&format!("{branches} branches of {samples} samples"), found.samples, style);
    if found.branches == 0 {
        out.push_str(
            "no branch stacks were recorded. Try: pmuscope record -b, on a CPU that keeps them\n",
        );
        return out;
    }
    let mut table = Table::new([
        Column::number("share"),
        Column::number("branches"),
        Column::number("mispredicted"),
        Column::number("cycles"),
        Column::text("from").shrink(),
        Column::text("to").shrink(),
    ]);
    let share = |row: usize| share_of(found.rows[row].sums.branches, found.branches);
    let shown = view.shown(found.rows.len(), share);
    for row in &found.rows[..shown] {
        table.row([
            Cell::new(percent(share_of(row.sums.branches, found.branches), 2)),
            Cell::new(count(row.sums.branches)),
            Cell::measured(row.sums.miss_share(), |share| percent(share, 2)),
            Cell::measured(row.sums.mean_cycles(), |cycles| significant(cycles, 3)),
            Cell::new(end_text(&row.from)),
            Cell::new(end_text(&row.to)),
        ]);
    }
    out.push_str(&table.render(style));
    push_left_out(&mut out, found.rows.len() - shown, style);
    out
}

pub(super) fn push_left_out(out: &mut String, rows: usize, style: &Style) {
    if rows > 0 {
        out.push_str(&style.text(&format!("… {} more rows: --limit all\n", count(rows as u64))));
    }
}

fn end_text(end: &BranchEnd) -> String {
    let name = match (&end.function, end.address) {
        (Some(function), _) => escape(function).into_owned(),
        (None, Some(address)) => format!("{address:#x}"),
        (None, None) if &*end.module == UNKNOWN => return UNKNOWN.into(),
        (None, None) => UNKNOWN.into(),
    };
    let module = end.module.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&end.module);
    format!("{name} [{}]", escape(module).trim_matches(['[', ']']))
}

/// Accesses by where their data came from.
#[must_use]
pub fn accesses_text(found: &Accesses, view: &DetailsView<'_>, style: &Style) -> String {
    let with_source = count(found.with_source);
    let mut out =
        view.head(&format!("{with_source} sampled accesses to memory"), found.samples, style);
    if found.with_source == 0 {
        out.push_str("no sources of data were recorded. Try: pmuscope record -d with an event of loads or stores\n");
        return out;
    }
    let columns = ["mem", "snoop", "HITM", "tlb", "locked", "operation"];
    let mut table = Table::new(
        ["share", "samples", "mean weight", "max weight"]
            .map(Column::number)
            .into_iter()
            .chain(columns.map(Column::text)),
    );
    let share = |row: usize| share_of(found.rows[row].samples, found.with_source);
    let shown = view.shown(found.rows.len(), share);
    for row in &found.rows[..shown] {
        let kind = &row.kind;
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let word = |word: Option<&'static str>| Cell::measured(word, str::to_owned);
        table.row([
            Cell::new(percent(share_of(row.samples, found.with_source), 2)),
            Cell::new(count(row.samples)),
            Cell::measured(row.weights.mean(), |weight| significant(weight, 3)),
            Cell::measured(row.weights.largest(), count),
            Cell::measured(level_text(row), |text| text),
            word(kind.snoop),
            Cell::new(yes(kind.hitm)),
            Cell::measured(kind.tlb, |tlb| format!("{tlb}{}", hit_text(kind.tlb_hit))),
            Cell::measured(kind.locked, yes),
            word(kind.operation),
        ]);
    }
    out.push_str(&table.render(style));
    push_left_out(&mut out, found.rows.len() - shown, style);
    out
}

/// `L3 hit`, `remote RAM hit`.
fn level_text(row: &AccessRow) -> Option<String> {
    let level = row.kind.level?;
    let remote = if row.kind.remote { "remote " } else { "" };
    Some(format!("{remote}{level}{}", hit_text(row.kind.hit)))
}

fn hit_text(hit: Option<bool>) -> &'static str {
    match hit {
        Some(true) => " hit",
        Some(false) => " miss",
        None => "",
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Head<'a> {
    file: &'a str,
    samples: u64,
    /// What was left out; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<Left<'a>>,
}

#[derive(Debug, Serialize)]
struct Left<'a> {
    by: Vec<Flag<'a>>,
    samples_kept: u64,
    samples_read: u64,
}

#[derive(Debug, Serialize)]
struct Flag<'a> {
    flag: &'static str,
    value: &'a str,
}

impl<'a> Head<'a> {
    pub(super) fn new(view: &DetailsView<'a>, samples: Walked) -> Self {
        let by: Vec<Flag<'a>> =
            view.filter.asked.iter().map(|(flag, value)| Flag { flag, value }).collect();
        let left =
            Left { by, samples_kept: samples.kept, samples_read: samples.kept + samples.left_out };
        let filter = (!left.by.is_empty()).then_some(left);
        Self { file: view.file, samples: samples.kept, filter }
    }
}

/// Branches for programs.
#[derive(Debug, Serialize)]
pub struct BranchesReport<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    samples_with_branches: u64,
    branches: u64,
    rows: Vec<Branch<'a>>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct Branch<'a> {
    from: End<'a>,
    to: End<'a>,
    branches: u64,
    share: f64,
    predicted: u64,
    mispredicted: u64,
    in_transaction: u64,
    aborted: u64,
    /// Absent from all where the CPU does not tell them.
    cycles_mean: Option<f64>,
    cycles_of: u64,
}

#[derive(Debug, Serialize)]
struct End<'a> {
    function: Option<&'a str>,
    module: &'a str,
    address: Option<String>,
}

impl<'a> End<'a> {
    fn new(end: &'a BranchEnd) -> Self {
        let address = end.address.map(|address| format!("{address:#x}"));
        Self { function: end.function.as_deref(), module: &end.module, address }
    }
}

impl<'a> BranchesReport<'a> {
    /// What is shown of the branches of a recording.
    #[must_use]
    pub fn new(found: &'a Branches, view: &DetailsView<'a>) -> Self {
        let share = |row: usize| share_of(found.rows[row].sums.branches, found.branches);
        let shown = view.shown(found.rows.len(), share);
        let row = |row: &'a BranchRow| Branch {
            from: End::new(&row.from),
            to: End::new(&row.to),
            branches: row.sums.branches,
            share: share_of(row.sums.branches, found.branches),
            predicted: row.sums.predicted,
            mispredicted: row.sums.mispredicted,
            in_transaction: row.sums.in_transaction,
            aborted: row.sums.aborted,
            cycles_mean: row.sums.mean_cycles(),
            cycles_of: row.sums.with_cycles,
        };
        Self {
            head: Head::new(view, found.samples),
            samples_with_branches: found.with_stack,
            branches: found.branches,
            rows: found.rows[..shown].iter().map(row).collect(),
            rows_left_out: found.rows.len() - shown,
        }
    }
}

/// Accesses for programs.
#[derive(Debug, Serialize)]
pub struct AccessesReport<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    samples_with_source: u64,
    rows: Vec<Access>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct Access {
    operation: Option<&'static str>,
    level: Option<&'static str>,
    hit: Option<bool>,
    remote: bool,
    snoop: Option<&'static str>,
    hitm: bool,
    tlb: Option<&'static str>,
    tlb_hit: Option<bool>,
    locked: Option<bool>,
    samples: u64,
    share: f64,
    weight_mean: Option<f64>,
    weight_max: Option<u64>,
    weight_of: u64,
}

impl<'a> AccessesReport<'a> {
    /// What is shown of the accesses of a recording.
    #[must_use]
    pub fn new(found: &Accesses, view: &DetailsView<'a>) -> Self {
        let share = |row: usize| share_of(found.rows[row].samples, found.with_source);
        let shown = view.shown(found.rows.len(), share);
        let row = |row: &AccessRow| Access {
            operation: row.kind.operation,
            level: row.kind.level,
            hit: row.kind.hit,
            remote: row.kind.remote,
            snoop: row.kind.snoop,
            hitm: row.kind.hitm,
            tlb: row.kind.tlb,
            tlb_hit: row.kind.tlb_hit,
            locked: row.kind.locked,
            samples: row.samples,
            share: share_of(row.samples, found.with_source),
            weight_mean: row.weights.mean(),
            weight_max: row.weights.largest(),
            weight_of: row.weights.of,
        };
        Self {
            head: Head::new(view, found.samples),
            samples_with_source: found.with_source,
            rows: found.rows[..shown].iter().map(row).collect(),
            rows_left_out: found.rows.len() - shown,
        }
    }
}
