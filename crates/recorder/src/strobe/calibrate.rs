//! What the event that makes windows counts like, on this machine: how fast, and in which steps.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use pmuscope_abi::{Attr, AttrFlags, OpenFlags};
use pmuscope_counters::Kernel;
use pmuscope_events::Event;

use crate::error::RecorderError;

/// This thread, wherever it runs.
const SELF: i32 = 0;
const ANYWHERE: i32 = -1;
/// Counts whose common divisor is looked for: by chance all 24 are even once in 16 million times.
const COUNTS: u64 = 24;
/// Nanoseconds of CPU time of a loop that tells how fast the event counts.
const LOOP_NS: u64 = 5_000_000;

/// How an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountingMode {
    /// Counts of the event are multiples of this. 1 on hardware; an emulator that tells time by
    /// instructions counts a fixed number for each.
    pub(crate) granule: u64,
    /// Counts per second of a busy loop.
    pub(crate) per_second: u64,
}

/// Measures on this thread, for some milliseconds. `cpu_ns` is the CPU time that it has had: the event
/// counts only then, and on a busy machine others have most of the time that passes.
///
/// # Errors
/// [`RecorderError::NoWindowEvent`] if the event cannot be counted.
pub(crate) fn measure(
    kernel: &dyn Kernel,
    event: &Event,
    spin: &dyn Fn(u64),
    cpu_ns: &dyn Fn() -> u64,
) -> Result<CountingMode, RecorderError> {
    let refused = |source| RecorderError::NoWindowEvent { event: event.name.clone(), source };
    let attr = Attr {
        flags: event.attr.flags | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..event.attr.clone()
    };
    let counter: OwnedFd =
        kernel.open(&attr, SELF, ANYWHERE, None, OpenFlags::FD_CLOEXEC).map_err(refused)?;
    let read = || count(kernel, counter.as_fd()).map_err(refused);
    let mut granule = 0;
    for turns in 0..COUNTS {
        let before = read()?;
        spin(turns * turns);
        granule = gcd(granule, read()?.wrapping_sub(before));
    }
    let (started, before) = (cpu_ns(), read()?);
    let mut turns = 1000;
    while cpu_ns() - started < LOOP_NS {
        spin(turns);
        turns = (turns * 2).min(1_000_000);
    }
    let (elapsed, counted) = (cpu_ns() - started, read()?.wrapping_sub(before));
    if counted == 0 || granule == 0 {
        return Err(RecorderError::NothingCounted { event: event.name.clone() });
    }
    let per_second = (counted as f64 * 1e9 / elapsed.max(1) as f64) as u64;
    Ok(CountingMode { granule, per_second })
}

fn count(kernel: &dyn Kernel, counter: BorrowedFd<'_>) -> std::io::Result<u64> {
    let mut words = [0; 1];
    kernel.read(counter, &mut words)?;
    Ok(words[0])
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::simulated::Pmu;
    use super::*;
    use crate::clock::thread_cpu_ns;
    use pmuscope_counters::fake::FakeKernel;

    fn cycles() -> Event {
        let machine = pmuscope_machine::Machine::host();
        let catalog = pmuscope_events::MachineCatalog::new(&machine).unwrap();
        let mut groups = pmuscope_events::parse("page-faults", &catalog).unwrap();
        groups.remove(0).events.remove(0)
    }

    #[test]
    fn the_granule_is_what_all_counts_are_multiples_of() {
        let pmu = Pmu::default();
        let counting = measure_on(&pmu);
        assert_eq!(counting.granule, 4, "calls take 32, a step 4");
    }

    /// On a CPU that does 2 steps a nanosecond, so 8 counts.
    fn measure_on(pmu: &Pmu) -> CountingMode {
        let steps = Cell::new(0);
        let spin = |more: u64| {
            steps.set(steps.get() + more);
            pmu.spin(more);
        };
        measure(pmu, &cycles(), &spin, &|| steps.get() / 2).unwrap()
    }

    #[test]
    fn the_rate_is_that_of_the_time_the_thread_had() {
        let rate = measure_on(&Pmu::default()).per_second as f64;
        // The calls between the two readings of the clock count a little.
        assert!((rate / 8e9 - 1.0).abs() < 1e-3, "{rate}");
    }

    #[test]
    fn an_event_that_cannot_be_had_or_stays_at_0_is_an_error_that_says_so() {
        let nothing = FakeKernel::default();
        let error = measure(&nothing, &cycles(), &|_| (), &thread_cpu_ns).unwrap_err();
        assert!(matches!(error, RecorderError::NothingCounted { .. }), "{error}");
        let refusing = FakeKernel::default().refusing(cycles().attr.config, -1, libc::ENOENT);
        let error = measure(&refusing, &cycles(), &|_| (), &thread_cpu_ns).unwrap_err().to_string();
        assert!(error.contains("ENOENT") && error.contains("pmuscope lab run"), "{error}");
    }
}
