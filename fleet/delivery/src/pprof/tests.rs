use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use flate2::read::GzDecoder;
use proptest::prelude::*;

use super::*;
use crate::made;

fn decoded(profile: &PprofProfile) -> PprofMessage {
    let mut bytes = Vec::new();
    GzDecoder::new(&profile.bytes[..]).read_to_end(&mut bytes).unwrap();
    PprofMessage::decode(&bytes[..]).unwrap()
}

fn text(profile: &PprofMessage, index: i64) -> &str {
    &profile.string_table[index as usize]
}

/// Functions of a sample, the innermost first; addresses where there is no name.
fn functions(profile: &PprofMessage, sample: &PprofSample) -> Vec<String> {
    let name = |line: &PprofLine| {
        let function = profile.function.iter().find(|one| one.id == line.function_id).unwrap();
        text(profile, function.name).to_owned()
    };
    let lines = |id: &u64| {
        let location = profile.location.iter().find(|one| one.id == *id).unwrap();
        let names: Vec<String> = location.line.iter().map(name).collect();
        if names.is_empty() { vec![format!("{:#x}", location.address)] } else { names }
    };
    sample.location_id.iter().flat_map(lines).collect()
}

fn types(profile: &PprofMessage) -> Vec<(&str, &str)> {
    let text_of = |one: &ValueType| (text(profile, one.r#type), text(profile, one.unit));
    profile.sample_type.iter().map(text_of).collect()
}

#[test]
fn an_event_of_a_service_is_a_profile_with_labels_as_columns_are_called() {
    let profiles = pprof_profiles(&made::rows(), PprofLimits::PYROSCOPE);
    let services: Vec<&str> = profiles.iter().map(|profile| &*profile.service).collect();
    assert_eq!(services, ["checkout", "checkout", "checkout", "redis"]);
    let labels = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs.iter().map(|&(name, value)| (name, value.to_owned())).collect()
    };
    let checkout =
        [("host", "web-1"), ("version", "1.3"), ("container", "8f3a"), ("pod", "0d9f-11")];
    assert_eq!(profiles[0].labels, labels(&checkout));
    assert_eq!(profiles[3].labels, labels(&[("host", "web-1"), ("unit", "redis.service")]));
    assert_eq!(profiles.iter().map(|profile| profile.samples).sum::<u64>(), 18);
}

#[test]
fn values_are_the_number_of_samples_and_what_they_stand_for() {
    let profiles: Vec<PprofMessage> =
        pprof_profiles(&made::rows(), PprofLimits::PYROSCOPE).iter().map(decoded).collect();
    let clock = [("cpu_clock_samples", "count"), ("cpu_clock", "nanoseconds")];
    assert_eq!(types(&profiles[0]), clock);
    assert_eq!(types(&profiles[1]), [("cycles_samples", "count"), ("cycles", "count")]);
    assert_eq!(types(&profiles[2]), [("faults_samples", "count")]);
    assert_eq!(text(&profiles[0], profiles[0].default_sample_type), "cpu_clock");
    let samples = |profile: &PprofMessage| -> Vec<(String, Vec<i64>)> {
        let stack = |sample| functions(profile, sample).join(" ");
        profile.sample.iter().map(|sample| (stack(sample), sample.value.clone())).collect()
    };
    let sample = |stack: &str, values: &[i64]| (stack.to_owned(), values.to_vec());
    let clock =
        [sample("0x1500 main", &[1, 1_001_000]), sample("memcpy copy main", &[5, 5_000_000])];
    assert_eq!(samples(&profiles[0]), clock);
    assert_eq!(samples(&profiles[1]), [sample("memcpy copy main", &[7, 70_000])]);
    assert_eq!(samples(&profiles[2]), [sample("memcpy copy main", &[2])]);
}

#[test]
fn a_profile_has_the_period_of_its_event_and_the_time_that_was_recorded() {
    let profiles = pprof_profiles(&made::rows(), PprofLimits::PYROSCOPE);
    let profile = decoded(&profiles[3]);
    assert_eq!(text(&profile, profile.sample_type[0].r#type), "cpu_clock_samples");
    assert_eq!(profile.period, 1_000_000);
    assert_eq!(profile.duration_nanos, made::RECORDED_US * 1000);
    assert_eq!(profiles[3].end, Timestamp(made::START.0 + made::RECORDED_US));
    assert_eq!(text(&profile, profile.mapping[0].build_id), "c0ffee");
}

#[test]
fn bins_are_profiles_and_what_is_not_known_has_no_location() {
    let one = made::sample("a", "faults", 99, (4, 4, "sample"));
    let next = SampleRow { start: Timestamp(one.start.0 + one.bin_us), ..one.clone() };
    let rows = Rows { samples: vec![next, one], ..Rows::default() };
    let profiles = pprof_profiles(&rows, PprofLimits::PYROSCOPE);
    assert_eq!((profiles.len(), profiles[0].start), (2, made::START));
    let profile = decoded(&profiles[0]);
    assert_eq!(profile.sample, [PprofSample { location_id: Vec::new(), value: vec![4] }]);
    assert_eq!(text(&profile, profile.default_sample_type), "faults_samples");
}

/// Service, type of values, and the stack without names that are not known: the sum of values.
type Sums = BTreeMap<(String, String, String), i64>;

fn sums(profiles: &[PprofProfile]) -> Sums {
    let mut found = Sums::new();
    for profile in profiles {
        let message = decoded(profile);
        for sample in &message.sample {
            let stack = functions(&message, sample).join(" ");
            for ((kind, _), value) in std::iter::zip(types(&message), &sample.value) {
                let key = (profile.service.clone(), kind.to_owned(), stack.clone());
                *found.entry(key).or_default() += value;
            }
        }
    }
    found
}

/// A sample of each of these stacks, of one event and bin.
fn of_stacks(number: i64) -> Rows {
    let sample = |stack| made::sample("a", "off-cpu:blocked", stack, (1, 1, "us"));
    Rows { samples: (0..number).map(sample).collect(), ..Rows::default() }
}

#[test]
fn pyroscope_takes_16000_samples_and_no_hyphen_in_a_type() {
    let one = pprof_profiles(&of_stacks(16_000), PprofLimits::PYROSCOPE);
    assert_eq!((one.len(), one[0].start), (1, made::START));
    let two = pprof_profiles(&of_stacks(16_001), PprofLimits::PYROSCOPE);
    let lengths: Vec<usize> = two.iter().map(|part| decoded(part).sample.len()).collect();
    assert_eq!(lengths, [8001, 8000]);
    // Of profiles of a series with the same time Pyroscope shows one.
    assert_eq!([two[0].start, two[1].start], [made::START, Timestamp(made::START.0 + 1000)]);
    assert_eq!(decoded(&two[1]).time_nanos, (made::START.0 + 1000) * 1000);
    let profile = decoded(&one[0]);
    assert!(types(&profile).iter().all(|(name, _)| !name.contains('-')), "{:?}", types(&profile));
}

/// Service, event and time of a profile, which has to be the only one of them.
fn series(profile: &PprofProfile) -> (String, String, Timestamp) {
    let kind = types(&decoded(profile))[0].0.to_owned();
    (profile.service.clone(), kind, profile.start)
}

proptest! {
    #[test]
    fn a_profile_is_within_the_limits_whatever_they_are(
        rows in made::any_rows(),
        samples in 0..8_usize,
        bytes in 0..600_usize,
    ) {
        let profiles = pprof_profiles(&rows, PprofLimits { samples, bytes });
        let whole = pprof_profiles(&rows, PprofLimits { samples: usize::MAX, bytes: usize::MAX });
        prop_assert_eq!(sums(&profiles), sums(&whole));
        for profile in &profiles {
            let message = decoded(profile);
            let number = message.sample.len();
            prop_assert!(number <= samples.max(1));
            prop_assert!(number == 1 || message.encoded_len() <= bytes);
        }
        let distinct: BTreeSet<_> = profiles.iter().map(series).collect();
        prop_assert_eq!(distinct.len(), profiles.len());
    }

    #[test]
    fn profiles_have_the_sums_of_the_rows(rows in made::any_rows()) {
        let mut expected = Sums::new();
        for row in &rows.samples {
            let stack = match row.stack_id {
                made::STACK => "memcpy copy main",
                made::OTHER_STACK => "0x1500 main",
                _ => "",
            };
            let event = row.event.replace('-', "_");
            let key = |kind: String| (row.service.to_string(), kind, stack.to_owned());
            *expected.entry(key(format!("{event}_samples"))).or_default() += row.samples;
            if &*row.weight_unit != "sample" {
                *expected.entry(key(event)).or_default() += row.weight * 1000;
            }
        }
        let profiles = pprof_profiles(&rows, PprofLimits::PYROSCOPE);
        prop_assert_eq!(sums(&profiles), expected);
    }
}
