//! The kernel's own account of slots: what it lets in is seen by opening real breakpoints, and nowhere else.
//!
//! [`slots`] finds out how many there are, [`compare`] holds the rules of [`crate::slots`] against the
//! kernel's answers. Breakpoints are on a word of ours that nobody touches, and stay off: the kernel
//! gives them their slots all the same.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use pmuscope_abi::breakpoint::INSTRUCTION;
use pmuscope_abi::breakpoint::{EXECUTE, READ_WRITE};
use pmuscope_abi::{Attr, AttrFlags, OpenFlags, event_type};
use pmuscope_counters::Kernel;
use rustix::io::Errno;
use thiserror::Error;

use crate::slots::{
    Accounting, Constant, Kind, Layout, Owner, SlotError, SlotRequest, SlotTask, Slots,
};

/// More slots of a kind than any machine has (arm64: 16).
const MOST: usize = 64;
/// Milliseconds that a slot may take to be free again.
const PATIENCE: u32 = 200;

/// What breakpoints stop at. Nobody touches it.
static NEVER_TOUCHED: u64 = 0;

/// Why the kernel cannot be asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A breakpoint cannot be opened, and not for want of slots.
    #[error("cannot open a breakpoint for {} ({source}). {}", words(*owner), advice(*owner, source))]
    Open {
        /// Whose it was to be.
        owner: Owner,
        /// What the kernel said.
        source: io::Error,
    },
    /// There are no slots, or somebody has them all.
    #[error("no debug register is free: this machine has none, or a debugger holds all of them")]
    None,
    /// Others hold slots, so that answers are not those of the rules alone.
    #[error(
        "other programs hold {held} of {slots} debug registers of CPU {cpu}. Try: end them (a \
         debugger, perf) first"
    )]
    Held {
        /// On which CPU.
        cpu: u32,
        /// How many.
        held: u32,
        /// Of how many.
        slots: u32,
    },
}

impl KernelError {
    /// Whether the task has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let Self::Open { source, .. } = self else { return false };
        Errno::from_io_error(source) == Some(Errno::SRCH)
    }
}

fn words(owner: Owner) -> String {
    let task =
        |SlotTask(tid)| if tid == 0 { "this thread".to_owned() } else { format!("thread {tid}") };
    match owner {
        Owner::Cpu(cpu) => format!("CPU {cpu}"),
        Owner::Task(id) => task(id),
        Owner::TaskOnCpu(id, cpu) => format!("{} on CPU {cpu}", task(id)),
    }
}

fn advice(owner: Owner, error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) if !matches!(owner, Owner::Cpu(_)) => {
            "Breakpoints on other users' threads need CAP_PERFMON; on any thread they need \
             kernel.perf_event_paranoid 2 or less"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "Breakpoints on CPUs need CAP_PERFMON, or kernel.perf_event_paranoid 0 or less"
        }
        Some(Errno::NODEV | Errno::OPNOTSUPP | Errno::NOENT) => "This machine has no breakpoints",
        Some(Errno::MFILE) => "Try: raise the limit of open files, ulimit -n 4096",
        _ => "Try: pmuscope doctor",
    }
}

