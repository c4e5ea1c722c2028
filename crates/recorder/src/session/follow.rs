//! Following what runs without a file: what rings hold goes to memory, to whoever counts it.
//!
//! ```text
//!  kernel       reader (a thread)                 queue (bounded)                who counts (another)
//!  ring 0 ─┐    wait: a quarter full, or 100 ms   ┌──────────────────────────┐
//!  ring 1 ─┼──► copy, release tail ─────────────► │ records, records, round  │ ──► Following::next
//!  ring n ─┘    all rings looked at: a round      └──────────────────────────┘
//! ```
//! The reader does nothing but copy, so that rings are read however long names take. Where nobody takes
//! from the queue in time the reader stops copying: then rings fill, and the kernel counts what it drops
//! as it counts any loss.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pmuscope_counters::{Kernel, Ring, SamplingSet};
use pmuscope_events::Group;
use pmuscope_machine::{Machine, Target, Topology};
use pmuscope_perfdata::info::{Cost, LostSource, MachineInfo, RecordingInfo, RingInfo};
use pmuscope_perfdata::reader::{Event, Metadata};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::files::ClockReading;
use super::open::{self, Opening};
use super::outcome::Loss;
use super::{Session, Signals};
use crate::clock::monotonic_ns;
use crate::cpu_time::CpuTime;
use crate::error::RecorderError;
use crate::metadata;
use crate::options::{Affinity, CallGraph, Readers, RecordOptions, Sampling};
use crate::reader::{RingPoll, RingSlot, WORTH_A_DRAIN};
use crate::wake::Wake;

/// A round is this long: what was sampled is in order two rounds later.
const ROUND: Duration = Duration::from_millis(100);
/// Bytes that wait in the queue at most: a second of 25 kHz on 56 CPUs.
const MOST_WAITING: usize = 64 << 20;
/// `CLOCK_MONOTONIC`: the clock that rounds are told by.
const CLOCK: i32 = 1;
/// To read the loss of more descriptors would cost more than it tells; LOST records tell it too.
const MOST_READ: usize = 4096;

/// What to follow.
#[derive(Debug)]
pub struct FollowOptions {
    /// Whose events; what runs already.
    pub target: Target,
    /// The events, grouped.
    pub groups: Vec<Group>,
    /// For events that do not say themselves.
    pub sampling: Sampling,
    /// Call stacks of samples.
    pub call_graph: CallGraph,
    /// Our own command line.
    pub own_command_line: Vec<String>,
}

/// What comes from the rings.
#[derive(Debug)]
pub enum Piece {
    /// Whole records, in the order of one ring.
    Records(Vec<u8>),
    /// All rings were looked at, from this moment on, nanoseconds of the records' clock: what is older
    /// than the moment of the round before has come.
    Round(u64),
}

/// Follows until `body` returns; gives what it returned.
///
/// # Errors
/// [`RecorderError`] if events cannot be opened or enabled. What fails later is told by
/// [`Following::next`].
pub fn follow<T>(
    options: FollowOptions,
    kernel: &dyn Kernel,
    machine: &Machine,
    body: impl FnOnce(&Following<'_>) -> T,
) -> Result<T, RecorderError> {
    let options = record_options(options);
    let features = open::features(machine)?;
    let topology = &machine.topology()?;
    let wake = Wake::new().map_err(RecorderError::system("eventfd"))?;
    // Nothing is asked for by signal here.
    let signals = Signals { stop: wake.as_fd(), switch: None };
    let (options, source) = (&options, None);
    let opening = Opening { options, kernel, machine, topology, features, signals, source };
    let mut session = opening.open(None, None)?;
    let rings = session.set.take_rings();
    let queue = Queue::default();
    let (session, set, queue, wake) = (&session, &session.set, &queue, &wake);
    std::thread::scope(|threads| {
        // Also where `body` panics: nobody else would end the reader.
        let _stop = StopReader { queue, wake };
        std::thread::Builder::new()
            .name("reader".into())
            .spawn_scoped(threads, move || {
                if let Err(error) = read(set, topology, rings, queue, wake) {
                    queue.fail(error);
                }
            })
            .map_err(RecorderError::system("starting a reader"))?;
        session.describe_what_exists(false, &mut |records| queue.push(records.to_vec()));
        queue.begin_rounds();
        session.enable()?;
        let following = Following::new(session, queue);
        let result = body(&following);
        session.disable()?;
        Ok(result)
    })
}

/// As a recording of the whole stream would be made.
fn record_options(options: FollowOptions) -> RecordOptions {
    let FollowOptions { target, groups, sampling, call_graph, own_command_line } = options;
    RecordOptions {
        sampling,
        call_graph,
        readers: Readers::Serial,
        affinity: Affinity::Sys,
        own_command_line,
        ..RecordOptions::new(target, groups, PathBuf::new())
    }
}

/// What is being followed.
pub struct Following<'a> {
    session: &'a Session<'a>,
    queue: &'a Queue,
    machine: MachineInfo,
    processes: Vec<OwnedFd>,
    began: ClockReading,
    before: Mutex<AccountStart>,
}

