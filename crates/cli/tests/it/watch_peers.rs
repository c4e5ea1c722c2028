//! `pmuscope watch` beside a debugger, on programs of Debian.

use std::fs;
use std::process::Command;

use pmuscope_perfdata::watch::HitFlags;

use crate::harness::{Outcome, Scratch, need_program, need_root, skip_unless};
use crate::recording::Recording;
use crate::watch::{hits, watch_of};

/// Threads that sleep and work in turn: each time another one has the interpreter's lock, this steps by one.
const VARIABLE: &str = "_PyRuntime.ceval.gil.switch_number";
const SCRIPT: &str = "\
import threading, time
def work():
    for i in range(8):
        time.sleep(0.001)
threads = [threading.Thread(target=work) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
";

/// The interpreter that Debian builds for debugging, with its debug information.
fn need_python() -> Option<String> {
    need_program("python3-dbg", "--version")
}

/// What gdb says at each hit of its own watchpoint: the value, then the place.
fn by_gdb(scratch: &Scratch) -> Outcome {
    let commands = format!(
        "set pagination off\nset confirm off\nset print frame-arguments none\nbreak main\nrun\n\
         watch {VARIABLE}\ncommands\nsilent\nprintf \"hit %lu\\n\", {VARIABLE}\nbt 1\ncontinue\nend\ncontinue\n"
    );
    fs::write(scratch.path("commands"), commands).unwrap();
    let args = ["-nx", "-batch", "-q", "-x", "commands", "--args", "python3-dbg", "work.py"];
    let mut command = Command::new("gdb");
    command.args(args).current_dir(scratch.path(""));
    Outcome::of(command.env("DEBUGINFOD_URLS", ""))
}

#[test]
fn a_debugger_sees_the_same_writes_at_the_same_place() {
    skip_unless!(need_root());
    skip_unless!(need_program("gdb", "--version"));
    skip_unless!(need_python());
    let scratch = Scratch::new();
    fs::write(scratch.path("work.py"), SCRIPT).unwrap();
    let gdb = by_gdb(&scratch);
    let said = gdb.exits(0).stdout.lines();
    let values: Vec<u64> =
        said.filter_map(|line| line.strip_prefix("hit ")?.parse().ok()).collect();
    assert!(values.len() > 8, "{gdb}");
    // From the second on: gdb begins in main, when the first thread has the lock already or not yet.
    assert!(values.windows(2).all(|two| two[1] == two[0] + 1), "{values:?}");
    let frames = gdb.stdout.lines().filter_map(|line| line.strip_prefix("#0 "));
    let frames: Vec<&str> = frames.map(str::trim).collect();
    assert!(frames.iter().all(|frame| frame.contains("take_gil")), "{frames:?}");

    let args = ["watch", "-o", "x.data", VARIABLE, "--", "python3-dbg", "work.py"];
    scratch.pmuscope(args).exits(0);
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.everyone_agrees();
    let hits = hits(&recording);
    assert!(hits.len() > 8, "{} hits", hits.len());
    for (number, (hit, _)) in hits.iter().enumerate() {
        let number = number as u64;
        assert_eq!((hit.value, hit.old), (number + 1, number));
        assert!(hit.flags.contains(HitFlags::VALUE | HitFlags::OLD));
    }
    let watch = watch_of(&info);
    let threads: std::collections::BTreeSet<u32> =
        watch.writers.iter().map(|writer| writer.tid).collect();
    assert_eq!(threads.len(), 5, "four threads and the first");
    assert!(watch.writers.iter().all(|writer| writer.hits == writer.plus_one));
    // The same line: gdb tells the one it has come to, which is the one behind the write or the same.
    let line = |place: &str| place.rsplit(':').next().unwrap().trim().parse::<i64>().unwrap();
    let by_gdb = line(frames[0]);
    let report = scratch.pmuscope(["report", "--json", "--by", "line", "x.data"]);
    report.exits(0).prints("ceval_gil.h");
    let at = report.stdout.find("ceval_gil.h:").unwrap() + "ceval_gil.h:".len();
    let digits = report.stdout[at..].chars().take_while(char::is_ascii_digit);
    let by_us: i64 = digits.collect::<String>().parse().unwrap();
    assert!((by_gdb - by_us).abs() <= 1, "{by_gdb} {by_us}\n{report}");
}
