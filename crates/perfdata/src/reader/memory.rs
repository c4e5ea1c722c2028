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
    "Remote core/same node Any cache hit",
    "Remote node Any cache hit",
    "I/O",
    "Uncached",
];

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

    /// Whether the data came from another socket, or further away.
    #[must_use]
    pub fn is_remote(self) -> bool {
        self.bits(37, 1) == 1 || self.bits(5, 14) & REMOTE != 0
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
        write!(
            f,
            "|OP {}|LVL {}{hit}|SNP {}|TLB {}|LCK {lock}",
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
        assert_eq!(source.level(), Some("Remote core/same node Any cache hit"));
        assert!(source.is_modified_elsewhere() && source.is_load() && !source.is_store());
        assert_eq!((source.snoop(), source.tlb()), (Some("HitM"), Some("L1")));
        assert_eq!(source.locked(), Some(false));

        // STORE, level number L3, remote bit, hit.
        let new = DataSource(4 | 2 << 5 | 3 << 33 | 1 << 37);
        assert_eq!((new.level(), new.hit(), new.is_remote()), (Some("L3"), Some(true), true));
        assert_eq!(new.to_string(), "|OP STORE|LVL L3 hit|SNP N/A|TLB N/A|LCK No");
        assert_eq!(DataSource(0).level(), None);
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
