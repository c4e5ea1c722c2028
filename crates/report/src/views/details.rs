//! Branches and accesses to memory: tables, and the results of `pmuscope/branches/1` and
//! `pmuscope/memory/1`.

use pmuscope_profile::Profile;
use pmuscope_profile::views::{AccessRow, Accesses, BranchEnd, BranchRow, Branches};
use pmuscope_stats::Interval;
use serde::Serialize;

use crate::number::{count, counted, fixed, percent, significant};
use crate::recording::{Head, NO_INTERVAL, RowLimits, head_text, push_wrapped, warnings_text};
use crate::{Cell, Column, Style, Table, escape};

/// The schema of [`BranchesReport`] in its envelope.
pub const BRANCHES_SCHEMA: &str = "pmuscope/branches/1";
/// The schema of [`AccessesReport`] in its envelope.
pub const ACCESSES_SCHEMA: &str = "pmuscope/memory/1";

/// The recording that rows are of, and which of them to show.
#[derive(Debug, Clone, Copy)]
pub struct DetailsView<'a> {
    /// Where it was read from.
    pub file: &'a str,
    /// What it is, cost and lost, and what of it was left out.
    pub profile: &'a Profile,
    /// Which rows are shown.
    pub limits: RowLimits,
}

impl DetailsView<'_> {
    /// `rows` with a line that says what they are, between what is told above and below all views.
    pub(super) fn text(&self, line: &str, rows: &str, style: &Style) -> String {
        let mut out = head_text(self.profile, self.file, style);
        push_wrapped(&mut out, line, style);
        out.push('\n');
        out.push_str(rows);
        out.push_str(&warnings_text(self.profile, style));
        out
    }
}

/// How many of so many rows, the largest first, are shown.
pub(super) fn shown(limits: RowLimits, rows: usize, share: impl Fn(usize) -> f64) -> usize {
    let large = (0..rows).take_while(|&row| share(row) >= limits.share).count();
    limits.rows.map_or(large, |most| most.min(large))
}

/// A share's cell and that of its interval.
pub(super) fn share_cells(part: u64, all: u64, interval: Option<Interval>) -> [Cell; 2] {
    [
        Cell::new(percent(share_of(part, all), 2)),
        Cell::measured(interval, |interval| fixed(interval.half_width() * 100.0, 2)),
    ]
}

/// What has no name.
pub(super) const UNKNOWN: &str = "[unknown]";

