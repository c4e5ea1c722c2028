//! What every result for programs has around it.

use std::time::{Instant, SystemTime};

use pmuscope_machine::Facts;
use pmuscope_report::{Envelope, Tool, to_json};
use serde::Serialize;

use crate::exit::Exit;

/// The command line as typed, program first.
pub fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// When a command began.
#[derive(Debug, Clone, Copy)]
pub struct Invocation {
    at: SystemTime,
    clock: Instant,
}

impl Invocation {
    /// Now.
    pub fn now() -> Self {
        Self { at: SystemTime::now(), clock: Instant::now() }
    }

    /// A result that ends with this status, as JSON; `machine` where it is about this one.
    pub fn json<T: Serialize>(
        self,
        schema: &'static str,
        machine: Option<&Facts>,
        exit: &Exit,
        result: T,
    ) -> anyhow::Result<String> {
        Ok(to_json(&Envelope {
            schema,
            tool: Tool::PMUSCOPE,
            machine,
            command: &command_line(),
            started: self.at,
            duration_s: self.clock.elapsed(),
            status: exit.status(),
            result,
        })?)
    }
}
