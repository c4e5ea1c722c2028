//! This program as the first process of a guest: it makes the system usable, does its job, hands the
//! results over, and powers off. There is no shell and no other program.

mod collect;
mod device;
mod settings;
mod system;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::system::{RebootCommand, reboot};

use crate::LabError;
use crate::channel::{GuestState, MOST_SAID, Sender};
use crate::job::{Answer, JOB, Job};

/// Where what the command prints is kept. Not in its folder, whose files come back by themselves.
const STDOUT: &str = "/run/lab/stdout";
const STDERR: &str = "/run/lab/stderr";

/// Does the job of this guest and powers off.
///
/// # Errors
/// If this is not the first process of a system; otherwise it does not return.
pub fn guest() -> Result<std::convert::Infallible, LabError> {
    if std::process::id() != 1 {
        return Err(LabError::NotAGuest);
    }
    if let Err(why) = work() {
        // The serial line is all that is left.
        eprintln!("error: {why}");
    }
    rustix::fs::sync();
    loop {
        // Nothing can be done about an error: the host's patience ends this guest.
        let _ = reboot(RebootCommand::PowerOff);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

fn work() -> Result<(), String> {
    system::mount_all()?;
    let boot_s = uptime_s();
    let sender = device::open()?;
    sender.is(GuestState::Started);
    let begun = Answer {
        boot_s,
        kernel: text("/proc/sys/kernel/osrelease"),
        command_line: text("/proc/cmdline"),
        ..Answer::default()
    };
    let (answer, contents) = match job().and_then(|job| run(&job, &begun, &sender)) {
        Ok(results) => results,
        Err(why) => (Answer { refused: Some(why), ..begun }, Vec::new()),
    };
    let packed = answer.pack(&contents).map_err(|error| error.to_string())?;
    if packed.len() <= sender.room() {
        sender.send(&packed);
        return Ok(());
    }
    let why = format!(
        "the results need {} MiB, but only {} MiB are reserved for them. Try: --results {}M",
        packed.len() >> 20,
        sender.room() >> 20,
        (packed.len() >> 20).next_power_of_two() * 2
    );
    let refusal = Answer { refused: Some(why), files: Vec::new(), ..answer };
    sender.send(&refusal.pack(&[]).map_err(|error| error.to_string())?);
    Ok(())
}

fn job() -> Result<Job, String> {
    let bytes = std::fs::read(JOB).map_err(|error| format!("cannot read {JOB}: {error}"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("cannot parse {JOB}: {error}"))
}

fn run(job: &Job, begun: &Answer, sender: &Sender) -> Result<(Answer, Vec<Vec<u8>>), String> {
    for (name, value) in &job.settings {
        settings::set(name, value)?;
    }
    let folder = PathBuf::from(&job.folder);
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot create the folder {}: {error}", job.folder))?;
    let before = collect::snapshot(&folder);
    sender.is(GuestState::Runs);
    let clock = Instant::now();
    let (exit, was_ended) = command(job, &folder, sender).map_err(|error| {
        format!("cannot run {}: {error}", job.command.first().map_or("nothing", String::as_str))
    })?;
    let command_s = clock.elapsed().as_secs_f64();
    let said = [("", Path::new(STDOUT)), ("", Path::new(STDERR))];
    let (files, contents) = collect::results(&said, &folder, &before)?;
    Ok((Answer { exit, was_ended, command_s, files, ..begun.clone() }, contents))
}

/// How often progress is told, and it is seen that the host asks for the end.
const TICK: Duration = Duration::from_millis(200);
/// How long a command that is asked to end may take for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command to its end, or until the host asks for it. Its exit status as a shell has it, and whether it was
/// asked.
fn command(job: &Job, folder: &Path, sender: &Sender) -> io::Result<(i32, bool)> {
    let (program, arguments) =
        job.command.split_first().ok_or_else(|| io::Error::other("no command"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(File::create(STDOUT)?)
        .stderr(File::create(STDERR)?)
        .spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let (tell, ended) = mpsc::channel();
    // Its end is seen at once: what it took is measured.
    std::thread::spawn(move || tell.send(child.wait()));
    let mut progress = GuestComplaints { file: File::open(STDERR)?, told: 0 };
    let mut asked: Option<Instant> = None;
    let status = loop {
        match ended.recv_timeout(TICK) {
            Ok(status) => break status?,
            Err(RecvTimeoutError::Timeout) => progress.tell(sender),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("its status was not collected"));
            }
        }
        let signal = match asked {
            None if sender.is_to_end() => Signal::TERM,
            Some(since) if since.elapsed() > PATIENCE => Signal::KILL,
            _ => continue,
        };
        asked.get_or_insert_with(Instant::now);
        if let Some(pid) = pid {
            // It may have ended this moment.
            let _ = kill_process(pid, signal);
        }
    };
    let exit = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok((exit, asked.is_some()))
}

/// What the command complains of, as it does.
struct GuestComplaints {
    file: File,
    /// Bytes up to which the host was told.
    told: u64,
}

impl GuestComplaints {
    /// What cannot be read comes with the results.
    fn tell(&mut self, sender: &Sender) {
        let Ok(length) = self.file.metadata().map(|metadata| metadata.len()) else { return };
        if length <= self.told {
            return;
        }
        let before = length.saturating_sub(MOST_SAID as u64);
        let mut last = vec![0; (length - before) as usize];
        if self.file.read_exact_at(&mut last, before).is_ok() {
            sender.says(before, &last);
            self.told = length;
        }
    }
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Seconds since the kernel started.
fn uptime_s() -> f64 {
    text("/proc/uptime").split(' ').next().and_then(|s| s.parse().ok()).unwrap_or(0.0)
}
