//! A watch from its first point to its last hit: the source of a recording's samples.
//!
//! ```text
//!  recorder's main thread   observe threads ─ begin: arm ────────────────────── end: disarm
//!  thread of the source        drain the ring ─ append ─ arm or disarm as the pace says ─ … ─ the rest
//!  kernel                      hit ─► program ─► counts, ring
//! ```

mod blocks;
mod plain;
mod state;

pub use plain::Plain;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pmuscope_bpf::{BpfError, Program};
use pmuscope_counters::{EventRequest, Kernel};
use pmuscope_machine::Machine;
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::watch::{
    Access, HitCost, Means, ValueKind, WatchInfo, WatchPoint, WatchTarget, WriterCount,
};
use pmuscope_recorder::{Feed, RecorderError, Source};

use self::state::WatchState;
use crate::condition::{Condition, ConditionError};
use crate::cost::{self, CostError, HitKind};
use crate::hits::{self, Identity};
use crate::pace::Pace;
use crate::points::{Point, PointError, PointScope};
use crate::prepare::Turn;
use crate::program::{IS_SUPPORTED, Memory, ProgramPoint, TRAPS_AFTER, load};

/// Ids of our samples: far above those that the kernel counts up from 1.
const FIRST_ID: u64 = 0x7077_0000_0000_0000;
/// Writers that a result names; all others of the kernel's table are summed up.
const MOST_WRITERS: usize = 20_000;

/// What to watch and how.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// What was asked for; points refer to them by position.
    pub targets: Vec<WatchTarget>,
    /// One for each slot that is needed.
    pub points: Vec<Point>,
    /// Points that are armed together; several turns where not all fit.
    pub turns: Vec<Turn>,
    /// Write down only hits for which this holds.
    pub when: Option<Condition>,
    /// Write down only hits that change the value.
    pub when_changed: bool,
    /// Reads the value at each hit. In a watchpoint on reads that costs several times the hit ([`crate::cost`]).
    pub values: bool,
    /// Write nothing down.
    pub count_only: bool,
    /// Depth of call stacks; 0: none.
    pub depth: u16,
    /// Extra time per time of the target's work, 0.1 is 10 %; `None`: no limit.
    pub most_slowdown: Option<f64>,
    /// Hits written down per second at most: beyond that every Nth is.
    pub most_records: u64,
    /// Processes that are watched; empty: everything on all CPUs.
    pub pids: Vec<u32>,
    /// What is watched, in words, where not those processes by number.
    pub scope: Option<String>,
    /// CPUs that are on.
    pub online_cpus: usize,
    /// Bytes of a cache line; `None` where not known.
    pub cache_line: Option<u32>,
    /// Clock of the time stamps.
    pub clockid: i32,
}

/// Why a watch cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Programs cannot be loaded.
    #[error("cannot load the BPF program for hits: {0}")]
    Program(#[from] BpfError),
    /// A point cannot be opened.
    #[error(transparent)]
    Point(#[from] PointError),
    /// What a hit costs cannot be told.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// The condition does not suit a target.
    #[error(transparent)]
    Condition(#[from] ConditionError),
    /// No programs are made for this architecture.
    #[error("BPF programs for hits are supported on x86-64 and arm64 only")]
    Architecture,
    /// Programs of the kernel know processes by other numbers than we do.
    #[error(
        "pmuscope runs in its own PID namespace (a container), but BPF programs see the PIDs of \
         the host. Try: on the host, or in a container with the host's PID namespace (--pid=host)"
    )]
    Namespace,
    /// The target has ended, or cannot be looked into.
    #[error("{0}")]
    Gone(String),
    /// The new value is not known at the hit.
    #[error(
        "--when and --when-changed are not supported on this architecture: breakpoints trap before \
         the access, when the new value is unknown. Try: without them; the report shows old and \
         new values of each hit"
    )]
    TrapsBefore,
}

impl WatchError {
    /// Whether it is BPF that may not or cannot be used here: then [`Plain`] may do.
    #[must_use]
    pub fn is_bpf_permission(&self) -> bool {
        match self {
            Self::Program(error) | Self::Cost(CostError::Program(error)) => error.is_permission(),
            Self::Namespace => true,
            _ => false,
        }
    }
}

/// What is done once points are armed.
type AtBegin = Box<dyn FnOnce() -> Result<(), RecorderError> + Send>;

