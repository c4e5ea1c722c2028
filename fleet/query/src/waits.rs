//! Where threads wait, with intervals over hosts.
//!
//! ```text
//!            time in the wait   recorded time        threads = Σ (wᵢ / tᵢ): as many wait at a time, on average
//!  host 1    w₁                 t₁                   its interval: delete-one-host jackknife
//!  host 2    w₂                 t₂
//! ```

use std::collections::BTreeMap;

use pmuscope_stats::Estimate;

use crate::engine::{Engine, QueryError};
use crate::hosts::{Coverage, hosts};
use crate::question::{NamedQuestion, ShareBy};
use crate::shares::per_time;

/// Waits of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetWait {
    /// What it is of, in the order that was asked for; empty where it is not known.
    pub keys: Vec<String>,
    /// How many waits.
    pub waits: i64,
    /// Hosts that had any.
    pub hosts: usize,
    /// Time of all of them, microseconds.
    pub time_us: i64,
    /// Of it, from the wakeup until the thread ran, where the wakeup is known.
    pub queued_us: i64,
    /// Threads that wait at a time, of all hosts together.
    pub threads: Option<Estimate>,
    /// Waits that begin per second, of all hosts together.
    pub rate: Option<Estimate>,
    /// Waits by length: the power of two, nanoseconds, and how many. Without those that began before the recording or were
    /// going on at its end.
    pub lengths: BTreeMap<i64, i64>,
}

impl FleetWait {
    /// The power of two that so many of all waits (`part`, 0 to 1) are shorter than, nanoseconds; missing where there are
    /// too few for anything to lie beyond it.
    #[must_use]
    pub fn shorter_than_ns(&self, part: f64) -> Option<i64> {
        let n: i64 = self.lengths.values().sum();
        if n == 0 || n as f64 * (1.0 - part) < 1.0 && part > 0.5 {
            return None;
        }
        let rank = (part * n as f64).ceil().max(1.0) as i64;
        let mut seen = 0;
        let found = self.lengths.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map(|(&from, _)| from.saturating_mul(2).max(SHORTEST_NS))
    }

    /// The mean time off the CPU within the recording, microseconds.
    #[must_use]
    pub fn mean_us(&self) -> Option<f64> {
        (self.waits > 0).then(|| self.time_us as f64 / self.waits as f64)
    }

    /// The mean run-queue latency, microseconds; too small where wakeups are not known, missing where none is.
    #[must_use]
    pub fn mean_queued_us(&self) -> Option<f64> {
        (self.waits > 0 && self.queued_us > 0).then(|| self.queued_us as f64 / self.waits as f64)
    }
}

/// What the shortest waits are shorter than, nanoseconds.
const SHORTEST_NS: i64 = 1024;

/// The rows with most time by these columns, and what they are of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetWaits {
    /// What was recorded.
    pub coverage: Coverage,
    /// Waits of all rows, also those that are left out.
    pub waits: i64,
    /// The largest rows.
    pub rows: Vec<FleetWait>,
}

/// The largest rows by these columns, of the engine's selection.
///
/// # Errors
/// Those of the engine.
pub fn waits(engine: &Engine, by: &[ShareBy], limit: u64) -> Result<FleetWaits, QueryError> {
    let coverage = hosts(engine)?;
    let all = engine.rows("SELECT sum(waits) AS waits FROM waits")?.numbers("waits")?;
    let found = engine.rows(&NamedQuestion::Waits.sql(by, limit))?;
    let mut keys = Vec::new();
    for column in by {
        keys.push(found.texts(column.column())?);
    }
    let (names, lengths) = (found.texts("host")?, found.optional_numbers("length_ns")?);
    let (counts, times) = (found.numbers("waits")?, found.numbers("time_us")?);
    let queued = found.numbers("queued_us")?;
    let mut rows: Vec<HostWaits<'_>> = Vec::new();
    for (at, host) in names.iter().enumerate() {
        let key: Vec<String> = keys.iter().map(|column| column[at].clone()).collect();
        // Rows of one key follow one another.
        if rows.last().is_none_or(|last| last.keys != key) {
            rows.push(HostWaits { keys: key, ..HostWaits::default() });
        }
        let Some(row) = rows.last_mut() else { continue };
        let (waits, time_us) = row.by_host.entry(host).or_default();
        *waits += counts[at];
        *time_us += times[at];
        row.queued_us += queued[at];
        if let Some(length) = lengths[at] {
            *row.lengths.entry(length).or_default() += counts[at];
        }
    }
    let recorded = coverage.recorded_us();
    let row = |row: HostWaits<'_>| {
        let of = |value: fn(&(i64, i64)) -> i64| {
            per_time(&recorded, |host| row.by_host.get(host).map(value))
        };
        FleetWait {
            waits: row.by_host.values().map(|(waits, _)| waits).sum(),
            hosts: row.by_host.len(),
            time_us: row.by_host.values().map(|(_, time_us)| time_us).sum(),
            queued_us: row.queued_us,
            threads: of(|(_, time_us)| *time_us),
            rate: of(|(waits, _)| *waits).map(per_second),
            keys: row.keys,
            lengths: row.lengths,
        }
    };
    let rows = rows.into_iter().map(row).collect();
    Ok(FleetWaits { waits: all.iter().sum(), rows, coverage })
}

/// A row in the making.
#[derive(Default)]
struct HostWaits<'a> {
    keys: Vec<String>,
    /// Waits, and their time.
    by_host: BTreeMap<&'a str, (i64, i64)>,
    queued_us: i64,
    lengths: BTreeMap<i64, i64>,
}

/// From per microsecond to per second.
fn per_second(mut rate: Estimate) -> Estimate {
    rate.value *= 1e6;
    if let Some(interval) = &mut rate.interval {
        interval.low *= 1e6;
        interval.high *= 1e6;
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_an_upper_bound() {
        let of = |lengths: &[(i64, i64)]| FleetWait {
            keys: Vec::new(),
            waits: 0,
            hosts: 0,
            time_us: 0,
            queued_us: 0,
            threads: None,
            rate: None,
            lengths: lengths.iter().copied().collect(),
        };
        assert_eq!(of(&[]).shorter_than_ns(0.5), None);
        assert_eq!(of(&[(0, 1)]).shorter_than_ns(0.5), Some(1024));
        let some = of(&[(0, 1), (1024, 49), (2048, 49), (4096, 1)]);
        assert_eq!(
            (some.shorter_than_ns(0.5), some.shorter_than_ns(0.51)),
            (Some(2048), Some(4096))
        );
        assert_eq!((some.shorter_than_ns(0.99), some.shorter_than_ns(0.999)), (Some(4096), None));
    }
}
