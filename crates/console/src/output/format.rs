//! Forms of results, and the file names that ask for them.

use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;
use pmuscope_machine::FileKind;
use pmuscope_report::Separator;

use super::file::is_stdout;
use crate::exit::bad_input;

/// A form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
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
pub(super) const ENDINGS: [(&str, Format); 13] = [
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

impl Format {
    /// The one that was asked for, else the one that the file's name ends in; text where there is neither. `offered`
    /// are those that the command has.
    ///
    /// # Errors
    /// If nothing names one.
    pub fn choose(
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
    pub fn is_named_by(file: &Path, offered: &[Self]) -> bool {
        !is_stdout(file) && Self::choose(None, Some(file), offered).is_ok()
    }

    /// Whether it is made of counts, as exports are; else of the profile's rows.
    pub fn is_of_counts(self) -> bool {
        !matches!(self, Self::Text | Self::Json)
    }

    /// What separates the fields, where it is a table for spreadsheets and scripts.
    pub fn separator(self) -> Option<Separator> {
        match self {
            Self::Csv => Some(Separator::Comma),
            Self::Tsv => Some(Separator::Tab),
            _ => None,
        }
    }

    /// Whether a table has it.
    pub fn is_of_a_table(self) -> bool {
        matches!(self, Self::Text | Self::Json | Self::Csv | Self::Tsv | Self::Html)
    }

    /// Whether it is rows only, with no place to say what was left out.
    pub fn has_no_head(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::Folded)
    }

    /// What a file of it is known by.
    pub fn kind(self) -> FileKind {
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
