//! Threads and addresses of samples that are listed one by one: each distinct name and place has a number, which
//! small tables of the last ones find without a lookup.

use std::borrow::Cow;

use pmuscope_perfdata::reader::CpuMode;

use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::table::{Interned, mix};
use crate::timeline::finder::{AddressTable, effective};
use crate::timeline::lookup::{Current, Holds, Lookup, Region, TaskAt};
use crate::timeline::modules::Modules;
use crate::timeline::spaces::{NOTHING, ViewId};
use crate::timeline::tasks::{CommOf, ModuleAddress, NAMELESS};

/// Slots of the table of threads, as a power of two.
const THREAD_BITS: u32 = 8;

/// Slots of the table of addresses, as a power of two: as large as the second-level cache of most CPUs. What is not in
/// it costs some misses of all caches.
const ADDRESS_BITS: u32 = 15;

/// The thread of a sample, at the time of the sample.
#[derive(Debug, Clone, Copy)]
pub struct SampleThread {
    /// Number of its name, see [`Locator::comm`].
    pub comm: u32,
    /// What its process has mapped.
    view: ViewId,
}

#[derive(Debug, Clone, Copy)]
struct ThreadSlot {
    task: (i32, i32),
    thread: SampleThread,
    holds: Holds,
}

/// Numbers the names of threads and the places of samples, each from 0 in the order in which it is first met.
#[derive(Debug)]
pub struct Locator {
    threads: Vec<ThreadSlot>,
    addresses: AddressTable<u32>,
    comms: Interned<CommOf>,
    places: Interned<ModuleAddress>,
}

impl Default for Locator {
    fn default() -> Self {
        let thread = SampleThread { comm: 0, view: NOTHING };
        let slot = ThreadSlot { task: (0, 0), thread, holds: Holds::NEVER };
        Self {
            threads: vec![slot; 1 << THREAD_BITS],
            addresses: AddressTable::with_bits(ADDRESS_BITS),
            comms: Interned::default(),
            places: Interned::default(),
        }
    }
}

impl Locator {
    /// The thread of a sample, by process and thread id; `None` if the sample does not carry them.
    #[inline]
    pub fn thread(&mut self, spaces: &AddressSpaces, task: Option<(i32, i32)>) -> SampleThread {
        let Some(task) = task else {
            let nameless = CommOf::Recorded(NAMELESS);
            return SampleThread { comm: self.number(nameless), view: NOTHING };
        };
        let now = spaces.now();
        let at = (mix(task.1 as u64, 0) >> (64 - THREAD_BITS)) as usize;
        let slot = self.threads[at];
        if slot.task == task && slot.holds.at(now.stamp(())) {
            return slot.thread;
        }
        let found = now.task(task.0, task.1, ());
        let thread = SampleThread { comm: self.number(found.comm), view: found.view };
        self.threads[at] = ThreadSlot { task, thread, holds: found.holds };
        thread
    }

    fn number(&mut self, comm: CommOf) -> u32 {
        let hash = match comm {
            CommOf::Recorded(id) => mix(id.into(), 0),
            CommOf::Unnamed(tid) => mix(tid as u64, 1),
        };
        self.comms.intern(hash, comm)
    }

    /// Number of the place of an address that `thread` ran or accessed, see [`Locator::places`].
    #[inline]
    pub fn place(
        &mut self,
        spaces: &AddressSpaces,
        thread: SampleThread,
        mode: CpuMode,
        address: u64,
    ) -> u32 {
        let Self { addresses, places, .. } = self;
        let number = |place: ModuleAddress| places.intern(hash(place), place);
        let now = MappedNow::of(spaces.now(), thread.view, mode, address);
        addresses.find((&now, ()), thread.view, (mode, address), number).0
    }

    /// Number of a place that is already known, such as one of [`AddressSpaces::unwind`].
    pub fn place_number(&mut self, place: ModuleOffset) -> u32 {
        let place = ModuleAddress { module: place.module, address: place.address };
        self.places.intern(hash(place), place)
    }

    /// Places with the numbers from `first` on.
    pub fn places(&self, first: usize) -> impl ExactSizeIterator<Item = ModuleOffset> + '_ {
        let offset =
            |place: &ModuleAddress| ModuleOffset { module: place.module, address: place.address };
        self.places.list[first.min(self.places.list.len())..].iter().map(offset)
    }

    /// Number of names so far.
    #[must_use]
    pub fn comms(&self) -> usize {
        self.comms.list.len()
    }

    /// The name with that number, of those [`Locator::thread`] has answered; `-` where samples carry no thread.
    /// Foreign text.
    #[must_use]
    pub fn comm<'s>(&self, spaces: &'s AddressSpaces, number: u32) -> Cow<'s, [u8]> {
        spaces.now().tasks.shown(self.comms.list[number as usize])
    }
}

