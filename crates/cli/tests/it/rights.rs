//! Without rights, and at the limits of the system: what is allowed works, and what is refused says
//! what was to be done, why not, and what to type.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmuscope_machine::Machine;
use pmuscope_measure::RunFile;
use pmuscope_perfdata::watch::Means;

use crate::harness::{Outcome, Scratch, need_root, skip_unless};
use crate::recording::{Recording, has_kernel_samples, need_clock};

/// A user without any rights, in a folder of its own. Each test has its own user: the kernel counts
/// the memory of rings by user.
struct Nobody {
    scratch: Scratch,
    user: u32,
    pmuscope: PathBuf,
}

impl Nobody {
    /// Where we are root, a user whom nobody else is; otherwise ourselves.
    fn new(number: u32) -> Self {
        let scratch = Scratch::new();
        let built = Path::new(env!("CARGO_BIN_EXE_pmuscope"));
        let user = 61_000 + number;
        if need_root().is_some() {
            return Self { scratch, user, pmuscope: built.to_owned() };
        }
        // The folder that it was built in may be closed to others.
        let pmuscope = scratch.path("pmuscope");
        if fs::hard_link(built, &pmuscope).is_err() {
            fs::copy(built, &pmuscope).unwrap();
        }
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        chown(scratch.path(""), Some(user), Some(user)).unwrap();
        Self { scratch, user, pmuscope }
    }

    /// `pmuscope ARGS`.
    #[track_caller]
    fn pmuscope(&self, args: &[&str]) -> Outcome {
        self.run(self.command(&self.pmuscope).args(args))
    }

    /// `pmuscope ARGS` with so many descriptors at most, soft and hard.
    #[track_caller]
    fn pmuscope_with_descriptors(&self, most: u32, args: &[&str]) -> Outcome {
        let script = format!("ulimit -n {most} && exec \"$@\"");
        let mut command = self.command(Path::new("/bin/sh"));
        self.run(command.args(["-c", &script, "sh"]).arg(&self.pmuscope).args(args))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.scratch.path(""));
        if need_root().is_none() {
            // Changing the user takes all capabilities away.
            command.uid(self.user).gid(self.user);
        }
        command
    }

    #[track_caller]
    fn run(&self, command: &mut Command) -> Outcome {
        Outcome::of(command)
    }

    fn recording(&self) -> Recording {
        Recording::at(self.scratch.path("pmuscope.data"))
    }
}

/// Linux's default, under which users see the user mode of their own programs.
fn need_paranoid_2() -> Option<String> {
    let level = Machine::host().limits().perf_event_paranoid;
    (level != Some(2)).then(|| format!("perf_event_paranoid is {level:?}, not 2"))
}

