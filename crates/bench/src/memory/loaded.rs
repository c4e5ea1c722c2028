//! Latency of one thread while others load memory.

use std::path::Path;
use std::time::Duration;

use pmuscope_workloads::WorkloadError;
use pmuscope_workloads::memory::control::{Control, State, Thread};
use pmuscope_workloads::memory::{self};

use super::arms::MemoryArm;
use super::{Options, RunMeasurement};
use crate::runner::joined;

/// How often it is looked how far they are.
const TICK: Duration = Duration::from_millis(5);

/// What all threads did up to two moments, as they told it.
#[derive(Debug, Default)]
struct Window {
    first: Vec<Thread>,
    last: Vec<Thread>,
}

impl Window {
    fn see(&mut self, threads: Vec<Thread>) {
        if self.first.is_empty() {
            self.first = threads;
        } else {
            self.last = threads;
        }
    }

    /// 10^9 bytes in a second, all threads together, each by its own clock; `None` if it was too short.
    fn gb_per_s(&self) -> Option<f64> {
        let of = |(first, last): (&Thread, &Thread)| {
            let ns = last.updated_ns.checked_sub(first.updated_ns).filter(|&ns| ns > 0)?;
            Some((last.bytes - first.bytes) as f64 / ns as f64)
        };
        let each: Option<Vec<f64>> = self.first.iter().zip(&self.last).map(of).collect();
        each.filter(|each| !each.is_empty()).map(|each| each.iter().sum())
    }
}

/// Starts those that load, then the one whose loads are timed, and looks on; ends the first when the second
/// has ended.
pub(super) fn measure(
    arm: &MemoryArm,
    pause_ns: u64,
    options: &Options,
    scratch: &Path,
) -> Result<RunMeasurement, WorkloadError> {
    let (load, chase) = (scratch.join("load"), scratch.join("chase"));
    let run = |workload: memory::Options, control: &Path| {
        memory::run(&options.program, &workload, Some(control))
    };
    std::thread::scope(|scope| {
        let loads = scope.spawn(|| run(arm.load(pause_ns, options), &load));
        let is_over = || loads.is_finished();
        let Some(watched) = running(&load, &is_over) else {
            // It ended before it began, and says why.
            return joined(loads).and_then(|_| Err(ended_early()));
        };
        let timed = scope.spawn(|| run(arm.latency(options), &chase));
        let mut window = Window::default();
        if let Some(chase) = running(&chase, &|| timed.is_finished() || is_over()) {
            while chase.state().is_ok_and(|state| state == State::Running) && !is_over() {
                window.see(watched.threads().unwrap_or_default());
                std::thread::sleep(TICK);
            }
        }
        let timed = joined(timed);
        let stopped = Control::stop(&load);
        let loads = joined(loads);
        let timed = timed?;
        loads?;
        stopped?;
        Ok(RunMeasurement { gb_per_s: window.gb_per_s(), ..RunMeasurement::of(&timed) })
    })
}

fn ended_early() -> WorkloadError {
    WorkloadError::System {
        what: "keep memory loaded until the end".to_owned(),
        source: std::io::Error::other("the workload ended early"),
    }
}

/// The control file of a workload, once it runs; `None` if it is over before.
fn running(path: &Path, is_over: &dyn Fn() -> bool) -> Option<Control> {
    while !is_over() {
        match Control::open(path) {
            Ok(control) if control.state().is_ok_and(|state| state == State::Running) => {
                return Some(control);
            }
            _ => std::thread::sleep(TICK),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_between_the_first_look_and_the_last() {
        let thread = |updated_ns, bytes| Thread { updated_ns, bytes, ..Thread::default() };
        let mut window = Window::default();
        window.see(vec![thread(1000, 50), thread(2000, 0)]);
        assert_eq!(window.gb_per_s(), None);
        window.see(vec![thread(1500, 80), thread(2500, 40)]);
        window.see(vec![thread(2000, 4050), thread(3000, 8000)]);
        assert_eq!(window.gb_per_s(), Some(12.0));
        window.see(vec![thread(1000, 50), thread(3000, 8000)]);
        assert_eq!(window.gb_per_s(), None, "one that told nothing new");
    }
}
