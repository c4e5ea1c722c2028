//! Two sides of recordings, a row per event and function.

use std::collections::BTreeSet;

use pmuscope_profile::Profile;
use pmuscope_profile::diff::{EventDiff, Order, RowDiff, TotalUnit, diff as compare};
use pmuscope_stats::Estimate;

use crate::OpenRecording;
use crate::columns::RowColumns;
use crate::error::TableError;
use crate::table::ArrowTable;

/// A function of an event.
struct ChangeRow<'a> {
    event: &'a EventDiff,
    change: &'a RowDiff,
}

/// What changed between recordings, as `pmuscope diff` has it: a row per event and function, the largest change of each event
/// first. Filters of the recordings count.
///
/// # Errors
/// A recording cannot be read, a side has none, or the sides have no event in common.
pub fn diff(
    before: &[&OpenRecording],
    after: &[&OpenRecording],
    order: Order,
) -> Result<ArrowTable, TableError> {
    if before.is_empty() || after.is_empty() {
        return Err(TableError::NoSide { before: before.len(), after: after.len() });
    }
    let read = |side: &[&OpenRecording]| {
        side.iter().map(|one| one.functions_to_compare()).collect::<Result<Vec<_>, _>>()
    };
    let sides = [read(before)?, read(after)?];
    let events = compare(&sides[0], &sides[1], order);
    if events.is_empty() {
        return Err(TableError::NothingInCommon { one_sided: events_of(&sides) });
    }
    let row_of = |event| move |change| ChangeRow { event, change };
    let rows: Vec<ChangeRow<'_>> =
        events.iter().flat_map(|event| event.rows.iter().map(row_of(event))).collect();
    let mut table = RowColumns::new(&rows)
        .text("event", |row| Some(&row.event.name))
        .text("comm", |row| Some(&row.change.name.command))
        .text("function", |row| row.change.name.function.as_deref())
        .text("inlined_into", |row| row.change.name.inlined_into.as_deref())
        .text("module", |row| Some(&row.change.name.module));
    table = estimate(table, "share_change", "", |row| &row.change.share)
        .text("verdict", |row| verdict(row.change))
        .f64("p", "", |row| row.change.p);
    for (at, side) in ["before", "after"].into_iter().enumerate() {
        table =
            estimate(table, &format!("{side}_share"), "", move |row| &row.change.sides[at].share)
                .u64(&format!("{side}_samples"), "", move |row| Some(row.change.sides[at].samples));
    }
    table = estimate(table, "total_change", UNIT, |row| &row.change.total);
    for (at, side) in ["before", "after"].into_iter().enumerate() {
        let total = move |row: &ChangeRow<'_>| Some(row.change.sides[at].total);
        table = table.f64(&format!("{side}_total"), UNIT, total);
    }
    Ok(table.text("total_unit", |row| Some(unit(row.event.unit))).finish()?)
}

/// Unit of totals, which is in a column.
const UNIT: &str = "as in total_unit";

/// A number and its 95% CI.
fn estimate<'a, R>(
    rows: RowColumns<'a, R>,
    name: &str,
    unit: &str,
    of: impl Fn(&'a R) -> &'a Estimate + Copy,
) -> RowColumns<'a, R> {
    rows.f64(name, unit, move |row| Some(of(row).value))
        .f64(&format!("{name}_low"), unit, move |row| Some(of(row).interval?.low))
        .f64(&format!("{name}_high"), unit, move |row| Some(of(row).interval?.high))
}

fn verdict(change: &RowDiff) -> Option<&'static str> {
    Some(match (change.differs()?, change.share.value > 0.0) {
        (true, true) => "more",
        (true, false) => "less",
        (false, _) => "unclear",
    })
}

/// As JSON has it.
fn unit(unit: TotalUnit) -> &'static str {
    match unit {
        TotalUnit::Seconds => "s",
        TotalUnit::Units => "units",
        TotalUnit::Samples => "samples",
    }
}

fn events_of(sides: &[Vec<Profile>; 2]) -> Vec<String> {
    let events = sides.iter().flatten().flat_map(|profile| &profile.events);
    let names: BTreeSet<&String> = events.map(|event| &event.name).collect();
    names.into_iter().cloned().collect()
}
