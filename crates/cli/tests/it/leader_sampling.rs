//! Leader sampling (`{cycles,instructions}:S`), in every view and export: recordings written here, with perf
//! as the peer where it is.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;

use pmuscope_abi::record::{RecordBuilder, kind};
use pmuscope_abi::{Attr, AttrFlags, ReadFormat, SampleType, event_type};
use pmuscope_perfdata::writer::{Features, FileEvent, TracingData};
use serde_json::Value;

use crate::crafted::{PID, at, begin, program, sample, write, write_with};
use crate::harness::{Outcome, Scratch, need_c_compiler, need_perf, need_root, skip_unless};

const FUNCTIONS: [&str; 2] = ["busy", "idle"];
const BUSY: u64 = 0;
const IDLE: u64 = 1;

/// Two CPUs; ids of cycles are 1 and 2, of instructions 11 and 12.
fn events() -> [FileEvent; 2] {
    let event = |(name, config, sample, ids): (&str, u64, u64, [u64; 2])| {
        let mut flags = AttrFlags::SAMPLE_ID_ALL;
        flags.set(AttrFlags::FREQ, sample > 0);
        FileEvent {
            attr: Attr {
                event_type: event_type::HARDWARE,
                config,
                sample,
                sample_type: SampleType::IDENTIFIER
                    | SampleType::IP
                    | SampleType::TID
                    | SampleType::TIME
                    | SampleType::CPU
                    | SampleType::PERIOD
                    | SampleType::READ,
                read_format: ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST,
                flags,
                ..Attr::default()
            },
            name: name.into(),
            ids: ids.into(),
        }
    };
    [("cycles", 0, 4000, [1, 2]), ("instructions", 1, 0, [11, 12])].map(event)
}

/// A sample: time, CPU, function, and the counts of both events by then.
type Taken = (u64, u64, u64, [u64; 2]);

/// The kernel's periods (7) are not what samples stand for.
fn take(data: &mut Vec<u8>, (time, cpu, function, [cycles, instructions]): Taken) {
    let task = u64::from(PID) << 32 | u64::from(PID);
    let counts = [2, cycles, 1 + cpu, 0, instructions, 11 + cpu, 0];
    let mut words = vec![1 + cpu, at(function, 0x10), task, time, cpu, 7];
    words.extend(counts);
    sample(data, false, &words);
}

const SAMPLES: [Taken; 5] = [
    (1000, 0, BUSY, [100, 400]),
    (1500, 1, IDLE, [50, 10]),
    (2000, 0, BUSY, [700, 1600]),
    // No instruction since: no sample of them.
    (3000, 0, IDLE, [1000, 1600]),
    (3500, 1, BUSY, [400, 300]),
];

/// Samples, cycles and instructions by function.
fn expected() -> BTreeMap<(String, String), (u64, u64)> {
    [
        (("cycles", "busy"), (3, 100 + 600 + 350)),
        (("cycles", "idle"), (2, 50 + 300)),
        (("instructions", "busy"), (3, 400 + 1200 + 290)),
        (("instructions", "idle"), (1, 10)),
    ]
    .map(|((event, function), sums)| ((event.to_owned(), function.to_owned()), sums))
    .into()
}

fn recorded(samples: &[Taken]) -> Scratch {
    let scratch = Scratch::new();
    program(&scratch, &FUNCTIONS);
    let mut data = Vec::new();
    let task = u64::from(PID) << 32 | u64::from(PID);
    begin(&mut data, &[task, 1, 0, 1]);
    samples.iter().for_each(|&one| take(&mut data, one));
    RecordBuilder::new(&mut data, kind::FINISHED_ROUND, 0).finish();
    write(&scratch.path("led.data"), &events(), &data);
    scratch
}

fn report(scratch: &Scratch, args: &[&str]) -> Outcome {
    let args = ["report", "-i", "led.data", "--symfs", "root"].iter().chain(args);
    let outcome = scratch.pmuscope(args);
    outcome.exits(0);
    outcome
}

