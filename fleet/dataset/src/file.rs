//! Files that are there whole or not at all, in the folders of a dataset.
//!
//! ```text
//!  v1/samples/date=2026-11-25/.web-1-8f3a….part ─ fsync ─► rename ─► v1/samples/date=2026-11-25/web-1-8f3a….parquet
//! ```
//! A file's name says what it holds, so whatever is written twice is there once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;

use crate::table::TableRow;
use crate::tables::{TableInfo, info};
use crate::{FrameRow, Rows, ServiceRow, StackRow, Timestamp};

/// Folder of this version of the tables.
pub(crate) const VERSION: &str = "v1";
/// The level that zstd compresses at: higher ones take far longer for a few percent.
const LEVEL: i32 = 3;
/// Rows that are decompressed together; a reader skips groups whose sorted columns do not match.
const GROUP: usize = 1 << 20;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// Letters of a host name in a file's name at most.
const LONGEST_HOST: usize = 100;

/// What cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// A file or folder.
    #[error("cannot write {path}: {source}")]
    Io {
        /// It.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file's contents.
    #[error("cannot write {path}: {source}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ParquetError,
    },
    /// The rows.
    #[error("cannot make columns of {table}: {source}")]
    Columns {
        /// The table.
        table: &'static str,
        /// The cause.
        source: ArrowError,
    },
    /// A time stamp before or after all dates.
    #[error("the time stamp {0} µs is no date")]
    Date(i64),
}

/// A folder of tables.
#[derive(Debug, Clone)]
pub struct Dataset {
    root: PathBuf,
}

impl Dataset {
    /// The dataset in this folder, which is made when the first table is written.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Folder of a table, whatever it holds.
    #[must_use]
    pub fn folder(&self, table: &str) -> PathBuf {
        self.root.join(VERSION).join(table)
    }

    /// Writes rows of the day of `when` to a file called `name`; nothing where there are none. A file of that name
    /// is replaced by the new one. Returns its path.
    ///
    /// # Errors
    /// What cannot be written; the old file is there then, whole.
    pub fn write<T: TableRow>(
        &self,
        mut rows: Vec<T>,
        when: Timestamp,
        name: &str,
    ) -> Result<Option<PathBuf>, DatasetError> {
        if rows.is_empty() {
            return Ok(None);
        }
        T::sort(&mut rows);
        let folder = self.folder(T::NAME).join(format!("date={}", date(when)?));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| DatasetError::Io { path, source }
        };
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let path = folder.join(format!("{name}.parquet"));
        let part = folder.join(format!(".{name}.part"));
        let file = File::create(&part).map_err(failed(&part))?;
        let written = write_rows(&rows, file, &part)
            .and_then(|file| file.sync_all().map_err(failed(&part)))
            .and_then(|()| fs::rename(&part, &path).map_err(failed(&path)));
        if let Err(error) = written {
            // What is left of a failed attempt has a name that no reader takes.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        // The new name itself is on disk only with its folder.
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(failed(&folder))?;
        Ok(Some(path))
    }
}

