//! A table: columns with names and units, in one batch or several.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// Key of a field's metadata: what its numbers are counted in.
const UNIT: &str = "unit";

/// A table. Clones share its columns.
#[derive(Debug, Clone)]
pub struct ArrowTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ArrowTable {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// Names and types of the columns. Fields have their unit in their metadata, as `unit`.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The rows, batch by batch.
    #[must_use]
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The same as a stream, which shares the columns.
    #[must_use]
    pub fn reader(&self) -> Box<dyn RecordBatchReader + Send> {
        let batches: Vec<Result<RecordBatch, ArrowError>> =
            self.batches.iter().cloned().map(Ok).collect();
        Box::new(RecordBatchIterator::new(batches, self.schema()))
    }
}

/// A field that may be missing.
pub(crate) fn field(name: &str, kind: DataType, unit: &str) -> Field {
    let field = Field::new(name, kind, true);
    if unit.is_empty() {
        return field;
    }
    field.with_metadata(HashMap::from([(UNIT.to_owned(), unit.to_owned())]))
}

/// Columns, one after the other.
#[derive(Debug, Default)]
pub(crate) struct TableBuilder {
    fields: Vec<Field>,
    columns: Vec<ArrayRef>,
}

impl TableBuilder {
    /// Adds a column; a name that is taken gets a line after it.
    pub(crate) fn push(&mut self, name: &str, unit: &str, column: ArrayRef) {
        let mut name = name.to_owned();
        while self.fields.iter().any(|field| *field.name() == name) {
            name.push('_');
        }
        self.fields.push(field(&name, column.data_type().clone(), unit));
        self.columns.push(column);
    }

    pub(crate) fn finish(self) -> Result<ArrowTable, ArrowError> {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), self.columns)?;
        Ok(ArrowTable::new(schema, vec![batch]))
    }
}
