//! What stands in the way of one use or several: from [`Facts`] to reasons, a function for each.

use crate::capabilities::access::{root_hint, sudo};
use crate::capabilities::{CapabilityReason, Fix, access};
use crate::probe::Probe;
use crate::{Facts, Rlimit};

/// Kernels below are refused.
const OLDEST: (u32, u32) = (5, 10);
/// `perf_event_attr.build_id`.
const BUILD_IDS: (u32, u32) = (5, 12);
/// `PERF_FORMAT_LOST`.
const EXACT_LOSS: (u32, u32) = (6, 0);
/// Rings below are short of slack at high rates; what the kernel's own default budget allows.
const ENOUGH_RING_BYTES: u64 = 512 << 10;
/// Descriptors beside those of events.
const OTHER_DESCRIPTORS: u64 = 128;
/// Samples per second and CPU that are a high rate for a recording.
const HIGH_RATE: u64 = 25_000;

pub(super) fn one(
    effect: impl Into<String>,
    why: impl Into<String>,
    fix: Option<Fix>,
) -> Vec<CapabilityReason> {
    vec![CapabilityReason { effect: effect.into(), why: why.into(), fix }]
}

pub(super) fn old_kernel(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.kernel.version >= OLDEST {
        return vec![];
    }
    let why = format!("Linux {} is older than 5.10", facts.kernel.release);
    one("refused", why, None)
}

pub(super) fn younger_kernel(facts: &Facts) -> Vec<CapabilityReason> {
    let version = facts.kernel.version;
    let mut reasons = vec![];
    if version < EXACT_LOSS {
        reasons.extend(one(
            "loss counted from LOST records",
            format!("Linux {} does not count lost samples per event (6.0 does)", text(version)),
            None,
        ));
    }
    if version < BUILD_IDS {
        reasons.extend(one(
            "build IDs read from files at the end",
            format!("Linux {} puts no build IDs into mmap records (5.12 does)", text(version)),
            None,
        ));
    }
    reasons
}

