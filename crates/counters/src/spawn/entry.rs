//! A command stopped at its first own instruction: its libraries are mapped, and none of its code has
//! run.
//!
//! ```text
//!  us                                            child
//!  seize ─ release ───────────────────────────► exec
//!  stopped ◄──────────────────────────────────  (program and loader are mapped, libraries are not)
//!  breakpoint at the entry, with SIGTRAP ─ go ► loader maps libraries
//!  stopped ◄──────────────────────────────────  at the entry
//!  close, detach ─────────────────────────────► goes on as if nothing had been; the signal is not delivered
//! ```
//!
//! On arm64 the kernel moves a thread past a breakpoint by a single step, which a tracer that simply continues it
//! would cancel: the thread's breakpoints would stay suspended from then on (`arch/arm64/kernel/hw_breakpoint.c`).
//! There it is continued by a step, which the kernel treats as its own, and detached a moment later.
//!
//! A breakpoint that signals its own thread on overflow needs Linux 5.13. Where that is not available
//! the command is stopped at its exec, before libraries are mapped.

use std::io;
use std::os::fd::OwnedFd;

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, breakpoint, event_type};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, kill_process, waitid, waitpid,
};

use super::{HeldChild, sys};
use crate::error::CountersError;
use crate::kernel::Kernel;

/// Type of the entry's address in `/proc/PID/auxv`.
const AT_ENTRY: u64 = 9;
const PTRACE_EVENT_EXEC: i32 = 4;
const STEPS_OVER_BREAKPOINTS: bool = cfg!(target_arch = "aarch64");

/// A child that is stopped until [`StoppedChild::go`], on the thread that stopped it. If dropped before
/// that, it is killed without having run.
#[derive(Debug)]
pub struct StoppedChild {
    pid: Pid,
    /// Libraries are mapped.
    has_libraries: bool,
    stopped: bool,
}

impl HeldChild {
    /// Lets the child exec and stops it before its first own instruction.
    ///
    /// # Errors
    /// [`CountersError::Spawn`]: it could not exec, has ended before that, or cannot be traced.
    pub fn stop_at_entry(&mut self, kernel: &dyn Kernel) -> Result<StoppedChild, CountersError> {
        let command = self.command.clone();
        let error = |source| CountersError::Spawn { command: command.clone(), source };
        sys::seize(self.pid).map_err(error)?;
        self.release()?;
        let mut stopped = StoppedChild { pid: self.pid, has_libraries: false, stopped: false };
        self.wait_for(&mut stopped, |status| {
            status.as_raw() >> 8 == Signal::TRAP.as_raw() | PTRACE_EVENT_EXEC << 8
        })
        .map_err(error)?;
        let Ok(entry) = entry(self.pid) else { return Ok(stopped) };
        let Ok(breakpoint) = trap_at(kernel, self.pid, entry) else { return Ok(stopped) };
        stopped.resume(0).map_err(error)?;
        self.wait_for(&mut stopped, |status| {
            status.stopping_signal() == Some(Signal::TRAP.as_raw())
        })
        .map_err(error)?;
        drop(breakpoint);
        stopped.has_libraries = true;
        Ok(stopped)
    }

    /// Waits until the child stands as wanted; other signals are its own and delivered.
    fn wait_for(
        &mut self,
        stopped: &mut StoppedChild,
        is_wanted: impl Fn(WaitStatus) -> bool,
    ) -> io::Result<()> {
        loop {
            let Some((_, status)) = waitpid(Some(self.pid), WaitOptions::empty())? else {
                continue;
            };
            let Some(signal) = status.stopping_signal() else {
                // It has ended; what it says is kept for who waits for it.
                self.keep(status);
                return Err(io::Error::other("it ended before its entry point"));
            };
            stopped.stopped = true;
            if is_wanted(status) {
                return Ok(());
            }
            // A stop of ptrace's own has a number above the signal, and nothing to deliver.
            let own = status.as_raw() >> 16 != 0;
            stopped.resume(if own { 0 } else { signal })?;
        }
    }
}

impl StoppedChild {
    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Whether libraries are mapped; else only the program and its loader.
    #[must_use]
    pub fn has_libraries(&self) -> bool {
        self.has_libraries
    }

    /// Lets it go, untraced.
    ///
    /// # Errors
    /// The errno of `ptrace(2)`.
    pub fn go(mut self) -> io::Result<()> {
        self.stopped = false;
        if !(STEPS_OVER_BREAKPOINTS && self.has_libraries) {
            return sys::detach(self.pid, 0);
        }
        let entry = entry(self.pid)?;
        loop {
            sys::step(self.pid)?;
            sys::interrupt(self.pid)?;
            let Some(signal) = self.stop_again()? else { return Ok(()) };
            // Stopped before the step was made, it would lack it again.
            if self.instruction() != Some(entry) {
                return sys::detach(self.pid, signal);
            }
        }
    }

