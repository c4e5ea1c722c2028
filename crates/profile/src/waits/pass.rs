//! The records of a recording of waits, one after the other.

use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_abi::{AttrFlags, SampleType, event_type, software};
use pmuscope_perfdata::reader::{
    Endian, Entry, Event, ReadError, Reader, Record, RecordingFile, Sample,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::WaitsError;
use super::counter::{CountedWaits, WAKINGS, WaitCounter};
use super::threads::{Broken, Losses, SchedEvent, Threads, Woken};
use crate::count::unwinding::{Tables, Unwinding, Walker};
use crate::filter::Filter;
use crate::timeline::lookup::Current;
use crate::timeline::sideband::Sideband;

/// `common_flags` of a tracepoint: a hardware or software interrupt, or an NMI (`TRACE_FLAG_*` of
/// include/linux/trace_events.h).
const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;
/// Where `common_flags` stands in the fields of a tracepoint, and `pid` in those of `sched_waking`: behind
/// eight bytes that all have and a name of 16.
const FLAGS_AT: usize = 2;
const PID_AT: usize = 24;

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
    /// Who wakes whom.
    Waking,
    Nothing,
}

impl Tells {
    fn of(event: &Event) -> Self {
        let attr = &event.attr;
        let each = attr.sample == 1 && !attr.flags.contains(AttrFlags::FREQ);
        let is_switch =
            attr.event_type == event_type::SOFTWARE && attr.config == software::CONTEXT_SWITCHES;
        let is_waking = attr.event_type == event_type::TRACEPOINT
            && event.name.starts_with("sched:sched_waking")
            && attr.sample_type.contains(SampleType::RAW);
        match (is_switch && each, is_waking && each) {
            (true, _) => Self::Leaving,
            (_, true) => Self::Waking,
            _ => Self::Nothing,
        }
    }
}

/// Which of the events of a recording are only there to tell waits.
#[must_use]
pub fn tells_waits(events: &[Event]) -> Vec<bool> {
    let has_switches = events.iter().any(has_switches);
    events.iter().map(|event| has_switches && Tells::of(event) != Tells::Nothing).collect()
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
        if !reader.events().iter().any(has_switches) {
            return Err(WaitsError::NotRecorded { path: recording.path().to_owned() });
        }
        let (span, losses) = survey(&reader, recording)?;
        let has_stacks = reader.events().iter().any(Event::has_stacks);
        let mut pass = Pass::new(&reader, filter, span, losses);
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
    let tells: Vec<Tells> = reader.events().iter().map(Tells::of).collect();
    let mut switches = (u64::MAX, 0);
    let mut last: FxHashMap<Option<u32>, u64> = FxHashMap::default();
    let (mut stretches, mut told) = (Vec::new(), 0_u64);
    while let Some(entry) = reader.next()? {
        let Some(time) = entry.time.filter(|&time| time > 0) else { continue };
        let (cpu, is_switch) = match &entry.record {
            Record::Sample(sample) => {
                (sample.cpu, tells.get(sample.event) == Some(&Tells::Leaving))
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

struct Pass<'u> {
    state: Sideband,
    tells: Vec<Tells>,
    endian: Endian,
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
        Self {
            state: Sideband::default(),
            tells: reader.events().iter().map(Tells::of).collect(),
            endian: reader.endian(),
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
        match self.tells.get(sample.event) {
            Some(Tells::Leaving) if tid != 0 && self.passes((pid, tid)) => {
                let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
                let place = self.counter.place(&now, sample, 0);
                self.tell((pid, tid), time, SchedEvent::Leaving(place));
            }
            Some(Tells::Waking) => {
                let raw = sample.details().and_then(|details| details.raw);
                let Some((wakee, in_interrupt)) = raw.and_then(|raw| waking(raw, self.endian))
                else {
                    return;
                };
                if !self.threads.knows(wakee) {
                    return;
                }
                let now = Current { tasks: &self.state.tasks, modules: &self.state.modules };
                let place = self.counter.place(&now, sample, WAKINGS);
                let by = place << 1 | u32::from(in_interrupt);
                let woken = Woken { at: time, by };
                self.threads.tell((0, wakee), time, SchedEvent::Woken(woken), &mut |_| {});
            }
            _ => {}
        }
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
            has_stacks: self.tells.contains(&Tells::Leaving),
            has_wakings: self.tells.contains(&Tells::Waking),
        }
    }
}

/// Whether a thread has one of the names that were asked for, now.
fn has_name(filter: &Filter, state: &Sideband, (pid, tid): (i32, i32)) -> bool {
    filter.comms.is_empty() || {
        let name = state.tasks.shown(state.tasks.comm(pid, tid));
        filter.comms.iter().any(|comm| *comm == *name)
    }
}

/// Who is woken, and whether by an interrupt, from the fields of `sched_waking`.
fn waking(raw: &[u8], endian: Endian) -> Option<(i32, bool)> {
    let flags = *raw.get(FLAGS_AT)?;
    let pid = *raw.get(PID_AT..)?.first_chunk()?;
    let pid = if endian == Endian::Big { i32::from_be_bytes(pid) } else { i32::from_le_bytes(pid) };
    Some((pid, flags & IN_INTERRUPT != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waking_names_who_is_woken_and_whether_an_interrupt_did() {
        let mut raw = vec![0; 36];
        raw[FLAGS_AT] = 0x01; // interrupts off, which a thread can do too
        raw[PID_AT..PID_AT + 4].copy_from_slice(&4711_i32.to_le_bytes());
        assert_eq!(waking(&raw, Endian::Little), Some((4711, false)));
        raw[FLAGS_AT] = 0x09;
        assert_eq!(waking(&raw, Endian::Little), Some((4711, true)));
        raw[PID_AT..PID_AT + 4].copy_from_slice(&4711_i32.to_be_bytes());
        assert_eq!(waking(&raw, Endian::Big), Some((4711, true)));
        assert_eq!(waking(&raw[..27], Endian::Big), None);
    }
}
