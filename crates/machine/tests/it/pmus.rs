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
