//! `pmuscope browse` on a terminal of its own: every view, every key.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::{Scratch, need_perf_record, need_program, skip_unless};
use crate::recording::{busy, need_root_clock};
use crate::top_screen::need_pseudo_terminal;

/// Why it cannot be tried; `None` if it can.
fn need_terminal() -> Option<String> {
    let gcc = || need_program("gcc", "--version");
    let python = || need_program("python3", "--version");
    need_root_clock().or_else(python).or_else(gcc).or_else(need_pseudo_terminal)
}

/// Two threads with names, and functions that call one another.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
static volatile unsigned long sink;
__attribute__((noinline)) void leaf_hash(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i * i;
}
__attribute__((noinline)) void parse_line(void) { leaf_hash(200000); sink++; }
__attribute__((noinline)) void send_reply(void) { leaf_hash(50000); sink++; }
static void *parser(void *end) {
    pthread_setname_np(pthread_self(), "parser");
    for (int i = 0; i < *(int *)end; i++) parse_line();
    return 0;
}
static void *sender(void *end) {
    pthread_setname_np(pthread_self(), "sender");
    for (int i = 0; i < *(int *)end; i++) send_reply();
    return 0;
}
int main(void) {
    pthread_t one, two;
    int rounds = 1200;
    pthread_create(&one, 0, parser, &rounds);
    pthread_create(&two, 0, sender, &rounds);
    pthread_join(one, 0);
    pthread_join(two, 0);
}
"#;

/// A recording of that program, with callchains.
fn recorded() -> Scratch {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("program.c"), PROGRAM).unwrap();
    // Without optimization every function has a frame.
    let flags = "-g -O0 -fno-omit-frame-pointer -pthread -o program program.c";
    scratch.run("gcc", flags.split(' ')).exits(0);
    let args = ["record", "-g", "-e", "cpu-clock", "-F", "997", "-o", "x.data", "--", "./program"];
    scratch.pmuscope(args).exits(0);
    scratch
}

/// What came of `browse` with these flags, doing as `steps` say.
#[track_caller]
fn browse(scratch: &Scratch, flags: &[&str], steps: &Value) -> Value {
    let steps = steps.to_string();
    let driver = ["-c", include_str!("pty.py"), &steps, env!("CARGO_BIN_EXE_pmuscope"), "browse"];
    let outcome = scratch.run("python3", driver.iter().chain(flags));
    let ended: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let mut screens = String::new();
    for screen in ended["screens"].as_array().unwrap() {
        let _ = writeln!(screens, "{}\n---", screen.as_str().unwrap());
    }
    assert_eq!(ended["failure"], Value::Null, "{screens}");
    assert_eq!((&ended["status"], &ended["restored"]), (&json!(0), &json!(true)), "{screens}");
    ended
}

/// The screen after a step.
fn screen(ended: &Value, step: usize) -> &str {
    ended["screens"][step].as_str().unwrap()
}

