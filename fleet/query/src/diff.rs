//! Two sides of a fleet, such as two versions of a service: what changed beyond what differs from host to host.
//!
//! ```text
//!  hosts of a   hosts of b        what is compared
//!  1 2 3 4      5 6 7 8           sums of each side; jackknife of each, degrees of freedom after Welch and Satterthwaite
//!  1 2 3 4      2 3 4 5           hosts 2, 3 and 4 ran both: their own changes, whatever else differs between hosts
//!  1 2          3 4               inconclusive: two hosts do not say how much hosts differ
//! ```
//! A row is compared by its share of its side, so that more traffic alone is no change of a function; the whole side is
//! compared by the CPUs that it used per host.

use std::collections::{BTreeMap, BTreeSet};

use pmuscope_stats::{Estimate, LEVEL, LogRatio, MIN_CLUSTERS, weighted_holm};

use crate::engine::{Engine, QueryError};
use crate::hosts::{Coverage, hosts};
use crate::question::NamedQuestion;

/// Changes are claimed below this p-value, after Holm's correction for all rows.
const CLAIM: f64 = 0.01;

/// A side as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideTotals {
    /// Hosts that had samples of it.
    pub hosts: usize,
    /// Its samples.
    pub samples: i64,
    /// Time of the bins in which it was seen, of all its hosts, microseconds.
    pub recorded_us: i64,
    /// CPUs in use for it per host, while it was there; missing where weights are no time.
    pub cores_per_host: Option<Estimate>,
}

/// How something changed from a to b.
#[derive(Debug, Clone, PartialEq)]
pub struct SideChange {
    /// What: a function.
    pub key: String,
    /// Samples of each side.
    pub samples: [i64; 2],
    /// Its share of each side, 0 to 1.
    pub shares: [Option<Estimate>; 2],
    /// After by before; missing where a side has none of it.
    pub ratio: Option<Estimate>,
    /// The p-value, corrected for all rows; missing where hosts are too few.
    pub p: Option<f64>,
}

impl SideChange {
    /// Whether it changed beyond what differs from host to host; `None` where that is not known.
    #[must_use]
    pub fn differs(&self) -> Option<bool> {
        self.p.map(|p| p < CLAIM)
    }
}

/// Two sides, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetDiff {
    /// What was recorded of all hosts of the selection.
    pub coverage: Coverage,
    /// The two sides.
    pub sides: [SideTotals; 2],
    /// Hosts whose own changes are compared, where enough ran both sides; else sides are compared as they are.
    pub paired: Option<usize>,
    /// CPUs per host; its shares are missing.
    pub cost: Option<SideChange>,
    /// Functions, the largest first.
    pub rows: Vec<SideChange>,
}

/// What a host used for a side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Used {
    weight: f64,
    samples: i64,
    recorded_us: f64,
}

/// Hosts of both sides.
type BySide = [BTreeMap<String, Used>; 2];

/// Compares the sides that the engine's selection has, by their largest functions.
///
/// # Errors
/// Those of the engine.
pub fn diff(engine: &Engine, limit: u64, is_time: bool) -> Result<FleetDiff, QueryError> {
    let coverage = hosts(engine)?;
    let sides = sides(engine)?;
    let pairs = Pairing::of(&sides);
    let functions = functions(engine, limit)?;
    let mut rows: Vec<SideChange> =
        functions.into_iter().map(|(key, used)| pairs.change(key, &used, &sides)).collect();
    let recorded = |used: &Used| (used.weight, used.recorded_us);
    let mut cost = is_time.then(|| pairs.cost(&sides, recorded));
    correct(cost.as_mut(), &mut rows);
    let totals = |side: usize| {
        let used = || sides[side].values();
        let clusters: Vec<(f64, f64)> = used().map(recorded).collect();
        let cores = LogRatio::of(&clusters).map(|ratio| ratio.estimate(LEVEL));
        SideTotals {
            hosts: sides[side].len(),
            samples: used().map(|one| one.samples).sum(),
            recorded_us: used().map(|one| one.recorded_us).sum::<f64>() as i64,
            cores_per_host: cores.filter(|_| is_time),
        }
    };
    Ok(FleetDiff {
        coverage,
        sides: [totals(0), totals(1)],
        paired: pairs.hosts.as_ref().map(BTreeSet::len),
        cost,
        rows,
    })
}

