//! PMUs and tracepoints.

use pmuscope_machine::{Machine, MachineError, Pmu};

use crate::fixture::Tree;

const DEVICES: &str = "sys/bus/event_source/devices";

fn named<'a>(pmus: &'a [Pmu], name: &str) -> &'a Pmu {
    pmus.iter().find(|pmu| pmu.name == name).unwrap()
}

#[test]
fn hybrid_cores_and_uncore() {
    let tree = Tree::new();
    for (name, number, cpus) in [("cpu_core", 4, "0-15"), ("cpu_atom", 10, "16-23")] {
        tree.file(&format!("{DEVICES}/{name}/type"), format!("{number}\n"));
        tree.file(&format!("{DEVICES}/{name}/cpus"), format!("{cpus}\n"));
        tree.file(&format!("{DEVICES}/{name}/format/event"), "config:0-7\n");
        tree.file(&format!("{DEVICES}/{name}/events/cpu-cycles"), "event=0x3c\n");
        tree.file(&format!("{DEVICES}/{name}/caps/branches"), "32\n");
    }
    tree.file(&format!("{DEVICES}/power/type"), "12\n")
        .file(&format!("{DEVICES}/power/cpumask"), "0,16\n")
        .file(&format!("{DEVICES}/power/events/energy-pkg"), "event=0x02\n")
        .file(&format!("{DEVICES}/power/events/energy-pkg.scale"), "2.3283064365386962890625e-10\n")
        .file(&format!("{DEVICES}/power/events/energy-pkg.unit"), "Joules\n")
        .file(&format!("{DEVICES}/power/events/energy-pkg.per-pkg"), "1\n")
        .file(&format!("{DEVICES}/half_gone/format/event"), "config:0-7\n");
    let pmus = tree.machine().pmus().unwrap();
    let names: Vec<&str> = pmus.iter().map(|pmu| pmu.name.as_str()).collect();
    assert_eq!(names, ["cpu_atom", "cpu_core", "power"]);

    let atom = named(&pmus, "cpu_atom");
    assert_eq!(atom.type_number, 10);
    assert_eq!(atom.cpus.as_ref().unwrap().to_string(), "16-23");
    assert_eq!(atom.cpumask, None);
    assert!(atom.is_core());
    assert_eq!(atom.format["event"], "config:0-7");
    assert_eq!(atom.events["cpu-cycles"].terms, "event=0x3c");
    assert_eq!(atom.caps["branches"], "32");

    let power = named(&pmus, "power");
    assert!(!power.is_core());
    assert_eq!(power.cpumask.as_ref().unwrap().to_string(), "0,16");
    assert_eq!(power.events.len(), 1);
    let energy = &power.events["energy-pkg"];
    assert_eq!(energy.unit.as_deref(), Some("Joules"));
    assert_eq!(energy.scale, Some(2f64.powi(-32)));
    assert!(energy.per_package && !energy.snapshot);
}

#[test]
fn no_event_source_is_an_error() {
    let error = Tree::new().machine().pmus().unwrap_err().to_string();
    assert!(error.contains(DEVICES), "{error}");
}

fn with_tracepoints(place: &str) -> Machine {
    let tree = Tree::new();
    for (name, id) in [("sched/sched_switch", 316), ("sched/sched_wakeup", 318), ("irq/x", 5)] {
        tree.file(&format!("{place}/events/{name}/id"), format!("{id}\n"));
    }
    tree.file(&format!("{place}/events/enable"), "0\n");
    tree.file(&format!("{place}/events/sched/enable"), "0\n");
    let machine = tree.machine();
    let id = machine.tracepoint_id("sched", "sched_switch").unwrap();
    assert_eq!(id, 316);
    let all = machine.tracepoints().unwrap();
    let all: Vec<String> = all.iter().map(|(system, name)| format!("{system}:{name}")).collect();
    assert_eq!(all, ["irq:x", "sched:sched_switch", "sched:sched_wakeup"]);
    for (system, name) in [("sched", "nope"), ("nope", "x"), ("..", "x"), ("irq", "../irq/x")] {
        let error = machine.tracepoint_id(system, name).unwrap_err();
        assert!(matches!(error, MachineError::NoTracepoint { .. }), "{error}");
    }
    machine
}

#[test]
fn tracepoints_are_found_in_both_places() {
    with_tracepoints("sys/kernel/tracing");
    with_tracepoints("sys/kernel/debug/tracing");
}

