//! Who runs and what lies where, at the moment of the record that came last: for programs that look at
//! records one by one.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use pmuscope_perfdata::reader::{CpuMode, Event, Metadata, Record, Sample};
use pmuscope_symbols::{KernelIdentity, Module, Symbol};
use rustc_hash::FxHashMap;

use crate::count::unwinding::{End, Tables, Unwinding, Walker};
use crate::names::naming::{Resolve, look_up, objects};
use crate::table::{Interned, mix};
use crate::timeline::finder::effective;
use crate::timeline::lookup::{self, Lookup as _};
use crate::timeline::modules::{GUEST, HYPERVISOR, ModuleKind, Modules};
use crate::timeline::sideband::Sideband;
use crate::timeline::spaces::NOTHING;
use crate::timeline::tasks::{ModuleAddress, Tasks};

/// Unwinds the stacks of samples that are looked at one by one.
#[derive(Debug)]
pub struct StackWalker<'a> {
    walker: Walker<'a>,
    places: Interned<ModuleAddress>,
    numbers: Vec<u32>,
}

impl<'a> StackWalker<'a> {
    /// A walker that finds tables by `unwinding`.
    #[must_use]
    pub fn new(unwinding: Unwinding<'a>) -> Self {
        let walker = Walker::new(Arc::new(Tables::new(unwinding)), Arc::default());
        Self { walker, places: Interned::default(), numbers: Vec::new() }
    }

    /// Takes what the file has said about itself before its first sample.
    pub fn tell(&mut self, metadata: &Metadata, present: &AddressSpaces) {
        self.walker.tell(metadata, &present.state);
    }
}

/// The present moment of a recording that is read in the order of time.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    state: Sideband,
}

/// Where an address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleOffset {
    /// Number of the module, see [`AddressSpaces::module`].
    pub module: u32,
    /// Address as the module counts it, see [`pmuscope_symbols::Module`]; 0 where there can be no symbol.
    pub address: u64,
}

/// A module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleView<'a> {
    /// What it is.
    pub kind: ModuleKind,
    /// Path, or a name in brackets. Foreign text.
    pub path: &'a [u8],
}

impl AddressSpaces {
    /// Takes what a record changes. Samples change nothing.
    pub fn take(&mut self, record: &Record<'_>) {
        self.state.take(record);
    }

    /// From now on, code that processes generate is told apart by time, as far as `events` have times of the clock that
    /// jitdumps have; the time is that of [`AddressSpaces::at`]. `metadata` has the copies of jitdumps that the recorder kept.
    pub fn read_code(&mut self, events: &[Event], metadata: &Metadata) {
        self.state.read_code(events, metadata);
    }

    /// The time of what is looked up next, nanoseconds.
    pub fn at(&mut self, time: u64) {
        self.state.modules.now = time;
    }

    /// Tasks and modules as of now, for lookups.
    #[inline]
    pub(crate) fn current(&self) -> (&Tasks, &Modules) {
        (&self.state.tasks, &self.state.modules)
    }

