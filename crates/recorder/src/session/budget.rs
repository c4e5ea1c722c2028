//! `--budget`: keeps what recording costs below a share of the machine.
//!
//! Cost is the recorder's own CPU time and, per sample, what the kernel spends in the sampled
//! program ([`crate::sampling_cost`]). Per-CPU events are re-timed while they run:
//!
//! ```text
//!   every second:  share = (own CPU time + samples × cost) / (time × CPUs)
//!                  share above the budget      ► longer period at once
//!                  share well below it         ► shorter period, never shorter than asked for
//! ```
//!
//! Two kinds get their period once, at the start, for CPUs that are all busy: inherited events, since
//! the kernel does not change the period in children that live, and software clocks, since their
//! samples go on to carry the first period after a change (measured on Linux 6.18:
//! `perf_swevent_hrtimer` reports `hw.last_period`, which the ioctl leaves alone), so that nobody could
//! weigh them. A clock's rate on a busy CPU is known, so its first period keeps the budget.
//!
//! Other events of the kernel (faults, switches, tracepoints, breakpoints) cannot be kept within a
//! budget and are refused: their rate is not known, and with the period in the samples the kernel
//! samples every single one (`perf_swevent_event`).

use std::time::Duration;

use pmuscope_abi::{Attr, AttrFlags, SampleType, event_type, software};
use pmuscope_counters::EventRequest;

use super::Session;
use crate::cpu_time::CpuTime;
use crate::error::RecorderError;
use crate::sampling_cost::SamplingCost;

/// Recorder CPU seconds per sample until they have been measured: twice what a busy machine shows
/// (docs/benchmarks.md).
pub(super) const ASSUMED_OWN_COST_S: f64 = 0.1e-6;
/// Aim a little below the budget, so that noise does not carry the cost over it.
const AIM: f64 = 0.9;
/// Below this part of the budget the period may become shorter again.
const RELAX_BELOW: f64 = 0.7;

/// A shorter stretch tells more of one drain than of the recording.
const SHORTEST_S: f64 = 0.5;
/// The factor changes by so much at most in one step: one odd second is no reason for a flood or for
/// silence in the next.
const STEP: std::ops::RangeInclusive<f64> = 0.5..=4.0;

/// The state of the control loop.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// Share of the machine, 0 to 1.
    pub(super) target: f64,
    /// Seconds that a sample costs in the kernel.
    pub(super) sample_cost_s: f64,
    /// CPUs of the machine.
    pub(super) cpus: f64,
    /// Periods are this many times what was asked for; at least 1.
    pub(super) factor: f64,
    /// The last measurement: seconds since the start, CPU seconds, samples.
    pub(super) before: (f64, f64, u64),
}

impl Budget {
    /// The factor for events that sample `hz` times per second on each busy CPU.
    pub(super) fn initial_factor(target: f64, hz: f64, sample_cost_s: f64) -> f64 {
        (hz * (sample_cost_s + ASSUMED_OWN_COST_S) / (target * AIM)).max(1.0)
    }

    /// Takes a measurement; the new factor if it has to change.
    pub(super) fn step(&mut self, time_s: f64, cpu_s: f64, samples: u64) -> Option<f64> {
        let (time_before, cpu_before, samples_before) = self.before;
        let time = time_s - time_before;
        if time < SHORTEST_S {
            return None;
        }
        let taken = samples.saturating_sub(samples_before) as f64;
        let cost = (cpu_s - cpu_before) + taken * self.sample_cost_s;
        let share = cost / (time * self.cpus);
        self.before = (time_s, cpu_s, samples);
        let wanted = self.target * AIM;
        let shorter = share < self.target * RELAX_BELOW && self.factor > 1.0;
        if share <= self.target && !shorter {
            return None;
        }
        let change = (share / wanted).clamp(*STEP.start(), *STEP.end());
        let factor = (self.factor * change).max(1.0);
        (factor != self.factor).then(|| {
            self.factor = factor;
            factor
        })
    }
}

