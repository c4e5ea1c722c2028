//! `pmuscope stat`: counts with a truth that is known, in all the forms they are printed in.

use std::fs;
use std::process::Command;

use pmuscope_machine::{Machine, OwnCgroup};
use rustix::process::Signal;

use crate::cgroups::need_cgroups;
use crate::harness::{Outcome, Scratch, Started, need_perf, need_program, need_root, skip_unless};

/// The fields of `-x` of an event, which for an ordinary user is counted in user mode only.
fn fields(text: &str, event: &str) -> Vec<String> {
    let user = format!("{event}:u");
    let has = |line: &&str| line.split(';').any(|field| field == event || field == user);
    let line = text.lines().find(has).unwrap_or_else(|| panic!("no {event} in {text}"));
    line.split(';').map(str::to_owned).collect()
}

fn count(text: &str, event: &str) -> f64 {
    fields(text, event)[0].parse().unwrap()
}

impl Outcome {
    fn out(&self) -> &str {
        &self.stdout
    }
}

/// Writes 4 KiB so often.
fn dd(times: u32) -> Vec<String> {
    ["dd", "if=/dev/zero", "of=/dev/null", "bs=4k", "status=none", &format!("count={times}")]
        .map(str::to_owned)
        .to_vec()
}

#[track_caller]
fn stat(scratch: &Scratch, flags: &[&str], command: &[String]) -> Outcome {
    let mut args: Vec<&str> = vec!["stat"];
    args.extend(flags);
    args.push("--");
    args.extend(command.iter().map(String::as_str));
    scratch.pmuscope(args)
}

#[test]
fn system_calls_are_counted_one_by_one_and_per_unit() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let event = "syscalls:sys_enter_write";
    let flags = [
        "-r",
        "3",
        "-e",
        event,
        "--per",
        "block=5000",
        "--per-event",
        "read=syscalls:sys_enter_read",
    ];
    let flags: Vec<&str> = flags.into_iter().chain(["--json=a.json"]).collect();
    let outcome = stat(&scratch, &flags, &dd(5000));
    outcome.exits(0);
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(scratch.path("a.json")).unwrap()).unwrap();
    assert_eq!(file["runs"].as_array().unwrap().len(), 3);
    let series = file["series"].as_array().unwrap();
    let writes = series.iter().find(|one| one["metric"] == event).unwrap();
    for value in writes["values"].as_array().unwrap() {
        assert_eq!(value["value"], 5000.0);
        assert_eq!(value["readings"][0]["count"], "5000");
        assert_eq!(value["running_s"], value["enabled_s"]);
    }
    for run in file["runs"].as_array().unwrap() {
        assert_eq!(run["units"]["block"], 5000.0);
        // The program itself reads its libraries first.
        assert!((5001.0..5100.0).contains(&run["units"]["read"].as_f64().unwrap()), "{run}");
    }
    let line = outcome.out().lines().find(|line| line.starts_with(event)).unwrap().to_owned();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1], "5,000", "{line}");
    assert_eq!(words.last(), Some(&"3"), "{line}");
}

#[test]
fn page_faults_are_perfs_within_what_runs_differ() {
    skip_unless!(need_perf());
    let scratch = Scratch::new();
    let command = ["sh".to_owned(), "-c".into(), "for i in 1 2 3 4 5 6; do /bin/true; done".into()];
    let flags = ["-e", "page-faults:u", "-x;"];
    let ours = stat(&scratch, &[&["-r", "5"], &flags[..]].concat(), &command);
    ours.exits(0);
    let perf = pmuscope_testkit::perf()
        .args(["stat", "-r", "5", "-e", "page-faults:u", "-x;", "--"])
        .args(&command)
        .output()
        .unwrap();
    let theirs = String::from_utf8(perf.stderr).unwrap();
    let (ours, theirs) = (count(ours.out(), "page-faults:u"), count(&theirs, "page-faults:u"));
    assert!((ours / theirs - 1.0).abs() < 0.05, "{ours} {theirs}");
}

