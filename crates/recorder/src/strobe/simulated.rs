//! A PMU made of numbers, for tests: events that count a clock which system calls and spins advance.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use pmuscope_abi::record::{RecordBuilder, kind};
use pmuscope_abi::{Attr, AttrFlags, OpenFlags};
use pmuscope_counters::fake::FakeKernel;
use pmuscope_counters::{Kernel, RingMemory};

use crate::clock::clock_ns;

/// Counts that half of a system call takes in user mode.
pub(crate) const HALF_CALL: u64 = 16;
/// Counts of a step of a spin.
pub(crate) const STEP: u64 = 4;

/// One PMU; every event counts on it while it is enabled and its leader is.
#[derive(Debug, Default)]
pub(crate) struct Pmu {
    state: Mutex<SimulatorState>,
    rings: FakeKernel,
    /// Events that fit on it at once.
    counters: Option<usize>,
    /// `attr.config` of events that it does not have.
    lacking: Vec<u64>,
}

/// An event with a name and a number.
pub(crate) fn event(name: &str, config: u64) -> pmuscope_events::Event {
    use pmuscope_events::{Event, Origin};
    Event {
        name: name.into(),
        typed: name.into(),
        ..Event::new("cpu", Attr { config, ..Attr::default() }, Origin::Hardware)
    }
}

#[derive(Debug, Default)]
struct SimulatorState {
    clock: u64,
    events: BTreeMap<RawFd, SimulatedEvent>,
    /// Counts that another task's turn takes from us, at the call of that number.
    preempted: BTreeMap<u64, u64>,
    calls: u64,
    opened: u64,
    /// Records of samples.
    sampled: Vec<u8>,
}

#[derive(Debug)]
struct SimulatedEvent {
    /// Number of the call that opened it. Descriptors are no order: tests that run at the same time share them.
    opened: u64,
    leader: Option<RawFd>,
    enabled: bool,
    period: u64,
    /// How much of the period has passed.
    passed: u64,
    count: u64,
    /// Of an offline CPU: it counts no more, and says nothing.
    dead: bool,
}

impl Pmu {
    /// With so many counters.
    pub(crate) fn with_counters(counters: usize) -> Self {
        Self { counters: Some(counters), ..Self::default() }
    }

    /// Without these events.
    pub(crate) fn without(self, lacking: &[u64]) -> Self {
        Self { lacking: lacking.to_vec(), ..self }
    }

    fn state(&self) -> MutexGuard<'_, SimulatorState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// User code runs.
    pub(crate) fn run(&self, counts: u64) {
        self.state().advance(counts);
    }

    pub(crate) fn spin(&self, steps: u64) {
        self.run(steps * STEP);
    }

    /// Another task of the same scope runs for so many counts at call number `call`, from now.
    pub(crate) fn preempt(&self, call: u64, counts: u64) {
        let mut state = self.state();
        let at = state.calls + call;
        state.preempted.insert(at, counts);
    }

    /// What throttling does: both start anew at the same moment.
    pub(crate) fn throttle(&self) {
        let mut state = self.state();
        let most = state.events.values().map(|event| event.count).max().unwrap_or(0);
        state.events.values_mut().for_each(|event| event.count = most);
    }

    /// All events that are open now count no more.
    pub(crate) fn unplug(&self) {
        self.state().events.values_mut().for_each(|event| event.dead = true);
    }

    /// Samples since the last call, as records.
    pub(crate) fn take_samples(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().sampled)
    }

    /// What an event has counted.
    pub(crate) fn count(&self, event: BorrowedFd<'_>) -> u64 {
        self.state().events.get(&event.as_raw_fd()).map_or(0, |event| event.count)
    }

    /// Periods in force, by order of opening.
    pub(crate) fn periods(&self) -> Vec<u64> {
        let state = self.state();
        let mut events: Vec<&SimulatedEvent> = state.events.values().collect();
        events.sort_by_key(|event| event.opened);
        events.into_iter().map(|event| event.period).collect()
    }

    fn call<T>(&self, act: impl FnOnce(&mut SimulatorState) -> T) -> T {
        let mut state = self.state();
        let call = state.calls;
        state.calls += 1;
        let extra = state.preempted.remove(&call).unwrap_or(0);
        state.advance(HALF_CALL + extra);
        let result = act(&mut state);
        state.advance(HALF_CALL);
        result
    }

    fn set(&self, fd: BorrowedFd<'_>, act: impl FnOnce(&mut SimulatedEvent)) -> io::Result<()> {
        self.call(|state| state.events.get_mut(&fd.as_raw_fd()).map(act)).ok_or_else(bad_fd)
    }

    /// As the kernel does it to a group: to each of its members.
    fn set_all(&self, leader: BorrowedFd<'_>, act: impl Fn(&mut SimulatedEvent)) -> io::Result<()> {
        let leader = leader.as_raw_fd();
        self.call(|state| {
            let members = state.events.iter_mut();
            let is_it =
                |fd: RawFd, event: &SimulatedEvent| fd == leader || event.leader == Some(leader);
            members.filter(|(fd, event)| is_it(**fd, event)).for_each(|(_, event)| act(event));
        });
        Ok(())
    }
}

