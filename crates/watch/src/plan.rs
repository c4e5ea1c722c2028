//! Would these watchpoints fit, and where not, and who may hold the slots: asked before any is opened for good.
//!
//! The kernel has no list of who holds slots. What it tells is whether one more fits: so disabled breakpoints
//! are opened on a word of ours and closed again, for each thread or CPU that is to be watched, as many as
//! fit. A thread of ours that has none finds on each CPU what is bound to that CPU. Names come from `/proc`:
//! debuggers that trace the processes, and processes with performance events open; which of their events
//! are breakpoints is not shown.

use pmuscope_counters::Kernel;
use pmuscope_machine::{CpuSet, Machine, MachineError, Target};
use serde::Serialize;
use thiserror::Error;

use crate::kernel::{self, KernelError};
use crate::slots::{Kind, Owner, SlotTask, Slots};

/// Slots that x86 has, whoever holds them.
const X86: u32 = 4;

/// A watchpoint that is to be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WatchpointRequest {
    /// As the user wrote it.
    pub name: String,
    /// What it stops at.
    pub kind: Kind,
    /// Slots that it takes: long objects need several.
    pub slots: u32,
}

/// A thread or a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadOrCpu {
    /// Wherever it runs.
    Thread {
        /// Its id.
        tid: u32,
        /// Its name, as it came.
        name: Option<String>,
    },
    /// Whatever runs there.
    Cpu(u32),
}

/// A place with its free slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FreeSlots {
    /// Where.
    pub place: ThreadOrCpu,
    /// What the kernel let in.
    pub free: Slots,
}

/// Slots that somebody has bound to a CPU: no thread finds them there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Which CPU.
    pub cpu: u32,
    /// How many.
    pub slots: Slots,
}

/// How somebody may hold slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// As the debugger of this process, whose watchpoints take slots.
    Traces {
        /// The process.
        pid: u32,
    },
    /// With so many performance events open, of any kind.
    Events {
        /// How many.
        descriptors: usize,
    },
}

/// Somebody who may hold slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its name, as it came.
    pub name: String,
    /// How.
    pub how: Hold,
}

/// Whether watchpoints fit at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// All of them, everywhere.
    pub fits: bool,
    /// What was asked for, in the user's order.
    pub wanted: Vec<WatchpointRequest>,
    /// Slots of each CPU.
    pub slots: Slots,
    /// Threads or CPUs that were asked about.
    pub places: usize,
    /// The least that is free on any of them.
    pub least_free: Slots,
    /// Those on which not all fit.
    pub lacking: Vec<FreeSlots>,
    /// CPUs with slots bound to them.
    pub bound: Vec<Bound>,
    /// Who may hold them; asked only where something does not fit.
    pub holders: Vec<Holder>,
    /// Whether all processes could be looked into for that.
    pub all_holders: bool,
    /// What to leave out so that the others fit: names of [`Plan::wanted`], whose first are kept.
    pub drop: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The kernel does not let us ask.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Processes or CPUs cannot be listed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Nothing to watch is left.
    #[error("no thread left to watch: all ended during planning")]
    Gone,
}

/// Asks the kernel whether `wanted` fits in all threads of a target, or on its CPUs. Threads that end meanwhile are passed over.
///
/// # Errors
/// [`PlanError`].
pub fn plan(
    kernel: &dyn Kernel,
    machine: &Machine,
    wanted: &[WatchpointRequest],
    target: &Target,
) -> Result<Plan, PlanError> {
    let online = &machine.topology()?.online;
    let (slots, bound) = survey(kernel, online)?;
    let rooms = rooms(kernel, machine, slots, (target, online))?;
    let first = rooms.first().ok_or(PlanError::Gone)?.free;
    let least_free = rooms.iter().fold(first, |least, room| least.least(room.free));
    let need = wanted.iter().fold(slots.none(), |sum, one| sum.plus(one.kind, one.slots));
    let fits = need.fits_in(least_free);
    let places = rooms.len();
    let lacking: Vec<FreeSlots> =
        rooms.into_iter().filter(|room| !need.fits_in(room.free)).collect();
    let (holders, all_holders) = if fits { (Vec::new(), true) } else { holders(machine, target)? };
    let drop = to_drop(wanted, least_free);
    let wanted = wanted.to_vec();
    Ok(Plan { fits, wanted, slots, places, least_free, lacking, bound, holders, all_holders, drop })
}

