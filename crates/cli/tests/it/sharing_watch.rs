//! `pmuscope sharing --watch` on programs with threads that share cache lines in known ways: fields and verdict of each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::json::is_documented;
use pmuscope_testkit::sharing_file::{Memory, Pmu, example};

use crate::harness::{Outcome, Scratch, Started, need_program, need_root, skip_unless};

/// A virtual machine may lose the reason of a trap, and then the kernel ends the program (docs/watch.md).
const TRIES: u32 = 3;

/// What to watch, the verdict, and words with whether they are written; the others are only read.
type Case = (&'static str, &'static str, &'static [(&'static str, bool)]);

/// A word that is written. Whether it is read by another instruction before, compilers decide.
const fn written(name: &'static str) -> (&'static str, bool) {
    (name, true)
}

const fn read(name: &'static str) -> (&'static str, bool) {
    (name, false)
}

const C: &[Case] = &[
    // Initialized data.
    ("data_stats", "false_sharing", &[written("data_stats.hits"), written("data_stats.misses")]),
    // Data that starts as zero.
    ("counter", "true_sharing", &[written("counter[0]")]),
    ("mixed", "both", &[written("mixed.shared"), written("mixed.own")]),
    // A field names its line as well.
    ("settings.rate", "read_only", &[read("settings.limit"), read("settings.rate")]),
    ("alone", "one_thread", &[written("alone.first"), written("alone.second")]),
    ("packed", "false_sharing", &[written("packed.in.first"), written("packed.in.second")]),
    // Bit-fields of one byte are the same bytes; of several bytes they are not.
    ("bits", "true_sharing", &[written("bits.a/b")]),
    ("bytes", "false_sharing", &[written("bytes.low"), written("bytes.high")]),
    ("*heap", "false_sharing", &[written("heap->hits"), written("heap->misses")]),
    ("own@TID", "false_sharing", &[written("own.hits@TID"), written("own.misses@TID")]),
];

/// Cases of the C program without types: names of variables with offsets.
const C_UNTYPED: &[Case] = &[
    ("data_stats", "false_sharing", &[written("data_stats"), written("data_stats+0x8")]),
    ("counter", "true_sharing", &[written("counter")]),
    ("mixed", "both", &[written("mixed"), written("mixed+0x8")]),
    ("settings", "read_only", &[read("settings"), read("settings+0x4")]),
    ("bits", "true_sharing", &[written("bits")]),
    ("bytes", "false_sharing", &[written("bytes"), written("bytes+0x1")]),
];

const CPP: &[Case] = &[
    // A member of a base class, and one of the class.
    ("app::table", "false_sharing", &[written("app::table.reads"), written("app::table.writes")]),
    ("app::Meter::total", "true_sharing", &[written("app::Meter::total")]),
    ("app::config", "read_only", &[read("app::config.ready")]),
    (
        "*app::slot",
        "false_sharing",
        &[written("app::slot->value[0]"), written("app::slot->value[3]")],
    ),
    // Through a smart pointer.
    (
        "*app::owner",
        "false_sharing",
        &[written("app::owner->value[0]"), written("app::owner->value[3]")],
    ),
];

const RUST: &[Case] = &[
    ("QUEUE", "both", &[written("QUEUE.head"), written("QUEUE.tail")]),
    ("SLOTS", "false_sharing", &[written("SLOTS.__0[1]"), written("SLOTS.__0[9]")]),
    ("READY", "read_only", &[read("READY.__0")]),
    ("TOTAL", "true_sharing", &[written("TOTAL.__0[0]")]),
    ("*BOXED", "false_sharing", &[written("BOXED->head"), written("BOXED->tail")]),
];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lines").join(name)
}

/// Compiles a program of `lines/` with optimization and debug information.
fn compiled(scratch: &Scratch, compiler: &str, how: &[&str], name: &str) -> PathBuf {
    let program = scratch.path("lines");
    let mut command = Command::new(compiler);
    command.args(how).arg("-o").arg(&program).arg(source(name));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    program
}

fn start(program: &Path) -> Started {
    let started = Started::of(Command::new(program).stdin(Stdio::piped()));
    started.wait_until(|| started.said("ready"));
    started
}

/// On a busy machine a program gets less done: then it is watched for longer.
const TIMEOUTS: [&str; 3] = ["600ms", "3s", "20s"];

