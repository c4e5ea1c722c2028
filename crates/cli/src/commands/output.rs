//! Formats of results, where they go, and the flags that say so.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Command, FromArgMatches, ValueEnum};
use pmuscope_machine::{AtomicFile, Facts, FileKind, text_mark};
use pmuscope_profile::export::{ExportedEvent, Source, firefox, folded, pprof};
use pmuscope_profile::{Annotation, Detail, GroupBy, TasksBy};
use pmuscope_report::{
    Flame, FlameLimits, PageLimits, Report, RowLimits, Separator, Style, Summary, escape_lines,
    flame_svg, functions_delimited, html_page, number,
};
use serde::Serialize;

use crate::commands::answer::Invocation;
use crate::commands::doctor;
use crate::commands::report::Limit;
use crate::exit::{Exit, bad_input};
use crate::replace;
use crate::terminal;
use crate::version::COMMIT;

/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;
/// Reports are made to be shown: for all whom the umask lets.
const MODE: u32 = 0o666;
/// Rows of a table of functions that get an interval: each takes some 50 µs.
const INTERVALS: usize = 10_000;

/// A form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables (.txt)
    Text,
    /// One JSON object (.json)
    Json,
    /// Comma-separated values (.csv)
    Csv,
    /// Tab-separated values (.tsv)
    Tsv,
    /// One line per call stack, for flame graph tools (.folded)
    Folded,
    /// Interactive flame graph (.svg)
    Svg,
    /// Self-contained page with tables and charts (.html)
    Html,
    /// For go tool pprof and compatible tools (.pb.gz)
    Pprof,
    /// For profiler.firefox.com (.json.gz)
    Firefox,
    /// One JSON object per row (.jsonl)
    JsonLines,
    /// Columns for data frames (.parquet)
    Parquet,
}

/// Ends of file names.
const ENDINGS: [(&str, Format); 13] = [
    (".txt", Format::Text),
    (".json", Format::Json),
    (".jsonl", Format::JsonLines),
    (".csv", Format::Csv),
    (".tsv", Format::Tsv),
    (".folded", Format::Folded),
    (".svg", Format::Svg),
    (".html", Format::Html),
    (".htm", Format::Html),
    (".pb.gz", Format::Pprof),
    (".pprof", Format::Pprof),
    (".json.gz", Format::Firefox),
    (".parquet", Format::Parquet),
];