    /// Name of a thread, now; made up from its id where it never told one. Foreign text.
    #[must_use]
    pub fn comm(&self, tid: i32) -> Cow<'_, [u8]> {
        self.state.tasks.shown(self.state.tasks.comm(tid))
    }

    /// Where an address lies, now.
    #[must_use]
    pub fn find(&self, mode: CpuMode, pid: Option<i32>, address: u64) -> ModuleOffset {
        let Sideband { tasks, modules, .. } = &self.state;
        let now = lookup::Current { tasks, modules };
        let nowhere = |module| ModuleAddress { module, address: 0 };
        let place = match effective(mode, address) {
            CpuMode::Kernel => now.kernel(address, ()).place(address),
            CpuMode::Hypervisor => nowhere(HYPERVISOR),
            CpuMode::GuestKernel | CpuMode::GuestUser => nowhere(GUEST),
            CpuMode::User | CpuMode::Unknown => {
                let view = pid.map_or(NOTHING, |pid| tasks.view(pid));
                now.user(view, address, ()).place(address)
            }
        };
        ModuleOffset { module: place.module, address: place.address }
    }

    /// See [`lookup::past_end_of_file`].
    pub(crate) fn past_end_of_file(&self, pid: i32, address: u64) -> Option<ModuleOffset> {
        let Sideband { tasks, modules, .. } = &self.state;
        let now = lookup::Current { tasks, modules };
        let place = lookup::past_end_of_file(&now, (), tasks.view(pid), address)?;
        Some(ModuleOffset { module: place.module, address: place.address })
    }

    /// The frames of the program that a sample met, the innermost first, by the registers and the stack
    /// it carries: addresses, of callers one before the return address, and where they lie. Where
    /// callers are missing, the last spot says why. `None` if the sample carries no registers.
    #[must_use]
    pub fn unwind(
        &self,
        walker: &mut StackWalker<'_>,
        sample: &Sample<'_>,
    ) -> Option<Vec<(u64, ModuleOffset)>> {
        let details = sample.tail.with_stack()?.decode()?;
        let StackWalker { walker, places, numbers } = walker;
        numbers.clear();
        let mut frames = Vec::new();
        let place = |address| {
            let spot = self.find(CpuMode::User, sample.pid, address);
            frames.push((address, spot));
            let place = ModuleAddress { module: spot.module, address: spot.address };
            (places.intern(mix(place.address, place.module.into()), place), place)
        };
        let end = walker.walk(&details, &self.state.modules, place, numbers)?;
        if let End::Cut(cut) = end {
            let ModuleAddress { module, address } = cut.place();
            frames.push((0, ModuleOffset { module, address }));
        }
        Some(frames)
    }

    /// The module with that number.
    #[must_use]
    pub fn module(&self, number: u32) -> ModuleView<'_> {
        let module = &self.state.modules.list()[number as usize];
        ModuleView { kind: module.kind, path: &module.path }
    }

    /// Descriptions of code made at run time, as runtimes mark them by mapping them: process, path.
    pub fn jit_dumps(&self) -> impl Iterator<Item = &(i32, PathBuf)> {
        self.state.jit_dumps.iter()
    }

    /// The variables at places, as `find` has them by module; those without one are missing.
    pub(crate) fn objects<T: Clone>(
        &self,
        spots: impl IntoIterator<Item = ModuleOffset>,
        metadata: &Metadata,
        running: &KernelIdentity,
        find: impl Fn(&Module<'_>, &[u64]) -> Vec<Option<T>>,
    ) -> FxHashMap<ModuleOffset, T> {
        let kernel = self.state.kernel_identity(metadata).compare(running);
        let spots = distinct(spots);
        let names = objects(&self.state, &self.by_module(&spots), metadata, kernel, find);
        let each = spots.into_iter().zip(names.into_iter().flatten());
        each.filter_map(|(spot, name)| Some((spot, name?))).collect()
    }

    /// Symbols of places, as [`AddressSpaces::resolve`]; those without one are missing.
    pub(crate) fn symbols(
        &self,
        spots: impl IntoIterator<Item = ModuleOffset>,
        metadata: &Metadata,
        running: &KernelIdentity,
        resolve: &mut Resolve<'_>,
    ) -> FxHashMap<ModuleOffset, Symbol> {
        let spots = distinct(spots);
        let symbols = self.resolve(&spots, metadata, running, resolve);
        let each = spots.into_iter().zip(symbols);
        each.filter_map(|(spot, symbol)| Some((spot, symbol?))).collect()
    }

    fn by_module(&self, spots: &[ModuleOffset]) -> Vec<Vec<u64>> {
        let mut addresses: Vec<Vec<u64>> = vec![Vec::new(); self.state.modules.list().len()];
        for spot in spots {
            addresses[spot.module as usize].push(spot.address);
        }
        addresses
    }

    /// Symbols of places, by `resolve` where the recording itself has none. `spots` are sorted and each
    /// is there once; `running` is the kernel that this program runs on.
    pub fn resolve(
        &self,
        spots: &[ModuleOffset],
        metadata: &Metadata,
        running: &KernelIdentity,
        resolve: &mut Resolve<'_>,
    ) -> Vec<Option<Symbol>> {
        let addresses = self.by_module(spots);
        let kernel = self.state.kernel_identity(metadata).compare(running);
        let found = look_up(&self.state, &addresses, metadata, kernel, resolve);
        let symbols = found.into_iter().flat_map(|(symbols, _)| symbols);
        symbols.map(|symbol| symbol.map(Arc::unwrap_or_clone)).collect()
    }
}

