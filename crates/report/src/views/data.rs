//! Addresses of data: a table, and the result of `pmuscope/data/1`.

use pmuscope_profile::views::{DataAddresses, DataRow};
use serde::Serialize;

use super::details::{DetailsView, Share, UNKNOWN, push_left_out, share_cells, share_of, shown};
use crate::number::{count, counted, significant};
use crate::recording::{Head, RowLimits};
use crate::{Cell, Column, Paint, Style, Table, escape};

/// The schema of [`DataReport`] in its envelope.
pub const DATA_SCHEMA: &str = "pmuscope/data/1";

/// Variables and mappings by how often they were accessed.
#[must_use]
pub fn data_text(found: &DataAddresses, view: &DetailsView<'_>, style: &Style) -> String {
    let with = match found.with_address {
        1 => "1 address".to_owned(),
        several => format!("{} addresses", count(several)),
    };
    let line = format!("{with} of data in {}", counted(found.samples.kept, "sample"));
    view.text(&line, &data_rows(found, view.limits, style), style)
}

fn data_rows(found: &DataAddresses, limits: RowLimits, style: &Style) -> String {
    if found.with_address == 0 {
        return "no addresses of data were recorded. Try: pmuscope record -d, with an event that has them: \
                page-faults, loads and stores that the CPU samples precisely\n"
            .into();
    }
    let weighed = found.rows.iter().any(|row| row.sums.weights.of > 0);
    let told = found.rows.iter().any(|row| row.sums.with_source > 0);
    let weights = ["mean weight", "max weight"].into_iter().filter(|_| weighed);
    let sources = ["loads", "stores", "remote", "HITM"].into_iter().filter(|_| told);
    let numbers = ["share", "±95 %", "samples"].into_iter().chain(weights).chain(sources);
    let texts = ["module", "data"].map(|head| Column::text(head).shrink());
    let mut table = Table::new(numbers.map(Column::number).chain(texts));
    let share = |row: usize| share_of(found.rows[row].sums.samples, found.with_address);
    let shown = shown(limits, found.rows.len(), share);
    for row in &found.rows[..shown] {
        table.row(cells(row, found.with_address, weighed, told));
    }
    let mut out = table.render(style);
    push_left_out(&mut out, found.rows.len() - shown, style);
    out
}

fn cells(row: &DataRow, all: u64, weighed: bool, told: bool) -> Vec<Cell> {
    let sums = &row.sums;
    let mut cells = Vec::from(share_cells(sums.samples, all, row.interval));
    cells.push(Cell::new(count(sums.samples)));
    if weighed {
        cells.push(Cell::measured(sums.weights.mean(), |weight| significant(weight, 3)));
        cells.push(Cell::measured(sums.weights.largest(), count));
    }
    if told {
        let numbers = [sums.loads, sums.stores, sums.remote, sums.hitm];
        cells.extend(numbers.map(|number| Cell::measured(sums.told(number), count)));
    }
    // `//anon` is no path.
    let is_path = row.module.starts_with('/') && !row.module.starts_with("//");
    let name = row.module.rsplit('/').find(|part| is_path && !part.is_empty());
    cells.push(Cell::new(escape(name.unwrap_or(&row.module))));
    cells.push(match &row.object {
        Some(object) => Cell::new(escape(object)),
        None => Cell::new(UNKNOWN).paint(Paint::Dim),
    });
    cells
}

/// Accesses to data for programs.
#[derive(Debug, Serialize)]
pub struct DataReport<'a> {
    recording: Head<'a>,
    samples: u64,
    samples_with_address: u64,
    rows: Vec<Row<'a>>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    object: Option<&'a str>,
    module: &'a str,
    samples: u64,
    #[serde(flatten)]
    share: Share,
    weight_mean: Option<f64>,
    weight_max: Option<u64>,
    weight_of: u64,
    loads: Option<u64>,
    stores: Option<u64>,
    remote: Option<u64>,
    hitm: Option<u64>,
    source_of: u64,
}

impl<'a> DataReport<'a> {
    /// What is shown of the accesses of a recording.
    #[must_use]
    pub fn new(found: &'a DataAddresses, view: &DetailsView<'a>) -> Self {
        let share = |row: usize| share_of(found.rows[row].sums.samples, found.with_address);
        let shown = shown(view.limits, found.rows.len(), share);
        let row = |row: &'a DataRow| {
            let sums = &row.sums;
            Row {
                object: row.object.as_deref(),
                module: &row.module,
                samples: sums.samples,
                share: Share::new(sums.samples, found.with_address, row.interval),
                weight_mean: sums.weights.mean(),
                weight_max: sums.weights.largest(),
                weight_of: sums.weights.of,
                loads: sums.told(sums.loads),
                stores: sums.told(sums.stores),
                remote: sums.told(sums.remote),
                hitm: sums.told(sums.hitm),
                source_of: sums.with_source,
            }
        };
        Self {
            recording: Head::new(view.profile, view.file),
            samples: found.samples.kept,
            samples_with_address: found.with_address,
            rows: found.rows[..shown].iter().map(row).collect(),
            rows_left_out: found.rows.len() - shown,
        }
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_profile::Walked;
    use pmuscope_profile::views::{DataSums, Weights};
    use pmuscope_stats::Interval;

    use super::*;

    fn text(rows: Vec<DataRow>) -> String {
        let with_address = rows.iter().map(|row| row.sums.samples).sum();
        let samples = Walked { kept: 200, left_out: 0 };
        let found = DataAddresses { rows, samples, with_address };
        let limits = RowLimits { rows: None, share: 0.0 };
        data_rows(&found, limits, &Style::PLAIN)
    }

    #[test]
    fn columns_are_those_that_were_recorded() {
        let plain = DataSums { samples: 60, ..DataSums::default() };
        let row = |object: Option<&str>, module: &str, sums| DataRow {
            object: object.map(Into::into),
            module: module.into(),
            sums,
            interval: object.map(|_| Interval { low: 0.375, high: 0.4375, level: 0.95 }),
        };
        let heap = row(None, "[heap]", plain);
        insta::assert_snapshot!(text(vec![heap.clone()]), @r"
           share  ±95 %  samples  module  data
        100.00 %      -       60  [heap]  [unknown]
        ");
        let mut weights = Weights::one(Some(66));
        weights.add(&Weights::one(Some(1234)));
        let told = DataSums {
            samples: 40,
            weights,
            with_source: 40,
            loads: 30,
            stores: 10,
            remote: 5,
            hitm: 7,
        };
        insta::assert_snapshot!(text(vec![heap, row(Some("table\u{7}"), "/usr/bin/db", told)]), @r"
          share  ±95 %  samples  mean weight  max weight  loads  stores  remote  HITM  module  data
        60.00 %      -       60            -           -      -       -       -     -  [heap]  [unknown]
        40.00 %   3.12       40          650       1,234     30      10       5     7  db      table\x07
        ");
        assert!(text(Vec::new()).contains("pmuscope record -d"));
    }
}
