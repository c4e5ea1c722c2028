//! What a strobed recording will do, worked out before anything is opened for it.

use pmuscope_abi::Attr;
use pmuscope_counters::{EventRequest, Kernel};
use pmuscope_events::Event;
use pmuscope_machine::{Machine, Target, Topology};
use pmuscope_perfdata::strobe::{StrobeGroup, StrobeInfo};

use super::phase::MOST_EDGES;
use super::schedule::Schedule;
use super::{calibrate, fit, requests};
use crate::clock::thread_cpu_ns;
use crate::error::RecorderError;
use crate::options::StrobeOptions;
use crate::sys;

/// Windows per second of a busy CPU where no period is asked for.
const DEFAULT_HZ: u64 = 1000;
/// Samples may come at this part of the rate that the kernel allows, so that it never throttles: that
/// loses the phase, and the kernel lowers its limit by itself when interrupts are slow.
const PART_OF_LIMIT: u64 = 4;
/// What is assumed of a kernel that does not tell its limit: Linux's own default.
const DEFAULT_LIMIT_HZ: u64 = 100_000;
/// An offset may differ from the window by one part in so many.
const TOLERANCE_PART: u64 = 10;

/// Groups, and what their epochs are drawn from.
#[derive(Debug, Clone)]
pub(crate) struct StrobePlan {
    pub(crate) schedule: Schedule,
    pub(crate) tolerance: u64,
    /// Counters of each group.
    counters: Vec<Vec<Event>>,
}

impl StrobePlan {
    /// Measures how the event counts and what fits on the PMU.
    ///
    /// # Errors
    /// [`RecorderError`] where the event cannot make windows here, or not at this rate.
    pub(crate) fn new(
        options: &StrobeOptions,
        events: &[Event],
        kernel: &dyn Kernel,
        machine: &Machine,
        topology: &Topology,
    ) -> Result<Self, RecorderError> {
        let window = window(events)?;
        let edges = edges(options)?;
        let counting = calibrate::measure(kernel, window, &sys::spin, &thread_cpu_ns)?;
        let fastest = fastest(counting.per_second, window, machine.frequency(topology).max_khz);
        let schedule = Schedule {
            period: options.period.unwrap_or((fastest / DEFAULT_HZ).max(1)),
            window: options.window,
            jitter: options.jitter,
            granule: counting.granule,
        };
        let limit = machine.limits().perf_event_max_sample_rate.unwrap_or(DEFAULT_LIMIT_HZ);
        check_rate(&schedule, options, fastest, limit)?;
        let tolerance = (options.window / TOLERANCE_PART).max(counting.granule);
        let counters = fit::groups(kernel, window, edges, &options.sets)?;
        Ok(Self { schedule, tolerance, counters })
    }

    /// For tests of what is done with it.
    #[cfg(test)]
    pub(crate) fn simulated(schedule: Schedule, tolerance: u64) -> Self {
        Self { schedule, tolerance, counters: Vec::new() }
    }

    /// The same without asking the kernel: one group, and periods as asked for.
    ///
    /// # Errors
    /// As [`StrobePlan::new`], for what can be known without the machine.
    pub(crate) fn preview(
        options: &StrobeOptions,
        events: &[Event],
    ) -> Result<Self, RecorderError> {
        window(events)?;
        edges(options)?;
        let mut counters: Vec<Event> = Vec::new();
        for event in options.sets.iter().flatten() {
            if !counters.contains(event) {
                counters.push(event.clone());
            }
        }
        let period = options.period.unwrap_or(1_000_000);
        let (length, jitter) = (options.window, options.jitter);
        let schedule = Schedule { period, window: length, jitter, granule: 1 };
        Ok(Self { schedule, tolerance: length / TOLERANCE_PART, counters: vec![counters] })
    }

    /// Adds the groups to `requests`, which has the sideband; `shared` is what all events of the
    /// recording have in common.
    pub(crate) fn add_to(
        &self,
        requests: &mut Vec<EventRequest>,
        shared: &Attr,
        window: &Event,
        burst: u32,
    ) -> Vec<StrobeGroup> {
        let edge = requests::Edge { event: window, period: self.schedule.period };
        requests::add_groups(requests, shared, &edge, burst as usize + 1, &self.counters)
    }

