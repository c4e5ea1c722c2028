//! The table of a metric on two sides: its fields, for all forms.

use pmuscope_profile::metrics::diff::{MetricDiff, RowDiff};
use pmuscope_profile::windows::Windows;
use pmuscope_stats::Estimate;

use super::super::figure::value_figure;
use super::super::name::{Named, module_field, name_field, program_fields};
use super::super::sheet::kind_fields;
use super::MetricsDiffView;
use crate::diff::ChangeVerdict;
use crate::number::{estimate, percent, signed, significant};
use crate::recording::LONG_PHASES;
use crate::sheet::{Field, Sheet, SheetForm, SheetObject};

/// Names of a side, and of its numbers of windows in CSV.
const SIDES: [(&str, &str, &str); 2] =
    [("before", "samples before", "windows before"), ("after", "samples after", "windows after")];

impl<'a> MetricsDiffView<'a> {
    /// The rows of a metric that are shown.
    pub(super) fn sheet(&self, diff: &'a MetricDiff<'a>) -> Sheet<'a> {
        let shown = diff.rows.iter().take(self.rows.unwrap_or(usize::MAX));
        Sheet::totalled(fields(self, diff), shown, diff.rows.len(), &diff.total)
    }

    /// All rows together, for JSON.
    pub(super) fn total_object(&self, diff: &'a MetricDiff<'a>) -> SheetObject<'a> {
        SheetObject(Sheet::new(fields(self, diff), [&diff.total], 1))
    }

    /// The recordings of a side.
    pub(super) fn files_sheet(&self, side: usize) -> Sheet<'static> {
        let files: Vec<_> = self.files[side].iter().zip(self.windows[side]).collect();
        let mut fields = vec![
            Field::text("file", |of: &(&'a String, &Windows)| Some(&**of.0)),
            Field::count("windows", |of: &(&String, &Windows)| of.1.total.windows()),
            Field::count("kept", |of: &(&String, &Windows)| of.1.total.kept()),
        ];
        fields.extend(kind_fields(|of: &(&String, &'a Windows)| of.1));
        fields.push(Field::text("emulated_by", |of: &(&String, &'a Windows)| emulator(of.1)));
        Sheet::new(fields, &files, files.len()).into_owned()
    }
}

/// What the machine was made of.
pub(super) fn emulator(windows: &Windows) -> Option<&str> {
    windows.metadata.info.as_ref()?.machine.emulator.as_deref()
}

fn fields<'a>(view: &MetricsDiffView<'a>, diff: &'a MetricDiff<'a>) -> Vec<Field<'a, RowDiff>> {
    let (by, is_long) = (view.by, view.long_phases().is_some());
    let named = |row: &'a RowDiff| row.name.as_ref().map(Named::of_name);
    let verdict =
        |row: &RowDiff| ChangeVerdict::new(row.differs(), row.change.map_or(0.0, |of| of.value));
    let mut fields = vec![
        Field::text("metric", |_: &RowDiff| Some(&*diff.metric.name))
            .only_in(&[SheetForm::Delimited]),
        Field::text("unit", |_: &RowDiff| Some(&*diff.metric.unit))
            .only_in(&[SheetForm::Delimited]),
    ];
    fields.extend(program_fields(by, named));
    fields.extend([
        Field::estimate("change.value", |row: &RowDiff| {
            Some((row.change?.value, row.change?.interval))
        })
        .head("change")
        .spaced()
        .shown_if_known(|row| row.change.as_ref().map(change)),
        Field::number("change.relative", RowDiff::relative)
            .column("relative change")
            .head("change %")
            .optional(3)
            .shown_if_known(|row| row.relative().map(|of| signed(&percent(of, 1), of))),
        Field::text("change.why", move |row: &RowDiff| why(row, is_long))
            .only_in(&[SheetForm::Json])
            .absent_if_missing(),
        Field::number("p", |row: &RowDiff| row.p).for_programs(),
        Field::text("is", move |row: &RowDiff| verdict(row).known())
            .head("verdict")
            .shown_if_known(move |row| verdict(row).words().map(str::to_owned))
            .rigid(),
    ]);
    for (at, (side, samples, windows)) in SIDES.into_iter().enumerate() {
        let value = move |row: &RowDiff| Some((row.sides[at].value?, row.sides[at].interval));
        let figure = move |row: &RowDiff| {
            Some(value_figure(Some(row.sides[at].value?), row.sides[at].interval))
        };
        fields.extend([
            Field::estimate(format!("{side}.value"), value)
                .head(side)
                .spaced()
                .optional(1)
                .shown_if_known(figure),
            Field::count(format!("{side}.windows"), move |row: &RowDiff| row.sides[at].windows)
                .column(samples)
                .for_programs(),
            Field::count(format!("{side}.kept"), move |row: &RowDiff| row.sides[at].kept)
                .column(windows)
                .for_programs(),
        ]);
    }
    // People compare the values first.
    fields.extend(SIDES.into_iter().enumerate().map(|(at, (_, samples, _))| {
        Field::count(samples, move |row: &RowDiff| row.sides[at].windows).optional(4).for_people()
    }));
    fields.extend(module_field(by, named).map(Field::for_people));
    fields.push(name_field(by, named));
    fields.into_iter().map(|of| of.painted(move |row| verdict(row).paint())).collect()
}

/// `+0.12 ±0.03`; `~` where there is no interval.
fn change(change: &Estimate) -> String {
    match change.interval {
        _ if change.value == 0.0 => "0".to_owned(),
        Some(of) => signed(&estimate(change.value, of.low, of.high), change.value),
        None => format!("~{}", signed(&significant(change.value, 3), change.value)),
    }
}

/// Why a change or its interval is missing.
fn why(row: &RowDiff, is_long: bool) -> Option<&'static str> {
    match row.change {
        None => Some("a side has no value"),
        Some(change) if change.interval.is_some() => None,
        Some(_) if is_long => Some(LONG_PHASES),
        Some(_) => Some(
            "shorter than ten windows, fewer than 30 kept windows, too few phases or too few recordings on a side",
        ),
    }
}
