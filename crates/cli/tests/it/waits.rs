//! `record --off-cpu` and `report --by wait` against threads that know their waits, and against what the
//! kernel counted of them.

use std::path::PathBuf;

use pmuscope_workloads::{WaitingThread, WorkloadFacts};
use serde_json::Value;

use crate::harness::{Scratch, need_perf, need_program, skip_unless};
use crate::json::is_documented;
use crate::recording::{Recording, need_root_clock};

const ROUNDS: u64 = 40;
/// Waits of a thread until it may start: for the word to go, and for the lock of the channel that brings it.
const MOST_STARTS: u64 = 4;

/// Waits of 10 ms, recorded; what they know of themselves.
struct Waits {
    scratch: Scratch,
    facts: WorkloadFacts,
}

impl Waits {
    /// `pmuscope record --off-cpu HOW -- pmuscope workload waits`.
    #[track_caller]
    fn recorded(how: &[&str]) -> Self {
        let scratch = Scratch::new();
        let rounds = ROUNDS.to_string();
        let workload =
            ["workload", "waits", "--rounds", &rounds, "--length", "10", "--json=facts.json"];
        // A machine that does much else leaves the recorder little time.
        let record = [&["record", "--off-cpu", "-m", "16M", "-o", "x.data"], how, &["--"]].concat();
        let program = env!("CARGO_BIN_EXE_pmuscope");
        let words = record.into_iter().chain([program]).chain(workload);
        scratch.pmuscope(words).exits(0);
        let facts = std::fs::read_to_string(scratch.path("facts.json")).unwrap();
        is_documented("workload", &facts);
        Self { facts: serde_json::from_str(&facts).unwrap(), scratch }
    }

    fn file(&self) -> PathBuf {
        self.scratch.path("x.data")
    }

    /// Of the workload's threads.
    #[track_caller]
    fn report(&self, by: &str) -> Value {
        let pid = self.facts.waits.as_ref().unwrap().pid.to_string();
        let report =
            self.scratch.pmuscope(["report", "-i", "x.data", "--by", by, "--json", "--pid", &pid]);
        report.exits(0);
        is_documented("waits/2", &report.stdout);
        serde_json::from_str(&report.stdout).unwrap()
    }

    fn threads(&self) -> &[WaitingThread] {
        &self.facts.waits.as_ref().unwrap().threads
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn key<'a>(row: &'a Value, by: &str) -> &'a str {
    row[by].as_str().unwrap_or_default()
}

/// Rows of a thread, by its number.
fn rows_of(report: &Value, tid: u32) -> Vec<&Value> {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().filter(|row| row["thread"].as_u64() == Some(tid.into())).collect()
}

/// Where a thread of the workload waits: what the kernel's function is called.
fn is_where(thread: &WaitingThread, function: &str) -> bool {
    match &*thread.name {
        "waits-futex" => function.contains("futex"),
        "waits-pipe" => function.contains("pipe"),
        _ => function.contains("nanosleep"),
    }
}

