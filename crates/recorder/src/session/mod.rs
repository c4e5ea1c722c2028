//! A recording from beginning to end.
//!
//! ```text
//!  main     fork (held) ─ open ─ create file ─┬─ name what exists ─ enable, exec ─ wait … ─ disable ─┬─ close
//!  readers                                    └─ drain ──────────────────────────────────── drain ───┘
//! ```
//!
//! Readers run before the first process is named: on a large, busy machine naming takes seconds, in
//! which the sideband alone would overflow a ring that nobody reads.

mod budget;
mod commands;
mod enable;
mod files;
mod flight;
mod follow;
mod old_file;
mod open;
mod outcome;
mod preview;
mod rate;
mod readers;
mod scope;
mod sideband;
mod sourcing;
mod strobing;
mod threads;
mod wait;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use pmuscope_counters::spawn::{HeldChild, Status};
use pmuscope_counters::{Kernel, Ring, SamplingSet, errno_name};
use pmuscope_machine::{Machine, Target, Topology, place};
use pmuscope_perfdata::info::Cost;
use pmuscope_perfdata::writer::FileEvent;

use self::commands::Commands;
use self::files::{ClockReading, Files};
pub use self::follow::{FollowOptions, Following, Piece, follow};
use self::old_file::Previous;
use self::open::Opening;
pub use self::outcome::{EndReason, Summary};
pub use self::preview::{Preview, preview, reduced};
use self::readers::with_readers;
use self::scope::own_cgroup;
use self::sourcing::Sourced;
use self::strobing::Phases;
use self::wait::{Monitor, WaitSources, Wakeup};
use crate::attributes::KernelFeatures;
use crate::clock::monotonic_ns;
use crate::compress::Compressor;
use crate::control::ControlState;
use crate::cpu_time::CpuTime;
use crate::error::RecorderError;
use crate::keep::Keeper;
use crate::mapped::{FindBuildId, MappedFile};
use crate::metadata;
use crate::options::{Affinity, RecordOptions, Switch};
use crate::output::{Output, Stopped};
use crate::plan::{check_places, plan};
use crate::sampling_cost::SamplingCost;
use crate::source::Source;
use crate::synthesize::{Processes, synthesize};
use crate::tally::{IdIndex, RecordTally};
use crate::wake::Wake;

/// A recording that is cut off tells its state as of this long ago at most.
const STATE_EVERY: Duration = Duration::from_secs(5);
/// How often the main thread looks whether nodes are busy.
const LOOK_EVERY: Duration = Duration::from_millis(1000);
/// How often it looks whether a new file is due, or a phase is lost.
const LOOK_OFTEN: Duration = Duration::from_millis(100);

/// What the user can say by signal.
#[derive(Debug, Clone, Copy)]
pub struct Signals<'a> {
    /// Becomes readable when the recording is to end.
    pub stop: BorrowedFd<'a>,
    /// Gets a byte for each request for a new file or a snapshot; `None` if there will be none.
    pub switch: Option<BorrowedFd<'a>>,
}

/// Records until the target ends or `signals` say so.
///
/// # Errors
/// [`RecorderError`] if nothing could be recorded. Once recording has begun, trouble ends it early and
/// is told in the summary; what was recorded is kept.
pub fn record(
    options: &RecordOptions,
    kernel: &dyn Kernel,
    machine: &Machine,
    signals: Signals<'_>,
) -> Result<Summary, RecorderError> {
    record_with(options, kernel, machine, signals, None)
}

/// As [`record`], with samples of `source` in the file. The target runs already.
///
/// # Errors
/// As [`record`].
pub fn record_with(
    options: &RecordOptions,
    kernel: &dyn Kernel,
    machine: &Machine,
    signals: Signals<'_>,
    source: Option<&dyn Source>,
) -> Result<Summary, RecorderError> {
    if options.switch.is_none() {
        old_file::check(&options.output, options.replace)?;
    }
    let features = open::features(machine)?;
    let topology = machine.topology()?;
    let child = match options.command.as_slice() {
        [] => None,
        command => Some(HeldChild::new(command)?),
    };
    // Lives until the recording has ended.
    let cgroup = own_cgroup(options, machine, child.as_ref())?;
    let topology = &topology;
    let opening = Opening { options, kernel, machine, topology, features, signals, source };
    opening.open(child.as_ref(), cgroup.as_ref())?.run(child)
}

