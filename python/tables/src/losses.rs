//! Events, and what was lost of them.

use arrow_schema::ArrowError;
use pmuscope_profile::{CpuLosses, EventProfile, LostSource, Profile};

use crate::columns::RowColumns;
use crate::table::ArrowTable;

/// A row per event with samples.
pub(crate) fn events(profile: &Profile) -> Result<ArrowTable, ArrowError> {
    let unit = |event: &EventProfile| if event.is_time() { "ns" } else { "events" };
    RowColumns::new(&profile.events)
        .text("event", |event| Some(&event.name))
        .u64("samples", "", |event| Some(event.samples))
        .u64("period", "as in unit", |event| event.period)
        .text("unit", |event| Some(unit(event)))
        .u64("frequency_hz", "Hz", |event| event.frequency)
        .u64("fixed_period", "as in unit", |event| event.fixed_period)
        .text("share_of", |event| Some(if event.by_period { "period" } else { "samples" }))
        .u64("lost", "records", |event| event.lost)
        .u64("lost_at_most", "records", |event| Some(event.lost_at_most))
        .u64("blocks", "", |event| Some(event.blocks as u64))
        .finish()
}

/// A row per CPU that lost records or was throttled. Where it is not known which CPU lost records, they are in a row without
/// one; if nothing was lost there is no row.
pub(crate) fn losses(profile: &Profile) -> Result<ArrowTable, ArrowError> {
    let source = match profile.lost.source {
        LostSource::Kernel => "exact",
        LostSource::Records => "at_least",
    };
    let placed: u64 = profile.losses.iter().map(|cpu| cpu.lost).sum();
    let mut rows: Vec<CpuLosses> = profile.losses.clone();
    if profile.lost.count > placed {
        let lost = profile.lost.count - placed;
        rows.push(CpuLosses { lost, ..CpuLosses::default() });
    }
    RowColumns::new(&rows)
        .u32("cpu", "", |cpu| cpu.cpu)
        .u64("samples", "", |cpu| cpu.samples)
        .u64("lost", "records", |cpu| Some(cpu.lost))
        .text("lost_is", |_| Some(source))
        .u64("throttled", "", |cpu| Some(cpu.throttled))
        .f64("suspended_s", "s", |cpu| Some(cpu.suspended_ns as f64 / 1e9))
        .finish()
}
