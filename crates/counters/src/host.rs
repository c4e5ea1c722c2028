//! The real kernel.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use pmuscope_abi::{Attr, OpenFlags, ioctl};

use crate::kernel::Kernel;
use crate::page::EventPage;
use crate::sys::{self, RingMemory};

/// The kernel this program runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

impl Kernel for Host {
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> io::Result<OwnedFd> {
        sys::perf_event_open(&attr.to_bytes(), pid, cpu, group, flags)
    }

    fn event_id(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        sys::ioctl_read_u64(event, ioctl::ID)
    }

    fn redirect(&self, event: BorrowedFd<'_>, owner: BorrowedFd<'_>) -> io::Result<()> {
        sys::ioctl_fd(event, ioctl::SET_OUTPUT, owner)
    }

    fn enable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        sys::ioctl_value(event, ioctl::ENABLE, ioctl::FLAG_GROUP)
    }

    fn disable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        sys::ioctl_value(event, ioctl::DISABLE, ioctl::FLAG_GROUP)
    }

    fn enable_alone(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        sys::ioctl_value(event, ioctl::ENABLE, 0)
    }

    fn disable_alone(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        sys::ioctl_value(event, ioctl::DISABLE, 0)
    }

    fn set_period(&self, event: BorrowedFd<'_>, period: u64) -> io::Result<()> {
        sys::ioctl_write_u64(event, ioctl::PERIOD, period)
    }

    fn attach(&self, event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
        sys::ioctl_fd(event, ioctl::SET_BPF, program)
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> io::Result<usize> {
        sys::read_words(event, words)
    }

    fn map(
        &self,
        event: BorrowedFd<'_>,
        data_bytes: usize,
        writable: bool,
    ) -> io::Result<RingMemory> {
        RingMemory::map(event, data_bytes, writable)
    }

    fn map_page(&self, event: BorrowedFd<'_>) -> io::Result<EventPage> {
        EventPage::map(event)
    }
}
