//! `pmuscope watch` on programs that know what they do: every hit of every thread, with its values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::reader::Record;
use pmuscope_perfdata::watch::{Hit, HitFlags, WatchInfo};
use rustix::process::Signal;

use crate::harness::{
    self, Outcome, Scratch, Started, need_full, need_libc_symbols, need_perf_that_reads, need_root,
    skip_unless,
};
use crate::recording::{Recording, has_begun};

/// Compiles `watched.c` once, with debug information and frame pointers, to the same addresses in all processes.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("watched", &["-no-pie", "-fno-pie"]))
}

fn compiled(name: &str, how: &[&str]) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/watched.c");
    let flags = ["-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o"];
    let mut cc = Command::new("cc");
    harness::compiled(name, cc.args(how).args(flags), source).expect("a C compiler")
}

/// The same, at addresses that differ from process to process.
fn moved_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("watched-moved", &["-pie", "-fPIE"]))
}

fn program_text() -> &'static str {
    program().to_str().unwrap()
}

/// Why hits cannot be seen by programs of BPF.
fn need_bpf() -> Option<String> {
    need_root()
}

/// Starts it; it writes once it is told.
fn start(words: &[&str]) -> Started {
    start_of(program(), words)
}

fn start_of(program: &Path, words: &[&str]) -> Started {
    let mut command = Command::new(program);
    let started = Started::of(command.args(words).stdin(Stdio::piped()));
    started.wait_until(|| started.said("ready"));
    started
}

/// What the file says of the watch.
#[track_caller]
pub(crate) fn watch_of(info: &RecordingInfo) -> &WatchInfo {
    info.watch.as_ref().expect("a watch")
}

fn hits_by_thread(watch: &WatchInfo) -> BTreeMap<u32, u64> {
    let mut hits = BTreeMap::new();
    for writer in &watch.writers {
        *hits.entry(writer.tid).or_default() += writer.hits;
    }
    hits
}

/// Hits as they stand in the file.
pub(crate) fn hits(recording: &Recording) -> Vec<(Hit, u64)> {
    let mut hits = Vec::new();
    recording.read(|entry| {
        if let Record::Sample(sample) = entry.record {
            let raw = sample.details().and_then(|details| details.raw).unwrap();
            hits.push((Hit::read(raw, false).unwrap(), sample.ip.unwrap()));
        }
    });
    hits
}

#[test]
fn every_write_of_a_command_is_there_with_its_values() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let args = ["watch", "-o", "x.data", "counter", "--", program_text(), "1", "500"];
    scratch.pmuscope(args).exits(0).prints("counter 500");
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.everyone_agrees();
    let watch = watch_of(&info);
    assert_eq!(hits_by_thread(watch).into_values().collect::<Vec<_>>(), [500]);
    let writer = &watch.writers[0];
    assert_eq!((writer.changed, writer.plus_one, writer.in_kernel), (500, 500, false));
    assert_eq!(watch.armed_share(), Some(1.0));
    let event = &info.events[watch.points[0].event as usize];
    assert_eq!((event.counted, event.lost), (Some(500), Some(0)), "{event:?}");
    let known = HitFlags::VALUE | HitFlags::OLD | HitFlags::AFTER;
    for (number, (hit, ip)) in hits(&recording).into_iter().enumerate() {
        let number = number as u64;
        assert_eq!((hit.flags, hit.value, hit.old), (known, number + 1, number));
        assert_eq!((hit.sequence, ip), (number + 1, writer.ip));
    }
}

#[test]
fn the_place_of_a_write_is_its_function_for_report_and_for_perf() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    scratch
        .pmuscope(["watch", "-o", "x.data", "counter", "--", program_text(), "2", "50"])
        .exits(0);
    scratch.pmuscope(["report", "x.data"]).exits(0).prints("step");
    scratch.pmuscope(["report", "--call-tree", "x.data"]).exits(0).prints("work [watched]");
    skip_unless!(need_perf_that_reads(program()));
    let perf = Recording::at(scratch.path("x.data")).perf(&["script", "-F", "event,ip,sym"]);
    perf.exits(0).prints("counter").prints("step");
    skip_unless!(need_libc_symbols());
    scratch.pmuscope(["report", "--call-tree", "x.data"]).exits(0).prints("start_thread");
}

