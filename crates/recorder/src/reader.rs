//! A reader: a thread that drains its rings into the file.
//!
//! It sleeps until a ring passes its watermark (a quarter, set by whoever opened it) or the time limit
//! is over. Woken by a watermark it drains the rings that are worth it; at the time limit it looks at
//! all of them, so that rounds finish and a killed recording ends with fresh data.
//!
//! ```text
//!            0        ¼ watermark: wake              full: the kernel drops records
//!   ring     ├────────┼──────────────────────────────┤
//!                     └──── slack for a reader that does not get a CPU at once ────┘
//! ```

use std::os::fd::AsFd as _;
use std::time::Duration;

use pmuscope_counters::{Ring, SamplingSet};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::affinity::Mover;
use crate::clock::monotonic_ns;
use crate::control::{ControlState, Phase};
use crate::cpu_time::CpuTime;
use crate::error::RecorderError;
use crate::options::Affinity;
use crate::plan::ReaderPlan;
use crate::sink::{Sink, SinkOptions};
use crate::tally::RecordTally;
use crate::wake::Wake;

/// All rings are looked at this often.
const TIME_LIMIT: Duration = Duration::from_millis(200);
/// Woken by one ring, others are drained too if they hold at least one part in so many of their size:
/// small drains cost more per byte, full rings lose data.
pub(crate) const WORTH_A_DRAIN: usize = 8;
/// Number that no ring has.
const CONTROL: u64 = u64::MAX;

/// A ring and what was seen of it.
pub(crate) struct RingSlot {
    pub(crate) index: usize,
    pub(crate) ring: Ring,
    pub(crate) node: Option<u32>,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
    pub(crate) lost_in_records: u64,
    pub(crate) high_water: u64,
    pub(crate) drains: u64,
}

impl RingSlot {
    pub(crate) fn new(index: usize, ring: Ring, node: Option<u32>) -> Self {
        Self {
            index,
            ring,
            node,
            bytes: 0,
            samples: 0,
            lost_in_records: 0,
            high_water: 0,
            drains: 0,
        }
    }
}

/// What a reader has to say at its end.
pub(crate) struct ReaderReport {
    pub(crate) slots: Vec<RingSlot>,
    pub(crate) time: CpuTime,
    pub(crate) rings: String,
    pub(crate) wakeups: u64,
    pub(crate) moves: u64,
    pub(crate) drains: u64,
    pub(crate) drains_on_node: u64,
    pub(crate) aio: Option<&'static str>,
    pub(crate) failure: Option<RecorderError>,
}

/// How a reader works.
pub(crate) struct ReaderOptions {
    pub(crate) affinity: Affinity,
    pub(crate) sink: SinkOptions,
}

/// Drains until the recording is over. Runs on a thread of its own, which it moves about.
pub(crate) fn run(
    shared: &ControlState<'_>,
    set: &SamplingSet,
    plan: &ReaderPlan,
    slots: Vec<RingSlot>,
    options: &ReaderOptions,
    wake: &Wake,
) -> ReaderReport {
    let mut report = ReaderReport {
        slots,
        time: CpuTime::default(),
        rings: plan.cpus.to_string(),
        wakeups: 0,
        moves: 0,
        drains: 0,
        drains_on_node: 0,
        aio: None,
        failure: None,
    };
    let mut mover = Mover::new(shared.topology, options.affinity, plan.pinned.as_ref());
    report.failure = Sink::new(shared, options.sink)
        .and_then(|(sink, aio)| {
            report.aio = aio;
            let mut reader = RingReader { shared, sink, mover: &mut mover, report: &mut report };
            reader.until_the_end(set, wake)
        })
        .err();
    if report.failure.is_some() {
        wake_main(shared);
    }
    report.moves = mover.moves();
    report.time = CpuTime::of_thread();
    report
}

/// A reader that cannot go on ends the recording; what is in the file stays.
fn wake_main(shared: &ControlState<'_>) {
    shared.output().stop(crate::output::Stopped::Failed(std::io::Error::other("a reader ended")));
}

struct RingReader<'a, 'b> {
    shared: &'a ControlState<'a>,
    sink: Sink<'a>,
    mover: &'b mut Mover<'a>,
    report: &'b mut ReaderReport,
}

impl RingReader<'_, '_> {
    fn until_the_end(&mut self, set: &SamplingSet, wake: &Wake) -> Result<(), RecorderError> {
        let mut poll = RingPoll::new(set, &self.report.slots, wake)?;
        let mut next_full = monotonic_ns();
        loop {
            let draining = self.shared.phase() == Phase::Draining;
            let now = monotonic_ns();
            if draining || now >= next_full {
                self.drain_all()?;
                next_full = now + TIME_LIMIT.as_nanos() as u64;
            } else {
                self.drain_worthwhile()?;
            }
            if draining {
                return self.finish();
            }
            let timeout = next_full.saturating_sub(monotonic_ns());
            poll.wait(Duration::from_nanos(timeout))?;
            self.report.wakeups += 1;
        }
    }

    /// Looks at every ring, also at empty ones: a round needs it.
    fn drain_all(&mut self) -> Result<(), RecorderError> {
        for slot in 0..self.report.slots.len() {
            self.drain(slot)?;
        }
        self.tend()
    }

