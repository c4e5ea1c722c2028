//! A table as Python sees it.

use std::fmt::Write as _;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use pmuscope_tables::{ArrowTable, TableError};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList, PySlice, PyTuple};

use crate::Error;
use crate::cells::{cell, text};
use crate::errors::failed;
use crate::html;

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

    /// A column as a list.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let at = self.table.position(name).map_err(|error| failed(py, &error))?;
        let list = PyList::empty(py);
        for batch in self.table.batches() {
            for row in 0..batch.num_rows() {
                list.append(cell(py, batch.column(at), row)?)?;
            }
        }
        Ok(list)
    }

    /// A number of rows; a negative one is of the rows that are left out, as in pandas.
    fn counted(&self, n: isize) -> usize {
        let rows = self.table.rows();
        if n < 0 { rows.saturating_sub(n.unsigned_abs()) } else { rows.min(n.unsigned_abs()) }
    }

    /// Rows of a slice.
    fn rows_of(&self, slice: &Bound<'_, PySlice>) -> PyResult<ArrowTable> {
        let rows = isize::try_from(self.table.rows()).unwrap_or(isize::MAX);
        let found = slice.indices(rows)?;
        if found.step == 1 {
            let (start, length) = (found.start.unsigned_abs(), found.slicelength);
            return Ok(self.table.slice(start, length));
        }
        let row = |at: usize| found.start + at as isize * found.step;
        let rows: Vec<usize> = (0..found.slicelength).map(|at| row(at).unsigned_abs()).collect();
        self.table.take(&rows).map_err(|error| failed(slice.py(), &error))
    }

    fn new_table(py: Python<'_>, table: Result<ArrowTable, TableError>) -> PyResult<Self> {
        table.map(Self::new).map_err(|error| failed(py, &error))
    }
}

/// What Python does with a table.
fn helper<'py>(
    py: Python<'py>,
    name: &str,
    arguments: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("pmuscope._tables")?.getattr(name)?.call1(arguments)
}

/// The type of a column, by the name that numpy has for it; `text`, `list` and `bool` of others.
fn kind(kind: &DataType) -> &'static str {
    match kind {
        DataType::Boolean => "bool",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float64 => "float64",
        DataType::List(_) => "list",
        _ => "text",
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

    /// A column as a list; some columns, or some rows, as a table.
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        wanted: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if let Ok(name) = wanted.extract::<String>() {
            return Ok(this.column(py, &name)?.into_any());
        }
        if let Ok(slice) = wanted.cast::<PySlice>() {
            return Ok(Bound::new(py, Self::new(this.rows_of(slice)?))?.into_any());
        }
        if let Ok(names) = wanted.extract::<Vec<String>>() {
            let table = Self::new_table(py, this.table.select(&names))?;
            return Ok(Bound::new(py, table)?.into_any());
        }
        let first = this.names().into_iter().next().unwrap_or_default();
        Err(PyTypeError::new_err(format!(
            "table[...] takes a column ({first:?}), a list of columns, or rows (0:10), and not {}. Try: \
             table.filter(...) for rows that meet a condition, table[0:1] for the first",
            wanted.repr()?
        )))
    }

    /// Names of the columns.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.names())?.try_iter()
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<String>().is_ok_and(|name| self.table.position(&name).is_ok())
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.names()
    }

    /// Numbers of rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.table.rows(), self.table.schema().fields().len())
    }

    /// Types of the columns.
    #[getter]
    fn dtypes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let types = PyDict::new(py);
        for field in self.table.schema().fields() {
            types.set_item(field.name(), kind(field.data_type()))?;
        }
        Ok(types)
    }

    /// Type of a column.
    fn dtype(&self, py: Python<'_>, name: &str) -> PyResult<&'static str> {
        let at = self.table.position(name).map_err(|error| failed(py, &error))?;
        Ok(kind(self.table.schema().field(at).data_type()))
    }

    /// The first rows.
    #[pyo3(signature = (n=5))]
    fn head(&self, n: isize) -> Self {
        Self::new(self.table.slice(0, self.counted(n)))
    }

    /// The last rows.
    #[pyo3(signature = (n=5))]
    fn tail(&self, n: isize) -> Self {
        let rows = self.counted(n);
        Self::new(self.table.slice(self.table.rows() - rows, rows))
    }

    /// Rows by their numbers, in the order given.
    fn take(&self, py: Python<'_>, rows: Vec<usize>) -> PyResult<Self> {
        Self::new_table(py, py.detach(|| self.table.take(&rows)))
    }

    /// Rows as named tuples, one after the other.
    fn itertuples<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf.py(), "rows", (slf,))
    }

    /// All rows as tuples.
    fn _rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for batch in self.table.batches() {
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|column| cell(py, column, row));
                list.append(PyTuple::new(py, cells.collect::<PyResult<Vec<_>>>()?)?)?;
            }
        }
        Ok(list)
    }

    /// Rows whose values meet conditions.
    #[pyo3(signature = (**conditions))]
    fn filter<'py>(
        slf: &Bound<'py, Self>,
        conditions: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let conditions = conditions.unwrap_or_else(|| PyDict::new(slf.py()));
        helper(slf.py(), "filtered", (slf, conditions))
    }

    /// Rows in the order of columns.
    #[pyo3(signature = (by, ascending=true))]
    fn sort_values<'py>(
        slf: &Bound<'py, Self>,
        by: Bound<'py, PyAny>,
        ascending: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        helper(slf.py(), "ordered", (slf, by, ascending))
    }

    /// Rows with the same values in columns, to be added up.
    fn groupby<'py>(slf: &Bound<'py, Self>, by: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf.py(), "grouped", (slf, by))
    }

    #[pyo3(signature = (by, columns=None))]
    fn _sums(
        &self,
        py: Python<'_>,
        by: Vec<String>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Self> {
        Self::new_table(py, py.detach(|| self.table.sums(&by, columns.as_deref())))
    }

    /// A `pyarrow.Table`, without copies.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf.py(), "to_pyarrow", (slf,))
    }

    /// A `pandas.DataFrame`; by pyarrow, where that is installed.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf.py(), "to_pandas", (slf,))
    }

    /// A `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf.py(), "to_polars", (slf,))
    }

    /// What `pandas.DataFrame.plot` is.
    #[getter]
    fn plot<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        helper(slf.py(), "plot", (slf,))
    }

    /// As notebooks show it.
    fn _repr_html_(&self) -> String {
        html::page(&self.table, SHOWN)
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
