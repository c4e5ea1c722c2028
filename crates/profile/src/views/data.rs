//! Addresses of data: which variable or mapping was accessed, and what that cost.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use pmuscope_perfdata::reader::{CpuMode, Metadata, ReadError, Reader, Record};
use pmuscope_stats::Interval;
use pmuscope_symbols::{DataObject, Module, Symbolizer};
use rustc_hash::FxHashMap;

use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::filter::Filter;
use crate::timeline::areas::{Areas, lossy};
use crate::timeline::modules::ModuleKind;
use crate::views::Weights;
use crate::walk::{Walked, walk_all};

use super::accessor::{AccessBy, Accessor, AccessorNames, AccessorSpot, ClassCounts};
use super::tally::{KeyCounts, KeyTally};

/// Variables whose fields are looked for, those with the most samples: that takes a walk over debug information for each.
const MOST_WITH_FIELDS: usize = 64;

/// What rows of data are by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataBy {
    /// Fields of variables, or offsets in them.
    pub field: bool,
    /// Who accessed them.
    pub accessor: AccessBy,
}

/// Sampled addresses of data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataAddresses {
    /// What rows are by.
    pub by: DataBy,
    /// The most frequent first.
    pub rows: Vec<DataRow>,
    /// Samples.
    pub samples: Walked,
    /// Of them, those with an address of data.
    pub with_address: u64,
    /// Of all rows.
    pub classes: ClassCounts,
}

/// Accesses to one variable, or to what has no name in one mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRow {
    /// The variable; `None` where no symbol table names one. Foreign text.
    pub object: Option<Arc<str>>,
    /// The field of the variable, as `.head` or `[3].next` after its name, where rows are by that; `None` where debug
    /// information does not have it, and for the whole variable. Foreign text.
    pub field: Option<Arc<str>>,
    /// Bytes from the beginning of the variable to the field, or to the address where no field is known; `None` where
    /// rows are not by that, and where there is no variable.
    pub offset: Option<u64>,
    /// Who accessed it, as far as rows are by that.
    pub accessor: Accessor,
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
    /// Loads and stores, of those.
    pub classes: ClassCounts,
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
        self.classes.add(&other.classes);
        self.remote += other.remote;
        self.hitm += other.hitm;
    }

    fn number(&self) -> u64 {
        self.samples
    }
}

/// Where data lie: a place in a file; with a name, memory that may hold a variable of the file before it.
type DataSpot = (ModuleOffset, Option<Arc<str>>);

/// A variable, or what has no name in one mapping: object, field, offset, path or name of the mapping.
type DataName = (Option<Arc<str>>, Option<Arc<str>>, Option<u64>, Arc<str>);

/// Reads all that is left of a recording; variables and functions by tables that `names` finds.
///
/// # Errors
/// Those of [`Reader::next`].
pub fn data_addresses(
    reader: &mut Reader,
    filter: &Filter,
    by: DataBy,
    names: &mut AccessorNames<'_>,
) -> Result<DataAddresses, ReadError> {
    let symbolizer = &*names.symbolizer;
    let mut counts: KeyTally<(DataSpot, AccessorSpot), DataSums> = KeyTally::default();
    let areas = RefCell::new(Areas::default());
    // By module: where the data of its file end.
    let mut data_ends: FxHashMap<u32, Option<u64>> = FxHashMap::default();
    let (mut with_address, mut classes) = (0, ClassCounts::default());
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
            classes: ClassCounts::one(source.and_then(|source| source.class())),
            remote: has(source.map(|source| source.is_remote())),
            hitm: has(source.map(|source| source.is_modified_elsewhere())),
        };
        classes.add(&sums.classes);
        counts.add(((spot, area), by.accessor.spot(present, sample)), sample.time, &sums);
    })?;
    let metadata = reader.metadata();
    let spots = || counts.keys().map(|((spot, _), _)| *spot);
    let objects = match by.field {
        false => {
            let running = &names.symbolizer.running_kernel();
            let find = |module: &Module<'_>, addresses: &[u64]| {
                names.symbolizer.placed_objects(module, addresses)
            };
            present.objects(spots(), metadata, running, find)
        }
        true => with_fields(&present, &counts, metadata, names.symbolizer),
    };
    let places = counts.keys().filter_map(|(_, who)| who.code()).collect();
    let accessors = names.named(by.accessor, places, &present, metadata);
    let by_name = counts.rekeyed(|((spot, area), who)| {
        let path = || lossy(present.module(spot.module).path);
        let data: DataName = match objects.get(&spot) {
            None => (None, None, None, area.unwrap_or_else(path)),
            Some(object) => named_field(object, by.field, path()),
        };
        (data, accessors.of(who))
    });
    let row = |(((object, field, offset, module), accessor), sums, interval)| DataRow {
        object,
        field,
        offset,
        accessor,
        module,
        sums,
        interval,
    };
    let rows = by_name.rows().into_iter().map(row).collect();
    Ok(DataAddresses { by, rows, samples, with_address, classes })
}

/// A variable, and the part of it where rows are by that.
fn named_field(object: &DataObject, by_field: bool, module: Arc<str>) -> DataName {
    let name = Some(Arc::clone(&object.name));
    if !by_field {
        return (name, None, None, module);
    }
    match object.field.as_ref().filter(|field| !field.is_padding) {
        Some(field) => {
            let path = Some(&*field.path).filter(|path| !path.is_empty()).map(Arc::from);
            (name, path, Some(field.offset), module)
        }
        None => (name, None, Some(object.offset), module),
    }
}

/// Variables with their fields, as far as these are looked for.
fn with_fields(
    present: &AddressSpaces,
    counts: &KeyTally<(DataSpot, AccessorSpot), DataSums>,
    metadata: &Metadata,
    symbolizer: &Symbolizer,
) -> FxHashMap<ModuleOffset, DataObject> {
    let running = &symbolizer.running_kernel();
    let spots = counts.keys().map(|((spot, _), _)| *spot);
    let mut objects = present.objects(spots, metadata, running, |module, addresses| {
        symbolizer.placed_objects(module, addresses)
    });
    // By variable: samples, and where these are.
    let mut variables: BTreeMap<(u32, Arc<str>), (u64, Vec<ModuleOffset>)> = BTreeMap::new();
    for (((spot, _), _), sums) in counts.iter() {
        let Some(object) = objects.get(spot) else { continue };
        let variable = variables.entry((spot.module, Arc::clone(&object.name))).or_default();
        variable.0 += sums.samples;
        variable.1.push(*spot);
    }
    let mut variables: Vec<(u64, Vec<ModuleOffset>)> = variables.into_values().collect();
    variables.sort_by_key(|(samples, _)| std::cmp::Reverse(*samples));
    let near = variables.into_iter().take(MOST_WITH_FIELDS).flat_map(|(_, spots)| spots);
    objects.extend(present.objects(near, metadata, running, |module, addresses| {
        symbolizer.data_objects(module, addresses)
    }));
    objects
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
