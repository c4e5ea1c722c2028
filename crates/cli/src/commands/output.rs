//! What `report` writes for other programs, and into which file.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pmuscope_machine::{AtomicFile, FileKind, text_mark};
use pmuscope_profile::export::{Event, Source, firefox, folded, pprof};
use pmuscope_profile::{Detail, GroupBy, TasksBy};
use pmuscope_report::{
    Flame, FlameLimits, PageLimits, RowLimits, Separator, Summary, flame_svg, functions_delimited,
    html_page,
};

use crate::exit::{Exit, failure};
use crate::replace;
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
    /// One page: tables, flame graph, CPUs over time; needs no network (.html)
    Html,
    /// For go tool pprof and what reads its files (.pb.gz)
    Pprof,
    /// For profiler.firefox.com (.json.gz)
    Firefox,
}

/// Ends of file names.
const ENDINGS: [(&str, Format); 11] = [
    (".txt", Format::Text),
    (".json", Format::Json),
    (".csv", Format::Csv),
    (".tsv", Format::Tsv),
    (".folded", Format::Folded),
    (".svg", Format::Svg),
    (".html", Format::Html),
    (".htm", Format::Html),
    (".pb.gz", Format::Pprof),
    (".pprof", Format::Pprof),
    (".json.gz", Format::Firefox),
];

/// The format that was asked for, else the one that the file's name ends in; `text` where there is
/// neither. `example` is one to name in an error.
///
/// # Errors
/// If nothing tells which one it is to be.
pub(super) fn choose<F: Copy>(
    asked: Option<F>,
    file: Option<&Path>,
    endings: &[(&str, F)],
    text: F,
    example: &str,
) -> anyhow::Result<F> {
    if let Some(format) = asked {
        return Ok(format);
    }
    let Some(file) = file.filter(|file| !is_stdout(file)) else { return Ok(text) };
    let name = file.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let known = endings.iter().find(|(ending, _)| name.ends_with(ending));
    known.map(|(_, format)| *format).ok_or_else(|| {
        let endings: Vec<&str> = endings.iter().map(|(ending, _)| *ending).collect();
        failure(
            Exit::BadInput,
            format!(
                "cannot tell the format of {} by its name. Known are {}; or name one: {example}",
                file.display(),
                endings.join(", ")
            ),
        )
    })
}

impl Format {
    /// The one that was asked for, else the one that the file's name ends in; text where there is
    /// neither.
    ///
    /// # Errors
    /// If nothing tells which one it is to be.
    pub(crate) fn choose(asked: Option<Self>, file: Option<&Path>) -> anyhow::Result<Self> {
        choose(asked, file, &ENDINGS, Self::Text, "--format html")
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
            Self::Json => FileKind::Json,
            Self::Csv | Self::Tsv => FileKind::Table,
            Self::Folded => FileKind::Stacks,
            Self::Svg => FileKind::Picture,
            Self::Html => FileKind::Page,
            Self::Pprof | Self::Firefox => FileKind::Compressed,
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
        tried.map_err(|error| {
            failure(Exit::BadInput, format!("cannot write {}: {error}", path.display()))
        })
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
                return Err(failure(
                    Exit::BadInput,
                    "this format is not for terminals. Try: -o FILE, or a pipe",
                ));
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
            out.write_all(html_page(source, summary, page_limits(cut), COMMIT).as_bytes())
        }
        Format::Pprof => pprof::write(source, out),
        Format::Firefox => firefox::write(source, out),
        Format::Text | Format::Json => Ok(()), // written where they are made
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

/// How much of a profile a page shows.
pub(super) fn page_limits(cut: RowLimits) -> PageLimits {
    let defaults = PageLimits::default();
    PageLimits { rows: cut.rows.unwrap_or(defaults.rows), flame: boxes(cut, defaults.flame) }
}

fn boxes(cut: RowLimits, defaults: FlameLimits) -> FlameLimits {
    FlameLimits { share: cut.share.max(defaults.share), ..defaults }
}

fn picture(source: &Source<'_>, event: &Event, summary: &Summary, cut: RowLimits) -> String {
    let flame = Flame::new(source, event, boxes(cut, FlameLimits::default()));
    let facts: Vec<String> = summary
        .facts
        .iter()
        .filter(|fact| fact.value != "-")
        .map(|fact| format!("{} {}", fact.name.to_lowercase(), fact.value))
        .collect();
    flame_svg(&flame, &format!("{}: {}", summary.title, event.name), &facts.join(" · "))
}