#[test]
fn intervals_add_up_to_the_whole() {
    let scratch = Scratch::new();
    let script = "for i in 1 2 3 4 5 6 7 8; do /bin/true; sleep 0.1; done";
    let command = ["sh".to_owned(), "-c".into(), script.into()];
    let flags = ["-e", "page-faults,task-clock", "-I", "200", "--json=a.json", "-x;"];
    let outcome = stat(&scratch, &flags, &command);
    outcome.exits(0);
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(scratch.path("a.json")).unwrap()).unwrap();
    let runs = file["runs"].as_array().unwrap();
    assert!(runs.len() >= 4, "{runs:?}");
    let ends: Vec<f64> = runs
        .iter()
        .map(|run| run["labels"]["interval"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(ends.is_sorted(), "{ends:?}");
    let faults = &file["series"].as_array().unwrap()[0];
    let sum: f64 =
        faults["values"].as_array().unwrap().iter().map(|v| v["value"].as_f64().unwrap()).sum();
    // A shell and sixteen programs that it started.
    assert!(sum > 17.0 * 30.0, "{sum}");
    let lines = outcome.out().lines().filter(|line| line.contains("page-faults")).count();
    assert!(lines + 1 >= runs.len(), "{}", outcome.out());
}

#[test]
fn what_the_machine_does_not_have_is_a_dash_with_its_reason() {
    let scratch = Scratch::new();
    let machine = pmuscope_machine::Machine::host();
    if machine.pmus().unwrap().iter().any(|pmu| pmu.is_core()) {
        eprintln!("skipped: this machine has a PMU");
        return;
    }
    let command = ["true".to_owned()];
    let outcome = stat(&scratch, &["-e", "page-faults,cycles"], &command);
    outcome.exits(125);
    let text = outcome.out();
    let line = text.lines().find(|line| line.starts_with("cycles")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["cycles", "-", "-", "0"]);
    assert!(text.contains("needs a hardware PMU"), "{text}");
    let lines = stat(&scratch, &["-e", "page-faults,cycles", "-x;"], &command).out().to_owned();
    assert_eq!(fields(&lines, "cycles")[0], "<not supported>");
    // Nothing of what was asked for.
    stat(&scratch, &["-e", "cycles"], &command).exits(3);
    // Nobody asked for what is not there.
    stat(&scratch, &[], &command).exits(0);
}

#[test]
fn parts_of_the_machine_add_up() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let command = ["sleep".to_owned(), "0.3".into()];
    let by = |flag: &str| {
        let outcome = stat(&scratch, &["-a", flag, "-e", "cpu-clock", "-x;"], &command);
        outcome.exits(0);
        let text = outcome.out();
        let values =
            text.lines().map(|line| line.split(';').nth(1).unwrap().parse::<f64>().unwrap());
        (values.clone().count(), values.sum::<f64>())
    };
    let cpus = std::thread::available_parallelism().unwrap().get();
    let (parts, sum) = by("-A");
    assert_eq!(parts, cpus);
    // Milliseconds of all CPUs; the command and its end take a while.
    assert!(sum > 300.0 * cpus as f64 && sum < 3000.0 * cpus as f64, "{sum}");
    assert!(by("--per-socket").0 <= cpus && by("--per-node").0 <= cpus);
    let outcome = stat(&scratch, &["--per-node"], &command);
    outcome.exits(2);
}

#[test]
fn the_commands_status_and_what_it_prints_are_passed_on() {
    let scratch = Scratch::new();
    let command = ["sh".to_owned(), "-c".into(), "echo handled 12 requests; exit 7".into()];
    let outcome = stat(&scratch, &["-e", "page-faults"], &command);
    outcome.exits(7);
    assert!(outcome.out().contains("handled 12 requests\n"), "{}", outcome.out());
    let flags = ["-e", "page-faults", "--per-from", "request=handled ([0-9]+) requests"];
    let outcome = stat(&scratch, &flags, &command);
    assert!(outcome.out().contains("handled 12 requests\n"), "{}", outcome.out());
    let missing = ["/nonexistent".to_owned()];
    stat(&scratch, &[], &missing).exits(127);
}

/// A program that starts others without end, and so has page faults all the time.
fn busy() -> Started {
    Started::of(Command::new("sh").args(["-c", "while :; do /bin/true; done"]))
}

/// What is counted for half a second over what runs already.
#[track_caller]
fn for_a_moment(flags: &[&str]) -> f64 {
    let rest = ["-e", "page-faults", "--timeout", "500", "-x;"];
    let outcome = Scratch::new().pmuscope([&["stat"], flags, &rest].concat());
    outcome.exits(0);
    count(outcome.out(), "page-faults")
}

#[test]
fn what_happens_before_the_delay_is_over_is_not_counted() {
    let scratch = Scratch::new();
    let script = "i=0; while [ $i -lt 30 ]; do /bin/true; i=$((i+1)); done; sleep 2.5";
    let command = ["sh".to_owned(), "-c".into(), script.into()];
    let faults = |flags: &[&str]| {
        let outcome = stat(&scratch, &[flags, &["-e", "page-faults", "-x;"]].concat(), &command);
        outcome.exits(0);
        count(outcome.out(), "page-faults")
    };
    let (all, late) = (faults(&[]), faults(&["-D", "2000"]));
    // Thirty programs with some forty each; sleep(1) was started before the delay was over, and ends after.
    assert!(all > 30.0 * 30.0 && late < 300.0, "{all} {late}");
}

