//! Why a test cannot run on this machine: each function returns the reason, or `None` if the test can run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sys;

/// User 0.
#[must_use]
pub fn root() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "not root".to_owned())
}

/// `program check` that succeeds.
#[must_use]
pub fn program(program: &str, check: &str) -> Option<String> {
    match Command::new(program).arg(check).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("{program} {check} ended with {status}")),
        Err(error) => Some(format!("cannot run {program}: {error}")),
    }
}

/// A C compiler.
#[must_use]
pub fn c_compiler() -> Option<String> {
    program("cc", "--version")
}

/// Stock perf.
#[must_use]
pub fn perf() -> Option<String> {
    program("perf", "version")
}

/// Names of functions that the C library does not export: in it, or in its debug information.
#[must_use]
pub fn libc_symbols() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let libc = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let Some(libc) = libc.into_iter().find(|path| path.contains("/libc.so")) else {
        return Some("this program maps no libc.so".to_owned());
    };
    let debian = Path::new("/usr/share/doc/libc6-dbg").exists();
    let symbols = Command::new("nm").arg(libc).stderr(Stdio::null()).output();
    let whole =
        symbols.is_ok_and(|of| String::from_utf8_lossy(&of.stdout).contains("start_thread"));
    (!debian && !whole).then(|| format!("no symbols of {libc}. Try: apt install libc6-dbg"))
}

/// Stock perf that sees this file. To read a file perf enters the mount namespace of the process that mapped it,
/// and thereby leaves a chroot: it looks for the path in another tree.
#[must_use]
pub fn perf_that_reads(file: &Path) -> Option<String> {
    perf().or_else(|| {
        let enter = ["--mount=/proc/self/ns/mnt", "test", "-e"];
        let status = Command::new("nsenter").args(enter).arg(file).stderr(Stdio::null()).status();
        (!status.is_ok_and(|status| status.success())).then(|| {
            format!("perf reads other files in a chroot: nsenter finds no {}", file.display())
        })
    })
}

/// Mount namespaces, for a test that takes mounts away from a program.
#[must_use]
pub fn mount_namespaces() -> Option<String> {
    let unshare = ["--mount", "true"];
    let status = Command::new("unshare").args(unshare).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => None,
        other => Some(format!("no mount namespaces: unshare --mount true: {other:?}")),
    }
}

/// Samples of processes of one's own in user mode: cpu-clock.
#[must_use]
pub fn sampling() -> Option<String> {
    why("cpu-clock:u of a process", sys::open_cpu_clock(0, -1, true))
}

/// Samples of processes of one's own, with the kernel's part.
#[must_use]
pub fn kernel_sampling() -> Option<String> {
    why("cpu-clock of a process", sys::open_cpu_clock(0, -1, false))
}

/// Samples of everything on a CPU.
#[must_use]
pub fn machine_sampling() -> Option<String> {
    why("cpu-clock of a CPU", sys::open_cpu_clock(-1, 0, false))
}

/// Stock perf, as [`machine_sampling`] or [`kernel_sampling`] allow it to record.
#[must_use]
pub fn perf_record(whole_machine: bool) -> Option<String> {
    perf().or_else(|| if whole_machine { machine_sampling() } else { kernel_sampling() })
}

/// Counters of the CPU: cycles in user mode.
#[must_use]
pub fn cycles() -> Option<String> {
    why("cycles:u of a process", sys::open_cycles())
}

/// At least two CPUs for this process.
#[must_use]
pub fn two_cpus() -> Option<String> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cpus < 2).then(|| "one CPU only".to_owned())
}

/// A file or folder that this process can read.
#[must_use]
pub fn readable(path: &str) -> Option<String> {
    let path = Path::new(path);
    let error =
        if path.is_dir() { std::fs::read_dir(path).err() } else { std::fs::File::open(path).err() };
    error.map(|error| format!("{}: {error}", path.display()))
}

/// Time: tests that take long run under `make test-full`. They are named `full_…`.
#[must_use]
pub fn full() -> Option<String> {
    std::env::var_os("PMUSCOPE_FULL")
        .is_none_or(|value| value.is_empty() || value == "0")
        .then(|| "slow, make test-full runs it".to_owned())
}

fn why(what: &str, opened: std::io::Result<()>) -> Option<String> {
    opened.err().map(|error| format!("{what} cannot be opened: {error}"))
}
