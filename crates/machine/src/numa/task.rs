//! What the scheduler knows of a thread's use of nodes.

use serde::Serialize;

use crate::process::gone;
use crate::{Machine, MachineError};

/// Some dozens of lines, and one for each node.
const SCHED_BYTES: u64 = 1 << 20;

/// What NUMA balancing knows of a thread: `/proc/PID/task/TID/sched` (`show_numa_stats` in kernel/sched). Faults
/// fade: they are halved with every scan of the memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NumaTask {
    /// Times that all memory of the process was scanned.
    pub scans: Option<u64>,
    /// Pages moved for this thread.
    pub pages_migrated: Option<u64>,
    /// The node that the thread had best run on.
    pub preferred_node: Option<u32>,
    /// Hint faults of this thread, faded.
    pub faults: Option<u64>,
    /// The number of the group of threads that share memory; `None` without one.
    pub group: Option<u32>,
    /// Faults by node of the page.
    pub nodes: Vec<NodeFaults>,
}

/// Hint faults on pages of one node, faded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NodeFaults {
    /// The node.
    pub node: u32,
    /// Of this thread, on pages that it alone used last.
    pub private: u64,
    /// Of this thread, on pages that others used too.
    pub shared: u64,
    /// Of its group, on pages of one thread.
    pub group_private: u64,
    /// Of its group, on pages of several.
    pub group_shared: u64,
}

impl Machine {
    /// What NUMA balancing knows of a thread; `None` where the kernel does not tell (`CONFIG_SCHED_DEBUG`,
    /// `CONFIG_NUMA_BALANCING`).
    ///
    /// # Errors
    /// [`MachineError::Gone`] if the process ended while its kernel has such files.
    pub fn numa_task(&self, pid: u32, tid: u32) -> Result<Option<NumaTask>, MachineError> {
        let file = format!("proc/{pid}/task/{tid}/sched");
        match self.bytes(&file, SCHED_BYTES) {
            Ok(text) => Ok(parse(&String::from_utf8_lossy(&text))),
            Err(_) if self.path(format!("proc/{pid}/task/{tid}/stat")).exists() => Ok(None),
            Err(error) => Err(gone(error, pid)),
        }
    }
}

fn parse(text: &str) -> Option<NumaTask> {
    let mut task = NumaTask::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("current_node=") {
            let group =
                rest.split_once("numa_group_id=").and_then(|(_, id)| id.trim().parse().ok());
            task.group = group.filter(|id| *id > 0);
        } else if let Some(rest) = line.strip_prefix("numa_faults ") {
            task.nodes.extend(faults(rest));
        } else if let Some((name, value)) = line.split_once(':') {
            let value = value.trim();
            match name.trim_end() {
                "mm->numa_scan_seq" => task.scans = value.parse().ok(),
                "numa_pages_migrated" => task.pages_migrated = value.parse().ok(),
                // -1 while there is none.
                "numa_preferred_nid" => task.preferred_node = value.parse().ok(),
                "total_numa_faults" => task.faults = value.parse().ok(),
                _ => {}
            }
        }
    }
    task.faults.is_some().then_some(task)
}

/// `node=0 task_private=1 task_shared=2 group_private=3 group_shared=4`.
fn faults(line: &str) -> Option<NodeFaults> {
    let mut found = NodeFaults::default();
    let mut node = None;
    for word in line.split_ascii_whitespace() {
        let (name, value) = word.split_once('=')?;
        match name {
            "node" => node = Some(value.parse().ok()?),
            "task_private" => found.private = value.parse().ok()?,
            "task_shared" => found.shared = value.parse().ok()?,
            "group_private" => found.group_private = value.parse().ok()?,
            "group_shared" => found.group_shared = value.parse().ok()?,
            _ => {}
        }
    }
    Some(NodeFaults { node: node?, ..found })
}
