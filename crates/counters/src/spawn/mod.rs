//! A command that is held between fork and exec, so that its events are open before its first
//! instruction.
//!
//! ```text
//!  parent                         child
//!  fork ────────────────────────► waits on the go pipe
//!  open events on its pid
//!  release: one byte ───────────► execvp ── fails: errno into the failure pipe, exit
//!  reads failure pipe ◄─ closed by a successful exec
//! ```

mod entry;
mod server;
mod sys;
mod thread_pointer;

use std::ffi::{CString, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid,
};

use crate::error::CountersError;

pub use entry::StoppedChild;
pub use server::{Server, WORDS};
pub use thread_pointer::thread_pointer;

/// A child that waits for [`HeldChild::release`]. Dropped before that, it ends without running anything.
#[derive(Debug)]
pub struct HeldChild {
    command: String,
    pid: Pid,
    pidfd: OwnedFd,
    go: Option<std::fs::File>,
    failure: std::fs::File,
    status: Option<Status>,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Exit status.
    Exited(u8),
    /// Killed by this signal.
    Signaled(i32),
}

impl Status {
    /// The status a shell would show: 128 + signal for a killed one.
    #[must_use]
    pub fn shell(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Signaled(signal) => 128_u8.wrapping_add(signal as u8),
        }
    }
}

impl HeldChild {
    /// Forks. `command` is a program, looked up in `PATH` at release, and its arguments.
    ///
    /// # Errors
    /// [`CountersError::Spawn`] for an empty command, an argument with a NUL byte, or no resources.
    pub fn new(command: &[OsString]) -> Result<Self, CountersError> {
        let name =
            command.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
        Self::fork(command, None, name.clone())
            .map_err(|source| CountersError::Spawn { command: name, source })
    }

    /// As [`HeldChild::new`]; the child has nothing to read, and prints to `output`.
    ///
    /// # Errors
    /// As [`HeldChild::new`].
    pub fn with_output(
        command: &[OsString],
        output: BorrowedFd<'_>,
    ) -> Result<Self, CountersError> {
        let name =
            command.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
        let fork = || {
            let input = std::fs::File::open("/dev/null")?;
            let streams = sys::Streams { input: input.as_fd(), output };
            Self::fork(command, Some(streams), name.clone())
        };
        fork().map_err(|source| CountersError::Spawn { command: name.clone(), source })
    }

    fn fork(
        command: &[OsString],
        streams: Option<sys::Streams<'_>>,
        name: String,
    ) -> io::Result<Self> {
        let arguments = command
            .iter()
            .map(|word| CString::new(word.as_bytes()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(io::Error::from)?;
        if arguments.is_empty() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let (go_read, go) = io::pipe()?;
        let (failure, failure_write) = io::pipe()?;
        let (start, parent) = (go_read.as_fd(), go.as_fd());
        let pid = sys::fork_held(&arguments, streams, start, parent, failure_write.as_fd())?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self {
            command: name,
            pid,
            pidfd,
            go: Some(OwnedFd::from(go).into()),
            failure: OwnedFd::from(failure).into(),
            status: None,
        })
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Readable when the child has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Lets the child exec, and returns when it has.
    ///
    /// # Errors
    /// [`CountersError::Spawn`] with the errno of exec.
    pub fn release(&mut self) -> Result<(), CountersError> {
        let error = |source| CountersError::Spawn { command: self.command.clone(), source };
        let Some(mut go) = self.go.take() else { return Ok(()) };
        go.write_all(&[1]).map_err(error)?;
        drop(go);
        let mut errno = [0_u8; 4];
        match self.failure.read_exact(&mut errno) {
            Err(eof) if eof.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(source) => Err(error(source)),
            Ok(()) => Err(error(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))),
        }
    }

    /// How the child ended, if it has.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn try_wait(&mut self) -> io::Result<Option<Status>> {
        self.reap(WaitOptions::NOHANG)
    }

    /// Waits for the child's end.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn wait(&mut self) -> io::Result<Status> {
        loop {
            if let Some(status) = self.reap(WaitOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// Whether it ends within `grace`.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn ends_within(&mut self, grace: Duration) -> io::Result<bool> {
        let grace =
            Timespec { tv_sec: grace.as_secs() as i64, tv_nsec: grace.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        // Interrupted counts as not ended: the signal that follows does no harm to a process that is.
        let ready = poll(&mut fds, Some(&grace)).unwrap_or(0);
        Ok(ready > 0 && self.try_wait()?.is_some())
    }

    /// Waits for its end; a command may run as long as it takes, as it is the user's work. After an interrupt it
    /// usually got the same signal as this process; if that does not end it, it is sent one.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn end(&mut self, interrupted: bool) -> io::Result<Status> {
        const GRACE: Duration = Duration::from_millis(500);
        if interrupted && !self.ends_within(GRACE)? {
            self.kill(Signal::TERM);
        }
        self.wait()
    }

    /// Sends a signal, if the child still runs.
    pub fn kill(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have ended this very moment; that is what was wanted.
            let _ = kill_process(self.pid, signal);
        }
    }

    fn reap(&mut self, options: WaitOptions) -> io::Result<Option<Status>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let Some((_, status)) = waitpid(Some(self.pid), options)? else { return Ok(None) };
        self.keep(status);
        Ok(self.status)
    }

    fn keep(&mut self, status: WaitStatus) {
        self.status = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(Status::Exited(code as u8)),
            (None, Some(signal)) => Some(Status::Signaled(signal)),
            (None, None) => None,
        };
    }
}

impl Drop for HeldChild {
    fn drop(&mut self) {
        if self.go.take().is_some() {
            // Closing the go pipe ends the child; reap it so that no zombie stays.
            let _ = self.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn nothing_runs_before_the_release() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        let mut child = HeldChild::new(&command(&["touch", mark.to_str().unwrap()])).unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(!mark.exists());
        child.release().unwrap();
        assert_eq!(child.wait().unwrap(), Status::Exited(0));
        assert!(mark.exists());
    }

    #[test]
    fn a_dropped_child_never_runs() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        drop(HeldChild::new(&command(&["touch", mark.to_str().unwrap()])).unwrap());
        assert!(!mark.exists());
    }

    #[test]
    fn what_a_child_prints_can_go_to_a_file() {
        use std::io::Seek as _;
        let mut file = tempfile::tempfile().unwrap();
        let script = ["sh", "-c", "cat; echo out; echo err >&2"];
        let mut child = HeldChild::with_output(&command(&script), file.as_fd()).unwrap();
        child.release().unwrap();
        assert_eq!(child.wait().unwrap(), Status::Exited(0));
        file.rewind().unwrap();
        assert_eq!(io::read_to_string(file).unwrap(), "out\nerr\n");
    }

    #[test]
    fn the_errno_of_exec_comes_back() {
        let mut missing = HeldChild::new(&command(&["/no/such/program"])).unwrap();
        let error = missing.release().unwrap_err().to_string();
        assert!(error.contains("/no/such/program: ENOENT"), "{error}");
        let mut directory = HeldChild::new(&command(&["/tmp"])).unwrap();
        assert!(directory.release().unwrap_err().to_string().contains("EACCES"));
    }

    #[test]
    fn a_signal_becomes_128_and_its_number() {
        let mut child = HeldChild::new(&command(&["sh", "-c", "kill -TERM $$"])).unwrap();
        child.release().unwrap();
        assert_eq!(child.wait().unwrap().shell(), 143);
    }
}