/// What records say of the workload's threads is what they know themselves, and what the kernel counted.
#[track_caller]
fn tells_the_truth(waits: &Waits) {
    let report = waits.report("thread,wait");
    assert_eq!(report["broken"]["beginnings"].as_u64(), Some(0), "{}", report["broken"]);
    assert_eq!(number(&report["not_known_s"]), 0.0, "{}", report["broken"]);
    for thread in waits.threads() {
        let rows = rows_of(&report, thread.tid);
        let waiting: Vec<&Value> =
            rows.iter().filter(|row| is_where(thread, key(row, "wait"))).copied().collect();
        let sum = |field: &str| waiting.iter().map(|row| number(&row[field])).sum::<f64>();
        let (count, time_s) = (sum("waits"), sum("off_cpu_s"));
        // It waits for its start, too, by a futex; and whoever finds the waking already there does not wait.
        let starts = if thread.name == "waits-futex" { MOST_STARTS } else { 0 };
        let most = (thread.waits + starts) as f64;
        let least = thread.waits.min(thread.voluntary_switches) as f64 * 0.8;
        assert!((least..=most).contains(&count), "{count} of {thread:?}\n{rows:#?}");
        // What it measures itself is from before the call until it runs again.
        let longest_s = waiting.iter().map(|row| number(&row["longest_s"])).fold(0.0, f64::max);
        let before_s = longest_s * starts as f64;
        assert!(time_s <= thread.waited_s + before_s, "{time_s} of {thread:?}\n{rows:#?}");
        let all_s: f64 = rows.iter().map(|row| number(&row["off_cpu_s"])).sum();
        let on_cpu_s = thread.on_cpu_s.unwrap_or(thread.time_s);
        let outside = thread.waited_s - time_s;
        assert!(outside <= on_cpu_s + (all_s - time_s) + 0.002, "{outside}, {thread:?}\n{rows:#?}");
        is_what_the_kernel_counted(thread, &rows);
        names_only_who_woke(thread, &waiting, starts);
    }
}

/// The kernel leaves out wakings at times: those that are named are right, and all others are counted.
#[track_caller]
fn names_only_who_woke(thread: &WaitingThread, waiting: &[&Value], starts: u64) {
    let mut others = 0;
    for row in waiting {
        let wakers = row["wakers"].as_array().unwrap();
        let is_right = |waker: &Value| match &thread.woken_by {
            Some(name) => waker["command"].as_str() == Some(name),
            None => waker["interrupt"].as_bool() == Some(true),
        };
        let waits = |waker: &Value| waker["waits"].as_u64().unwrap();
        others += wakers.iter().filter(|waker| !is_right(waker)).map(waits).sum::<u64>();
        let of_row = |field: &str| row[field].as_u64().unwrap();
        assert_eq!(wakers.iter().map(waits).sum::<u64>(), of_row("woken"), "{row:#?}");
        let told = of_row("woken") + of_row("without_waking");
        assert_eq!((told, of_row("last_past")), (of_row("waits"), 0), "{row:#?}");
    }
    assert!(others <= starts, "{others} by others of {thread:?}\n{waiting:#?}");
}

/// The thread looks at what the kernel counted before it ends: records are more, by what comes then.
#[track_caller]
fn is_what_the_kernel_counted(thread: &WaitingThread, rows: &[&Value]) {
    let of = |state: &str| -> u64 {
        let rows = rows.iter().filter(|row| row["state"].as_str() == Some(state));
        rows.map(|row| row["waits"].as_u64().unwrap()).sum()
    };
    let (blocked, preempted) = (of("blocked"), of("preempted"));
    let (voluntary, involuntary) = (thread.voluntary_switches, thread.involuntary_switches);
    assert!(blocked >= voluntary && blocked <= voluntary + 20, "{blocked} blocked, {thread:?}");
    assert!(preempted >= involuntary && preempted <= involuntary + 20, "{preempted}, {thread:?}");
}

#[test]
fn waits_of_a_command_are_those_that_it_knows() {
    skip_unless!(need_root_clock());
    let waits = Waits::recorded(&[]);
    tells_the_truth(&waits);
    let all = waits.report("wait");
    let parts = ["on_cpu_s", "off_cpu_s", "not_known_s"].map(|part| number(&all[part]));
    assert!((parts.iter().sum::<f64>() - number(&all["wall_s"])).abs() < 1e-6, "{all}");
    let rows = all["rows"].as_array().unwrap();
    let off: f64 = rows.iter().map(|row| number(&row["off_cpu_s"])).sum();
    assert!((off - parts[1]).abs() < 1e-6, "{off} in rows, {all}");
}

#[test]
fn who_looks_at_samples_is_told_of_the_waits() {
    skip_unless!(need_root_clock());
    let waits = Waits::recorded(&[]);
    let report = waits.scratch.pmuscope(["report", "-i", "x.data"]);
    report.exits(0).prints("shows where threads wait").prints("see --by wait");
}

