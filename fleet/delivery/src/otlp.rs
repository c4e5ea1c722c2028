//! Rows as OTLP profiles: what is sent to `/v1development/profiles` of a receiver.
//!
//! ```text
//!  ExportProfilesServiceRequest ─┬─ ResourceProfiles    one per host, service, version, unit, container and pod
//!                                │    └─ Profile        two per event and bin: samples, and what they stand for
//!                                │         └─ Sample ─► stack
//!                                └─ ProfilesDictionary  texts, functions, locations, stacks: each once
//! ```
//! The protocol is alpha: its messages changed from version to version and will again. These are of
//! [`OTLP_PROTO_VERSION`] of opentelemetry-proto, as its crate has them, which is pinned for that reason. Version 1.11.1,
//! which version 0.165 of the OpenTelemetry Collector takes, has the same fields.
//!
//! A profile of this version has values of one kind. So there are two of each event: one of `samples`, and, where samples
//! say what they stand for, one of the event, such as `cpu_clock`, in `nanoseconds` or as a `count`. The event and its mean period are
//! `period_type` and `period` of both.

use std::borrow::Cow;

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Profile, ResourceProfiles, Sample, ScopeProfiles, ValueType,
};
use opentelemetry_proto::tonic::resource::v1;
use pmuscope_dataset::{Rows, SampleRow, Timestamp};
use prost::Message as _;

use crate::dictionary::{Dictionary, EntryNumber, Frames};
use crate::group::{self, MOST_SAMPLES, RecordedTimes, Resource, nanoseconds, part_start};

mod tables;

/// Version of opentelemetry-proto that requests are of: <https://github.com/open-telemetry/opentelemetry-proto>.
pub const OTLP_PROTO_VERSION: &str = "1.10.0";

/// Path of the endpoint, after that of the receiver.
pub const OTLP_PATH: &str = "v1development/profiles";

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpRequest {
    /// An `ExportProfilesServiceRequest`, as `application/x-protobuf`.
    pub bytes: Vec<u8>,
    /// Number of profiles in it, which is what receivers count.
    pub profiles: u64,
    /// Number of samples that its rows stand for.
    pub samples: u64,
}

/// Requests that have the samples of all rows, each once, in `most_bytes` each. A request that would be larger is split
/// between resources; one of a single resource between samples. Only a single sample with a very long stack can be larger
/// than `most_bytes`. An event and bin of a resource with more than 16,000 stacks has several profiles.
#[must_use]
pub fn otlp_requests(rows: &Rows, most_bytes: usize) -> Vec<OtlpRequest> {
    let frames = Frames::new(&rows.frames);
    let requests = OtlpRequests::new(&frames, rows, most_bytes);
    requests.of(&group::sorted(rows)).into_iter().map(|(request, _)| request).collect()
}

/// Makes requests of samples that are sorted.
#[derive(Debug)]
pub(crate) struct OtlpRequests<'a> {
    frames: &'a Frames<'a>,
    recorded: RecordedTimes<'a>,
    most_bytes: usize,
}

/// Samples of one resource, event and bin: what a profile is of.
type ProfileKey<'a> = (Resource<'a>, (Timestamp, i64), (&'a str, &'a str));

fn profile_key<'a>(row: &'a SampleRow) -> ProfileKey<'a> {
    (Resource::of(row), group::bin(row), group::event(row))
}

/// The last samples of the requests so far, and the number of profiles that they were split into: the next request may go
/// on with them.
type Continued<'a> = Option<(ProfileKey<'a>, i64)>;

impl<'a> OtlpRequests<'a> {
    pub(crate) fn new(frames: &'a Frames<'a>, rows: &'a Rows, most_bytes: usize) -> Self {
        Self { frames, recorded: RecordedTimes::new(&rows.intervals), most_bytes }
    }

