//! [`Machine`]: the root below which everything is read, and bounded reading of small files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{CpuSet, MachineError};

/// Files of sysfs hold one page; a few of procfs somewhat more.
const SMALL: u64 = 1 << 20;

/// More entries than any folder has: /proc has one per process, and there are at most 2^22 of those.
const MAX_ENTRIES: usize = 1 << 23;

/// A machine, seen through its `/sys` and `/proc`.
///
/// Cheap to make and to clone: every method reads its files anew.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The machine this program runs on.
    pub fn host() -> Self {
        Self::at("/")
    }

    /// The machine whose `/sys`, `/proc` and `/lib/modules` are copied below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder below which everything is read.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The place of `relative`, which has no leading slash.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// All bytes of a file, or an error if it has more than `limit`.
    pub(crate) fn bytes(
        &self,
        relative: impl AsRef<Path>,
        limit: u64,
    ) -> Result<Vec<u8>, MachineError> {
        let path = self.path(relative);
        match read_bounded(&path, limit) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(MachineError::TooLong { path, limit }),
            Err(source) => Err(MachineError::Read { path, source }),
        }
    }

    /// The text of a small file, without white space around it; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, relative: impl AsRef<Path>) -> Result<String, MachineError> {
        let bytes = self.bytes(relative, SMALL)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The first `limit` bytes of a text file that may be long.
    pub(crate) fn beginning(
        &self,
        relative: impl AsRef<Path>,
        limit: u64,
    ) -> Result<String, MachineError> {
        let path = self.path(relative);
        let mut bytes = Vec::with_capacity(4096);
        match File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(source) => Err(MachineError::Read { path, source }),
        }
    }

    /// [`Machine::text`] of a file that may well be absent or empty.
    pub(crate) fn text_if_any(&self, relative: impl AsRef<Path>) -> Option<String> {
        self.text(relative).ok().filter(|text| !text.is_empty())
    }

    /// The number a small file holds, if it is there and holds one.
    pub(crate) fn number<T: FromStr>(&self, relative: impl AsRef<Path>) -> Option<T> {
        self.text(relative).ok()?.parse().ok()
    }

    /// The CPU list a small file holds, if it is there and holds one.
    pub(crate) fn cpu_list(&self, relative: impl AsRef<Path>) -> Option<CpuSet> {
        CpuSet::parse(&self.text(relative).ok()?).ok()
    }

    /// The names in a folder, sorted; names that are no UTF-8 are left out.
    pub(crate) fn names(&self, relative: impl AsRef<Path>) -> Result<Vec<String>, MachineError> {
        let path = self.path(relative);
        let entries = fs::read_dir(&path);
        let entries =
            entries.map_err(|source| MachineError::Read { path: path.clone(), source })?;
        let mut names = Vec::new();
        for entry in entries.take(MAX_ENTRIES) {
            let entry =
                entry.map_err(|source| MachineError::Read { path: path.clone(), source })?;
            names.extend(entry.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The numbers N of the entries `prefixN` of a folder, ascending.
    pub(crate) fn numbered(
        &self,
        relative: impl AsRef<Path>,
        prefix: &str,
    ) -> Result<Vec<u32>, MachineError> {
        let names = self.names(relative)?;
        let mut numbers: Vec<u32> =
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// All bytes of a file; `None` if it has more than `limit`.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    // Files of procfs say that they are empty, and hand out at most a page per read.
    let mut bytes = Vec::with_capacity(4096);
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
