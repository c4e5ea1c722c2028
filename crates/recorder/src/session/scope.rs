//! From the target to the places at which events are opened.

use std::io;
use std::os::fd::OwnedFd;

use pmuscope_counters::Scope;
use pmuscope_counters::spawn::HeldChild;
use pmuscope_machine::{Machine, Topology};

use super::threads::threads;
use crate::error::RecorderError;
use crate::options::{RecordOptions, Target};

/// The places to open events at.
pub(super) fn scope(
    options: &RecordOptions,
    machine: &Machine,
    topology: &Topology,
    child: Option<&HeldChild>,
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

/// In the perf_event hierarchy of cgroup v1 if there is one, else in the unified one.
fn open_cgroup(machine: &Machine, path: &str) -> Result<OwnedFd, RecorderError> {
    let mount = machine.root().join("sys/fs/cgroup");
    let below = path.trim_start_matches('/');
    let below = below.strip_prefix("sys/fs/cgroup/").unwrap_or(below);
    let v1 = mount.join("perf_event");
    let directory = if v1.is_dir() { v1.join(below) } else { mount.join(below) };
    let opened = std::fs::File::open(&directory).and_then(|file| {
        if file.metadata()?.is_dir() { Ok(file) } else { Err(io::ErrorKind::NotADirectory.into()) }
    });
    match opened {
        Ok(file) => Ok(file.into()),
        Err(source) => Err(RecorderError::Cgroup { path: directory.display().to_string(), source }),
    }
}
