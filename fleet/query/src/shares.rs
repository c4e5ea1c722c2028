//! Shares and CPUs of services and functions, with their intervals over hosts.
//!
//! ```text
//!            weight of the row   weight of all   recorded time        share = Σ wᵢ / Σ Wᵢ
//!  host 1    w₁                  W₁              t₁                   cores = Σ (wᵢ / tᵢ)
//!  host 2    w₂                  W₂              t₂                   each: delete-one-host jackknife
//!  …
//! ```

use std::collections::BTreeMap;

use pmuscope_stats::{Estimate, LEVEL, LogRatio};

use crate::engine::{Engine, QueryError};
use crate::hosts::{Coverage, hosts};
use crate::question::{NamedQuestion, ShareBy};

/// A row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareRow {
    /// What it is of, in the order that was asked for; empty where it is not known.
    pub keys: Vec<String>,
    /// Samples.
    pub samples: i64,
    /// What they stand for.
    pub weight: i64,
    /// Hosts that had any.
    pub hosts: usize,
    /// Part of the weight of all rows, 0 to 1.
    pub share: Option<Estimate>,
    /// CPUs that were in use for it, of all hosts together; missing where weights are no time.
    pub cores: Option<Estimate>,
}

/// Sums of all that a selection has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    /// What was recorded.
    pub coverage: Coverage,
    /// Samples in the selection.
    pub samples: i64,
    /// What they stand for.
    pub weight: i64,
    /// CPUs that were in use for the selection, of all hosts together.
    pub cores: Option<Estimate>,
}

/// Rows, and what they are parts of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares {
    /// All of the selection.
    pub fleet: Fleet,
    /// The largest rows.
    pub rows: Vec<ShareRow>,
}

/// The largest rows by these columns; `with_callees` counts a sample once for each function of its stack. `is_time`
/// says whether weights are microseconds.
///
/// # Errors
/// Those of the engine.
pub fn shares(
    engine: &Engine,
    by: &[ShareBy],
    limit: u64,
    with_callees: bool,
    is_time: bool,
) -> Result<Shares, QueryError> {
    let question = match by.iter().any(|one| one.is_of_stacks()) {
        false => NamedQuestion::Services,
        true if with_callees => NamedQuestion::Total,
        true => NamedQuestion::Functions,
    };
    let coverage = hosts(engine)?;
    let all = totals(engine)?;
    let found = engine.rows(&question.sql(by, limit))?;
    let mut keys = Vec::new();
    for column in by {
        keys.push(found.texts(column.column())?);
    }
    let (names, weights) = (found.texts("host")?, found.numbers("weight")?);
    let samples = found.numbers("samples")?;
    let mut rows: Vec<(Vec<String>, i64, BTreeMap<&str, i64>)> = Vec::new();
    for (at, host) in names.iter().enumerate() {
        let key: Vec<String> = keys.iter().map(|column| column[at].clone()).collect();
        // Rows of one key follow one another.
        if rows.last().is_none_or(|(last, ..)| *last != key) {
            rows.push((key, 0, BTreeMap::new()));
        }
        let Some((_, sum, by_host)) = rows.last_mut() else { continue };
        *sum += samples[at];
        *by_host.entry(host).or_default() += weights[at];
    }
    let recorded = coverage.recorded_us();
    let cores = |by_host: &BTreeMap<&str, i64>| {
        per_time(&recorded, |host| by_host.get(host).copied()).filter(|_| is_time)
    };
    let rows = rows.iter().map(|(keys, samples, by_host)| ShareRow {
        keys: keys.clone(),
        samples: *samples,
        weight: by_host.values().sum(),
        hosts: by_host.len(),
        share: share(&all.weights, by_host),
        cores: cores(by_host),
    });
    let rows = rows.collect();
    let weights: BTreeMap<&str, i64> =
        all.weights.iter().map(|(host, one)| (&**host, *one)).collect();
    let fleet = Fleet {
        samples: all.samples,
        weight: weights.values().sum(),
        cores: cores(&weights),
        coverage: coverage.clone(),
    };
    Ok(Shares { fleet, rows })
}

/// Sums of the selection.
struct HostWeights {
    samples: i64,
    /// By host.
    weights: BTreeMap<String, i64>,
}

fn totals(engine: &Engine) -> Result<HostWeights, QueryError> {
    let sql =
        "SELECT host, sum(weight) AS weight, sum(samples) AS samples FROM services GROUP BY host";
    let rows = engine.rows(sql)?;
    let samples = rows.numbers("samples")?.iter().sum();
    let weights = rows.texts("host")?.into_iter().zip(rows.numbers("weight")?).collect();
    Ok(HostWeights { samples, weights })
}

/// A part of what all hosts of the selection used.
fn share(all: &BTreeMap<String, i64>, part: &BTreeMap<&str, i64>) -> Option<Estimate> {
    let cluster = |(host, &all): (&String, &i64)| {
        (part.get(&**host).copied().unwrap_or_default() as f64, all as f64)
    };
    let clusters: Vec<(f64, f64)> = all.iter().map(cluster).collect();
    // A part that is all has no spread, and can have none.
    LogRatio::of(&clusters).map(|ratio| capped(ratio.estimate(LEVEL)))
}

/// No part is more than the whole.
fn capped(mut share: Estimate) -> Estimate {
    if let Some(interval) = &mut share.interval {
        interval.high = interval.high.min(1.0);
    }
    share
}

/// What hosts used per time that was recorded of each, added up: of CPU time, the CPUs in use on all of them. Of a busy host
/// less may have been recorded than of others, so it is not a ratio of sums.
pub(crate) fn per_time<'a>(
    recorded: &BTreeMap<&'a str, i64>,
    weight: impl Fn(&'a str) -> Option<i64>,
) -> Option<Estimate> {
    let rate =
        |(host, &us): (&&'a str, &i64)| (weight(host).unwrap_or_default() as f64 / us as f64, 1.0);
    let rates: Vec<(f64, f64)> = recorded.iter().filter(|(_, us)| **us > 0).map(rate).collect();
    let hosts = rates.len() as f64;
    let mut mean = LogRatio::of(&rates)?.estimate(LEVEL);
    mean.value *= hosts;
    if let Some(interval) = &mut mean.interval {
        interval.low *= hosts;
        interval.high *= hosts;
    }
    Some(mean)
}
