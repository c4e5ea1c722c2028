//! The process that starts all others, tells them when to begin, and adds up what they did.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use pmuscope_machine::Machine;
use pmuscope_machine::child::{Usage, wait};
use pmuscope_machine::place::affinity;
use rustix::fs::{MemfdFlags, memfd_create};

use super::control::{Board, Control, ControlError, State};
use super::options::{Options, refused};
use super::worker::now_ns;
use super::{NAME, room, sum};
use crate::error::WorkloadError;
use crate::facts::WorkloadFacts;

/// From the moment when all are ready until they begin: enough for each to hear of it.
const NOTICE: Duration = Duration::from_millis(2);
/// How often it is looked whether all are ready.
const TICK: Duration = Duration::from_micros(500);
/// What is kept of what a process complained of.
const COMPLAINT: u64 = 4096;

/// Runs the workload in processes of `program`, this one, to its end. Whoever watches opens `control`, which
/// is made if it is not there and else has to be empty or an older control file.
///
/// # Errors
/// Options without sense; CPUs, nodes or memory that are not there; a process that ends too early, which
/// ends all others.
pub fn run(
    program: &Path,
    options: &Options,
    control: Option<&Path>,
) -> Result<WorkloadFacts, WorkloadError> {
    run_held(program, options, control, &AtomicBool::new(false))
}

/// The same, whose threads, once all are ready ([`Control::is_ready`]), do not begin as long as they are `held`.
///
/// # Errors
/// As [`run`].
pub fn run_held(
    program: &Path,
    options: &Options,
    control: Option<&Path>,
    held: &AtomicBool,
) -> Result<WorkloadFacts, WorkloadError> {
    options.check()?;
    let machine = Machine::host();
    let allowed =
        affinity().map_err(|error| WorkloadError::system("read the CPU affinity", error))?;
    room::check(&machine, &allowed, options)?;
    let global = (options.sizes.global > 0)
        .then(|| memory_file("pmuscope-memory", options.sizes.global))
        .transpose()?;
    let file = match control {
        None => memory_file("pmuscope-control", 0)?,
        Some(path) => control_file(path)?,
    };
    let global_fd = global.as_ref().map(|file| file.as_raw_fd().unsigned_abs());
    let board = Board::create(&file, options, global_fd)?;
    // Children open it by this process's descriptor, wherever it is.
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    let start = |process: usize| start(program, &path, process);
    let ended = run_processes(&board, options.processes, held, start);
    board.set_state(if ended.is_ok() { State::Ended } else { State::Failed });
    let usage = ended?;
    let emulated = machine.emulated_by().is_some();
    sum::facts(&board.reader()?, options, &usage, emulated)
}

fn memory_file(name: &str, bytes: u64) -> Result<File, WorkloadError> {
    let failed = |error| WorkloadError::system("create shared memory", error);
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?);
    file.set_len(bytes).map_err(failed)?;
    Ok(file)
}

/// An empty file at `path`; one that is there must not be anything else's.
fn control_file(path: &Path) -> Result<File, WorkloadError> {
    let failed = |error| WorkloadError::system(format!("open {}", path.display()), error);
    match File::options().read(true).write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other.map_err(failed),
    }
    let file = File::options().read(true).write(true).open(path).map_err(failed)?;
    let is_empty = file.metadata().map_err(failed)?.len() == 0;
    let is_over = |old: &Control| matches!(old.state(), Ok(State::Ended | State::Failed));
    let is_old = Control::open(path).is_ok_and(|old| is_over(&old) || !old.is_owned());
    if !is_empty && !is_old {
        return Err(refused(format!(
            "--control {}: the file exists and is not a control file, or is in use. Try: another \
             name",
            path.display()
        )));
    }
    file.set_len(0).map_err(failed)?;
    Ok(file)
}

