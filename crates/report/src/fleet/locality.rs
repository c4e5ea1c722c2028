//! Where the memory of a fleet's services lies.

use pmuscope_stats::Interval;

use super::FleetHead;
use super::one_table::OneTable;
use super::share::{FEW_HOSTS, range};
use crate::number::{bytes, percent};
use crate::sheet::{Field, Sheet};

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

impl OneTable for FleetLocalityView<'_> {
    const SCHEMA: &'static str = "pmuscope/fleet-locality/1";
    const TITLE: &'static str = "Fleet: locality of memory";
    const HEADING: &'static str = "Locality";
    const ABOUT: &'static str = "local: the part of the memory that is local if all threads of a process use all of it alike; 95% CIs are \
        over hosts. Memory is of a time, of all hosts together; idle is that of processes that did not run.";

    fn head(&self) -> &FleetHead {
        self.head
    }

    fn by(&self) -> &[&'static str] {
        self.by
    }

    fn sheet<'s>(&'s self) -> Sheet<'s> {
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
                move |row: &'s FleetLocalityRow| Some(&*row.keys[at]).filter(|key| !key.is_empty());
            fields.push(Field::text(*name, text).wanted(12));
        }
        Sheet::new(fields, self.rows, self.rows.len()).by_another_order()
    }
}
