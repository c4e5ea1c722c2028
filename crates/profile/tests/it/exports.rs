//! Every format of recordings of other machines: all their samples are in it.

use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use pmuscope_perfdata::reader::{ReadError, Reader};
use pmuscope_profile::export::{Source, firefox, folded, pprof};
use pmuscope_profile::{Collected, Detail, GroupBy, Options, Profile, TasksBy};
use pmuscope_symbols::{KernelIdentity, Resolved, State};

use super::corpus::files;

/// Everything told apart, nothing named: names of other machines are not here.
fn profile(path: &Path) -> Result<Profile, ReadError> {
    let mut reader = Reader::open(path)?;
    let apart = GroupBy { chains: true, tasks: TasksBy::Thread, cpus: true };
    let collected = Collected::read(&mut reader, apart, 2, None)?;
    let options = Options { detail: Detail::Address, ..Options::COUNTS };
    collected.profile(&reader, &KernelIdentity::default(), options, &mut |requests| {
        let nothing = |addresses: &[u64]| Resolved {
            symbols: vec![None; addresses.len()],
            state: State::FileMissing,
        };
        requests.iter().map(|request| nothing(request.addresses)).collect()
    })
}

fn check(profile: &Profile) {
    let source = Source::new(profile);
    let weight: u64 = source
        .events
        .iter()
        .flat_map(|event| source.counts.of_event(event.index).iter().map(|cell| event.value(cell)))
        .fold(0, u64::saturating_add);

    let mut of_stacks = 0_u64;
    for event in &source.events {
        let mut out = Vec::new();
        folded::write(&source, event, folded::Options::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            let number = line.rsplit(' ').next().unwrap();
            of_stacks = of_stacks.saturating_add(number.parse().unwrap());
        }
    }
    assert_eq!(of_stacks, weight, "folded");

    let mut out = Vec::new();
    firefox::write(&source, &mut out).unwrap();
    let json: serde_json::Value = serde_json::from_reader(GzDecoder::new(&out[..])).unwrap();
    let weights = json["threads"].as_array().unwrap().iter();
    let sum = weights
        .flat_map(|thread| thread["samples"]["weight"].as_array().unwrap())
        .fold(0_u64, |sum, weight| sum.saturating_add(weight.as_u64().unwrap()));
    assert_eq!(sum, weight, "firefox");
    // The viewer leaves out what comes after the end.
    if let Some(end) = json["meta"]["profilingEndTime"].as_f64() {
        let threads = json["threads"].as_array().unwrap().iter();
        let mut times = threads.flat_map(|thread| thread["samples"]["time"].as_array().unwrap());
        assert!(times.all(|time| time.as_f64().unwrap() < end), "samples after {end} ms");
    }

    let mut out = Vec::new();
    pprof::write(&source, &mut out).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&out[..]).read_to_end(&mut bytes).unwrap();
    assert!(!bytes.is_empty());
}

#[test]
fn every_format_has_the_samples_of_every_recording() {
    for malformed in [false, true] {
        for path in files(malformed) {
            match profile(&path) {
                Ok(profile) => {
                    eprintln!("{}", path.display());
                    check(&profile);
                }
                Err(error) => assert!(malformed, "{}: {error}", path.display()),
            }
        }
    }
}
