//! Asynchronous writes by io_uring. Unsafe, because the kernel reads the buffers while we go on.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use super::{AsyncWrites, Job};
use crate::buffer::Buffer;
use crate::output::Stopped;

/// What the kernel had no memory for is tried again after this.
const PAUSE: Duration = Duration::from_millis(1);

/// Buffered writes through one io_uring. (Buffers cannot be registered and the file cannot be opened
/// with O_DIRECT when pages come from a ring; these come from anonymous memory, but writes of a few
/// hundred KiB into the page cache gain nothing from either.)
pub(crate) struct UringWrites {
    uring: IoUring,
    slots: Vec<Option<Flight>>,
    in_flight: usize,
    /// The kernel takes nothing more from this ring.
    is_lost: bool,
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
        Ok(Self { uring, slots: Vec::new(), in_flight: 0, is_lost: false })
    }

    /// Hands the rest of a slot's buffer to the kernel.
    fn start(&mut self, slot: usize) {
        if self.is_lost {
            return self.write_here(slot);
        }
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
        // and unread, until the completion with this slot's number has been seen; `Drop` waits. Where no
        // completion can come any more, `lose` leaves the buffer to whoever may still read it.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        if pushed.is_err() {
            // The queue is full, so it is not in the kernel's hands: write it ourselves.
            return self.write_here(slot);
        }
        // What is not submitted now stays in the queue, from which no entry can be taken back, and goes with
        // the next.
        if let Err(error) = self.submit_all() {
            self.lose_unless_transient(&error);
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

    /// No memory for a request, or completions to be taken first: whoever waits tries again.
    fn lose_unless_transient(&mut self, error: &io::Error) {
        if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) {
            self.lose();
        }
    }

    /// Gives the ring up, and writes all that is in flight here. Of none of it is it known whether the kernel
    /// reads it, so that buffers are not freed; what it has written already is written again, the same bytes
    /// to the same place.
    fn lose(&mut self) {
        self.is_lost = true;
        for flight in self.slots.iter_mut().filter_map(Option::take) {
            let Flight { job: Job { output, extent, buffer }, .. } = flight;
            output.write(extent, &[buffer.bytes()]);
            std::mem::forget(buffer);
            self.in_flight -= 1;
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
                    if let Err(error) = self.uring.submit_and_wait(1) {
                        self.lose_unless_transient(&error);
                        std::thread::sleep(PAUSE);
                    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use crate::wake::Wake;
    use std::sync::Arc;

    #[test]
    fn what_a_ring_does_not_take_any_more_is_written_all_the_same() {
        let mut writes = match UringWrites::new(4) {
            Ok(writes) => writes,
            Err(error) => return eprintln!("skipped: io_uring is not to be had here: {error}"),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let wake = Wake::new().unwrap();
        let output = Output::create(&path, &[], &[], 1, &Default::default(), wake).unwrap();
        let output = Arc::new(output);
        let null = std::fs::File::open("/dev/null").unwrap();
        let mut expected = Vec::new();
        for number in 0..3_u8 {
            if number == 1 {
                // SAFETY: replaces a descriptor of our own, which its owner closes as ever; the kernel keeps
                // the ring's memory as long as it is mapped.
                let replaced = unsafe { libc::dup2(null.as_raw_fd(), writes.uring.as_raw_fd()) };
                assert!(replaced >= 0);
            }
            let mut buffer = Buffer::on_node(8192, None).unwrap();
            let bytes = [number; 64];
            buffer.fill(&[&bytes]);
            expected.extend(bytes);
            let extent = output.reserve(bytes.len(), Default::default()).unwrap();
            writes.submit(Job { output: output.clone(), extent, buffer });
        }
        while writes.reap(true).is_some() {}
        assert!(writes.is_lost && writes.in_flight == 0);
        assert_eq!(output.committed(), expected.len() as u64);
        assert!(std::fs::read(output.path()).unwrap().ends_with(&expected));
    }
}
