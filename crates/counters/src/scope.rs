//! Whose events are observed.

use std::os::fd::OwnedFd;

use pmuscope_machine::{CpuSet, Machine, MachineError, Target, Topology};

/// Whose events are observed, and on which CPUs.
#[derive(Debug)]
pub enum Scope {
    /// Everything that runs on these CPUs.
    Cpus(CpuSet),
    /// What runs on these CPUs inside a cgroup.
    Cgroup {
        /// The cgroup's directory in the perf_event (v1) or unified (v2) hierarchy.
        directory: OwnedFd,
        /// Its path, for messages.
        path: String,
        /// Where.
        cpus: CpuSet,
    },
    /// These threads, on these CPUs, with one ring buffer per CPU: the only form in which children
    /// can be followed, since the kernel refuses to map an inherited event that is not bound to a
    /// CPU.
    Tasks {
        /// Thread ids; each is opened on each CPU.
        tids: Vec<u32>,
        /// Children and new threads too.
        inherit: bool,
        /// Where.
        cpus: CpuSet,
    },
    /// These threads on any CPU, one ring buffer each, without their children.
    Threads(Vec<u32>),
}

/// One `perf_event_open`: a task (or any) on a CPU (or any).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadOrCpu {
    pub(crate) cpu: Option<u32>,
    pub(crate) tid: Option<u32>,
}

impl Scope {
    /// The scope of a target, on the CPUs that it names or on all; `command` is the process ID of a command
    /// that was started for it. A command with its own cgroup must be moved into it by the caller.
    ///
    /// # Errors
    /// A process, CPU or cgroup does not exist.
    pub fn of(
        target: &Target,
        (machine, topology): (&Machine, &Topology),
        inherit: bool,
        command: Option<u32>,
    ) -> Result<Self, MachineError> {
        let cpus = target.cpus(&topology.online).clone();
        topology.check_online(&cpus)?;
        Ok(match target {
            Target::System | Target::Cpus(_) => Self::Cpus(cpus),
            Target::Cgroup { path, .. } => {
                Self::Cgroup { directory: machine.open_cgroup(path)?, path: path.clone(), cpus }
            }
            Target::Command | Target::CommandInCgroup => {
                Self::Tasks { tids: command.into_iter().collect(), inherit, cpus }
            }
            Target::Processes(pids) => {
                Self::Tasks { tids: machine.threads_of(pids)?, inherit, cpus }
            }
            Target::Threads(tids) => Self::Tasks { tids: tids.clone(), inherit, cpus },
        })
    }

    /// Inherited events follow children.
    #[must_use]
    pub fn inherits(&self) -> bool {
        matches!(self, Self::Tasks { inherit: true, .. })
    }

    /// The rings this scope needs, each with the places that write to it, in order of CPU.
    pub(crate) fn rings(&self) -> Vec<Vec<ThreadOrCpu>> {
        match self {
            Self::Cpus(cpus) | Self::Cgroup { cpus, .. } => {
                cpus.iter().map(|cpu| vec![ThreadOrCpu { cpu: Some(cpu), tid: None }]).collect()
            }
            Self::Tasks { tids, cpus, .. } => cpus
                .iter()
                .map(|cpu| {
                    tids.iter().map(|&tid| ThreadOrCpu { cpu: Some(cpu), tid: Some(tid) }).collect()
                })
                .collect(),
            Self::Threads(tids) => {
                tids.iter().map(|&tid| vec![ThreadOrCpu { cpu: None, tid: Some(tid) }]).collect()
            }
        }
    }

    /// Where to open events that only count: as [`Scope::rings`], but threads need no CPU, since nothing
    /// is mapped.
    pub(crate) fn counted_places(&self) -> Vec<Vec<ThreadOrCpu>> {
        match self {
            Self::Tasks { tids, .. } => {
                tids.iter().map(|&tid| vec![ThreadOrCpu { cpu: None, tid: Some(tid) }]).collect()
            }
            _ => self.rings(),
        }
    }

    /// How many descriptors an event takes that only counts, on those of the CPUs that it can count on.
    #[must_use]
    pub fn descriptors(&self, cpus: Option<&CpuSet>) -> u64 {
        let counts =
            |place: &&ThreadOrCpu| place.cpu.zip(cpus).is_none_or(|(cpu, cpus)| cpus.contains(cpu));
        self.counted_places().iter().flatten().filter(counts).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_on_cpus_share_the_ring_of_the_cpu() {
        let cpus = CpuSet::from_iter([0, 5]);
        let scope = Scope::Tasks { tids: vec![10, 11], inherit: true, cpus };
        let rings = scope.rings();
        assert_eq!(rings.len(), 2);
        assert_eq!(
            rings[1],
            [
                ThreadOrCpu { cpu: Some(5), tid: Some(10) },
                ThreadOrCpu { cpu: Some(5), tid: Some(11) }
            ]
        );
    }

    #[test]
    fn each_thread_has_a_ring_of_its_own_when_bound_to_no_cpu() {
        let rings = Scope::Threads(vec![10, 11]).rings();
        assert_eq!(
            rings,
            [
                [ThreadOrCpu { cpu: None, tid: Some(10) }],
                [ThreadOrCpu { cpu: None, tid: Some(11) }]
            ]
        );
    }
}
