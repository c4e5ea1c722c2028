//! One small file: read as a whole, columns of filters first.
//!
//! ```text
//!  bytes ─► footer ─► columns of filters ─► rows that fulfil them ─ none: done
//!                                            └ some ─► all other columns ─► those rows
//! ```
//! Nothing is left out that the file's statistics exclude: most files are of one host, and its name is read in no time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, RecordBatch, RecordBatchOptions, StringArray,
    new_null_array,
};
use arrow::compute::{cast, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use datafusion::parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use datafusion::parquet::schema::types::Type;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use pmuscope_dataset::DayFile;

use super::DATE;
use crate::damage::guarded;

/// Rows that are decoded at once: what the engine takes by default.
pub(super) const ROWS: usize = 8192;

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub(crate) struct FileError {
    /// It.
    pub(crate) path: PathBuf,
    /// Why.
    pub(crate) message: String,
}

impl FileError {
    fn of(path: &Path, message: &dyn ToString) -> DataFusionError {
        let error = Self { path: path.to_owned(), message: message.to_string() };
        DataFusionError::External(Box::new(error))
    }
}

/// Reads files with the same columns and filters.
#[derive(Debug)]
pub(super) struct FileReader {
    /// Columns that are wanted.
    schema: SchemaRef,
    filter: Option<FileFilter>,
    /// Columns of the schema that the filter does not need.
    others: Vec<usize>,
    options: ParquetMetaDataOptions,
    /// Columns of the last file, and the types that they are read as: most files have the same.
    last: Option<(Arc<Type>, SchemaRef)>,
}

/// What rows must fulfil.
#[derive(Debug)]
struct FileFilter {
    /// Of the columns below.
    wanted: Arc<dyn PhysicalExpr>,
    /// Columns of the reader's schema.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl FileFilter {
    fn new(wanted: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Self> {
        let mut columns: Vec<usize> =
            collect_columns(&wanted).iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        let schema = Arc::new(schema.project(&columns)?);
        let wanted = reassign_expr_columns(wanted, &schema)?;
        Ok(Self { wanted, columns, schema })
    }

    /// Which of these rows fulfil it.
    fn of(&self, columns: &Columns) -> Result<BooleanArray> {
        let batch = columns.batch(&self.schema)?;
        let found = self.wanted.evaluate(&batch)?.into_array(columns.rows)?;
        let found = found.as_boolean();
        Ok(if found.null_count() > 0 { prep_null_mask_filter(found) } else { found.clone() })
    }
}

/// Columns of some rows.
struct Columns {
    rows: usize,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let arrays = self.arrays.clone();
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }
}

impl FileReader {
    /// Reads these columns of rows that fulfil `filter`.
    pub(super) fn new(schema: SchemaRef, filter: Option<Arc<dyn PhysicalExpr>>) -> Result<Self> {
        let filter = filter.map(|wanted| FileFilter::new(wanted, &schema)).transpose()?;
        let is_other =
            |at: &usize| filter.as_ref().is_none_or(|filter| !filter.columns.contains(at));
        let others = (0..schema.fields().len()).filter(is_other).collect();
        let skip = ParquetStatisticsPolicy::SkipAll;
        let options = ParquetMetaDataOptions::new()
            .with_encoding_stats_policy(skip.clone())
            .with_column_stats_policy(skip.clone())
            .with_size_stats_policy(skip);
        Ok(Self { schema, filter, others, options, last: None })
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`FileError`]; another one where it is gone.
    pub(super) fn open(&mut self, file: &DayFile) -> Result<FileBatches> {
        let bytes = Bytes::from(fs::read(&file.path).map_err(|error| unreadable(file, &error))?);
        let metadata = guarded(|| self.metadata(&bytes));
        let metadata = metadata.unwrap_or_else(|panic| Err(DataFusionError::Execution(panic)));
        let metadata = metadata.map_err(|error| FileError::of(&file.path, &error))?;
        Ok(FileBatches {
            date: Arc::clone(&file.date),
            path: file.path.clone(),
            bytes,
            metadata,
            of_filter: None,
            others: None,
            at: 0,
        })
    }

    /// What a file says of itself, with texts as the reader wants them.
    fn metadata(&mut self, bytes: &Bytes) -> Result<ArrowReaderMetadata> {
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Skip)
            .with_metadata_options(Some(self.options.clone()))
            .parse_and_finish(bytes)?;
        let metadata = Arc::new(metadata);
        let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let columns = metadata.file_metadata().schema_descr().root_schema_ptr();
        let known = self.last.as_ref().filter(|(last, _)| *last == columns);
        let types = match known {
            Some((_, types)) => Arc::clone(types),
            None => {
                let plain = ArrowReaderMetadata::try_new(Arc::clone(&metadata), options())?;
                let types = self.wanted_types(plain.schema());
                self.last = Some((columns, Arc::clone(&types)));
                types
            }
        };
        Ok(ArrowReaderMetadata::try_new(metadata, options().with_schema(types))?)
    }

    /// The file's columns, those with texts in the form that is wanted.
    fn wanted_types(&self, of_file: &Schema) -> SchemaRef {
        let field = |field: &Arc<Field>| match self.schema.field_with_name(field.name()) {
            Ok(wanted)
                if field.data_type() == &DataType::Utf8
                    && wanted.data_type() == &DataType::Utf8View =>
            {
                Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
            }
            _ => Arc::clone(field),
        };
        Arc::new(Schema::new(of_file.fields().iter().map(field).collect::<Vec<_>>()))
    }
}