#[test]
fn waits_of_the_whole_machine_are_those_too() {
    skip_unless!(need_root_clock());
    let waits = Waits::recorded(&["-a", "-z"]);
    tells_the_truth(&waits);
}

#[test]
fn a_process_that_runs_already_is_seen_from_then_on() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let args = ["workload", "waits", "--rounds", "100000", "--length", "10", "--json=facts.json"];
    let workload = scratch.start(args);
    let pid = workload.pid().to_string();
    let sleeper = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim() == "waits-pipe"
    };
    workload.wait_until(|| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.flatten().any(sleeper)
    });
    let record =
        ["record", "--off-cpu", "-m", "16M", "-o", "x.data", "-p", &pid, "--", "sleep", "2"];
    scratch.pmuscope(record).exits(0);
    workload.signal(rustix::process::Signal::KILL);
    let report = scratch.pmuscope(["report", "-i", "x.data", "--by", "wait,command", "--json"]);
    report.exits(0);
    is_documented("waits/2", &report.stdout);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let waiting = |name: &str, function: &str| {
        let of = |row: &&Value| key(row, "command") == name && key(row, "wait").contains(function);
        rows.iter().find(of).unwrap_or_else(|| panic!("no {name} in {function}: {rows:#?}"))
    };
    // Each sleep takes 10 ms at least; a thread that comes late to its pipe finds something there sooner.
    let sleep = waiting("waits-sleep", "nanosleep");
    assert!(number(&sleep["median_s"]) > 0.009, "{sleep}");
    let pipe = waiting("waits-pipe", "pipe");
    let wakers = pipe["wakers"].as_array().unwrap();
    assert!(wakers.iter().all(|waker| waker["command"] == "waits-waker"), "{pipe}");
    waiting("waits-futex", "futex");
    // The main thread waits for the others all the time, and does not switch.
    assert_eq!(report["threads_without_switch"].as_u64(), Some(1), "{report}");
    assert!(number(&report["wall_s"]) > 4.0 * 0.5);
}

#[test]
fn without_rights_to_the_kernel_there_are_times_and_no_stacks() {
    skip_unless!(need_root_clock());
    skip_unless!(need_program("setpriv", "--version"));
    let scratch = Scratch::new();
    std::fs::set_permissions(scratch.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    let program = env!("CARGO_BIN_EXE_pmuscope");
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if level.trim() != "2" {
        return eprintln!("skipped: perf_event_paranoid is {}, not 2", level.trim());
    }
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let record = ["record", "--off-cpu", "-e", "cpu-clock:u", "-o", "x.data", "--"];
    let words = [&as_nobody[..], &[program], &record[..], &["sleep", "0.2"]].concat();
    let said = scratch.run("setpriv", words);
    if said.stderr.contains("Permission denied") {
        return eprintln!("skipped: nobody may not run {program}: {}", said.stderr);
    }
    said.exits(0);
    assert!(said.stderr.contains("without stacks"), "{}", said.stderr);
    let report = scratch.pmuscope(["report", "-i", "x.data", "--by", "wait", "--json"]);
    let report: Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
    assert_eq!((&report["has_stacks"], &report["has_wakings"]), (&false.into(), &false.into()));
    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| key(row, "wait") == "[no stack]").unwrap();
    assert!(number(&row["longest_s"]) > 0.19 && row["run_queue_s"].is_null(), "{row}");
    let text = scratch.pmuscope(["report", "-i", "x.data", "--by", "wait"]);
    text.exits(0).prints("recorded without stacks").prints("wakeups were not recorded");
}