/// What an account begins from.
struct AccountStart {
    /// The end of the interval, nanoseconds, …
    end: u64,
    /// … and of what was measured of us.
    end_of_account: u64,
    cpu: CpuTime,
    loss: Option<Loss>,
}

impl<'a> Following<'a> {
    fn new(session: &'a Session<'a>, queue: &'a Queue) -> Self {
        let machine = metadata::machine_info(session.machine, session.topology);
        let began = ClockReading::now(CLOCK);
        let before = Mutex::new(AccountStart { end: began.clock_ns, ..AccountStart::of(session) });
        Self { session, queue, machine, processes: session.observed_processes(), began, before }
    }

    /// The events, with the ids of their records.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let requests = self.session.requests().iter().enumerate();
        let event = |(number, request): (usize, &pmuscope_counters::EventRequest)| Event {
            name: request.name.clone(),
            attr: request.attr.clone(),
            ids: self.session.set.ids(number),
        };
        requests.map(event).collect()
    }

    /// What is known of the machine.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let nodes = &self.session.topology.nodes;
        Metadata {
            hostname: Some(self.machine.hostname.clone()),
            os_release: Some(self.machine.kernel.clone()),
            arch: Some(self.machine.arch.clone()),
            cpus: Some(self.machine.cpus),
            nodes: Some(self.machine.nodes),
            node_cpus: nodes.iter().map(|node| (node.id, node.cpus.to_string())).collect(),
            cpu_model: self.machine.cpu_model.clone(),
            ..Metadata::default()
        }
    }

    /// The clock of the records, nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        monotonic_ns()
    }

    /// What comes next; `None` if that is nothing for so long.
    ///
    /// # Errors
    /// The reader could not go on.
    pub fn next(&self, timeout: Duration) -> Result<Option<Piece>, RecorderError> {
        self.queue.next(timeout)
    }

    /// Whether all processes that were asked for by number have ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut watched: Vec<PollFd<'_>> =
            self.processes.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Interrupted: the next reading shows it.
        let ended = poll(&mut watched, Some(&at_once)).unwrap_or(0);
        self.session.options.is_by_number() && ended == watched.len()
    }

    /// What following cost and lost since the last account, for an interval that ended at `end`,
    /// nanoseconds of the records' clock, where the one before did, or where it all began. Its records
    /// come a little later than it ends, and so does the account. Samples are not told: they are counted
    /// elsewhere.
    #[must_use]
    pub fn account(&self, end: u64) -> RecordingInfo {
        let now = AccountStart::of(self.session);
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let mut info = self.session.describe(&self.machine);
        let since_began = before.end.saturating_sub(self.began.clock_ns);
        info.started_unix_ns = self.began.wall_ns + since_began;
        info.started_clock_ns = before.end;
        info.duration_s = end.saturating_sub(before.end) as f64 / 1e9;
        let (user_s, system_s) =
            (now.cpu.user_s - before.cpu.user_s, now.cpu.system_s - before.cpu.system_s);
        // Both are of the time from account to account.
        let machine_s = (now.end_of_account - before.end_of_account) as f64 / 1e9
            * f64::from(self.machine.cpus);
        info.cost = Cost {
            user_s,
            system_s,
            machine_share: (machine_s > 0.0).then(|| (user_s + system_s) / machine_s),
            ..Cost::default()
        };
        match now.loss.as_ref().zip(before.loss.as_ref()) {
            Some((now, before)) => add_loss(&mut info, &now.since(before)),
            None => info.lost_source = LostSource::Unknown,
        }
        *before = AccountStart { end, ..now };
        info
    }

    /// When it began, on the records' clock, nanoseconds.
    #[must_use]
    pub fn began(&self) -> u64 {
        self.began.clock_ns
    }
}

fn add_loss(info: &mut RecordingInfo, loss: &Loss) {
    for (event, lost) in info.events.iter_mut().zip(&loss.by_event) {
        event.lost = *lost;
    }
    let rings = loss.by_ring.values();
    info.rings = rings.map(|lost| RingInfo { lost: Some(*lost), ..RingInfo::default() }).collect();
}

