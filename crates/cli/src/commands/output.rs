//! Formats of results, where they go, and the flags that say so.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pmuscope_machine::{AtomicFile, Facts, FileKind, text_mark};
use pmuscope_profile::export::{ExportedEvent, Source, firefox, folded, pprof};
use pmuscope_profile::{Detail, GroupBy, TasksBy};
use pmuscope_report::{
    Flame, FlameLimits, PageLimits, Report, RowLimits, Separator, Style, Summary, flame_svg,
    functions_delimited, html_page,
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
    /// Tables for people (.txt)
    Text,
    /// One JSON object (.json)
    Json,
    /// A table as comma-separated values (.csv)
    Csv,
    /// A table as tab-separated values (.tsv)
    Tsv,
    /// A line per call stack, for programs that draw flame graphs (.folded)
    Folded,
    /// A flame graph that zooms and searches in a browser (.svg)
    Svg,
    /// One page with tables and charts, which needs no network (.html)
    Html,
    /// For go tool pprof and what reads its files (.pb.gz)
    Pprof,
    /// For profiler.firefox.com (.json.gz)
    Firefox,
    /// A JSON object for each row (.jsonl)
    JsonLines,
    /// Columns, for data frames (.parquet)
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

/// The formats that a command has.
pub(crate) trait Formats: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Those formats.
    const ALL: &[Format];
    /// Help of `--output`, which names them.
    const OUTPUT: &str;
    /// Help of `--json`, which names the schema.
    const JSON: &str;
}

/// Where a result is written, and as what.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OutputArgs<F: Formats> {
    #[arg(short, long, value_name = "FILE", help = F::OUTPUT)]
    output: Option<PathBuf>,
    /// Write in this format, whatever the file is called
    #[arg(long, value_name = "FORMAT", conflicts_with = "json", value_parser = parser::<F>())]
    format: Option<Format>,
    #[arg(long, help = F::JSON)]
    json: bool,
    #[arg(skip)]
    of: PhantomData<F>,
}

impl<F: Formats> OutputArgs<F> {
    /// The format that was asked for, else the one that the file's name ends in, else text.
    ///
    /// # Errors
    /// If nothing tells which one it is to be.
    pub(crate) fn form(&self) -> anyhow::Result<Form> {
        let asked = if self.json { Some(Format::Json) } else { self.format };
        let format = Format::choose(asked, self.output.as_deref(), F::ALL, "--format json")?;
        Ok(Form::new(format, self.output.as_deref()))
    }
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

    /// Of a command that prints text or JSON, as its flag says.
    pub(crate) fn printed(json: bool) -> Self {
        Self::new(if json { Format::Json } else { Format::Text }, None)
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
    /// What a report has.
    pub(crate) const ALL: &[Self] = &[
        Self::Text,
        Self::Json,
        Self::Csv,
        Self::Tsv,
        Self::Folded,
        Self::Svg,
        Self::Html,
        Self::Pprof,
        Self::Firefox,
    ];

    /// The one that was asked for, else the one that the file's name ends in; text where there is neither. `offered`
    /// are those that the command has, `example` says how to name one.
    ///
    /// # Errors
    /// If nothing tells which one it is to be.
    pub(crate) fn choose(
        asked: Option<Self>,
        file: Option<&Path>,
        offered: &[Self],
        example: &str,
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
            bad_input(format!("cannot tell the format of {file} by its name. Known are {known}; or name one: {example}"),
            )
        })
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
            .map_err(|error| self.cannot(error))
    }

    fn cannot(&self, error: io::Error) -> anyhow::Error {
        let error = anyhow::Error::new(error);
        match &self.path {
            Some(path) => error.context(format!("cannot write {}", path.display())),
            None => error.context("cannot write to standard output"),
        }
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
            out.write_all(html_page(source, summary, PageLimits::of(cut), COMMIT).as_bytes())
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
    flame_svg(&flame, &format!("{}: {}", summary.title, event.name), &facts.join(" · "))
}
