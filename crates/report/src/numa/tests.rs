//! The page of a server with slow memory, of one node, and of a kernel that tells nothing.

use std::fs;
use std::path::Path;

use pmuscope_machine::{Machine, Sign};
use tempfile::TempDir;

use super::machine::numa_text;
use super::*;
use crate::Style;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }
}

/// Nodes with their CPUs and distances.
fn machine(nodes: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let online = format!("0-{}", 4 * nodes.iter().filter(|(cpus, _)| !cpus.is_empty()).count() - 1);
    write(
        folder.path(),
        &[
            ("proc/sys/kernel/osrelease", "6.12.9-amd64"),
            ("proc/sys/kernel/arch", "x86_64"),
            ("sys/devices/system/cpu/online", &online),
        ],
    );
    for (id, (cpus, distances)) in nodes.iter().enumerate() {
        let at = |name: &str| format!("sys/devices/system/node/node{id}/{name}");
        let memory = format!("Node {id} MemTotal: 67108864 kB\nNode {id} MemFree: 50331648 kB");
        write(
            folder.path(),
            &[(&at("cpulist"), cpus), (&at("distance"), distances), (&at("meminfo"), &memory)],
        );
    }
    folder
}

fn page(folder: &TempDir, emulator: Option<&Sign>, style: &Style) -> String {
    let machine = Machine::at(folder.path());
    let (topology, kernel) = (machine.topology().unwrap(), machine.kernel().unwrap());
    let facts = machine.numa_facts(&topology);
    numa_text(&NumaShow { facts: &facts, topology: &topology, kernel: &kernel, emulator }, style)
}

