//! The command line as clap reads it, and what is said of values that it does not take.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, FromArgMatches as _};
use pmuscope_console::exit::{self, Exit};
use pmuscope_console::say;
use pmuscope_report::escape_lines;

use crate::{Cli, help, perf_words};

/// Reads a command line.
///
/// # Errors
/// clap's, of wrong words, and of help that was asked for.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = with_negative_numbers(help::command());
    let (words, mut matches) =
        read(&command, words).map_err(|error| with_near_tips(error, &command))?;
    old_spellings(&words, &matches).iter().for_each(|note| say!("note: {note}"));
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// clap's own messages: help and version are not errors.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    match perf_words::hint(error).or_else(|| wrong_value(error)) {
        Some(hint) => say!("error: {}", escape_lines(&hint)),
        None => {
            let printed = error.print();
            // Help that nobody gets is not done; what goes wrong with stderr, nobody would see.
            if let Err(failed) = printed.map_err(anyhow::Error::new)
                && !error.use_stderr()
            {
                return exit::report(&failed.context("cannot write to standard output"));
            }
        }
    }
    if error.use_stderr() { Exit::BadInput.into() } else { Exit::Done.into() }
}

/// The error with those of clap's tips that can be meant: words nearly as typed, or the same letter in the other case.
fn with_near_tips(mut error: clap::Error, command: &Command) -> clap::Error {
    for (wrong, tips) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
    ] {
        let Some(ContextValue::String(typed)) = error.get(wrong) else { continue };
        let typed = typed.clone();
        let listed = match error.remove(tips) {
            Some(ContextValue::String(one)) => vec![one],
            Some(ContextValue::Strings(several)) => several,
            _ => Vec::new(),
        };
        let mut near: Vec<String> = listed.into_iter().filter(|tip| is_near(&typed, tip)).collect();
        // What was mistyped is no value of an argument, which is all that this one says.
        error.remove(ContextKind::Suggested);
        if wrong == ContextKind::InvalidArg {
            near.extend(other_case(&typed, asked_of(command, &error)));
        }
        match near.len() {
            0 => None,
            1 => error.insert(tips, ContextValue::String(near.remove(0))),
            _ => error.insert(tips, ContextValue::Strings(near)),
        };
    }
    error
}

/// Whether `tip` can be what was meant with `typed`: one letter in three may be wrong, or one word the start of the
/// other.
fn is_near(typed: &str, tip: &str) -> bool {
    let [typed, tip] = [typed, tip].map(|word| word.trim_start_matches('-'));
    let letters = typed.chars().count().max(tip.chars().count());
    let is_start =
        typed.len().min(tip.len()) >= 3 && (typed.starts_with(tip) || tip.starts_with(typed));
    is_start || strsim::damerau_levenshtein(typed, tip) * 3 <= letters
}

/// `-F` for `-f`, where that is a flag of the command.
fn other_case(typed: &str, command: &Command) -> Option<String> {
    let letter = typed.strip_prefix('-')?.chars().next()?;
    let other = if letter.is_lowercase() {
        letter.to_ascii_uppercase()
    } else {
        letter.to_ascii_lowercase()
    };
    let is_flag = |arg: &clap::Arg| arg.get_short() == Some(other);
    command.get_arguments().any(is_flag).then(|| format!("-{other}"))
}

/// The command that the usage line of an error names.
fn asked_of<'a>(command: &'a Command, error: &clap::Error) -> &'a Command {
    let words = perf_words::command_of(error);
    let below = |command: &'a Command, word: &str| command.find_subcommand(word);
    words.split(' ').try_fold(command, below).unwrap_or(command)
}

/// What clap finds, with perf's words for the same in ours: `annotate F` is `report --annotate F`, and flags that ask
/// for what is done anyway are left out.
fn find(command: &Command, words: &mut Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    if let [_, annotate, function, ..] = &words[..]
        && annotate == "annotate"
        && !function.to_string_lossy().starts_with('-')
    {
        words.splice(1..2, ["report", "--annotate"].map(OsString::from));
    }
    loop {
        let found = command.clone().try_get_matches_from(&*words);
        let flag = found.as_ref().err().and_then(perf_words::default_flag);
        match flag.and_then(|flag| words.iter().position(|word| word == flag)) {
            Some(at) => drop(words.remove(at)),
            None => return found,
        }
    }
}

/// What clap finds. `--html FILE`, as it was spelled before, still names the file: a page always needs one.
fn read(
    command: &Command,
    mut words: Vec<OsString>,
) -> Result<(Vec<OsString>, ArgMatches), clap::Error> {
    let found = find(command, &mut words);
    let Some(joined) = with_joined_page(&words) else { return found.map(|found| (words, found)) };
    let needs_it = match &found {
        Ok(matches) => has_page_without_file(matches),
        Err(_) => true,
    };
    match needs_it.then(|| command.clone().try_get_matches_from(&joined)) {
        Some(Ok(matches)) => {
            say!("note: --html FILE is now --html=FILE");
            Ok((joined, matches))
        }
        // Help that was asked for.
        Some(Err(shown)) if !shown.use_stderr() => Err(shown),
        _ => found.map(|found| (words, found)),
    }
}

