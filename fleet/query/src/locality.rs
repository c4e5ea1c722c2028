//! Where the memory of services lies, with intervals over hosts.
//!
//! ```text
//!            local bytes   bytes of processes that ran      locality = Σ lᵢ / Σ mᵢ
//!  host 1    l₁            m₁                               its interval: delete-one-host jackknife
//!  host 2    l₂            m₂
//! ```
//! Memory is that of a host at a time: sums over observations, divided by their number, added over hosts.

use std::collections::BTreeMap;

use pmuscope_stats::{Estimate, LEVEL, LogRatio};

use crate::engine::{Engine, QueryError};
use crate::hosts::{Coverage, emulated, hosts};
use crate::question::{NamedQuestion, ShareBy};

/// Memory that has something in common.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetLocalityRow {
    /// What it is of, in the order that was asked for; empty where it is not known.
    pub keys: Vec<String>,
    /// Part of the memory that is local to the threads that use it, 0 to 1; missing where no process ran.
    pub locality: Option<Estimate>,
    /// Memory of processes that ran, bytes at a time, of all hosts together.
    pub memory_bytes: f64,
    /// Of it, what is not local.
    pub remote_bytes: f64,
    /// Memory of processes that did not run, bytes at a time, of all hosts together.
    pub idle_bytes: f64,
    /// CPU time by node number, microseconds of all hosts, and memory, bytes at a time.
    pub nodes: BTreeMap<i64, NodeShare>,
    /// Hosts that had any.
    pub hosts: usize,
}

/// What is on the nodes of one number, of all hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeShare {
    /// CPU time, microseconds.
    pub cpu_us: i64,
    /// Memory, bytes at a time.
    pub memory_bytes: f64,
}

/// Locality of a fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetLocality {
    /// What was observed.
    pub coverage: Coverage,
    /// Hosts that are emulated, by emulator: their CPU times and NUMA nodes are the emulator's.
    pub emulated: BTreeMap<String, usize>,
    /// The rows with most remote memory.
    pub rows: Vec<FleetLocalityRow>,
}

/// The rows with most remote memory by these columns, of the engine's selection.
///
/// # Errors
/// Those of the engine.
pub fn locality(engine: &Engine, by: &[ShareBy], limit: u64) -> Result<FleetLocality, QueryError> {
    let coverage = hosts(engine)?;
    let found = engine.rows(&NamedQuestion::Locality.sql(by, limit))?;
    let mut keys = Vec::new();
    for column in by {
        keys.push(found.texts(column.column())?);
    }
    let number = |column: &str| found.numbers(column);
    let (names, nodes, observations) =
        (found.texts("host")?, number("node")?, number("observations")?);
    let (cpu_us, memory) = (number("cpu_us")?, number("memory_bytes")?);
    let (local, idle) = (number("local_bytes")?, number("idle_bytes")?);
    let mut rows: Vec<(Vec<String>, Vec<HostNode<'_>>)> = Vec::new();
    for (at, host) in names.iter().enumerate() {
        let key: Vec<String> = keys.iter().map(|column| column[at].clone()).collect();
        // Rows of one key follow one another.
        if rows.last().is_none_or(|(last, _)| *last != key) {
            rows.push((key, Vec::new()));
        }
        let Some((_, of_key)) = rows.last_mut() else { continue };
        of_key.push(HostNode {
            host,
            node: nodes[at],
            observations: observations[at].max(1) as f64,
            cpu_us: cpu_us[at],
            memory: memory[at] as f64,
            local: local[at] as f64,
            idle: idle[at] as f64,
        });
    }
    let rows = rows.into_iter().map(|(keys, nodes)| row(keys, &nodes)).collect();
    Ok(FleetLocality { coverage, emulated: emulated(engine, "locality")?, rows })
}

/// Sums of a host's node.
struct HostNode<'a> {
    host: &'a str,
    node: i64,
    observations: f64,
    cpu_us: i64,
    memory: f64,
    local: f64,
    idle: f64,
}

fn row(keys: Vec<String>, all: &[HostNode<'_>]) -> FleetLocalityRow {
    let mut by_host: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut nodes: BTreeMap<i64, NodeShare> = BTreeMap::new();
    for one in all {
        let (local, memory) = by_host.entry(one.host).or_default();
        *local += one.local / one.observations;
        *memory += one.memory / one.observations;
        let node = nodes.entry(one.node).or_default();
        node.cpu_us += one.cpu_us;
        node.memory_bytes += one.memory / one.observations;
    }
    let clusters: Vec<(f64, f64)> =
        by_host.values().copied().filter(|(_, memory)| *memory > 0.0).collect();
    let (local, memory) =
        clusters.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    FleetLocalityRow {
        keys,
        locality: share(&clusters),
        memory_bytes: memory,
        remote_bytes: memory - local,
        idle_bytes: all.iter().map(|one| one.idle / one.observations).sum(),
        nodes,
        hosts: by_host.len(),
    }
}

/// Local memory by all of it; without an interval where nothing is local, or there are too few hosts.
fn share(clusters: &[(f64, f64)]) -> Option<Estimate> {
    if let Some(ratio) = LogRatio::of(clusters) {
        let mut share = ratio.estimate(LEVEL);
        if let Some(interval) = &mut share.interval {
            interval.high = interval.high.min(1.0);
        }
        return Some(share);
    }
    let memory: f64 = clusters.iter().map(|(_, memory)| memory).sum();
    // A ratio of nothing to something has no logarithm.
    (memory > 0.0).then_some(Estimate { value: 0.0, interval: None, n: clusters.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, node: i64, memory: f64, local: f64) -> HostNode<'_> {
        HostNode { host, node, observations: 2.0, cpu_us: 10, memory, local, idle: 4.0 }
    }

    #[test]
    fn memory_is_of_a_time_and_locality_of_its_sums() {
        let all = [
            node("a", 0, 60.0, 15.0),
            node("a", 1, 20.0, 15.0),
            node("b", 0, 80.0, 80.0),
            node("b", 1, 0.0, 0.0),
        ];
        let row = row(vec!["web".into()], &all);
        assert_eq!((row.hosts, row.memory_bytes, row.remote_bytes), (2, 80.0, 25.0));
        assert_eq!(row.idle_bytes, 8.0);
        assert_eq!(row.nodes[&0], NodeShare { cpu_us: 20, memory_bytes: 70.0 });
        let locality = row.locality.unwrap();
        assert!((locality.value - 55.0 / 80.0).abs() < 1e-12);
        assert!(locality.interval.is_none(), "two hosts");
    }

    #[test]
    fn nothing_local_is_a_locality_of_0_and_no_memory_is_none() {
        assert_eq!(row(Vec::new(), &[node("a", 0, 10.0, 0.0)]).locality.unwrap().value, 0.0);
        assert_eq!(row(Vec::new(), &[node("a", 0, 0.0, 0.0)]).locality, None);
    }
}
