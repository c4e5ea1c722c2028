//! Whose events are counted.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pmuscope_counters::Scope;
use pmuscope_machine::{CpuSet, Machine, Topology};

use crate::error::MeasureError;

/// Whose events are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
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

impl Target {
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
            Self::Cpus(cpus) => Scope::Cpus(online_ones(cpus, &online)?),
            Self::Cgroup { path, cpus } => {
                let cpus = cpus.as_ref().map_or(Ok(online.clone()), |c| online_ones(c, &online))?;
                let directory = open_cgroup(machine, path)
                    .map_err(|source| MeasureError::Cgroup { path: path.clone(), source })?;
                Scope::Cgroup { directory, path: path.clone(), cpus }
            }
        })
    }
}

fn online_ones(asked: &CpuSet, online: &CpuSet) -> Result<CpuSet, MeasureError> {
    let missing = asked.difference(online);
    if missing.is_empty() {
        return Ok(asked.clone());
    }
    Err(MeasureError::Offline { asked: asked.clone(), missing, online: online.clone() })
}

/// All threads of the processes.
pub(super) fn threads(machine: &Machine, pids: &[u32]) -> Result<Vec<u32>, MeasureError> {
    let mut tids = Vec::new();
    for &pid in pids {
        tids.extend(machine.threads(pid)?);
    }
    Ok(tids)
}

fn open_cgroup(machine: &Machine, path: &str) -> io::Result<OwnedFd> {
    let file = File::open(cgroup_folder(machine, path))?;
    if file.metadata()?.is_dir() {
        Ok(file.into())
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// By its path below the mount of the hierarchy that perf events know, or from the root.
fn cgroup_folder(machine: &Machine, path: &str) -> PathBuf {
    let below = Path::new(path.trim_start_matches('/'));
    let mount = machine.perf_cgroup_mount().unwrap_or_else(|| machine.root().join("sys/fs/cgroup"));
    let from_root = machine.root().join(below);
    if path.starts_with('/') && from_root.starts_with(&mount) {
        from_root
    } else {
        mount.join(below)
    }
}
