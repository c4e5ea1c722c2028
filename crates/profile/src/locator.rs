//! Threads and addresses of samples that are listed one by one, as numbers of what is shown of them.
//!
//! A listing meets hundreds of thousands of addresses, and most of its time would be misses of the CPU's caches. So a
//! place is one entry of one table, which holds the caller's number for it:
//!
//! ```text
//!  address ── mapping (small table of the last ones) ── module, offset ── table ── number of the text
//! ```

use std::borrow::Cow;

use pmuscope_perfdata::reader::CpuMode;

use crate::address_spaces::{AddressSpaces, ModuleOffset};
use crate::table::{Interned, mix};
use crate::timeline::finder::{Finder, effective, view_of};
use crate::timeline::lookup::{Current, Holds, Lookup, Region, TaskAt};
use crate::timeline::modules::{ModuleId, Modules};
use crate::timeline::spaces::{NOTHING, ViewId};
use crate::timeline::tasks::{CommOf, ModuleAddress, NAMELESS};

/// Slots of the table of threads, as a power of two.
const THREAD_BITS: u32 = 8;

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

/// Finds the names of threads, and the numbers that the caller gave to places.
#[derive(Debug)]
pub struct Locator {
    threads: Vec<ThreadSlot>,
    comms: Interned<CommOf>,
    finder: Finder,
    places: PlaceTable,
    /// Places without a number.
    new: Vec<ModuleAddress>,
}

impl Default for Locator {
    fn default() -> Self {
        let thread = SampleThread { comm: 0, view: NOTHING };
        let slot = ThreadSlot { task: (0, 0), thread, holds: Holds::NEVER };
        Self {
            threads: vec![slot; 1 << THREAD_BITS],
            comms: Interned::default(),
            finder: Finder::default(),
            places: PlaceTable::default(),
            new: Vec::new(),
        }
    }
}

/// Numbers by place, with linear probing. An entry is a quarter of a cache line.
#[derive(Debug)]
struct PlaceTable {
    slots: Vec<PlaceSlot>,
    length: usize,
}

#[derive(Debug, Clone, Copy)]
struct PlaceSlot {
    address: u64,
    module: ModuleId,
    /// [`PlaceTable::FREE`] if there is no place.
    number: u32,
}

impl Default for PlaceTable {
    fn default() -> Self {
        Self { slots: vec![Self::EMPTY; 1 << 10], length: 0 }
    }
}

impl PlaceTable {
    const FREE: u32 = u32::MAX;
    const EMPTY: PlaceSlot = PlaceSlot { address: 0, module: 0, number: Self::FREE };

    /// The number of a place, to be changed; a place that is not there gets `new`.
    #[inline]
    fn number(&mut self, place: ModuleAddress, new: u32) -> &mut u32 {
        if 2 * self.length >= self.slots.len() {
            self.grow();
        }
        let at = Self::position(&self.slots, place);
        let slot = &mut self.slots[at];
        if slot.number == Self::FREE {
            let ModuleAddress { module, address } = place;
            *slot = PlaceSlot { address, module, number: new };
            self.length += 1;
        }
        &mut slot.number
    }

    #[inline]
    fn position(slots: &[PlaceSlot], place: ModuleAddress) -> usize {
        let mask = slots.len() - 1;
        let mut at = mix(place.address, place.module.into()) as usize & mask;
        loop {
            let PlaceSlot { address, module, number } = slots[at];
            if number == Self::FREE || (address, module) == (place.address, place.module) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![Self::EMPTY; 2 * self.slots.len()];
        for &slot in self.slots.iter().filter(|slot| slot.number != Self::FREE) {
            let place = ModuleAddress { module: slot.module, address: slot.address };
            let at = Self::position(&slots, place);
            slots[at] = slot;
        }
        self.slots = slots;
    }
}

impl Locator {
    /// Marks an answer that is not the caller's number: the rest is the index among [`Locator::new_places`].
    pub const NEW: u32 = 1 << 31;

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