#[test]
fn views_by_number_and_rows_sorted_and_filtered() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    let ended = browse(
        &scratch,
        &["x.data"],
        &json!([
            ["wait", "functions by self ·"],
            ["wait", "? help"],
            ["send", "s"],
            ["wait", "functions by width of the 95% CI"],
            ["send", "s"],
            ["wait", "functions by total"],
            ["send", "R"],
            ["wait", "by total, reversed"],
            ["send", "SS"],
            ["wait", "functions by self ·"],
            ["send", "/send_"],
            ["wait", "filter: rows with send_"],
            ["send", "\u{7f}\u{7f}x\u{7f}_reply\r"],
            ["wait", "rows with sen_reply"],
            ["wait", "no lines"],
            ["send", "/\u{1b}"],
            ["gone", "rows with"],
            ["send", "2"],
            ["wait", "call tree, callees indented"],
            ["wait", "- parse_line"],
            ["send", "C"],
            ["gone", "leaf_hash"],
            ["send", "E"],
            ["wait", "leaf_hash"],
            ["send", "3"],
            ["wait", "callers of sampled functions"],
            ["wait", "+ leaf_hash"],
            ["send", "\r"],
            ["wait", "parse_line"],
            ["send", "\u{1b}[D"],
            ["gone", "parse_line"],
            ["send", "4"],
            ["wait", "threads by share · 1 of"],
            ["send", "5"],
            ["wait", "processes by share · 1 of"],
            ["send", "6"],
            ["wait", "comms by share · 1 of"],
            ["send", "7"],
            ["wait", "CPUs by share"],
            ["send", "8"],
            ["wait", "DSOs by share"],
            ["send", "9"],
            ["wait", "time by thread, cursor 0.000"],
            ["send", "bb"],
            ["wait", "time by function"],
            ["send", "\u{1b}"],
            ["wait", "DSOs by share"],
            ["send", "\u{1b}"],
            ["wait", "CPUs by share"],
            ["send", "?"],
            ["wait", "drop the last filter"],
            ["send", "x"],
            ["gone", "drop the last filter"],
            ["send", "q"],
        ]),
    );
    let first = screen(&ended, 1);
    for part in ["overhead: ", "lost 0", "95% CI", "total", "no filter", "? help"] {
        assert!(first.contains(part), "{part}\n{first}");
    }
}

/// Of a large recording functions are drawn before callers and threads are read, and these follow.
#[test]
fn of_a_large_recording_functions_come_first() {
    skip_unless!(need_terminal());
    let scratch = Scratch::new();
    pmuscope_testkit::distinct_stacks::write(600_000, &scratch.path("large.data")).unwrap();
    let bytes = std::fs::metadata(scratch.path("large.data")).unwrap().len();
    assert!(bytes >= 64 << 20, "{bytes} bytes are not large");
    let ended = browse(
        &scratch,
        &["large.data"],
        &json!([
            ["wait", "functions by self"],
            ["gone", "being read"],
            ["send", "4"],
            ["wait", "threads by share"],
            ["send", "2"],
            ["wait", "call tree, callees indented"],
            ["send", "q"],
        ]),
    );
    // Blanks are not written.
    let raw = ended["raw"].as_str().unwrap();
    assert!(raw.contains("callers,"), "{raw}");
}

/// Each filter is seen, can be undone, and is in the command that the browser prints at its end; that command counts
/// the same samples.
#[test]
fn filters_add_up_and_their_command_prints_the_same() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    let ended = browse(
        &scratch,
        &[
            "-i",
            "x.data",
            "--no-symbol-cache",
            "--comm",
            "parser,sender",
            "--time",
            "10%-90%",
            "--focus",
            "=leaf_hash",
        ],
        &json!([
            ["wait", "functions by self ·"],
            ["send", "4"],
            ["wait", "threads by share"],
            ["send", "t"],
            ["wait", "> thread "],
            ["send", "1"],
            ["wait", "functions by self ·"],
            ["send", "/parse_line\r"],
            ["wait", "> rows with parse_line"],
            ["send", "x"],
            ["wait", "> through parse_line"],
            ["send", "9"],
            ["wait", "time by thread"],
            ["send", "\u{1b}[C\u{1b}[C "],
            ["wait", "span 0."],
            ["send", "\u{1b}[F\u{1b}[D\u{1b}[D\u{1b}[D\r"],
            ["wait", "> time 0."],
            ["send", "8"],
            ["wait", "DSOs by share"],
            ["send", "d"],
            ["wait", "> DSO program"],
            ["send", "z"],
            ["gone", "> DSO program"],
            ["send", "1"],
            ["wait", "functions by self ·"],
            ["send", ":"],
            ["wait", "the command that prints this view"],
            ["send", " "],
            ["gone", "the command that prints this view"],
            ["send", "Q"],
        ]),
    );
    let raw = ended["raw"].as_str().unwrap();
    let line = raw.lines().rev().find(|line| line.contains("pmuscope report")).unwrap();
    let line = line.rsplit('\u{1b}').next().unwrap();
    let line = &line[line.find("pmuscope report").unwrap()..];
    for part in [
        "--no-symbol-cache",
        "--comm parser,sender",
        "--tid ",
        "--focus '=leaf_hash' --",
        "--focus '=parse_line'",
        "--time ",
    ] {
        assert_eq!(line.matches(part).count(), 1, "{part}: {line}");
    }
    let crumbs = screen(&ended, 26).lines().find(|line| line.contains("· filter: ")).unwrap();
    let seen: u64 = crumbs.split(' ').next().unwrap().replace(',', "").parse().unwrap();
    let program = env!("CARGO_BIN_EXE_pmuscope");
    let script = line.trim_end().replacen("pmuscope", program, 1) + " --json";
    let report = scratch.run("sh", ["-c", &*script]);
    let report: Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
    assert_eq!(
        report["recording"]["filter"]["samples_kept"].as_u64(),
        Some(seen),
        "{crumbs}\n{line}"
    );
    let crumbs = screen(&ended, 26);
    assert!(
        seen > 0 && crumbs.contains("> thread ") && crumbs.contains("> through parse_line"),
        "{crumbs}"
    );
}

