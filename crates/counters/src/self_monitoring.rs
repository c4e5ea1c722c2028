//! Self-monitoring: events of the calling thread, counted together and read as cheaply as the
//! kernel allows.
//!
//! ```text
//!  OwnGroup::open ─► one group, pinned: all on their counters while the thread runs, or given up
//!      │
//!      └─ read ─┬─ each event has a page that allows it: no system call (`page/mod.rs`)
//!               └─ else read(2) of the whole group
//! ```
//!
//! Migration, other threads and interrupts need no special handling: the kernel counts per thread, and
//! moves the group between counters together with the thread. Nothing is inherited by what the thread
//! starts, as counts of children cannot be read in user space.

use std::io;
use std::marker::PhantomData;

use pmuscope_abi::{Attr, AttrFlags, ReadFormat, event_type};
use pmuscope_events::{Event, Origin};
use pmuscope_machine::{Machine, NoUserReads, Topology};

use crate::counting::CountingSet;
use crate::error::CountersError;
use crate::kernel::Kernel;
use crate::open::EventRequest;
use crate::page::{self, EventPage};
use crate::scope::Scope;

/// The largest number of events of a group, software events included; no PMU has more counters.
pub const MAX_OWN_EVENTS: usize = 16;

/// `attr.config1` bit of the armv8 PMU: the event may be read by the thread itself (`rdpmc` in sysfs).
const ARM_USER_ACCESS: u64 = 1 << 1;

/// Counts of a group at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnCounts {
    /// The count of each event, in their order; only differences are meaningful.
    pub counts: [u64; MAX_OWN_EVENTS],
    /// Nanoseconds enabled while the thread ran, but not on the counters. If it is the same in two
    /// readings, everything in between was counted.
    pub missed_ns: u64,
    /// Nanoseconds enabled; `None` if it would take a system call to know.
    pub enabled_ns: Option<u64>,
    /// Whether it was read without a system call.
    pub in_user_space: bool,
}

/// A group of events of the thread that opened it.
#[derive(Debug)]
pub struct OwnGroup {
    set: CountingSet,
    pages: Vec<EventPage>,
    why_not: Option<String>,
    /// Another thread's counts cannot be read in user space.
    thread: PhantomData<*const ()>,
}

impl OwnGroup {
    /// Opens `events` for the calling thread, stopped. With `in_user_space` they are read in user
    /// space if the machine allows it; [`OwnGroup::why_read`] says why it does not.
    ///
    /// # Errors
    /// [`CountersError`]; among others if the kernel found that they cannot be counted together.
    ///
    /// # Panics
    /// With no event, or more than [`MAX_OWN_EVENTS`].
    pub fn open(
        kernel: &dyn Kernel,
        machine: &Machine,
        topology: &Topology,
        events: &[Event],
        in_user_space: bool,
    ) -> Result<Self, CountersError> {
        assert!((1..=MAX_OWN_EVENTS).contains(&events.len()), "{} events", events.len());
        let forbidden = forbidden(machine, events, in_user_space);
        let open = |flagged: bool| {
            let scope =
                Scope::Threads(vec![rustix::thread::gettid().as_raw_nonzero().get() as u32]);
            let requests = events.iter().enumerate();
            let requests = requests.map(|(index, event)| request(event, index, flagged)).collect();
            CountingSet::open(kernel, machine, topology, &scope, requests)
        };
        let needs_flag = forbidden.is_none() && cfg!(target_arch = "aarch64");
        let (set, refused) = match open(needs_flag) {
            Ok(set) => (set, None),
            // A counter that the kernel would have to chain of two, for example.
            Err(error) if needs_flag => (open(false)?, Some(error.to_string())),
            Err(error) => return Err(error),
        };
        let mut group = Self { set, pages: Vec::new(), why_not: None, thread: PhantomData };
        group.why_not = match forbidden.or(refused) {
            Some(why) => Some(why),
            None => group.map(kernel).err().map(|error| {
                format!("mmap of an event's page: {}", crate::error::errno_name(&error))
            }),
        };
        Ok(group)
    }

    fn map(&mut self, kernel: &dyn Kernel) -> io::Result<()> {
        let pages: io::Result<Vec<EventPage>> =
            self.set.opened().iter().map(|opened| kernel.map_page(opened.fd())).collect();
        self.pages = pages?;
        Ok(())
    }

