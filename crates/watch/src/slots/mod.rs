//! Slots for breakpoints: who may have one.
//!
//! A breakpoint belongs to a CPU, to a task on one CPU, or to a task on all CPUs ([`Owner`]). Tasks never
//! compete with one another, since only one of them runs on a CPU at a time; what is bound to a CPU
//! competes with whichever task comes there:
//!
//! ```text
//!                 CPU 0          CPU 1
//!  slots        │ ▓ │ ▓ │ A │ A │ │ ▓ │ A │   │   │     ▓ bound to the CPU
//!   and, when B runs there:
//!               │ ▓ │ ▓ │ B │   │ │ ▓ │ B │ B │   │
//! ```
//! A request fits if, on every CPU that it concerns, what is bound to the CPU and what the task has there
//! (for a CPU: what the greediest task has there) leave room. Rules and their three cases are those of
//! Linux, `kernel/events/hw_breakpoint.c`, the same from 5.x to 6.18: a breakpoint holds its slot from
//! open to close, and everything opened can be scheduled at any time.
//!
//! Three ways to account for it, which answer alike (a property test holds it) and differ in time:
//!
//! | | per CPU | task on one CPU | task on all CPUs |
//! |---|---|---|---|
//! | [`Naive`]: all breakpoints in one list, as Linux up to 6.0 | breakpoints | breakpoints | CPUs × breakpoints |
//! | [`Cached`]: breakpoints by task, a count for each CPU; what does not depend on the CPU is counted once | 1 | own | CPUs + own |
//! | [`Constant`]: histograms of slot use | 1 | 1 | 1, and one more for each CPU on which this task has breakpoints of its own |

mod cached;
mod constant;
mod histogram;
mod naive;

pub use cached::Cached;
pub use constant::Constant;
pub use naive::Naive;

use serde::Serialize;
use thiserror::Error;

/// A task, by any number that tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotTask(pub u64);

/// Whom a breakpoint belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// A CPU, whatever runs there.
    Cpu(u32),
    /// A task while it is on one CPU.
    TaskOnCpu(SlotTask, u32),
    /// A task wherever it is.
    Task(SlotTask),
}

/// What a breakpoint stops at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reading or writing data.
    Data,
    /// Executing an instruction.
    Instruction,
}

/// Slots of each CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Slots {
    /// For any kind: x86 has 4.
    Mixed(u32),
    /// For each kind its own: arm64 has 2 to 16 of each.
    Separate {
        /// For data (`WRPs` + 1 of `ID_AA64DFR0_EL1`).
        data: u32,
        /// For instructions (`BRPs` + 1).
        instruction: u32,
    },
}

impl Slots {
    /// Which pool a kind takes its slots from, of [`Slots::POOLS`].
    fn pool(self, kind: Kind) -> usize {
        match (self, kind) {
            (Self::Mixed(_), _) | (_, Kind::Data) => 0,
            (Self::Separate { .. }, Kind::Instruction) => 1,
        }
    }

    const POOLS: usize = 2;

    /// Slots for a kind.
    #[must_use]
    pub fn of(self, kind: Kind) -> u32 {
        self.in_pool(self.pool(kind))
    }

    /// Slots of all kinds together.
    #[must_use]
    pub fn total(self) -> u32 {
        (0..Self::POOLS).map(|pool| self.in_pool(pool)).sum()
    }

    /// As many pools, each with what `slots` says of its number.
    fn map(self, slots: impl Fn(usize) -> u32) -> Self {
        match self {
            Self::Mixed(_) => Self::Mixed(slots(0)),
            Self::Separate { .. } => Self::Separate { data: slots(0), instruction: slots(1) },
        }
    }

    /// No slots, in the same pools.
    #[must_use]
    pub fn none(self) -> Self {
        self.map(|_| 0)
    }

    /// With so many more for this kind.
    #[must_use]
    pub fn plus(self, kind: Kind, slots: u32) -> Self {
        let more = |pool| if pool == self.pool(kind) { slots } else { 0 };
        self.map(|pool| self.in_pool(pool) + more(pool))
    }

