//! Standard output that was closed by whoever started the program (`>&-`).

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::stdio::{dup2_stdout, stdout};

use crate::sys::STDOUT_WAS_CLOSED;

/// Whether it was closed when the program was started.
#[must_use]
pub fn was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Lets every write to a closed standard output fail: else it goes to /dev/null, as the standard library opens that
/// in its place. Programs that are started find it closed.
///
/// # Errors
/// Where there is no /dev/full; then writes are lost.
pub fn refuse_if_closed() -> io::Result<()> {
    if !was_closed() {
        return Ok(());
    }
    dup2_stdout(File::options().write(true).open("/dev/full")?)?;
    Ok(fcntl_setfd(stdout(), FdFlags::CLOEXEC)?)
}