/// What the session keeps for its budget.
#[derive(Debug, Clone)]
pub(super) struct BudgetPlan {
    /// Period or frequency of each request as asked for.
    pub(super) asked: Vec<u64>,
    /// The loop at the start.
    pub(super) budget: Budget,
    /// The events can be re-timed while they run.
    pub(super) adapts: bool,
}

impl BudgetPlan {
    /// Chooses the first factor and gives it to `requests`.
    ///
    /// # Errors
    /// [`RecorderError::Options`] for an event whose rate cannot be steered.
    pub(super) fn new(
        target: f64,
        cost: Option<SamplingCost>,
        cpus: usize,
        inherits: bool,
        requests: &mut [EventRequest],
    ) -> Result<Self, RecorderError> {
        let sampling = || requests.iter().filter(|request| request.attr.sample > 0);
        if let Some(request) = sampling().find(|r| !is_clock(&r.attr) && !is_of_pmu(&r.attr)) {
            return Err(RecorderError::Options(format!(
                "--budget: the sampling rate of {} cannot be adjusted while recording. Try: a \
                 longer period (-c N) without --budget",
                request.name
            )));
        }
        let adapts = !inherits && sampling().all(|request| is_of_pmu(&request.attr));
        let asked: Vec<u64> = requests.iter().map(|request| request.attr.sample).collect();
        // Not known: the loop that measures it never met this event. Then it is not in the budget.
        let sample_cost_s = cost.map_or(0.0, |cost| cost.us_per_sample.max(0.0) / 1e6);
        let hz: f64 = requests.iter().filter_map(|request| rate(&request.attr)).sum();
        let factor = Budget::initial_factor(target, hz, sample_cost_s);
        for request in requests.iter_mut() {
            request.attr.sample = scaled(&request.attr, request.attr.sample, factor);
            if adapts && request.attr.sample > 0 {
                request.attr.sample_type |= SampleType::PERIOD;
            }
        }
        let cpus = cpus.max(1) as f64;
        let budget = Budget { target, sample_cost_s, cpus, factor, before: (0.0, 0.0, 0) };
        Ok(Self { asked, budget, adapts })
    }
}

/// Counted by a PMU, whose samples tell the period in force.
fn is_of_pmu(attr: &Attr) -> bool {
    use event_type::{BREAKPOINT, SOFTWARE, TRACEPOINT};
    !matches!(attr.event_type, SOFTWARE | TRACEPOINT | BREAKPOINT)
}

fn is_clock(attr: &Attr) -> bool {
    attr.event_type == event_type::SOFTWARE
        && matches!(attr.config, software::CPU_CLOCK | software::TASK_CLOCK)
}

/// Samples per second on a busy CPU, where the attribute tells.
fn rate(attr: &Attr) -> Option<f64> {
    match attr.sample {
        0 => None,
        hz if attr.flags.contains(AttrFlags::FREQ) => Some(hz as f64),
        period if is_clock(attr) => Some(1e9 / period as f64),
        _ => None,
    }
}

/// `asked` for `factor` times fewer samples.
fn scaled(attr: &Attr, asked: u64, factor: f64) -> u64 {
    if asked == 0 {
        return 0; // counts only
    }
    let asked = asked as f64;
    let value = if attr.flags.contains(AttrFlags::FREQ) { asked / factor } else { asked * factor };
    (value as u64).max(1)
}

