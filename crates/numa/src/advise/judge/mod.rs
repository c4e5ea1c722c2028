//! The verdict: a function of the evidence alone.

use pmuscope_text::number;
use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, NodeEvidence};
use crate::placement::evenness;

/// From this locality on nothing is gained by moving.
const LOCAL: f64 = 0.9;
/// From this share on a node has nearly all of something.
const NEARLY_ALL: f64 = 0.9;
/// Less than this of the threads and of the pages elsewhere, and a process is local: 1 - sqrt(LOCAL).
const ELSEWHERE: f64 = 0.0513;
/// A node that is busier than this has no CPU to spare.
const BUSY: f64 = 0.9;
/// A node is idle whose others keep less of it busy.
const IDLE: f64 = 0.2;
/// So many CPUs of others at least use a node's memory beside the process.
const CROWD: f64 = 0.7;
/// Fewer of a node's CPUs than this share do not use up its bandwidth.
const CROWDED: f64 = 0.25;
/// From this share of shared pages on memory is shared.
const SHARED: f64 = 0.5;
/// Pages and threads that are at least so even over nodes need not be evened out.
const EVEN: f64 = 0.85;
/// A process that keeps less of a CPU busy uses its memory too seldom to tell where it should be.
const LEAST_CPUS: f64 = 0.02;
/// A node's memory is not filled to the last byte.
const FILL: f64 = 0.9;

/// No machine has larger base pages.
const SMALL_PAGES: u64 = 64 << 10;

/// What would be better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Threads and memory together on one node.
    Compact {
        /// The node.
        node: u32,
        /// Its threads have to move, or some of them.
        #[serde(rename = "move_threads")]
        threads: bool,
        /// Its pages have to move, or some of them.
        #[serde(rename = "move_pages")]
        pages: bool,
    },
    /// The whole process to another node, away from others.
    SpreadProcess {
        /// Where it is.
        from: u32,
        /// Where it would be better.
        to: u32,
    },
    /// Threads over these nodes, each with its own memory.
    SpreadThreads {
        /// The nodes.
        nodes: Vec<u32>,
    },
    /// Pages round-robin over these nodes, threads too.
    Interleave {
        /// The nodes.
        nodes: Vec<u32>,
    },
    /// As it is.
    LeaveAlone,
    /// There is too little to say anything.
    Unknown {
        /// What is missing.
        lacks: Vec<Lack>,
    },
}

impl Verdict {
    /// In one word, or few.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compact { .. } => "compact",
            Self::SpreadProcess { .. } | Self::SpreadThreads { .. } => "spread",
            Self::Interleave { .. } => "interleave",
            Self::LeaveAlone => "leave alone",
            Self::Unknown { .. } => "not enough evidence",
        }
    }
}

/// What a verdict would need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Its threads hardly ran.
    Work,
    /// None of its pages was seen.
    Pages,
    /// It is not known whether its threads share their memory.
    Sharing,
}

/// A sentence, with the figures that it rests on.
pub type AdviceReason = String;

/// A verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What would be better.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Why, the most important first.
    pub reasons: Vec<AdviceReason>,
}

impl Advice {
    fn new(verdict: Verdict, reasons: impl IntoIterator<Item = AdviceReason>) -> Self {
        Self { verdict, reasons: reasons.into_iter().collect() }
    }
}

/// What would be better.
#[must_use]
pub fn judge(evidence: &Evidence) -> Advice {
    if evidence.nodes.len() < 2 {
        let why = "the machine has one NUMA node: all memory is local".to_owned();
        return Advice::new(Verdict::LeaveAlone, [why]);
    }
    let Some(locality) = evidence.locality().filter(|_| evidence.own_cpus() >= LEAST_CPUS) else {
        return nothing_seen(evidence);
    };
    let case = Case { evidence, locality };
    if case.is_too_large() { case.of_several_nodes() } else { case.of_one_node() }
}

fn nothing_seen(evidence: &Evidence) -> Advice {
    let mut lacks = Vec::new();
    let mut reasons = Vec::new();
    if evidence.own_cpus() < LEAST_CPUS {
        lacks.push(Lack::Work);
        reasons.push(format!(
            "its threads used {} of a CPU: too little to matter for memory",
            percent(evidence.own_cpus())
        ));
    }
    if evidence.bytes() <= 0.0 {
        lacks.push(Lack::Pages);
        reasons.push("none of its pages were observed".to_owned());
    }
    Advice::new(Verdict::Unknown { lacks }, reasons)
}