#[test]
fn a_command_is_ended_when_its_time_is_over() {
    let scratch = Scratch::new();
    let flags = ["-e", "page-faults", "--timeout", "300", "--json=a.json"];
    let command = ["sleep".to_owned(), "60".into()];
    stat(&scratch, &flags, &command).exits(128 + 15);
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(scratch.path("a.json")).unwrap()).unwrap();
    let seconds = file["runs"][0]["duration_s"].as_f64().unwrap();
    assert!((0.3..30.0).contains(&seconds), "{seconds}");
}

#[test]
fn the_page_has_the_tables_figures_and_the_table_is_printed_all_the_same() {
    let scratch = Scratch::new();
    let flags = ["-r", "2", "-e", "page-faults", "--json=a.json", "--html", "a.html"];
    stat(&scratch, &flags, &["true".to_owned()]).exits(0).prints("page-faults");
    scratch.pmuscope(["compare", "a.json", "--html", "again.html"]).exits(0);
    let [page, again] =
        ["a.html", "again.html"].map(|name| fs::read_to_string(scratch.path(name)).unwrap());
    let figures = |page: &str| page.split("tbody>").nth(1).unwrap().to_owned();
    assert!(figures(&page).contains("page-faults"));
    assert!(figures(&page) == figures(&again), "figures differ");
    assert!(page.contains("<title>stat: true, 2 runs, page-faults"));
    // An interrupted one has a page too.
    let flags = ["-e", "page-faults", "--timeout", "100", "--html", "b.html"];
    stat(&scratch, &flags, &["sleep".to_owned(), "60".into()]).exits(128 + 15);
    assert!(fs::read_to_string(scratch.path("b.html")).unwrap().contains("page-faults"));
}

#[test]
fn threads_are_counted_by_their_number() {
    let (busy, idle) = (busy(), Started::of(Command::new("sleep").arg("60")));
    let [of_busy, of_idle] =
        [&busy, &idle].map(|program| for_a_moment(&["-t", &program.pid().to_string()]));
    assert!(of_busy > 30.0, "{of_busy}");
    assert_eq!(of_idle, 0.0);
}

#[test]
fn members_of_a_cgroup_are_counted_and_others_are_not() {
    skip_unless!(need_cgroups());
    let cgroup = OwnCgroup::new(&Machine::host()).unwrap();
    let path = cgroup.directory().to_str().unwrap();
    let (inside, _outside) = (busy(), busy());
    assert_eq!(for_a_moment(&["-G", path]), 0.0, "nobody is in it");
    cgroup.add(inside.pid()).unwrap();
    let counted = for_a_moment(&["-G", path]);
    assert!(counted > 30.0, "{counted}");
}

#[test]
fn a_command_beside_processes_only_says_for_how_long() {
    let (scratch, busy) = (Scratch::new(), busy());
    let pid = busy.pid().to_string();
    let beside = scratch.pmuscope(["stat", "-e", "page-faults", "-p", &pid, "--", "sleep", "0.2"]);
    let lines: Vec<&str> = beside.exits(0).out().lines().take(2).collect();
    let head = format!("process {pid}");
    assert!(lines[0].starts_with(&head) && !lines[0].contains("user"), "{lines:?}");
    assert_eq!(lines[1], "counted all the time (enabled 100%)");
    let alone = scratch.pmuscope(["stat", "-e", "page-faults", "--", "sleep", "0.2"]);
    alone.exits(0).prints("(user ");
}

#[test]
fn what_is_watched_until_ctrl_c_has_its_figures() {
    let (scratch, busy) = (Scratch::new(), busy());
    let pid = busy.pid().to_string();
    let watching = scratch.start(["stat", "-e", "page-faults", "--html", "a.html", "-p", &pid]);
    std::thread::sleep(std::time::Duration::from_millis(700));
    watching.signal(Signal::INT);
    let outcome = watching.ends();
    outcome.exits(0).prints("1 run");
    let line = outcome.out().lines().find(|line| line.contains("page-faults")).unwrap();
    let faults: f64 = line.split_whitespace().nth(1).unwrap().replace(',', "").parse().unwrap();
    assert!(faults > 30.0, "{}", outcome.out());
}

