//! One function per use of pmuscope.

use crate::Facts;
use crate::capabilities::access::{self, Need, refusal};
use crate::capabilities::causes::{
    cgroups, descriptors, emulated, governor, hidden_symbols, low_rate, no_bpf, no_branches,
    no_breakpoints, no_counters, no_emulator, no_io_uring, no_own_cgroup, no_perf, no_wakers,
    old_kernel, one_namespace, one_node, other_users, other_users_pages, small_rings,
    software_clock, software_events, watchdog, younger_kernel,
};
use crate::capabilities::{Capability, CapabilityOutcome, CapabilityReason};

pub(crate) fn all(facts: &Facts) -> Vec<Capability> {
    let recorded =
        |command, purpose, refusals: Vec<CapabilityReason>, reductions: Vec<CapabilityReason>| {
            let mut refusals = refusals;
            refusals.splice(0..0, old_kernel(facts));
            verdict(command, purpose, refusals, reductions)
        };
    let own = || list(refusal(facts, Need::OwnUser, "no events at all"));
    let everyone = || list(refusal(facts, Need::AllProcesses, "no events for other processes"));
    let kernel_part = || list(refusal(facts, Need::OwnKernel, "user space only"));
    vec![
        recorded(
            "record -- CMD",
            "a program you start",
            own(),
            join([software_clock(facts), kernel_part(), younger_kernel(facts)]),
        ),
        recorded(
            "record -p PID",
            "a running process",
            own(),
            join([software_clock(facts), kernel_part(), other_users(facts)]),
        ),
        recorded(
            "record -a",
            "the whole machine",
            join([everyone(), descriptors(facts)]),
            join([software_clock(facts), one_namespace(facts), small_rings(facts)]),
        ),
        recorded(
            "record -G CGROUP",
            "a service or container",
            join([everyone(), cgroups(facts)]),
            software_clock(facts),
        ),
        recorded(
            "record --own-cgroup -- CMD",
            "its short-lived processes",
            join([everyone(), cgroups(facts), no_own_cgroup(facts)]),
            software_clock(facts),
        ),
        recorded(
            "record -e cycles",
            "hardware counters",
            join([own(), no_counters(facts)]),
            watchdog(facts),
        ),
        recorded(
            "record --strobe",
            "counters of one function",
            join([everyone(), no_counters(facts)]),
            join([watchdog(facts), no_own_cgroup(facts)]),
        ),
        recorded(
            "record -e cpu-clock:k",
            "time in the kernel",
            list(refusal(facts, Need::OwnKernel, "no kernel samples")),
            vec![],
        ),
        recorded(
            "record -g",
            "call stacks",
            own(),
            list(refusal(facts, Need::OwnKernel, "user frames only")),
        ),
        recorded("record -b", "branch stacks", join([own(), no_branches(facts)]), vec![]),
        recorded(
            "record -e SYSTEM:NAME",
            "tracepoints",
            join([own(), access::tracepoints(facts)]),
            vec![],
        ),
        recorded(
            "record -e mem:ADDR:w",
            "writes to an address",
            join([own(), no_breakpoints(facts)]),
            vec![],
        ),
        recorded(
            "record --off-cpu -- CMD",
            "where threads wait",
            own(),
            join([list(refusal(facts, Need::OwnKernel, "no stacks of waits")), no_wakers(facts)]),
        ),
        recorded("record -F 25000", "high rates", own(), low_rate(facts)),
        recorded("record --aio", "asynchronous writing", own(), no_io_uring(facts)),
        recorded("record -z", "compressed files", own(), vec![]),
        recorded("record --affinity=node", "readers and buffers by node", own(), vec![]),
        recorded(
            "top",
            "hot spots of the machine now",
            join([everyone(), descriptors(facts)]),
            join([software_clock(facts), one_namespace(facts), small_rings(facts)]),
        ),
        recorded(
            "top -p PID",
            "hot spots of a process now",
            own(),
            join([software_clock(facts), kernel_part(), other_users(facts)]),
        ),
        recorded(
            "stat -- CMD",
            "counts of a command",
            own(),
            join([software_events(facts), kernel_part()]),
        ),
        recorded("stat -a", "counts of the machine", everyone(), software_events(facts)),
        recorded(
            "sweep -e REGEX -- CMD",
            "every event, per unit of work",
            own(),
            join([software_events(facts), kernel_part()]),
        ),
        recorded(
            "sweep --topdown -- CMD",
            "pipeline slots (top-down)",
            join([own(), no_counters(facts)]),
            watchdog(facts),
        ),
        recorded(
            "watch EXPR -- CMD",
            "writes to a variable",
            join([own(), no_breakpoints(facts)]),
            no_bpf(facts),
        ),
        verdict("numa show", "NUMA nodes and their memory", vec![], vec![]),
        verdict("numa advise -p PID", "better placement", vec![], other_users_pages(facts)),
        verdict(
            "numa balance -p PID",
            "threads and pages on nodes",
            one_node(facts),
            other_users_pages(facts),
        ),
        verdict("report", "functions by name", vec![], hidden_symbols(facts)),
        recorded(
            "bench capture",
            "recording overhead here",
            everyone(),
            join([software_clock(facts), no_perf(facts), governor(facts)]),
        ),
        verdict("lab run", "other kernels, nodes, CPUs", no_emulator(facts), emulated(facts)),
        verdict("script", "individual samples", vec![], hidden_symbols(facts)),
        verdict("bundle", "a recording for another machine", vec![], hidden_symbols(facts)),
        verdict("diff", "changes between recordings", vec![], hidden_symbols(facts)),
        verdict("compare", "result files side by side", vec![], vec![]),
        verdict("workload", "test programs", vec![], vec![]),
    ]
}

/// Refusals make it impossible; without one, reductions reduce it.
fn verdict(
    command: &'static str,
    purpose: &'static str,
    refusals: Vec<CapabilityReason>,
    reductions: Vec<CapabilityReason>,
) -> Capability {
    let (outcome, reasons) = match (refusals.is_empty(), reductions.is_empty()) {
        (false, _) => (CapabilityOutcome::Not, refusals),
        (true, false) => (CapabilityOutcome::Reduced, reductions),
        (true, true) => (CapabilityOutcome::Works, vec![]),
    };
    Capability { command, purpose, outcome, reasons }
}

fn list(reason: Option<CapabilityReason>) -> Vec<CapabilityReason> {
    reason.into_iter().collect()
}

fn join<const N: usize>(lists: [Vec<CapabilityReason>; N]) -> Vec<CapabilityReason> {
    lists.into_iter().flatten().collect()
}
