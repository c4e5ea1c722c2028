//! What was recorded of each host: the denominator of all shares, and what an answer does not cover.

use std::collections::BTreeMap;

use crate::engine::{Engine, QueryError};
use crate::question::NamedQuestion;

/// What was recorded of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCoverage {
    /// Host name.
    pub host: String,
    /// Most CPUs that were online.
    pub cpus: Option<i64>,
    /// Bins of time.
    pub bins: i64,
    /// Time in which the event was enabled, microseconds.
    pub recorded_us: i64,
    /// The same times the CPUs that were online; missing where their number is.
    pub cpu_us: Option<i64>,
    /// Samples of all services.
    pub samples: i64,
    /// Samples lost; missing where nobody counted.
    pub lost: Option<i64>,
    /// Times that the kernel suspended sampling.
    pub throttled: i64,
}

/// What was recorded of all hosts of a selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// By name.
    pub hosts: Vec<HostCoverage>,
    /// The first bin begins and the last one ends, microseconds since 1970; missing without any.
    pub span_us: Option<(i64, i64)>,
    /// Hosts of which more time was recorded than there is: by two agents, or with a clock that was set back.
    pub twice: Vec<String>,
}

impl Coverage {
    /// Time that was recorded, of the time from the first bin to the last on all hosts, 0 to 1.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let (from, until) = self.span_us?;
        let all = (until - from) as f64 * self.hosts.len() as f64;
        let recorded: i64 = self.hosts.iter().map(|host| host.recorded_us).sum();
        (all > 0.0).then_some(recorded as f64 / all)
    }

    /// Samples lost, of all hosts that counted; missing where none did.
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        let counted = self.hosts.iter().filter_map(|host| host.lost);
        counted.map(i64::unsigned_abs).reduce(u64::saturating_add)
    }

    /// Recorded time by host, microseconds.
    #[must_use]
    pub fn recorded_us(&self) -> BTreeMap<&str, i64> {
        self.hosts.iter().map(|host| (&*host.host, host.recorded_us)).collect()
    }
}

/// What was recorded of each host of the engine's selection.
///
/// # Errors
/// Those of the engine.
pub fn hosts(engine: &Engine) -> Result<Coverage, QueryError> {
    let rows = engine.rows(&NamedQuestion::Hosts.sql(&[], 0))?;
    let (names, cpus, bins) =
        (rows.texts("host")?, rows.optional_numbers("cpus")?, rows.numbers("bins")?);
    let (recorded, cpu_us) = (rows.numbers("recorded_us")?, rows.optional_numbers("cpu_us")?);
    let (samples, lost) = (rows.numbers("samples")?, rows.optional_numbers("lost")?);
    let throttled = rows.numbers("throttled")?;
    let host = |(at, host): (usize, String)| HostCoverage {
        host,
        cpus: cpus[at],
        bins: bins[at],
        recorded_us: recorded[at],
        cpu_us: cpu_us[at],
        samples: samples[at],
        lost: lost[at],
        throttled: throttled[at],
    };
    let hosts = names.into_iter().enumerate().map(host).collect();
    Ok(Coverage { hosts, span_us: span(engine)?, twice: twice(engine)? })
}

/// Hosts with rows in a table that are emulated, by emulator: what was measured there is the emulator's.
pub(crate) fn emulated(
    engine: &Engine,
    table: &str,
) -> Result<BTreeMap<String, usize>, QueryError> {
    emulators(
        engine,
        &format!("hosts WHERE emulator IS NOT NULL AND host IN (SELECT host FROM {table})"),
    )
}

/// Hosts by emulator, of rows that have both.
pub(crate) fn emulators(
    engine: &Engine,
    rows: &str,
) -> Result<BTreeMap<String, usize>, QueryError> {
    let found = engine.rows(&format!(
        "SELECT emulator, count(DISTINCT host) AS hosts FROM {rows} GROUP BY emulator"
    ))?;
    let hosts = found.numbers("hosts")?.into_iter().map(|hosts| hosts as usize);
    Ok(found.texts("emulator")?.into_iter().zip(hosts).collect())
}

/// Hosts with bins that have more recorded time than they are long; clocks may differ a little.
fn twice(engine: &Engine) -> Result<Vec<String>, QueryError> {
    let rows = engine.rows(
        "SELECT host FROM (SELECT host, start FROM intervals GROUP BY host, start \
         HAVING sum(recorded_us) > 1.02 * max(bin_us)) AS one GROUP BY host ORDER BY host",
    )?;
    rows.texts("host")
}

/// When the first bin begins and the last one ends.
fn span(engine: &Engine) -> Result<Option<(i64, i64)>, QueryError> {
    // Whole numbers, whatever the engine's unit of time is.
    let rows = engine.rows(
        "SELECT min(arrow_cast(start, 'Int64')) AS begun, max(arrow_cast(start, 'Int64') + bin_us) AS ended \
         FROM intervals",
    )?;
    let (begun, ended) = (rows.optional_numbers("begun")?, rows.optional_numbers("ended")?);
    Ok(begun.first().copied().flatten().zip(ended.first().copied().flatten()))
}
