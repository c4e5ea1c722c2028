//! Heap objects that are alive, by process and address, at the moment of the record that came last.
//!
//! ```text
//!  allocated  lies over what is there: what it overlaps was freed without a record of it
//!  freed      takes the object that begins there
//!  fork       the child has what its parent had
//!  exec       has nothing
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Objects that are kept of all processes together: 100 MiB.
const MOST_LIVE: usize = 2 << 20;

/// An object on the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeapObject {
    /// Its first byte.
    pub address: u64,
    /// Bytes that were asked for.
    pub size: u64,
    /// Number of the stack that allocated it.
    pub stack: u32,
    /// Which allocation of the recording it is, from 0.
    pub allocation: u32,
    /// Whether no record was lost since it was allocated: one that was may have freed it.
    pub is_certain: bool,
}

/// An object without its address.
#[derive(Debug, Clone, Copy)]
struct LiveObject {
    size: u64,
    stack: u32,
    allocation: u32,
    /// [`HeapMap::losses`] when it was allocated.
    losses: u32,
}

impl LiveObject {
    /// One past the last byte. An object without bytes has an address of its own, too.
    fn end(&self, address: u64) -> u64 {
        address.saturating_add(self.size.max(1))
    }
}

/// Objects of a process by address, without overlaps.
type Objects = BTreeMap<u64, LiveObject>;

/// Which objects are alive.
///
/// Kept are 48 bytes for each, up to a bound; a forked process shares its parent's until either changes.
#[derive(Debug)]
pub struct HeapMap {
    processes: FxHashMap<i32, Arc<Objects>>,
    /// Objects in all maps that are not shared.
    held: usize,
    most: usize,
    left_out: u64,
    losses: u32,
}

impl Default for HeapMap {
    fn default() -> Self {
        Self::with_most(MOST_LIVE)
    }
}

impl HeapMap {
    /// A map of `most` objects.
    #[must_use]
    pub fn with_most(most: usize) -> Self {
        Self { processes: FxHashMap::default(), held: 0, most, left_out: 0, losses: 0 }
    }

    /// An allocation succeeded.
    pub fn allocated(
        &mut self,
        pid: i32,
        (address, size): (u64, u64),
        (stack, allocation): (u32, u32),
    ) {
        let new = LiveObject { size, stack, allocation, losses: self.losses };
        self.clear(pid, address, new.end(address));
        // A copy of what was shared counts first.
        if self.own(pid).is_none() || self.held >= self.most {
            self.left_out += 1;
        } else if let Some(objects) = self.own(pid) {
            objects.insert(address, new);
            self.held += 1;
        }
    }

    /// Whatever overlaps these bytes is no longer there.
    pub fn clear(&mut self, pid: i32, first: u64, end: u64) {
        let overlaps = |objects: &Objects| {
            let last = objects.range(..end.max(first.saturating_add(1))).next_back();
            last.filter(|(at, live)| live.end(**at) > first).map(|(at, _)| *at)
        };
        while let Some(at) = self.processes.get(&pid).and_then(|objects| overlaps(objects)) {
            self.freed(pid, at);
        }
    }

    /// Takes the object that begins at `address`, if it is known.
    pub fn freed(&mut self, pid: i32, address: u64) -> Option<HeapObject> {
        let live = *self.processes.get(&pid)?.get(&address)?;
        let object = self.object(address, &live);
        if let Some(objects) = self.own(pid)
            && objects.remove(&address).is_some()
        {
            self.held -= 1;
        }
        Some(object)
    }

    /// Puts back what was taken, as a reallocation that failed does.
    pub fn put_back(&mut self, pid: i32, object: &HeapObject) {
        let HeapObject { address, size, stack, allocation, is_certain } = *object;
        let before = self.losses;
        self.losses = if is_certain { before } else { before.saturating_sub(1) };
        self.allocated(pid, (address, size), (stack, allocation));
        self.losses = before;
    }

    /// A process has what its parent had.
    pub fn forked(&mut self, parent: i32, child: i32) {
        let objects = self.processes.get(&parent).cloned();
        self.ended(child);
        if let Some(objects) = objects {
            self.processes.insert(child, objects);
        }
    }

    /// A process ended, or runs another program.
    pub fn ended(&mut self, pid: i32) {
        if let Some(objects) = self.processes.remove(&pid)
            && let Some(objects) = Arc::into_inner(objects)
        {
            self.held -= objects.len();
        }
    }

    /// Records were lost: what is alive may have been freed.
    pub fn lost(&mut self) {
        self.losses = self.losses.saturating_add(1);
    }

    /// The object that has the byte at `address`.
    #[must_use]
    pub fn get(&self, pid: i32, address: u64) -> Option<HeapObject> {
        let objects = self.processes.get(&pid)?;
        let (&first, live) = objects.range(..=address).next_back()?;
        (address < live.end(first)).then(|| self.object(first, live))
    }

