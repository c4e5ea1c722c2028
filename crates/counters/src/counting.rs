//! Counting events: nothing is sampled, there is no ring buffer, and the counts are read.
//!
//! ```text
//!  requests          places                descriptors                   readings
//!  cycles      ─┐    CPU 0, CPU 1 …   ─┐   one per request and place     count, enabled, running
//!  instructions ┴─►  or a thread      ─┴►  members below their leader ─► of each, groups in one read
//! ```
//!
//! A descriptor of a thread counts what the thread does on any CPU, and with `inherit` what it starts;
//! its count includes children that run and those that have ended (`perf_event_read`,
//! `sync_child_event` in `kernel/events/core.c`).

use pmuscope_abi::{AttrFlags, ReadFormat};
use pmuscope_machine::{CpuSet, Machine, Topology};

use crate::error::CountersError;
use crate::kernel::Kernel;
use crate::limits::{ResourceNeed, raise_open_files};
use crate::open::{EventRequest, OpenedEvent, Opener, describe_place, offline, vanished};
use crate::scope::{Scope, ThreadOrCpu};
use crate::value::Value;

/// What one descriptor has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Index of the request.
    pub event: usize,
    /// CPU it is bound to; `None` for any.
    pub cpu: Option<u32>,
    /// Thread it observes; `None` for any.
    pub tid: Option<u32>,
    /// `None` for a pinned event that found no counter: the kernel gives it up for good.
    pub value: Option<Value>,
}

/// Open events that count.
#[derive(Debug)]
pub struct CountingSet {
    requests: Vec<EventRequest>,
    events: Vec<OpenedEvent>,
    offline: CpuSet,
}

impl CountingSet {
    /// Opens `requests` for `scope`. Threads that end and CPUs that go offline meanwhile are skipped, and
    /// so are threads and CPUs on which a request does not count (see [`EventRequest::cpus`]).
    ///
    /// # Errors
    /// [`CountersError`]; nothing stays open then. [`CountersError::Vanished`] if nothing is left.
    pub fn open(
        kernel: &dyn Kernel,
        machine: &Machine,
        topology: &Topology,
        scope: &Scope,
        requests: Vec<EventRequest>,
    ) -> Result<Self, CountersError> {
        let places = scope.counted_places();
        raise_open_files(ResourceNeed::new(requests.len() as u64, places.len() as u64))?;
        let paranoid = machine.limits().perf_event_paranoid;
        let opener = Opener { kernel, scope, requests: &requests, paranoid };
        let opened = opener.open_all(topology, &places)?;
        let offline = offline(&opened);
        let events: Vec<OpenedEvent> = opened.into_iter().flat_map(|place| place.events).collect();
        if events.is_empty() {
            return Err(CountersError::Vanished(vanished(scope)));
        }
        Ok(Self { requests, events, offline })
    }

    /// What was asked for.
    #[must_use]
    pub fn requests(&self) -> &[EventRequest] {
        &self.requests
    }

