//! RowColumns to columns: a function for each column takes its value from a row.

use std::sync::Arc;

use arrow_array::{
    BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;

use crate::dictionary::texts;
use crate::table::{ArrowTable, TableBuilder};

/// A table of rows in the making.
pub(crate) struct RowColumns<'a, R> {
    rows: &'a [R],
    table: TableBuilder,
    failed: Option<ArrowError>,
}

impl<'a, R> RowColumns<'a, R> {
    pub(crate) fn new(rows: &'a [R]) -> Self {
        Self { rows, table: TableBuilder::default(), failed: None }
    }

    /// Text that repeats.
    pub(crate) fn text(mut self, name: &str, of: impl Fn(&'a R) -> Option<&'a str>) -> Self {
        match texts(self.rows.iter().map(of)) {
            Ok(column) => self.table.push(name, "", column),
            Err(error) => self.failed = Some(error),
        }
        self
    }

    pub(crate) fn u64(mut self, name: &str, unit: &str, of: impl Fn(&'a R) -> Option<u64>) -> Self {
        let column: UInt64Array = self.rows.iter().map(of).collect();
        self.table.push(name, unit, Arc::new(column));
        self
    }

    pub(crate) fn i64(mut self, name: &str, unit: &str, of: impl Fn(&'a R) -> Option<i64>) -> Self {
        let column: Int64Array = self.rows.iter().map(of).collect();
        self.table.push(name, unit, Arc::new(column));
        self
    }

    pub(crate) fn u32(mut self, name: &str, unit: &str, of: impl Fn(&'a R) -> Option<u32>) -> Self {
        let column: UInt32Array = self.rows.iter().map(of).collect();
        self.table.push(name, unit, Arc::new(column));
        self
    }

    pub(crate) fn i32(mut self, name: &str, unit: &str, of: impl Fn(&'a R) -> Option<i32>) -> Self {
        let column: Int32Array = self.rows.iter().map(of).collect();
        self.table.push(name, unit, Arc::new(column));
        self
    }

    pub(crate) fn f64(mut self, name: &str, unit: &str, of: impl Fn(&'a R) -> Option<f64>) -> Self {
        let column: Float64Array = self.rows.iter().map(of).collect();
        self.table.push(name, unit, Arc::new(column));
        self
    }

    pub(crate) fn flag(mut self, name: &str, of: impl Fn(&'a R) -> Option<bool>) -> Self {
        let column: BooleanArray = self.rows.iter().map(of).collect();
        self.table.push(name, "", Arc::new(column));
        self
    }

    /// A list for each row, made elsewhere.
    pub(crate) fn list(mut self, name: &str, column: ListArray) -> Self {
        self.table.push(name, "", Arc::new(column));
        self
    }

    pub(crate) fn finish(self) -> Result<ArrowTable, ArrowError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.table.finish(),
        }
    }
}
