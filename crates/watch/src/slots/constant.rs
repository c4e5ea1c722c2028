//! Histograms of slot use: no operation looks at all CPUs or all tasks.
//!
//! Linux since 6.1 counts a task in one of two ways: in one histogram for all CPUs while none of its
//! breakpoints is bound to a CPU, else in a histogram of every CPU; its first and its last breakpoint of
//! that kind move it from one to the other, which takes a step for each CPU. Here nothing moves. A task is
//! counted with what it has everywhere in the histogram for all CPUs, always, and besides, on those CPUs only
//! where it has breakpoints of its own, with all that it has there:
//!
//! ```text
//!                      everywhere        CPU 3              a task with 1 everywhere and 2 on CPU 3
//!  slots used           1  2  3  4       1  2  3  4
//!  tasks                ■                      ■
//! ```
//! That is enough, because what a task has on a CPU is never less than what it has everywhere: the greediest
//! on a CPU is the larger of both maxima, and counting a task in both changes neither. By the same
//! reason the fullest CPU for a task is the one with most slots bound to it, or one of those where it has
//! breakpoints of its own.
//!
//! ```text
//!  request of         asks                                        changes
//!  CPU c              bound[c], largest(tasks on c),              bound[c], CPUs by bound slots
//!                     largest(tasks everywhere)
//!  task t on CPU c    bound[c], t everywhere, t on c              t in tasks on c
//!  task t             largest(CPUs by bound slots), t everywhere, t in tasks everywhere,
//!                     and each CPU on which t has its own         and in those of these CPUs
//! ```
//! Locks are the kernel's: tasks proceed in parallel (a lock for each group of tasks, histograms of atomics);
//! what is bound to CPUs changes while no task does, so that both see numbers that stand still.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::histogram::Histogram;
use super::{
    Accounting, Kind, Layout, Owner, SlotError, SlotRequest, SlotTask, Slots, admit, check_cpu,
};

/// Groups of tasks, each with a lock.
const SHARDS: usize = 64;
/// Counts in a cache line: what belongs to a CPU begins at one.
const LINE: usize = 64 / size_of::<AtomicU32>();

/// Constant time, whatever the number of CPUs and tasks.
#[derive(Debug)]
pub struct Constant {
    layout: Layout,
    /// Held alone to change what is bound to a CPU, together to change what a task has.
    gate: RwLock<()>,
    cpus: Cpus,
    /// By kind and slots: CPUs that have so many bound to them.
    bound: [Vec<AtomicU32>; Slots::POOLS],
    /// By kind and slots: tasks that have so many everywhere.
    everywhere: [Vec<AtomicU32>; Slots::POOLS],
    tasks: Vec<Mutex<FxHashMap<SlotTask, OfTask>>>,
}

/// What a task has of each kind.
type OfTask = [TaskSlots; Slots::POOLS];

/// What a task has of one kind.
#[derive(Debug, Default)]
struct TaskSlots {
    everywhere: u32,
    /// Besides, on some CPUs.
    on: FxHashMap<u32, u32>,
}

impl TaskSlots {
    fn on(&self, cpu: u32) -> u32 {
        // Most have none, and need no lookup.
        if self.on.is_empty() { 0 } else { self.on.get(&cpu).copied().unwrap_or(0) }
    }

    /// What a request for this CPU, or for all, adds to.
    fn has(&self, cpu: Option<u32>) -> u32 {
        cpu.map_or(self.everywhere, |cpu| self.on(cpu))
    }

    fn is_empty(&self) -> bool {
        self.everywhere == 0 && self.on.is_empty()
    }
}

/// Of each CPU and kind the slots bound to it, and tasks with breakpoints of their own there by the slots
/// that they have.
#[derive(Debug)]
struct Cpus {
    counts: Vec<AtomicU32>,
    stride: usize,
    /// Where each kind starts, and where the last one ends.
    starts: [usize; Slots::POOLS + 1],
}

impl Cpus {
    fn new(layout: &Layout) -> Self {
        let size = |pool| 1 + layout.slots.in_pool(pool) as usize;
        let starts = [0, size(0), size(0) + size(1)];
        let stride = starts[Slots::POOLS].next_multiple_of(LINE);
        Self { counts: zeros(stride * layout.possible_cpus as usize), stride, starts }
    }

