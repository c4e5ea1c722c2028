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

use pmuscope_machine::Pmu;
use thiserror::Error;

use crate::catalog::{Catalog, core_pmus};
use crate::event::Group;
use crate::resolve::parse;

/// Loads that take fewer cycles are not sampled, where the PMU can leave them out: those that hit the first-level cache.
pub const LEAST_LATENCY: u64 = 30;

/// AMD's unit.
const IBS: &str = "ibs_op";

/// Why accesses to memory cannot be sampled here.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoMemoryEvents {
    /// No unit samples them.
    #[error(
        "no PMU here samples memory accesses with their addresses (PEBS, IBS or SPE; most VMs have none). Try: pmuscope \
         sharing --watch VARIABLE -p PID, which uses debug registers"
    )]
    NoUnit,
    /// Arm's.
    #[error(
        "Arm SPE ({unit}) writes into AUX buffers, which record does not read. Try: perf c2c record -- CMD, then pmuscope \
         sharing perf.data; that samples loads and stores of 30 cycles or longer"
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
        texts.extend(unit(IBS).map(|pmu| format!("{}//", pmu.name)));
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

/// What [`memory_events`] samples, a sentence each: estimates hold for these accesses alone.
///
/// Sources: what the kernel makes of the registers of PEBS (`arch/x86/events/intel/ds.c`) and IBS
/// (`arch/x86/events/amd/ibs.c`), Linux 6.12.
///
/// # Errors
/// If this machine has no such events.
pub fn memory_population(catalog: &dyn Catalog) -> Result<Vec<String>, NoMemoryEvents> {
    let texts = memory_event_texts(catalog)?;
    let cores = core_pmus(catalog);
    if !texts.iter().any(|text| text.contains("mem-")) {
        let ibs = catalog.pmus().iter().find(|pmu| pmu.name.starts_with(IBS));
        return Ok(of_ibs(ibs.is_some_and(|pmu| pmu.caps.contains_key("zen4_ibs_extensions"))));
    }
    let mut sentences = vec![format!(
        "loads of {LEAST_LATENCY} cycles or longer (PEBS, ldlat={LEAST_LATENCY}). Shares and latencies are of these, not of \
         all loads"
    )];
    if !texts.iter().any(|text| text.contains("mem-stores")) {
        sentences.push("no stores: this CPU has no event that samples them".to_owned());
        return Ok(sentences);
    }
    sentences.push(
        "stores of any duration, by another event at its own rate. Numbers of loads and of stores do not compare".to_owned(),
    );
    // Those that sample latencies of stores have the level that had the line; older ones a bit for the first.
    let has_level = |pmu: &&Pmu| {
        let stores = pmu.events.get("mem-stores").map(|stores| &*stores.terms);
        pmu.events.contains_key("mem-loads-aux") || stores == Some("event=0xd0,umask=0x6")
    };
    if cores.iter().any(has_level) {
        sentences.push(
            "Not reported: stores that miss the L1 cache count as neither hit nor miss".to_owned(),
        );
    }
    if texts.len() > 2 {
        let names: Vec<&str> = cores.iter().map(|pmu| &*pmu.name).collect();
        sentences.push(format!("each kind of core has its events ({})", names.join(", ")));
    }
    Ok(sentences)
}

fn of_ibs(has_zen4_extensions: bool) -> Vec<String> {
    let hitm = match has_zen4_extensions {
        true => "HITM is reported of caches of this NUMA node and of others",
        false => {
            "Not reported: HITM of caches of other NUMA nodes, whose loads count as loads from a remote cache; on Zen 3, \
             all HITM"
        }
    };
    let sentences = [
        "all operations (IBS), one every N cycles: loads and stores of any latency. Shares are of all loads; samples of \
         other operations are only counted",
        hitm,
        "Not reported: latencies of loads that hit the L1 cache; stores that miss it count as neither hit nor miss",
    ];
    sentences.map(str::to_owned).to_vec()
}
