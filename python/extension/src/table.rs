//! A table as Python sees it.

use std::fmt::Write as _;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use pmuscope_tables::ArrowTable;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::Error;
use crate::cells::{cell, text};

/// Rows that `repr` shows.
const SHOWN: usize = 10;
/// Letters of a cell that `repr` shows.
const WIDEST: usize = 40;

/// Columns of Arrow.
#[pyclass(frozen, module = "pmuscope", name = "Table")]
pub(crate) struct PyTable {
    table: ArrowTable,
}

impl PyTable {
    pub(crate) fn new(table: ArrowTable) -> Self {
        Self { table }
    }

    fn names(&self) -> Vec<String> {
        self.table.schema().fields().iter().map(|field| field.name().clone()).collect()
    }
}

#[pymethods]
impl PyTable {
    /// Types of the columns, as a capsule of the Arrow C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.table.schema());
        let schema = schema.map_err(|error| Error::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// All rows, as a capsule of the Arrow C stream interface. Other types are not made: `requested_schema` is ignored, as the
    /// interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let stream = FFI_ArrowArrayStream::new(self.table.reader());
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.table.rows()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.table.rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.names()
    }

    /// What the numbers of each column are counted in; columns without a unit are left out.
    #[getter]
    fn units<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let units = PyDict::new(py);
        for field in self.table.schema().fields() {
            if let Some(unit) = field.metadata().get("unit") {
                units.set_item(field.name(), unit)?;
            }
        }
        Ok(units)
    }

    /// The first rows, as a list of dicts; all of them without a number. Needs no other package.
    #[pyo3(signature = (rows=None))]
    fn to_dicts<'py>(&self, py: Python<'py>, rows: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let names = self.names();
        let mut left = rows.unwrap_or(usize::MAX);
        for batch in self.table.batches() {
            for row in 0..batch.num_rows().min(left) {
                let dict = PyDict::new(py);
                for (name, column) in names.iter().zip(batch.columns()) {
                    dict.set_item(name, cell(py, column, row)?)?;
                }
                list.append(dict)?;
            }
            left -= batch.num_rows().min(left);
        }
        Ok(list)
    }

    /// A column as a list. Needs no other package.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let names = self.names();
        let Some(at) = names.iter().position(|other| other == name) else {
            return Err(PyKeyError::new_err(format!(
                "no column {name:?}; there are {}",
                names.join(", ")
            )));
        };
        let list = PyList::empty(py);
        for batch in self.table.batches() {
            for row in 0..batch.num_rows() {
                list.append(cell(py, batch.column(at), row)?)?;
            }
        }
        Ok(list)
    }

    /// A `pyarrow.Table`, without copies.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// A `pandas.DataFrame`, by pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_pyarrow(slf)?.call_method0("to_pandas")
    }

    /// A `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        let names = self.names();
        let mut lines: Vec<Vec<String>> = vec![names];
        'all: for batch in self.table.batches() {
            for row in 0..batch.num_rows() {
                if lines.len() > SHOWN {
                    break 'all;
                }
                lines.push(batch.columns().iter().map(|column| cut(&text(column, row))).collect());
            }
        }
        let mut shown = format!("pmuscope.Table: {} rows\n", self.table.rows());
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
            .collect();
        for line in lines {
            let mut row = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                // Writing to a String does not fail.
                let _ = write!(row, "{cell:<width$}  ");
            }
            shown.push_str(row.trim_end());
            shown.push('\n');
        }
        if self.table.rows() > SHOWN {
            shown.push_str("…\n");
        }
        shown
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= WIDEST {
        return text.to_owned();
    }
    text.chars().take(WIDEST - 1).chain(['…']).collect()
}
