//! Guests with the machines that the documents promise, other people's rights, and guests whose owner is
//! killed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmuscope_lab::{Cached, Kernels};
use pmuscope_machine::user_cache;
use rustix::process::Signal;

use crate::harness::{
    Outcome, Scratch, Started, need_full, need_program, need_root, skip_unless, wait_for,
};
use crate::lab::{lab, need_guests, write_script};

#[test]
fn full_sockets_threads_and_latencies_are_those_asked_for() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let script = "#!/bin/sh -e
pmuscope doctor --json >doctor.json
for node in 0 1 2; do
    cat /sys/devices/system/node/node$node/access0/initiators/read_latency
    cat /sys/devices/system/node/node$node/access0/initiators/read_bandwidth
done >hmat
";
    write_script(&scratch, "look", script);
    let machine = ["--cpus", "8", "--nodes", "2", "--memory-nodes", "1", "--sockets", "4"];
    let more = ["--threads", "2", "--hmat", "--distance", "0,2=40", "--file", "look"];
    let files = ["--file", "/bin/cat", "--", "workload", "command", "--", "./look"];
    lab(&scratch, ["run"].iter().chain(&machine).chain(&more).chain(&files)).exits(0);
    let text = std::fs::read_to_string(scratch.path("doctor.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let topology = &json["machine"]["topology"];
    let of_cpus = |what: &str| -> Vec<String> {
        let cpus = topology["cpus"].as_array().unwrap();
        cpus.iter().map(|cpu| cpu[what].to_string().replace('"', "")).collect()
    };
    assert_eq!(of_cpus("package"), ["0", "0", "1", "1", "2", "2", "3", "3"]);
    let pairs = ["0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"];
    assert_eq!(of_cpus("siblings"), pairs);
    let nodes = topology["nodes"].as_array().unwrap();
    let cpus: Vec<_> = nodes.iter().map(|node| node["cpus"].as_str().unwrap()).collect();
    assert_eq!(cpus, ["0-3", "4-7", ""]);
    // Latency in ns and bandwidth in MB/s of each node from the one that is nearest to it; the one
    // without CPUs is nearest to the first.
    let hmat = std::fs::read_to_string(scratch.path("hmat")).unwrap();
    let numbers: Vec<&str> = hmat.lines().collect();
    assert_eq!(numbers, ["10", "20000", "10", "20000", "40", "5000"]);
}

/// The newest 6.1 of the cache.
fn kernel() -> Cached {
    let cached = Kernels::host(user_cache().as_deref()).cached();
    let mut found = cached.into_iter().filter(|k| k.arch == "x86_64");
    found.rfind(|k| k.release.starts_with("6.1.")).unwrap()
}

/// This machine may have no file of its kernel: the test puts one there, seen by itself alone.
#[test]
fn full_the_kernel_of_the_host_is_found_and_booted() {
    skip_unless!(need_full());
    skip_unless!(need_root());
    skip_unless!(need_program("unshare", "--version"));
    skip_unless!(need_guests("x86_64", "6.1"));
    skip_unless!((!Path::new("/boot").is_dir()).then(|| "there is no /boot".to_owned()));
    let (scratch, kernel) = (Scratch::new(), kernel());
    let script = "mount -t tmpfs none /boot
cp \"$1\" \"/boot/vmlinuz-$(uname -r)\"
cp \"$2\" \"/boot/config-$(uname -r)\"
exec \"$3\" lab run --kernel host -- doctor";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh"]).arg(&kernel.image).arg(&kernel.config);
    command.arg(env!("CARGO_BIN_EXE_pmuscope")).current_dir(scratch.path(""));
    let outcome = Outcome::of(&mut command);
    outcome
        .exits(0)
        .prints(&kernel.release)
        .complains(&format!("guest of Linux {}", kernel.release));
}

/// A command line that runs `pmuscope lab` as nobody, with files that nobody may read.
fn as_nobody(scratch: &Scratch) -> (Command, PathBuf) {
    let open = |path: &Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    open(&scratch.path(""));
    let program = scratch.path("pmuscope");
    std::fs::copy(env!("CARGO_BIN_EXE_pmuscope"), &program).unwrap();
    let cache = scratch.path("cache");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    command.arg("lab").current_dir(scratch.path("")).env("PMUSCOPE_CACHE", &cache);
    (command, cache)
}

#[test]
fn full_root_is_not_needed() {
    skip_unless!(need_full());
    skip_unless!(need_root());
    skip_unless!(need_program("setpriv", "--version"));
    skip_unless!(need_guests("x86_64", "6.1"));
    let (scratch, kernel) = (Scratch::new(), kernel());
    let (mut command, cache) = as_nobody(&scratch);
    let folder = cache.join("kernels/x86_64").join(&kernel.release);
    std::fs::create_dir_all(&folder).unwrap();
    for from in [&kernel.image, &kernel.config, &kernel.image.with_file_name("about.json")] {
        std::fs::copy(from, folder.join(from.file_name().unwrap())).unwrap();
    }
    // The command is root in its guest, whoever started it.
    command.args(["run", "--nodes", "2", "--", "record", "-a", "-e", "cpu-clock:k", "--"]);
    command.args(["pmuscope", "workload", "stencil", "--size", "64", "--seconds", "1"]);
    Outcome::of(&mut command).exits(0).complains("guest of Linux 6.1").complains("pmuscope.data (");
    scratch.pmuscope(["report"]).exits(0).prints("2 CPUs (2 NUMA nodes)");
}

#[test]
fn what_a_user_may_not_is_said_with_what_to_type() {
    skip_unless!(need_root());
    skip_unless!(need_program("setpriv", "--version"));
    skip_unless!(need_program("apt-cache", "--version"));
    let scratch = Scratch::new();
    let (mut command, cache) = as_nobody(&scratch);
    std::fs::create_dir(&cache).unwrap();
    command.args(["kernels", "--fetch", "6.1"]);
    let outcome = Outcome::of(&mut command);
    outcome.exits(125).complains(&format!("cannot store kernels in {}/kernels", cache.display()));
    outcome.complains("Permission denied").complains("Try: PMUSCOPE_CACHE");
    let (mut command, _) = as_nobody(&scratch);
    let secret = scratch.path("vmlinuz");
    std::fs::write(&secret, "x").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    command.args(["run", "--kernel", "./vmlinuz", "--", "doctor"]);
    Outcome::of(&mut command).complains("cannot read ./vmlinuz: Permission denied");
}

/// Children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|t| t.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether a process runs: one that is over and not yet reaped has no command line.
fn runs(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty())
}

fn folders_of(pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let is_of = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&format!("pmuscope-lab-{pid}-"))
    };
    entries.map(|entry| entry.path()).filter(is_of).collect()
}

#[test]
fn full_nothing_is_left_of_a_guest_whose_owner_was_killed() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
    command.args(["lab", "run", "--accel", "tcg", "--", "workload", "stencil", "--seconds", "600"]);
    let owner = Started::of(command.current_dir(scratch.path("")));
    let mut qemu = Vec::new();
    owner.wait_until(|| {
        qemu = children(owner.pid());
        !qemu.is_empty() && runs(qemu[0])
    });
    assert_eq!(folders_of(owner.pid()).len(), 1);
    let pid = owner.pid();
    owner.signal(Signal::KILL);
    assert_eq!(owner.ends().code(), 128 + 9);
    wait_for("the end of QEMU", || !runs(qemu[0]));
    lab(&scratch, ["run", "--accel", "tcg", "--boot-timeout", "1", "--", "doctor"]).exits(125);
    assert_eq!(folders_of(pid), Vec::<PathBuf>::new());
}
