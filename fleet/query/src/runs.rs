//! Values of runs of benchmarks, with intervals over hosts.
//!
//! ```text
//!            runs           mean of the host        mean of the hosts' means
//!  host 1    x₁₁ x₁₂ …      m₁                      m = Σ mᵢ / hosts
//!  host 2    x₂₁ x₂₂ …      m₂                      its interval: Student's, over the mᵢ
//! ```
//! Runs of one host are alike, so hosts are the unit of variation, however many runs each has made.

use std::collections::BTreeMap;

use pmuscope_stats::{Estimate, LEVEL, MIN_CLUSTERS, mean_interval, median, outliers};

use crate::engine::{Engine, QueryError};
use crate::hosts::emulators;
use crate::question::{NamedQuestion, ShareBy};

/// A value over hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRun {
    /// What it is of, in the order that was asked for; empty where it is not known.
    pub keys: Vec<String>,
    /// What was measured.
    pub name: String,
    /// The part of the machine or the settings that it is of; empty where it is of the whole run.
    pub part: String,
    /// Its unit; empty for a count.
    pub unit: String,
    /// Where it comes from, as in `run_values`.
    pub origin: String,
    /// Hosts that have it.
    pub hosts: usize,
    /// Runs that have it.
    pub runs: i64,
    /// The mean of the hosts' means; without an interval with fewer than three hosts.
    pub mean: Option<Estimate>,
    /// Hosts whose means are far from those of the others, the farthest first.
    pub standing_out: Vec<StandingOut>,
    /// Its runs were of different command lines.
    pub has_several_commands: bool,
}

/// A host that stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct StandingOut {
    /// The host.
    pub host: String,
    /// Its mean, divided by the median of all hosts; missing where that is not positive.
    pub ratio: Option<f64>,
}

/// Values of runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetRuns {
    /// Runs that are usable.
    pub runs: i64,
    /// Runs that are not, and are left out.
    pub failed: i64,
    /// Hosts with usable runs.
    pub hosts: i64,
    /// When the first run began and the last one ended, microseconds since 1970; missing without any.
    pub span_us: Option<(i64, i64)>,
    /// Hosts whose runs were emulated, by emulator: their values are the emulator's.
    pub emulated: BTreeMap<String, usize>,
    /// Rows without the limit.
    pub all: i64,
    /// The first rows.
    pub rows: Vec<FleetRun>,
}

/// Values of runs by these columns, of the engine's selection.
///
/// # Errors
/// Those of the engine.
pub fn runs(engine: &Engine, by: &[ShareBy], limit: u64) -> Result<FleetRuns, QueryError> {
    let found = engine.rows(&NamedQuestion::Runs.sql(by, limit))?;
    let mut keys = Vec::new();
    for column in by.iter().map(|one| one.column()).chain(["name", "part", "value_unit", "origin"])
    {
        keys.push(found.texts(column)?);
    }
    let (hosts, counts) = (found.texts("host")?, found.numbers("n")?);
    let totals = found.optional_values("total")?;
    let commands = (found.numbers("first_command")?, found.numbers("last_command")?);
    let mut rows: Vec<RowInTheMaking> = Vec::new();
    for (at, host) in hosts.into_iter().enumerate() {
        let key: Vec<String> = keys.iter().map(|column| column[at].clone()).collect();
        // Rows of one key follow one another.
        if rows.last().is_none_or(|last| last.keys != key) {
            let (runs, commands) = (0, (i64::MAX, i64::MIN));
            rows.push(RowInTheMaking { keys: key, runs, commands, means: Vec::new() });
        }
        let Some(row) = rows.last_mut() else { continue };
        row.runs += counts[at];
        row.commands.0 = row.commands.0.min(commands.0[at]);
        row.commands.1 = row.commands.1.max(commands.1[at]);
        row.means.extend(totals[at].map(|total| (host, total / counts[at].max(1) as f64)));
    }
    let rows = rows.into_iter().map(RowInTheMaking::finish).collect();
    let all = rows_without_limit(engine, by)?;
    let emulated = emulators(engine, "runs WHERE usable AND emulator IS NOT NULL")?;
    Ok(FleetRuns { all, rows, emulated, ..totals_of(engine)? })
}

