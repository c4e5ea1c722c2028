//! Recordings are read to their end, and everything in them is looked at.

use std::hint::black_box;
use std::path::Path;

use pmuscope_perfdata::reader::scan::Pieces;
use pmuscope_perfdata::reader::{ReadError, Reader, Record, RecordingFile, Sample};
use pmuscope_profile::sharing::{self, SharedLines};
use pmuscope_profile::{Collected, Detail, Filter, GroupBy, Intervals, Options, Profile, TasksBy};
use pmuscope_symbols::{KernelIdentity, Request, Resolved, Sources, State, Symbolizer};

/// Pieces so small that a file of some kilobytes has many.
const PIECES: Pieces = Pieces { part: 512, chunk: 256, packed_chunk: 128 };

/// What adding up in another order may change.
const ROUNDING: f64 = 1e-9;

/// Reads all records in order.
pub fn read(reader: Result<Reader, ReadError>) {
    let Ok(mut reader) = reader else { return };
    while let Ok(Some(entry)) = reader.next() {
        if let Record::Sample(sample) = entry.record {
            look_at(&sample);
        } else {
            black_box(format!("{entry:?}"));
        }
    }
    black_box(format!("{:?} {:?} {:?}", reader.metadata(), reader.tally(), reader.events()));
}

/// Everything that a sample can carry.
fn look_at(sample: &Sample<'_>) {
    black_box(sample.callchain.iter().fold(0, u64::wrapping_add));
    black_box(format!("{sample:?}"));
    let Some(details) = sample.details() else { return };
    for branch in details.branches.iter().flat_map(|stack| stack.iter()) {
        black_box((branch.kind_name(), branch));
    }
    for registers in [details.regs_user, details.regs_intr].into_iter().flatten() {
        black_box((registers.iter().count(), registers.get(0), registers.get(63)));
    }
    black_box(details.stack_user.map(|stack| stack.stack().len()));
    if let Some(source) = details.data_source {
        black_box((source.level(), source.snoop(), source.tlb(), source.locked()));
    }
    black_box(format!("{details:?}"));
}

/// The whole answer without names, in two passes on three threads where the file allows it.
///
/// # Errors
/// Those of opening and reading.
pub fn profile(path: &Path, detail: Detail) -> Result<Profile, ReadError> {
    let mut reader = Reader::open(path)?;
    let apart = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: true };
    let collected = Collected::read_in(&mut reader, apart, 3, None, PIECES)?;
    named(collected, &reader, detail)
}

/// The whole answer without names, read in order.
///
/// # Errors
/// Those of opening and reading.
pub fn profile_in_order(path: &Path, apart: GroupBy) -> Result<Profile, ReadError> {
    let mut reader = Reader::open(path)?;
    let collected = Collected::in_order(&mut reader, apart, None)?;
    named(collected, &reader, Detail::Function)
}

/// Reads shared cache lines, names of nothing.
pub fn shared_lines(path: &Path) {
    let Ok(recording) = RecordingFile::open(path) else { return };
    let nowhere = Sources { symfs: Some("/nowhere".into()), copies: None, ..Sources::default() };
    let mut symbolizer =
        Symbolizer::with_sources(pmuscope_symbols::Options { inlined: false }, nowhere);
    let running = KernelIdentity::default();
    for physical in [false, true] {
        let options = sharing::Options {
            filter: Filter::default(),
            line_bytes: 64,
            physical,
            least_share: 0.0,
            threads: 2,
            pieces: PIECES,
        };
        let found = SharedLines::read(&recording, &options, &running, &mut symbolizer);
        if let Ok(found) = found {
            let of_lines: u64 = found.lines.iter().map(|line| line.sums.contended()).sum();
            assert!(of_lines <= found.memory.sums.contended(), "each load is of one line");
            black_box(format!("{found:?}"));
        }
    }
}

fn named(collected: Collected, reader: &Reader, detail: Detail) -> Result<Profile, ReadError> {
    let nothing = |request: &Request<'_>| Resolved {
        symbols: vec![None; request.addresses.len()],
        state: State::FileMissing,
    };
    let options =
        Options { intervals: Intervals::Largest(4), totals: true, detail, ..Options::default() };
    collected.profile(reader, &KernelIdentity::default(), options, &mut |requests| {
        requests.iter().map(nothing).collect()
    })
}

/// Every sample is in a row, and shares are shares.
///
/// # Panics
/// If not.
pub fn adds_up(profile: &Profile) {
    for event in &profile.events {
        let counted: u64 = event.functions.iter().map(|row| row.samples).sum();
        assert_eq!(counted, event.samples, "{}", event.name);
        for row in &event.functions {
            assert!((0.0..=1.0 + ROUNDING).contains(&row.share), "{row:?}");
            let Some(interval) = row.interval else { continue };
            let (low, high) = (interval.low - ROUNDING, interval.high + ROUNDING);
            assert!(low <= row.share && row.share <= high, "{row:?}");
        }
    }
}
