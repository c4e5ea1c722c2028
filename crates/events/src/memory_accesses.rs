//! The events that sample loads and stores with their addresses and data sources, for whatever asks who shares memory.
//!
//! Which ones, sysfs says (`/sys/bus/event_source/devices`), as for `perf c2c record`:
//!
//! ```text
//!  mem-loads-aux there   {PMU/mem-loads-aux/,PMU/mem-loads,ldlat=N/}:P   Sapphire Rapids, Alder Lake's cpu_core
//!  mem-loads             PMU/mem-loads,ldlat=N/P                          Intel before and after, cpu_atom
//!  mem-stores            PMU/mem-stores/P
//!  ibs_op                ibs_op//                                         AMD: all operations, loads and stores among them
//! ```
//! A hybrid CPU has some for each kind of core. Arm's SPE writes into AUX buffers, which is another way of recording.

use thiserror::Error;

use crate::catalog::{Catalog, core_pmus};
use crate::event::Group;
use crate::resolve::parse;

/// Loads that take fewer cycles are not sampled, where the PMU can leave them out: those that hit the first-level cache.
pub const LEAST_LATENCY: u64 = 30;

/// Why accesses to memory cannot be sampled here.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoMemoryEvents {
    /// No unit samples them.
    #[error(
        "no PMU here samples memory accesses with their addresses (PEBS, IBS or SPE; most VMs have none). Try: pmuscope \
         watch -p PID VARIABLE, which uses debug registers"
    )]
    NoUnit,
    /// Arm's.
    #[error(
        "Arm SPE ({unit}) writes into AUX buffers, which record does not read. Try: perf c2c record -- CMD, then pmuscope \
         sharing perf.data"
    )]
    Aux {
        /// The unit.
        unit: String,
    },
}

/// The events, as `-e` takes them, one text for each group.
///
/// # Errors
/// If this machine has none.
pub fn memory_event_texts(catalog: &dyn Catalog) -> Result<Vec<String>, NoMemoryEvents> {
    let mut texts = Vec::new();
    for pmu in core_pmus(catalog) {
        let (name, has) = (&pmu.name, |event: &str| pmu.events.contains_key(event));
        if has("mem-loads") {
            let loads = format!("{name}/mem-loads,ldlat={LEAST_LATENCY}/");
            texts.push(match has("mem-loads-aux") {
                true => format!("{{{name}/mem-loads-aux/,{loads}}}:P"),
                false => format!("{loads}P"),
            });
        }
        if has("mem-stores") {
            texts.push(format!("{name}/mem-stores/P"));
        }
    }
    let unit = |start: &str| catalog.pmus().iter().find(|pmu| pmu.name.starts_with(start));
    if texts.is_empty() {
        texts.extend(unit("ibs_op").map(|pmu| format!("{}//", pmu.name)));
    }
    match (texts.is_empty(), unit("arm_spe_")) {
        (false, _) => Ok(texts),
        (true, Some(spe)) => Err(NoMemoryEvents::Aux { unit: spe.name.clone() }),
        (true, None) => Err(NoMemoryEvents::NoUnit),
    }
}

/// The same, parsed.
///
/// # Errors
/// If this machine has none, or sysfs describes one in terms that are not known.
pub fn memory_events(catalog: &dyn Catalog) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for text in memory_event_texts(catalog).map_err(|error| error.to_string())? {
        groups.extend(parse(&text, catalog).map_err(|error| error.to_string())?);
    }
    Ok(groups)
}
