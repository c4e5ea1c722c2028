//! Counters of what placement costs, and of where memory was taken from.

use std::path::Path;

use serde::Serialize;

use crate::read::read_bounded;
use crate::{Machine, MachineError};

/// A page or two of names and numbers, whatever the kernel.
const STATISTICS_BYTES: u64 = 1 << 20;

/// Declares a counter as a field, with the name that the kernel gives it.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)*) => {
        /// Counters of NUMA balancing, of pages moved, and of where pages were taken from. They only ever grow
        /// (but for the last six, which `vm.numa_stat=0` resets); [`NumaCounters::since`] takes the difference of
        /// two readings. `None` where this kernel, or this place, does not have the counter.
        ///
        /// Pages are base pages (`getconf PAGESIZE`); a transparent huge page counts as many as it has, unless
        /// a field says otherwise.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct NumaCounters {
            $($(#[$doc])* pub $field: Option<u64>,)*
        }

        impl NumaCounters {
            /// From lines of a name and a number; other names are passed over.
            fn parse(text: &str) -> Self {
                let mut counters = Self::default();
                for line in text.lines() {
                    let mut words = line.split_ascii_whitespace();
                    let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
                    match name {
                        $($name => counters.$field = value.parse().ok(),)*
                        _ => {}
                    }
                }
                counters
            }

            /// What was counted from `earlier` to this reading. `None` where either lacks the counter, or it
            /// went back.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                let difference = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
                Self { $($field: difference(self.$field, earlier.$field),)* }
            }

            /// Each counter with the kernel's name for it.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
                [$(($name, self.$field)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Pages whose entries were made inaccessible, so that the next use tells who uses them.
    pte_updates = "numa_pte_updates",
    /// Huge pages among them, each as one.
    huge_pte_updates = "numa_huge_pte_updates",
    /// Uses of such pages: hint faults, one for each fault, huge or not. Minor faults of a process count them too.
    hint_faults = "numa_hint_faults",
    /// Those of them where the page was on the node of the CPU that used it.
    hint_faults_local = "numa_hint_faults_local",
    /// Pages that NUMA balancing moved to the node where they were used.
    pages_migrated = "numa_pages_migrated",
    /// Pages moved, whatever for: balancing, `move_pages(2)`, compaction.
    migrate_success = "pgmigrate_success",
    /// Pages that could not be moved.
    migrate_fail = "pgmigrate_fail",
    /// Huge pages moved whole, each as one.
    thp_migration_success = "thp_migration_success",
    /// Huge pages that could not be moved.
    thp_migration_fail = "thp_migration_fail",
    /// Huge pages that had to be split to be moved.
    thp_migration_split = "thp_migration_split",
    /// Pages moved up to a faster memory tier.
    promote_success = "pgpromote_success",
    /// Pages that were hot enough to be moved up.
    promote_candidate = "pgpromote_candidate",
    /// Pages that were moved up without a check of how hot they are, as the faster tier had room (Linux 7.2).
    promote_candidate_nrl = "pgpromote_candidate_nrl",
    /// Pages moved down to a slower tier by reclaim in the background.
    demote_kswapd = "pgdemote_kswapd",
    /// Pages moved down by a task that needed memory.
    demote_direct = "pgdemote_direct",
    /// Pages moved down while huge pages were made (Linux 6.4).
    demote_khugepaged = "pgdemote_khugepaged",
    /// Pages moved down because a cgroup's owner asked for it (Linux 6.16).
    demote_proactive = "pgdemote_proactive",
    /// Pages taken from the node that was asked for.
    hit = "numa_hit",
    /// Pages taken from a node because the one asked for was short of memory.
    miss = "numa_miss",
    /// Pages asked for on a node and taken elsewhere.
    foreign = "numa_foreign",
    /// Pages taken from the node that interleaving asked for.
    interleave = "numa_interleave",
    /// Pages taken from the node of the CPU that asked.
    local = "numa_local",
    /// Pages taken from another node than that of the CPU that asked.
    other = "numa_other",
}

impl NumaCounters {
    /// Share of hint faults, 0 to 1, whose page was on the node that used it. `None` without any.
    pub fn local_share(&self) -> Option<f64> {
        share(self.hint_faults_local?, self.hint_faults?)
    }

    /// Pages that were to be moved up, with or without a check of how hot they are. `None` where neither is counted.
    pub fn promotion_candidates(&self) -> Option<u64> {
        let counts = [self.promote_candidate, self.promote_candidate_nrl];
        counts.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Share of pages, 0 to 1, taken from the node of the CPU that asked. `None` without any.
    pub fn allocated_locally(&self) -> Option<f64> {
        share(self.local?, self.local?.saturating_add(self.other?))
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Machine {
    /// Counters of the whole machine since it started: `/proc/vmstat`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn numa_counters(&self) -> Result<NumaCounters, MachineError> {
        let text = self.bytes("proc/vmstat", STATISTICS_BYTES)?;
        Ok(NumaCounters::parse(&String::from_utf8_lossy(&text)))
    }

    /// Counters of one node, of which the kernel keeps fewer: `/sys/devices/system/node/nodeN/vmstat`.
    ///
    /// # Errors
    /// If it cannot be read, as without NUMA in the kernel.
    pub fn node_counters(&self, node: u32) -> Result<NumaCounters, MachineError> {
        let file = format!("sys/devices/system/node/node{node}/vmstat");
        let text = self.bytes(file, STATISTICS_BYTES)?;
        Ok(NumaCounters::parse(&String::from_utf8_lossy(&text)))
    }
}

impl NumaCounters {
    /// Counters of a cgroup and those below it: `memory.stat` in its folder. Linux 6.12 keeps some of them there
    /// (no local hint faults).
    ///
    /// # Errors
    /// If it cannot be read, as where the memory controller is not switched on.
    pub fn of_cgroup(folder: &Path) -> Result<Self, MachineError> {
        let path = folder.join("memory.stat");
        match read_bounded(&path, STATISTICS_BYTES) {
            Ok(Some(text)) => Ok(Self::parse(&String::from_utf8_lossy(&text))),
            Ok(None) => Err(MachineError::TooLong { path, limit: STATISTICS_BYTES }),
            Err(source) => Err(MachineError::Read { path, source }),
        }
    }
}