#[test]
fn the_only_run_is_told_however_it_ended() {
    let scratch = Scratch::new();
    let command = ["sh".to_owned(), "-c".into(), "exit 3".into()];
    let outcome = stat(&scratch, &["-e", "page-faults"], &command);
    outcome.exits(3).prints("1 run,").prints("ended with status 3");
    assert!(
        count(stat(&scratch, &["-e", "page-faults", "-x;"], &command).out(), "page-faults") > 9.0
    );
    // Of several, those that failed are left out, in lines too.
    let script = "[ -e there ] && exit 3; touch there; exec cat /proc/self/maps >/dev/null";
    let command = ["sh".to_owned(), "-c".into(), script.into()];
    let lines = stat(&scratch, &["-r", "3", "-e", "page-faults", "-x;", "--json=a.json"], &command);
    let text = fs::read_to_string(scratch.path("a.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let first = file["series"][0]["values"][0]["value"].as_f64().unwrap();
    assert_eq!(count(lines.out(), "page-faults"), first, "{}", lines.out());
}

#[test]
fn intervals_end_with_what_is_left_and_with_reasons() {
    let scratch = Scratch::new();
    if pmuscope_machine::Machine::host().pmus().unwrap().iter().any(|pmu| pmu.is_core()) {
        return eprintln!("skipped: this machine has a PMU");
    }
    let flags = ["-I", "60000", "-e", "page-faults,cycles", "-x;"];
    let outcome = stat(&scratch, &flags[..4], &["true".to_owned()]);
    outcome.prints("page-faults").prints("Not counted: cycles.");
    let lines = stat(&scratch, &flags, &["true".to_owned()]);
    assert!(fields(lines.out(), "page-faults")[1].parse::<f64>().unwrap() > 9.0, "{}", lines.out());
    assert_eq!(fields(lines.out(), "cycles")[1], "<not supported>");
    let work = ["-I", "100", "--per", "packet=10"];
    stat(&scratch, &work, &["true".to_owned()]).exits(2).complains("Try: --per-event");
}

#[test]
fn a_program_that_ends_before_counting_begins_is_told() {
    let scratch = Scratch::new();
    let outcome = stat(&scratch, &["-D", "60000", "-e", "page-faults"], &["true".to_owned()]);
    outcome.exits(125).complains("it ended before counting began").complains("(-D)");
}

#[test]
fn what_a_command_does_after_its_time_is_not_counted() {
    let scratch = Scratch::new();
    let script = "trap 'i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; exit' TERM; \
                  while :; do sleep 0.05; done";
    let command = ["sh".to_owned(), "-c".into(), script.into()];
    let flags = ["-e", "page-faults", "--timeout", "300", "-x;"];
    let outcome = stat(&scratch, &flags, &command);
    // 300 programs would have 9,000 and more.
    assert!(count(outcome.out(), "page-faults") < 4000.0, "{}", outcome.out());
}

#[test]
fn a_thread_ends_before_its_process() {
    skip_unless!(need_program("python3", "--version"));
    let scratch = Scratch::new();
    let script = "import threading, time; t = threading.Thread(target=time.sleep, args=(1.5,)); t.start(); \
                  print(t.native_id, flush=True); time.sleep(60)";
    let mut program = Command::new("python3")
        .args(["-c", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(program.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let began = std::time::Instant::now();
    let outcome = scratch.pmuscope(["stat", "-e", "page-faults", "-t", line.trim()]);
    program.kill().unwrap();
    program.wait().unwrap();
    outcome.exits(0);
    assert!(began.elapsed().as_secs() < 30, "it waited for the process");
}

/// Asked for by name, it does not go without a word.
#[test]
fn a_metric_whose_events_are_not_counted_is_missing() {
    let scratch = Scratch::new();
    let counted = scratch.pmuscope(["stat", "-e", "page-faults", "-M", "IPC", "--", "true"]);
    counted.exits(125).prints("page-faults");
    counted.complains("-M IPC: not computed, since not all of").complains("cycles");
}

/// A long run is not for nothing: where results cannot go is told before it.
#[test]
fn a_place_that_cannot_be_written_is_told_before_the_run() {
    let scratch = Scratch::new();
    let words = ["stat", "-e", "page-faults", "--json=nowhere/x.json", "--", "echo", "ran"];
    scratch.pmuscope(words).exits(2).prints_nothing().complains("cannot write nowhere/x.json");
}

/// Results and recordings are compared by commands of their own, and each names the other.
#[test]
fn who_compares_what_is_told() {
    let scratch = Scratch::new();
    let words = ["stat", "-e", "page-faults", "--json=x.json", "--", "true"];
    scratch.pmuscope(words).exits(0);
    let diff = scratch.pmuscope(["diff", "x.json", "x.json"]);
    diff.exits(2).complains(
        "not \"PERFILE2\". To compare two results of stat, sweep or bench: pmuscope compare",
    );
    fs::write(scratch.path("x.data"), "PERFILE2 and more").unwrap();
    let compared = scratch.pmuscope(["compare", "x.data", "x.data"]);
    compared.exits(2).complains("x.data is a recording, not a run file").complains("pmuscope diff");
}
