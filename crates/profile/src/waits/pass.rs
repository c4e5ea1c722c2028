//! The records of a recording of waits, one after the other.

use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_abi::{AttrFlags, SampleType, event_type, software};
use pmuscope_perfdata::reader::{Entry, Event, ReadError, Reader, Record, RecordingFile, Sample};
use rustc_hash::{FxHashMap, FxHashSet};

use super::WaitsError;
use super::counter::{CountedWaits, WAKINGS, WaitCounter};
use super::threads::{Broken, Losses, SchedEvent, Threads, Woken};
use super::tracepoints::{SchedFields, SchedSwitch, Waking};
use crate::count::unwinding::{Tables, Unwinding, Walker};
use crate::filter::Filter;
use crate::timeline::lookup::Current;
use crate::timeline::sideband::Sideband;

/// What a recording of waits holds, before addresses have names.
pub struct CollectedWaits {
    pub(super) state: Sideband,
    pub(super) counted: CountedWaits,
    pub(super) filter: Filter,
    pub(super) threads: u64,
    pub(super) silent: u64,
    pub(super) broken: Broken,
    pub(super) has_stacks: bool,
    pub(super) has_wakings: bool,
}

impl std::fmt::Debug for CollectedWaits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectedWaits").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// What an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// That a thread leaves its CPU, and where.
    Leaving,
    /// The same, and which thread comes: a tracepoint.
    Switching,
    /// Who wakes whom.
    Waking,
    Nothing,
}

impl Tells {
    fn of(event: &Event) -> Self {
        let attr = &event.attr;
        if attr.sample != 1 || attr.flags.contains(AttrFlags::FREQ) {
            return Self::Nothing;
        }
        if attr.event_type == event_type::SOFTWARE && attr.config == software::CONTEXT_SWITCHES {
            return Self::Leaving;
        }
        if attr.event_type != event_type::TRACEPOINT || !attr.sample_type.contains(SampleType::RAW)
        {
            return Self::Nothing;
        }
        match event.name.split(':').nth(1) {
            Some("sched_switch") if event.name.starts_with(SCHED) => Self::Switching,
            Some("sched_waking" | "sched_wakeup") if event.name.starts_with(SCHED) => Self::Waking,
            _ => Self::Nothing,
        }
    }

    /// Of all events. Where both are there, a waking is told before the wakeup that follows from it.
    fn of_all(events: &[Event]) -> Vec<Self> {
        events.iter().map(Self::of).collect()
    }

    fn is_switch(self) -> bool {
        matches!(self, Self::Leaving | Self::Switching)
    }
}

/// Process of a thread that no record has named yet.
const UNKNOWN_PROCESS: i32 = -1;
/// Subsystem of the scheduler's tracepoints.
const SCHED: &str = "sched:";

/// Which of the events of a recording are only there to tell waits. Those of a recording without records of switches, as
/// `perf sched record` makes, may be there for their own sake.
#[must_use]
pub fn tells_waits(events: &[Event]) -> Vec<bool> {
    let has_switches = events.iter().any(has_switches);
    events.iter().map(|event| has_switches && Tells::of(event) != Tells::Nothing).collect()
}

/// Leaves switches and wakeups out of a filter that asks for no events: next to samples of other events they say little.
pub fn leave_out(filter: &mut Filter, reader: &Reader) {
    let events = reader.events();
    let info = reader.metadata().info.as_ref();
    let has_samples =
        |at: usize| info.and_then(|info| info.events.get(at)).is_none_or(|event| event.samples > 0);
    let tells_waits = tells_waits(events);
    let others: Vec<&str> = (0..events.len())
        .filter(|&at| !tells_waits[at] && has_samples(at))
        .map(|at| &*events[at].name)
        .filter(|name| !name.starts_with("dummy"))
        .collect();
    if filter.events.is_none() && tells_waits.contains(&true) && !others.is_empty() {
        filter.asked.push(("event", others.join(",")));
        filter.events = Some(tells_waits.iter().map(|tells| !tells).collect());
    }
}

/// Whether waits can be read of a recording with these events.
fn has_waits(events: &[Event]) -> bool {
    events.iter().any(|event| has_switches(event) || Tells::of(event) == Tells::Switching)
}

/// Whether a recording has events that tell waits, which only a view of waits shows as such.
pub(crate) fn holds_waits(events: &[Event]) -> bool {
    has_waits(events) && events.iter().any(|event| Tells::of(event) != Tells::Nothing)
}

