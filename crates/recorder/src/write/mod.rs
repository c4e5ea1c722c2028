//! Asynchronous writes: the reader copies a ring into a buffer, gives the ring back, and goes on while
//! the buffer is written.
//!
//! ```text
//!  reader:   copy A │ release ring │ submit A │ copy B │ release │ submit B │ reap A …
//!  kernel or writer thread:           └ write A ┘          └ write B ┘
//! ```

mod sys;
mod thread;

use std::io;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::output::{Extent, Output};

pub(crate) use sys::UringWrites;
pub(crate) use thread::ThreadWrites;

/// A buffer on its way into a file.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) output: Arc<Output>,
    pub(crate) extent: Extent,
    pub(crate) buffer: Buffer,
}

/// Something that writes buffers while its caller goes on. Results go to the job's output; what comes
/// back is the buffer.
pub(crate) trait AsyncWrites: Send {
    /// Starts a write. The caller keeps at most as many in flight as it said at the start.
    fn submit(&mut self, job: Job);

    /// A buffer whose write has ended, well or not; waits for one if told so. `None` if none is in
    /// flight, or, without waiting, if none has ended.
    fn reap(&mut self, wait: bool) -> Option<Buffer>;
}

/// The best this machine allows, and its name. `depth` is the number of writes in flight.
///
/// # Errors
/// Those of starting a thread, where io_uring is not to be had.
pub(crate) fn best(depth: u32) -> io::Result<(Box<dyn AsyncWrites>, &'static str)> {
    match UringWrites::new(depth) {
        Ok(uring) => Ok((Box::new(uring), "io_uring")),
        Err(_) => Ok((Box::new(ThreadWrites::new(depth)?), "writer thread")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Wake;

    fn writes_everything(mut writes: Box<dyn AsyncWrites>) {
        let dir = tempfile::tempdir().unwrap();
        let wake = Wake::new().unwrap();
        let output = Arc::new(
            Output::create(&dir.path().join("x"), &[], &[], 1, &Default::default(), wake).unwrap(),
        );
        let mut free: Vec<Buffer> = (0..2).map(|_| Buffer::on_node(8192, None).unwrap()).collect();
        let mut expected = Vec::new();
        for number in 0..50_u8 {
            let mut buffer = free.pop().or_else(|| writes.reap(true)).unwrap();
            let bytes = vec![number; 8 * (1 + usize::from(number))];
            buffer.fill(&[&bytes]);
            expected.extend(bytes);
            let extent = output.reserve(buffer.bytes().len(), Default::default()).unwrap();
            writes.submit(Job { output: output.clone(), extent, buffer });
        }
        while writes.reap(true).is_some() {}
        assert!(writes.reap(false).is_none());
        assert_eq!(output.committed(), expected.len() as u64);
        let file = std::fs::read(output.path()).unwrap();
        assert!(file.ends_with(&expected));
    }

    #[test]
    fn the_writer_thread_writes_everything() {
        writes_everything(Box::new(ThreadWrites::new(2).unwrap()));
    }

    #[test]
    fn io_uring_writes_everything() {
        match UringWrites::new(2) {
            Ok(uring) => writes_everything(Box::new(uring)),
            Err(error) => eprintln!("skipped: io_uring is not to be had here: {error}"),
        }
    }
}
