//! Who ran: threads to the groups in which samples are counted, through a small table that stays in the
//! cache.

use std::fmt::Debug;

use pmuscope_perfdata::reader::scan::SampleFields;

use super::group::{Counting, GroupBy, SampleGroup, TaskKey, TasksBy};
use crate::filter::Filter;
use crate::table::{Interned, mix};
use crate::timeline::lookup::{Holds, Lookup};
use crate::timeline::spaces::{NOTHING, ViewId};
use crate::timeline::tasks::{CommOf, NAMELESS};

/// Slots of the table, as a power of two.
const TASK_BITS: u32 = 10;

/// Stands for the group of threads that the filter leaves out.
const LEFT_OUT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct TaskSlot {
    task: Option<(i32, i32)>,
    event: u32,
    cpu: u32,
    group: u32,
    view: ViewId,
    holds: Holds,
}

/// Who took a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleTask {
    /// Index into [`TaskCache::groups`].
    pub(crate) group: u32,
    /// What the process sees.
    pub(crate) view: ViewId,
    /// Its slot, of [`TaskCache::SLOTS`].
    pub(crate) slot: usize,
}

/// Finds who ran, and leaves out whom the filter does.
#[derive(Debug)]
pub(crate) struct TaskCache {
    apart: GroupBy,
    pub(crate) filter: Filter,
    slots: Vec<TaskSlot>,
    pub(crate) tasks: Interned<TaskKey>,
    pub(crate) groups: Interned<SampleGroup>,
}

impl TaskCache {
    /// Threads that are remembered.
    pub(crate) const SLOTS: usize = 1 << TASK_BITS;

    pub(crate) fn new(counting: &Counting) -> Self {
        let slot =
            TaskSlot { task: None, event: 0, cpu: 0, group: 0, view: NOTHING, holds: Holds::NEVER };
        Self {
            apart: counting.apart,
            filter: counting.filter.clone(),
            slots: vec![slot; Self::SLOTS],
            tasks: Interned::default(),
            groups: Interned::default(),
        }
    }

    /// What is told apart.
    pub(crate) fn apart(&self) -> GroupBy {
        self.apart
    }

    /// Who took a sample; `None` if the filter leaves it out. `time` is `None` where it has none.
    #[inline(always)] // what comes back from a call goes through memory, which stalls each sample
    pub(crate) fn ran<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        time: Option<u64>,
    ) -> Option<SampleTask> {
        if !self.filter.passes_moment(hit.cpu, time) {
            return None;
        }
        let (task, passes) = self.task(lookup, at, hit);
        passes.then_some(task)
    }

    /// Who took a sample, and whether the filter lets this task and event pass.
    #[inline(always)]
    pub(crate) fn task<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
    ) -> (SampleTask, bool) {
        let cpu = if self.apart.cpus { hit.cpu.unwrap_or(u32::MAX) } else { 0 };
        let (event, tid) = (hit.event as u32, hit.task.map_or(-1, |(_, tid)| tid));
        let slot = (mix(mix(tid as u64, event.into()), cpu.into()) >> (64 - TASK_BITS)) as usize;
        let known = &self.slots[slot];
        let is_it = known.task == hit.task && known.event == event && known.cpu == cpu;
        let (group, view) = if is_it && known.holds.at(lookup.stamp(at)) {
            (known.group, known.view)
        } else {
            self.look_up(lookup, at, hit, slot, cpu)
        };
        (SampleTask { group, view, slot }, group != LEFT_OUT)
    }

    /// Asks, and keeps the answer.
    #[inline(never)]
    fn look_up<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        hit: &SampleFields<'_>,
        slot: usize,
        cpu: u32,
    ) -> (u32, ViewId) {
        let event = hit.event as u32;
        let (key, view, holds) = match hit.task {
            None => {
                let comm = CommOf::Recorded(NAMELESS);
                (TaskKey { comm, pid: None, tid: None }, NOTHING, Holds::ALWAYS)
            }
            Some((pid, tid)) => {
                let found = lookup.task(pid, tid, at);
                let by = self.apart.tasks;
                let key = TaskKey {
                    comm: found.comm,
                    pid: (by != TasksBy::Command).then_some(pid),
                    tid: (by == TasksBy::Thread).then_some(tid),
                };
                (key, found.view, found.holds)
            }
        };
        let filter = &self.filter;
        let passes =
            filter.passes_event(hit.event) && filter.passes_task(hit.task, &lookup.name(key.comm));
        let group = if passes {
            let task = self.tasks.intern(key.hash(), key);
            let group = SampleGroup { task, event, cpu: hit.cpu.filter(|_| self.apart.cpus) };
            self.groups.intern(mix(mix(task.into(), event.into()), cpu.into()), group)
        } else {
            LEFT_OUT
        };
        self.slots[slot] = TaskSlot { task: hit.task, event, cpu, group, view, holds };
        (group, view)
    }
}
