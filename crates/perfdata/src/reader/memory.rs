//! What the hardware reports about a sampled memory access: where the data came from, and how long
//! it took. Fields and their numbers are those of `union perf_mem_data_src` and
//! `union perf_sample_weight` in `perf_event.h`.

use std::fmt;

/// The weight (latency) of a sampled access or instruction. What the hardware does not report is
/// `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    /// Latency of the access, or another quantity that the event reports; usually cycles.
    pub cost: u64,
    /// Latency of the whole instruction, cycles.
    pub instruction: Option<u16>,
    /// Cycles until it retired, or that an arithmetic pipe was in use.
    pub retire: Option<u16>,
}

impl Weight {
    /// `PERF_SAMPLE_WEIGHT`.
    pub(super) fn single(word: u64) -> Self {
        Self { cost: word, instruction: None, retire: None }
    }

    /// `PERF_SAMPLE_WEIGHT_STRUCT`: the kernel declares it so that the word is the same on machines
    /// of either byte order.
    pub(super) fn structured(word: u64) -> Self {
        Self {
            cost: word & u64::from(u32::MAX),
            instruction: Some((word >> 32) as u16),
            retire: Some((word >> 48) as u16),
        }
    }
}

/// Where the data of a sampled access came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DataSource(
    /// The word as recorded.
    pub u64,
);

/// Levels in `mem_lvl_num`; others have no name.
const LEVELS: [(u64, &str); 14] = [
    (1, "L1"),
    (2, "L2"),
    (3, "L3"),
    (4, "L4"),
    (5, "L2 MHB"),
    (6, "Memory-side Cache"),
    (7, "L0"),
    (8, "Uncached"),
    (9, "CXL"),
    (0xa, "I/O"),
    (0xb, "Any cache"),
    (0xc, "LFB/MAB"),
    (0xd, "RAM"),
    (0xe, "PMEM"),
];
/// Levels in `mem_lvl`, which older kernels and some machines fill instead.
const OLD_LEVELS: [&str; 11] = [
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];

/// What became of a sampled access: each load or store is one of these.
///
/// Sources: `union perf_mem_data_src` in `perf_event.h`, and what the kernel puts there for each PMU
/// (`arch/x86/events/intel/ds.c`, `arch/x86/events/amd/ibs.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessClass {
    /// A load that hit the first-level cache.
    LoadL1,
    /// A load of a line that was on its way (line fill buffer, miss address buffer).
    LoadFillBuffer,
    /// A load that hit the second-level cache.
    LoadL2,
    /// A load that hit the last-level cache.
    LoadL3,
    /// A load of a line that another core of this node had modified (HITM).
    LoadLocalHitm,
    /// A load of a line that a core of another node had modified.
    LoadRemoteHitm,
    /// A load from the cache of another core of this node, modified or not (Arm).
    LoadLocalPeer,
    /// A load from a cache of another node, modified or not (Arm).
    LoadRemotePeer,
    /// A load from a cache of another node that had not modified it.
    LoadRemoteCache,
    /// A load from memory of this node.
    LoadLocalMemory,
    /// A load from memory of another node.
    LoadRemoteMemory,
    /// A load of memory that is not cached.
    LoadUncached,
    /// A load from a device.
    LoadIo,
    /// A load of which the source was not recorded.
    LoadOther,
    /// A store that found its line in the first-level cache.
    StoreL1Hit,
    /// A store that did not.
    StoreL1Miss,
    /// A store of which that was not recorded.
    StoreOther,
}

impl AccessClass {
    /// All of them, in their order.
    pub const ALL: [Self; 17] = [
        Self::LoadL1,
        Self::LoadFillBuffer,
        Self::LoadL2,
        Self::LoadL3,
        Self::LoadLocalHitm,
        Self::LoadRemoteHitm,
        Self::LoadLocalPeer,
        Self::LoadRemotePeer,
        Self::LoadRemoteCache,
        Self::LoadLocalMemory,
        Self::LoadRemoteMemory,
        Self::LoadUncached,
        Self::LoadIo,
        Self::LoadOther,
        Self::StoreL1Hit,
        Self::StoreL1Miss,
        Self::StoreOther,
    ];

