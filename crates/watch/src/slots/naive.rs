//! All breakpoints in one list, gone through for every question: the oracle of the others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::{Accounting, Kind, Layout, Owner, SlotError, SlotRequest, SlotTask, admit, check_cpu};

/// A list, as Linux had it until 6.0 (`task_bp_pinned` over `bp_task_head`).
#[derive(Debug)]
pub struct Naive {
    layout: Layout,
    held: Mutex<Vec<SlotRequest>>,
}

impl Naive {
    /// Nobody has a slot.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, held: Mutex::default() }
    }

    /// What is held.
    #[must_use]
    pub fn held(&self) -> Vec<SlotRequest> {
        self.list().clone()
    }

    fn list(&self) -> MutexGuard<'_, Vec<SlotRequest>> {
        // A list is whole whatever its user did.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Slots of a request's kind that are taken where most are, of all CPUs that it concerns.
    fn used(&self, held: &[SlotRequest], request: &SlotRequest) -> u32 {
        let pool = |kind| self.layout.slots.pool(kind);
        let of_kind =
            || held.iter().filter(|other| pool(other.kind) == pool(request.kind)).copied();
        let of_task = |task: SlotTask, cpu: u32| -> u32 {
            let is_there = |other: &SlotRequest| match other.owner {
                Owner::Task(other) => other == task,
                Owner::TaskOnCpu(other, on) => other == task && on == cpu,
                Owner::Cpu(_) => false,
            };
            of_kind().filter(is_there).map(|other| other.weight).sum()
        };
        let of_cpu = |cpu: u32| -> u32 {
            of_kind().filter(|other| other.owner == Owner::Cpu(cpu)).map(|other| other.weight).sum()
        };
        match request.owner {
            Owner::Cpu(cpu) => {
                let mut tasks: FxHashMap<SlotTask, u32> = FxHashMap::default();
                for other in of_kind() {
                    match other.owner {
                        Owner::Task(task) => *tasks.entry(task).or_default() += other.weight,
                        Owner::TaskOnCpu(task, on) if on == cpu => {
                            *tasks.entry(task).or_default() += other.weight;
                        }
                        _ => {}
                    }
                }
                of_cpu(cpu) + tasks.values().copied().max().unwrap_or(0)
            }
            Owner::TaskOnCpu(task, cpu) => of_cpu(cpu) + of_task(task, cpu),
            Owner::Task(task) => {
                let cpus = 0..self.layout.possible_cpus;
                cpus.map(|cpu| of_cpu(cpu) + of_task(task, cpu)).max().unwrap_or(0)
            }
        }
    }

    fn reserve_in(
        &self,
        held: &mut Vec<SlotRequest>,
        request: SlotRequest,
    ) -> Result<(), SlotError> {
        check_cpu(&self.layout, request.owner)?;
        admit(&self.layout, &request, self.used(held, &request))?;
        held.push(request);
        Ok(())
    }
}

fn release_from(held: &mut Vec<SlotRequest>, request: SlotRequest) -> Result<(), SlotError> {
    let at = held.iter().position(|other| *other == request).ok_or(SlotError::NotReserved)?;
    held.swap_remove(at);
    Ok(())
}

impl Accounting for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn reserve(&self, request: SlotRequest) -> Result<(), SlotError> {
        self.reserve_in(&mut self.list(), request)
    }

    fn release(&self, request: SlotRequest) -> Result<(), SlotError> {
        release_from(&mut self.list(), request)
    }

    fn modify(&self, request: SlotRequest, kind: Kind) -> Result<(), SlotError> {
        let mut held = self.list();
        release_from(&mut held, request)?;
        let result = self.reserve_in(&mut held, SlotRequest { kind, ..request });
        if result.is_err() {
            held.push(request);
        }
        result
    }

    fn is_empty(&self) -> bool {
        self.list().is_empty()
    }
}