    /// Starts counting. A group that has lost its counters permanently may get them back this way.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn enable(&self, kernel: &dyn Kernel) -> Result<(), CountersError> {
        self.set.enable(kernel)
    }

    /// Stops counting, which frees the counters for others.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn disable(&self, kernel: &dyn Kernel) -> Result<(), CountersError> {
        self.set.disable(kernel)
    }

    /// Reads all counts; `None` if the kernel has given the group up because another program holds its
    /// counters.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    #[inline]
    pub fn read(&self, kernel: &dyn Kernel) -> Result<Option<OwnCounts>, CountersError> {
        match self.read_pages() {
            Some(counts) => Ok(Some(counts)),
            None => self.read_by_call(kernel),
        }
    }

    /// What the pages say; `None` if an event is on no counter at the moment, or none is to be read so.
    #[inline]
    fn read_pages(&self) -> Option<OwnCounts> {
        let mut counts = [0; MAX_OWN_EVENTS];
        let mut times = None;
        for (count, page) in counts.iter_mut().zip(&self.pages) {
            let seen = page::read_page(page)?;
            *count = seen.count;
            times.get_or_insert((seen.missed_ns, seen.enabled_ns));
        }
        let (missed_ns, enabled_ns) = times?;
        Some(OwnCounts { counts, missed_ns, enabled_ns, in_user_space: true })
    }

    /// One `read(2)` of the whole group.
    ///
    /// # Errors
    /// [`CountersError::Call`].
    pub fn read_by_call(&self, kernel: &dyn Kernel) -> Result<Option<OwnCounts>, CountersError> {
        let mut words = [0; 3 + 2 * MAX_OWN_EVENTS];
        let filled = self.set.read_leader(kernel, &mut words)?;
        Ok(self.decode(&words[..filled]))
    }

    /// Members come leader first and then as they were opened; their ids say so.
    fn decode(&self, words: &[u64]) -> Option<OwnCounts> {
        let [members, enabled, running, rest @ ..] = words else { return None };
        let opened = self.set.opened();
        if *members != opened.len() as u64 || rest.len() < 2 * opened.len() {
            return None;
        }
        let mut counts = [0; MAX_OWN_EVENTS];
        for pair in rest.chunks_exact(2).take(opened.len()) {
            let (value, id) = (pair[0], pair[1]);
            let member = opened.iter().find(|member| member.id == id)?;
            counts[member.event] = value;
        }
        Some(OwnCounts {
            counts,
            missed_ns: enabled.saturating_sub(*running),
            enabled_ns: Some(*enabled),
            in_user_space: false,
        })
    }

    /// Why reading counts takes a system call; `None` if they are read in user space, as far as is known
    /// before the first reading.
    #[must_use]
    pub fn why_read(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    /// Checks once whether the pages can be read as promised, while the group is on its counters. If
    /// not, all further readings use a system call.
    pub fn settle(&mut self) {
        if self.why_not.is_none() && self.read_pages().is_none() {
            self.pages.clear();
            let why = "the kernel exposes no counter for one of the events";
            self.why_not = Some(why.to_owned());
        }
    }

    /// Releases it in a forked child without touching the pages, which the kernel does not pass on to
    /// the child: other memory may be at their addresses by now.
    pub fn abandon(self) {
        self.pages.into_iter().for_each(std::mem::forget);
    }

    /// The instruction that reads counters on this kind of machine.
    #[must_use]
    pub fn instruction() -> Option<&'static str> {
        page::INSTRUCTION
    }
}

/// Why counts cannot be read in user space, as far as is known before they are opened.
fn forbidden(machine: &Machine, events: &[Event], wanted: bool) -> Option<String> {
    if !wanted {
        return Some("requested".to_owned());
    }
    if let Some(event) = events.iter().find(|event| event.origin != Origin::Hardware) {
        return Some(format!("{} is counted by the kernel", event.name));
    }
    machine.user_reads(std::env::consts::ARCH).err().map(|NoUserReads(why)| why)
}