#[test]
fn an_unmounted_tracefs_says_how_to_mount_it() {
    let tree = Tree::new();
    std::fs::create_dir_all(tree.machine().root().join("sys/kernel/tracing")).unwrap();
    let error = tree.machine().tracepoint_id("sched", "sched_switch").unwrap_err();
    assert!(matches!(error, MachineError::NoTracefs));
    assert!(error.to_string().contains("sudo mount -t tracefs"), "{error}");
    assert!(matches!(tree.machine().tracepoints(), Err(MachineError::NoTracefs)));
}

#[test]
fn a_tracefs_of_root_only_says_so() {
    use std::os::unix::fs::PermissionsExt;

    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may read every folder");
        return;
    }
    let tree = Tree::new();
    tree.file("sys/kernel/tracing/events/sched/sched_switch/id", "1\n");
    let folder = tree.machine().root().join("sys/kernel/tracing");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o0)).unwrap();
    let error = tree.machine().tracepoint_id("sched", "sched_switch").unwrap_err();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    assert!(matches!(error, MachineError::TracefsDenied { .. }), "{error}");
    assert!(error.is_denied());
}

/// An Arm core's unit with a driver that names these events; the newer ones have a term `rdpmc`.
fn pmuv3(tree: &Tree, name: &str, is_new: bool, events: &[(&str, &str)]) -> Pmu {
    let folder = format!("{DEVICES}/{name}");
    tree.file(&format!("{folder}/type"), "8\n").file(&format!("{folder}/cpus"), "0-3\n");
    tree.file(&format!("{folder}/format/event"), "config:0-15\n");
    if is_new {
        tree.file(&format!("{folder}/format/rdpmc"), "config1:1\n");
    }
    for (event, terms) in events {
        tree.file(&format!("{folder}/events/{event}"), format!("{terms}\n"));
    }
    named(&tree.machine().pmus().unwrap(), name).clone()
}

#[test]
fn common_events_that_an_arm_pmu_does_not_name_are_not_implemented() {
    let tree = Tree::new();
    let events = [("cpu_cycles", "event=0x0011"), ("inst_retired", "event=0x0008")];
    let pmu = pmuv3(&tree, "armv8_pmuv3", true, &events);
    assert_eq!((pmu.not_implemented(0x11), pmu.not_implemented(0x8)), (None, None));
    for code in [0, 0x3, 0x4, 0x1d, 0x37, 0x3f, 0x4005, 0x4024] {
        assert_eq!(pmu.not_implemented(code), Some(code), "{code:#x}");
    }
    // Fields above the code are no part of it.
    assert_eq!(pmu.not_implemented(0x1_0000_0003), Some(3));
    // The driver has no name for these anywhere: it says nothing of them.
    for code in [0x1e, 0x40, 0xc2, 0x3fff, 0x4000, 0x4040, 0x8000] {
        assert_eq!(pmu.not_implemented(code), None, "{code:#x}");
    }
    // Older drivers have fewer names.
    let old = pmuv3(&tree, "armv8_cortex_a57", false, &events);
    assert_eq!((old.not_implemented(0x3), old.not_implemented(0x37)), (Some(3), None));
    // No names at all: the folder cannot be read.
    assert_eq!(pmuv3(&tree, "armv8_pmuv3_1", true, &[]).not_implemented(0x3), None);
    // Another architecture's codes mean other things.
    assert_eq!(pmuv3(&tree, "apple_icestorm_pmu", true, &events).not_implemented(0x3), None);
}

#[test]
fn arm_cores_name_themselves_by_register_or_in_cpuinfo() {
    let tree = Tree::new();
    let entry = |cpu: u32, part: &str| {
        format!(
            "processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n\
             CPU part\t: {part}\nCPU revision\t: 1\n"
        )
    };
    let all = [entry(0, "0xd05"), entry(1, "0xd05"), entry(2, "0xd41")].join("\n");
    tree.file("proc/cpuinfo", all);
    let cores = |tree: &Tree| -> Vec<(u64, u64, u64, String)> {
        let of = |core: pmuscope_machine::ArmCore| {
            (core.midr.part, core.midr.variant, core.midr.revision, core.cpus.to_string())
        };
        tree.machine().arm_cores().into_iter().map(of).collect()
    };
    let expected = vec![(0xd05, 3, 1, "0-1".to_owned()), (0xd41, 3, 1, "2".to_owned())];
    assert_eq!(cores(&tree), expected);
    for (cpu, midr) in [(0, "0x00000000410fd0c0"), (1, "0x00000000413fd0c1")] {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1");
        tree.file(&path, format!("{midr}\n"));
    }
    assert_eq!(cores(&tree), [(0xd0c, 0, 0, "0".to_owned()), (0xd0c, 3, 1, "1".to_owned())]);
    assert!(Tree::new().machine().arm_cores().is_empty());
}
