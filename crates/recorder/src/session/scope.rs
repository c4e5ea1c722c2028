//! From the target to the places at which events are opened, and to the processes whose end is awaited.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use pmuscope_counters::Scope;
use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::{CpuSet, Machine, OwnCgroup, Topology};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Session;
use super::threads::threads;
use crate::error::RecorderError;
use crate::options::{Only, RecordOptions, Target};

/// The places to open events at; a command that is to have a cgroup is in `cgroup`.
pub(super) fn scope(
    options: &RecordOptions,
    machine: &Machine,
    topology: &Topology,
    child: Option<&HeldChild>,
    cgroup: Option<&OwnCgroup>,
) -> Result<Scope, RecorderError> {
    let online = topology.online.clone();
    let tasks = |tids| tasks(options, topology, tids);
    Ok(match &options.target {
        Target::System => Scope::Cpus(online),
        Target::Cpus(cpus) => {
            check_online(topology, cpus)?;
            Scope::Cpus(cpus.clone())
        }
        Target::CommandInCgroup => {
            let directory = cgroup.map_or(Path::new(""), OwnCgroup::directory);
            let refused = |source| cgroup_error(directory.display(), source);
            let opened = File::open(directory).map_err(refused)?;
            Scope::Cgroup {
                directory: opened.into(),
                path: directory.display().to_string(),
                cpus: online,
            }
        }
        Target::Command => tasks(child.map(HeldChild::pid).into_iter().collect()),
        Target::Processes(pids) => tasks(threads(machine, pids)?),
        Target::Threads(tids) => tasks(tids.clone()),
        Target::Cgroup { path, cpus } => {
            let cpus = cpus.clone().unwrap_or(online);
            check_online(topology, &cpus)?;
            let opened = machine.open_cgroup(path);
            let directory = opened.map_err(|source| cgroup_error(path, source))?;
            Scope::Cgroup { directory, path: path.clone(), cpus }
        }
    })
}

/// Threads, on all CPUs with what they start, or on their own.
pub(super) fn tasks(options: &RecordOptions, topology: &Topology, tids: Vec<u32>) -> Scope {
    match options.per_thread {
        true => Scope::Threads(tids),
        false => Scope::Tasks { tids, inherit: options.inherit, cpus: topology.online.clone() },
    }
}

fn check_online(topology: &Topology, cpus: &CpuSet) -> Result<(), RecorderError> {
    let refused = |error| RecorderError::Options(format!("-C {cpus}: {error}"));
    topology.check_online(cpus).map_err(refused)
}

fn cgroup_error(path: impl Display, source: io::Error) -> RecorderError {
    RecorderError::Cgroup { path: path.to_string(), source }
}

/// Puts the command into a cgroup of its own, if that is the target.
pub(super) fn own_cgroup(
    options: &RecordOptions,
    machine: &Machine,
    child: Option<&HeldChild>,
) -> Result<Option<OwnCgroup>, RecorderError> {
    let Some(child) = child.filter(|_| options.target == Target::CommandInCgroup) else {
        return Ok(None);
    };
    let refused = |(path, source)| RecorderError::OwnCgroup { path, source };
    let cgroup = OwnCgroup::new(machine).map_err(refused)?;
    match cgroup.add(child.pid()) {
        Ok(()) => Ok(Some(cgroup)),
        Err(source) => Err(refused((cgroup.directory().to_owned(), source))),
    }
}

impl Session<'_> {
    /// Descriptors that tell the end of processes observed by id. One that is gone already is not
    /// waited for.
    pub(super) fn observed_processes(&self) -> Vec<OwnedFd> {
        let pids = match (&self.options.target, self.options.only()) {
            (Target::Processes(pids), _) | (_, Only::Processes(pids)) => pids.clone(),
            (Target::Threads(tids), _) | (_, Only::Threads(tids)) => self.processes_of(tids),
            _ => return Vec::new(),
        };
        pids.iter()
            .filter_map(|&pid| Pid::from_raw(pid as i32))
            .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .collect()
    }

    /// The processes of these threads.
    pub(super) fn processes_of(&self, tids: &[u32]) -> Vec<u32> {
        let mut pids: Vec<u32> = tids
            .iter()
            .filter_map(|&tid| self.machine.task(tid, tid).ok())
            .map(|task| task.tgid)
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}