    /// Waits until it stands; the signal that is to be delivered to it. `None`: it has ended, which is left
    /// for who waits for that.
    fn stop_again(&self) -> io::Result<Option<i32>> {
        let any = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let seen = waitid(WaitId::Pid(self.pid), any)?;
        if !seen.is_some_and(|status| status.stopped() || status.trapped()) {
            return Ok(None);
        }
        let Some((_, status)) = waitpid(Some(self.pid), WaitOptions::empty())? else {
            return Ok(None);
        };
        // A stop of ptrace's own has a number above the signal, and nothing to deliver.
        let is_own = status.as_raw() >> 16 != 0;
        Ok(Some(status.stopping_signal().filter(|_| !is_own).unwrap_or(0)))
    }

    /// Where it stands: the last word of `/proc/PID/syscall`.
    fn instruction(&self) -> Option<u64> {
        let path = format!("/proc/{}/syscall", self.pid.as_raw_nonzero());
        let text = std::fs::read_to_string(path).ok()?;
        u64::from_str_radix(text.split_whitespace().last()?.strip_prefix("0x")?, 16).ok()
    }

    fn resume(&mut self, signal: i32) -> io::Result<()> {
        self.stopped = false;
        sys::resume(self.pid, signal)
    }
}

impl Drop for StoppedChild {
    fn drop(&mut self) {
        if self.stopped {
            // It is gone if this fails.
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

/// The address of the first instruction: pairs of words, type and value.
fn entry(pid: Pid) -> io::Result<u64> {
    let bytes = std::fs::read(format!("/proc/{}/auxv", pid.as_raw_nonzero()))?;
    let words: Vec<u64> =
        bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let entry = words.as_chunks::<2>().0.iter().find(|pair| pair[0] == AT_ENTRY);
    entry.map(|pair| pair[1]).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn trap_at(kernel: &dyn Kernel, pid: Pid, address: u64) -> io::Result<OwnedFd> {
    let attr = Attr {
        event_type: event_type::BREAKPOINT,
        bp_type: breakpoint::EXECUTE,
        config1: address,
        config2: breakpoint::INSTRUCTION,
        sample: 1,
        flags: AttrFlags::SIGTRAP
            | AttrFlags::REMOVE_ON_EXEC
            | AttrFlags::EXCLUDE_KERNEL
            | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    };
    kernel.open(&attr, pid.as_raw_nonzero().get(), -1, None, OpenFlags::FD_CLOEXEC)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::fake::FakeKernel;
    use crate::host::Host;
    use crate::spawn::Status;

    fn child(words: &[&str]) -> HeldChild {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        HeldChild::new(&words).unwrap()
    }

    #[test]
    fn a_child_stands_with_its_libraries_mapped_and_nothing_done() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        let mut child = child(&["touch", mark.to_str().unwrap()]);
        let stopped = child.stop_at_entry(&Host).unwrap();
        assert!(stopped.has_libraries());
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", stopped.pid())).unwrap();
        assert!(maps.contains("libc.so"), "{maps}");
        assert!(!mark.exists());
        stopped.go().unwrap();
        assert_eq!(child.wait().unwrap(), Status::Exited(0));
        assert!(mark.exists());
    }

    #[test]
    fn without_a_breakpoint_a_child_stands_without_libraries() {
        // Opened with a config of 0, on any CPU.
        let kernel = FakeKernel::default().refusing(0, -1, libc::ENOSPC);
        let mut child = child(&["sh", "-c", "exit 3"]);
        let stopped = child.stop_at_entry(&kernel).unwrap();
        assert!(!stopped.has_libraries());
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", stopped.pid())).unwrap();
        assert!(!maps.contains("libc.so"), "{maps}");
        stopped.go().unwrap();
        assert_eq!(child.wait().unwrap(), Status::Exited(3));
    }

    #[test]
    fn a_dropped_stop_ends_it() {
        let mut child = child(&["sh", "-c", "exit 3"]);
        drop(child.stop_at_entry(&Host).unwrap());
        assert_eq!(child.wait().unwrap(), Status::Signaled(9));
    }

    #[test]
    fn what_cannot_be_run_is_told() {
        let mut child = child(&["/no/such/program"]);
        let error = child.stop_at_entry(&Host).unwrap_err().to_string();
        assert!(error.contains("/no/such/program: ENOENT"), "{error}");
    }
}
