//! Nodes, CPUs and memory of a guest, and QEMU's words for them.

use std::fmt::Write as _;

use crate::{Arch, LabError};

/// Below, a Debian kernel with this program has no room to unpack.
const LEAST_MIB: u64 = 256;
/// Each node needs some for the kernel's own tables.
const LEAST_NODE_MIB: u64 = 64;
/// The distance of a node to itself (ACPI, SLIT).
const LOCAL: u8 = 10;
/// The distance between nodes where none is given.
const REMOTE: u8 = 20;

/// Nodes, CPUs and memory of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// CPUs.
    pub cpus: u32,
    /// Nodes with CPUs and memory.
    pub nodes: u32,
    /// Further nodes with memory only.
    pub memory_nodes: u32,
    /// All memory, MiB; `None`: as much as the kernel needs for so many CPUs and nodes.
    pub memory_mib: Option<u64>,
    /// Sockets; `None`: one per node.
    pub sockets: Option<u32>,
    /// Hardware threads per core.
    pub threads: u32,
    /// Whether CPU numbers go round the nodes: 0 on the first, 1 on the second, and so on.
    pub interleaved: bool,
    /// Distances that differ from 20, in both directions.
    pub distances: Vec<Distance>,
    /// Whether firmware tells latency and bandwidth (ACPI, HMAT).
    pub hmat: bool,
}

/// How far two nodes are from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distance {
    /// The nodes; `None`: any two.
    pub nodes: Option<(u32, u32)>,
    /// 11 to 254.
    pub value: u8,
}

impl std::str::FromStr for Distance {
    type Err = LabError;

    /// `30`, or `0,2=30`.
    fn from_str(text: &str) -> Result<Self, LabError> {
        let wrong = || {
            LabError::Topology(format!(
                "--distance {text}: use a number from 11 to 254, or two nodes and a number, such \
                 as 0,2=30"
            ))
        };
        let (nodes, value) = match text.split_once('=') {
            Some((nodes, value)) => {
                let (a, b) = nodes.split_once(',').ok_or_else(wrong)?;
                let number = |n: &str| n.parse().map_err(|_| wrong());
                (Some((number(a)?, number(b)?)), value)
            }
            None => (None, text),
        };
        let value = value.parse().ok().filter(|value| (LOCAL + 1..255).contains(value));
        Ok(Self { nodes, value: value.ok_or_else(wrong)? })
    }
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            cpus: 1,
            nodes: 1,
            memory_nodes: 0,
            memory_mib: None,
            sockets: None,
            threads: 1,
            interleaved: false,
            distances: Vec::new(),
            hmat: false,
        }
    }
}

impl Topology {
    /// MiB of memory.
    pub fn memory_mib(&self) -> u64 {
        let needed = 768 + 64 * u64::from(self.all_nodes()) + 16 * u64::from(self.cpus);
        self.memory_mib.unwrap_or(needed.next_multiple_of(256))
    }

    /// In a few words: `8 CPUs, 4 nodes, 1024 MiB`.
    pub fn describe(&self) -> String {
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        let (cpus, nodes) = (self.cpus, self.all_nodes());
        let mut text = format!("{cpus} CPU{}, {nodes} node{}", plural(cpus), plural(nodes));
        if self.memory_nodes > 0 {
            let _ = write!(text, " ({} without CPUs)", self.memory_nodes);
        }
        let _ = write!(text, ", {} MiB", self.memory_mib());
        text
    }

    /// QEMU's flags.
    ///
    /// # Errors
    /// If there is no such machine.
    pub(crate) fn flags(&self, arch: Arch) -> Result<Vec<String>, LabError> {
        self.check(arch)?;
        let sockets = self.socket_count();
        let cores = self.cpus / sockets / self.threads;
        let mut flags: Vec<String> = Vec::new();
        let mut flag = |name: &str, value: String| flags.extend([name.to_owned(), value]);
        flag("-m", format!("{}M", self.memory_mib()));
        let (cpus, threads) = (self.cpus, self.threads);
        flag("-smp", format!("cpus={cpus},sockets={sockets},cores={cores},threads={threads}"));
        if !self.is_numa() {
            return Ok(flags);
        }
        for node in 0..self.all_nodes() {
            let size = self.node_mib(node);
            flag("-object", format!("memory-backend-ram,id=m{node},size={size}M"));
            let mut text = format!("node,nodeid={node},memdev=m{node}");
            for (first, last) in self.cpus_of(node) {
                let _ = write!(text, ",cpus={first}-{last}");
            }
            if self.hmat {
                // A node without CPUs is nearest to the first.
                let initiator = if node < self.nodes { node } else { 0 };
                let _ = write!(text, ",initiator={initiator}");
            }
            flag("-numa", text);
        }
        for (src, dst) in self.pairs() {
            flag("-numa", format!("dist,src={src},dst={dst},val={}", self.distance(src, dst)));
        }
        if self.hmat {
            for text in self.hmat_entries() {
                flag("-numa", text);
            }
        }
        Ok(flags)
    }

