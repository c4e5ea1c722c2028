//! The files of a table as readers find them: those of each day, by one pass over its folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the folder of a day is called before its date.
const DAY: &str = "date=";

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayFile {
    /// The day of its folder, as in `2026-11-25`.
    pub date: Arc<str>,
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// The Parquet files of a table's folder, in the order of days and names; none where the folder is not there. Files that
/// are gone before they are asked for their size are left out, and empty ones, which hold no rows.
///
/// # Errors
/// The folder that cannot be read, and why.
pub fn day_files(table: &Path) -> Result<Vec<DayFile>, (PathBuf, io::Error)> {
    let mut found = Vec::new();
    for day in entries(table)? {
        let Some(date) = day.file_name().and_then(|name| name.to_str()?.strip_prefix(DAY)) else {
            continue;
        };
        below(&day, &Arc::from(date), &mut found)?;
    }
    found.sort();
    Ok(found)
}

/// Adds the files of a folder, and of those in it, as engines do.
fn below(
    folder: &Path,
    date: &Arc<str>,
    found: &mut Vec<DayFile>,
) -> Result<(), (PathBuf, io::Error)> {
    for path in entries(folder)? {
        let Ok(about) = fs::metadata(&path) else { continue };
        if about.is_dir() {
            below(&path, date, found)?;
        } else if about.len() > 0 && path.extension().is_some_and(|end| end == "parquet") {
            found.push(DayFile { date: Arc::clone(date), path, bytes: about.len() });
        }
    }
    Ok(())
}

/// What is in a folder; nothing where it is not there, or is a file.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let failed = |error| (folder.to_owned(), error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_days_whole_and_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("samples");
        assert_eq!(day_files(&table).unwrap(), []);
        let files = [
            ("date=2025-11-26/b.parquet", "1"),
            ("date=2025-11-25/b.parquet", "12"),
            ("date=2025-11-25/a.parquet", "123"),
            ("date=2025-11-25/more/c.parquet", "1"),
            ("date=2025-11-25/empty.parquet", ""),
            ("date=2025-11-25/.d.part", "1"),
            ("old/e.parquet", "1"),
            ("f.parquet", "1"),
        ];
        for (path, text) in files {
            let path = table.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = day_files(&table).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|file| (&*file.date, file.path.strip_prefix(&table).unwrap(), file.bytes))
            .collect();
        let expected = [
            ("2025-11-25", Path::new("date=2025-11-25/a.parquet"), 3),
            ("2025-11-25", Path::new("date=2025-11-25/b.parquet"), 2),
            ("2025-11-25", Path::new("date=2025-11-25/more/c.parquet"), 1),
            ("2025-11-26", Path::new("date=2025-11-26/b.parquet"), 1),
        ];
        assert_eq!(shown, expected);
    }
}
