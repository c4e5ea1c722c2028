//! Bins that wait for delivery, on disk.
//!
//! A spool is itself a dataset, with a bound. Files are delivered in the order of their tables: `intervals` last, by which
//! readers know that all is there. Where it is full the oldest samples are dropped, with their stacks and frames; intervals,
//! hosts, and what the agent says of itself stay, so that what is missing can be seen.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow::array::{Array as _, Int64Array};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pmuscope_dataset::{AgentRow, Dataset, DatasetError, Rows, Timestamp};
use rustix::fs::{FlockOperation, flock};

use crate::sink::{FolderSink, SinkError};

/// Tables in the order of delivery.
const ORDER: [&str; 6] = ["frames", "stacks", "hosts", "agent", "samples", "intervals"];
/// Tables that may lose files.
const DROPPABLE: [&str; 3] = ["samples", "stacks", "frames"];

/// What is wrong with a spool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// A file or folder.
    #[error("cannot use the spool {path}: {source}")]
    Io {
        /// It.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another agent has it.
    #[error("the spool {0} is in use by another agent. Try: another folder, or end that agent")]
    InUse(PathBuf),
    /// Rows cannot be written.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
}

/// Files that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A folder of files that wait.
#[derive(Debug)]
pub struct Spool {
    root: PathBuf,
    dataset: Dataset,
    max_bytes: u64,
    /// Kept open: the lock ends with it, however the agent ends.
    _lock: File,
}

/// A file that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingFile {
    /// Day and name: older bins of a host first.
    order: (String, String),
    /// Position of its table in [`ORDER`].
    table: usize,
    /// Below the root.
    path: PathBuf,
    bytes: u64,
}

