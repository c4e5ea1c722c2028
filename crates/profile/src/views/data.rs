//! Addresses of data: which variable or mapping was accessed, and what that cost.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use pmuscope_perfdata::reader::{CpuMode, ReadError, Reader, Record};
use pmuscope_stats::Interval;
use pmuscope_symbols::Symbolizer;
use rustc_hash::FxHashMap;

use crate::address_spaces::ModuleOffset;
use crate::filter::Filter;
use crate::timeline::areas::{Areas, lossy};
use crate::timeline::modules::ModuleKind;
use crate::views::Weights;
use crate::walk::{Walked, walk_all};

use super::tally::{KeyCounts, KeyTally};

/// Sampled addresses of data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataAddresses {
    /// The most frequent first.
    pub rows: Vec<DataRow>,
    /// Samples.
    pub samples: Walked,
    /// Of them, those with an address of data.
    pub with_address: u64,
}

/// Accesses to one variable, or to what has no name in one mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRow {
    /// The variable; `None` where no symbol table names one. Foreign text.
    pub object: Option<Arc<str>>,
    /// Path of the file, or a name in brackets: `[heap]`, `[stack]`. Foreign text.
    pub module: Arc<str>,
    /// The accesses.
    pub sums: DataSums,
    /// 95 % interval of its share of samples with an address; `None` where too few blocks of time have
    /// some.
    pub interval: Option<Interval>,
}

/// What the hardware tells of accesses, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataSums {
    /// Samples.
    pub samples: u64,
    /// Their weights.
    pub weights: Weights,
    /// Those that tell where their data came from.
    pub with_source: u64,
    /// Loads, of those.
    pub loads: u64,
    /// Stores, of those.
    pub stores: u64,
    /// Data that came from another node, of those.
    pub remote: u64,
    /// Data that another cache had modified (HITM), of those.
    pub hitm: u64,
}

impl DataSums {
    /// A number of samples that only some kinds of samples tell; `None` where none of these does.
    #[must_use]
    pub fn told(&self, number: u64) -> Option<u64> {
        (self.with_source > 0).then_some(number)
    }
}

impl KeyCounts for DataSums {
    fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.weights.add(&other.weights);
        self.with_source += other.with_source;
        self.loads += other.loads;
        self.stores += other.stores;
        self.remote += other.remote;
        self.hitm += other.hitm;
    }

    fn number(&self) -> u64 {
        self.samples
    }
}

/// Where data lie: a place in a file; with a name, memory that may hold a variable of the file before it.
type DataSpot = (ModuleOffset, Option<Arc<str>>);

/// Reads all that is left of a recording; variables by tables that `symbolizer` finds.
///
/// # Errors
/// Those of [`Reader::next`].
pub fn data_addresses(
    reader: &mut Reader,
    filter: &Filter,
    symbolizer: &Symbolizer,
) -> Result<DataAddresses, ReadError> {
    let mut counts: KeyTally<DataSpot, DataSums> = KeyTally::default();
    let areas = RefCell::new(Areas::default());
    // By module: where the data of its file end.
    let mut data_ends: FxHashMap<u32, Option<u64>> = FxHashMap::default();
    let mut with_address = 0;
    let see = |record: &Record<'_>| areas.borrow_mut().see(record);
    let (present, samples) = walk_all(reader, filter, see, |present, sample| {
        // 0 is what events write that have no address of data.
        let Some(address) = sample.address.filter(|&address| address != 0) else { return };
        with_address += 1;
        // An address tells no mode: a kernel reads data of programs.
        let mut spot = present.find(CpuMode::Unknown, sample.pid, address);
        let is_memory = matches!(present.module(spot.module).kind, ModuleKind::Jit { .. });
        let area = is_memory.then(|| {
            let named = sample.pid.and_then(|pid| areas.borrow().get(pid, address));
            named.unwrap_or_else(|| lossy(present.module(spot.module).path))
        });
        if is_memory {
            // All of it is one row, but for variables that a file's data have there.
            let past_end = sample.pid.and_then(|pid| present.past_end_of_file(pid, address));
            let mut data_end = |spot: &ModuleOffset| {
                let module = present.module(spot.module);
                let path = || Path::new(OsStr::from_bytes(module.path));
                *data_ends.entry(spot.module).or_insert_with(|| symbolizer.data_end(path()))
            };
            let past_end = past_end.filter(|spot| data_end(spot) > Some(spot.address));
            spot = past_end.unwrap_or(ModuleOffset { address: 0, ..spot });
        }
        let details = sample.details();
        let weight = details.as_ref().and_then(|details| details.weight).map(|weight| weight.cost);
        // Events that know nothing of it have the field too.
        let source = details.as_ref().and_then(|details| details.data_source);
        let source = source.filter(|source| source.operation().is_some());
        let has = |is: Option<bool>| u64::from(is == Some(true));
        let sums = DataSums {
            samples: 1,
            weights: Weights::one(weight),
            with_source: source.is_some().into(),
            loads: has(source.map(|source| source.is_load())),
            stores: has(source.map(|source| source.is_store())),
            remote: has(source.map(|source| source.is_remote())),
            hitm: has(source.map(|source| source.is_modified_elsewhere())),
        };
        counts.add((spot, area), sample.time, &sums);
    })?;
    let spots = counts.keys().map(|(spot, _)| *spot);
    let names = present.objects(spots, reader.metadata(), symbolizer);
    let by_name = counts.rekeyed(|(spot, area)| {
        let object = names.get(&spot).cloned();
        let area = area.filter(|_| object.is_none());
        (object, area.unwrap_or_else(|| lossy(present.module(spot.module).path)))
    });
    let row = |((object, module), sums, interval)| DataRow { object, module, sums, interval };
    let rows = by_name.rows().into_iter().map(row).collect();
    Ok(DataAddresses { rows, samples, with_address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_sample_told_is_not_known() {
        let mut sums = DataSums { samples: 2, ..DataSums::default() };
        assert_eq!((sums.weights.mean(), sums.told(0)), (None, None));
        for weight in [10, 30] {
            sums.add(&DataSums {
                samples: 1,
                weights: Weights::one(Some(weight)),
                with_source: 1,
                hitm: 1,
                ..DataSums::default()
            });
        }
        assert_eq!((sums.weights.mean(), sums.weights.largest()), (Some(20.0), Some(30)));
        assert_eq!((sums.samples, sums.told(sums.hitm)), (4, Some(2)));
    }
}
