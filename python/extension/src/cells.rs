//! Single values of columns: for who has no Arrow library.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pmuscope_tables::text_of;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;

/// A value as Python has it; what is missing is `None`.
pub(crate) fn cell<'py>(
    py: Python<'py>,
    column: &ArrayRef,
    row: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into_bound_py_any(py),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into_bound_py_any(py),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into_bound_py_any(py),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into_bound_py_any(py),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            let items: PyResult<Vec<_>> = (0..items.len()).map(|at| cell(py, &items, at)).collect();
            items?.into_bound_py_any(py)
        }
        _ => text_of(column, row).into_bound_py_any(py),
    }
}

/// A value as `repr` shows it; what is missing is `-`.
pub(crate) fn text(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "-".to_owned();
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float64 => format!("{:.6}", column.as_primitive::<Float64Type>().value(row)),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            let items: Vec<String> = (0..items.len()).map(|at| text(&items, at)).collect();
            items.join(";")
        }
        _ => escaped(text_of(column, row).unwrap_or("-")),
    }
}

/// Names come from recordings: what would move a terminal's cursor shows as an escape.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|letter| {
            let escape = letter.is_control().then(|| letter.escape_default());
            escape.into_iter().flatten().chain((!letter.is_control()).then_some(letter))
        })
        .collect()
}
