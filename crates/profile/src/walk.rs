//! Samples one by one with all that they carry, in the order of time: for what few recordings have.

use pmuscope_perfdata::reader::{ReadError, Reader, Record, Sample};

use crate::address_spaces::AddressSpaces;
use crate::filter::{Facts, Filter};

/// How many samples there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// Those that passed the filter.
    pub kept: u64,
    /// Those that did not.
    pub left_out: u64,
}

/// Hands each sample that passes `filter` to `take`, with the moment it was made; at the end the last
/// moment, which knows all modules.
///
/// # Errors
/// Those of [`Reader::next`].
pub(crate) fn walk(
    reader: &mut Reader,
    filter: &Filter,
    take: impl FnMut(&AddressSpaces, &Sample<'_>),
) -> Result<(AddressSpaces, Walked), ReadError> {
    walk_all(reader, filter, |_| {}, take)
}

/// As [`walk`]; every other record goes to `see`.
///
/// # Errors
/// Those of [`Reader::next`].
pub(crate) fn walk_all(
    reader: &mut Reader,
    filter: &Filter,
    mut see: impl FnMut(&Record<'_>),
    mut take: impl FnMut(&AddressSpaces, &Sample<'_>),
) -> Result<(AddressSpaces, Walked), ReadError> {
    let (mut present, mut walked) = (AddressSpaces::default(), Walked::default());
    while let Some(entry) = reader.next()? {
        let Record::Sample(sample) = &entry.record else {
            present.take(&entry.record);
            see(&entry.record);
            continue;
        };
        let task = sample.pid.zip(sample.tid);
        let comm = task.map_or(b"-"[..].into(), |(_, tid)| present.comm(tid));
        let (cpu, time, event) = (sample.cpu, sample.time, Some(sample.event));
        if filter.passes(&Facts { task, comm: &comm, cpu, time, event }) {
            walked.kept += 1;
            take(&present, sample);
        } else {
            walked.left_out += 1;
        }
    }
    Ok((present, walked))
}
