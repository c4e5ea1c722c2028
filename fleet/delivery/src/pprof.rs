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
use crate::group::{self, MOST_SAMPLES, RecordedTimes, Resource, nanoseconds, part_start};

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

/// What a receiver takes in one profile at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PprofLimits {
    /// Samples: distinct stacks.
    pub samples: usize,
    /// Bytes before compression.
    pub bytes: usize,
}

impl PprofLimits {
    /// Pyroscope's defaults: `validation.max-profile-stacktrace-samples` and `validation.max-profile-size-bytes`.
    pub const PYROSCOPE: Self = Self { samples: MOST_SAMPLES, bytes: 4 << 20 };
}

/// Profiles that have the samples of all rows, each once, within the limits. A profile that would be larger is split between
/// samples. Only a single sample with a very long stack can have more bytes.
#[must_use]
pub fn pprof_profiles(rows: &Rows, limits: PprofLimits) -> Vec<PprofProfile> {
    let frames = Frames::new(&rows.frames);
    let profiles = PprofProfiles::new(&frames, rows, limits);
    profiles.of(&group::sorted(rows)).into_iter().map(|(profile, _)| profile).collect()
}

/// Makes profiles of samples that are sorted.
#[derive(Debug)]
pub(crate) struct PprofProfiles<'a> {
    frames: &'a Frames<'a>,
    recorded: RecordedTimes<'a>,
    limits: PprofLimits,
}

impl<'a> PprofProfiles<'a> {
    pub(crate) fn new(frames: &'a Frames<'a>, rows: &'a Rows, limits: PprofLimits) -> Self {
        Self { frames, recorded: RecordedTimes::new(&rows.intervals), limits }
    }

    /// Profiles, each with its samples.
    pub(crate) fn of<'s>(
        &self,
        samples: &'s [&'a SampleRow],
    ) -> Vec<(PprofProfile, &'s [&'a SampleRow])> {
        let key = |row| (Resource::of(row), group::bin(row), group::event(row));
        let mut all = Vec::new();
        for samples in samples.chunk_by(|a, b| key(a) == key(b)) {
            let mut parts = Vec::new();
            self.split(samples, &mut parts);
            let parts = (0..).zip(parts);
            all.extend(parts.map(|(number, (message, samples))| {
                (self.profile(message, number, samples), samples)
            }));
        }
        all
    }

    /// Adds the messages for samples of one event and bin.
    fn split<'s>(
        &self,
        samples: &'s [&'a SampleRow],
        parts: &mut Vec<(PprofMessage, &'s [&'a SampleRow])>,
    ) {
        if samples.len() <= self.limits.samples.max(1) {
            let message = message(samples, self.frames, self.recorded.us(samples[0]));
            if samples.len() == 1 || message.encoded_len() <= self.limits.bytes {
                parts.push((message, samples));
                return;
            }
        }
        let (first, second) = samples.split_at(samples.len().div_ceil(2));
        [first, second].into_iter().filter(|part| !part.is_empty()).for_each(|part| {
            self.split(part, parts);
        });
    }

    /// The profile of the part with this number.
    fn profile(
        &self,
        mut message: PprofMessage,
        number: i64,
        samples: &[&'a SampleRow],
    ) -> PprofProfile {
        let row = samples[0];
        let start = part_start(row, number);
        message.time_nanos = nanoseconds(start);
        PprofProfile {
            service: row.service.to_string(),
            labels: labels(Resource::of(row)),
            start: Timestamp(start),
            end: Timestamp(start.saturating_add(self.recorded.us(row))),
            samples: group::number_of_samples(samples),
            bytes: gzip(&message.encode_to_vec()),
        }
    }
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

/// The message for samples of one event and bin, of which `us` microseconds were recorded.
fn message(samples: &[&SampleRow], frames: &Frames<'_>, us: i64) -> PprofMessage {
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