fn has_switches(event: &Event) -> bool {
    event.attr.flags.contains(AttrFlags::CONTEXT_SWITCH)
}

impl CollectedWaits {
    /// Reads the recording at `path`: threads that `filter` lets pass, by process, thread or name. Stacks
    /// that samples carry are unwound where `unwinding` says by what. The reader at its end is handed back.
    ///
    /// # Errors
    /// See [`WaitsError`].
    pub fn read(
        recording: &RecordingFile,
        filter: Filter,
        unwinding: Option<Unwinding<'_>>,
    ) -> Result<(Self, Reader), WaitsError> {
        if recording.is_stream() {
            return Err(WaitsError::Stream);
        }
        let mut reader = recording.reader_of_all()?;
        if !has_waits(reader.events()) {
            return Err(WaitsError::NotRecorded { path: recording.path().to_owned() });
        }
        let (span, losses) = survey(&reader, recording)?;
        let has_stacks = reader.events().iter().any(Event::has_stacks);
        let mut pass = Pass::new(&reader, filter, span, losses);
        let path = recording.path();
        if let Some(unwinding) = unwinding.filter(|_| has_stacks) {
            pass.counter.set_walker(Walker::new(Arc::new(Tables::new(unwinding)), Arc::default()));
        }
        loop {
            if let Some(walker) = pass.counter.walker() {
                walker.tell(reader.metadata(), &pass.state);
            }
            let Some(entry) = reader.next()? else { break };
            pass.take(&entry);
        }
        if pass.sequence.as_ref().is_some_and(SwitchSequence::is_of_some_threads) {
            return Err(WaitsError::NoReturns { path: path.to_owned() });
        }
        Ok((pass.finish(), reader))
    }

    /// Descriptions of code made at run time, as runtimes mark them by mapping them: process, path.
    pub fn jit_dumps(&self) -> impl Iterator<Item = &(i32, PathBuf)> {
        self.state.jit_dumps.iter()
    }
}

/// What has to be known before records are taken: when the recording began and ended, and when records were
/// lost.
///
/// The first is as the recorder says, else when the first and last record of a switch was written; the sample of a
/// switch comes before its record. Each loss is told by the record behind it, and lies behind the one before it on
/// that CPU.
fn survey(reader: &Reader, recording: &RecordingFile) -> Result<((u64, u64), Losses), ReadError> {
    let info = reader.metadata().info.as_ref().filter(|info| info.complete);
    let span = info.filter(|info| info.started_clock_ns > 0).map(|info| {
        let length = (info.duration_s.max(0.0) * 1e9) as u64;
        (info.started_clock_ns, info.started_clock_ns.saturating_add(length))
    });
    let total = info.and_then(|info| info.lost());
    if let (Some(span), Some(0)) = (span, total) {
        return Ok((span, Losses::default()));
    }
    let mut reader = recording.reader_of_all()?;
    let tells = Tells::of_all(reader.events());
    let mut switches = (u64::MAX, 0);
    let mut last: FxHashMap<Option<u32>, u64> = FxHashMap::default();
    let (mut stretches, mut told) = (Vec::new(), 0_u64);
    while let Some(entry) = reader.next()? {
        let Some(time) = entry.time.filter(|&time| time > 0) else { continue };
        let (cpu, is_switch) = match &entry.record {
            Record::Sample(sample) => {
                (sample.cpu, tells.get(sample.event).is_some_and(|tells| tells.is_switch()))
            }
            record => (entry.maker.cpu, matches!(record, Record::Switch(_))),
        };
        if is_switch {
            switches = (switches.0.min(time), switches.1.max(time));
        }
        if let Record::Lost { count, .. } = &entry.record {
            told = told.saturating_add(*count);
            stretches.push((last.get(&cpu).copied().unwrap_or(0), time));
        }
        last.insert(cpu, time);
    }
    if total.is_some_and(|total| total > told) {
        // After the last record that found room.
        stretches.push((last.values().copied().min().unwrap_or(0), u64::MAX));
    }
    let losses = if total == Some(0) { Losses::default() } else { Losses::new(stretches) };
    Ok((span.unwrap_or((switches.0.min(switches.1), switches.1)), losses))
}

/// Switches that tracepoints alone tell.
#[derive(Debug, Default)]
struct SwitchSequence {
    /// Thread that came to each CPU, and when.
    came: FxHashMap<Option<u32>, (i32, u64)>,
    /// Switches from the thread that came before, and all others.
    in_sequence: u64,
    out_of_sequence: u64,
}

