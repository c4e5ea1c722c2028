//! Topologies as real machines have them.

use pmuscope_machine::CpuSet;

use crate::fixture::{CpuFacts, Tree};

fn text(groups: &[CpuSet]) -> Vec<String> {
    groups.iter().map(ToString::to_string).collect()
}

/// Two sockets of four cores with two threads each; siblings are eight CPUs apart.
fn two_nodes_smt() -> Tree {
    let tree = Tree::new();
    tree.online("0-15", "0-15");
    for id in 0..16u32 {
        let core = id % 8;
        let package = core / 4;
        let l3 = ["0-3,8-11", "4-7,12-15"][package as usize];
        tree.cpu(&CpuFacts {
            id,
            package: package as i32,
            die: 0,
            core: core % 4,
            siblings: &format!("{core},{}", core + 8),
            l3: Some(l3),
        });
    }
    tree.node(0, "0-3,8-11", "10 21", 4096).node(1, "4-7,12-15", "21 10", 8192);
    tree
}

#[test]
fn two_sockets_with_smt() {
    let topology = two_nodes_smt().machine().topology().unwrap();
    assert_eq!(topology.cpus.len(), 16);
    assert_eq!(text(&topology.node_groups()), ["0-3,8-11", "4-7,12-15"]);
    assert_eq!(topology.package_groups(), topology.node_groups());
    assert_eq!(topology.die_groups(), topology.node_groups());
    assert_eq!(topology.l3_groups(), topology.node_groups());
    let cores = text(&topology.core_groups());
    assert_eq!(cores, ["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"]);
    let cpu = topology.cpu(13).unwrap();
    assert_eq!((cpu.node, cpu.package, cpu.core, cpu.l3), (1, 1, 1, Some(4)));
    assert_eq!(topology.node_of(8), Some(0));
    assert!(topology.check_online(&"3-12".parse().unwrap()).is_ok());
    let error = topology.check_online(&"14-17".parse().unwrap()).unwrap_err().to_string();
    assert_eq!(error, "CPU 16-17 is not online (online: 0-15)");
    assert_eq!(topology.node_of(16), None);
    assert_eq!(topology.distance(0, 1), Some(21));
    assert_eq!(topology.distance(1, 1), Some(10));
    assert_eq!(topology.distance(0, 2), None);
    assert_eq!(topology.nodes[1].memory_bytes, Some(8192 << 20));
    assert_eq!(topology.nodes[1].free_bytes, Some(4096 << 20));
}

#[test]
fn interleaved_cpu_numbers_over_four_nodes() {
    let tree = Tree::new();
    tree.online("0-15", "0-127");
    for id in 0..16u32 {
        let node = id % 4;
        let l3: Vec<String> = (0..4).map(|i| (i * 4 + node).to_string()).collect();
        tree.cpu(&CpuFacts {
            id,
            package: node as i32,
            die: 0,
            core: id / 4,
            siblings: &id.to_string(),
            l3: Some(&l3.join(",")),
        });
    }
    for node in 0..4u32 {
        let cpus: Vec<String> = (0..4).map(|i| (i * 4 + node).to_string()).collect();
        let distances: Vec<&str> = (0..4).map(|to| if to == node { "10" } else { "20" }).collect();
        tree.node(node, &cpus.join(","), &distances.join(" "), 1024);
    }
    let topology = tree.machine().topology().unwrap();
    let nodes = ["0,4,8,12", "1,5,9,13", "2,6,10,14", "3,7,11,15"];
    assert_eq!(text(&topology.node_groups()), nodes);
    assert_eq!(text(&topology.l3_groups()), nodes);
    assert_eq!(topology.core_groups().len(), 16);
    assert_eq!(topology.possible.len(), 128);
    assert_eq!(topology.nodes[2].distances, [20, 20, 10, 20]);
}

