//! Processor, caches, virtualization and the rest of what doctor shows.

use pmuscope_machine::{CpuTimes, Machine, Processor};

use crate::fixture::{CpuFacts, Tree};

const CPU: &str = "sys/devices/system/cpu";

fn cache(tree: &Tree, cpu: u32, index: u32, level: u32, kind: &str, size: &str, shared: &str) {
    let folder = format!("{CPU}/cpu{cpu}/cache/index{index}");
    for (name, value) in [
        ("level", level.to_string().as_str()),
        ("type", kind),
        ("size", size),
        ("shared_cpu_list", shared),
        ("coherency_line_size", "64"),
        ("ways_of_associativity", "8"),
    ] {
        tree.file(&format!("{folder}/{name}"), format!("{value}\n"));
    }
}

#[test]
fn equal_caches_are_counted_and_unequal_ones_listed() {
    let tree = Tree::new();
    tree.online("0-5", "0-5");
    // Two fast cores with two threads, two slow ones that share their second level.
    for (cpu, siblings) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")] {
        cache(&tree, cpu, 0, 1, "Data", "48K", siblings);
        cache(&tree, cpu, 1, 2, "Unified", "2048K", siblings);
        cache(&tree, cpu, 2, 3, "Unified", "36864K", "0-5");
    }
    for cpu in [4, 5] {
        cache(&tree, cpu, 0, 1, "Data", "32K", &cpu.to_string());
        cache(&tree, cpu, 1, 2, "Unified", "2048K", "4-5");
        cache(&tree, cpu, 2, 3, "Unified", "36864K", "0-5");
    }
    let machine = tree.machine();
    let caches = machine.caches(&machine.topology().unwrap());
    let text: Vec<String> = caches
        .iter()
        .map(|c| {
            format!("L{} {} {} x{} by {}", c.level, c.kind, c.bytes >> 10, c.count, c.shared_by)
        })
        .collect();
    assert_eq!(
        text,
        [
            "L1 data 32 x2 by 1",
            "L1 data 48 x2 by 2",
            "L2 unified 2048 x3 by 2",
            "L3 unified 36864 x1 by 6"
        ]
    );
}

