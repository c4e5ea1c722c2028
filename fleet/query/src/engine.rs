//! DataFusion over the files of a dataset.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext, col};
use futures::StreamExt as _;
use pmuscope_dataset::{DatasetLocation, TABLES, TableInfo};
use pmuscope_store::StoreError;
use tokio::runtime::Runtime;

use crate::damage::{UnreadableFiles, damaged, guarded, unreadable};
use crate::place::FoundDataset;
use crate::rows::ResultRows;
use crate::scan::{DATE, FileError, FolderTable};
use crate::selection::{Selection, Sides, files, source};
use crate::sql::Dialect;
use crate::words::{InWords, SqlMistake};

/// Memory that a question may use before it is written to disk, bytes.
const MEMORY: usize = 1 << 30;

/// The table of stacks, and what it calls them.
const STACKS: &str = "stacks";
const NAMES: [&str; 2] = ["leaf", "leaf_module"];

/// Rows of a table that are kept in memory at most: some 250 bytes each.
const MOST_KEPT: usize = 1 << 20;
/// Files of at most this many bytes are read by our own reader, bytes: deliveries of a host are smaller, merged files larger.
const SMALL: u64 = 2 << 20;
/// Bytes at the end of a file that are read first: what a file says of itself is there.
const END_OF_FILE: usize = 64 << 10;