/// Watches until the program survives it.
fn watched(
    scratch: &Scratch,
    program: &Path,
    target: &str,
    (timeout, more): (&str, &[&str]),
) -> (u32, Outcome) {
    for _ in 0..TRIES {
        let running = start(program);
        let pid = running.pid();
        let target = target.replace("TID", &pid.to_string());
        let pid_text = pid.to_string();
        let args = ["sharing", "--watch", &target, "-p", &pid_text, "--timeout", timeout];
        let watched = scratch.pmuscope(args.iter().chain(more));
        running.signal(Signal::TERM);
        if running.ends().code() == 128 + Signal::TERM.as_raw() {
            return (pid, watched);
        }
    }
    panic!("the program was ended with SIGTRAP {TRIES} times");
}

fn check(scratch: &Scratch, program: &Path, cases: &[Case]) {
    for (target, verdict, expected) in cases {
        let found = TIMEOUTS.map(|timeout| (timeout, &["--json"][..])).into_iter();
        let found = found.map(|how| {
            let (pid, watched) = watched(scratch, program, target, how);
            (pid, serde_json::from_str::<Value>(&watched.exits(0).stdout).unwrap())
        });
        let is_known = |found: &Value| {
            let verdict = found["lines"][0]["verdict"].as_str();
            verdict.is_some_and(|verdict| !["not_enough", "inconclusive"].contains(&verdict))
        };
        let (pid, found) = found.into_iter().find(|(_, found)| is_known(found)).unwrap_or_default();
        let line = &found["lines"][0];
        assert_eq!(line["verdict"], *verdict, "{target}: {line}");
        let words: Vec<&Value> = line["words"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|word| word["reads"] != 0 || word["writes"] != 0)
            .collect();
        let names: Vec<String> =
            expected.iter().map(|one| one.0.replace("TID", &pid.to_string())).collect();
        let found: Vec<&str> = words.iter().map(|word| word["word"].as_str().unwrap()).collect();
        assert_eq!(found, names, "{target}");
        for (word, (name, is_written)) in words.iter().zip(*expected) {
            let number = |key: &str| word[key].as_u64().unwrap();
            assert_eq!(number("writes") > 0, *is_written, "{target}: {name}: {word}");
            assert!(*is_written || number("reads") > 20, "{target}: {name}: {word}");
        }
    }
}

#[test]
fn lines_of_a_c_program_are_judged_with_their_fields() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let program = compiled(&scratch, "cc", &["-g", "-O2", "-pthread"], "lines.c");
    check(&scratch, &program, C);
}

/// Without types a word may be several variables, or a part of one.
#[test]
fn lines_without_types_are_judged_by_accesses_to_parts() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let program = compiled(&scratch, "cc", &["-g0", "-O2", "-pthread"], "lines.c");
    check(&scratch, &program, C_UNTYPED);
    // A command has no looks at halves before it is watched.
    let program = program.to_str().unwrap();
    let args = ["sharing", "--watch", "bytes", "--timeout", "2s", "--", program];
    let watched = scratch.pmuscope(args);
    watched
        .prints("inconclusive: cache line 0x")
        .prints("no type says whether they use the same bytes");
}

#[test]
fn lines_of_a_cpp_program_are_judged_with_their_fields() {
    skip_unless!(need_root());
    skip_unless!(need_program("g++", "--version"));
    let scratch = Scratch::new();
    let program = compiled(&scratch, "g++", &["-g", "-O2", "-std=c++17", "-pthread"], "lines.cpp");
    check(&scratch, &program, CPP);
}

#[test]
fn lines_of_a_rust_program_are_judged_with_their_fields() {
    skip_unless!(need_root());
    skip_unless!(need_program("rustc", "--version"));
    let scratch = Scratch::new();
    let program = compiled(&scratch, "rustc", &["-g", "-O", "--edition", "2021"], "lines.rs");
    check(&scratch, &program, RUST);
}

#[test]
fn transfers_name_the_write_and_the_access_after_it() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let program = compiled(&scratch, "cc", &["-g", "-O2", "-pthread"], "lines.c");
    let (_, text) = watched(&scratch, &program, "data_stats", ("3s", &[]));
    text.exits(0)
        .prints("false sharing: cache line 0x")
        .prints("data_stats.hits")
        .prints("data_hits lines.c:")
        .prints("after write of")
        .prints("Give each thread's word its own cache line");
    let (_, found) = watched(&scratch, &program, "data_stats", ("3s", &["--json"]));
    is_documented("sharing-watch", &found.stdout);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let transfers = found["lines"][0]["transfers"].as_array().unwrap();
    assert!(!transfers.is_empty());
    for transfer in transfers {
        let side = |key: &str| {
            let side = &transfer[key];
            (side["word"].as_str().unwrap(), side["function"].as_str().unwrap())
        };
        let sides = [side("from"), side("to")];
        assert!(
            sides == [("data_stats.hits", "data_hits"), ("data_stats.misses", "data_misses")]
                || sides
                    == [("data_stats.misses", "data_misses"), ("data_stats.hits", "data_hits")],
            "{transfer}"
        );
        assert_ne!(transfer["from"]["thread"]["tid"], transfer["to"]["thread"]["tid"]);
    }
    // Two threads that each read and write their word once a millisecond take the line from each other each time.
    let moved: u64 = transfers.iter().map(|one| one["transfers"].as_u64().unwrap()).sum();
    assert!(moved > 50, "{moved}");
}

