//! Mistakes of every day: each answer names what is wrong and what to type, and nothing else; the same kind of mistake
//! has the same exit status everywhere.

use std::process::Command;

use crate::harness::{Outcome, Scratch};

/// A command line, its exit status, what the answer says, and what it must not say.
type Case = (&'static str, i32, &'static [&'static str], &'static [&'static str]);

const CASES: [Case; 54] = [
    ("record -F -5 -- true", 2, &["-F -5: not a frequency", "Try: -F 1000"], &["unexpected"]),
    ("record -F 0 -- true", 2, &["-F 0: not a frequency", "Try: -F 1000"], &[]),
    ("record -F abc -- true", 2, &["-F abc: not a frequency", "Try: -F 1000"], &[]),
    (
        "record -F 999999999999 -- true",
        2,
        &["-F 999999999999: a sample takes about a microsecond", "Try: -F max"],
        &["sysctl kernel"],
    ),
    ("record -c -5 -- true", 2, &["-c -5: not a period", "Try: -c 1000000"], &[]),
    ("record -p abc", 2, &["--pid abc: a whole number is needed", "pgrep -l NAME"], &["digit"]),
    ("record -p -7", 2, &["--pid -7: the number must not be negative"], &["unexpected"]),
    ("stat -p abc", 2, &["--pid abc: a whole number is needed", "pgrep -l NAME"], &["digit"]),
    ("sweep -e x --slice 1 -p abc", 2, &["--pid abc: a whole number is needed"], &["digit"]),
    ("top -p abc", 2, &["--pid abc: a whole number is needed"], &["digit"]),
    ("numa show -p 1 -I 3", 2, &["--interval 3: use at least 10ms"], &["not in"]),
    ("numa show -p abc", 2, &["--pid abc: a whole number is needed"], &["digit"]),
    ("record -t 99999999999999 -a", 2, &["--tid 99999999999999: the number is too large"], &[]),
    ("stat -r abc -- true", 2, &["--repeat abc: a whole number is needed", "--help"], &["digit"]),
    ("record --budget abc -- true", 2, &["--budget abc: a number is needed", "--help"], &["float"]),
    (
        "record -m 1000G -- true",
        2,
        &["-m 1000G: one ring buffer would be larger than this machine's memory", "Try: -m 4M"],
        &["sysctl", "cpu-clock"],
    ),
    ("record -m x -- true", 2, &["-m x: not a ring size", "512K"], &["cpu-clock"]),
    ("stat -r 0 -- true", 2, &["-r 0: no run", "Try: -r 5"], &["-I"]),
    ("stat -I 0 -- true", 2, &["-I 0: ", "Try: -I 1000"], &["-r"]),
    ("sweep -e x -r 0 -- true", 2, &["-r 0: no run", "Try: -r 5"], &["--slice"]),
    ("sweep -e x --slice 0 -p 1", 2, &["--slice: ", "Try: --slice 2"], &["-r"]),
    ("record -e mem:0:w -- true", 2, &["mem:0:w", "nothing is mapped at 0", "Try: "], &[]),
    ("stat -e mem:0:w -- true", 2, &["mem:0:w", "nothing is mapped at 0", "Try: "], &[]),
    (
        "record -g dwarf",
        2,
        &["-g takes no value", "Try: pmuscope record --call-graph dwarf -- COMMAND"],
        &["ENOENT", "cpu-clock"],
    ),
    ("record -g dwarf,4096 sleep 1", 2, &["--call-graph dwarf,4096 -- COMMAND"], &["ENOENT"]),
    (
        "record -g no-such-program",
        127,
        &["cannot start no-such-program: ENOENT", "PATH"],
        &["cpu-clock"],
    ),
    (
        "record -- ./no-such-program",
        127,
        &["cannot start ./no-such-program: ENOENT", "Try: "],
        &["cpu-clock"],
    ),
    ("record -- /", 126, &["cannot start /: EISDIR", "Try: "], &["cpu-clock"]),
    ("stat -- no-such-program", 127, &["cannot start no-such-program: ENOENT", "PATH"], &[]),
    ("sweep -e x -- no-such-program", 127, &["cannot start no-such-program: ENOENT"], &[]),
    ("watch x -- no-such-program", 127, &["cannot start no-such-program: ENOENT"], &[]),
    ("record -e no-such-event -- true", 2, &["no-such-event"], &["sampling cpu-clock"]),
    ("stat -e no-such-event -- true", 2, &["no-such-event"], &[]),
    ("record -e cpu-clock -c 1000 -- true", 2, &["no period below 10000 ns", "-c 100000"], &[]),
    // What perf's users type.
    ("report -g", 2, &["-g is perf's", "--call-tree", "record -g"], &["unexpected"]),
    ("report -S main", 2, &["-S is perf's", "--symbol-filter =NAME"], &["unexpected"]),
    ("script --sort comm", 2, &["--by, as in --by comm,dso,sym"], &["unexpected"]),
    ("report --stdio", 2, &["no recording here"], &["unexpected", "perf's"]),
    ("report --no-children", 2, &["no recording here"], &["unexpected", "perf's"]),
    ("stat -d -- true", 2, &["-e L1-dcache-loads,", "pmuscope sweep"], &["unexpected"]),
    ("stat --topdown -- true", 2, &["pmuscope sweep --topdown"], &["unexpected"]),
    ("record --all-user -- true", 2, &[":u after each event"], &["unexpected"]),
    ("top -g", 2, &["pmuscope record -g"], &["unexpected"]),
    ("annotate", 2, &["pmuscope report --annotate FUNCTION"], &["unexpected"]),
    ("flamegraph", 2, &["pmuscope report -o x.html"], &["unrecognized"]),
    ("sched record", 2, &["pmuscope record --off-cpu"], &["unrecognized"]),
    ("c2c report", 2, &["pmuscope sharing"], &["unrecognized"]),
    ("record -m 100G -- true", 2, &["-m 100G: one ring buffer would be larger"], &["cpu-clock"]),
    ("record -p 999999999", 2, &["999999999"], &["cpu-clock", "PMU"]),
    ("top --json", 2, &["Try: pmuscope top --once --json"], &[]),
    ("stat --append -- true", 2, &["Try: -o FILE --append"], &[]),
    ("sweep -e x --resume -- true", 2, &["Try: --json=FILE --resume"], &[]),
    (
        "numa restore --csv",
        2,
        &["has no result in this form", "Try: pmuscope numa restore -h"],
        &["tip"],
    ),
    (
        "diff a.data",
        2,
        &["diff needs two recordings; got 1", "Try: pmuscope diff BEFORE AFTER"],
        &[],
    ),
];

#[test]
fn each_mistake_is_answered_with_what_to_type() {
    let scratch = Scratch::new();
    for (line, status, parts, not) in CASES {
        let answer = scratch.pmuscope(line.split(' '));
        answer.exits(status).prints_nothing();
        for part in parts {
            answer.complains(part);
        }
        for part in not {
            assert!(!answer.stderr.contains(part), "{part:?} is on stderr\n{answer}");
        }
        assert!(answer.stderr.lines().count() <= 2, "it is one sentence or two\n{answer}");
        let severities = ["error: ", "warning: ", "note: "];
        let has_one = |line: &str| severities.iter().any(|word| line.starts_with(word));
        assert!(answer.stderr.lines().all(has_one), "each line has one severity\n{answer}");
        assert!(std::fs::read_dir(scratch.path("")).unwrap().count() == 0, "{answer}");
    }
}

/// What was wrong with the runs is said where none of them counts.
#[test]
fn runs_that_fail_say_how_they_ended() {
    let scratch = Scratch::new();
    let all = scratch.pmuscope(["stat", "-r", "3", "-e", "page-faults", "--", "false"]);
    all.exits(1).prints("3 runs left out: exit status 1");
    let killed = ["stat", "-r", "2", "-e", "page-faults", "--", "sh", "-c", "kill -9 $$"];
    scratch.pmuscope(killed).exits(137).prints("2 runs left out: exit status 137 (signal 9)");
}

/// Results that nobody gets are not done, whatever is written.
#[test]
fn a_closed_or_full_standard_output_is_an_error() {
    let scratch = Scratch::new();
    let record = ["record", "-q", "-e", "cpu-clock", "-o", "a.data", "--", "true"];
    scratch.pmuscope(record).exits(0);
    scratch.pmuscope(["stat", "-e", "page-faults", "--json=a.json", "--", "true"]).exits(0);
    let lines = [
        ("report -i a.data", 2),
        ("report -i a.data --json", 2),
        ("report -i a.data --by cpu", 2),
        ("script -i a.data --show-all", 2),
        ("compare a.json", 2),
        ("metrics --list", 2),
        ("list page-faults", 2),
        ("doctor", 2),
        ("doctor --json", 2),
        ("numa show", 2),
        ("lab kernels", 2),
        ("workload exact-loop --rounds 1000", 2),
        ("stat -e page-faults -- true", 125),
        ("stat -e page-faults --json -- true", 125),
        ("sweep -e ^page-faults$ -r 2 -- true", 2),
        ("--help", 2),
        ("record --help", 2),
    ];
    let program = env!("CARGO_BIN_EXE_pmuscope");
    for (line, status) in lines {
        for (to, why) in [(">&-", "it is closed (>&-)"), ("> /dev/full", "No space left")] {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{program} {line} {to}")]).current_dir(scratch.path(""));
            let outcome = Outcome::of(shell.env("PMUSCOPE_CACHE", scratch.path("cache")));
            outcome.exits(status).complains("cannot write").complains(why);
        }
    }
    // What writes nothing there needs none, and the command finds it closed as well.
    let mut shell = Command::new("sh");
    let command = "sh -c 'echo x 2>/dev/null || touch was-closed'";
    let record = format!("{program} record -q -e cpu-clock -o b.data -- {command} >&-");
    shell.args(["-c", &record]).current_dir(scratch.path(""));
    Outcome::of(&mut shell).exits(0);
    assert!(scratch.path("was-closed").exists() && scratch.path("b.data").exists());
}

/// Files that are none: what is wrong, and what to type.
#[test]
fn files_that_are_no_recordings_are_named() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("empty.data"), "").unwrap();
    std::fs::create_dir(scratch.path("folder")).unwrap();
    std::fs::write(scratch.path("text.data"), "this is no recording\n".repeat(100)).unwrap();
    let record = ["record", "-q", "-e", "cpu-clock", "-o", "a.data", "--", "true"];
    scratch.pmuscope(record).exits(0);
    let whole = std::fs::read(scratch.path("a.data")).unwrap();
    std::fs::write(scratch.path("cut.data"), &whole[..60]).unwrap();
    for command in ["report", "script"] {
        for (file, why) in [
            ("empty.data", "empty"),
            ("folder", "directory"),
            ("text.data", "perf.data"),
            ("cut.data", "cut.data"),
            ("missing.data", "missing.data"),
        ] {
            let refused = scratch.pmuscope([command, "-i", file]);
            refused.exits(2).prints_nothing().complains("error: ").complains(file);
            assert_eq!(refused.stderr.lines().count(), 1, "{refused}");
            assert!(refused.stderr.to_lowercase().contains(why), "{why}\n{refused}");
        }
    }
}

/// Categories of perf list.
#[test]
fn categories_are_listed_whole() {
    let scratch = Scratch::new();
    let software = scratch.pmuscope(["list", "sw"]);
    software.exits(0).prints("page-faults").prints("context-switches");
    assert!(!software.stdout.contains("cache-misses"), "{software}");
    scratch.pmuscope(["list", "hw"]).exits(0).prints("instructions");
    scratch.pmuscope(["list", "cache"]).exits(0).prints("L1-dcache-loads");
}

/// A recording ends with one line, and says why it has no samples.
#[test]
fn a_recording_ends_with_one_line() {
    let scratch = Scratch::new();
    let none = ["record", "-e", "cpu-clock", "-F", "1", "-o", "none.data", "--", "true"];
    let none = scratch.pmuscope(none);
    none.exits(0).complains("warning: no samples: ").complains("Try: ");
    let last = none.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("0 samples, 0 lost, ") && last.contains("% overhead → none.data ("),
        "{none}"
    );
    let details = ["record", "-v", "-e", "cpu-clock", "-o", "a.data", "--", "true"];
    scratch.pmuscope(details).exits(0).complains("µs/sample");
}

/// What can mean one thing only is done, and the spelling is named.
#[test]
fn a_callchain_after_g_is_recorded_where_the_command_is_clear() {
    let scratch = Scratch::new();
    let dwarf = ["record", "-e", "cpu-clock", "-g", "dwarf,4096", "-o", "a.data", "--", "true"];
    // Flags after the word would be the command's.
    let before = ["record", "-e", "cpu-clock", "-o", "a.data", "-g", "dwarf,4096", "--", "true"];
    scratch.pmuscope(before).exits(0).complains("note: -g dwarf,4096 is --call-graph dwarf,4096");
    assert!(scratch.path("a.data").exists());
    scratch.pmuscope(dwarf).exits(2).complains("--call-graph dwarf,4096 -- COMMAND");
}
