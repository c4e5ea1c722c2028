//! Call stacks that the CPU kept (`--call-graph lbr`), in every view and export: a recording written here,
//! with perf as the peer where it is.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;

use pmuscope_abi::{Attr, AttrFlags, BranchSampleType, SampleType, event_type};
use pmuscope_perfdata::writer::FileEvent;
use serde_json::Value;

use crate::crafted::{at, begin, program, sample, write};
use crate::harness::{Outcome, Scratch, need_c_compiler, need_perf, skip_unless};
use crate::json::is_documented;

/// Functions of the program; `stub` jumps on to `leaf`.
const FUNCTIONS: [&str; 5] = ["outer", "middle", "inner", "stub", "leaf"];
const OUTER: u64 = 0;
const MIDDLE: u64 = 1;
const INNER: u64 = 2;
const STUB: u64 = 3;
const LEAF: u64 = 4;

const KERNEL: u64 = -128_i64 as u64;
const USER: u64 = -512_i64 as u64;
const IN_KERNEL: u64 = 0xffff_ffff_8100_0000;

/// Each kind of sample, with periods that add up to 1000.
fn record(scratch: &Scratch) {
    program(scratch, &FUNCTIONS);
    let attr = Attr {
        event_type: event_type::HARDWARE,
        sample: 4000,
        sample_type: SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::PERIOD
            | SampleType::CALLCHAIN
            | SampleType::BRANCH_STACK,
        branch_sample_type: BranchSampleType::USER
            | BranchSampleType::CALL_STACK
            | BranchSampleType::NO_CYCLES
            | BranchSampleType::NO_FLAGS,
        flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::FREQ,
        ..Attr::default()
    };
    let events = [FileEvent { attr, name: "cycles".into(), ids: vec![1] }];
    let task = u64::from(crate::crafted::PID) << 32 | u64::from(crate::crafted::PID);
    let mut data = Vec::new();
    begin(&mut data, &[task, 1]);
    let mut time = 1000;
    let mut take = |in_kernel: bool, period: u64, chain: &[u64], calls: &[(u64, u64)]| {
        time += 1000;
        let ip = chain[1];
        let mut words = vec![ip, task, time, period, chain.len() as u64];
        words.extend(chain);
        words.push(calls.len() as u64);
        words.extend(calls.iter().flat_map(|&(from, to)| [from, to, 0]));
        sample(&mut data, in_kernel, &words);
    };
    // What frame pointers lead to is wrong: programs that are recorded so have none.
    let wrong = at(LEAF, 0x80);
    let to_middle = (at(OUTER, 0x30), at(MIDDLE, 0));
    // The call is the first instruction of `middle`: one byte before it is another function.
    let to_inner = [(at(MIDDLE, 0), at(INNER, 0)), to_middle];
    take(false, 500, &[USER, at(INNER, 0x10), wrong], &to_inner);
    let to_stub = [(at(MIDDLE, 0x20), at(STUB, 0)), to_middle];
    take(false, 300, &[USER, at(LEAF, 0x10), wrong], &to_stub);
    take(true, 150, &[KERNEL, IN_KERNEL, USER, at(INNER, 0x20), wrong], &to_inner);
    take(false, 50, &[USER, at(OUTER, 0x10), wrong], &[]);
    write(&scratch.path("lbr.data"), &events, &data);
}

fn recorded() -> Scratch {
    let scratch = Scratch::new();
    record(&scratch);
    scratch
}

fn report(scratch: &Scratch, args: &[&str]) -> Outcome {
    let outcome =
        scratch.pmuscope(["report", "-i", "lbr.data", "--symfs", "root"].iter().chain(args));
    outcome.exits(0);
    outcome
}

/// Self and total of each named function, units of the event.
type Shares = BTreeMap<String, (u64, u64)>;

