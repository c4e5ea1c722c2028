//! Rows as profiles in pprof's format, gzip: what `go tool pprof` reads, and Pyroscope and others take by push.
//!
//! The format is that of `profile.proto` in <https://github.com/google/pprof/tree/main/proto>. There is a profile per
//! host, service, version, unit, container and pod, event, and bin. Its samples have two values: their number, and what
//! they stand for, in nanoseconds or as a count. Pyroscope keeps values by the names of event and value, so a profile of
//! several events would be kept under other names than one of a bin in which only one of them happened.

use std::borrow::Cow;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use pmuscope_dataset::{Rows, SampleRow, Timestamp};
use prost::Message as _;

use crate::dictionary::{self, Dictionary, Extent, Frames};
use crate::group::{self, RecordedTimes, Resource, nanoseconds};

mod message;

use message::{
    PprofFunction, PprofLine, PprofLocation, PprofMapping, PprofMessage, PprofSample, ValueType,
};

/// A profile of one bin, and what it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PprofProfile {
    /// The service.
    pub service: String,
    /// Host, and version, unit, container and pod where they are known: name and value.
    pub labels: Vec<(&'static str, String)>,
    /// Start of the bin.
    pub start: Timestamp,
    /// End of what was recorded in it.
    pub end: Timestamp,
    /// Number of samples.
    pub samples: u64,
    /// A `Profile`, gzip.
    pub bytes: Vec<u8>,
}

/// Profiles that have the samples of all rows, each once.
#[must_use]
pub fn pprof_profiles(rows: &Rows) -> Vec<PprofProfile> {
    let (frames, recorded) = (Frames::new(&rows.frames), RecordedTimes::new(&rows.intervals));
    let samples = group::sorted(rows);
    let key = |row| (Resource::of(row), group::bin(row), group::event(row));
    samples
        .chunk_by(|a, b| key(a) == key(b))
        .map(|samples| {
            let row = samples[0];
            let us = recorded.us(row);
            PprofProfile {
                service: row.service.to_string(),
                labels: labels(Resource::of(row)),
                start: row.start,
                end: Timestamp(row.start.0.saturating_add(us)),
                samples: group::number_of_samples(samples),
                bytes: gzip(&profile(samples, &frames, us).encode_to_vec()),
            }
        })
        .collect()
}

/// Labels are called as the columns of the dataset.
fn labels(of: Resource<'_>) -> Vec<(&'static str, String)> {
    let all = [
        ("host", Some(of.host)),
        ("version", of.version),
        ("unit", of.unit),
        ("container", of.container),
        ("pod", of.pod),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))).collect()
}

/// The profile of samples of one event and bin, of which `us` microseconds were recorded.
fn profile(samples: &[&SampleRow], frames: &Frames<'_>, us: i64) -> PprofMessage {
    let row = samples[0];
    let name = group::type_name(&row.event);
    let unit = group::unit(&row.weight_unit);
    let mut dictionary = Dictionary::new(frames);
    let event = value_type(&mut dictionary, &*name, unit.map_or("count", |(_, name)| name));
    let number = value_type(&mut dictionary, format!("{name}_samples"), "count");
    let sample = |row: &&SampleRow| {
        let stack = dictionary.stack(row.stack_id);
        let locations = dictionary.stacks[stack].iter().map(|&index| index as u64);
        let weight = unit.map(|(scale, _)| row.weight.saturating_mul(scale));
        PprofSample {
            location_id: locations.collect(),
            value: std::iter::once(row.samples).chain(weight).collect(),
        }
    };
    let sample = samples.iter().map(sample).collect();
    let sample_type = std::iter::once(number).chain(unit.map(|_| event)).collect();
    PprofMessage {
        sample_type,
        sample,
        time_nanos: nanoseconds(row.start.0),
        duration_nanos: nanoseconds(us),
        period_type: Some(event),
        period: group::mean_period(samples),
        default_sample_type: if unit.is_some() { event } else { number }.r#type,
        ..tables(&dictionary)
    }
}

fn value_type<'a>(
    dictionary: &mut Dictionary<'a>,
    name: impl Into<Cow<'a, str>>,
    unit: &'a str,
) -> ValueType {
    ValueType { r#type: dictionary.text(name) as i64, unit: dictionary.text(unit) as i64 }
}

/// What samples point to: a profile that has nothing else. Numbers are those of the dictionary, without the empty
/// entries.
fn tables(dictionary: &Dictionary<'_>) -> PprofMessage {
    let mapping =
        |(id, (mapping, extent)): (u64, (&dictionary::MappingEntry, Extent))| PprofMapping {
            id,
            memory_limit: extent.limit,
            filename: mapping.module as i64,
            build_id: mapping.build_id as i64,
            has_functions: extent.has_functions,
            has_filenames: extent.has_functions,
            has_line_numbers: extent.has_functions,
            has_inline_frames: extent.has_functions,
        };
    let function = |(id, function): (u64, &dictionary::FunctionEntry)| PprofFunction {
        id,
        name: function.name as i64,
        system_name: function.name as i64,
        filename: function.file as i64,
    };
    let line = |line: &dictionary::LineEntry| PprofLine {
        function_id: line.function as u64,
        line: line.number,
    };
    let location = |(id, location): (u64, &dictionary::LocationEntry)| PprofLocation {
        id,
        mapping_id: location.mapping as u64,
        address: location.address,
        line: location.lines.iter().map(line).collect(),
    };
    let mappings = std::iter::zip(&dictionary.mappings, dictionary.extents());
    PprofMessage {
        mapping: (0..).zip(mappings).skip(1).map(mapping).collect(),
        function: (0..).zip(&dictionary.functions).skip(1).map(function).collect(),
        location: (0..).zip(&dictionary.locations).skip(1).map(location).collect(),
        string_table: dictionary.texts.iter().map(|text| text.to_string()).collect(),
        ..PprofMessage::default()
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let written = out.write_all(bytes).and_then(|()| out.finish());
    written.expect("memory takes all that is written to it")
}

#[cfg(test)]
mod tests;
