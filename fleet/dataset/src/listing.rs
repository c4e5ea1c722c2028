//! The files of a dataset, in the order in which they are delivered to another one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Dataset;
use crate::days::entries;

/// Tables in the order of delivery: `intervals` last, by which readers know that all of a bin is there, and `runs` after
/// the values of its runs.
const ORDER: [&str; 13] = [
    "frames",
    "stacks",
    "hosts",
    "agent",
    "services",
    "samples",
    "waits",
    "windows",
    "counts",
    "locality",
    "run_values",
    "runs",
    "intervals",
];

/// A file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatasetFile {
    /// Day and name: older ones of a host first, and files of the same rows together.
    pub bin: (String, String),
    /// Position of its table in the order of delivery.
    place: usize,
    /// Below the dataset's folder.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl DatasetFile {
    /// Name of its table.
    #[must_use]
    pub fn table(&self) -> &'static str {
        ORDER[self.place]
    }
}

impl Dataset {
    /// All whole files, the oldest bin first, each bin in the order of delivery.
    ///
    /// # Errors
    /// The folder that cannot be read, and why.
    pub fn files(&self) -> Result<Vec<DatasetFile>, (PathBuf, io::Error)> {
        let is_whole = |name: &str| !name.starts_with('.') && name.ends_with(".parquet");
        let mut found = self.named(is_whole)?;
        found.sort();
        Ok(found)
    }

    /// All files whose names begin with a dot: those that are being written, or whose writer was killed.
    ///
    /// # Errors
    /// The folder that cannot be read, and why.
    pub fn unfinished(&self) -> Result<Vec<DatasetFile>, (PathBuf, io::Error)> {
        self.named(|name| name.starts_with('.'))
    }

    fn named(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<DatasetFile>, (PathBuf, io::Error)> {
        let mut found = Vec::new();
        for (place, table) in ORDER.iter().enumerate() {
            let folder = self.folder(table);
            for day in names(&folder)? {
                let names = names(&folder.join(&day))?;
                for name in names.into_iter().filter(|name| wanted(name)) {
                    let path = folder.join(&day).join(&name);
                    let Ok(about) = fs::metadata(&path) else { continue };
                    let path = path.strip_prefix(self.root()).unwrap_or(&path).to_owned();
                    let bin = (day.clone(), name);
                    found.push(DatasetFile { bin, place, path, bytes: about.len() });
                }
            }
        }
        Ok(found)
    }
}

/// Names in a folder; none where it is not there, or is a file.
fn names(folder: &Path) -> Result<Vec<String>, (PathBuf, io::Error)> {
    let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    Ok(entries(folder)?.into_iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ORDER;
    use crate::TABLES;

    #[test]
    fn every_table_is_delivered_and_intervals_last() {
        let delivered: BTreeSet<&str> = ORDER.into();
        assert_eq!(delivered, TABLES.iter().map(|table| table.name).collect());
        assert_eq!(ORDER.last(), Some(&"intervals"));
    }
}