#[test]
fn a_line_has_a_menu_and_a_function_its_callers_and_code() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    let ended = browse(
        &scratch,
        &["x.data"],
        &json!([
            ["wait", "functions by self ·"],
            ["send", "/parse_line\r"],
            ["wait", "rows with parse_line"],
            ["send", "\r"],
            ["wait", "annotate parse_line"],
            ["send", "\u{1b}[B\r"],
            ["wait", "callers and callees of parse_line [program]"],
            ["wait", "callee    leaf_hash [program]"],
            ["send", "\u{1b}[B\r"],
            ["wait", "callers and callees of leaf_hash [program]"],
            ["wait", "filter: comm parser"],
            ["send", "a"],
            ["wait", "code of leaf_hash"],
            ["wait", "sink += i * i"],
            ["send", "s/imul\r"],
            ["wait", "search: imul"],
            ["send", "\u{1b}"],
            ["wait", "callers and callees of leaf_hash"],
            ["send", "v"],
            ["wait", "waits off the CPU"],
            ["send", "w"],
            ["wait", "has no context-switch records"],
            ["send", "\u{1b}"],
            ["wait", "callers and callees of leaf_hash"],
            ["send", "vl"],
            ["wait", "samples one by one · 1 of"],
            ["send", "\u{1b}i"],
            ["wait", "DSOs and their symbols"],
            ["wait", "DSO (binary or shared library)"],
            ["send", "e"],
            ["wait", "export to"],
            ["send", "\u{7f}".repeat(20) + "modules.txt\r"],
            ["wait", "wrote modules.txt"],
            ["send", "1e"],
            ["wait", "export to"],
            ["send", "\r"],
            ["wait", "wrote rows.csv"],
            ["send", "P"],
            ["wait", "export to"],
            ["send", "\u{7f}".repeat(20) + "none/x.csv\r"],
            ["wait", "none/x.csv was not written"],
            ["send", "q"],
        ]),
    );
    drop(ended);
    let rows = std::fs::read_to_string(scratch.path("rows.csv")).unwrap();
    assert!(rows.contains("leaf_hash"), "{rows}");
    let modules = std::fs::read_to_string(scratch.path("modules.txt")).unwrap();
    assert!(modules.contains("/program"), "{modules}");
}

