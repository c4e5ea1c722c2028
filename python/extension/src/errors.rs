//! Errors as Python has them: classes of `pmuscope.errors`, each of which is the builtin exception that fits.

use std::io::ErrorKind;
use std::path::Path;

use pmuscope_tables::{FilterError, MeasureError, ReadError, TableError};
use pyo3::prelude::*;

use crate::Error;

/// An exception's class and, of those of files, what `OSError` has.
enum ExceptionClass<'a> {
    Argument,
    Column,
    Row,
    Format,
    /// The system's number and the file.
    File(&'static str, i32, &'a Path),
    Other,
}

/// The error with its causes, as the command line has it.
pub(crate) fn failed(py: Python<'_>, error: &TableError) -> PyErr {
    let text = with_causes(error);
    let make = || -> PyResult<PyErr> {
        let errors = py.import("pmuscope.errors")?;
        let of = |class: &str| errors.getattr(class)?.call1((&text,));
        let error = match kind(error) {
            ExceptionClass::Argument => of("ArgumentError")?,
            ExceptionClass::Column => of("ColumnError")?,
            ExceptionClass::Row => of("RowError")?,
            ExceptionClass::Format => of("FormatError")?,
            ExceptionClass::File(class, number, path) => {
                errors.getattr(class)?.call1((number, &text, path))?
            }
            ExceptionClass::Other => return Ok(Error::new_err(text.clone())),
        };
        Ok(PyErr::from_value(error))
    };
    make().unwrap_or_else(|error| error)
}

/// A malformed argument.
pub(crate) fn argument(py: Python<'_>, text: &str) -> PyErr {
    let make = || py.import("pmuscope.errors")?.getattr("ArgumentError")?.call1((text,));
    make().map_or_else(|error| error, PyErr::from_value)
}

fn with_causes(error: &TableError) -> String {
    let mut text = sentence(error);
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        // Most have their cause in their own sentence.
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    without_number(&text)
}

/// The error alone. Those that name flags of the command line name keywords.
fn sentence(error: &TableError) -> String {
    match error {
        TableError::Filter(FilterError::NoNodes(path)) => format!(
            "{} does not record which CPUs are on which NUMA node. Try: cpu=\"0-3\"",
            path.display()
        ),
        TableError::Filter(FilterError::NoStart { path, times, why }) => {
            format!("time {times:?} counts from the first sample, and {} {why}", path.display())
        }
        other => other.to_string(),
    }
}

/// Without the system's number, which the exception has as `errno`.
fn without_number(text: &str) -> String {
    let Some((before, rest)) = text.split_once(" (os error ") else { return text.to_owned() };
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

fn kind(error: &TableError) -> ExceptionClass<'_> {
    match error {
        TableError::Read(error) => kind_of_read(error),
        TableError::Filter(FilterError::Read(error)) => kind_of_read(error),
        TableError::Runs(MeasureError::File { path, source, .. }) => kind_of_file(path, source),
        TableError::Runs(_) => ExceptionClass::Format,
        TableError::NoSuchColumn { .. } => ExceptionClass::Column,
        TableError::NoSuchRow { .. } => ExceptionClass::Row,
        TableError::NoSymfs(path) => ExceptionClass::File("MissingFileError", ENOENT, path),
        TableError::Arrow(_) => ExceptionClass::Other,
        _ => ExceptionClass::Argument,
    }
}

/// The system's number of a file that is not there.
const ENOENT: i32 = 2;
/// The system's number of a directory.
const EISDIR: i32 = 21;
/// The system's number of a failed read.
const EIO: i32 = 5;

fn kind_of_read(error: &ReadError) -> ExceptionClass<'_> {
    match error {
        ReadError::Io { path, source, .. } | ReadError::Spool { path, source, .. } => {
            kind_of_file(path, source)
        }
        ReadError::Directory(path) => ExceptionClass::File("FolderError", EISDIR, path),
        _ => ExceptionClass::Format,
    }
}

fn kind_of_file<'a>(path: &'a Path, source: &std::io::Error) -> ExceptionClass<'a> {
    let class = match source.kind() {
        ErrorKind::NotFound => "MissingFileError",
        ErrorKind::PermissionDenied => "FilePermissionError",
        ErrorKind::IsADirectory => "FolderError",
        _ => "FileError",
    };
    ExceptionClass::File(class, source.raw_os_error().unwrap_or(EIO), path)
}
