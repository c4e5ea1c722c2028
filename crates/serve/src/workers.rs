//! Threads that make answers, so that one that takes long delays no connection.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::answer::Reply;
use crate::{ClientRequest, Routes};

/// A request, with the number of its connection.
type NumberedRequest = (u64, ClientRequest);

/// Threads, and the way to them and back. The queue is as long as there are connections, at most.
#[derive(Debug)]
pub(crate) struct Workers {
    jobs: Sender<NumberedRequest>,
    answers: Receiver<(u64, Reply)>,
    /// Readable while there are answers.
    ready: PipeReader,
}

impl Workers {
    /// Starts `number` threads. They end with this process, or when this is dropped and their last answer is made.
    pub(crate) fn start(number: usize, routes: &Arc<dyn Routes>) -> io::Result<Self> {
        let (jobs, waiting) = channel();
        let (made, answers) = channel();
        let (ready, wake) = io::pipe()?;
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..number.max(1) {
            let worker = ReplyWorker {
                waiting: Arc::clone(&waiting),
                made: made.clone(),
                wake: wake.try_clone()?,
                routes: Arc::clone(routes),
            };
            thread::Builder::new().name("answers".into()).spawn(move || worker.run())?;
        }
        Ok(Self { jobs, answers, ready })
    }

    /// Readable while there are answers.
    pub(crate) fn ready(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Asks for the answer to `request`; whether there is a thread for it.
    pub(crate) fn ask(&self, connection: u64, request: ClientRequest) -> bool {
        self.jobs.send((connection, request)).is_ok()
    }

    /// Answers that were made, after [`Workers::ready`] was readable.
    pub(crate) fn take(&mut self) -> Vec<(u64, Reply)> {
        let mut bytes = [0; 256];
        // A byte for each answer. It is readable, so this does not wait.
        match self.ready.read(&mut bytes) {
            Ok(number) => self.answers.try_iter().take(number).collect(),
            Err(_) => Vec::new(),
        }
    }
}

struct ReplyWorker {
    waiting: Arc<Mutex<Receiver<NumberedRequest>>>,
    made: Sender<(u64, Reply)>,
    wake: PipeWriter,
    routes: Arc<dyn Routes>,
}

impl ReplyWorker {
    fn run(mut self) {
        loop {
            // Poison: another thread panicked while it waited, which changes nothing here.
            let job = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((connection, request)) = job else { return };
            let answer = catch_unwind(AssertUnwindSafe(|| self.routes.answer(&request)));
            let answer = answer.unwrap_or_else(|_| Reply::text(500, "internal error"));
            if self.made.send((connection, answer)).is_err() || self.wake.write_all(b"a").is_err() {
                return;
            }
        }
    }
}
