//! The table of two sides: its fields, for all forms.

use pmuscope_profile::diff::{EventDiff, RowDiff, RowName, SideTotal, TotalUnit};
use pmuscope_stats::Estimate;

use super::ChangeVerdict;
use crate::number::{estimate, fixed, percent, signed, significant};
use crate::recording::LONG_PHASES;
use crate::sheet::{Field, NAME, Sheet, SheetForm, SheetObject};

/// The rows of an event, at most `most`.
pub(super) fn sheet(event: &EventDiff, most: Option<usize>) -> Sheet<'_> {
    let shown = event.rows.iter().take(most.unwrap_or(usize::MAX));
    Sheet::new(fields(event), shown, event.rows.len())
        .by_another_order()
        .more_in("pmuscope diff -o FILE.json has all")
}

/// What was sampled on a side, for JSON.
pub(super) fn total_object(side: &SideTotal) -> SheetObject<'_> {
    let mut fields = vec![
        Field::count("recordings", |side: &SideTotal| side.runs as u64),
        Field::count("samples", |side: &SideTotal| side.samples),
    ];
    fields.extend(estimate_fields("total", false, |side: &SideTotal| &side.total));
    SheetObject(Sheet::new(fields, [side], 1))
}

/// What totals are in, as JSON has it.
pub(super) fn unit_word(unit: TotalUnit) -> &'static str {
    match unit {
        TotalUnit::Seconds => "s",
        TotalUnit::Units => "units",
        TotalUnit::Samples => "samples",
    }
}

fn fields(event: &EventDiff) -> Vec<Field<'_, RowDiff>> {
    let (unit, is_long) = (unit_word(event.unit), event.long_phases.is_some());
    let [share, why_share] = estimate_fields("share_change", is_long, |row: &RowDiff| &row.share);
    let [total, why_total] = estimate_fields("total_change", false, |row: &RowDiff| &row.total);
    let share_text = |row: &RowDiff| signed(&fixed(row.share.value * 100.0, 2), row.share.value);
    let mut fields = vec![
        share.head("change (points)").shown_as(move |row| share_text(row).into()),
        why_share,
        Field::limits("95% CI", |row: &RowDiff| Some((row.share.value, row.share.interval?)))
            .optional(1),
        Field::text("share_is", |row: &RowDiff| ChangeVerdict::of(row).known())
            .head("verdict")
            .shown_if_known(|row| ChangeVerdict::of(row).words().map(str::to_owned))
            .rigid(),
    ];
    for (at, side) in ["before", "after"].into_iter().enumerate() {
        let key = format!("{side}.share");
        let [share, why] =
            estimate_fields(&key, is_long, move |row: &RowDiff| &row.sides[at].share);
        fields.extend([
            share
                .head(side)
                .optional(2)
                .shown_as(move |row| percent(row.sides[at].share.value, 2).into()),
            why,
            Field::count(format!("{side}.samples"), move |row: &RowDiff| row.sides[at].samples)
                .for_programs(),
        ]);
    }
    fields.extend([
        total
            .head(format!("total change {unit}"))
            .optional(5)
            .shown_as(|row| signed(&total_text(&row.total), row.total.value).into()),
        why_total,
    ]);
    fields.extend(["before", "after"].into_iter().enumerate().map(|(at, side)| {
        Field::number(format!("{side}.total"), move |row: &RowDiff| Some(row.sides[at].total))
            .head(format!("total {side} {unit}"))
            .optional(6)
    }));
    fields.extend([
        Field::number("p", |row: &RowDiff| row.p).for_programs(),
        Field::text("command", |row: &RowDiff| Some(&*row.name.command))
            .head("comm")
            .wanted(10)
            .optional(4),
        Field::text("module", |row: &RowDiff| Some(&*row.name.module))
            .head("DSO")
            .wanted(12)
            .optional(3),
        Field::text("function", |row: &RowDiff| row.name.function.as_deref())
            .shown_as(|row| function(&row.name).into())
            .searches(|row| row.name.function.as_ref().unwrap_or(&row.name.module).clone())
            .wanted(NAME),
        Field::text("inlined_into", |row: &RowDiff| row.name.inlined_into.as_deref())
            .for_programs(),
    ]);
    fields.into_iter().map(|of| of.painted(|row| ChangeVerdict::of(row).paint())).collect()
}

/// A number with its interval, and why there is none; `is_long` is whether that is for the length of phases.
fn estimate_fields<'a, R: 'a>(
    key: &str,
    is_long: bool,
    of: impl Fn(&'a R) -> &'a Estimate + Copy + 'a,
) -> [Field<'a, R>; 2] {
    let why = match is_long {
        true => LONG_PHASES,
        false => "too few recordings, or too few blocks of time or phases within one",
    };
    let value = move |row| Some((of(row).value, of(row).interval));
    [
        Field::estimate(format!("{key}.value"), value),
        Field::text(format!("{key}.why"), move |row| of(row).interval.is_none().then_some(why))
            .only_in(&[SheetForm::Json])
            .absent_if_missing(),
    ]
}

/// `4.12 ± 0.05`.
pub(super) fn total_text(total: &Estimate) -> String {
    match total.interval {
        Some(of) => estimate(total.value, of.low, of.high),
        None => significant(total.value, 3),
    }
}

fn function(name: &RowName) -> String {
    let function = name.function.as_deref().unwrap_or("[unknown]");
    match &name.inlined_into {
        Some(outer) => format!("{function} (inlined into {outer})"),
        None => function.to_owned(),
    }
}
