//! Calls and returns of allocator functions, paired by thread and stack pointer.
//!
//! ```text
//!  call    sp 0x7f08   free: the object is gone. Others wait for their return
//!  call    sp 0x7e80     one inside the other
//!  return  sp 0x7e88     of the call with 0x7e80
//!  return  sp 0x7f10     of the call with 0x7f08
//! ```
//! A call with a stack pointer as high as that of one that waits says that this one has returned: its record was lost.
//! So does a return. After a loss nothing waits: a return would be taken for that of an earlier call.

use pmuscope_perfdata::allocations::{HeapCall, HeapFunction, HeapReturn};
use rustc_hash::FxHashMap;

use super::map::{HeapMap, HeapObject};

/// Calls inside each other of a thread: allocators call themselves once or twice.
const MOST_NESTED: usize = 8;
/// Threads with calls that wait.
const MOST_THREADS: usize = 1 << 16;

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Pending {
    call: HeapCall,
    /// What a reallocation gives back, unless it fails.
    taken: Option<HeapObject>,
}

/// An allocation that has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allocated {
    pub(super) address: u64,
    pub(super) size: u64,
}

/// Calls of all threads.
#[derive(Debug)]
pub(super) struct PendingCalls {
    threads: FxHashMap<i32, Vec<Pending>>,
    /// Calls leave the return address on the stack.
    return_on_stack: bool,
    /// Returns without their call: allocations of a size that is not known.
    pub(super) unpaired: u64,
}

impl PendingCalls {
    pub(super) fn new(return_on_stack: bool) -> Self {
        Self { threads: FxHashMap::default(), return_on_stack, unpaired: 0 }
    }