    #[inline]
    fn of(&self, cpu: u32, pool: usize) -> (&AtomicU32, Histogram<'_>) {
        let first = cpu as usize * self.stride;
        let counts = &self.counts[first + self.starts[pool]..first + self.starts[pool + 1]];
        (&counts[0], Histogram { counts: &counts[1..] })
    }

    #[inline]
    fn bound(&self, cpu: u32, pool: usize) -> u32 {
        self.of(cpu, pool).0.load(Ordering::Relaxed)
    }

    #[inline]
    fn tasks(&self, cpu: u32, pool: usize) -> Histogram<'_> {
        self.of(cpu, pool).1
    }
}

fn zeros(number: usize) -> Vec<AtomicU32> {
    (0..number).map(|_| AtomicU32::new(0)).collect()
}

impl Constant {
    /// Nobody has a slot.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let by_slots = || [0, 1].map(|pool| zeros(layout.slots.in_pool(pool) as usize));
        Self {
            layout,
            gate: RwLock::default(),
            cpus: Cpus::new(&layout),
            bound: by_slots(),
            everywhere: by_slots(),
            tasks: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// The tasks among which this one is.
    fn shard(&self, task: SlotTask) -> MutexGuard<'_, FxHashMap<SlotTask, OfTask>> {
        let mut hasher = FxBuildHasher.build_hasher();
        hasher.write_u64(task.0);
        // The map itself uses the lowest and the highest bits.
        let at = (hasher.finish() >> 32) as usize % SHARDS;
        // Nothing in it is left half done by who only asks.
        self.tasks[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn everywhere(&self, pool: usize) -> Histogram<'_> {
        Histogram { counts: &self.everywhere[pool] }
    }

    /// Slots that `cpu` has bound to it go from `before` to `after`. The gate is held alone.
    fn bind(&self, cpu: u32, pool: usize, before: u32, after: u32) {
        self.cpus.of(cpu, pool).0.store(after, Ordering::Relaxed);
        Histogram { counts: &self.bound[pool] }.change(before, after);
    }

    fn reserve_cpu(&self, request: &SlotRequest, cpu: u32) -> Result<(), SlotError> {
        let pool = self.layout.slots.pool(request.kind);
        let bound = self.cpus.bound(cpu, pool);
        let tasks = self.cpus.tasks(cpu, pool).largest().max(self.everywhere(pool).largest());
        admit(&self.layout, request, bound + tasks)?;
        self.bind(cpu, pool, bound, bound + request.weight);
        Ok(())
    }

    fn release_cpu(&self, request: &SlotRequest, cpu: u32) -> Result<(), SlotError> {
        let pool = self.layout.slots.pool(request.kind);
        let bound = self.cpus.bound(cpu, pool);
        let left = bound.checked_sub(request.weight).ok_or(SlotError::NotReserved)?;
        self.bind(cpu, pool, bound, left);
        Ok(())
    }

    /// Slots taken on the fullest CPU that a task's request concerns.
    fn used_by(&self, own: &TaskSlots, pool: usize, cpu: Option<u32>) -> u32 {
        let there = |cpu, on| self.cpus.bound(cpu, pool) + own.everywhere + on;
        match cpu {
            Some(cpu) => there(cpu, own.on(cpu)),
            None => {
                let most = Histogram { counts: &self.bound[pool] }.largest();
                let elsewhere = most + own.everywhere;
                own.on.iter().map(|(&cpu, &on)| there(cpu, on)).fold(elsewhere, u32::max)
            }
        }
    }

    /// Changes what a task has on a CPU besides what it has everywhere.
    fn set_on(&self, own: &mut TaskSlots, pool: usize, cpu: u32, after: u32) {
        let before = own.on(cpu);
        // Who has nothing of its own there is not counted there.
        let counted = |on: u32| if on == 0 { 0 } else { own.everywhere + on };
        self.cpus.tasks(cpu, pool).change(counted(before), counted(after));
        if after == 0 {
            own.on.remove(&cpu);
        } else {
            own.on.insert(cpu, after);
        }
    }

    /// Changes what a task has everywhere.
    fn set_everywhere(&self, own: &mut TaskSlots, pool: usize, after: u32) {
        let before = std::mem::replace(&mut own.everywhere, after);
        self.everywhere(pool).change(before, after);
        for (&cpu, &on) in &own.on {
            self.cpus.tasks(cpu, pool).change(before + on, after + on);
        }
    }

    fn set(&self, own: &mut TaskSlots, pool: usize, cpu: Option<u32>, after: u32) {
        match cpu {
            Some(cpu) => self.set_on(own, pool, cpu, after),
            None => self.set_everywhere(own, pool, after),
        }
    }

    fn reserve_task(
        &self,
        of_task: &mut OfTask,
        request: &SlotRequest,
        cpu: Option<u32>,
    ) -> Result<(), SlotError> {
        let pool = self.layout.slots.pool(request.kind);
        let own = &mut of_task[pool];
        admit(&self.layout, request, self.used_by(own, pool, cpu))?;
        let before = own.has(cpu);
        self.set(own, pool, cpu, before + request.weight);
        Ok(())
    }

    fn release_task(
        &self,
        of_task: &mut OfTask,
        request: &SlotRequest,
        cpu: Option<u32>,
    ) -> Result<(), SlotError> {
        let pool = self.layout.slots.pool(request.kind);
        let own = &mut of_task[pool];
        let before = own.has(cpu);
        let left = before.checked_sub(request.weight).ok_or(SlotError::NotReserved)?;
        self.set(own, pool, cpu, left);
        Ok(())
    }

    /// Does something to the owner of a request, alone or beside other tasks.
    fn with<T>(
        &self,
        owner: Owner,
        of_cpu: impl FnOnce(u32) -> Result<T, SlotError>,
        of_task: impl FnOnce(&mut OfTask, Option<u32>) -> Result<T, SlotError>,
    ) -> Result<T, SlotError> {
        check_cpu(&self.layout, owner)?;
        let (task, cpu) = match owner {
            Owner::Cpu(cpu) => {
                let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
                return of_cpu(cpu);
            }
            Owner::TaskOnCpu(task, cpu) => (task, Some(cpu)),
            Owner::Task(task) => (task, None),
        };
        let _together = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut shard = self.shard(task);
        let own = shard.entry(task).or_default();
        let result = of_task(own, cpu);
        if own.iter().all(TaskSlots::is_empty) {
            shard.remove(&task);
        }
        result
    }
}

impl Accounting for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn reserve(&self, request: SlotRequest) -> Result<(), SlotError> {
        self.with(
            request.owner,
            |cpu| self.reserve_cpu(&request, cpu),
            |of_task, cpu| self.reserve_task(of_task, &request, cpu),
        )
    }

