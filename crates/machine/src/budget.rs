//! How much ring memory and how many descriptors this process may have, as arithmetic.

use serde::Serialize;

use crate::{Limits, Rights, Rlimit};

/// The memory that perf rings of this user may lock (`perf_mmap` in kernel/events/core.c):
/// `per_cpu_kib` × `cpus`, and beyond that the process's RLIMIT_MEMLOCK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RingBudget {
    /// `kernel.perf_event_mlock_kb`.
    pub per_cpu_kib: Option<u64>,
    /// Online CPUs.
    pub cpus: u64,
    /// RLIMIT_MEMLOCK in bytes; `None` if unknown, `u64::MAX` without limit.
    pub memlock_bytes: Option<u64>,
    /// CAP_IPC_LOCK, or `perf_event_paranoid` -1: none of this applies.
    pub unlimited: bool,
    /// Bytes of a page; each ring has one page beside its data.
    pub page_bytes: u64,
}

impl RingBudget {
    pub(crate) fn of(limits: &Limits, rights: &Rights, cpus: usize, page_bytes: u64) -> Self {
        let capable = rights.initial_user_namespace && rights.ipc_lock;
        Self {
            per_cpu_kib: limits.perf_event_mlock_kb,
            cpus: cpus as u64,
            memlock_bytes: limits.memlock.map(|limit| limit.soft),
            unlimited: capable || limits.perf_event_paranoid.is_some_and(|level| level < 0),
            page_bytes,
        }
    }

    /// Bytes that all rings of this user together may take; `None` without limit, or if unknown.
    pub fn total_bytes(&self) -> Option<u64> {
        if self.unlimited || self.memlock_bytes == Some(Rlimit::UNLIMITED) {
            return None;
        }
        let shared = self.per_cpu_kib?.saturating_mul(1024).saturating_mul(self.cpus);
        Some(shared.saturating_add(self.memlock_bytes.unwrap_or(0)))
    }

    /// Data bytes of the largest ring that each CPU can have, a power of two of pages; `None` without
    /// limit or if unknown, 0 if not even one page fits.
    pub fn largest_ring_bytes(&self) -> Option<u64> {
        let each = self.total_bytes()? / self.cpus.max(1);
        let data = each.saturating_sub(self.page_bytes);
        if data < self.page_bytes {
            return Some(0);
        }
        Some(1 << data.ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: RingBudget = RingBudget {
        per_cpu_kib: Some(516),
        cpus: 2,
        memlock_bytes: Some(8 << 20),
        unlimited: false,
        page_bytes: 4096,
    };

    #[test]
    fn the_limit_of_the_process_adds_to_that_of_the_user() {
        assert_eq!(BUDGET.total_bytes(), Some(2 * 516 * 1024 + (8 << 20)));
        assert_eq!(BUDGET.largest_ring_bytes(), Some(4 << 20));
        let none_locked = RingBudget { memlock_bytes: Some(0), ..BUDGET };
        assert_eq!(none_locked.largest_ring_bytes(), Some(512 << 10));
        let nothing = RingBudget { per_cpu_kib: Some(0), ..none_locked };
        assert_eq!(nothing.largest_ring_bytes(), Some(0));
    }

    #[test]
    fn no_limit_is_no_number() {
        assert_eq!(RingBudget { unlimited: true, ..BUDGET }.total_bytes(), None);
        let memlock_bytes = Some(Rlimit::UNLIMITED);
        assert_eq!(RingBudget { memlock_bytes, ..BUDGET }.largest_ring_bytes(), None);
        assert_eq!(RingBudget { per_cpu_kib: None, ..BUDGET }.total_bytes(), None);
    }
}