/// Members in one group that stays on its counters or is given up.
fn request(event: &Event, index: usize, flagged: bool) -> EventRequest {
    let leads = index == 0;
    let mut attr: Attr = event.attr.clone();
    attr.read_format = ReadFormat::TOTAL_TIME_ENABLED
        | ReadFormat::TOTAL_TIME_RUNNING
        | ReadFormat::GROUP
        | ReadFormat::ID;
    attr.flags.set(AttrFlags::DISABLED | AttrFlags::PINNED, leads);
    attr.flags.set(AttrFlags::INHERIT, false);
    if flagged && attr.event_type != event_type::SOFTWARE {
        attr.config1 |= ARM_USER_ACCESS;
    }
    EventRequest {
        name: event.name.clone(),
        attr,
        leader: (!leads).then_some(0),
        cpus: None,
        any_task: false,
        max_precise: event.max_precise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use crate::fake::FakeKernel;
    use pmuscope_events::{MachineCatalog, parse};

    fn events(text: &str) -> Vec<Event> {
        let machine = Machine::host();
        let catalog = MachineCatalog::new(&machine).unwrap();
        parse(text, &catalog).unwrap().into_iter().flat_map(|group| group.events).collect()
    }

    fn open(kernel: &dyn Kernel, text: &str) -> OwnGroup {
        let machine = Machine::host();
        OwnGroup::open(kernel, &machine, &machine.topology().unwrap(), &events(text), true).unwrap()
    }

    #[test]
    fn the_kernels_events_are_read_by_call_and_it_is_said_why() {
        let group = open(&Host, "page-faults,task-clock");
        assert_eq!(group.why_read(), Some("page-faults is counted by the kernel"));
        group.enable(&Host).unwrap();
        let before = group.read(&Host).unwrap().unwrap();
        let touched = std::hint::black_box(vec![1_u8; 4 << 20]);
        let after = group.read(&Host).unwrap().unwrap();
        drop(touched);
        // Huge pages may serve them, so few faults may do.
        assert!(after.counts[0] > before.counts[0], "{before:?} {after:?}");
        assert!(after.counts[1] > before.counts[1]);
        assert_eq!((after.missed_ns, after.in_user_space), (before.missed_ns, false));
        assert!(after.enabled_ns > before.enabled_ns);
        group.disable(&Host).unwrap();
        let stopped = group.read(&Host).unwrap().unwrap().counts;
        std::hint::black_box(vec![1_u8; 4 << 20]);
        assert_eq!(group.read(&Host).unwrap().unwrap().counts, stopped);
    }

    #[test]
    fn members_are_told_by_their_ids_and_a_group_that_was_given_up_has_no_counts() {
        let kernel = FakeKernel::default();
        let group = open(&kernel, "page-faults,task-clock");
        let ids: Vec<u64> = group.set.opened().iter().map(|opened| opened.id).collect();
        kernel.answer_reads(&[2, 50, 40, 7, ids[1], 9, ids[0]]);
        let counts = group.read(&kernel).unwrap().unwrap();
        assert_eq!(counts.counts[..2], [9, 7]);
        assert_eq!((counts.missed_ns, counts.enabled_ns), (10, Some(50)));
        // The end of file comes as zeros from this kernel.
        kernel.answer_reads(&[]);
        assert_eq!(group.read(&kernel).unwrap(), None);
        kernel.answer_reads(&[2, 50, 40, 7, ids[1], 9, 4711]);
        assert_eq!(group.read(&kernel).unwrap(), None);
    }

    #[test]
    fn an_event_without_a_counter_to_read_takes_a_call_and_says_so() {
        let mut group = open(&Host, "task-clock");
        group.pages = vec![EventPage::blank().unwrap()];
        group.why_not = None;
        group.enable(&Host).unwrap();
        let counts = group.read(&Host).unwrap().unwrap();
        assert!(!counts.in_user_space && counts.counts[0] > 0, "{counts:?}");
        assert_eq!(group.why_read(), None, "it may be on a counter the next time");
        group.settle();
        assert!(group.why_read().unwrap().contains("exposes no counter"));
    }

    #[test]
    fn only_the_leader_is_pinned_and_nothing_is_inherited() {
        let kernel = FakeKernel::default();
        drop(open(&kernel, "page-faults,task-clock"));
        let opened = kernel.opened();
        assert_eq!(opened.len(), 2);
        for (index, call) in opened.iter().enumerate() {
            let flags = call.attr.flags;
            assert_eq!(flags.contains(AttrFlags::PINNED | AttrFlags::DISABLED), index == 0);
            assert!(!flags.contains(AttrFlags::INHERIT) && call.cpu == -1 && call.pid > 0);
        }
    }
}