#[test]
fn stock_perf_reads_it_and_we_read_stock_perfs() {
    skip_unless!(need_perf());
    skip_unless!(need_root_clock());
    let waits = Waits::recorded(&[]);
    let recording = Recording::at(waits.file());
    let report = recording.perf(&["report", "--stdio", "--no-children"]);
    report.exits(0).prints("of event 'context-switches'").prints("of event 'sched:sched_waking'");
    let switches = recording.perf(&["script", "--show-switch-events"]);
    switches.exits(0).prints("PERF_RECORD_SWITCH OUT").prints("PERF_RECORD_SWITCH IN");

    let events = ["-e", "context-switches", "-c", "1", "-g", "--switch-events"];
    // perf 6.1 aborts over build ids that another recording asks for at the same time.
    let sleep = ["-q", "-B", "-o", "perf.data", "--", "sleep", "0.1"];
    let perf = ["record"].iter().chain(&events).chain(&sleep);
    waits.scratch.run("perf", perf).exits(0);
    let report = waits.scratch.pmuscope(["report", "-i", "perf.data", "--by", "wait", "--json"]);
    let report: Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| key(row, "wait").contains("nanosleep")).unwrap();
    assert!(number(&row["off_cpu_s"]) > 0.09, "{row}");
}

#[test]
fn other_forms_weigh_by_time() {
    skip_unless!(need_root_clock());
    // The C library keeps no frame pointers.
    let waits = Waits::recorded(&["--call-graph", "dwarf"]);
    let export = |name: &str| {
        let args = ["report", "-i", "x.data", "--by", "wait", "-o", name];
        waits.scratch.pmuscope(args).exits(0);
        std::fs::read(waits.scratch.path(name)).unwrap()
    };
    let folded = String::from_utf8(export("x.folded")).unwrap();
    for thread in waits.threads() {
        let is_of = |line: &&str| line.starts_with(&format!("{};", thread.name));
        let found = folded.lines().filter(is_of).any(|line| line.contains(&thread.function));
        assert!(found, "{} does not wait in {}\n{folded}", thread.name, thread.function);
    }
    let nanoseconds: u64 = folded
        .lines()
        .filter(|line| line.starts_with("waits-sleep;") && line.contains("nanosleep"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    let of = |thread: &&WaitingThread| thread.name == "waits-sleep";
    let thread = waits.threads().iter().find(of).unwrap();
    let report = waits.report("thread,wait");
    let rows = rows_of(&report, thread.tid);
    let row = rows.iter().find(|row| key(row, "wait").contains("nanosleep")).unwrap();
    let queued = row["run_queue_s"].as_f64().unwrap_or(0.0);
    let (off, seconds) = (number(&row["off_cpu_s"]), nanoseconds as f64 / 1e9);
    assert!(off >= ROUNDS as f64 * 0.01 && off <= thread.waited_s, "{off} s, {thread:?}");
    assert!((seconds - (off - queued)).abs() < 1e-6, "{seconds} s without run queues, {row}");
    assert!(String::from_utf8(export("x.svg")).unwrap().contains("wait_for_pipe"));
}

/// The cells of the rows of an HTML table, unescaped as far as they are here.
fn page_rows(page: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| {
        let inside = cell.split_once('>').map_or("", |(_, rest)| rest);
        let inside = inside.split("</td>").next().unwrap_or_default();
        inside.replace("&gt;", ">").replace("&lt;", "<").replace("&#39;", "'").replace("&amp;", "&")
    };
    let row = |row: &str| row.split("<td").skip(1).map(cell).collect();
    page.split("<tr>").skip(1).map(row).collect()
}

#[test]
fn the_page_has_the_numbers_of_the_text() {
    skip_unless!(need_root_clock());
    let waits = Waits::recorded(&[]);
    let report = |words: &[&str]| {
        let all = [&["report", "-i", "x.data", "--by", "wait,command"], words].concat();
        waits.scratch.pmuscope(all)
    };
    report(&["-o", "x.html"]).exits(0).is_silent();
    let page = std::fs::read_to_string(waits.scratch.path("x.html")).unwrap();
    assert!(!page.contains("was changed"), "waits are taken for samples that are missing");
    let rows = page_rows(&page);
    let text = report(&["--limit", "all"]).exits(0).stdout.clone();
    let (head, table) = text.split_once("\n\n").unwrap();
    let mut lines = table.lines();
    let columns = lines.next().unwrap().split("  ").filter(|name| !name.is_empty());
    let columns: Vec<&str> = columns.map(str::trim).collect();
    assert_eq!(columns[..2], ["off CPU", "share"], "{text}");
    for column in columns {
        assert!(page.contains(&format!(">{column}</th>")), "no column {column}");
    }
    let table: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    assert!(table.len() > 3, "{text}");
    for line in table {
        // Names are cut to the width of the table; numbers are before them.
        let cells: Vec<&str> =
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let is_same = |row: &Vec<String>| row.iter().zip(&cells[..8]).all(|(a, b)| a == b);
        assert!(rows.iter().any(is_same), "no row {cells:?} on the page");
    }
    // The parts of all threads' time, which are facts of the page.
    let head = head.replace('\n', " ");
    let (_, parts) = head.split_once(" = ").unwrap();
    for part in parts.split(" + ") {
        let (what, share) = part.trim().rsplit_once(" (").unwrap();
        let words: Vec<&str> = what.split_whitespace().collect();
        let (name, value) = words.split_at(words.len() - 2);
        let fact = format!("<dt>{}</dt><dd>{}</dd>", name.join(" "), value.join(" "));
        assert!(page.contains(&fact), "no {fact}, {share}");
    }
    // Run queues are apart, and functions wait, not the scheduler.
    assert!(page.contains("off-cpu:blocked") && page.contains("off-cpu:run-queue"));
    let (_, blocked) = page.split_once("off-cpu:blocked</h2>").unwrap();
    let blocked = page_rows(blocked.split("</article>").next().unwrap());
    let named = |name: &str| {
        let is_it = |row: &&Vec<String>| row.last().is_some_and(|last| last.contains(name));
        blocked.iter().filter(is_it).collect::<Vec<_>>()
    };
    assert!(named("schedule").iter().all(|row| row[0] == "0.00%"), "{:?}", named("schedule"));
    assert!(named("nanosleep").iter().any(|row| row[0] != "0.00%"), "{blocked:?}");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_type() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    scratch.pmuscope(["record", "-e", "cpu-clock", "-o", "x.data", "--", "true"]).exits(0);
    let report = scratch.pmuscope(["report", "-i", "x.data"]);
    assert!(!report.exits(0).stdout.contains("--by wait"), "{}", report.stdout);
    let said = scratch.pmuscope(["report", "-i", "x.data", "--by", "wait"]);
    said.exits(2).complains("pmuscope record --off-cpu");
    let report =
        |words: &[&str]| scratch.pmuscope([&["report", "-i", "x.data", "--by"], words].concat());
    report(&["wait,cpu"]).exits(2).complains("function, command, process and thread only");
    report(&["wait", "--time", "10%-20%"]).exits(2).complains("--pid, --tid and --comm");
    let record = |flag: &str| scratch.pmuscope(["record", "--off-cpu", flag, "--", "true"]);
    record("--budget=1").exits(2);
    record("--strobe").exits(2);
}

#[test]
fn a_table_says_what_was_measured_what_it_adds_up_to_and_what_is_missing() {
    use pmuscope_testkit::wait_file::{Recording, What};
    const FUTEX: &[&str] = &["__schedule", "schedule", "futex_do_wait"];
    let (main, other) = ((100, 100), (100, 101));
    let wakes = What::Wakes { tid: 100, interrupt: false, from: &["try_to_wake_up", "futex_wake"] };
    let steps = vec![
        (10, main, What::Leaves(FUTEX)),
        (10, main, What::Out { preempted: false }),
        (12, other, What::In),
        (25, other, wakes),
        (30, main, What::In),
        (60, main, What::Leaves(&["__schedule", "schedule"])),
        (60, main, What::Out { preempted: true }),
        (65, main, What::In),
        (70, other, What::Leaves(FUTEX)),
        (70, other, What::Out { preempted: false }),
    ];
    let names = vec![(100, 100, "main"), (100, 101, "other"), (7, 7, "silent")];
    let mut recording = Recording { steps, names, seconds: 0.1, has_wakings: true };
    let scratch = Scratch::new();
    recording.write(&scratch.path("x.data"));
    let table =
        |by| scratch.pmuscope(["report", "-i", "x.data", "--by", by]).exits(0).stdout.clone();
    insta::assert_snapshot!(table("wait,command"), @r"
    off-CPU time of 2 threads, 100 ms of process 100 on 2 CPUs, 4 waits    x.data
    overhead: - · lost 0 · throttled 0
    thread time 200 ms = on CPU 133 ms (66.5%) + blocked 45.0 ms (22.5%) + run-queue latency 5.00 ms (2.5%) + preempted 5.00 ms (2.5%) + off CPU since before the recording 12.0 ms (6.0%)

    off CPU   share  95% CI  waits   median  p99   longest  run-queue latency  wait                          comm   woken by
    30.0 ms  15.00%       -      1        -    -  >30.0 ms                  -  futex_do_wait                 other  -
    20.0 ms  10.00%       -      1  20.0 ms    -   20.0 ms            5.00 ms  futex_do_wait                 main   other: futex_wake
    12.0 ms   6.00%       -      1        -    -  >12.0 ms                  -  [begun before the recording]  other  -
    5.00 ms   2.50%       -      1  5.00 ms    -   5.00 ms                  -  [preempted]                   main   -

    note: 1 wait (12.0 ms) began before the recording, 1 (30.0 ms) continues past its end: their time counts, but not for median and p99
    note: 1 thread never switched: whether on or off CPU is unknown, so that time is in no sum
    note: no CI: the recording is too short; needed are 24 times the length of the waits or of the program's phases, and 30 blocks of time. Record longer.
    ");
    let args = ["report", "-i", "x.data", "--by", "wait,command", "--format", "csv"];
    insta::assert_snapshot!(scratch.pmuscope(args).exits(0).stdout, @r"
    off_cpu_s,share,share_low,share_high,waits,median_s,p99_s,longest_s,longest_is_cut,run_queue_s,blocked_s,woken,without_waking,without_waking_s,whole,begun_before,begun_before_s,last_past,last_past_s,state,wait,wait_module,command,woken_by
    0.03,0.15,,,1,,,0.03,true,,,0,0,0,0,0,0,1,0.03,blocked,futex_do_wait,[bpf],other,
    0.02,0.1,,,1,0.02,,0.02,false,0.005,0.015,1,0,0,1,0,0,0,0,blocked,futex_do_wait,[bpf],main,other: futex_wake
    0.012,0.06,,,1,,,0.012,true,,,0,0,0,0,1,0.012,0,0,unknown,[begun before the recording],,other,
    0.005,0.025,,,1,0.005,,0.005,false,,,0,0,0,1,0,0,0,0,preempted,[preempted],,main,
    ");
    recording.steps.retain(|(at, task, _)| !(*task == main && *at == 60));
    recording.steps.push((80, main, What::Lost(2)));
    recording.write(&scratch.path("x.data"));
    insta::assert_snapshot!(table("wait"), @r"
    off-CPU time of 2 threads, 100 ms of process 100 on 2 CPUs, 2 waits    x.data
    overhead: - · lost 2 · throttled 0
    thread time 200 ms = on CPU 10.0 ms (5.0%) + blocked 15.0 ms (7.5%) + run-queue latency 5.00 ms (2.5%) + preempted 0 s (0.0%) + off CPU since before the recording 12.0 ms (6.0%) + unknown 158 ms (79.0%)

    off CPU   share  95% CI  waits   median  p99   longest  run-queue latency  wait                          woken by
    20.0 ms  10.00%       -      1  20.0 ms    -   20.0 ms            5.00 ms  futex_do_wait                 other: futex_wake
    12.0 ms   6.00%       -      1        -    -  >12.0 ms                  -  [begun before the recording]  -

    warning: records were lost: 1 thread left a CPU and 0 threads came to one unobserved, and 1 wait overlapped lost records. That time (158 ms) is in no row. Try: pmuscope record -m 8M
    note: 1 wait (12.0 ms) began before the recording, 0 (0 s) continue past its end: their time counts, but not for median and p99
    note: 1 thread never switched: whether on or off CPU is unknown, so that time is in no sum
    note: no CI: the recording is too short; needed are 24 times the length of the waits or of the program's phases, and 30 blocks of time. Record longer.
    ");
}

#[test]
fn a_table_says_how_many_waits_have_no_waking() {
    use pmuscope_testkit::wait_file::{Recording, What};
    const FUTEX: &[&str] = &["__schedule", "schedule", "futex_do_wait"];
    let (main, other) = ((100, 100), (100, 101));
    let wakes = What::Wakes { tid: 100, interrupt: false, from: &["try_to_wake_up", "futex_wake"] };
    let wait = |from: u64, until: u64| {
        let out = What::Out { preempted: false };
        [(from, main, What::Leaves(FUTEX)), (from, main, out), (until, main, What::In)]
    };
    let mut steps = [wait(10, 30), wait(40, 50), wait(60, 90)].concat();
    steps.push((45, other, wakes));
    steps.sort_by_key(|(at, ..)| *at);
    let names = vec![(100, 100, "main"), (100, 101, "other")];
    let recording = Recording { steps, names, seconds: 0.1, has_wakings: true };
    let scratch = Scratch::new();
    recording.write(&scratch.path("x.data"));
    let report = scratch.pmuscope(["report", "-i", "x.data", "--by", "wait"]);
    insta::assert_snapshot!(report.exits(0).stdout, @r"
    off-CPU time of 1 thread, 100 ms of process 100 on 2 CPUs, 3 waits    x.data
    overhead: - · lost 0 · throttled 0
    thread time 100 ms = on CPU 40.0 ms (40.0%) + blocked 55.0 ms (55.0%) + run-queue latency 5.00 ms (5.0%) + preempted 0 s (0.0%)

    off CPU   share  95% CI  waits   median  p99  longest  run-queue latency  wait           woken by
    60.0 ms  60.00%       -      3  20.0 ms    -  30.0 ms           >5.00 ms  futex_do_wait  other: futex_wake 17%, 2 of 3 unknown

    note: 2 of 3 blocked waits (50.0 ms) ended with no recorded wakeup, which the kernel can drop uncounted: their waker is unknown, and their run-queue latency counts as blocked, so times with > are lower bounds
    note: 1 thread never switched: whether on or off CPU is unknown, so that time is in no sum
    note: no CI: the recording is too short; needed are 24 times the length of the waits or of the program's phases, and 30 blocks of time. Record longer.
    ");
}

/// A thread has as many names as it had programs, and its time is of the one that it had.
#[test]
fn times_of_all_names_are_all_the_time() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.2; sleep 0.1";
    let how = ["record", "--off-cpu", "-q", "-o", "x.data", "--", "sh", "-c", work];
    scratch.pmuscope(how).exits(0);
    let times = |flags: &[&str]| -> [f64; 2] {
        let report = ["report", "x.data", "--by", "wait", "--json"];
        let json = scratch.pmuscope(report.iter().chain(flags)).exits(0).stdout.clone();
        let json: Value = serde_json::from_str(&json).unwrap();
        ["wall_s", "on_cpu_s"].map(|name| json[name].as_f64().unwrap())
    };
    let all = times(&[]);
    let [sh, sleep] = ["sh", "sleep"].map(|name| times(&["--comm", name]));
    for (at, &all) in all.iter().enumerate() {
        let sum = sh[at] + sleep[at];
        assert!((sum - all).abs() < 0.005, "{} + {} of {all} s", sh[at], sleep[at]);
    }
    assert!(sleep[0] > 0.3 && sleep[1] < 0.2, "{sleep:?}: it sleeps");
    assert!(sh[0] > sh[1] && sh[1] > 0.01, "{sh:?}: it works, and waits");
}
