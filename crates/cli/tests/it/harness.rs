//! Runs the built program in a folder of its own and shows all that it said where it said something
//! else than expected.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

/// A program that runs longer hangs: this is no measurement, only the end of a test that would not end. Guests of 64 CPUs
/// that are emulated beside other programs take many minutes.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How often the end of the program is looked for.
const POLL: Duration = Duration::from_millis(2);

pub(crate) use pmuscope_testkit::need::{
    c_compiler as need_c_compiler, full as need_full, kernel_sampling as need_kernel_sampling,
    libc_symbols as need_libc_symbols, machine_sampling as need_machine_sampling,
    mount_namespaces as need_mount_namespaces, perf as need_perf, perf_record as need_perf_record,
    perf_that_reads as need_perf_that_reads, program as need_program, root as need_root,
    sampling as need_sampling, two_cpus as need_two_cpus,
};
pub(crate) use pmuscope_testkit::skip_unless;

/// A folder for one test, removed at its end.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `pmuscope ARGS` here to its end.
    #[track_caller]
    pub(crate) fn pmuscope<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Outcome {
        self.run(env!("CARGO_BIN_EXE_pmuscope"), args)
    }

    /// Starts `pmuscope ARGS` here.
    #[track_caller]
    pub(crate) fn start<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Started {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pmuscope"));
        Started::of(command.args(args).current_dir(self.0.path()).stdin(Stdio::null()))
    }

    /// Runs any program here to its end, with nothing to read and no terminal.
    #[track_caller]
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Outcome {
        let mut command =
            if program == "perf" { pmuscope_testkit::perf() } else { Command::new(program) };
        command.args(args).current_dir(self.0.path());
        // Tests neither use nor leave anything in the user's cache.
        command.env("PMUSCOPE_CACHE", self.path("cache"));
        Outcome::of(&mut command)
    }
}

/// Compiles a program into cargo's folder for tests; or why it cannot be. Other test processes may compile or run the same
/// one at the same time, so it appears whole. `command` ends with the flag that the path to write to follows.
pub(crate) fn compiled(name: &str, command: &mut Command, source: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(name);
    // Not as an extension: rustc names its object files by what stands before that, for all processes alike.
    let new = folder.join(format!("{name}-{}", std::process::id()));
    let output = command.arg(&new).arg(source).stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| format!("cannot run {:?}: {error}", command.get_program()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    fs::rename(&new, &program).map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

/// How a program ended and what it said.
#[derive(Debug)]
pub(crate) struct Outcome {
    words: Vec<OsString>,
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A program that runs. It is killed where a test ends without waiting for it.
#[derive(Debug)]
pub(crate) struct Started {
    words: Vec<OsString>,
    child: Child,
    said: TempDir,
}

/// Starts it. A program that a test has just written is "busy" while the child of another test's thread, between
/// `fork` and `exec`, has the descriptor that wrote it.
fn spawn(command: &mut Command) -> io::Result<Child> {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::sleep(POLL),
            other => return other,
        }
    }
}

impl Started {
    /// Starts `command`, with nothing to read unless the caller gave it something. Its output goes to
    /// files: a pipe would stay open as long as any descendant lives.
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        let words: Vec<OsString> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(OsStr::to_owned)
            .collect();
        let said = tempfile::tempdir().unwrap();
        let file = |name| File::create(said.path().join(name)).unwrap();
        command.stdout(file(STDOUT)).stderr(file(STDERR));
        let child = spawn(command).unwrap_or_else(|error| panic!("cannot run {words:?}: {error}"));
        Self { words, child, said }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes or gives a line to what it reads, where that is a pipe.
    pub(crate) fn tell(&mut self, line: &str) {
        use std::io::Write as _;
        self.child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It is not reaped before `self` is gone, so the number is still its own.
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until something is `done`, which it does before it ends.
    #[track_caller]
    pub(crate) fn wait_until(&self, mut done: impl FnMut() -> bool) {
        wait_for("what a program does", || {
            let over = waitid(
                WaitId::Pid(Pid::from_child(&self.child)),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG,
            );
            let is_over = over.unwrap().is_some();
            let is_done = done();
            assert!(is_done || !is_over, "ended too early\n{}", self.text(STDERR));
            is_done
        });
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Outcome {
        let (status, hangs) = wait(&mut self.child);
        let (stdout, stderr) = (self.text(STDOUT), self.text(STDERR));
        let outcome = Outcome { words: std::mem::take(&mut self.words), status, stdout, stderr };
        assert!(!hangs, "still running after {PATIENCE:?}, killed\n{outcome}");
        outcome
    }

    /// Whether it has printed `part` until now.
    pub(crate) fn said(&self, part: &str) -> bool {
        self.text(STDOUT).contains(part)
    }

    /// What it has printed until now.
    pub(crate) fn printed(&self) -> String {
        self.text(STDOUT)
    }

    /// What it said until now.
    fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.said.path().join(name)).unwrap()).into_owned()
    }
}