/// The forms that a command's result has.
pub(crate) trait Formats: Clone + std::fmt::Debug + Send + Sync + 'static {
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
macro_rules! forms {
    ($name:ident: $($form:ident)+, $schema:literal) => {
        #[derive(Debug, Clone)]
        pub(crate) struct $name;

        impl crate::commands::output::Formats for $name {
            const ALL: &[crate::commands::output::Format] =
                &[$(crate::commands::output::Format::$form),+];
            const SCHEMA: &str = $schema;
        }
    };
}
pub(crate) use forms;

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
pub(crate) struct OutputArgs<F: Formats> {
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
pub(super) fn of_form(name: &'static str, help: String) -> Arg {
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
    pub(crate) fn is_asked(&self) -> bool {
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
    pub(crate) fn asks_for(&self, format: Format) -> bool {
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
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// The file of the flag of a form.
    pub(crate) fn file_of(&self, format: Format) -> Option<PathBuf> {
        let (_, _, file) = self.of_forms().find(|(_, asked, _)| *asked == format)?;
        file.map(Path::to_owned)
    }

    /// The one form that was asked for, else the one that the file's name ends in, else text.
    ///
    /// # Errors
    /// If there are two, or nothing names one.
    pub(crate) fn form(&self) -> anyhow::Result<Form> {
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
    pub(crate) fn results(&self) -> anyhow::Result<Results> {
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

/// Files of a command that writes several results at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Results {
    /// JSON is printed instead of text.
    pub(crate) printed: bool,
    /// Where JSON is kept.
    pub(crate) json: Option<PathBuf>,
    /// Tables for spreadsheets and scripts, with their file where they are not printed.
    pub(crate) tables: Vec<(Separator, Option<PathBuf>)>,
    /// The page.
    pub(crate) html: Option<PathBuf>,
    /// The picture.
    pub(crate) svg: Option<PathBuf>,
    /// Where what would be printed goes.
    pub(crate) text: Option<PathBuf>,
    /// What `-o` names that is not a result.
    pub(crate) other: Option<PathBuf>,
}

impl Results {
    /// # Errors
    /// If the form has a file already.
    fn add(&mut self, format: Format, file: &Path) -> anyhow::Result<()> {
        let before = match format {
            Format::Json => self.json.replace(file.to_owned()),
            Format::Html => self.html.replace(file.to_owned()),
            Format::Svg => self.svg.replace(file.to_owned()),
            Format::Csv => self.add_table(Separator::Comma, file),
            Format::Tsv => self.add_table(Separator::Tab, file),
            _ => self.text.replace(file.to_owned()),
        };
        let Some(before) = before else { return Ok(()) };
        let (one, two) = (before.display(), file.display());
        Err(bad_input(format!("{one} and {two} are two files of one form. Try: one of them")))
    }
}

impl Results {
    /// The file that such a table had before.
    fn add_table(&mut self, separator: Separator, file: &Path) -> Option<PathBuf> {
        let known = self.tables.iter().position(|(one, _)| *one == separator);
        let before = known.map(|at| self.tables.swap_remove(at)).and_then(|(_, file)| file);
        self.tables.push((separator, Some(file.to_owned())));
        before
    }

    /// What separates the fields of the table that is printed instead of text.
    pub(crate) fn printed_table(&self) -> Option<Separator> {
        let printed = self.tables.iter().find(|(_, file)| file.is_none());
        printed.map(|(separator, _)| *separator)
    }
}

pub(super) fn needs_a_file() -> anyhow::Error {
    bad_input("--html needs its file, since a page is not for a terminal. Try: --html=x.html")
}

/// One of the formats of a command.
fn parser<F: Formats>() -> impl TypedValueParser<Value = Format> {
    let names = F::ALL.iter().filter_map(Format::to_possible_value);
    PossibleValuesParser::new(names).try_map(|name| Format::from_str(&name, false))
}

/// How a result is written, and where.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) begun: Invocation,
    pub(crate) format: Format,
    pub(crate) output: Output,
    pub(crate) style: Style,
}

impl Form {
    /// In this format, to the file or to standard output.
    pub(crate) fn new(format: Format, file: Option<&Path>) -> Self {
        let output = Output::to(file);
        let style = if output.is_file() { Style::PLAIN } else { terminal::style() };
        Self { begun: Invocation::now(), format, output, style }
    }

    /// Asks, before anything is measured, whether the file can be written.
    ///
    /// # Errors
    /// As [`Output::check`].
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.output.check(self.format.kind())
    }

    /// Rows to show, where text has fewer than other formats unless the user says how many.
    pub(crate) fn rows(&self, limit: Option<Limit>, of_text: usize) -> Option<usize> {
        Limit::rows(limit, (self.format == Format::Text).then_some(of_text))
    }

    /// Writes a result, of a command that ends with this status.
    ///
    /// # Errors
    /// It has no such form, or cannot be written.
    pub(crate) fn show(&self, report: &impl Report, exit: &Exit) -> anyhow::Result<()> {
        self.print(&self.rendered(report, exit)?)
    }

    /// Writes a result that has text and JSON, of this schema; `machine` where it is about this one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn either(
        &self,
        (schema, machine): (&'static str, Option<&Facts>),
        exit: &Exit,
        result: impl Serialize,
        text: impl FnOnce(&Style) -> String,
    ) -> anyhow::Result<()> {
        let text = match self.format {
            Format::Json => self.begun.json(schema, machine, exit, result)?,
            _ => text(&self.style),
        };
        self.print(&text)
    }

    /// Writes what was rendered.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        self.output.print(self.format.kind(), text)
    }

    fn rendered<R: Report>(&self, report: &R, exit: &Exit) -> anyhow::Result<String> {
        let rendered = match self.format {
            Format::Text => Some(report.text(&self.style)),
            Format::Json => {
                let machine = R::IS_OF_THIS_MACHINE.then(doctor::facts).transpose()?;
                Some(self.begun.json(report.schema(), machine.as_ref(), exit, report.json())?)
            }
            Format::Csv => report.delimited(Separator::Comma),
            Format::Tsv => report.delimited(Separator::Tab),
            Format::Html => report.page(COMMIT),
            _ => None,
        };
        rendered.ok_or_else(|| {
            let format = self.format.to_possible_value();
            let name = format.as_ref().map_or("", |format| format.get_name());
            bad_input(format!("this result has no {name}. Try: --format json"))
        })
    }
}

impl Format {
    /// The one that was asked for, else the one that the file's name ends in; text where there is neither. `offered`
    /// are those that the command has.
    ///
    /// # Errors
    /// If nothing names one.
    pub(crate) fn choose(
        asked: Option<Self>,
        file: Option<&Path>,
        offered: &[Self],
    ) -> anyhow::Result<Self> {
        if let Some(format) = asked {
            return Ok(format);
        }
        let Some(file) = file.filter(|file| !is_stdout(file)) else { return Ok(Self::Text) };
        let name = file.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let endings = || ENDINGS.iter().filter(|(_, format)| offered.contains(format));
        let known = endings().find(|(ending, _)| name.ends_with(ending));
        known.map(|(_, format)| *format).ok_or_else(|| {
            let endings: Vec<&str> = endings().map(|(ending, _)| *ending).collect();
            let (file, known) = (file.display(), endings.join(", "));
            bad_input(format!(
                "the ending of {file} names no form. Try: one of {known}, or --format FORM"
            ))
        })
    }

    /// Whether a name ends in one of the forms `offered`.
    pub(crate) fn is_named_by(file: &Path, offered: &[Self]) -> bool {
        !is_stdout(file) && Self::choose(None, Some(file), offered).is_ok()
    }

    /// Whether it is made of counts, by [`write()`]; else of the profile's rows.
    pub(crate) fn is_of_counts(self) -> bool {
        !matches!(self, Self::Text | Self::Json)
    }

    /// What separates the fields, where it is a table for spreadsheets and scripts.
    pub(crate) fn separator(self) -> Option<Separator> {
        match self {
            Self::Csv => Some(Separator::Comma),
            Self::Tsv => Some(Separator::Tab),
            _ => None,
        }
    }

    /// Whether a table has it.
    pub(crate) fn is_of_a_table(self) -> bool {
        matches!(self, Self::Text | Self::Json | Self::Csv | Self::Tsv | Self::Html)
    }

    /// What its counts tell apart.
    pub(crate) fn apart(self) -> GroupBy {
        let by_thread = matches!(self, Self::Pprof | Self::Firefox);
        GroupBy {
            chains: self != Self::Text,
            tasks: if by_thread { TasksBy::Thread } else { TasksBy::Command },
            cpus: matches!(self, Self::Html | Self::Pprof),
        }
    }

    /// How far it tells places within a function apart.
    pub(crate) fn detail(self) -> Detail {
        match self {
            Self::Pprof | Self::Firefox => Detail::Address,
            _ => Detail::Function,
        }
    }

    /// Whether it is rows only, with no place to say what was left out.
    pub(crate) fn has_no_head(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::Folded)
    }

    /// What a file of it is known by.
    pub(crate) fn kind(self) -> FileKind {
        match self {
            Self::Text => FileKind::Text,
            Self::Json | Self::JsonLines => FileKind::Json,
            Self::Csv | Self::Tsv => FileKind::Table,
            Self::Folded => FileKind::Stacks,
            Self::Svg => FileKind::Picture,
            Self::Html => FileKind::Page,
            Self::Pprof | Self::Firefox => FileKind::Compressed,
            Self::Parquet => FileKind::Parquet,
        }
    }
}

/// Where a report goes: standard output, or a file that appears only once it is whole.
#[derive(Debug)]
pub(crate) struct Output {
    path: Option<PathBuf>,
}

impl Output {
    pub(crate) fn to(path: Option<&Path>) -> Self {
        Self { path: path.filter(|path| !is_stdout(path)).map(Path::to_owned) }
    }