/// A row, host by host.
struct RowInTheMaking {
    /// Columns, name, part, unit, origin.
    keys: Vec<String>,
    runs: i64,
    /// The least and the greatest id.
    commands: (i64, i64),
    /// By host.
    means: Vec<(String, f64)>,
}

impl RowInTheMaking {
    fn finish(mut self) -> FleetRun {
        let mut last = || self.keys.pop().unwrap_or_default();
        let (origin, unit, part, name) = (last(), last(), last(), last());
        let means: Vec<f64> = self.means.iter().map(|(_, mean)| *mean).collect();
        let mean = mean_interval(&means, LEVEL).map(|mean| Estimate {
            interval: mean.interval.filter(|_| means.len() >= MIN_CLUSTERS),
            ..mean
        });
        FleetRun {
            keys: self.keys,
            name,
            part,
            unit,
            origin,
            hosts: means.len(),
            runs: self.runs,
            mean,
            standing_out: standing_out(&self.means, &means),
            has_several_commands: self.commands.0 < self.commands.1,
        }
    }
}

/// Hosts that are far from the others.
fn standing_out(hosts: &[(String, f64)], means: &[f64]) -> Vec<StandingOut> {
    let middle = median(means).unwrap_or_default();
    let flags = outliers(means);
    let mut found: Vec<&(String, f64)> =
        hosts.iter().zip(&flags).filter(|(_, flag)| **flag).map(|(host, _)| host).collect();
    let distance = |(_, mean): &(String, f64)| (mean - middle).abs();
    found.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let row = |(host, mean): &(String, f64)| StandingOut {
        host: host.clone(),
        ratio: (middle > 0.0).then(|| mean / middle),
    };
    found.into_iter().map(row).collect()
}

/// Runs and hosts of the selection, and when they ran.
fn totals_of(engine: &Engine) -> Result<FleetRuns, QueryError> {
    // Whole numbers, whatever the engine's unit of time is.
    let rows = engine.rows(
        "SELECT sum(CASE WHEN usable THEN 1 ELSE 0 END) AS runs, sum(CASE WHEN usable THEN 0 ELSE 1 END) AS failed, \
         count(DISTINCT CASE WHEN usable THEN host END) AS hosts, min(start_us) AS begun, max(start_us + duration_us) AS ended \
         FROM (SELECT DISTINCT batch, run, usable, host, arrow_cast(start, 'Int64') AS start_us, duration_us FROM runs) AS one",
    )?;
    let first = |column: &str| -> Result<Option<i64>, QueryError> {
        Ok(rows.optional_numbers(column)?.first().copied().flatten())
    };
    Ok(FleetRuns {
        runs: first("runs")?.unwrap_or_default(),
        failed: first("failed")?.unwrap_or_default(),
        hosts: first("hosts")?.unwrap_or_default(),
        span_us: first("begun")?.zip(first("ended")?),
        ..FleetRuns::default()
    })
}

/// How many rows the question has without a limit.
fn rows_without_limit(engine: &Engine, by: &[ShareBy]) -> Result<i64, QueryError> {
    let by: Vec<&str> = by.iter().map(|one| one.column()).collect();
    let by = by.join(", ");
    let rows = engine.rows(&format!(
        "SELECT count(*) AS n FROM (SELECT {by}, name, part, value_unit, origin FROM \
         (SELECT batch, run, name, part, value_unit, origin FROM run_values_filled WHERE value IS NOT NULL) AS measured \
         JOIN (SELECT batch, run, {by} FROM runs_filled WHERE usable) AS done USING (batch, run) \
         GROUP BY {by}, name, part, value_unit, origin) AS one"
    ))?;
    Ok(rows.numbers("n")?.first().copied().unwrap_or_default())
}
