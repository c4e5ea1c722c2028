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
use pmuscope_dataset::{Rows, SampleRow};
use prost::Message as _;

use crate::dictionary::{Dictionary, EntryNumber, Frames};
use crate::group::{self, RecordedTimes, Resource, nanoseconds};

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
/// than `most_bytes`.
#[must_use]
pub fn otlp_requests(rows: &Rows, most_bytes: usize) -> Vec<OtlpRequest> {
    let frames = Frames::new(&rows.frames);
    let requests = Requests { frames: &frames, recorded: RecordedTimes::new(&rows.intervals) };
    let mut all = Vec::new();
    requests.add(&group::sorted(rows), most_bytes, &mut all);
    all
}

struct Requests<'a> {
    frames: &'a Frames<'a>,
    recorded: RecordedTimes<'a>,
}

impl<'a> Requests<'a> {
    fn add(&self, samples: &[&'a SampleRow], most_bytes: usize, all: &mut Vec<OtlpRequest>) {
        if samples.is_empty() {
            return;
        }
        let request = self.request(samples);
        if samples.len() == 1 || request.encoded_len() <= most_bytes {
            let profiles = request.resource_profiles.iter().flat_map(|one| &one.scope_profiles);
            all.push(OtlpRequest {
                bytes: request.encode_to_vec(),
                profiles: profiles.map(|scope| scope.profiles.len() as u64).sum(),
                samples: group::number_of_samples(samples),
            });
            return;
        }
        let (first, second) = samples.split_at(cut(samples));
        self.add(first, most_bytes, all);
        self.add(second, most_bytes, all);
    }

    /// The request for samples that are sorted.
    fn request(&self, samples: &[&'a SampleRow]) -> ExportProfilesServiceRequest {
        let mut dictionary = Dictionary::new(self.frames);
        let is_same = |a: &&SampleRow, b: &&SampleRow| Resource::of(a) == Resource::of(b);
        let resources = samples.chunk_by(is_same);
        ExportProfilesServiceRequest {
            resource_profiles: resources.map(|of| self.resource(of, &mut dictionary)).collect(),
            dictionary: Some(tables::of(dictionary)),
        }
    }

    fn resource(
        &self,
        samples: &[&'a SampleRow],
        dictionary: &mut Dictionary<'a>,
    ) -> ResourceProfiles {
        let key = |row: &'a SampleRow| (group::bin(row), group::event(row));
        let events = samples.chunk_by(|a, b| key(a) == key(b));
        let scope = InstrumentationScope {
            name: "pmuscope".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_profiles = ScopeProfiles {
            scope: Some(scope),
            profiles: events.flat_map(|of| self.profiles(of, dictionary)).collect(),
            schema_url: String::new(),
        };
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

    /// The profiles of one event and bin.
    fn profiles(&self, samples: &[&'a SampleRow], dictionary: &mut Dictionary<'a>) -> Vec<Profile> {
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
            time_unix_nano: nanoseconds(row.start.0).cast_unsigned(),
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
