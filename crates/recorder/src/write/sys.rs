//! Asynchronous writes by io_uring. Unsafe, because the kernel reads the buffers while we go on.

use std::io;
use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, types};

use super::{AsyncWrites, Job};
use crate::buffer::Buffer;
use crate::output::Stopped;

/// Buffered writes through one io_uring. (Buffers cannot be registered and the file cannot be opened
/// with O_DIRECT when pages come from a ring; these come from anonymous memory, but writes of a few
/// hundred KiB into the page cache gain nothing from either.)
pub(crate) struct UringWrites {
    uring: IoUring,
    slots: Vec<Option<Flight>>,
    in_flight: usize,
}

/// A write that the kernel may be working on: its buffer stays where it is until the completion.
struct Flight {
    job: Job,
    written: usize,
}

impl UringWrites {
    /// # Errors
    /// Those of `io_uring_setup(2)`: not allowed here, or not in this kernel.
    pub(crate) fn new(depth: u32) -> io::Result<Self> {
        let uring = IoUring::new(depth.max(1).next_power_of_two())?;
        Ok(Self { uring, slots: Vec::new(), in_flight: 0 })
    }

    /// Hands the rest of a slot's buffer to the kernel.
    fn start(&mut self, slot: usize) {
        let Some(flight) = &self.slots[slot] else { return };
        let rest = &flight.job.buffer.bytes()[flight.written..];
        let (file, offset) = flight.job.output.target(&flight.job.extent);
        let entry = opcode::Write::new(
            types::Fd(file.as_raw_fd()),
            rest.as_ptr(),
            u32::try_from(rest.len()).unwrap_or(u32::MAX),
        )
        .offset(offset + flight.written as u64)
        .build()
        .user_data(slot as u64);
        // SAFETY: the buffer and the file (through the Arc in the job) stay in `slots[slot]`, unmoved
        // and unread, until the completion with this slot's number has been seen; `Drop` waits.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        if pushed.is_err() || self.submit_all().is_err() {
            // Not in the kernel's hands: write it ourselves.
            self.write_here(slot);
        }
    }

    fn submit_all(&mut self) -> io::Result<()> {
        loop {
            match self.uring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write_here(&mut self, slot: usize) {
        if let Some(Flight { job: Job { output, extent, buffer }, .. }) = self.slots[slot].take() {
            output.write(extent, &[buffer.bytes()]);
            self.in_flight -= 1;
        }
    }

    /// One completion, if there is one; a short write goes on where it stopped.
    fn completion(&mut self) -> Option<Option<Buffer>> {
        let entry = self.uring.completion().next()?;
        let slot = entry.user_data() as usize;
        let Some(flight) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return Some(None);
        };
        let result = entry.result();
        if result > 0 {
            flight.written += result as usize;
            if flight.written < flight.job.buffer.bytes().len() {
                self.start(slot);
                return Some(None);
            }
        }
        let Flight { job: Job { output, extent, buffer }, .. } = self.slots[slot].take()?;
        self.in_flight -= 1;
        match result {
            0 => output.stop(Stopped::Failed(io::ErrorKind::WriteZero.into())),
            1.. => output.complete(extent),
            errno => output.stop(Stopped::Failed(io::Error::from_raw_os_error(-errno))),
        }
        Some(Some(buffer))
    }
}

impl AsyncWrites for UringWrites {
    fn submit(&mut self, job: Job) {
        let flight = Some(Flight { job, written: 0 });
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = flight;
                free
            }
            None => {
                self.slots.push(flight);
                self.slots.len() - 1
            }
        };
        self.in_flight += 1;
        self.start(slot);
    }

    fn reap(&mut self, wait: bool) -> Option<Buffer> {
        loop {
            match self.completion() {
                Some(Some(buffer)) => return Some(buffer),
                Some(None) => {}
                None if wait && self.in_flight > 0 => {
                    // Interrupted or not, the next look at the queue tells.
                    let _ = self.uring.submit_and_wait(1);
                }
                None => return None,
            }
        }
    }
}

impl Drop for UringWrites {
    fn drop(&mut self) {
        while self.reap(true).is_some() {}
    }
}
