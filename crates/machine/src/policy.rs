//! Where the kernel takes pages from for a thread: `set_mempolicy(2)`.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{CpuSet, sys};

/// From which nodes a thread's new pages are taken. Pages that are there already stay where they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// What the kernel does unasked: the node of the CPU that touches a page first.
    #[default]
    Default,
    /// The node of the CPU that touches a page first, whatever the process was told.
    Local,
    /// These nodes only.
    Bind(CpuSet),
    /// One page from each of these nodes in turn.
    Interleave(CpuSet),
    /// As [`Self::Interleave`], as many from each node in turn as its weight says
    /// (`/sys/kernel/mm/mempolicy/weighted_interleave`); from Linux 6.9 on.
    WeightedInterleave(CpuSet),
}

/// A text that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a memory policy. Try: default, local, bind:NODES, interleave:NODES or \
     weighted-interleave:NODES, as in interleave:0-3"
)]
pub struct PolicyError {
    text: String,
}

impl MemoryPolicy {
    /// Its name, as numactl(8) has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Local => "local",
            Self::Bind(_) => "bind",
            Self::Interleave(_) => "interleave",
            Self::WeightedInterleave(_) => "weighted-interleave",
        }
    }

    /// The nodes it names.
    pub fn nodes(&self) -> Option<&CpuSet> {
        match self {
            Self::Default | Self::Local => None,
            Self::Bind(nodes) | Self::Interleave(nodes) | Self::WeightedInterleave(nodes) => {
                Some(nodes)
            }
        }
    }

    /// Makes it the calling thread's. It is handed on to threads and processes that it starts.
    ///
    /// # Errors
    /// `EINVAL` for a node that is not there or has no memory, and for a policy that this kernel does not
    /// know; `ENOSYS` on kernels without NUMA, where [`Self::Default`] and [`Self::Local`] are all there is.
    pub fn apply(&self) -> io::Result<()> {
        // include/uapi/linux/mempolicy.h.
        let mode = match self {
            Self::Default => 0,
            Self::Bind(_) => 2,
            Self::Interleave(_) => 3,
            Self::Local => 4,
            Self::WeightedInterleave(_) => 6,
        };
        match sys::set_mempolicy(mode, self.nodes().map_or(&[], CpuSet::words)) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) && self.nodes().is_none() => {
                Ok(())
            }
            other => other,
        }
    }
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.nodes().map_or(Ok(()), |nodes| write!(f, ":{nodes}"))
    }
}

impl FromStr for MemoryPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = || PolicyError { text: text.to_owned() };
        let Some((name, nodes)) = text.split_once(':') else {
            return match text {
                "default" => Ok(Self::Default),
                "local" => Ok(Self::Local),
                _ => Err(wrong()),
            };
        };
        let nodes = CpuSet::parse(nodes).ok().filter(|nodes| !nodes.is_empty());
        let nodes = nodes.ok_or_else(wrong)?;
        match name {
            "bind" => Ok(Self::Bind(nodes)),
            "interleave" => Ok(Self::Interleave(nodes)),
            "weighted-interleave" => Ok(Self::WeightedInterleave(nodes)),
            _ => Err(wrong()),
        }
    }
}

impl Serialize for MemoryPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MemoryPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
    use crate::place::{current_cpu, node_of_pages, page_size};

    #[test]
    fn a_policy_is_written_as_it_is_read() {
        let texts = ["default", "local", "bind:1", "interleave:0-3", "weighted-interleave:0,2"];
        for text in texts {
            assert_eq!(text.parse::<MemoryPolicy>().unwrap().to_string(), text);
        }
        for text in ["", "bind", "bind:", "bind:x", "interleave:", "default:0", "preferred:0"] {
            let error = text.parse::<MemoryPolicy>().unwrap_err().to_string();
            assert!(error.contains("interleave:0-3"), "{text}: {error}");
        }
    }

    #[test]
    fn new_pages_lie_where_the_policy_says() {
        let topology = Machine::host().topology().unwrap();
        let node = topology.nodes.iter().rfind(|node| node.memory_bytes != Some(0)).unwrap().id;
        let nodes = CpuSet::from_iter([node]);
        let bound = MemoryPolicy::Bind(nodes.clone());
        match bound.apply() {
            Err(error)
                if [Some(libc::EPERM), Some(libc::ENOSYS)].contains(&error.raw_os_error()) =>
            {
                eprintln!("skipped: set_mempolicy: {error}");
                return;
            }
            other => other.unwrap(),
        }
        // Large enough that it is not taken from what the allocator has.
        let memory = vec![1_u8; 1024 * page_size()];
        let found = node_of_pages(&memory[page_size()..8 * page_size()]);
        MemoryPolicy::Interleave(nodes).apply().unwrap();
        MemoryPolicy::Local.apply().unwrap();
        MemoryPolicy::Default.apply().unwrap();
        match found {
            Ok(found) => assert!(found.iter().all(|&on| on == Some(node)), "{found:?}"),
            Err(error) => eprintln!("skipped: move_pages: {error}"),
        }
        assert!(topology.node_of(current_cpu()).is_some());
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let far = MemoryPolicy::Bind(CpuSet::from_iter([1000]));
        assert!(far.apply().is_err());
    }
}
