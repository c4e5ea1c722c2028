//! Placement on nodes, as kernels and firmware tell of it.

use std::fs;

use pmuscope_machine::{MachineError, NumaBalancing, NumaCounters};

use crate::fixture::Tree;

/// Two nodes with CPUs and one with slow memory only.
fn tiered() -> Tree {
    let tree = Tree::new();
    tree.online("0-3", "0-3");
    tree.node(0, "0-1", "10 21 28", 4096).node(1, "2-3", "21 10 28", 4096);
    tree.node(2, "", "28 28 10", 16384);
    tree
}

const DEBUG: &str = "sys/kernel/debug/sched/numa_balancing";

#[test]
fn what_firmware_tells_of_memory() {
    let tree = tiered();
    let node = "sys/devices/system/node";
    tree.file(&format!("{node}/has_memory"), "0,2\n");
    for (class, read) in [(0, "38400\n"), (1, "19200\n")] {
        let folder = format!("{node}/node2/access{class}/initiators");
        tree.file(&format!("{folder}/node1/x"), "")
            .file(&format!("{folder}/read_latency"), "250\n");
        tree.file(&format!("{folder}/read_bandwidth"), read);
        // What firmware leaves out is 0 in sysfs.
        tree.file(&format!("{folder}/write_bandwidth"), "0\n");
    }
    // Initiators alone tell nothing of how fast they are.
    tree.file(&format!("{node}/node0/access0/initiators/node0/x"), "");
    let tiers = "sys/devices/virtual/memory_tiering";
    tree.file(&format!("{tiers}/memory_tier4/nodelist"), "0-1\n");
    tree.file(&format!("{tiers}/memory_tier22/nodelist"), "2\n");
    tree.file("sys/kernel/mm/mempolicy/weighted_interleave/node2", "3\n");
    let machine = tree.machine();
    let nodes = machine.numa_nodes(&machine.topology().unwrap());
    let kinds: Vec<_> =
        nodes.iter().map(|node| (node.has_cpus, node.has_memory, node.tier)).collect();
    assert_eq!(kinds, [(true, true, Some(4)), (true, false, Some(4)), (false, true, Some(22))]);
    assert!(nodes[0].access.is_empty() && nodes[1].access.is_empty());
    let [nearest, with_cpus] = nodes[2].access.as_slice() else { panic!("{:?}", nodes[2].access) };
    assert_eq!((nearest.class, with_cpus.class), (0, 1));
    assert_eq!(nearest.initiators.to_string(), "1");
    assert_eq!(nearest.read_bandwidth_mb_s, Some(38_400));
    assert_eq!(with_cpus.read_bandwidth_mb_s, Some(19_200));
    assert_eq!((nearest.write_bandwidth_mb_s, nearest.read_latency_ns), (None, Some(250)));
    assert_eq!(
        nodes.iter().map(|n| n.interleave_weight).collect::<Vec<_>>(),
        [None, None, Some(3)]
    );
}

#[test]
fn without_a_word_from_the_kernel_memory_is_what_meminfo_says() {
    let tree = tiered();
    tree.node(2, "", "28 28 10", 0);
    let machine = tree.machine();
    let nodes = machine.numa_nodes(&machine.topology().unwrap());
    assert_eq!(nodes.iter().map(|node| node.has_memory).collect::<Vec<_>>(), [true, true, false]);
    assert!(nodes.iter().all(|node| node.tier.is_none() && node.interleave_weight.is_none()));
}

#[test]
fn balancing_is_read_where_todays_kernels_have_it() {
    let tree = tiered();
    assert_eq!(tree.machine().numa_balancing(), NumaBalancing::default());
    assert_eq!(tree.machine().scan_settings_hidden(), None, "there is no balancing to scan for");
    tree.file("proc/sys/kernel/numa_balancing", "3\n");
    let why = tree.machine().scan_settings_hidden().unwrap();
    assert!(why.contains("sudo mount -t debugfs"), "{why}");
    tree.file("sys/kernel/debug/sched/features", "");
    let why = tree.machine().scan_settings_hidden().unwrap();
    assert!(why.contains("CONFIG_SCHED_DEBUG"), "{why}");
    tree.file("proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", "65536\n");
    for (name, value) in
        [("scan_delay_ms", 1000), ("scan_period_min_ms", 1001), ("scan_size_mb", 256)]
    {
        tree.file(&format!("{DEBUG}/{name}"), format!("{value}\n"));
    }
    let found = tree.machine().numa_balancing();
    let expected = NumaBalancing {
        mode: Some(3),
        promote_rate_limit_mb_s: Some(65_536),
        scan_delay_ms: Some(1000),
        scan_period_min_ms: Some(1001),
        scan_size_mb: Some(256),
        ..NumaBalancing::default()
    };
    assert_eq!(found, expected);
    assert_eq!((found.is_on(), found.is_tiering()), (Some(true), Some(true)));
    assert_eq!(tree.machine().scan_settings_hidden(), None);
    let only = |mode| NumaBalancing { mode: Some(mode), ..NumaBalancing::default() };
    assert_eq!((only(2).is_on(), only(2).is_tiering()), (Some(false), Some(true)));
}