#[test]
fn threads_that_are_there_and_threads_that_come_are_all_watched() {
    skip_unless!(need_bpf());
    threads_are_watched(40, 20);
}

#[test]
fn full_a_thousand_threads_are_watched() {
    skip_unless!(need_full());
    skip_unless!(need_bpf());
    threads_are_watched(1000, 100);
}

/// The program has half of its threads before the watch begins. Virtual machines lose the reason of a trap
/// now and then, also with stock perf; then the kernel ends the program (docs/watch.md).
fn threads_are_watched(threads: usize, writes: u64) {
    const TRIES: u32 = 4;
    for attempt in 1..=TRIES {
        if try_threads(threads, writes) {
            return;
        }
        eprintln!("try {attempt} of {TRIES}: the kernel ended the program with SIGTRAP");
    }
    panic!("the program was ended with SIGTRAP {TRIES} times");
}

/// False if the kernel has ended the program.
fn try_threads(threads: usize, writes: u64) -> bool {
    let scratch = Scratch::new();
    let (number, each) = (threads.to_string(), writes.to_string());
    let mut program = Started::of(
        Command::new(program()).args([&number, &each, "1000", "halves"]).stdin(Stdio::piped()),
    );
    program.wait_until(|| program.said("ready"));
    let pid = program.pid().to_string();
    let path = scratch.path("x.data");
    let args = ["watch", "--max-slowdown", "none", "-o", "x.data", "-p", &pid, "counter"];
    let watch = scratch.start(args);
    watch.wait_until(|| has_begun(&path));
    program.tell("go\n");
    let program = program.ends();
    let watch = watch.ends();
    if program.code() == 128 + Signal::TRAP.as_raw() {
        return false;
    }
    program.exits(0).prints(&format!("counter {}", threads as u64 * writes));
    watch.exits(0);
    let info = Recording::at(path).everyone_agrees();
    let watch = watch_of(&info);
    let hits = hits_by_thread(watch);
    assert_eq!(hits.len(), threads);
    assert!(hits.values().all(|&hits| hits == writes), "{hits:?}");
    let plus_one: u64 = watch.writers.iter().map(|writer| writer.plus_one).sum();
    assert_eq!(plus_one, threads as u64 * writes, "under a lock each write is one more");
    true
}

#[test]
fn only_hits_that_are_wanted_are_written_down_and_all_are_counted() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let values = |condition: &[&str]| {
        let target = ["watch", "-o", "x.data", "level"];
        let command = ["--", program_text(), "1", "1"];
        scratch.pmuscope([&target, condition, &command].concat()).exits(0);
        let recording = Recording::at(scratch.path("x.data"));
        let info = recording.everyone_agrees();
        let all: u64 = watch_of(&info).writers.iter().map(|writer| writer.hits).sum();
        assert_eq!(all, 3);
        let hits = hits(&recording).into_iter();
        hits.map(|(hit, _)| (hit.old as u32 as i32, hit.value as u32 as i32)).collect::<Vec<_>>()
    };
    assert_eq!(values(&[]), [(7, -3), (-3, -3), (-3, 12)]);
    assert_eq!(values(&["--when-changed"]), [(7, -3), (-3, 12)]);
    assert_eq!(values(&["--when", "new < 0 && old > 0"]), [(7, -3)]);
    assert_eq!(values(&["--when", "step > 10 || new == old"]), [(-3, -3), (-3, 12)]);
    assert_eq!(values(&["--count-only"]), []);
}

#[test]
fn writes_of_the_kernel_are_hits_too() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    scratch.pmuscope(["watch", "-o", "x.data", "text/8", "--", program_text(), "1", "1"]).exits(0);
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    let writers = &watch_of(&info).writers;
    assert!(!writers.is_empty() && writers.iter().all(|writer| writer.in_kernel), "{writers:?}");
}

/// Watches the counter of a program of one thread and ten writes, which is told this once the watch has begun.
#[track_caller]
fn watch_told(scratch: &Scratch, line: &str) -> (Recording, Outcome) {
    let mut program = start(&["1", "10"]);
    let pid = program.pid().to_string();
    let path = scratch.path("x.data");
    let watch = scratch.start(["watch", "-o", "x.data", "-p", &pid, "counter"]);
    watch.wait_until(|| has_begun(&path));
    program.tell(line);
    let program = program.ends();
    program.exits(0).prints("counter 10\n");
    watch.ends().exits(0);
    (Recording::at(path), program)
}

