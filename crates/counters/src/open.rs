//! Opens a set of sampling events and their ring buffers.
//!
//! ```text
//!             CPU 0                       CPU 1
//!   event 0   fd ── owns ring 0           fd ── owns ring 1
//!   event 1   fd ── SET_OUTPUT ► ring 0   fd ── SET_OUTPUT ► ring 1
//! ```
//!
//! `perf_event_open` and its ioctls interrupt the CPU that the event is bound to; from that CPU itself
//! they do not. So each NUMA node has a thread that visits its CPUs and opens events on each.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use pmuscope_abi::{Attr, AttrFlags, OpenFlags, event_type, software};
use pmuscope_machine::{CpuSet, Machine, Topology, place};

use crate::error::{CountersError, OpenQuestion, open_hint};
use crate::kernel::Kernel;
use crate::limits::{MemoryBudget, ResourceNeed, raise_open_files};
use crate::ring::Ring;
use crate::scope::{Scope, ThreadOrCpu};
use crate::value::Value;

/// An event to open for all CPUs or threads of the scope.
#[derive(Debug, Clone)]
pub struct EventRequest {
    /// As typed by the user.
    pub name: String,
    /// The attribute, complete.
    pub attr: Attr,
    /// Index of the group's leader among the requests; `None` for leaders and single events.
    pub leader: Option<usize>,
    /// The CPUs that can count it; `None` for all.
    pub cpus: Option<CpuSet>,
    /// Opened for any task even where the scope is narrower (sideband of tasks that migrate in).
    pub any_task: bool,
    /// As precise as the machine can: `attr.precise_ip` is set to the highest value from 3 down that
    /// opens.
    pub max_precise: bool,
}

/// The size of each ring buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingSize {
    /// At most this many bytes, fewer if the memory budget requires it.
    AtMost(u64),
    /// Exactly this many bytes, or an error.
    Exactly(u64),
}

impl RingSize {
    /// Bytes to try first.
    fn resolve(self, budget: MemoryBudget, rings: u64) -> Result<u64, CountersError> {
        let page = rustix::param::page_size() as u64;
        match self {
            Self::AtMost(bytes) => Ok(budget.fit(bytes, rings, page)),
            Self::Exactly(bytes) if bytes.is_power_of_two() && bytes >= page => Ok(bytes),
            Self::Exactly(bytes) => Err(CountersError::RingSize(bytes)),
        }
    }
}

/// The watermark of a ring is one part in so many of its size.
const WATERMARK_PART: u64 = 4;

/// How to open. Events with [`AttrFlags::WATERMARK`] wake their reader when a quarter of the ring
/// buffer is full: the rest is slack for a reader that does not get a CPU immediately.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// Size of the data area of each ring buffer.
    pub ring_size: RingSize,
}

/// Events with [`AttrFlags::WRITE_BACKWARD`] (flight recorder: mapped read-only, the kernel overwrites what
/// is old) have rings apart from the others, which then bring mappings and tasks only: a ring for these
/// has so many bytes at most.
const SIDEBAND_BYTES: u64 = 256 << 10;

/// An open descriptor.
#[derive(Debug)]
pub struct OpenedEvent {
    /// Index of the request.
    pub event: usize,
    /// Index of the ring buffer that it writes to.
    pub ring: usize,
    /// Id that its records carry.
    pub id: u64,
    /// CPU it is bound to.
    pub cpu: Option<u32>,
    /// Thread it observes; `None` for any.
    pub tid: Option<u32>,
    /// Whether it leads a group or is a single event.
    pub leads: bool,
    fd: OwnedFd,
}

