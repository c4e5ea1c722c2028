//! From the target to the places at which events are opened, and to the processes whose end is awaited.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use pmuscope_counters::Scope;
use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::{Machine, OwnCgroup, Topology};
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
            let missing = cpus.difference(&online);
            if !missing.is_empty() {
                return Err(RecorderError::Options(format!(
                    "-C {cpus}: CPU {missing} is not online (online: {online})"
                )));
            }
            Scope::Cpus(cpus.clone())
        }
        Target::CommandInCgroup => {
            let directory = cgroup.map_or(Path::new(""), OwnCgroup::directory);
            Scope::Cgroup {
                directory: open_directory(directory)?,
                path: directory.display().to_string(),
                cpus: online,
            }
        }
        Target::Command => tasks(child.map(HeldChild::pid).into_iter().collect()),
        Target::Processes(pids) => tasks(threads(machine, pids)?),
        Target::Threads(tids) => tasks(tids.clone()),
        Target::Cgroup { path, cpus } => Scope::Cgroup {
            directory: open_cgroup(machine, path)?,
            path: path.clone(),
            cpus: cpus.clone().unwrap_or(online),
        },
    })
}

/// Threads, on all CPUs with what they start, or on their own.
pub(super) fn tasks(options: &RecordOptions, topology: &Topology, tids: Vec<u32>) -> Scope {
    match options.per_thread {
        true => Scope::Threads(tids),
        false => Scope::Tasks { tids, inherit: options.inherit, cpus: topology.online.clone() },
    }
}

/// By its path below the mount of the hierarchy that perf events know, or from the root.
fn open_cgroup(machine: &Machine, path: &str) -> Result<OwnedFd, RecorderError> {
    let default = || machine.root().join("sys/fs/cgroup");
    let mount = machine.perf_cgroup_mount().unwrap_or_else(default);
    let from_root = machine.root().join(path.trim_start_matches('/'));
    if path.starts_with('/') && from_root.starts_with(&mount) {
        return open_directory(&from_root);
    }
    open_directory(&mount.join(path.trim_start_matches('/')))
}

fn open_directory(path: &Path) -> Result<OwnedFd, RecorderError> {
    let opened = std::fs::File::open(path).and_then(|file| {
        if file.metadata()?.is_dir() { Ok(file) } else { Err(io::ErrorKind::NotADirectory.into()) }
    });
    match opened {
        Ok(file) => Ok(file.into()),
        Err(source) => Err(RecorderError::Cgroup { path: path.display().to_string(), source }),
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