/// `--html x.html` as `--html=x.html`, the first of them before the program that is run.
fn with_joined_page(words: &[OsString]) -> Option<Vec<OsString>> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let is_page = |word: &OsString| {
        word.to_str().is_some_and(|word| word.ends_with(".html") || word.ends_with(".htm"))
    };
    let at = words[..end].windows(2).position(|pair| pair[0] == "--html" && is_page(&pair[1]))?;
    let mut joined = words.to_vec();
    let file = joined.remove(at + 1);
    joined[at].push("=");
    joined[at].push(file);
    Some(joined)
}

fn has_page_without_file(matches: &ArgMatches) -> bool {
    let (_, matches) = innermost(matches);
    let is_given = matches.try_contains_id("html").unwrap_or(false);
    is_given && matches.try_get_one::<std::path::PathBuf>("html").is_ok_and(|file| file.is_none())
}

/// The command that is asked for, `bench numa`, and its flags.
fn innermost(matches: &ArgMatches) -> (String, &ArgMatches) {
    let (mut path, mut matches) = (String::new(), matches);
    while let Some((name, below)) = matches.subcommand() {
        if !path.is_empty() {
            path.push(' ');
        }
        path.push_str(name);
        matches = below;
    }
    (path, matches)
}

/// Spellings of earlier versions, which go on working: command, then old and new.
pub(crate) const OLD: [(&str, &str, &str); 5] = [
    ("bench numa", "--limit", "--time-limit"),
    ("bench slots", "--ms", "--run-time"),
    ("compare", "--tsv", "--format tsv"),
    ("metrics", "--colour-by", "--color-by"),
    ("watch", "--report", "-o"),
];

/// What to say of old spellings on this command line.
fn old_spellings(words: &[OsString], matches: &ArgMatches) -> Vec<String> {
    let (path, matches) = innermost(matches);
    // Words of a program that is run are its own.
    let command = matches.try_get_raw("command").ok().flatten().map_or(0, Iterator::count);
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len() - command);
    let is_given = |old: &str| {
        words[..end.min(words.len())].iter().filter_map(|word| word.to_str()).any(|word| {
            word.strip_prefix(old).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    let of_this = OLD.iter().filter(|(command, ..)| *command == path);
    of_this
        .filter(|(_, old, _)| is_given(old))
        .map(|(_, old, new)| format!("{old} is now {new}"))
        .collect()
}

/// `-F -5` is a wrong value of `-F`, not an unknown flag `-5`.
fn with_negative_numbers(command: Command) -> Command {
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
        let text = source.to_string();
        out_of_range(&text, is_negative).unwrap_or(text)
    };
    let name = flag.split([' ', '=']).next().unwrap_or(flag);
    let next = match name {
        "--pid" => format!("{name} $(pgrep -o NAME), or pgrep -l NAME to see them"),
        "--tid" => format!("{name} TID, with one of: ls /proc/PID/task"),
        _ => "--help, for what it takes".to_owned(),
    };
    // What a flag takes is in longer answers already.
    if why.contains("Try: ") || why.starts_with("use ") || why.len() > 60 {
        return Some(format!("{name} {value}: {why}"));
    }
    Some(format!("{name} {value}: {why}. Try: {next}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::Cli;

    #[test]
    fn tips_are_what_can_be_meant() {
        let tips = |words: &[&str]| {
            let all = std::iter::once("pmuscope").chain(words.iter().copied());
            let command = crate::help::command();
            let error = command.clone().try_get_matches_from(all).unwrap_err();
            let text = super::with_near_tips(error.with_cmd(&command), &command).to_string();
            let tips = text.lines().filter(|line| line.contains("tip:"));
            tips.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        let similar = |word: &str| vec![format!("tip: a similar argument exists: '{word}'")];
        assert_eq!(tips(&["record", "-f", "99", "--", "true"]), similar("-F"));
        assert_eq!(tips(&["record", "--freqency", "99", "true"]), similar("--freq"));
        assert_eq!(tips(&["sharing", "--wacth", "x"]), similar("--watch"));
        assert_eq!(tips(&["report", "--no-childern"]), [""; 0]);
        assert_eq!(tips(&["serve"]), [""; 0]);
        assert_eq!(tips(&["browes"]), ["tip: a similar subcommand exists: 'browse'"]);
    }

    /// A value that may be left out must not be the next word: that may be the command to run.
    #[test]
    fn every_optional_value_needs_an_equals_sign() {
        fn wrong(command: &clap::Command, found: &mut Vec<String>) {
            let is_optional = |arg: &&clap::Arg| {
                let values = arg.get_num_args().unwrap_or_default();
                !arg.is_positional() && values.takes_values() && values.min_values() == 0
            };
            let wrongs = command.get_arguments().filter(is_optional);
            let wrongs = wrongs.filter(|arg| !arg.is_require_equals_set());
            found.extend(wrongs.map(|arg| format!("{} {arg}", command.get_name())));
            command.get_subcommands().for_each(|below| wrong(below, found));
        }
        let (mut command, mut found) = (Cli::command(), Vec::new());
        command.build();
        wrong(&command, &mut found);
        assert_eq!(found, [""; 0]);
    }
}