/// Asks again for a while: a program that another thread of this process starts has our descriptors, also those
/// that are closed here meanwhile, until it runs.
fn patiently<T>(
    mut ask: impl FnMut() -> Result<Option<T>, KernelError>,
) -> Result<Option<T>, KernelError> {
    for _ in 0..PATIENCE {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    ask()
}

/// A breakpoint on a word that nobody touches: on for user code from the moment it is opened, and not
/// inherited.
#[must_use]
pub fn untouched(kind: Kind) -> Attr {
    let (bp_type, length) = match kind {
        Kind::Data => (READ_WRITE, 1),
        Kind::Instruction => (EXECUTE, INSTRUCTION),
    };
    Attr {
        event_type: event_type::BREAKPOINT,
        bp_type,
        config1: (&raw const NEVER_TOUCHED).addr() as u64,
        config2: length,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    }
}

/// Opens a breakpoint; `None` if the kernel has no slot for it. A task is known by its thread id.
fn open(kernel: &dyn Kernel, owner: Owner, kind: Kind) -> Result<Option<OwnedFd>, KernelError> {
    let (pid, cpu) = match owner {
        Owner::Cpu(cpu) => (-1, cpu as i32),
        Owner::TaskOnCpu(SlotTask(tid), cpu) => (tid as i32, cpu as i32),
        Owner::Task(SlotTask(tid)) => (tid as i32, -1),
    };
    let mut attr = untouched(kind);
    attr.flags.insert(AttrFlags::DISABLED);
    match kernel.open(&attr, pid, cpu, None, OpenFlags::FD_CLOEXEC) {
        Ok(event) => Ok(Some(event)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOSPC) => Ok(None),
        Err(source) => Err(KernelError::Open { owner, source }),
    }
}

/// Takes as many as there are.
fn all(kernel: &dyn Kernel, owner: Owner, kind: Kind) -> Result<Vec<OwnedFd>, KernelError> {
    let mut events = Vec::new();
    while events.len() < MOST
        && let Some(event) = open(kernel, owner, kind)?
    {
        events.push(event);
    }
    Ok(events)
}

/// How many breakpoints of this kind the kernel would let in now for `owner`: they are opened and closed
/// again. A task is known by its thread id; 0 is the calling thread.
///
/// # Errors
/// [`KernelError::Open`].
pub fn free_slots(kernel: &dyn Kernel, owner: Owner, kind: Kind) -> Result<u32, KernelError> {
    Ok(all(kernel, owner, kind)?.len() as u32)
}

/// Slots of each CPU that this thread could have at this moment: all, unless somebody has bound some to a
/// CPU or watches this thread.
///
/// # Errors
/// [`KernelError::Open`], [`KernelError::None`].
pub fn slots(kernel: &dyn Kernel) -> Result<Slots, KernelError> {
    let slots = slots_for(kernel, Owner::Task(OWN))?;
    if slots.of(Kind::Data) == 0 { Err(KernelError::None) } else { Ok(slots) }
}

/// The calling thread, as a task.
pub const OWN: SlotTask = SlotTask(0);

/// Slots that `owner` could have at this moment; all in one pool if there are none for instructions while
/// all for data are taken.
///
/// # Errors
/// [`KernelError::Open`].
pub fn slots_for(kernel: &dyn Kernel, owner: Owner) -> Result<Slots, KernelError> {
    let data = all(kernel, owner, Kind::Data)?;
    // With all slots for data taken, there is room for an instruction only where it has its own.
    let instruction = all(kernel, owner, Kind::Instruction)?.len() as u32;
    let data = data.len() as u32;
    Ok(match instruction {
        0 => Slots::Mixed(data),
        instruction => Slots::Separate { data, instruction },
    })
}

fn own_id() -> u64 {
    rustix::thread::gettid().as_raw_nonzero().get() as u64
}

/// How a comparison is made.
#[derive(Debug, Clone)]
pub struct KernelCheck {
    /// The machine: CPUs that it can have, slots as [`slots`] found them.
    pub layout: Layout,
    /// CPUs that are on.
    pub online: Vec<u32>,
    /// Breakpoints to open or close.
    pub operations: u64,
    /// Threads that breakpoints are for.
    pub tasks: usize,
    /// Seed of the order.
    pub seed: u64,
}

/// What a comparison came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Breakpoints opened.
    pub opened: u64,
    /// And closed.
    pub closed: u64,
    /// Refused by the kernel, and by the rules.
    pub refused: u64,
    /// What the kernel and the rules do not agree about, up to 10; each a sentence.
    pub disagreements: Vec<String>,
    /// How many those are in all.
    pub disagreed: u64,
}

/// Disagreements that are told.
const MOST_TOLD: usize = 10;

