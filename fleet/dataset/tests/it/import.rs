//! Rows of the repository's recordings: sums are the recording's, tables fit together, and nothing is there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pmuscope_dataset::{ImportOrigin, PROFILE, Rows, TaskIdentity, Timestamp, rows};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::reader::Reader;
use pmuscope_profile::aggregate::Task;
use pmuscope_profile::{Collected, GroupBy, Profile, available_threads};
use pmuscope_symbols::KernelIdentity;
use pmuscope_testkit::corpus::corpus;

/// Some day in 2025, microseconds since 1970.
const STARTED: Timestamp = Timestamp(1_764_000_000_000_000);

fn origin(bin: Duration) -> ImportOrigin {
    let host = Some(Arc::from("host"));
    ImportOrigin { host, started: Some(STARTED), bin, batch: 7 }
}

#[test]
fn a_thread_of_the_kernel_has_the_name_that_it_shares_with_others() {
    let service = |name: &str| TaskIdentity::of_thread(&Arc::from(name)).service.to_string();
    assert_eq!(service("kworker/0:1-events"), "kworker");
    assert_eq!(
        (service("redis-server"), service("/init")),
        ("redis-server".into(), "/init".into())
    );
}

/// Threads by their names.
fn identity(task: &Task) -> TaskIdentity {
    TaskIdentity::of_service(Arc::clone(&task.command))
}

/// With the symbols that the recording has itself: those of this machine are not its.
fn profile(path: &Path) -> Profile {
    let mut reader = Reader::open(path).unwrap();
    let chains = GroupBy { chains: true, ..GroupBy::default() };
    let collected = Collected::read(&mut reader, chains, available_threads(), None);
    let none = |request: &pmuscope_symbols::Request<'_>| pmuscope_symbols::Resolved {
        symbols: vec![None; request.addresses.len()],
        state: pmuscope_symbols::State::NoSymbols,
    };
    let resolve =
        &mut |requests: &[pmuscope_symbols::Request<'_>]| requests.iter().map(none).collect();
    collected.unwrap().profile(&reader, &KernelIdentity::default(), PROFILE, resolve).unwrap()
}

/// Every recording that has samples, with its rows in bins of that length.
fn each(bin: Duration, mut check: impl FnMut(&str, &Profile, &Rows)) {
    let mut checked = 0;
    for path in corpus().recordings() {
        let profile = profile(&path);
        let rows = rows(&profile, &origin(bin), &identity).unwrap();
        check(&path.display().to_string(), &profile, &rows);
        checked += usize::from(!rows.samples.is_empty());
    }
    assert!(checked > 20, "{checked} recordings with samples");
}

#[test]
fn sums_are_the_recordings_whatever_the_bin() {
    for bin in [Duration::from_secs(1), Duration::from_secs(300)] {
        each(bin, |name, profile, rows| {
            let mut of_event: BTreeMap<&str, u64> = BTreeMap::new();
            rows.samples
                .iter()
                .for_each(|row| *of_event.entry(&row.event).or_default() += row.samples as u64);
            let mut intervals: BTreeMap<&str, u64> = BTreeMap::new();
            rows.intervals
                .iter()
                .for_each(|row| *intervals.entry(&row.event).or_default() += row.samples as u64);
            let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
            profile
                .events
                .iter()
                .for_each(|event| *expected.entry(&event.name).or_default() += event.samples);
            assert_eq!(intervals, expected, "{name}");
            expected.retain(|_, samples| *samples > 0);
            assert_eq!(of_event, expected, "{name}");
            let step = bin.as_micros() as i64;
            assert!(rows.samples.iter().all(|row| row.start.0 % step == 0 && row.bin_us == step));
        });
    }
}

/// Weights are what samples stand for, in their unit, within what rounding each row can do.
#[test]
fn weights_are_what_the_samples_stand_for() {
    let mut checked = BTreeMap::new();
    each(Duration::from_secs(300), |name, profile, rows| {
        for event in &profile.events {
            let same_name = profile.events.iter().filter(|other| other.name == event.name).count();
            let of_event = || rows.samples.iter().filter(|row| *row.event == *event.name);
            let (Some(unit), 1) = (of_event().next().map(|row| &*row.weight_unit), same_name)
            else {
                continue;
            };
            let scale = match unit {
                "us" | "thousand" => 1000,
                "one" | "sample" => 1,
                other => panic!("{name}: {other}"),
            };
            let stands_for = if unit == "sample" { event.samples } else { event.period.unwrap() };
            let told: i64 = of_event().map(|row| row.weight).sum();
            let off = (i128::from(told) * scale - i128::from(stands_for)).abs();
            let rounding = of_event().count() as i128 * (scale / 2);
            assert!(off <= rounding, "{name}, {}: {told} {unit}, {stands_for}", event.name);
            *checked.entry(unit.to_owned()).or_insert(0) += 1;
        }
    });
    assert!(checked.len() >= 3, "{checked:?}");
}

