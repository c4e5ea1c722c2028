//! CPU time of the recorder: what recording costs.

use std::io;

use pmuscope_machine::child::{Usage, own_usage, thread_usage};

/// CPU time, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CpuTime {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

impl CpuTime {
    /// Of this process, io_uring's kernel workers included (they are threads of it).
    pub(crate) fn of_process() -> Self {
        Self::of(own_usage())
    }

    /// Of the calling thread.
    pub(crate) fn of_thread() -> Self {
        Self::of(thread_usage())
    }

    /// User and system.
    pub(crate) fn total(self) -> f64 {
        self.user_s + self.system_s
    }

    fn of(usage: io::Result<Usage>) -> Self {
        // The call fails only for other kinds of processes and for memory that is not ours (getrusage(2)).
        let Usage { user_s, system_s, .. } = usage.unwrap_or_default();
        Self { user_s, system_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        let before = CpuTime::of_thread();
        let end = std::time::Instant::now() + std::time::Duration::from_millis(60);
        while std::time::Instant::now() < end {}
        assert!(CpuTime::of_thread().total() > before.total());
    }
}
