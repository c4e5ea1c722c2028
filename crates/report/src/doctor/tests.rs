//! The page of a server, and of a machine that lies about itself.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use pmuscope_machine::capabilities::capabilities;
use pmuscope_machine::probe::{CounterCount, Probe, Probes};
use pmuscope_machine::{Facts, Machine};
use tempfile::TempDir;

use super::*;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }
}

const SETTINGS: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.1.0-28-amd64"),
    ("proc/sys/kernel/hostname", "big"),
    ("proc/sys/kernel/arch", "x86_64"),
    ("proc/sys/kernel/perf_event_paranoid", "2"),
    ("proc/sys/kernel/perf_event_mlock_kb", "516"),
    ("proc/sys/kernel/perf_event_max_sample_rate", "63000"),
    ("proc/sys/kernel/perf_cpu_time_max_percent", "25"),
    ("proc/sys/kernel/perf_event_max_stack", "127"),
    ("proc/sys/kernel/kptr_restrict", "0"),
    ("proc/sys/kernel/nmi_watchdog", "1"),
    ("proc/sys/kernel/unprivileged_bpf_disabled", "2"),
    ("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nSeccomp:\t0"),
    ("proc/self/uid_map", "0 0 4294967295"),
    (
        "proc/self/limits",
        "Max open files            1024                 4096                 files\n\
         Max locked memory         8388608              8388608              bytes",
    ),
    ("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"),
    ("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian"),
    ("usr/bin/perf", ""),
    ("usr/bin/qemu-system-x86_64", ""),
    ("sys/kernel/btf/vmlinux", ""),
    ("sys/devices/system/cpu/smt/active", "1"),
    ("sys/devices/system/cpu/smt/control", "on"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
];

/// Two sockets of 16 cores with two threads each.
fn server(cpuinfo: &str) -> Facts {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    write(root, SETTINGS);
    write(root, &[("proc/cpuinfo", cpuinfo)]);
    write(
        root,
        &[("sys/devices/system/cpu/online", "0-63"), ("sys/devices/system/cpu/possible", "0-63")],
    );
    for cpu in 0..64u32 {
        let core = cpu % 32;
        let node = core / 16;
        let siblings = format!("{core},{}", core + 32);
        let neighbors = ["0-15,32-47", "16-31,48-63"][node as usize];
        let at = |path: &str| format!("sys/devices/system/cpu/cpu{cpu}/{path}");
        write(
            root,
            &[
                (&at("topology/physical_package_id"), &node.to_string()),
                (&at("topology/core_id"), &(core % 16).to_string()),
                (&at("topology/core_cpus_list"), &siblings),
                (&at("cpufreq/scaling_driver"), "intel_pstate"),
                (&at("cpufreq/scaling_governor"), "powersave"),
                (&at("cpufreq/cpuinfo_max_freq"), "3500000"),
            ],
        );
        let caches = [
            (1, "Data", "48K", &*siblings),
            (2, "Unified", "2048K", &siblings),
            (3, "Unified", "36864K", neighbors),
        ];
        for (index, (level, kind, size, shared)) in caches.into_iter().enumerate() {
            let at = |name: &str| at(&format!("cache/index{index}/{name}"));
            write(
                root,
                &[
                    (&at("level"), &level.to_string()),
                    (&at("type"), kind),
                    (&at("size"), size),
                    (&at("shared_cpu_list"), shared),
                ],
            );
        }
    }
    for (node, cpus, distances) in [(0, "0-15,32-47", "10 21"), (1, "16-31,48-63", "21 10")] {
        let at = |name: &str| format!("sys/devices/system/node/node{node}/{name}");
        let memory =
            format!("Node {node} MemTotal: 263000000 kB\nNode {node} MemFree: 190000000 kB");
        write(
            root,
            &[(&at("cpulist"), cpus), (&at("distance"), distances), (&at("meminfo"), &memory)],
        );
    }
    let units = [
        ("cpu", 4, None),
        ("software", 1, None),
        ("breakpoint", 5, None),
        ("uncore_imc_0", 20, Some("0,16")),
        ("uncore_imc_1", 21, Some("0,16")),
        ("power", 9, Some("0,16")),
    ];
    for (name, number, mask) in units {
        let at = |file: &str| format!("sys/bus/event_source/devices/{name}/{file}");
        write(root, &[(&at("type"), &number.to_string())]);
        if let Some(mask) = mask {
            write(root, &[(&at("cpumask"), mask), (&at("events/x"), "event=0x1")]);
        }
    }
    write(
        root,
        &[
            ("sys/bus/event_source/devices/cpu/caps/branches", "32"),
            ("sys/bus/event_source/devices/cpu/events/cpu-cycles", "event=0x3c"),
        ],
    );
    let probes = Probes { io_uring: Probe::Works, ..Probes::default() };
    let counters = Some(CounterCount { general: 8, fixed: 4 });
    Machine::at(root).facts(probes, counters).unwrap()
}

