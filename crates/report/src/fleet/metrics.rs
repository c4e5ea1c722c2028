//! Metrics of functions over a fleet.

use pmuscope_stats::Interval;
use serde::Serialize;

use super::FleetHead;
use crate::Style;
use crate::escape;
use crate::html::PageFrame;
use crate::markup::html;
use crate::number::significant;
use crate::recording::push_wrapped;
use crate::report::Report;
use crate::sheet::{Field, NAME, Separator, Sheet};

/// Kind and version of the result.
const SCHEMA: &str = "pmuscope/fleet-metrics/1";

/// Where what metrics are of was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetMetricsOf {
    /// In windows of functions.
    Windows,
    /// In cgroups of services.
    Cgroups,
}

impl FleetMetricsOf {
    /// The name of what is counted.
    fn counted_in(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Cgroups => "cgroups",
        }
    }

    /// All rows together, in words.
    fn all(self) -> &'static str {
        match self {
            Self::Windows => "all functions",
            Self::Cgroups => "all services",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Windows => {
                "From windows of counters; 95% CIs are over hosts. ~ is an estimate without a CI: of fewer than 3 hosts, few \
                 windows, or functions that are short for them."
            }
            Self::Cgroups => {
                "From events of the cgroup of each service, in user mode and in the kernel; 95% CIs are over hosts. ~ is an \
                 estimate without a CI: of fewer than 3 hosts."
            }
        }
    }
}

/// A metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetMetricColumn {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What it is.
    pub about: String,
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FleetMetricCell {
    /// With its interval over hosts; missing where its events were not counted.
    pub value: Option<(f64, Option<Interval>)>,
    /// Where the value is 0 because nothing was counted: what it is at most.
    pub at_most: Option<f64>,
}

impl FleetMetricCell {
    /// For people: `1.23 (1.20 to 1.26)`, `~1.2` without an interval, `0 (≤0.01)` where nothing was counted.
    fn text(&self) -> Option<String> {
        let (value, interval) = self.value?;
        Some(match (interval, self.at_most) {
            (_, Some(most)) => format!("0 (≤{})", significant(most, 2)),
            (Some(of), None) => format!(
                "{} ({} to {})",
                significant(value, 3),
                significant(of.low, 3),
                significant(of.high, 3)
            ),
            (None, None) => format!("~{}", significant(value, 3)),
        })
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetMetricsRow {
    /// What it is of, in the order of the columns; empty where it is not known. Foreign text.
    pub keys: Vec<String>,
    /// Windows that count, or cgroups, each time that they were counted.
    pub counted: u64,
    /// Hosts that had any.
    pub hosts: u64,
    /// One per metric.
    pub metrics: Vec<FleetMetricCell>,
}

/// Metrics of a fleet.
#[derive(Debug)]
pub struct FleetMetricsView<'a> {
    /// What it covers.
    pub head: &'a FleetHead,
    /// Where was counted.
    pub of: FleetMetricsOf,
    /// What rows are by: names of columns.
    pub by: &'a [&'static str],
    /// Events that were counted at the same time, each set with commas. Foreign text.
    pub event_sets: &'a [String],
    /// The metrics.
    pub columns: &'a [FleetMetricColumn],
    /// The rows with most windows, or most CPU time.
    pub rows: &'a [FleetMetricsRow],
    /// All of them together, also those that are left out.
    pub total: &'a FleetMetricsRow,
}

#[derive(Serialize)]
struct MetricsJson<'a> {
    #[serde(flatten)]
    head: &'a FleetHead,
    counted_in: &'static str,
    by: &'a [&'static str],
    event_sets: &'a [String],
    columns: &'a [FleetMetricColumn],
    total: Sheet<'a>,
    rows: Sheet<'a>,
}

impl<'a> FleetMetricsView<'a> {
    fn sheet(&self, rows: &'a [FleetMetricsRow]) -> Sheet<'a> {
        let mut fields = vec![
            Field::count(self.of.counted_in(), |row: &FleetMetricsRow| row.counted).optional(2),
            Field::count("hosts", |row: &FleetMetricsRow| row.hosts).optional(3),
        ];
        for (at, column) in self.columns.iter().enumerate() {
            let is_measured = |row: &&FleetMetricsRow| row.metrics[at].value.is_some();
            let rank = 10_u8.saturating_add(at.try_into().unwrap_or(u8::MAX));
            fields.push(
                Field::figure(column.name.clone(), move |row: &FleetMetricsRow| {
                    row.metrics[at].text()
                })
                .about(format!("{}; {}", column.about, column.unit))
                .optional(if at == 0 { 0 } else { rank })
                .only_if_measured()
                .for_people(),
            );
            if !self.rows.iter().chain([self.total]).any(|row| is_measured(&row)) {
                continue;
            }
            fields.push(
                Field::estimate(column.name.clone(), move |row: &FleetMetricsRow| {
                    row.metrics[at].value
                })
                .for_programs(),
            );
            fields.push(
                Field::number(format!("{}_at_most", column.name), move |row: &FleetMetricsRow| {
                    row.metrics[at].at_most
                })
                .for_programs(),
            );
        }
        for (at, name) in self.by.iter().enumerate() {
            let text = move |row: &'a FleetMetricsRow| {
                row.keys.get(at).map(|key| &**key).filter(|key| !key.is_empty())
            };
            let wanted = if *name == "function" { NAME } else { 12 };
            fields.push(Field::text(*name, text).wanted(wanted));
        }
        // By all windows that end in a function, those that do not count too; or by CPU time.
        Sheet::new(fields, rows, rows.len()).by_another_order()
    }

    fn without_total(&self) -> Sheet<'a> {
        self.sheet(self.rows)
    }

    /// All rows together, for a line above the table: `all functions: CPI 1.23 (1.20 to 1.26), …`.
    fn total_line(&self) -> String {
        let metrics = self.columns.iter().zip(&self.total.metrics);
        let shown = metrics
            // The share that all have of all says nothing.
            .filter(|(column, _)| !column.about.starts_with("share of"))
            .filter_map(|(column, cell)| Some(format!("{} {}", column.name, cell.text()?)));
        format!("{}: {}", self.of.all(), shown.collect::<Vec<_>>().join(", "))
    }
}

impl Report for FleetMetricsView<'_> {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        self.head.push_text(&mut out, style);
        let sets: Vec<String> =
            self.event_sets.iter().map(|set| escape(set).into_owned()).collect();
        push_wrapped(&mut out, &format!("counted: {}", sets.join("; ")), style);
        push_wrapped(&mut out, &self.total_line(), style);
        out.push('\n');
        out.push_str(&self.without_total().text(style));
        out
    }

    fn json(&self) -> impl Serialize {
        MetricsJson {
            head: self.head,
            counted_in: self.of.counted_in(),
            by: self.by,
            event_sets: self.event_sets,
            columns: self.columns,
            total: self.sheet(std::slice::from_ref(self.total)),
            rows: self.without_total(),
        }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.without_total().delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let body = html! {
            section class="table-part" {
                h2 { "Metrics by " (self.by.join(", ")) }
                p class="dim" { (self.of.about()) }
                p { (self.total_line()) }
                (self.without_total().html())
            }
        };
        let summary = self.head.summary("Fleet: metrics");
        Some(PageFrame { schema: SCHEMA, commit }.page(&summary, &body))
    }
}
