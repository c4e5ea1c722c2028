//! DataFusion over the files of a dataset.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use pmuscope_dataset::{Dataset, TABLES, TableInfo};
use tokio::runtime::Runtime;

use crate::rows::ResultRows;
use crate::selection::{Selection, Sides, files};
use crate::sql::Dialect;

/// Memory that a question may use before it is written to disk, bytes.
const MEMORY: usize = 1 << 30;

/// What cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is no dataset.
    #[error(
        "{0} holds no dataset: there is no folder v1/samples in it. Try: pmuscope fleet import --to {0} FILE"
    )]
    NoDataset(PathBuf),
    /// The operating system.
    #[error("cannot start the query engine: {0}")]
    Start(std::io::Error),
    /// The engine: wrong SQL, or a file that cannot be read.
    #[error("{}", message(.0))]
    Engine(DataFusionError),
    /// A result has another form than its question asks for.
    #[error("the answer has no column {column} of type {wanted}")]
    Column {
        /// The column.
        column: String,
        /// What it should be.
        wanted: &'static str,
    },
}

/// What an error of the engine says, without what it is for its developers.
fn message(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    text.split("\n\nThis issue was likely caused by a bug").next().unwrap_or_default().to_owned()
}

/// Rows of an answer, as the engine has them.
#[derive(Debug, Clone)]
pub struct QueryAnswer {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

/// A dataset that questions can be put to.
pub struct Engine {
    runtime: Runtime,
    context: SessionContext,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the dataset in a folder.
    ///
    /// # Errors
    /// [`QueryError::NoDataset`] if there is none.
    pub fn open(root: &Path) -> Result<Self, QueryError> {
        let dataset = Dataset::new(root);
        if !dataset.folder("samples").is_dir() {
            return Err(QueryError::NoDataset(root.to_owned()));
        }
        let runtime = Runtime::new().map_err(QueryError::Start)?;
        let limits = RuntimeEnvBuilder::new().with_memory_limit(MEMORY, 1.0);
        let limits = limits.build_arc().map_err(QueryError::Engine)?;
        let mut config = SessionConfig::new().with_information_schema(true);
        config.options_mut().execution.parquet.pushdown_filters = true;
        // Off: with several threads it drops rows that another column of the same answer needs (apache/datafusion#24816),
        // and the least of a column that some files lack (#25147).
        config.options_mut().optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        let context = SessionContext::new_with_config_rt(config, limits);
        for table in &TABLES {
            register(&context, &dataset, table).map_err(QueryError::Engine)?;
        }
        Ok(Self { runtime, context })
    }

    /// Makes the views that questions read show this selection; for all later questions.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn select(&self, selection: &Selection, sides: Option<&Sides>) -> Result<(), QueryError> {
        for view in selection.selected(Dialect::DataFusion, sides) {
            self.run(&view)?;
        }
        Ok(())
    }

    /// Answers a question in SQL.
    ///
    /// # Errors
    /// Wrong SQL, or files that cannot be read.
    pub fn run(&self, sql: &str) -> Result<QueryAnswer, QueryError> {
        let answer = self.runtime.block_on(async {
            let frame = self.context.sql(sql).await?;
            let schema = Arc::new(frame.schema().as_arrow().clone());
            Ok(QueryAnswer { schema, batches: frame.collect().await? })
        });
        answer.map_err(QueryError::Engine)
    }

    /// The rows of an answer, by the names of their columns.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn rows(&self, sql: &str) -> Result<ResultRows, QueryError> {
        Ok(ResultRows::new(self.run(sql)?))
    }
}

/// Makes a table known, with the columns of this version: a file that lacks one has no values there.
fn register(
    context: &SessionContext,
    dataset: &Dataset,
    table: &TableInfo,
) -> Result<(), DataFusionError> {
    let folder = dataset.folder(table.name);
    // A table that nobody has written yet is empty, which takes a folder that is there.
    let url = ListingTableUrl::parse(format!("{}/", folder.display()))?;
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(vec![("date".to_owned(), DataType::Utf8)]);
    let config = ListingTableConfig::new(url)
        .with_listing_options(options)
        .with_schema(views(&(table.schema)()));
    context.register_table(files(table.name), Arc::new(ListingTable::try_new(config)?))?;
    Ok(())
}

/// The same columns, with texts in the form that the engine compares fastest.
fn views(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 => field.as_ref().clone().with_data_type(DataType::Utf8View),
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}