impl OpenedEvent {
    /// The descriptor, for polling.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Open events and their ring buffers.
#[derive(Debug)]
pub struct SamplingSet {
    requests: Vec<EventRequest>,
    events: Vec<OpenedEvent>,
    rings: Vec<Ring>,
    offline: CpuSet,
}

impl SamplingSet {
    /// Opens `requests` for `scope`. Threads that end and CPUs that go offline meanwhile are skipped.
    ///
    /// # Errors
    /// [`CountersError`]; nothing stays open then. [`CountersError::Vanished`] if nothing is left.
    pub fn open(
        kernel: &dyn Kernel,
        machine: &Machine,
        topology: &Topology,
        scope: &Scope,
        requests: Vec<EventRequest>,
        options: OpenOptions,
    ) -> Result<Self, CountersError> {
        let rings = scope.rings();
        let places: usize = rings.iter().map(Vec::len).sum();
        raise_open_files(ResourceNeed::new(requests.len() as u64, places as u64))?;
        let limits = machine.limits();
        let budget = memory_budget(machine, topology);
        let of_sideband = has_sideband_rings(&requests);
        let count = rings.len() as u64 * if of_sideband { 2 } else { 1 };
        let ring_size = options.ring_size.resolve(budget, count)?;
        let requests = with_watermark(requests, ring_size, of_sideband);
        let opener =
            Opener { kernel, scope, requests: &requests, paranoid: limits.perf_event_paranoid };
        let opened = opener.open_all(topology, &rings)?;
        if opened.iter().all(|ring| ring.events.is_empty()) {
            return Err(CountersError::Vanished(vanished(scope)));
        }
        let offline = offline(&opened);
        let opened = by_direction(opened, &requests);
        let mapped = map_all(kernel, opened, budget, ring_size, options)?;
        Ok(Self { offline, ..Self::collect(requests, mapped) })
    }

    fn collect(requests: Vec<EventRequest>, mapped: Vec<(OpenedRing, Ring)>) -> Self {
        let mut events = Vec::new();
        let mut rings = Vec::new();
        for (index, (opened, ring)) in mapped.into_iter().enumerate() {
            events.extend(
                opened.events.into_iter().map(|event| OpenedEvent { ring: index, ..event }),
            );
            rings.push(ring);
        }
        Self { requests, events, rings, offline: CpuSet::default() }
    }

    /// The requests.
    #[must_use]
    pub fn requests(&self) -> &[EventRequest] {
        &self.requests
    }

    /// Every descriptor.
    #[must_use]
    pub fn events(&self) -> &[OpenedEvent] {
        &self.events
    }

    /// CPUs of the scope that were offline when their events were to be opened: they have none.
    #[must_use]
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// The ring buffers, until they are taken.
    #[must_use]
    pub fn rings(&self) -> &[Ring] {
        &self.rings
    }

    /// The ring buffers, to be passed to their readers; the set keeps the descriptors.
    #[must_use]
    pub fn take_rings(&mut self) -> Vec<Ring> {
        std::mem::take(&mut self.rings)
    }

    /// The ids of a request's descriptors.
    #[must_use]
    pub fn ids(&self, event: usize) -> Vec<u64> {
        self.events.iter().filter(|opened| opened.event == event).map(|opened| opened.id).collect()
    }

    /// Starts all groups that are not running yet, from their own CPUs. `phase` is called before each
    /// CPU's events and may wait, to start them at different phases.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn enable(
        &self,
        kernel: &dyn Kernel,
        mut phase: impl FnMut(Option<u32>),
    ) -> Result<(), CountersError> {
        let mut last = None;
        for opened in self.events.iter().filter(|opened| opened.leads) {
            if !self.requests[opened.event].attr.flags.contains(AttrFlags::DISABLED) {
                continue;
            }
            if last != Some(opened.cpu) {
                phase(opened.cpu);
                last = Some(opened.cpu);
            }
            kernel
                .enable(opened.fd())
                .map_err(|source| self.call_error("ioctl(ENABLE)", opened, source))?;
        }
        Ok(())
    }