/// Corrects p-values for their number; half of the level is for the cost as a whole, which is asked first.
fn correct(cost: Option<&mut SideChange>, rows: &mut [SideChange]) {
    let mut p: Vec<Option<f64>> = rows.iter().map(|row| row.p).collect();
    let tests = p.iter().flatten().count();
    let mut weights = vec![1.0; p.len()];
    p.push(cost.as_ref().and_then(|cost| cost.p));
    weights.push(tests.max(1) as f64);
    let mut corrected = weighted_holm(&p, &weights);
    if let (Some(cost), Some(p)) = (cost, corrected.pop()) {
        cost.p = p;
    }
    rows.iter_mut().zip(corrected).for_each(|(row, p)| row.p = p);
}

/// Which hosts are compared, and how.
struct Pairing {
    /// Hosts that ran both sides, where they are enough to speak for the smaller side.
    hosts: Option<BTreeSet<String>>,
}

impl Pairing {
    fn of(sides: &BySide) -> Self {
        let [a, b] = sides;
        let both: BTreeSet<String> =
            a.keys().filter(|host| b.contains_key(*host)).cloned().collect();
        let are_enough = both.len() >= MIN_CLUSTERS && 2 * both.len() >= a.len().min(b.len());
        Self { hosts: are_enough.then_some(both) }
    }

    /// A function's change of share.
    fn change(&self, key: String, used: &BySide, sides: &BySide) -> SideChange {
        let of = |side: usize, host: &String| {
            let own = used[side].get(host).copied().unwrap_or_default();
            (own.weight, sides[side].get(host).copied().unwrap_or_default().weight)
        };
        let shares = [0, 1].map(|side| {
            let clusters: Vec<(f64, f64)> = sides[side].keys().map(|host| of(side, host)).collect();
            LogRatio::of(&clusters)
        });
        let ratio = self.ratio(shares, of);
        SideChange {
            key,
            samples: [0, 1].map(|side| used[side].values().map(|one| one.samples).sum()),
            shares: shares.map(|share| share.map(|ratio| ratio.estimate(LEVEL))),
            ratio: ratio.map(|ratio| ratio.estimate(LEVEL)),
            p: ratio.and_then(|ratio| ratio.p_of_one()),
        }
    }

    /// The change of the CPUs that are in use.
    fn cost(&self, sides: &BySide, of_used: impl Fn(&Used) -> (f64, f64)) -> SideChange {
        let of = |side: usize, host: &String| sides[side].get(host).map_or((0.0, 0.0), &of_used);
        let cores = [0, 1].map(|side| {
            let clusters: Vec<(f64, f64)> = sides[side].keys().map(|host| of(side, host)).collect();
            LogRatio::of(&clusters)
        });
        let ratio = self.ratio(cores, of);
        SideChange {
            key: String::new(),
            samples: [0, 1].map(|side| sides[side].values().map(|one| one.samples).sum()),
            shares: [None, None],
            ratio: ratio.map(|ratio| ratio.estimate(LEVEL)),
            p: ratio.and_then(|ratio| ratio.p_of_one()),
        }
    }

    /// After by before: of the hosts that ran both, else of the sides as they are.
    fn ratio(
        &self,
        sides: [Option<LogRatio>; 2],
        of: impl Fn(usize, &String) -> (f64, f64),
    ) -> Option<LogRatio> {
        let Some(hosts) = &self.hosts else {
            let [a, b] = sides;
            return Some(a?.change_to(&b?));
        };
        let row = |host: &String| {
            let ((n_a, d_a), (n_b, d_b)) = (of(0, host), of(1, host));
            [n_a, d_a, n_b, d_b]
        };
        LogRatio::paired(&hosts.iter().map(row).collect::<Vec<_>>())
    }
}

/// What each host used for each side.
fn sides(engine: &Engine) -> Result<BySide, QueryError> {
    let rows = engine.rows(&NamedQuestion::Sides.sql(&[], 0))?;
    let (sides, names) = (rows.texts("side")?, rows.texts("host")?);
    let (weights, samples) = (rows.numbers("weight")?, rows.numbers("samples")?);
    let recorded = rows.numbers("recorded_us")?;
    let mut all = BySide::default();
    for (at, host) in names.into_iter().enumerate() {
        let used = Used {
            weight: weights[at] as f64,
            samples: samples[at],
            recorded_us: recorded[at] as f64,
        };
        all[usize::from(sides[at] == "b")].insert(host, used);
    }
    Ok(all)
}

