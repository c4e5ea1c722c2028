//! Answers as rows of plain values.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use crate::engine::{QueryAnswer, QueryError};

/// The columns of an answer, by name.
#[derive(Debug)]
pub struct ResultRows {
    answer: QueryAnswer,
}

impl ResultRows {
    pub(crate) fn new(answer: QueryAnswer) -> Self {
        Self { answer }
    }

    /// A column of texts; a missing one is empty.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn texts(&self, column: &str) -> Result<Vec<String>, QueryError> {
        Ok(self.optional_texts(column)?.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// A column of texts that may be missing.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn optional_texts(&self, column: &str) -> Result<Vec<Option<String>>, QueryError> {
        let mut all = Vec::new();
        for array in self.arrays(column, &DataType::Utf8, "text")? {
            all.extend(array.as_string::<i32>().iter().map(|text| text.map(str::to_owned)));
        }
        Ok(all)
    }

    /// A column of whole numbers; a missing one is 0.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn numbers(&self, column: &str) -> Result<Vec<i64>, QueryError> {
        Ok(self.optional_numbers(column)?.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// A column of whole numbers that may be missing.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn optional_numbers(&self, column: &str) -> Result<Vec<Option<i64>>, QueryError> {
        let mut all = Vec::new();
        for array in self.arrays(column, &DataType::Int64, "whole number")? {
            all.extend(array.as_primitive::<Int64Type>().iter());
        }
        Ok(all)
    }

    /// A column of numbers that may be missing.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn optional_values(&self, column: &str) -> Result<Vec<Option<f64>>, QueryError> {
        let mut all = Vec::new();
        for array in self.arrays(column, &DataType::Float64, "number")? {
            all.extend(array.as_primitive::<Float64Type>().iter());
        }
        Ok(all)
    }

    fn arrays(
        &self,
        column: &str,
        data_type: &DataType,
        wanted: &'static str,
    ) -> Result<Vec<arrow::array::ArrayRef>, QueryError> {
        let missing = || QueryError::Column { column: column.to_owned(), wanted };
        let batches = self.answer.batches.iter();
        batches
            .map(|batch| {
                let array = batch.column_by_name(column).ok_or_else(missing)?;
                cast(array, data_type).map_err(|_| missing())
            })
            .collect()
    }
}
