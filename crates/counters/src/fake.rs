//! A fake kernel driven by a table, for tests of code that uses this crate.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;

use pmuscope_abi::{Attr, OpenFlags};

use crate::kernel::Kernel;
use crate::sys::RingMemory;

/// One call of [`Kernel::open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedCall {
    /// The attribute.
    pub attr: Attr,
    /// Task, or -1.
    pub pid: i32,
    /// CPU, or -1.
    pub cpu: i32,
    /// The call named a group leader.
    pub in_group: bool,
}

/// Gives the answers that a test sets; ring buffers are memory that nothing writes to.
#[derive(Debug, Default)]
pub struct FakeKernel {
    state: Mutex<FakeState>,
    locked_limit: Option<usize>,
    refuse: HashMap<(u64, i32), i32>,
    gone: Vec<i32>,
}

#[derive(Debug, Default)]
struct FakeState {
    opened: Vec<OpenedCall>,
    enabled: Vec<RawFd>,
    redirected: Vec<(RawFd, RawFd)>,
    mapped: Vec<usize>,
    answer: Vec<u64>,
}

impl FakeKernel {
    /// The number of bytes of ring buffers that can be mapped in total.
    #[must_use]
    pub fn with_locked_limit(self, bytes: usize) -> Self {
        Self { locked_limit: Some(bytes), ..self }
    }

    /// Opening an event with this `config` on this CPU fails with `errno`.
    #[must_use]
    pub fn refusing(mut self, config: u64, cpu: i32, errno: i32) -> Self {
        self.refuse.insert((config, cpu), errno);
        self
    }

    /// This task does not exist.
    #[must_use]
    pub fn without_task(mut self, pid: i32) -> Self {
        self.gone.push(pid);
        self
    }

    /// From now on every read returns these words, followed by zeros.
    pub fn answer_reads(&self, words: &[u64]) {
        self.locked().answer = words.to_vec();
    }

    /// All calls of open so far.
    #[must_use]
    pub fn opened(&self) -> Vec<OpenedCall> {
        self.locked().opened.clone()
    }

    /// How many events were redirected to another's ring.
    #[must_use]
    pub fn redirected(&self) -> usize {
        self.locked().redirected.len()
    }

    /// Sizes of the rings that were mapped, in order.
    #[must_use]
    pub fn mapped(&self) -> Vec<usize> {
        self.locked().mapped.clone()
    }

    /// How many times an event was enabled.
    #[must_use]
    pub fn enabled(&self) -> usize {
        self.locked().enabled.len()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Kernel for FakeKernel {
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        _flags: OpenFlags,
    ) -> io::Result<OwnedFd> {
        if let Some(errno) = self.refuse.get(&(attr.config, cpu)) {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        if self.gone.contains(&pid) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let call = OpenedCall { attr: attr.clone(), pid, cpu, in_group: group.is_some() };
        self.locked().opened.push(call);
        Ok(File::open("/dev/null")?.into())
    }

    fn event_id(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(event.as_raw_fd() as u64 + 1000)
    }

    fn redirect(&self, event: BorrowedFd<'_>, owner: BorrowedFd<'_>) -> io::Result<()> {
        self.locked().redirected.push((event.as_raw_fd(), owner.as_raw_fd()));
        Ok(())
    }

    fn enable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.locked().enabled.push(event.as_raw_fd());
        Ok(())
    }

    fn disable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn enable_alone(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.enable(event)
    }

    fn disable_alone(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn set_period(&self, _event: BorrowedFd<'_>, _period: u64) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, _event: BorrowedFd<'_>, words: &mut [u64]) -> io::Result<usize> {
        words.fill(0);
        let answer = self.locked().answer.clone();
        let count = answer.len().min(words.len());
        words[..count].copy_from_slice(&answer[..count]);
        Ok(words.len())
    }

    fn map(
        &self,
        _event: BorrowedFd<'_>,
        data_bytes: usize,
        _writable: bool,
    ) -> io::Result<RingMemory> {
        let mut state = self.locked();
        let live = state.mapped.iter().filter(|size| **size == data_bytes).sum::<usize>();
        if self.locked_limit.is_some_and(|limit| live + data_bytes > limit) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        state.mapped.push(data_bytes);
        RingMemory::anonymous(data_bytes)
    }
}
