//! From the target to the places at which events are opened, and to the processes whose end is awaited.

use std::fs::File;
use std::os::fd::OwnedFd;

use pmuscope_counters::Scope;
use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::{Machine, MachineError, OwnCgroup, Target, Topology};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Session;
use crate::error::RecorderError;
use crate::options::RecordOptions;

/// The places to open events at; a command that is to have a cgroup is in `cgroup`.
pub(super) fn scope(
    options: &RecordOptions,
    machine: &Machine,
    topology: &Topology,
    child: Option<&HeldChild>,
    cgroup: Option<&OwnCgroup>,
) -> Result<Scope, RecorderError> {
    if let (Target::CommandInCgroup, Some(cgroup)) = (&options.target, cgroup) {
        let path = cgroup.directory().display().to_string();
        return match File::open(cgroup.directory()) {
            Ok(folder) => {
                Ok(Scope::Cgroup { directory: folder.into(), path, cpus: topology.online.clone() })
            }
            Err(source) => Err(MachineError::Cgroup { path, source }.into()),
        };
    }
    let command = child.map(HeldChild::pid);
    Ok(match Scope::of(&options.target, (machine, topology), options.inherit, command)? {
        Scope::Tasks { tids, .. } => tasks(options, topology, tids),
        of_cpus => of_cpus,
    })
}

/// Threads, on all CPUs with what they start, or on their own.
pub(super) fn tasks(options: &RecordOptions, topology: &Topology, tids: Vec<u32>) -> Scope {
    match options.per_thread {
        true => Scope::Threads(tids),
        false => Scope::Tasks { tids, inherit: options.inherit, cpus: topology.online.clone() },
    }
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
            (Target::Processes(pids), _) | (_, Some(Target::Processes(pids))) => pids.clone(),
            (Target::Threads(tids), _) | (_, Some(Target::Threads(tids))) => {
                self.processes_of(tids)
            }
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
