use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::profiles::v1development::{
    Location, Mapping, ProfilesDictionary, Stack,
};
use proptest::prelude::*;

use super::*;
use crate::made;

/// Service, event, type and unit of values, functions of the stack: the sum of values.
type Sums = BTreeMap<(String, String, String, Vec<String>), i64>;

fn decoded(request: &OtlpRequest) -> (Vec<ResourceProfiles>, ProfilesDictionary) {
    let message = ExportProfilesServiceRequest::decode(&request.bytes[..]).unwrap();
    (message.resource_profiles, message.dictionary.unwrap())
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        other => panic!("{other:?}"),
    }
}

/// Functions of a stack, the innermost first; `?` where there is no name.
fn functions(dictionary: &ProfilesDictionary, stack: i32) -> Vec<String> {
    let name = |function: i32| {
        let function = dictionary.function_table[function as usize];
        dictionary.string_table[function.name_strindex as usize].clone()
    };
    let lines = |&location: &i32| {
        let lines = &dictionary.location_table[location as usize].lines;
        let names: Vec<String> = lines.iter().map(|line| name(line.function_index)).collect();
        if names.is_empty() { vec!["?".to_owned()] } else { names }
    };
    dictionary.stack_table[stack as usize].location_indices.iter().flat_map(lines).collect()
}

fn sums(requests: &[OtlpRequest]) -> Sums {
    let mut sums = Sums::new();
    for request in requests {
        let (resources, dictionary) = decoded(request);
        let text_of = |index: i32| dictionary.string_table[index as usize].clone();
        for resource in resources {
            let service = text(&resource.resource.unwrap().attributes, "service.name").unwrap();
            for profile in resource.scope_profiles.into_iter().flat_map(|scope| scope.profiles) {
                let event = text_of(profile.period_type.unwrap().type_strindex);
                let kind = profile.sample_type.unwrap();
                let kind = [kind.type_strindex, kind.unit_strindex].map(text_of).join(":");
                for sample in profile.samples {
                    let stack = functions(&dictionary, sample.stack_index);
                    let key = (service.clone(), event.clone(), kind.clone(), stack);
                    *sums.entry(key).or_default() += sample.values.iter().sum::<i64>();
                }
            }
        }
    }
    sums
}

/// The same from the rows.
fn expected(rows: &Rows) -> Sums {
    let mut sums = Sums::new();
    for row in &rows.samples {
        let mut frames: Vec<_> =
            rows.frames.iter().filter(|frame| frame.stack_id == row.stack_id).collect();
        frames.sort_by_key(|frame| (frame.depth, -frame.inline_depth));
        let name = |function: Option<&str>| function.unwrap_or("?").to_owned();
        let stack: Vec<String> =
            frames.iter().map(|frame| name(frame.function.as_deref())).collect();
        let key = |kind: &str| {
            (row.service.to_string(), row.event.replace('-', "_"), kind.to_owned(), stack.clone())
        };
        *sums.entry(key("samples:count")).or_default() += row.samples;
        match &*row.weight_unit {
            "us" => *sums.entry(key("cpu_clock:nanoseconds")).or_default() += row.weight * 1000,
            "thousand" => *sums.entry(key("cycles:count")).or_default() += row.weight * 1000,
            _ => {}
        }
    }
    sums
}

#[test]
fn decoded_requests_have_the_sums_of_the_rows() {
    let rows = made::rows();
    let requests = otlp_requests(&rows, usize::MAX);
    assert_eq!(sums(&requests), expected(&rows));
    // Two profiles per event, one where samples do not say what they stand for.
    assert_eq!((requests.len(), requests[0].profiles, requests[0].samples), (1, 7, 18));
    assert!(otlp_requests(&Rows::default(), 0).is_empty());
}

#[test]
fn resources_have_the_attributes_of_the_semantic_conventions() {
    let (resources, _) = decoded(&otlp_requests(&made::rows(), usize::MAX)[0]);
    let names: Vec<Vec<(String, String)>> = resources
        .into_iter()
        .map(|one| one.resource.unwrap().attributes)
        .map(|all| all.iter().map(|one| (one.key.clone(), text(&all, &one.key).unwrap())).collect())
        .collect();
    let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let checkout = pairs(&[
        ("service.name", "checkout"),
        ("service.version", "1.3"),
        ("host.name", "web-1"),
        ("container.id", "8f3a"),
        ("k8s.pod.uid", "0d9f-11"),
    ]);
    let redis = pairs(&[
        ("service.name", "redis"),
        ("host.name", "web-1"),
        ("systemd.unit.name", "redis.service"),
    ]);
    assert_eq!(names, [checkout, redis]);
}

