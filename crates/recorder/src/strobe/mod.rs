//! Windows: two events that count the same thing, brought into a fixed phase on each CPU, and kept in it.
//!
//! ```text
//!   plan       how the event counts, what fits on the PMU ─► requests
//!   start      each CPU: phase ─► epoch
//!   look       ten times a second, each CPU:
//!                lost (throttled, offset, lengths, no samples)   ─┐
//!                due (every half to whole second)                ─┼► end epoch, phase ─► epoch
//!                offline and back: open anew                     ─┘
//!   end        each CPU: end epoch
//! ```
//!
//! The method and its proof are in docs/strobing.md.

mod calibrate;
mod check;
mod choose;
mod epochs;
mod fit;
mod gaps;
mod helper;
mod phase;
mod plan;
mod requests;
mod schedule;
mod setting;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
mod watch;

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_counters::{Kernel, OpenedEvent, SamplingSet, Scope, errno_name};
use pmuscope_machine::CpuSet;
use pmuscope_perfdata::strobe::{CpuHealth, Epoch, EpochUpdate, OpenedId, Reason, StrobeInfo};

pub use self::check::{CpuCheck, Disturb, Disturbance, StrobeCheck, StrobeTrial, strobe_check};
pub use self::choose::{ChosenEvents, Lacking, choose_events};
use self::epochs::{Epochs, StartedEpoch};
use self::helper::Helper;
use self::phase::{Achieved, Failure, MOST_TRIES, PhaseOrder};
pub(crate) use self::plan::StrobePlan;
pub use self::setting::Left;
use self::watch::Expected;
pub(crate) use self::watch::Watch;
use crate::clock::clock_ns;
use crate::error::RecorderError;

/// Samples come to us when a reader has looked, several times a second.
const SILENCE_NS: u64 = 450_000_000;
/// Epochs last from half of this to the whole of it.
const LONGEST_EPOCH_NS: u64 = 1_000_000_000;

/// The phases of all CPUs of a recording.
#[derive(Debug)]
pub(crate) struct Strobe {
    plan: StrobePlan,
    /// Without epochs and health.
    info: StrobeInfo,
    scope: Scope,
    /// Where events count this cgroup only.
    cgroup: Option<PathBuf>,
    helper: Helper,
    clockid: i32,
    cpus: Vec<Cpu>,
    epochs: Epochs,
    watch: Arc<Watch>,
}

/// One CPU.
#[derive(Debug)]
struct Cpu {
    number: u32,
    ring: usize,
    /// Its events, where they were opened anew.
    reopened: Option<SamplingSet>,
    online: bool,
    /// The group whose turn it is.
    group: usize,
    /// Turns of the spin that were right the last time.
    turns: Option<u64>,
    epoch: Option<StartedEpoch>,
    period: u64,
    /// When the epoch ends at the latest, nanoseconds.
    due_ns: u64,
    heard: Heard,
    health: CpuHealth,
}

/// The last reading at which there were new samples.
#[derive(Debug, Default, Clone, Copy)]
struct Heard {
    samples: u64,
    /// `A.count`.
    counted: u64,
    at_ns: u64,
}

impl Strobe {
    pub(crate) fn new(
        plan: StrobePlan,
        info: StrobeInfo,
        scope: Scope,
        cgroup: Option<PathBuf>,
        set: &SamplingSet,
        clockid: i32,
    ) -> Self {
        let cpus: Vec<Cpu> = set
            .rings()
            .iter()
            .enumerate()
            .filter_map(|(ring, memory)| Some(Cpu::new(memory.cpu()?, ring)))
            .collect();
        let watch = Arc::new(Watch::new(set.rings().len()));
        let (helper, epochs) = (Helper::Here, Epochs::default());
        Self { plan, info, scope, cgroup, helper, clockid, cpus, epochs, watch }
    }

    /// Which phase is the right one now; `None` while there is none.
    fn expected(&self, ring: usize) -> Option<Expected> {
        self.watch.expected(ring)
    }

