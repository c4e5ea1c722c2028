//! What one sample costs the program that is being sampled: the kernel's part, which no accounting
//! shows as the recorder's.
//!
//! A loop of fixed work is timed without and with the event, in pairs in random order; the difference
//! per sample is the cost. Wall time, since with `CONFIG_IRQ_TIME_ACCOUNTING` the interrupt is not in the
//! thread's CPU time; but less what the thread waited for its CPU, which on a busy machine is as long as
//! the loop itself. The estimate over the pairs is robust (signed ranks), since neighbors disturb.
//!
//! ```text
//!   spin ───────······───────►            t0     · waits while others run
//!   spin ─│─│─│─······─│─│─│─────►        t1 = t0 + samples × cost
//! ```

use std::hint::black_box;

use pmuscope_abi::{Attr, AttrFlags, event_type, software};
use pmuscope_counters::{EventRequest, Kernel, OpenOptions, Ring, RingSize, SamplingSet, Scope};
use pmuscope_machine::{Machine, Topology};
use pmuscope_stats::{LEVEL, signed_rank_center};

use crate::clock::monotonic_ns;
use crate::error::RecorderError;
use crate::tally::{IdIndex, RecordTally};

/// How long the cost is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Pairs of loops.
    pairs: usize,
    /// Nanoseconds of a loop without the event.
    loop_ns: u64,
}

impl Effort {
    /// Nearly a second: the cost is known to a few per cent.
    pub(crate) const EXACT: Self = Self { pairs: 15, loop_ns: 30_000_000 };
    /// A fifth of a second: its size is known.
    pub(crate) const ROUGH: Self = Self { pairs: 3, loop_ns: 30_000_000 };
    /// Thirty milliseconds: enough to distinguish a small cost from one that is too large.
    pub(crate) const BRIEF: Self = Self { pairs: 3, loop_ns: 5_000_000 };
}

/// Samples per second while measuring: enough for the cost to stand out.
const RATE_HZ: u64 = 20_000;
/// Sideband has no part in the cost of a sample, and the loop has no children.
const DROPPED: AttrFlags = AttrFlags::INHERIT
    .union(AttrFlags::ENABLE_ON_EXEC)
    .union(AttrFlags::MMAP)
    .union(AttrFlags::MMAP2)
    .union(AttrFlags::COMM)
    .union(AttrFlags::TASK)
    .union(AttrFlags::WRITE_BACKWARD);

/// Cost of a sample in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingCost {
    /// The estimate.
    pub us_per_sample: f64,
    /// 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Pairs of loops measured.
    pub pairs: usize,
}

/// Measures on the calling thread what a sample of `request` costs.
///
/// # Errors
/// [`RecorderError`] if the event cannot be opened for this thread.
pub(crate) fn measure(
    kernel: &dyn Kernel,
    machine: &Machine,
    topology: &Topology,
    request: &EventRequest,
    effort: Effort,
) -> Result<Option<SamplingCost>, RecorderError> {
    let request = EventRequest {
        attr: at_rate(&request.attr, highest_rate(machine)),
        leader: None,
        ..request.clone()
    };
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let index = IdIndex::new([], [&request.attr]);
    let options = OpenOptions { ring_size: RingSize::AtMost(256 << 10) };
    let scope = Scope::Threads(vec![tid]);
    let mut set = SamplingSet::open(kernel, machine, topology, &scope, vec![request], options)?;
    let Some(mut ring) = set.take_rings().pop() else { return Ok(None) };
    let turns = turns_for(machine, effort.loop_ns);
    let mut costs = Vec::with_capacity(effort.pairs);
    for _ in 0..effort.pairs {
        let with_first = fastrand::bool();
        let mut with = None;
        if with_first {
            with = Some(sampled(kernel, machine, &set, &mut ring, &index, turns)?);
        }
        let without = spin(machine, turns);
        let (time, samples) = match with {
            Some(with) => with,
            None => sampled(kernel, machine, &set, &mut ring, &index, turns)?,
        };
        if samples > 0 {
            costs.push((time as f64 - without as f64) / 1e3 / samples as f64);
        }
    }
    let estimate = signed_rank_center(&costs, LEVEL);
    Ok(estimate.map(|estimate| SamplingCost {
        us_per_sample: estimate.value,
        interval: estimate.interval.map(|interval| (interval.low, interval.high)),
        pairs: estimate.n,
    }))
}

