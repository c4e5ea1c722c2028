//! Rows that become one: sums of samples by hour, each stack once.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::compute::cast;
use pmuscope_dataset::{DatasetError, TableInfo, TableWriter};
use pmuscope_query::Engine;

use crate::CompactionError;
use crate::folder::MERGED;

/// Bytes of a file, from which on the next one is begun.
const LARGE: usize = 128 << 20;

/// What happens to a column where rows are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Rows that differ in it stay apart.
    Key,
    /// The start of the longer bin.
    Start,
    /// The length of the longer bin.
    Length,
    Sum,
    Max,
    Min,
}

/// The rule of a column.
fn rule(table: &str, column: &str) -> Rule {
    match (table, column) {
        // Every run stays a row, with the time of its start. Only what was imported twice becomes one.
        ("runs" | "run_values", _) => Rule::Key,
        (_, "start") => Rule::Start,
        // Of an agent, the time that its sums are of.
        ("agent", "bin_us") => Rule::Sum,
        (_, "bin_us") => Rule::Length,
        ("counts", "cgroups" | "count" | "cpu_us" | "all_cpu_us") => Rule::Sum,
        (
            "locality",
            "observations" | "processes" | "cpu_us" | "memory_bytes" | "local_bytes" | "idle_bytes",
        ) => Rule::Sum,
        ("windows", "windows" | "count" | "count_of_all" | "tested" | "same_at_both_ends") => {
            Rule::Sum
        }
        ("samples" | "services", "samples" | "weight")
        | ("waits", "waits" | "time_us" | "queued_us") => Rule::Sum,
        ("intervals", "recorded_us" | "samples" | "lost" | "throttled" | "own_cpu_us") => Rule::Sum,
        ("agent", "cpu_us" | "unidentified_samples" | "dropped_samples" | "unpushed_samples") => {
            Rule::Sum
        }
        ("hosts", "seen") => Rule::Min,
        ("hosts", _) => Rule::Key,
        ("stacks", "stack_id") | ("frames", "stack_id" | "depth" | "inline_depth") => Rule::Key,
        // Hosts with symbols name what others do not: the greatest is one of the names.
        ("stacks" | "frames", _) => Rule::Max,
        (
            _,
            "batch"
            | "cpus"
            | "recorder"
            | "rss_bytes"
            | "off_cpu_rss_bytes"
            | "measurement_rss_bytes"
            | "waiting_files"
            | "frequency_hz",
        ) => Rule::Max,
        _ => Rule::Key,
    }
}

/// The question whose answer are the merged rows, in the order of the table's files.
fn sql(table: &TableInfo, bin_us: i64) -> String {
    let start = format!(
        "arrow_cast(arrow_cast(start, 'Int64') / {bin_us} * {bin_us}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    );
    let (mut shown, mut keys) = (Vec::new(), Vec::new());
    for column in (table.columns)() {
        let name = column.name;
        shown.push(match rule(table.name, name) {
            Rule::Key => {
                keys.push(name.to_owned());
                name.to_owned()
            }
            Rule::Start => {
                keys.push(start.clone());
                format!("{start} AS {name}")
            }
            Rule::Length => format!("CAST({bin_us} AS BIGINT) AS {name}"),
            Rule::Sum => format!("sum({name}) AS {name}"),
            Rule::Max => format!("max({name}) AS {name}"),
            Rule::Min => format!("min({name}) AS {name}"),
        });
    }
    let order = table.sorted_by.join(", ");
    format!(
        "SELECT * FROM (SELECT {} FROM {}_files GROUP BY {}) ORDER BY {order}",
        shown.join(", "),
        table.name,
        keys.join(", ")
    )
}

/// Merges the rows that the engine has of a table into files of a folder; returns their bytes.
pub(crate) fn merge(
    engine: &Engine,
    table: &TableInfo,
    bin_us: i64,
    folder: &Path,
) -> Result<Vec<u64>, CompactionError> {
    let mut files = MergedFiles::new(table, folder);
    engine.each(&sql(table, bin_us), |batch| files.add(batch))?;
    files.finish()
}

/// Files of a folder, one after another.
pub(crate) struct MergedFiles<'a> {
    table: &'a TableInfo,
    folder: &'a Path,
    open: Option<(TableWriter, PathBuf)>,
    /// Bytes of those that are whole.
    written: Vec<u64>,
}

impl<'a> MergedFiles<'a> {
    /// None yet.
    pub(crate) fn new(table: &'a TableInfo, folder: &'a Path) -> Self {
        Self { table, folder, open: None, written: Vec::new() }
    }

    /// Makes the last one whole; returns the bytes of all.
    pub(crate) fn finish(mut self) -> Result<Vec<u64>, CompactionError> {
        self.close()?;
        Ok(self.written)
    }

    /// Adds rows as the engine has them: texts may be views there.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), CompactionError> {
        let schema = (self.table.schema)();
        let table = self.table.name;
        let failed = |source| CompactionError::Columns { table, source };
        let fields = schema.fields().iter().zip(batch.columns());
        let columns: Result<Vec<_>, _> =
            fields.map(|(field, array)| cast(array, field.data_type())).collect();
        let rows =
            RecordBatch::try_new(schema.clone(), columns.map_err(failed)?).map_err(failed)?;
        let (writer, _) = match &mut self.open {
            Some(open) => open,
            None => {
                let path = self.folder.join(format!("{MERGED}{:04}.parquet", self.written.len()));
                let error = |source| DatasetError::Io { path: path.clone(), source };
                let file = File::create(&path).map_err(error)?;
                self.open.insert((TableWriter::new(self.table, file, &path)?, path))
            }
        };
        writer.write(&rows)?;
        if writer.bytes() >= LARGE { self.close() } else { Ok(()) }
    }

    /// Makes the open file whole.
    fn close(&mut self) -> Result<(), CompactionError> {
        let Some((writer, path)) = self.open.take() else { return Ok(()) };
        let file = writer.finish()?;
        let error = |source| DatasetError::Io { path: path.clone(), source };
        file.sync_all().map_err(error)?;
        self.written.push(file.metadata().map_err(error)?.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_dataset::TABLES;

    use super::*;

    /// A column that nobody thought of would keep rows apart, or lose what it says.
    #[test]
    fn each_column_has_a_rule_that_fits_its_table() {
        let mut of = Vec::new();
        for table in &TABLES {
            let rules = (table.columns)().into_iter().map(|column| rule(table.name, column.name));
            let rules: Vec<Rule> = rules.collect();
            assert!(rules.contains(&Rule::Key), "{}", table.name);
            of.push((table.name, rules.iter().filter(|rule| **rule == Rule::Sum).count()));
        }
        let expected = [
            ("samples", 2),
            ("services", 2),
            ("frames", 0),
            ("stacks", 0),
            ("waits", 3),
            ("windows", 5),
            ("counts", 4),
            ("locality", 6),
            ("intervals", 5),
            ("hosts", 0),
            ("agent", 5),
            ("runs", 0),
            ("run_values", 0),
        ];
        assert_eq!(of, expected);
    }
}