struct Session<'a> {
    options: &'a RecordOptions,
    kernel: &'a dyn Kernel,
    machine: &'a Machine,
    topology: &'a Topology,
    features: KernelFeatures,
    signals: Signals<'a>,
    set: SamplingSet,
    /// No thread of the observed processes was missed at the start.
    all_threads: bool,
    cost: Option<SamplingCost>,
    budget: Option<budget::BudgetPlan>,
    /// Of a strobed recording.
    phases: Option<Phases>,
    /// What makes samples beside the kernel.
    source: Option<Sourced<'a>>,
    /// Keeps files of what is recorded.
    keeper: Option<Keeper>,
    /// When sampling was turned on for the first time, if not by the command's exec.
    enabled: OnceLock<ClockReading>,
}

/// What happened between enabling and disabling.
struct Measured {
    ended: EndReason,
    status: Option<Status>,
    started: ClockReading,
    ended_at: ClockReading,
    cpu_before: CpuTime,
    cpu_after: CpuTime,
}

impl Session<'_> {
    fn run(mut self, mut child: Option<HeldChild>) -> Result<Summary, RecorderError> {
        let rings = self.set.take_rings();
        if self.options.overwrite {
            return self.run_flight_recorder(rings, child.as_mut());
        }
        self.run_streams(rings, child.as_mut())
    }

    /// Rings that readers drain into files.
    fn run_streams(
        &self,
        rings: Vec<Ring>,
        child: Option<&mut HeldChild>,
    ) -> Result<Summary, RecorderError> {
        let ring_cpus: Vec<Option<u32>> = rings.iter().map(|ring| ring.cpu()).collect();
        let plans = plan(&self.options.readers, &ring_cpus, self.topology)?;
        // Unreadable means unrestricted as far as we can tell.
        let allowed = place::affinity().unwrap_or_else(|_| self.topology.online.clone());
        check_places(&plans, &allowed)?;
        let bell = Wake::new().map_err(RecorderError::system("eventfd"))?;
        let begun = ClockReading::now(self.options.clockid);
        let mut previous = Previous::keep(&self.next_path(&begun), self.options.replace)?;
        let looked_at = rings.len() + usize::from(self.source.is_some());
        let output = match self.create_output(looked_at, &bell, &begun) {
            Ok(output) => output,
            Err(error) => {
                previous.failed();
                return Err(error);
            }
        };
        let watch = self.strobe().map(|strobe| strobe.watch());
        let keeper = self.keeper.as_ref();
        let shared = ControlState::new(self.topology, self.index(), output.clone(), watch, keeper);
        let mut files = Files {
            bell: &bell,
            rings: looked_at,
            started: begun,
            loss_before: self.read_loss(),
            closed: Vec::new(),
            switched: false,
            stopped: None,
            closed_tally: RecordTally::default(),
            closed_bytes: 0,
            missing: Vec::new(),
        };
        let mut budget = self.budget.as_ref().map(|plan| plan.budget.clone());
        drop(output);
        let (measured, reports) = with_readers(self, &shared, rings, &plans, || {
            self.name_what_exists(&shared.output(), false);
            self.measure(&bell, child, &mut |due, elapsed| match due {
                Due::Begin(cpu) => {
                    previous.begun();
                    if let Some(budget) = &mut budget {
                        budget.before.1 = cpu.total();
                    }
                    Ok(())
                }
                Due::State => {
                    self.write_state(&shared, &files, elapsed);
                    Ok(())
                }
                Due::Look(monitor) => {
                    monitor.update(&shared);
                    self.look_after_strobe(&shared);
                    let output = shared.output();
                    if let Some(budget) = &mut budget {
                        let samples = files.closed_tally.all_samples() + output.samples();
                        self.keep_budget(budget, elapsed, samples)?;
                    }
                    if self.is_switch_due(&output, &files.started) {
                        drop(output);
                        self.switch_files(&shared, &mut files)?;
                    }
                    Ok(())
                }
                Due::Switch => self.switch_files(&shared, &mut files),
                Due::Bell(ended) => {
                    let stopped = files.stopped.take();
                    *ended = Some(stopped.unwrap_or_else(|| why_stopped(&shared.output())));
                    Ok(())
                }
            })
        })?;
        match measured {
            Ok(measured) => {
                self.finish(&shared.output(), &measured, files, &reports, budget.as_ref())
            }
            Err(error) => {
                previous.failed();
                Err(error)
            }
        }
    }

    fn file_events(&self) -> Vec<FileEvent> {
        metadata::file_events(self.requests(), |event| self.ids(event))
    }

    fn index(&self) -> IdIndex {
        let attrs = self.requests().iter().map(|request| &request.attr);
        let opened = self.set.events().iter().map(|event| (event.id, event.event));
        let sourced = self.source.iter().flat_map(Sourced::ids);
        let index = IdIndex::new(opened.chain(sourced), attrs);
        if self.keeper.is_some() { index.noting_files() } else { index }
    }

    /// From enabling to disabling the events. `act` does what is due meanwhile.
    fn measure(
        &self,
        bell: &Wake,
        mut child: Option<&mut HeldChild>,
        act: Act<'_>,
    ) -> Result<Measured, RecorderError> {
        if self.options.target != Target::Command && self.options.delay_ms.is_none() {
            self.enable()?;
        }
        let cpu_before = CpuTime::of_process();
        let started = ClockReading::now(self.options.clockid);
        if let Some(child) = child.as_deref_mut() {
            child.release()?;
        }
        act(Due::Begin(cpu_before), Duration::ZERO)?;
        // Whatever happens now: readers come to an end only where nothing is sampled any more, and what
        // was recorded is kept.
        let ended = self
            .wait(bell, child.as_deref_mut(), &started, act)
            .unwrap_or_else(|error| EndReason::Failed(error.to_string()));
        self.disable()?;
        let ended_at = ClockReading::now(self.options.clockid);
        let cpu_after = CpuTime::of_process();
        let status = match child {
            Some(child) => {
                let ended = child.end(ended == EndReason::Interrupted);
                Some(ended.map_err(RecorderError::system("waitpid"))?)
            }
            None => None,
        };
        // A delay is no part of it.
        let started = match self.options.delay_ms {
            Some(_) => self.enabled.get().copied().unwrap_or(started),
            None => started,
        };
        Ok(Measured { ended, status, started, ended_at, cpu_before, cpu_after })
    }

    /// Describes in `output` what exists, as [`Session::describe_what_exists`] does.
    fn name_what_exists(&self, output: &Output, again: bool) {
        // The level was accepted when the readers began; without a compressor records stand as they are.
        let mut compressor = self.options.compression.and_then(|level| Compressor::new(level).ok());
        let mut compressed = Vec::new();
        self.describe_what_exists(again, &mut |records| match &mut compressor {
            Some(compressor) => {
                compressed.clear();
                compressor.compress(records, &mut compressed);
                output.append(&compressed);
            }
            None => output.append(records),
        });
        output.begin_rounds();
    }

    /// Records of what exists: before the recording (`again` false) a command of ours has nothing to
    /// describe; later its descendants are among all processes.
    fn describe_what_exists(&self, again: bool, append: &mut dyn FnMut(&[u8])) {
        let processes = match &self.options.target {
            Target::Command | Target::CommandInCgroup if !again => Processes::None,
            Target::Processes(pids) if !again => Processes::These(pids.clone()),
            Target::Threads(tids) if !again => Processes::These(self.processes_of(tids)),
            _ => Processes::All,
        };
        let keeper = self.keeper.as_ref().filter(|_| !again);
        let find = |file: MappedFile<'_>| {
            let id = file.build_id();
            if let Some(keeper) = keeper {
                let all = !self.options.is_by_number();
                keeper.found(file.to_keep(id.as_deref()), all);
            }
            id
        };
        let find = self.options.build_ids.then_some(&find as FindBuildId<'_>);
        let data = self.options.wants_data_mappings();
        synthesize(self.machine, &processes, data, find, append);
    }

    /// Waits for the end, and meanwhile does what is due.
    fn wait(
        &self,
        bell: &Wake,
        mut child: Option<&mut HeldChild>,
        started: &ClockReading,
        act: Act<'_>,
    ) -> Result<EndReason, RecorderError> {
        let mut processes = self.observed_processes();
        if self.options.is_by_number() && processes.is_empty() {
            return Ok(EndReason::TargetGone);
        }
        let mut commands = self.options.control.as_ref().map(Commands::new);
        let mut delay = self.options.delay_ms.filter(|delay| *delay >= 0);
        let mut next_state = Duration::ZERO;
        let mut monitor = Monitor::new(self.machine, self.options.affinity == Affinity::Auto);
        let look_every = match self.options.switch {
            Some(Switch::Bytes(_) | Switch::Time(_)) => LOOK_OFTEN,
            _ if self.phases.is_some() => LOOK_OFTEN,
            _ => LOOK_EVERY,
        };
        loop {
            let elapsed = Duration::from_nanos(monotonic_ns() - started.monotonic_ns);
            if delay.is_some_and(|delay| elapsed >= Duration::from_millis(delay as u64)) {
                self.enable()?;
                delay = None;
            }
            if elapsed >= next_state {
                act(Due::State, elapsed)?;
                next_state = elapsed + STATE_EVERY;
            }
            act(Due::Look(&mut monitor), elapsed)?;
            let until_delay = delay
                .map(|delay| Duration::from_millis(delay as u64).saturating_sub(elapsed))
                .unwrap_or(look_every);
            let watched = WaitSources {
                signals: self.signals,
                bell,
                child: child.as_deref(),
                commands: commands.as_ref().map(Commands::fd),
                processes: &processes,
            };
            match watched.wait(until_delay.min(look_every))? {
                Wakeup::Stop => return Ok(EndReason::Interrupted),
                Wakeup::Switch => {
                    if self.takes_switches() {
                        act(Due::Switch, elapsed)?;
                    }
                }
                Wakeup::Bell => {
                    let mut ended = None;
                    act(Due::Bell(&mut ended), elapsed)?;
                    bell.silence();
                    if let Some(ended) = ended {
                        return Ok(ended);
                    }
                }
                Wakeup::Child => {
                    if let Some(child) = child.as_deref_mut() {
                        child.try_wait().map_err(RecorderError::system("waitpid"))?;
                    }
                    return Ok(EndReason::Command);
                }
                Wakeup::Command => {
                    if self.obey(commands.as_mut(), elapsed, act)? {
                        return Ok(EndReason::Interrupted);
                    }
                }
                Wakeup::Process(index) => {
                    processes.swap_remove(index);
                    if processes.is_empty() {
                        return Ok(EndReason::TargetGone);
                    }
                }
                Wakeup::Time => {}
            }
        }
    }

    fn takes_switches(&self) -> bool {
        self.options.overwrite || self.options.switch.is_some()
    }

    /// Leaves a copy of what is known in the stream, for a recording that will never be closed.
    fn write_state(&self, shared: &ControlState<'_>, files: &Files<'_>, elapsed: Duration) {
        let mut info = self.describe(&metadata::machine_info(self.machine, self.topology));
        let now = ClockReading::now(self.options.clockid);
        // Of several files each tells its own stretch.
        info.duration_s = match files.switched {
            true => now.seconds_since(&files.started),
            false => elapsed.as_secs_f64(),
        };
        let lost = self.read_loss().since(&files.loss_before);
        for (event, lost) in info.events.iter_mut().zip(lost.by_event) {
            event.lost = lost;
        }
        if let Some(sourced) = &self.source {
            sourced.describe(&mut info, false);
        }
        let now = CpuTime::of_process();
        info.cost = Cost { user_s: now.user_s, system_s: now.system_s, ..Cost::default() };
        let mut record = Vec::new();
        info.append_record(&mut record);
        shared.output().append(&record);
    }
}

/// What is due while recording.
enum Due<'a, 'm> {
    /// Recording begins; the CPU time spent until now.
    Begin(CpuTime),
    /// Leave a copy of what is known in the stream.
    State,
    /// Look at the machine and at the file.
    Look(&'a mut Monitor<'m>),
    /// A new file or a snapshot is wanted.
    Switch,
    /// The file had to be stopped; says why.
    Bell(&'a mut Option<EndReason>),
}

/// Does what is due, so long after the start.
type Act<'a> = &'a mut dyn FnMut(Due<'_, '_>, Duration) -> Result<(), RecorderError>;

fn why_stopped(output: &Output) -> EndReason {
    match output.stopped() {
        Some(Stopped::Full(bytes)) => EndReason::MaxSize(*bytes),
        Some(Stopped::Failed(error)) => EndReason::WriteError(errno_name(error)),
        None => EndReason::WriteError("unknown".into()),
    }
}

fn output_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> RecorderError + 'a {
    move |source| RecorderError::Output { action, path: path.to_owned(), source }
}