#[test]
fn balancing_is_read_where_old_kernels_have_it() {
    let tree = tiered();
    tree.file("proc/sys/kernel/numa_balancing", "1\n");
    tree.file("proc/sys/kernel/numa_balancing_scan_delay_ms", "1000\n");
    tree.file("proc/sys/kernel/numa_balancing_scan_size_mb", "128\n");
    let found = tree.machine().numa_balancing();
    assert_eq!((found.scan_delay_ms, found.scan_size_mb), (Some(1000), Some(128)));
}

#[test]
fn settings_hold_until_the_guard_goes() {
    let tree = tiered();
    let machine = tree.machine();
    tree.file("proc/sys/kernel/numa_balancing", "0\n");
    tree.file(&format!("{DEBUG}/scan_delay_ms"), "1000\n")
        .file(&format!("{DEBUG}/scan_size_mb"), "256\n");
    let before = machine.numa_balancing();
    let wanted =
        NumaBalancing { mode: Some(1), scan_delay_ms: Some(100), ..NumaBalancing::default() };
    let guard = wanted.set(&machine).unwrap();
    assert_eq!(
        machine.numa_balancing(),
        NumaBalancing { scan_size_mb: Some(256), ..wanted },
        "what was not asked for stays"
    );
    drop(guard);
    assert_eq!(machine.numa_balancing(), before);
    wanted.set(&machine).unwrap().restore().unwrap();
    assert_eq!(machine.numa_balancing(), before);
}

#[test]
fn a_setting_that_is_not_there_leaves_the_others_as_they_were() {
    let tree = tiered();
    let machine = tree.machine();
    tree.file("proc/sys/kernel/numa_balancing", "0\n");
    let wanted =
        NumaBalancing { mode: Some(1), hot_threshold_ms: Some(1), ..NumaBalancing::default() };
    let error = wanted.set(&machine).unwrap_err();
    assert!(error.to_string().contains("hot_threshold_ms"), "{error}");
    assert_eq!(machine.numa_balancing().mode, Some(0));
    tree.file(&format!("{DEBUG}/hot_threshold_ms"), "many\n");
    let error = wanted.set(&machine).unwrap_err();
    assert!(matches!(error, MachineError::Malformed { .. }), "{error}");
    assert_eq!(machine.numa_balancing().mode, Some(0));
}

#[test]
fn settings_that_decide_where_memory_comes_from() {
    let tree = tiered();
    let found = tree.machine().numa_settings();
    assert!(found.zone_reclaim_mode.is_none() && found.own_policy.is_none());
    assert!(!found.weighted_interleave);
    tree.file("proc/sys/vm/zone_reclaim_mode", "0\n").file("proc/sys/vm/numa_stat", "1\n");
    tree.file("sys/kernel/mm/numa/demotion_enabled", "false\n");
    tree.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree.file("sys/kernel/mm/mempolicy/weighted_interleave/node0", "1\n");
    tree.file("proc/self/numa_maps", "5500 weighted interleave:0-1 file=/x\n5600 default\n");
    for process in ["self", "7"] {
        tree.file(&format!("proc/{process}/status"), "Name:\tx\nMems_allowed_list:\t0,2\n");
    }
    let found = tree.machine().numa_settings();
    assert_eq!((found.zone_reclaim_mode, found.counts_allocations), (Some(0), Some(true)));
    assert_eq!((found.demotion, found.weighted_interleave), (Some(false), true));
    assert_eq!(found.transparent_huge_pages.as_deref(), Some("madvise"));
    assert_eq!(found.own_policy.as_deref(), Some("weighted interleave:0-1"));
    assert_eq!(found.allowed_nodes.unwrap().to_string(), "0,2");
    assert_eq!(tree.machine().allowed_nodes_of(7).unwrap().to_string(), "0,2");
    assert_eq!(tree.machine().allowed_nodes_of(8), None);
}

#[test]
fn counters_are_those_the_kernel_has() {
    let tree = tiered();
    assert!(tree.machine().numa_counters().is_err());
    let then = "nr_free_pages 5\nnuma_hint_faults 10\nnuma_hint_faults_local 5\nnuma_local 100\nnuma_other 9\n";
    tree.file("proc/vmstat", then);
    let earlier = tree.machine().numa_counters().unwrap();
    assert_eq!(earlier.hint_faults, Some(10));
    assert_eq!(earlier.pte_updates, None);
    // vm.numa_stat=0 resets the last two; the first came with a module.
    let now = "numa_pte_updates 7\nnuma_hint_faults 30\nnuma_hint_faults_local 20\nnuma_local 0\nnuma_other 12\n";
    tree.file("proc/vmstat", now);
    let since = tree.machine().numa_counters().unwrap().since(&earlier);
    let expected = NumaCounters {
        hint_faults: Some(20),
        hint_faults_local: Some(15),
        other: Some(3),
        ..NumaCounters::default()
    };
    assert_eq!(since, expected);
    assert_eq!(since.local_share(), Some(0.75));
    assert_eq!(since.allocated_locally(), None);
    assert_eq!(earlier.since(&earlier).local_share(), None, "no fault has no share");
    let named: Vec<_> = since.named().filter(|(_, value)| value.is_some()).collect();
    let expected = [("numa_hint_faults", 20), ("numa_hint_faults_local", 15), ("numa_other", 3)];
    assert_eq!(named, expected.map(|(name, value)| (name, Some(value))));
}

