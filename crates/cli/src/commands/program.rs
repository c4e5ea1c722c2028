//! A program that a command runs beside what it does: `-- CMD`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pmuscope_console::exit::{Exit, failure};
use pmuscope_counters::CountersError;
use pmuscope_counters::spawn::{HeldChild, Status};

/// Why it cannot be started, with the status that env(1) would have.
pub(super) fn not_started(error: &CountersError) -> anyhow::Error {
    let exit = match error {
        CountersError::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
        CountersError::Spawn { .. } => 126,
        _ => 125,
    };
    failure(Exit::Target(exit), error.to_string())
}

/// Asks, before anything is opened, whether there is such a program. A name without a slash is looked for in PATH,
/// as execvp(3) does.
///
/// # Errors
/// If there is none, with the status that env(1) would have.
pub(super) fn find(command: &[OsString]) -> anyhow::Result<()> {
    let Some(name) = command.first() else { return Ok(()) };
    let shown = name.to_string_lossy();
    let fails = |status, text: String| {
        Err(failure(Exit::Target(status), format!("cannot start {shown}: {text}")))
    };
    if name.as_bytes().contains(&b'/') {
        return match std::fs::metadata(name) {
            Ok(found) if found.is_dir() => {
                fails(126, "EISDIR (it is a folder). Try: the path of a program".into())
            }
            // What else may be wrong with it, its exec says.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fails(127, "ENOENT (there is no such file). Try: ls, or the full path".into())
            }
            Err(_) => Ok(()),
        };
    }
    // Without PATH the C library has a list of its own.
    let Some(path) = std::env::var_os("PATH") else { return Ok(()) };
    let is_there = |folder: PathBuf| folder.join(name).metadata().is_ok_and(|it| !it.is_dir());
    if std::env::split_paths(&path).any(is_there) {
        return Ok(());
    }
    let here = if Path::new(name).exists() { "" } else { ", or check the name" };
    fails(127, format!("ENOENT (there is no program of this name in PATH). Try: ./{shown}{here}"))
}

/// Starts the command and lets it run; `None` if there is none.
///
/// # Errors
/// If it cannot be started, with the status that env(1) would have.
pub(super) fn start(command: &[OsString]) -> anyhow::Result<Option<HeldChild>> {
    if command.is_empty() {
        return Ok(None);
    }
    let mut child = HeldChild::new(command).map_err(|error| not_started(&error))?;
    child.release().map_err(|error| not_started(&error))?;
    Ok(Some(child))
}

/// Waits for its end. After an interrupt it usually had the same signal as we; if not, it gets one.
///
/// # Errors
/// What the kernel says.
pub(super) fn end(child: &mut HeldChild, interrupted: bool) -> anyhow::Result<Status> {
    child.end(interrupted).context("cannot wait for the command")
}
