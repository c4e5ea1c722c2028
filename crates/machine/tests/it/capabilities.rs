//! What works on which machine: tables of facts, and the verdicts that must follow.

use std::sync::OnceLock;

use pmuscope_machine::capabilities::{self, Capability, CapabilityOutcome};
use pmuscope_machine::probe::{Probe, Probes};
use pmuscope_machine::{Facts, Governor, RingBudget, Rlimit, Sign, Virtualization};

use crate::fixture::{CpuFacts, Tree};

/// A server with a PMU and Debian's newest settings, seen by root.
fn server() -> Facts {
    static SERVER: OnceLock<Facts> = OnceLock::new();
    SERVER.get_or_init(read_server).clone()
}

fn read_server() -> Facts {
    let tree = Tree::new();
    tree.online("0-3", "0-3");
    for id in 0..4 {
        let l3 = Some("0-3");
        let siblings = &id.to_string();
        tree.cpu(&CpuFacts { id, package: 0, die: 0, core: id, siblings, l3 });
    }
    tree.file("sys/devices/system/node/online", "0-1\n")
        .file("sys/devices/system/node/possible", "0-1\n");
    tree.node(0, "0-1", "10 21", 1024).node(1, "2-3", "21 10", 1024);
    for (path, text) in [
        ("proc/sys/kernel/osrelease", "6.12.1"),
        ("proc/sys/kernel/perf_event_paranoid", "2"),
        ("proc/sys/kernel/perf_event_mlock_kb", "516"),
        ("proc/sys/kernel/perf_event_max_sample_rate", "100000"),
        ("proc/sys/kernel/perf_cpu_time_max_percent", "25"),
        ("proc/sys/kernel/kptr_restrict", "0"),
        ("proc/sys/kernel/nmi_watchdog", "0"),
        ("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"),
        ("proc/self/uid_map", "0 0 4294967295"),
        ("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"),
        ("proc/kallsyms", "ffffffff81000000 T _stext\nffffffff82000000 T _etext\n"),
        ("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n"),
        ("usr/bin/perf", "#!"),
        ("usr/bin/qemu-system-x86_64", ""),
        ("sys/bus/event_source/devices/cpu/type", "4"),
        ("sys/bus/event_source/devices/cpu/caps/branches", "32"),
        ("sys/bus/event_source/devices/breakpoint/type", "5"),
        ("sys/bus/event_source/devices/software/type", "1"),
        ("sys/kernel/tracing/events/enable", "0"),
    ] {
        tree.file(path, format!("{text}\n"));
    }
    tree.file(
        "proc/self/limits",
        "Max open files            1024                 524288               files     \n\
         Max locked memory         8388608              8388608              bytes     \n",
    );
    let machine = tree.machine();
    std::fs::create_dir_all(machine.root().join("proc/self/ns")).unwrap();
    let namespace = machine.root().join("proc/self/ns/pid");
    std::os::unix::fs::symlink("pid:[4026531836]", namespace).unwrap();
    machine.facts(Probes::default(), None).unwrap()
}

/// The same machine, seen by a user.
fn as_user(mut facts: Facts) -> Facts {
    facts.rights = pmuscope_machine::Rights {
        euid: Some(1000),
        initial_user_namespace: true,
        ..Default::default()
    };
    facts.ring_budget.unlimited = false;
    facts.kernel_addresses = false;
    facts.tracepoints.readable = false;
    facts.tracepoints.why = Some("tracefs may not be read".to_owned());
    facts
}

fn outcomes(facts: &Facts, wanted: CapabilityOutcome) -> Vec<&'static str> {
    let capabilities = capabilities::capabilities(facts);
    capabilities.iter().filter(|v| v.outcome == wanted).map(|v| v.command).collect()
}

fn verdict(facts: &Facts, command: &str) -> Capability {
    capabilities::capabilities(facts).into_iter().find(|v| v.command == command).unwrap()
}

