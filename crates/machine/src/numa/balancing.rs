//! The kernel's own balancing of tasks and pages over nodes: how it is set, and setting it for a while.

use std::fs;

use serde::Serialize;

use crate::{Machine, MachineError};

/// Memory that moves between tiers by use (`NUMA_BALANCING_MEMORY_TIERING`, kernel/sched).
const TIERING: u32 = 2;
/// Pages and tasks that move to each other (`NUMA_BALANCING_NORMAL`).
const NORMAL: u32 = 1;

const MODE: &str = "proc/sys/kernel/numa_balancing";
const RATE: &str = "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";
/// Since Linux 5.13.
const DEBUG: &str = "sys/kernel/debug/sched/numa_balancing/";
/// Before.
const SYSCTL: &str = "proc/sys/kernel/numa_balancing_";

/// The settings of NUMA balancing. `None`: not told, or, where they are to be set, left as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NumaBalancing {
    /// `kernel.numa_balancing`, of bits: 1 moves tasks and pages to each other, 2 moves hot pages to faster memory.
    pub mode: Option<u32>,
    /// Most that is moved to faster memory in a second, MB: `kernel.numa_balancing_promote_rate_limit_MBps`
    /// (Linux 6.1).
    pub promote_rate_limit_mb_s: Option<u64>,
    /// How long a task runs before its memory is first scanned, ms.
    pub scan_delay_ms: Option<u64>,
    /// The shortest time between two scans, ms: while many faults are remote.
    pub scan_period_min_ms: Option<u64>,
    /// The longest time between two scans, ms: while most are local.
    pub scan_period_max_ms: Option<u64>,
    /// Memory that one scan goes over, MB.
    pub scan_size_mb: Option<u64>,
    /// A page of slow memory that is used again within this time is hot, ms (Linux 6.1).
    pub hot_threshold_ms: Option<u64>,
}

/// Where the kernel keeps one setting.
struct Setting {
    /// Name of the file, without what is in front of it.
    name: &'static str,
    get: fn(&NumaBalancing) -> Option<u64>,
    put: fn(&mut NumaBalancing, Option<u64>),
}

/// What is in debugfs now and was a sysctl once.
const SCAN: [Setting; 5] = [
    Setting { name: "scan_delay_ms", get: |b| b.scan_delay_ms, put: |b, v| b.scan_delay_ms = v },
    Setting {
        name: "scan_period_min_ms",
        get: |b| b.scan_period_min_ms,
        put: |b, v| b.scan_period_min_ms = v,
    },
    Setting {
        name: "scan_period_max_ms",
        get: |b| b.scan_period_max_ms,
        put: |b, v| b.scan_period_max_ms = v,
    },
    Setting { name: "scan_size_mb", get: |b| b.scan_size_mb, put: |b, v| b.scan_size_mb = v },
    Setting {
        name: "hot_threshold_ms",
        get: |b| b.hot_threshold_ms,
        put: |b, v| b.hot_threshold_ms = v,
    },
];

impl NumaBalancing {
    /// Whether tasks and pages are moved to each other.
    pub fn is_on(&self) -> Option<bool> {
        self.mode.map(|mode| mode & NORMAL != 0)
    }

    /// Whether hot pages are moved to faster memory.
    pub fn is_tiering(&self) -> Option<bool> {
        self.mode.map(|mode| mode & TIERING != 0)
    }

    /// Sets what is `Some`, until the guard is dropped: then what was there before is set again. Each value is
    /// read back, as the kernel may cut it.
    ///
    /// # Errors
    /// The first setting that could not be written or did not take, or that this kernel does not have; what was
    /// written before it is as it was.
    pub fn set(&self, machine: &Machine) -> Result<BalancingGuard, MachineError> {
        let mut guard = BalancingGuard { machine: machine.clone(), before: Vec::new() };
        for (file, value) in self.files(machine) {
            // The guard, dropped at an error, takes back what was written.
            guard.put(&file, value)?;
        }
        Ok(guard)
    }

