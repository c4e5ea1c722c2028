//! What the kernel lets this process do: sysctls, resource limits, capabilities.

use serde::{Serialize, Serializer};

use crate::Machine;

/// Configurations of distributions have some 300 KB.
const CONFIG_BYTES: u64 = 4 << 20;

/// Limits of the kernel and of this process; `None` where the kernel does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `kernel.perf_event_paranoid`: -1 allows all, 0 to 4 ever less (above 2 only with distribution patches).
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.perf_event_mlock_kb`: ring memory in KiB per online CPU and user that needs no RLIMIT_MEMLOCK.
    pub perf_event_mlock_kb: Option<u64>,
    /// `kernel.perf_event_max_sample_rate`: samples per second and CPU; the kernel may lower it while running.
    pub perf_event_max_sample_rate: Option<u64>,
    /// `kernel.perf_cpu_time_max_percent`: share of CPU time beyond which the kernel lowers the rate; 0 and 100 never.
    pub perf_cpu_time_max_percent: Option<u32>,
    /// `kernel.perf_event_max_stack`: frames of a call chain.
    pub perf_event_max_stack: Option<u32>,
    /// `kernel.kptr_restrict`: 0 shows kernel addresses to CAP_SYSLOG, and to all while
    /// `perf_event_paranoid` is at most 1; 1 to CAP_SYSLOG; 2 to nobody.
    pub kptr_restrict: Option<u32>,
    /// `kernel.nmi_watchdog`: whether CPUs are checked for hard lockups.
    pub nmi_watchdog: Option<bool>,
    /// Whether that takes a hardware counter on every CPU: not where CPUs check one another (Linux 6.5,
    /// `CONFIG_HARDLOCKUP_DETECTOR_BUDDY`).
    pub watchdog_uses_counter: Option<bool>,
    /// `kernel.io_uring_disabled` (Linux 6.6): 0 for all, 1 only for a group or CAP_SYS_ADMIN, 2 for nobody.
    pub io_uring_disabled: Option<u32>,
    /// `kernel.unprivileged_bpf_disabled`: 0 not, 1 for good, 2 until changed.
    pub unprivileged_bpf_disabled: Option<u32>,
    /// RLIMIT_MEMLOCK of this process, bytes.
    pub memlock: Option<Rlimit>,
    /// RLIMIT_NOFILE of this process, descriptors.
    pub nofile: Option<Rlimit>,
}

/// A resource limit; [`Rlimit::UNLIMITED`] for none, serialized as `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rlimit {
    /// In force.
    #[serde(serialize_with = "bound")]
    pub soft: u64,
    /// As far as the process may raise it without CAP_SYS_RESOURCE.
    #[serde(serialize_with = "bound")]
    pub hard: u64,
}

impl Rlimit {
    /// No limit (`RLIM_INFINITY`).
    pub const UNLIMITED: u64 = u64::MAX;
}

// serde asks for a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn bound<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    match *value {
        Rlimit::UNLIMITED => serializer.serialize_str("unlimited"),
        value => serializer.serialize_u64(value),
    }
}

/// Who this process is and which capabilities are in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Rights {
    /// Effective user id; `None` if the kernel does not tell.
    pub euid: Option<u32>,
    /// Whether this is the initial user namespace. Elsewhere (rootless containers) capabilities do not
    /// count for performance events.
    pub initial_user_namespace: bool,
    /// CAP_PERFMON (Linux 5.8).
    pub perfmon: bool,
    /// CAP_SYS_ADMIN.
    pub sys_admin: bool,
    /// CAP_IPC_LOCK.
    pub ipc_lock: bool,
    /// CAP_SYS_PTRACE.
    pub sys_ptrace: bool,
    /// CAP_SYS_NICE.
    pub sys_nice: bool,
    /// CAP_SYS_RESOURCE.
    pub sys_resource: bool,
    /// CAP_BPF (Linux 5.8).
    pub bpf: bool,
    /// CAP_SYSLOG.
    pub syslog: bool,
}