/// What cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is no dataset.
    #[error(
        "{0} holds no dataset: it has no tables, such as v1/samples. Try: pmuscope fleet import --to {0} FILE"
    )]
    NoDataset(DatasetLocation),
    /// An object store.
    #[error("cannot read {0}")]
    Store(#[from] StoreError),
    /// The operating system.
    #[error("cannot start the query engine: {0}")]
    Start(std::io::Error),
    /// Wrong SQL.
    #[error(transparent)]
    Sql(#[from] SqlMistake),
    /// The engine, or a file that cannot be read.
    #[error("{}", InWords(.0))]
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

/// What our own reader says of a file, where it was that.
fn file_error(error: &DataFusionError) -> Option<&FileError> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<FileError>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// An error of a file where it names one, of the SQL, or of the engine.
fn failed(error: DataFusionError) -> QueryError {
    if let Some(FileError { path, message }) = file_error(&error) {
        return QueryError::Damaged { path: path.clone(), message: message.clone() };
    }
    match SqlMistake::of(&error) {
        Some(mistake) => QueryError::Sql(mistake),
        None => QueryError::Engine(error),
    }
}

/// The same of an error that no file is to blame for.
fn of_sound_files(error: QueryError) -> QueryError {
    match &error {
        QueryError::Engine(engine) => {
            SqlMistake::of_execution(engine).map_or(error, QueryError::Sql)
        }
        _ => error,
    }
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
    dataset: Option<FoundDataset>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens a dataset.
    ///
    /// # Errors
    /// [`QueryError::NoDataset`] if there is none.
    pub fn open(location: &DatasetLocation) -> Result<Self, QueryError> {
        Self::open_reading(location, SMALL)
    }

    /// The same, where files in folders of at most `small` bytes are read by our own reader: of 0, none. The rows are the same.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_reading(location: &DatasetLocation, small: u64) -> Result<Self, QueryError> {
        let dataset = FoundDataset::find(location)?;
        let (runtime, context) = start()?;
        dataset.introduce(&context);
        for table in &TABLES {
            let folder = location.table(table.name);
            let registered = match location {
                DatasetLocation::Folder(_) if small > 0 => {
                    let columns = views(&(table.schema)());
                    let folder = FolderTable::new(folder.into(), columns, small);
                    context.register_table(files(table.name), Arc::new(folder)).map(drop)
                }
                _ => register(&context, table, &[format!("{folder}/")], Files::ByDay),
            };
            registered.map_err(QueryError::Engine)?;
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
        register(&context, table, &files, Files::Any).map_err(QueryError::Engine)?;
        Ok(Self { runtime, context, dataset: None })
    }

    /// The same of files in the order of their table. Rows in that order are read from all of them at once, so that none
    /// has to be sorted.
    ///
    /// # Errors
    /// If the engine cannot be started.
    pub fn of_sorted_files<'a>(
        table: &TableInfo,
        files: impl Iterator<Item = &'a Path>,
    ) -> Result<Self, QueryError> {
        let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
        let (runtime, context) = start_with(|config| {
            // A file of its own for each stream: two of them one after another would not be in order.
            config.options_mut().execution.target_partitions = files.len().max(1);
            config.options_mut().optimizer.repartition_file_scans = false;
        })?;
        register(&context, table, &files, Files::Sorted).map_err(QueryError::Engine)?;
        Ok(Self { runtime, context, dataset: None })
    }

    /// Makes the views that questions read show this selection; for all later questions.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn select(&self, selection: &Selection, sides: Option<&Sides>) -> Result<(), QueryError> {
        let source = |table: &str| self.source(table);
        for view in selection.selected(Dialect::DataFusion, &source, sides) {
            self.run(&view)?;
        }
        if self.is_kept(STACKS) {
            let rows = format!("AS SELECT stack_id, {} FROM {}", NAMES.join(", "), kept(STACKS));
            for statement in Dialect::DataFusion.view(STACKS, &rows) {
                self.run(&statement)?;
            }
        }
        Ok(())
    }

    /// Keeps what was recorded in a selection, and the sums of its services, in memory: all questions of a command read these.
    /// For all later selections that are no wider, whatever their event.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn keep_sums(&self, selection: &Selection) -> Result<(), QueryError> {
        let is_kept = |table: &&TableInfo| matches!(table.name, "services" | "intervals");
        TABLES
            .iter()
            .filter(is_kept)
            .try_for_each(|table| self.keep(table.name, &selection.rows_of(table)))
    }

    /// Keeps the name of each stack of a selection in memory, for questions about functions of this selection: every file has
    /// the stacks of its own samples, with or without names.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn keep_stacks(&self, selection: &Selection) -> Result<(), QueryError> {
        let Some(stacks) = TABLES.iter().find(|table| table.name == STACKS) else {
            return Ok(());
        };
        let of = selection.rows_of(stacks);
        let names = NAMES.map(|name| format!("max({name}) AS {name}")).join(", ");
        let sql = format!("SELECT stack_id, {names} FROM ({of}) AS stacks GROUP BY stack_id");
        self.keep(STACKS, &sql)
    }

    /// Reads rows of a table into memory, where they are not too many, and lets questions read them there: many small files
    /// take longer to open than to read. `sql` is of the table's files, and has all columns that a view
    /// of them shows.
    pub(crate) fn keep(&self, table: &str, sql: &str) -> Result<(), QueryError> {
        let answer = self.run(&format!("SELECT * FROM ({sql}) AS kept LIMIT {}", MOST_KEPT + 1))?;
        let rows: usize = answer.batches.iter().map(RecordBatch::num_rows).sum();
        let name = kept(table);
        // Of an earlier selection.
        self.context.deregister_table(&name).map_err(QueryError::Engine)?;
        if rows > MOST_KEPT {
            return Ok(());
        }
        let rows = MemTable::try_new(answer.schema, vec![answer.batches]);
        let rows = Arc::new(rows.map_err(QueryError::Engine)?);
        self.context.register_table(&name, rows).map_err(QueryError::Engine)?;
        Ok(())
    }

    /// Where a view of a table has its rows from.
    fn source(&self, table: &str) -> String {
        let has_services = self.dataset.as_ref().is_none_or(|dataset| dataset.has("services"));
        let has_all = table != STACKS && (table != "services" || has_services);
        if has_all && self.is_kept(table) { kept(table) } else { source(table, has_services) }
    }

    fn is_kept(&self, table: &str) -> bool {
        self.context.table_exist(kept(table)).unwrap_or_default()
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
        let error = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => match failed(error) {
                error @ QueryError::Engine(_) => error,
                known => return Err(known),
            },
            Err(message) => QueryError::Panic(message),
        };
        // The engine does not say which file it was.
        match self.dataset.as_ref().and_then(|dataset| damaged(dataset.location())) {
            Some(path) => Err(QueryError::Damaged { path, message: error.to_string() }),
            None => Err(of_sound_files(error)),
        }
    }

    /// Files of the dataset that cannot be read, whatever is asked: of the days of a selection, by their ends. Of many files
    /// the latest. None of an object store, as all would be fetched.
    #[must_use]
    pub fn unreadable_files(&self, selection: &Selection) -> UnreadableFiles {
        match self.dataset.as_ref().map(FoundDataset::location) {
            Some(location) => unreadable(location, &selection.days()),
            None => UnreadableFiles::default(),
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
        let failed = |error| E::from(failed(error));
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

    /// The same with rows by the names of their columns.
    ///
    /// # Errors
    /// As [`Engine::each`].
    pub fn each_rows<E: From<QueryError>>(
        &self,
        sql: &str,
        mut take: impl FnMut(&ResultRows) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(sql, |batch| {
            let (schema, batches) = (batch.schema(), vec![batch.clone()]);
            take(&ResultRows::new(QueryAnswer { schema, batches }))
        })
    }

    /// The rows of an answer, by the names of their columns.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn rows(&self, sql: &str) -> Result<ResultRows, QueryError> {
        Ok(ResultRows::new(self.run(sql)?))
    }
}

