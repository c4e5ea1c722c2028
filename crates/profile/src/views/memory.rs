//! Accesses to memory: which level answered, what other caches had, and what it cost.

use pmuscope_perfdata::reader::{AccessClass, ReadError, Reader};
use pmuscope_stats::Interval;

use crate::filter::Filter;
use crate::views::Weights;
use crate::walk::{Walked, walk};

use super::accessor::{AccessBy, Accessor, AccessorNames, AccessorSpot};
use super::tally::{KeyCounts, KeyTally};

/// Sampled accesses of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Accesses {
    /// What rows are by, next to kinds.
    pub by: AccessBy,
    /// The most frequent first.
    pub rows: Vec<AccessRow>,
    /// Samples.
    pub samples: Walked,
    /// Of them, those that tell where their data came from.
    pub with_source: u64,
}

/// Accesses of one kind; what the hardware did not tell is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessRow {
    /// What kind.
    pub kind: AccessKind,
    /// Who accessed memory, as far as rows are by that.
    pub accessor: Accessor,
    /// How many samples.
    pub samples: u64,
    /// Their weights.
    pub weights: Weights,
    /// 95 % interval of their share of all that tell it; `None` where too few blocks of time have some.
    pub interval: Option<Interval>,
}

/// What the hardware tells of an access, in perf's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessKind {
    /// What became of it; `None` of what is neither a load nor a store.
    pub class: Option<AccessClass>,
    /// `LOAD`, `STORE`, …
    pub operation: Option<&'static str>,
    /// Level of memory.
    pub level: Option<&'static str>,
    /// Whether it was found there.
    pub hit: Option<bool>,
    /// On another node.
    pub remote: bool,
    /// What other caches had.
    pub snoop: Option<&'static str>,
    /// It was modified in another cache (HITM).
    pub hitm: bool,
    /// Which TLB knew the page.
    pub tlb: Option<&'static str>,
    /// Whether it was found there.
    pub tlb_hit: Option<bool>,
    /// Whether the access was locked.
    pub locked: Option<bool>,
}

/// Samples of one kind and their weights.
#[derive(Debug, Default)]
struct WeightedSums {
    samples: u64,
    weights: Weights,
}

impl KeyCounts for WeightedSums {
    fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.weights.add(&other.weights);
    }

    fn number(&self) -> u64 {
        self.samples
    }
}

/// Reads all that is left of a recording.
///
/// # Errors
/// Those of [`Reader::next`].
pub fn accesses(
    reader: &mut Reader,
    filter: &Filter,
    by: AccessBy,
    names: &mut AccessorNames<'_>,
) -> Result<Accesses, ReadError> {
    let mut counts: KeyTally<(AccessKind, AccessorSpot), WeightedSums> = KeyTally::default();
    let mut with_source = 0;
    let (present, samples) = walk(reader, filter, |present, sample| {
        let Some(details) = sample.details() else { return };
        let Some(source) = details.data_source else { return };
        with_source += 1;
        let kind = AccessKind {
            class: source.class(),
            operation: source.operation(),
            level: source.level(),
            hit: source.hit(),
            remote: source.is_remote(),
            snoop: source.snoop(),
            hitm: source.is_modified_elsewhere(),
            tlb: source.tlb(),
            tlb_hit: source.tlb_hit(),
            locked: source.locked(),
        };
        let weights = Weights::one(details.weight.map(|weight| weight.cost));
        counts.add(
            (kind, by.spot(present, sample)),
            sample.time,
            &WeightedSums { samples: 1, weights },
        );
    })?;
    let places = counts.keys().filter_map(|(_, who)| who.code()).collect();
    let accessors = names.named(by, places, &present, reader.metadata());
    let counts = counts.rekeyed(|(kind, who)| (kind, accessors.of(who)));
    let row = |((kind, accessor), WeightedSums { samples, weights }, interval)| AccessRow {
        kind,
        accessor,
        samples,
        weights,
        interval,
    };
    let rows = counts.rows().into_iter().map(row).collect();
    Ok(Accesses { by, rows, samples, with_source })
}
