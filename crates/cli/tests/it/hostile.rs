//! Processes whose names would drive a terminal or a browser: every command that shows names of processes,
//! in every form that it has for people, shows them as text.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::harness::{Outcome, Scratch, Started, need_root, skip_unless};
use crate::recording::need_clock;
use crate::watch::program as watched;

/// Fifteen bytes, as long as a thread's name may be: color, a title, markup.
const NAME: &[u8] = b"\x1b[31m\x07<i>\"&'\xff";

/// A program of this name in the folder: the workload, so that nothing else need be built.
fn program(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("").join(OsStr::from_bytes(NAME));
    let program = env!("CARGO_BIN_EXE_pmuscope");
    if path.exists() {
        return path;
    }
    if fs::hard_link(program, &path).is_err() {
        fs::copy(program, &path).unwrap();
    }
    path
}

/// That nothing in a text for a terminal drives it, and that the name is in it.
#[track_caller]
fn is_harmless(text: &str, what: &str) {
    let drives = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!text.contains(drives), "{what}\n{}", text.escape_debug());
    assert!(text.contains("\\x1b[31m"), "{what} does not show the name\n{text}");
}

/// The same for a page or a picture.
#[track_caller]
fn page_is_harmless(scratch: &Scratch, file: &str) {
    let page = String::from_utf8(fs::read(scratch.path(file)).unwrap()).unwrap();
    assert!(!page.contains("<i>\"") && !page.contains("<i>&quot;"), "{file}");
    assert!(!page.contains('\x1b') && !page.contains('\x07'), "{file}");
    let shown = ["\\x1b[31m\\x07&lt;i", "\\\\x1b[31m\\\\x07\\u003ci"];
    assert!(shown.iter().any(|name| page.contains(name)), "{file} does not show the name");
}

/// `pmuscope ARGS -- NAME workload exact-loop`: its only thread has the name too.
#[track_caller]
fn of_command(scratch: &Scratch, args: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(args).arg("--").arg(program(scratch)).args(["workload", "exact-loop"]);
    command.args(["--rounds", "500000000"]).current_dir(scratch.path(""));
    Outcome::of(command.env("PMUSCOPE_CACHE", scratch.path("cache")))
}

/// The workload under this name, until it is killed.
fn running(scratch: &Scratch) -> Started {
    let mut command = Command::new(program(scratch));
    command.args(["workload", "share-mix", "--seconds", "300"]).stdin(Stdio::null());
    let started = Started::of(&mut command);
    let name = format!("/proc/{}/comm", started.pid());
    started.wait_until(|| fs::read(&name).is_ok_and(|comm| comm.starts_with(NAME)));
    started
}

#[test]
fn recordings_show_names_as_text() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let record = of_command(&scratch, &["record", "-g", "-e", "cpu-clock:u"]);
    assert!(!record.stderr.contains(|c: char| c.is_control() && c != '\n'), "{record}");
    is_harmless(&scratch.pmuscope(["report", "--by", "command"]).exits(0).stdout, "report");
    for args in [["report", "--call-tree"], ["report", "--modules"], ["script", "--ns"]] {
        is_harmless(&scratch.pmuscope(args).exits(0).stdout, args[0]);
    }
    for file in ["report.html", "flame.svg"] {
        scratch.pmuscope(["report", "-o", file]).exits(0);
        page_is_harmless(&scratch, file);
    }
    scratch.pmuscope(["report", "-o", "stacks.folded"]).exits(0);
    // This format has no escapes: what acts on a terminal is a replacement character.
    let folded = fs::read_to_string(scratch.path("stacks.folded")).unwrap();
    assert!(!folded.contains(|c: char| c.is_control() && c != '\n'), "{folded:?}");
    assert!(folded.contains("\u{fffd}[31m\u{fffd}<i>"), "{folded:?}");
    is_harmless(
        &scratch.pmuscope(["diff", "pmuscope.data", "pmuscope.data"]).exits(0).stdout,
        "diff",
    );
}

#[test]
fn counts_show_names_as_text() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let stat = of_command(&scratch, &["stat", "-e", "task-clock"]);
    is_harmless(&(stat.stdout.clone() + &stat.stderr), "stat");
    let sweep = of_command(&scratch, &["sweep", "-e", "^task-clock$", "-r", "2"]);
    is_harmless(&(sweep.stdout.clone() + &sweep.stderr), "sweep");
}

#[test]
fn placement_shows_names_as_text() {
    let scratch = Scratch::new();
    let started = running(&scratch);
    let pid = started.pid().to_string();
    let show = ["numa", "show", "-p", &pid, "--seconds", "0.5", "-I", "100"];
    scratch.pmuscope(show.iter().chain(&["-o", "placement.html"])).exits(0);
    page_is_harmless(&scratch, "placement.html");
    is_harmless(&scratch.pmuscope(show).exits(0).stdout, "numa show");
    let advise = scratch.pmuscope(["numa", "advise", "-p", &pid, "--seconds", "1"]);
    is_harmless(&advise.stdout, "numa advise");
}

#[test]
fn watches_show_names_as_text() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let target = scratch.path("").join(OsStr::from_bytes(NAME));
    fs::copy(watched(), &target).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["watch", "-o", "x.data", "counter", "--"]).arg(&target).args(["1", "500"]);
    let watch = Outcome::of(command.current_dir(scratch.path("")));
    is_harmless(&watch.exits(0).stdout, "watch");
    scratch.pmuscope(["report", "-i", "x.data", "-o", "watch.html"]).exits(0);
    page_is_harmless(&scratch, "watch.html");
}
