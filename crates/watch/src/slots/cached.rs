//! Breakpoints by task and a count for each CPU, with what does not depend on the CPU counted once: what was
//! proposed for Linux at first ("perf/hw_breakpoint: Optimize `task_bp_pinned()` if CPU-independent", linux-kernel,
//! June 2022).

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::histogram::Histogram;
use super::{
    Accounting, Kind, Layout, Owner, SlotError, SlotRequest, SlotTask, Slots, admit, check_cpu,
};

/// All tasks are counted on every CPU that they may come to.
#[derive(Debug)]
pub struct Cached {
    layout: Layout,
    state: Mutex<CachedCounts>,
}

#[derive(Debug)]
struct CachedCounts {
    cpus: Vec<[OfCpu; Slots::POOLS]>,
    tasks: FxHashMap<SlotTask, Vec<SlotRequest>>,
}

/// Slots of one kind on a CPU.
#[derive(Debug)]
struct OfCpu {
    pinned: u32,
    /// By slots, the tasks that use so many here.
    tasks: Vec<AtomicU32>,
}

/// What a task has of one kind, wherever it is, if that is the same on all CPUs.
#[derive(Debug, Clone, Copy)]
struct Once(Option<u32>);

impl Cached {
    /// Nobody has a slot.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let of_cpu = |pool| OfCpu {
            pinned: 0,
            tasks: (0..layout.slots.in_pool(pool)).map(|_| AtomicU32::new(0)).collect(),
        };
        let cpus = (0..layout.possible_cpus).map(|_| [of_cpu(0), of_cpu(1)]).collect();
        Self { layout, state: Mutex::new(CachedCounts { cpus, tasks: FxHashMap::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, CachedCounts> {
        // Nothing in it is left half done by who only asks.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self, kind: Kind) -> usize {
        self.layout.slots.pool(kind)
    }

    /// CPUs on which a request takes slots.
    fn cpus(&self, owner: Owner) -> std::ops::Range<u32> {
        match owner {
            Owner::Cpu(cpu) | Owner::TaskOnCpu(_, cpu) => cpu..cpu + 1,
            Owner::Task(_) => 0..self.layout.possible_cpus,
        }
    }

    fn own<'s>(
        &self,
        state: &'s CachedCounts,
        task: SlotTask,
        kind: Kind,
    ) -> impl Iterator<Item = &'s SlotRequest> {
        let (slots, pool) = (self.layout.slots, self.pool(kind));
        let all = state.tasks.get(&task).map(Vec::as_slice).unwrap_or_default();
        all.iter().filter(move |other| slots.pool(other.kind) == pool)
    }

    fn once(&self, state: &CachedCounts, task: SlotTask, kind: Kind) -> Once {
        let sum = |sum: u32, other: &SlotRequest| match other.owner {
            Owner::Task(_) => Some(sum + other.weight),
            _ => None,
        };
        Once(self.own(state, task, kind).try_fold(0, sum))
    }

    /// What a task has on a CPU.
    fn there(&self, state: &CachedCounts, once: Once, task: SlotTask, kind: Kind, cpu: u32) -> u32 {
        once.0.unwrap_or_else(|| {
            let is_there = |other: &&SlotRequest| match other.owner {
                Owner::TaskOnCpu(_, on) => on == cpu,
                _ => true,
            };
            self.own(state, task, kind).filter(is_there).map(|other| other.weight).sum()
        })
    }

    fn used(&self, state: &CachedCounts, request: &SlotRequest) -> u32 {
        let pool = self.pool(request.kind);
        let of_cpu = |cpu: u32| &state.cpus[cpu as usize][pool];
        match request.owner {
            Owner::Cpu(cpu) => {
                let of_cpu = of_cpu(cpu);
                of_cpu.pinned + Histogram { counts: &of_cpu.tasks }.largest()
            }
            Owner::TaskOnCpu(task, _) | Owner::Task(task) => {
                let once = self.once(state, task, request.kind);
                let used =
                    |cpu| of_cpu(cpu).pinned + self.there(state, once, task, request.kind, cpu);
                self.cpus(request.owner).map(used).max().unwrap_or(0)
            }
        }
    }

    /// Moves a task on all CPUs of a request to what it has there with `weight` more or less.
    fn count(&self, state: &mut CachedCounts, request: &SlotRequest, change: impl Fn(u32) -> u32) {
        let pool = self.pool(request.kind);
        match request.owner {
            Owner::Cpu(cpu) => {
                let pinned = &mut state.cpus[cpu as usize][pool].pinned;
                *pinned = change(*pinned);
            }
            Owner::TaskOnCpu(task, _) | Owner::Task(task) => {
                let once = self.once(state, task, request.kind);
                for cpu in self.cpus(request.owner) {
                    let before = self.there(state, once, task, request.kind, cpu);
                    let counts = &state.cpus[cpu as usize][pool].tasks;
                    Histogram { counts }.change(before, change(before));
                }
            }
        }
    }

    fn reserve_in(&self, state: &mut CachedCounts, request: SlotRequest) -> Result<(), SlotError> {
        check_cpu(&self.layout, request.owner)?;
        admit(&self.layout, &request, self.used(state, &request))?;
        self.count(state, &request, |before| before + request.weight);
        if let Owner::TaskOnCpu(task, _) | Owner::Task(task) = request.owner {
            state.tasks.entry(task).or_default().push(request);
        }
        Ok(())
    }

    fn release_from(
        &self,
        state: &mut CachedCounts,
        request: SlotRequest,
    ) -> Result<(), SlotError> {
        check_cpu(&self.layout, request.owner)?;
        let at = match request.owner {
            Owner::Cpu(cpu) => {
                let pinned = state.cpus[cpu as usize][self.pool(request.kind)].pinned;
                pinned.checked_sub(request.weight).ok_or(SlotError::NotReserved)?;
                None
            }
            Owner::TaskOnCpu(task, _) | Owner::Task(task) => {
                let own = state.tasks.get(&task).ok_or(SlotError::NotReserved)?;
                let at = own.iter().position(|other| *other == request);
                Some((task, at.ok_or(SlotError::NotReserved)?))
            }
        };
        self.count(state, &request, |before| before - request.weight);
        if let Some((task, at)) = at
            && let Some(own) = state.tasks.get_mut(&task)
        {
            own.swap_remove(at);
            if own.is_empty() {
                state.tasks.remove(&task);
            }
        }
        Ok(())
    }
}

impl Accounting for Cached {
    fn name(&self) -> &'static str {
        "cached"
    }

    fn reserve(&self, request: SlotRequest) -> Result<(), SlotError> {
        self.reserve_in(&mut self.state(), request)
    }

    fn release(&self, request: SlotRequest) -> Result<(), SlotError> {
        self.release_from(&mut self.state(), request)
    }

    fn modify(&self, request: SlotRequest, kind: Kind) -> Result<(), SlotError> {
        let mut state = self.state();
        self.release_from(&mut state, request)?;
        let result = self.reserve_in(&mut state, SlotRequest { kind, ..request });
        if result.is_err() {
            // What was there a moment ago fits.
            self.reserve_in(&mut state, request)?;
        }
        result
    }

    fn is_empty(&self) -> bool {
        let state = self.state();
        state.tasks.is_empty() && state.cpus.iter().flatten().all(|of_cpu| of_cpu.pinned == 0)
    }
}
