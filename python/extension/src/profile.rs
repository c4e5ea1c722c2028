//! A recording as Python sees it.

use std::path::PathBuf;

use pmuscope_tables::{ArrowTable, OpenRecording, TableError};
use pyo3::prelude::*;

use crate::failed;
use crate::table::PyTable;

/// What a recording holds, as tables.
#[pyclass(frozen, module = "pmuscope", name = "Profile")]
pub(crate) struct PyProfile {
    recording: OpenRecording,
}

impl PyProfile {
    pub(crate) fn new(recording: OpenRecording) -> Self {
        Self { recording }
    }

    fn table(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&OpenRecording) -> Result<ArrowTable, TableError> + Send,
    ) -> PyResult<PyTable> {
        py.detach(|| make(&self.recording)).map(PyTable::new).map_err(failed)
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
        Ok(py.detach(|| self.recording.profile()).map_err(failed)?.duration_s)
    }

    /// Every sample, in the order of time.
    #[getter]
    fn samples(&self, py: Python<'_>) -> PyResult<PyTable> {
        self.table(py, OpenRecording::samples)
    }

    /// The events with samples.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<PyTable> {
        self.table(py, OpenRecording::events)
    }

    /// CPUs that lost records or were throttled.
    #[getter]
    fn losses(&self, py: Python<'_>) -> PyResult<PyTable> {
        self.table(py, OpenRecording::losses)
    }

    /// Functions with their shares and 95% CIs.
    #[pyo3(signature = (event=None))]
    fn functions(&self, py: Python<'_>, event: Option<&str>) -> PyResult<PyTable> {
        self.table(py, |recording| recording.functions(event))
    }

    /// Distinct call stacks with their samples.
    #[pyo3(signature = (event=None))]
    fn stacks(&self, py: Python<'_>, event: Option<&str>) -> PyResult<PyTable> {
        self.table(py, |recording| recording.stacks(event))
    }

    /// The frames of these stacks, one a row.
    fn frames(&self, py: Python<'_>) -> PyResult<PyTable> {
        self.table(py, OpenRecording::frames)
    }

    fn __repr__(&self) -> PyResult<String> {
        let profile = self.recording.profile().map_err(failed)?;
        let events =
            profile.events.iter().map(|event| format!("{}: {} samples", event.name, event.samples));
        let events: Vec<String> = events.collect();
        Ok(format!(
            "<pmuscope.Profile {} ({})>",
            self.recording.path().display(),
            events.join(", ")
        ))
    }
}