fn expected() -> Shares {
    [
        ("outer", (50, 1000)),
        ("middle", (0, 950)),
        ("inner", (500, 650)),
        ("stub", (0, 300)),
        ("leaf", (300, 300)),
    ]
    .map(|(name, shares)| (name.to_owned(), shares))
    .into()
}

#[test]
fn callers_are_those_that_the_cpu_kept() {
    skip_unless!(need_c_compiler());
    let scratch = recorded();
    let json: Value =
        serde_json::from_str(&report(&scratch, &["--by", "function", "--json"]).stdout).unwrap();
    let units = |row: &Value, field: &str| (row[field].as_f64().unwrap() * 1000.0).round() as u64;
    let rows = json["events"][0]["rows"].as_array().unwrap().iter();
    let shares: Shares = rows
        .filter_map(|row| {
            let name = row["function"].as_str()?.to_owned();
            Some((name, (units(row, "share"), units(row, "children_share"))))
        })
        .collect();
    assert_eq!(shares, expected());
    // A function that was entered where it was sampled is there once.
    let tree = report(&scratch, &["--call-tree"]);
    let count = |name: &str| tree.stdout.matches(&format!(" {name} [")).count();
    assert_eq!(FUNCTIONS.map(count), [1; 5], "{tree}");
}

#[test]
fn every_export_has_the_same_callers() {
    skip_unless!(need_c_compiler());
    let scratch = recorded();
    report(&scratch, &["-o", "a.folded"]);
    let folded = fs::read_to_string(scratch.path("a.folded")).unwrap();
    let stacks = [
        "crafted;outer 50",
        "crafted;outer;middle;inner 500",
        "crafted;outer;middle;inner;[[kernel.kallsyms]] 150",
        "crafted;outer;middle;stub;leaf 300",
    ];
    assert_eq!(folded.lines().collect::<Vec<_>>(), stacks);
    for file in ["a.pb.gz", "a.json.gz"] {
        report(&scratch, &["-o", file]);
        let mut bytes = Vec::new();
        let file = fs::File::open(scratch.path(file)).unwrap();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        for name in FUNCTIONS {
            let is_there = bytes.windows(name.len()).any(|part| part == name.as_bytes());
            assert!(is_there, "{name}");
        }
    }
    for file in ["a.svg", "a.html"] {
        report(&scratch, &["-o", file]);
        let picture = fs::read_to_string(scratch.path(file)).unwrap();
        assert!(FUNCTIONS.iter().all(|name| picture.contains(name)), "{file}");
    }
}