/// Samples and units by event and function.
fn by_function(scratch: &Scratch) -> BTreeMap<(String, String), (u64, u64)> {
    let json: Value = serde_json::from_str(&report(scratch, &["--json"]).stdout).unwrap();
    let mut found = BTreeMap::new();
    for event in json["events"].as_array().unwrap() {
        let period = event["period"].as_f64().unwrap();
        for row in event["functions"].as_array().unwrap() {
            let name = |of: &Value, field: &str| of[field].as_str().unwrap().to_owned();
            let units = (row["share"].as_f64().unwrap() * period).round() as u64;
            let key = (name(event, "name"), name(row, "function"));
            found.insert(key, (row["samples"].as_u64().unwrap(), units));
        }
    }
    found
}

#[test]
fn each_member_has_samples_with_what_it_counted() {
    skip_unless!(need_c_compiler());
    let scratch = recorded(&SAMPLES);
    assert_eq!(by_function(&scratch), expected());
    let text = report(&scratch, &[]);
    text.prints("cycles at 4,000 Hz, 5 samples").prints("instructions, 4 samples");
    // Only one of both, one CPU, a part of the time: counts go on from what is left out.
    for (filter, expected) in [
        (["--event", "instructions"], vec![("instructions", 4, 1900)]),
        (["--cpu", "1"], vec![("cycles", 2, 400), ("instructions", 2, 300)]),
        (["--time", "+0.0000001,"], vec![("cycles", 4, 1300), ("instructions", 3, 1500)]),
    ] {
        let filtered = report(&scratch, &[filter[0], filter[1], "--json"]);
        let json: Value = serde_json::from_str(&filtered.stdout).unwrap();
        let events = json["events"].as_array().unwrap().iter();
        let sums = |event: &Value| {
            let number = |field: &str| event[field].as_u64().unwrap();
            (event["name"].as_str().unwrap().to_owned(), number("samples"), number("period"))
        };
        let found: Vec<_> = events.map(sums).collect();
        let expected: Vec<_> =
            expected.into_iter().map(|(name, a, b)| (name.to_owned(), a, b)).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

/// The recorder counts what it writes, which is not what is made of it.
#[test]
fn samples_of_members_are_no_surplus_of_the_recorder() {
    let scratch = Scratch::new();
    let record = ["record", "-o", "w.data", "-F", "2000", "-e", "{cpu-clock,task-clock}:uS", "--"];
    let work = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"];
    skip_unless!(need_root());
    scratch.pmuscope(record.iter().chain(&work)).exits(0);
    let text = scratch.pmuscope(["report", "-i", "w.data"]);
    text.exits(0).prints("task-clock:u, ");
    assert!(!text.stdout.contains("was changed"), "{text}");
}

const FORMATS: [(&str, &str); 2] = [("one", "state"), ("two", "other")];

fn format(at: u32, (name, field): (&str, &str)) -> (String, Vec<u8>) {
    let text = format!(
        "name: {name}\nID: {}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int {field};\toffset:8;\tsize:4;\tsigned:1;\n\n\
         print fmt: \"{field}=%d\", REC->{field}\n",
        1329 + at
    );
    ("made".to_owned(), text.into_bytes())
}

/// Only the event that sampled has its arguments there.
#[test]
fn members_do_not_have_the_arguments_of_their_leader() {
    let scratch = Scratch::new();
    let mut traced = events();
    for (config, event) in (1329..).zip(&mut traced) {
        event.attr.event_type = event_type::TRACEPOINT;
        event.attr.config = config;
        event.attr.sample_type |= SampleType::RAW;
    }
    let (mut data, task) = (Vec::new(), u64::from(PID) << 32 | u64::from(PID));
    let raw = [20 | 1329 << 32, 42 << 32, 0];
    let words = [1, at(BUSY, 0x10), task, 1000, 0, 1, 2, 1, 1, 0, 3, 11, 0];
    sample(&mut data, false, &[&words[..], &raw].concat());
    RecordBuilder::new(&mut data, kind::FINISHED_ROUND, 0).finish();
    let formats = (0..).zip(FORMATS).map(|(at, one)| format(at, one)).collect();
    let tracing = TracingData { page_bytes: 4096, formats, ..TracingData::default() };
    let features = Features { tracing_data: Some(tracing), ..Features::default() };
    write_with(&scratch.path("led.data"), &traced, &data, &features);
    let args = ["script", "-i", "led.data", "--json", "-F", "event,period,trace"];
    let text = scratch.pmuscope(args).exits(0).stdout.clone();
    let lines: Vec<Value> =
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let traces: Vec<_> = lines.iter().map(|line| (&line["period"], &line["trace"])).collect();
    assert_eq!(traces, [(&1.into(), &"state=42".into()), (&3.into(), &Value::Null)], "{text}");
}

/// As perf's backward rings leave them in a file.
#[test]
fn samples_that_stand_backwards_count_the_same() {
    skip_unless!(need_c_compiler());
    let mut samples = SAMPLES;
    samples.reverse();
    assert_eq!(by_function(&recorded(&samples)), expected());
}

#[test]
fn exports_have_the_counts_too() {
    skip_unless!(need_c_compiler());
    let scratch = recorded(&SAMPLES);
    for (event, units) in [("cycles", ["1050", "350"]), ("instructions", ["1890", "10"])] {
        report(&scratch, &["--event", event, "-o", "a.folded"]);
        let folded = fs::read_to_string(scratch.path("a.folded")).unwrap();
        let expected = ["busy", "idle"].iter().zip(units);
        let expected: Vec<_> =
            expected.map(|(name, units)| format!("crafted;{name} {units}")).collect();
        assert_eq!(folded.lines().collect::<Vec<_>>(), expected, "{event}");
    }
    report(&scratch, &["-o", "a.json.gz"]);
    let file = fs::File::open(scratch.path("a.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let profile: Value = serde_json::from_str(&text).unwrap();
    let weights = profile["threads"].as_array().unwrap().iter();
    let sum: u64 = weights
        .flat_map(|thread| thread["samples"]["weight"].as_array().unwrap())
        .map(|weight| weight.as_u64().unwrap())
        .sum();
    assert!(sum == 1400 || sum == 1900 || sum == 3300, "{sum}");
    report(&scratch, &["-o", "a.csv"]);
    let table = fs::read_to_string(scratch.path("a.csv")).unwrap();
    let rows = table.lines().filter(|line| line.contains("busy") || line.contains("idle"));
    assert_eq!(rows.count(), 4, "{table}");
}

/// `event function period`, line by line.
fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (front, rest) = line.rsplit_once(':').unwrap();
        let front: Vec<&str> = front.split_whitespace().collect();
        let function = rest.split_whitespace().nth(1).unwrap_or_default();
        format!("{} {}", front.join(" "), function)
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

#[test]
fn script_lists_each_member_as_perf_does() {
    skip_unless!(need_c_compiler());
    let scratch = recorded(&SAMPLES);
    let args =
        ["script", "-i", "led.data", "--symfs", "root", "-F", "tid,time,period,event,ip,sym"];
    let ours = lines(&scratch.pmuscope(args).exits(0).stdout);
    assert_eq!(ours.len(), 9, "{ours:?}");
    assert!(ours[1].ends_with("400 instructions busy"), "{ours:?}");
    skip_unless!(need_perf());
    let theirs = scratch.run("perf", ["script", "-f"].iter().chain(&args[1..]));
    assert_eq!(ours, lines(&theirs.exits(0).stdout));
}

#[test]
fn perf_reports_the_same_periods() {
    skip_unless!(need_c_compiler());
    skip_unless!(need_perf());
    let scratch = recorded(&SAMPLES);
    let args = ["report", "-f", "-i", "led.data", "--symfs", "root", "--stdio", "--no-group"];
    let table = ["-F", "sample,period,sym", "-t", "|"];
    let outcome = scratch.run("perf", args.iter().chain(&table));
    let (mut theirs, mut event) = (BTreeMap::new(), String::new());
    for line in outcome.exits(0).stdout.lines() {
        if line.starts_with("# Samples:") {
            event = line.split('\'').nth(1).unwrap_or_default().to_owned();
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let ([samples, period, symbol], false) = (&fields[..], line.starts_with('#')) else {
            continue;
        };
        let key = (event.clone(), symbol.trim_start_matches("[.] ").to_owned());
        theirs.insert(key, (samples.parse().unwrap(), period.parse().unwrap()));
    }
    assert_eq!(theirs, expected(), "{outcome}");
}
