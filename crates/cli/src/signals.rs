//! Signals that end a measurement in order.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use pmuscope_machine::child::is_ready;
#[cfg(feature = "screen")]
use signal_hook::consts::SIGWINCH;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTRAP, SIGUSR2};

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

/// A descriptor that gets a byte for each SIGWINCH.
///
/// # Errors
/// No descriptors are left.
#[cfg(feature = "screen")]
pub(crate) fn resize_pipe() -> std::io::Result<OwnedFd> {
    pipe_of(&[SIGWINCH])
}

/// From now on SIGTRAP does not end this program; whether it arrived. Programs that it starts are ended as ever.
///
/// # Errors
/// No handler can be set.
pub(crate) fn outlive_traps() -> std::io::Result<Arc<AtomicBool>> {
    let arrived = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTRAP, Arc::clone(&arrived))?;
    Ok(arrived)
}

fn pipe_of(signals: &[i32]) -> std::io::Result<OwnedFd> {
    let (readable, writable) = std::io::pipe()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, OwnedFd::from(writable.try_clone()?))?;
    }
    Ok(readable.into())
}

/// Whether the user asked to stop.
pub(crate) struct Stop {
    asked: OwnedFd,
}

impl Stop {
    /// Listens from now on.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { asked: stop_pipe().context("cannot listen for signals")? })
    }

    /// Stays true once it was.
    pub(crate) fn asked(&self) -> bool {
        // Nobody reads from it, so that it stays readable.
        is_ready(self.asked.as_fd())
    }
}