    /// Starts or stops the groups whose leader has this name; false if there is none.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn switch_event(
        &self,
        kernel: &dyn Kernel,
        name: &str,
        on: bool,
    ) -> Result<bool, CountersError> {
        let named =
            |opened: &&OpenedEvent| opened.leads && self.requests[opened.event].name == name;
        let mut found = false;
        for opened in self.events.iter().filter(named) {
            found = true;
            let result = if on { kernel.enable(opened.fd()) } else { kernel.disable(opened.fd()) };
            result.map_err(|source| self.call_error("ioctl(ENABLE)", opened, source))?;
        }
        Ok(found)
    }

    /// Sets a new period (or frequency, for events that sample by frequency) on all CPUs and threads;
    /// its phase restarts. Children of inherited events keep the old one (`__perf_event_period` does
    /// not visit children).
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn set_period(
        &self,
        kernel: &dyn Kernel,
        event: usize,
        period: u64,
    ) -> Result<(), CountersError> {
        for opened in self.events.iter().filter(|opened| opened.event == event) {
            kernel
                .set_period(opened.fd(), period)
                .map_err(|source| self.call_error("ioctl(PERIOD)", opened, source))?;
        }
        Ok(())
    }

    /// Stops all groups.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn disable(&self, kernel: &dyn Kernel) -> Result<(), CountersError> {
        for opened in self.events.iter().filter(|opened| opened.leads) {
            kernel
                .disable(opened.fd())
                .map_err(|source| self.call_error("ioctl(DISABLE)", opened, source))?;
        }
        Ok(())
    }

    /// Reads one descriptor; `None` for an event that the kernel could never schedule (a pinned group
    /// that did not fit reads as end of file).
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn read(
        &self,
        kernel: &dyn Kernel,
        opened: &OpenedEvent,
    ) -> Result<Option<Value>, CountersError> {
        use pmuscope_abi::ReadFormat;
        let format = self.requests[opened.event].attr.read_format;
        let mut words = vec![0_u64; 8 + 4 * self.requests.len()];
        let filled = kernel
            .read(opened.fd(), &mut words)
            .map_err(|source| self.call_error("read", opened, source))?;
        let words = &words[..filled];
        Ok(if format.contains(ReadFormat::GROUP) {
            // Whichever member is read, the kernel tells of the whole group, its leader first.
            let is_it = |value: &&Value| value.id.is_none_or(|id| id == opened.id);
            Value::decode_group(format, words).and_then(|v| v.iter().find(is_it).copied())
        } else {
            Value::decode(format, words)
        })
    }

    /// Reopens all events of one CPU, to write to its existing ring buffer: a CPU that was offline
    /// has lost its events permanently, but not its buffer.
    ///
    /// # Errors
    /// [`CountersError`]; [`CountersError::Vanished`] if there is no ring buffer for that CPU, or if it is
    /// offline again.
    pub fn reopen(
        &self,
        kernel: &dyn Kernel,
        scope: &Scope,
        cpu: u32,
    ) -> Result<Self, CountersError> {
        // Strobed recordings, the only ones that reopen, have no rings that are written backwards.
        let here = |opened: &&OpenedEvent| opened.cpu == Some(cpu);
        let Some(owner) = self.events.iter().find(here) else {
            return Err(CountersError::Vanished(format!("CPU {cpu} went offline")));
        };
        let opener = Opener { kernel, scope, requests: &self.requests, paranoid: None };
        let opened = opener.open_ring(&[ThreadOrCpu { cpu: Some(cpu), tid: None }])?;
        if opened.events.is_empty() {
            return Err(CountersError::Vanished(format!("CPU {cpu} went offline")));
        }
        for event in &opened.events {
            kernel
                .redirect(event.fd(), owner.fd())
                .map_err(|source| self.call_error("ioctl(SET_OUTPUT)", event, source))?;
        }
        let ring = owner.ring;
        let events = opened.events.into_iter().map(|event| OpenedEvent { ring, ..event });
        Ok(Self {
            requests: self.requests.clone(),
            events: events.collect(),
            rings: Vec::new(),
            offline: CpuSet::default(),
        })
    }

    fn call_error(
        &self,
        call: &'static str,
        opened: &OpenedEvent,
        source: io::Error,
    ) -> CountersError {
        let place = ThreadOrCpu { cpu: opened.cpu, tid: opened.tid };
        let event = self.requests[opened.event].name.clone();
        CountersError::Call { call, event, place: describe_place(place), source }
    }
}