#[test]
fn children_are_watched_in_their_own_copies() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let (recording, _) = watch_told(&scratch, "f\n");
    recording.everyone_agrees();
    let last = hits(&recording).pop().unwrap().0;
    // The first hit in a process has no past that would be known.
    assert_eq!((last.value, last.flags.contains(HitFlags::OLD), last.sequence), (1, false, 1));
}

#[test]
fn a_program_that_is_run_by_a_child_is_another_one() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let (recording, program) = watch_told(&scratch, "e\n");
    program.prints("counter 5\n");
    let info = recording.everyone_agrees();
    assert_eq!(hits_by_thread(watch_of(&info)).into_values().collect::<Vec<_>>(), [10]);
}

#[test]
fn more_records_than_are_wanted_stand_for_each_other() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let args =
        ["watch", "-o", "x.data", "--max-slowdown", "none", "--max-records", "2000", "counter"];
    scratch.pmuscope([&args[..], &["--", program_text(), "2", "20000"]].concat()).exits(0);
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.everyone_agrees();
    let watch = watch_of(&info);
    assert_eq!(hits_by_thread(watch).into_values().sum::<u64>(), 40_000);
    assert!(watch.every > 1 && info.samples() < 40_000, "{} of {}", info.samples(), watch.every);
    let mut stands_for = 0;
    recording.read(|entry| {
        if let Record::Sample(sample) = entry.record {
            stands_for += sample.period.unwrap();
        }
    });
    // The last records of each rate stand for hits that did not come any more, or not for all.
    assert!(stands_for.abs_diff(40_000) < 4_000, "{stands_for}");
}

#[test]
fn an_object_without_a_name_is_watched_behind_an_argument() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let mut program = start(&["1", "1"]);
    let pid = program.pid().to_string();
    let path = scratch.path("x.data");
    let watch = scratch.start(["watch", "-o", "x.data", "-p", &pid, "$2+8/8@finish"]);
    // It waits for the call, which comes when it is told.
    std::thread::sleep(std::time::Duration::from_millis(1000));
    program.tell("o\n");
    program.ends().exits(0).prints("done 40");
    watch.ends().exits(0).prints("argument 2 of finish was 0x").prints("finish");
    let recording = Recording::at(path);
    let info = recording.everyone_agrees();
    assert_eq!(watch_of(&info).targets[0].name, "$2+8/8@finish");
    let hits = hits(&recording);
    assert!(hits.len() > 5 && hits.len() < 40, "{} hits", hits.len());
    assert_eq!(hits.last().unwrap().0.value, 40);
    let early = scratch.pmuscope(["watch", "$2/8@finish", "--", program_text(), "1", "1"]);
    early.exits(125).complains("finish was not called");
}

#[test]
fn fields_and_lines_are_watched() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let line =
        include_str!("watched.c").lines().position(|line| line.contains("the line of writes"));
    let line = format!("watched.c:{}", line.unwrap() + 1);
    let targets = ["watch", "-o", "x.data", "server.done", &line];
    scratch.pmuscope([&targets[..], &["--", program_text(), "3", "20"]].concat()).exits(0);
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    let watch = watch_of(&info);
    let hits = |target: u32| {
        let own = |point: u32| watch.points[point as usize].target == target;
        let writers = watch.writers.iter().filter(|writer| own(writer.point));
        writers.map(|writer| writer.hits).sum::<u64>()
    };
    assert_eq!([hits(0), hits(1)], [1, 60]);
}

#[test]
fn hits_are_held_to_the_limit_and_the_rest_is_estimated() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let args = ["watch", "-o", "x.data", "--max-slowdown", "5", "counter", "--"];
    let program = [program_text(), "2", "5000000"];
    scratch.pmuscope([&args[..], &program].concat()).exits(0).prints("counter 10000000");
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    let watch = watch_of(&info);
    let hits: u64 = watch.writers.iter().map(|writer| writer.hits).sum();
    let armed = watch.armed_share().unwrap();
    assert!(hits > 100 && hits < 5_000_000, "{hits}");
    assert!(armed > 0.0 && armed < 0.9, "{armed}");
    // What may be spent before there is a limit is a tenth of a second.
    let spent = hits as f64 * watch.hit_cost.unwrap().ns;
    let work = watch.target_cpu_ns.unwrap() as f64 - spent;
    assert!(spent < 0.05 * work + 0.3e9, "{spent} of {work}");
    let of_blocks: u64 = watch.blocks.iter().flat_map(|block| &block.hits).sum();
    assert_eq!(of_blocks, hits);
}