/// The name of a table's rows that are kept in memory.
fn kept(table: &str) -> String {
    format!("{table}_kept")
}

/// The engine, with nothing in it.
fn start() -> Result<(Runtime, SessionContext), QueryError> {
    start_with(|_| {})
}

/// The same with other settings.
fn start_with(
    change: impl FnOnce(&mut SessionConfig),
) -> Result<(Runtime, SessionContext), QueryError> {
    let runtime = Runtime::new().map_err(QueryError::Start)?;
    // Each part of a plan gets its share and writes to disk beyond it, rather than the first one all.
    let pool = Arc::new(FairSpillPool::new(MEMORY));
    let limits = RuntimeEnvBuilder::new().with_memory_pool(pool);
    let limits = limits.build_arc().map_err(QueryError::Engine)?;
    let mut config = SessionConfig::new().with_information_schema(true);
    // Errors say where in the text.
    config.options_mut().sql_parser.collect_spans = true;
    config.options_mut().execution.parquet.pushdown_filters = true;
    config.options_mut().execution.parquet.metadata_size_hint = Some(END_OF_FILE);
    // Statistics of thousands of files take longer to collect than a better plan saves; files are pruned when they are read.
    config.options_mut().execution.collect_statistics = false;
    // Off: with several threads it drops rows that another column of the same answer needs (apache/datafusion#24816),
    // and the least of a column that some files lack (#25147).
    config.options_mut().optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    change(&mut config);
    let context = SessionContext::new_with_config_rt(config, limits);
    Ok((runtime, context))
}

/// What a table is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    /// Folders with a folder for each day.
    ByDay,
    /// Files.
    Any,
    /// Files whose rows are in the order of their table.
    Sorted,
}

/// Makes a table of folders or files known, with the columns of this version: a file that lacks one
/// has no values there. A folder that is not there holds nothing.
fn register(
    context: &SessionContext,
    table: &TableInfo,
    paths: &[String],
    form: Files,
) -> Result<(), DataFusionError> {
    let urls = paths.iter().map(ListingTableUrl::parse).collect::<Result<_, _>>()?;
    let days = (form == Files::ByDay).then(|| (DATE.to_owned(), DataType::Utf8));
    let order = table.sorted_by.iter().map(|column| col(*column).sort(true, false)).collect();
    let orders = if form == Files::Sorted { vec![order] } else { Vec::new() };
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_file_sort_order(orders)
        .with_table_partition_cols(days.into_iter().collect());
    let config = ListingTableConfig::new_with_multi_paths(urls)
        .with_listing_options(options)
        .with_schema(match form {
            Files::ByDay => views(&(table.schema)()),
            // Rows that are sorted and written again: each view counts for all of the memory that it shares.
            Files::Any | Files::Sorted => (table.schema)(),
        });
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
