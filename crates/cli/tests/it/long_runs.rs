//! Recordings in several files, flight recorders and commands while recording: under load, with
//! nothing lost, and every file whole on its own.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Scratch, need_full, need_root, skip_unless};
use crate::recording::{Recording, busy, rate};

/// The recordings in the folder, oldest first: names end in the time.
fn recordings(scratch: &Scratch) -> Vec<PathBuf> {
    let folder = scratch.path("");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("x.data"))
        .collect();
    found.sort();
    found
}

/// Samples that the summary on stderr says were taken.
fn samples_said(stderr: &str) -> u64 {
    let line =
        stderr.lines().find(|line| line.contains(" samples, 0 lost,")).unwrap_or_else(|| {
            panic!("no summary without loss in\n{stderr}");
        });
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "samples,").unwrap();
    words[at - 1].replace(',', "").parse().unwrap()
}

fn check_switching(when: &str, more: &[&str], files: std::ops::RangeInclusive<usize>) {
    let scratch = Scratch::new();
    let hz = rate(10_000);
    let when = format!("--switch-output={when}");
    let mut args = vec!["record", "-a", "-e", "cpu-clock", "-F", &hz, "-o", "x.data", &when];
    args.extend(more);
    args.push("--");
    args.extend(busy("3"));
    let outcome = scratch.pmuscope(args);
    outcome.exits(0);
    let found = recordings(&scratch);
    assert!(files.contains(&found.len()), "{} files\n{outcome}", found.len());
    let sum: u64 =
        found.iter().map(|path| Recording::at(path.clone()).everyone_agrees().samples()).sum();
    assert_eq!(sum, samples_said(&outcome.stderr), "no sample is lost or doubled between files");
}

#[test]
fn files_change_over_by_time_without_a_gap() {
    skip_unless!(need_root());
    check_switching("1s", &[], 2..=9);
}

#[test]
fn files_change_over_by_size_with_several_readers_compressed_and_asynchronous() {
    skip_unless!(need_root());
    check_switching("100K", &["-z", "--aio", "--readers", "cpu"], 2..=30);
}

#[test]
fn full_files_change_over_in_every_way_of_writing() {
    skip_unless!(need_full().or_else(need_root));
    check_switching("1s", &["--aio"], 2..=9);
    check_switching("1s", &["-z"], 2..=9);
    check_switching("1s", &["--readers", "cpu", "--affinity", "cpu"], 2..=9);
    check_switching("500K", &[], 2..=30);
}

#[test]
fn only_as_many_files_are_kept_as_were_asked_for() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let args = ["record", "-a", "-e", "cpu-clock", "-o", "x.data", "--switch-output=1s"];
    let mut args = args.to_vec();
    args.extend(["--switch-max-files", "2", "--"]);
    args.extend(busy("4"));
    scratch.pmuscope(args).exits(0);
    assert_eq!(recordings(&scratch).len(), 2);
}

/// What is left tells of itself, not of what was removed.
#[test]
fn the_only_file_that_is_kept_tells_its_own_stretch() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let mut args = vec!["record", "-a", "-e", "cpu-clock", "-o", "x.data", "--switch-output=1s"];
    args.extend(["--switch-max-files", "1", "--"]);
    args.extend(busy("4"));
    scratch.pmuscope(args).exits(0);
    let [only] = &recordings(&scratch)[..] else { panic!("{:?}", recordings(&scratch)) };
    let info = Recording::at(only.clone()).everyone_agrees();
    assert!(info.duration_s < 3.0, "{} s", info.duration_s);
}

/// The next file cannot be made: that ends the recording, and what was recorded is there.
#[test]
fn a_folder_that_goes_away_ends_the_recording_and_loses_nothing() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("here")).unwrap();
    let mut args = vec!["record", "-a", "-e", "cpu-clock", "-F", "5000", "-o", "here/x.data"];
    args.extend(["--switch-output=2s", "--"]);
    args.extend(busy("3"));
    let running = Running::start(&scratch, &args);
    let begun = || std::fs::read_dir(scratch.path("here")).unwrap().next().is_some();
    running.until("file", begun);
    std::fs::rename(scratch.path("here"), scratch.path("there")).unwrap();
    let said = running.said();
    assert!(said.contains("recording failed: cannot create here/x.data"), "{said}");
    let file = std::fs::read_dir(scratch.path("there")).unwrap().next().unwrap().unwrap().path();
    let info = Recording::at(file).everyone_agrees();
    assert!(info.complete && info.samples() > 1000, "{said}");
}

/// A recorder that runs while the test does something to it.
struct Running(Child);

impl Running {
    fn start(scratch: &Scratch, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
        command.args(args).current_dir(scratch.path("")).stderr(Stdio::piped());
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), signal).unwrap();
    }

    /// Waits until `done`, at most a while.
    #[track_caller]
    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(600), "still no {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it said, at its end.
    fn said(mut self) -> String {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        self.0.wait().unwrap();
        text
    }
}