#[test]
fn amd_with_two_caches_per_node() {
    let tree = Tree::new();
    tree.online("0-7", "0-7");
    for id in 0..8u32 {
        let l3 = ["0-3", "4-7"][(id / 4) as usize];
        tree.cpu(&CpuFacts {
            id,
            package: 0,
            die: 0,
            core: id,
            siblings: &id.to_string(),
            l3: Some(l3),
        });
    }
    tree.node(0, "0-7", "10", 1024);
    let topology = tree.machine().topology().unwrap();
    assert_eq!(text(&topology.l3_groups()), ["0-3", "4-7"]);
    assert_eq!(text(&topology.die_groups()), ["0-7"]);
    assert_eq!(text(&topology.node_groups()), ["0-7"]);
    assert_eq!(topology.cpu(6).unwrap().l3, Some(4));
}

#[test]
fn dies_of_one_package() {
    let tree = Tree::new();
    tree.online("0-3", "0-3");
    for id in 0..4u32 {
        tree.cpu(&CpuFacts {
            id,
            package: 0,
            die: (id / 2) as i32,
            core: id,
            siblings: &id.to_string(),
            l3: None,
        });
    }
    let topology = tree.machine().topology().unwrap();
    assert_eq!(text(&topology.die_groups()), ["0-1", "2-3"]);
    // Without a third-level cache the die stands in, so that every CPU has a group.
    assert_eq!(topology.l3_groups(), topology.die_groups());
    assert_eq!(text(&topology.package_groups()), ["0-3"]);
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let tree = Tree::new();
    tree.online("0-1", "0-1").file("proc/meminfo", "MemTotal:  2048 kB\nMemFree:  1024 kB\n");
    let topology = tree.machine().topology().unwrap();
    assert_eq!(text(&topology.node_groups()), ["0-1"]);
    let node = &topology.nodes[0];
    assert_eq!((node.id, node.memory_bytes, node.free_bytes), (0, Some(2 << 20), Some(1 << 20)));
    assert_eq!(topology.distance(0, 0), Some(10));
    // No topology folder either: every CPU is a core of package 0.
    assert_eq!(text(&topology.core_groups()), ["0", "1"]);
    assert_eq!(text(&topology.package_groups()), ["0-1"]);
}

#[test]
fn an_offline_cpu_is_possible_and_nothing_else() {
    let tree = two_nodes_smt();
    tree.online("0-12,14-15", "0-15");
    let topology = tree.machine().topology().unwrap();
    assert!(topology.possible.contains(13));
    assert!(topology.cpu(13).is_none());
    assert_eq!(topology.cpus.len(), 15);
    // Stale lists must not bring it back.
    assert_eq!(topology.cpu(5).unwrap().siblings.to_string(), "5");
    assert_eq!(text(&topology.node_groups()), ["0-3,8-11", "4-7,12,14-15"]);
    assert_eq!(text(&topology.l3_groups()), ["0-3,8-11", "4-7,12,14-15"]);
}

#[test]
fn nodes_with_only_memory_have_no_group() {
    let tree = two_nodes_smt();
    tree.node(4, "", "28 28 10", 65536);
    let topology = tree.machine().topology().unwrap();
    assert_eq!(topology.nodes.len(), 3);
    assert_eq!(topology.node_groups().len(), 2);
    // Columns follow the list of nodes, not their numbers.
    assert_eq!(topology.distance(4, 4), Some(10));
    assert_eq!(topology.distance(4, 1), Some(28));
}

#[test]
fn what_a_platform_does_not_tell_is_zero() {
    let tree = Tree::new();
    tree.online("0", "0").cpu(&CpuFacts {
        id: 0,
        package: -1,
        die: -1,
        core: 7,
        siblings: "0",
        l3: None,
    });
    let topology = tree.machine().topology().unwrap();
    let cpu = &topology.cpus[0];
    assert_eq!((cpu.package, cpu.die, cpu.core, cpu.l3), (0, 0, 7, None));
}

#[test]
fn no_list_of_cpus_is_an_error_that_names_the_file() {
    let tree = Tree::new();
    let error = tree.machine().topology().unwrap_err().to_string();
    assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
    for content in ["", "zero", "0-99999999999"] {
        tree.file("sys/devices/system/cpu/online", content);
        let error = tree.machine().topology().unwrap_err().to_string();
        assert!(error.contains("expected a list of CPUs"), "{error}");
    }
}