/// The descriptors of one ring, first the one that will own it.
pub(crate) struct OpenedRing {
    cpu: Option<u32>,
    tid: Option<u32>,
    pub(crate) events: Vec<OpenedEvent>,
    direction: Direction,
    /// Whether the CPU was offline.
    is_offline: bool,
}

/// The CPUs that were offline.
pub(crate) fn offline(opened: &[OpenedRing]) -> CpuSet {
    opened.iter().filter(|ring| ring.is_offline).filter_map(|ring| ring.cpu).collect()
}

/// Sentence, without full stop, on CPUs that were offline and are missing from a measurement; `None` for no CPU.
#[must_use]
pub fn offline_notice(offline: &CpuSet) -> Option<String> {
    let subject = match offline.len() {
        0 => return None,
        1 => format!("CPU {offline} was"),
        _ => format!("CPUs {offline} were"),
    };
    Some(format!("{subject} offline when events were opened: nothing was measured there"))
}

/// A reason for a place to have no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// The thread has ended.
    Thread,
    /// The CPU is offline.
    Cpu,
}

/// Which way the kernel writes a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// To a reader.
    Forward,
    /// To a reader, next to a ring buffer that nothing reads.
    Sideband,
    /// Over what is old.
    Backward,
}

impl Direction {
    /// Bytes of a ring where others have `size`.
    fn bytes(self, size: u64) -> u64 {
        if self == Self::Sideband { size.min(SIDEBAND_BYTES) } else { size }
    }
}

/// Opens descriptors; maps nothing yet.
pub(crate) struct Opener<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) scope: &'a Scope,
    pub(crate) requests: &'a [EventRequest],
    pub(crate) paranoid: Option<i32>,
}

/// Whether a thread belongs to another user, as far as `/proc` tells.
fn is_foreign(tid: u32) -> bool {
    let owner = std::fs::metadata(format!("/proc/{tid}")).map(|of| of.uid());
    owner.is_ok_and(|owner| owner != rustix::process::geteuid().as_raw())
}