/// 4,000 writes in a row: with cheap hits all are counted, with expensive ones a part. The first line says which.
#[test]
fn a_burst_is_counted_whole_or_its_first_line_says_how_many_there_were() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let args = ["watch", "-o", "x.data", "counter", "--", program_text(), "1", "4000"];
    scratch.pmuscope(args).exits(0).prints("counter 4000");
    let json = scratch.pmuscope(["watch", "--input", "x.data", "--json"]).exits(0).stdout.clone();
    crate::json::is_documented("watch", &json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let text = scratch.pmuscope(["watch", "--input", "x.data"]).exits(0).stdout.clone();
    let lines: Vec<&str> = text.lines().take(2).collect();
    let hits = json["targets"][0]["hits"].as_u64().unwrap();
    if hits == 4000 {
        let all = lines[0].contains(", 4,000 hits    ");
        let is_always = json["watch"]["armed_share"].as_f64().is_none_or(|share| share >= 0.999);
        assert_eq!(all, is_always, "{text}");
    } else {
        let says = lines[0].contains(" hits counted, ");
        assert!(hits < 4000 && says, "{text}");
        let has_estimate = ["all_the_time", "at_least"].map(|of| !json["targets"][0][of].is_null());
        assert_eq!(has_estimate.contains(&true), lines[0].contains(" in total"), "{text}");
    }
    let is_known = !json["watch"]["slowdown"].is_null();
    assert_eq!(is_known, lines[1].contains("slowdown ~"), "{text}");
}

#[test]
fn a_killed_watch_leaves_what_it_saw_and_the_program_goes_on() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let mut program = start(&["2", "300", "10000000"]);
    let pid = program.pid().to_string();
    let path = scratch.path("x.data");
    let watch = scratch.start(["watch", "-o", "x.data", "-p", &pid, "counter"]);
    watch.wait_until(|| has_begun(&path));
    program.tell("go\n");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    watch.signal(Signal::KILL);
    watch.ends().exits(128 + 9);
    program.ends().exits(0).prints("counter 600");
    let recording = Recording::at(path);
    let samples = recording.by_us().times.len() as u64;
    assert!(samples > 20, "{samples}");
    recording.everyone_reads(samples);
}

#[test]
fn more_points_than_slots_take_turns() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let targets = ["counter", "level", "text/8", "text+8/8", "server.kind", "server.done"];
    let args =
        [&["watch", "-o", "x.data"], &targets[..], &["--", program_text(), "2", "200", "5000000"]];
    scratch.pmuscope(args.concat()).exits(0);
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    let watch = watch_of(&info);
    let turns: std::collections::BTreeSet<_> =
        watch.blocks.iter().map(|block| &block.points).collect();
    assert_eq!(turns.len(), 2, "{turns:?}");
    let hits: u64 = watch.writers.iter().map(|writer| writer.hits).sum();
    assert!(hits > 40 && hits < 400, "{hits}");
}

