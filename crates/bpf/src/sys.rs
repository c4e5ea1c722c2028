//! `bpf(2)` and the mapped ring buffer: the unsafe part of this crate.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::error::BpfError;

/// `enum bpf_cmd`.
const MAP_CREATE: libc::c_int = 0;
/// Reads an element into the value.
pub(crate) const LOOKUP: libc::c_int = 1;
/// Sets an element.
pub(crate) const UPDATE: libc::c_int = 2;
const NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;

const PROG_TYPE_PERF_EVENT: u32 = 7;

/// The part of `union bpf_attr` for `BPF_MAP_CREATE` that is used; what is not given is 0.
#[repr(C)]
struct CreateMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

/// For `BPF_MAP_*_ELEM` and `BPF_MAP_GET_NEXT_KEY`: addresses are 8 bytes wherever.
#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value_or_next: u64,
    flags: u64,
}

/// For `BPF_PROG_LOAD`.
#[repr(C)]
struct LoadProgram {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

fn call<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is one of the structures above, whose size is told; it outlives the call, and what
    // its addresses point to is borrowed by the callers for as long.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn descriptor(result: libc::c_long) -> OwnedFd {
    // SAFETY: the command succeeded and returns a new descriptor that nobody else owns.
    unsafe { OwnedFd::from_raw_fd(result as i32) }
}

pub(crate) fn create_map(
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
) -> Result<OwnedFd, BpfError> {
    let mut attr = CreateMap { kind, key_bytes: key, value_bytes: value, entries, flags: 0 };
    let error = |source| BpfError::Call { call: "bpf(BPF_MAP_CREATE)", source };
    call(MAP_CREATE, &mut attr).map(descriptor).map_err(error)
}

/// `key` and `value` have the sizes of the map: the kernel reads and writes so many bytes.
pub(crate) fn map_element(
    command: libc::c_int,
    map: BorrowedFd<'_>,
    key: &[u8],
    value: &mut [u8],
) -> Result<(), BpfError> {
    let mut attr = Element {
        map: map.as_raw_fd() as u32,
        pad: 0,
        key: key.as_ptr().expose_provenance() as u64,
        value_or_next: value.as_mut_ptr().expose_provenance() as u64,
        flags: 0,
    };
    let name =
        if command == LOOKUP { "bpf(BPF_MAP_LOOKUP_ELEM)" } else { "bpf(BPF_MAP_UPDATE_ELEM)" };
    call(command, &mut attr).map(drop).map_err(|source| BpfError::Call { call: name, source })
}

/// The key after `key`, or the first.
pub(crate) fn next_key(
    map: BorrowedFd<'_>,
    key: Option<&[u8]>,
    next: &mut [u8],
) -> Result<(), BpfError> {
    let mut attr = Element {
        map: map.as_raw_fd() as u32,
        pad: 0,
        key: key.map_or(0, |key| key.as_ptr().expose_provenance() as u64),
        value_or_next: next.as_mut_ptr().expose_provenance() as u64,
        flags: 0,
    };
    let error = |source| BpfError::Call { call: "bpf(BPF_MAP_GET_NEXT_KEY)", source };
    call(NEXT_KEY, &mut attr).map(drop).map_err(error)
}

/// `license` ends with a 0 byte.
pub(crate) fn load_program(
    code: &[[u8; 8]],
    license: &[u8],
    log: Option<&mut Vec<u8>>,
) -> io::Result<OwnedFd> {
    let (log_level, log_bytes, log) = match log {
        Some(log) => (1, log.len() as u32, log.as_mut_ptr().expose_provenance() as u64),
        None => (0, 0, 0),
    };
    let mut attr = LoadProgram {
        kind: PROG_TYPE_PERF_EVENT,
        instructions: code.len() as u32,
        code: code.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level,
        log_bytes,
        log,
        kernel_version: 0,
        flags: 0,
    };
    call(PROG_LOAD, &mut attr).map(descriptor)
}

/// The mapped ring: the consumer's page, which we write, and what the kernel writes.
#[derive(Debug)]
pub(crate) struct RingPages {
    consumer: NonNull<u8>,
    /// The producer's page, then the records, twice.
    producer: NonNull<u8>,
    page: usize,
    data: usize,
}

// SAFETY: the mappings belong to this value alone within the process; positions and headers are accessed
// atomically, records are only read.
unsafe impl Send for RingPages {}
// SAFETY: as above.
unsafe impl Sync for RingPages {}

impl RingPages {
    pub(crate) fn map(ring: BorrowedFd<'_>, data: usize) -> Result<Self, BpfError> {
        let page = rustix::param::page_size();
        let error =
            || BpfError::Call { call: "mmap of a BPF ring", source: io::Error::last_os_error() };
        let map = |bytes: usize, access: i32, offset: usize| {
            // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    access,
                    libc::MAP_SHARED,
                    ring.as_raw_fd(),
                    offset as libc::off_t,
                )
            };
            if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast::<u8>()) }
        };
        let consumer = map(page, libc::PROT_READ | libc::PROT_WRITE, 0).ok_or_else(error)?;
        let Some(producer) = map(page + 2 * data, libc::PROT_READ, page) else {
            let error = error();
            // SAFETY: exactly the range mapped above, of which nothing is borrowed.
            unsafe { libc::munmap(consumer.as_ptr().cast(), page) };
            return Err(error);
        };
        Ok(Self { consumer, producer, page, data })
    }

    /// Bytes consumed since the start.
    pub(crate) fn consumer(&self) -> &AtomicU64 {
        // SAFETY: the first word of the consumer's page, mapped writable for as long as `self`.
        unsafe { AtomicU64::from_ptr(self.consumer.as_ptr().cast()) }
    }

    /// Bytes produced since the start. What lies before is visible after this.
    pub(crate) fn produced(&self) -> u64 {
        // SAFETY: the first word of the producer's page, mapped for as long as `self`. It is mapped for
        // reading only, where no other loads than relaxed ones are defined.
        let word = unsafe { AtomicU64::from_ptr(self.producer.as_ptr().cast()) };
        let bytes = word.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        bytes
    }

    /// The first word of the header at position `at`, a multiple of 8. The record that it says is there is
    /// visible after this.
    pub(crate) fn header(&self, at: u64) -> u32 {
        let offset = at as usize & (self.data - 1) & !7;
        // SAFETY: inside the data, which begins a page behind the producer's; else as above.
        let word =
            unsafe { AtomicU32::from_ptr(self.producer.as_ptr().add(self.page + offset).cast()) };
        let header = word.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        header
    }

    /// `bytes` of a record at position `at`. The caller has seen that it is not BUSY and has not moved
    /// the consumer's position past it.
    pub(crate) fn record(&self, at: u64, bytes: usize) -> &[u8] {
        let offset = at as usize & (self.data - 1);
        assert!(bytes <= self.data, "a record of {bytes} bytes");
        // SAFETY: `offset + bytes < 2 * data`, which is mapped: the data lie there twice. The kernel does
        // not write to a record that is committed and not consumed.
        unsafe { std::slice::from_raw_parts(self.producer.as_ptr().add(self.page + offset), bytes) }
    }
}

impl Drop for RingPages {
    fn drop(&mut self) {
        // SAFETY: exactly the ranges that `map` got; borrows of `self` are gone.
        unsafe {
            libc::munmap(self.consumer.as_ptr().cast(), self.page);
            libc::munmap(self.producer.as_ptr().cast(), self.page + 2 * self.data);
        }
    }
}
