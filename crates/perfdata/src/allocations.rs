//! Allocations in a recording: calls of allocator functions, and what they returned.
//!
//! Two events with a name of their own, uprobes each: [`CALL`] where an allocator function begins, [`RETURN`] where one
//! returns, with the callchain of its caller. Every sample has RAW data, as trace events have them:
//!
//! ```text
//!  CALL     u16 type │ u8 flags │ u8 preempt │ i32 pid │ u64 ip │ u64 function │ u64 arguments[3] │ u64 sp
//!  RETURN   u16 type │ u8 flags │ u8 preempt │ i32 pid │ u64 function │ u64 return ip │ u64 value │ u64 sp
//! ```
//!
//! `sp` is the stack pointer: a thread's call and return belong together if the caller has the same stack pointer
//! before and after ([`HeapCall::caller_sp`]).

use pmuscope_abi::SampleType;

use crate::reader::{Endian, Event};

/// Name of the event of calls.
pub const CALL: &str = "alloc:call";
/// Name of the event of returns.
pub const RETURN: &str = "alloc:return";

/// Bytes before the fields that are declared, by the kernel's `struct uprobe_trace_entry_head`.
const CALL_HEAD: usize = 16;
const RETURN_HEAD: usize = 24;

/// What a function of an allocator does. Numbers are those of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeapFunction {
    /// `free(address)`.
    Free = 0,
    /// `malloc(size)`.
    Malloc = 1,
    /// `calloc(number, size)`.
    Calloc = 2,
    /// `realloc(address, size)`.
    Realloc = 3,
    /// `aligned_alloc(alignment, size)`.
    AlignedAlloc = 4,
    /// `posix_memalign(&address, alignment, size)`: it returns 0.
    PosixMemalign = 5,
    /// `reallocarray(address, number, size)`.
    ReallocArray = 6,
}

impl HeapFunction {
    /// Names of functions, and what they do. Those of C++ are where an allocator replaces them; elsewhere they call
    /// `malloc`.
    pub const NAMES: [(&'static str, Self); 26] = [
        ("malloc", Self::Malloc),
        ("free", Self::Free),
        ("calloc", Self::Calloc),
        ("realloc", Self::Realloc),
        ("aligned_alloc", Self::AlignedAlloc),
        ("memalign", Self::AlignedAlloc),
        ("posix_memalign", Self::PosixMemalign),
        ("reallocarray", Self::ReallocArray),
        ("valloc", Self::Malloc),
        ("pvalloc", Self::Malloc),
        ("free_sized", Self::Free),
        ("free_aligned_sized", Self::Free),
        ("_Znwm", Self::Malloc),
        ("_Znam", Self::Malloc),
        ("_ZnwmRKSt9nothrow_t", Self::Malloc),
        ("_ZnamRKSt9nothrow_t", Self::Malloc),
        ("_ZnwmSt11align_val_t", Self::Malloc),
        ("_ZnamSt11align_val_t", Self::Malloc),
        ("_ZdlPv", Self::Free),
        ("_ZdaPv", Self::Free),
        ("_ZdlPvm", Self::Free),
        ("_ZdaPvm", Self::Free),
        ("_ZdlPvSt11align_val_t", Self::Free),
        ("_ZdaPvSt11align_val_t", Self::Free),
        ("_ZdlPvmSt11align_val_t", Self::Free),
        ("_ZdaPvmSt11align_val_t", Self::Free),
    ];

    fn of_number(number: u64) -> Option<Self> {
        use HeapFunction as Function;
        let all = [
            Function::Free,
            Function::Malloc,
            Function::Calloc,
            Function::Realloc,
            Function::AlignedAlloc,
            Function::PosixMemalign,
            Function::ReallocArray,
        ];
        all.get(usize::try_from(number).ok()?).copied()
    }
}

/// Which of the two events it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapEvent {
    /// [`CALL`].
    Call,
    /// [`RETURN`].
    Return,
}

impl HeapEvent {
    /// `None` of all other events.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        match &*event.name {
            _ if !event.attr.sample_type.contains(SampleType::RAW) => None,
            CALL => Some(Self::Call),
            RETURN => Some(Self::Return),
            _ => None,
        }
    }
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapCall {
    /// What was called.
    pub function: HeapFunction,
    /// Its first arguments.
    pub arguments: [u64; 3],
    /// Stack pointer at the function's first instruction.
    pub sp: u64,
}

impl HeapCall {
    /// From a sample's raw data; `None` if they are no such call.
    #[must_use]
    pub fn decode(raw: &[u8], endian: Endian) -> Option<Self> {
        let [function, a, b, c, sp] = words(raw, CALL_HEAD, endian)?;
        Some(Self { function: HeapFunction::of_number(function)?, arguments: [a, b, c], sp })
    }

