//! What is recorded: commands that fork, exec, fail and die; processes, threads and CPUs by number.
//! The status of a command is passed on, its children are followed, and each sample is told whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use pmuscope_perfdata::reader::Record;
use rustix::process::Signal;

use crate::actor;
use crate::harness::{Outcome, Scratch, Started, skip_unless, wait_for};
use crate::recording::{Recording, has_begun, need_clock, need_root_clock, rate};

/// A tenth of a second or so of a shell.
const SOME_WORK: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

/// `pmuscope record FLAGS -o x.data -- COMMAND` with the software clock in user mode.
#[track_caller]
fn record(scratch: &Scratch, flags: &[&str], command: &[&str]) -> (Outcome, Recording) {
    let hz = rate(5000);
    let mut args = vec!["record", "-e", "cpu-clock:u", "-F", &hz, "-o", "x.data"];
    args.extend(flags);
    args.push("--");
    args.extend(command);
    (scratch.pmuscope(args), Recording::at(scratch.path("x.data")))
}

/// `pmuscope record FLAGS` with the software clock in user mode, without a command.
#[track_caller]
fn start(scratch: &Scratch, flags: &[&str]) -> (Started, Recording) {
    let hz = rate(5000);
    let mut args = vec!["record", "-e", "cpu-clock:u", "-F", &hz, "-o", "x.data"];
    args.extend(flags);
    let path = scratch.path("x.data");
    let pmuscope = scratch.start(args);
    pmuscope.wait_until(|| has_begun(&path));
    (pmuscope, Recording::at(path))
}

/// Nobody listens; the work is done all the same.
#[test]
fn a_notice_that_cannot_be_written_is_no_reason_to_stop() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let pmuscope = env!("CARGO_BIN_EXE_pmuscope");
    let line = format!("{pmuscope} record -e cpu-clock:u -o x.data -- sh -c 'exit 7' 2>/dev/full");
    scratch.run("sh", ["-c", &line]).exits(7);
    scratch.pmuscope(["report", "x.data"]).exits(0);
}

/// What the exec told of names and mappings is there however late sampling begins, and the delay is no time
/// of the recording.
#[test]
fn a_command_that_is_sampled_later_has_its_names() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let work = format!("sleep 0.4; {SOME_WORK}; {SOME_WORK}");
    let begun = std::time::Instant::now();
    let (recorded, recording) = record(&scratch, &["-D", "300"], &["sh", "-c", &work]);
    let took = begun.elapsed();
    recorded.exits(0);
    let names = tasks(&recording).by_name;
    assert!(names["sh"] > 10 && names.len() == 1, "{names:?}");
    let json = scratch.pmuscope(["report", "x.data", "--json", "--no-inline"]);
    let json: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    let functions = json["events"][0]["functions"].as_array().unwrap();
    let is_shell = |row: &serde_json::Value| row["module"].as_str().unwrap().ends_with("sh");
    assert!(functions.iter().take(3).any(is_shell), "{functions:?}");
    let seconds = json["recording"]["duration_s"].as_f64().unwrap();
    let all = std::time::Duration::from_secs_f64(seconds + 0.3);
    assert!(all <= took, "{all:?} with the delay, of {took:?}");
}

/// Whose the samples are.
#[derive(Debug, Default)]
struct Tasks {
    /// Samples by the name that the thread had at that moment; "?" without one.
    by_name: BTreeMap<String, u64>,
    pids: BTreeSet<i32>,
    tids: BTreeSet<i32>,
    cpus: BTreeSet<u32>,
    forks: u64,
}

/// As a reader of the records in order of time learns it: a new task has its parent's name until it
/// takes another.
#[track_caller]
fn tasks(recording: &Recording) -> Tasks {
    let mut tasks = Tasks::default();
    let mut names: BTreeMap<i32, String> = BTreeMap::new();
    recording.read(|entry| match entry.record {
        Record::Comm(comm) => {
            names.insert(comm.tid, String::from_utf8_lossy(comm.name).into_owned());
        }
        Record::Fork(task) => {
            tasks.forks += 1;
            if let Some(name) = names.get(&task.parent_tid).cloned() {
                names.insert(task.tid, name);
            }
        }
        Record::Sample(sample) => {
            let tid = sample.tid.unwrap();
            let name = names.get(&tid).cloned().unwrap_or_else(|| "?".to_owned());
            *tasks.by_name.entry(name).or_default() += 1;
            tasks.pids.extend(sample.pid);
            tasks.tids.insert(tid);
            tasks.cpus.extend(sample.cpu);
        }
        _ => {}
    });
    tasks
}

#[test]
fn the_status_of_the_command_is_passed_on() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        let (said, recording) = record(&scratch, &[], &["sh", "-c", script]);
        said.exits(status);
        let info = recording.everyone_agrees();
        assert!(info.complete, "{info:?}");
        assert_eq!(info.ended_by.as_deref(), Some("the command ended"));
    }
}

