//! A process: what it has mapped, and its memory.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use pmuscope_machine::{Machine, Mapping};

use super::ResolveError;

/// A process that is looked at.
pub(super) struct Process<'a> {
    machine: &'a Machine,
    pid: u32,
    mappings: Vec<Mapping>,
}

impl<'a> Process<'a> {
    pub(super) fn open(machine: &'a Machine, pid: u32) -> Result<Self, ResolveError> {
        let mappings = machine.mappings(pid).map_err(|error| {
            ResolveError::of_machine(pid, &format!("its mappings (/proc/{pid}/maps)"), error)
        })?;
        if mappings.is_empty() {
            return Err(ResolveError::NoMemory { pid });
        }
        Ok(Self { machine, pid, mappings })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    pub(super) fn mapping_of(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings[..after].last().filter(|mapping| address < mapping.end)
    }

    pub(super) fn has_thread(&self, tid: u32) -> bool {
        self.machine.threads(self.pid).is_ok_and(|threads| threads.contains(&tid))
    }

    /// A file of its folder in `/proc`.
    pub(super) fn folder(&self) -> PathBuf {
        self.machine.root().join(format!("proc/{}", self.pid))
    }

    /// A pointer of `bytes` bytes at `at`, of this machine's byte order; `None` where nothing can be read.
    ///
    /// # Errors
    /// [`ResolveError::Denied`] without the right.
    pub(super) fn pointer(&self, at: u64, bytes: u8) -> Result<Option<u64>, ResolveError> {
        let memory = self.memory()?;
        let (mut wide, mut narrow) = ([0; 8], [0; 4]);
        let read = match bytes {
            4 => memory.read_exact_at(&mut narrow, at).map(|()| u32::from_ne_bytes(narrow).into()),
            _ => memory.read_exact_at(&mut wide, at).map(|()| u64::from_ne_bytes(wide)),
        };
        Ok(read.ok())
    }

    /// Its memory, for reading.
    ///
    /// # Errors
    /// As [`Process::pointer`].
    pub(super) fn memory(&self) -> Result<File, ResolveError> {
        File::open(self.folder().join("mem")).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ResolveError::Gone { pid: self.pid },
            _ => {
                let what = format!("its memory (/proc/{}/mem)", self.pid);
                ResolveError::Denied { pid: self.pid, what }
            }
        })
    }
}
