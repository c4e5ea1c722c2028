//! What this crate asks of the kernel, as a trait, so that tests can replace it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use pmuscope_abi::{Attr, OpenFlags};

use crate::page::EventPage;
use crate::sys::RingMemory;

/// The system calls on perf events. Every error is the kernel's errno, unexplained; the callers know
/// the event and the CPU and explain it.
pub trait Kernel: Send + Sync {
    /// `perf_event_open(2)`. `pid` -1 is any task, `cpu` -1 any CPU.
    ///
    /// # Errors
    /// The errno of the call.
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> io::Result<OwnedFd>;

    /// The id that records of this event carry.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn event_id(&self, event: BorrowedFd<'_>) -> io::Result<u64>;

    /// Sends records of `event` to the ring of `owner`.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn redirect(&self, event: BorrowedFd<'_>, owner: BorrowedFd<'_>) -> io::Result<()>;

    /// Starts counting; the whole group where `event` leads one.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn enable(&self, event: BorrowedFd<'_>) -> io::Result<()>;

    /// Stops counting; the whole group where `event` leads one.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn disable(&self, event: BorrowedFd<'_>) -> io::Result<()>;

    /// Starts counting, this event only: a member of a group counts while its leader does.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn enable_alone(&self, event: BorrowedFd<'_>) -> io::Result<()>;

    /// Stops counting, this event only; a leader takes its members off their counters.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn disable_alone(&self, event: BorrowedFd<'_>) -> io::Result<()>;

    /// Sets the period, in units of the event; phase starts anew.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn set_period(&self, event: BorrowedFd<'_>, period: u64) -> io::Result<()>;

    /// Runs a BPF program at each overflow of `event` and of the events that children inherit from it.
    /// Kernels made of tables have none.
    ///
    /// # Errors
    /// The errno of the ioctl.
    fn attach(&self, event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
        let _ = (event, program);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// `read(2)`: the number of words filled.
    ///
    /// # Errors
    /// The errno of the call.
    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> io::Result<usize>;

    /// Maps the ring of `event`: `data_bytes` is a power of two of at least a page. Read-only makes the
    /// kernel overwrite old records instead of dropping new ones.
    ///
    /// # Errors
    /// The errno of `mmap(2)`.
    fn map(
        &self,
        event: BorrowedFd<'_>,
        data_bytes: usize,
        writable: bool,
    ) -> io::Result<RingMemory>;

    /// Maps the page of `event` that its counts can be read from, without a ring. Kernels made of tables
    /// have none.
    ///
    /// # Errors
    /// The errno of `mmap(2)`.
    fn map_page(&self, event: BorrowedFd<'_>) -> io::Result<EventPage> {
        let _ = event;
        Err(io::ErrorKind::Unsupported.into())
    }
}
