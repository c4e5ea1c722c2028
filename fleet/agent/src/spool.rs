//! Bins that wait for delivery, on disk.
//!
//! ```text
//!  bin 1   frames  stacks  hosts  agent  samples  intervals ─┬─► sink 1   each file once, the oldest bin first
//!  bin 2   frames  stacks  …                                 └─► sink 2   a file is removed when all sinks have it
//! ```
//! A spool is itself a dataset, with a bound. Files are delivered in the order of their tables: `intervals` last, by which
//! readers know that all is there. Where it is full the oldest samples are dropped, with their stacks and frames; intervals,
//! hosts, and what the agent says of itself stay, so that what is missing can be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow::array::{Array as _, Int64Array};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pmuscope_dataset::{AgentRow, Dataset, DatasetError, DatasetFile, Rows, Timestamp};
use pmuscope_delivery::{FileSink, SinkError};
use rustix::fs::{FlockOperation, flock};

/// Tables that may lose files.
const DROPPABLE: [&str; 8] =
    ["samples", "services", "waits", "windows", "counts", "locality", "stacks", "frames"];

/// The folder of a dataset in the making.
const SCRATCH: &str = "scratch";

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

/// What was delivered.
#[derive(Debug, Default)]
pub struct Delivery {
    /// Files that all sinks have now.
    pub files: u64,
    /// Why others have not: the last error of each sink that had one, by its number.
    pub errors: BTreeMap<usize, SinkError>,
}

/// What a sink gets, while files are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SinkState {
    /// The next file.
    Open,
    /// The next bin: a file of this one could not be delivered, and readers take the last one for the end of a whole.
    NextBin,
    /// Nothing: it cannot be written.
    Closed,
}

impl SinkState {
    fn begin_bin(&mut self) {
        if *self == Self::NextBin {
            *self = Self::Open;
        }
    }
}

