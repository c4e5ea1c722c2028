//! Functions with their shares.

use arrow_schema::ArrowError;
use pmuscope_profile::export::Source;
use pmuscope_profile::{
    EventProfile, FunctionNames, FunctionShare, FunctionTable, Options, Profile,
};

use crate::columns::RowColumns;
use crate::table::ArrowTable;

/// A function of an event.
struct FunctionRow<'a> {
    event: &'a EventProfile,
    names: &'a FunctionNames,
    share: &'a FunctionShare,
}

/// A row per event, comm and function, the largest share of each event first. `totals`: with what functions called.
pub(crate) fn table(
    profile: &Profile,
    events: &[&EventProfile],
    totals: bool,
) -> Result<ArrowTable, ArrowError> {
    let source = Source::new(profile);
    let options = Options { totals, ..Options::default() };
    let functions_of = |event: &EventProfile| {
        let exported = source.events.iter().find(|one| one.index == event.index)?;
        Some(source.functions(exported, options))
    };
    let tables: Vec<(&EventProfile, FunctionTable)> =
        events.iter().filter_map(|event| Some((*event, functions_of(event)?))).collect();
    let rows: Vec<FunctionRow<'_>> = tables
        .iter()
        .flat_map(|(event, table)| {
            let row = |share| FunctionRow { event, names: &table.names, share };
            table.rows.iter().map(row)
        })
        .collect();
    // Of what has no weights, samples are all that is known.
    let weight = |row: &FunctionRow<'_>| {
        if row.event.by_period {
            Some(row.share.weight)
        } else {
            row.share.samples.checked_mul(row.event.fixed_period?)
        }
    };
    let with_lost = |row: &FunctionRow<'_>| row.event.with_lost(row.share.share);
    RowColumns::new(&rows)
        .text("event", |row| Some(&row.event.name))
        .text("comm", |row| Some(row.names.command_of(row.share)))
        .text("function", |row| row.names.function_of(row.share))
        .text("inlined_into", |row| row.names.inlined_into(row.share))
        .text("module", |row| Some(&profile.modules.get(row.share.module)?.path))
        .u64("samples", "", |row| Some(row.share.samples))
        .u64("weight", "events; ns of a clock", weight)
        .f64("share", "", |row| Some(row.share.share))
        .f64("share_low", "", |row| Some(row.share.interval?.low))
        .f64("share_high", "", |row| Some(row.share.interval?.high))
        .u64("total_samples", "", |row| Some(row.share.total?.samples))
        .f64("total_share", "", |row| Some(row.share.total?.share))
        .f64("with_lost_low", "", |row| Some(with_lost(row)?.0))
        .f64("with_lost_high", "", |row| Some(with_lost(row)?.1))
        .finish()
}
