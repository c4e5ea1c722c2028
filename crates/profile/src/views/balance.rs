//! How evenly samples fall on CPUs or nodes.

use std::collections::BTreeMap;

use crate::aggregate::Aggregate;

/// Shares of CPUs or nodes, of the samples that tell theirs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Balance {
    /// CPUs or nodes with samples.
    pub units: usize,
    /// The one with the largest share, and its share, 0 to 1.
    pub busiest: (u32, f64),
    /// The one with the smallest share of those with samples, and its share.
    pub idlest: (u32, f64),
}

impl Balance {
    /// The share of each if all were alike.
    #[must_use]
    pub fn mean(&self) -> f64 {
        1.0 / self.units as f64
    }
}

/// The balance of an event by weight; `unit_of` tells which unit a CPU belongs to. `None` where fewer
/// than two have samples: there is nothing to balance.
#[must_use]
pub fn balance(
    counts: &Aggregate,
    event: u32,
    unit_of: &dyn Fn(u32) -> Option<u32>,
) -> Option<Balance> {
    let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
    for cell in counts.of_event(event) {
        if let Some(unit) = cell.cpu.and_then(unit_of) {
            let weight = weights.entry(unit).or_default();
            *weight = weight.saturating_add(cell.weight);
        }
    }
    let all: f64 = weights.values().map(|&weight| weight as f64).sum();
    let share = |(&unit, &weight): (&u32, &u64)| (unit, weight as f64 / all);
    // Of equal ones the first.
    let busiest = weights.iter().rev().max_by_key(|(_, weight)| **weight).map(share)?;
    let idlest = weights.iter().min_by_key(|(_, weight)| **weight).map(share)?;
    (weights.len() > 1 && all > 0.0).then_some(Balance { units: weights.len(), busiest, idlest })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Plain, aggregate};
    use super::*;

    fn counts(weights: &[u64]) -> Aggregate {
        let one =
            |(cpu, &weight): (u32, &u64)| Plain { task: 0, cpu, calls: vec![0], block: 0, weight };
        aggregate(&(0..).zip(weights).map(one).collect::<Vec<_>>())
    }

    #[test]
    fn the_busiest_and_the_idlest_are_found() {
        let found = balance(&counts(&[30, 50, 20, 50, 50]), 0, &Some).unwrap();
        assert_eq!((found.units, found.busiest, found.idlest), (5, (1, 0.25), (2, 0.1)));
        assert_eq!(found.mean(), 0.2);
        let nodes = balance(&counts(&[30, 50, 20, 50, 50]), 0, &|cpu| Some(cpu / 3)).unwrap();
        assert_eq!((nodes.units, nodes.busiest, nodes.idlest), (2, (0, 0.5), (0, 0.5)));
    }

    #[test]
    fn one_alone_has_no_balance() {
        assert_eq!(balance(&counts(&[30]), 0, &Some), None);
        assert_eq!(balance(&counts(&[30, 3]), 0, &|_| None), None);
        assert_eq!(balance(&counts(&[30, 3]), 7, &Some), None);
    }
}
