//! One run of one program: times, what it used, what it printed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Instant, SystemTime};

use pmuscope_machine::child::{Usage, wait};
use rustix::fs::{Mode, OFlags};

use crate::error::MeasureError;

/// Of what a program prints, the end is kept: results come last.
const KEPT_OUTPUT: u64 = 1 << 20;

/// How a run went.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// When it was started.
    pub started: SystemTime,
    /// Seconds from before fork to after wait (CLOCK_MONOTONIC).
    pub wall_s: f64,
    /// How it ended.
    pub status: ExitStatus,
    /// What it and its waited-for descendants used.
    pub usage: Usage,
    /// The last MiB of what it printed to stdout and stderr, as it came.
    pub output: String,
}

impl Outcome {
    /// Exit status as the shell has it: 128 + n if signal n ended it.
    pub fn exit(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }
}

/// Runs `argv` to its end with nothing on its stdin and its output in an unnamed file in
/// `scratch`: a pipe would need a reader beside it, and hold up a program that prints much.
/// `stop` is asked five times a second; once true, the program is asked to end (SIGTERM).
///
/// # Errors
/// If the program cannot be started or waited for, or its output cannot be kept.
pub fn run(
    argv: &[OsString],
    scratch: &Path,
    stop: impl FnMut() -> bool,
) -> Result<Outcome, MeasureError> {
    let program = argv.first().map_or_else(String::new, |p| p.to_string_lossy().into_owned());
    let failed = |what| {
        let program = program.clone();
        move |source| MeasureError::Child { program, what, source }
    };
    let keep = "save the output";
    let output = unnamed_file(scratch).map_err(failed(keep))?;
    let mut command = Command::new(argv.first().map_or_else(OsString::new, Clone::clone));
    command
        .args(argv.iter().skip(1))
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed(keep))?)
        .stderr(output.try_clone().map_err(failed(keep))?);
    let started = SystemTime::now();
    let clock = Instant::now();
    let child = command
        .spawn()
        .map_err(|source| MeasureError::Start { program: program.clone(), source })?;
    let (status, usage) = wait(child, stop).map_err(failed("wait for the end"))?;
    let wall_s = clock.elapsed().as_secs_f64();
    let output = read_end(output).map_err(failed("read the output"))?;
    Ok(Outcome { started, wall_s, status, usage, output })
}

/// A file without a name, gone with its last descriptor. Opened for appending, so that stdout and
/// stderr do not write over each other.
pub(crate) fn unnamed_file(folder: &Path) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(File::from(file)),
        // Not every file system has it (overlayfs before 6.1, NFS): a name, for a moment.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let name = format!(".pmuscope-{}-{:x}", std::process::id(), fastrand::u64(..));
            let path = folder.join(name);
            let file = File::options().read(true).append(true).create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn read_end(mut file: File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(KEPT_OUTPUT)))?;
    let mut bytes = Vec::new();
    // A descendant that lives on may still write.
    file.take(KEPT_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let argv = ["sh", "-c", script].map(OsString::from);
        let outcome = run(&argv, folder.path(), || false).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        outcome
    }

    #[test]
    fn output_and_status_come_back() {
        let outcome = sh("echo one; echo two >&2; cat; echo three; exit 3");
        assert_eq!((outcome.exit(), outcome.output.as_str()), (3, "one\ntwo\nthree\n"));
        assert!(outcome.wall_s > 0.0 && outcome.usage.minor_faults > 0);
        assert_eq!(sh("kill -9 $$").exit(), 137);
    }

    #[test]
    fn of_much_output_the_end_is_kept() {
        let outcome = sh("yes | head -c 3000000; echo Time = 5");
        assert_eq!(outcome.output.len(), 1 << 20);
        assert!(outcome.output.ends_with("y\nTime = 5\n"));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let argv = ["/nonexistent/program".into()];
        let error = run(&argv, folder.path(), || false).unwrap_err().to_string();
        assert!(error.starts_with("cannot start /nonexistent/program: "), "{error}");
        assert!(run(&[], folder.path(), || false).is_err());
    }
}
