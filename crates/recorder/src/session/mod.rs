//! A recording from beginning to end.
//!
//! ```text
//!  main     fork (held) ─ open ─ create file ─┬─ name what exists ─ enable, exec ─ wait … ─ disable ─┬─ close
//!  readers                                    └─ drain ──────────────────────────────────── drain ───┘
//! ```
//!
//! Readers run before the first process is named: on a large, busy machine naming takes seconds, in
//! which the sideband alone would overflow a ring that nobody reads.

mod old_file;
mod outcome;
mod scope;
mod wait;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pmuscope_counters::spawn::{HeldChild, Status};
use pmuscope_counters::{EventRequest, Kernel, OpenOptions, RingSize, SamplingSet};
use pmuscope_machine::{Machine, Topology};
use pmuscope_perfdata::info::Cost;
use pmuscope_perfdata::writer::FileEvent;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use self::old_file::{keep_old, restore_old};
pub use self::outcome::{EndReason, Summary};
use self::scope::scope;
use self::wait::{Event, Monitor, Watched};
use crate::attributes::{self, KernelFeatures};
use crate::clock::{monotonic_ns, wall_ns};
use crate::control::Shared;
use crate::error::RecorderError;
use crate::metadata;
use crate::options::{Affinity, RecordOptions, RingChoice, Sampling, Target};
use crate::output::{FileLimits, Output, Stopped};
use crate::plan::plan;
use crate::reader::{self, ReaderOptions, ReaderReport, RingSlot};
use crate::sink::SinkOptions;
use crate::synthesize::{Processes, synthesize};
use crate::sys::CpuTime;
use crate::tally::IdIndex;
use crate::wake::Wake;

/// Data area of a ring where the budget allows it: at 25 kHz and 48 bytes 0.87 s of samples, and no
/// more than fits a core's second-level cache.
const RING_BYTES: u64 = 1 << 20;
/// A recording that is cut off tells its state as of this long ago at most.
const STATE_EVERY: Duration = Duration::from_secs(5);
/// How often the main thread looks whether nodes are busy.
const LOOK_EVERY: Duration = Duration::from_millis(1000);

/// What a recording would open, without opening it.
#[derive(Debug)]
pub struct Preview {
    /// The requests, in the order of the file.
    pub requests: Vec<EventRequest>,
    /// CPUs of the rings, for each reader.
    pub readers: Vec<String>,
}

/// Works out what [`record`] would open for a target that exists; a command is not started.
///
/// # Errors
/// As [`record`], for what can be known without opening anything.
pub fn preview(options: &RecordOptions, machine: &Machine) -> Result<Preview, RecorderError> {
    let topology = machine.topology()?;
    let features = KernelFeatures::new(machine.kernel()?.version);
    let requests = attributes::requests(options, features)?;
    let cpus = match &options.target {
        Target::Cpus(cpus) | Target::Cgroup { cpus: Some(cpus), .. } => cpus.clone(),
        _ => topology.online.clone(),
    };
    let ring_cpus: Vec<Option<u32>> = cpus.iter().map(Some).collect();
    let plans = plan(&options.readers, &ring_cpus, &topology)?;
    Ok(Preview { requests, readers: plans.iter().map(|plan| plan.cpus.to_string()).collect() })
}

/// Records. `stop` becomes readable when the user wants it to end.
///
/// # Errors
/// [`RecorderError`] if nothing could be recorded. Once recording has begun, trouble ends it early and
/// is told in the summary; what was recorded is kept.
pub fn record(
    options: &RecordOptions,
    kernel: &dyn Kernel,
    machine: &Machine,
    stop: BorrowedFd<'_>,
) -> Result<Summary, RecorderError> {
    let version = machine.kernel()?;
    let features = KernelFeatures::new(version.version);
    if !features.is_supported() {
        return Err(RecorderError::OldKernel(version.release));
    }
    let topology = machine.topology()?;
    let child = match options.command.as_slice() {
        [] => None,
        command => Some(HeldChild::new(command)?),
    };
    let scope = scope(options, machine, &topology, child.as_ref())?;
    let requests = attributes::requests(options, features)?;
    let open = OpenOptions {
        ring_size: match options.ring_size {
            RingChoice::Auto => RingSize::AtMost(RING_BYTES),
            RingChoice::Bytes(bytes) => RingSize::Exactly(bytes),
        },
        overwrite: false,
    };
    let set = SamplingSet::open(kernel, machine, &topology, &scope, requests, open)?;
    Session { options, kernel, machine, topology: &topology, features, stop, set, child }.run()
}

