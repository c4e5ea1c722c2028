//! Run files as one tidy table: a row for each value of each run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pmuscope_measure::{Labels, Origin, RunFile, RunValue, load};

use crate::columns::RowColumns;
use crate::error::TableError;
use crate::table::ArrowTable;

/// A value of a run, or its units of work.
struct ValueRow<'a> {
    file: &'a str,
    /// Labels of the run, then of the series.
    labels: [&'a Labels; 2],
    run: Option<&'a pmuscope_measure::Run>,
    is_usable: bool,
    metric: &'a str,
    unit: &'a str,
    origin: &'static str,
    value: Option<f64>,
    /// As it was measured; units of work have none.
    measured: Option<&'a RunValue>,
}

impl<'a> ValueRow<'a> {
    fn label(&self, key: &str) -> Option<&'a str> {
        let found = self.labels.into_iter().rev().find_map(|labels| labels.get(key));
        found.map(String::as_str)
    }
}

/// All values of all runs of these files, as they were measured: nothing is divided, nothing left out.
///
/// # Errors
/// A file cannot be read, or is no run file.
pub fn runs(paths: &[&Path]) -> Result<ArrowTable, TableError> {
    let files = paths
        .iter()
        .map(|path| Ok((path.to_string_lossy().into_owned(), load(path)?)))
        .collect::<Result<Vec<_>, TableError>>()?;
    let rows: Vec<ValueRow<'_>> =
        files.iter().flat_map(|(name, file)| rows_of(name, file)).collect();
    let keys: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.labels).flat_map(Labels::keys).map(String::as_str).collect();
    let mut table = RowColumns::new(&rows).text("file", |row| Some(row.file));
    for key in keys {
        table = table.text(key, |row| row.label(key));
    }
    Ok(table
        .u64("run", "", |row| Some(row.run?.index as u64))
        .u64("order", "", |row| Some(row.run?.order as u64))
        .u64("round", "", |row| Some(row.run?.round? as u64))
        .u64("started", "ns", |row| row.run?.started.parse().ok())
        .f64("duration_s", "s", |row| Some(row.run?.duration_s))
        .flag("usable", |row| Some(row.is_usable))
        .i32("exit", "", |row| row.run?.exit)
        .text("metric", |row| Some(row.metric))
        .f64("value", "as in value_unit", |row| row.value)
        .text("value_unit", |row| Some(row.unit))
        .text("origin", |row| Some(row.origin))
        .f64("above", "as in value_unit", |row| row.measured?.above)
        .f64("half", "as in value_unit", |row| row.measured?.half)
        .f64("enabled_s", "s", |row| row.measured?.enabled_s)
        .f64("running_s", "s", |row| row.measured?.running_s)
        .i64("count", "", |row| count(row.measured?))
        .text("why", |row| row.measured?.why.as_deref())
        .finish()?)
}

fn rows_of<'a>(name: &'a str, file: &'a RunFile) -> Vec<ValueRow<'a>> {
    static NONE: Labels = Labels::new();
    let usable: BTreeSet<usize> = file.counting_runs().map(|run| run.index).collect();
    let runs: BTreeMap<usize, &pmuscope_measure::Run> =
        file.runs.iter().map(|run| (run.index, run)).collect();
    let mut rows = Vec::new();
    for series in &file.series {
        rows.extend(series.values.iter().map(|value| {
            let run = runs.get(&value.run).copied();
            ValueRow {
                file: name,
                labels: [run.map_or(&NONE, |run| &run.labels), &series.labels],
                run,
                is_usable: usable.contains(&value.run),
                metric: &series.metric,
                unit: &series.unit,
                origin: origin(series.origin),
                value: value.value,
                measured: Some(value),
            }
        }));
    }
    for run in &file.runs {
        rows.extend(run.units.iter().map(|(unit, amount)| ValueRow {
            file: name,
            labels: [&run.labels, &NONE],
            run: Some(run),
            is_usable: usable.contains(&run.index),
            metric: unit,
            unit: "",
            origin: "work",
            value: Some(*amount),
            measured: None,
        }));
    }
    rows
}

/// What all descriptors of a counter read; `None` where one has no count.
fn count(value: &RunValue) -> Option<i64> {
    let counts = value.readings.iter().map(|reading| reading.count.as_ref()?.parse::<i64>().ok());
    let sum = counts.reduce(|sum, count| sum?.checked_add(count?));
    sum.flatten()
}

/// As JSON has it.
pub(crate) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Hardware => "hardware",
        Origin::Software => "software",
        Origin::Emulated => "emulated",
        Origin::Clock => "clock",
        Origin::Kernel => "kernel",
        Origin::Program => "program",
        Origin::Recording => "recording",
        Origin::Derived => "derived",
        Origin::Estimate => "estimate",
        _ => "other",
    }
}