    /// What the recording says of itself before its first epoch; `command` is the process id of the
    /// command, if there is one.
    pub(crate) fn info(
        &self,
        options: &StrobeOptions,
        event: &str,
        command: Option<u32>,
        groups: Vec<StrobeGroup>,
    ) -> StrobeInfo {
        let (only_processes, only_threads) = match &options.only {
            Some(Target::Command) => (command.into_iter().collect(), Vec::new()),
            Some(Target::Processes(pids)) => (pids.clone(), Vec::new()),
            Some(Target::Threads(tids)) => (Vec::new(), tids.clone()),
            _ => (Vec::new(), Vec::new()),
        };
        StrobeInfo {
            event: event.to_owned(),
            window: self.schedule.window,
            period: self.schedule.period,
            jitter: self.schedule.jitter,
            burst: options.burst,
            granule: self.schedule.granule,
            tolerance: self.tolerance,
            groups,
            only_processes,
            only_threads,
            ..StrobeInfo::default()
        }
    }
}

/// The event that makes windows.
fn window(events: &[Event]) -> Result<&Event, RecorderError> {
    let none = "--strobe: no event defines the windows. Try: event=cycles:u";
    events.first().ok_or_else(|| RecorderError::Options(none.into()))
}

fn edges(options: &StrobeOptions) -> Result<usize, RecorderError> {
    let edges = options.burst as usize + 1;
    if options.burst == 0 || edges > MOST_EDGES {
        let most = MOST_EDGES - 1;
        return Err(RecorderError::Options(format!(
            "--strobe: burst={}: use 1 to {most} windows in a row; each takes a counter",
            options.burst
        )));
    }
    Ok(edges)
}

/// Counts per second of the event at most. A core's highest frequency may not have been reached yet.
fn fastest(measured: u64, window: &Event, max_khz: Option<u64>) -> u64 {
    use pmuscope_abi::{event_type, hardware};
    let is_cycles = window.attr.event_type == event_type::HARDWARE
        && window.attr.config & u64::from(u32::MAX) == hardware::CPU_CYCLES;
    let highest = max_khz.filter(|_| is_cycles);
    measured.max(highest.unwrap_or(0) * 1000)
}

fn check_rate(
    schedule: &Schedule,
    options: &StrobeOptions,
    fastest: u64,
    limit: u64,
) -> Result<(), RecorderError> {
    let shortest = fastest.saturating_mul(PART_OF_LIMIT) / limit.max(1);
    let longest = options.window.saturating_add(options.jitter);
    let windows = longest.saturating_mul(u64::from(options.burst));
    if schedule.shortest_period() < shortest {
        let enough = (shortest as f64 * 1.04) as u64;
        return Err(RecorderError::StrobeRate { period: schedule.period, limit, fastest, enough });
    }
    if windows.saturating_mul(2) > schedule.period {
        let less =
            if options.jitter > options.window { "less jitter=" } else { "a shorter window" };
        return Err(RecorderError::Options(format!(
            "--strobe: windows of {windows} in a period of {}: at most half of the period. Try: a \
             longer period= or {less}",
            schedule.period
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(period: u64, window: u64, limit: u64) -> Result<(), RecorderError> {
        let options = StrobeOptions { window, ..StrobeOptions::default() };
        let schedule = Schedule { period, window, jitter: 0, granule: 1 };
        check_rate(&schedule, &options, 3_000_000_000, limit)
    }

    #[test]
    fn a_rate_that_could_be_throttled_is_refused_with_one_that_is_not() {
        check(1_000_000, 300, 100_000).unwrap();
        let error = check(100_000, 300, 100_000).unwrap_err().to_string();
        assert!(error.contains("period=124800"), "{error}");
        check(124_800, 300, 100_000).unwrap();
        assert!(check(1_000_000, 300, 10_000).is_err(), "the kernel had lowered its limit");
    }

    #[test]
    fn windows_leave_half_of_the_period_free() {
        assert!(check(1_000_000, 600_000, 100_000).is_err());
    }

    #[test]
    fn no_jitter_is_so_large_that_it_passes() {
        let jitter = u64::MAX;
        let options = StrobeOptions { jitter, ..StrobeOptions::default() };
        let schedule = Schedule { period: 1_000_000, window: 300, jitter, granule: 1 };
        let error = check_rate(&schedule, &options, 3_000_000_000, 100_000).unwrap_err();
        assert!(error.to_string().contains("less jitter="), "{error}");
    }

    #[test]
    fn a_burst_needs_a_counter_for_each_window() {
        let options = |burst| StrobeOptions { burst, ..StrobeOptions::default() };
        assert_eq!(edges(&options(3)).unwrap(), 4);
        assert!(edges(&options(0)).is_err() && edges(&options(8)).is_err());
    }
}