impl Rights {
    /// What the kernel asks before it lets a process watch others, the kernel or the whole machine:
    /// CAP_PERFMON or CAP_SYS_ADMIN in the initial user namespace.
    pub fn can_watch_all(&self) -> bool {
        self.initial_user_namespace && (self.perfmon || self.sys_admin)
    }
}

impl Machine {
    /// `/proc/sys/kernel/…` and `/proc/self/limits`.
    pub fn limits(&self) -> Limits {
        let rlimits = self.text("proc/self/limits").unwrap_or_default();
        let nmi_watchdog = self.sysctl::<u32>("nmi_watchdog").map(|value| value != 0);
        Limits {
            perf_event_paranoid: self.sysctl("perf_event_paranoid"),
            perf_event_mlock_kb: self.sysctl("perf_event_mlock_kb"),
            perf_event_max_sample_rate: self.sysctl("perf_event_max_sample_rate"),
            perf_cpu_time_max_percent: self.sysctl("perf_cpu_time_max_percent"),
            perf_event_max_stack: self.sysctl("perf_event_max_stack"),
            kptr_restrict: self.sysctl("kptr_restrict"),
            nmi_watchdog,
            watchdog_uses_counter: nmi_watchdog.map(|is_on| is_on && !self.has_buddy_detector()),
            io_uring_disabled: self.sysctl("io_uring_disabled"),
            unprivileged_bpf_disabled: self.sysctl("unprivileged_bpf_disabled"),
            memlock: rlimit(&rlimits, "Max locked memory"),
            nofile: rlimit(&rlimits, "Max open files"),
        }
    }

    /// Whether CPUs check one another for hard lockups: by the kernel's configuration where a package has put that, else by
    /// a function that only such a kernel has (`kernel/watchdog_buddy.c`), which takes longer to find.
    fn has_buddy_detector(&self) -> bool {
        const OPTION: &str = "CONFIG_HARDLOCKUP_DETECTOR_BUDDY=y";
        const FUNCTION: &str = "watchdog_buddy_check_hardlockup";
        let release = self.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let files = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
        let config = files.iter().find_map(|file| self.bytes(file, CONFIG_BYTES).ok());
        match config {
            Some(config) => String::from_utf8_lossy(&config).lines().any(|line| line == OPTION),
            None => self.has_kernel_function(FUNCTION),
        }
    }

    fn sysctl<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.number(format!("proc/sys/kernel/{name}"))
    }

    /// `/proc/self/status` (Uid, CapEff) and `/proc/self/uid_map`. What cannot be read is no right.
    pub fn rights(&self) -> Rights {
        let status = self.text("proc/self/status").unwrap_or_default();
        let field = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.map(|line| line.split_ascii_whitespace())
        };
        let effective = field("CapEff:")
            .and_then(|mut words| u64::from_str_radix(words.next()?, 16).ok())
            .unwrap_or(0);
        // include/uapi/linux/capability.h
        let has = |bit: u32| effective & (1 << bit) != 0;
        Rights {
            euid: field("Uid:").and_then(|mut words| words.nth(1)?.parse().ok()),
            initial_user_namespace: self.is_initial_user_namespace(),
            perfmon: has(38),
            sys_admin: has(21),
            ipc_lock: has(14),
            sys_ptrace: has(19),
            sys_nice: has(23),
            sys_resource: has(24),
            bpf: has(39),
            syslog: has(34),
        }
    }

    /// The initial namespace maps every id to itself. A kernel without namespaces has no such file.
    fn is_initial_user_namespace(&self) -> bool {
        let Ok(map) = self.text("proc/self/uid_map") else { return true };
        map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
    }
}

/// One line of `/proc/PID/limits`: `Max open files            1024        524288      files`.
pub(crate) fn rlimit(text: &str, name: &str) -> Option<Rlimit> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = line.split_ascii_whitespace().map(|word| match word {
        "unlimited" => Some(Rlimit::UNLIMITED),
        number => number.parse().ok(),
    });
    Some(Rlimit { soft: words.next()??, hard: words.next()?? })
}