impl Opener<'_> {
    pub(crate) fn open_all(
        &self,
        topology: &Topology,
        rings: &[Vec<ThreadOrCpu>],
    ) -> Result<Vec<OpenedRing>, CountersError> {
        let by_node = rings_by_node(topology, rings);
        let mut opened: Vec<(usize, OpenedRing)> = std::thread::scope(|threads| {
            let workers: Vec<_> = by_node
                .iter()
                .map(|indices| threads.spawn(|| self.open_rings(rings, indices)))
                .collect();
            let mut all = Vec::with_capacity(rings.len());
            for worker in workers {
                // A panic in the worker is a defect; it is passed on, not hidden.
                all.extend(worker.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))?);
            }
            Ok::<_, CountersError>(all)
        })?;
        opened.sort_by_key(|(index, _)| *index);
        Ok(opened.into_iter().map(|(_, ring)| ring).collect())
    }

    /// Runs on a thread of its own, which moves from CPU to CPU.
    fn open_rings(
        &self,
        rings: &[Vec<ThreadOrCpu>],
        indices: &[usize],
    ) -> Result<Vec<(usize, OpenedRing)>, CountersError> {
        indices
            .iter()
            .map(|&index| {
                let places = &rings[index];
                let cpu = places.first().and_then(|place| place.cpu);
                if let Some(cpu) = cpu {
                    // Only a matter of cost: a CPU outside our cpuset is opened from elsewhere.
                    let _ = place::set_affinity(&CpuSet::from_iter([cpu]));
                }
                Ok((index, self.open_ring(places)?))
            })
            .collect()
    }

    fn open_ring(&self, places: &[ThreadOrCpu]) -> Result<OpenedRing, CountersError> {
        let first = places.first().copied().unwrap_or(ThreadOrCpu { cpu: None, tid: None });
        let tid = if first.cpu.is_none() { first.tid } else { None };
        let direction = Direction::Forward;
        let mut ring =
            OpenedRing { cpu: first.cpu, tid, events: Vec::new(), direction, is_offline: false };
        for place in places {
            let gone = self.open_place(*place, &mut ring.events)?;
            ring.is_offline |= gone == Some(Gone::Cpu);
        }
        Ok(ring)
    }

    /// Opens every request at one place. A thread that has ended and a CPU that went offline leave nothing
    /// behind.
    fn open_place(
        &self,
        place: ThreadOrCpu,
        events: &mut Vec<OpenedEvent>,
    ) -> Result<Option<Gone>, CountersError> {
        let start = events.len();
        for (index, request) in self.requests.iter().enumerate() {
            let runs_here =
                place.cpu.is_none_or(|cpu| request.cpus.as_ref().is_none_or(|c| c.contains(cpu)));
            // One descriptor for any task is enough, however many threads share the ring.
            let is_there = || events.iter().any(|opened| opened.event == index);
            if !runs_here || request.any_task && is_there() {
                continue;
            }
            let leader = request.leader.and_then(|leader| {
                events[start..].iter().find(|opened| opened.event == leader).map(OpenedEvent::fd)
            });
            match self.open_one(request, place, leader) {
                Ok((fd, id)) => {
                    let tid = if request.any_task { None } else { place.tid };
                    let leads = request.leader.is_none();
                    events.push(OpenedEvent {
                        event: index,
                        ring: 0,
                        id,
                        cpu: place.cpu,
                        tid,
                        leads,
                        fd,
                    });
                }
                Err(error) => {
                    let Some(gone) = self.gone(place, &error) else { return Err(error) };
                    events.truncate(start);
                    return Ok(Some(gone));
                }
            }
        }
        Ok(None)
    }

    /// The thread or CPU that has gone since the scope was made, where that caused the error. A PMU that lacks the event
    /// can answer `ENODEV`, too, but a dummy event is refused by an offline CPU only (`perf_event_open` in
    /// kernel/events/core.c).
    fn gone(&self, place: ThreadOrCpu, error: &CountersError) -> Option<Gone> {
        let CountersError::Open { source, .. } = error else { return None };
        match (source.raw_os_error(), place) {
            (Some(libc::ESRCH), ThreadOrCpu { tid: Some(_), .. }) => Some(Gone::Thread),
            (Some(libc::ENODEV), ThreadOrCpu { cpu: Some(cpu), .. }) => {
                let attr = Attr {
                    event_type: event_type::SOFTWARE,
                    config: software::DUMMY,
                    ..Attr::default()
                };
                let opened = self.kernel.open(&attr, -1, cpu as i32, None, OpenFlags::FD_CLOEXEC);
                let is_offline =
                    matches!(opened, Err(error) if error.raw_os_error() == Some(libc::ENODEV));
                is_offline.then_some(Gone::Cpu)
            }
            _ => None,
        }
    }

    fn open_one(
        &self,
        request: &EventRequest,
        place: ThreadOrCpu,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<(OwnedFd, u64), CountersError> {
        use std::os::fd::AsRawFd as _;
        let mut flags = OpenFlags::FD_CLOEXEC;
        let pid = match (request.any_task, self.scope) {
            (false, Scope::Cgroup { directory, .. }) => {
                flags |= OpenFlags::PID_CGROUP;
                directory.as_raw_fd()
            }
            (false, _) => place.tid.map_or(-1, |tid| tid as i32),
            (true, _) => -1,
        };
        let cpu = place.cpu.map_or(-1, |cpu| cpu as i32);
        let fd = self
            .kernel
            .open(&request.attr, pid, cpu, leader, flags)
            .map_err(|source| self.explain(request, place, source))?;
        let id = self.kernel.event_id(fd.as_fd()).map_err(|source| CountersError::Call {
            call: "ioctl(ID)",
            event: request.name.clone(),
            place: describe_place(place),
            source,
        })?;
        Ok((fd, id))
    }

    fn explain(
        &self,
        request: &EventRequest,
        place: ThreadOrCpu,
        source: io::Error,
    ) -> CountersError {
        if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            let places: usize = self.scope.rings().iter().map(Vec::len).sum();
            let need = ResourceNeed::new(self.requests.len() as u64, places as u64);
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            return CountersError::OpenFiles { need, limit: limit.current.unwrap_or(u64::MAX) };
        }
        let kind = request.attr.event_type;
        let question = OpenQuestion {
            event: &request.name,
            hardware: !matches!(
                kind,
                event_type::SOFTWARE | event_type::TRACEPOINT | event_type::BREAKPOINT
            ),
            in_cgroup: matches!(self.scope, Scope::Cgroup { .. }),
            any_task: request.any_task || place.tid.is_none(),
            with_kernel: !request.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL),
            tracepoint: kind == event_type::TRACEPOINT,
            foreign: place.tid.is_some_and(is_foreign),
            paranoid: self.paranoid,
        };
        let hint = open_hint(&source, &question);
        let place = describe_place(place);
        CountersError::Open { event: self.name_for_people(request), place, source, hint }
    }

    /// Nobody asked for the event that only brings mappings and tasks: it is named with those that were.
    fn name_for_people(&self, request: &EventRequest) -> String {
        if !is_dummy(&request.attr) {
            return request.name.clone();
        }
        let asked_for = self.requests.iter().filter(|other| !is_dummy(&other.attr));
        let names: Vec<&str> = asked_for.map(|other| other.name.as_str()).collect();
        format!(
            "{} (sideband events: mmap, comm, fork, exit; for {})",
            request.name,
            names.join(", ")
        )
    }
}

