//! What would be better: from a [`View`] to a [`Decision`], a pure function.
//!
//! A process whose threads and memory fit one node gets a node of its own choice ([`super::assign`]); one that
//! does not is spread over as few nodes as hold it, its pages in turn over them, unless that would be less
//! local than it is. Nothing is planned that leaves a process less local than it was found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::assign::{self, Wish};
use super::view::{ProcessView, Sharing, View};
use crate::placement::{Area, evenness, shares};

/// What is known beside the view.
#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    /// Bytes per second that may be moved; 0 where that is not limited.
    pub budget: u64,
    /// Bytes that move as a whole: nothing can be more even than that.
    pub unit: u64,
    /// Processes to be left alone, and why.
    pub held: BTreeMap<u32, String>,
}

/// One thing to do, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum Action {
    /// Let all threads of a process run on these nodes only.
    Pin {
        /// The process.
        pid: u32,
        /// Numbers of nodes.
        nodes: Vec<u32>,
        /// It is there already, and is only kept from being pushed out by what else is done.
        hold: bool,
        /// Why.
        reason: String,
    },
    /// Move its pages from one node to another.
    Move {
        /// The process.
        pid: u32,
        /// Number of the node where they are.
        from: u32,
        /// Number of the node where they are to be.
        to: u32,
        /// As many bytes.
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// Put its pages on these nodes in turn.
    Interleave {
        /// The process.
        pid: u32,
        /// Numbers of nodes.
        nodes: Vec<u32>,
        /// Bytes to move, about.
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// Leave it alone.
    Leave {
        /// The process.
        pid: u32,
        /// Why.
        reason: String,
    },
}

impl Action {
    /// The process that it is about.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match self {
            Self::Pin { pid, .. }
            | Self::Move { pid, .. }
            | Self::Interleave { pid, .. }
            | Self::Leave { pid, .. } => *pid,
        }
    }

    /// Bytes that it moves, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Move { bytes, .. } | Self::Interleave { bytes, .. } => *bytes,
            Self::Pin { .. } | Self::Leave { .. } => 0,
        }
    }
}

/// What is expected of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// The process.
    pub pid: u32,
    /// Its locality as found; `None` if it has no memory or did not run.
    pub before: Option<f64>,
    /// Its locality once all steps are done.
    pub after: Option<f64>,
}

/// What to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// In this order.
    pub steps: Vec<Action>,
    /// What is expected, by process.
    pub outlook: Vec<Outlook>,
}

impl Decision {
    /// Whether it changes anything.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.steps
            .iter()
            .any(|step| !matches!(step, Action::Leave { .. } | Action::Pin { hold: true, .. }))
    }

    /// Bytes to move, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(Action::bytes).sum()
    }

    /// Bytes to move of a process, by (from, to).
    pub(super) fn moves(&self, view: &View, pid: u32) -> Vec<((u32, u32), u64)> {
        let mut moves = Vec::new();
        for step in self.steps.iter().filter(|step| step.pid() == pid) {
            match step {
                Action::Move { from, to, bytes, .. } => moves.push(((*from, *to), *bytes)),
                Action::Interleave { nodes, bytes, .. } => {
                    // From the fullest, about: which page comes from where is not planned.
                    let process = view.process(pid);
                    let fullest = process.and_then(|process| {
                        (0..process.bytes.len()).max_by_key(|&node| process.bytes[node])
                    });
                    let Some(fullest) = fullest.and_then(|node| view.nodes.get(node)) else {
                        continue;
                    };
                    let others: Vec<u32> =
                        nodes.iter().copied().filter(|node| *node != fullest.id).collect();
                    for &to in &others {
                        moves.push(((fullest.id, to), bytes / others.len() as u64));
                    }
                }
                Action::Pin { .. } | Action::Leave { .. } => {}
            }
        }
        moves
    }
}

/// A process that wants less than this of a CPU sleeps: nothing is gained by moving it.
const IDLE: f64 = 0.05;
/// Memory below this is in caches, or soon allocated anew.
const SMALL: u64 = 1 << 20;
/// So much of a process's memory or running time on a node is all of it: some pages cannot move, and
/// what is shared lies where others put it.
const NEARLY_ALL: f64 = 0.95;
/// Threads that want this much more than a node's CPUs still fit: busy shares are not exact.
const SLACK: f64 = 0.25;
/// Of free memory, so much is left to others.
const KEEP_FREE: f64 = 0.1;
/// Less even than this is worth a move; more is not.
const EVEN: f64 = 0.9;