impl Dataset {
    /// Writes the rows of all tables to files called `name`, in the folder of the day on which their bins begin, with
    /// the stacks that each day has; hosts in that of `when`. The intervals of a day come last: a reader that finds
    /// them finds all of that day. Runs come after their values, for the same reason.
    ///
    /// # Errors
    /// As [`Dataset::write`]; what was written before is there.
    pub fn write_all(&self, rows: Rows, when: Timestamp, name: &str) -> Result<(), DatasetError> {
        let Rows { samples, frames, stacks, waits, windows, counts, locality, .. } = rows;
        let Rows { intervals, hosts, runs, run_values, .. } = rows;
        self.write(hosts, when, name)?;
        let mut samples = by_day(samples, |row| row.start)?;
        let mut waits = by_day(waits, |row| row.start)?;
        let mut windows = by_day(windows, |row| row.start)?;
        let mut counts = by_day(counts, |row| row.start)?;
        let mut locality = by_day(locality, |row| row.start)?;
        let mut run_values = by_day(run_values, |row| row.start)?;
        let mut runs = by_day(runs, |row| row.start)?;
        let mut intervals = by_day(intervals, |row| row.start)?;
        // A day without an interval has no samples either; each is written all the same.
        let of_recordings = samples.keys().chain(waits.keys()).chain(windows.keys());
        let of_others = counts.keys().chain(locality.keys()).chain(intervals.keys());
        let of_runs = run_values.keys().chain(runs.keys());
        let days: BTreeSet<i64> = of_recordings.chain(of_others).chain(of_runs).copied().collect();
        let is_one = days.len() < 2;
        for day in days {
            let samples = samples.remove(&day).unwrap_or_default();
            let used: BTreeSet<i64> = samples.iter().map(|row| row.stack_id).collect();
            let is_used = |id: i64| is_one || used.contains(&id);
            let day_of = Timestamp(day * DAY_US);
            let frames = frames.iter().filter(|row| is_used(row.stack_id)).cloned().collect();
            self.write::<FrameRow>(frames, day_of, name)?;
            let stacks = stacks.iter().filter(|row| is_used(row.stack_id)).cloned().collect();
            self.write::<StackRow>(stacks, day_of, name)?;
            self.write(ServiceRow::sums(&samples), day_of, name)?;
            self.write(samples, day_of, name)?;
            self.write(waits.remove(&day).unwrap_or_default(), day_of, name)?;
            self.write(windows.remove(&day).unwrap_or_default(), day_of, name)?;
            self.write(counts.remove(&day).unwrap_or_default(), day_of, name)?;
            self.write(locality.remove(&day).unwrap_or_default(), day_of, name)?;
            self.write(run_values.remove(&day).unwrap_or_default(), day_of, name)?;
            self.write(runs.remove(&day).unwrap_or_default(), day_of, name)?;
            self.write(intervals.remove(&day).unwrap_or_default(), day_of, name)?;
        }
        Ok(())
    }
}

/// Rows by the number of the day, UTC, on which they begin.
fn by_day<T>(
    rows: Vec<T>,
    start: impl Fn(&T) -> Timestamp,
) -> Result<BTreeMap<i64, Vec<T>>, DatasetError> {
    let mut days: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    for row in rows {
        let start = start(&row);
        // What is no date has no folder.
        date(start)?;
        days.entry(start.0.div_euclid(DAY_US)).or_default().push(row);
    }
    Ok(days)
}

/// A host name as part of a file's name.
#[must_use]
pub fn file_name(host: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let plain: String = host.chars().map(|one| if is_plain(one) { one } else { '_' }).collect();
    plain.trim_start_matches('.').chars().take(LONGEST_HOST).collect()
}

fn write_rows<T: TableRow>(rows: &[T], file: File, path: &Path) -> Result<File, DatasetError> {
    let batch =
        T::batch(rows).map_err(|source| DatasetError::Columns { table: T::NAME, source })?;
    let mut writer = TableWriter::new(&info::<T>(), file, path)?;
    writer.write(&batch)?;
    writer.finish()
}

/// A file of a table in the making.
#[derive(Debug)]
pub struct TableWriter {
    writer: ArrowWriter<File>,
    path: PathBuf,
}

impl TableWriter {
    /// Begins to write a table to `file`, which is at `path`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(table: &TableInfo, file: File, path: &Path) -> Result<Self, DatasetError> {
        let failed = |source| DatasetError::Parquet { path: path.to_owned(), source };
        let level = ZstdLevel::try_new(LEVEL).map_err(failed)?;
        let columns = (table.columns)();
        let place = |key: &&str| columns.iter().position(|column| column.name == *key);
        let sorted = table.sorted_by.iter().filter_map(place).map(|at| SortingColumn {
            column_idx: i32::try_from(at).unwrap_or(i32::MAX),
            descending: false,
            nulls_first: true,
        });
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP))
            .set_sorting_columns(Some(sorted.collect()))
            .set_created_by(concat!("pmuscope-fleet ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer =
            ArrowWriter::try_new(file, (table.schema)(), Some(properties)).map_err(failed)?;
        Ok(Self { writer, path: path.to_owned() })
    }

    /// Adds rows, which have the table's columns and are in its order.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), DatasetError> {
        let path = &self.path;
        let failed = |source| DatasetError::Parquet { path: path.clone(), source };
        self.writer.write(rows).map_err(failed)
    }

    /// How large it will be, nearly, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.writer.bytes_written() + self.writer.in_progress_size()
    }

    /// The file, whole; not yet synced.
    ///
    /// # Errors
    /// If its end cannot be written.
    pub fn finish(self) -> Result<File, DatasetError> {
        let failed = |source| DatasetError::Parquet { path: self.path, source };
        self.writer.into_inner().map_err(failed)
    }
}

