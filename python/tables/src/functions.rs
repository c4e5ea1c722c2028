//! Functions with their shares.

use arrow_schema::ArrowError;
use pmuscope_profile::{EventProfile, FunctionShare, Profile};

use crate::columns::RowColumns;
use crate::table::ArrowTable;

/// A row per event, comm and function, the largest share of each event first.
pub(crate) fn table(profile: &Profile, events: &[&EventProfile]) -> Result<ArrowTable, ArrowError> {
    let of_event = |event: &&EventProfile| -> Vec<(usize, FunctionShare)> {
        let at = profile.events.iter().position(|other| other.index == event.index);
        event.functions.iter().map(|row| (at.unwrap_or(0), *row)).collect()
    };
    let rows: Vec<(usize, FunctionShare)> = events.iter().flat_map(of_event).collect();
    let event = |(at, _): &(usize, FunctionShare)| &profile.events[*at];
    // Of what has no weights, samples are all that is known.
    let weight = |row: &(usize, FunctionShare)| {
        let event = event(row);
        if event.by_period {
            Some(row.1.weight)
        } else {
            row.1.samples.checked_mul(event.fixed_period?)
        }
    };
    let with_lost = |row: &(usize, FunctionShare)| event(row).with_lost(row.1.share);
    RowColumns::new(&rows)
        .text("event", |row| Some(&event(row).name))
        .text("comm", |(_, row)| Some(profile.command_of(row)))
        .text("function", |(_, row)| profile.function_of(row))
        .text("inlined_into", |(_, row)| profile.inlined_into(row))
        .text("module", |(_, row)| Some(&profile.modules.get(row.module)?.path))
        .u64("samples", "", |(_, row)| Some(row.samples))
        .u64("weight", "events; ns of a clock", weight)
        .f64("share", "", |(_, row)| Some(row.share))
        .f64("share_low", "", |(_, row)| Some(row.interval?.low))
        .f64("share_high", "", |(_, row)| Some(row.interval?.high))
        .u64("total_samples", "", |(_, row)| Some(row.total?.samples))
        .f64("total_share", "", |(_, row)| Some(row.total?.share))
        .f64("with_lost_low", "", |row| Some(with_lost(row)?.0))
        .f64("with_lost_high", "", |row| Some(with_lost(row)?.1))
        .finish()
}