const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";

impl Drop for Started {
    fn drop(&mut self) {
        // Ended already, as a rule; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// Runs `command` to its end, with nothing to read.
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        Started::of(command.stdin(Stdio::null())).ends()
    }

    /// Exit status; 128 + signal if one ended it, as a shell has it.
    pub(crate) fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Whether perf aborted, which is printed: where another recording on the machine has the kernel put build ids into
    /// mappings, perf 6.1 dies of its own files.
    pub(crate) fn is_abort_of_perf(&self) -> bool {
        let aborts = self.code() == 128 + rustix::process::Signal::ABORT.as_raw();
        if aborts {
            eprintln!("skipped: perf script: {self}");
        }
        aborts
    }

    /// Fails unless the program ended with `code`.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code(), code, "exit status\n{self}");
        self
    }

    /// Fails unless stdout has `part`.
    #[track_caller]
    pub(crate) fn prints(&self, part: &str) -> &Self {
        assert!(self.stdout.contains(part), "{part:?} is not on stdout\n{self}");
        self
    }

    /// Fails unless stderr has `part`.
    #[track_caller]
    pub(crate) fn complains(&self, part: &str) -> &Self {
        assert!(self.stderr.contains(part), "{part:?} is not on stderr\n{self}");
        self
    }

    /// Fails if stdout has anything.
    #[track_caller]
    pub(crate) fn prints_nothing(&self) -> &Self {
        assert!(self.stdout.is_empty(), "stdout is not empty\n{self}");
        self
    }

    /// Fails if stderr has anything but which files were written.
    #[track_caller]
    pub(crate) fn is_silent(&self) -> &Self {
        let is_written = |line: &str| line.starts_with("wrote ");
        assert!(self.stderr.lines().all(is_written), "more than results on stderr\n{self}");
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$")?;
        for word in &self.words {
            write!(f, " {}", word.to_string_lossy())?;
        }
        writeln!(f, "\n{}", self.status)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            writeln!(f, "--- {name}")?;
            for line in text.lines() {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

/// Waits for the end, or kills what has no end; true if it did.
fn wait(child: &mut Child) -> (ExitStatus, bool) {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return (status, false);
        }
        thread::sleep(POLL);
    }
    child.kill().unwrap();
    (child.wait().unwrap(), true)
}

/// Waits until something is `done`.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        thread::sleep(POLL);
    }
}

#[test]
fn a_failed_expectation_shows_everything() {
    let outcome = Scratch::new().run("sh", ["-c", "echo out; echo err >&2; exit 3"]);
    outcome.exits(3).prints("out").complains("err");
    let shown = outcome.to_string();
    for part in ["$ sh -c echo out", "exit status: 3", "  out", "  err"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(Scratch::new().run("sh", ["-c", "kill -TERM $$"]).code(), 128 + 15);
}

#[test]
fn needs_give_reasons() {
    let reasons = [need_root(), need_perf()];
    assert!(reasons.iter().flatten().all(|reason| !reason.is_empty()));
    skip_unless!(need_root());
    assert!(rustix::process::geteuid().is_root());
}
