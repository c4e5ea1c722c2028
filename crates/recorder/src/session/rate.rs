//! Refuses clocks that would leave a CPU nothing but sampling.
//!
//! A clock whose period is shorter than what a sample takes fires again as soon as the last sample is
//! done: its CPU does nothing else, for minutes, whoever is asked to stop it.

use pmuscope_abi::{Attr, event_type, software};
use pmuscope_counters::EventRequest;

use crate::error::RecorderError;
use crate::sampling_cost::{Effort, SamplingCost};

/// Nanoseconds. The kernel's clocks take no shorter period, without a word
/// (`perf_swevent_start_hrtimer` in kernel/events/core.c): a sample would stand for more than it says.
const SHORTEST_NS: u64 = 10_000;
/// Nanoseconds. From here on a sample takes a small part of the period on any machine we know; shorter
/// ones are measured.
const SAFE_NS: u64 = 50_000;
/// Part of the period that a sample may take.
const MOST: f64 = 0.8;
/// Part of [`MOST`] up to which a brief measurement decides: it is wrong by less than the rest.
const SURE: f64 = 0.5;

/// Checks the fastest clock. `measure` returns the cost of its samples: a brief measurement first, and a longer one where
/// the brief one is close to the limit.
pub(super) fn check(
    requests: &[EventRequest],
    mut measure: impl FnMut(&EventRequest, Effort) -> Result<Option<SamplingCost>, RecorderError>,
) -> Result<(), RecorderError> {
    let clocks = requests.iter().filter(|request| is_sampling_clock(&request.attr));
    let Some(fastest) = clocks.min_by_key(|request| request.attr.sample) else { return Ok(()) };
    let (event, period_ns) = (fastest.name.clone(), fastest.attr.sample);
    if period_ns < SHORTEST_NS {
        return Err(RecorderError::ClockPeriod { event, period_ns });
    }
    if period_ns >= SAFE_NS {
        return Ok(());
    }
    let most_us = period_ns as f64 * MOST / 1e3;
    let brief = measure(fastest, Effort::BRIEF)?;
    if brief.is_some_and(|cost| cost.us_per_sample <= most_us * SURE) {
        return Ok(());
    }
    let cost_us = measure(fastest, Effort::ROUGH)?.map_or(0.0, |cost| cost.us_per_sample);
    if cost_us > most_us {
        return Err(RecorderError::ClockTooFast { event, period_ns, cost_us });
    }
    Ok(())
}

fn is_sampling_clock(attr: &Attr) -> bool {
    attr.event_type == event_type::SOFTWARE
        && matches!(attr.config, software::CPU_CLOCK | software::TASK_CLOCK)
        && attr.sample > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(period_ns: u64) -> EventRequest {
        EventRequest {
            name: "cpu-clock".into(),
            attr: Attr {
                event_type: event_type::SOFTWARE,
                config: software::CPU_CLOCK,
                sample: period_ns,
                ..Attr::default()
            },
            leader: None,
            cpus: None,
            any_task: false,
            max_precise: false,
        }
    }

    fn checked(periods: &[u64], cost_us: Option<f64>) -> Result<(), String> {
        let requests: Vec<EventRequest> = periods.iter().copied().map(clock).collect();
        let cost = |request: &EventRequest, _| {
            assert_eq!(Some(&request.attr.sample), periods.iter().min());
            let us_per_sample = cost_us.expect("this one need not be measured");
            Ok(Some(SamplingCost { us_per_sample, interval: None, pairs: 1 }))
        };
        check(&requests, cost).map_err(|error| error.to_string())
    }

    #[test]
    fn slow_clocks_and_no_clocks_are_not_measured() {
        checked(&[], None).unwrap();
        checked(&[50_000, 1_000_000], None).unwrap();
        let mut cache_misses = clock(10);
        cache_misses.attr.event_type = event_type::HARDWARE;
        check(&[cache_misses], |_, _| panic!("no clock")).unwrap();
    }

    #[test]
    fn the_fastest_clock_must_leave_a_part_of_the_cpu() {
        checked(&[40_000, 20_000], Some(15.9)).unwrap();
        let refused = checked(&[40_000, 20_000], Some(16.1)).unwrap_err();
        assert_eq!(
            refused,
            "cpu-clock every 20 µs: a sample takes 16.1 µs of CPU time here, so sampling would \
             take nearly all of it and the machine might hang. Try: -F 31055 or lower, or -c 32200 \
             or higher"
        );
    }

    #[test]
    fn a_brief_measurement_decides_where_it_is_far_from_the_limit() {
        let efforts = |brief_us: Option<f64>, rough_us: f64| {
            let mut efforts = Vec::new();
            let checked = check(&[clock(20_000)], |_, effort| {
                efforts.push(effort);
                let cost_us = if effort == Effort::BRIEF { brief_us } else { Some(rough_us) };
                Ok(cost_us.map(|us_per_sample| SamplingCost {
                    us_per_sample,
                    interval: None,
                    pairs: 3,
                }))
            });
            (checked.is_ok(), efforts.len())
        };
        assert_eq!(efforts(Some(8.0), 100.0), (true, 1));
        // A neighbor disturbed the brief one, or it has seen no sample.
        assert_eq!(efforts(Some(8.1), 15.0), (true, 2));
        assert_eq!(efforts(Some(90.0), 15.0), (true, 2));
        assert_eq!(efforts(None, 17.0), (false, 2));
    }

    #[test]
    fn periods_that_the_kernel_does_not_take_are_refused() {
        assert_eq!(
            checked(&[9_999], None).unwrap_err(),
            "cpu-clock every 9999 ns: the kernel's software timers have no period below 10000 ns, \
             so each sample would be counted as less time than it stands for. Try: -F 10000 or \
             lower, or -c 100000 or higher"
        );
    }
}