#[test]
fn counters_of_a_node_and_of_a_cgroup() {
    let tree = tiered();
    tree.file("sys/devices/system/node/node1/vmstat", "numa_hit 3\nnuma_other 1\n");
    assert_eq!(tree.machine().node_counters(1).unwrap().hit, Some(3));
    assert!(tree.machine().node_counters(0).is_err());
    let folder = tree.machine().root().join("sys/fs/cgroup/x");
    let error = NumaCounters::of_cgroup(&folder).unwrap_err();
    assert!(error.to_string().contains("memory.stat"), "{error}");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("memory.stat"), "anon 4096\nnuma_pages_migrated 8\n").unwrap();
    assert_eq!(NumaCounters::of_cgroup(&folder).unwrap().pages_migrated, Some(8));
}

#[test]
fn memory_of_a_process_by_nodes() {
    let tree = tiered();
    let maps = "1000 default file=/opt/a\\040b mapped=2 N0=2 kernelpagesize_kB=4\n\
                2000 bind:1 heap anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4\n\
                3000 default\n";
    tree.file("proc/7/numa_maps", maps);
    let found = tree.machine().numa_maps(7).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].file.as_deref(), Some(b"/opt/a b".as_slice()));
    assert_eq!((found[1].nodes[&0], found[1].nodes[&1], found[1].bytes()), (4096, 8192, 12_288));
    assert_eq!(found[2].bytes(), 0);
    tree.file("proc/7/numa_maps", "1000\n");
    let error = tree.machine().numa_maps(7).unwrap_err();
    assert!(error.to_string().contains("expected a mapping with nodes"), "{error}");
    assert!(tree.machine().numa_maps(8).unwrap_err().is_gone());
}

#[test]
fn what_balancing_knows_of_a_thread() {
    let tree = tiered();
    let sched = "evil\n(x) : (7, #threads: 1)\n---\nse.exec_start   :   1.5\n\
                 mm->numa_scan_seq                            :                   12\n\
                 numa_pages_migrated                          :                  345\n\
                 numa_preferred_nid                           :                    1\n\
                 total_numa_faults                            :                   90\n\
                 current_node=0, numa_group_id=70\n\
                 numa_faults node=0 task_private=1 task_shared=2 group_private=3 group_shared=4\n\
                 numa_faults node=1 task_private=5 task_shared=6 group_private=7 group_shared=8\n";
    tree.file("proc/7/task/8/sched", sched).file("proc/7/task/9/stat", "");
    let task = tree.machine().numa_task(7, 8).unwrap().unwrap();
    assert_eq!((task.scans, task.pages_migrated, task.faults), (Some(12), Some(345), Some(90)));
    assert_eq!((task.preferred_node, task.group), (Some(1), Some(70)));
    assert_eq!((task.nodes[1].node, task.nodes[1].private, task.nodes[1].group_shared), (1, 5, 8));
    // A kernel without the file, one without the lines, a thread that ended.
    assert_eq!(tree.machine().numa_task(7, 9).unwrap(), None);
    tree.file("proc/7/task/9/sched", "se.exec_start   :   1.5\n");
    assert_eq!(tree.machine().numa_task(7, 9).unwrap(), None);
    assert!(tree.machine().numa_task(7, 10).unwrap_err().is_gone());
    tree.file(
        "proc/7/task/8/sched",
        sched.replace("nid                           :                    1", "nid : -1"),
    );
    assert_eq!(tree.machine().numa_task(7, 8).unwrap().unwrap().preferred_node, None);
}

#[test]
fn a_cpuset_is_that_of_the_next_cgroup_that_has_one() {
    let tree = tiered();
    assert_eq!(tree.machine().cpuset_of(7), None);
    tree.file("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    tree.file("proc/7/cgroup", "0::/a/b\n");
    assert_eq!(tree.machine().cpuset_of(7), None);
    tree.file("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
    assert_eq!(tree.machine().cpuset_of(7).unwrap().to_string(), "0-3");
    tree.file("sys/fs/cgroup/a/cpuset.cpus.effective", "2\n");
    assert_eq!(tree.machine().cpuset_of(7).unwrap().to_string(), "2");
}