/// Evidence of a process that runs and has memory, on several nodes.
struct Case<'a> {
    evidence: &'a Evidence,
    locality: f64,
}

impl Case<'_> {
    fn nodes(&self) -> &[NodeEvidence] {
        &self.evidence.nodes
    }

    /// CPUs that it could use at a time: those that it uses, or, where its threads have to wait for CPUs, one for
    /// each of them.
    fn width(&self) -> f64 {
        /// Threads never run all of the time, nor is it measured to the last tick.
        const SLACK: f64 = 0.2;
        let uses = (self.evidence.own_cpus() - SLACK).ceil().max(1.0);
        let is_full = |node: &NodeEvidence| {
            node.own_cpus >= LEAST_CPUS
                && node.busy_cpus.is_some_and(|busy| busy >= BUSY * node.cpus as f64)
        };
        match self.nodes().iter().any(is_full) {
            true => uses.max(self.evidence.busy_threads as f64),
            false => uses,
        }
    }

    /// A node could take all of it beside what others do there: every busy thread has a CPU, or the node is not
    /// full with them.
    fn has_room(&self, node: &NodeEvidence) -> bool {
        let load = node.others_cpus().unwrap_or(0.0) + self.evidence.own_cpus();
        // Half a CPU of others is no reason to stay apart.
        let room = node.room_cpus() + 0.5;
        room >= self.width()
            && (room >= self.evidence.busy_threads as f64 || load < BUSY * node.cpus as f64)
            && node.room_bytes() >= self.evidence.bytes()
    }

    fn is_wide(&self) -> bool {
        let widest = self.nodes().iter().map(|node| node.cpus).max().unwrap_or(0);
        self.width() > widest as f64
    }

    fn is_big(&self) -> bool {
        let largest = self.nodes().iter().filter_map(|node| node.memory_bytes).max();
        largest.is_some_and(|bytes| self.evidence.bytes() > FILL * bytes as f64)
    }

    /// No node could hold it, even an empty one.
    fn is_too_large(&self) -> bool {
        self.is_wide() || self.is_big()
    }

    /// Nodes that it may use, with CPUs for some of its threads, and memory.
    fn usable(&self) -> Vec<u32> {
        let usable = |node: &&NodeEvidence| node.some_may_run && node.may_take && node.cpus > 0;
        self.nodes().iter().filter(usable).map(|node| node.id).collect()
    }

    fn shared(&self) -> Option<f64> {
        if let Some(shares) = self.evidence.shares {
            return Some(f64::from(u8::from(shares)));
        }
        self.evidence.sharing.as_ref()?.shared_share()
    }

    /// Uses that were local, where enough were sampled.
    fn local_uses(&self) -> Option<f64> {
        self.evidence.sharing.as_ref()?.local_share()
    }

    fn is_local(&self) -> bool {
        self.locality >= LOCAL || self.local_uses().is_some_and(|share| share >= LOCAL)
    }

    fn large(&self) -> AdviceReason {
        let evidence = self.evidence;
        match self.is_wide() {
            true => format!("it has {} busy threads, more than a node has CPUs", self.width()),
            false => format!("its {} do not fit on any node", bytes(evidence.bytes())),
        }
    }

    /// A process that is wider than a node, or larger.
    fn of_several_nodes(&self) -> Advice {
        let nodes = self.usable();
        if nodes.len() < 2 {
            let why =
                "its cpuset and the affinity of its threads allow only one node with CPUs and \
                 memory"
                    .to_owned();
            return Advice::new(Verdict::LeaveAlone, [self.large(), why]);
        }
        match self.shared() {
            Some(share) if share >= SHARED => self.shared_by_many(nodes, share),
            Some(share) => self.private_of_many(nodes, share),
            None => Advice::new(
                Verdict::Unknown { lacks: vec![Lack::Sharing] },
                [self.large(), self.why_sharing_is_unknown()],
            ),
        }
    }

    fn private(&self, share: f64) -> AdviceReason {
        match self.evidence.shares {
            Some(_) => "each thread has its own memory (as given by --sharing)".to_owned(),
            None => format!(
                "{} of the memory that was sampled twice was used by one thread only",
                percent(1.0 - share)
            ),
        }
    }

    fn shared_by_many(&self, nodes: Vec<u32>, share: f64) -> Advice {
        let why = match self.evidence.shares {
            Some(_) => "its threads share their memory (as given by --sharing)".to_owned(),
            None => {
                format!(
                    "{} of the memory that was sampled twice was used by several threads",
                    percent(share)
                )
            }
        };
        let [pages, running] = self.evenness();
        if pages >= EVEN && running >= EVEN {
            let even =
                format!("its memory and threads are spread evenly over {} nodes", nodes.len());
            return Advice::new(Verdict::LeaveAlone, [self.large(), why, even]);
        }
        let uneven = format!(
            "nodes are used unevenly (evenness of pages {pages:.2}, of running time {running:.2}, \
             where 1 is even)"
        );
        Advice::new(Verdict::Interleave { nodes }, [self.large(), why, uneven])
    }

    fn private_of_many(&self, nodes: Vec<u32>, share: f64) -> Advice {
        let why = self.private(share);
        let running = self.evenness()[1];
        if self.is_local() && running >= EVEN {
            return Advice::new(Verdict::LeaveAlone, [self.how_local(), why]);
        }
        let how = match running >= EVEN {
            true => self.how_local(),
            false => {
                format!("its threads run on few nodes (evenness {running:.2}, where 1 is even)")
            }
        };
        Advice::new(Verdict::SpreadThreads { nodes }, [self.large(), why, how, first_touch()])
    }

    /// A process that one node could hold.
    fn of_one_node(&self) -> Advice {
        if self.is_local() {
            return self.crowded().unwrap_or_else(|| {
                Advice::new(Verdict::LeaveAlone, [self.how_local(), self.load()])
            });
        }
        let runs_on_one =
            self.evidence.most(|node| node.own_cpus).is_some_and(|(_, s)| s >= NEARLY_ALL);
        match self.shared() {
            Some(share) if share < SHARED && !runs_on_one && self.usable().len() > 1 => {
                Advice::new(
                    Verdict::SpreadThreads { nodes: self.usable() },
                    [self.how_local(), self.private(share), first_touch()],
                )
            }
            _ => self.compact(),
        }
    }

    fn compact(&self) -> Advice {
        let has_room = |node: &&NodeEvidence| self.has_room(node);
        // The fewest bytes to move; a tenth of them is not worth moving all threads.
        let all = (self.evidence.bytes(), self.evidence.own_cpus());
        let stays = |node: &NodeEvidence| node.own_bytes / all.0 + 0.1 * node.own_cpus / all.1;
        let order = |a: &&NodeEvidence, b: &&NodeEvidence| stays(a).total_cmp(&stays(b));
        let candidates = || self.nodes().iter().filter(has_room);
        let own = self.evidence.own_cpus();
        let is_quiet = |node: &&NodeEvidence| {
            node.others_cpus().is_none_or(|others| crowd(own, others, node.cpus).is_none())
        };
        let best =
            candidates().filter(is_quiet).max_by(order).or_else(|| candidates().max_by(order));
        let Some(best) = best else {
            if !self.nodes().iter().any(|node| node.may_run) {
                return Advice::new(Verdict::LeaveAlone, [self.how_local(), pinned_apart()]);
            }
            let why = format!(
                "no node has {} CPUs and {} free",
                self.width(),
                bytes(self.evidence.bytes())
            );
            return Advice::new(Verdict::LeaveAlone, [self.how_local(), why]);
        };
        let elsewhere = |amount: fn(&NodeEvidence) -> f64| {
            let all: f64 = self.nodes().iter().map(amount).sum();
            1.0 - amount(best) / all
        };
        let (pages, threads) = (elsewhere(|node| node.own_bytes), elsewhere(|node| node.own_cpus));
        let verdict = Verdict::Compact {
            node: best.id,
            threads: threads > ELSEWHERE,
            pages: pages > ELSEWHERE,
        };
        let there = format!(
            "{} of its memory and {} of its running time are on node {}, which has room for all of it",
            percent(1.0 - pages),
            percent(1.0 - threads),
            best.id
        );
        let price = match self.shared() {
            Some(_) => None,
            None => Some(format!(
                "{}; on one node they are local either way",
                self.why_sharing_is_unknown()
            )),
        };
        Advice::new(verdict, [self.how_local(), there].into_iter().chain(price))
    }

    /// Local, but among others while a node is idle.
    fn crowded(&self) -> Option<Advice> {
        let (home, share) = self.evidence.most(|node| node.own_bytes)?;
        let home = self.nodes().get(home).filter(|_| share >= NEARLY_ALL)?;
        let others = home.others_cpus()?;
        let crowd = crowd(home.own_cpus, others, home.cpus)?;
        let is_idle = |node: &&NodeEvidence| {
            let idle = node.others_cpus().is_some_and(|others| others <= IDLE * node.cpus as f64);
            idle && node.id != home.id && self.has_room(node)
        };
        let to = self.nodes().iter().find(is_idle)?;
        let load = format!(
            "node {} has {:.1} of {} CPUs busy, {others:.1} of them with other processes; node {} \
             has {:.1} of {} busy",
            home.id, home.busy_cpus?, home.cpus, to.id, to.busy_cpus?, to.cpus
        );
        let gain = match (crowd, home.bandwidth) {
            (Crowd::OfCpus, _) => "its threads wait for CPUs there".to_owned(),
            (Crowd::OfMemory, Some(rate)) => {
                format!("they share {}/s of memory bandwidth there", bytes(rate))
            }
            (Crowd::OfMemory, None) => {
                "they share its memory bandwidth, which is not measured here".to_owned()
            }
        };
        let once = "to move the other processes as well, move only one of them".to_owned();
        let verdict = Verdict::SpreadProcess { from: home.id, to: to.id };
        Some(Advice::new(verdict, [self.how_local(), load, gain, once]))
    }

    /// Of pages, and of running time for each CPU, over nodes that it may use.
    fn evenness(&self) -> [f64; 2] {
        let usable = self.usable();
        let of = |amount: fn(&NodeEvidence) -> f64| {
            let nodes = self.nodes().iter().filter(|node| usable.contains(&node.id));
            evenness(&nodes.map(amount).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        [of(|node| node.own_bytes), of(|node| node.own_cpus / node.cpus as f64)]
    }

    fn how_local(&self) -> AdviceReason {
        let all = format!("locality {:.2}", self.locality);
        match self.local_uses() {
            Some(share) => {
                format!("{all}, and {} of the sampled accesses were local", percent(share))
            }
            None => all,
        }
    }

    fn load(&self) -> AdviceReason {
        let busy: Option<Vec<f64>> = self.nodes().iter().map(NodeEvidence::others_cpus).collect();
        match busy {
            None => "the load of other processes on its node is unknown".to_owned(),
            Some(_) if self.evidence.is_bound && self.nodes().iter().any(|node| !node.may_run) => {
                "its affinity keeps it off other nodes".to_owned()
            }
            Some(_) => "no other node has more room for it".to_owned(),
        }
    }

    fn why_sharing_is_unknown(&self) -> AdviceReason {
        let evidence = self.evidence;
        let why = match (&evidence.sharing, &evidence.sharing_why, evidence.balancing) {
            (None, Some(why), _) => why.clone(),
            (_, _, Some(false) | None) => {
                "kernel NUMA balancing is off, so there are no hint faults".to_owned()
            }
            (Some(sharing), _, _) => format!(
                "{} {} were sampled twice, too few",
                sharing.judged,
                if sharing.granule_bytes > SMALL_PAGES { "blocks of memory" } else { "pages" }
            ),
            _ => "no faults were sampled".to_owned(),
        };
        format!("unknown whether its threads share their memory: {why}")
    }
}

/// What a process shares with others on a node, so that it had better be elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crowd {
    OfCpus,
    OfMemory,
}

fn crowd(own: f64, others: f64, cpus: u64) -> Option<Crowd> {
    let (busy, cpus) = (own + others, cpus as f64);
    if busy >= BUSY * cpus && others >= CROWD / 2.0 {
        return Some(Crowd::OfCpus);
    }
    (others >= CROWD.max(own / 2.0) && busy >= CROWDED * cpus).then_some(Crowd::OfMemory)
}

fn pinned_apart() -> AdviceReason {
    "its threads are pinned to CPUs of several nodes, and no single node is allowed for all of \
     them, so their affinity is left unchanged"
        .to_owned()
}

fn first_touch() -> AdviceReason {
    "memory is allocated on the node of the thread that writes it first: let each thread \
     initialize its own"
        .to_owned()
}

fn percent(share: f64) -> String {
    number::percent(share, 0)
}

fn bytes(bytes: f64) -> String {
    number::bytes(bytes as u64)
}

#[cfg(test)]
mod tests;
