//! Where the functions of a profile begin and end.

use std::ops::Range;

use pmuscope_symbols::Symbolizer;

use crate::profile::Profile;
use crate::timeline::modules::ModuleKind;

/// Where functions that hold frames of a profile begin and end, as their modules count addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionRanges {
    /// By module, in order, each once.
    by_module: Vec<Vec<Range<u64>>>,
}

impl FunctionRanges {
    /// Those of `profile`, whose frames have addresses. Only of files: viewers have no numbers as large as the
    /// kernel's addresses.
    #[must_use]
    pub fn new(profile: &Profile, symbolizer: &Symbolizer) -> Self {
        let mut addresses: Vec<Vec<u64>> = vec![Vec::new(); profile.modules.len()];
        for frame in &profile.aggregate.frames {
            if let (Some(address), Some(of)) =
                (frame.address, addresses.get_mut(frame.module as usize))
            {
                of.push(address);
            }
        }
        let ranges = |(module, mut addresses): (&crate::ModuleSummary, Vec<u64>)| {
            addresses.sort_unstable();
            addresses.dedup();
            let source = module.source().filter(|_| module.kind == ModuleKind::File);
            let found = source
                .filter(|_| !addresses.is_empty())
                .and_then(|source| symbolizer.function_ranges(&source, &addresses).ok());
            let mut found: Vec<Range<u64>> = found.into_iter().flatten().flatten().collect();
            found.sort_unstable_by_key(|range| (range.start, range.end));
            found.dedup_by_key(|range| range.start);
            found
        };
        Self { by_module: profile.modules.iter().zip(addresses).map(ranges).collect() }
    }

    /// The function at `address` of a module.
    pub(crate) fn at(&self, module: u32, address: u64) -> Option<&Range<u64>> {
        let ranges = self.by_module.get(module as usize)?;
        let after = ranges.partition_point(|range| range.start <= address);
        ranges.get(after.checked_sub(1)?).filter(|range| range.contains(&address))
    }

    #[cfg(test)]
    pub(crate) fn of(by_module: Vec<Vec<Range<u64>>>) -> Self {
        Self { by_module }
    }
}
