//! Whether this machine has the CPUs, nodes and memory that were asked for.

use pmuscope_machine::{CpuSet, Machine, Topology};

use super::options::{Options, Sizes, UNIT, refused};
use crate::error::WorkloadError;

/// What is left for everything else: a part in so many.
const LEFT: u64 = 16;

/// Looks at CPUs, nodes and memory. `allowed`: the CPUs that this process may use.
///
/// # Errors
/// Names what is not there, and what is.
pub(super) fn check(
    machine: &Machine,
    allowed: &CpuSet,
    options: &Options,
) -> Result<(), WorkloadError> {
    check_cpus(allowed, options)?;
    let topology = machine.topology().map_err(|error| {
        WorkloadError::system("read the topology", std::io::Error::other(error))
    })?;
    let wanted = nodes(options);
    check_nodes(machine, &topology, &wanted)?;
    check_memory(machine, &topology, options)
}

fn check_cpus(allowed: &CpuSet, options: &Options) -> Result<(), WorkloadError> {
    let asked = options.cpus.iter().fold(CpuSet::new(), |all, cpus| all.union(cpus));
    let missing = asked.difference(allowed);
    if missing.is_empty() {
        return Ok(());
    }
    Err(refused(format!(
        "--cpus: CPUs {missing} are not online, or not in the affinity or cpuset of this process; \
         it may use {allowed}"
    )))
}

/// All nodes that are named.
fn nodes(options: &Options) -> CpuSet {
    let own = options.policy.nodes().cloned().unwrap_or_default();
    options.memory_nodes.iter().fold(own, |all, nodes| all.union(nodes))
}

fn check_nodes(
    machine: &Machine,
    topology: &Topology,
    wanted: &CpuSet,
) -> Result<(), WorkloadError> {
    let there: CpuSet = with_memory(topology).map(|(node, _)| node).collect();
    let missing = wanted.difference(&there);
    if !missing.is_empty() {
        return Err(refused(format!(
            "NUMA nodes {missing} are not online or have no memory: this machine has {there}"
        )));
    }
    let Some(allowed) = machine.allowed_nodes_of(std::process::id()) else { return Ok(()) };
    let excluded = wanted.difference(&allowed);
    if excluded.is_empty() {
        return Ok(());
    }
    Err(refused(format!(
        "NUMA nodes {excluded} are not in the cpuset (cpuset.mems) of this process; it may use \
         {allowed}"
    )))
}

/// Nodes that have memory, with how much where that is told.
fn with_memory(topology: &Topology) -> impl Iterator<Item = (u32, Option<u64>)> + '_ {
    topology
        .nodes
        .iter()
        .filter(|node| node.memory_bytes != Some(0))
        .map(|node| (node.id, node.memory_bytes))
}

fn check_memory(
    machine: &Machine,
    topology: &Topology,
    options: &Options,
) -> Result<(), WorkloadError> {
    let (processes, threads) = (options.processes, options.threads);
    let Some(needed) = options.sizes.total(processes, threads) else {
        return Err(refused("more memory than the address space holds. Try: smaller sizes"));
    };
    if let Some(available) = machine.available_bytes() {
        let room = available - available / LEFT;
        if needed > room {
            return Err(too_large("this machine can spare", needed, room, options));
        }
    }
    let bound = bound_bytes(options);
    for (node, total) in with_memory(topology) {
        let Some(total) = total else { continue };
        let (room, bytes) = (total - total / LEFT, bound.get(node as usize).copied().unwrap_or(0));
        if bytes > room {
            return Err(too_large(&format!("NUMA node {node} has"), bytes, room, options));
        }
    }
    Ok(())
}

/// Bytes of each node that have to lie there, by its number: those of tasks bound to it alone.
fn bound_bytes(options: &Options) -> Vec<u64> {
    let mut bound = Vec::new();
    let Sizes { global, process, thread, .. } = options.sizes;
    let (tasks, threads) = (options.tasks() as u64, options.threads as u64);
    for task in 0..options.tasks() {
        let policy = options.policy_of(task);
        let Some(nodes) = policy.nodes().filter(|nodes| nodes.len() == 1) else { continue };
        let node = nodes.first().unwrap_or(0) as usize;
        bound.resize(bound.len().max(node + 1), 0);
        bound[node] += thread + process / threads + global / tasks;
    }
    bound
}