    /// Whether it stored.
    #[must_use]
    pub fn is_store(self) -> bool {
        self >= Self::StoreL1Hit
    }

    /// Whether the line came from the cache of another core that had modified it, or may have (Arm
    /// does not say).
    #[must_use]
    pub fn is_contended(self) -> bool {
        use AccessClass as Class;
        matches!(
            self,
            Class::LoadLocalHitm
                | Class::LoadRemoteHitm
                | Class::LoadLocalPeer
                | Class::LoadRemotePeer
        )
    }
}

/// Bits of `mem_lvl`.
mod level {
    pub(super) const HIT: u64 = 2;
    pub(super) const MISS: u64 = 4;
    pub(super) const L1: u64 = 8;
    pub(super) const FILL_BUFFER: u64 = 0x10;
    pub(super) const L2: u64 = 0x20;
    pub(super) const L3: u64 = 0x40;
    pub(super) const LOCAL_MEMORY: u64 = 0x80;
    pub(super) const REMOTE_MEMORY: u64 = 0x100 | 0x200;
    pub(super) const REMOTE_CACHE: u64 = 0x400 | 0x800;
    pub(super) const IO: u64 = 0x1000;
    pub(super) const UNCACHED: u64 = 0x2000;
}

/// Those of them that are on another node.
const REMOTE: u64 = 0x100 | 0x200 | 0x400 | 0x800;

impl DataSource {
    fn bits(self, at: u32, width: u32) -> u64 {
        self.0 >> at & ((1 << width) - 1)
    }

    /// Whether the instruction loaded; with [`DataSource::is_store`] an atomic one.
    #[must_use]
    pub fn is_load(self) -> bool {
        self.bits(0, 5) & 2 != 0
    }

    /// Whether the instruction stored.
    #[must_use]
    pub fn is_store(self) -> bool {
        self.bits(0, 5) & 4 != 0
    }

