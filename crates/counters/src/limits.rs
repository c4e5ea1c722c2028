//! Descriptors and locked memory: what a recording needs, what is allowed, as arithmetic.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::CountersError;

/// Descriptors that a set of events needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceNeed {
    /// Events per thread or CPU.
    pub events: u64,
    /// Number of CPUs, or of CPUs times threads.
    pub places: u64,
    /// Descriptors in all, with those for files and readers.
    pub descriptors: u64,
}

impl ResourceNeed {
    /// Descriptors for everything else: output, pipes, epoll, readers, files of /proc.
    const OTHERS: u64 = 128;

    /// `events` opened for each of `places` CPUs or threads.
    #[must_use]
    pub fn new(events: u64, places: u64) -> Self {
        Self { events, places, descriptors: events * places + Self::OTHERS }
    }

    /// The same where events are not opened everywhere, but `opened` in all.
    #[must_use]
    pub fn opened(self, opened: u64) -> Self {
        Self { descriptors: opened + Self::OTHERS, ..self }
    }
}

impl std::fmt::Display for ResourceNeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { events, places, descriptors } = self;
        let plural = if *events == 1 { "" } else { "s" };
        write!(
            f,
            "{events} event{plural} x {places} CPUs and threads, plus {} for files and readers, \
             need {descriptors} descriptors",
            Self::OTHERS
        )
    }
}

/// Raises the soft limit of open files to what `need` requires, and the hard limit too if that is
/// allowed.
///
/// # Errors
/// [`CountersError::OpenFiles`] with the arithmetic if the limit stays too low.
pub fn raise_open_files(need: ResourceNeed) -> Result<(), CountersError> {
    let now = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= need.descriptors);
    if enough(now.current) {
        return Ok(());
    }
    let maximum = if enough(now.maximum) { now.maximum } else { Some(need.descriptors) };
    let wanted = Rlimit { current: Some(need.descriptors), maximum };
    if setrlimit(Resource::Nofile, wanted).is_ok() {
        return Ok(());
    }
    Err(CountersError::OpenFiles { need, limit: now.maximum.unwrap_or(u64::MAX) })
}

/// The memory that a user's rings may lock (`kernel/events/core.c:perf_mmap`): `perf_event_mlock_kb`
/// for each online CPU, and beyond that RLIMIT_MEMLOCK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryBudget {
    /// `kernel.perf_event_mlock_kb`, KiB per CPU.
    pub(crate) per_cpu_kib: u64,
    /// Online CPUs.
    pub(crate) cpus: u64,
    /// RLIMIT_MEMLOCK in bytes.
    pub(crate) locked_limit: u64,
    /// CAP_IPC_LOCK or paranoid -1: no limit.
    pub(crate) unlimited: bool,
    /// Bytes of memory that are free or can be freed.
    pub(crate) available: u64,
}

impl MemoryBudget {
    /// Bytes that all rings together may take.
    pub(crate) fn bytes(&self) -> u64 {
        if self.unlimited {
            return u64::MAX;
        }
        (self.per_cpu_kib * 1024).saturating_mul(self.cpus).saturating_add(self.locked_limit)
    }

    /// The largest power of two, at most `wanted` bytes, that lets `rings` rings and their control
    /// pages fit; at least one page.
    pub(crate) fn fit(&self, wanted: u64, rings: u64, page: u64) -> u64 {
        let mut size = wanted.max(page).next_power_of_two();
        // Rings are locked: what other programs need of the free memory stays theirs.
        let most = self.bytes().min(self.available / 4);
        while size > page && (size + page).saturating_mul(rings.max(1)) > most {
            size /= 2;
        }
        size
    }
}

impl std::fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.unlimited {
            return f.write_str("No limit on locked memory applies (CAP_IPC_LOCK or paranoid -1)");
        }
        let Self { per_cpu_kib, cpus, locked_limit, .. } = self;
        let limit = match locked_limit {
            &u64::MAX => "no".to_owned(),
            bytes => format!("{} KiB", bytes / 1024),
        };
        write!(
            f,
            "Limit: perf_event_mlock_kb {per_cpu_kib} KiB x {cpus} CPUs + RLIMIT_MEMLOCK {limit} \
             for all recordings of this user together"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: MemoryBudget = MemoryBudget {
        per_cpu_kib: 516,
        cpus: 2,
        locked_limit: 64 << 10,
        unlimited: false,
        available: u64::MAX,
    };

    #[test]
    fn rings_fit_into_free_memory() {
        let budget = MemoryBudget { unlimited: true, available: 64 << 20, ..BUDGET };
        assert_eq!(budget.fit(64 << 30, 2, 4096), 4 << 20);
    }

    #[test]
    fn rings_shrink_until_they_fit() {
        assert_eq!(BUDGET.fit(1 << 20, 2, 4096), 512 << 10);
        assert_eq!(BUDGET.fit(1 << 20, 9, 4096), 64 << 10);
        assert_eq!(BUDGET.fit(1 << 20, 100_000, 4096), 4096);
        assert_eq!(MemoryBudget { unlimited: true, ..BUDGET }.fit(1 << 20, 1000, 4096), 1 << 20);
    }

    #[test]
    fn the_arithmetic_is_printed() {
        let need = ResourceNeed::new(2, 512);
        assert_eq!(
            need.to_string(),
            "2 events x 512 CPUs and threads, plus 128 for files and readers, need 1152 descriptors"
        );
        assert!(ResourceNeed::new(1, 2).to_string().starts_with("1 event x 2 "));
        assert!(BUDGET.to_string().contains("516 KiB x 2 CPUs + RLIMIT_MEMLOCK 64 KiB"));
    }
}