/// What each host used for each function and side, the largest function first.
fn functions(engine: &Engine, limit: u64) -> Result<Vec<(String, BySide)>, QueryError> {
    let rows = engine.rows(&NamedQuestion::Diff.sql(&[], limit))?;
    let (names, sides) = (rows.texts("function")?, rows.texts("side")?);
    let (hosts, weights) = (rows.texts("host")?, rows.numbers("weight")?);
    let samples = rows.numbers("samples")?;
    let mut all: Vec<(String, BySide)> = Vec::new();
    for (at, (name, host)) in names.into_iter().zip(hosts).enumerate() {
        // Rows of one function follow one another.
        if all.last().is_none_or(|(last, _)| *last != name) {
            all.push((name, BySide::default()));
        }
        let Some((_, used)) = all.last_mut() else { continue };
        let own = Used { weight: weights[at] as f64, samples: samples[at], recorded_us: 0.0 };
        used[usize::from(sides[at] == "b")].insert(host, own);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(hosts: &[(&str, f64)]) -> BTreeMap<String, Used> {
        let used = |weight: f64| Used { weight, samples: weight as i64, recorded_us: 100.0 };
        hosts.iter().map(|&(host, weight)| (host.to_owned(), used(weight))).collect()
    }

    fn names(from: u32, to: u32) -> Vec<(String, f64)> {
        (from..to).map(|number| (format!("h{number}"), 100.0)).collect()
    }

    fn as_side(hosts: &[(String, f64)]) -> BTreeMap<String, Used> {
        side(&hosts.iter().map(|(host, weight)| (&**host, *weight)).collect::<Vec<_>>())
    }

    #[test]
    fn hosts_that_ran_both_sides_are_compared_with_themselves_where_they_are_enough() {
        let paired = |a: (u32, u32), b: (u32, u32)| {
            let sides = [as_side(&names(a.0, a.1)), as_side(&names(b.0, b.1))];
            Pairing::of(&sides).hosts.map(|hosts| hosts.len())
        };
        assert_eq!(paired((0, 4), (1, 5)), Some(3));
        assert_eq!(paired((0, 4), (2, 6)), None, "two say nothing of how much hosts differ");
        assert_eq!(paired((0, 10), (7, 17)), None, "3 of 10 do not speak for the rest");
        assert_eq!(paired((0, 4), (4, 8)), None);
    }

    /// Hosts differ tenfold, and each gets 10% more of it: only pairs show that.
    #[test]
    fn a_change_that_all_hosts_have_is_found_in_pairs_however_hosts_differ() {
        let own = [2.0, 10.0, 5.0, 20.0];
        let hosts = |scale: f64| -> Vec<(String, f64)> {
            (0..4)
                .map(|at| (format!("h{at}"), own[at] * scale * (1.0 + 0.001 * at as f64)))
                .collect()
        };
        let sides = [as_side(&names(0, 4)), as_side(&names(0, 4))];
        let used = [as_side(&hosts(1.0)), as_side(&hosts(1.1))];
        let paired = Pairing::of(&sides).change("f".into(), &used, &sides);
        let alone = Pairing { hosts: None }.change("f".into(), &used, &sides);
        for change in [&paired, &alone] {
            assert!((change.ratio.unwrap().value - 1.1).abs() < 1e-9, "{change:?}");
        }
        assert!(paired.ratio.unwrap().interval.is_some_and(|i| i.high - i.low < 1e-6));
        assert!(alone.p.unwrap() > 0.5, "{alone:?}");
    }

    #[test]
    fn two_hosts_a_side_are_inconclusive_and_what_one_side_lacks_has_no_ratio() {
        let sides = [as_side(&names(0, 2)), as_side(&names(2, 4))];
        let used = [side(&[("h0", 10.0), ("h1", 11.0)]), side(&[("h2", 90.0), ("h3", 91.0)])];
        let change = Pairing::of(&sides).change("f".into(), &used, &sides);
        assert_eq!((change.p, change.differs()), (None, None));
        assert!((change.ratio.unwrap().value - 181.0 / 21.0).abs() < 1e-9);
        let gone = Pairing::of(&sides).change("f".into(), &[used[0].clone(), side(&[])], &sides);
        assert_eq!((gone.ratio, gone.p, gone.samples), (None, None, [21, 0]));
    }

    #[test]
    fn the_cost_as_a_whole_has_half_of_the_level() {
        let row = |p| SideChange {
            key: String::new(),
            samples: [1, 1],
            shares: [None, None],
            ratio: None,
            p: Some(p),
        };
        let (mut cost, mut rows) = (row(0.004), vec![row(0.5), row(0.6), row(0.7), row(0.8)]);
        correct(Some(&mut cost), &mut rows);
        assert!((cost.p.unwrap() - 0.008).abs() < 1e-12 && cost.differs() == Some(true));
        let mut alone = vec![row(0.004), row(0.5)];
        correct(None, &mut alone);
        assert!((alone[0].p.unwrap() - 0.008).abs() < 1e-12);
    }
}