const WORK: [&str; 4] =
    ["--", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 7"];

/// Users record their own programs.
#[test]
fn the_user_mode_of_an_own_program() {
    skip_unless!(need_paranoid_2());
    skip_unless!(need_clock());
    let nobody = Nobody::new(1);
    nobody.pmuscope(&[&["record", "-e", "cpu-clock:u"][..], &WORK].concat()).exits(7);
    let info = nobody.recording().everyone_agrees();
    assert!(info.samples() > 10, "{info:?}");
    assert!(info.notices.is_empty(), "{info:?}");
}

/// Where no event is named, the default becomes what is allowed, and says so.
#[test]
fn the_default_event_leaves_out_the_kernel() {
    skip_unless!(need_paranoid_2());
    skip_unless!(need_clock());
    let nobody = Nobody::new(2);
    let said = nobody.pmuscope(&[&["record"][..], &WORK].concat());
    said.exits(7).complains("sampling user mode only").complains("perf_event_paranoid=1");
    let info = nobody.recording().everyone_agrees();
    assert!(info.samples() > 10, "{info:?}");
    let names: Vec<&str> = info.events.iter().map(|event| event.name.as_str()).collect();
    assert!(names.iter().all(|name| name.contains(":u") || name.ends_with('u')), "{names:?}");
    assert!(!has_kernel_samples(&nobody.recording()));
    let strict = nobody.pmuscope(&["record", "--strict", "--", "true"]);
    strict.exits(3).complains("--strict: ");
}

/// An event that was asked for by name is not replaced.
#[test]
fn a_named_event_is_refused_with_what_to_type() {
    skip_unless!(need_paranoid_2());
    let nobody = Nobody::new(3);
    let refused = nobody.pmuscope(&["record", "-e", "cpu-clock", "--", "true"]);
    refused.exits(3).prints_nothing().complains("cannot open cpu-clock").complains("EACCES");
    refused.complains("perf_event_paranoid=1, or -e cpu-clock:u");
    assert!(!nobody.scratch.path("pmuscope.data").exists());
}

#[test]
fn the_whole_machine_is_refused_with_what_to_type() {
    skip_unless!(need_paranoid_2());
    let nobody = Nobody::new(4);
    for event in ["cpu-clock", "cpu-clock:u", "page-faults"] {
        let refused = nobody.pmuscope(&["record", "-a", "-e", event]);
        refused.exits(3).prints_nothing().complains("on CPU 0: perf_event_open: EACCES");
        refused.complains("perf_event_paranoid is 2").complains("perf_event_paranoid=0");
        assert!(refused.stderr.contains(event), "it names the event\n{refused}");
    }
}

/// Whoever asks for the kernel does not want the user's part in its place.
#[test]
fn the_kernels_part_is_not_replaced_by_the_users() {
    skip_unless!(need_paranoid_2());
    skip_unless!(need_clock());
    let nobody = Nobody::new(12);
    let counted = nobody.pmuscope(&["stat", "-x,", "-e", "cpu-clock:k,cpu-clock", "--", "true"]);
    assert!(!counted.stdout.contains(":ku"), "{counted}");
    assert!(
        counted.stderr.contains("perf_event_paranoid=1") || counted.stdout.contains("<not"),
        "{counted}"
    );
    let refused = nobody.pmuscope(&["record", "-e", "cpu-clock:k", "--", "true"]);
    refused.exits(3).complains("perf_event_paranoid=1");
    assert!(!refused.stderr.contains(":k:u"), "{refused}");
}

/// What is counted in user mode has another name than what was typed.
#[test]
fn an_event_is_a_unit_of_work_in_user_mode_too() {
    skip_unless!(need_paranoid_2());
    let nobody = Nobody::new(10);
    let work = ["stat", "--per-event", "fault=page-faults", "-e", "page-faults", "--", "true"];
    nobody.pmuscope(&work).exits(0).prints("page-faults:u").prints("/fault");
}

#[test]
fn processes_of_others_are_refused() {
    skip_unless!(need_root());
    let nobody = Nobody::new(5);
    let refused = nobody.pmuscope(&["record", "-e", "cpu-clock:u", "-p", "1"]);
    refused.exits(3).prints_nothing().complains("another user").complains("sudo");
    for command in ["show", "advise"] {
        let refused = nobody.pmuscope(&["numa", command, "-p", "1"]);
        refused.exits(3).prints_nothing().complains("another user").complains("sudo pmuscope");
    }
}

/// What another user's process started may be ours, but it is not what was asked for.
#[test]
fn a_process_of_another_user_is_refused_whatever_it_started() {
    skip_unless!(need_root());
    let nobody = Nobody::new(11);
    let user = nobody.user;
    let script = format!("setpriv --reuid {user} --regid {user} --clear-groups sleep 60; true");
    let mut parent = Command::new("sh").args(["-c", &script]).process_group(0).spawn().unwrap();
    let pid = parent.id();
    let path = format!("/proc/{pid}/task/{pid}/children");
    let sleeps = || {
        let children = fs::read_to_string(&path).unwrap_or_default();
        let child = children.split_whitespace().next().unwrap_or("none");
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    let begun = std::time::Instant::now();
    while !sleeps() && begun.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let began = sleeps();
    let refused = nobody.pmuscope(&["numa", "show", "-p", &pid.to_string()]);
    let group = rustix::process::Pid::from_child(&parent);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    parent.wait().unwrap();
    assert!(began, "setpriv is part of Debian");
    refused.exits(3).prints_nothing().complains("another user").complains("sudo pmuscope");
}

/// The arithmetic is printed, and the size that is suggested works. A user's recordings share the limit: where
/// others of this user run, it may take a second, smaller suggestion.
#[test]
fn rings_beyond_the_locked_memory_are_refused() {
    skip_unless!(need_paranoid_2());
    skip_unless!(need_clock());
    let nobody = Nobody::new(6);
    let record =
        |size: &str| nobody.pmuscope(&["record", "-e", "cpu-clock:u", "-m", size, "--", "true"]);
    let refused = record("1G");
    refused.exits(3).prints_nothing().complains("ring buffers of 1048576 KiB").complains("EPERM");
    refused.complains("perf_event_mlock_kb").complains("RLIMIT_MEMLOCK");
    let is_alone = need_root().is_none();
    let (mut kib, mut recorded) = (1 << 20, refused);
    while recorded.code() == 3 {
        let suggested = suggested_ring_kib(&recorded);
        assert!(suggested < kib, "{recorded}");
        kib = suggested;
        recorded = record(&format!("{kib}K"));
        assert!(!is_alone || recorded.code() == 0, "{recorded}");
    }
    recorded.exits(0);
}

/// The size after `Try: -m`, KiB.
fn suggested_ring_kib(refused: &Outcome) -> u64 {
    let (_, suggested) = refused.stderr.split_once("Try: -m ").unwrap();
    suggested.split_once("K,").unwrap().0.parse().unwrap()
}

/// Without `-m` rings are as large as the limit allows.
#[test]
fn rings_fit_into_the_locked_memory_by_themselves() {
    skip_unless!(need_paranoid_2());
    skip_unless!(need_clock());
    let nobody = Nobody::new(7);
    let mut command = nobody.command(Path::new("/bin/sh"));
    command.args(["-c", "ulimit -l 16 && exec \"$@\"", "sh"]).arg(&nobody.pmuscope);
    nobody.run(command.args(["record", "-e", "cpu-clock:u", "--", "true"])).exits(0);
    let sizes: Vec<u64> = nobody.recording().info().rings.iter().map(|ring| ring.size).collect();
    let kib = Machine::host().limits().perf_event_mlock_kb.unwrap();
    let allowed = kib * 1024 * sizes.len() as u64 + 16 * 1024;
    assert!(sizes.iter().sum::<u64>() <= allowed, "{sizes:?} of {allowed}");
}

/// The arithmetic adds up, and the number that is suggested is enough.
#[test]
fn too_few_descriptors_are_refused() {
    skip_unless!(need_clock());
    let nobody = Nobody::new(8);
    let args = ["record", "-e", "cpu-clock:u", "--", "true"];
    let refused = nobody.pmuscope_with_descriptors(24, &args);
    refused.exits(3).prints_nothing().complains("the limit is 24");
    let cpus = crate::recording::online().len();
    refused.complains(&format!("1 event x {cpus} ")).complains(&format!("need {} ", cpus + 128));
    let (_, suggested) = refused.stderr.split_once("Try: ulimit -n ").unwrap();
    let suggested = suggested.split_once(',').unwrap().0.parse().unwrap();
    nobody.pmuscope_with_descriptors(suggested, &args).exits(0);
}

/// Without BPF there are samples, and counts.
#[test]
fn hits_of_watchpoints_are_samples_where_bpf_is_not_allowed() {
    skip_unless!(need_root());
    skip_unless!(need_paranoid_2());
    let nobody = Nobody::new(10);
    let program = nobody.scratch.path("watched");
    fs::copy(crate::watch::program(), &program).unwrap();
    let args = ["watch", "-o", "x.data", "counter", "--", program.to_str().unwrap(), "2", "50"];
    let watch = nobody.pmuscope(&args);
    watch.exits(0).complains("BPF programs are not allowed here").prints("counter 100");
    watch.complains(" CPUs, without values, callchains and limits (--max-stack, --max-records and");
    let recording = Recording::at(nobody.scratch.path("x.data"));
    let info = recording.everyone_agrees();
    let watch = info.watch.as_ref().unwrap();
    assert_eq!((watch.means, info.samples()), (Means::Samples, 100));
    assert_eq!(watch.blocks[0].hits, [100]);
    let condition = ["watch", "--when", "new > 1", "counter", "--", program.to_str().unwrap()];
    let wanted = nobody.pmuscope(&condition);
    wanted.exits(3).prints_nothing().complains("--when: needs BPF programs");
    wanted.complains("Try: as root, or with CAP_BPF and CAP_PERFMON");
    let counts = ["watch", "--count-only", "counter", "--", program.to_str().unwrap(), "1", "1"];
    let counts = nobody.pmuscope(&counts);
    counts.exits(0).complains("limits (--count-only, --max-stack, --max-records");
}

/// As at perf's: the kernel's part is left out. What only the kernel does is not counted, and not 0.
#[test]
fn counts_of_an_own_program_are_of_user_mode() {
    skip_unless!(need_paranoid_2());
    skip_unless!(need_clock());
    let nobody = Nobody::new(19);
    let said = nobody.pmuscope(&["stat", "--json=a.json", "--", "true"]);
    said.exits(0).complains("counting user mode only").prints("Not counted: context-switches");
    let text = fs::read_to_string(nobody.scratch.path("a.json")).unwrap();
    let file: RunFile = serde_json::from_str(&text).unwrap();
    let value = |metric: &str| {
        let series = file.series.iter().find(|series| series.metric == metric).unwrap();
        series.values[0].value
    };
    assert!(value("page-faults:u").unwrap() > 0.0, "{text}");
    assert_eq!(value("context-switches"), None);
    let asked = nobody.pmuscope(&["stat", "-e", "context-switches", "--", "true"]);
    asked.exits(3).complains("it happens in the kernel").complains("paranoid=1");
    let sweep = nobody.pmuscope(&["sweep", "-r", "1", "-e", "page-faults", "--", "true"]);
    sweep.exits(0).complains("counting user mode only").prints("page-faults:u");
}