impl Session<'_> {
    /// Measures, and re-times the events where the budget asks for it.
    pub(super) fn keep_budget(
        &self,
        budget: &mut Budget,
        elapsed: Duration,
        samples: u64,
    ) -> Result<(), RecorderError> {
        let Some(plan) = self.budget.as_ref().filter(|plan| plan.adapts) else { return Ok(()) };
        let cpu = CpuTime::of_process().total();
        let Some(factor) = budget.step(elapsed.as_secs_f64(), cpu, samples) else { return Ok(()) };
        for (event, request) in self.set.requests().iter().enumerate() {
            let value = scaled(&request.attr, plan.asked[event], factor);
            if value > 0 {
                // Under load the kernel lowers what it allows (`perf_event_max_sample_rate`): then the rate
                // stays as it was, and the next reading decides anew.
                let _ = self.set.set_period(self.kernel, event, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget { target: 0.01, sample_cost_s: 1e-6, cpus: 4.0, factor: 1.0, before: (0.0, 0.0, 0) }
    }

    /// A machine on which `hz` samples per second and CPU are taken at factor 1.
    fn run(budget: &mut Budget, seconds: std::ops::Range<u32>, hz: f64) -> f64 {
        let mut share = 0.0;
        let (mut cpu, mut samples) = (budget.before.1, budget.before.2);
        for second in seconds {
            let taken = hz * budget.cpus / budget.factor;
            samples += taken as u64;
            cpu += taken * 0.05e-6;
            share = taken * 1.05e-6 / budget.cpus;
            budget.step(f64::from(second + 1), cpu, samples);
        }
        share
    }

    #[test]
    fn too_high_a_rate_is_brought_below_the_budget_within_seconds() {
        let mut budget = budget();
        let share = run(&mut budget, 0..5, 50_000.0);
        assert!(share <= 0.01 && share > 0.006, "{share}");
    }

    #[test]
    fn a_rate_within_the_budget_is_left_alone_and_never_raised() {
        let mut budget = budget();
        run(&mut budget, 0..5, 1000.0);
        assert_eq!(budget.factor, 1.0);
    }

    #[test]
    fn the_rate_comes_back_when_the_load_has_gone() {
        let mut budget = budget();
        run(&mut budget, 0..5, 50_000.0);
        run(&mut budget, 5..20, 2000.0);
        assert_eq!(budget.factor, 1.0);
    }

    fn request(event_type: u32, config: u64, sample: u64) -> EventRequest {
        EventRequest {
            name: "e".into(),
            attr: Attr { event_type, config, sample, ..Attr::default() },
            leader: None,
            cpus: None,
            any_task: false,
            max_precise: false,
        }
    }

    #[test]
    fn a_clock_gets_its_period_once_and_a_pmu_event_is_steered() {
        let clock = request(event_type::SOFTWARE, software::CPU_CLOCK, 40_000);
        let cost = SamplingCost { us_per_sample: 1.0, interval: None, pairs: 15 };
        let mut requests = [clock];
        let plan = BudgetPlan::new(0.01, Some(cost), 2, false, &mut requests).unwrap();
        assert!(!plan.adapts && requests[0].attr.sample > 40_000);
        assert!(requests[0].attr.sample_type.is_empty());

        let mut requests = [request(event_type::HARDWARE, 0, 1_000_000)];
        let plan = BudgetPlan::new(0.01, Some(cost), 2, false, &mut requests).unwrap();
        assert!(plan.adapts && requests[0].attr.sample_type.contains(SampleType::PERIOD));
        assert!(!BudgetPlan::new(0.01, Some(cost), 2, true, &mut requests).unwrap().adapts);
    }

    #[test]
    fn events_whose_rate_nobody_steers_are_refused() {
        let mut faults = [request(event_type::SOFTWARE, software::PAGE_FAULTS, 1)];
        let error = BudgetPlan::new(0.01, None, 2, false, &mut faults).unwrap_err();
        assert!(error.to_string().contains("Try: a longer period"), "{error}");
    }

    #[test]
    fn the_first_factor_fits_busy_cpus() {
        let factor = Budget::initial_factor(0.01, 25_000.0, 1.5e-6);
        assert!(25_000.0 / factor * 1.6e-6 <= 0.01);
        assert_eq!(Budget::initial_factor(0.05, 1000.0, 1.5e-6), 1.0);
    }
}