    /// Whether QEMU's machine needs to be told that there is an HMAT.
    pub(crate) fn needs_hmat(&self) -> bool {
        self.hmat && self.is_numa()
    }

    fn all_nodes(&self) -> u32 {
        self.nodes + self.memory_nodes
    }

    fn is_numa(&self) -> bool {
        self.all_nodes() > 1 || self.hmat
    }

    /// One per node, so that the last-level caches of QEMU's CPUs, one per socket, lie within nodes.
    fn socket_count(&self) -> u32 {
        let one_each = if self.interleaved { self.cpus / self.threads } else { self.nodes };
        self.sockets.unwrap_or(one_each)
    }

    fn check(&self, arch: Arch) -> Result<(), LabError> {
        let wrong = |text: String| Err(LabError::Topology(text));
        let most = if arch == Arch::X86_64 { 255 } else { 512 };
        let (cpus, nodes, threads) = (self.cpus, self.nodes, self.threads);
        // CPUs follow from nodes and threads where they are not given.
        if nodes == 0 || self.all_nodes() > 64 {
            return wrong(format!(
                "--nodes {nodes}: a guest has 1 to 64 nodes, including --memory-nodes"
            ));
        }
        if threads == 0 || self.sockets == Some(0) {
            return wrong("--sockets and --threads: at least 1".to_owned());
        }
        if !(1..=most).contains(&cpus) {
            return wrong(format!("--cpus {cpus}: a guest of {arch} has 1 to {most}"));
        }
        if nodes > cpus / threads {
            return wrong(format!(
                "{nodes} nodes with CPUs need {} CPUs, but --cpus is {cpus}. Try: --cpus {}, or \
                 --memory-nodes for nodes without CPUs",
                nodes * threads,
                nodes * threads
            ));
        }
        if cpus % (self.socket_count() * threads) != 0 || cpus % (nodes * threads) != 0 {
            return wrong(format!(
                "{cpus} CPUs do not divide evenly into {nodes} nodes and {} sockets of cores with \
                 {threads} threads",
                self.socket_count()
            ));
        }
        let most = self.all_nodes();
        let unknown = self.distances.iter().filter_map(|d| d.nodes);
        if let Some((a, b)) = unknown.clone().find(|(a, b)| *a >= most || *b >= most || a == b) {
            return wrong(format!("--distance {a},{b}: the nodes are 0 to {}", most - 1));
        }
        let least = LEAST_MIB.max(LEAST_NODE_MIB * u64::from(most));
        if self.memory_mib() < least {
            return wrong(format!(
                "--memory {}M is too little for {most} nodes. Try: --memory {least}M",
                self.memory_mib()
            ));
        }
        Ok(())
    }

    fn node_mib(&self, node: u32) -> u64 {
        let (all, nodes) = (self.memory_mib(), u64::from(self.all_nodes()));
        // What does not divide goes to the first.
        all / nodes + if node == 0 { all % nodes } else { 0 }
    }

