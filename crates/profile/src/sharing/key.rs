//! Which cache line an address is in.
//!
//! Addresses are virtual. Memory of a file that is mapped with `MAP_SHARED` is one for all processes; any other
//! memory of a program is counted for each process: a private page is copied when it is written, and what nobody writes
//! nobody fights over. Threads of a process share all of it, the kernel's memory is one for all.
//!
//! By physical addresses, where samples have them, memory is one whatever processes call it: also what they share
//! without a file (`shmget`, `MAP_ANONYMOUS|MAP_SHARED`).

use pmuscope_perfdata::reader::CpuMode;
use rustc_hash::FxHashSet;

use crate::timeline::finder::{Finder, effective};
use crate::timeline::lookup::{Lookup, past_end_of_file};
use crate::timeline::modules::{ModuleId, ModuleKind, Modules};
use crate::timeline::spaces::ViewId;
use crate::timeline::tasks::ModuleAddress;

/// The memory that a line is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum LineSpace {
    /// The kernel's.
    Kernel,
    /// A process's.
    Process(i32),
    /// A file's that processes share.
    File(ModuleId),
    /// Whatever is there, by physical address.
    Physical,
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LineKey {
    pub(super) space: LineSpace,
    /// Its first byte: an address, virtual or physical, or an offset in a shared file.
    pub(super) first: u64,
}

/// Files with shared mappings, as modules.
#[derive(Debug, Default)]
pub(super) struct SharedFiles(FxHashSet<ModuleId>);

impl SharedFiles {
    /// Of all modules those with these paths.
    pub(super) fn new(paths: &FxHashSet<Vec<u8>>, modules: &Modules) -> Self {
        let all = modules.list().iter().zip(0..);
        let shared = all
            .filter(|(module, _)| module.kind == ModuleKind::File && paths.contains(&module.path));
        Self(shared.map(|(_, number)| number).collect())
    }
}

/// Finds lines.
#[derive(Debug)]
pub(super) struct LineFinder<'a> {
    shared: &'a SharedFiles,
    finder: Finder,
    /// Whether lines are those of physical addresses.
    is_physical: bool,
    /// Bits of an address within a line.
    within: u64,
}

impl<'a> LineFinder<'a> {
    /// Lines of `bytes` bytes, a power of two, by virtual or physical address.
    pub(super) fn new(shared: &'a SharedFiles, bytes: u32, is_physical: bool) -> Self {
        Self { shared, finder: Finder::default(), is_physical, within: u64::from(bytes) - 1 }
    }

    /// The line of data that a thread of `pid` accessed, and where in it; `None` of data without a physical address,
    /// where lines are by that.
    pub(super) fn find<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        (view, pid): (ViewId, i32),
        data: &AccessedData,
    ) -> Option<(LineKey, u32)> {
        if self.is_physical {
            let first = data.physical? & !self.within;
            return Some((
                LineKey { space: LineSpace::Physical, first },
                self.offset(data.physical?),
            ));
        }
        Some((self.find_virtual(lookup, at, (view, pid), data.address), self.offset(data.address)))
    }

    /// Whether data are in no line for they have no physical address.
    pub(super) fn lacks_address(&self, data: &AccessedData) -> bool {
        self.is_physical && data.physical.is_none()
    }

    fn offset(&self, address: u64) -> u32 {
        (address & self.within) as u32
    }

    fn find_virtual<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        (view, pid): (ViewId, i32),
        address: u64,
    ) -> LineKey {
        let key = |space, address: u64| LineKey { space, first: address & !self.within };
        // An address has no mode: a kernel reads data of programs.
        if is_of_kernel(address) {
            return key(LineSpace::Kernel, address);
        }
        if !self.shared.0.is_empty() {
            let (place, _) = self.finder.find_in(lookup, at, view, address);
            if self.shared.0.contains(&place.module) {
                return key(LineSpace::File(place.module), place.address);
            }
        }
        key(LineSpace::Process(pid), address)
    }
}

/// Where the data of an access are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AccessedData {
    /// Virtual.
    pub(super) address: u64,
    /// `None` where samples do not say it.
    pub(super) physical: Option<u64>,
    /// The process.
    pub(super) pid: i32,
}

/// Whether an address is one of the kernel's.
pub(super) fn is_of_kernel(address: u64) -> bool {
    effective(CpuMode::Unknown, address) == CpuMode::Kernel
}

/// Where data lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataSpot {
    pub(super) place: ModuleAddress,
    /// Where it would lie in the file that is mapped right before memory without a file: the kernel puts there what a
    /// program's data take beyond the file's last page (`.bss`). Whether they take that much is known to the file.
    pub(super) past_end: Option<ModuleAddress>,
}

/// Where an address of a program lies.
pub(super) fn data_spot<L: Lookup>(lookup: &L, at: L::At, view: ViewId, address: u64) -> DataSpot {
    if is_of_kernel(address) {
        return DataSpot { place: lookup.kernel(address, at).place(address), past_end: None };
    }
    let place = lookup.user(view, address, at).place(address);
    DataSpot { place, past_end: past_end_of_file(lookup, at, view, address) }
}
