//! What samples are counted apart by, besides where they were taken.

use crate::filter::Filter;
use crate::table::mix;
use crate::timeline::tasks::CommOf;

/// What is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupBy {
    /// Call chains, where the recording has them; else only where each sample was taken.
    pub chains: bool,
    /// Tasks.
    pub tasks: TasksBy,
    /// CPUs.
    pub cpus: bool,
}

/// What tasks are grouped by, from coarse to fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TasksBy {
    /// The name of the thread.
    #[default]
    Command,
    /// Name and process.
    Process,
    /// Name, process and thread.
    Thread,
}

/// A task as it is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskKey {
    pub(crate) comm: CommOf,
    pub(crate) pid: Option<i32>,
    pub(crate) tid: Option<i32>,
}

/// Samples of one event, task and CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleGroup {
    /// Index into [`Counts::tasks`](super::counter::Counts::tasks).
    pub(crate) task: u32,
    pub(crate) event: u32,
    pub(crate) cpu: Option<u32>,
}

/// What a reading counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counting {
    /// What is told apart.
    pub apart: GroupBy,
    /// Which samples count.
    pub filter: Filter,
    /// Code that processes generate is told apart by time, as jitdumps describe it: memory that is used again has the name of
    /// what was there. Addresses of such code are then places of [`pmuscope_symbols::GeneratedCode`].
    pub code_by_time: bool,
}

impl From<GroupBy> for Counting {
    fn from(apart: GroupBy) -> Self {
        Self { apart, ..Self::default() }
    }
}

impl TaskKey {
    pub(crate) fn hash(&self) -> u64 {
        let comm = match self.comm {
            CommOf::Recorded(comm) => u64::from(comm),
            CommOf::Unnamed(tid) => 1 << 40 | u64::from(tid as u32),
        };
        let id = |id: Option<i32>| id.map_or(0, |id| 1 << 40 | u64::from(id as u32));
        mix(mix(mix(1, comm), id(self.pid)), id(self.tid))
    }
}