/// Each is opened by its key in the menu, shows what its command prints or why it cannot, and is left by Esc.
#[test]
fn every_view_of_the_menu_opens() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    let mut steps = vec![json!(["wait", "functions by self ·"])];
    for (key, title, shown) in [
        ("w", "waits off the CPU, failed", "has no context-switch records"),
        ("m", "metrics of functions, failed", "no windows: its samples"),
        ("h", "hits of watchpoints, failed", "not recorded by pmuscope watch"),
        ("s", "shared cache lines, failed", "no shared cache lines"),
        ("b", "branches · 1 of", "0 branches of 0 samples"),
        ("y", "memory levels of accesses · 1 of", "0 sampled accesses to memory"),
        ("f", "fields accessed · 1 of", "0 data addresses in"),
        ("l", "samples one by one · 1 of", "cpu-clock"),
        ("i", "DSOs and their symbols · 1 of", "DSO (binary or shared library)"),
    ] {
        steps.extend([
            json!(["send", "v"]),
            json!(["wait", "waits off the CPU"]),
            json!(["send", key]),
            json!(["wait", title]),
            json!(["wait", shown]),
            json!(["send", "\u{1b}"]),
            json!(["wait", "functions by self ·"]),
        ]);
    }
    for (key, state) in [
        ("1", "functions by self"),
        ("2", "call tree, callees indented"),
        ("3", "callers of sampled functions"),
        ("4", "threads by share"),
        ("5", "processes by share"),
        ("6", "comms by share"),
        ("7", "CPUs by share"),
        ("8", "DSOs by share"),
        ("9", "time by thread"),
    ] {
        steps.extend([
            json!(["send", "v"]),
            json!(["wait", "waits off the CPU"]),
            json!(["send", key]),
            json!(["wait", state]),
            json!(["gone", "waits off the CPU"]),
        ]);
    }
    steps.push(json!(["send", "q"]));
    browse(&scratch, &["x.data"], &Value::from(steps));
}

/// Keys that no other test presses.
#[test]
fn keys_move_keep_and_turn() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    let record = "record -g -e cpu-clock,task-clock -F 997 -o two.data -- ./program";
    scratch.pmuscope(record.split(' ')).exits(0);
    let (up, down) = ("\u{1b}[A", "\u{1b}[B");
    let (page_up, page_down) = ("\u{1b}[5~", "\u{1b}[6~");
    let (home, end, left, tab, back_tab) = ("\u{1b}[H", "\u{1b}[F", "\u{1b}[D", "\t", "\u{1b}[Z");
    let steps = [
        ("wait", "functions by self · 1 of"),
        ("wait", "samples of cpu-clock"),
        ("send", tab),
        ("wait", "samples of task-clock"),
        ("send", back_tab),
        ("wait", "samples of cpu-clock"),
        ("send", down),
        ("wait", "functions by self · 2 of"),
        ("send", up),
        ("wait", "functions by self · 1 of"),
        ("send", end),
        ("gone", "functions by self · 1 of"),
        ("send", home),
        ("wait", "functions by self · 1 of"),
        ("send", page_down),
        ("gone", "functions by self · 1 of"),
        ("send", page_up),
        ("wait", "functions by self · 1 of"),
        ("send", " "),
        ("gone", "functions by self · 1 of"),
        ("send", home),
        ("send", "/leaf_hash\r"),
        ("wait", "rows with leaf_hash"),
        ("send", "m"),
        ("wait", "keep samples in leaf_hash"),
        ("send", "f"),
        ("wait", "filter: in leaf_hash"),
        ("send", "c"),
        ("wait", "in leaf_hash > comm "),
        ("send", "Z"),
        ("wait", "no filter"),
        ("send", "n"),
        ("wait", "callers and callees of leaf_hash"),
        ("send", left),
        ("wait", "functions by self"),
        ("send", "k"),
        ("wait", "DSO [kernel.kallsyms]"),
        ("send", "Z4"),
        ("wait", "threads by share"),
        ("send", "p"),
        ("wait", "filter: process "),
        ("send", "Z7"),
        ("wait", "CPUs by share"),
        ("send", "u"),
        ("wait", "filter: CPU "),
        ("send", "o"),
        ("wait", "> node 0"),
        ("send", "Z2"),
        ("wait", "- parse_line"),
        ("send", "+"),
        ("gone", "- parse_line"),
        ("send", "+"),
        ("wait", "- parse_line"),
        ("send", "h"),
        ("wait", "drop the last filter"),
        ("send", "h"),
        ("gone", "drop the last filter"),
        ("send", "1/leaf_hash\ra"),
        ("wait", "code of leaf_hash"),
        ("wait", "sink += i * i"),
        ("send", "s/mov\r"),
        ("wait", "search: mov"),
        ("send", "nH"),
        ("wait", "assembly, % of function, hottest "),
        ("send", "p"),
        ("wait", "% of all samples"),
        ("send", "@"),
        ("wait", "@: no such key here (? lists them)"),
        ("send", "Q"),
    ];
    let steps = steps.map(|(what, text)| json!([what, text]));
    let ended = browse(&scratch, &["two.data"], &Value::from(steps.to_vec()));
    let raw = ended["raw"].as_str().unwrap();
    assert!(raw.contains("--annotate leaf_hash"), "{raw}");
}

