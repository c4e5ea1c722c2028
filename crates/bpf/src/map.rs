//! Maps: memory shared between BPF programs and user space, accessed by key.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::error::BpfError;
use crate::sys;

/// `enum bpf_map_type`.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const PERCPU_ARRAY: u32 = 6;

/// A key and its value.
pub type MapEntry = (Vec<u8>, Vec<u8>);

/// A map with keys and values of fixed sizes.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Map {
    /// A hash table of at most `entries`, with all memory allocated up front.
    ///
    /// # Errors
    /// [`BpfError::Call`].
    pub fn hash(key: usize, value: usize, entries: u32) -> Result<Self, BpfError> {
        Self::create(HASH, key, value, entries)
    }

    /// An array of `entries`, keys are `u32` from 0. One with a single entry can be addressed directly
    /// ([`crate::Assembler::map_value`]).
    ///
    /// # Errors
    /// [`BpfError::Call`].
    pub fn array(value: usize, entries: u32) -> Result<Self, BpfError> {
        Self::create(ARRAY, 4, value, entries)
    }

    fn create(kind: u32, key: usize, value: usize, entries: u32) -> Result<Self, BpfError> {
        let fd = sys::create_map(kind, key as u32, value as u32, entries)?;
        Ok(Self { fd, key, value })
    }

    /// The value of `key` into `value`; whether there is one.
    ///
    /// # Errors
    /// [`BpfError::Call`].
    ///
    /// # Panics
    /// If sizes are not those of the map.
    pub fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool, BpfError> {
        assert_eq!((key.len(), value.len()), (self.key, self.value), "sizes of the map");
        there(sys::map_element(sys::LOOKUP, self.as_fd(), key, value))
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// [`BpfError::Call`], `E2BIG` where a hash table is full.
    ///
    /// # Panics
    /// If sizes are not those of the map.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        assert_eq!((key.len(), value.len()), (self.key, self.value), "sizes of the map");
        sys::map_element(sys::UPDATE, self.as_fd(), key, &mut value.to_vec())
    }

    /// All keys with their values. What a program adds meanwhile may be there or not.
    ///
    /// # Errors
    /// [`BpfError::Call`].
    pub fn entries(&self) -> Result<Vec<MapEntry>, BpfError> {
        let mut entries = Vec::new();
        let mut key: Option<Vec<u8>> = None;
        let mut value = vec![0; self.value];
        loop {
            let mut next = vec![0; self.key];
            if !there(sys::next_key(self.as_fd(), key.as_deref(), &mut next))? {
                return Ok(entries);
            }
            if self.get(&next, &mut value)? {
                entries.push((next.clone(), value.clone()));
            }
            key = Some(next);
        }
    }
}

/// A per-CPU array of one entry, as scratch space for programs. It is not read from user space: the kernel
/// would return the entries of all CPUs.
#[derive(Debug)]
pub struct PerCpuScratch(OwnedFd);

impl AsFd for PerCpuScratch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PerCpuScratch {
    /// With entries of this many bytes.
    ///
    /// # Errors
    /// [`BpfError::Call`].
    pub fn new(bytes: usize) -> Result<Self, BpfError> {
        sys::create_map(PERCPU_ARRAY, 4, bytes as u32, 1).map(Self)
    }
}

/// ENOENT is an answer.
fn there(result: Result<(), BpfError>) -> Result<bool, BpfError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if Errno::from_io_error(error.source_error()) == Some(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
