//! The flags that say in which form a result is written, and where.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Command, FromArgMatches, ValueEnum};
use pmuscope_report::Separator;

use super::file::is_stdout;
use super::form::Form;
use super::format::{ENDINGS, Format};
use super::results::Results;
use crate::exit::bad_input;

/// The forms that a command's result has.
pub trait Formats: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Those forms.
    const ALL: &[Format];
    /// The schema of its JSON.
    const SCHEMA: &str;
    /// What `-o` may name besides a result, for commands where it may: the flag's help says it.
    const OTHER: Option<&str> = None;
    /// What `--json` writes, where it is not one object.
    const JSON: Format = Format::Json;
}

/// Declares the forms of a command.
#[macro_export]
macro_rules! forms {
    ($name:ident: $($form:ident)+, $schema:literal) => {
        #[derive(Debug, Clone)]
        pub struct $name;

        impl $crate::output::Formats for $name {
            const ALL: &[$crate::output::Format] =
                &[$($crate::output::Format::$form),+];
            const SCHEMA: &str = $schema;
        }
    };
}

/// Where a result is written, and as what: the same flags for every command that has a result.
///
/// ```text
///  -o FILE             in the form that its ending names
///  --format FORM       in this form, whatever the file is called
///  --json[=FILE]       in this form, to FILE or to standard output; --csv the same
///  --html=FILE         a page, which is not for a terminal
/// ```
///
/// A command has the flags of the forms that it has. A value after a space belongs to the command line of the program
/// that is run: `stat --json sleep 1` runs sleep.
#[derive(Debug, Clone)]
pub struct OutputArgs<F: Formats> {
    output: Option<PathBuf>,
    format: Option<Format>,
    json: Option<Option<PathBuf>>,
    csv: Option<Option<PathBuf>>,
    html: Option<Option<PathBuf>>,
    of: PhantomData<F>,
}

/// Where help has them.
const HEADING: &str = "Output";

/// `--json[=FILE]`, `--csv[=FILE]`, `--html[=FILE]`.
const OPTIONAL: [(&str, Format); 3] =
    [("json", Format::Json), ("csv", Format::Csv), ("html", Format::Html)];

/// A flag for one form: its file may be left out, and is never the next word.
pub fn of_form(name: &'static str, help: String) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .num_args(0..=1)
        .require_equals(true)
        .value_parser(clap::value_parser!(PathBuf))
        .help_heading(HEADING)
        .help(help)
}