/// At any time: intervals may not be counted yet.
#[test]
fn the_terminal_is_given_back_and_small_ones_are_drawn_on() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    for signal in [1, 2, 15] {
        browse(&scratch, &["x.data"], &json!([["wait", "functions by self"], ["signal", signal]]));
    }
    browse(
        &scratch,
        &["x.data"],
        &json!([
            ["wait", "functions by self"],
            ["resize", 10, 60],
            ["wait", "functions by self"],
            ["send", "9v"],
            ["resize", 2, 8],
            ["resize", 1, 1],
            ["send", "\u{1b}2"],
            ["resize", 24, 80],
            ["wait", "call tree"],
            ["wait", "? help"],
            ["send", "\u{3}"],
        ]),
    );
}

/// It draws another size when the next one comes, and a key right after that.
#[test]
fn keys_and_sizes_that_come_together_are_all_taken() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    let mut steps = vec![json!(["wait", "functions by self"])];
    for (key, state) in [("2", "call tree"), ("1", "functions by self")].repeat(15) {
        steps.extend([
            json!(["resize", 20, 90]),
            json!(["resize", 21, 91]),
            json!(["send", key]),
            json!(["wait", state]),
        ]);
    }
    // The beginning of a sequence that never goes on.
    steps.extend([json!(["send", "\u{1b}["]), json!(["signal", 15])]);
    browse(&scratch, &["x.data"], &Value::from(steps));
}

#[test]
fn a_command_that_is_killed_takes_nothing_with_it() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    let kill = "pkill -KILL -P $(pgrep -n -f '[b]rowse killed.data')";
    std::fs::rename(scratch.path("x.data"), scratch.path("killed.data")).unwrap();
    browse(
        &scratch,
        &["killed.data"],
        &json!([
            ["wait", "functions by self ·"],
            ["send", "a"],
            ["run", kill],
            ["wait", "code of "],
            ["send", "q"],
        ]),
    );
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    browse(&scratch, &["x.data"], &json!([["wait", "functions by self"], ["close"]]));
}

#[test]
fn without_a_terminal_it_says_what_to_type() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("x.data"), "x").unwrap();
    for args in [&["browse", "x.data"][..], &["report", "--tui", "x.data"]] {
        scratch.pmuscope(args).exits(2).prints_nothing().complains("Try: pmuscope report");
    }
    let with_file = ["report", "--tui", "-o", "x.csv", "x.data"];
    scratch.pmuscope(with_file).exits(2).prints_nothing().complains("--tui draws on the terminal");
}

#[test]
fn a_recording_of_perf_is_looked_around_in() {
    skip_unless!(need_terminal());
    skip_unless!(need_perf_record(true));
    let scratch = Scratch::new();
    let args = ["record", "-q", "-B", "-N", "-g", "-e", "cpu-clock", "-o", "perf.data", "--"];
    scratch.run("perf", args.iter().chain(&busy("0.5"))).exits(0);
    browse(
        &scratch,
        &[],
        &json!([
            ["wait", "functions by self ·"],
            ["wait", "perf.data"],
            ["send", "2"],
            ["wait", "call tree"],
            ["send", "q"],
        ]),
    );
}

/// Rows that the report has as `hash (inlined into rounds)`, and nameless ones.
const INLINED: &str = r#"
static volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long hash(unsigned long n) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) sum += i * i ^ sink;
    return sum;
}
__attribute__((noinline)) void rounds(unsigned long n) { sink += hash(n); sink++; }
__attribute__((noinline)) void others(unsigned long n) { sink += hash(n); sink--; }
int main(void) {
    for (int i = 0; i < 600; i++) { rounds(200000); others(100000); }
}
"#;