fn is_backward(request: &EventRequest) -> bool {
    request.attr.flags.contains(AttrFlags::WRITE_BACKWARD)
}

/// Whether some events write backwards and others do not.
fn has_sideband_rings(requests: &[EventRequest]) -> bool {
    requests.iter().any(is_backward) && !requests.iter().all(is_backward)
}

fn with_watermark(
    mut requests: Vec<EventRequest>,
    ring_size: u64,
    of_sideband: bool,
) -> Vec<EventRequest> {
    for request in &mut requests {
        if request.attr.flags.contains(AttrFlags::WATERMARK) {
            let is_sideband = of_sideband && !is_backward(request);
            let direction = if is_sideband { Direction::Sideband } else { Direction::Forward };
            let watermark = direction.bytes(ring_size) / WATERMARK_PART;
            request.attr.wakeup = u32::try_from(watermark).unwrap_or(u32::MAX);
        }
    }
    requests
}

/// The kernel does not let events of both directions write to one ring.
fn by_direction(opened: Vec<OpenedRing>, requests: &[EventRequest]) -> Vec<OpenedRing> {
    let of_sideband = has_sideband_rings(requests);
    let split = |ring: OpenedRing| {
        let (backward, forward): (Vec<_>, Vec<_>) =
            ring.events.into_iter().partition(|opened| is_backward(&requests[opened.event]));
        let ahead = if of_sideband { Direction::Sideband } else { Direction::Forward };
        [(forward, ahead), (backward, Direction::Backward)].map(|(events, direction)| OpenedRing {
            cpu: ring.cpu,
            tid: ring.tid,
            events,
            direction,
            is_offline: ring.is_offline,
        })
    };
    opened.into_iter().flat_map(split).filter(|ring| !ring.events.is_empty()).collect()
}

fn is_dummy(attr: &Attr) -> bool {
    attr.event_type == event_type::SOFTWARE && attr.config == software::DUMMY
}

/// Indices of rings, one list per node in ascending order of CPUs; rings bound to no CPU are one list.
fn rings_by_node(topology: &Topology, rings: &[Vec<ThreadOrCpu>]) -> Vec<Vec<usize>> {
    let mut lists: std::collections::BTreeMap<Option<u32>, Vec<usize>> = Default::default();
    for (index, places) in rings.iter().enumerate() {
        let cpu = places.first().and_then(|place| place.cpu);
        lists.entry(cpu.and_then(|cpu| topology.node_of(cpu))).or_default().push(index);
    }
    lists.into_values().collect()
}

