//! Who accessed memory: what rows of accesses are by, next to what was accessed.
//!
//! ```text
//!  a sample ─► AccessorSpot: place of its code, task, CPU      keys while samples are counted
//!                  │ names afterwards, by symbols and nodes
//!                  ▼
//!              Accessor                                        keys of rows
//! ```

use std::sync::Arc;

use pmuscope_perfdata::reader::{AccessClass, Metadata, Sample};
use pmuscope_symbols::{KernelIdentity, Request, Symbolizer};
use rustc_hash::FxHashMap;

use super::branches::{BranchEnd, ends};
use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::count::group::TasksBy;
use crate::timeline::areas::lossy;

/// What rows of accesses are by, next to what was accessed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessBy {
    /// Functions.
    pub function: bool,
    /// Commands, processes or threads.
    pub tasks: Option<TasksBy>,
    /// CPUs.
    pub cpu: bool,
    /// NUMA nodes of CPUs.
    pub node: bool,
}

/// Who accessed memory, as far as rows are by that; all else is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Accessor {
    /// The function.
    pub code: Option<BranchEnd>,
    /// Name of the thread; of rows by process and thread its last one. Foreign text.
    pub command: Option<Arc<str>>,
    /// The process.
    pub pid: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// The CPU; `None` too where samples do not say it.
    pub cpu: Option<u32>,
    /// Its NUMA node; `None` too where the recording does not say it.
    pub node: Option<u32>,
}

/// The same before anything has a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct AccessorSpot {
    code: Option<ModuleOffset>,
    command: Option<Arc<str>>,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
}

impl AccessorSpot {
    /// The place of its code, where that was asked for.
    pub(super) fn code(&self) -> Option<ModuleOffset> {
        self.code
    }
}

impl AccessBy {
    /// Of a sample.
    pub(super) fn spot(&self, present: &AddressSpaces, sample: &Sample<'_>) -> AccessorSpot {
        let code = sample.ip.filter(|_| self.function);
        let mut spot = AccessorSpot {
            code: code.map(|ip| present.find(sample.mode, sample.pid, ip)),
            cpu: sample.cpu.filter(|_| self.cpu || self.node),
            ..AccessorSpot::default()
        };
        match self.tasks {
            None => {}
            Some(TasksBy::Command) => {
                let task = sample.pid.zip(sample.tid);
                spot.command = task.map(|(_, tid)| lossy(&present.comm(tid)));
            }
            Some(TasksBy::Process) => spot.pid = sample.pid,
            Some(TasksBy::Thread) => (spot.pid, spot.tid) = (sample.pid, sample.tid),
        }
        spot
    }
}

/// What names of accessors come from.
pub struct AccessorNames<'a> {
    /// NUMA nodes of CPUs; `None` where the recording does not say.
    pub node_of: &'a dyn Fn(u32) -> Option<u32>,
    /// Finds functions and variables.
    pub symbolizer: &'a mut Symbolizer,
}

/// Accessors with names.
pub(super) struct NamedAccessors<'a> {
    by: AccessBy,
    code: FxHashMap<ModuleOffset, BranchEnd>,
    node_of: &'a dyn Fn(u32) -> Option<u32>,
    present: &'a AddressSpaces,
}

impl AccessorNames<'_> {
    /// What accessors are called at the end of a recording, `present`; `places` are those of their code.
    pub(super) fn named<'a>(
        &'a mut self,
        by: AccessBy,
        places: Vec<ModuleOffset>,
        present: &'a AddressSpaces,
        metadata: &Metadata,
    ) -> NamedAccessors<'a> {
        let running: KernelIdentity = self.symbolizer.running_kernel();
        let resolve = &mut |requests: &[Request<'_>]| self.symbolizer.resolve_all(requests);
        let code = ends(present, places.into_iter(), metadata, &running, resolve);
        NamedAccessors { by, code, node_of: self.node_of, present }
    }
}

impl NamedAccessors<'_> {
    pub(super) fn of(&self, spot: AccessorSpot) -> Accessor {
        let AccessorSpot { code, command, pid, tid, cpu } = spot;
        let last_name = || pid.map(|pid| lossy(&self.present.comm(tid.unwrap_or(pid))));
        Accessor {
            code: code.and_then(|place| self.code.get(&place).cloned()),
            command: command.or_else(last_name),
            pid,
            tid,
            cpu: cpu.filter(|_| self.by.cpu),
            node: cpu.filter(|_| self.by.node).and_then(self.node_of),
        }
    }
}

/// Samples by class of access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassCounts([u32; AccessClass::ALL.len()]);

impl ClassCounts {
    /// One sample; none where the class is not known.
    #[must_use]
    pub fn one(class: Option<AccessClass>) -> Self {
        let mut counts = Self::default();
        if let Some(class) = class {
            counts.0[class as usize] = 1;
        }
        counts
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        let each = self.0.iter_mut().zip(other.0);
        each.for_each(|(sum, one)| *sum = sum.saturating_add(one));
    }

    /// Samples of a class.
    #[must_use]
    pub fn of(&self, class: AccessClass) -> u64 {
        self.0[class as usize].into()
    }

    fn sum(&self, passes: impl Fn(AccessClass) -> bool) -> u64 {
        let of = AccessClass::ALL.into_iter().filter(|class| passes(*class));
        of.map(|class| self.of(class)).sum()
    }

    /// All loads; an access that loads and stores is a load.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.sum(|class| !class.is_store())
    }

    /// All stores.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.sum(AccessClass::is_store)
    }
}
