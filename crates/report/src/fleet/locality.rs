//! Where the memory of a fleet's services lies.

use pmuscope_stats::Interval;
use serde::Serialize;

use super::FleetHead;
use super::share::{FEW_HOSTS, range};
use crate::Style;
use crate::html::PageFrame;
use crate::markup::html;
use crate::number::{bytes, percent};
use crate::report::Report;
use crate::sheet::{Field, Separator, Sheet};

/// Kind and version of the result.
const SCHEMA: &str = "pmuscope/fleet-locality/1";

/// A row: memory that has something in common.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetLocalityRow {
    /// What it is of, in the order of the columns; empty where it is not known. Foreign text.
    pub keys: Vec<String>,
    /// Part of the memory that is local to the threads that use it, 0 to 1.
    pub locality: Option<(f64, Option<Interval>)>,
    /// Memory of processes that ran, bytes at a time, of all hosts together.
    pub memory_bytes: f64,
    /// Of it, what is not local.
    pub remote_bytes: f64,
    /// Memory of processes that did not run, bytes at a time.
    pub idle_bytes: f64,
    /// Share of the CPU time by node number, 0 to 1; missing where nothing ran.
    pub cpu_by_node: Option<Vec<f64>>,
    /// Share of the memory by node number, 0 to 1; missing without any.
    pub memory_by_node: Option<Vec<f64>>,
    /// Hosts that had any.
    pub hosts: u64,
}

/// Locality of a fleet.
#[derive(Debug)]
pub struct FleetLocalityView<'a> {
    /// What it covers.
    pub head: &'a FleetHead,
    /// What rows are by: names of columns.
    pub by: &'a [&'static str],
    /// The rows with most remote memory.
    pub rows: &'a [FleetLocalityRow],
}

#[derive(Serialize)]
struct LocalityJson<'a> {
    #[serde(flatten)]
    head: &'a FleetHead,
    by: &'a [&'static str],
    rows: Sheet<'a>,
}

/// Shares of nodes for people: `50% 50%`.
fn by_node<'a>(
    name: &'static str,
    of: impl Fn(&FleetLocalityRow) -> Option<&[f64]> + 'a,
) -> Field<'a, FleetLocalityRow> {
    Field::figure(name, move |row: &'a FleetLocalityRow| {
        let shares: Vec<String> = of(row)?.iter().map(|share| percent(*share, 0)).collect();
        Some(shares.join(" "))
    })
}

impl<'a> FleetLocalityView<'a> {
    fn sheet(&self) -> Sheet<'a> {
        let mut fields = vec![
            Field::estimate("local", |row: &FleetLocalityRow| row.locality)
                .why(|_| FEW_HOSTS)
                .for_programs(),
            Field::figure("local", |row: &FleetLocalityRow| Some(percent(row.locality?.0, 1)))
                .for_people(),
            range(
                |row: &FleetLocalityRow| row.locality,
                |low, high| format!("{} to {}", percent(low, 1), percent(high, 1)),
            ),
            Field::number("memory_bytes", |row: &FleetLocalityRow| Some(row.memory_bytes))
                .for_programs(),
            Field::number("remote_bytes", |row: &FleetLocalityRow| Some(row.remote_bytes))
                .for_programs(),
            Field::number("idle_bytes", |row: &FleetLocalityRow| Some(row.idle_bytes))
                .for_programs(),
            Field::figure("memory", |row: &FleetLocalityRow| Some(bytes(row.memory_bytes as u64)))
                .for_people(),
            Field::figure("remote", |row: &FleetLocalityRow| Some(bytes(row.remote_bytes as u64)))
                .for_people(),
            Field::figure("idle", |row: &FleetLocalityRow| Some(bytes(row.idle_bytes as u64)))
                .optional(3)
                .for_people(),
            by_node("cpu_by_node", |row| row.cpu_by_node.as_deref())
                .head("CPU by node")
                .optional(1),
            by_node("memory_by_node", |row| row.memory_by_node.as_deref())
                .head("memory by node")
                .optional(2),
            Field::count("hosts", |row: &FleetLocalityRow| row.hosts).optional(4),
        ];
        for (at, name) in self.by.iter().enumerate() {
            let text =
                move |row: &'a FleetLocalityRow| Some(&*row.keys[at]).filter(|key| !key.is_empty());
            fields.push(Field::text(*name, text).wanted(12));
        }
        Sheet::new(fields, self.rows, self.rows.len()).by_another_order()
    }
}

impl Report for FleetLocalityView<'_> {
    fn schema(&self) -> &'static str {
        SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        self.head.push_text(&mut out, style);
        out.push_str(&self.sheet().text(style));
        out
    }

    fn json(&self) -> impl Serialize {
        LocalityJson { head: self.head, by: self.by, rows: self.sheet() }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        Some(self.sheet().delimited(separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let body = html! {
            section class="table-part" {
                h2 { "Locality by " (self.by.join(", ")) }
                p class="dim" {
                    "local: the part of the memory that is local if all threads of a process use all of it alike; 95% CIs are \
                     over hosts. Memory is of a time, of all hosts together; idle is that of processes that did not run."
                }
                (self.sheet().html())
            }
        };
        let summary = self.head.summary("Fleet: locality of memory");
        Some(PageFrame { schema: SCHEMA, commit }.page(&summary, &body))
    }
}