fn bad_fd() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

impl SimulatorState {
    fn advance(&mut self, counts: u64) {
        self.clock += counts;
        let on: Vec<RawFd> =
            self.events.iter().filter(|(_, event)| event.enabled).map(|(fd, _)| *fd).collect();
        let mut due = Vec::new();
        for (fd, event) in &mut self.events {
            let leader = event.leader.unwrap_or(*fd);
            if on.contains(fd) && on.contains(&leader) && !event.dead {
                event.count += counts;
                event.passed += counts;
                let samples = event.passed.checked_div(event.period).unwrap_or(0);
                event.passed -= samples * event.period;
                due.extend((0..samples).map(|_| (*fd, leader)));
            }
        }
        due.into_iter().for_each(|(fd, leader)| self.sample(fd, leader));
    }

    /// Counts and ids of a group, its leader first, as the kernel has them.
    fn members(&self, leader: RawFd) -> Vec<(u64, u64)> {
        let is_member = |(fd, event): &(&RawFd, &SimulatedEvent)| {
            **fd == leader || event.leader == Some(leader)
        };
        let mut members: Vec<_> = self.events.iter().filter(is_member).collect();
        members.sort_by_key(|(_, event)| event.opened);
        members.into_iter().map(|(fd, event)| (event.count, *fd as u64)).collect()
    }

    /// Header, id, ip, pid and tid, time, CPU, members, and a count and an id of each.
    fn sample(&mut self, fd: RawFd, leader: RawFd) {
        let members = self.members(leader);
        let mut record = RecordBuilder::new(&mut self.sampled, kind::SAMPLE, 2);
        for word in [fd as u64, 0x4000, 1, clock_ns(1), 0, members.len() as u64] {
            record = record.u64(word);
        }
        for (count, id) in members {
            record = record.u64(count).u64(id);
        }
        record.finish();
    }
}

impl Kernel for Pmu {
    fn open(
        &self,
        attr: &Attr,
        _pid: i32,
        _cpu: i32,
        group: Option<BorrowedFd<'_>>,
        _flags: OpenFlags,
    ) -> io::Result<OwnedFd> {
        if self.lacking.contains(&attr.config) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let fd: OwnedFd = File::open("/dev/null")?.into();
        let mut state = self.state();
        state.opened += 1;
        let event = SimulatedEvent {
            opened: state.opened,
            leader: group.map(|leader| leader.as_raw_fd()),
            enabled: !attr.flags.contains(AttrFlags::DISABLED),
            period: attr.sample,
            passed: 0,
            count: 0,
            dead: false,
        };
        if group.is_none() {
            // The number was that of a leader before, which was closed together with its group.
            state.events.retain(|_, event| event.leader != Some(fd.as_raw_fd()));
        }
        state.events.insert(fd.as_raw_fd(), event);
        Ok(fd)
    }

    fn event_id(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(event.as_raw_fd() as u64)
    }

    fn redirect(&self, _event: BorrowedFd<'_>, _owner: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn enable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.set_all(event, |event| event.enabled = true)
    }

    fn disable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.set_all(event, |event| event.enabled = false)
    }

    fn enable_alone(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.set(event, |event| event.enabled = true)
    }

    fn disable_alone(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        self.set(event, |event| event.enabled = false)
    }

    fn set_period(&self, event: BorrowedFd<'_>, period: u64) -> io::Result<()> {
        self.set(event, |event| (event.period, event.passed) = (period, 0))
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> io::Result<usize> {
        let leader = event.as_raw_fd();
        self.call(|state| {
            let members = state.members(leader);
            let count = members.len();
            if self.counters.is_some_and(|counters| count > counters) {
                return Ok(0);
            }
            if words.len() == 1 {
                words[0] = state.events.get(&leader).ok_or_else(bad_fd)?.count;
                return Ok(1);
            }
            words[0] = count as u64;
            for (pair, (count, id)) in words[1..].chunks_exact_mut(2).zip(members) {
                pair.copy_from_slice(&[count, id]);
            }
            Ok(1 + 2 * count)
        })
    }

    fn map(&self, event: BorrowedFd<'_>, bytes: usize, writable: bool) -> io::Result<RingMemory> {
        self.rings.map(event, bytes, writable)
    }
}
