//! The table of metrics: its fields, for all forms.

use pmuscope_profile::metrics::{MetricCell, MetricColumn, is_sure, mean_length};
use pmuscope_profile::windows::{Cause, WindowRow, Windows};
use serde_json::json;

use super::figure::{figure, is_estimate};
use super::name::{Named, module_field, name_field, program_fields};
use super::{MetricRow, MetricsView, Tints};
use crate::Paint;
use crate::number::{duration, percent};
use crate::recording::LONG_PHASES;
use crate::sheet::{Field, Sheet, SheetForm, SheetObject};

type Row<'a> = MetricRow<'a>;

impl<'a> MetricsView<'a> {
    /// The rows that are shown, on a page in the colors of `tints`; a click on a name `searches` a flame graph for it.
    pub(super) fn sheet(&'a self, tints: Option<&'a Tints<'a>>, searches: bool) -> Sheet<'a> {
        let all = self.windows.rows.len();
        Sheet::totalled(fields(self, tints, searches), &self.rows, all, &self.total)
            .limited_by(self.limits)
    }

    /// All rows together, for JSON.
    pub(super) fn total_object(&'a self) -> SheetObject<'a> {
        SheetObject(Sheet::new(fields(self, None, false), [&self.total], 1))
    }

    /// The metrics, and how they are computed here.
    pub(super) fn columns_sheet(&'a self) -> Sheet<'a> {
        let columns = self.table.columns();
        let fields = vec![
            Field::text("name", |column: &'a MetricColumn<'a>| Some(&*column.metric.name)),
            Field::text("unit", |column: &'a MetricColumn<'a>| Some(&*column.metric.unit)),
            Field::text("formula", |column: &MetricColumn<'_>| {
                column.formula.map(ToString::to_string)
            }),
            Field::text("why", |column: &MetricColumn<'_>| {
                column.formula.is_none().then_some("its events were not recorded")
            })
            .absent_if_missing(),
        ];
        Sheet::new(fields, columns, columns.len())
    }
}

fn fields<'a>(
    view: &'a MetricsView<'a>,
    tints: Option<&'a Tints<'a>>,
    searches: bool,
) -> Vec<Field<'a, Row<'a>>> {
    let (windows, by) = (view.windows, view.windows.by);
    let all = windows.total.windows().max(1) as f64;
    let named = move |row: &'a Row<'a>| Some(Named::of_key(windows, &row.row.key));
    let kept = |row: &WindowRow| row.kept() as f64 / row.windows().max(1) as f64;
    let mut fields = program_fields(by, named);
    fields.extend([
        Field::part("share", move |row: &Row<'_>| Some(row.row.windows() as f64 / all))
            .only_in(&[SheetForm::Page]),
        Field::count("windows", |row: &Row<'_>| row.row.windows())
            .head("samples")
            .optional(6)
            .column("samples"),
        Field::count("kept", |row: &Row<'_>| row.row.kept()).for_programs(),
    ]);
    fields.extend(Cause::ALL.iter().map(|&cause| {
        Field::count(format!("rejected.{}", key(cause)), move |row: &Row<'_>| {
            row.row.rejected(cause)
        })
        .column(cause.words())
        .for_programs()
    }));
    let columns = || view.table.columns().iter().enumerate();
    fields.extend(columns().map(|(at, column)| metric_field(at, column, tints)));
    fields.extend(columns().flat_map(|(at, column)| metric_columns(at, column)));
    // Only where all windows passed is the length not known.
    let length = |row: &Row<'_>| mean_length(row.row).filter(|length| length.is_finite());
    fields.extend([
        Field::number("same_at_both_ends", |row: &Row<'_>| row.row.same_at_both_ends())
            .only_in(&[SheetForm::Json]),
        Field::number("mean_length_windows", length).only_in(&[SheetForm::Json]),
        Field::json("metrics", move |row: &Row<'_>| metrics_json(view, row)),
        Field::number("kept", move |row: &Row<'_>| Some(kept(row.row)))
            .shown_as(move |row| percent(kept(row.row), 0).into())
            .optional(5)
            .for_people(),
    ]);
    let module = module_field(by, named);
    fields.extend(module.map(|field| field.only_in(&[SheetForm::Page]).rigid()));
    let name = name_field(by, named);
    fields.push(match searches {
        true => name.searches(move |row| Named::of_key(windows, &row.row.key).text(by)),
        false => name,
    });
    if view.needs {
        let needs = move |row: &Row<'_>| Some(needs_text(view.more_seconds(&row.cells)?));
        fields.push(Field::text("for ±5%", needs).only_in(&[SheetForm::Text]).rigid());
    }
    fields
}

/// A metric as people see it; what is a guess stands back.
fn metric_field<'a>(
    at: usize,
    column: &'a MetricColumn<'a>,
    tints: Option<&'a Tints<'a>>,
) -> Field<'a, Row<'a>> {
    let metric = column.metric;
    let guess = |is: bool| if is { Paint::Dim } else { Paint::Plain };
    let field = Field::number(metric.name.to_string(), move |row: &Row<'_>| row.cells[at].value)
        .shown_if_known(move |row| row.cells[at].value.map(|_| figure(&row.cells[at])))
        .painted(move |row| guess(is_estimate(&row.cells[at])))
        .about(format!("{}; {}", metric.about, metric.unit))
        // The first metrics are those that were asked for first.
        .optional(if at == 0 { 0 } else { 10_u8.saturating_add(at.try_into().unwrap_or(u8::MAX)) })
        .for_people();
    match tints.filter(|tints| tints.column() == at) {
        Some(tints) => field.tinted(move |row| tints.color(&row.cells[at]).to_owned()),
        None => field,
    }
}

/// The same in CSV: its value, the ends of its interval, and of what was never counted what it is at most.
fn metric_columns<'a>(at: usize, column: &'a MetricColumn<'a>) -> [Field<'a, Row<'a>>; 2] {
    let name = &column.metric.name;
    let value = move |row: &Row<'_>| Some((row.cells[at].value?, row.cells[at].interval));
    [
        Field::estimate(name.to_string(), value).spaced(),
        Field::number(format!("{name} at most"), move |row: &Row<'_>| row.cells[at].at_most),
    ]
    .map(|field| field.only_in(&[SheetForm::Delimited]))
}

/// The same in JSON.
fn metrics_json(view: &MetricsView<'_>, row: &Row<'_>) -> serde_json::Value {
    let is_long = view.table.long_phases().is_some();
    let of = |(column, cell): (&MetricColumn<'_>, &MetricCell)| {
        let more = cell.more_seconds(view.windows.seconds).filter(|_| view.needs);
        let always = [
            ("name", json!(*column.metric.name)),
            ("value", json!(cell.value)),
            ("low", json!(cell.interval.map(|of| of.low))),
            ("high", json!(cell.interval.map(|of| of.high))),
            ("windows", json!(cell.windows)),
        ];
        let where_known = [
            ("at_most", json!(cell.at_most)),
            ("more_seconds", json!(more)),
            ("why", json!(why(row.row, cell, is_long))),
        ];
        let known = where_known.into_iter().filter(|(_, value)| !value.is_null());
        let fields = always.into_iter().chain(known).map(|(key, value)| (key.to_owned(), value));
        fields.collect::<serde_json::Value>()
    };
    view.table.columns().iter().zip(&row.cells).map(of).collect()
}

/// Why a cell lacks something.
fn why(row: &WindowRow, cell: &MetricCell, is_long: bool) -> Option<&'static str> {
    match (cell.value, cell.interval) {
        (_, Some(_)) => None,
        (None, None) => Some("not measured"),
        (Some(0.0), None) => Some("none was counted"),
        (Some(_), None) if is_sure(row) && (is_long || cell.freedom.is_some()) => Some(LONG_PHASES),
        (Some(_), None) if is_sure(row) => {
            Some("too few windows of its events, or in too few blocks of time")
        }
        (Some(_), None) => Some("fewer than 30 kept windows, or shorter than ten windows"),
    }
}

fn needs_text(seconds: f64) -> String {
    if seconds == 0.0 { "reached".to_owned() } else { format!("~{} more", duration(seconds)) }
}

fn key(cause: Cause) -> &'static str {
    match cause {
        Cause::Throttled => "throttled",
        Cause::AfterThrottle => "after_throttle",
        Cause::NoStart => "no_start",
        Cause::WrongOffset => "wrong_offset",
        Cause::WrongLength => "wrong_length",
        Cause::ContextSwitch => "context_switch",
        Cause::NoSymbol => "no_symbol",
        Cause::OtherSymbol => "other_symbol",
        Cause::Return => "return",
    }
}

/// Why windows do not count, of all windows `all`.
pub(super) fn causes_sheet(causes: &[(Cause, u64)], all: u64) -> Sheet<'_> {
    let share = move |(_, number): &(Cause, u64)| Some(*number as f64 / all.max(1) as f64);
    let fields = vec![
        Field::part("share", share),
        Field::count("windows", |(_, number): &(Cause, u64)| *number),
        Field::text("why not", |(cause, _): &(Cause, u64)| Some(cause.words())),
    ];
    Sheet::new(fields, causes, causes.len())
}

/// What bounds windows.
pub(super) fn kind_fields<'a, R: 'a>(
    of: impl Fn(&'a R) -> &'a Windows + Copy + 'a,
) -> [Field<'a, R>; 5] {
    let attribution = |discards: bool| if discards { "discard" } else { "none" };
    [
        Field::text("event", move |row| Some(&*of(row).kind.event)),
        Field::count("length", move |row| of(row).kind.window),
        Field::count("period", move |row| of(row).kind.period),
        Field::flag("strobed", move |row| of(row).kind.strobed),
        Field::text("attribution", move |row| Some(attribution(of(row).discards))),
    ]
}
