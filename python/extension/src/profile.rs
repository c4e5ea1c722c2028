//! A recording as Python sees it.

use std::path::PathBuf;

use pmuscope_tables::{Recording, TableError};
use pyo3::prelude::*;

use crate::failed;
use crate::table::Table;

/// What a recording holds, as tables.
#[pyclass(frozen, module = "pmuscope")]
pub(crate) struct Profile {
    recording: Recording,
}

impl Profile {
    pub(crate) fn new(recording: Recording) -> Self {
        Self { recording }
    }

    fn table(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&Recording) -> Result<pmuscope_tables::Table, TableError> + Send,
    ) -> PyResult<Table> {
        py.detach(|| make(&self.recording)).map(Table::new).map_err(failed)
    }
}

#[pymethods]
impl Profile {
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
    fn samples(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, Recording::samples)
    }

    /// The events with samples.
    #[getter]
    fn events(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, Recording::events)
    }

    /// CPUs that lost records or were throttled.
    #[getter]
    fn losses(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, Recording::losses)
    }

    /// Functions with their shares and 95% CIs.
    #[pyo3(signature = (event=None))]
    fn functions(&self, py: Python<'_>, event: Option<&str>) -> PyResult<Table> {
        self.table(py, |recording| recording.functions(event))
    }

    /// Distinct call stacks with their samples.
    #[pyo3(signature = (event=None))]
    fn stacks(&self, py: Python<'_>, event: Option<&str>) -> PyResult<Table> {
        self.table(py, |recording| recording.stacks(event))
    }

    /// The frames of these stacks, one a row.
    fn frames(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, Recording::frames)
    }

    fn __repr__(&self) -> PyResult<String> {
        let profile = self.recording.profile().map_err(failed)?;
        let events = profile.events.iter().map(|event| {
            format!("{}: {} samples", event.name, event.samples)
        });
        let events: Vec<String> = events.collect();
        Ok(format!("<pmuscope.Profile {} ({})>", self.recording.path().display(), events.join(", ")))
    }
}