    pub(crate) fn is_file(&self) -> bool {
        self.path.is_some()
    }

    /// Asks, before anything is measured, whether a file of this kind can be written.
    ///
    /// # Errors
    /// If the folder cannot be written to, or a file of another kind is there.
    pub(crate) fn check(&self, kind: FileKind) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let tried = AtomicFile::create(path, MODE, replace::replace(kind)).map(drop);
        tried.map_err(|error| bad_input(format!("cannot write {}: {error}", path.display())))
    }

    /// Writes a text of this kind.
    ///
    /// # Errors
    /// If the file cannot be made or written; what there was under its name stays.
    pub(crate) fn print(&self, kind: FileKind, text: &str) -> anyhow::Result<()> {
        self.write(kind, |out| out.write_all(text.as_bytes()))
    }

    /// Writes what `write` gives.
    ///
    /// # Errors
    /// If the file cannot be made or written; what there was under its name stays.
    pub(crate) fn write(
        &self,
        kind: FileKind,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        self.produce(kind, |out| write(out).map_err(|error| self.cannot(error)))
    }

    /// As [`Output::write`], for what can fail in other ways too.
    ///
    /// # Errors
    /// Those of `produce`, and if the file cannot be made or written.
    pub(crate) fn produce(
        &self,
        kind: FileKind,
        produce: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.path else {
            let stdout = io::stdout();
            let is_binary = matches!(kind, FileKind::Compressed | FileKind::Parquet);
            if is_binary && rustix::termios::isatty(&stdout) {
                return Err(bad_input("this format is not for terminals. Try: -o FILE, or a pipe"));
            }
            let mut out = BufWriter::with_capacity(BUFFER, stdout);
            produce(&mut out)?;
            return out.flush().map_err(|error| self.cannot(error));
        };
        let file = AtomicFile::create(path, MODE, replace::replace(kind))
            .map_err(|error| self.cannot(error))?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        if kind == FileKind::Text {
            out.write_all(text_mark().as_bytes()).map_err(|error| self.cannot(error))?;
        }
        produce(&mut out)?;
        out.into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(AtomicFile::finish)
            .map_err(|error| self.cannot(error))?;
        wrote(path);
        Ok(())
    }