/// Each place once, in order.
fn distinct(spots: impl IntoIterator<Item = ModuleOffset>) -> Vec<ModuleOffset> {
    let mut spots: Vec<ModuleOffset> = spots.into_iter().collect();
    spots.sort_unstable();
    spots.dedup();
    spots
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::reader::{Comm, Mmap};
    use pmuscope_symbols::{Resolved, State as SymbolState};

    #[test]
    fn answers_follow_the_records() {
        let comm = |name, exec| Record::Comm(Comm { pid: 7, tid: 7, name, exec });
        let mut present = AddressSpaces::default();
        assert_eq!(&*present.comm(7), b":7");
        present.take(&comm(b"sh", false));
        assert_eq!(&*present.comm(7), b"sh");
        assert_eq!(
            present.find(CpuMode::User, Some(7), 0x1010),
            ModuleOffset { module: 0, address: 0 }
        );

        let path: &[u8] = b"/bin/sh";
        present.take(&Record::Mmap(Mmap {
            pid: 7,
            tid: 7,
            start: 0x1000,
            length: 0x1000,
            offset: 0x200,
            path,
            executable: true,
            ..Mmap::default()
        }));
        let spot = present.find(CpuMode::User, Some(7), 0x1010);
        let module = present.module(spot.module);
        assert_eq!((module.kind, module.path, spot.address), (ModuleKind::File, path, 0x210));
        let unknown = ModuleOffset { module: 0, address: 0 };
        let running = KernelIdentity::default();
        let found =
            present.resolve(&[unknown, spot], &Metadata::default(), &running, &mut |requests| {
                assert_eq!((requests.len(), requests[0].addresses), (1, &[0x210][..]));
                let symbols = vec![Some(Symbol::named("main".into()).into())];
                vec![Resolved { symbols, state: SymbolState::Found }]
            });
        assert_eq!(found, [None, Some(Symbol::named("main".into()))]);

        present.take(&comm(b"ls", true));
        assert_eq!(&*present.comm(7), b"ls");
        assert_eq!(present.find(CpuMode::User, Some(7), 0x1010), unknown);
    }

    #[test]
    fn memory_right_after_a_file_is_where_the_file_would_go_on() {
        let mut present = AddressSpaces::default();
        let map = |start, length, offset, path| {
            let mmap = Mmap { pid: 7, tid: 7, start, length, offset, path, ..Mmap::default() };
            Record::Mmap(mmap)
        };
        present.take(&map(0x3000, 0x2000, 0x2000, b"/bin/sh"));
        present.take(&map(0x5000, 0x1000, 0, b"//anon"));
        present.take(&map(0x6000, 0x1000, 0, b"[heap]"));
        present.take(&map(0x9000, 0x1000, 0, b"//anon"));
        let offset = |address| present.past_end_of_file(7, address).map(|spot| spot.address);
        assert_eq!((offset(0x5010), offset(0x6001)), (Some(0x4010), Some(0x5001)));
        assert_eq!((offset(0x4010), offset(0x7000), offset(0x9000)), (None, None, None));
        let file = present.find(CpuMode::User, Some(7), 0x3000).module;
        assert_eq!(present.past_end_of_file(7, 0x5000).map(|spot| spot.module), Some(file));
    }
}
