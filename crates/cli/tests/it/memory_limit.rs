//! Recordings that ask for more memory than there is: what is held has a limit, and a report says when it was
//! reached. Peaks are those of the kernel's accounting.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::harness::Scratch;
use pmuscope_testkit::distinct_stacks;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 64 * MIB;
/// The program itself with its tables, unoptimized: far less than what these recordings ask for.
const PROGRAM: u64 = 64 * MIB;

/// A stream's header and its only event: address, thread, time and raw data.
fn head() -> Vec<u8> {
    let mut out = b"PERFILE2".to_vec();
    out.extend(16_u64.to_ne_bytes());
    let mut attr = [0_u8; 136];
    let fields = [(4, 136), (16, 4000), (24, 1 | 2 | 4 | 1 << 10), (40, 1 << 10)];
    for (at, value) in fields {
        attr[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
    }
    record(&mut out, 64, 0, &[&attr[..], &7_u64.to_ne_bytes()].concat());
    out
}

fn record(out: &mut Vec<u8>, kind: u32, misc: u16, body: &[u8]) {
    out.extend(kind.to_ne_bytes());
    out.extend(misc.to_ne_bytes());
    out.extend((body.len() as u16 + 8).to_ne_bytes());
    out.extend(body);
}

/// A sample of 64 kB that says next to nothing.
fn sample(out: &mut Vec<u8>, time: u64) {
    let mut body: Vec<u8> =
        [0x1000, 1 << 32 | 1, time].into_iter().flat_map(u64::to_ne_bytes).collect();
    let bytes = 64_004_u32;
    body.extend(bytes.to_ne_bytes());
    body.resize(body.len() + bytes as usize, 0);
    record(out, 9, 2, &body);
}

/// Runs it with a limit; what it printed, and its largest size in bytes.
fn run(scratch: &Scratch, args: &[&str]) -> (String, u64) {
    let output = fs::File::create(scratch.path("output")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(args).current_dir(scratch.path("")).env("PMUSCOPE_MEMORY", "64M");
    command.env("PMUSCOPE_CACHE", "").stdin(Stdio::null());
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let mut child = command.spawn().unwrap();
    // What wait4 has includes the size of this process, before the other program was started in it.
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        sleep(Duration::from_millis(2));
    }
    assert!(peak > 0);
    (fs::read_to_string(scratch.path("output")).unwrap(), peak)
}

#[test]
fn records_that_wait_take_no_more_than_the_limit_and_none_is_lost() {
    let scratch = Scratch::new();
    let mut stream = head();
    // Without marks of rounds, every other one older than the one before: 256 MB.
    let count = 4000;
    for number in 0..count {
        sample(&mut stream, 1_000_000 + number * 10 - number % 2 * 5000);
    }
    fs::write(scratch.path("x.data"), stream).unwrap();
    let (report, peak) = run(&scratch, &["report", "x.data"]);
    assert!(peak < LIMIT + PROGRAM, "{} MiB\n{report}", peak / MIB);
    assert!(report.contains("4,000 samples"), "{report}");
    assert!(
        report.contains("ordered within 32 MiB") && report.contains("PMUSCOPE_MEMORY"),
        "{report}"
    );
    let (listed, peak) = run(&scratch, &["script", "x.data", "-F", "time"]);
    assert!(peak < LIMIT + PROGRAM, "{} MiB", peak / MIB);
    assert_eq!(listed.lines().filter(|line| line.trim_end().ends_with(':')).count() as u64, count);
    assert!(listed.contains("ordered within 32 MiB"), "no note");
}

#[test]
fn more_distinct_stacks_than_memory_has_room_for_are_counted_without_callers() {
    let scratch = Scratch::new();
    let count = 600_000;
    distinct_stacks::write(count, &scratch.path("x.data")).unwrap();
    let (report, peak) = run(&scratch, &["report", "x.data", "--call-tree"]);
    assert!(peak < LIMIT + PROGRAM, "{} MiB\n{report}", peak / MIB);
    assert!(report.contains("600,000 samples"), "{report}");
    let warning = report.lines().find(|line| line.contains("without callers")).unwrap();
    assert!(warning.contains("64 MiB of memory") && warning.contains("warning: "), "{warning}");
    assert!(report.contains("PMUSCOPE_MEMORY=1G"), "{report}");
    // What needs no callers has room.
    let (report, _) = run(&scratch, &["report", "x.data"]);
    assert!(report.contains("600,000 samples") && !report.contains("without callers"), "{report}");
}

#[test]
fn a_limit_that_is_no_size_is_refused() {
    let scratch = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["report", "x.data"]).env("PMUSCOPE_MEMORY", "much").current_dir(scratch.path(""));
    crate::harness::Outcome::of(&mut command).exits(2).complains("PMUSCOPE_MEMORY=2G");
}