/// Opens and closes breakpoints of all three cases at random, and compares each answer with that of the
/// rules. Threads of ours are the tasks.
///
/// # Errors
/// [`KernelError::Open`]; [`KernelError::Held`] if others hold slots before it begins or behind it.
pub fn compare(kernel: &dyn Kernel, how: &KernelCheck) -> Result<Compared, KernelError> {
    let tasks = Tasks::new(how.tasks);
    free(kernel, how)?;
    let rules = Constant::new(how.layout);
    let mut random = fastrand::Rng::with_seed(how.seed);
    let mut held: Vec<(SlotRequest, OwnedFd)> = Vec::new();
    let mut compared = Compared::default();
    for _ in 0..how.operations {
        // From empty to full and back, several times.
        let is_rising = random.u32(0..100) < 60;
        if !is_rising && !held.is_empty() {
            let (request, event) = held.swap_remove(random.usize(0..held.len()));
            drop(event);
            compared.closed += 1;
            if let Err(error) = rules.release(request) {
                compared.disagree(format!("closing {request:?}: {error}"));
            }
            continue;
        }
        let request = SlotRequest { kind: kind(&mut random), ..any(&mut random, how, &tasks.ids) };
        let reserved = rules.reserve(request);
        let open = || open(kernel, request.owner, request.kind);
        let event = if reserved.is_ok() { patiently(open)? } else { open()? };
        match (event, reserved) {
            (Some(event), Ok(())) => {
                compared.opened += 1;
                held.push((request, event));
            }
            (None, Err(SlotError::Full { .. })) => compared.refused += 1,
            (Some(_), Err(error)) => {
                compared.disagree(format!("the kernel opened {request:?}, the rules: {error}"));
            }
            (None, _) => {
                // What was not opened is not there.
                let _ = rules.release(request);
                compared.disagree(format!("the kernel refused {request:?}, the rules did not"));
            }
        }
    }
    drop(held);
    // Somebody who came meanwhile is no disagreement.
    free(kernel, how)?;
    Ok(compared)
}

impl Compared {
    fn disagree(&mut self, what: String) {
        self.disagreed += 1;
        if self.disagreements.len() < MOST_TOLD {
            self.disagreements.push(what);
        }
    }
}

fn kind(random: &mut fastrand::Rng) -> Kind {
    if random.bool() { Kind::Data } else { Kind::Instruction }
}

/// Any of the three cases.
fn any(random: &mut fastrand::Rng, how: &KernelCheck, tasks: &[SlotTask]) -> SlotRequest {
    let cpu = how.online[random.usize(0..how.online.len())];
    let task = tasks[random.usize(0..tasks.len())];
    SlotRequest::data(match random.u32(0..5) {
        0 => Owner::Cpu(cpu),
        1 | 2 => Owner::TaskOnCpu(task, cpu),
        _ => Owner::Task(task),
    })
}

/// Makes sure that nobody else holds a slot: each CPU must have all.
fn free(kernel: &dyn Kernel, how: &KernelCheck) -> Result<(), KernelError> {
    let slots = how.layout.slots.of(Kind::Data);
    for &cpu in &how.online {
        let mut held = 0;
        let is_free = || {
            let found = all(kernel, Owner::Cpu(cpu), Kind::Data)?.len() as u32;
            held = slots.saturating_sub(found);
            Ok((held == 0).then_some(()))
        };
        if patiently(is_free)?.is_none() {
            return Err(KernelError::Held { cpu, held, slots });
        }
    }
    Ok(())
}

/// Threads that do nothing until they are dropped.
struct Tasks {
    ids: Vec<SlotTask>,
    end: Arc<Barrier>,
    threads: Vec<JoinHandle<()>>,
}

impl Tasks {
    fn new(number: usize) -> Self {
        let end = Arc::new(Barrier::new(number + 1));
        let (tell, told) = channel();
        let sleeper = |tell: Sender<u64>, end: Arc<Barrier>| {
            move || {
                // The receiver is there until all have told.
                let _ = tell.send(own_id());
                drop(tell);
                end.wait();
            }
        };
        let threads: Vec<_> = (0..number)
            .map(|_| std::thread::spawn(sleeper(tell.clone(), Arc::clone(&end))))
            .collect();
        drop(tell);
        Self { ids: told.iter().map(SlotTask).collect(), end, threads }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.end.wait();
        for thread in self.threads.drain(..) {
            // It cannot have panicked.
            let _ = thread.join();
        }
    }
}