fn fixes(verdict: &Capability) -> Vec<String> {
    verdict.reasons.iter().filter_map(|r| r.fix.as_ref().map(ToString::to_string)).collect()
}

fn effects(verdict: &Capability) -> Vec<&str> {
    verdict.reasons.iter().map(|reason| reason.effect.as_str()).collect()
}

/// The last three look at no events.
const NEVER_REFUSED: [&str; 10] = [
    "report",
    "script",
    "bundle",
    "diff",
    "compare",
    "workload",
    "lab run",
    "numa show",
    "numa advise -p PID",
    "numa balance -p PID",
];

#[test]
fn everything_works_for_root_on_a_server() {
    let facts = server();
    assert_eq!(outcomes(&facts, CapabilityOutcome::Reduced), [""; 0]);
    assert_eq!(outcomes(&facts, CapabilityOutcome::Not), [""; 0]);
    assert_eq!(capabilities::causes(&capabilities::capabilities(&facts)), []);
}

#[test]
fn a_user_at_level_2_sees_user_space_of_own_processes() {
    let facts = as_user(server());
    assert_eq!(
        outcomes(&facts, CapabilityOutcome::Not),
        [
            "record -a",
            "record -G CGROUP",
            "record --own-cgroup -- CMD",
            "record --strobe",
            "record -e cpu-clock:k",
            "record -e SYSTEM:NAME",
            "top",
            "stat -a",
            "bench capture"
        ]
    );
    assert_eq!(
        outcomes(&facts, CapabilityOutcome::Reduced),
        [
            "record -- CMD",
            "record -p PID",
            "record -g",
            "record --off-cpu -- CMD",
            "top -p PID",
            "stat -- CMD",
            "sweep -e REGEX -- CMD",
            "watch EXPR -- CMD",
            "numa advise -p PID",
            "numa balance -p PID",
            "report",
            "script",
            "bundle",
            "diff"
        ]
    );
    let waits = verdict(&facts, "record --off-cpu -- CMD");
    assert_eq!(effects(&waits), ["no stacks of waits", "no wakers", "no wakers"]);
    let own = verdict(&facts, "record -- CMD");
    assert_eq!(effects(&own), ["user space only"]);
    assert_eq!(fixes(&own), ["sudo sysctl kernel.perf_event_paranoid=1"]);
    assert_eq!(fixes(&verdict(&facts, "record -a")), ["sudo sysctl kernel.perf_event_paranoid=0"]);
    assert!(own.reasons[0].why.contains("is 2 and pmuscope has no CAP_PERFMON"));
}

#[test]
fn a_tracefs_of_root_only_is_a_cause_of_its_own() {
    let facts = as_user(server());
    let tracepoints = verdict(&facts, "record -e SYSTEM:NAME");
    assert_eq!(effects(&tracepoints), ["no tracepoint names", "no tracepoints"]);
    assert_eq!(tracepoints.reasons[0].why, "tracefs may not be read");
    assert_eq!(
        fixes(&tracepoints),
        ["sudo pmuscope record -e SYSTEM:NAME", "sudo sysctl kernel.perf_event_paranoid=-1"]
    );
}

