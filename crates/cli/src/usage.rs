//! The command line as clap reads it, and what is said of values that it does not take.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::Cli;

/// Reads a command line.
///
/// # Errors
/// clap's, of wrong words, and of help that was asked for.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = with_negative_numbers(Cli::command());
    let mut matches = command.clone().try_get_matches_from(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// `-F -5` is a wrong value of `-F`, not an unknown flag `-5`.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes_values = arg.get_action().takes_values() && !arg.is_positional();
            if takes_values { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(with_negative_numbers)
}

const NEGATIVE: &str = "the number must not be negative";

/// clap's `-7 is not in 0..=4294967295` in words.
fn out_of_range(text: &str, is_negative: bool) -> Option<String> {
    let (_, range) = text.split_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    let most: Option<u64> = most.trim_start_matches('=').parse().ok();
    Some(match most.filter(|most| *most < u64::from(u32::MAX)) {
        _ if is_negative && least == "0" => NEGATIVE.to_owned(),
        Some(most) => format!("the number must be from {least} to {most}"),
        None if least == "0" => "the number is too large".to_owned(),
        None => format!("the number must be at least {least}"),
    })
}

/// What to say of a value that is no number, where a number is needed.
pub(crate) fn wrong_value(error: &clap::Error) -> Option<String> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let (flag, value) = (word(ContextKind::InvalidArg)?, word(ContextKind::InvalidValue)?);
    let source = error.source()?;
    let is_negative = value.starts_with('-');
    let why = if let Some(error) = source.downcast_ref::<ParseIntError>() {
        match error.kind() {
            IntErrorKind::PosOverflow => "the number is too large".to_owned(),
            _ if is_negative => NEGATIVE.to_owned(),
            _ => "a whole number is needed".to_owned(),
        }
    } else if source.is::<ParseFloatError>() {
        "a number is needed".to_owned()
    } else {
        out_of_range(&source.to_string(), is_negative)?
    };
    let name = flag.split([' ', '=']).next().unwrap_or(flag);
    let next = match name {
        "--pid" => format!("{name} $(pgrep -o NAME), or pgrep -l NAME to see them"),
        "--tid" => format!("{name} TID, with one of: ls /proc/PID/task"),
        _ => "--help, for what it takes".to_owned(),
    };
    Some(format!("{name} {value}: {why}. Try: {next}"))
}
