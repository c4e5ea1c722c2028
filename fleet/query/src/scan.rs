//! Tables in folders: many small files, as agents deliver them, and few large ones, as compaction leaves them.
//!
//! ```text
//!                                         ┌─ small: `SmallFiles`, our own reader ────────────┐
//!  v1/TABLE/date=…/*.parquet ─► the days ─┤                                                  ├─► filters that are left, sums
//!   one listing per engine      asked for └─ large: the engine's reader (pages are skipped) ─┘   by the engine
//! ```
//! Opening a small file takes the engine's reader longer than reading it (docs/benchmarks.md, "Size and questions"). What is
//! asked of the rows stays the engine's, and both readers give it the same rows (`tests/scan.rs`).

mod read;
mod small;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::datasource::file_format::FileFormat as _;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::helpers::{expr_applicable_for_cols, filter_partitioned_file};
use datafusion::datasource::listing::{ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchemaBuilder;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;
use pmuscope_dataset::{DayFile, day_files};

pub(crate) use read::FileError;
use small::SmallFiles;

/// The column that folders have: the day.
pub(crate) const DATE: &str = "date";

/// A table in a folder.
#[derive(Debug)]
pub(crate) struct FolderTable {
    folder: PathBuf,
    /// Columns of the files.
    of_files: SchemaRef,
    /// The same and the day.
    schema: SchemaRef,
    /// Files of at most this many bytes are small.
    small: u64,
    /// Listed once: all questions of an engine are about the same files.
    files: OnceLock<Arc<[DayFile]>>,
}

impl FolderTable {
    /// The table in `folder` with these columns; files of at most `small` bytes are read by our own reader.
    pub(crate) fn new(folder: PathBuf, of_files: SchemaRef, small: u64) -> Self {
        let day = Arc::new(Field::new(DATE, DataType::Utf8, false));
        let fields: Vec<_> = of_files.fields().iter().cloned().chain([day]).collect();
        let schema = Arc::new(Schema::new(fields));
        // The engine has paths from the root. Without a working folder there is nothing that a relative one could be of.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Self { folder, of_files, schema, small, files: OnceLock::new() }
    }

    fn files(&self) -> Result<Arc<[DayFile]>> {
        if let Some(files) = self.files.get() {
            return Ok(Arc::clone(files));
        }
        let found = day_files(&self.folder).map_err(|(folder, error)| {
            let text = format!("cannot read {}: {error}", folder.display());
            DataFusionError::IoError(std::io::Error::new(error.kind(), text))
        })?;
        Ok(Arc::clone(self.files.get_or_init(|| found.into())))
    }

    /// Files of days that these filters allow, which are about days only.
    fn files_of_days(&self, filters: &[Expr]) -> Result<Vec<DayFile>> {
        let schema = Schema::new(vec![Field::new(DATE, DataType::Utf8, true)]);
        let schema = DFSchema::try_from(schema)?;
        let mut kept = Vec::new();
        // The last day that was looked at, and whether it is asked for: files are in the order of days.
        let mut last: Option<(Arc<str>, bool)> = None;
        for file in self.files()?.iter() {
            let is_asked = match &last {
                Some((date, is_asked)) if *date == file.date => *is_asked,
                _ => filter_partitioned_file(engine_file(file)?, filters, &schema)?.is_some(),
            };
            last = Some((Arc::clone(&file.date), is_asked));
            if is_asked {
                kept.push(file.clone());
            }
        }
        Ok(kept)
    }

    /// The engine's own reader of these files.
    async fn large(
        &self,
        state: &dyn Session,
        files: &[DayFile],
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let day = Arc::new(Field::new(DATE, DataType::Utf8, false));
        let schema = TableSchemaBuilder::from(&self.of_files).with_table_partition_cols(vec![day]);
        // As the session has them.
        let options = state.default_table_options().parquet;
        let format = ParquetFormat::default().with_options(options);
        let url = ListingTableUrl::parse(self.folder.to_string_lossy())?.object_store();
        let files = files.iter().map(engine_file).collect::<Result<_>>()?;
        let groups = FileGroup::new(files).split_files(state.config().target_partitions());
        let config = FileScanConfigBuilder::new(url, format.file_source(schema.build()))
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        format.create_physical_plan(state, config).await
    }
}

/// A file as the engine has it.
fn engine_file(file: &DayFile) -> Result<PartitionedFile> {
    let meta = ObjectMeta {
        location: StorePath::from_absolute_path(&file.path)?,
        last_modified: chrono::DateTime::UNIX_EPOCH,
        size: file.bytes,
        e_tag: None,
        version: None,
    };
    let mut of_engine = PartitionedFile::from(meta);
    of_engine.partition_values = vec![ScalarValue::Utf8(Some(file.date.to_string()))];
    Ok(of_engine)
}

/// Whether a filter is about days only.
fn is_of_days(filter: &Expr) -> bool {
    expr_applicable_for_cols(&[DATE], filter)
}

#[async_trait]
impl TableProvider for FolderTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (of_days, others): (Vec<Expr>, Vec<Expr>) =
            filters.iter().cloned().partition(is_of_days);
        let files = self.files_of_days(&of_days)?;
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let (small, large): (Vec<DayFile>, Vec<DayFile>) =
            files.into_iter().partition(|file| file.bytes <= self.small);
        let mut plans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        if !small.is_empty() {
            let partitions = state.config().target_partitions();
            plans.push(Arc::new(SmallFiles::new(small, Arc::clone(&schema), partitions)));
        }
        if !large.is_empty() {
            let limit = limit.filter(|_| others.is_empty());
            plans.push(self.large(state, &large, projection, limit).await?);
        }
        match plans.len() {
            0 => Ok(Arc::new(EmptyExec::new(schema))),
            1 => Ok(plans.remove(0)),
            _ => UnionExec::try_new(plans),
        }
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let how = |filter: &&Expr| match is_of_days(filter) {
            true => TableProviderFilterPushDown::Exact,
            // Some readers skip what they can; whoever asks looks again, or gives the filter to the reader as a whole.
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(how).collect())
    }
}