fn text((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// Why cycles cannot be counted; empty if they can.
pub(super) fn no_counters(facts: &Facts) -> Vec<CapabilityReason> {
    let effect = "no hardware events";
    if facts.units.core().next().is_none() {
        return match &facts.virtualization.hypervisor {
            Some(sign) => {
                let why = format!("this virtual machine ({}) has no PMU", sign.name);
                one(effect, why, Some(Fix::text(virtual_pmu(&sign.name))))
            }
            None => {
                let why = facts.units.why.clone();
                one(effect, why.unwrap_or_else(|| "the kernel found no PMU".to_owned()), None)
            }
        };
    }
    match facts.probes.cycles {
        Probe::Refused(errno) if errno != libc::EACCES && errno != libc::EPERM => {
            let said = facts.probes.cycles.refusal().unwrap_or_default();
            let why = format!("the kernel has a PMU, but counting cycles fails with {said}");
            one(effect, why, None)
        }
        _ => vec![],
    }
}

fn virtual_pmu(hypervisor: &str) -> &'static str {
    match hypervisor {
        "KVM" | "QEMU" => {
            "on the host: qemu -cpu host,pmu=on, or libvirt <pmu state='on'/>; \
             in a cloud: a .metal or full-size instance"
        }
        "VMware" => "in the VM's settings: Virtualize CPU performance counters (vpmc.enable)",
        "Hyper-V" => "on the host: Set-VMProcessor NAME -Perfmon @(\"pmu\")",
        "Xen" => "on the host: boot Xen with vpmu=on",
        _ => "a machine with a PMU, or a virtual PMU if the hypervisor offers one",
    }
}

pub(super) fn software_clock(facts: &Facts) -> Vec<CapabilityReason> {
    renamed(no_counters(facts), "software timer instead of cycles")
}

pub(super) fn watchdog(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.limits.watchdog_uses_counter != Some(true) {
        return vec![];
    }
    one(
        "one counter fewer on every CPU",
        "the NMI watchdog holds a counter on every CPU",
        Some(Fix::sysctl(facts, "kernel.nmi_watchdog", 0)),
    )
}

pub(super) fn other_users(facts: &Facts) -> Vec<CapabilityReason> {
    let rights = &facts.rights;
    let traces = rights.initial_user_namespace && rights.sys_ptrace;
    if traces || rights.can_watch_all() {
        return vec![];
    }
    one(
        "your own processes only",
        format!("processes of other users need CAP_PERFMON or CAP_SYS_PTRACE{}", root_hint(facts)),
        sudo(facts, "pmuscope … -p PID"),
    )
}

/// Events of all CPUs show more than the process list of a container.
pub(super) fn one_namespace(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.virtualization.initial_pid_namespace != Some(false) {
        return vec![];
    }
    one(
        "processes outside the container have neither names nor functions",
        "this PID namespace hides the processes of the machine",
        Some(Fix::text("run pmuscope on the host, or in a container with --pid=host")),
    )
}

pub(super) fn descriptors(facts: &Facts) -> Vec<CapabilityReason> {
    let Some(limit) = facts.limits.nofile else { return vec![] };
    let cpus = facts.topology.online.len() as u64;
    let may_raise = facts.rights.sys_resource && facts.rights.initial_user_namespace;
    // The event itself, and the one that carries mappings and names.
    let needed = cpus * 2 + OTHER_DESCRIPTORS;
    if limit.hard >= needed || limit.hard == Rlimit::UNLIMITED || may_raise {
        return vec![];
    }
    one(
        "too few descriptors",
        format!("2 events x {cpus} CPUs need {needed} descriptors; the limit is {}", limit.hard),
        Some(Fix::text(format!("sudo prlimit --pid $$ --nofile={needed}"))),
    )
}

pub(super) fn small_rings(facts: &Facts) -> Vec<CapabilityReason> {
    let largest = facts.ring_budget.largest_ring_bytes();
    let Some(largest) = largest.filter(|&bytes| bytes < ENOUGH_RING_BYTES) else { return vec![] };
    let page = facts.ring_budget.page_bytes;
    let enough = (ENOUGH_RING_BYTES + page) / 1024;
    one(
        format!("ring buffers of only {} KiB", largest / 1024),
        "perf_event_mlock_kb and RLIMIT_MEMLOCK allow no larger ring buffer per CPU",
        Some(Fix::sysctl(facts, "kernel.perf_event_mlock_kb", enough as i64)),
    )
}

pub(super) fn cgroups(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.event_cgroups.is_some() {
        return vec![];
    }
    one(
        "no cgroups",
        "no cgroup hierarchy with performance events is mounted",
        Some(Fix::text("sudo mount -t cgroup2 none /sys/fs/cgroup")),
    )
}

pub(super) fn no_own_cgroup(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.rights.euid == Some(0) {
        return vec![];
    }
    let fix = Fix::text("sudo pmuscope …");
    one("cannot create cgroups", "only root may create cgroups here", Some(fix))
}

pub(super) fn no_branches(facts: &Facts) -> Vec<CapabilityReason> {
    let effect = "no branch stacks";
    if facts.units.core().any(|unit| unit.branches.is_some()) {
        return vec![];
    }
    let reasons = renamed(no_counters(facts), effect);
    if reasons.is_empty() {
        return one(effect, "the kernel supports no branch stack on this PMU", None);
    }
    reasons
}

pub(super) fn no_breakpoints(facts: &Facts) -> Vec<CapabilityReason> {
    let effect = "no breakpoints";
    match facts.probes.breakpoint {
        Probe::Works => vec![],
        Probe::Refused(errno) if errno != libc::EACCES && errno != libc::EPERM => {
            let said = facts.probes.breakpoint.refusal().unwrap_or_default();
            one(effect, format!("opening a breakpoint fails with {said}"), None)
        }
        _ if facts.units.has("breakpoint") => vec![],
        _ => one(effect, "this kernel does not support hardware breakpoints on this CPU", None),
    }
}

pub(super) fn low_rate(facts: &Facts) -> Vec<CapabilityReason> {
    let rate = facts.limits.perf_event_max_sample_rate;
    let Some(rate) = rate.filter(|&rate| rate < HIGH_RATE) else { return vec![] };
    let mut why = format!("kernel.perf_event_max_sample_rate is {rate}");
    if let Some(percent @ 1..100) = facts.limits.perf_cpu_time_max_percent {
        why += &format!("; the kernel lowers it when sampling takes more than {percent}% of a CPU");
    }
    one(
        format!("at most {rate} samples/s per CPU"),
        why,
        Some(Fix::sysctl(facts, "kernel.perf_event_max_sample_rate", 100_000)),
    )
}

pub(super) fn no_io_uring(facts: &Facts) -> Vec<CapabilityReason> {
    let effect = "a writer thread instead of io_uring";
    let allowed = Some(Fix::sysctl(facts, "kernel.io_uring_disabled", 0));
    match (facts.probes.io_uring, facts.limits.io_uring_disabled) {
        (Probe::Works, _) | (Probe::NotTried, None | Some(0)) => vec![],
        (Probe::Refused(libc::ENOSYS), _) => one(effect, "this kernel has no io_uring", None),
        (_, Some(disabled)) if disabled > 0 => {
            one(effect, format!("kernel.io_uring_disabled is {disabled}"), allowed)
        }
        (probe, _) => {
            let said = probe.refusal().unwrap_or_default();
            let filter = match facts.virtualization.seccomp {
                Some(true) => "a seccomp filter, as in containers",
                _ => "a security module",
            };
            one(effect, format!("io_uring_setup fails with {said}: {filter}"), None)
        }
    }
}

pub(super) fn hidden_symbols(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.kernel_addresses {
        return vec![];
    }
    let effect = "no kernel symbols in new recordings";
    let limits = &facts.limits;
    let capable = facts.rights.syslog && facts.rights.initial_user_namespace;
    match limits.kptr_restrict {
        Some(restrict @ 2..) => one(
            effect,
            format!(
                "kernel.kptr_restrict is {restrict}: /proc/kallsyms has no addresses for anyone"
            ),
            Some(Fix::sysctl(facts, "kernel.kptr_restrict", 1)),
        ),
        // Level 1 shows addresses to all, for the sake of profilers.
        Some(0) if !capable && limits.perf_event_paranoid > Some(1) => one(
            effect,
            format!(
                "kernel addresses need perf_event_paranoid 1 or CAP_SYSLOG{}",
                root_hint(facts)
            ),
            Some(Fix::sysctl(facts, "kernel.perf_event_paranoid", 1)),
        ),
        Some(restrict) if !capable => one(
            effect,
            format!(
                "kernel.kptr_restrict is {restrict} and pmuscope has no CAP_SYSLOG{}",
                root_hint(facts)
            ),
            sudo(facts, "pmuscope record ..."),
        ),
        _ => one(effect, "/proc/kallsyms has no addresses", None),
    }
}

pub(super) fn no_perf(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.perf.is_some() {
        return vec![];
    }
    let is = |id: &str| facts.distribution_ids.iter().any(|known| known == id);
    let install = if is("ubuntu") {
        "sudo apt install linux-tools-generic"
    } else if is("debian") {
        "sudo apt install linux-perf"
    } else if is("fedora") || is("rhel") {
        "sudo dnf install perf"
    } else if is("suse") || is("opensuse") {
        "sudo zypper install perf"
    } else if is("arch") {
        "sudo pacman -S perf"
    } else {
        "install perf (part of the kernel tools)"
    };
    one("no rows for perf", "perf is not installed", Some(Fix::text(install)))
}

/// QEMU for guests of this machine's own kind; others are named by the lab.
pub(super) fn no_emulator(facts: &Facts) -> Vec<CapabilityReason> {
    let arch = &facts.kernel.arch;
    let is = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(arch.as_str());
    if facts.emulators.iter().any(is) {
        return vec![];
    }
    let package = if arch == "aarch64" { "qemu-system-arm" } else { "qemu-system-x86" };
    let install = format!("sudo apt install --no-install-recommends {package}");
    one("no guests", format!("qemu-system-{arch} is not installed"), Some(Fix::text(install)))
}

pub(super) fn emulated(facts: &Facts) -> Vec<CapabilityReason> {
    let effect = "emulated: slow, and times are meaningless";
    match (facts.probes.kvm.refusal(), facts.probes.kvm_boots) {
        (Some(said), _) => one(effect, format!("opening /dev/kvm fails with {said}"), None),
        (None, Some(false)) => one(effect, "a guest with KVM did not boot here", None),
        (None, _) => vec![],
    }
}

pub(super) fn governor(facts: &Facts) -> Vec<CapabilityReason> {
    let slow = facts.frequency.governors.iter().find(|governor| governor.name != "performance");
    let Some(governor) = slow else { return vec![] };
    one(
        "times vary with the CPU frequency",
        format!("the frequency governor of CPU {} is {}", governor.cpus, governor.name),
        Some(Fix::text("sudo cpupower frequency-set -g performance")),
    )
}

/// Of counts: nothing stands in for the CPU's events.
pub(super) fn software_events(facts: &Facts) -> Vec<CapabilityReason> {
    renamed(no_counters(facts), "software events only")
}

/// Who woke a thread is told by a tracepoint.
pub(super) fn no_wakers(facts: &Facts) -> Vec<CapabilityReason> {
    renamed(access::tracepoints(facts), "no wakers")
}

/// Without BPF a hit is a plain sample.
pub(super) fn no_bpf(facts: &Facts) -> Vec<CapabilityReason> {
    let rights = &facts.rights;
    let may_load = rights.initial_user_namespace && (rights.bpf || rights.sys_admin);
    if may_load && rights.can_watch_all() {
        return vec![];
    }
    one(
        "no values, call stacks, conditions",
        format!("BPF programs need CAP_BPF and CAP_PERFMON{}", root_hint(facts)),
        sudo(facts, "pmuscope watch …"),
    )
}

/// Looking at pages of other users' processes, and moving them.
pub(super) fn other_users_pages(facts: &Facts) -> Vec<CapabilityReason> {
    let rights = &facts.rights;
    if rights.initial_user_namespace && rights.sys_ptrace && rights.sys_nice {
        return vec![];
    }
    one(
        "your own processes only",
        format!(
            "pages of other users' processes need CAP_SYS_PTRACE to be read and CAP_SYS_NICE to be \
             moved{}",
            root_hint(facts)
        ),
        sudo(facts, "pmuscope numa … -p PID"),
    )
}

pub(super) fn one_node(facts: &Facts) -> Vec<CapabilityReason> {
    if facts.topology.nodes.len() > 1 {
        return vec![];
    }
    let fix = Fix::text(
        "to try it, in 20 s: pmuscope lab run --nodes 2 --cpus 4 -- numa show -I 1000 -- pmuscope workload memory \
         --threads 2 --thread 16M --cpus 0-1 --policy bind:1 --seconds 5",
    );
    one("nothing to place", "this machine has one NUMA node", Some(fix))
}

/// The same causes with another effect.
fn renamed(mut reasons: Vec<CapabilityReason>, effect: &str) -> Vec<CapabilityReason> {
    for reason in &mut reasons {
        effect.clone_into(&mut reason.effect);
    }
    reasons
}