impl AccountStart {
    fn of(session: &Session<'_>) -> Self {
        let tells = session.features.counts_lost() && session.set.events().len() <= MOST_READ;
        let loss = tells.then(|| session.read_loss());
        let now = monotonic_ns();
        Self { end: now, end_of_account: now, cpu: CpuTime::of_process(), loss }
    }
}

/// Ends the reader.
struct StopReader<'a> {
    queue: &'a Queue,
    wake: &'a Wake,
}

impl Drop for StopReader<'_> {
    fn drop(&mut self) {
        self.queue.state().over = true;
        self.wake.ring();
    }
}

/// What was copied from rings and not yet taken.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
}

#[derive(Default)]
struct QueueState {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// What exists has been described: rounds mean something from now on.
    rounds: bool,
    over: bool,
    failure: Option<RecorderError>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, records: Vec<u8>) {
        let mut state = self.state();
        state.bytes += records.len();
        state.pieces.push_back(Piece::Records(records));
        self.filled.notify_one();
    }

    fn begin_rounds(&self) {
        self.state().rounds = true;
    }

    fn round(&self, began: u64) {
        let mut state = self.state();
        if state.rounds {
            state.pieces.push_back(Piece::Round(began));
            self.filled.notify_one();
        }
    }

    fn fail(&self, error: RecorderError) {
        self.state().failure = Some(error);
        self.filled.notify_one();
    }

    fn is_full(&self) -> bool {
        self.state().bytes >= MOST_WAITING
    }

    fn next(&self, timeout: Duration) -> Result<Option<Piece>, RecorderError> {
        let is_empty = |state: &mut QueueState| state.pieces.is_empty() && state.failure.is_none();
        let waited = self.filled.wait_timeout_while(self.state(), timeout, is_empty);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        let piece = state.pieces.pop_front();
        if let Some(Piece::Records(records)) = &piece {
            state.bytes -= records.len();
        }
        Ok(piece)
    }
}

/// Copies what rings hold until it is over.
fn read(
    set: &SamplingSet,
    topology: &Topology,
    rings: Vec<Ring>,
    queue: &Queue,
    wake: &Wake,
) -> Result<(), RecorderError> {
    let slot = |(index, ring): (usize, Ring)| {
        let node = ring.cpu().and_then(|cpu| topology.node_of(cpu));
        RingSlot::new(index, ring, node)
    };
    let mut slots: Vec<RingSlot> = rings.into_iter().enumerate().map(slot).collect();
    let mut poll = RingPoll::new(set, &slots, wake)?;
    let mut next = monotonic_ns();
    while !queue.state().over {
        let began = monotonic_ns();
        let is_round = began >= next;
        let mut all = is_round;
        for slot in &mut slots {
            let ring = &mut slot.ring;
            if is_round || ring.waiting() >= ring.size() / WORTH_A_DRAIN {
                all &= copy(ring, queue);
            }
        }
        if all {
            queue.round(began);
        }
        if is_round {
            next = began + ROUND.as_nanos() as u64;
        }
        poll.wait(Duration::from_nanos(next.saturating_sub(monotonic_ns())))?;
    }
    Ok(())
}

/// Moves what waits in a ring to the queue; false if there is no room.
fn copy(ring: &mut Ring, queue: &Queue) -> bool {
    if ring.waiting() == 0 {
        return true;
    }
    if queue.is_full() {
        return false;
    }
    let end = {
        let pending = ring.pending();
        queue.push([pending.first, pending.second].concat());
        pending.end()
    };
    ring.release(end);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn pieces_come_in_order_and_rounds_not_before_all_is_described() {
        let queue = Queue::default();
        queue.round(1);
        queue.push(vec![1; 8]);
        queue.begin_rounds();
        queue.round(2);
        assert!(
            matches!(queue.next(AT_ONCE), Ok(Some(Piece::Records(records))) if records.len() == 8)
        );
        assert!(matches!(queue.next(AT_ONCE), Ok(Some(Piece::Round(2)))));
        assert!(matches!(queue.next(AT_ONCE), Ok(None)));
    }

    #[test]
    fn what_is_not_taken_in_time_stays_in_the_rings() {
        let queue = Queue::default();
        queue.push(vec![0; MOST_WAITING - 1]);
        assert!(!queue.is_full());
        queue.push(vec![0; 8]);
        assert!(queue.is_full());
        queue.next(AT_ONCE).unwrap();
        assert!(!queue.is_full());
    }

    #[test]
    fn a_reader_that_failed_is_told_once() {
        let queue = Queue::default();
        queue.fail(RecorderError::Options("no more".into()));
        assert_eq!(queue.next(AT_ONCE).unwrap_err().to_string(), "no more");
        assert!(queue.next(AT_ONCE).unwrap().is_none());
    }
}
