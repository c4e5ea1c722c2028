//! What the kernel allows, as arithmetic where there is some.

use pmuscope_machine::probe::Probe;
use pmuscope_machine::{Facts, RingBudget, Rlimit};

use super::section::{FactList, join};
use crate::{Style, escape, number};

/// User and the capabilities that matter.
pub(super) fn who(facts: &Facts) -> String {
    let rights = &facts.rights;
    let user = match rights.euid {
        Some(0) => "root".to_owned(),
        Some(user) => format!("user {user}"),
        None => "unknown user".to_owned(),
    };
    let powers = match (rights.initial_user_namespace, rights.can_watch_all(), rights.euid) {
        (false, ..) => " of a user namespace",
        (true, false, Some(0)) => " without CAP_PERFMON",
        (true, false, _) | (true, true, Some(0)) => "",
        (true, true, _) => " with CAP_PERFMON",
    };
    format!("{user}{powers}")
}

pub(super) fn limits(facts: &Facts, style: &Style) -> String {
    let limits = &facts.limits;
    let mut section = FactList::new("Limits", style);
    section.line("paranoid level", &paranoid(facts));
    section.line("buffer memory", &rings(&facts.ring_budget));
    section.line("sample rate", &rate(facts));
    section.line("open files", &files(facts));
    section.line(
        "call stacks",
        &limits
            .perf_event_max_stack
            .map_or_else(unknown, |frames| format!("up to {frames} frames")),
    );
    section.line("kernel symbols", &kernel_symbols(facts));
    section.line(
        "NMI watchdog",
        match (limits.nmi_watchdog, limits.watchdog_uses_counter) {
            (Some(true), Some(false)) => "on: CPUs check one another, no counter is used",
            (Some(true), _) => "on: uses one counter on every CPU",
            (Some(false), _) => "off",
            (None, _) => "-",
        },
    );
    section.line("tracepoints", &tracepoints(facts));
    section.line("BPF", &bpf(facts));
    section.line("io_uring", &io_uring(facts));
    let cgroups = facts.event_cgroups.as_ref().map(|path| {
        let path = path.to_string_lossy();
        format!("at {}", escape(&path))
    });
    section.line("cgroups", &cgroups.unwrap_or_else(|| "not mounted".to_owned()));
    section.finish()
}

fn unknown() -> String {
    "-".to_owned()
}

fn paranoid(facts: &Facts) -> String {
    let Some(level) = facts.limits.perf_event_paranoid else { return unknown() };
    let meaning = match level {
        ..=-1 => "everything allowed for all users",
        0 => "no raw tracepoint fields without CAP_PERFMON",
        1 => "own processes, user and kernel",
        2 => "own processes, user space only",
        3.. => "nothing (distribution patch)",
    };
    let lifted = if facts.rights.can_watch_all() { ", lifted by your privileges" } else { "" };
    format!("{level}: {meaning}{lifted}")
}

/// The kernel's own sum: a share for each CPU of the user, then the limit of the process.
fn rings(budget: &RingBudget) -> String {
    let Some(per_cpu) = budget.per_cpu_kib else { return unknown() };
    let shared = number::bytes(per_cpu.saturating_mul(1024).saturating_mul(budget.cpus));
    let locked = match budget.memlock_bytes {
        None => "unknown".to_owned(),
        Some(Rlimit::UNLIMITED) => "unlimited".to_owned(),
        Some(bytes) => number::bytes(bytes),
    };
    let per_cpu = number::count(per_cpu);
    let cpus = budget.cpus;
    let sum = format!("{per_cpu} KiB × {cpus} CPUs = {shared}, + RLIMIT_MEMLOCK {locked}");
    let end = match (budget.unlimited, budget.total_bytes(), budget.largest_ring_bytes()) {
        (true, ..) => "; not enforced for you (CAP_IPC_LOCK)".to_owned(),
        (false, Some(total), Some(ring)) => {
            let (total, ring) = (number::bytes(total), number::bytes(ring));
            format!(" = {total}: ring buffers of at most {ring} per CPU")
        }
        _ => String::new(),
    };
    sum + &end
}

fn rate(facts: &Facts) -> String {
    let Some(rate) = facts.limits.perf_event_max_sample_rate else { return unknown() };
    let rate = number::count(rate);
    match facts.limits.perf_cpu_time_max_percent {
        Some(percent @ 1..100) => format!(
            "at most {rate}/s per CPU; lowered when sampling takes over {percent}% of a CPU"
        ),
        Some(_) => format!("at most {rate}/s per CPU, never lowered"),
        None => format!("at most {rate}/s per CPU"),
    }
}

/// An event that follows threads needs a descriptor per thread and CPU.
fn files(facts: &Facts) -> String {
    let Some(limit) = facts.limits.nofile else { return unknown() };
    let show = |value: u64| match value {
        Rlimit::UNLIMITED => "unlimited".to_owned(),
        value => number::count(value),
    };
    let mut text = format!("{}, can be raised to {}", show(limit.soft), show(limit.hard));
    let cpus = facts.topology.online.len() as u64;
    if limit.hard != Rlimit::UNLIMITED && cpus > 0 {
        let threads = limit.hard / (2 * cpus);
        let threads = number::count(threads);
        text += &format!(": 2 events × {cpus} CPUs × {threads} threads");
    }
    text
}

fn kernel_symbols(facts: &Facts) -> String {
    let shown = if facts.kernel_addresses { "visible" } else { "hidden" };
    match facts.limits.kptr_restrict {
        Some(value) => format!("{shown} (kptr_restrict {value})"),
        None => shown.to_owned(),
    }
}

fn tracepoints(facts: &Facts) -> String {
    if facts.tracepoints.readable {
        return "readable".to_owned();
    }
    let why = facts.tracepoints.why.as_deref().unwrap_or("not readable");
    escape(why).into_owned()
}

fn bpf(facts: &Facts) -> String {
    let rights = &facts.rights;
    let capable = rights.initial_user_namespace && (rights.bpf || rights.sys_admin);
    let allowed = if capable { "allowed (CAP_BPF)" } else { "not allowed (no CAP_BPF)" };
    let setting = facts.limits.unprivileged_bpf_disabled;
    join([
        Some(allowed.to_owned()),
        setting.map(|value| format!("unprivileged_bpf_disabled {value}")),
        Some(
            if facts.btf { "kernel types (BTF) present" } else { "no kernel types (BTF)" }
                .to_owned(),
        ),
    ])
}

fn io_uring(facts: &Facts) -> String {
    let disabled = facts.limits.io_uring_disabled;
    let setting = disabled.map(|value| format!("io_uring_disabled {value}"));
    let tried = match facts.probes.io_uring {
        Probe::Works => Some("works".to_owned()),
        Probe::NotTried => None,
        refused @ Probe::Refused(_) => refused.refusal().map(|said| format!("refused: {said}")),
    };
    let text = join([tried, setting]);
    if text.is_empty() { unknown() } else { text }
}