    fn drain_worthwhile(&mut self) -> Result<(), RecorderError> {
        for slot in 0..self.report.slots.len() {
            let ring = &self.report.slots[slot].ring;
            if ring.waiting() >= ring.size() / WORTH_A_DRAIN {
                self.drain(slot)?;
            }
        }
        self.tend()
    }

    /// The events are off, so what a reading sees is all there is; but a record may have been in the
    /// making at the first reading.
    fn finish(&mut self) -> Result<(), RecorderError> {
        while self.report.slots.iter().any(|slot| slot.ring.waiting() > 0) {
            self.drain_all()?;
        }
        let node = self.home_node();
        self.sink.finish(node)
    }

    fn tend(&mut self) -> Result<(), RecorderError> {
        let node = self.home_node();
        self.sink.tend(node)
    }

    /// Compressed data of several rings share a buffer; it lies on the node of the first.
    fn home_node(&self) -> Option<u32> {
        self.report.slots.first().and_then(|slot| slot.node)
    }

    fn drain(&mut self, slot: usize) -> Result<(), RecorderError> {
        let report = &mut *self.report;
        let slot = &mut report.slots[slot];
        // The clock before the reading: what the reading does not see was published later than this.
        let looked = monotonic_ns();
        let pending = slot.ring.pending();
        // After the look: what is published after an earlier one would be read from where the reader happens to be.
        if !pending.is_empty() {
            self.mover.approach(slot.ring.cpu(), |node| self.shared.is_busy(node));
        }
        let kept = match &self.shared.watch {
            None => None,
            Some(watch) => {
                let last = self.shared.phase() == Phase::Draining;
                let Some(kept) = watch.sift(slot.index, &pending, last) else { return Ok(()) };
                Some(kept)
            }
        };
        let kept = kept.as_deref().unwrap_or(std::slice::from_ref(&pending));
        let index = self.shared.index();
        let mut tally = RecordTally::new(&index);
        if !pending.is_empty() {
            report.drains += 1;
            report.drains_on_node += u64::from(self.mover.is_on_node_of(slot.ring.cpu()));
            kept.iter().for_each(|run| tally.count(run, &index));
            if let Some(keeper) = self.shared.keeper {
                tally.code.drain(..).for_each(|file| keeper.mapped(file));
            }
            slot.samples += tally.all_samples();
            slot.lost_in_records += tally.lost_in_records;
            slot.bytes += kept.iter().map(|run| run.len() as u64).sum::<u64>();
            slot.high_water = slot.high_water.max(pending.len() as u64);
            slot.drains += 1;
        }
        self.sink.take(slot.index, slot.node, kept, looked, tally)?;
        let end = pending.end();
        slot.ring.release(end);
        Ok(())
    }
}

/// Waits for the rings of a reader. A ring is polled through one of its descriptors; when that one's
/// task is gone (hang-up) the next one takes its place, and a ring without any is left to the time
/// limit.
pub(crate) struct RingPoll<'a> {
    set: &'a SamplingSet,
    epoll: std::os::fd::OwnedFd,
    /// By slot: indices into the set's events, the one in use last.
    candidates: Vec<Vec<usize>>,
    wake: &'a Wake,
    events: Vec<epoll::Event>,
}

impl<'a> RingPoll<'a> {
    /// Waits for the rings of `slots`, and for `wake`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(
        set: &'a SamplingSet,
        slots: &[RingSlot],
        wake: &'a Wake,
    ) -> Result<Self, RecorderError> {
        let error = || RecorderError::system("epoll");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| error()(e.into()))?;
        epoll::add(&epoll, wake.as_fd(), EventData::new_u64(CONTROL), EventFlags::IN)
            .map_err(|e| error()(e.into()))?;
        let candidates = slots
            .iter()
            .map(|slot| {
                let of_ring = |event: &usize| set.events()[*event].ring == slot.index;
                (0..set.events().len()).filter(of_ring).rev().collect()
            })
            .collect();
        let events = Vec::with_capacity(slots.len() + 1);
        let mut poll = Self { set, epoll, candidates, wake, events };
        for slot in 0..slots.len() {
            poll.watch(slot);
        }
        Ok(poll)
    }

    /// Watches the slot's current descriptor. One that cannot be watched costs latency, not data.
    fn watch(&mut self, slot: usize) {
        if let Some(&event) = self.candidates[slot].last() {
            let data = EventData::new_u64(slot as u64);
            let _ = epoll::add(&self.epoll, self.set.events()[event].fd(), data, EventFlags::IN);
        }
    }

    fn replace(&mut self, slot: usize) {
        if let Some(event) = self.candidates[slot].pop() {
            let _ = epoll::delete(&self.epoll, self.set.events()[event].fd());
            self.watch(slot);
        }
    }

    /// Waits until a ring passes its watermark, or for so long.
    ///
    /// # Errors
    /// `epoll_wait` fails otherwise than by an interrupt.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Result<(), RecorderError> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(RecorderError::system("epoll_wait")(errno.into())),
        }
        for position in 0..self.events.len() {
            let epoll::Event { data, flags } = self.events[position];
            match data.u64() {
                CONTROL => self.wake.silence(),
                slot if flags.intersects(EventFlags::HUP | EventFlags::ERR) => {
                    self.replace(slot as usize);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