/// A command that cannot be run has env(1)'s status, and what was recorded before stays.
#[test]
fn a_command_that_cannot_run_leaves_the_older_recordings_alone() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    fs::write(scratch.path("text"), "no program").unwrap();
    let (missing, _) = record(&scratch, &[], &["./none"]);
    missing.exits(127).prints_nothing().complains("cannot start ./none: ENOENT");
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 1, "something was left behind");

    // Recordings by their first bytes, which is what another recording may replace.
    let (new, old) = ("PERFILE2 new", "PERFILE2 old");
    fs::write(scratch.path("x.data"), new).unwrap();
    fs::write(scratch.path("x.data.old"), old).unwrap();
    for (program, status, errno) in [("./none", 127, "ENOENT"), ("./text", 126, "EACCES")] {
        record(&scratch, &[], &[program]).0.exits(status).complains(errno);
        assert_eq!(fs::read_to_string(scratch.path("x.data")).unwrap(), new, "{program}");
        assert_eq!(fs::read_to_string(scratch.path("x.data.old")).unwrap(), old, "{program}");
    }
}

/// Whoever throws the samples away keeps what he throws them into.
#[test]
fn what_is_no_file_stays_where_it_is() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    symlink("/dev/null", scratch.path("x.data")).unwrap();
    for (program, status) in [("true", 0), ("./none", 127)] {
        record(&scratch, &[], &[program]).0.exits(status);
        assert!(fs::symlink_metadata(scratch.path("x.data")).unwrap().is_symlink(), "{program}");
    }
}

/// From the exec on, samples carry the name of the new program.
#[test]
fn a_command_that_becomes_another_program() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let shell = fs::canonicalize("/bin/sh").unwrap();
    symlink(shell, scratch.path("second-life")).unwrap();
    let script = format!("{SOME_WORK}; exec ./second-life -c '{SOME_WORK}'");
    let (said, recording) = record(&scratch, &[], &["sh", "-c", &script]);
    said.exits(0);
    recording.everyone_agrees();
    let names = tasks(&recording).by_name;
    assert!(names["sh"] > 10 && names["second-life"] > 10, "{names:?}");
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Each of a thousand children is followed from its fork on.
#[test]
fn a_command_that_forks_a_thousand_children() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let script = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); (exit 0); done; exit 9";
    let command = ["sh", "-c", script];
    // Every child faults when it first writes to its stack: each one has samples, however fast it is.
    let mut args = vec!["record", "-e", "page-faults", "-c", "1", "-o", "x.data", "--"];
    args.extend(command);
    scratch.pmuscope(args).exits(9);
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.everyone_agrees();
    assert_eq!(info.lost(), Some(0));
    let tasks = tasks(&recording);
    assert_eq!(tasks.forks, 1000);
    // Before its exec the command still is pmuscope.
    assert!(tasks.by_name.keys().all(|name| name == "sh" || name == "pmuscope"), "{tasks:?}");
    assert_eq!(tasks.pids.len(), 1001, "the command and its children");
}

#[test]
fn children_are_left_out_where_that_is_asked_for() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let script = format!("({SOME_WORK}); {SOME_WORK}");
    let count = |flags: &[&str]| {
        let (said, recording) = record(&scratch, flags, &["sh", "-c", &script]);
        said.exits(0);
        tasks(&recording).pids.len()
    };
    assert_eq!((count(&[]), count(&["-i"])), (2, 1));
}

/// All threads that are there, and those that come; the end of the process ends the recording.
#[test]
fn a_process_that_starts_threads() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let actor = Started::of(&mut actor::command("threads 600"));
    let (pmuscope, recording) = start(&scratch, &["-p", &actor.pid().to_string()]);
    actor.ends().exits(0);
    pmuscope.ends().exits(0);
    let info = recording.everyone_agrees();
    assert_eq!(info.ended_by.as_deref(), Some("the observed processes ended"));
    let tasks = tasks(&recording);
    assert_eq!(tasks.pids.len(), 1, "{tasks:?}");
    assert!(tasks.tids.len() > 1, "threads that started later have samples: {tasks:?}");
    assert!(!tasks.by_name.contains_key("?"), "{tasks:?}");
}

/// A thread that is born between the listing of threads and the opening of events at its parent is in
/// neither; all that came from it would be missing.
#[test]
fn a_process_whose_threads_take_turns() {
    skip_unless!(need_clock());
    for _ in 0..5 {
        let scratch = Scratch::new();
        let actor = Started::of(&mut actor::command("relay 4000 60000"));
        let (pmuscope, recording) = start(&scratch, &["-p", &actor.pid().to_string()]);
        let some_turns = std::time::Duration::from_millis(100);
        std::thread::sleep(some_turns);
        let goes_on = pmuscope_machine::Machine::host().threads(actor.pid()).unwrap();
        std::thread::sleep(some_turns);
        pmuscope.signal(Signal::INT);
        let said = pmuscope.ends();
        said.exits(0);
        let last = *tasks(&recording).tids.last().unwrap() as u32;
        let lives = goes_on.iter().max().unwrap();
        assert!(last >= *lives, "the relay was lost at {last}, and went on to {lives}\n{said}");
    }
}