    /// Files to write, relative to the root, with what.
    fn files(&self, machine: &Machine) -> Vec<(String, u64)> {
        let folder = scan_folder(machine);
        let general = [
            (MODE.to_owned(), self.mode.map(u64::from)),
            (RATE.to_owned(), self.promote_rate_limit_mb_s),
        ];
        let scan = SCAN.iter().map(|s| (format!("{folder}{}", s.name), (s.get)(self)));
        let all = general.into_iter().chain(scan);
        all.filter_map(|(file, value)| Some((file, value?))).collect()
    }
}

/// Where this kernel has the settings of scans. Where it shows neither place, the one of today's kernels.
fn scan_folder(machine: &Machine) -> &'static str {
    let is_old = machine.path(format!("{SYSCTL}scan_delay_ms")).exists();
    if is_old { SYSCTL } else { DEBUG }
}

impl Machine {
    /// The settings of NUMA balancing: sysctls, and debugfs, which only root reads.
    pub fn numa_balancing(&self) -> NumaBalancing {
        let mut found = NumaBalancing {
            mode: self.number(MODE),
            promote_rate_limit_mb_s: self.number(RATE),
            ..NumaBalancing::default()
        };
        let folder = scan_folder(self);
        for setting in &SCAN {
            (setting.put)(&mut found, self.number(format!("{folder}{}", setting.name)));
        }
        found
    }

    /// Why the settings of scans are not told; `None` where they are, or where the kernel does not balance at all.
    pub fn scan_settings_hidden(&self) -> Option<String> {
        let shown = self.numa_balancing();
        if shown.mode.is_none() || shown.scan_delay_ms.is_some() {
            return None;
        }
        Some(match self.names("sys/kernel/debug") {
            Err(error) if error.is_denied() => "only root may read debugfs".to_owned(),
            Ok(names) if !names.is_empty() => {
                "the kernel does not expose them (CONFIG_SCHED_DEBUG)".to_owned()
            }
            _ => "debugfs is not mounted. Try: sudo mount -t debugfs nodev /sys/kernel/debug"
                .to_owned(),
        })
    }
}

/// Settings that are changed for a while; dropping it sets them as they were.
#[derive(Debug)]
#[must_use = "dropping it restores the settings"]
pub struct BalancingGuard {
    machine: Machine,
    /// What was there, oldest first.
    before: Vec<(String, u64)>,
}

impl BalancingGuard {
    /// Sets everything as it was.
    ///
    /// # Errors
    /// The first that could not be; the others are tried all the same.
    pub fn restore(mut self) -> Result<(), MachineError> {
        self.take_back()
    }

    fn put(&mut self, file: &str, value: u64) -> Result<(), MachineError> {
        let before = read(&self.machine, file)?;
        if before == value {
            return Ok(());
        }
        // Also where the writing fails half-way: to set what was there does no harm.
        self.before.push((file.to_owned(), before));
        write(&self.machine, file, value)
    }

    fn take_back(&mut self) -> Result<(), MachineError> {
        let mut result = Ok(());
        for (file, value) in self.before.drain(..).rev() {
            result = result.and(write(&self.machine, &file, value));
        }
        result
    }
}

impl Drop for BalancingGuard {
    fn drop(&mut self) {
        // Nobody is left to tell; whoever wants to know calls `restore`.
        let _ = self.take_back();
    }
}

fn read(machine: &Machine, file: &str) -> Result<u64, MachineError> {
    let text = machine.text(file)?;
    text.parse().map_err(|_| MachineError::malformed(&machine.path(file), "a number", &text))
}

fn write(machine: &Machine, file: &str, value: u64) -> Result<(), MachineError> {
    let path = machine.path(file);
    fs::write(&path, value.to_string()).map_err(|source| MachineError::Write {
        path: path.clone(),
        value,
        source,
    })?;
    match read(machine, file)? {
        found if found == value => Ok(()),
        found => Err(MachineError::NotTaken { path, value, found }),
    }
}
