//! pprof's profile.proto, gzip: what `go tool pprof` and what is made after it read.
//!
//! ```text
//!  sample ──► location … ──► line … ──► function       values: samples, units of the event
//!    │            └──► mapping (module, build id)      per event
//!    └──► label: command, pid, tid, cpu
//! ```
//!
//! A location is a place in a module; where functions were inlined it has a line for each, the
//! innermost first. Addresses are offsets in the module's file, and a mapping starts at the offset
//! it was mapped from: tools that disassemble find the code without knowing where it was loaded.
//!
//! Samples are gone through twice: first all that they point to is numbered, in their order; then their bytes are made
//! and compressed block by block on all CPUs.

mod first_met;
mod mappings;
mod samples;
mod tables;

use std::io::{self, Write};

use super::gzip::GzipWriter;
use super::protobuf::Message;
use super::{ExportedEvent, Source};

use samples::SampleRange;
use tables::{SampleTables, Strings};

/// Field numbers of a profile in profile.proto.
mod profile {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING: u64 = 6;
    pub(super) const TIME_NANOS: u64 = 9;
    pub(super) const DURATION_NANOS: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const COMMENT: u64 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// Field numbers of a sample.
mod sample_field {
    pub(super) const LOCATION: u64 = 1;
    pub(super) const VALUE: u64 = 2;
    pub(super) const LABEL: u64 = 3;
}

/// The level of deflate: half the time of the default, 6, for 0.6% more bytes.
const LEVEL: u32 = 5;

/// Writes all events of the source.
///
/// # Errors
/// Those of `out`.
pub fn write(source: &Source<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut out = GzipWriter::new(out, LEVEL)?;
    let mut tables = SampleTables::new(source);
    out.write_all(&value_types(source, &mut tables.strings).take())?;
    let samples = SampleRange::new(source);
    tables.number(samples.clone());
    out.write_blocks(samples.blocks(), |samples, to| samples.append(&source.events, &tables, to))?;
    let mut last = Message::default();
    for mapping in tables.mappings.messages(source, &mut tables.strings) {
        last.message(profile::MAPPING, &mapping);
    }
    add_about(source, &mut tables.strings, &mut last);
    out.write_all(&tables.messages.take())?;
    last.bytes(profile::STRING, b"");
    for text in &tables.strings.list {
        last.bytes(profile::STRING, text.as_bytes());
    }
    out.write_all(&last.take())?;
    out.finish().map(drop)
}

/// Values of a sample: for each event its samples, and units of the event where they are known.
fn value_types(source: &Source<'_>, strings: &mut Strings) -> Message {
    let mut types = Message::default();
    let mut default = 0;
    // go build -pgo looks for "samples/count", and takes no others.
    let main = source.main_event().map(|event| event.index);
    for event in &source.events {
        let is_main = main == Some(event.index);
        let count = if is_main { "samples".into() } else { format!("{} samples", event.name) };
        let count = value_type(strings, &count, "count");
        types.message(profile::SAMPLE_TYPE, &count);
        if has_units(event) {
            let units = value_type(strings, &event.name, unit(event));
            types.message(profile::SAMPLE_TYPE, &units);
            default = if is_main || default == 0 { strings.id(&event.name) } else { default };
        }
    }
    if source.events.is_empty() {
        // Readers want one, of nothing too.
        types.message(profile::SAMPLE_TYPE, &value_type(strings, "samples", "count"));
    }
    types.number(profile::DEFAULT_SAMPLE_TYPE, default);
    types
}

fn add_about(source: &Source<'_>, strings: &mut Strings, last: &mut Message) {
    let about = &source.about;
    last.number(profile::TIME_NANOS, about.started_unix_ns.unwrap_or(0));
    let duration = about.duration_s.unwrap_or(0.0).max(0.0) * 1e9;
    last.number(profile::DURATION_NANOS, duration as u64);
    if let Some(event) = source.main_event() {
        let period = value_type(strings, &event.name, unit(event));
        last.message(profile::PERIOD_TYPE, &period);
        last.number(profile::PERIOD, within(event.period.unwrap_or(0)));
    }
    let command = about.command.join(" ");
    let comments: Vec<u64> = std::iter::once(&command)
        .chain(&about.notes)
        .filter(|text| !text.is_empty())
        .map(|text| strings.id(text))
        .collect();
    last.packed(profile::COMMENT, comments);
}

fn has_units(event: &ExportedEvent) -> bool {
    event.by_period || event.period.is_some()
}

fn unit(event: &ExportedEvent) -> &'static str {
    if event.is_clock() { "nanoseconds" } else { "count" }
}

/// The format's numbers have a sign; only a damaged recording has larger ones.
fn within(value: u64) -> u64 {
    value.min(i64::MAX.cast_unsigned())
}

fn value_type(strings: &mut Strings, name: &str, unit: &str) -> Message {
    let mut message = Message::default();
    message.number(1, strings.id(name)).number(2, strings.id(unit));
    message
}

#[cfg(test)]
mod tests;