    /// Requests, each with its samples.
    pub(crate) fn of<'s>(
        &self,
        samples: &'s [&'a SampleRow],
    ) -> Vec<(OtlpRequest, &'s [&'a SampleRow])> {
        let mut all = Vec::new();
        self.add(samples, &mut None, &mut all);
        all
    }

    fn add<'s>(
        &self,
        samples: &'s [&'a SampleRow],
        continued: &mut Continued<'a>,
        all: &mut Vec<(OtlpRequest, &'s [&'a SampleRow])>,
    ) {
        if samples.is_empty() {
            return;
        }
        let (request, last) = self.request(samples, *continued);
        if samples.len() == 1 || request.encoded_len() <= self.most_bytes {
            *continued = last;
            let profiles = request.resource_profiles.iter().flat_map(|one| &one.scope_profiles);
            let request = OtlpRequest {
                bytes: request.encode_to_vec(),
                profiles: profiles.map(|scope| scope.profiles.len() as u64).sum(),
                samples: group::number_of_samples(samples),
            };
            all.push((request, samples));
            return;
        }
        let (first, second) = samples.split_at(cut(samples));
        self.add(first, continued, all);
        self.add(second, continued, all);
    }

    /// The request for samples that are sorted, and what the next one may go on with.
    fn request(
        &self,
        samples: &[&'a SampleRow],
        continued: Continued<'a>,
    ) -> (ExportProfilesServiceRequest, Continued<'a>) {
        let mut dictionary = Dictionary::new(self.frames);
        let mut continued = continued;
        let is_same = |a: &&SampleRow, b: &&SampleRow| Resource::of(a) == Resource::of(b);
        let resources = samples.chunk_by(is_same);
        let resource_profiles =
            resources.map(|of| self.resource(of, &mut dictionary, &mut continued)).collect();
        let dictionary = Some(tables::of(dictionary));
        (ExportProfilesServiceRequest { resource_profiles, dictionary }, continued)
    }

    fn resource(
        &self,
        samples: &[&'a SampleRow],
        dictionary: &mut Dictionary<'a>,
        continued: &mut Continued<'a>,
    ) -> ResourceProfiles {
        let mut profiles = Vec::new();
        for samples in samples.chunk_by(|a, b| profile_key(a) == profile_key(b)) {
            let key = profile_key(samples[0]);
            let mut number = continued.filter(|(last, _)| *last == key).map_or(0, |(_, next)| next);
            for part in samples.chunks(MOST_SAMPLES) {
                profiles.extend(self.profiles(part, number, dictionary));
                number += 1;
            }
            *continued = Some((key, number));
        }
        let scope = InstrumentationScope {
            name: "pmuscope".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_profiles =
            ScopeProfiles { scope: Some(scope), profiles, schema_url: String::new() };
        let resource = v1::Resource {
            attributes: attributes(Resource::of(samples[0])),
            ..v1::Resource::default()
        };
        ResourceProfiles {
            resource: Some(resource),
            scope_profiles: vec![scope_profiles],
            schema_url: String::new(),
        }
    }

    /// The profiles of one event and bin, or of the part of them with this number.
    fn profiles(
        &self,
        samples: &[&'a SampleRow],
        number_of_part: i64,
        dictionary: &mut Dictionary<'a>,
    ) -> Vec<Profile> {
        let row = samples[0];
        let unit = group::unit(&row.weight_unit);
        let event = value_type(
            dictionary,
            group::type_name(&row.event),
            unit.map_or("count", |(_, name)| name),
        );
        let stacks: Vec<i32> =
            samples.iter().map(|row| number(dictionary.stack(row.stack_id))).collect();
        let profile = |sample_type, value: &dyn Fn(&SampleRow) -> i64| Profile {
            sample_type: Some(sample_type),
            samples: std::iter::zip(&stacks, samples)
                .map(|(&stack_index, row)| Sample {
                    stack_index,
                    values: vec![value(row)],
                    ..Sample::default()
                })
                .collect(),
            time_unix_nano: nanoseconds(part_start(row, number_of_part)).cast_unsigned(),
            duration_nano: nanoseconds(self.recorded.us(row)).cast_unsigned(),
            period_type: Some(event),
            period: group::mean_period(samples),
            ..Profile::default()
        };
        let mut profiles =
            vec![profile(value_type(dictionary, "samples", "count"), &|row| row.samples)];
        if let Some((scale, _)) = unit {
            profiles.push(profile(event, &|row| row.weight.saturating_mul(scale)));
        }
        profiles
    }
}

/// Where to cut a request in two: between the two resources nearest to its middle, or in the middle of a single one.
fn cut(samples: &[&SampleRow]) -> usize {
    let middle = samples.len() / 2;
    let is_border = |&at: &usize| Resource::of(samples[at - 1]) != Resource::of(samples[at]);
    (1..samples.len()).filter(is_border).min_by_key(|at| at.abs_diff(middle)).unwrap_or(middle)
}

/// Attributes by the semantic conventions; they have none for units, which the collector's receiver for systemd calls
/// `systemd.unit.name`.
fn attributes(of: Resource<'_>) -> Vec<KeyValue> {
    let all = [
        ("service.name", Some(of.service)),
        ("service.version", of.version),
        ("host.name", Some(of.host)),
        ("systemd.unit.name", of.unit),
        ("container.id", of.container),
        ("k8s.pod.uid", of.pod),
    ];
    let attribute = |(key, text): (&str, Option<&str>)| {
        Some(KeyValue { key: key.to_owned(), value: Some(value(text?)), ..KeyValue::default() })
    };
    all.into_iter().filter_map(attribute).collect()
}

fn value(text: &str) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text.to_owned())) }
}

fn value_type<'a>(
    dictionary: &mut Dictionary<'a>,
    name: impl Into<Cow<'a, str>>,
    unit: &'a str,
) -> ValueType {
    ValueType {
        type_strindex: number(dictionary.text(name)),
        unit_strindex: number(dictionary.text(unit)),
    }
}

/// The format's numbers have 31 bits; tables of a message that has to fit into memory are shorter.
fn number(index: EntryNumber) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