/// `a` opens on each row of the report, at its hottest line; twins of one bare name are rows of their own.
#[test]
fn code_opens_on_every_row() {
    skip_unless!(need_terminal());
    let scratch = Scratch::new();
    std::fs::write(scratch.path("program.c"), INLINED).unwrap();
    scratch.run("gcc", "-g -O2 -o program program.c".split(' ')).exits(0);
    scratch.pmuscope("record -e cpu-clock -F 997 -o x.data -- ./program".split(' ')).exits(0);
    let report = scratch.pmuscope(["report", "x.data", "--json"]);
    let report: Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
    let functions = report["events"][0]["functions"].as_array().unwrap();
    let rows: Vec<&Value> =
        functions.iter().filter(|row| row["samples"].as_u64() > Some(0)).take(8).collect();
    let outer: Vec<&str> = rows
        .iter()
        .filter(|row| row["function"] == "hash")
        .filter_map(|row| row["inlined_into"].as_str())
        .collect();
    assert_eq!(outer, ["rounds", "others"], "{functions:?}");
    let mut steps = vec![json!(["wait", "functions by self · 1 of"])];
    for (at, row) in rows.iter().enumerate() {
        let name = row["function"].as_str().unwrap_or("[unknown]");
        let title = match row["inlined_into"].as_str() {
            Some(outer) => format!("code of {name} in program, inlined into {outer} ·"),
            None => format!("code of {name} in "),
        };
        steps.extend([
            json!(["send", "a"]),
            json!(["wait", title]),
            json!(["wait", "% of function, hottest 1 of "]),
            json!(["send", "\u{1b}"]),
            json!(["wait", format!("functions by self · {} of", at + 1)]),
            json!(["send", "\u{1b}[B"]),
        ]);
    }
    steps.push(json!(["send", "q"]));
    let ended = browse(&scratch, &["x.data"], &Value::from(steps));
    let opened = screen(&ended, 3);
    assert!(opened.contains("> ") && opened.contains("sum += i * i"), "{opened}");
    assert!(!ended.to_string().contains("Try: "), "{ended}");
}

#[test]
fn a_replaced_recording_is_noticed() {
    skip_unless!(need_terminal());
    let scratch = recorded();
    browse(
        &scratch,
        &["x.data"],
        &json!([
            ["wait", "functions by self ·"],
            [
                "run",
                format!(
                    "cd {0} && cp x.data y.data && mv y.data x.data",
                    scratch.path("").display()
                )
            ],
            ["wait", "warning: x.data was replaced or changed"],
            ["send", "a"],
            ["wait", "x.data was replaced: browse it anew"],
            ["send", "q"],
        ]),
    );
}

/// Ctrl-Z gives the terminal to the shell, and `fg` draws everything again.
#[test]
fn it_can_be_suspended() {
    skip_unless!(need_terminal());
    skip_unless!(need_program("bash", "--version"));
    let scratch = recorded();
    let start = format!("{} browse x.data\n", env!("CARGO_BIN_EXE_pmuscope"));
    let steps = json!([
        ["send", start],
        ["wait", "functions by self ·"],
        ["wait", "? help"],
        ["send", "\u{1a}"],
        ["wait", "Stopped"],
        ["send", "fg\n"],
        ["wait", "functions by self ·"],
        ["wait", "? help"],
        ["send", "4"],
        ["wait", "threads by share"],
        ["send", "q"],
        ["gone", "threads by share"],
        ["send", "exit\n"],
    ]);
    let steps = steps.to_string();
    let driver = ["-c", include_str!("pty.py"), &steps, "/bin/bash", "--norc", "-i"];
    let outcome = scratch.run("python3", driver);
    let ended: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    assert_eq!((&ended["failure"], &ended["status"]), (&Value::Null, &json!(0)), "{ended}");
}
