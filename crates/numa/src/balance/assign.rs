//! Which process gets which node: the cheapest assignment that a local search finds.
//!
//! Costs are CPUs lost, about:
//! - CPUs that idle on one node while threads wait for one on another: each counts as it is;
//! - load that could be more even: half of Σ load²/CPUs beyond its least value, and a fifth of a process's
//!   demand for the part of its node's load that is not its own. Where nodes' bandwidth is known, that
//!   counts instead: what is idle is nobody's loss;
//! - moving: a tenth of the demand whose memory is elsewhere, and as much again for each minute that it
//!   takes within the budget.

use super::decide::room;
use super::view::{ProcessView, View};

/// A process, and the nodes that it fits.
pub(super) struct Wish<'v> {
    pub(super) process: &'v ProcessView,
    pub(super) nodes: Vec<usize>,
}

const UNEVEN: f64 = 0.5;
const COMPANY: f64 = 0.2;
const TRAVEL: f64 = 0.1;
const RESTLESS: f64 = 0.02;
/// Beyond this, swaps of pairs are not tried: their number grows with the square.
const PAIRS: usize = 128;
/// A step of the search must gain this much; ends it for certain.
const GAIN: f64 = 1e-6;
/// More than this share of all demand must not wait while CPUs idle elsewhere.
const MOST_WASTED: f64 = 0.25;

/// The node of each process; `None` for one that is better left where it is.
pub(super) fn homes(view: &View, wishes: &[Wish<'_>], budget: u64) -> Vec<Option<usize>> {
    let mut search = Search::new(view, wishes, budget);
    search.run();
    search.drop_overload();
    search.home
}

struct Search<'v> {
    view: &'v View,
    wishes: &'v [Wish<'v>],
    home: Vec<Option<usize>>,
    demand: Vec<f64>,
    /// Load of what is not assigned here.
    fixed: Vec<f64>,
    /// What it costs to bring a process to a node.
    travel: Vec<Vec<f64>>,
    /// Bandwidth, as a share of a node's, that each process uses; `None` if not known.
    bandwidth: Option<Vec<f64>>,
}