    /// For the readers.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.watch.clone()
    }

    /// Sets the phase of all CPUs.
    ///
    /// # Errors
    /// [`RecorderError::StrobePhase`] where that succeeds on none.
    pub(crate) fn start(
        &mut self,
        kernel: &dyn Kernel,
        set: &SamplingSet,
    ) -> Result<(), RecorderError> {
        self.get_helper()?;
        let mut first_failure = None;
        for index in 0..self.cpus.len() {
            if let Err(failure) = self.set_phase(kernel, set, index, Reason::Start) {
                first_failure.get_or_insert((self.cpus[index].number, failure));
            }
        }
        match first_failure {
            Some((cpu, why)) if self.cpus.iter().all(|cpu| cpu.epoch.is_none()) => {
                Err(RecorderError::StrobePhase { cpu, why: describe(&why) })
            }
            _ => Ok(()),
        }
    }

    /// Ends what was lost or is due, and sets the phase anew. Gives what became known.
    pub(crate) fn update(
        &mut self,
        kernel: &dyn Kernel,
        set: &SamplingSet,
        online: Option<&CpuSet>,
    ) -> EpochUpdate {
        for index in 0..self.cpus.len() {
            let is_online = online.is_none_or(|set| set.contains(self.cpus[index].number));
            if !is_online {
                self.went_offline(kernel, set, index);
            } else if let Some(reason) = self.reason(kernel, set, index) {
                self.renew(kernel, set, index, reason);
            }
        }
        self.epochs.take_unreported()
    }

    /// Turns all events off, with which all epochs end.
    pub(crate) fn end(&mut self, kernel: &dyn Kernel, set: &SamplingSet) -> EpochUpdate {
        for index in 0..self.cpus.len() {
            self.end_epoch(kernel, set, index);
        }
        self.epochs.take_unreported()
    }

    /// What the recording says of itself.
    pub(crate) fn info(&self, with_epochs: bool) -> StrobeInfo {
        let epochs = if with_epochs { self.epochs.sorted() } else { Vec::new() };
        let health = |cpu: &Cpu| CpuHealth {
            throttled: self.watch.throttled(cpu.ring),
            left_out: self.watch.left_out(cpu.ring),
            ..cpu.health.clone()
        };
        let cpus = self.cpus.iter().map(health).collect();
        StrobeInfo { epochs, cpus, ..self.info.clone() }
    }

    /// Ids of an event's descriptors that were opened later.
    pub(crate) fn reopened_ids(&self, event: usize) -> Vec<u64> {
        self.cpus
            .iter()
            .filter_map(|cpu| cpu.reopened.as_ref())
            .flat_map(|set| set.ids(event))
            .collect()
    }

    fn get_helper(&mut self) -> Result<(), RecorderError> {
        if let Some(directory) = &self.cgroup {
            // The old one goes first: it would hold the pipes of the new one open.
            self.helper = Helper::Here;
            self.helper = Helper::in_cgroup(directory)
                .map_err(|source| RecorderError::OwnCgroup { path: directory.clone(), source })?;
        }
        Ok(())
    }

    /// Why the phase of a CPU must be set now, if it must.
    fn reason(&mut self, kernel: &dyn Kernel, set: &SamplingSet, index: usize) -> Option<Reason> {
        let cpu = &self.cpus[index];
        if !cpu.online {
            return Some(Reason::Hotplug);
        }
        let seen = self.watch.seen(cpu.ring);
        if cpu.epoch.is_some() && seen.lost.is_some() {
            return seen.lost;
        }
        if self.is_silent(kernel, set, index, seen.samples) {
            return Some(Reason::NoSamples);
        }
        (clock_ns(self.clockid) >= self.cpus[index].due_ns).then_some(Reason::Dither)
    }

    /// Whether A has counted two periods since the last reading without a sample.
    fn is_silent(
        &mut self,
        kernel: &dyn Kernel,
        set: &SamplingSet,
        index: usize,
        samples: u64,
    ) -> bool {
        let heard = self.cpus[index].heard;
        let at_ns = clock_ns(self.clockid);
        if self.cpus[index].epoch.is_none() || samples != heard.samples || heard.at_ns == 0 {
            let counted = self.counted(kernel, set, index);
            self.cpus[index].heard = Heard { samples, counted, at_ns };
            return false;
        }
        if at_ns - heard.at_ns < SILENCE_NS {
            return false;
        }
        let counted = self.counted(kernel, set, index).saturating_sub(heard.counted);
        counted > 2 * self.cpus[index].period
    }

    fn counted(&self, kernel: &dyn Kernel, set: &SamplingSet, index: usize) -> u64 {
        let edges = self.edges(set, index);
        let mut words = [0; 64];
        let read = edges.first().map(|edge| kernel.read(edge.fd(), &mut words));
        if matches!(read, Some(Ok(filled)) if filled > 1) { words[1] } else { 0 }
    }

    fn went_offline(&mut self, kernel: &dyn Kernel, set: &SamplingSet, index: usize) {
        if self.cpus[index].online {
            self.end_epoch(kernel, set, index);
            self.cpus[index].online = false;
        }
    }

    /// Turns the events of a CPU off, with which its epoch ends: it has no later sample.
    fn end_epoch(&mut self, kernel: &dyn Kernel, set: &SamplingSet, index: usize) {
        if let Some(leader) = self.edges(set, index).first() {
            // Where that fails, as on a CPU that is gone, there are no samples anyway. The leader
            // alone: its members are to count again as soon as it does.
            let _ = kernel.disable_alone(leader.fd());
        }
        let now = clock_ns(self.clockid);
        let cpu = &mut self.cpus[index];
        self.watch.turned_off(cpu.ring, now);
        if let Some(epoch) = cpu.epoch.take() {
            self.epochs.end(epoch, now);
        }
    }

    /// Sets the phase; where that cannot be, the CPU may have been offline between two readings.
    fn renew(&mut self, kernel: &dyn Kernel, set: &SamplingSet, index: usize, reason: Reason) {
        let is_dead = reason == Reason::Hotplug
            || matches!(
                self.set_phase(kernel, set, index, reason),
                Err(Failure::NeverNear { offset: 0 })
            );
        if is_dead {
            self.reopen(kernel, set, index);
        }
    }

    fn reopen(&mut self, kernel: &dyn Kernel, set: &SamplingSet, index: usize) {
        let number = self.cpus[index].number;
        // The old ones are of no use, and an offline CPU's would make the new ones fail to fit.
        let cpu = &mut self.cpus[index];
        cpu.reopened = None;
        // The next reading tries again where this fails: the CPU may be going once more.
        let Ok(reopened) = set.reopen(kernel, &self.scope, number) else {
            cpu.health.failed += 1;
            return;
        };
        for opened in reopened.events() {
            let (event, id) = (opened.event as u32, opened.id);
            self.epochs.opened(OpenedId { event, cpu: number, id });
        }
        cpu.reopened = Some(reopened);
        cpu.online = true;
        cpu.health.reopened += 1;
        // A child has the descriptors of its birth only.
        if self.get_helper().is_ok() {
            let _ = self.set_phase(kernel, set, index, Reason::Hotplug);
        }
    }

    /// Ends the epoch, sets the phase with a new period, and begins the next.
    fn set_phase(
        &mut self,
        kernel: &dyn Kernel,
        set: &SamplingSet,
        index: usize,
        reason: Reason,
    ) -> Result<(), Failure> {
        self.end_epoch(kernel, set, index);
        if reason == Reason::Dither {
            let cpu = &mut self.cpus[index];
            cpu.group = (cpu.group + 1) % self.info.groups.len().max(1);
        }
        let (period, window) = self.plan.schedule.draw(fastrand::f64);
        let cpu = &self.cpus[index];
        let (tolerance, granule) = (self.plan.tolerance, self.plan.schedule.granule);
        let (turns, clockid) = (cpu.turns, self.clockid);
        let order = PhaseOrder { period, window, tolerance, granule, turns, clockid };
        self.watch.being_set(cpu.ring);
        let edges = edges_of(cpu, &self.info, set);
        let fds: Vec<BorrowedFd<'_>> = edges.iter().map(|edge| edge.fd()).collect();
        let result = if fds.len() < 2 {
            Err(Failure::NotScheduled)
        } else {
            self.helper.set(kernel, cpu.number, &fds, &order)
        };
        let ids = (edges.first().map_or(0, |e| e.id), edges.get(1).map_or(0, |e| e.id));
        match result {
            Ok(achieved) => {
                self.begin_epoch(index, reason, &order, &achieved, ids);
                Ok(())
            }
            Err(failure) => {
                // Whatever it samples now is of no phase.
                self.end_epoch(kernel, set, index);
                let cpu = &mut self.cpus[index];
                cpu.health.failed += 1;
                cpu.health.why = Some(describe(&failure));
                if matches!(failure, Failure::NeverNear { .. }) {
                    cpu.health.rejected_tries += u64::from(MOST_TRIES);
                }
                cpu.turns = None;
                cpu.due_ns = clock_ns(self.clockid) + LONGEST_EPOCH_NS;
                Err(failure)
            }
        }
    }

    fn begin_epoch(
        &mut self,
        index: usize,
        reason: Reason,
        order: &PhaseOrder,
        achieved: &Achieved,
        (opens, closes): (u64, u64),
    ) {
        let from_ns = achieved.from_ns;
        let cpu = &mut self.cpus[index];
        let offset = achieved.offsets[0];
        let apart = offset.wrapping_add(achieved.before[0]);
        let tolerance = order.tolerance;
        let expected = Expected { from_ns, opens, closes, offset, apart, tolerance };
        self.watch.expect(cpu.ring, expected);
        cpu.turns = Some(achieved.turns);
        cpu.period = order.period;
        cpu.heard = Heard::default();
        cpu.due_ns = from_ns + (LONGEST_EPOCH_NS as f64 * (0.5 + 0.5 * fastrand::f64())) as u64;
        cpu.health.accepted_tries += 1;
        cpu.health.why = None;
        cpu.health.rejected_tries += u64::from(achieved.rejected);
        count_reason(&mut cpu.health.rephased, reason);
        let epoch = Epoch {
            cpu: cpu.number,
            group: cpu.group as u32,
            from_ns,
            until_ns: None,
            period: order.period,
            window: order.window,
            offsets: achieved.offsets[..self.info.burst as usize].to_vec(),
            before: achieved.before[..self.info.burst as usize].to_vec(),
            rejected_tries: achieved.rejected,
            reason,
        };
        cpu.epoch = Some(self.epochs.begin(epoch));
    }

    fn edges<'s>(&'s self, set: &'s SamplingSet, index: usize) -> Vec<&'s OpenedEvent> {
        edges_of(&self.cpus[index], &self.info, set)
    }
}