impl Spool {
    /// Opens the folder, and makes it if it is not there; removes what an agent that was killed left unfinished.
    ///
    /// # Errors
    /// [`SpoolError`] if it cannot be used, or another agent uses it.
    pub fn open(root: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        let failed = |source| SpoolError::Io { path: root.to_owned(), source };
        fs::create_dir_all(root).map_err(failed)?;
        let lock = File::create(root.join("lock")).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SpoolError::InUse(root.to_owned())),
            Err(error) => return Err(failed(error.into())),
        }
        let dataset = Dataset::new(root);
        let spool = Self { root: root.to_owned(), dataset, max_bytes, _lock: lock };
        spool.remove_unfinished()?;
        Ok(spool)
    }

    /// Adds a bin: rows of all tables, under a name that no other bin has.
    ///
    /// # Errors
    /// Rows that cannot be written.
    pub fn add(
        &self,
        rows: Rows,
        agent: AgentRow,
        when: Timestamp,
        name: &str,
    ) -> Result<(), SpoolError> {
        self.dataset.write(vec![agent], when, name)?;
        Ok(self.dataset.write_all(rows, when, name)?)
    }

    /// Delivers all that waits, the oldest bin first; returns how many files were. Stops where the sink cannot be
    /// written; a bin with a name that is taken waits while others are delivered.
    ///
    /// # Errors
    /// The spool cannot be read; or the sink's last error, in the inner result, with what was delivered.
    pub fn deliver(&self, sink: &FolderSink) -> Result<(u64, Result<(), SinkError>), SpoolError> {
        let (mut delivered, mut result) = (0, Ok(()));
        for bin in self.files()?.chunk_by(|one, other| one.order == other.order) {
            for file in bin {
                let path = self.root.join(&file.path);
                result = match sink.deliver(&path, &file.path) {
                    Ok(()) => result,
                    Err(error @ SinkError::Taken(_)) => {
                        result = Err(error);
                        break;
                    }
                    Err(error) => return Ok((delivered, Err(error))),
                };
                remove(path)?;
                delivered += 1;
            }
        }
        Ok((delivered, result))
    }

    /// Drops the oldest samples until the spool is within its bound; returns how many samples these were.
    ///
    /// # Errors
    /// The spool cannot be read or written.
    pub fn shrink(&self) -> Result<u64, SpoolError> {
        self.shrink_to(self.max_bytes)
    }

    /// Drops the older half of what waits; returns how many samples these were.
    ///
    /// # Errors
    /// The spool cannot be read or written.
    pub fn make_room(&self) -> Result<u64, SpoolError> {
        let bytes = self.waiting()?.bytes;
        self.shrink_to(bytes / 2)
    }

    fn shrink_to(&self, max_bytes: u64) -> Result<u64, SpoolError> {
        let files = self.files()?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut dropped = 0;
        for bin in files.chunk_by(|one, other| one.order == other.order) {
            if bytes <= max_bytes {
                break;
            }
            for file in bin.iter().filter(|file| DROPPABLE.contains(&ORDER[file.table])) {
                let path = self.root.join(&file.path);
                if ORDER[file.table] == "samples" {
                    // A file that cannot be read would not have been of use either.
                    dropped += samples_in(&path).unwrap_or(0);
                }
                remove(path)?;
                bytes -= file.bytes;
            }
        }
        Ok(dropped)
    }

    /// Removes all files of a bin that could not be written as a whole.
    ///
    /// # Errors
    /// The spool cannot be read or written.
    pub fn forget(&self, name: &str) -> Result<(), SpoolError> {
        let is_of = |file: &&WaitingFile| file.order.1.strip_suffix(".parquet") == Some(name);
        self.files()?.iter().filter(is_of).try_for_each(|file| remove(self.root.join(&file.path)))
    }

    /// What waits.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn waiting(&self) -> Result<Backlog, SpoolError> {
        let files = self.files()?;
        let bytes = files.iter().map(|file| file.bytes).sum();
        Ok(Backlog { files: files.len() as u64, bytes })
    }

    /// All files, the oldest bin first, each bin in the order of delivery.
    fn files(&self) -> Result<Vec<WaitingFile>, SpoolError> {
        let mut found = Vec::new();
        for (at, table) in ORDER.iter().enumerate() {
            let folder = self.dataset.folder(table);
            for day in names(&folder)? {
                for name in names(&folder.join(&day))? {
                    let path = folder.join(&day).join(&name);
                    let Ok(about) = fs::metadata(&path) else { continue };
                    if !name.starts_with('.') && name.ends_with(".parquet") {
                        let path = path.strip_prefix(&self.root).unwrap_or(&path).to_owned();
                        let order = (day.clone(), name);
                        found.push(WaitingFile { order, table: at, path, bytes: about.len() });
                    }
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn remove_unfinished(&self) -> Result<(), SpoolError> {
        for table in ORDER {
            let folder = self.dataset.folder(table);
            for day in names(&folder)? {
                let day = folder.join(day);
                for name in names(&day)?.into_iter().filter(|name| name.starts_with('.')) {
                    remove(day.join(name))?;
                }
            }
        }
        // Intervals are written last and delivered last: a bin without them was never complete.
        let is_last = |file: &WaitingFile| ORDER[file.table] == "intervals";
        for bin in self.files()?.chunk_by(|one, other| one.order == other.order) {
            if !bin.iter().any(is_last) {
                bin.iter().try_for_each(|file| remove(self.root.join(&file.path)))?;
            }
        }
        Ok(())
    }
}

fn remove(path: PathBuf) -> Result<(), SpoolError> {
    fs::remove_file(&path).map_err(|source| SpoolError::Io { path, source })
}

/// Names in a folder; none where it is not there.
fn names(folder: &Path) -> Result<Vec<String>, SpoolError> {
    let failed = |source| SpoolError::Io { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<io::Result<_>>().map_err(failed)
}

/// The sum of the column `samples` of a file.
fn samples_in(path: &Path) -> Option<u64> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).ok()?).ok()?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), ["samples"]);
    let mut sum: u64 = 0;
    for batch in builder.with_projection(mask).build().ok()? {
        let batch = batch.ok()?;
        let values = batch.column(0).as_any().downcast_ref::<Int64Array>()?;
        let one = |at: usize| u64::try_from(values.value(at)).unwrap_or(0);
        sum += (0..values.len()).map(one).sum::<u64>();
    }
    Some(sum)
}

#[cfg(test)]
mod tests;
