//! Whose events are counted.

use pmuscope_counters::Scope;
use pmuscope_machine::{CpuSet, Machine, Topology};

use crate::error::MeasureError;

/// Whose events are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountingTarget {
    /// The command's and its children's.
    Command,
    /// Everything on all CPUs.
    System,
    /// Everything on these CPUs.
    Cpus(CpuSet),
    /// Members of a cgroup.
    Cgroup {
        /// Its path in the hierarchy that perf events know, or from the root.
        path: String,
        /// Where; all CPUs if `None`.
        cpus: Option<CpuSet>,
    },
    /// These processes, all their threads.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
}

impl CountingTarget {
    /// Whether events are bound to CPUs.
    #[must_use]
    pub fn is_of_cpus(&self) -> bool {
        matches!(self, Self::System | Self::Cpus(_) | Self::Cgroup { .. })
    }

    /// Places to open events at; `command` is the process id of a command.
    pub(super) fn scope(
        &self,
        machine: &Machine,
        topology: &Topology,
        inherit: bool,
        command: Option<u32>,
    ) -> Result<Scope, MeasureError> {
        let online = topology.online.clone();
        let tasks = |tids| Scope::Tasks { tids, inherit, cpus: topology.online.clone() };
        Ok(match self {
            Self::Command => tasks(command.into_iter().collect()),
            Self::Threads(tids) => tasks(tids.clone()),
            Self::Processes(pids) => tasks(threads(machine, pids)?),
            Self::System => Scope::Cpus(online),
            Self::Cpus(cpus) => {
                topology.check_online(cpus)?;
                Scope::Cpus(cpus.clone())
            }
            Self::Cgroup { path, cpus } => {
                let cpus = cpus.clone().unwrap_or(online);
                topology.check_online(&cpus)?;
                let directory = machine
                    .open_cgroup(path)
                    .map_err(|source| MeasureError::Cgroup { path: path.clone(), source })?;
                Scope::Cgroup { directory, path: path.clone(), cpus }
            }
        })
    }
}

/// All threads of the processes.
pub(super) fn threads(machine: &Machine, pids: &[u32]) -> Result<Vec<u32>, MeasureError> {
    let mut tids = Vec::new();
    for &pid in pids {
        tids.extend(machine.threads(pid)?);
    }
    Ok(tids)
}
