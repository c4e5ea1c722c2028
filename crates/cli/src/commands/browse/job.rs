//! A command of this program that runs while the screen is drawn.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pmuscope_browse::{CommandJob, CommandOutput};

/// Text that is read of a command; what is more is of no use on a screen.
const MOST_TEXT: u64 = 64 << 20;
/// What is read of its messages.
const MOST_MESSAGES: u64 = 64 << 10;

/// Output of a command, or its error.
pub(super) struct CommandOutcome {
    pub(super) number: u64,
    pub(super) output: CommandOutput,
}

/// A command that runs; it is ended when this is dropped.
pub(super) struct Running {
    child: Arc<Mutex<Child>>,
    reading: Option<JoinHandle<CommandOutcome>>,
}

impl Running {
    /// Starts it. What it prints is read by a thread.
    pub(super) fn start(job: &CommandJob) -> std::io::Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .args(&job.command.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (its, number) = (Arc::clone(&child), job.number);
        let reading = std::thread::Builder::new().spawn(move || {
            let messages = std::thread::scope(|threads| {
                let messages = threads.spawn(|| read(stderr, MOST_MESSAGES));
                let text = read(stdout, MOST_TEXT);
                (text, messages.join().unwrap_or_default())
            });
            let (text, messages) = messages;
            let mut child = its.lock().unwrap_or_else(PoisonError::into_inner);
            if text.len() as u64 >= MOST_TEXT {
                // It would wait for somebody to read on.
                let _ = child.kill();
            }
            let failure = match child.wait() {
                // 1: something is missing, and the text says what.
                Ok(status) if matches!(status.code(), Some(0 | 1)) && !text.is_empty() => None,
                Ok(status) if status.success() => None,
                Ok(status) => Some(match messages.trim() {
                    "" => format!("the command ended with {status}"),
                    messages => messages.to_owned(),
                }),
                Err(error) => Some(error.to_string()),
            };
            CommandOutcome { number, output: CommandOutput { text, messages, failure } }
        })?;
        Ok(Self { child, reading: Some(reading) })
    }

    /// What came of it, once it has ended.
    pub(super) fn outcome(&mut self) -> Option<CommandOutcome> {
        let reading = self.reading.take_if(|reading| reading.is_finished())?;
        reading.join().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.reading.is_none() {
            return;
        }
        // The reader holds the child only once its output has ended.
        if let Ok(mut child) = self.child.try_lock() {
            let _ = child.kill();
        }
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
    }
}

fn read(stream: Option<impl std::io::Read>, most: u64) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read until an error is shown.
        let _ = stream.take(most).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