#[test]
fn one_cause_asks_for_what_is_enough_for_all_its_commands() {
    let facts = as_user(server());
    let causes = capabilities::causes(&capabilities::capabilities(&facts));
    let level = causes.iter().find(|cause| cause.why.contains("paranoid")).unwrap();
    assert_eq!(level.type_this.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=-1"));
    assert_eq!(level.commands.iter().filter(|command| **command == "record -a").count(), 1);
    assert_eq!(causes.iter().filter(|cause| cause.why == level.why).count(), 1);
}

#[test]
fn levels_take_away_one_thing_after_the_other() {
    let mut facts = as_user(server());
    facts.tracepoints.readable = true;
    let refused = |level| {
        let mut facts = facts.clone();
        facts.limits.perf_event_paranoid = Some(level);
        outcomes(&facts, CapabilityOutcome::Not).len()
    };
    let counts: Vec<usize> = (-1..=4).map(refused).collect();
    // A cgroup of one's own is root's at every level. -1 nothing else; 0 tracepoints; 1 all that is system-wide; 2 the kernel; 3 (Debian), 4 (Ubuntu) all.
    let all = capabilities::capabilities(&facts).len() - NEVER_REFUSED.len();
    assert_eq!(counts, [1, 2, 8, 9, all, all]);
}

#[test]
fn debians_patch_refuses_all_and_a_probe_knows_better() {
    let mut facts = as_user(server());
    facts.limits.perf_event_paranoid = Some(3);
    let own = verdict(&facts, "record -- CMD");
    assert_eq!(own.outcome, CapabilityOutcome::Not);
    assert_eq!(fixes(&own), ["sudo sysctl kernel.perf_event_paranoid=2"]);
    // A kernel without the patch takes 3 for 2.
    facts.probes.own_user = Probe::Works;
    assert_eq!(verdict(&facts, "record -- CMD").outcome, CapabilityOutcome::Reduced);
}

#[test]
fn a_guest_without_pmu_has_the_software_clock() {
    let mut facts = server();
    facts.units.units.retain(|unit| unit.name != "cpu");
    facts.virtualization.hypervisor =
        Some(Sign { name: "KVM".to_owned(), evidence: "clock".to_owned() });
    assert_eq!(
        outcomes(&facts, CapabilityOutcome::Not),
        ["record -e cycles", "record --strobe", "record -b", "sweep --topdown -- CMD"]
    );
    assert_eq!(
        outcomes(&facts, CapabilityOutcome::Reduced),
        [
            "record -- CMD",
            "record -p PID",
            "record -a",
            "record -G CGROUP",
            "record --own-cgroup -- CMD",
            "top",
            "top -p PID",
            "stat -- CMD",
            "stat -a",
            "sweep -e REGEX -- CMD",
            "bench capture"
        ]
    );
    let own = verdict(&facts, "record -- CMD");
    assert_eq!(effects(&own), ["software timer instead of cycles"]);
    assert_eq!(effects(&verdict(&facts, "stat -a")), ["software events only"]);
    assert!(fixes(&own)[0].contains("qemu -cpu host,pmu=on"));
    // One cause for all.
    assert_eq!(capabilities::causes(&capabilities::capabilities(&facts)).len(), 1);
}

#[test]
fn on_one_node_there_is_nothing_to_place() {
    let mut facts = server();
    facts.topology.nodes.truncate(1);
    let balance = verdict(&facts, "numa balance -p PID");
    assert_eq!(
        (balance.outcome, effects(&balance)),
        (CapabilityOutcome::Not, vec!["nothing to place"])
    );
    assert!(fixes(&balance)[0].contains("lab run --nodes 2"));
    assert_eq!(verdict(&facts, "numa show").outcome, CapabilityOutcome::Works);
}

#[test]
fn watching_without_bpf_has_hits_and_no_values() {
    let mut facts = server();
    for (bpf, sys_admin, outcome) in [
        (true, false, CapabilityOutcome::Works),
        (false, true, CapabilityOutcome::Works),
        (false, false, CapabilityOutcome::Reduced),
    ] {
        facts.rights.bpf = bpf;
        facts.rights.sys_admin = sys_admin;
        assert_eq!(verdict(&facts, "watch EXPR -- CMD").outcome, outcome, "{bpf}, {sys_admin}");
    }
}

#[test]
fn capabilities_of_a_containers_user_namespace_do_not_count() {
    let mut facts = server();
    facts.rights.initial_user_namespace = false;
    facts.virtualization = Virtualization {
        container: Some(Sign { name: "podman".into(), evidence: "/run/.containerenv".into() }),
        initial_pid_namespace: Some(false),
        ..facts.virtualization
    };
    let all = verdict(&facts, "record -a");
    assert_eq!(all.outcome, CapabilityOutcome::Not);
    assert!(all.reasons[0].why.contains("of this user namespace has no effect"));
    assert_eq!(fixes(&all), ["on the host: sudo sysctl kernel.perf_event_paranoid=0"]);
}

#[test]
fn a_seccomp_filter_is_named_when_the_settings_are_not_it() {
    let mut facts = server();
    facts.virtualization.container =
        Some(Sign { name: "docker".into(), evidence: "/.dockerenv".into() });
    facts.virtualization.initial_pid_namespace = Some(false);
    facts.virtualization.seccomp = Some(true);
    let refused = Probe::Refused(libc::EPERM);
    facts.probes = Probes {
        own_user: refused,
        own_kernel: refused,
        all_processes: refused,
        cycles: refused,
        breakpoint: refused,
        io_uring: refused,
        ..Probes::default()
    };
    let own = verdict(&facts, "record -- CMD");
    assert_eq!(own.outcome, CapabilityOutcome::Not);
    assert!(own.reasons[0].why.contains("EPERM (Operation not permitted)"), "{own:?}");
    assert!(own.reasons[0].why.contains("seccomp"));
    assert!(fixes(&own)[0].starts_with("docker run --cap-add PERFMON"));
}

#[test]
fn a_container_that_may_watch_all_misses_names() {
    let mut facts = server();
    facts.virtualization.initial_pid_namespace = Some(false);
    let all = verdict(&facts, "record -a");
    assert_eq!(all.outcome, CapabilityOutcome::Reduced);
    assert!(fixes(&all)[0].contains("--pid=host"));
}

#[test]
fn kernels_are_refused_reduced_or_whole() {
    for (version, outcome, effects_wanted) in [
        ((4, 18), CapabilityOutcome::Not, vec!["refused"]),
        ((5, 4), CapabilityOutcome::Not, vec!["refused"]),
        (
            (5, 10),
            CapabilityOutcome::Reduced,
            vec!["loss counted from LOST records", "build IDs read from files at the end"],
        ),
        ((5, 15), CapabilityOutcome::Reduced, vec!["loss counted from LOST records"]),
        ((6, 0), CapabilityOutcome::Works, vec![]),
        ((7, 1), CapabilityOutcome::Works, vec![]),
    ] {
        let mut facts = server();
        facts.kernel.version = version;
        let own = verdict(&facts, "record -- CMD");
        assert_eq!((own.outcome, effects(&own)), (outcome, effects_wanted), "{version:?}");
        // Files of other machines can be read anywhere.
        for command in NEVER_REFUSED {
            assert_eq!(verdict(&facts, command).outcome, CapabilityOutcome::Works);
        }
    }
}

#[test]
fn the_capability_is_called_by_the_name_the_kernel_knows() {
    let mut facts = as_user(server());
    facts.kernel.version = (5, 7);
    let causes = capabilities::causes(&capabilities::capabilities(&facts));
    assert!(causes.iter().any(|cause| cause.why.contains("no CAP_SYS_ADMIN")), "{causes:?}");
}

#[test]
fn a_kernel_without_performance_events_says_so() {
    let mut facts = server();
    facts.limits.perf_event_paranoid = None;
    let own = verdict(&facts, "record -- CMD");
    assert_eq!(own.outcome, CapabilityOutcome::Not);
    assert!(own.reasons[0].why.contains("CONFIG_PERF_EVENTS"));
}

#[test]
fn small_limits_reduce_with_their_arithmetic() {
    let mut facts = as_user(server());
    facts.limits.perf_event_paranoid = Some(-1);
    facts.ring_budget =
        RingBudget { per_cpu_kib: Some(64), memlock_bytes: Some(0), ..facts.ring_budget };
    facts.limits.perf_event_max_sample_rate = Some(7_000);
    facts.limits.watchdog_uses_counter = Some(true);
    let all = verdict(&facts, "record -a");
    assert_eq!(effects(&all), ["ring buffers of only 32 KiB"]);
    assert_eq!(fixes(&all), ["sudo sysctl kernel.perf_event_mlock_kb=516"]);
    let rate = verdict(&facts, "record -F 25000");
    assert_eq!(effects(&rate), ["at most 7000 samples/s per CPU"]);
    assert!(rate.reasons[0].why.contains("more than 25% of a CPU"));
    assert_eq!(fixes(&verdict(&facts, "record -e cycles")), ["sudo sysctl kernel.nmi_watchdog=0"]);

    facts.limits.nofile = Some(Rlimit { soft: 100, hard: 130 });
    let all = verdict(&facts, "record -a");
    assert_eq!(all.outcome, CapabilityOutcome::Not);
    assert!(all.reasons[0].why.contains("2 events x 4 CPUs need 136 descriptors"), "{all:?}");
}

#[test]
fn io_uring_may_be_off_for_three_reasons() {
    let aio = |change: &dyn Fn(&mut Facts)| {
        let mut facts = server();
        change(&mut facts);
        verdict(&facts, "record --aio")
    };
    assert_eq!(aio(&|_| {}).outcome, CapabilityOutcome::Works);
    let setting = aio(&|facts| {
        facts.limits.io_uring_disabled = Some(2);
        facts.probes.io_uring = Probe::Refused(libc::EPERM);
    });
    assert_eq!(fixes(&setting), ["sudo sysctl kernel.io_uring_disabled=0"]);
    let filter = aio(&|facts| {
        facts.virtualization.seccomp = Some(true);
        facts.probes.io_uring = Probe::Refused(libc::EPERM);
    });
    assert!(filter.reasons[0].why.contains("a seccomp filter"));
    let absent = aio(&|facts| facts.probes.io_uring = Probe::Refused(libc::ENOSYS));
    assert_eq!(absent.reasons[0].why, "this kernel has no io_uring");
    // A group may be let through: what was tried counts.
    let member = aio(&|facts| {
        facts.limits.io_uring_disabled = Some(1);
        facts.probes.io_uring = Probe::Works;
    });
    assert_eq!(member.outcome, CapabilityOutcome::Works);
}

#[test]
fn hidden_kernel_symbols_have_their_own_cause() {
    let mut facts = server();
    facts.kernel_addresses = false;
    facts.limits.kptr_restrict = Some(2);
    let report = verdict(&facts, "report");
    assert_eq!(fixes(&report), ["sudo sysctl kernel.kptr_restrict=1"]);
    let mut facts = as_user(server());
    let report = verdict(&facts, "report");
    assert_eq!(fixes(&report), ["sudo sysctl kernel.perf_event_paranoid=1"]);
    facts.limits.kptr_restrict = Some(1);
    let report = verdict(&facts, "report");
    assert!(report.reasons[0].why.contains("kptr_restrict is 1 and pmuscope has no CAP_SYSLOG"));
}

#[test]
fn a_benchmark_wants_a_steady_clock_and_perf() {
    let mut facts = server();
    let cpus = facts.topology.online.clone();
    facts.frequency.governors = vec![Governor { name: "powersave".to_owned(), cpus }];
    facts.perf = None;
    let bench = verdict(&facts, "bench capture");
    assert_eq!(bench.outcome, CapabilityOutcome::Reduced);
    assert_eq!(
        fixes(&bench),
        ["sudo apt install linux-perf", "sudo cpupower frequency-set -g performance"]
    );
}

#[test]
fn a_reason_serializes_with_what_to_type() {
    let facts = as_user(server());
    let value = serde_json::to_value(verdict(&facts, "record -a")).unwrap();
    assert_eq!(value["outcome"], "not");
    assert_eq!(value["reasons"][0]["type_this"], "sudo sysctl kernel.perf_event_paranoid=0");
}
