//! Values of runs over the hosts of a fleet.

use pmuscope_stats::Interval;

use super::FleetHead;
use super::one_table::OneTable;
use super::share::range;
use crate::number::significant;
use crate::sheet::{Field, NAME, Sheet};

/// Why there is no interval.
const FEW_HOSTS: &str = "it needs 3 hosts or more";
/// Hosts that a row names.
const NAMED: usize = 2;

/// A row: a value over hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRunRow {
    /// What it is of, in the order of the columns; empty where it is not known. Foreign text.
    pub keys: Vec<String>,
    /// What was measured. Foreign text.
    pub name: String,
    /// The part of the machine or the settings that it is of; empty where it is of the whole run. Foreign text.
    pub part: String,
    /// Its unit; empty for a count. Foreign text.
    pub unit: String,
    /// Where it comes from.
    pub origin: String,
    /// The mean of the hosts' means, with its interval over hosts.
    pub mean: Option<(f64, Option<Interval>)>,
    /// Hosts that have it.
    pub hosts: u64,
    /// Runs that have it.
    pub runs: u64,
    /// Hosts far from the others, the farthest first, with their means divided by the median of all hosts. Foreign text.
    pub standing_out: Vec<(String, Option<f64>)>,
}

impl FleetRunRow {
    /// `web-7 ×1.31, web-9 ×0.72, 3 more`; nothing where no host stands out.
    fn standing_out(&self) -> Option<String> {
        let name = |(host, ratio): &(String, Option<f64>)| match ratio {
            Some(ratio) => format!("{host} ×{}", significant(*ratio, 3)),
            None => host.clone(),
        };
        let mut names: Vec<String> = self.standing_out.iter().take(NAMED).map(name).collect();
        if self.standing_out.len() > NAMED {
            names.push(format!("{} more", self.standing_out.len() - NAMED));
        }
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Values of runs.
#[derive(Debug)]
pub struct FleetRunsView<'a> {
    /// What it covers.
    pub head: &'a FleetHead,
    /// What rows are by: names of columns.
    pub by: &'a [&'static str],
    /// The first rows.
    pub rows: &'a [FleetRunRow],
    /// How many rows there are.
    pub all: usize,
}

/// Text that may be missing.
fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl OneTable for FleetRunsView<'_> {
    const SCHEMA: &'static str = "pmuscope/fleet-runs/1";
    const TITLE: &'static str = "Fleet: runs";
    const HEADING: &'static str = "Runs";
    const ABOUT: &'static str = "mean: of the means of the hosts, each over its runs; 95% CIs are over hosts. stands out: hosts that are \
        farther than 3.5 scaled median absolute deviations from the median of all hosts, with their ratio to it.";

    fn head(&self) -> &FleetHead {
        self.head
    }

    fn by(&self) -> &[&'static str] {
        self.by
    }

    fn sheet<'s>(&'s self) -> Sheet<'s> {
        let farthest = |row: &'s FleetRunRow| row.standing_out.first();
        let mut fields = vec![
            Field::estimate("mean", |row: &FleetRunRow| row.mean).why(|_| FEW_HOSTS).for_programs(),
            Field::number("mean", |row: &FleetRunRow| Some(row.mean?.0)).for_people(),
            range(
                |row: &FleetRunRow| row.mean,
                |low, high| format!("{} to {}", significant(low, 3), significant(high, 3)),
            ),
            Field::text("unit", |row: &'s FleetRunRow| known(&row.unit)).only_if_measured(),
            Field::count("hosts", |row: &FleetRunRow| row.hosts).optional(2),
            Field::count("runs", |row: &FleetRunRow| row.runs).optional(3),
            Field::text("name", |row: &'s FleetRunRow| Some(&*row.name)).head("value").wanted(NAME),
            Field::text("part", |row: &'s FleetRunRow| known(&row.part))
                .only_if_measured()
                .wanted(12),
            Field::text("origin", |row: &'s FleetRunRow| known(&row.origin)).optional(4),
        ];
        for (at, name) in self.by.iter().enumerate() {
            let text = move |row: &'s FleetRunRow| known(&row.keys[at]);
            fields.push(Field::text(*name, text).only_if_measured().wanted(12));
        }
        fields.extend([
            Field::count("outliers", |row: &FleetRunRow| row.standing_out.len() as u64)
                .for_programs(),
            Field::text("outlier", move |row| farthest(row).map(|(host, _)| &**host))
                .for_programs(),
            Field::number("outlier_ratio", move |row| farthest(row)?.1).for_programs(),
            Field::text("stands out", FleetRunRow::standing_out).only_if_measured().for_people(),
        ]);
        Sheet::new(fields, self.rows, self.all).by_another_order()
    }
}
