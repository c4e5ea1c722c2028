//! What can change the times of a benchmark: recorded with every run, and checked before it.

use serde::Serialize;

use crate::capabilities::{CapabilityReason, Fix};
use crate::{Activity, CpuSet, Frequency, Limits, Machine, MachineError, Sign, Smt};

/// The state of the machine that times depend on, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Environment {
    /// `uname -r`.
    pub kernel_release: String,
    /// Online CPUs.
    pub cpus: usize,
    /// CPUs that this process may run on, by its cpuset and its own choice: `/proc/self/status`.
    pub allowed: Option<CpuSet>,
    /// CPUs that the scheduler puts nothing on by itself: `/sys/devices/system/cpu/isolated`.
    pub isolated: Option<CpuSet>,
    /// What CPUs did before anything was measured on them; `None` where nobody looked.
    pub activity: Option<Activity>,
    /// Nodes with CPUs.
    pub nodes: usize,
    /// Clock control.
    pub frequency: Frequency,
    /// Hardware threads.
    pub smt: Smt,
    /// The hypervisor, if any.
    pub hypervisor: Option<Sign>,
    /// What translates the machine's instructions, if the CPU itself does not run them.
    pub emulator: Option<Sign>,
    /// Runnable tasks, averaged over 1, 5 and 15 minutes: `/proc/loadavg`.
    pub load_average: Option<[f64; 3]>,
    /// `kernel.numa_balancing`: whether the kernel moves pages to their users by itself.
    pub numa_balancing: Option<bool>,
    /// `/sys/kernel/mm/transparent_hugepage/enabled`: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// `kernel.randomize_va_space`: 0 means that addresses are the same in every run.
    pub address_randomisation: Option<u32>,
    /// Sysctls and resource limits.
    pub limits: Limits,
}

impl Machine {
    /// Reads the environment of a benchmark.
    ///
    /// # Errors
    /// If neither kernel nor CPUs can be told.
    pub fn environment(&self) -> Result<Environment, MachineError> {
        let topology = self.topology()?;
        let virtualization = self.virtualization(&self.processor());
        Ok(Environment {
            kernel_release: self.kernel()?.release,
            cpus: topology.online.len(),
            allowed: self.allowed_cpus(),
            isolated: self.cpu_list("sys/devices/system/cpu/isolated"),
            activity: None,
            nodes: topology.node_groups().len(),
            frequency: self.frequency(&topology),
            smt: self.smt(&topology),
            hypervisor: virtualization.hypervisor,
            emulator: virtualization.emulator,
            load_average: self.load_average(),
            numa_balancing: self
                .number::<u32>("proc/sys/kernel/numa_balancing")
                .map(|value| value != 0),
            transparent_huge_pages: self.huge_pages(),
            address_randomisation: self.number("proc/sys/kernel/randomize_va_space"),
            limits: self.limits(),
        })
    }

    fn load_average(&self) -> Option<[f64; 3]> {
        let text = self.text("proc/loadavg").ok()?;
        let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
        Some([words.next()??, words.next()??, words.next()??])
    }

    fn allowed_cpus(&self) -> Option<CpuSet> {
        let text = self.text("proc/self/status").ok()?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        CpuSet::parse(list.trim()).ok()
    }

    /// `always [madvise] never`.
    pub(crate) fn huge_pages(&self) -> Option<String> {
        let text = self.text("sys/kernel/mm/transparent_hugepage/enabled").ok()?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }
}

impl Environment {
    /// What would make times vary or hard to compare, with what to type. Nothing of it forbids a run.
    pub fn concerns(&self) -> Vec<CapabilityReason> {
        let of_machine = [
            self.load(),
            self.cpuset(),
            self.governor(),
            self.boost(),
            self.guest(),
            self.threads(),
        ];
        let of_cpus = self.activity.iter().flat_map(Activity::concerns);
        of_machine.into_iter().flatten().chain(of_cpus).collect()
    }

    fn load(&self) -> Option<CapabilityReason> {
        let [load, ..] = self.load_average?;
        let tolerable = (self.cpus as f64 * 0.1).max(0.5);
        (load > tolerable).then(|| CapabilityReason {
            effect: "other processes are using the CPUs".to_owned(),
            why: format!("the load average is {load:.2} on {} CPUs", self.cpus),
            fix: Some(Fix::text("wait, or find the processes with top")),
        })
    }

    fn cpuset(&self) -> Option<CapabilityReason> {
        let allowed = self.allowed.as_ref().filter(|allowed| allowed.len() < self.cpus)?;
        Some(CapabilityReason {
            effect: "programs started from here cannot use the other CPUs".to_owned(),
            why: format!(
                "this process may run only on CPUs {allowed}, {} of {}",
                allowed.len(),
                self.cpus
            ),
            fix: Some(Fix::text("cat /proc/self/cpuset, or taskset -p $$")),
        })
    }

    fn governor(&self) -> Option<CapabilityReason> {
        let governors = &self.frequency.governors;
        let slow = governors.iter().find(|governor| governor.name != "performance")?;
        Some(CapabilityReason {
            effect: "times vary with the CPU frequency".to_owned(),
            why: format!("the frequency governor of CPU {} is {}", slow.cpus, slow.name),
            fix: Some(Fix::text("sudo cpupower frequency-set -g performance")),
        })
    }

    fn boost(&self) -> Option<CapabilityReason> {
        (self.frequency.boost == Some(true)).then(|| CapabilityReason {
            effect: "the CPU frequency depends on load and temperature".to_owned(),
            why: "turbo (boost) is on".to_owned(),
            fix: Some(Fix::text(match self.frequency.driver.as_deref() {
                Some("intel_pstate") => {
                    "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
                }
                _ => "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
            })),
        })
    }

    fn guest(&self) -> Option<CapabilityReason> {
        if let Some(sign) = &self.emulator {
            return Some(CapabilityReason {
                effect: "times and rates are the emulator's; placement and counts are valid"
                    .to_owned(),
                why: format!("this machine is emulated ({})", sign.name),
                fix: None,
            });
        }
        let sign = self.hypervisor.as_ref()?;
        Some(CapabilityReason {
            effect: "other VMs on the host take time that is invisible here".to_owned(),
            why: format!("this is a virtual machine ({})", sign.name),
            fix: None,
        })
    }

    fn threads(&self) -> Option<CapabilityReason> {
        self.smt.active.then(|| CapabilityReason {
            effect: "threads that share a core slow each other down".to_owned(),
            why: format!("SMT is on, {} threads per core", self.smt.threads_per_core),
            fix: Some(Fix::text("echo off | sudo tee /sys/devices/system/cpu/smt/control")),
        })
    }
}