/// What is mapped now, in the kernel or in one process. Answers hold until that changes, whatever happens elsewhere:
/// processes that start and end would else make all answers void many times a second.
struct MappedNow<'a> {
    current: Current<'a>,
    stamp: u64,
}

impl<'a> MappedNow<'a> {
    #[inline]
    fn of(current: Current<'a>, view: ViewId, mode: CpuMode, address: u64) -> Self {
        let tasks = current.tasks;
        let stamp = match effective(mode, address) {
            CpuMode::Kernel => {
                tasks.spaces.changes(tasks.kernel) + tasks.spaces.changes(tasks.loaded)
            }
            _ => tasks.spaces.changes(view),
        };
        Self { current, stamp }
    }

    fn holds(&self) -> Holds {
        Holds { first: self.stamp, last: self.stamp }
    }
}

impl Lookup for MappedNow<'_> {
    type At = ();

    #[inline]
    fn stamp(&self, (): ()) -> u64 {
        self.stamp
    }

    fn task(&self, pid: i32, tid: i32, (): ()) -> TaskAt {
        self.current.task(pid, tid, ())
    }

    fn name(&self, comm: CommOf) -> Cow<'_, [u8]> {
        self.current.name(comm)
    }

    fn user(&self, view: ViewId, address: u64, (): ()) -> Region {
        self.current.user(view, address, ()).holding(self.holds())
    }

    fn kernel(&self, address: u64, (): ()) -> Region {
        self.current.kernel(address, ()).holding(self.holds())
    }

    fn modules(&self) -> &Modules {
        self.current.modules
    }
}

#[inline]
fn hash(place: ModuleAddress) -> u64 {
    mix(place.address, place.module.into())
}

impl AddressSpaces {
    #[inline]
    fn now(&self) -> Current<'_> {
        let (tasks, modules) = self.current();
        Current { tasks, modules }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::reader::{Comm, Mmap, Record, TaskRecord};

    fn kernel_mapping() -> Mmap<'static> {
        let path: &[u8] = b"[kernel.kallsyms]_text";
        Mmap { pid: -1, tid: 0, start: 1 << 63, path, kernel: true, ..Mmap::default() }
    }

    /// The answers are those of [`AddressSpaces`], also after a record that changes them.
    #[test]
    fn numbers_follow_the_records() {
        let (mut spaces, mut locator) = (AddressSpaces::default(), Locator::default());
        let check = |spaces: &AddressSpaces, locator: &mut Locator| {
            let mut numbers = Vec::new();
            for (pid, tid) in [(7, 7), (7, 8), (9, 9), (7, 7)] {
                let thread = locator.thread(spaces, Some((pid, tid)));
                assert_eq!(locator.comm(spaces, thread.comm), spaces.comm(pid, tid));
                for (mode, address) in [
                    (CpuMode::User, 0x1010),
                    (CpuMode::Unknown, u64::MAX - 5000),
                    (CpuMode::GuestUser, 1),
                ] {
                    let place = locator.place(spaces, thread, mode, address);
                    let found = locator.places(place as usize).next();
                    assert_eq!(found, Some(spaces.find(mode, Some(pid), address)));
                    assert_eq!(found.map(|found| locator.place_number(found)), Some(place));
                    numbers.push(place);
                }
            }
            numbers
        };
        let before = check(&spaces, &mut locator);
        assert_eq!(before[..3], [0, 1, 2]);
        for name in [&b"sh"[..], b"ls"] {
            spaces.take(&Record::Comm(Comm { pid: 7, tid: 7, name, exec: true }));
            check(&spaces, &mut locator);
        }
        spaces.take(&Record::Mmap(Mmap {
            pid: 7,
            tid: 7,
            start: 0x1000,
            length: 0x1000,
            path: b"/bin/sh",
            ..Mmap::default()
        }));
        assert_ne!(check(&spaces, &mut locator)[0], before[0]);
        let map = |pid, start, kernel| {
            let (length, path) = (0x1000, &b"[x]"[..]);
            Record::Mmap(Mmap { pid, tid: pid, start, length, path, kernel, ..Mmap::default() })
        };
        for record in [map(9, 0x1000, false), map(7, 0x1800, false), map(-1, 1 << 63, true)] {
            spaces.take(&record);
            check(&spaces, &mut locator);
        }
        spaces.take(&Record::Mmap(Mmap { length: u64::MAX, ..kernel_mapping() }));
        check(&spaces, &mut locator);
        let fork = TaskRecord { pid: 9, tid: 9, parent_pid: 7, parent_tid: 7, synthesised: false };
        for record in [Record::Exit(fork), Record::Fork(fork), map(9, 0x1000, false)] {
            spaces.take(&record);
            check(&spaces, &mut locator);
        }
        let none = locator.thread(&spaces, None);
        assert_eq!(&*locator.comm(&spaces, none.comm), b"-");
        assert_eq!(locator.comms(), locator.comms.list.len());
    }
}