    /// Allocations that were not kept: there were too many objects.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn object(&self, address: u64, live: &LiveObject) -> HeapObject {
        let LiveObject { size, stack, allocation, losses } = *live;
        HeapObject { address, size, stack, allocation, is_certain: losses == self.losses }
    }

    /// The objects of a process, to be changed: a copy where they are shared, without any where that is too many.
    fn own(&mut self, pid: i32) -> Option<&mut Objects> {
        let objects = self.processes.entry(pid).or_default();
        if Arc::get_mut(objects).is_none() {
            let number = objects.len();
            if self.held.saturating_add(number) > self.most {
                self.left_out += number as u64;
                *objects = Arc::default();
            } else {
                *objects = Arc::new(Objects::clone(objects));
                self.held += number;
            }
        }
        Arc::get_mut(objects)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Allocate { pid: i32, address: u64, size: u64 },
        Free { pid: i32, address: u64 },
        Fork { parent: i32, child: i32 },
        End { pid: i32 },
        Lose,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (pid, address) = (0..4_i32, 0..64_u64);
        let step = prop_oneof![
            6 => (pid.clone(), address.clone(), 0..20_u64)
                .prop_map(|(pid, address, size)| Step::Allocate { pid, address, size }),
            4 => (pid.clone(), address).prop_map(|(pid, address)| Step::Free { pid, address }),
            1 => (pid.clone(), pid.clone()).prop_map(|(parent, child)| Step::Fork { parent, child }),
            1 => pid.prop_map(|pid| Step::End { pid }),
            1 => Just(Step::Lose),
        ];
        proptest::collection::vec(step, 0..60)
    }

    /// By process and byte: the allocation, its first byte, and whether it is certain.
    #[derive(Debug, Clone, Default)]
    struct Oracle(BTreeMap<(i32, u64), (u32, u64, bool)>);

    impl Oracle {
        fn without(&mut self, pid: i32, allocation: u32) {
            self.0.retain(|key, one| key.0 != pid || one.0 != allocation);
        }

        fn take(&mut self, number: u32, step: &Step) {
            match *step {
                Step::Allocate { pid, address, size } => {
                    for byte in address..address + size.max(1) {
                        if let Some((old, ..)) = self.0.get(&(pid, byte)).copied() {
                            self.without(pid, old);
                        }
                    }
                    let bytes = address..address + size.max(1);
                    self.0.extend(bytes.map(|byte| ((pid, byte), (number, address, true))));
                }
                Step::Free { pid, address } => {
                    if let Some((old, first, _)) = self.0.get(&(pid, address)).copied()
                        && first == address
                    {
                        self.without(pid, old);
                    }
                }
                Step::Fork { parent, child } if parent != child => {
                    let copied: Vec<_> = (self.0.iter())
                        .filter(|(key, _)| key.0 == parent)
                        .map(|(key, one)| ((child, key.1), *one))
                        .collect();
                    self.0.retain(|key, _| key.0 != child);
                    self.0.extend(copied);
                }
                Step::Fork { .. } => {}
                Step::End { pid } => self.0.retain(|key, _| key.0 != pid),
                Step::Lose => self.0.values_mut().for_each(|one| one.2 = false),
            }
        }
    }

    fn apply(map: &mut HeapMap, number: u32, step: &Step) {
        match *step {
            Step::Allocate { pid, address, size } => {
                map.allocated(pid, (address, size), (number, number));
            }
            Step::Free { pid, address } => {
                map.freed(pid, address);
            }
            Step::Fork { parent, child } if parent != child => map.forked(parent, child),
            Step::Fork { .. } => {}
            Step::End { pid } => map.ended(pid),
            Step::Lose => map.lost(),
        }
    }

    proptest! {
        #[test]
        fn each_byte_is_of_the_object_that_the_oracle_has(steps in steps()) {
            let (mut map, mut oracle) = (HeapMap::default(), Oracle::default());
            for (number, step) in (0..).zip(&steps) {
                apply(&mut map, number, step);
                oracle.take(number, step);
                for (pid, byte) in (0..4).flat_map(|pid| (0..90).map(move |byte| (pid, byte))) {
                    let found = map.get(pid, byte);
                    let found = found.map(|one| (one.allocation, one.address, one.is_certain));
                    prop_assert_eq!(found, oracle.0.get(&(pid, byte)).copied());
                }
            }
            let maps = map.processes.values().map(|objects| (Arc::as_ptr(objects), objects.len()));
            let maps: BTreeMap<_, usize> = maps.collect();
            prop_assert_eq!(map.held, maps.values().sum::<usize>());
        }

        #[test]
        fn with_a_bound_what_is_named_is_right_and_the_rest_counted(
            steps in steps(),
            most in 0..6_usize,
        ) {
            let (mut map, mut oracle) = (HeapMap::with_most(most), Oracle::default());
            let mut is_missing = false;
            for (number, step) in (0..).zip(&steps) {
                apply(&mut map, number, step);
                oracle.take(number, step);
                prop_assert!(map.held <= most);
                for (pid, byte) in (0..4).flat_map(|pid| (0..90).map(move |byte| (pid, byte))) {
                    let found = map.get(pid, byte).map(|one| one.allocation);
                    let right = oracle.0.get(&(pid, byte)).map(|one| one.0);
                    prop_assert!(found.is_none() || found == right);
                    is_missing |= found != right;
                }
            }
            prop_assert!(!is_missing || map.left_out() > 0);
        }
    }

    #[test]
    fn what_is_put_back_is_as_certain_as_before() {
        let mut map = HeapMap::default();
        map.allocated(7, (0x100, 16), (3, 5));
        let object = map.freed(7, 0x100).unwrap();
        map.put_back(7, &object);
        assert_eq!(map.get(7, 0x10f), Some(object));
        map.lost();
        let object = map.freed(7, 0x100).unwrap();
        map.put_back(7, &object);
        assert_eq!(map.get(7, 0x10f).map(|one| (one.is_certain, one.stack)), Some((false, 3)));
    }
}
