//! Keeps a dataset small: merges the many files of past days into few, and removes days that nobody wants any more.
//!
//! ```text
//!  v1/samples/date=2026-11-20/web-1-….parquet   ┐          v1/samples/date=2026-11-20/merged-0000.parquet
//!                             web-1-….parquet   ├─ merge ─►
//!                             web-2-….parquet   ┘          bins of an hour, each stack once
//! ```
//! Sums stay the same: of hosts, services and stacks. Times become coarser, by the length of a bin. Runs of benchmarks have no
//! bins: each stays as it is.
//!
//! Readers see the old files of a table's day or the new ones, never both and never none: the two folders change places
//! in one step (renameat2 with `RENAME_EXCHANGE`). Files that were delivered in the meantime are moved over. Killed at any
//! moment, the next run finishes what was begun or forgets it.
//!
//! An agent that was killed between a delivery and its note of it delivers once more; a file with that name is refused
//! as long as it is there. Only days are merged that no agent's spool can still hold.

mod folder;
mod merge;
mod pieces;

use std::path::{Path, PathBuf};

use pmuscope_dataset::{Dataset, DatasetError, TABLES, TableInfo};
use pmuscope_query::{Engine, QueryError};

pub use folder::Day;

use crate::folder::{Lock, Swap, TableFile};

/// What cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A file or folder.
    #[error("cannot use {path}: {source}")]
    Io {
        /// It.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another process is at it.
    #[error("{0} is being compacted by another process. Try: wait until it has ended")]
    InUse(PathBuf),
    /// The file system lacks the step that all depends on.
    #[error(
        "the file system of {0} cannot exchange two folders in one step, as most network file systems cannot. Try: run this on \
         the server that has the disk"
    )]
    NoExchange(PathBuf),
    /// Files cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Files cannot be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Merged rows do not have the columns of their table.
    #[error("cannot merge {table}: {source}")]
    Columns {
        /// The table.
        table: &'static str,
        /// The cause.
        source: arrow::error::ArrowError,
    },
}

/// What was merged of a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Merged {
    /// Files before.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files after.
    pub files_after: usize,
    /// Their bytes.
    pub bytes_after: u64,
}

impl std::ops::AddAssign for Merged {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.files_after += other.files_after;
        self.bytes_after += other.bytes_after;
    }
}

/// A table of a day that is merged, and has to take the place of what it was.
struct MergedTable {
    swap: Swap,
    inputs: Vec<TableFile>,
    merged: Merged,
}

/// A dataset that nobody else compacts at the same time.
#[derive(Debug)]
pub struct Compaction {
    root: PathBuf,
    dataset: Dataset,
    _lock: Lock,
}

impl Compaction {
    /// Takes the dataset in a folder, and finishes what a killed process has begun.
    ///
    /// # Errors
    /// If there is none, or another process is at it.
    pub fn open(root: &Path) -> Result<Self, CompactionError> {
        let dataset = Dataset::new(root);
        if !TABLES.iter().any(|table| dataset.folder(table.name).is_dir()) {
            return Err(QueryError::NoDataset(root.into()).into());
        }
        let lock = Lock::take(root)?;
        let compaction = Self { root: root.to_owned(), dataset, _lock: lock };
        for table in &TABLES {
            folder::recover(root, &compaction.dataset, table.name)?;
        }
        Ok(compaction)
    }

    /// The days that any table has, in order.
    ///
    /// # Errors
    /// Folders that cannot be read.
    pub fn days(&self) -> Result<Vec<Day>, CompactionError> {
        let mut days = Vec::new();
        for table in &TABLES {
            days.extend(folder::days(&self.dataset.folder(table.name))?);
        }
        days.sort_unstable();
        days.dedup();
        Ok(days)
    }

    /// Merges the files of a day, all tables; bins become `bin_us` long. A table with one file or none stays as it is.
    /// Tables change one right after another, when all are merged: questions join them by bin.
    ///
    /// # Errors
    /// Files that cannot be read or written; nothing has changed then.
    pub fn merge(&self, day: &Day, bin_us: i64) -> Result<Merged, CompactionError> {
        let mut ready = Vec::new();
        // Stacks first: a sample's stack is there whatever was exchanged already.
        for table in TABLES.iter().rev() {
            ready.extend(self.merge_table(table, day, bin_us)?);
        }
        let mut all = Merged::default();
        for MergedTable { swap, inputs, merged } in ready {
            swap.finish(&inputs)?;
            all += merged;
        }
        Ok(all)
    }

    /// Merges the files of a table into a folder that nobody sees yet.
    fn merge_table(
        &self,
        table: &TableInfo,
        day: &Day,
        bin_us: i64,
    ) -> Result<Option<MergedTable>, CompactionError> {
        let own = self.dataset.folder(table.name).join(day.folder());
        let inputs = folder::files(&own)?;
        if inputs.iter().all(TableFile::is_merged) {
            return Ok(None);
        }
        let swap = Swap::begin(&self.root, table.name, day, own)?;
        let files: Vec<&Path> = inputs.iter().map(|file| file.path.as_path()).collect();
        let written = match table.name {
            // Each host and stack has its own; of all other tables few rows are left.
            "samples" => pieces::merge_in_pieces(table, &files, bin_us, swap.folder())?,
            _ => {
                let engine = Engine::of_files(table, files.into_iter())?;
                merge::merge(&engine, table, bin_us, swap.folder())?
            }
        };
        let merged = Merged {
            files: inputs.len(),
            bytes: inputs.iter().map(|file| file.bytes).sum(),
            files_after: written.len(),
            bytes_after: written.iter().sum(),
        };
        Ok(Some(MergedTable { swap, inputs, merged }))
    }

    /// Removes a day, all tables.
    ///
    /// # Errors
    /// Folders that cannot be removed.
    pub fn remove(&self, day: &Day) -> Result<Merged, CompactionError> {
        let mut all = Merged::default();
        for table in &TABLES {
            let own = self.dataset.folder(table.name).join(day.folder());
            let files = folder::files(&own)?;
            let bytes = files.iter().map(|file| file.bytes).sum();
            all += Merged { files: files.len(), bytes, ..Merged::default() };
            folder::discard(&self.root, table.name, &own)?;
        }
        Ok(all)
    }
}
