//! The reader against files it did not make.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod corpus;
mod directory;
mod forms;
mod ours;
mod round_trip;
mod stock_perf;
mod tracing;

use std::path::Path;

use pmuscope_perfdata::reader::{ReadError, Reader, Record, Tally};

/// What a reader finds in a file.
#[derive(Debug, Default)]
struct Found {
    names: Vec<String>,
    /// Instruction addresses, summed per event: order does not matter, each sample does.
    ip_sums: Vec<u64>,
    samples: Vec<u64>,
    out_of_order: u64,
    callchain_entries: usize,
    /// Samples whose end is too short.
    undecoded: u64,
    mmaps: u64,
    tally: Tally,
}

fn read(path: &Path) -> Result<Found, ReadError> {
    let mut reader = Reader::open(path)?;
    let mut found = Found::default();
    let mut last = 0;
    while let Some(entry) = reader.next()? {
        found.out_of_order += u64::from(entry.time.is_some_and(|time| time < last));
        last = entry.time.unwrap_or(last);
        match entry.record {
            Record::Sample(sample) => {
                let most = found.samples.len().max(sample.event + 1);
                found.samples.resize(most, 0);
                found.ip_sums.resize(most, 0);
                found.samples[sample.event] += 1;
                let sum = &mut found.ip_sums[sample.event];
                *sum = sum.wrapping_add(sample.ip.unwrap_or(0));
                found.callchain_entries += sample.callchain.iter().count();
                found.undecoded += u64::from(sample.details().is_none());
            }
            Record::Mmap(_) => found.mmaps += 1,
            _ => {}
        }
    }
    found.names = reader.events().iter().map(|event| event.name.clone()).collect();
    found.samples.resize(found.names.len(), 0);
    found.ip_sums.resize(found.names.len(), 0);
    found.tally = reader.tally().clone();
    Ok(found)
}