/// What the kernel allows at the moment; it lowers it under load.
fn highest_rate(machine: &Machine) -> u64 {
    machine.limits().perf_event_max_sample_rate.unwrap_or(RATE_HZ)
}

/// The same event at the rate of the measurement, or at the highest that is allowed (samples per second).
fn at_rate(attr: &Attr, highest: u64) -> Attr {
    let mut attr = Attr { wakeup: 0, ..attr.clone() };
    attr.flags = attr.flags.difference(DROPPED) | AttrFlags::DISABLED;
    let clock = attr.event_type == event_type::SOFTWARE
        && matches!(attr.config, software::CPU_CLOCK | software::TASK_CLOCK);
    attr.flags.set(AttrFlags::FREQ, !clock);
    attr.sample = if clock { 1_000_000_000 / RATE_HZ } else { RATE_HZ.min(highest).max(1) };
    attr
}

/// Nanoseconds of the loop with the event on, and the samples taken.
fn sampled(
    kernel: &dyn Kernel,
    machine: &Machine,
    set: &SamplingSet,
    ring: &mut Ring,
    index: &IdIndex,
    turns: u64,
) -> Result<(u64, u64), RecorderError> {
    set.enable(kernel, |_| ())?;
    let time = spin(machine, turns);
    set.disable(kernel)?;
    let mut tally = RecordTally::new(index);
    let pending = ring.pending();
    tally.count(&pending, index);
    let end = pending.end();
    ring.release(end);
    Ok((time, tally.all_samples()))
}

/// Nanoseconds that so many turns of a loop take, in user mode alone, without those spent waiting.
///
/// ```text
///   elapsed    ├──────────────────────┤     The thread may have to wait between any two of these readings:
///   waited       ├──────────────────┤       what it waits for counts as elapsed in any case, so it is never more.
/// ```
fn spin(machine: &Machine, turns: u64) -> u64 {
    let start = monotonic_ns();
    let waited_before = machine.waited_ns();
    let mut value = 1_u64;
    for turn in 0..turns {
        value = black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ turn);
    }
    black_box(value);
    // A kernel that does not tell leaves it to the estimate over many pairs.
    let waited = machine.waited_ns().zip(waited_before).map_or(0, |(after, before)| after - before);
    let elapsed = monotonic_ns() - start;
    elapsed.saturating_sub(waited)
}

/// Turns of a trial of the loop.
const TRIAL: u64 = 1_000_000;

/// Turns that take about `ns`: the fastest of three trials tells the undisturbed speed.
fn turns_for(machine: &Machine, ns: u64) -> u64 {
    turns_in(ns, (0..3).map(|_| spin(machine, TRIAL)).min().unwrap_or(0))
}

/// Turns in `ns`, where [`TRIAL`] of them took `trial` ns. No CPU makes more than ten a nanosecond: a trial that did was
/// timed wrong, and what it comes to would never end.
fn turns_in(ns: u64, trial: u64) -> u64 {
    (TRIAL as f64 * ns as f64 / trial.max(TRIAL / 10) as f64) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use pmuscope_machine::place::{current_cpu, set_affinity};

    use super::*;

    #[test]
    fn turns_are_few_enough_to_end_however_a_trial_was_timed() {
        assert_eq!(turns_in(5_000_000, 500_000), 10_000_000);
        assert_eq!(turns_in(5_000_000, 0), 50_000_000);
    }

    #[test]
    fn a_loop_beside_another_on_its_cpu_takes_what_it_takes_alone() {
        let machine = Machine::host();
        if machine.waited_ns().is_none() {
            eprintln!("skipped: this kernel does not tell how long a thread waits");
            return;
        }
        let done = AtomicBool::new(false);
        let cpu = [current_cpu()].into_iter().collect();
        set_affinity(&cpu).unwrap();
        let (elapsed, spun) = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    black_box(0);
                }
            });
            // Both threads run here: the other one inherited the mask.
            let start = monotonic_ns();
            let mut spun = 0;
            while monotonic_ns() - start < 200_000_000 {
                spun += spin(&machine, 1_000_000);
            }
            done.store(true, Ordering::Relaxed);
            (monotonic_ns() - start, spun)
        });
        // It had half of the CPU, or less where other programs ran too.
        assert!(spun * 4 < elapsed * 3, "{spun} of {elapsed} ns");
        assert!(spun > 0);
    }
}