fn too_large(whose: &str, needed: u64, room: u64, options: &Options) -> WorkloadError {
    let share = |bytes: u64| {
        let share = (u128::from(bytes) * u128::from(room) / u128::from(needed)) as u64;
        share / UNIT * UNIT
    };
    let Sizes { global, process, thread, .. } = options.sizes;
    let flags: Vec<String> = [("--global", global), ("--process", process), ("--thread", thread)]
        .iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(flag, bytes)| format!("{flag} {}K", share(*bytes) / 1024))
        .collect();
    refused(format!(
        "{} MiB do not fit: {whose} {} MiB. Try: {}",
        needed.div_ceil(1 << 20),
        room >> 20,
        flags.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_machine::MemoryPolicy;

    /// Two nodes of 1 GiB and two CPUs each, of which 1 GiB is available.
    fn machine() -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n");
        write(&format!("proc/{}/status", std::process::id()), "Mems_allowed_list:\t0-1\n");
        for list in ["possible", "online", "present"] {
            write(&format!("sys/devices/system/cpu/{list}"), "0-3\n");
        }
        for (node, cpus) in [(0, "0-1"), (1, "2-3")] {
            let folder = format!("sys/devices/system/node/node{node}");
            write(&format!("{folder}/cpulist"), cpus);
            write(&format!("{folder}/distance"), "10 20");
            let text =
                format!("Node {node} MemTotal: 1048576 kB\nNode {node} MemFree: 1000000 kB\n");
            write(&format!("{folder}/meminfo"), &text);
        }
        write("sys/devices/system/node/online", "0-1\n");
        let machine = Machine::at(root.path());
        (root, machine)
    }

    fn refusal(change: impl Fn(&mut Options)) -> String {
        let (_root, machine) = machine();
        let mut options = Options { threads: 2, ..Options::default() };
        options.sizes.thread = 64 << 20;
        let allowed = CpuSet::parse("0-3").unwrap();
        check(&machine, &allowed, &options).unwrap();
        change(&mut options);
        check(&machine, &allowed, &options).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let cpus = refusal(|options| options.cpus = vec![CpuSet::parse("1,7").unwrap()]);
        assert!(cpus.contains("CPUs 7 are not") && cpus.ends_with("it may use 0-3"), "{cpus}");
        let node = |text: &str| text.parse::<MemoryPolicy>().unwrap();
        let nodes = refusal(|options| options.policy = node("interleave:0-3"));
        assert!(nodes.contains("nodes 2-3 are not") && nodes.ends_with("has 0-1"), "{nodes}");
        let list = refusal(|options| options.memory_nodes = vec![CpuSet::parse("5").unwrap()]);
        assert!(list.contains("nodes 5 are not"), "{list}");
    }

    #[test]
    fn memory_that_does_not_fit_says_how_much_would() {
        let thread = refusal(|options| options.sizes.thread = 1 << 30);
        assert!(thread.contains("2048 MiB do not fit: this machine can spare 960 MiB"), "{thread}");
        assert!(thread.ends_with("Try: --thread 491520K"), "{thread}");
        let far = refusal(|options| options.sizes.thread = u64::MAX / 4096 * 4096);
        assert!(far.contains("more memory than the address space holds"), "{far}");
    }

    #[test]
    fn tasks_bound_to_one_node_have_to_fit_there() {
        let options = |policy: &str| Options {
            threads: 2,
            sizes: Sizes { global: 4096, process: 8192, thread: 4096, locked: 0 },
            policy: policy.parse().unwrap(),
            ..Options::default()
        };
        assert_eq!(bound_bytes(&options("bind:1")), [0, 2 * (4096 + 4096 + 2048)]);
        assert!(bound_bytes(&options("bind:0-1")).is_empty());
        assert!(bound_bytes(&options("interleave:0-1")).is_empty());
    }

    #[test]
    fn a_cpuset_without_a_node_is_told() {
        let (root, machine) = machine();
        std::fs::write(
            root.path().join(format!("proc/{}/status", std::process::id())),
            "Mems_allowed_list: 0\n",
        )
        .unwrap();
        let mut options = Options { policy: "bind:1".parse().unwrap(), ..Options::default() };
        options.sizes.thread = 4096;
        let error = check(&machine, &CpuSet::parse("0").unwrap(), &options).unwrap_err();
        assert!(error.to_string().contains("nodes 1 are not in the cpuset"), "{error}");
    }
}