struct Session<'a> {
    options: &'a RecordOptions,
    kernel: &'a dyn Kernel,
    machine: &'a Machine,
    topology: &'a Topology,
    features: KernelFeatures,
    stop: BorrowedFd<'a>,
    set: SamplingSet,
    child: Option<HeldChild>,
}

/// What happened between enabling and disabling.
struct Measured {
    ended: EndReason,
    status: Option<Status>,
    started_ns: u64,
    started_wall_ns: u64,
    duration_s: f64,
    cpu_before: CpuTime,
    cpu_after: CpuTime,
}

impl Session<'_> {
    fn run(mut self) -> Result<Summary, RecorderError> {
        let rings = self.set.take_rings();
        let ring_size = rings.first().map_or(0, |ring| ring.size());
        let ring_cpus: Vec<Option<u32>> = rings.iter().map(|ring| ring.cpu()).collect();
        let plans = plan(&self.options.readers, &ring_cpus, self.topology)?;
        let bell = Wake::new().map_err(RecorderError::system("eventfd"))?;
        let old = keep_old(&self.options.output)?;
        let output = self.create_output(rings.len(), &bell)?;
        let shared = Shared::new(self.topology, self.index(), output.clone());
        let sink = SinkOptions {
            compression: self.options.compression,
            aio: self.options.aio,
            bind: self.topology.nodes.len() > 1,
            ring_size,
        };
        let reader_options = ReaderOptions { affinity: self.options.affinity, sink };
        let mut child = self.child.take();
        let (measured, reports) = std::thread::scope(|threads| {
            let mut slots: Vec<Option<RingSlot>> = rings
                .into_iter()
                .enumerate()
                .map(|(index, ring)| {
                    let node = ring.cpu().and_then(|cpu| self.topology.node_of(cpu));
                    Some(RingSlot::new(index, ring, node))
                })
                .collect();
            let mut wakes = Vec::new();
            let mut readers = Vec::new();
            for (number, plan) in plans.iter().enumerate() {
                let wake = Wake::new().map_err(RecorderError::system("eventfd"))?;
                wakes.push(wake.clone());
                let own = plan.rings.iter().filter_map(|&ring| slots[ring].take()).collect();
                let (shared, set, options) = (&shared, &self.set, &reader_options);
                let reader = std::thread::Builder::new()
                    .name(format!("reader-{number}"))
                    .spawn_scoped(threads, move || {
                        reader::run(shared, set, plan, own, options, &wake)
                    })
                    .map_err(RecorderError::system("starting a reader"));
                match reader {
                    Ok(reader) => readers.push(reader),
                    Err(error) => {
                        end_readers(shared, &wakes);
                        return Err(error);
                    }
                }
            }
            let measured = self.measure(&shared, &bell, child.as_mut());
            end_readers(&shared, &wakes);
            let reports: Vec<ReaderReport> = readers
                .into_iter()
                // A panic in a reader is a defect; it is passed on, not hidden.
                .map(|reader| {
                    reader.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
                })
                .collect();
            Ok::<_, RecorderError>((measured, reports))
        })?;
        let measured = match measured {
            Ok(measured) => measured,
            Err(error) => {
                restore_old(&self.options.output, old.as_deref());
                return Err(error);
            }
        };
        self.finish(&output, &measured, reports)
    }

    fn create_output(&self, rings: usize, bell: &Wake) -> Result<Arc<Output>, RecorderError> {
        let events = self.file_events();
        let path = &self.options.output;
        let limits = FileLimits { largest: self.options.max_size, owner: self.options.owner };
        Output::create(path, &events, rings, &limits, bell.clone())
            .map(Arc::new)
            .map_err(output_error("create", path))
    }

    fn file_events(&self) -> Vec<FileEvent> {
        metadata::file_events(self.set.requests(), |event| self.set.ids(event))
    }

    fn index(&self) -> IdIndex {
        let sampling: Vec<bool> =
            self.set.requests().iter().map(|request| request.attr.sample > 0).collect();
        IdIndex::new(self.set.events().iter().map(|event| (event.id, event.event)), &sampling)
    }

    /// From naming what exists to disabling the events.
    fn measure(
        &self,
        shared: &Shared<'_>,
        bell: &Wake,
        mut child: Option<&mut HeldChild>,
    ) -> Result<Measured, RecorderError> {
        self.name_what_exists(shared);
        if self.options.target != Target::Command && self.options.delay_ms.is_none() {
            self.enable()?;
        }
        let cpu_before = CpuTime::of_process();
        let (started_ns, started_wall_ns) = (monotonic_ns(), wall_ns());
        if let Some(child) = child.as_deref_mut() {
            child.release()?;
        }
        let ended = self.wait(shared, bell, child.as_deref_mut(), started_ns)?;
        self.set.disable(self.kernel)?;
        let duration_s = (monotonic_ns() - started_ns) as f64 / 1e9;
        let cpu_after = CpuTime::of_process();
        let status = match child {
            Some(child) => Some(Self::let_child_end(child, &ended)?),
            None => None,
        };
        Ok(Measured {
            ended,
            status,
            started_ns,
            started_wall_ns,
            duration_s,
            cpu_before,
            cpu_after,
        })
    }

    /// A command that outlives its recording goes on: it is the user's work. After an interrupt it
    /// usually had the same signal as we; if not, it gets one.
    fn let_child_end(child: &mut HeldChild, ended: &EndReason) -> Result<Status, RecorderError> {
        const GRACE: Duration = Duration::from_millis(500);
        if *ended == EndReason::Interrupted && !wait::ends_within(child, GRACE)? {
            child.kill(Signal::TERM);
        }
        child.wait().map_err(RecorderError::system("waitpid"))
    }

    fn name_what_exists(&self, shared: &Shared<'_>) {
        let processes = match &self.options.target {
            Target::Command => Processes::None,
            Target::System | Target::Cpus(_) | Target::Cgroup { .. } => Processes::All,
            Target::Processes(pids) => Processes::These(pids.clone()),
            Target::Threads(tids) => Processes::These(self.processes_of(tids)),
        };
        let output = shared.output();
        let find = |path: &Path| find_build_id(path);
        let find = self.options.build_ids.then_some(&find as crate::synthesize::FindBuildId<'_>);
        let data = self.options.extras.data_mappings;
        synthesize(self.machine, &processes, data, find, &mut |records| output.append(records));
        output.begin_rounds();
    }

    fn processes_of(&self, tids: &[u32]) -> Vec<u32> {
        let mut pids: Vec<u32> = tids
            .iter()
            .filter_map(|&tid| self.machine.task(tid, tid).ok())
            .map(|task| task.tgid)
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Enables, each CPU at a phase of its own: events started together would sample all CPUs at the
    /// same moments, and in step with the timer tick.
    fn enable(&self) -> Result<(), RecorderError> {
        let period = self.longest_phase();
        self.set.enable(self.kernel, |cpu| {
            if cpu.is_some() {
                std::thread::sleep(period.mul_f64(fastrand::f64()));
            }
        })?;
        Ok(())
    }

    /// The time between two samples where it is known, at most a millisecond: on hundreds of CPUs the
    /// waits add up.
    fn longest_phase(&self) -> Duration {
        let cpus = self.topology.online.len().max(1) as u32;
        let known = match self.options.sampling {
            Sampling::Frequency(hz) => Duration::from_nanos(1_000_000_000 / hz.max(1)),
            Sampling::Period(_) => Duration::from_micros(100),
        };
        known.min(Duration::from_millis(1)).min(Duration::from_millis(200) / cpus)
    }

    /// Waits for the end, and meanwhile does what is due by time.
    fn wait(
        &self,
        shared: &Shared<'_>,
        bell: &Wake,
        mut child: Option<&mut HeldChild>,
        started_ns: u64,
    ) -> Result<EndReason, RecorderError> {
        let mut processes = self.observed_processes();
        let mut delay = self.options.delay_ms.filter(|delay| *delay >= 0);
        let mut next_state = Duration::ZERO;
        let mut monitor = Monitor::new(self.machine, self.options.affinity == Affinity::Auto);
        loop {
            let elapsed = Duration::from_nanos(monotonic_ns() - started_ns);
            if delay.is_some_and(|delay| elapsed >= Duration::from_millis(delay as u64)) {
                self.enable()?;
                delay = None;
            }
            if elapsed >= next_state {
                self.write_state(shared, elapsed);
                next_state = elapsed + STATE_EVERY;
            }
            monitor.look(shared);
            let wait = match delay {
                Some(delay) => Duration::from_millis(delay as u64).saturating_sub(elapsed),
                None => LOOK_EVERY,
            };
            let watched =
                Watched { stop: self.stop, bell, child: child.as_deref(), processes: &processes };
            match watched.wait(wait)? {
                Event::Stop => return Ok(EndReason::Interrupted),
                Event::Bell => return Ok(why_stopped(&shared.output())),
                Event::Child => {
                    if let Some(child) = child.as_deref_mut() {
                        child.try_wait().map_err(RecorderError::system("waitpid"))?;
                    }
                    return Ok(EndReason::Command);
                }
                Event::Process(index) => {
                    processes.swap_remove(index);
                    if processes.is_empty() {
                        return Ok(EndReason::TargetGone);
                    }
                }
                Event::Time => {}
            }
        }
    }

    /// Descriptors that tell the end of processes observed by id. One that is gone already is not
    /// waited for.
    fn observed_processes(&self) -> Vec<OwnedFd> {
        let pids = match &self.options.target {
            Target::Processes(pids) => pids.clone(),
            Target::Threads(tids) => self.processes_of(tids),
            _ => return Vec::new(),
        };
        pids.iter()
            .filter_map(|&pid| Pid::from_raw(pid as i32))
            .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .collect()
    }

    /// Leaves a copy of what is known in the stream, for a recording that will never be closed.
    fn write_state(&self, shared: &Shared<'_>, elapsed: Duration) {
        let mut info = self.describe(&metadata::machine_info(self.machine, self.topology));
        info.duration_s = elapsed.as_secs_f64();
        let lost = self.read_lost();
        for (event, lost) in info.events.iter_mut().zip(lost.by_event) {
            event.lost = lost;
        }
        let now = CpuTime::of_process();
        info.cost = Cost { user_s: now.user_s, system_s: now.system_s, ..Cost::default() };
        let mut record = Vec::new();
        info.append_record(&mut record);
        shared.output().append(&record);
    }
}

fn end_readers(shared: &Shared<'_>, wakes: &[Wake]) {
    shared.start_draining();
    wakes.iter().for_each(Wake::ring);
}

fn find_build_id(path: &Path) -> Option<Vec<u8>> {
    pmuscope_symbols::read_build_id(path).ok().flatten().map(|id| id.as_bytes().to_vec())
}

fn why_stopped(output: &Output) -> EndReason {
    match output.stopped() {
        Some(Stopped::Full(bytes)) => EndReason::MaxSize(*bytes),
        Some(Stopped::Failed(error)) => EndReason::WriteError(error.to_string()),
        None => EndReason::WriteError("unknown".into()),
    }
}

fn output_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> RecorderError + 'a {
    move |source| RecorderError::Output { action, path: path.to_owned(), source }
}
