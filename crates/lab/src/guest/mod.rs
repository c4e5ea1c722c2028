//! This program as the first process of a guest: it makes the system usable, does its job, hands the
//! results over, and powers off. There is no shell and no other program.

mod collect;
mod device;
mod settings;
mod system;

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::system::{RebootCommand, reboot};

use crate::LabError;
use crate::channel::{Sender, State};
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
        eprintln!("pmuscope: {why}");
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
    sender.is(State::Begun);
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
        "the results take {} MiB, the memory for them is {} MiB. Try: --results {}M",
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
    serde_json::from_slice(&bytes).map_err(|error| format!("cannot understand {JOB}: {error}"))
}

fn run(job: &Job, begun: &Answer, sender: &Sender) -> Result<(Answer, Vec<Vec<u8>>), String> {
    for (name, value) in &job.settings {
        settings::set(name, value)?;
    }
    let folder = PathBuf::from(&job.folder);
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", job.folder))?;
    let before = collect::snapshot(&folder);
    sender.is(State::Runs);
    let clock = Instant::now();
    let exit = command(job, &folder).map_err(|error| {
        format!("cannot run {}: {error}", job.command.first().map_or("nothing", String::as_str))
    })?;
    let command_s = clock.elapsed().as_secs_f64();
    let said = [("", Path::new(STDOUT)), ("", Path::new(STDERR))];
    let (files, contents) = collect::results(&said, &folder, &before)?;
    Ok((Answer { exit, command_s, files, ..begun.clone() }, contents))
}

/// Runs the command to its end. Its exit status as a shell has it.
fn command(job: &Job, folder: &Path) -> io::Result<i32> {
    let (program, arguments) =
        job.command.split_first().ok_or_else(|| io::Error::other("no command"))?;
    let status = Command::new(program)
        .args(arguments)
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(File::create(STDOUT)?)
        .stderr(File::create(STDERR)?)
        .status()?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Seconds since the kernel started.
fn uptime_s() -> f64 {
    text("/proc/uptime").split(' ').next().and_then(|s| s.parse().ok()).unwrap_or(0.0)
}