/// Slots of each CPU, and what is bound to CPUs, by what this thread finds on each; it has none itself.
fn survey(kernel: &dyn Kernel, online: &CpuSet) -> Result<(Slots, Vec<Bound>), KernelError> {
    let mut found = Vec::new();
    for cpu in online.iter() {
        found.push((cpu, kernel::slots_for(kernel, Owner::TaskOnCpu(kernel::OWN, cpu))?));
    }
    // Where somebody holds all slots for data, those for instructions look like the only ones.
    let most = found.iter().map(|(_, slots)| *slots).max_by_key(|slots| slots.total());
    let mut slots = most.filter(|slots| slots.total() > 0).ok_or(KernelError::None)?;
    if let Slots::Mixed(number) = &mut slots
        && cfg!(target_arch = "x86_64")
    {
        *number = X86.max(*number);
    }
    let bound = found.into_iter().filter_map(|(cpu, free)| {
        let bound = slots.minus(free.as_of(slots));
        (bound.total() > 0).then_some(Bound { cpu, slots: bound })
    });
    Ok((slots, bound.collect()))
}

fn rooms(
    kernel: &dyn Kernel,
    machine: &Machine,
    slots: Slots,
    (target, online): (&Target, &CpuSet),
) -> Result<Vec<FreeSlots>, PlanError> {
    let (tids, cpus) = match target {
        Target::Threads(tids) => (tids.clone(), &CpuSet::new()),
        Target::Processes(pids) => (machine.threads_of(pids)?, &CpuSet::new()),
        of_cpus => (Vec::new(), of_cpus.cpus(online)),
    };
    let mut rooms = Vec::new();
    for tid in tids {
        match free(kernel, slots, Owner::Task(SlotTask(tid.into()))) {
            Ok(free) => {
                let place = ThreadOrCpu::Thread { tid, name: machine.name_of(tid) };
                rooms.push(FreeSlots { place, free });
            }
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error.into()),
        }
    }
    for cpu in cpus.iter() {
        let free = free(kernel, slots, Owner::Cpu(cpu))?;
        rooms.push(FreeSlots { place: ThreadOrCpu::Cpu(cpu), free });
    }
    Ok(rooms)
}

/// Slots that are free for `owner`, of a machine with `slots`.
fn free(kernel: &dyn Kernel, slots: Slots, owner: Owner) -> Result<Slots, KernelError> {
    let data = kernel::free_slots(kernel, owner, Kind::Data)?;
    Ok(match slots {
        Slots::Mixed(_) => Slots::Mixed(data),
        Slots::Separate { .. } => {
            let instruction = kernel::free_slots(kernel, owner, Kind::Instruction)?;
            Slots::Separate { data, instruction }
        }
    })
}

/// Debuggers of what is to be watched, and all who have performance events open but us.
fn holders(machine: &Machine, target: &Target) -> Result<(Vec<Holder>, bool), MachineError> {
    let name = |pid| machine.name_of(pid).unwrap_or_default();
    let traced = match target {
        Target::Processes(ids) | Target::Threads(ids) => ids.clone(),
        _ => machine.processes()?,
    };
    let tracers = traced.into_iter().filter_map(|pid| {
        let tracer = machine.tracer(pid).ok()??;
        Some(Holder { pid: tracer, name: name(tracer), how: Hold::Traces { pid } })
    });
    let mut holders: Vec<Holder> = tracers.collect();
    let (events, all) = machine.event_holders()?;
    let others = events.into_iter().filter(|holder| holder.pid != std::process::id());
    holders.extend(others.map(|holder| Holder {
        pid: holder.pid,
        name: holder.name,
        how: Hold::Events { descriptors: holder.descriptors },
    }));
    Ok((holders, all))
}

/// The first are kept as long as they fit, and what is small enough behind one that does not.
fn to_drop(wanted: &[WatchpointRequest], free: Slots) -> Vec<String> {
    let mut used = free.none();
    let mut dropped = Vec::new();
    for one in wanted {
        let with = used.plus(one.kind, one.slots);
        if with.fits_in(free) {
            used = with;
        } else {
            dropped.push(one.name.clone());
        }
    }
    dropped
}