    /// The caller's number for the place of an address that `thread` ran or accessed; if it has none yet,
    /// [`Locator::NEW`] and the index among [`Locator::new_places`].
    #[inline]
    pub fn place(
        &mut self,
        spaces: &AddressSpaces,
        thread: SampleThread,
        mode: CpuMode,
        address: u64,
    ) -> u32 {
        let place = match view_of(mode, address, thread.view) {
            Ok(view) => {
                let now = MappedNow::of(spaces.now(), thread.view, mode, address);
                self.finder.find_in(&now, (), view, address).0
            }
            Err(place) => place,
        };
        self.number_of(place)
    }

    /// The same for a place that is already known, such as one of [`AddressSpaces::unwind`].
    pub fn known_place(&mut self, place: ModuleOffset) -> u32 {
        self.number_of(ModuleAddress { module: place.module, address: place.address })
    }

    #[inline]
    fn number_of(&mut self, place: ModuleAddress) -> u32 {
        let new = Self::NEW | self.new.len() as u32;
        let number = *self.places.number(place, new);
        if number == new {
            self.new.push(place);
        }
        number
    }

    /// Places that have no number of the caller's yet, in the order in which they were met.
    pub fn new_places(&self) -> impl ExactSizeIterator<Item = ModuleOffset> + '_ {
        let offset =
            |place: &ModuleAddress| ModuleOffset { module: place.module, address: place.address };
        self.new.iter().map(offset)
    }

    /// Gives all new places the caller's numbers, less than [`Locator::NEW`] each, in the same order.
    pub fn number_places(&mut self, numbers: &[u32]) {
        for (place, &number) in self.new.drain(..).zip(numbers) {
            *self.places.number(place, number) = number;
        }
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
        let region = self.current.user(view, address, ());
        // Code by time is looked up anew each time.
        let is_by_time = region.holds == Holds::NEVER;
        if is_by_time { region } else { region.holding(self.holds()) }
    }

    fn kernel(&self, address: u64, (): ()) -> Region {
        self.current.kernel(address, ()).holding(self.holds())
    }

    fn modules(&self) -> &Modules {
        self.current.modules
    }
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

    #[test]
    fn places_keep_their_numbers_when_the_table_grows() {
        let mut locator = Locator::default();
        let place = |at: u32| ModuleOffset { module: at % 3, address: (at / 7).into() };
        let mut known = std::collections::HashMap::new();
        for at in (0..20_000).chain(0..20_000) {
            let number = locator.known_place(place(at));
            let next = known.len() as u32;
            let expected = *known.entry(place(at)).or_insert(next);
            assert!(number == expected || number == Locator::NEW, "{number} {expected}");
            let new = locator.new_places().len();
            locator.number_places(&[next][..new]);
        }
        assert_eq!(locator.places.length, known.len());
    }

    /// The answers are those of [`AddressSpaces`], also after a record that changes them.
    #[test]
    fn numbers_follow_the_records() {
        let (mut spaces, mut locator) = (AddressSpaces::default(), Locator::default());
        let mut given: Vec<ModuleOffset> = Vec::new();
        let mut check = |spaces: &AddressSpaces, locator: &mut Locator| {
            for (pid, tid) in [(7, 7), (7, 8), (9, 9), (7, 7)] {
                let thread = locator.thread(spaces, Some((pid, tid)));
                assert_eq!(locator.comm(spaces, thread.comm), spaces.comm(tid));
                for (mode, address) in [
                    (CpuMode::User, 0x1010),
                    (CpuMode::Unknown, u64::MAX - 5000),
                    (CpuMode::GuestUser, 1),
                ] {
                    let number = locator.place(spaces, thread, mode, address);
                    let place = spaces.find(mode, Some(pid), address);
                    assert_eq!(locator.known_place(place), number);
                    // Every other time a number is given.
                    if number >= Locator::NEW {
                        let index = (number - Locator::NEW) as usize;
                        assert_eq!(locator.new_places().nth(index), Some(place));
                        if tid == 8 {
                            let first = given.len() as u32;
                            given.extend(locator.new_places());
                            let numbers: Vec<u32> = (first..given.len() as u32).collect();
                            locator.number_places(&numbers);
                            assert_eq!(locator.new_places().len(), 0);
                        }
                    } else {
                        assert_eq!(given[number as usize], place);
                    }
                }
            }
        };
        check(&spaces, &mut locator);
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
        check(&spaces, &mut locator);
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
