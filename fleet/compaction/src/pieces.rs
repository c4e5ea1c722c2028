//! Days with more rows than memory holds: merged in pieces, which are then put in order together.
//!
//! ```text
//!  web-1-….parquet ┐ group by ┐
//!  web-1-….parquet ┴──────────┤► piece 0 ┐ in order, row by row
//!  web-2-….parquet ┐ group by ┐          ├──────────────────────► merged-0000.parquet, merged-0001.parquet, …
//!  web-3-….parquet ┴──────────┴► piece 1 ┘
//! ```
//! Files of a host have names that begin alike, so rows that become one are in one piece but for a few at its ends; those
//! stay apart, and their sums are what they were.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use pmuscope_dataset::TableInfo;
use pmuscope_query::{Engine, QueryError};

use crate::CompactionError;
use crate::folder;
use crate::merge::{MergedFiles, merge};

/// Rows of a piece: they take some 500 bytes each until they are merged.
const ROWS: u64 = 1 << 19;
/// Files that are put in order together: each has a batch of rows in memory.
const TOGETHER: usize = 128;
/// Folder of the pieces, below that of the merged files.
const FOLDER: &str = ".pieces";

/// Merges these files of a table whose rows stay many; returns the bytes of the files that were written.
pub(crate) fn merge_in_pieces(
    table: &TableInfo,
    files: &[&Path],
    bin_us: i64,
    folder: &Path,
) -> Result<Vec<u64>, CompactionError> {
    merge_pieces_of(ROWS, table, files, bin_us, folder)
}

fn merge_pieces_of(
    rows: u64,
    table: &TableInfo,
    files: &[&Path],
    bin_us: i64,
    folder: &Path,
) -> Result<Vec<u64>, CompactionError> {
    let counted: Vec<(&Path, u64)> = files
        .iter()
        .map(|&file| Ok((file, rows_of(file)?)))
        .collect::<Result<_, CompactionError>>()?;
    let (large, small): (Vec<_>, Vec<_>) =
        counted.into_iter().partition(|(_, count)| *count > rows);
    let groups = pieces(&small, rows);
    if large.is_empty() && groups.len() < 2 {
        return merge(&Engine::of_files(table, files.iter().copied())?, table, bin_us, folder);
    }
    let below = folder.join(FOLDER);
    create(&below)?;
    // What is that large was merged before: it is in order.
    let mut sorted: Vec<PathBuf> = large.iter().map(|(file, _)| (*file).to_owned()).collect();
    for (number, group) in groups.iter().enumerate() {
        let piece = below.join(format!("{number:06}"));
        create(&piece)?;
        merge(&Engine::of_files(table, group.iter().copied())?, table, bin_us, &piece)?;
        sorted.extend(written(&piece)?);
    }
    while sorted.len() > TOGETHER {
        let mut next = Vec::new();
        for group in sorted.chunks(TOGETHER) {
            let name = group[0].file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let piece = below.join(format!("{}-{name}-{}", next.len(), sorted.len()));
            create(&piece)?;
            in_order(table, group, &piece)?;
            next.extend(written(&piece)?);
            // Disk space is for one copy, not for one for each round.
            group.iter().filter(|file| file.starts_with(&below)).try_for_each(|file| {
                fs::remove_file(file)
                    .map_err(|source| CompactionError::Io { path: file.clone(), source })
            })?;
        }
        sorted = next;
    }
    let bytes = in_order(table, &sorted, folder)?;
    fs::remove_dir_all(&below).map_err(|source| CompactionError::Io { path: below, source })?;
    Ok(bytes)
}

/// Writes the rows of files that are in order themselves.
fn in_order(
    table: &TableInfo,
    files: &[PathBuf],
    folder: &Path,
) -> Result<Vec<u64>, CompactionError> {
    let engine = Engine::of_sorted_files(table, files.iter().map(PathBuf::as_path))?;
    let mut merged = MergedFiles::new(table, folder);
    let order = table.sorted_by.join(", ");
    let sql = format!("SELECT * FROM {}_files ORDER BY {order}", table.name);
    engine.each(&sql, |batch| merged.add(batch))?;
    merged.finish()
}

/// Files in groups of so many rows at most; each has one file at least.
fn pieces<'a>(files: &[(&'a Path, u64)], most: u64) -> Vec<Vec<&'a Path>> {
    let mut groups: Vec<Vec<&Path>> = Vec::new();
    let mut rows = u64::MAX;
    for (file, count) in files {
        match groups.last_mut() {
            Some(group) if rows.saturating_add(*count) <= most => {
                group.push(file);
                rows += count;
            }
            _ => {
                groups.push(vec![file]);
                rows = *count;
            }
        }
    }
    groups
}

