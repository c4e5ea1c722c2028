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
mod errors;
mod filters;
mod html;
mod profile;
mod table;

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmuscope_tables::{CompareOptions, FileState, OpenRecording, Order, ReadOptions, TableError};
use pyo3::exceptions::{PyRuntimeWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{argument, failed};
use crate::filters::request;
use crate::profile::PyProfile;
use crate::table::PyTable;

pyo3::create_exception!(
    pmuscope,
    Error,
    pyo3::exceptions::PyException,
    "What pmuscope cannot do, why, and what to try."
);

/// Reads a recording of pmuscope or perf.
#[pyfunction]
#[pyo3(signature = (path, *, inlined=true, lines=true, symfs=None, **filters))]
fn read(
    py: Python<'_>,
    path: PathBuf,
    inlined: bool,
    lines: bool,
    symfs: Option<PathBuf>,
    filters: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyProfile> {
    let options = ReadOptions { inlined, lines, symfs, filter: request(filters)? };
    let opened: Result<_, TableError> = py.detach(|| {
        let recording = OpenRecording::open(&path, options)?;
        let state = recording.state()?;
        Ok((recording, state))
    });
    let (recording, state) = opened.map_err(|error| failed(py, &error))?;
    warn_of_missing_end(py, &path, state)?;
    Ok(PyProfile::new(recording))
}

/// Says that a recording is still written to, or was not closed.
fn warn_of_missing_end(py: Python<'_>, path: &Path, state: FileState) -> PyResult<()> {
    let path = path.display();
    let text = match state {
        FileState::Closed => return Ok(()),
        FileState::NotClosed => format!(
            "{path} was not closed: it is still being recorded, or its recorder was killed. The profile is of what it holds \
             now. Try: end the recording, then read it again"
        ),
        FileState::Truncated { has, should } => format!(
            "{path} is cut off: it has {has} bytes of {should}. The profile is of these. Try: copy it again"
        ),
    };
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)
}

/// What changed between recordings, function by function.
#[pyfunction]
#[pyo3(signature = (before, after, *, sort="share", inlined=true, symfs=None, **filters))]
fn diff(
    py: Python<'_>,
    before: &Bound<'_, PyAny>,
    after: &Bound<'_, PyAny>,
    sort: &str,
    inlined: bool,
    symfs: Option<PathBuf>,
    filters: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyTable> {
    let order = match sort {
        "share" => Order::Share,
        "total" => Order::Total,
        other => {
            let text = format!("no order {other:?}. Try: sort=\"share\" or sort=\"total\"");
            return Err(argument(py, &text));
        }
    };
    let filter = request(filters)?;
    let options = ReadOptions { inlined, symfs, filter, ..ReadOptions::default() };
    let sides = [side(before, &options)?, side(after, &options)?];
    let [before, after] = sides.each_ref().map(|side| {
        let side: Vec<&OpenRecording> = side.iter().map(|one| &**one).collect();
        side
    });
    let found = py.detach(|| pmuscope_tables::diff(&before, &after, order));
    found.map(PyTable::new).map_err(|error| failed(py, &error))
}

/// The recordings of a side: a path or profile, or several of them.
fn side(given: &Bound<'_, PyAny>, options: &ReadOptions) -> PyResult<Vec<Arc<OpenRecording>>> {
    if let Some(one) = recording(given, options)? {
        return Ok(vec![one]);
    }
    let refused = || {
        let shown = given.repr().map_or_else(|_| "that".to_owned(), |shown| shown.to_string());
        PyTypeError::new_err(format!(
            "diff takes paths, profiles, or lists of them, and not {shown}. Try: \
             pmuscope.diff(\"before.data\", \"after.data\")"
        ))
    };
    let items = given.try_iter().map_err(|_| refused())?;
    items.map(|item| recording(&item?, options)?.ok_or_else(refused)).collect()
}

/// A recording by its path or profile; `None` if it is neither.
fn recording(
    given: &Bound<'_, PyAny>,
    options: &ReadOptions,
) -> PyResult<Option<Arc<OpenRecording>>> {
    let py = given.py();
    if let Ok(profile) = given.cast::<PyProfile>() {
        let recording = profile.get().recording();
        if options.filter.asked().is_empty() {
            return Ok(Some(recording));
        }
        let narrowed = recording.narrowed(&options.filter);
        return narrowed.map(|one| Some(Arc::new(one))).map_err(|error| failed(py, &error));
    }
    let Ok(path) = given.extract::<PathBuf>() else { return Ok(None) };
    let opened = OpenRecording::open(&path, options.clone());
    opened.map(|one| Some(Arc::new(one))).map_err(|error| failed(py, &error))
}

/// Every value of every run of run files.
#[pyfunction]
#[pyo3(signature = (*paths))]
fn runs(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<PyTable> {
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    py.detach(|| pmuscope_tables::runs(&paths))
        .map(PyTable::new)
        .map_err(|error| failed(py, &error))
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
    py.detach(|| pmuscope_tables::compare(&paths, &options))
        .map(PyTable::new)
        .map_err(|error| failed(py, &error))
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
    module.add_function(wrap_pyfunction!(diff, module)?)?;
    Ok(())
}
