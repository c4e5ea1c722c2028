//! Asynchronous writes by a thread, where io_uring is not allowed (containers, `io_uring_disabled`).

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::{AsyncWrites, Job};
use crate::buffer::Buffer;

/// A thread that writes one buffer after the other.
#[derive(Debug)]
pub(crate) struct ThreadWrites {
    jobs: SyncSender<Job>,
    done: Receiver<Buffer>,
    in_flight: usize,
}

impl ThreadWrites {
    /// # Errors
    /// Those of starting a thread.
    pub(crate) fn new(depth: u32) -> io::Result<Self> {
        let (jobs, todo) = sync_channel(depth.max(1) as usize);
        let (finished, done) = channel();
        std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || write_all(&todo, &finished))?;
        Ok(Self { jobs, done, in_flight: 0 })
    }
}

/// What was handed over is written before anybody closes the file, also where a reader fails.
impl Drop for ThreadWrites {
    fn drop(&mut self) {
        while self.reap(true).is_some() {}
    }
}

fn write_all(todo: &Receiver<Job>, finished: &Sender<Buffer>) {
    for Job { output, extent, buffer } in todo {
        output.write(extent, &[buffer.bytes()]);
        if finished.send(buffer).is_err() {
            return; // the reader is gone, and with it the recording
        }
    }
}

impl AsyncWrites for ThreadWrites {
    fn submit(&mut self, job: Job) {
        // It fails only if the thread has panicked; then nothing comes back and the pool runs dry,
        // which the reader sees as `None` from `reap`.
        if self.jobs.send(job).is_ok() {
            self.in_flight += 1;
        }
    }

    fn reap(&mut self, wait: bool) -> Option<Buffer> {
        if self.in_flight == 0 {
            return None;
        }
        let buffer = if wait { self.done.recv().ok() } else { self.done.try_recv().ok() };
        self.in_flight -= usize::from(buffer.is_some());
        buffer
    }
}