    fn cannot(&self, error: io::Error) -> anyhow::Error {
        let error = anyhow::Error::new(error);
        match &self.path {
            Some(path) => error.context(format!("cannot write {}", path.display())),
            None => error.context("cannot write to standard output"),
        }
    }
}

/// Says that a file was written, and how large it is.
pub(crate) fn wrote(path: &Path) {
    wrote_with(path, "");
}

/// The same, with more about it.
pub(crate) fn wrote_with(path: &Path, more: &str) {
    // A pipe or a device has no size.
    if let Ok(found) = std::fs::metadata(path)
        && found.is_file()
    {
        let name = path.to_string_lossy();
        say!("wrote {} ({}){more}", escape_lines(&name), number::bytes(found.len()));
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a format that is made of counts.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(
    format: Format,
    source: &Source<'_>,
    summary: &Summary,
    cut: RowLimits,
    code: &[Annotation<'_>],
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Csv => table(source, cut, Separator::Comma, out),
        Format::Tsv => table(source, cut, Separator::Tab, out),
        Format::Folded => match source.events.first() {
            Some(event) => folded::write(source, event, folded::Options::default(), out),
            None => Ok(()),
        },
        Format::Svg => {
            // A picture of nothing, where there is no event.
            let event = source.events.first().cloned().unwrap_or_default();
            out.write_all(picture(source, &event, summary, cut).as_bytes())
        }
        Format::Html => {
            out.write_all(html_page(source, summary, PageLimits::of(cut), code, COMMIT).as_bytes())
        }
        Format::Pprof => pprof::write(source, out),
        Format::Firefox => firefox::write(source, out),
        // Written where they are made.
        Format::Text | Format::Json | Format::JsonLines | Format::Parquet => Ok(()),
    }
}

fn table(
    source: &Source<'_>,
    cut: RowLimits,
    separator: Separator,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(functions_delimited(source, cut, INTERVALS, separator).as_bytes())
}

fn picture(
    source: &Source<'_>,
    event: &ExportedEvent,
    summary: &Summary,
    cut: RowLimits,
) -> String {
    let flame = Flame::new(source, event, FlameLimits::default().above(cut.share));
    let facts: Vec<String> = summary
        .facts
        .iter()
        .filter(|fact| fact.value != "-")
        .map(|fact| format!("{} {}", fact.name.to_lowercase(), fact.value))
        .collect();
    // The title names all events, the picture is of the first.
    let title = match source.events.len() {
        0 | 1 => summary.title.clone(),
        _ => format!("{} of {}", event.name, summary.title),
    };
    flame_svg(&flame, &title, &facts.join(" · "))
}