impl Cpu {
    fn new(number: u32, ring: usize) -> Self {
        Self {
            number,
            ring,
            reopened: None,
            online: true,
            group: 0,
            turns: None,
            epoch: None,
            period: 0,
            due_ns: 0,
            heard: Heard::default(),
            health: CpuHealth { cpu: number, ..CpuHealth::default() },
        }
    }
}

/// Descriptors of the edges of the group whose turn it is, A first.
fn edges_of<'s>(cpu: &'s Cpu, info: &StrobeInfo, set: &'s SamplingSet) -> Vec<&'s OpenedEvent> {
    let set = cpu.reopened.as_ref().unwrap_or(set);
    let Some(group) = info.groups.get(cpu.group) else { return Vec::new() };
    let find = |edge: &u32| {
        let is_it = |e: &&OpenedEvent| e.cpu == Some(cpu.number) && e.event == *edge as usize;
        set.events().iter().find(is_it)
    };
    group.edges.iter().filter_map(find).collect()
}

fn count_reason(counts: &mut Vec<(Reason, u64)>, reason: Reason) {
    match counts.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, count)) => *count += 1,
        None => counts.push((reason, 1)),
    }
}

fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Call(error) => errno_name(error),
        Failure::NotScheduled => {
            "the events do not fit on the PMU together with the events of other programs. Try: \
             fewer events (-e)"
                .into()
        }
        Failure::NeverNear { offset } => {
            format!(
                "{MOST_TRIES} tries got no closer than {offset}. Try: a longer window, \
                 --strobe=1000"
            )
        }
    }
}