/// A folder of files that wait.
#[derive(Debug)]
pub struct Spool {
    root: PathBuf,
    dataset: Dataset,
    max_bytes: u64,
    /// Files that wait for other sinks only, with the numbers of the sinks that have them. An agent that begins anew delivers
    /// them again, which changes nothing.
    delivered: BTreeSet<(PathBuf, usize)>,
    /// Kept open: the lock ends with it, however the agent ends.
    _lock: File,
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
        let delivered = BTreeSet::new();
        let spool = Self { root: root.to_owned(), dataset, max_bytes, delivered, _lock: lock };
        spool.remove_unfinished()?;
        spool.empty_scratch()?;
        Ok(spool)
    }

    /// Folder of the folders of datasets in the making, each of which [`Spool::adopt`] takes over.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.root.join(SCRATCH)
    }

    /// Takes over the files of the dataset in a scratch folder, whose names no others have, and removes that.
    ///
    /// # Errors
    /// What cannot be moved; the rest stays where it is.
    pub fn adopt(&self, name: &str) -> Result<(), SpoolError> {
        let scratch = Dataset::new(&self.scratch().join(name));
        let files = scratch.files();
        // Intervals come last here, too: a spool without them has nothing of that dataset.
        for file in files.map_err(|(path, source)| SpoolError::Io { path, source })? {
            let to = self.root.join(&file.path);
            let failed = |source| SpoolError::Io { path: to.clone(), source };
            to.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            fs::rename(scratch.root().join(&file.path), &to).map_err(failed)?;
        }
        self.empty_scratch_of(name)
    }

    /// Removes a scratch folder.
    ///
    /// # Errors
    /// What cannot be removed.
    pub fn empty_scratch_of(&self, name: &str) -> Result<(), SpoolError> {
        remove_folder(self.scratch().join(name))
    }

    /// Removes all scratch folders.
    ///
    /// # Errors
    /// What cannot be removed.
    pub fn empty_scratch(&self) -> Result<(), SpoolError> {
        remove_folder(self.scratch())
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

    /// Delivers what waits to all sinks, the oldest bin first, until it is `until`. A sink that cannot be written gets
    /// nothing more; a bin with a name that is taken in a sink waits while others are delivered.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn deliver(&mut self, sinks: &[FileSink], until: Instant) -> Result<Delivery, SpoolError> {
        // Some may have been dropped meanwhile.
        self.delivered.retain(|(path, _)| self.root.join(path).exists());
        let mut states = vec![SinkState::Open; sinks.len()];
        let mut delivery = Delivery::default();
        for bin in self.files()?.chunk_by(|one, other| one.bin == other.bin) {
            for state in &mut states {
                state.begin_bin();
            }
            for file in bin {
                if Instant::now() >= until || states.iter().all(|state| *state == SinkState::Closed)
                {
                    return Ok(delivery);
                }
                delivery.files +=
                    u64::from(self.deliver_file(file, sinks, &mut states, &mut delivery.errors)?);
            }
        }
        Ok(delivery)
    }

    /// Delivers a file to the sinks that do not have it; returns whether all have it now, and it is removed.
    fn deliver_file(
        &mut self,
        file: &DatasetFile,
        sinks: &[FileSink],
        states: &mut [SinkState],
        errors: &mut BTreeMap<usize, SinkError>,
    ) -> Result<bool, SpoolError> {
        let path = self.root.join(&file.path);
        let mut everywhere = true;
        for (number, (sink, state)) in sinks.iter().zip(states).enumerate() {
            let mark = (file.path.clone(), number);
            if self.delivered.contains(&mark) {
                continue;
            }
            let result = if *state == SinkState::Open {
                Some(sink.deliver(&path, &file.path))
            } else {
                None
            };
            match result {
                Some(Ok(())) => _ = self.delivered.insert(mark),
                Some(Err(error)) => {
                    *state = if matches!(error, SinkError::Taken(_)) {
                        SinkState::NextBin
                    } else {
                        SinkState::Closed
                    };
                    errors.insert(number, error);
                    everywhere = false;
                }
                None => everywhere = false,
            }
        }
        if everywhere {
            remove(path)?;
            for number in 0..sinks.len() {
                self.delivered.remove(&(file.path.clone(), number));
            }
        }
        Ok(everywhere)
    }

    /// Drops the oldest samples until the spool is within its bound; returns how many samples these were, if files were
    /// dropped. Stacks of later bins may have been in them.
    ///
    /// # Errors
    /// The spool cannot be read or written.
    pub fn shrink(&self) -> Result<Option<u64>, SpoolError> {
        self.shrink_to(self.max_bytes)
    }

    /// Drops the older half of what waits; returns the same as [`Spool::shrink`].
    ///
    /// # Errors
    /// The spool cannot be read or written.
    pub fn make_room(&self) -> Result<Option<u64>, SpoolError> {
        let bytes = self.waiting()?.bytes;
        self.shrink_to(bytes / 2)
    }

    fn shrink_to(&self, max_bytes: u64) -> Result<Option<u64>, SpoolError> {
        let files = self.files()?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut dropped = None;
        for bin in files.chunk_by(|one, other| one.bin == other.bin) {
            if bytes <= max_bytes {
                break;
            }
            for file in bin.iter().filter(|file| DROPPABLE.contains(&file.table())) {
                let path = self.root.join(&file.path);
                let samples = dropped.get_or_insert(0);
                if file.table() == "samples" {
                    // A file that cannot be read would not have been of use either.
                    *samples += samples_in(&path).unwrap_or(0);
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
        let is_of = |file: &&DatasetFile| file.bin.1.strip_suffix(".parquet") == Some(name);
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

    fn files(&self) -> Result<Vec<DatasetFile>, SpoolError> {
        self.dataset.files().map_err(|(path, source)| SpoolError::Io { path, source })
    }

    fn remove_unfinished(&self) -> Result<(), SpoolError> {
        let unfinished = self.dataset.unfinished();
        for file in unfinished.map_err(|(path, source)| SpoolError::Io { path, source })? {
            remove(self.root.join(&file.path))?;
        }
        // Intervals are written last and delivered last: a bin without them was never complete.
        for bin in self.files()?.chunk_by(|one, other| one.bin == other.bin) {
            if !bin.iter().any(|file| file.table() == "intervals") {
                bin.iter().try_for_each(|file| remove(self.root.join(&file.path)))?;
            }
        }
        Ok(())
    }
}

/// Removes a folder with all that is in it, if it is there.
fn remove_folder(path: PathBuf) -> Result<(), SpoolError> {
    match fs::remove_dir_all(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(SpoolError::Io { path, source })
        }
        _ => Ok(()),
    }
}

fn remove(path: PathBuf) -> Result<(), SpoolError> {
    fs::remove_file(&path).map_err(|source| SpoolError::Io { path, source })
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