impl<F: Formats> clap::Args for OutputArgs<F> {
    fn augment_args(command: Command) -> Command {
        let endings: Vec<&str> = ENDINGS
            .iter()
            .filter(|(ending, format)| {
                F::ALL.contains(format) && ![".htm", ".pprof"].contains(ending)
            })
            .map(|(ending, _)| *ending)
            .collect();
        let endings = endings.join(" ");
        let short = match F::OTHER {
            None => format!("Write the result to FILE: {endings}"),
            Some(other) => format!("Write the result to FILE: {endings}; {other}"),
        };
        let long = format!("{short}. The ending sets the form; --format overrides it.");
        let output = Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help_heading(HEADING)
            .help(short)
            .long_help(long);
        let format = Arg::new("format")
            .long("format")
            .value_name("FORM")
            .value_parser(parser::<F>())
            .help_heading(HEADING)
            .help("Use this form, whatever FILE is called");
        let mut command = command.arg(output).arg(format);
        for (name, format) in OPTIONAL {
            let format = if name == "json" { F::JSON } else { format };
            if !F::ALL.contains(&format) {
                continue;
            }
            let help = match name {
                "json" => format!("Print JSON, or write it to FILE ({})", F::SCHEMA),
                "csv" => "Print CSV, or write it to FILE".to_owned(),
                _ => "Write a self-contained HTML page to FILE".to_owned(),
            };
            command = command.arg(of_form(name, help));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<F: Formats> FromArgMatches for OutputArgs<F> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of = |name: &str| {
            let is_given = matches.try_contains_id(name).unwrap_or(false);
            is_given.then(|| matches.get_one::<PathBuf>(name).cloned())
        };
        Ok(Self {
            output: matches.get_one::<PathBuf>("output").cloned(),
            format: matches.get_one::<Format>("format").copied(),
            json: of("json"),
            csv: of("csv"),
            html: of("html"),
            of: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<F: Formats> OutputArgs<F> {
    /// Whether any of them was given.
    pub fn is_asked(&self) -> bool {
        self.output.is_some() || self.format.is_some() || self.of_forms().next().is_some()
    }

    /// Flags of one form that were given, with their files.
    fn of_forms(&self) -> impl Iterator<Item = (&'static str, Format, Option<&Path>)> {
        let all = [
            ("json", F::JSON, &self.json),
            ("csv", Format::Csv, &self.csv),
            ("html", Format::Html, &self.html),
        ];
        all.into_iter().filter_map(|(name, format, given)| {
            given.as_ref().map(|file| (name, format, file.as_deref()))
        })
    }

    /// Whether this form was asked for: by its flag, by `--format`, or by the ending of `-o` where neither was given.
    pub fn asks_for(&self, format: Format) -> bool {
        let is_without = |(_, _, file): (_, _, Option<&Path>)| file.is_none();
        let named_by_ending = self.format.is_none()
            && !self.of_forms().any(is_without)
            && self.output.as_deref().is_some_and(|file| {
                !is_stdout(file)
                    && Format::choose(None, Some(file), F::ALL).is_ok_and(|named| named == format)
            });
        self.format == Some(format)
            || named_by_ending
            || self.of_forms().any(|(_, asked, _)| asked == format)
    }

    /// The file of `-o`.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// The file of the flag of a form.
    pub fn file_of(&self, format: Format) -> Option<PathBuf> {
        let (_, _, file) = self.of_forms().find(|(_, asked, _)| *asked == format)?;
        file.map(Path::to_owned)
    }

    /// The one form that was asked for, else the one that the file's name ends in, else text.
    ///
    /// # Errors
    /// If there are two, or nothing names one.
    pub fn form(&self) -> anyhow::Result<Form> {
        let mut asked = self.of_forms();
        let Some((name, format, file)) = asked.next() else {
            let file = self.output.as_deref();
            let format = Format::choose(self.format, file, F::ALL)?;
            return Ok(Form::new(format, file));
        };
        let other = asked.next().map(|(other, ..)| other).or(self.format.map(|_| "format"));
        if let Some(other) = other {
            return Err(two_forms(name, other));
        }
        if let (Some(one), Some(two)) = (file, &self.output) {
            let (one, two) = (one.display(), two.display());
            let text = format!("--{name}={one} and -o {two} are two files. Try: one of them");
            return Err(bad_input(text));
        }
        let file = file.or(self.output.as_deref());
        if format == Format::Html && file.is_none() {
            return Err(needs_a_file());
        }
        Ok(Form::new(format, file))
    }

    /// All forms that were asked for, each with its file: for commands that write several at once.
    ///
    /// # Errors
    /// If nothing names the form of a file.
    pub fn results(&self) -> anyhow::Result<Results> {
        let mut results = Results::default();
        // Forms without a file of their own: one at most, for `-o`, else for standard output.
        let mut without: Vec<(&str, Format)> = Vec::new();
        for (name, format, file) in self.of_forms() {
            match file {
                Some(file) => results.add(format, file)?,
                None => without.push((name, format)),
            }
        }
        without.extend(self.format.map(|format| ("format", format)));
        if let [(one, _), (other, _), ..] = without[..] {
            return Err(two_forms(one, other));
        }
        let file = self.output.as_deref();
        match (without.first(), file.filter(|file| !is_stdout(file))) {
            (Some((_, Format::Html)), None) => return Err(needs_a_file()),
            (Some((_, Format::Svg)), None) => {
                return Err(bad_input("--format svg needs its file. Try: -o x.svg"));
            }
            (Some((_, Format::Csv)), None) => results.tables.push((Separator::Comma, None)),
            (Some((_, Format::Tsv)), None) => results.tables.push((Separator::Tab, None)),
            (
                Some((_, format @ (Format::Csv | Format::Tsv | Format::Html | Format::Svg))),
                Some(file),
            ) => results.add(*format, file)?,
            // What is printed goes to the file, once, at the end: JSON too.
            (Some((_, format)), _) => {
                results.printed = *format == Format::Json;
                results.text = file.map(Path::to_owned);
            }
            (None, None) => results.text = file.map(Path::to_owned),
            (None, Some(file)) => match Format::choose(None, Some(file), F::ALL) {
                Ok(format) => results.add(format, file)?,
                Err(_) if F::OTHER.is_some() => results.other = Some(file.to_owned()),
                Err(error) => return Err(error),
            },
        }
        Ok(results)
    }
}

fn two_forms(one: &str, other: &str) -> anyhow::Error {
    bad_input(format!("--{one} and --{other} name two forms of one result. Try: one of them"))
}

/// What is wrong with `--html` alone.
pub fn needs_a_file() -> anyhow::Error {
    bad_input("--html needs its file, since a page is not for a terminal. Try: --html=x.html")
}

/// One of the formats of a command.
fn parser<F: Formats>() -> impl TypedValueParser<Value = Format> {
    let names = F::ALL.iter().filter_map(Format::to_possible_value);
    PossibleValuesParser::new(names).try_map(|name| Format::from_str(&name, false))
}
