//! Where threads of a fleet wait.

use pmuscope_stats::Interval;

use super::FleetHead;
use super::one_table::OneTable;
use super::share::{FEW_HOSTS, range};
use crate::number::{duration, significant};
use crate::sheet::{Field, NAME, Sheet};

/// A row: waits that have something in common.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetWaitRow {
    /// What they are of, in the order of the columns; empty where it is not known. Foreign text.
    pub keys: Vec<String>,
    /// Threads that wait at a time, of all hosts together.
    pub threads: Option<(f64, Option<Interval>)>,
    /// Waits per second, of all hosts together.
    pub rate: Option<(f64, Option<Interval>)>,
    /// How many were recorded.
    pub waits: u64,
    /// Mean time, seconds.
    pub mean_s: Option<f64>,
    /// Mean time from the wakeup until the thread ran, seconds; part of the mean; too small where some wakeups are not known, missing where none is.
    pub run_queue_s: Option<f64>,
    /// Half of them are shorter than this, seconds.
    pub median_below_s: Option<f64>,
    /// 99% of them are shorter than this, seconds; missing where there are too few.
    pub p99_below_s: Option<f64>,
    /// Hosts that had any.
    pub hosts: u64,
}

/// Waits of a fleet.
#[derive(Debug)]
pub struct FleetWaitsView<'a> {
    /// What it covers.
    pub head: &'a FleetHead,
    /// What rows are by: names of columns.
    pub by: &'a [&'static str],
    /// The rows with most time.
    pub rows: &'a [FleetWaitRow],
}

/// An upper bound for people.
fn below<'a>(
    name: &'static str,
    of: impl Fn(&FleetWaitRow) -> Option<f64> + 'a,
) -> Field<'a, FleetWaitRow> {
    Field::figure(name, move |row: &'a FleetWaitRow| Some(format!("<{}", duration(of(row)?))))
        .for_people()
}

impl OneTable for FleetWaitsView<'_> {
    const SCHEMA: &'static str = "pmuscope/fleet-waits/1";
    const TITLE: &'static str = "Fleet: waits";
    const HEADING: &'static str = "Waits";
    const ABOUT: &'static str = "threads: how many wait at a time, on average, of all hosts together; 95% CIs are over hosts. Lengths are \
        known to a power of two, so median and p99 are upper bounds. run queue: the part of the mean from the wakeup until the thread ran.";

    fn head(&self) -> &FleetHead {
        self.head
    }

    fn by(&self) -> &[&'static str] {
        self.by
    }

    fn sheet<'s>(&'s self) -> Sheet<'s> {
        let mut fields = vec![
            Field::estimate("threads", |row: &FleetWaitRow| row.threads)
                .why(|_| FEW_HOSTS)
                .for_programs(),
            Field::number("threads", |row: &FleetWaitRow| Some(row.threads?.0)).for_people(),
            range(
                |row: &FleetWaitRow| row.threads,
                |low, high| format!("{} to {}", significant(low, 2), significant(high, 2)),
            ),
            Field::estimate("waits_per_s", |row: &FleetWaitRow| row.rate).for_programs(),
            Field::number("waits_per_s", |row: &FleetWaitRow| Some(row.rate?.0))
                .head("waits/s")
                .for_people(),
            Field::seconds("mean_s", |row: &FleetWaitRow| row.mean_s).head("mean"),
            Field::seconds("run_queue_s", |row: &FleetWaitRow| row.run_queue_s)
                .head("run queue")
                .optional(1),
            Field::seconds("median_below_s", |row: &FleetWaitRow| row.median_below_s)
                .for_programs(),
            below("median", |row| row.median_below_s),
            Field::seconds("p99_below_s", |row: &FleetWaitRow| row.p99_below_s).for_programs(),
            below("p99", |row| row.p99_below_s),
            Field::count("waits", |row: &FleetWaitRow| row.waits).optional(2),
            Field::count("hosts", |row: &FleetWaitRow| row.hosts).optional(3),
        ];
        for (at, name) in self.by.iter().enumerate() {
            let text =
                move |row: &'s FleetWaitRow| Some(&*row.keys[at]).filter(|key| !key.is_empty());
            let is_function = matches!(*name, "function" | "wait");
            let field = Field::text(*name, text).wanted(if is_function { NAME } else { 12 });
            fields.push(match *name {
                "function" => field.searches(move |row| row.keys[at].clone()),
                _ => field,
            });
        }
        Sheet::new(fields, self.rows, self.rows.len())
    }
}