/// Where threads come too fast to be sure, that is told.
#[test]
fn a_process_whose_threads_come_too_fast() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let actor = Started::of(&mut actor::command("relay 10 60000"));
    let (pmuscope, recording) = start(&scratch, &["-p", &actor.pid().to_string()]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    pmuscope.signal(Signal::INT);
    let said = pmuscope.ends();
    // They live too short to be sampled; their births are recorded.
    let births = tasks(&recording).forks;
    assert!(births > 100 || said.stderr.contains("may be missing"), "{births} births\n{said}");
}

#[test]
fn one_thread_of_several() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let actor = Started::of(&mut actor::command("spin 800"));
    let machine = pmuscope_machine::Machine::host();
    wait_for("its threads", || machine.threads(actor.pid()).unwrap().len() == 2);
    // The first one waits for the other, which spins.
    let tids = machine.threads(actor.pid()).unwrap();
    let (pmuscope, recording) = start(&scratch, &["-t", &tids[1].to_string()]);
    actor.ends().exits(0);
    pmuscope.ends().exits(0);
    let tasks = tasks(&recording);
    assert_eq!(tasks.tids, BTreeSet::from([tids[1] as i32]), "{tasks:?}");
}

#[test]
fn a_process_or_thread_that_does_not_exist() {
    let scratch = Scratch::new();
    // Larger than any pid_max.
    for (flag, text) in [("-p", "process 4194305"), ("-t", "thread 4194305")] {
        let refused = scratch.pmuscope(["record", "-e", "cpu-clock:u", flag, "4194305"]);
        refused.exits(2).prints_nothing().complains(text);
    }
    assert!(!scratch.path("pmuscope.data").exists());
}

#[test]
fn one_cpu_of_several() {
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let cpu = crate::recording::online().iter().last().unwrap();
    let (said, recording) =
        record(&scratch, &["-C", &cpu.to_string()], &crate::recording::busy("0.3"));
    said.exits(0);
    recording.everyone_agrees();
    assert_eq!(tasks(&recording).cpus, BTreeSet::from([cpu]));
}

/// Ctrl-C and SIGTERM end a recording in order: the file is whole, nothing is missing.
#[test]
fn signals_end_a_recording_in_order() {
    skip_unless!(need_root_clock());
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let scratch = Scratch::new();
        let (pmuscope, recording) = start(&scratch, &["-a", "-z", "--aio"]);
        pmuscope.signal(signal);
        pmuscope.ends().exits(0).prints_nothing().complains("0 lost");
        let info = recording.everyone_agrees();
        assert!(info.complete && info.ended_by.as_deref() == Some("interrupted"), "{info:?}");
    }
}

/// A command that ignores the end of its recording is ended; its status says how.
#[test]
fn a_signal_ends_the_command_too() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    let (pmuscope, recording) = start(&scratch, &["--", "sleep", "100"]);
    pmuscope.signal(Signal::INT);
    pmuscope.ends().exits(128 + 15);
    assert!(recording.everyone_agrees().complete);
}

/// The file belongs to whoever typed sudo, and is nobody else's business.
#[test]
fn the_file_belongs_to_the_invoking_user() {
    use std::os::unix::fs::MetadataExt as _;
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["record", "-e", "cpu-clock:u", "--", "true"]).current_dir(scratch.path(""));
    Outcome::of(command.env("SUDO_UID", "65534").env("SUDO_GID", "65533")).exits(0);
    let file = fs::metadata(scratch.path("pmuscope.data")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (65534, 65533, 0o600));
}

/// A device is everybody's.
#[test]
fn a_device_stays_whose_it_is() {
    use std::os::unix::fs::MetadataExt as _;
    skip_unless!(need_root_clock());
    let scratch = Scratch::new();
    scratch.run("mknod", ["null", "c", "1", "3"]).exits(0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["record", "-e", "cpu-clock:u", "-o", "null", "--", "true"]);
    command.current_dir(scratch.path("")).env("SUDO_UID", "65534").env("SUDO_GID", "65533");
    Outcome::of(&mut command);
    let file = fs::metadata(scratch.path("null")).unwrap();
    assert_eq!((file.uid(), file.gid()), (0, 0));
}

#[test]
fn the_previous_recording_is_kept() {
    skip_unless!(need_clock());
    let scratch = Scratch::new();
    for script in ["exit 1", "exit 2", "exit 3"] {
        record(&scratch, &[], &["sh", "-c", script]);
    }
    for (name, status) in [("x.data", "3"), ("x.data.old", "2")] {
        let info = Recording::at(scratch.path(name)).info();
        assert!(info.scope.ends_with(status), "{name}: {}", info.scope);
    }
}