/// A file that is not there any more was merged or removed since it was listed; others are damaged.
fn unreadable(file: &DayFile, error: &io::Error) -> DataFusionError {
    if error.kind() != io::ErrorKind::NotFound {
        return FileError::of(&file.path, &error);
    }
    let path = file.path.display();
    let text = format!("{path} was merged or removed meanwhile. Try: the same command again");
    DataFusionError::IoError(io::Error::new(error.kind(), text))
}

/// A file that is being read.
pub(super) struct FileBatches {
    date: Arc<str>,
    path: PathBuf,
    bytes: Bytes,
    metadata: ArrowReaderMetadata,
    of_filter: Option<ColumnReader>,
    others: Option<ColumnReader>,
    /// Rows that were looked at.
    at: usize,
}

impl FileBatches {
    /// The next rows that fulfil the filter; none at the end.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) fn next_batch(&mut self, reader: &FileReader) -> Result<Option<RecordBatch>> {
        let next = guarded(|| match &reader.filter {
            Some(filter) => self.next_of(reader, filter),
            None => self.next_of_all(reader),
        });
        let next = next.unwrap_or_else(|panic| Err(DataFusionError::Execution(panic)));
        next.map_err(|error| FileError::of(&self.path, &error))
    }

    fn next_of_all(&mut self, reader: &FileReader) -> Result<Option<RecordBatch>> {
        match self.others(reader)? {
            Some(columns) => Ok(Some(columns.batch(&reader.schema)?)),
            None => Ok(None),
        }
    }

    fn next_of(&mut self, reader: &FileReader, filter: &FileFilter) -> Result<Option<RecordBatch>> {
        loop {
            if self.of_filter.is_none() {
                self.of_filter = Some(self.columns(reader, &filter.columns, 0)?);
            }
            let Some(of_filter) = &mut self.of_filter else { return Ok(None) };
            let Some(columns) = of_filter.next()? else { return Ok(None) };
            let wanted = filter.of(&columns)?;
            let found = wanted.true_count();
            if found == 0 {
                self.others = None;
                self.at += columns.rows;
                continue;
            }
            let others = match reader.others.is_empty() {
                true => None,
                false => self.others(reader)?,
            };
            self.at += columns.rows;
            let all = merge(reader, filter, columns, others).batch(&reader.schema)?;
            let is_all = found == all.num_rows();
            return Ok(Some(if is_all { all } else { filter_record_batch(&all, &wanted)? }));
        }
    }

    /// The columns of the next rows that no filter needs.
    fn others(&mut self, reader: &FileReader) -> Result<Option<Columns>> {
        if self.others.is_none() {
            self.others = Some(self.columns(reader, &reader.others, self.at)?);
        }
        self.others.as_mut().map_or(Ok(None), ColumnReader::next)
    }

    /// A reader of some columns of the wanted schema, from a row on.
    fn columns(&self, reader: &FileReader, columns: &[usize], from: usize) -> Result<ColumnReader> {
        let fields = columns.iter().map(|&at| Arc::clone(&reader.schema.fields()[at])).collect();
        ColumnReader::new(self, fields, from)
    }
}