/// CPU time of a process's children, in hundredths of a second (USER_HZ): the fields utime and stime of
/// proc(5), the 12th and 13th behind the name.
fn ticks_of_children(pid: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let ticks = |child: &str| -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
    };
    children.unwrap_or_default().split_whitespace().filter_map(ticks).sum()
}

/// A snapshot holds the newest samples of every CPU, none of them twice, and taking it loses none.
#[test]
fn a_flight_recorder_writes_its_newest_samples_on_a_signal_and_at_the_end() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    let hz = rate(20_000);
    let mut args = vec!["record", "-a", "--overwrite", "-m", "128K", "-e", "cpu-clock"];
    args.extend(["-F", &hz, "-o", "x.data", "--"]);
    args.extend(busy("4"));
    let running = Running::start(&scratch, &args);
    // The command begins when sampling does; by then it has filled a ring twice over.
    running.until("CPU time", || ticks_of_children(running.0.id()) >= 30);
    for count in 1..=2 {
        running.signal(Signal::USR2);
        running.until("snapshot", || recordings(&scratch).len() >= count);
        std::thread::sleep(Duration::from_millis(500));
    }
    let said = running.said();
    let found = recordings(&scratch);
    assert_eq!(found.len(), 3, "{said}");
    for path in found {
        let info = Recording::at(path).everyone_agrees();
        assert_eq!(info.lost(), Some(0));
        // A ring of 128 KiB holds 2700 samples of 48 bytes; sideband and the cut end take some.
        assert!(info.samples() > 1000, "{info:?}");
    }
}

/// A process that began before the oldest sample of the rings, and ended before the snapshot, has its name
/// and its functions: what tells them is not overwritten by samples.
#[test]
fn a_flight_recorder_knows_processes_that_began_long_before_and_ended() {
    let scratch = Scratch::new();
    std::fs::copy(env!("CARGO_BIN_EXE_pmuscope"), scratch.path("bygone")).unwrap();
    let script = "./bygone workload stencil --threads 1 --seconds 2 & wait";
    let hz = rate(5_000);
    let ring = ["-m", "16K", "-e", "cpu-clock:u", "-F", &hz, "-o", "x.data"];
    let command = ["--", "sh", "-c", script];
    scratch.pmuscope(["record", "--overwrite"].iter().chain(&ring).chain(&command)).exits(0);
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.everyone_agrees();
    // A ring of 16 KiB holds 340 samples; of a second alone there were more.
    assert!((100..=340 * u64::from(info.machine.cpus)).contains(&info.samples()), "{info:?}");
    let report = scratch.pmuscope(["report", "-i", "x.data", "--by", "comm,module"]);
    report.exits(0).prints("bygone");
    assert!(!report.stdout.contains("[unknown]"), "{report}");
}

#[test]
fn commands_of_a_file_are_refused() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("commands"), "").unwrap();
    let refused = scratch.pmuscope(["record", "--control", "fifo:commands", "--", "true"]);
    refused.exits(2).complains("commands: it is no FIFO").complains("mkfifo");
}

/// Sampling is on only between `enable` and `disable`; each command is acknowledged; `stop` ends.
#[test]
fn commands_are_obeyed_and_acknowledged() {
    skip_unless!(need_root());
    let scratch = Scratch::new();
    for name in ["commands", "answers"] {
        scratch.run("mkfifo", [name]).exits(0);
    }
    let open = |name: &str| {
        std::fs::File::options().read(true).write(true).open(scratch.path(name)).unwrap()
    };
    let (mut commands, mut answers) = (open("commands"), open("answers"));
    let mut args = vec!["record", "-a", "-D", "-1", "-e", "cpu-clock", "-o", "x.data"];
    args.extend(["--control", "fifo:commands,answers", "--"]);
    args.extend(busy("30"));
    let running = Running::start(&scratch, &args);
    let mut ask = |command: &str, expected: &str| {
        commands.write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut answer = vec![0_u8; expected.len()];
        answers.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected, "{command}");
    };
    // One answer to each.
    ask("enable nothing", "error: no event nothing\n");
    let mut tell = |command: &str| ask(command, "ack\n");
    tell("ping");
    let clock = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let before = clock();
    tell("enable");
    std::thread::sleep(Duration::from_millis(600));
    tell("disable");
    let after = clock();
    std::thread::sleep(Duration::from_millis(400));
    tell("stop");
    let said = running.said();
    let recording = Recording::at(scratch.path("x.data"));
    let info = recording.everyone_agrees();
    assert!(info.samples() > 100, "{said}");
    let ns =
        |time: rustix::time::Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    for time in recording.by_us().times {
        assert!((ns(before)..=ns(after)).contains(&time), "a sample while sampling was off");
    }
}
