//! A child that runs small tasks in another cgroup than this process.
//!
//! ```text
//!  parent                           child
//!  fork ──────────────────────────► waits on the request pipe
//!  write request ─────────────────► errand(request)
//!  read answer ◄─────────────────── writes answer
//!  closes the request pipe ───────► ends
//! ```

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::sys;

/// Number of words of a request, and of its answer.
pub const WORDS: usize = 24;

/// A child that answers requests until this value is dropped. It has all descriptors that were open
/// when it was forked.
#[derive(Debug)]
pub struct Server {
    pid: Pid,
    requests: Option<File>,
    answers: File,
}

impl Server {
    /// Forks a child that runs `errand` for each request. Other threads of this process may hold locks
    /// at the moment of the fork, the allocator's too, so `errand` must neither allocate nor lock.
    ///
    /// # Errors
    /// Those of pipes and fork.
    pub fn new(errand: fn(&[u64; WORDS]) -> [u64; WORDS]) -> io::Result<Self> {
        let (requests_read, requests) = io::pipe()?;
        let (answers, answers_write) = io::pipe()?;
        let ours = [requests.as_fd(), answers.as_fd()];
        let pid = sys::fork_serving(errand, requests_read.as_fd(), answers_write.as_fd(), ours)?;
        let requests = Some(OwnedFd::from(requests).into());
        Ok(Self { pid, requests, answers: OwnedFd::from(answers).into() })
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Runs a task in the child.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] or [`io::ErrorKind::BrokenPipe`] if the child has ended.
    pub fn ask(&mut self, request: &[u64; WORDS]) -> io::Result<[u64; WORDS]> {
        let Some(requests) = &mut self.requests else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        requests.write_all(&request.map(u64::to_ne_bytes).concat())?;
        let mut bytes = [0_u8; WORDS * 8];
        self.answers.read_exact(&mut bytes)?;
        let mut answer = [0; WORDS];
        for (word, bytes) in answer.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Closing the pipe ends the child; one that is in an errand without end is ended.
        self.requests = None;
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_answers_with_its_own_process_id_until_it_is_dropped() {
        fn errand(request: &[u64; WORDS]) -> [u64; WORDS] {
            let mut answer = *request;
            answer[0] = u64::from(std::process::id());
            answer[1] *= 2;
            answer
        }
        let mut server = Server::new(errand).unwrap();
        let mut request = [0; WORDS];
        for number in [21, 1 << 40] {
            request[1] = number;
            let answer = server.ask(&request).unwrap();
            assert_eq!((answer[0], answer[1]), (u64::from(server.pid()), 2 * number));
            assert_ne!(answer[0], u64::from(std::process::id()));
        }
        let pid = server.pid;
        drop(server);
        assert!(
            rustix::process::test_kill_process(pid).is_err(),
            "it has ended and was waited for"
        );
    }

    #[test]
    fn a_child_that_is_gone_is_an_error() {
        let mut server = Server::new(|_| panic!("an errand that fails")).unwrap();
        assert!(server.ask(&[0; WORDS]).is_err());
    }
}