/// Address of a variable of a program that is not moved.
fn address(program: &Path, name: &str) -> u64 {
    let symbols = Command::new("nm").arg(program).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

/// The line that samples found, in the process that they are of, and by the name of its variable in another one.
#[test]
fn a_sampled_line_is_watched_in_its_process() {
    skip_unless!(need_root());
    skip_unless!(need_program("nm", "--version"));
    let scratch = Scratch::new();
    let how = ["-g", "-O2", "-pthread", "-no-pie", "-fno-pie"];
    let program = compiled(&scratch, "cc", &how, "lines.c");
    let simulated = example(Pmu::Pebs);
    // The second line of the example is the one with false sharing.
    let first = address(&program, "data_stats") - 64;
    let mappings = vec![(first & !0xfff, 0x2000, 0, 0, "[heap]".into())];
    for _ in 0..TRIES {
        let running = start(&program);
        let memory = Memory { pid: running.pid(), first, mappings: mappings.clone(), code: None };
        simulated.run().write_in(&simulated, &scratch.path("x.data"), &memory);
        let args = ["sharing", "x.data", "--watch", "2", "--timeout", "3s"];
        let text = scratch.pmuscope(args);
        let found = scratch.pmuscope(args.iter().chain(&["--json"]));
        running.signal(Signal::TERM);
        if running.ends().code() != 128 + Signal::TERM.as_raw() {
            continue;
        }
        text.exits(0).prints("false sharing: cache line").prints("sampled HITM").prints("~HITM");
        is_documented("sharing-watch", &found.exits(0).stdout);
        let found: Value = serde_json::from_str(&found.stdout).unwrap();
        let words = found["lines"][0]["words"].as_array().unwrap();
        let name = |at: usize| words[at]["word"].as_str().unwrap();
        assert_eq!((name(0), name(1)), ("data_stats.hits", "data_stats.misses"));
        for word in &words[..2] {
            assert!(word["sampled_contended"].as_u64().unwrap() > 100, "{word}");
            assert!(word["sampled_stores"].as_u64().unwrap() > 100, "{word}");
        }
        let none = scratch.pmuscope(["sharing", "x.data", "--watch", "9"]);
        none.exits(2).complains("--watch 9: no such line. Try: 1 to 3");
        let ended = scratch.pmuscope(args);
        ended.exits(2).complains("it has ended");
        return;
    }
    panic!("the program was ended with SIGTRAP {TRIES} times");
}

#[test]
fn what_has_no_line_is_refused() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let program = compiled(&scratch, "cc", &["-g", "-O2", "-pthread"], "lines.c");
    let running = start(&program);
    let pid = running.pid().to_string();
    let refused = |args: &[&str], why: &str| {
        let all = ["sharing", "--watch"].iter().chain(args);
        scratch.pmuscope(all).exits(2).complains(why);
    };
    refused(
        &["main", "-p", &pid],
        "cannot watch the cache line of main: it is not data of a process",
    );
    refused(&["counter"], "--watch: no process to watch. Try: -p PID, or -- CMD");
    refused(&["counter", "-p", &pid, "--", "true"], "-p and -- CMD are different targets");
    refused(&["nothing", "-p", &pid], "no variable or function nothing");
    refused(&["3", "-p", &pid], "no recording here");
    scratch
        .pmuscope(["sharing", "--timeout", "1s"])
        .exits(2)
        .complains("--timeout: needs --watch LINE");
    drop(running);
}

#[test]
fn a_line_of_a_command_is_watched_from_its_start() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let program = compiled(&scratch, "cc", &["-g", "-O2", "-pthread"], "lines.c");
    let program = program.to_str().unwrap();
    // Neighboring words are watched at different times: there are more of them than debug registers.
    let args = ["sharing", "--watch", "counter", "--timeout", "2s", "--", program];
    let watched = scratch.pmuscope(args);
    watched.prints("true sharing: cache line 0x").prints("counter[0]").prints("count lines.c:");
    // The word with accesses has two debug registers in its turn.
    watched.prints("after write of").prints("7 more words without accesses, each enabled for ");
}