    /// A thread of a process calls.
    pub(super) fn called(&mut self, (pid, tid): (i32, i32), call: HeapCall, map: &mut HeapMap) {
        let taken = call.freed().and_then(|address| map.freed(pid, address));
        if call.function == HeapFunction::Free {
            return;
        }
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&tid) {
            return;
        }
        let waiting = self.threads.entry(tid).or_default();
        waiting.retain(|one| one.call.sp > call.sp);
        if waiting.len() < MOST_NESTED {
            waiting.push(Pending { call, taken });
        }
    }

    /// A call returns: what it allocated, by `read` of the caller's memory where that has the address. What lay there is
    /// gone, also if it is not known how large the new object is.
    pub(super) fn returned(
        &mut self,
        (pid, tid): (i32, i32),
        returned: HeapReturn,
        map: &mut HeapMap,
        read: impl FnOnce(u64) -> Option<u64>,
    ) -> Option<Allocated> {
        let on_stack = self.return_on_stack;
        let pending = self.threads.get_mut(&tid).and_then(|waiting| {
            waiting.retain(|one| one.call.caller_sp(on_stack) >= returned.sp);
            let is_own = |one: &mut Pending| one.call.caller_sp(on_stack) == returned.sp;
            waiting.pop_if(is_own)
        });
        let Some(Pending { call, taken }) = pending else {
            self.unpaired += 1;
            map.clear(pid, returned.value, returned.value.saturating_add(1));
            return None;
        };
        let address = match call.function {
            HeapFunction::PosixMemalign if returned.value != 0 => 0,
            HeapFunction::PosixMemalign => match read(call.arguments[0]) {
                Some(address) => address,
                None => {
                    self.unpaired += 1;
                    return None;
                }
            },
            _ => returned.value,
        };
        if address == 0 {
            // Without bytes to give it frees; else the old ones are still there.
            if let Some(object) = taken.filter(|_| call.size() > 0) {
                map.put_back(pid, &object);
            }
            return None;
        }
        Some(Allocated { address, size: call.size() })
    }

    /// Records were lost.
    pub(super) fn lost(&mut self) {
        self.threads.clear();
    }

    /// A thread ended.
    pub(super) fn ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: (i32, i32) = (7, 8);

    struct Thread {
        calls: PendingCalls,
        map: HeapMap,
    }

    impl Thread {
        fn new() -> Self {
            Self { calls: PendingCalls::new(true), map: HeapMap::default() }
        }

        fn call(&mut self, function: HeapFunction, arguments: [u64; 3], sp: u64) {
            self.calls.called(TASK, HeapCall { function, arguments, sp }, &mut self.map);
        }

        fn returns(&mut self, value: u64, sp: u64) -> Option<(u64, u64)> {
            let one = self
                .calls
                .returned(TASK, HeapReturn { value, sp }, &mut self.map, |at| Some(at + 1))?;
            self.map.allocated(TASK.0, (one.address, one.size), (0, 0));
            Some((one.address, one.size))
        }

        fn has(&self, address: u64) -> bool {
            self.map.get(TASK.0, address).is_some()
        }
    }

    #[test]
    fn calls_inside_each_other_get_their_own_returns() {
        let mut thread = Thread::new();
        thread.call(HeapFunction::Calloc, [3, 8, 0], 0x7f08);
        thread.call(HeapFunction::Malloc, [32, 0, 0], 0x7e80);
        assert_eq!(thread.returns(0x10, 0x7e88), Some((0x10, 32)));
        assert_eq!(thread.returns(0x10, 0x7f10), Some((0x10, 24)));
        assert_eq!(thread.calls.unpaired, 0);
    }

    #[test]
    fn a_lost_return_or_call_pairs_nothing_that_is_not_a_pair() {
        let mut thread = Thread::new();
        // The return of the first is lost.
        thread.call(HeapFunction::Malloc, [16, 0, 0], 0x7e80);
        thread.call(HeapFunction::Malloc, [32, 0, 0], 0x7f00);
        assert_eq!(thread.returns(0x100, 0x7e88), None);
        assert_eq!(thread.returns(0x100, 0x7f08), Some((0x100, 32)));
        // The call is lost: what was there is gone, too.
        assert_eq!(thread.returns(0x110, 0x7f08), None);
        assert!(!thread.has(0x100));
        assert_eq!(thread.calls.unpaired, 2);
        thread.call(HeapFunction::Malloc, [16, 0, 0], 0x7e80);
        thread.calls.lost();
        assert_eq!(thread.returns(0x100, 0x7e88), None);
    }

    #[test]
    fn a_reallocation_that_fails_leaves_the_object() {
        let mut thread = Thread::new();
        thread.call(HeapFunction::Malloc, [16, 0, 0], 0x7e80);
        thread.returns(0x100, 0x7e88);
        thread.call(HeapFunction::Realloc, [0x100, 1 << 60, 0], 0x7e80);
        assert!(!thread.has(0x100));
        assert_eq!(thread.returns(0, 0x7e88), None);
        assert!(thread.has(0x100));
        thread.call(HeapFunction::Realloc, [0x100, 64, 0], 0x7e80);
        assert_eq!(thread.returns(0x200, 0x7e88), Some((0x200, 64)));
        assert!(!thread.has(0x100) && thread.has(0x23f));
        // Of no bytes it is a free.
        thread.call(HeapFunction::Realloc, [0x200, 0, 0], 0x7e80);
        assert_eq!(thread.returns(0, 0x7e88), None);
        assert!(!thread.has(0x200));
    }

    #[test]
    fn posix_memalign_leaves_the_address_in_memory() {
        let mut thread = Thread::new();
        thread.call(HeapFunction::PosixMemalign, [0x7f70, 64, 48], 0x7e80);
        assert_eq!(thread.returns(0, 0x7e88), Some((0x7f71, 48)));
        thread.call(HeapFunction::PosixMemalign, [0x7f70, 64, 48], 0x7e80);
        assert_eq!(thread.returns(12, 0x7e88), None);
        assert_eq!(thread.calls.unpaired, 0);
    }
}
