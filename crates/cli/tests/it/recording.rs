//! A recording as every program that reads it sees it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use linux_perf_data::linux_perf_event_reader::RecordType;
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use pmuscope_machine::{CpuSet, Machine};
use pmuscope_perfdata::info::{MAGIC, RecordingInfo};
use pmuscope_perfdata::reader::{CpuMode, Entry, Reader, Record};

use crate::harness::{
    Outcome, Scratch, need_machine_sampling, need_perf, need_root, need_sampling,
};

/// What stock perf says on stderr about a file that it does not wholly understand.
const COMPLAINTS: [&str; 4] = ["out of order", "unknown", "lost", "incompatible"];

/// What one reader found: times in the order in which it gave the samples.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Nanoseconds.
    pub(crate) times: Vec<u64>,
}

impl Samples {
    /// Fails if a sample is older than the one before it.
    #[track_caller]
    fn never_fall(&self, by: &str) {
        let falls = self.times.windows(2).position(|pair| pair[1] < pair[0]);
        assert_eq!(falls, None, "{by}: a sample is older than the one before");
    }
}

/// A file that pmuscope wrote.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
}

impl Recording {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// What it says of itself.
    #[track_caller]
    pub(crate) fn info(&self) -> RecordingInfo {
        self.try_info().unwrap_or_else(|| panic!("{}: no metadata", self.path.display()))
    }

    /// The same, of a file that may have no end.
    #[track_caller]
    pub(crate) fn try_info(&self) -> Option<RecordingInfo> {
        pmuscope_perfdata::read_info(&self.path).unwrap()
    }

    /// The samples as `perf script` gives them, which must not complain.
    #[track_caller]
    pub(crate) fn by_perf(&self) -> Samples {
        let script = self.perf(&["script", "--ns", "-F", "time"]);
        script.exits(0);
        let said = script.stderr.to_lowercase();
        for complaint in COMPLAINTS {
            assert!(!said.contains(complaint), "perf complains\n{}", script.stderr);
        }
        Samples { times: script.stdout.lines().map(nanoseconds).collect() }
    }

    /// `perf ARGS -i FILE`.
    #[track_caller]
    pub(crate) fn perf(&self, args: &[&str]) -> Outcome {
        let mut command = pmuscope_testkit::perf();
        // Without a configuration or a cache of this machine's user.
        // -f: also a file of another user.
        command.args(args).arg("-f").arg("-i").arg(&self.path).env("HOME", "/nonexistent");
        Outcome::of(&mut command)
    }

    /// The samples as the crate linux-perf-data gives them.
    #[track_caller]
    pub(crate) fn by_linux_perf_data(&self) -> Samples {
        let file = BufReader::new(File::open(&self.path).unwrap());
        let PerfFileReader { mut perf_file, mut record_iter } =
            PerfFileReader::parse_file(file).unwrap();
        let mut samples = Samples::default();
        while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
            match record {
                PerfFileRecord::EventRecord { record, .. }
                    if record.record_type == RecordType::SAMPLE =>
                {
                    samples.times.push(record.timestamp().unwrap());
                }
                _ => {}
            }
        }
        samples
    }

    /// The samples as our own reader gives them; nothing in the file may be foreign to it.
    #[track_caller]
    pub(crate) fn by_us(&self) -> Samples {
        let mut samples = Samples::default();
        let reader = self.read(|entry| {
            if let Record::Sample(_) = entry.record {
                samples.times.push(entry.time.unwrap());
            }
        });
        let tally = reader.tally();
        let strange = (tally.samples_of_no_event, tally.malformed, tally.late);
        assert_eq!(strange, (0, 0, 0), "{tally:?}");
        assert!(tally.unknown_kinds.is_empty(), "{tally:?}");
        samples
    }

    /// Calls `look` for each record; the reader, at its end.
    #[track_caller]
    pub(crate) fn read(&self, mut look: impl FnMut(&Entry<'_>)) -> Reader {
        let mut reader = Reader::open(&self.path).unwrap();
        while let Some(entry) = reader.next().unwrap() {
            look(&entry);
        }
        reader
    }

    /// Samples of all events by `pmuscope report --json`, which is content with what it has only where
    /// the file has its end.
    #[track_caller]
    pub(crate) fn by_report(&self) -> u64 {
        let path = self.path.to_str().unwrap();
        let report = Scratch::new().pmuscope(["report", "--json", "-i", path]);
        let is_whole = self.try_info().is_some_and(|info| info.unwritten.is_none());
        report.exits(if is_whole { 0 } else { 1 });
        let json: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
        let events = json["events"].as_array().unwrap();
        events.iter().map(|event| event["samples"].as_u64().unwrap()).sum()
    }

    /// Fails unless all readers see the samples that the file says it has, in order of time. Stock perf
    /// is asked where it is installed.
    #[track_caller]
    pub(crate) fn everyone_agrees(&self) -> RecordingInfo {
        let info = self.info();
        self.everyone_reads(info.samples());
        info
    }

    /// Fails unless all readers see `expected` samples, in order of time.
    #[track_caller]
    pub(crate) fn everyone_reads(&self, expected: u64) -> u64 {
        let mut found = BTreeMap::from([
            ("linux-perf-data", self.by_linux_perf_data()),
            ("pmuscope", self.by_us()),
        ]);
        match need_perf() {
            None => drop(found.insert("perf", self.by_perf())),
            Some(reason) => eprintln!("skipped: comparison with perf: {reason}"),
        }
        for (by, samples) in &found {
            assert_eq!(samples.times.len() as u64, expected, "samples by {by}, and by the file");
            samples.never_fall(by);
        }
        assert_eq!(self.by_report(), expected, "samples by pmuscope report, and by the file");
        expected
    }
}

/// Whether any sample was taken in the kernel.
pub(crate) fn has_kernel_samples(recording: &Recording) -> bool {
    let mut found = false;
    recording.read(|entry| {
        found |= matches!(entry.record, Record::Sample(sample) if sample.mode == CpuMode::Kernel);
    });
    found
}

/// Whether events are on: the first copy of its state goes into the file right after.
pub(crate) fn has_begun(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|file| file.windows(MAGIC.len()).any(|bytes| bytes == MAGIC))
}

/// "12345.678901234:" in nanoseconds.
fn nanoseconds(text: &str) -> u64 {
    let (seconds, rest) = text.trim().trim_end_matches(':').split_once('.').unwrap();
    assert_eq!(rest.len(), 9, "{text}");
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + rest.parse::<u64>().unwrap()
}

/// Why the user mode of our own programs cannot be sampled by the clock; `None` if it can.
pub(crate) fn need_clock() -> Option<String> {
    need_sampling()
}

/// Why the whole machine cannot be sampled by the clock; `None` if it can.
pub(crate) fn need_root_clock() -> Option<String> {
    need_root().or_else(need_machine_sampling)
}

/// Samples per second that this kernel allows, at most `hz`: it may have lowered its limit.
pub(crate) fn rate(hz: u64) -> String {
    let limit = Machine::host().limits().perf_event_max_sample_rate;
    hz.min(limit.unwrap_or(hz)).to_string()
}

/// The CPUs of this machine that are online.
pub(crate) fn online() -> CpuSet {
    Machine::host().topology().unwrap().online
}

/// Our own program, busy on all CPUs for so long.
pub(crate) fn busy(seconds: &'static str) -> [&'static str; 5] {
    [env!("CARGO_BIN_EXE_pmuscope"), "workload", "share-mix", "--seconds", seconds]
}