/// What would be better, and why.
///
/// # Panics
/// Never: what a view lacks counts as 0 or as not allowed.
#[must_use]
pub fn decide(view: &View, knowledge: &Knowledge) -> Decision {
    let mut fates: Vec<Fate> =
        view.processes.iter().map(|p| first_look(view, p, knowledge)).collect();
    let wishes: Vec<Wish<'_>> = (view.processes.iter().zip(&fates))
        .filter_map(|(process, fate)| match fate {
            Fate::Fits(nodes) => Some(Wish { process, nodes: nodes.clone() }),
            _ => None,
        })
        .collect();
    let mut homes = assign::homes(view, &wishes, knowledge.budget).into_iter();
    for fate in &mut fates {
        if matches!(fate, Fate::Fits(_)) {
            *fate = match homes.next().flatten() {
                Some(node) => Fate::Home(node),
                None => Fate::Leave("the node that it fits would be overloaded".to_owned()),
            };
        }
    }
    let mut plan = Decision::default();
    for (process, fate) in view.processes.iter().zip(&fates) {
        let (steps, after) = carry_out(view, process, fate, knowledge.unit);
        plan.steps.extend(steps);
        plan.outlook.push(Outlook { pid: process.pid, before: process.locality(), after });
    }
    if plan.acts() {
        for (process, fate) in view.processes.iter().zip(&fates) {
            hold(view, process, fate, &mut plan);
        }
    }
    plan
}

/// Where others are moved, a process that is at home already is kept there.
fn hold(view: &View, process: &ProcessView, fate: &Fate, plan: &mut Decision) {
    let Fate::Home(node) = fate else { return };
    let own = plan.steps.iter_mut().find(|step| step.pid() == process.pid);
    if let Some(step @ Action::Leave { .. }) = own {
        let id = view.nodes[*node].id;
        let reason = format!("it is local on node {id}, and other moves must not displace it");
        *step = Action::Pin { pid: process.pid, nodes: vec![id], hold: true, reason };
    }
}

/// What is to become of a process.
enum Fate {
    /// It fits each of these nodes.
    Fits(Vec<usize>),
    /// It goes to this node.
    Home(usize),
    /// It takes these nodes.
    Spread(Vec<usize>),
    /// Nothing, for this reason.
    Leave(String),
}

fn first_look(view: &View, process: &ProcessView, knowledge: &Knowledge) -> Fate {
    let nodes = view.nodes.len();
    if [process.bytes.len(), process.cpus.len(), process.memory_allowed.len()] != [nodes; 3] {
        return Fate::Leave("its data does not match the machine's nodes".to_owned());
    }
    if let Some(reason) = knowledge.held.get(&process.pid) {
        return Fate::Leave(reason.clone());
    }
    if nodes < 2 {
        return Fate::Leave("one NUMA node".to_owned());
    }
    let demand = process.demand();
    if demand < IDLE {
        return Fate::Leave("it is idle: its threads use almost no CPU time".to_owned());
    }
    if process.memory() < SMALL {
        return Fate::Leave(format!(
            "it has only {} KiB of movable memory",
            process.memory() >> 10
        ));
    }
    let allowed = |node: &usize| process.cpus[*node] > 0 && process.memory_allowed[*node];
    let allowed: Vec<usize> = (0..nodes).filter(allowed).collect();
    if allowed.is_empty() {
        return Fate::Leave(
            "its cpuset or affinity allows no node with both CPUs and memory".to_owned(),
        );
    }
    let fitting = |node: &usize| {
        let cpus = f64::from(process.cpus[*node]);
        let to_come = process.memory() - process.bytes[*node];
        demand <= cpus + SLACK && to_come <= room(view, *node)
    };
    let fitting: Vec<usize> = allowed.iter().copied().filter(fitting).collect();
    if fitting.is_empty() { spread(view, process, &allowed) } else { Fate::Fits(fitting) }
}

/// Bytes that can come to a node.
pub(super) fn room(view: &View, node: usize) -> u64 {
    (view.nodes[node].free_bytes as f64 * (1.0 - KEEP_FREE)) as u64
}

/// As few nodes as have the CPUs and the memory for it: first those that hold most of it, then the nearest.
fn spread(view: &View, process: &ProcessView, allowed: &[usize]) -> Fate {
    if process.sharing == Sharing::Private {
        let why = "it needs several nodes and its threads have private memory: matching threads \
            and pages is up to the kernel's NUMA balancing";
        return Fate::Leave(why.to_owned());
    }
    let demand = process.demand();
    let memory = process.memory();
    let mut taken: Vec<usize> = Vec::new();
    let mut left: Vec<usize> = allowed.to_vec();
    while !left.is_empty() {
        let first = taken.first().copied();
        let distance = |node: usize| {
            first.and_then(|first| view.nodes[first].distances.get(node).copied()).unwrap_or(10)
        };
        left.sort_by_key(|&node| (distance(node), std::cmp::Reverse(process.bytes[node]), node));
        taken.push(left.remove(0));
        let cpus: u32 = taken.iter().map(|&node| process.cpus[node]).sum();
        // In turn means as much on each.
        let each = memory / taken.len() as u64;
        let holds = |&node: &usize| each.saturating_sub(process.bytes[node]) <= room(view, node);
        let enough_cpus = demand <= f64::from(cpus) + SLACK || left.is_empty();
        if enough_cpus && taken.iter().all(holds) {
            taken.sort_unstable();
            return Fate::Spread(taken);
        }
    }
    Fate::Leave("its memory does not fit on the nodes that it may use".to_owned())
}