impl SwitchSequence {
    /// A switch from `left` to `came` at `time`. The thread that came before, and when, if it has left unseen.
    fn take(&mut self, cpu: Option<u32>, time: u64, left: i32, came: i32) -> Option<(i32, u64)> {
        let before = self.came.insert(cpu, (came, time))?;
        if before.0 == left {
            self.in_sequence += 1;
            return None;
        }
        self.out_of_sequence += 1;
        Some(before)
    }

    /// Whether switches are of some threads only: a CPU's switches then do not follow from one another, as switches to
    /// these threads are those of others.
    fn is_of_some_threads(&self) -> bool {
        self.out_of_sequence > self.in_sequence
    }
}

struct Pass<'u> {
    state: Sideband,
    tells: Vec<Tells>,
    /// Of the events, where they tell switches or wakings by tracepoints.
    fields: Vec<Option<SchedFields>>,
    /// Where tracepoints alone tell switches.
    sequence: Option<SwitchSequence>,
    has_stacks: bool,
    filter: Filter,
    threads: Threads,
    counter: WaitCounter<'u>,
    end: u64,
    named: FxHashSet<i32>,
    switched: FxHashSet<i32>,
    /// Where names are asked for, threads that had one of them.
    asked_for: FxHashSet<i32>,
}

impl Pass<'_> {
    fn new(reader: &Reader, filter: Filter, (start, end): (u64, u64), losses: Losses) -> Self {
        let events = reader.events();
        let tells = Tells::of_all(events);
        let described = |event: &Event| {
            let mut all = reader.metadata().tracepoints.iter();
            all.find(|tracepoint| tracepoint.id == event.attr.config)
        };
        let fields = events.iter().zip(&tells).map(|(event, tells)| {
            let is_tracepoint = matches!(tells, Tells::Switching | Tells::Waking);
            is_tracepoint.then(|| SchedFields::new(described(event), reader.endian()))
        });
        let has_stack = |(event, tells): (&Event, &Tells)| {
            tells.is_switch() && (event.has_chains() || event.has_stacks())
        };
        Self {
            state: Sideband::default(),
            fields: fields.collect(),
            sequence: (!events.iter().any(has_switches)).then(SwitchSequence::default),
            has_stacks: events.iter().zip(&tells).any(has_stack),
            tells,
            filter,
            threads: Threads::new(start, losses),
            counter: WaitCounter::new(start, end),
            end,
            named: FxHashSet::default(),
            switched: FxHashSet::default(),
            asked_for: FxHashSet::default(),
        }
    }

    fn take(&mut self, entry: &Entry<'_>) {
        let time = entry.time.filter(|&time| time > 0);
        match (&entry.record, time) {
            (Record::Sample(sample), Some(time)) => self.sample(sample, time),
            (Record::Switch(switch), Some(time)) => {
                let told = if switch.out {
                    SchedEvent::Out { preempted: switch.preempted }
                } else {
                    SchedEvent::In
                };
                if let Some(task) = entry.maker.task {
                    self.tell(task, time, told);
                }
            }
            (record, time) => {
                match (record, time) {
                    (Record::Exit(task), Some(time)) => {
                        self.tell((task.pid, task.tid), time, SchedEvent::Ended);
                    }
                    (Record::Comm(comm), time) => {
                        // Time under another name is another's where names are asked for.
                        if let Some(time) = time.filter(|_| !self.filter.comms.is_empty()) {
                            self.tell((comm.pid, comm.tid), time, SchedEvent::Named);
                        }
                        let task = Some((comm.pid, comm.tid));
                        if self.filter.passes_task(task, comm.name) {
                            self.named.insert(comm.tid);
                        }
                    }
                    _ => {}
                }
                self.state.take_entry(entry);
                if let (Record::Fork(task), Some(time)) = (record, time) {
                    self.tell((task.pid, task.tid), time, SchedEvent::Born);
                }
            }
        }
    }

    fn sample(&mut self, sample: &Sample<'_>, time: u64) {
        let (Some(pid), Some(tid)) = (sample.pid, sample.tid) else { return };
        let tells = self.tells.get(sample.event).copied().unwrap_or(Tells::Nothing);
        let raw = || sample.details().and_then(|details| details.raw);
        let fields = self.fields.get(sample.event).and_then(Option::as_ref);
        match tells {
            Tells::Switching if self.sequence.is_some() => {
                if let Some(switch) = fields.and_then(|fields| fields.switch(raw()?)) {
                    self.switch(sample, time, switch);
                }
            }
            Tells::Leaving | Tells::Switching => self.leaving(sample, (pid, tid), time),
            Tells::Waking => {
                if let Some(waking) = fields.and_then(|fields| fields.waking(raw()?)) {
                    self.waking(sample, time, waking);
                }
            }
            Tells::Nothing => {}
        }
    }

    fn leaving(&mut self, sample: &Sample<'_>, task: (i32, i32), time: u64) {
        if task.1 != 0 && self.passes(task) {
            let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
            let place = self.counter.place(&now, sample, 0);
            self.tell(task, time, SchedEvent::Leaving(place));
        }
    }

    /// A tracepoint in place of two records: a thread has left its CPU, and another one has come.
    fn switch(&mut self, sample: &Sample<'_>, time: u64, switch: SchedSwitch) {
        let SchedSwitch { previous, preempted, ended, next } = switch;
        let sequence = self.sequence.as_mut();
        let unseen = sequence.and_then(|all| all.take(sample.cpu, time, previous, next));
        if let Some((tid, came)) = unseen {
            let came = came.min(self.end);
            self.tell((self.process(tid), tid), time, SchedEvent::LeftUnseen { came });
        }
        let left = match (sample.pid, sample.tid) {
            (Some(pid), Some(tid)) if tid == previous => (pid, tid),
            _ => (self.process(previous), previous),
        };
        if ended {
            self.tell(left, time, SchedEvent::Ended);
        } else {
            let sample = Sample { pid: Some(left.0), tid: Some(left.1), ..*sample };
            self.leaving(&sample, left, time);
            self.tell(left, time, SchedEvent::Out { preempted });
        }
        self.tell((self.process(next), next), time, SchedEvent::In);
    }

    /// Process of a thread, as far as records have named it.
    fn process(&self, tid: i32) -> i32 {
        self.state.tasks.process(tid).unwrap_or(UNKNOWN_PROCESS)
    }

    fn waking(&mut self, sample: &Sample<'_>, time: u64, waking: Waking) {
        if !self.threads.knows(waking.wakee) {
            return;
        }
        let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
        let place = self.counter.place(&now, sample, WAKINGS);
        let by = place << 1 | u32::from(waking.in_interrupt);
        let woken = SchedEvent::Woken(Woken { at: time, by });
        self.threads.tell((0, waking.wakee), time, woken, &mut |_| {});
    }

    /// By process or thread. Names change: they are asked of each stretch of a thread's time.
    fn passes(&self, (pid, tid): (i32, i32)) -> bool {
        let Filter { pids, tids, .. } = &self.filter;
        (pids.is_empty() || pids.contains(&pid)) && (tids.is_empty() || tids.contains(&tid))
    }

    fn tell(&mut self, task: (i32, i32), time: u64, told: SchedEvent) {
        // 0 is what a CPU does that has nothing to do.
        if task.1 <= 0 || !self.passes(task) {
            return;
        }
        if matches!(told, SchedEvent::In | SchedEvent::Out { .. } | SchedEvent::Leaving(_)) {
            self.switched.insert(task.1);
        }
        let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
        let (counter, asked_for) = (&mut self.counter, &mut self.asked_for);
        let is_asked_for = has_name(&self.filter, &self.state, task);
        self.threads.tell(task, time.min(self.end), told, &mut |stretch| {
            if is_asked_for {
                asked_for.insert(task.1);
                counter.take(&now, &stretch);
            }
        });
    }

    fn finish(mut self) -> CollectedWaits {
        let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
        let (counter, asked_for) = (&mut self.counter, &mut self.asked_for);
        let (broken, seen) = self.threads.finish(self.end, &mut |task, stretch| {
            if has_name(&self.filter, &self.state, task) {
                asked_for.insert(task.1);
                counter.take(&now, &stretch);
            }
        });
        let by_name = !self.filter.comms.is_empty();
        let threads = if by_name { self.asked_for.len() as u64 } else { seen };
        self.named.remove(&0);
        CollectedWaits {
            counted: self.counter.finish(),
            state: self.state,
            filter: self.filter,
            threads,
            silent: self.named.difference(&self.switched).count() as u64,
            broken,
            has_stacks: self.has_stacks,
            has_wakings: self.tells.contains(&Tells::Waking),
        }
    }
}

/// Whether a thread has one of the names that were asked for, now.
fn has_name(filter: &Filter, state: &Sideband, (_, tid): (i32, i32)) -> bool {
    filter.comms.is_empty() || {
        let name = state.tasks.shown(state.tasks.comm(tid));
        filter.comms.iter().any(|comm| *comm == *name)
    }
}