    /// CPUs of the scope that were offline when their events were to be opened: nothing is counted there.
    #[must_use]
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// How many descriptors count.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.events.len()
    }

    /// Starts all groups that were opened stopped.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn enable(&self, kernel: &dyn Kernel) -> Result<(), CountersError> {
        for opened in self.leaders() {
            if self.requests[opened.event].attr.flags.contains(AttrFlags::DISABLED) {
                kernel
                    .enable(opened.fd())
                    .map_err(|source| self.failed("ioctl(ENABLE)", opened, source))?;
            }
        }
        Ok(())
    }

    /// Stops all groups; what they have counted stays.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn disable(&self, kernel: &dyn Kernel) -> Result<(), CountersError> {
        for opened in self.leaders() {
            kernel
                .disable(opened.fd())
                .map_err(|source| self.failed("ioctl(DISABLE)", opened, source))?;
        }
        Ok(())
    }

    /// Reads every descriptor; members of a group with their leader, so that their counts are of the
    /// same moment.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn read(&self, kernel: &dyn Kernel) -> Result<Vec<Reading>, CountersError> {
        let mut readings = Vec::with_capacity(self.events.len());
        let mut group: Vec<Value> = Vec::new();
        for opened in &self.events {
            let format = self.requests[opened.event].attr.read_format;
            let value = if format.contains(ReadFormat::GROUP) {
                if opened.leads {
                    let words = self.words(kernel, opened)?;
                    group = Value::decode_group(format, &words).unwrap_or_default();
                }
                group.iter().find(|value| value.id == Some(opened.id)).copied()
            } else {
                Value::decode(format, &self.words(kernel, opened)?)
            };
            let (event, cpu, tid) = (opened.event, opened.cpu, opened.tid);
            readings.push(Reading { event, cpu, tid, value });
        }
        Ok(readings)
    }

    /// Every descriptor.
    pub(crate) fn opened(&self) -> &[OpenedEvent] {
        &self.events
    }

    /// Reads the first descriptor into words of the caller's: how many were filled.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub(crate) fn read_leader(
        &self,
        kernel: &dyn Kernel,
        words: &mut [u64],
    ) -> Result<usize, CountersError> {
        let opened = &self.events[0];
        kernel.read(opened.fd(), words).map_err(|source| self.failed("read", opened, source))
    }

    fn leaders(&self) -> impl Iterator<Item = &OpenedEvent> {
        self.events.iter().filter(|opened| opened.leads)
    }

    fn words(&self, kernel: &dyn Kernel, opened: &OpenedEvent) -> Result<Vec<u64>, CountersError> {
        // Of a group: members, enabled, running, and three words for each member.
        let mut words = vec![0; 8 + 3 * self.requests.len()];
        let filled = kernel
            .read(opened.fd(), &mut words)
            .map_err(|source| self.failed("read", opened, source))?;
        words.truncate(filled);
        Ok(words)
    }

    fn failed(
        &self,
        call: &'static str,
        opened: &OpenedEvent,
        source: std::io::Error,
    ) -> CountersError {
        let place = describe_place(ThreadOrCpu { cpu: opened.cpu, tid: opened.tid });
        let event = self.requests[opened.event].name.clone();
        CountersError::Call { call, event, place, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use crate::{Host, spawn::HeldChild};
    use pmuscope_abi::{Attr, event_type, software};

    fn request(config: u64, leader: Option<usize>, flags: AttrFlags) -> EventRequest {
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let read_format = times | ReadFormat::ID | ReadFormat::GROUP;
        let event_type = event_type::SOFTWARE;
        let attr = Attr { event_type, config, flags, read_format, ..Attr::default() };
        let name = format!("event {config}");
        EventRequest { name, attr, leader, cpus: None, any_task: false, max_precise: false }
    }

    fn open(kernel: &dyn Kernel, scope: &Scope, requests: Vec<EventRequest>) -> CountingSet {
        let machine = Machine::host();
        CountingSet::open(kernel, &machine, &machine.topology().unwrap(), scope, requests).unwrap()
    }

    #[test]
    fn a_group_of_a_command_counts_what_it_does_and_what_it_starts() {
        let script = "for i in 1 2 3 4 5; do /bin/true; done";
        let mut child = HeldChild::new(&["sh".into(), "-c".into(), script.into()]).unwrap();
        let on_exec = AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC | AttrFlags::INHERIT;
        let requests = vec![
            request(software::PAGE_FAULTS, None, on_exec),
            request(software::TASK_CLOCK, Some(0), AttrFlags::INHERIT),
        ];
        let cpus = CpuSet::from_iter([0]);
        let scope = Scope::Tasks { tids: vec![child.pid()], inherit: true, cpus };
        let set = open(&Host, &scope, requests);
        assert_eq!(set.descriptors(), 2);
        child.release().unwrap();
        child.wait().unwrap();
        let readings = set.read(&Host).unwrap();
        let [faults, clock] = [0, 1].map(|i: usize| readings[i].value.unwrap());
        // A program that is started has some dozens of faults; six were.
        assert!(faults.value > 150, "{faults:?}");
        assert!(clock.value > 0 && clock.value < 10_000_000_000, "{clock:?}");
        assert_eq!(faults.enabled_ns, clock.enabled_ns);
        assert!(faults.running_ns > Some(0) && faults.running_ns <= faults.enabled_ns);
    }

    #[test]
    fn whole_cpus_have_a_descriptor_each_and_leave_out_where_an_event_does_not_count() {
        let kernel = FakeKernel::default();
        let mut second = request(2, None, AttrFlags::DISABLED);
        second.cpus = Some(CpuSet::from_iter([1]));
        let requests = vec![request(1, None, AttrFlags::DISABLED), second];
        let set = open(&kernel, &Scope::Cpus(CpuSet::from_iter([0, 1])), requests);
        let places: Vec<(u64, i32)> =
            kernel.opened().iter().map(|call| (call.attr.config, call.cpu)).collect();
        assert_eq!(places, [(1, 0), (1, 1), (2, 1)]);
        set.enable(&kernel).unwrap();
        assert_eq!(kernel.enabled(), 3);
    }

    #[test]
    fn what_the_kernel_gave_up_is_not_read_as_nothing() {
        let kernel = FakeKernel::default();
        let requests = vec![request(1, None, AttrFlags::DISABLED)];
        let set = open(&kernel, &Scope::Cpus(CpuSet::from_iter([0])), requests);
        // One member, enabled, running, count and id; of another event.
        kernel.answer_reads(&[1, 10, 10, 5, 77]);
        assert_eq!(set.read(&kernel).unwrap()[0].value, None);
    }
}