fn carry_out(
    view: &View,
    process: &ProcessView,
    fate: &Fate,
    unit: u64,
) -> (Vec<Action>, Option<f64>) {
    let leave =
        |reason: String| (vec![Action::Leave { pid: process.pid, reason }], process.locality());
    match fate {
        Fate::Leave(reason) => leave(reason.clone()),
        Fate::Fits(_) => leave("no node was chosen for it".to_owned()),
        Fate::Home(node) => match go_home(view, process, *node) {
            Ok(steps) => (steps, Some(1.0)),
            Err(reason) => leave(reason),
        },
        Fate::Spread(nodes) => match spread_out(view, process, nodes, unit) {
            Ok((steps, after)) => (steps, after),
            Err(reason) => leave(reason),
        },
    }
}

/// Threads and pages to one node.
fn go_home(view: &View, process: &ProcessView, node: usize) -> Result<Vec<Action>, String> {
    let id = view.nodes[node].id;
    let (memory, running) = (process.memory_share(node), process.running_share(node));
    if memory >= NEARLY_ALL && running >= NEARLY_ALL {
        return Err(format!("it is already local: threads and memory are on node {id}"));
    }
    let mut steps = vec![Action::Pin {
        pid: process.pid,
        nodes: vec![id],
        hold: false,
        reason: format!(
            "its threads fit on node {id}, which has {:.0}% of its memory and {:.0}% of its \
             running time",
            100.0 * memory,
            100.0 * running
        ),
    }];
    if memory < NEARLY_ALL {
        for (from, &bytes) in process.bytes.iter().enumerate() {
            if from != node && bytes > 0 {
                steps.push(Action::Move {
                    pid: process.pid,
                    from: view.nodes[from].id,
                    to: id,
                    bytes,
                    reason: format!("its threads will run on node {id}"),
                });
            }
        }
    }
    Ok(steps)
}

/// Threads on these nodes, pages on them in turn.
fn spread_out(
    view: &View,
    process: &ProcessView,
    nodes: &[usize],
    unit: u64,
) -> Result<(Vec<Action>, Option<f64>), String> {
    let ids: Vec<u32> = nodes.iter().map(|&node| view.nodes[node].id).collect();
    let before = process.locality();
    let each = process.memory() / nodes.len() as u64;
    let area = Area {
        pages: within(view, nodes, |_| each as f64),
        threads: within(view, nodes, |node| f64::from(process.cpus[node])),
    };
    let after = area.locality();
    let inside = |share: &dyn Fn(usize) -> f64| nodes.iter().map(|&node| share(node)).sum::<f64>();
    let memory_inside = inside(&|node| process.memory_share(node));
    let running_inside = inside(&|node| process.running_share(node));
    let on_nodes: Vec<f64> = nodes.iter().map(|&node| process.bytes[node] as f64).collect();
    let even = evenness(&on_nodes);
    let [most, least] = [f64::max, f64::min].map(|of| on_nodes.iter().copied().reduce(of));
    let apart = most.zip(least).map_or(0.0, |(most, least)| most - least);
    let is_even = apart <= unit as f64 || even.is_some_and(|even| even >= EVEN);
    let names = super::names(&ids);
    if is_even && memory_inside >= NEARLY_ALL && running_inside >= NEARLY_ALL {
        return Err(format!("it is already spread over {names}"));
    }
    if let (Some(before), Some(after)) = (before, after)
        && after < before - super::judge::LOCALITY_STEP
    {
        return Err(format!(
            "it fits on no single node; spread over {names} its locality would be {after:.2}, now \
             {before:.2}"
        ));
    }
    let mut steps = Vec::new();
    let all = (0..view.nodes.len()).all(|node| process.cpus[node] == 0 || nodes.contains(&node));
    if !all {
        let reason = format!("its threads need only the CPUs of {names}");
        steps.push(Action::Pin { pid: process.pid, nodes: ids.clone(), hold: false, reason });
    }
    if !is_even || memory_inside < NEARLY_ALL {
        // At most: of what is on one of the nodes already, its share can stay.
        let right = 1.0 / nodes.len() as f64;
        let bytes = (0..view.nodes.len()).map(|node| {
            let stays = if nodes.contains(&node) { right } else { 0.0 };
            (process.bytes[node] as f64 * (1.0 - stays)) as u64
        });
        let reason = format!(
            "threads on several nodes use all of it, and a single node would serve them all: \
             evenness {:.2}",
            even.unwrap_or(0.0)
        );
        let pid = process.pid;
        steps.push(Action::Interleave { pid, nodes: ids, bytes: bytes.sum(), reason });
    }
    if steps.is_empty() {
        return Err(format!("its memory is already spread over {names}"));
    }
    Ok((steps, after))
}

/// An amount on these nodes, nothing on others.
fn within(view: &View, nodes: &[usize], amount: impl Fn(usize) -> f64) -> Vec<f64> {
    let of = |node| if nodes.contains(&node) { amount(node) } else { 0.0 };
    let amounts: Vec<f64> = (0..view.nodes.len()).map(of).collect();
    shares(&amounts).unwrap_or(amounts)
}
