//! Signals that end a measurement in order.

use std::os::fd::OwnedFd;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};

/// A descriptor that becomes readable when the user (or the system) asks us to end.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn stop_pipe() -> std::io::Result<OwnedFd> {
    pipe_of(&[SIGINT, SIGTERM, SIGHUP])
}

/// A descriptor that gets a byte for each SIGUSR2.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn switch_pipe() -> std::io::Result<OwnedFd> {
    pipe_of(&[SIGUSR2])
}

fn pipe_of(signals: &[i32]) -> std::io::Result<OwnedFd> {
    let (readable, writable) = std::io::pipe()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, OwnedFd::from(writable.try_clone()?))?;
    }
    Ok(readable.into())
}
