//! The module `pmuscope._native`: what Python sees of tables and recordings. `python/package` has the rest, with types and
//! documentation for users.
//!
//! Tables go out by the [Arrow PyCapsule interface], so pandas, polars, pyarrow and DuckDB take columns without copies.
//! While files are read other threads of Python run.
//!
//! [Arrow PyCapsule interface]: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html

// pyo3 extracts arguments as owned values.
#![allow(clippy::needless_pass_by_value)]

mod cells;
mod profile;
mod table;

use std::path::{Path, PathBuf};

use pmuscope_tables::{CompareOptions, OpenRecording, ReadOptions, TableError};
use pyo3::prelude::*;

use crate::profile::PyProfile;
use crate::table::PyTable;

pyo3::create_exception!(
    pmuscope,
    Error,
    pyo3::exceptions::PyException,
    "What pmuscope cannot do, why, and what to try."
);

/// The error with its causes, as the command line has it.
fn failed(error: TableError) -> PyErr {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        // Most have their cause in their own sentence.
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    Error::new_err(text)
}

/// Reads a recording of pmuscope or perf.
#[pyfunction]
#[pyo3(signature = (path, *, inlined=true, lines=true, symfs=None))]
fn read(
    py: Python<'_>,
    path: PathBuf,
    inlined: bool,
    lines: bool,
    symfs: Option<PathBuf>,
) -> PyResult<PyProfile> {
    let options = ReadOptions { inlined, lines, symfs };
    let recording = py.detach(|| OpenRecording::open(&path, options)).map_err(failed)?;
    Ok(PyProfile::new(recording))
}

/// Every value of every run of run files.
#[pyfunction]
#[pyo3(signature = (*paths))]
fn runs(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<PyTable> {
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    py.detach(|| pmuscope_tables::runs(&paths)).map(PyTable::new).map_err(failed)
}

/// What differs between run files.
#[pyfunction]
#[pyo3(signature = (*paths, base=None, per=Vec::new(), metric=None, alpha=None))]
fn compare(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    base: Option<String>,
    per: Vec<String>,
    metric: Option<String>,
    alpha: Option<f64>,
) -> PyResult<PyTable> {
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let options = CompareOptions { per, metric, base, alpha };
    py.detach(|| pmuscope_tables::compare(&paths, &options)).map(PyTable::new).map_err(failed)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<PyTable>()?;
    module.add_class::<PyProfile>()?;
    module.add_function(wrap_pyfunction!(read, module)?)?;
    module.add_function(wrap_pyfunction!(runs, module)?)?;
    module.add_function(wrap_pyfunction!(compare, module)?)?;
    Ok(())
}