/// A watch with its programs loaded.
pub struct Watch<'a> {
    options: WatchOptions,
    kernel: &'a dyn Kernel,
    machine: &'a Machine,
    memory: Memory,
    programs: Vec<Program>,
    identities: Vec<Identity>,
    cost: HitCost,
    at_begin: Mutex<Option<AtBegin>>,
    state: Mutex<WatchState>,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> Watch<'a> {
    /// Measures what a hit costs, and loads a program for each point. Nothing is opened for the target.
    ///
    /// # Errors
    /// [`WatchError`]; [`BpfError::is_permission`] where programs are not allowed.
    pub fn new(
        kernel: &'a dyn Kernel,
        machine: &'a Machine,
        options: WatchOptions,
    ) -> Result<Self, WatchError> {
        if !IS_SUPPORTED {
            return Err(WatchError::Architecture);
        }
        if !TRAPS_AFTER && (options.when.is_some() || options.when_changed) {
            return Err(WatchError::TrapsBefore);
        }
        if !has_pids_of_the_machine(machine) {
            return Err(WatchError::Namespace);
        }
        let memory = Memory::new(options.points.len())?;
        let kind = HitKind::of(&options);
        let cost = cost::measure(kernel, kind)?;
        let programs = (0..options.points.len())
            .map(|point| Ok(load(&memory, &watched(&options, point)?)?))
            .collect::<Result<Vec<_>, WatchError>>()?;
        let identity = |(number, point): (usize, &Point)| Identity {
            id: FIRST_ID + number as u64,
            address: point.address,
        };
        let identities = options.points.iter().enumerate().map(identity).collect();
        let pace = Pace::new(options.most_slowdown, cost.ns);
        let state = Mutex::new(WatchState::new(&options, pace));
        let at_begin = Mutex::new(None);
        Ok(Self { options, kernel, machine, memory, programs, identities, cost, at_begin, state })
    }

    /// Does this once points are armed, before the target goes on: a command that waits is let go.
    pub fn at_begin(&self, act: impl FnOnce() -> Result<(), RecorderError> + Send + 'static) {
        *self.at_begin.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what points hold before the first hit. Where that cannot be read the first hit has no old
    /// value.
    fn read_first_values(&self) {
        if !TRAPS_AFTER {
            // The first hit finds it.
            return;
        }
        for (number, point) in self.options.points.iter().enumerate() {
            if !self.options.values || point.access == Access::Execute || point.in_kernel {
                continue;
            }
            for &pid in &self.options.pids {
                let process = if point.is_shared { 0 } else { pid };
                if let Some(value) = read_value(self.machine, pid, point) {
                    // Without room for it the first hit has no old value, as said.
                    let _ = self.memory.set_value(process, number as u32, value);
                }
            }
        }
    }

    /// What was read, or nothing, which the result says then.
    fn or_trouble<T: Default>(&self, read: Result<T, BpfError>) -> T {
        read.unwrap_or_else(|error| {
            self.state().note_text(&format!("cannot read counts: {error}"));
            T::default()
        })
    }

    fn writers(&self) -> (Vec<WriterCount>, Vec<u64>) {
        let totals = self.or_trouble(self.memory.totals());
        let mut unattributed: Vec<u64> = totals.iter().map(|total| total.unattributed).collect();
        let mut writers: Vec<WriterCount> = self
            .or_trouble(self.memory.writers())
            .into_iter()
            .map(|writer| WriterCount {
                point: writer.point,
                pid: writer.pid,
                tid: writer.tid,
                ip: writer.ip,
                in_kernel: writer.in_kernel,
                hits: writer.hits,
                changed: writer.changed,
                plus_one: writer.plus_one,
                passed: writer.passed,
            })
            .collect();
        writers.sort_unstable_by_key(|writer| {
            (std::cmp::Reverse(writer.hits), writer.point, writer.pid, writer.tid, writer.ip)
        });
        for writer in writers.drain(writers.len().min(MOST_WRITERS)..) {
            if let Some(unattributed) = unattributed.get_mut(writer.point as usize) {
                *unattributed += writer.hits;
            }
        }
        (writers, unattributed)
    }

    fn info(&self, first: usize, complete: bool) -> WatchInfo {
        let totals = self.or_trouble(self.memory.totals());
        let (writers, unattributed) = if complete { self.writers() } else { Default::default() };
        let state = self.state();
        WatchInfo {
            targets: self.options.targets.clone(),
            points: points_of_file(&self.options.points, first),
            means: Means::Bpf,
            writers,
            unattributed,
            every: state.most_every(),
            lost: totals.iter().map(|total| total.lost).collect(),
            most_slowdown: self.options.most_slowdown,
            slowdown: state.slowdown(),
            hit_cost: Some(self.cost),
            target_cpu_ns: state.target_cpu_ns(),
            blocks: if complete { state.blocks() } else { Vec::new() },
            passed: totals.iter().map(|total| total.passed).collect(),
            when: self.options.when.as_ref().map(|condition| condition.text.clone()),
            when_changed: self.options.when_changed,
            count_only: self.options.count_only,
            cache_line: self.options.cache_line,
        }
    }
}

/// Points as the file has them; their events begin at `first`.
fn points_of_file(points: &[Point], first: usize) -> Vec<WatchPoint> {
    let point = |(number, point): (usize, &Point)| WatchPoint {
        event: (first + number) as u32,
        target: point.target as u32,
        address: point.address,
        bytes: point.length() as u8,
    };
    points.iter().enumerate().map(point).collect()
}

