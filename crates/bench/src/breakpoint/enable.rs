//! A breakpoint that threads have inherited is switched off and on again.
//!
//! The kernel goes over all threads that have it; those that run at that moment are interrupted. An operation
//! is off and on together, as in the kernel's own tool. Without a breakpoint (0) the same is done with an
//! event that counts nothing and has no registers: what is left is the way to all the threads.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use pmuscope_abi::{Attr, AttrFlags, event_type, software};
use pmuscope_counters::Kernel;
use pmuscope_measure::{Labels, Planned};
use pmuscope_workloads::WorkloadError;
use pmuscope_workloads::crowd::Crowd;

use super::{BENCHMARK, BREAKPOINTS, BreakpointOutcome, check_slots, open_inherited, open_own};
use crate::error::BenchError;
use crate::runner::{Bench, Benchmark, labels};

/// Label: threads that wait.
pub const PASSIVE: &str = "passive";
/// Label: threads that run.
pub const ACTIVE: &str = "active";
/// Unit of work: off and on again.
pub const SWITCH: &str = "switch";
/// Parameter: operations of a run.
pub const SWITCHES: &str = "switches";
/// Value of [`BENCHMARK`].
pub const NAME: &str = "enable";

/// Threads have so long to get to where they stay.
const SETTLE: Duration = Duration::from_millis(10);

/// A breakpoint off and on again, in all combinations.
pub struct EnableBench<'a> {
    /// Who has breakpoints.
    pub kernel: &'a dyn Kernel,
    /// Numbers of threads that wait.
    pub passive: Vec<usize>,
    /// Numbers of threads that run.
    pub active: Vec<usize>,
    /// Times off and on in each run.
    pub switches: u32,
}

/// One combination.
#[derive(Debug, Clone, Copy)]
pub struct Switched {
    breakpoints: u32,
    passive: usize,
    active: usize,
}

impl Switched {
    /// The event that is switched.
    fn open(&self, kernel: &dyn Kernel) -> Result<Vec<OwnedFd>, BenchError> {
        if self.breakpoints > 0 {
            return open_inherited(kernel, self.breakpoints);
        }
        let flags = AttrFlags::INHERIT | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        let nothing = Attr {
            event_type: event_type::SOFTWARE,
            config: software::DUMMY,
            flags,
            ..Attr::default()
        };
        Ok(vec![open_own(kernel, &nothing, || "an event that counts nothing".to_owned())?])
    }

    fn run(&self, kernel: &dyn Kernel, switches: u32) -> Result<BreakpointOutcome, BenchError> {
        let events = self.open(kernel)?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let waiting = Crowd::create(self.passive)?;
            let ends = EndsThreads(&over);
            for _ in 0..self.active {
                // Without the hint for spinning: a hypervisor takes it for a reason to run others.
                let spin = || {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::black_box(());
                    }
                };
                thread::Builder::new().spawn_scoped(scope, spin).map_err(|source| {
                    let what = format!("start {} threads", self.active);
                    WorkloadError::System { what, source }
                })?;
            }
            thread::sleep(SETTLE);
            let seconds = switch(kernel, &events, switches)?;
            drop(ends);
            waiting.dismiss();
            Ok(BreakpointOutcome::new(switches.into(), seconds))
        })
    }
}

/// Lets threads that run end, also where something failed.
struct EndsThreads<'a>(&'a AtomicBool);

impl Drop for EndsThreads<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn switch(kernel: &dyn Kernel, events: &[OwnedFd], switches: u32) -> Result<f64, BenchError> {
    let call = |what| move |source| BenchError::Call { what, source };
    let started = Instant::now();
    for _ in 0..switches {
        for event in events {
            kernel.disable_alone(event.as_fd()).map_err(call("disable"))?;
            kernel.enable_alone(event.as_fd()).map_err(call("enable"))?;
        }
    }
    Ok(started.elapsed().as_secs_f64())
}

impl Benchmark for EnableBench<'_> {
    type Arm = Switched;

    fn parameters(&self) -> Labels {
        labels([(BENCHMARK, NAME.to_owned()), (SWITCHES, self.switches.to_string())])
    }

    fn arms(&mut self, bench: &mut Bench<'_>) -> Result<Vec<Switched>, BenchError> {
        check_slots(self.kernel, 1, bench.file)?;
        let mut arms = Vec::new();
        for &passive in &self.passive {
            for &active in &self.active {
                arms.extend([0, 1].map(|breakpoints| Switched { breakpoints, passive, active }));
            }
        }
        Ok(arms)
    }

    fn labels(&self, arm: &Switched) -> Labels {
        labels([
            (BREAKPOINTS, arm.breakpoints.to_string()),
            (PASSIVE, arm.passive.to_string()),
            (ACTIVE, arm.active.to_string()),
        ])
    }

    fn run(
        &mut self,
        arm: &Switched,
        planned: &Planned,
        bench: &mut Bench<'_>,
    ) -> Result<bool, BenchError> {
        let started = SystemTime::now();
        let outcome = arm.run(self.kernel, self.switches)?;
        outcome.add(bench, (planned, started), self.labels(arm), SWITCH);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_counters::fake::FakeKernel;

    #[test]
    fn each_operation_is_off_and_on_and_the_baseline_is_an_event_without_registers() {
        for (breakpoints, kind) in [(0, event_type::SOFTWARE), (1, event_type::BREAKPOINT)] {
            let kernel = FakeKernel::default();
            let arm = Switched { breakpoints, passive: 3, active: 1 };
            assert_eq!(arm.run(&kernel, 7).unwrap().done, 7);
            assert_eq!(kernel.enabled(), 7);
            let opened = kernel.opened();
            assert_eq!(opened.len(), 1);
            assert_eq!((opened[0].attr.event_type, opened[0].pid, opened[0].cpu), (kind, 0, -1));
            assert!(opened[0].attr.flags.contains(AttrFlags::INHERIT));
            assert!(!opened[0].attr.flags.contains(AttrFlags::DISABLED));
        }
    }
}