    /// What is left without `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.map(|pool| self.in_pool(pool).saturating_sub(other.in_pool(pool)))
    }

    /// The smaller number of each pool.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        self.map(|pool| self.in_pool(pool).min(other.in_pool(pool)))
    }

    /// Whether there are no more in any pool than `room` has.
    #[must_use]
    pub fn fits_in(self, room: Self) -> bool {
        (0..Self::POOLS).all(|pool| self.in_pool(pool) <= room.in_pool(pool))
    }

    /// In the pools of `like`: what was found where all slots of a kind were taken looks like one pool.
    #[must_use]
    pub fn as_of(self, like: Self) -> Self {
        like.map(|pool| self.in_pool(pool))
    }

    fn in_pool(self, pool: usize) -> u32 {
        match (self, pool) {
            (Self::Mixed(slots), 0) | (Self::Separate { data: slots, .. }, 0) => slots,
            (Self::Separate { instruction, .. }, 1) => instruction,
            _ => 0,
        }
    }
}

/// A machine as far as slots go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// CPUs that it can have, those that are off too: the kernel counts them, and so must who asks it.
    /// Their numbers are below this.
    pub possible_cpus: u32,
    /// Slots of each.
    pub slots: Slots,
}

/// A breakpoint that is to have slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotRequest {
    /// Whom it belongs to.
    pub owner: Owner,
    /// What it stops at.
    pub kind: Kind,
    /// Slots that it takes: 1 on x86 and arm64.
    pub weight: u32,
}

impl SlotRequest {
    /// One slot for data.
    #[must_use]
    pub fn data(owner: Owner) -> Self {
        Self { owner, kind: Kind::Data, weight: 1 }
    }
}

/// Why slots are not given or not taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SlotError {
    /// ENOSPC.
    #[error("{wanted} more do not fit: {used} of {slots} debug registers are in use there")]
    Full {
        /// Slots that were wanted.
        wanted: u32,
        /// Slots taken where most are, of all CPUs that the request concerns: what is bound to the CPU,
        /// and the task's own; for a request of a CPU, those of the greediest task.
        used: u32,
        /// Slots of each CPU.
        slots: u32,
    },
    /// This breakpoint has no slot.
    #[error("it holds no debug register")]
    NotReserved,
    /// There cannot be such a CPU.
    #[error("no CPU {cpu}: this machine can have CPUs 0 to {}", possible_cpus.saturating_sub(1))]
    NoSuchCpu {
        /// The CPU.
        cpu: u32,
        /// As [`Layout::possible_cpus`].
        possible_cpus: u32,
    },
}

/// Keeps account of slots. All calls may come from several threads at once.
pub trait Accounting: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Gives a breakpoint its slots.
    ///
    /// # Errors
    /// [`SlotError::Full`] if they are not there, [`SlotError::NoSuchCpu`].
    fn reserve(&self, request: SlotRequest) -> Result<(), SlotError>;

    /// Takes them back. Of requests that are equal it does not matter which.
    ///
    /// # Errors
    /// [`SlotError::NotReserved`]. Those that add up ([`Cached`], [`Constant`]) can only tell if the owner has
    /// fewer slots of this kind than the request.
    fn release(&self, request: SlotRequest) -> Result<(), SlotError>;

    /// Turns a breakpoint into one of another kind, as `PERF_EVENT_IOC_MODIFY_ATTRIBUTES` does; nobody sees
    /// the state between.
    ///
    /// # Errors
    /// [`SlotError::Full`], with everything as it was.
    fn modify(&self, request: SlotRequest, kind: Kind) -> Result<(), SlotError>;

    /// Whether nobody has a slot.
    fn is_empty(&self) -> bool;
}

/// Lets the request in where `used` slots are taken.
fn admit(layout: &Layout, request: &SlotRequest, used: u32) -> Result<(), SlotError> {
    let (wanted, slots) = (request.weight, layout.slots.of(request.kind));
    if used.checked_add(wanted).is_some_and(|sum| sum <= slots) {
        return Ok(());
    }
    Err(SlotError::Full { wanted, used, slots })
}

fn check_cpu(layout: &Layout, owner: Owner) -> Result<(), SlotError> {
    let possible_cpus = layout.possible_cpus;
    match owner {
        Owner::Cpu(cpu) | Owner::TaskOnCpu(_, cpu) if cpu >= possible_cpus => {
            Err(SlotError::NoSuchCpu { cpu, possible_cpus })
        }
        _ => Ok(()),
    }
}