    /// What the instruction did, in perf's words; `None` where that was not recorded.
    #[must_use]
    pub fn operation(self) -> Option<&'static str> {
        match self.bits(0, 5) {
            op if op & 2 != 0 => Some("LOAD"),
            op if op & 4 != 0 => Some("STORE"),
            op if op & 8 != 0 => Some("PFETCH"),
            op if op & 16 != 0 => Some("EXEC"),
            _ => None,
        }
    }

    /// Whether the level had the data; `None` where that was not recorded.
    #[must_use]
    pub fn hit(self) -> Option<bool> {
        match self.bits(5, 14) {
            level if level & 2 != 0 => Some(true),
            level if level & 4 != 0 => Some(false),
            _ => None,
        }
    }

    /// Whether the data came from another node, or further away. `mem_hops` 1 is another core of the
    /// same node, whatever the older fields say.
    #[must_use]
    pub fn is_remote(self) -> bool {
        match self.bits(43, 3) {
            0 => self.bits(37, 1) == 1 || self.bits(5, 14) & REMOTE != 0,
            hops => hops > 1,
        }
    }

    /// What became of the access; `None` where it is not known that it loaded or stored. A load that
    /// stored too is a load.
    #[must_use]
    pub fn class(self) -> Option<AccessClass> {
        if self.is_load() {
            return Some(self.load_class());
        }
        let levels = self.bits(5, 14);
        self.is_store().then_some(match levels & level::L1 {
            0 => AccessClass::StoreOther,
            _ if levels & level::HIT != 0 => AccessClass::StoreL1Hit,
            _ if levels & level::MISS != 0 => AccessClass::StoreL1Miss,
            _ => AccessClass::StoreOther,
        })
    }

    fn load_class(self) -> AccessClass {
        use AccessClass as Class;
        let or_remote = |local, remote| if self.is_remote() { remote } else { local };
        if self.is_modified_elsewhere() {
            return or_remote(Class::LoadLocalHitm, Class::LoadRemoteHitm);
        }
        if self.bits(38, 2) & 2 != 0 {
            return or_remote(Class::LoadLocalPeer, Class::LoadRemotePeer);
        }
        let levels = self.bits(5, 14);
        let has = |level| levels & level != 0;
        if levels & level::MISS != 0 && levels & level::HIT == 0 {
            return Class::LoadOther;
        }
        match () {
            () if has(level::UNCACHED) => Class::LoadUncached,
            () if has(level::IO) => Class::LoadIo,
            () if has(level::REMOTE_CACHE) => or_remote(Class::LoadL3, Class::LoadRemoteCache),
            () if has(level::L1) => Class::LoadL1,
            () if has(level::FILL_BUFFER) => Class::LoadFillBuffer,
            () if has(level::L2) => Class::LoadL2,
            () if has(level::L3) => Class::LoadL3,
            () if has(level::REMOTE_MEMORY) => Class::LoadRemoteMemory,
            () if has(level::LOCAL_MEMORY) => {
                or_remote(Class::LoadLocalMemory, Class::LoadRemoteMemory)
            }
            () => self.class_by_number(),
        }
    }

    /// By `mem_lvl_num`, where the older field says nothing.
    fn class_by_number(self) -> AccessClass {
        use AccessClass as Class;
        let or_remote = |local, remote| if self.is_remote() { remote } else { local };
        match self.bits(33, 4) {
            1 | 7 => Class::LoadL1,
            2 | 5 => Class::LoadL2,
            3 | 4 | 6 => or_remote(Class::LoadL3, Class::LoadRemoteCache),
            8 => Class::LoadUncached,
            9 | 0xd | 0xe => or_remote(Class::LoadLocalMemory, Class::LoadRemoteMemory),
            0xa => Class::LoadIo,
            0xb => or_remote(Class::LoadOther, Class::LoadRemoteCache),
            0xc => Class::LoadFillBuffer,
            _ => Class::LoadOther,
        }
    }

    /// Whether the load had to wait because of the data of an earlier store (`mem_blk`).
    #[must_use]
    pub fn is_blocked_by_data(self) -> bool {
        self.bits(40, 3) & 2 != 0
    }

    /// Whether the load had to wait because of an address conflict (`mem_blk`).
    #[must_use]
    pub fn is_blocked_by_address(self) -> bool {
        self.bits(40, 3) & 4 != 0
    }

    /// The level of memory that answered; `None` where that was not recorded.
    #[must_use]
    pub fn level(self) -> Option<&'static str> {
        let number = self.bits(33, 4);
        if let Some((_, name)) = LEVELS.iter().find(|(level, _)| *level == number) {
            return Some(name);
        }
        let level = self.bits(5, 14) >> 3;
        (level != 0).then(|| OLD_LEVELS.get(level.trailing_zeros() as usize).copied()).flatten()
    }

    /// How far away the data were, where the hardware says it (`mem_hops`).
    #[must_use]
    pub fn distance(self) -> Option<&'static str> {
        Some(match self.bits(43, 3) {
            1 => "core, same node",
            2 => "node, same socket",
            3 => "socket, same board",
            4 => "board",
            _ => return None,
        })
    }

    /// What the caches of others said; `None` where that was not recorded.
    #[must_use]
    pub fn snoop(self) -> Option<&'static str> {
        if self.bits(38, 2) & 1 != 0 {
            return Some("Fwd");
        }
        if self.bits(38, 2) & 2 != 0 {
            return Some("Peer");
        }
        match self.bits(19, 5) {
            snoop if snoop & 16 != 0 => Some("HitM"),
            snoop if snoop & 8 != 0 => Some("Miss"),
            snoop if snoop & 4 != 0 => Some("Hit"),
            snoop if snoop & 2 != 0 => Some("None"),
            _ => None,
        }
    }

    /// Whether another cache had the line modified: the mark of data that CPUs share and write.
    #[must_use]
    pub fn is_modified_elsewhere(self) -> bool {
        self.bits(19, 5) & 16 != 0
    }

    /// Whether the access was locked; `None` where that was not recorded.
    #[must_use]
    pub fn locked(self) -> Option<bool> {
        match self.bits(24, 2) {
            lock if lock & 2 != 0 => Some(true),
            lock if lock & 1 != 0 => None,
            _ => Some(false),
        }
    }

    /// Whether that translation was found at [`DataSource::tlb`]; `None` where that was not recorded.
    #[must_use]
    pub fn tlb_hit(self) -> Option<bool> {
        match self.bits(26, 7) {
            tlb if tlb & 2 != 0 => Some(true),
            tlb if tlb & 4 != 0 => Some(false),
            _ => None,
        }
    }

    /// How the address was translated; `None` where that was not recorded.
    #[must_use]
    pub fn tlb(self) -> Option<&'static str> {
        let tlb = self.bits(26, 7);
        Some(match tlb {
            _ if tlb & 8 != 0 && tlb & 16 != 0 => "L1 or L2",
            _ if tlb & 8 != 0 => "L1",
            _ if tlb & 16 != 0 => "L2",
            _ if tlb & 32 != 0 => "Walker",
            _ if tlb & 64 != 0 => "Fault",
            _ => return None,
        })
    }
}

