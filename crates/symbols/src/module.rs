//! Owners of addresses.

use std::path::Path;

use crate::{BuildId, CodeOrigin, FileOrigin};

/// What addresses belong to, and what they count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module<'a> {
    /// An ELF file; addresses are offsets in the file, bytes.
    File(ModuleFile<'a>),
    /// The running kernel; addresses as recorded.
    Kernel,
    /// The kernel's page of functions for programs; addresses count from its start.
    Vdso,
    /// Code that a runtime made, described in `jit-PID.dump` or `/tmp/perf-PID.map`; addresses as
    /// recorded.
    Jit {
        /// The process.
        pid: i32,
        /// Start and copies as recorded; `None` where the recording has neither.
        origin: Option<&'a CodeOrigin>,
    },
}

/// A file that ran, as a recording identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleFile<'a> {
    /// Its path at that time.
    pub path: &'a Path,
    /// Its build ID as recorded.
    pub build_id: Option<&'a BuildId>,
    /// Inode, processes and copy as recorded; `None` where the recording has none of them.
    pub mapped: Option<&'a FileOrigin>,
}

impl<'a> Module<'a> {
    /// A file identified by path and build ID alone.
    #[must_use]
    pub fn file(path: &'a Path, build_id: Option<&'a BuildId>) -> Self {
        Self::File(ModuleFile { path, build_id, mapped: None })
    }
}