#[test]
fn every_stack_of_a_sample_is_there_once_with_its_frames() {
    each(Duration::from_secs(300), |name, _, rows| {
        let used: BTreeSet<i64> = rows.samples.iter().map(|row| row.stack_id).collect();
        let known: BTreeSet<i64> = rows.stacks.iter().map(|row| row.stack_id).collect();
        assert_eq!(used, known, "{name}");
        assert_eq!(known.len(), rows.stacks.len(), "{name}: a stack is there twice");
        let mut frames: BTreeMap<i64, Vec<_>> = BTreeMap::new();
        rows.frames.iter().for_each(|frame| frames.entry(frame.stack_id).or_default().push(frame));
        for stack in &rows.stacks {
            let of_stack = frames.get(&stack.stack_id).map_or(&[][..], Vec::as_slice);
            let depths: BTreeSet<i64> = of_stack.iter().map(|frame| frame.depth).collect();
            assert_eq!(depths, (0..stack.depth).collect(), "{name}");
            let leaf = of_stack
                .iter()
                .filter(|frame| frame.depth == 0)
                .max_by_key(|frame| frame.inline_depth);
            assert_eq!(leaf.map(|leaf| &leaf.module), Some(&stack.leaf_module), "{name}");
            assert_eq!(leaf.and_then(|leaf| leaf.function.clone()), stack.leaf, "{name}");
        }
    });
}

#[test]
fn a_second_import_has_the_same_rows_and_samples_are_there_once_per_key() {
    each(Duration::from_secs(1), |name, profile, first| {
        let second = rows(profile, &origin(Duration::from_secs(1)), &identity).unwrap();
        assert_eq!(&second, first, "{name}");
        let key = |row: &pmuscope_dataset::SampleRow| {
            (row.start, row.service.clone(), row.event.clone(), row.stack_id)
        };
        let keys: BTreeSet<_> = first.samples.iter().map(key).collect();
        // Two events of one name (one per CPU type or core) have rows each.
        let events: BTreeSet<&str> = profile.events.iter().map(|event| &*event.name).collect();
        if events.len() == profile.events.len() {
            assert_eq!(keys.len(), first.samples.len(), "{name}");
        }
    });
}

/// A recording without a host name or time needs them told.
#[test]
fn what_a_recording_does_not_say_is_asked_for() {
    let profile = profile(&corpus().recording("linux-perf-data_sleep.data"));
    let told = origin(Duration::from_secs(1));
    let why = |origin: &ImportOrigin| rows(&profile, origin, &identity).unwrap_err().to_string();
    assert!(why(&ImportOrigin { started: None, ..told.clone() }).contains("Try: --started TIME"));
    assert_eq!(
        profile.metadata.hostname.is_some(),
        rows(&profile, &ImportOrigin { host: None, ..told }, &identity).is_ok()
    );
}

/// A file can say anything of itself: memory must not follow from it.
#[test]
fn a_recording_that_claims_centuries_is_refused() {
    let mut profile = profile(&corpus().recording("linux-perf-data_sleep.data"));
    let info = RecordingInfo { started_unix_ns: 1, ..RecordingInfo::default() };
    profile.metadata.info = Some(info);
    let why = |profile: &Profile, bin: u64| {
        rows(profile, &origin(Duration::from_secs(bin)), &identity)
            .err()
            .map(|error| error.to_string())
    };
    for seconds in [1e12, f64::INFINITY] {
        profile.duration_s = Some(seconds);
        assert!(why(&profile, 300).unwrap().contains("Try: a larger --bin"));
    }
    profile.duration_s = Some(86_400.0 * 7.0);
    assert_eq!((why(&profile, 1).is_some(), why(&profile, 300)), (true, None));
}