fn start(program: &Path, control: &Path, process: usize) -> std::io::Result<Child> {
    let mut argv: Vec<OsString> = ["workload", NAME, "--attach"].map(OsString::from).into();
    argv.extend([control.into(), "--attach-process".into(), process.to_string().into()]);
    Command::new(program)
        .args(argv)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// What became of a process.
struct ProcessEnd {
    pid: u32,
    status: ExitStatus,
    usage: Usage,
    complaint: String,
}

/// Starts all processes, lets them begin together and waits for their ends. What each used.
fn run_processes(
    board: &Board,
    processes: usize,
    held: &AtomicBool,
    start: impl Fn(usize) -> std::io::Result<Child>,
) -> Result<Vec<Usage>, WorkloadError> {
    // One that failed is the end of all others, even of those that do not look.
    let failed = AtomicBool::new(false);
    let fail = || {
        failed.store(true, Ordering::Release);
        board.stop();
    };
    std::thread::scope(|scope| {
        let mut waiting: Vec<ScopedJoinHandle<'_, std::io::Result<ProcessEnd>>> = Vec::new();
        let mut not_started = None;
        for process in 0..processes {
            match start(process) {
                Ok(child) => waiting.push(scope.spawn(|| {
                    let ended = wait_for(child, &failed);
                    if !ended.as_ref().is_ok_and(|ended| ended.status.success()) {
                        fail();
                    }
                    ended
                })),
                Err(error) => {
                    fail();
                    let what = format!("start process {process} of {processes}");
                    not_started = Some(WorkloadError::system(what, error));
                    break;
                }
            }
        }
        let may_begin = || board.all_ready() && !held.load(Ordering::Acquire);
        while !may_begin() && !failed.load(Ordering::Acquire) && !board.is_stopped() {
            std::thread::sleep(TICK);
        }
        if may_begin() {
            board.set_state(State::Running);
            board.go(now_ns() + NOTICE.as_nanos() as u64);
        }
        let ended: Vec<std::io::Result<ProcessEnd>> = waiting
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        not_started.map_or(Ok(()), Err)?;
        usage_of(ended)
    })
}

fn wait_for(mut child: Child, failed: &AtomicBool) -> std::io::Result<ProcessEnd> {
    let (pid, stderr) = (child.id(), child.stderr.take());
    let (status, usage) = wait(child, || failed.load(Ordering::Acquire))?;
    let mut complaint = Vec::new();
    if let Some(stderr) = stderr {
        stderr.take(COMPLAINT).read_to_end(&mut complaint)?;
    }
    let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
    Ok(ProcessEnd { pid, status, usage, complaint })
}

/// What all used, or which one failed: the one that complained, before those that were ended with it.
fn usage_of(ended: Vec<std::io::Result<ProcessEnd>>) -> Result<Vec<Usage>, WorkloadError> {
    let count = ended.len();
    let ended = ended
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| WorkloadError::system("wait for a process", error))?;
    let is_ended_by_us =
        |one: &ProcessEnd| one.status.signal() == Some(libc::SIGTERM) && one.complaint.is_empty();
    let failed = |one: &&(usize, &ProcessEnd)| !one.1.status.success();
    let numbered: Vec<(usize, &ProcessEnd)> = ended.iter().enumerate().collect();
    let first = numbered
        .iter()
        .filter(failed)
        .min_by_key(|(number, one)| (is_ended_by_us(one), one.complaint.is_empty(), *number));
    let Some((number, one)) = first else {
        return Ok(ended.iter().map(|one| one.usage).collect());
    };
    let why = if one.complaint.is_empty() {
        one.status.to_string()
    } else {
        let complaint = one.complaint.trim_start_matches("pmuscope: ");
        complaint.trim_start_matches("error: ").to_owned()
    };
    let what = format!("run process {number} of {count} (PID {}); ended the others", one.pid);
    Err(WorkloadError::system(what, std::io::Error::other(why)))
}

impl From<ControlError> for std::io::Error {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Io(error) => error,
            other => Self::other(other.to_string()),
        }
    }
}
