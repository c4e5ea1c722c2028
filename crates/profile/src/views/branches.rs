//! Branch stacks: which branches were taken, how often, and how they were predicted.
//!
//! Each entry of each sample's stack is a branch of its own, as with perf's `--branch-stack`. They are
//! counted by their two places; what those are called comes afterwards. Call stacks that the CPU kept are
//! not branches but callers, see `chains.rs`.

use std::sync::Arc;

use pmuscope_perfdata::reader::{CpuMode, Metadata, ReadError, Reader};
use pmuscope_stats::Interval;
use pmuscope_symbols::KernelIdentity;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::filter::Filter;
use crate::names::naming::Resolve;
use crate::timeline::areas::lossy;
use crate::walk::{Walked, walk};

use super::tally::{KeyCounts, KeyTally};

/// Branches of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Branches {
    /// The most frequent first.
    pub rows: Vec<BranchRow>,
    /// How many branches there are in all stacks.
    pub branches: u64,
    /// Samples.
    pub samples: Walked,
    /// Of them, those with a stack that is not empty.
    pub with_stack: u64,
    /// Samples whose stack is a call stack (LBR in call-stack mode): callers, none of which counts here.
    pub with_calls: u64,
}

/// Branches from one place to another.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchRow {
    /// Where it was.
    pub from: BranchEnd,
    /// Where it went.
    pub to: BranchEnd,
    /// How often.
    pub sums: BranchSums,
    /// 95 % interval of its share of all branches; `None` where too few blocks of time have some.
    pub interval: Option<Interval>,
}

/// An end of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchEnd {
    /// The function. Foreign text.
    pub function: Option<Arc<str>>,
    /// Where there is no function: the address as its module counts it; `None` where nothing is mapped.
    pub address: Option<u64>,
    /// Path of the file, or a name in brackets. Foreign text.
    pub module: Arc<str>,
}

/// Counts of branches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BranchSums {
    /// Branches.
    pub branches: u64,
    /// Of them, those predicted rightly. What is in neither was not recorded.
    pub predicted: u64,
    /// Those predicted wrongly.
    pub mispredicted: u64,
    /// Those in a hardware transaction.
    pub in_transaction: u64,
    /// Those that aborted one.
    pub aborted: u64,
    /// Those that tell the cycles since the branch before.
    pub with_cycles: u64,
    /// Those cycles.
    pub cycles: u64,
}

impl KeyCounts for BranchSums {
    fn add(&mut self, other: &Self) {
        self.branches += other.branches;
        self.predicted += other.predicted;
        self.mispredicted += other.mispredicted;
        self.in_transaction += other.in_transaction;
        self.aborted += other.aborted;
        self.with_cycles += other.with_cycles;
        self.cycles = self.cycles.saturating_add(other.cycles);
    }

    fn number(&self) -> u64 {
        self.branches
    }
}

impl BranchSums {
    /// Share of wrong predictions, 0 to 1; `None` where predictions were not recorded.
    #[must_use]
    pub fn miss_share(&self) -> Option<f64> {
        let told = self.predicted + self.mispredicted;
        (told > 0).then(|| self.mispredicted as f64 / told as f64)
    }

    /// Mean cycles since the branch before; `None` where they were not recorded.
    #[must_use]
    pub fn mean_cycles(&self) -> Option<f64> {
        (self.with_cycles > 0).then(|| self.cycles as f64 / self.with_cycles as f64)
    }
}

/// Reads all that is left of a recording, and gives names by `resolve`.
///
/// # Errors
/// Those of [`Reader::next`].
pub fn branches(
    reader: &mut Reader,
    filter: &Filter,
    running: &KernelIdentity,
    resolve: &mut Resolve<'_>,
) -> Result<Branches, ReadError> {
    let mut counts: KeyTally<(ModuleOffset, ModuleOffset), BranchSums> = KeyTally::default();
    let (mut number, mut with_stack, mut with_calls) = (0_u64, 0_u64, 0_u64);
    let (present, samples) = walk(reader, filter, |present, sample| {
        // Calls that have not returned are callers, not branches as they were taken.
        if sample.tail.calls().is_some() {
            with_calls += 1;
            return;
        }
        let stack = sample.details().and_then(|details| details.branches);
        let Some(stack) = stack.filter(|stack| !stack.is_empty()) else { return };
        with_stack += 1;
        for branch in stack.iter() {
            number += 1;
            // A branch tells no mode, its address does.
            let spot = |address| present.find(CpuMode::Unknown, sample.pid, address);
            let sums = BranchSums {
                branches: 1,
                predicted: branch.predicted.into(),
                mispredicted: branch.mispredicted.into(),
                in_transaction: branch.in_transaction.into(),
                aborted: branch.aborted.into(),
                with_cycles: (branch.cycles > 0).into(),
                cycles: branch.cycles.into(),
            };
            counts.add((spot(branch.from), spot(branch.to)), sample.time, &sums);
        }
    })?;
    let spots = counts.keys().flat_map(|&(from, to)| [from, to]);
    let ends = ends(&present, spots, reader.metadata(), running, resolve);
    let by_name = counts.rekeyed(|(from, to)| (ends[&from].clone(), ends[&to].clone()));
    let row = |((from, to), sums, interval)| BranchRow { from, to, sums, interval };
    let rows = by_name.rows().into_iter().map(row).collect();
    Ok(Branches { rows, branches: number, samples, with_stack, with_calls })
}

/// What places of code are called: all of `spots`.
pub(super) fn ends(
    present: &AddressSpaces,
    spots: impl Iterator<Item = ModuleOffset>,
    metadata: &Metadata,
    running: &KernelIdentity,
    resolve: &mut Resolve<'_>,
) -> FxHashMap<ModuleOffset, BranchEnd> {
    let spots: FxHashSet<ModuleOffset> = spots.collect();
    let symbols = present.symbols(spots.iter().copied(), metadata, running, resolve);
    let end = |spot: ModuleOffset| {
        let function = symbols.get(&spot).map(|symbol| Arc::clone(&symbol.name));
        let address = (function.is_none() && spot.address != 0).then_some(spot.address);
        let module = lossy(present.module(spot.module).path);
        (spot, BranchEnd { function, address, module })
    };
    spots.into_iter().map(end).collect()
}