#[test]
fn profiles_have_their_time_period_and_types() {
    let (resources, dictionary) = decoded(&otlp_requests(&made::rows(), usize::MAX)[0]);
    let profiles = &resources[0].scope_profiles[0].profiles;
    let types: Vec<(&str, &str, i64)> = profiles
        .iter()
        .map(|profile| {
            let kind = profile.sample_type.unwrap();
            let text = |index: i32| &*dictionary.string_table[index as usize];
            (text(kind.type_strindex), text(kind.unit_strindex), profile.period)
        })
        .collect();
    let expected = [
        ("samples", "count", 1_000_166),
        ("cpu_clock", "nanoseconds", 1_000_166),
        ("samples", "count", 10_000),
        ("cycles", "count", 10_000),
        ("samples", "count", 0),
    ];
    assert_eq!(types, expected);
    assert_eq!(profiles[0].time_unix_nano, 1_764_028_800_000_000_000);
    assert_eq!(profiles[0].duration_nano, 9_000_000_000);
}

#[test]
fn the_first_entry_of_each_table_is_empty_and_none_is_there_twice() {
    let (_, dictionary) = decoded(&otlp_requests(&made::rows(), usize::MAX)[0]);
    assert_eq!(dictionary.mapping_table[0], Mapping::default());
    assert_eq!(dictionary.location_table[0], Location::default());
    assert_eq!(dictionary.stack_table[0], Stack::default());
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!((dictionary.link_table.len(), dictionary.function_table.len()), (1, 4));
    let texts: BTreeSet<&String> = dictionary.string_table.iter().collect();
    assert_eq!(texts.len(), dictionary.string_table.len());
    // The build id is an attribute of the mapping.
    let of_mapping = dictionary.mapping_table[1].attribute_indices[0];
    let attribute = &dictionary.attribute_table[of_mapping as usize];
    let key = &dictionary.string_table[attribute.key_strindex as usize];
    assert_eq!(key, "process.executable.build_id.gnu");
    assert_eq!(attribute.value, Some(value("c0ffee")));
}

/// Number of samples and time of each profile.
fn profiles(requests: &[OtlpRequest]) -> Vec<(usize, u64)> {
    let resources = requests.iter().flat_map(|request| decoded(request).0);
    let scopes = resources.flat_map(|resource| resource.scope_profiles);
    let profiles = scopes.flat_map(|scope| scope.profiles);
    profiles.map(|profile| (profile.samples.len(), profile.time_unix_nano)).collect()
}

#[test]
fn profiles_of_an_event_with_many_stacks_differ_in_time() {
    let sample = |stack| made::sample("a", "faults", stack, (1, 1, "sample"));
    let rows = Rows { samples: (0..40_000).map(sample).collect(), ..Rows::default() };
    let start = nanoseconds(made::START.0).cast_unsigned();
    let after = |ms: u64| start + ms * 1_000_000;
    let whole = profiles(&otlp_requests(&rows, usize::MAX));
    assert_eq!(whole, [(16_000, start), (16_000, after(1)), (8000, after(2))]);
    // Also those of several requests.
    let requests = otlp_requests(&rows, 60_000);
    let times: BTreeSet<u64> = profiles(&requests).into_iter().map(|(_, time)| time).collect();
    assert!(requests.len() > 2 && times.len() == profiles(&requests).len(), "{times:?}");
    assert_eq!(times.last(), Some(&after(times.len() as u64 - 1)));
}

proptest! {
    #[test]
    fn splitting_loses_and_repeats_nothing(
        rows in made::any_rows(),
        most_bytes in 0..4000_usize,
    ) {
        let requests = otlp_requests(&rows, most_bytes);
        prop_assert_eq!(sums(&requests), expected(&rows));
        let samples: u64 = requests.iter().map(|request| request.samples).sum();
        prop_assert_eq!(samples, rows.samples.iter().map(|row| row.samples as u64).sum::<u64>());
        for request in &requests {
            let (resources, _) = decoded(request);
            let profiles = resources.iter().flat_map(|one| &one.scope_profiles);
            let number = profiles.clone().map(|scope| scope.profiles.len() as u64).sum::<u64>();
            prop_assert_eq!(number, request.profiles);
            let most = profiles.flat_map(|scope| &scope.profiles).map(|one| one.samples.len());
            prop_assert!(request.bytes.len() <= most_bytes || most.max() == Some(1));
        }
    }
}
