//! A recording as Python sees it.

use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_tables::{ArrowTable, OpenRecording, TableError};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::failed;
use crate::filters::request;
use crate::table::PyTable;

/// What a recording holds, as tables.
#[pyclass(frozen, module = "pmuscope", name = "Profile")]
pub(crate) struct PyProfile {
    recording: Arc<OpenRecording>,
}

impl PyProfile {
    pub(crate) fn new(recording: OpenRecording) -> Self {
        Self { recording: Arc::new(recording) }
    }

    pub(crate) fn recording(&self) -> Arc<OpenRecording> {
        Arc::clone(&self.recording)
    }

    fn table(
        &self,
        py: Python<'_>,
        filters: Option<&Bound<'_, PyDict>>,
        make: impl FnOnce(&OpenRecording) -> Result<ArrowTable, TableError> + Send,
    ) -> PyResult<PyTable> {
        let more = request(filters)?;
        let recording = match more.asked().is_empty() {
            true => Arc::clone(&self.recording),
            false => Arc::new(self.recording.narrowed(&more).map_err(|error| failed(py, &error))?),
        };
        let table = py.detach(|| make(&recording)).map_err(|error| failed(py, &error))?;
        if table.rows() == 0 {
            warn_of_nothing(py, &recording)?;
        }
        Ok(PyTable::new(table))
    }
}

/// Says why a table has no rows.
fn warn_of_nothing(py: Python<'_>, recording: &OpenRecording) -> PyResult<()> {
    let profile = py.detach(|| recording.profile()).map_err(|error| failed(py, &error))?;
    if profile.samples() > 0 {
        return Ok(());
    }
    let path = recording.path().display();
    let left_out = profile.filtered.as_ref().map_or(0, |filtered| filtered.left_out);
    let text = if left_out > 0 {
        let asked: Vec<String> = recording
            .asked()
            .into_iter()
            .map(|(name, value)| format!("{}={value:?}", keyword(name)))
            .collect();
        format!(
            "{path}: the filter leaves none of {left_out} samples: {}. Try: pmuscope.read({:?}).samples, whose columns \
             have what there is",
            asked.join(", "),
            recording.path()
        )
    } else {
        format!("{path} has no samples. Try: record for longer, or while the program uses a CPU")
    };
    PyErr::warn(
        py,
        &py.get_type::<PyRuntimeWarning>(),
        &std::ffi::CString::new(text.replace('\0', "")).unwrap_or_default(),
        1,
    )
}

/// The keyword of a flag.
fn keyword(flag: &str) -> &str {
    match flag {
        "symbol-filter" => "symbol",
        "dsos" => "dso",
        other => other,
    }
}

#[pymethods]
impl PyProfile {
    /// Path of the recording.
    #[getter]
    fn path(&self) -> PathBuf {
        self.recording.path().to_owned()
    }

    /// Seconds that were recorded; None if the recording does not say it.
    #[getter]
    fn duration_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let profile = py.detach(|| self.recording.profile());
        Ok(profile.map_err(|error| failed(py, &error))?.duration_s)
    }

    /// Every sample, in the order of time.
    #[getter]
    fn samples(&self, py: Python<'_>) -> PyResult<PyTable> {
        self.table(py, None, OpenRecording::samples)
    }

    /// The events with samples.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<PyTable> {
        self.table(py, None, OpenRecording::events)
    }

    /// CPUs that lost records or were throttled.
    #[getter]
    fn losses(&self, py: Python<'_>) -> PyResult<PyTable> {
        let losses = py.detach(|| self.recording.losses());
        losses.map(PyTable::new).map_err(|error| failed(py, &error))
    }

    /// Functions with their shares and 95% CIs.
    #[pyo3(signature = (event=None, **filters))]
    fn functions(
        &self,
        py: Python<'_>,
        event: Option<&str>,
        filters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTable> {
        self.table(py, filters, |recording| recording.functions(event))
    }

    /// Distinct call stacks with their samples.
    #[pyo3(signature = (event=None, **filters))]
    fn stacks(
        &self,
        py: Python<'_>,
        event: Option<&str>,
        filters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTable> {
        self.table(py, filters, |recording| recording.stacks(event))
    }

    /// The frames of these stacks, one a row.
    fn frames(&self, py: Python<'_>) -> PyResult<PyTable> {
        self.table(py, None, OpenRecording::frames)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let profile = py.detach(|| self.recording.profile());
        let profile = profile.map_err(|error| failed(py, &error))?;
        let events =
            profile.events.iter().map(|event| format!("{}: {} samples", event.name, event.samples));
        let mut parts: Vec<String> = events.collect();
        if parts.is_empty() {
            parts.push("no samples".to_owned());
        }
        let asked = self.recording.asked();
        parts.extend(asked.iter().map(|(name, value)| format!("{}={value:?}", keyword(name))));
        Ok(format!("<pmuscope.Profile {} ({})>", self.recording.path().display(), parts.join(", ")))
    }
}
