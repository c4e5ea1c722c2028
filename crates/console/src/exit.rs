//! Exit status, as docs/exit-status.md has it: one place decides it.

use std::ffi::OsString;
use std::process::ExitCode;

use pmuscope_machine::stdout;
use pmuscope_report::escape_lines;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: all that was asked.
    Done,
    /// 1: measured, but something asked for is missing (the message said what).
    Incomplete,
    /// 2: bad arguments or input.
    BadInput,
    /// 3: not possible on this machine or with these rights.
    NotPossible,
    /// The status of the program run with `-- CMD`, or 125 to 127 as env(1) has them.
    Target(u8),
}

impl Exit {
    /// That of a command that was run, if one was, where nothing is missing.
    pub fn of(status: Option<u8>, missing: bool) -> Self {
        let exit = status.map_or(Self::Done, Self::Target);
        if missing { exit.with_missing() } else { exit }
    }

    /// The same, where something that was asked for is missing.
    pub fn with_missing(self) -> Self {
        match self {
            Self::Done => Self::Incomplete,
            Self::Target(_) => Self::Target(125),
            worse => worse,
        }
    }

    /// The number.
    pub fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Incomplete => 1,
            Self::BadInput => 2,
            Self::NotPossible => 3,
            Self::Target(status) => status,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.status())
    }
}

/// An error that knows its exit status; any other error counts as [`Exit::BadInput`].
#[derive(Debug)]
pub struct Failure {
    /// What to exit with.
    pub exit: Exit,
    /// The whole sentence: what, where, why, what to type next.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Wraps `message` as an error that ends with `exit`.
pub fn failure(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    Failure { exit, message: message.into() }.into()
}

/// An error in arguments or input.
#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
pub fn bad_input(message: impl std::fmt::Display) -> anyhow::Error {
    failure(Exit::BadInput, message.to_string())
}

/// Something that this machine, or the rights here, do not allow.
#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
pub fn not_possible(message: impl std::fmt::Display) -> anyhow::Error {
    failure(Exit::NotPossible, message.to_string())
}

/// `error` where a command was to be run: as env(1) and timeout(1) have it, the status tells that it was not
/// the command that failed. One that tells already stays, and so does a reader that went away.
pub fn beside_command(error: anyhow::Error) -> anyhow::Error {
    let failed = error.downcast_ref::<Failure>();
    let tells = failed.is_some_and(|failed| matches!(failed.exit, Exit::Target(_)));
    if tells || is_broken_pipe(&error) {
        return error;
    }
    failure(Exit::Target(125), chain(&error))
}

/// [`beside_command`] where there is one.
pub fn beside<T>(command: &[OsString], result: anyhow::Result<T>) -> anyhow::Result<T> {
    if command.is_empty() { result } else { result.map_err(beside_command) }
}

/// `error` from before the command was started: bad arguments (2) and what this machine lacks (3) have the status
/// that they have without a command; anything else is a failure of pmuscope (125).
pub fn before_command(error: anyhow::Error) -> anyhow::Error {
    let failed = error.downcast_ref::<Failure>();
    match failed.map(|failed| failed.exit) {
        Some(Exit::BadInput | Exit::NotPossible) => error,
        _ => beside_command(error),
    }
}

/// The error and its causes. Many texts have their cause in them already: it is not said twice. Names of the system's
/// errors are enough, without their numbers.
fn chain(error: &anyhow::Error) -> String {
    without_numbers(&with_causes(error))
}

/// `No such file or directory (os error 2)` without what is in parentheses.
fn without_numbers(text: &str) -> String {
    const BEGIN: &str = " (os error ";
    let mut parts = text.split(BEGIN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => out.push_str(rest),
            _ => {
                out.push_str(BEGIN);
                out.push_str(part);
            }
        }
    }
    out
}

fn with_causes(error: &anyhow::Error) -> String {
    if is_closed_stdout(error) {
        let text = "cannot write to standard output: it is closed (>&-). Try: > FILE, or a pipe";
        return text.to_owned();
    }
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            text if text.contains(&cause) => text.to_owned(),
            text => format!("{text}: {cause}"),
        }
    })
}

/// Prints an error to stderr and tells the status. A reader that went away (`| head`) is no error.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return Exit::Done.into();
    }
    // Names of files and processes are in it.
    say!("error: {}", escape_lines(&chain(error)));
    error.downcast_ref::<Failure>().map_or(Exit::BadInput, |failure| failure.exit).into()
}

/// Standard output was closed from the start, and something was written to it ([`stdout::refuse_if_closed`]).
fn is_closed_stdout(error: &anyhow::Error) -> bool {
    let is_full = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::StorageFull;
    stdout::was_closed()
        && error.to_string().contains("standard output")
        && error.chain().any(|cause| cause.downcast_ref().is_some_and(is_full))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_no_numbers() {
        let text = "cannot open x: No such file or directory (os error 2). Try: ls";
        assert_eq!(without_numbers(text), "cannot open x: No such file or directory. Try: ls");
        for text in ["plain", "(os error 2)", "x (os error", "x (os error two) y"] {
            assert_eq!(without_numbers(text), text);
        }
    }

    #[test]
    fn what_is_missing_is_told_by_a_status_of_ours() {
        let with_missing = |exit: Exit| exit.with_missing().status();
        assert_eq!(with_missing(Exit::Done), 1);
        assert_eq!(with_missing(Exit::NotPossible), 3);
        assert_eq!([0, 7, 143].map(|status| with_missing(Exit::Target(status))), [125; 3]);
    }

    #[test]
    fn beside_a_command_errors_are_ours_unless_they_say_why_it_was_not_run() {
        let status = |error: anyhow::Error| {
            let error = beside_command(error);
            assert_eq!(error.to_string(), "why");
            error.downcast_ref::<Failure>().map(|failure| failure.exit.status())
        };
        assert_eq!(status(failure(Exit::BadInput, "why")), Some(125));
        assert_eq!(status(failure(Exit::NotPossible, "why")), Some(125));
        assert_eq!(status(anyhow::anyhow!("why")), Some(125));
        assert_eq!(status(failure(Exit::Target(127), "why")), Some(127));
        let before = before_command(failure(Exit::BadInput, "why"));
        assert_eq!(before.downcast_ref::<Failure>().map(|failure| failure.exit.status()), Some(2));
        let before = before_command(anyhow::anyhow!("why"));
        assert_eq!(
            before.downcast_ref::<Failure>().map(|failure| failure.exit.status()),
            Some(125)
        );
        let gone = std::io::Error::new(std::io::ErrorKind::BrokenPipe, "why");
        assert_eq!(status(gone.into()), None);
    }
}
