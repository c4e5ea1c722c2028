//! What the kernel lets this process watch, and why not more.

use crate::Facts;
use crate::capabilities::{CapabilityReason, Fix};
use crate::probe::Probe;

/// A degree of insight, in the order in which `perf_event_paranoid` takes them away
/// (Documentation/admin-guide/perf-security.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// User space of own processes. Taken away only by distribution patches (Debian's 3, Ubuntu's 4).
    OwnUser,
    /// The kernel while it works for own processes.
    OwnKernel,
    /// Everything that runs on a CPU.
    AllProcesses,
    /// Fields of tracepoints.
    RawTracepoints,
}

impl Need {
    /// The highest `perf_event_paranoid` that grants it to everyone.
    fn level(self) -> i32 {
        match self {
            Self::OwnUser => 2,
            Self::OwnKernel => 1,
            Self::AllProcesses => 0,
            Self::RawTracepoints => -1,
        }
    }

    fn probe(self, facts: &Facts) -> Probe {
        match self {
            Self::OwnUser => facts.probes.own_user,
            Self::OwnKernel => facts.probes.own_kernel,
            Self::AllProcesses => facts.probes.all_processes,
            // Opening one would need its name; settings decide.
            Self::RawTracepoints => Probe::NotTried,
        }
    }
}

/// Why a degree of insight is refused, with this effect; `None` if it is granted.
pub(crate) fn refusal(facts: &Facts, need: Need, effect: &str) -> Option<CapabilityReason> {
    let reason = |why: String, fix| Some(CapabilityReason { effect: effect.to_owned(), why, fix });
    let probe = need.probe(facts);
    if probe == Probe::Works {
        return None;
    }
    let Some(paranoid) = facts.limits.perf_event_paranoid else {
        let why = "this kernel was built without performance events (CONFIG_PERF_EVENTS), or hides \
            /proc/sys/kernel/perf_event_paranoid";
        return reason(why.to_owned(), None);
    };
    let granted = facts.rights.can_watch_all() || paranoid <= need.level();
    match (granted, probe.refusal()) {
        (true, None) => None,
        (true, Some(errno)) => {
            let (why, fix) = filtered(facts, &errno);
            reason(why, fix)
        }
        (false, _) => {
            let fix = Fix::sysctl(facts, "kernel.perf_event_paranoid", need.level().into());
            reason(paranoid_sentence(facts, paranoid), Some(fix))
        }
    }
}

fn paranoid_sentence(facts: &Facts, paranoid: i32) -> String {
    let capability = if facts.kernel.version < (5, 8) { "CAP_SYS_ADMIN" } else { "CAP_PERFMON" };
    let rights = &facts.rights;
    let lack = if !rights.initial_user_namespace && (rights.perfmon || rights.sys_admin) {
        format!("{capability} of this user namespace has no effect")
    } else {
        format!("pmuscope has no {capability}{}", root_hint(facts))
    };
    format!("kernel.perf_event_paranoid is {paranoid} and {lack}")
}

/// Who has a capability that is missing; root of a container knows that it is not him.
pub(crate) fn root_hint(facts: &Facts) -> &'static str {
    if facts.rights.euid == Some(0) { "" } else { " (root has it)" }
}

/// `sudo` with a command, where that would help.
pub(crate) fn sudo(facts: &Facts, command: &str) -> Option<Fix> {
    (facts.rights.euid != Some(0)).then(|| Fix::text(format!("sudo {command}")))
}

/// Settings allow it, and yet the kernel refused.
fn filtered(facts: &Facts, errno: &str) -> (String, Option<Fix>) {
    let what =
        format!("perf_event_open fails with {errno} although the kernel's settings allow it");
    if facts.virtualization.seccomp == Some(true) {
        let why = format!("{what}: a seccomp filter, as in containers");
        return (why, Some(Fix::text(container_option(facts))));
    }
    (format!("{what}: a security module, or a hypervisor"), None)
}

fn container_option(facts: &Facts) -> &'static str {
    match facts.virtualization.container.as_ref().map(|sign| sign.name.as_str()) {
        Some("kubernetes") => {
            "in the pod: securityContext: {capabilities: {add: [PERFMON]}, seccompProfile: {type: Unconfined}}"
        }
        Some("podman") => "podman run --cap-add PERFMON --security-opt seccomp=unconfined ...",
        _ => "docker run --cap-add PERFMON --security-opt seccomp=unconfined ...",
    }
}

/// Tracepoints need tracefs, and the right to their fields.
pub(crate) fn tracepoints(facts: &Facts) -> Vec<CapabilityReason> {
    let mut reasons = Vec::new();
    if !facts.tracepoints.readable {
        let of = &facts.tracepoints;
        let why = of.why.clone().unwrap_or_else(|| "tracefs cannot be read".to_owned());
        let as_root = || sudo(facts, "pmuscope record -e SYSTEM:NAME");
        let fix = of.fix.map(Fix::text).or_else(as_root);
        reasons.push(CapabilityReason { effect: "no tracepoint names".to_owned(), why, fix });
    }
    reasons.extend(refusal(facts, Need::RawTracepoints, "no tracepoints"));
    reasons
}