pub(super) fn share_of(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// Branches from function to function.
#[must_use]
pub fn branches_text(found: &Branches, view: &DetailsView<'_>, style: &Style) -> String {
    let samples = counted(found.with_stack, "sample");
    let line = match found.branches {
        1 => format!("1 branch of {samples}"),
        several => format!("{} branches of {samples}", count(several)),
    };
    view.text(&line, &branch_rows(found, view.limits, style), style)
}

fn branch_rows(found: &Branches, limits: RowLimits, style: &Style) -> String {
    if found.branches == 0 {
        let why = if found.with_calls > 0 {
            "no branches: the samples' branch stacks are call stacks (--call-graph lbr). Try: \
             pmuscope report --call-tree; for branches: pmuscope record -b\n"
        } else {
            "no branch stacks were recorded. Try: pmuscope record -b, on a CPU that keeps them\n"
        };
        return why.into();
    }
    let mut table = Table::new([
        Column::number("share"),
        Column::number("±95 %"),
        Column::number("branches"),
        Column::number("mispredicted"),
        Column::number("cycles"),
        Column::text("from").shrink(),
        Column::text("to").shrink(),
    ]);
    let share = |row: usize| share_of(found.rows[row].sums.branches, found.branches);
    let shown = shown(limits, found.rows.len(), share);
    for row in &found.rows[..shown] {
        let [share, interval] = share_cells(row.sums.branches, found.branches, row.interval);
        table.row([
            share,
            interval,
            Cell::new(count(row.sums.branches)),
            Cell::measured(row.sums.miss_share(), |share| percent(share, 2)),
            Cell::measured(row.sums.mean_cycles(), |cycles| significant(cycles, 3)),
            Cell::new(end_text(&row.from)),
            Cell::new(end_text(&row.to)),
        ]);
    }
    let mut out = table.render(style);
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
    let line = format!("{} sampled accesses to memory", count(found.with_source));
    view.text(&line, &access_rows(found, view.limits, style), style)
}

fn access_rows(found: &Accesses, limits: RowLimits, style: &Style) -> String {
    if found.with_source == 0 {
        return "no sources of data were recorded. Try: pmuscope record -d with an event of loads or stores\n"
            .into();
    }
    let columns = ["mem", "snoop", "HITM", "tlb", "locked", "operation"];
    let mut table = Table::new(
        ["share", "±95 %", "samples", "mean weight", "max weight"]
            .map(Column::number)
            .into_iter()
            .chain(columns.map(Column::text)),
    );
    let share = |row: usize| share_of(found.rows[row].samples, found.with_source);
    let shown = shown(limits, found.rows.len(), share);
    for row in &found.rows[..shown] {
        let kind = &row.kind;
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let word = |word: Option<&'static str>| Cell::measured(word, str::to_owned);
        let [share, interval] = share_cells(row.samples, found.with_source, row.interval);
        table.row([
            share,
            interval,
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
    let mut out = table.render(style);
    push_left_out(&mut out, found.rows.len() - shown, style);
    out
}

/// `L3 hit`, `remote RAM hit`.
fn level_text(row: &AccessRow) -> Option<String> {
    let level = row.kind.level?;
    // Older encodings have both in the name of the level.
    let remote = if row.kind.remote && !level.starts_with("Remote") { "remote " } else { "" };
    let says_so = level.ends_with("hit") || level.ends_with("miss");
    let hit = if says_so { "" } else { hit_text(row.kind.hit) };
    Some(format!("{remote}{level}{hit}"))
}

fn hit_text(hit: Option<bool>) -> &'static str {
    match hit {
        Some(true) => " hit",
        Some(false) => " miss",
        None => "",
    }
}

/// A share with its interval, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Share {
    /// 0 to 1.
    share: f64,
    share_low: Option<f64>,
    share_high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl Share {
    pub(super) fn new(part: u64, all: u64, interval: Option<Interval>) -> Self {
        Self {
            share: share_of(part, all),
            share_low: interval.map(|interval| interval.low),
            share_high: interval.map(|interval| interval.high),
            why: interval.is_none().then_some(NO_INTERVAL),
        }
    }
}

/// Branches for programs.
#[derive(Debug, Serialize)]
pub struct BranchesReport<'a> {
    recording: Head<'a>,
    samples: u64,
    samples_with_branches: u64,
    samples_with_call_stacks: u64,
    branches: u64,
    rows: Vec<Branch<'a>>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct Branch<'a> {
    from: End<'a>,
    to: End<'a>,
    branches: u64,
    #[serde(flatten)]
    share: Share,
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
        let shown = shown(view.limits, found.rows.len(), share);
        let row = |row: &'a BranchRow| Branch {
            from: End::new(&row.from),
            to: End::new(&row.to),
            branches: row.sums.branches,
            share: Share::new(row.sums.branches, found.branches, row.interval),
            predicted: row.sums.predicted,
            mispredicted: row.sums.mispredicted,
            in_transaction: row.sums.in_transaction,
            aborted: row.sums.aborted,
            cycles_mean: row.sums.mean_cycles(),
            cycles_of: row.sums.with_cycles,
        };
        Self {
            recording: Head::new(view.profile, view.file),
            samples: found.samples.kept,
            samples_with_branches: found.with_stack,
            samples_with_call_stacks: found.with_calls,
            branches: found.branches,
            rows: found.rows[..shown].iter().map(row).collect(),
            rows_left_out: found.rows.len() - shown,
        }
    }
}

/// Accesses for programs.
#[derive(Debug, Serialize)]
pub struct AccessesReport<'a> {
    recording: Head<'a>,
    samples: u64,
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
    #[serde(flatten)]
    share: Share,
    weight_mean: Option<f64>,
    weight_max: Option<u64>,
    weight_of: u64,
}

impl<'a> AccessesReport<'a> {
    /// What is shown of the accesses of a recording.
    #[must_use]
    pub fn new(found: &Accesses, view: &DetailsView<'a>) -> Self {
        let share = |row: usize| share_of(found.rows[row].samples, found.with_source);
        let shown = shown(view.limits, found.rows.len(), share);
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
            share: Share::new(row.samples, found.with_source, row.interval),
            weight_mean: row.weights.mean(),
            weight_max: row.weights.largest(),
            weight_of: row.weights.of,
        };
        Self {
            recording: Head::new(view.profile, view.file),
            samples: found.samples.kept,
            samples_with_source: found.with_source,
            rows: found.rows[..shown].iter().map(row).collect(),
            rows_left_out: found.rows.len() - shown,
        }
    }
}