/// A precise event: the CPU noted `leaf`, and the interrupt came when the program was in the kernel.
#[test]
fn a_precise_address_counts_for_self_alone() {
    skip_unless!(need_c_compiler());
    let scratch = Scratch::new();
    program(&scratch, &FUNCTIONS);
    let sample_type = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CALLCHAIN;
    let attr = Attr {
        event_type: event_type::HARDWARE,
        sample: 4000,
        sample_type,
        precise_ip: 2,
        ..Attr::default()
    };
    let attr = Attr { flags: AttrFlags::SAMPLE_ID_ALL, ..attr };
    let events = [FileEvent { attr, name: "cycles:pp".into(), ids: vec![1] }];
    let task = u64::from(crate::crafted::PID) << 32 | u64::from(crate::crafted::PID);
    let mut data = Vec::new();
    begin(&mut data, &[task, 1]);
    let callers = [at(MIDDLE, 0x20), at(OUTER, 0x30)];
    let in_kernel = [&[KERNEL, IN_KERNEL, USER, at(INNER, 0x10)][..], &callers].concat();
    let in_program = [&[USER, at(LEAF, 0x20)][..], &callers].concat();
    for (time, chain) in [(2000, &in_kernel), (3000, &in_kernel), (4000, &in_program)] {
        let front = [at(LEAF, 0x20), task, time, chain.len() as u64];
        sample(&mut data, false, &[&front[..], chain].concat());
    }
    write(&scratch.path("lbr.data"), &events, &data);
    let json = report(&scratch, &["--by", "function", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let rows = json["events"][0]["rows"].as_array().unwrap();
    let own = |row: &&Value| row["samples"].as_u64() > Some(0);
    let sampled: Vec<_> = rows.iter().filter(own).map(|row| &row["function"]).collect();
    assert_eq!(sampled, ["leaf"]);
    report(&scratch, &["-o", "a.folded"]);
    let folded = fs::read_to_string(scratch.path("a.folded")).unwrap();
    let stacks =
        ["crafted;outer;middle;inner;[[kernel.kallsyms]] 2", "crafted;outer;middle;leaf 1"];
    assert_eq!(folded.lines().collect::<Vec<_>>(), stacks);
    let tree = report(&scratch, &["--call-tree"]);
    assert_eq!(tree.stdout.matches(" leaf [").count(), 1, "{tree}");
    let callees = report(&scratch, &["--peek", "inner"]);
    assert!(!callees.stdout.contains("leaf"), "{callees}");
}

/// `function` of each line of a callchain, the innermost first, by sample.
fn chains(text: &str) -> Vec<Vec<String>> {
    let mut chains: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix('\t') {
            Some(caller) => {
                let name = caller.split_whitespace().nth(1).unwrap_or_default();
                chains.last_mut().unwrap().push(name.to_owned());
            }
            None if !line.trim().is_empty() => chains.push(Vec::new()),
            None => {}
        }
    }
    chains
}

#[test]
fn script_lists_the_calls_by_their_own_addresses() {
    skip_unless!(need_c_compiler());
    let scratch = recorded();
    let args = ["script", "-i", "lbr.data", "--symfs", "root", "-F", "comm,ip,sym"];
    let ours = scratch.pmuscope(args);
    let found = chains(&ours.exits(0).stdout);
    let calls = ["inner", "middle", "outer"];
    assert_eq!(found[0], calls);
    assert_eq!(found[1], ["stub", "middle", "outer"]);
    assert_eq!(found[2][1..], calls);
    skip_unless!(need_perf());
    let args = ["script", "-f", "-i", "lbr.data", "--symfs", "root", "-F", "comm,ip,sym"];
    let theirs = chains(&scratch.run("perf", args).exits(0).stdout);
    // With nothing kept, perf 6.1 prints what stands after the sample.
    assert_eq!(found[..3], theirs[..3]);
}

#[test]
fn perf_reports_the_same_callers() {
    skip_unless!(need_c_compiler());
    skip_unless!(need_perf());
    let scratch = recorded();
    let args = ["report", "-f", "-i", "lbr.data", "--symfs", "root", "--stdio", "-g", "none"];
    let table = ["--children", "-F", "overhead_children,overhead,sym", "-t", "|"];
    let outcome = scratch.run("perf", args.iter().chain(&table));
    let mut theirs = Shares::new();
    for line in outcome.exits(0).stdout.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [children, own, symbol] = fields[..] else { continue };
        let Some(name) = symbol.strip_prefix("[.] ").filter(|name| !name.starts_with("0x")) else {
            continue;
        };
        let units = |share: &str| {
            (share.trim_end_matches('%').parse::<f64>().unwrap() * 10.0).round() as u64
        };
        theirs.insert(name.to_owned(), (units(own), units(children)));
    }
    assert_eq!(theirs, expected(), "{outcome}");
}

#[test]
fn calls_are_no_branches() {
    skip_unless!(need_c_compiler());
    let scratch = recorded();
    let args = ["report", "-i", "lbr.data", "--by", "branch"];
    let text = scratch.pmuscope(args);
    text.exits(1).prints("0 branches of 0 samples").prints("pmuscope report --call-tree");
    let json = scratch.pmuscope(args.iter().chain(&["--json"]));
    is_documented("branches", &json.exits(1).stdout);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["branches"], &json["samples_with_call_stacks"]), (&0.into(), &4.into()));
}