#[test]
fn governors_with_their_cpus() {
    let tree = Tree::new();
    tree.online("0-2", "0-2");
    for (cpu, governor) in [(0, "performance"), (1, "powersave"), (2, "performance")] {
        tree.file(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"), format!("{governor}\n"));
        tree.file(&format!("{CPU}/cpu{cpu}/cpufreq/scaling_driver"), "intel_pstate\n");
        tree.file(
            &format!("{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq"),
            format!("{}\n", 3_000_000 + cpu),
        );
    }
    tree.file(&format!("{CPU}/intel_pstate/no_turbo"), "0\n");
    let machine = tree.machine();
    let frequency = machine.frequency(&machine.topology().unwrap());
    assert_eq!(frequency.driver.as_deref(), Some("intel_pstate"));
    assert_eq!(frequency.boost, Some(true));
    assert_eq!(frequency.max_khz, Some(3_000_002));
    let governors: Vec<String> =
        frequency.governors.iter().map(|g| format!("{} {}", g.name, g.cpus)).collect();
    assert_eq!(governors, ["performance 0,2", "powersave 1"]);
    assert_eq!(frequency.why, None);
}

fn hypervisor(flag: Option<bool>, files: &[(&str, &str)]) -> Option<String> {
    let tree = Tree::new();
    for (path, text) in files {
        tree.file(path, format!("{text}\n"));
    }
    let processor = Processor { hypervisor_flag: flag, ..Processor::default() };
    tree.machine().virtualization(&processor).hypervisor.map(|sign| sign.name)
}

#[test]
fn virtual_machines_are_recognized() {
    let clock = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    let vendor = "sys/class/dmi/id/sys_vendor";
    let product = "sys/class/dmi/id/product_name";
    assert_eq!(hypervisor(Some(true), &[(clock, "tsc kvm-clock")]), Some("KVM".into()));
    assert_eq!(hypervisor(Some(true), &[(product, "VMware7,1")]), Some("VMware".into()));
    assert_eq!(hypervisor(Some(true), &[]), Some("unknown hypervisor".into()));
    // A host that runs virtual machines is none.
    assert_eq!(hypervisor(Some(false), &[(product, "KVM Server")]), None);
    // Arm has no flag.
    assert_eq!(
        hypervisor(None, &[(vendor, "Amazon EC2"), (product, "c7g.xlarge")]),
        Some("KVM".into())
    );
    assert_eq!(hypervisor(None, &[(vendor, "Amazon EC2"), (product, "c7g.metal")]), None);
    assert_eq!(hypervisor(None, &[]), None);
}

#[test]
fn containers_are_recognized_by_their_marks() {
    for (path, text, name) in [
        ("run/systemd/container", "lxc", "lxc"),
        (".dockerenv", "", "docker"),
        ("run/.containerenv", "", "podman"),
        ("proc/1/cgroup", "0::/kubepods/besteffort/pod1", "kubernetes"),
    ] {
        let tree = Tree::new();
        tree.file(path, text);
        let virtualization = tree.machine().virtualization(&Processor::default());
        let sign = virtualization.container.clone().unwrap();
        assert_eq!((sign.name.as_str(), sign.evidence), (name, format!("/{path}")));
        assert!(virtualization.is_contained());
    }
    let bare = Tree::new().machine().virtualization(&Processor::default());
    assert!(bare.container.is_none() && !bare.is_contained());
}

#[test]
fn a_machine_booted_from_a_container_image_is_no_container() {
    let tree = Tree::new();
    tree.file(".dockerenv", "");
    let root = tree.machine().root().to_owned();
    std::fs::create_dir_all(root.join("proc/self/ns")).unwrap();
    std::os::unix::fs::symlink("pid:[4026531836]", root.join("proc/self/ns/pid")).unwrap();
    let virtualization = tree.machine().virtualization(&Processor::default());
    assert!(virtualization.container.is_some() && !virtualization.is_contained());
}

#[test]
fn cgroups_of_both_versions() {
    let mounted = |mounts: &str| {
        let tree = Tree::new();
        tree.online("0", "0").file("proc/sys/kernel/osrelease", "6.1.0\n");
        tree.file("proc/self/mounts", mounts);
        let facts = tree.machine().facts(Default::default(), None).unwrap();
        facts.event_cgroups.map(|path| path.display().to_string())
    };
    let second = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    let first = "cgroup /sys/fs/cgroup/perf_event cgroup rw,perf_event 0 0\n";
    let other = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
    assert_eq!(mounted(&format!("{other}{second}")).unwrap(), "/sys/fs/cgroup/unified");
    assert_eq!(mounted(&format!("{second}{first}")).unwrap(), "/sys/fs/cgroup/perf_event");
    assert_eq!(mounted(other), None);
}

#[test]
fn this_machine_can_be_told() {
    let facts = Machine::host().facts(Default::default(), None).unwrap();
    let value = serde_json::to_value(&facts).unwrap();
    assert_eq!(value["topology"]["online"], facts.topology.online.to_string());
    assert!(value["units"]["units"].is_array());
    assert!(value["probes"]["io_uring"].is_null());
}

#[test]
fn the_environment_of_a_benchmark_with_its_concerns() {
    let tree = Tree::new();
    tree.online("0-1", "0-1");
    for (path, text) in [
        ("proc/sys/kernel/osrelease", "6.1.0"),
        ("proc/loadavg", "1.50 0.59 0.40 2/86 29195"),
        ("proc/sys/kernel/numa_balancing", "1"),
        ("proc/sys/kernel/randomize_va_space", "2"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
        ("sys/devices/system/cpu/cpufreq/boost", "1"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq"),
        ("sys/devices/system/cpu/smt/active", "0"),
        ("sys/devices/system/cpu/isolated", "1"),
        ("proc/self/status", "Name:\tcat\nCpus_allowed:\t1\nCpus_allowed_list:\t0"),
    ] {
        tree.file(path, format!("{text}\n"));
    }
    let environment = tree.machine().environment().unwrap();
    assert_eq!(environment.isolated.as_ref().map(ToString::to_string).as_deref(), Some("1"));
    assert_eq!(environment.load_average, Some([1.5, 0.59, 0.4]));
    assert_eq!(environment.numa_balancing, Some(true));
    assert_eq!(environment.transparent_huge_pages.as_deref(), Some("madvise"));
    assert_eq!(environment.address_randomisation, Some(2));
    let concerns: Vec<String> =
        environment.concerns().into_iter().map(|concern| concern.why).collect();
    assert_eq!(
        concerns,
        [
            "the load average is 1.50 on 2 CPUs",
            "this process may run only on CPUs 0, 1 of 2",
            "the frequency governor of CPU 0 is schedutil",
            "turbo (boost) is on"
        ]
    );
}

#[test]
fn a_quiet_machine_gives_no_concern() {
    let tree = Tree::new();
    tree.online("0-63", "0-63").file("proc/sys/kernel/osrelease", "6.1.0\n");
    tree.file("proc/loadavg", "2.00 9.00 9.00 2/86 29195\n");
    assert_eq!(tree.machine().environment().unwrap().concerns(), []);
}

#[test]
fn times_of_this_machine_go_forward() {
    let machine = Machine::host();
    let before = machine.cpu_times().unwrap();
    let online = machine.topology().unwrap().online;
    let clock = std::time::Instant::now();
    // Long enough for a few ticks, as long as it takes.
    while clock.elapsed() < std::time::Duration::from_millis(60) {
        std::hint::spin_loop();
    }
    let share = CpuTimes::busy_share(&before, &machine.cpu_times().unwrap(), &online);
    assert!(share.is_some_and(|share| (0.0..=1.0).contains(&share)), "{share:?}");
}

/// Two cores with two threads each.
fn two_cores(tree: &Tree) {
    tree.online("0-3", "0-3");
    for id in 0..4u32 {
        let (core, siblings) = (id % 2, ["0,2", "1,3"][id as usize % 2]);
        tree.cpu(&CpuFacts { id, package: 0, die: 0, core, siblings, l3: None });
    }
}

#[test]
fn cpus_are_looked_at_twice_and_what_is_not_told_is_none() {
    let tree = Tree::new();
    two_cores(&tree);
    let machine = tree.machine();
    let topology = machine.topology().unwrap();
    let cpus = "0-1".parse().unwrap();
    let reading = || machine.activity(&topology, &cpus, std::time::Duration::ZERO);
    assert!(reading().is_err(), "there is no /proc/stat");
    tree.file(
        "proc/stat",
        "cpu  4 0 0 4\ncpu0 1 0 0 1\ncpu1 1 0 0 1\ncpu2 1 0 0 1\ncpu3 1 0 0 1\n",
    );
    let activity = reading().unwrap();
    // No tick passed, and nothing tells interrupts.
    assert_eq!(activity.cpus.len(), 2);
    assert!(activity.cpus.iter().all(|one| one.busy.is_none() && one.interrupts_per_s.is_none()));
    assert_eq!(activity.concerns(), []);
}

#[test]
fn cpus_of_this_machine_have_shares_of_their_time() {
    let machine = Machine::host();
    let topology = machine.topology().unwrap();
    let moment = std::time::Duration::from_millis(100);
    let activity = machine.activity(&topology, &topology.online, moment).unwrap();
    assert_eq!(activity.cpus.len(), topology.online.len());
    assert!(activity.seconds >= 0.1);
    for one in &activity.cpus {
        assert!(one.busy.is_none_or(|busy| (0.0..=1.0).contains(&busy)), "{one:?}");
        // All threads are to be measured, so none is another one.
        assert_eq!(one.sibling, None);
    }
}