const XEON: &str = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n\
    model name : Intel(R) Xeon(R) Gold 6430\nstepping : 8\nmicrocode : 0x2b000590\nflags : fpu vme";

/// Read once: its tree has a thousand files.
fn xeon() -> &'static Facts {
    static XEON_FACTS: OnceLock<Facts> = OnceLock::new();
    XEON_FACTS.get_or_init(|| server(XEON))
}

fn page(facts: &Facts, style: &Style) -> String {
    text(facts, &Diagnosis::new(capabilities(facts)), style)
}

#[test]
fn a_server_seen_by_a_user() {
    crate::widths::fits("doctor", |style| page(xeon(), style));
    insta::assert_snapshot!(page(xeon(), &Style::PLAIN), @r"
    Intel(R) Xeon(R) Gold 6430 · 64 CPUs, 2 NUMA nodes, 502 GiB · Linux 6.1.0-28-amd64 x86_64 · Debian GNU/Linux 12 (bookworm)
    user 1000
    10 of 35 uses work, 16 limited, 9 blocked
    Try: sudo sysctl kernel.perf_event_paranoid=-1

    Commands
               pmuscope …                  what for
      blocked  record -a                   the whole machine                no events for other processes [1]
      blocked  record -G CGROUP            a service or container           no events for other processes [1]
      blocked  record --own-cgroup -- CMD  its short-lived processes        no events for other processes [1], cannot create cgroups [3]
      blocked  record --strobe             counters of one function         no events for other processes [1]
      blocked  record -e cpu-clock:k       time in the kernel               no kernel samples [1]
      blocked  record -e SYSTEM:NAME       tracepoints                      no tracepoint names [5], no tracepoints [1]
      blocked  top                         hot spots of the machine now     no events for other processes [1]
      blocked  stat -a                     counts of the machine            no events for other processes [1]
      blocked  bench capture               recording overhead here          no events for other processes [1]
      limited  record -- CMD               a program you start              user space only [1]
      limited  record -p PID               a running process                user space only [1], your own processes only [2]
      limited  record -e cycles            hardware counters                one counter fewer on every CPU [4]
      limited  record -g                   call stacks                      user frames only [1]
      limited  record --off-cpu -- CMD     where threads wait               no stacks of waits [1], no wakers [5][1]
      limited  top -p PID                  hot spots of a process now       user space only [1], your own processes only [2]
      limited  stat -- CMD                 counts of a command              user space only [1]
      limited  sweep -e REGEX -- CMD       every event, per unit of work    user space only [1]
      limited  sweep --topdown -- CMD      pipeline slots (top-down)        one counter fewer on every CPU [4]
      limited  watch EXPR -- CMD           writes to a variable             no values, call stacks, conditions [6]
      limited  numa advise -p PID          better placement                 your own processes only [7]
      limited  numa balance -p PID         threads and pages on nodes       your own processes only [7]
      limited  report                      functions by name                no kernel symbols in new recordings [8]
      limited  script                      individual samples               no kernel symbols in new recordings [8]
      limited  bundle                      a recording for another machine  no kernel symbols in new recordings [8]
      limited  diff                        changes between recordings       no kernel symbols in new recordings [8]
      works    record -b                   branch stacks
      works    record -e mem:ADDR:w        writes to an address
      works    record -F 25000             high rates
      works    record --aio                asynchronous writing
      works    record -z                   compressed files
      works    record --affinity=node      readers and buffers by node
      works    numa show                   NUMA nodes and their memory
      works    lab run                     other kernels, nodes, CPUs
      works    compare                     result files side by side
      works    workload                    test programs

    Causes and fixes
      [1] kernel.perf_event_paranoid is 2 and pmuscope has no CAP_PERFMON (root has it)
          sudo sysctl kernel.perf_event_paranoid=-1
      [2] processes of other users need CAP_PERFMON or CAP_SYS_PTRACE (root has it)
          sudo pmuscope … -p PID
      [3] only root may create cgroups here
          sudo pmuscope …
      [4] the NMI watchdog holds a counter on every CPU
          sudo sysctl kernel.nmi_watchdog=0
      [5] tracefs is not mounted
          sudo mount -t tracefs nodev /sys/kernel/tracing
      [6] BPF programs need CAP_BPF and CAP_PERFMON (root has it)
          sudo pmuscope watch …
      [7] pages of other users' processes need CAP_SYS_PTRACE to be read and CAP_SYS_NICE to be moved (root has it)
          sudo pmuscope numa … -p PID
      [8] kernel addresses need perf_event_paranoid 1 or CAP_SYSLOG (root has it)
          sudo sysctl kernel.perf_event_paranoid=1

    Processor
      model             GenuineIntel, family 6, model 143, stepping 8, microcode 0x2b000590
      CPUs              online 0-63 · 32 cores · 2 packages · SMT on (2 threads per core)
      caches            L1d 32 × 48 KiB, L2 32 × 2 MiB, L3 2 × 36 MiB
      L3 groups         2: 0-15,32-47 | 16-31,48-63
      clock             intel_pstate · governor powersave · boost on · up to 3.50 GHz

    NUMA nodes
      node   memory     free  distance to   0   1  CPUs
         0  251 GiB  181 GiB               10  21  0-15,32-47
         1  251 GiB  181 GiB               21  10  16-31,48-63

    Counters
      unit              type   named events  counts for
      breakpoint        5                 0  each CPU
      cpu               4                 1  each CPU · cycles, instructions · branch stack, 32 entries
      power             9                 1  whole package or machine, read on CPU 0,16
      software          1                 0  each CPU
      uncore_imc_* (2)  20…21             1  whole package or machine, read on CPU 0,16
      each core has 8 general and 4 fixed counters

    Limits
      paranoid level    2: own processes, user space only
      buffer memory     516 KiB × 64 CPUs = 32.2 MiB, + RLIMIT_MEMLOCK 8 MiB = 40.2 MiB: ring buffers of at most 512 KiB per CPU
      sample rate       at most 63,000/s per CPU; lowered when sampling takes over 25% of a CPU
      open files        1,024, can be raised to 4,096: 2 events × 64 CPUs × 32 threads
      call stacks       up to 127 frames
      kernel symbols    hidden (kptr_restrict 0)
      NMI watchdog      on: uses one counter on every CPU
      tracepoints       tracefs is not mounted
      BPF               not allowed (no CAP_BPF) · unprivileged_bpf_disabled 2 · kernel types (BTF) present
      io_uring          works
      cgroups           at /sys/fs/cgroup
    ");
}

#[test]
fn a_narrow_terminal_without_unicode() {
    let style = Style { color: false, unicode: false, width: Some(80) };
    let page = page(xeon(), &style);
    assert!(page.is_ascii(), "{page}");
    assert!(!page.contains("a program you start"));
    let long: Vec<&str> = page.lines().filter(|line| line.len() > 80).collect();
    assert_eq!(long, [""; 0]);
}

#[test]
fn names_that_act_on_a_terminal_are_shown_as_escapes() {
    let evil = "model name : \u{1b}]0;owned\u{7}\u{9b}2J\u{202e}x\nmicrocode : \u{1b}c";
    let facts = server(evil);
    let page = page(&facts, &Style::PLAIN);
    assert!(page.contains(r"\x1b]0;owned\x07\u{9b}2J\u{202e}x"), "{page}");
    assert!(!page.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}')));
    let json = crate::to_json(&facts).unwrap();
    assert!(!json.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}')));
}

#[test]
fn json_has_the_verdicts_with_what_to_type() {
    let facts = xeon();
    let diagnosis = Diagnosis::new(capabilities(facts));
    let value: serde_json::Value =
        serde_json::from_str(&crate::to_json(&diagnosis).unwrap()).unwrap();
    let all = value["verdicts"].as_array().unwrap();
    let system = all.iter().find(|verdict| verdict["command"] == "record -a").unwrap();
    assert_eq!(system["outcome"], "not");
    assert_eq!(system["reasons"][0]["type_this"], "sudo sysctl kernel.perf_event_paranoid=0");
    assert_eq!(value["causes"].as_array().unwrap().len(), diagnosis.causes.len());
}
