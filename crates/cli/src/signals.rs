//! Signals that end a measurement in order.

use std::os::fd::OwnedFd;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A descriptor that becomes readable when the user (or the system) asks us to end.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn stop_pipe() -> std::io::Result<OwnedFd> {
    let (readable, writable) = std::io::pipe()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, OwnedFd::from(writable.try_clone()?))?;
    }
    Ok(readable.into())
}
