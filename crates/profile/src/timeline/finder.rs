//! Where addresses lie: what was mapped around the last ones, kept in small tables that stay in the
//! cache, and [`Lookup`] for what is not in them.
//!
//! Mappings are long or short. One that covers a whole chunk of address space is kept once per chunk, any
//! other where it was met:
//!
//! ```text
//!  chunks   │               │               │               │
//!  mapped       │aa│bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb│c│
//!  kept          a  b       ╰───── b ──────╯         b  c
//! ```

use pmuscope_perfdata::reader::CpuMode;
use pmuscope_perfdata::reader::scan::SampleFields;

use crate::count::chains::FIRST_MARK;
use crate::table::mix;
use crate::timeline::lookup::{Holds, Lookup, Region};
use crate::timeline::modules::{CUT, GUEST, HYPERVISOR, UNKNOWN};
use crate::timeline::spaces::{NOTHING, ViewId};
use crate::timeline::tasks::ModuleAddress;

/// Slots of the tables, as powers of two: 64 bytes each.
const LONG_BITS: u32 = 11;
const SHORT_BITS: u32 = 11;
/// Sizes of what is looked for together, bytes as powers of two.
const CHUNK_BITS: u32 = 21;
const SPOT_BITS: u32 = 14;
/// Slots of a table of addresses, as a power of two: 40 bytes each.
const ADDRESS_BITS: u32 = 13;
/// Stands for the kernel among the views.
const KERNEL_VIEW: ViewId = ViewId::MAX;

/// What is mapped nowhere, or has no address.
pub(crate) const UNKNOWN_PLACE: ModuleAddress = ModuleAddress { module: UNKNOWN, address: 0 };

#[derive(Debug, Clone, Copy)]
struct Slot {
    view: ViewId,
    region: Region,
}

impl Slot {
    #[inline]
    fn has(&self, view: ViewId, address: u64, stamp: u64) -> bool {
        let Region { first, last, holds, .. } = self.region;
        self.view == view && first <= address && address <= last && holds.at(stamp)
    }
}

/// Finds places.
#[derive(Debug)]
pub(crate) struct Finder {
    /// By chunk.
    long: Vec<Slot>,
    short: Vec<Slot>,
}

impl Default for Finder {
    fn default() -> Self {
        let slot = Slot { view: NOTHING, region: Region::NEVER };
        Self { long: vec![slot; 1 << LONG_BITS], short: vec![slot; 1 << SHORT_BITS] }
    }
}

impl Finder {
    /// The place of a sample.
    #[inline(always)] // what comes back from a call goes through memory, which stalls each sample
    pub(crate) fn find<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        hit: &SampleFields<'_>,
    ) -> ModuleAddress {
        let Some(address) = hit.ip else { return UNKNOWN_PLACE };
        match view_of(hit.mode, address, view) {
            Ok(view) => self.find_in(lookup, at, view, address).0,
            Err(place) => place,
        }
    }

    /// The place of an address in a view that [`view_of`] told, and how long it holds.
    #[inline(always)]
    pub(crate) fn find_in<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        address: u64,
    ) -> (ModuleAddress, Holds) {
        let stamp = lookup.stamp(at);
        let long = &self.long[slot(address >> CHUNK_BITS, view, LONG_BITS)];
        if long.has(view, address, stamp) {
            return (long.region.place(address), long.region.holds);
        }
        let short = &self.short[slot(address >> SPOT_BITS, view, SHORT_BITS)];
        if short.has(view, address, stamp) {
            return (short.region.place(address), short.region.holds);
        }
        self.look_up(lookup, at, view, address)
    }

    /// Asks, and keeps the answer.
    #[inline(never)]
    fn look_up<L: Lookup>(
        &mut self,
        lookup: &L,
        at: L::At,
        view: ViewId,
        address: u64,
    ) -> (ModuleAddress, Holds) {
        let region = if view == KERNEL_VIEW {
            lookup.kernel(address, at)
        } else {
            lookup.user(view, address, at)
        };
        let chunk = address >> CHUNK_BITS << CHUNK_BITS;
        let slot = if region.first <= chunk && region.last >= chunk + ((1 << CHUNK_BITS) - 1) {
            &mut self.long[slot(address >> CHUNK_BITS, view, LONG_BITS)]
        } else {
            &mut self.short[slot(address >> SPOT_BITS, view, SHORT_BITS)]
        };
        *slot = Slot { view, region };
        (region.place(address), region.holds)
    }
}

/// What addresses came to: a table of the last ones, before what is known of mappings.
#[derive(Debug)]
pub(crate) struct AddressTable<F> {
    finder: Finder,
    slots: Vec<AddressSlot<F>>,
}

/// An address, and what it came to.
#[derive(Debug, Clone, Copy)]
struct AddressSlot<F> {
    address: u64,
    view: ViewId,
    found: F,
    holds: Holds,
}

impl<F: Copy + Default> Default for AddressTable<F> {
    fn default() -> Self {
        let slot =
            AddressSlot { address: 0, view: NOTHING, found: F::default(), holds: Holds::NEVER };
        Self { finder: Finder::default(), slots: vec![slot; 1 << ADDRESS_BITS] }
    }
}

impl<F: Copy> AddressTable<F> {
    /// What `make` makes of the place of an address in a process's view, and how long it holds. It is asked
    /// again for what the table does not have any more.
    #[inline]
    pub(crate) fn find<L: Lookup>(
        &mut self,
        (lookup, at): (&L, L::At),
        view: ViewId,
        (mode, address): (CpuMode, u64),
        make: impl FnOnce(ModuleAddress) -> F,
    ) -> (F, Holds) {
        let view = match view_of(mode, address, view) {
            Ok(view) => view,
            Err(place) => return (make(place), Holds::ALWAYS),
        };
        let known = &mut self.slots[slot(address, view, ADDRESS_BITS)];
        let is_it = known.address == address && known.view == view;
        if is_it && known.holds.at(lookup.stamp(at)) {
            return (known.found, known.holds);
        }
        let (place, holds) = self.finder.find_in(lookup, at, view, address);
        let found = make(place);
        *known = AddressSlot { address, view, found, holds };
        (found, holds)
    }
}

/// The view that an address belongs to, or the place of all of its mode; [cut marks](StackFrame::cut) are places
/// themselves.
#[inline]
pub(crate) fn view_of(mode: CpuMode, address: u64, view: ViewId) -> Result<ViewId, ModuleAddress> {
    let all_of = |module| Err(ModuleAddress { module, address: 0 });
    match effective(mode, address) {
        CpuMode::Kernel if mode == CpuMode::Unknown && address >= FIRST_MARK => {
            Err(ModuleAddress { module: CUT, address: address - FIRST_MARK })
        }
        CpuMode::User | CpuMode::Unknown => Ok(view),
        CpuMode::Kernel => Ok(KERNEL_VIEW),
        CpuMode::Hypervisor => all_of(HYPERVISOR),
        CpuMode::GuestKernel | CpuMode::GuestUser => all_of(GUEST),
    }
}

/// The upper half belongs to the kernel on all 64-bit machines.
pub(crate) fn effective(mode: CpuMode, address: u64) -> CpuMode {
    match mode {
        CpuMode::Unknown if address >> 63 == 1 => CpuMode::Kernel,
        CpuMode::Unknown => CpuMode::User,
        mode => mode,
    }
}

#[inline]
fn slot(of: u64, view: ViewId, bits: u32) -> usize {
    (mix(of, view.into()) >> (64 - bits)) as usize
}