/// The day of a time stamp, as `2026-11-25`, UTC.
fn date(when: Timestamp) -> Result<String, DatasetError> {
    let time = chrono::DateTime::from_timestamp_micros(when.0).ok_or(DatasetError::Date(when.0))?;
    Ok(time.format("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;
    use crate::SampleRow;

    fn stack(id: i64) -> StackRow {
        let (digest, leaf_module) = (format!("{id:032x}").into(), "/bin/a".into());
        StackRow { stack_id: id, digest, leaf: None, leaf_module, depth: 1 }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_written_twice_is_there_once_and_in_the_folder_of_its_day() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::new(folder.path());
        let midnight = Timestamp(1_764_028_800_000_000);
        for rows in [vec![stack(2), stack(1)], vec![stack(3)]] {
            dataset.write(rows, midnight, "web-1").unwrap().unwrap();
        }
        dataset.write(vec![stack(4)], Timestamp(midnight.0 - 1), "web-1").unwrap();
        let stacks = dataset.folder("stacks");
        assert_eq!(names(&stacks), ["date=2025-11-24", "date=2025-11-25"]);
        assert_eq!(names(&stacks.join("date=2025-11-25")), ["web-1.parquet"]);
        assert_eq!(dataset.write(Vec::<StackRow>::new(), midnight, "none").unwrap(), None);
        assert_eq!(names(&stacks), ["date=2025-11-24", "date=2025-11-25"]);
    }

    fn sample(stack_id: i64, start: Timestamp) -> SampleRow {
        SampleRow {
            start,
            bin_us: 1,
            host: "h".into(),
            service: "s".into(),
            event: "cpu-clock".into(),
            stack_id,
            samples: 1,
            weight: 1,
            weight_unit: "us".into(),
            batch: 1,
            ..SampleRow::default()
        }
    }

    /// A reader that looks for a day opens only its folder: all that the day needs has to be there.
    #[test]
    fn bins_are_in_the_folder_of_their_day_with_the_stacks_that_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::new(folder.path());
        let midnight = 1_764_028_800_000_000;
        let samples = vec![
            sample(1, Timestamp(midnight - 1)),
            sample(2, Timestamp(midnight - 1)),
            sample(2, Timestamp(midnight)),
        ];
        let rows = Rows { samples, stacks: vec![stack(1), stack(2), stack(3)], ..Rows::default() };
        dataset.write_all(rows, Timestamp(midnight - 1), "web-1").unwrap();
        let rows_of = |table: &str, day: &str| {
            let path = dataset.folder(table).join(day).join("web-1.parquet");
            let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
            file.metadata().file_metadata().num_rows()
        };
        assert_eq!(
            (rows_of("samples", "date=2025-11-24"), rows_of("stacks", "date=2025-11-24")),
            (2, 2)
        );
        assert_eq!(
            (rows_of("samples", "date=2025-11-25"), rows_of("stacks", "date=2025-11-25")),
            (1, 1)
        );
        // Two stacks of one service.
        assert_eq!(rows_of("services", "date=2025-11-24"), 1);
    }

    #[test]
    fn host_names_are_harmless_as_parts_of_file_names() {
        assert_eq!(file_name("web-1.example.org"), "web-1.example.org");
        assert_eq!(file_name("../../etc/x y"), "_.._etc_x_y");
        assert_eq!(file_name(&"a".repeat(300)).len(), LONGEST_HOST);
    }

    #[test]
    fn what_cannot_be_written_is_named_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("v1"), "a file").unwrap();
        let error = Dataset::new(folder.path()).write(vec![stack(1)], Timestamp(0), "a");
        let text = error.unwrap_err().to_string();
        assert!(text.contains("v1/stacks/date=1970-01-01"), "{text}");
        assert_eq!(names(folder.path()), ["v1"]);
    }
}