impl WatchOptions {
    /// What the event of a point is called: as its target, and where that has several, by its place in it.
    fn name_of(&self, number: usize) -> String {
        let Some(point) = self.points.get(number) else { return String::new() };
        let name = self.targets.get(point.target).map_or("", |target| &target.name);
        let is_one = self.points.iter().filter(|other| other.target == point.target).count() == 1;
        let first = self.targets.get(point.target).map_or(0, |target| target.address);
        if is_one {
            name.into()
        } else {
            format!("{name}+{:#x}", point.address.wrapping_sub(first))
        }
    }
}

/// What the program of a point needs to know.
fn watched(options: &WatchOptions, number: usize) -> Result<ProgramPoint, ConditionError> {
    let point = &options.points[number];
    let target = options.targets.get(point.target);
    let kind = target.map_or(ValueKind::Unsigned, |target| target.value);
    let executes = point.access == Access::Execute;
    if executes && (options.when.is_some() || options.when_changed) {
        let target = target.map_or_else(String::new, |target| target.name.clone());
        return Err(ConditionError::Execution { target });
    }
    let when = match (&options.when, target) {
        (Some(condition), Some(target)) => {
            let (name, names) = (&target.name, &target.names);
            Some(condition.for_target(name, target.value, point.bytes, names)?)
        }
        _ => None,
    };
    Ok(ProgramPoint {
        point: number as u32,
        address: point.address,
        bytes: (options.values && !executes).then_some(point.bytes),
        argument: None,
        in_kernel: point.in_kernel,
        is_shared: point.is_shared,
        kind,
        when,
        when_changed: options.when_changed,
        records: !options.count_only,
        depth: options.depth,
    })
}

/// What a process has at a point, zero-extended.
fn read_value(machine: &Machine, pid: u32, point: &Point) -> Option<u64> {
    use std::os::unix::fs::FileExt as _;
    let memory = std::fs::File::open(machine.root().join(format!("proc/{pid}/mem"))).ok()?;
    let mut bytes = [0; 8];
    let length = usize::from(point.bytes).min(8);
    memory.read_exact_at(&mut bytes[..length], point.address).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Whether our process ids are those that the kernel itself uses: of the first pid namespace, whose number is
/// fixed (`PROC_PID_INIT_INO` in `include/linux/proc_ns.h`). Where that cannot be read it is taken for granted.
fn has_pids_of_the_machine(machine: &Machine) -> bool {
    const FIRST: &str = "pid:[4026531836]";
    let link = std::fs::read_link(machine.root().join("proc/self/ns/pid"));
    link.map_or(true, |link| link.as_os_str() == FIRST)
}

fn source_error(error: PointError) -> RecorderError {
    RecorderError::Source(Box::new(error))
}

impl Source for Watch<'_> {
    fn events(&self) -> Vec<(EventRequest, u64)> {
        let event = |(number, (point, identity)): (usize, (&Point, &Identity))| {
            let request = EventRequest {
                name: self.options.name_of(number),
                attr: point.file_attr(self.options.clockid),
                leader: None,
                cpus: None,
                any_task: false,
                max_precise: false,
            };
            (request, identity.id)
        };
        self.options.points.iter().zip(&self.identities).enumerate().map(event).collect()
    }

    fn observe_thread(&self, tid: u32) -> Result<(), RecorderError> {
        let place = PointScope::Thread(tid);
        self.state()
            .observe(self.kernel, &self.options.points, &self.programs, place)
            .map_err(source_error)
    }

    fn observe_cpu(&self, cpu: u32) -> Result<(), RecorderError> {
        let place = PointScope::Cpu(cpu);
        self.state()
            .observe(self.kernel, &self.options.points, &self.programs, place)
            .map_err(source_error)
    }

    fn forget_threads(&self) {
        self.state().forget(&self.options.points);
    }

    fn begin(&self) -> Result<(), RecorderError> {
        self.read_first_values();
        self.state().begin(self.kernel, self.options.clockid).map_err(source_error)?;
        let act = self.at_begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        act.map_or(Ok(()), |act| act())
    }

    fn end(&self) {
        self.state().end(self.kernel, &self.memory, self.options.clockid);
    }

    fn run(&self, feed: &Feed<'_>) {
        let mut samples = Vec::new();
        loop {
            let (over, position) = (feed.is_over(), feed.position());
            samples.clear();
            self.memory.ring().drain(|record| {
                hits::append(record, &self.identities, &mut samples);
            });
            feed.append(position, &samples);
            if over {
                return;
            }
            feed.wait(self.pace());
        }
    }

    fn describe(&self, info: &mut RecordingInfo, first: usize, complete: bool) {
        let watch = self.info(first, complete);
        let state = self.state();
        for (number, event) in info.events.iter_mut().skip(first).enumerate() {
            event.counted = state.counted(number);
            event.lost = watch.lost.get(number).copied();
        }
        info.notices.extend(state.notices());
        drop(state);
        info.scope = self.options.scope.clone().unwrap_or_else(|| info.scope.clone());
        info.watch = Some(watch);
    }
}

impl Watch<'_> {
    /// Arms or disarms as the pace says; how long until the next reading.
    fn pace(&self) -> Duration {
        self.state().step(self.kernel, self.machine, &self.memory, &self.programs, &self.options)
    }
}
