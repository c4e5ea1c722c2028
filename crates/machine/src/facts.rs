//! Everything that decides what works here, in one value.

use std::path::PathBuf;

use serde::Serialize;

use crate::error::MOUNT_TRACEFS;
use crate::probe::{CounterCount, Probes};
use crate::{
    Cache, CpuSet, Frequency, Kernel, Limits, Machine, MachineError, Pmu, Processor, Rights,
    RingBudget, Smt, Topology, Virtualization, place,
};

/// Everything that decides what works on a machine and what not: the `machine` of every JSON output.
///
/// What the kernel does not tell is `None`; lists that are empty for a reason have it beside them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts {
    /// The running kernel.
    pub kernel: Kernel,
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub distribution: Option<String>,
    /// `ID` and `ID_LIKE` of `/etc/os-release`: which package manager a hint should name.
    pub distribution_ids: Vec<String>,
    /// The processor.
    pub processor: Processor,
    /// Caches, by level.
    pub caches: Vec<Cache>,
    /// Clock control.
    pub frequency: Frequency,
    /// Hardware threads.
    pub smt: Smt,
    /// CPUs and nodes.
    pub topology: Topology,
    /// Bytes of memory that the kernel manages; see [`Machine::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// Performance monitoring units.
    pub units: PmuUnits,
    /// Sysctls and resource limits.
    pub limits: Limits,
    /// Who asks.
    pub rights: Rights,
    /// Ring memory.
    pub ring_budget: RingBudget,
    /// Virtual machine, container, filters.
    #[serde(rename = "surroundings")]
    pub virtualization: Virtualization,
    /// Whether this process sees addresses in `/proc/kallsyms`.
    pub kernel_addresses: bool,
    /// Tracepoints.
    pub tracepoints: Tracepoints,
    /// Where cgroups are mounted that events can be bound to.
    pub event_cgroups: Option<PathBuf>,
    /// Whether the kernel has type information for BPF programs: `/sys/kernel/btf/vmlinux`.
    pub btf: bool,
    /// Where stock perf is installed, if it is.
    pub perf: Option<PathBuf>,
    /// QEMU's programs for guests of x86-64 and aarch64, as far as they are installed.
    pub emulators: Vec<PathBuf>,
    /// What was tried.
    pub probes: Probes,
}

/// Performance monitoring units.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PmuUnits {
    /// By name.
    pub units: Vec<PmuFacts>,
    /// Counters of each core, if the CPU tells and the kernel uses them.
    pub counters: Option<CounterCount>,
    /// Why there is no unit that counts instructions and cycles.
    pub why: Option<String>,
}

/// A performance monitoring unit in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PmuFacts {
    /// Its name.
    pub name: String,
    /// `attr.type` of its events.
    #[serde(rename = "type")]
    pub type_number: u32,
    /// Whether it counts what cores do: cycles, instructions, branches.
    pub is_core: bool,
    /// CPUs that have it; `None`: all.
    pub cpus: Option<CpuSet>,
    /// CPUs to open its events on; `None`: each one.
    pub cpumask: Option<CpuSet>,
    /// How many events the kernel knows by name.
    pub named_events: usize,
    /// Entries of a branch stack; `None` without one.
    pub branches: Option<u32>,
}

/// Whether tracepoints can be named.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tracepoints {
    /// Whether tracefs can be read.
    pub readable: bool,
    /// Why not; what to do about it is no part of it.
    pub why: Option<String>,
    /// What to type where mounting is all that is missing.
    #[serde(skip)]
    pub fix: Option<&'static str>,
}

impl PmuUnits {
    /// Units that count cycles and instructions; more than one on a hybrid CPU.
    pub fn core(&self) -> impl Iterator<Item = &PmuFacts> {
        self.units.iter().filter(|unit| unit.is_core)
    }

    /// Whether there is a unit of this name.
    pub fn has(&self, name: &str) -> bool {
        self.units.iter().any(|unit| unit.name == name)
    }
}

impl Machine {
    /// Reads all facts. `probes` and `counters` come from the host itself ([`crate::probe`]); those of a
    /// fixture are empty.
    ///
    /// # Errors
    /// If neither kernel nor CPUs can be told.
    pub fn facts(
        &self,
        probes: Probes,
        counters: Option<CounterCount>,
    ) -> Result<Facts, MachineError> {
        let topology = self.topology()?;
        let processor = self.processor();
        let limits = self.limits();
        let rights = self.rights();
        let (distribution, distribution_ids) = self.distribution();
        let page = place::page_size() as u64;
        Ok(Facts {
            memory_bytes: self.memory_bytes(),
            kernel: self.kernel()?,
            distribution,
            distribution_ids,
            caches: self.caches(&topology),
            frequency: self.frequency(&topology),
            smt: self.smt(&topology),
            units: self.units(counters),
            ring_budget: RingBudget::of(&limits, &rights, topology.online.len(), page),
            virtualization: self.virtualization(&processor),
            kernel_addresses: self.kernel_text_start().is_some(),
            tracepoints: self.tracepoints_readable(),
            event_cgroups: self.event_cgroups(),
            btf: self.path("sys/kernel/btf/vmlinux").exists(),
            perf: self.program("perf"),
            emulators: ["qemu-system-x86_64", "qemu-system-aarch64"]
                .into_iter()
                .filter_map(|name| self.program(name))
                .collect(),
            processor,
            limits,
            rights,
            topology,
            probes,
        })
    }

    fn distribution(&self) -> (Option<String>, Vec<String>) {
        let text = self.text("etc/os-release").unwrap_or_default();
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.map(|value| value.trim_matches(['"', '\'']).to_owned())
        };
        let mut ids: Vec<String> = value("ID").into_iter().collect();
        let like = value("ID_LIKE").unwrap_or_default();
        ids.extend(like.split_ascii_whitespace().map(str::to_owned));
        (value("PRETTY_NAME"), ids)
    }

    fn units(&self, counters: Option<CounterCount>) -> PmuUnits {
        let pmus = match self.pmus() {
            Ok(pmus) => pmus,
            Err(error) => return PmuUnits { why: Some(error.to_string()), ..PmuUnits::default() },
        };
        let units: Vec<PmuFacts> = pmus.iter().map(unit).collect();
        let has_core = units.iter().any(|unit| unit.is_core);
        PmuUnits {
            counters: counters.filter(|_| has_core),
            why: (!has_core).then(|| "the kernel found no PMU".to_owned()),
            units,
        }
    }

    fn tracepoints_readable(&self) -> Tracepoints {
        let error = self.tracefs_error();
        Tracepoints {
            readable: error.is_none(),
            fix: matches!(error, Some(MachineError::NoTracefs)).then_some(MOUNT_TRACEFS),
            why: error.map(|error| error.why_no_tracepoints()),
        }
    }

    /// A program where distributions put it.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        ["usr/bin", "usr/local/bin", "usr/sbin", "bin"]
            .into_iter()
            .map(|folder| self.path(folder).join(name))
            .find(|path| path.is_file())
    }
}

fn unit(pmu: &Pmu) -> PmuFacts {
    PmuFacts {
        name: pmu.name.clone(),
        type_number: pmu.type_number,
        is_core: pmu.is_core(),
        cpus: pmu.cpus.clone(),
        cpumask: pmu.cpumask.clone(),
        named_events: pmu.events.len(),
        branches: pmu.caps.get("branches").and_then(|text| text.parse().ok()).filter(|&n| n > 0),
    }
}
