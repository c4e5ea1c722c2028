//! Clocks.

pub(crate) use pmuscope_machine::child::thread_cpu_ns;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds since 1970.
pub(crate) fn wall_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    in_ns(clock_gettime(clock))
}

/// Atomic time, which every kernel that has perf's clockid has.
fn tai_ns() -> u64 {
    clock_gettime_dynamic(DynamicClockId::Tai).map_or_else(|_| monotonic_ns(), in_ns)
}

fn in_ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds on the clock with this number (`CLOCK_*`); of the monotonic one for numbers that no
/// recording takes.
pub(crate) fn clock_ns(clockid: i32) -> u64 {
    nanoseconds(match clockid {
        0 => ClockId::Realtime,
        4 => ClockId::MonotonicRaw,
        7 => ClockId::Boottime,
        11 => return tai_ns(),
        _ => ClockId::Monotonic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_has_no_cpu() {
        let (cpu, wall) = (thread_cpu_ns(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (slept, passed) = (thread_cpu_ns() - cpu, monotonic_ns() - wall);
        // The call itself takes a little.
        assert!(slept < passed / 2, "{slept} of {passed} ns");
    }
}