    /// Bytes asked for; 0 of [`HeapFunction::Free`].
    #[must_use]
    pub fn size(&self) -> u64 {
        let [a, b, c] = self.arguments;
        match self.function {
            HeapFunction::Free => 0,
            HeapFunction::Malloc => a,
            HeapFunction::Calloc => a.saturating_mul(b),
            HeapFunction::Realloc | HeapFunction::AlignedAlloc => b,
            HeapFunction::PosixMemalign => c,
            HeapFunction::ReallocArray => b.saturating_mul(c),
        }
    }

    /// The address whose memory it gives back, if any.
    #[must_use]
    pub fn freed(&self) -> Option<u64> {
        let address = self.arguments[0];
        let frees = matches!(
            self.function,
            HeapFunction::Free | HeapFunction::Realloc | HeapFunction::ReallocArray
        );
        (frees && address != 0).then_some(address)
    }

    /// The caller's stack pointer, which [`HeapReturn::sp`] is. A call of x86 leaves the return address on the stack
    /// (`on_stack`), one of arm64 does not.
    #[must_use]
    pub fn caller_sp(&self, on_stack: bool) -> u64 {
        if on_stack { self.sp.wrapping_add(8) } else { self.sp }
    }
}

/// A return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapReturn {
    /// What the function returned: an address, or an error of [`HeapFunction::PosixMemalign`].
    pub value: u64,
    /// Stack pointer after the return.
    pub sp: u64,
}

impl HeapReturn {
    /// From a sample's raw data; `None` if they are too short.
    #[must_use]
    pub fn decode(raw: &[u8], endian: Endian) -> Option<Self> {
        let [value, sp] = words(raw, RETURN_HEAD, endian)?;
        Some(Self { value, sp })
    }
}

fn words<const N: usize>(raw: &[u8], from: usize, endian: Endian) -> Option<[u64; N]> {
    let mut words = [0; N];
    let (bytes, _) = raw.get(from..)?.as_chunks::<8>();
    for (word, bytes) in words.iter_mut().zip(bytes.get(..N)?) {
        *word = match endian {
            Endian::Little => u64::from_le_bytes(*bytes),
            Endian::Big => u64::from_be_bytes(*bytes),
        };
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(head: usize, words: &[u64]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        std::iter::repeat_n(0, head).chain(words).collect()
    }

    #[test]
    fn calls_say_what_is_asked_for_and_given_back() {
        let call = |number, a, b, c| {
            HeapCall::decode(&raw(16, &[number, a, b, c, 0x7000]), Endian::Little).unwrap()
        };
        let of = |call: HeapCall| (call.size(), call.freed());
        assert_eq!(of(call(0, 0x10, 1, 2)), (0, Some(0x10)));
        assert_eq!(of(call(0, 0, 1, 2)), (0, None));
        assert_eq!(of(call(1, 24, 1, 2)), (24, None));
        assert_eq!(of(call(2, 24, 10, 2)), (240, None));
        assert_eq!(of(call(2, u64::MAX, 10, 2)), (u64::MAX, None));
        assert_eq!(of(call(3, 0x10, 48, 2)), (48, Some(0x10)));
        assert_eq!(of(call(4, 64, 48, 2)), (48, None));
        assert_eq!(of(call(5, 0x7008, 64, 48)), (48, None));
        assert_eq!(of(call(6, 0x10, 4, 48)), (192, Some(0x10)));
        assert_eq!(call(1, 1, 1, 1).caller_sp(true), 0x7008);
        assert_eq!(call(1, 1, 1, 1).caller_sp(false), 0x7000);
    }

    #[test]
    fn what_is_too_short_or_unknown_is_nothing() {
        let known = raw(16, &[1, 2, 3, 4, 5]);
        assert!(HeapCall::decode(&known, Endian::Little).is_some());
        assert_eq!(HeapCall::decode(&known[..known.len() - 1], Endian::Little), None);
        assert_eq!(HeapCall::decode(&raw(16, &[7, 2, 3, 4, 5]), Endian::Little), None);
        assert_eq!(HeapCall::decode(&known, Endian::Big), None);
        let found = HeapReturn::decode(&raw(24, &[0x55, 0x7008]), Endian::Little);
        assert_eq!(found, Some(HeapReturn { value: 0x55, sp: 0x7008 }));
        assert_eq!(HeapReturn::decode(&[0; 30], Endian::Little), None);
    }

    #[test]
    fn numbers_are_those_of_the_file() {
        for (_, function) in HeapFunction::NAMES {
            assert_eq!(HeapFunction::of_number(function as u64), Some(function));
        }
    }
}
