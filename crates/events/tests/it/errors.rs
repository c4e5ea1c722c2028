//! What a user reads who mistyped.

use crate::fixtures::{amd, arm, error, hybrid, intel, power, vm, vm_without_tracefs};

/// One message per line, for a table.
fn all(texts: &[&str], on: &crate::fixtures::Fixture) -> String {
    texts.iter().map(|text| error(text, on) + "\n").collect()
}

#[test]
fn unknown_names() {
    let texts = [
        "cycles,instuctions:u",
        "cylces:u",
        "Cycles",
        "qwertyuiop",
        "LLC-load-mises",
        "iTLB-stores",
        "duration_time",
        "rxyz",
        "branch-mises",
    ];
    insta::assert_snapshot!(all(&texts, &intel()), @r#"
    event 'cycles,instuctions:u', character 8, 'instuctions': unknown event. Did you mean instructions?
    event 'cylces:u', character 1, 'cylces': unknown event. Did you mean cycles?
    event 'Cycles': unknown event. Did you mean cycles?
    event 'qwertyuiop': unknown event
    event 'LLC-load-mises': unknown event. Did you mean LLC-load-misses?
    event 'iTLB-stores': no CPU counts this; iTLB has loads
    event 'duration_time': not a kernel event: perf measures this itself. Try: task-clock
    event 'rxyz': unknown event
    event 'branch-mises': unknown event. Did you mean branch-misses?
    "#);
}

#[test]
fn units_and_terms() {
    let texts = [
        "cpi/event=1/",
        "cpu/evnt=0x3c/u",
        "cpu/zzz/",
        "cycles/umask=1/",
        "cycles/perod=1/",
        "cpu/event=0x100/",
        "cpu/inv=2/",
        "cpu/event=abc/",
        "cpu/event=/",
        "cpu/event=-1/",
        "cpu/config=0x10000000000000000/",
        "cpu/name/",
        "99:1",
        "power/period=5,freq=5,event=2/",
        "cycles/period=0/",
        "cycles/call-graph=dwarf4/",
        "cycles/stack-size=9/",
        "cycles/branch_type=any_cal/",
        "cycles/overwrite/",
        "intel_pt//",
    ];
    insta::assert_snapshot!(all(&texts, &intel()), @r#"
    event 'cpi/event=1/', character 1, 'cpi': this machine has no PMU of this name or number. Did you mean cpu? It has: breakpoint, msr, software, tracepoint, cpu, uncore_imc_0, uncore_imc_1, uncore_imc_free_running_0, power
    event 'cpu/evnt=0x3c/u', character 5, 'evnt': cpu has no such term or event. Did you mean event? Its terms: cmask, edge, event, frontend, inv, ldlat, offcore_rsp, umask
    event 'cpu/zzz/', character 5, 'zzz': cpu has no such term or event. Its terms: cmask, edge, event, frontend, inv, ldlat, offcore_rsp, umask
    event 'cycles/umask=1/', character 8, 'umask': events called by name have no such term. Their terms: name, period, freq, time, call-graph, stack-size, max-stack, branch_type, inherit, no-inherit, alt-period, alt-period-jitter. To set fields of a PMU, name the PMU: cpu/event=0x3c,umask=0/
    event 'cycles/perod=1/', character 8, 'perod': events called by name have no such term. Did you mean period? Their terms: name, period, freq, time, call-graph, stack-size, max-stack, branch_type, inherit, no-inherit, alt-period, alt-period-jitter. To set fields of a PMU, name the PMU: cpu/event=0x3c,umask=0/
    event 'cpu/event=0x100/', character 11, '0x100': event is at most 0xff (8-bit field)
    event 'cpu/inv=2/', character 9, '2': inv is at most 0x1 (1-bit field)
    event 'cpu/event=abc/', character 11, 'abc': the value must be a number below 2^64 (123 or 0x7b)
    event 'cpu/event=/', character 5, 'event=': a value after '=' is missing
    event 'cpu/event=-1/', character 11, '-1': the value must be a number below 2^64 (123 or 0x7b)
    event 'cpu/config=0x10000000000000000/', character 12, '0x10000000000000000': the value must be a number below 2^64 (123 or 0x7b)
    event 'cpu/name/', character 5, 'name': it needs a value, as in name=my-event
    event '99:1', character 1, '99': this machine has no PMU of this name or number. It has: breakpoint, msr, software, tracepoint, cpu, uncore_imc_0, uncore_imc_1, uncore_imc_free_running_0, power
    event 'power/period=5,freq=5,event=2/', character 16, 'freq': period= and freq= exclude each other. Try: only one of them
    event 'cycles/period=0/', character 15, '0': the value must be a number of at least 1
    event 'cycles/call-graph=dwarf4/', character 19, 'dwarf4': the value must be fp, dwarf, lbr or no
    event 'cycles/stack-size=9/', character 19, '9': the value must be a number of bytes from 8 to 65528, a multiple of 8
    event 'cycles/branch_type=any_cal/', character 20, 'any_cal': 'any_cal' is not a branch filter. Did you mean any_call? Filters: any, any_call, any_ret, ind_call, ind_jmp, call, cond, abort_tx, in_tx, no_tx, stack, no_flags, no_cycles, save_type, hw_index, u, k, hv, type
    event 'cycles/overwrite/', character 8, 'overwrite': overwrite mode applies to the whole recording. Try: --overwrite
    event 'intel_pt//', character 1, 'intel_pt': this machine has no PMU of this name or number. It has: breakpoint, msr, software, tracepoint, cpu, uncore_imc_0, uncore_imc_1, uncore_imc_free_running_0, power
    "#);
    insta::assert_snapshot!(error("cpu/event=0x1000/", &amd()), @"event 'cpu/event=0x1000/', character 11, '0x1000': event is at most 0xfff (12-bit field)");
    insta::assert_snapshot!(error("armv8_pmuv3_0/event=0x10000/", &arm()), @"event 'armv8_pmuv3_0/event=0x10000/', character 21, '0x10000': event is at most 0xffff (16-bit field)");
    insta::assert_snapshot!(error("hv_24x7/HPM_0THRD_NON_IDLE_CCYC__PHYS_CORE/", &power()), @"event 'hv_24x7/HPM_0THRD_NON_IDLE_CCYC__PHYS_CORE/', character 9, 'HPM_0THRD_NON_IDLE_CCYC__PHYS_CORE': this event needs a value for core: hv_24x7/HPM_0THRD_NON_IDLE_CCYC__PHYS_CORE,core=…/");
}

#[test]
fn modifiers() {
    let texts = [
        "cycles:z",
        "cycles:upppp",
        "{cycles:pp}:pp",
        "{cycles:D,cs}",
        "cycles:",
        "cycles:b",
        "cycles:u:k",
        "cycles:u/period=1/",
    ];
    insta::assert_snapshot!(all(&texts, &intel()), @r#"
    event 'cycles:z', character 8, 'z': 'z' is not a modifier. Modifiers: u user, k kernel, h hypervisor, I not idle, H host, G guests, p to ppp precise, P as precise as possible, S sample the leader only, D pinned, e exclusive, W weak group
    event 'cycles:upppp', character 8, 'upppp': the highest precision is ppp (3); P takes the highest that the machine supports
    event '{cycles:pp}:pp', character 2, 'cycles:pp': the highest precision is ppp (3); P takes the highest that the machine supports
    event '{cycles:D,cs}', character 9, 'D': 'D' applies to the whole group. Try: {…}:D
    event 'cycles:', character 8: a modifier is missing
    event 'cycles:b', character 8, 'b': b (counting in BPF) is not supported. Try: without it
    event 'cycles:u:k', character 10, 'k': modifiers come once and last: cycles:uk, cycles/period=1000003/uk
    event 'cycles:u/period=1/', character 8, 'u': modifiers come once and last: cycles:uk, cycles/period=1000003/uk
    "#);
}

#[test]
fn structure() {
    let texts = [
        "",
        "cycles,",
        "{cycles,instructions",
        "cycles}",
        "{cycles,{cs}}",
        "{}",
        "cpu/event=1",
        "cpu/event=1,umask=2,cycles",
        "cpu/name='x/",
        "cpu/event=1,,umask=2/",
        "cpu/=1/",
        "cycles instructions",
        "{cycles}x",
    ];
    insta::assert_snapshot!(all(&texts, &intel()), @r#"
    event '': an event name is missing
    event 'cycles,', character 8: an event name is missing
    event '{cycles,instructions', character 1, '{': no '}' closes it. Try: quotes around the argument, as the shell expands braces
    event 'cycles}', character 7, '}': no '{' opens it. Try: quotes around the argument, as the shell expands braces
    event '{cycles,{cs}}', character 9, '{': a group cannot contain a group. Try: one after the other, {a,b},{c,d}
    event '{}', character 2, '}': an event name is missing
    event 'cpu/event=1', character 4, '/': no second '/' closes the terms
    event 'cpu/event=1,umask=2,cycles', character 4, '/': no second '/' closes the terms
    event 'cpu/name='x/', character 5, 'n': no second ' closes the quoted text
    event 'cpu/event=1,,umask=2/', character 13: a term is missing
    event 'cpu/=1/', character 5, '=1': a term is missing
    event 'cycles instructions', character 8, 'i': unexpected 'i'; expected ',' or the end
    event '{cycles}x', character 9, 'x': unexpected 'x'; expected ',' or the end
    "#);
}

#[test]
fn breakpoints() {
    let texts = [
        "mem:",
        "mem:0:w",
        "mem:main",
        "mem:0x10/9",
        "mem:0x10/0:w",
        "mem:0x10:z",
        "mem:0x10/4:rw/umask=1/",
    ];
    insta::assert_snapshot!(all(&texts, &vm()), @r#"
    event 'mem:', character 5: an address (mem:0x1234) is missing
    event 'mem:0:w', character 5, '0': the value must be the address of a variable; nothing is mapped at 0. Try: pmuscope watch NAME -- COMMAND, or nm PROGRAM for addresses
    event 'mem:main', character 5, 'main': the value must be a numeric address (mem:0x1234); names are not resolved here
    event 'mem:0x10/9', character 10, '9': a breakpoint watches 1 to 8 bytes (x86: 1, 2, 4 or 8)
    event 'mem:0x10/0:w', character 10, '0': a breakpoint watches 1 to 8 bytes (x86: 1, 2, 4 or 8)
    event 'mem:0x10:z', character 10, 'z': 'z' is not a modifier. Modifiers: u user, k kernel, h hypervisor, I not idle, H host, G guests, p to ppp precise, P as precise as possible, S sample the leader only, D pinned, e exclusive, W weak group
    event 'mem:0x10/4:rw/umask=1/', character 15, 'umask': events called by name have no such term. Their terms: name, period, freq, time, call-graph, stack-size, max-stack, branch_type, inherit, no-inherit, alt-period, alt-period-jitter. To set fields of a PMU, name the PMU: cpu/event=0x3c,umask=0/
    "#);
}

#[test]
fn tracepoints() {
    let texts = ["sched:sched_swich", "shced:sched_switch", "sched:zzz*", "nosuch:event:u"];
    insta::assert_snapshot!(all(&texts, &vm()), @r#"
    event 'sched:sched_swich': this kernel has no tracepoint sched:sched_swich. Did you mean sched:sched_switch?
    event 'shced:sched_switch': this kernel has no tracepoint shced:sched_switch. Did you mean sched:sched_switch?
    event 'sched:zzz*': no tracepoint of this kernel matches the pattern
    event 'nosuch:event:u', character 1, 'nosuch:event': this kernel has no tracepoint nosuch:event
    "#);
    insta::assert_snapshot!(all(&["sched:sched_switch", "sched:*", "cylces:u"], &vm_without_tracefs()), @r#"
    event 'sched:sched_switch': no tracepoints: tracefs is not mounted. Try: sudo mount -t tracefs nodev /sys/kernel/tracing
    event 'sched:*': no tracepoints: tracefs is not mounted. Try: sudo mount -t tracefs nodev /sys/kernel/tracing
    event 'cylces:u', character 1, 'cylces': unknown event. Did you mean cycles?
    "#);
}

#[test]
fn machines_without_what_was_asked_for() {
    insta::assert_snapshot!(all(&["cycles", "r1a8:u", "LLC-loads", "cpu/event=1/", "0:0"], &vm()), @r#"
    event 'cycles': it needs a hardware PMU, which this machine lacks (typical in VMs). Try: cpu-clock, or a VM with a virtual PMU
    event 'r1a8:u', character 1, 'r1a8': it needs a hardware PMU, which this machine lacks (typical in VMs). Try: cpu-clock, or a VM with a virtual PMU
    event 'LLC-loads': it needs a hardware PMU, which this machine lacks (typical in VMs). Try: cpu-clock, or a VM with a virtual PMU
    event 'cpu/event=1/', character 1, 'cpu': it needs a hardware PMU, which this machine lacks (typical in VMs). Try: cpu-clock, or a VM with a virtual PMU
    event '0:0', character 1, '0': it needs a hardware PMU, which this machine lacks (typical in VMs). Try: cpu-clock, or a VM with a virtual PMU
    "#);
    insta::assert_snapshot!(all(&["{slots,cpu_atom/cycles/,cycles}"], &hybrid()), @"event '{slots,cpu_atom/cycles/,cycles}', character 2, 'slots,cpu_atom/cycles/,cycles': no PMU has all events of this group: cpu_atom, cpu_core");
}

#[test]
fn a_mistyped_name_is_told_from_a_machine_that_lacks_it() {
    let is_of_machine =
        |text, on: &_| pmuscope_events::parse(text, on).unwrap_err().is_of_machine();
    assert!(is_of_machine("cycles", &vm()));
    assert!(is_of_machine("sched:sched_switch", &vm_without_tracefs()));
    assert!(!is_of_machine("cylces", &vm()));
    assert!(!is_of_machine("sched:sched_swich", &vm()));
}

#[test]
fn foreign_text_is_harmless_and_short() {
    insta::assert_snapshot!(error("\u{1b}[31mcycles\n", &vm()), @r#"event '\u{1b}[31mcycles\n', character 1, '\u{1b}[31mcycles': unknown event"#);
    insta::assert_snapshot!(error(&"x".repeat(10_000), &vm()), @"event 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…': unknown event");
}