#[test]
fn what_cannot_be_watched_is_said() {
    let scratch = Scratch::new();
    let refused = |args: &[&str], why: &str| {
        scratch.pmuscope([&["watch"], args].concat()).exits(2).complains(why).prints_nothing();
    };
    refused(&["counter"], "no target. Try: pmuscope watch TARGET -- COMMAND, or -p PID, or -a");
    refused(&["--when", "new >", "-p", "1", "counter"], "--when 'new > 10'");
    refused(&["--max-slowdown", "fast", "-p", "1", "counter"], "--max-slowdown fast");
    refused(
        &["--max-stack", "128", "-p", "1", "counter"],
        "--max-stack 128: the number must be from 0 to 127",
    );
    let program = start(&["1", "1"]);
    let pid = program.pid().to_string();
    refused(&["-p", &pid, "countr"], "counter");
    refused(&["-p", &pid, "step:w"], "step");
    refused(&["-p", "999999", "counter"], "999999");
    let missing = scratch.pmuscope(["watch", "counter", "--", "/no/such/program"]);
    missing.exits(127).complains("/no/such/program");
    // There is no value where an instruction is executed, and none that large in 4 bytes.
    if need_bpf().is_none() {
        scratch
            .pmuscope(["watch", "--when-changed", "step", "-p", &pid])
            .exits(2)
            .complains("step is watched for execution");
        scratch
            .pmuscope(["watch", "--when", "new > 0x1ffffffff", "level", "-p", &pid])
            .exits(2)
            .complains("level has 4 bytes and cannot be 8589934591");
    }
    // A program whose watch is refused does not run.
    for target in ["countr", "step:w", "libnone!counter"] {
        let refused = scratch.pmuscope(["watch", target, "--", program_text()]);
        refused.exits(2).complains(target).prints_nothing();
    }
}

#[test]
fn a_watch_ends_after_its_time_and_says_what_was_seen() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    // It would write for hours.
    let mut program = start(&["1", "100000000", "1000000"]);
    let pid = program.pid().to_string();
    program.tell("go\n");
    let watch = ["watch", "--timeout", "1500", "-o", "x.data", "-p", &pid, "counter"];
    scratch.pmuscope(watch).exits(0).prints("writes of counter, process").prints("step watched.c:");
    let info = Recording::at(scratch.path("x.data")).everyone_agrees();
    assert!(hits_by_thread(watch_of(&info)).into_values().sum::<u64>() > 0);
    program.signal(Signal::KILL);
    program.ends().exits(128 + Signal::KILL.as_raw());
}

#[test]
fn processes_are_watched_together_if_they_have_the_same_addresses() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let mut both = [start(&["1", "30"]), start(&["1", "20"])];
    let pids = both.each_ref().map(|one| one.pid().to_string()).join(",");
    let path = scratch.path("x.data");
    let watch = scratch.start(["watch", "-o", "x.data", "-p", &pids, "counter"]);
    watch.wait_until(|| has_begun(&path));
    both.iter_mut().for_each(|one| one.tell("go\n"));
    for one in both {
        one.ends().exits(0);
    }
    watch.ends().exits(0);
    let info = Recording::at(path).everyone_agrees();
    let mut hits: Vec<u64> = hits_by_thread(watch_of(&info)).into_values().collect();
    hits.sort_unstable();
    assert_eq!(hits, [20, 30]);

    let both = [start(&["1", "1"]), start_of(moved_program(), &["1", "1"])];
    let pids = both.each_ref().map(|one| one.pid().to_string()).join(",");
    let refused = scratch.pmuscope(["watch", "-p", &pids, "counter"]);
    refused
        .exits(2)
        .prints_nothing()
        .complains("a slot watches one address. Try: a watch for each");
}

/// As it may while it measures what a hit costs.
#[test]
fn a_trap_in_pmuscope_itself_ends_nothing_and_is_told_of() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let program = start(&["1", "10", "10000000"]);
    let pid = program.pid().to_string();
    let path = scratch.path("x.data");
    let watch = scratch.start(["watch", "-o", "x.data", "-p", &pid, "counter"]);
    watch.wait_until(|| has_begun(&path));
    watch.signal(Signal::TRAP);
    watch.signal(Signal::INT);
    watch.ends().exits(0).complains("SIGTRAP arrived in pmuscope itself");
}

#[test]
fn a_command_that_a_trap_ends_is_told_of() {
    skip_unless!(need_bpf());
    let scratch = Scratch::new();
    let own = ["watch", "libc.so.6!environ", "--", "sh", "-c", "kill -TRAP $$"];
    let told = scratch.pmuscope(own);
    told.exits(128 + Signal::TRAP.as_raw())
        .complains("warning: SIGTRAP ended the command: the kernel");
    let other = ["watch", "libc.so.6!environ", "--", "sh", "-c", "kill -TERM $$"];
    let other = scratch.pmuscope(other);
    other.exits(128 + Signal::TERM.as_raw());
    assert!(!other.stderr.contains("SIGTRAP ended the command"), "{other}");
}