    /// Ranges of CPU numbers.
    fn cpus_of(&self, node: u32) -> Vec<(u32, u32)> {
        if node >= self.nodes {
            return Vec::new();
        }
        let each = self.cpus / self.nodes;
        if !self.interleaved {
            return vec![(node * each, (node + 1) * each - 1)];
        }
        // Threads of a core stay together.
        let cores = self.cpus / self.threads;
        (0..cores)
            .filter(|core| core % self.nodes == node)
            .map(|core| (core * self.threads, (core + 1) * self.threads - 1))
            .collect()
    }

    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let nodes = self.all_nodes();
        (0..nodes).flat_map(move |a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b)
    }

    /// The last that was said of the two counts.
    fn distance(&self, a: u32, b: u32) -> u8 {
        if a == b {
            return LOCAL;
        }
        let is = |d: &&Distance| d.nodes.is_none_or(|(x, y)| (x, y) == (a, b) || (y, x) == (a, b));
        self.distances.iter().rev().find(is).map_or(REMOTE, |d| d.value)
    }

    /// Latency grows with the distance, bandwidth falls: 10 ns and 20 GB/s at distance 10.
    fn hmat_entries(&self) -> Vec<String> {
        let mut entries = Vec::new();
        for initiator in 0..self.nodes {
            for target in 0..self.all_nodes() {
                let distance = u32::from(self.distance(initiator, target));
                let of = format!("hmat-lb,initiator={initiator},target={target},hierarchy=memory");
                entries.push(format!("{of},data-type=access-latency,latency={distance}"));
                let bandwidth = 200_000 / distance;
                entries.push(format!("{of},data-type=access-bandwidth,bandwidth={bandwidth}M"));
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(topology: &Topology) -> String {
        topology.flags(Arch::X86_64).unwrap().join(" ")
    }

    #[test]
    fn one_node_needs_no_words() {
        let text = flags(&Topology { cpus: 2, ..Topology::default() });
        assert_eq!(text, "-m 1024M -smp cpus=2,sockets=1,cores=2,threads=1");
    }

    #[test]
    fn what_was_given_is_what_is_said_to_be_wrong() {
        // As the command line has it: CPUs follow from nodes.
        let none = Topology { cpus: 0, nodes: 0, ..Topology::default() };
        let error = none.flags(Arch::X86_64).unwrap_err().to_string();
        assert!(error.starts_with("--nodes 0: "), "{error}");
        let none = Topology { cpus: 0, ..Topology::default() };
        assert!(none.flags(Arch::X86_64).unwrap_err().to_string().starts_with("--cpus 0: "));
    }

    #[test]
    fn nodes_share_cpus_and_memory() {
        let topology = Topology {
            cpus: 8,
            nodes: 2,
            memory_nodes: 1,
            memory_mib: Some(1000),
            threads: 2,
            distances: vec!["30".parse().unwrap(), "1,0=21".parse().unwrap()],
            ..Topology::default()
        };
        let text = flags(&topology);
        for part in [
            "-smp cpus=8,sockets=2,cores=2,threads=2",
            "id=m0,size=334M",
            "id=m2,size=333M",
            "nodeid=0,memdev=m0,cpus=0-3 ",
            "nodeid=1,memdev=m1,cpus=4-7 ",
            "nodeid=2,memdev=m2 ",
            "src=0,dst=1,val=21",
            "src=1,dst=0,val=21",
            "src=2,dst=0,val=30",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn interleaved_numbers_go_round_the_nodes() {
        let topology = Topology { cpus: 4, nodes: 2, interleaved: true, ..Topology::default() };
        let text = flags(&topology);
        assert!(text.contains("nodeid=0,memdev=m0,cpus=0-0,cpus=2-2"), "{text}");
        assert!(text.contains("sockets=4"), "{text}");
    }

    #[test]
    fn hmat_tells_of_every_pair() {
        let topology = Topology { memory_nodes: 1, hmat: true, ..Topology::default() };
        let text = flags(&topology);
        assert!(text.contains("initiator=0,target=1,hierarchy=memory,data-type=access-latency"));
        assert!(text.contains("latency=20") && text.contains("bandwidth=10000M"), "{text}");
    }

    #[track_caller]
    fn refused(topology: &Topology, part: &str) {
        let error = topology.flags(Arch::X86_64).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn impossible_machines_are_refused_with_the_reason() {
        let of = |cpus, nodes| Topology { cpus, nodes, ..Topology::default() };
        refused(&of(0, 1), "has 1 to 255");
        refused(&of(2, 4), "Try: --cpus 4");
        refused(&of(6, 4), "do not divide");
        refused(&Topology { memory_mib: Some(64), ..of(1, 1) }, "Try: --memory 256M");
        let far = Topology { distances: vec!["0,7=30".parse().unwrap()], ..of(2, 2) };
        refused(&far, "the nodes are 0 to 1");
        for wrong in ["10", "255", "x", "0=20", "0,x=20"] {
            assert!(wrong.parse::<Distance>().is_err(), "{wrong}");
        }
    }
}