fn rows_of(file: &Path) -> Result<u64, CompactionError> {
    let failed = |source| CompactionError::Io { path: file.to_owned(), source };
    let opened = File::open(file).map_err(failed)?;
    let reader = SerializedFileReader::new(opened).map_err(|error| QueryError::Damaged {
        path: file.to_owned(),
        message: error.to_string(),
    })?;
    Ok(reader.metadata().file_metadata().num_rows().unsigned_abs())
}

fn create(folder: &Path) -> Result<(), CompactionError> {
    let failed = |source| CompactionError::Io { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)
}

/// Files of a folder.
fn written(folder: &Path) -> Result<impl Iterator<Item = PathBuf>, CompactionError> {
    Ok(folder::files(folder)?.into_iter().map(|file| file.path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow::array::AsArray as _;
    use arrow::datatypes::Int64Type;
    use pmuscope_dataset::{Dataset, SampleRow, TABLES, TableRow as _, Timestamp};

    use super::*;

    const BIN: i64 = 300_000_000;

    fn row(host: u64, bin: i64, stack_id: i64) -> SampleRow {
        SampleRow {
            start: Timestamp(bin * BIN),
            bin_us: BIN,
            host: format!("web-{host}").into(),
            service: format!("service-{}", stack_id % 3).into(),
            event: "cpu-clock".into(),
            stack_id,
            samples: 1 + stack_id,
            weight: 1000 * (1 + stack_id),
            weight_unit: Arc::from("us"),
            batch: 1,
            ..SampleRow::default()
        }
    }

    type Key = (String, i64, String);

    /// Sums by service, stack and host of files, whose rows have to be in order.
    fn sums(files: &[PathBuf]) -> (BTreeMap<Key, i64>, usize) {
        let (mut sums, mut rows) = (BTreeMap::new(), 0);
        let mut before = None;
        for file in files {
            let engine = Engine::of_sorted_files(samples(), [file.as_path()].into_iter()).unwrap();
            let answer =
                engine.run("SELECT service, stack_id, host, samples FROM samples_files").unwrap();
            for batch in &answer.batches {
                let text = |at: usize| batch.column(at).as_string::<i32>();
                let number = |at: usize| batch.column(at).as_primitive::<Int64Type>();
                for at in 0..batch.num_rows() {
                    let place = (text(0).value(at).to_owned(), number(1).value(at));
                    assert!(before.as_ref() <= Some(&place), "{before:?} {place:?}");
                    let key = (place.0.clone(), place.1, text(2).value(at).to_owned());
                    *sums.entry(key).or_default() += number(3).value(at);
                    before = Some(place);
                    rows += 1;
                }
            }
        }
        (sums, rows)
    }

    fn samples() -> &'static TableInfo {
        TABLES.iter().find(|table| table.name == SampleRow::NAME).unwrap()
    }

    /// In pieces of any size the same sums come, in order, and not many rows more than in one.
    #[test]
    fn pieces_have_the_sums_of_the_whole_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Dataset::new(&folder.path().join("dataset"));
        let (hosts, bins, stacks) = (5, 4, 7);
        let mut expected: BTreeMap<Key, i64> = BTreeMap::new();
        let mut files = Vec::new();
        for host in 0..hosts {
            for bin in 0..bins {
                let rows: Vec<SampleRow> = (0..stacks).map(|stack| row(host, bin, stack)).collect();
                for row in &rows {
                    let key = (row.service.to_string(), row.stack_id, row.host.to_string());
                    *expected.entry(key).or_default() += row.samples;
                }
                let name = format!("web-{host}-{bin}");
                files.extend(dataset.write(rows, Timestamp(bin * BIN), &name).unwrap());
            }
        }
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let whole = (hosts as usize) * stacks as usize;
        for (rows, most) in
            [(1000, whole), (28, whole), (14, 2 * whole), (7, 4 * whole), (1, 4 * whole)]
        {
            let to = folder.path().join(format!("{rows}"));
            fs::create_dir(&to).unwrap();
            merge_pieces_of(rows, samples(), &files, 3_600_000_000, &to).unwrap();
            let written: Vec<PathBuf> = written(&to).unwrap().collect();
            let (found, count) = sums(&written);
            assert_eq!(found, expected, "{rows}");
            assert!((whole..=most).contains(&count), "{rows}: {count}");
        }
    }
}