/// Two nodes with CPUs and one with slow memory, balanced, for three hours.
fn tiered() -> TempDir {
    let folder = machine(&[("0-3", "10 21 28"), ("4-7", "21 10 28"), ("", "28 28 10")]);
    let root = folder.path();
    let balancing = "sys/kernel/debug/sched/numa_balancing";
    write(
        root,
        &[
            ("proc/uptime", "11040.50 3.00"),
            ("proc/sys/kernel/numa_balancing", "3"),
            ("proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", "65536"),
            (&format!("{balancing}/scan_delay_ms"), "1000"),
            (&format!("{balancing}/scan_period_min_ms"), "1000"),
            (&format!("{balancing}/scan_period_max_ms"), "60000"),
            (&format!("{balancing}/scan_size_mb"), "256"),
            (&format!("{balancing}/hot_threshold_ms"), "1000"),
            ("proc/sys/vm/zone_reclaim_mode", "0"),
            ("proc/sys/vm/numa_stat", "1"),
            ("sys/kernel/mm/numa/demotion_enabled", "true"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
            ("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-1"),
            ("sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "2"),
            ("proc/self/numa_maps", "5500 default file=/x"),
            ("proc/self/status", "Mems_allowed_list:\t0-2"),
            (
                "proc/vmstat",
                "numa_pte_updates 1234567\nnuma_huge_pte_updates 12\nnuma_hint_faults 40000\n\
                 numa_hint_faults_local 22400\nnuma_pages_migrated 9000\npgmigrate_success 10000\n\
                 pgmigrate_fail 3\nthp_migration_success 7\nthp_migration_fail 0\n\
                 thp_migration_split 1\npgpromote_success 800\npgpromote_candidate 0\n\
                 pgpromote_candidate_nrl 900\n\
                 pgdemote_kswapd 70\npgdemote_direct 5\nnuma_hit 5000000\nnuma_miss 12\n\
                 numa_foreign 12\nnuma_interleave 300\nnuma_local 4990000\nnuma_other 10012",
            ),
        ],
    );
    for node in 0..3 {
        let weight = format!("sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
        let at = |name: &str| format!("sys/devices/system/node/node{node}/{name}");
        let vmstat = "numa_hit 1000000\nnuma_miss 4\nnuma_foreign 4\nnuma_interleave 100\n\
                      numa_local 999000\nnuma_other 1004";
        let read = ["40000", "40000", "12000"][node];
        write(
            root,
            &[
                (&weight, ["3", "3", "1"][node]),
                (&at("vmstat"), vmstat),
                (&at("access0/initiators/node0/x"), ""),
                (&at("access0/initiators/read_bandwidth"), read),
                (&at("access0/initiators/read_latency"), "90"),
            ],
        );
    }
    // The nearest with CPUs: as before but for node 2.
    for (node, read) in [(0, "40000"), (2, "11000")] {
        let folder = format!("sys/devices/system/node/node{node}/access1/initiators");
        write(
            root,
            &[
                (&format!("{folder}/node0/x"), ""),
                (&format!("{folder}/read_bandwidth"), read),
                (&format!("{folder}/read_latency"), "90"),
            ],
        );
    }
    folder
}

#[test]
fn a_setting_that_cannot_be_read_is_left_out() {
    let folder = tiered();
    let file = "sys/kernel/debug/sched/numa_balancing/hot_threshold_ms";
    std::fs::remove_file(folder.path().join(file)).unwrap();
    let text = page(&folder, None, &Style::PLAIN);
    let line = text.lines().find(|line| line.contains("hot pages  ")).unwrap();
    assert_eq!(line, "  hot pages         at most 65,536 MB/s move to faster memory");
}

#[test]
fn a_server_with_slow_memory() {
    crate::widths::fits("numa", |style| page(&tiered(), None, style));
    insta::assert_snapshot!(page(&tiered(), None, &Style::PLAIN), @r"
    3 NUMA nodes, 8 CPUs, 192 GiB · 1 without CPUs · Linux 6.12.9-amd64 x86_64
    kernel settings and counters, nothing measured

    NUMA nodes
      node  memory    free  distance to   0   1   2  CPUs
         0  64 GiB  48 GiB               10  21  28  0-3
         1  64 GiB  48 GiB               21  10  28  4-7
         2  64 GiB  48 GiB               28  28  10  -

    Memory performance reported by firmware (HMAT), not measured
      node  nearest initiator  from node  read MB/s  write MB/s  read ns  write ns
         0  any                0             40,000           -       90         -
         1  any                0             40,000           -       90         -
         2  any                0             12,000           -       90         -
         2  CPU                0             11,000           -       90         -

    Memory tier, interleave weight, page allocations since boot
      node  tier  weight        hit  miss  foreign  interleave    local  other
         0     4       3  1,000,000     4        4         100  999,000  1,004
         1     4       3  1,000,000     4        4         100  999,000  1,004
         2    22       1  1,000,000     4        4         100  999,000  1,004

    NUMA balancing
      numa_balancing    3: pages and tasks move towards each other, and hot pages to faster memory
      scans             256 MB each · first after 1,000 ms of run time, then every 1,000 ms (remote faults) to 60,000 ms (local faults)
      hot pages         reused within 1,000 ms · at most 65,536 MB/s move to faster memory

    Memory policy
      own policy        default: local to the CPU that first touches a page
      own nodes         0-2
      zone reclaim      0: use the next node when one is full
      demotion          on: reclaim moves pages to slower memory
      weights           weighted interleaving available (MPOL_WEIGHTED_INTERLEAVE)
      huge pages        madvise

    Kernel counters since boot (3 h 4 min)
      PTE updates       1,234,567 pages, 12 huge
      hint faults       40,000 · 22,400 local (56.0%)
      pages migrated    9,000 by balancing · 10,000 total, 3 failed
      huge pages        7 migrated whole · 1 split · 0 failed
      between tiers     800 pages promoted of 900 candidates · 70 demoted by kswapd, 5 by direct reclaim
      allocations       4,990,000 local (99.8%) · 10,012 remote · 12 not on the intended node
    ");
}

#[test]
fn one_node_has_nothing_to_place() {
    let folder = machine(&[("0-3", "10")]);
    write(
        folder.path(),
        &[("proc/sys/kernel/numa_balancing", "0"), ("proc/vmstat", "numa_hint_faults 0")],
    );
    crate::widths::fits("numa-2", |style| page(&folder, None, style));
    insta::assert_snapshot!(page(&folder, None, &Style::PLAIN), @r"
    1 NUMA node, 4 CPUs, 64 GiB · Linux 6.12.9-amd64 x86_64
    one NUMA node: all memory is local, nothing to place · kernel settings and counters, nothing measured

    NUMA nodes
      node  memory    free  CPUs
         0  64 GiB  48 GiB  0-3

    NUMA balancing
      numa_balancing    0: off: pages stay where they were first touched
      scans             - (debugfs is not mounted. Try: sudo mount -t debugfs nodev /sys/kernel/debug)

    Memory policy
      own policy        -
      own nodes         -
      zone reclaim      -
      demotion          -
      weights           - (even interleaving only; weights need Linux 6.9)
      huge pages        -

    Kernel counters since boot (-)
      PTE updates       - pages, - huge
      hint faults       0 · - local (-)
      pages migrated    - by balancing · - total, - failed
      huge pages        - migrated whole · - split · - failed
      between tiers     - pages promoted of - candidates · - demoted by kswapd, - by direct reclaim
      allocations       - local (-) · - remote · - not on the intended node
    ");
}

#[test]
fn an_emulated_machine_on_a_terminal_without_unicode() {
    let style = Style { color: false, unicode: false, width: Some(80) };
    let emulator = Sign { name: "QEMU TCG".to_owned(), evidence: String::new() };
    let page = page(&tiered(), Some(&emulator), &style);
    assert!(page.is_ascii(), "{page}");
    assert!(page.contains("emulated (QEMU TCG)") && page.contains("not measured (emu)"), "{page}");
    let folder = machine(&[("0-3", "10 20"), ("4-7", "20 10")]);
    write(folder.path(), &[("proc/vmstat", "nr_free_pages 1"), ("proc/sys/vm/numa_stat", "0")]);
    let bare = self::page(&folder, None, &style);
    assert!(bare.contains("vm.numa_stat is 0") && !bare.contains("HMAT"), "{bare}");
}
