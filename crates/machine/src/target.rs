//! Targets: what events are observed of, and what is placed.

use std::fmt;

use crate::{CpuSet, Machine, MachineError};

/// What is recorded, counted, watched or placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The command that is started for it, and its children.
    Command,
    /// The command, on all CPUs in a cgroup made for it: clocks go on from one of its tasks to the
    /// next, where those of [`Target::Command`] begin anew with each.
    CommandInCgroup,
    /// Everything on all online CPUs.
    System,
    /// Everything on these CPUs.
    Cpus(CpuSet),
    /// The members of a cgroup.
    Cgroup {
        /// Its path, as for [`Machine::open_cgroup`].
        path: String,
        /// On these CPUs; on all if `None`.
        cpus: Option<CpuSet>,
    },
    /// All threads of these processes.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
}

impl Target {
    /// Whether events are bound to CPUs, whoever runs there, and not to tasks.
    #[must_use]
    pub fn is_of_cpus(&self) -> bool {
        match self {
            Self::System | Self::Cpus(_) | Self::Cgroup { .. } | Self::CommandInCgroup => true,
            Self::Command | Self::Processes(_) | Self::Threads(_) => false,
        }
    }

    /// Whether it runs already and is known by its number.
    #[must_use]
    pub fn is_by_number(&self) -> bool {
        matches!(self, Self::Processes(_) | Self::Threads(_))
    }

    /// Processes that are known by their number; none of other targets.
    #[must_use]
    pub fn pids(&self) -> &[u32] {
        match self {
            Self::Processes(pids) => pids,
            _ => &[],
        }
    }

    /// The CPUs that it is on; `online` where it does not say.
    #[must_use]
    pub fn cpus<'a>(&'a self, online: &'a CpuSet) -> &'a CpuSet {
        match self {
            Self::Cpus(cpus) | Self::Cgroup { cpus: Some(cpus), .. } => cpus,
            _ => online,
        }
    }
}

/// In words, as in "all CPUs", "processes 7,8".
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |f: &mut fmt::Formatter<'_>, [one, several]: [&str; 2], numbers: &[u32]| {
            let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
            write!(f, "{} {}", if texts.len() == 1 { one } else { several }, texts.join(","))
        };
        match self {
            Self::Command | Self::CommandInCgroup => f.write_str("the command"),
            Self::System => f.write_str("all CPUs"),
            Self::Cpus(cpus) if cpus.len() == 1 => write!(f, "CPU {cpus}"),
            Self::Cpus(cpus) => write!(f, "CPUs {cpus}"),
            Self::Cgroup { path, cpus: None } => write!(f, "cgroup {path}"),
            Self::Cgroup { path, cpus: Some(cpus) } => write!(f, "cgroup {path} on CPUs {cpus}"),
            Self::Processes(pids) => listed(f, ["process", "processes"], pids),
            Self::Threads(tids) => listed(f, ["thread", "threads"], tids),
        }
    }
}

impl Machine {
    /// All threads of these processes.
    ///
    /// # Errors
    /// As [`Machine::threads`], of the first that is not there.
    pub fn threads_of(&self, pids: &[u32]) -> Result<Vec<u32>, MachineError> {
        let mut tids = Vec::new();
        for &pid in pids {
            tids.extend(self.threads(pid)?);
        }
        Ok(tids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_words() {
        assert_eq!(Target::Processes(vec![7]).to_string(), "process 7");
        assert_eq!(Target::Threads(vec![7, 8]).to_string(), "threads 7,8");
        assert_eq!(Target::Cpus(CpuSet::parse("0-2").unwrap()).to_string(), "CPUs 0-2");
    }

    #[test]
    fn targets_without_cpus_are_on_all_online() {
        let (online, one) = (CpuSet::parse("0-3").unwrap(), CpuSet::parse("2").unwrap());
        assert_eq!(Target::System.cpus(&online), &online);
        assert_eq!(Target::Cpus(one.clone()).cpus(&online), &one);
        let cgroup = Target::Cgroup { path: "a".into(), cpus: Some(one.clone()) };
        assert_eq!(cgroup.cpus(&online), &one);
    }
}