    fn release(&self, request: SlotRequest) -> Result<(), SlotError> {
        self.with(
            request.owner,
            |cpu| self.release_cpu(&request, cpu),
            |of_task, cpu| self.release_task(of_task, &request, cpu),
        )
    }

    fn modify(&self, request: SlotRequest, kind: Kind) -> Result<(), SlotError> {
        let new = SlotRequest { kind, ..request };
        self.with(
            request.owner,
            |cpu| {
                self.release_cpu(&request, cpu)?;
                // What was there a moment ago fits.
                self.reserve_cpu(&new, cpu)
                    .or_else(|error| self.reserve_cpu(&request, cpu).and(Err(error)))
            },
            |of_task, cpu| {
                self.release_task(of_task, &request, cpu)?;
                self.reserve_task(of_task, &new, cpu)
                    .or_else(|error| self.reserve_task(of_task, &request, cpu).and(Err(error)))
            },
        )
    }

    fn is_empty(&self) -> bool {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        // Every count, so that one that went astray is seen.
        let zero =
            |counts: &[AtomicU32]| counts.iter().all(|count| count.load(Ordering::Relaxed) == 0);
        let nobody = |shard: &Mutex<FxHashMap<SlotTask, OfTask>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
        };
        let by_slots = self.bound.iter().chain(&self.everywhere);
        zero(&self.cpus.counts)
            && by_slots.into_iter().all(|counts| zero(counts))
            && self.tasks.iter().all(nobody)
    }
}