impl<'v> Search<'v> {
    fn new(view: &'v View, wishes: &'v [Wish<'v>], budget: u64) -> Self {
        let demand: Vec<f64> = wishes.iter().map(|wish| wish.process.demand()).collect();
        let mut fixed = view.load();
        for wish in wishes {
            for (load, running) in fixed.iter_mut().zip(wish.process.running()) {
                *load = (*load - running).max(0.0);
            }
        }
        let travel = wishes.iter().map(|wish| travel(wish.process, budget)).collect();
        let mut search = Self {
            view,
            wishes,
            home: vec![None; wishes.len()],
            demand,
            fixed,
            travel,
            bandwidth: bandwidth(view, wishes),
        };
        search.begin();
        search
    }

    /// The largest first, each where it costs least now.
    fn begin(&mut self) {
        let mut order: Vec<usize> = (0..self.wishes.len()).collect();
        order.sort_by(|&a, &b| self.demand[b].total_cmp(&self.demand[a]).then(a.cmp(&b)));
        for process in order {
            self.home[process] = self.best_for(process).map(|(node, _)| node);
        }
    }

    fn best_for(&mut self, process: usize) -> Option<(usize, f64)> {
        let before = self.home[process];
        let mut best: Option<(usize, f64)> = None;
        for &node in &self.wishes[process].nodes {
            self.home[process] = Some(node);
            let cost = self.cost();
            if best.is_none_or(|(_, least)| cost < least - GAIN) {
                best = Some((node, cost));
            }
        }
        self.home[process] = before;
        best.filter(|(_, cost)| cost.is_finite())
    }

    fn run(&mut self) {
        let mut cost = self.cost();
        // Every round but the last gains, and costs are at least 0.
        loop {
            let before = cost;
            for process in 0..self.wishes.len() {
                if let Some((node, found)) = self.best_for(process)
                    && found < cost - GAIN
                {
                    self.home[process] = Some(node);
                    cost = found;
                }
            }
            if self.wishes.len() <= PAIRS {
                cost = self.swap_pairs(cost);
            }
            if cost >= before - GAIN || !cost.is_finite() {
                return;
            }
        }
    }

    fn swap_pairs(&mut self, mut cost: f64) -> f64 {
        for one in 0..self.wishes.len() {
            for other in one + 1..self.wishes.len() {
                let (Some(a), Some(b)) = (self.home[one], self.home[other]) else { continue };
                let fits =
                    self.wishes[one].nodes.contains(&b) && self.wishes[other].nodes.contains(&a);
                if a == b || !fits {
                    continue;
                }
                self.home.swap(one, other);
                let found = self.cost();
                if found < cost - GAIN {
                    cost = found;
                } else {
                    self.home.swap(one, other);
                }
            }
        }
        cost
    }

    /// Takes homes back until few enough threads wait.
    fn drop_overload(&mut self) {
        let all: f64 = self.demand.iter().sum();
        while self.wasted() > MOST_WASTED * all {
            let wasted = self.wasted();
            let mut best: Option<(usize, f64)> = None;
            for process in 0..self.home.len() {
                let Some(home) = self.home[process].take() else { continue };
                let without = self.wasted();
                self.home[process] = Some(home);
                if without < best.map_or(wasted, |(_, least)| least) {
                    best = Some((process, without));
                }
            }
            let Some((process, _)) = best else { return };
            self.home[process] = None;
        }
    }

    fn load(&self) -> Vec<f64> {
        let mut load = self.fixed.clone();
        for (process, home) in self.home.iter().enumerate() {
            match home {
                Some(node) => load[*node] += self.demand[process],
                None => {
                    let running = self.wishes[process].process.running();
                    load.iter_mut().zip(running).for_each(|(load, running)| *load += running);
                }
            }
        }
        load
    }

    /// CPUs that idle while others have more to do than CPUs.
    fn wasted(&self) -> f64 {
        wasted(self.view, &self.load())
    }

    fn cost(&self) -> f64 {
        if !self.has_room() {
            return f64::INFINITY;
        }
        let load = self.load();
        let travel = self
            .home
            .iter()
            .enumerate()
            .filter_map(|(process, home)| home.map(|node| self.travel[process][node]));
        wasted(self.view, &load) + self.contention(&load) + travel.sum::<f64>()
    }

    fn contention(&self, load: &[f64]) -> f64 {
        let cpus: Vec<f64> = self.view.nodes.iter().map(|node| f64::from(node.cpus)).collect();
        if let Some(bandwidth) = &self.bandwidth {
            let mut used = vec![0.0; cpus.len()];
            for (process, home) in self.home.iter().enumerate() {
                if let Some(node) = home {
                    used[*node] += bandwidth[process];
                }
            }
            return uneven(&used, &vec![1.0; used.len()]);
        }
        let company = self.home.iter().zip(&self.demand).filter_map(|(home, demand)| {
            let all = load[(*home)?];
            (all > 0.0).then(|| demand * (1.0 - demand / all).max(0.0))
        });
        UNEVEN * uneven(load, &cpus) + COMPANY * company.sum::<f64>()
    }

    fn has_room(&self) -> bool {
        let mut coming = vec![0u64; self.view.nodes.len()];
        for (wish, home) in self.wishes.iter().zip(&self.home) {
            if let Some(node) = home {
                coming[*node] += wish.process.memory() - wish.process.bytes[*node];
            }
        }
        coming.iter().enumerate().all(|(node, &bytes)| bytes == 0 || bytes <= room(self.view, node))
    }
}

fn wasted(view: &View, load: &[f64]) -> f64 {
    let mut waiting = 0.0;
    let mut idle = 0.0;
    for (node, load) in view.nodes.iter().zip(load) {
        let free = f64::from(node.cpus) - load;
        if free < 0.0 { waiting -= free } else { idle += free }
    }
    f64::min(waiting, idle)
}

/// Σ amount²/capacity beyond its least value, which it has where all are used evenly.
fn uneven(amounts: &[f64], capacities: &[f64]) -> f64 {
    let able = || amounts.iter().zip(capacities).filter(|(_, capacity)| **capacity > 0.0);
    let squares: f64 = able().map(|(amount, capacity)| amount * amount / capacity).sum();
    let (amount, capacity) =
        able().fold((0.0, 0.0), |(a, c), (amount, capacity)| (a + amount, c + capacity));
    if capacity > 0.0 { (squares - amount * amount / capacity).max(0.0) } else { 0.0 }
}

fn travel(process: &ProcessView, budget: u64) -> Vec<f64> {
    let demand = process.demand();
    let cost = |node| {
        let away = 1.0 - process.memory_share(node);
        let bytes = away * process.memory() as f64;
        let minutes = if budget == 0 { 0.0 } else { bytes / budget as f64 / 60.0 };
        let restless = RESTLESS * (1.0 - process.running_share(node));
        demand * (TRAVEL * (away + minutes) + restless)
    };
    (0..process.bytes.len()).map(cost).collect()
}

/// Nodes' bandwidth, shared out among the processes that have memory there by how much they run.
fn bandwidth(view: &View, wishes: &[Wish<'_>]) -> Option<Vec<f64>> {
    let used: Vec<f64> = view.nodes.iter().map(|node| node.bandwidth).collect::<Option<_>>()?;
    let weight = |process: &ProcessView, node| process.demand() * process.memory_share(node);
    let mut of = vec![0.0; wishes.len()];
    for (node, used) in used.iter().enumerate() {
        let all: f64 = view.processes.iter().map(|process| weight(process, node)).sum();
        if all > 0.0 {
            for (of, wish) in of.iter_mut().zip(wishes) {
                *of += used * weight(wish.process, node) / all;
            }
        }
    }
    Some(of)
}
