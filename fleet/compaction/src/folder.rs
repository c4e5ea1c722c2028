//! Folders that change places, and what is left of a process that was killed.
//!
//! ```text
//!  DATASET/v1/samples/date=…      old files ──┐ exchange ┌── new files, and `inputs`: the names of what they hold
//!  DATASET/.compacting/samples/date=…  new ───┘          └── old files: those not among `inputs` move over, then all go
//! ```
//! Killed before the exchange, the folder with `inputs` is the hidden one, and is removed. Killed after it, it is the one
//! that readers see, and the rest is done again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use pmuscope_dataset::Dataset;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use crate::CompactionError;

/// Where folders are made, on the file system of the dataset.
const HIDDEN: &str = ".compacting";
/// The names of the files that a new folder's files hold.
const INPUTS: &str = "inputs";
/// How names of merged files begin.
pub(crate) const MERGED: &str = "merged-";

/// A day of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub NaiveDate);

impl Day {
    /// The name of its folder.
    pub(crate) fn folder(&self) -> String {
        format!("date={}", self.0.format("%Y-%m-%d"))
    }

    fn of_folder(name: &str) -> Option<Self> {
        name.strip_prefix("date=")?.parse().ok().map(Self)
    }
}

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableFile {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl TableFile {
    pub(crate) fn is_merged(&self) -> bool {
        self.name.starts_with(MERGED)
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CompactionError {
    let path = path.to_owned();
    move |source| CompactionError::Io { path, source }
}

/// Entries of a folder; none where it is not there.
fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, CompactionError> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<_>>().map_err(failed(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(folder)(error)),
    }
}

/// The days of a table.
pub(crate) fn days(table: &Path) -> Result<Vec<Day>, CompactionError> {
    let day = |entry: &fs::DirEntry| Day::of_folder(entry.file_name().to_str()?);
    Ok(entries(table)?.iter().filter_map(day).collect())
}

/// The Parquet files of a folder, by name. What somebody is still writing has another name.
pub(crate) fn files(folder: &Path) -> Result<Vec<TableFile>, CompactionError> {
    let mut files = Vec::new();
    for entry in entries(folder)? {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.ends_with(".parquet") && !name.starts_with('.') {
            let path = entry.path();
            let bytes = entry.metadata().map_err(failed(&path))?.len();
            files.push(TableFile { path, name, bytes });
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// Nobody else compacts the dataset while it is held.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(root: &Path) -> Result<Self, CompactionError> {
        let hidden = root.join(HIDDEN);
        fs::create_dir_all(&hidden).map_err(failed(&hidden))?;
        let path = hidden.join("lock");
        let file = File::create(&path).map_err(failed(&path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(CompactionError::InUse(root.to_owned())),
            Err(error) => Err(failed(&path)(error.into())),
        }
    }
}

/// A new folder that takes the place of an old one.
#[derive(Debug)]
pub(crate) struct Swap {
    old: PathBuf,
    new: PathBuf,
}

impl Swap {
    /// Makes the new folder, empty.
    pub(crate) fn begin(
        root: &Path,
        table: &str,
        day: &Day,
        old: PathBuf,
    ) -> Result<Self, CompactionError> {
        let new = root.join(HIDDEN).join(table).join(day.folder());
        remove(&new)?;
        fs::create_dir_all(&new).map_err(failed(&new))?;
        Ok(Self { old, new })
    }

    /// Where the new files go.
    pub(crate) fn folder(&self) -> &Path {
        &self.new
    }

    /// Replaces the old files with the new ones, which hold `inputs`.
    pub(crate) fn finish(self, inputs: &[TableFile]) -> Result<(), CompactionError> {
        let names: String = inputs.iter().map(|file| format!("{}\n", file.name)).collect();
        let list = self.new.join(INPUTS);
        fs::write(&list, names).map_err(failed(&list))?;
        sync(&list)?;
        sync(&self.new)?;
        match renameat_with(CWD, &self.new, CWD, &self.old, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                remove(&self.new)?;
                return Err(CompactionError::NoExchange(self.old));
            }
            Err(error) => return Err(failed(&self.old)(error.into())),
        }
        clean_up(&self.old, &self.new)
    }
}

/// After the exchange: moves what was delivered in the meantime, and removes what is merged. `seen` is the folder that
/// readers see, `hidden` the one with the old files.
fn clean_up(seen: &Path, hidden: &Path) -> Result<(), CompactionError> {
    let list = seen.join(INPUTS);
    let names = fs::read_to_string(&list).map_err(failed(&list))?;
    let merged: BTreeSet<&str> = names.lines().collect();
    for file in files(hidden)?.iter().filter(|file| !merged.contains(&*file.name)) {
        let to = seen.join(&file.name);
        fs::rename(&file.path, &to).map_err(failed(&to))?;
    }
    sync(seen)?;
    remove(hidden)?;
    fs::remove_file(&list).map_err(failed(&list))
}

/// Finishes or forgets what a killed process has begun with a table.
pub(crate) fn recover(root: &Path, dataset: &Dataset, table: &str) -> Result<(), CompactionError> {
    let hidden = root.join(HIDDEN).join(table);
    for entry in entries(&hidden)? {
        let seen = dataset.folder(table).join(entry.file_name());
        if seen.join(INPUTS).is_file() {
            clean_up(&seen, &entry.path())?;
        } else {
            remove(&entry.path())?;
        }
    }
    // Killed between the last two steps: the old files are gone.
    for day in days(&dataset.folder(table))? {
        let list = dataset.folder(table).join(day.folder()).join(INPUTS);
        if list.is_file() {
            fs::remove_file(&list).map_err(failed(&list))?;
        }
    }
    Ok(())
}

/// Removes a folder that readers see: first as a whole, then its files.
pub(crate) fn discard(root: &Path, table: &str, folder: &Path) -> Result<(), CompactionError> {
    let Some(name) = folder.file_name().filter(|_| folder.is_dir()) else { return Ok(()) };
    let hidden = root.join(HIDDEN).join(table);
    fs::create_dir_all(&hidden).map_err(failed(&hidden))?;
    let to = hidden.join(name);
    remove(&to)?;
    fs::rename(folder, &to).map_err(failed(folder))?;
    remove(&to)
}

fn remove(folder: &Path) -> Result<(), CompactionError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(folder)(error)),
        _ => Ok(()),
    }
}

/// What is in a file, or which files a folder has, is on disk.
fn sync(path: &Path) -> Result<(), CompactionError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(failed(path))
}
