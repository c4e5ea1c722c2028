//! Recordings of other machines.

use std::path::PathBuf;

use pmuscope_perfdata::reader::{ReadError, Reader};
use pmuscope_profile::{Collected, GroupBy, Options, Profile, TasksBy};
use pmuscope_symbols::KernelIdentity;
use pmuscope_testkit::corpus::corpus;

use super::profile;

pub(crate) fn files(malformed: bool) -> Vec<PathBuf> {
    if malformed { corpus().malformed() } else { corpus().recordings() }
}

#[test]
fn every_sample_of_every_recording_is_in_its_profile() {
    for path in files(false) {
        let profile = profile(&path).unwrap();
        for event in &profile.events {
            let counted: u64 = event.functions.iter().map(|row| row.samples).sum();
            assert_eq!(counted, event.samples, "{}: {}", path.display(), event.name);
            let shares: f64 = event.functions.iter().map(|row| row.share).sum();
            assert!(event.samples == 0 || (shares - 1.0).abs() < 1e-9, "{}", path.display());
            for row in &event.functions {
                let interval = row.interval;
                assert!(interval.is_none_or(|i| i.low <= row.share && row.share <= i.high));
            }
        }
        // Another machine's kernel has no names here.
        assert_ne!(profile.kernel, pmuscope_symbols::KernelMatch::Same, "{}", path.display());
    }
}

#[test]
fn malformed_recordings_end_in_an_error_or_a_profile() {
    for path in files(true) {
        if let Err(error) = profile(&path) {
            assert!(error.to_string().contains(path.file_name().unwrap().to_str().unwrap()));
        }
    }
}

/// Reading on several threads and reading in order are two programs; they must not disagree.
#[test]
fn both_ways_to_read_agree() {
    let running = KernelIdentity::default();
    let apart = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: true };
    for path in files(false).into_iter().chain(files(true)) {
        let of = |collect: &dyn Fn(&mut Reader) -> Result<Collected, ReadError>| {
            let mut reader = Reader::open(&path)?;
            let collected = collect(&mut reader)?;
            collected.profile(&reader, &running, Options::default(), &mut |_| Vec::new())
        };
        let one: Result<Profile, ReadError> =
            of(&|reader| Collected::in_order(reader, apart, None));
        let other = of(&|reader| Collected::read(reader, apart, 3, None));
        let (Ok(one), Ok(other)) = (one, other) else { continue };
        let total = |profile: &Profile| profile.samples();
        assert_eq!(total(&one), total(&other), "{}", path.display());
        assert_eq!(one.tally.stopped, other.tally.stopped, "{}", path.display());
        if one.tally.late == 0 {
            assert_eq!(one.tally, other.tally, "{}", path.display());
            assert_eq!(one.aggregate, other.aggregate, "{}", path.display());
        }
    }
}

/// Bytes changed at random: a profile that adds up, or an error; no panic, no end of memory.
#[test]
fn damaged_recordings_still_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.data");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for path in files(false) {
        let whole = std::fs::read(&path).unwrap();
        if whole.len() > 300_000 {
            continue;
        }
        for _ in 0..6 {
            let mut bytes = whole.clone();
            for _ in 0..20 {
                let at = random(bytes.len());
                bytes[at] = [0, 0xff, 0x80, random(256) as u8][random(4)];
            }
            std::fs::write(&copy, &bytes).unwrap();
            let Ok(profile) = profile(&copy) else { continue };
            for event in &profile.events {
                let counted: u64 = event.functions.iter().map(|row| row.samples).sum();
                assert_eq!(counted, event.samples);
            }
        }
    }
}
