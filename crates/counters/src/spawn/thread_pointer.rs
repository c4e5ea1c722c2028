//! Where a thread of another process has its thread-local variables.

use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::sys;

/// The thread pointer of `tid`: the base of `fs` on x86-64, `TPIDR_EL0` on arm64. The thread is stopped for a moment; 0
/// where it has set up none yet.
///
/// # Errors
/// The errno of `ptrace(2)`: `EPERM` without the right, and where a debugger traces the thread; `ESRCH` if it has ended.
pub fn thread_pointer(tid: u32) -> io::Result<u64> {
    let pid = i32::try_from(tid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    sys::attach(pid)?;
    let (found, signal) = match sys::interrupt(pid).and_then(|()| stopped(pid)) {
        Ok(signal) => (sys::thread_pointer(pid), signal),
        Err(error) => (Err(error), 0),
    };
    sys::detach(pid, signal)?;
    found
}

/// Waits until it stands; the signal that is to be delivered to it.
fn stopped(pid: Pid) -> io::Result<i32> {
    // Threads that are not the first of their process count as children by clone.
    let all = WaitOptions::from_bits_retain(libc::__WALL as u32);
    let status = waitpid(Some(pid), all)?.ok_or_else(gone)?.1;
    let signal = status.stopping_signal().ok_or_else(gone)?;
    // A stop of ptrace's own has a number above the signal, and nothing to deliver.
    Ok(if status.as_raw() >> 16 != 0 { 0 } else { signal })
}

fn gone() -> io::Error {
    rustix::io::Errno::SRCH.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread cannot trace one of its own process, so another process is looked at.
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn a_running_process_has_one() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let found = thread_pointer(other.id());
        // It goes on: not stopped, not ended.
        let state = std::fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        match found {
            Ok(pointer) => assert!(pointer > 0x1000 && pointer.is_multiple_of(8), "{pointer:#x}"),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                eprintln!("skipped: processes cannot be traced here ({error})");
            }
            Err(error) => panic!("{error}"),
        }
        assert!(state.contains(") S ") || state.contains(") R "), "{state}");
        assert!(thread_pointer(i32::MAX as u32).is_err());
    }
}