/// Columns of the filter and the others, in the order of the schema.
fn merge(
    reader: &FileReader,
    filter: &FileFilter,
    of_filter: Columns,
    others: Option<Columns>,
) -> Columns {
    let rows = of_filter.rows;
    let others = others.map(|others| others.arrays).unwrap_or_default();
    let mut placed: Vec<(usize, ArrayRef)> =
        filter.columns.iter().copied().zip(of_filter.arrays).collect();
    placed.extend(reader.others.iter().copied().zip(others));
    placed.sort_by_key(|(at, _)| *at);
    Columns { rows, arrays: placed.into_iter().map(|(_, array)| array).collect() }
}

/// Some columns of a file, piece by piece.
struct ColumnReader {
    /// What is wanted, in this order.
    fields: Vec<Arc<Field>>,
    date: Arc<str>,
    /// Missing where the file has none of the columns.
    reader: Option<ParquetRecordBatchReader>,
    /// Rows that are left.
    left: usize,
}

impl ColumnReader {
    fn new(file: &FileBatches, fields: Vec<Arc<Field>>, from: usize) -> Result<Self> {
        let of_file = file.metadata.schema();
        let places: Vec<usize> =
            fields.iter().filter_map(|field| of_file.index_of(field.name()).ok()).collect();
        let rows = usize::try_from(file.metadata.metadata().file_metadata().num_rows());
        let left = rows.unwrap_or_default().saturating_sub(from);
        let reader = if places.is_empty() {
            None
        } else {
            let mask = ProjectionMask::roots(file.metadata.parquet_schema(), places);
            let (bytes, metadata) = (file.bytes.clone(), file.metadata.clone());
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata);
            let builder = builder.with_projection(mask).with_batch_size(ROWS);
            Some(if from > 0 { builder.with_offset(from) } else { builder }.build()?)
        };
        Ok(Self { fields, date: Arc::clone(&file.date), reader, left })
    }

    fn next(&mut self) -> Result<Option<Columns>> {
        let (rows, batch) = match &mut self.reader {
            None if self.left == 0 => return Ok(None),
            None => (self.left.min(ROWS), None),
            Some(reader) => match reader.next().transpose()? {
                Some(batch) => (batch.num_rows(), Some(batch)),
                None => return Ok(None),
            },
        };
        self.left = self.left.saturating_sub(rows);
        let array = |field: &Arc<Field>| {
            let read = batch.as_ref().and_then(|batch| batch.column_by_name(field.name()));
            match read {
                Some(array) if array.data_type() == field.data_type() => Ok(Arc::clone(array)),
                Some(array) => Ok(cast(array, field.data_type())?),
                None if field.name() == DATE => Ok(repeated(&self.date, rows)),
                None if field.is_nullable() => Ok(new_null_array(field.data_type(), rows)),
                None => Err(DataFusionError::Execution(format!("has no column {}", field.name()))),
            }
        };
        let arrays = self.fields.iter().map(array).collect::<Result<_>>()?;
        Ok(Some(Columns { rows, arrays }))
    }
}

/// A text, as often as there are rows.
fn repeated(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows)))
}