/// As perf script has it, without its padding.
impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hit = match self.hit() {
            Some(true) => " hit",
            Some(false) => " miss",
            None => "",
        };
        let lock = match self.locked() {
            Some(true) => "Yes",
            Some(false) => "No",
            None => "N/A",
        };
        let or_none = |name: Option<&'static str>| name.unwrap_or("N/A");
        let is_marked = self.bits(37, 1) == 1;
        let remote = if is_marked { "Remote " } else { "" };
        let distance = self.distance().filter(|_| is_marked);
        let distance = distance.map_or_else(String::new, |distance| format!("{distance} "));
        let block = match (self.is_blocked_by_data(), self.is_blocked_by_address()) {
            (false, false) => "N/A",
            (true, false) => "Data",
            (false, true) => "Addr",
            (true, true) => "Data Addr",
        };
        write!(
            f,
            "|OP {}|LVL {remote}{distance}{}{hit}|SNP {}|TLB {}|LCK {lock}|BLK {block}",
            or_none(self.operation()),
            or_none(self.level()),
            or_none(self.snoop()),
            or_none(self.tlb())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words put together by hand from the constants in perf_event.h.
    #[test]
    fn names_of_a_remote_hitm_and_of_a_plain_hit() {
        // LOAD, HIT | REM_CCE1, HITM, no lock, TLB hit in L1.
        let old = 2 | (2 | 0x400) << 5 | 16 << 19 | (2 | 8) << 26;
        let source = DataSource(old);
        assert_eq!(source.level(), Some("Remote Cache (1 hop)"));
        assert!(source.is_modified_elsewhere() && source.is_load() && !source.is_store());
        assert_eq!((source.snoop(), source.tlb()), (Some("HitM"), Some("L1")));
        assert_eq!(source.locked(), Some(false));

        // STORE, level number L3, remote bit, hit.
        let new = DataSource(4 | 2 << 5 | 3 << 33 | 1 << 37);
        assert_eq!((new.level(), new.hit(), new.is_remote()), (Some("L3"), Some(true), true));
        let text = "|OP STORE|LVL Remote L3 hit|SNP N/A|TLB N/A|LCK No|BLK N/A";
        assert_eq!(new.to_string(), text);
        // AMD: another core of the node, by number and distance.
        let near = DataSource(2 | (2 | 0x400) << 5 | 16 << 19 | 0xb << 33 | 1 << 37 | 1 << 43);
        assert!(near.to_string().contains("|LVL Remote core, same node Any cache hit|SNP HitM|"));
        assert_eq!(DataSource(0).level(), None);
    }

    /// Words that the kernel makes, `mem_lvl`, `mem_snoop`, `mem_lvl_num`, `mem_remote`, `mem_hops` (see
    /// [`AccessClass`]).
    #[test]
    fn a_load_is_one_class() {
        use AccessClass as Class;
        let load = |levels: u64, snoop: u64, number: u64, remote: u64, hops: u64| {
            let word = 2 | levels << 5 | snoop << 19 | number << 33 | remote << 37 | hops << 43;
            DataSource(word).class().unwrap()
        };
        let cases = [
            // Intel: L3 hit that another core had modified; the same of another socket, by `mem_lvl` and by number.
            (load(0x42, 16, 3, 0, 0), Class::LoadLocalHitm),
            (load(0x402, 16, 0xb, 1, 0), Class::LoadRemoteHitm),
            (load(2, 16, 0xb, 1, 0), Class::LoadRemoteHitm),
            (load(0x402, 4, 3, 1, 0), Class::LoadRemoteCache),
            (load(0x42, 2, 3, 0, 0), Class::LoadL3),
            (load(0x82, 4, 0xd, 0, 0), Class::LoadLocalMemory),
            (load(0x102, 2, 0xd, 1, 0), Class::LoadRemoteMemory),
            (load(2, 0, 0xe, 0, 0), Class::LoadLocalMemory),
            (load(4, 0, 3, 0, 0), Class::LoadOther),
            (load(0x12, 0, 0xc, 0, 0), Class::LoadFillBuffer),
            // AMD: another core of the same node had modified it, then one of another node.
            (load(0x402, 16, 0xb, 1, 1), Class::LoadLocalHitm),
            (load(0x802, 16, 0xb, 1, 2), Class::LoadRemoteHitm),
            (load(0x402, 1, 0xb, 1, 1), Class::LoadL3),
            (load(1, 0, 0xf, 0, 0), Class::LoadOther),
        ];
        for (at, (found, expected)) in cases.into_iter().enumerate() {
            assert_eq!(found, expected, "case {at}");
        }
        // Arm: from a peer, near and far.
        assert_eq!(DataSource(2 | 0x42 << 5 | 2 << 38).class(), Some(Class::LoadLocalPeer));
        let far = DataSource(2 | 1 << 5 | 1 << 37 | 2 << 38);
        assert_eq!(far.class(), Some(Class::LoadRemotePeer));
    }

    #[test]
    fn stores_and_what_is_no_access() {
        let store = |levels: u64| DataSource(4 | levels << 5).class();
        assert_eq!(store(2 | 8), Some(AccessClass::StoreL1Hit));
        assert_eq!(store(4 | 8), Some(AccessClass::StoreL1Miss));
        assert_eq!(
            (store(1), store(0)),
            (Some(AccessClass::StoreOther), Some(AccessClass::StoreOther))
        );
        // An atomic access loads first.
        assert_eq!(DataSource(6 | 0xa << 5).class(), Some(AccessClass::LoadL1));
        assert_eq!(
            (DataSource(0).class(), DataSource(1).class(), DataSource(8).class()),
            (None, None, None)
        );
        assert!(
            AccessClass::ALL.is_sorted()
                && AccessClass::ALL.iter().filter(|one| one.is_store()).count() == 3
        );
    }

    #[test]
    fn remote_memory_and_remote_caches_are_remote_and_local_memory_is_not() {
        let at = |level: u64| DataSource(2 | (2 | level) << 5).is_remote();
        assert!(!at(0x80)); // LOC_RAM
        for remote in [0x100, 0x200, 0x400, 0x800] {
            assert!(at(remote), "{remote:#x}");
        }
    }

    #[test]
    fn parts_of_a_structured_weight() {
        let weight = Weight::structured(7 | 8 << 32 | 9 << 48);
        assert_eq!(weight, Weight { cost: 7, instruction: Some(8), retire: Some(9) });
    }
}
