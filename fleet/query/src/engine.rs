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
use futures::StreamExt as _;
use pmuscope_dataset::{Dataset, TABLES, TableInfo};
use tokio::runtime::Runtime;

use crate::damage::{damaged, guarded};
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
    /// A file of the dataset.
    #[error(
        "{path} cannot be read: {message}. Try: move it away; what else was recorded then is not in the answer"
    )]
    Damaged {
        /// It.
        path: PathBuf,
        /// What the engine says.
        message: String,
    },
    /// The engine gave up where it should have failed.
    #[error("the query engine failed: {0}. A file of the dataset may be damaged")]
    Panic(String),
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

/// Whether it is about what was read, and not about what was asked.
fn is_of_files(error: &DataFusionError) -> bool {
    let root = error.find_root();
    !matches!(
        root,
        DataFusionError::SQL(..) | DataFusionError::SchemaError(..) | DataFusionError::Plan(_)
    )
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
    /// What it has, where that is a dataset.
    dataset: Option<Dataset>,
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
        let (runtime, context) = start()?;
        for table in &TABLES {
            let folder = format!("{}/", dataset.folder(table.name).display());
            register(&context, table, &[folder], true).map_err(QueryError::Engine)?;
        }
        Ok(Self { runtime, context, dataset: Some(dataset) })
    }

    /// One that knows these files of one table, as `TABLE_files`, and nothing else.
    ///
    /// # Errors
    /// If the engine cannot be started.
    pub fn of_files<'a>(
        table: &TableInfo,
        files: impl Iterator<Item = &'a Path>,
    ) -> Result<Self, QueryError> {
        let (runtime, context) = start()?;
        let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
        register(&context, table, &files, false).map_err(QueryError::Engine)?;
        Ok(Self { runtime, context, dataset: None })
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
        let answer = guarded(|| {
            self.runtime.block_on(async {
                let frame = self.context.sql(sql).await?;
                let schema = Arc::new(frame.schema().as_arrow().clone());
                Ok(QueryAnswer { schema, batches: frame.collect().await? })
            })
        });
        let failed = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if !is_of_files(&error) => return Err(QueryError::Engine(error)),
            Ok(Err(error)) => QueryError::Engine(error),
            Err(message) => QueryError::Panic(message),
        };
        // The engine does not say which file it was.
        match self.dataset.as_ref().and_then(damaged) {
            Some(path) => Err(QueryError::Damaged { path, message: failed.to_string() }),
            None => Err(failed),
        }
    }

    /// Answers a question in SQL piece by piece: answers that are larger than memory.
    ///
    /// # Errors
    /// As [`Engine::run`], and those of `take`.
    pub fn each<E: From<QueryError>>(
        &self,
        sql: &str,
        mut take: impl FnMut(&RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| E::from(QueryError::Engine(error));
        let done = guarded(|| {
            self.runtime.block_on(async {
                let frame = self.context.sql(sql).await.map_err(failed)?;
                let mut answer = frame.execute_stream().await.map_err(failed)?;
                while let Some(batch) = answer.next().await {
                    take(&batch.map_err(failed)?)?;
                }
                Ok(())
            })
        });
        done.unwrap_or_else(|message| Err(QueryError::Panic(message).into()))
    }

    /// The rows of an answer, by the names of their columns.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn rows(&self, sql: &str) -> Result<ResultRows, QueryError> {
        Ok(ResultRows::new(self.run(sql)?))
    }
}

/// The engine, with nothing in it.
fn start() -> Result<(Runtime, SessionContext), QueryError> {
    let runtime = Runtime::new().map_err(QueryError::Start)?;
    let limits = RuntimeEnvBuilder::new().with_memory_limit(MEMORY, 1.0);
    let limits = limits.build_arc().map_err(QueryError::Engine)?;
    let mut config = SessionConfig::new().with_information_schema(true);
    config.options_mut().execution.parquet.pushdown_filters = true;
    // Off: with several threads it drops rows that another column of the same answer needs (apache/datafusion#24816),
    // and the least of a column that some files lack (#25147).
    config.options_mut().optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let context = SessionContext::new_with_config_rt(config, limits);
    Ok((runtime, context))
}

/// Makes a table of folders, `by_day` or not, or of files known, with the columns of this version: a file that lacks one
/// has no values there. A folder that is not there holds nothing.
fn register(
    context: &SessionContext,
    table: &TableInfo,
    paths: &[String],
    by_day: bool,
) -> Result<(), DataFusionError> {
    let urls = paths.iter().map(ListingTableUrl::parse).collect::<Result<_, _>>()?;
    let days = by_day.then(|| ("date".to_owned(), DataType::Utf8));
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(days.into_iter().collect());
    let config = ListingTableConfig::new_with_multi_paths(urls)
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