fn memory_budget(machine: &Machine, topology: &Topology) -> MemoryBudget {
    /// Linux's own default, where the limit cannot be read.
    const DEFAULT_KIB: u64 = 516;
    let limits = machine.limits();
    MemoryBudget {
        per_cpu_kib: limits.perf_event_mlock_kb.unwrap_or(DEFAULT_KIB),
        cpus: topology.online.len() as u64,
        locked_limit: rustix::process::getrlimit(rustix::process::Resource::Memlock)
            .current
            .unwrap_or(u64::MAX),
        unlimited: machine.rights().ipc_lock || limits.perf_event_paranoid == Some(-1),
        available: machine.available_bytes().unwrap_or(u64::MAX),
    }
}

/// Maps a ring for each list of descriptors and points all of them to it. With
/// [`RingSize::AtMost`], halves the size until all fit: other recordings of the same user share the
/// budget, so arithmetic alone cannot know.
fn map_all(
    kernel: &dyn Kernel,
    opened: Vec<OpenedRing>,
    budget: MemoryBudget,
    ring_size: u64,
    options: OpenOptions,
) -> Result<Vec<(OpenedRing, Ring)>, CountersError> {
    let opened: Vec<OpenedRing> =
        opened.into_iter().filter(|ring| !ring.events.is_empty()).collect();
    let page = rustix::param::page_size() as u64;
    let count = opened.len() as u64;
    let mut size = ring_size;
    loop {
        match map_with(kernel, &opened, size) {
            Ok(rings) => return Ok(opened.into_iter().zip(rings).collect()),
            Err(error)
                if matches!(options.ring_size, RingSize::AtMost(_))
                    && size > page
                    && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
            {
                size /= 2;
            }
            Err(source) => {
                return Err(CountersError::Map {
                    rings: opened.len(),
                    ring_kib: size / 1024,
                    source,
                    budget: budget.to_string(),
                    suggestion_kib: budget.fit(size / 2, count, page) / 1024,
                    enough_kib: (size + page) * count / 1024 / budget.cpus.max(1) + 1,
                });
            }
        }
    }
}

fn map_with(kernel: &dyn Kernel, opened: &[OpenedRing], size: u64) -> io::Result<Vec<Ring>> {
    let mut rings = Vec::with_capacity(opened.len());
    for ring in opened {
        let Some((owner, others)) = ring.events.split_first() else { continue };
        let backward = ring.direction == Direction::Backward;
        let memory = kernel.map(owner.fd(), ring.direction.bytes(size) as usize, !backward)?;
        for other in others {
            kernel.redirect(other.fd(), owner.fd())?;
        }
        rings.push(Ring::new(memory, ring.cpu, ring.tid, backward));
    }
    Ok(rings)
}

pub(crate) fn describe_place(place: ThreadOrCpu) -> String {
    match place {
        ThreadOrCpu { cpu: Some(cpu), tid: None } => format!("on CPU {cpu}"),
        ThreadOrCpu { cpu: Some(cpu), tid: Some(tid) } => format!("for thread {tid} on CPU {cpu}"),
        ThreadOrCpu { cpu: None, tid: Some(tid) } => format!("for thread {tid}"),
        ThreadOrCpu { cpu: None, tid: None } => "anywhere".into(),
    }
}

/// The reason of [`CountersError::Vanished`] for a whole scope: ended threads, or offline CPUs.
pub(crate) fn vanished(scope: &Scope) -> String {
    match scope {
        Scope::Cpus(cpus) => format!("each of CPUs {cpus} went offline"),
        Scope::Cgroup { path, cpus, .. } => {
            format!("each of CPUs {cpus}, for cgroup {path}, went offline")
        }
        Scope::Tasks { tids, .. } | Scope::Threads(tids) => match tids.as_slice() {
            [tid] => format!("thread {tid} ended"),
            many => format!("each of {} threads ended", many.len()),
        },
    }
}
