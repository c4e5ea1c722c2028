//! Stock perf understands what we record: several events, call chains, groups, leader sampling,
//! tracepoints with their fields, the description of machine and recording.

use crate::harness::{Outcome, Scratch, need_perf, need_perf_that_reads, skip_unless};
use crate::recording::{Recording, busy, need_root_clock, rate};

/// Forks, faults and waits.
const COMMAND: [&str; 3] =
    ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls -R /usr/lib | head -1000; done"];

/// `pmuscope record -e EVENTS FLAGS -- COMMAND`, whose status does not matter.
#[track_caller]
fn record(events: &str, flags: &[&str], command: &[&str]) -> (Scratch, Recording, Outcome) {
    let scratch = Scratch::new();
    let hz = rate(5000);
    let rate =
        if events.contains(':') && !events.contains("clock") { vec![] } else { vec!["-F", &hz] };
    let args = [&["record", "-e", events, "-o", "x.data"][..], &rate, flags, &["--"], command];
    let said = scratch.pmuscope(args.concat());
    let recording = Recording::at(scratch.path("x.data"));
    (scratch, recording, said)
}

/// Samples of an event by the lines of `perf script -F event`.
#[track_caller]
fn lines_of(recording: &Recording, event: &str) -> u64 {
    let script = recording.perf(&["script", "-F", "event"]);
    script.exits(0);
    let is_event = |line: &&str| line.trim().trim_end_matches(':') == event;
    script.stdout.lines().filter(is_event).count() as u64
}

#[test]
fn perf_report_names_what_ran() {
    skip_unless!(need_perf_that_reads(env!("CARGO_BIN_EXE_pmuscope").as_ref()));
    skip_unless!(need_root_clock());
    let (_scratch, recording, said) = record("cpu-clock", &["-a"], &busy("0.5"));
    said.exits(0);
    let report = recording.perf(&["report", "--stdio"]);
    report.exits(0).prints("of event 'cpu-clock'").prints("integer_division").prints("mix-0");
    let header = recording.perf(&["report", "--header-only"]);
    header.exits(0).prints("hostname : ").prints("cmdline : ").prints("event : name = cpu-clock");
    let names = recording.perf(&["evlist"]);
    names.exits(0).prints("cpu-clock").prints("dummy:u");
}

#[test]
fn two_events() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let (_scratch, recording, said) = record("cpu-clock,page-faults/period=1/", &[], &COMMAND);
    said.exits(0);
    let info = recording.everyone_agrees();
    for event in &info.events {
        assert!(event.samples > 50, "{event:?}");
        assert_eq!(lines_of(&recording, &event.name), event.samples, "{event:?}");
    }
}

#[test]
fn call_chains() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let (_scratch, recording, said) = record("cpu-clock", &["-g"], &COMMAND);
    said.exits(0);
    let info = recording.everyone_agrees();
    let script = recording.perf(&["script", "-F", "comm,ip,sym"]);
    // Each sample has a line with its command, which is not indented; of its chain, which may be empty, each frame one.
    let begins = |line: &&str| line.starts_with(|first: char| !first.is_whitespace());
    assert_eq!(script.stdout.lines().filter(begins).count() as u64, info.samples());
    let chains = script.stdout.split("\n\n");
    let deepest = chains.map(|chain| chain.trim().lines().skip(1).count()).max().unwrap();
    assert!(deepest > 5, "{deepest} frames at most");
    if cfg!(target_arch = "x86_64") {
        script.prints("entry_SYSCALL_64_after_hwframe");
    }
}

#[test]
fn a_group() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let (_scratch, recording, said) = record("{cpu-clock,page-faults/period=1/}", &[], &COMMAND);
    said.exits(0);
    let info = recording.everyone_agrees();
    for event in &info.events {
        assert_eq!(lines_of(&recording, &event.name), event.samples, "{event:?}");
    }
    let report = recording.perf(&["report", "--stdio"]);
    report.exits(0).prints("anon group { cpu-clock, page-faults");
}

/// The leader samples, the members are read with it: perf turns each into a sample of its own.
#[test]
fn leader_sampling() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let (_scratch, recording, said) = record("{cpu-clock,page-faults}:S", &[], &COMMAND);
    said.exits(0);
    let info = recording.info();
    assert_eq!(lines_of(&recording, "cpu-clock"), info.samples());
    let faults = lines_of(&recording, "page-faults");
    assert!(faults > 0 && faults <= info.samples(), "{faults} of {}", info.samples());
    assert_eq!(recording.by_us().times.len() as u64, info.samples());
    // Not exactly perf's number: it takes the counts of all threads under an id for one count.
    let both = recording.by_report();
    assert!(
        (info.samples() + 1..=2 * info.samples()).contains(&both),
        "{both} of {}",
        info.samples()
    );
}

/// perf needs the formats of tracepoints in the file, and refuses it without.
#[test]
fn tracepoints_with_their_fields() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let event = "sched:sched_switch";
    let machine = pmuscope_machine::Machine::host();
    skip_unless!(machine.tracepoint_id("sched", "sched_switch").err().map(|e| e.to_string()));
    let (_scratch, recording, said) = record(event, &["-a"], &COMMAND);
    said.exits(0);
    let info = recording.everyone_agrees();
    assert_eq!(lines_of(&recording, event), info.samples());
    let fields = recording.perf(&["script", "-F", "event,trace"]);
    fields.exits(0);
    for line in fields.stdout.lines() {
        assert!(line.contains("prev_comm=") && line.contains("next_pid="), "{line}");
    }
    recording.perf(&["report", "--stdio"]).exits(0).prints(event);
}

/// What only a PMU has is refused, with the reason, before anything runs.
#[test]
fn branch_stacks_of_a_clock_are_refused() {
    skip_unless!(need_root_clock());
    let (scratch, _, said) = record("cpu-clock", &["-b"], &["touch", "ran"]);
    said.exits(3).complains("EOPNOTSUPP").complains("no branch records").complains("without -b");
    assert!(!scratch.path("ran").exists() && !scratch.path("x.data").exists());
}
