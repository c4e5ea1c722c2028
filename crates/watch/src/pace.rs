//! When points are armed, so that hits take no more of the target's time than they may.
//!
//! The kernel does not throttle breakpoints that stop at every hit, so the limit is ours. Hits cost what
//! was measured before ([`crate::cost`]); what they may cost is a share of the work that the target
//! has done:
//!
//! ```text
//!  credit = the larger of limit × (CPU time of the target − hits × cost) and an advance, − hits × cost
//!
//!  credit   ▇▇▆▅▃▁_____▁▂▃▅▃▁____▁▂▃▅▃▁___      below 0: off, until there is enough for a slice
//!  armed    ████████        ███       ███        a slice: 10 ms at most
//! ```
//!
//! The advance lets a program with few hits be seen whole; it is used up before anything is added to it. Pauses are drawn from half to one and a half
//! times what is due, so that slices do not keep step with the target.

use std::time::Duration;

/// What a hit costs a program, over what it costs in the loop that measures it: 1.18 where both were measured
/// (docs/benchmarks.md).
const PRUDENCE: f64 = 1.25;
/// Hit time that may be spent before there is any limit, nanoseconds.
pub const ALLOWANCE_NS: f64 = 100e6;
/// A slice is worth arming for if it can last so long …
const SLICE_NS: f64 = 2e6;
/// Share of the limit that turns may have for sure.
const SHARE_OF_TURNS: f64 = 0.5;
/// … and is looked at after so long at most.
const LONGEST_SLICE: Duration = Duration::from_millis(10);
const SHORTEST_SLICE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// How often one readings where nothing is limited.
const LOOK: Duration = Duration::from_millis(20);

/// A limit, and what was seen of the target.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// Extra time per time of work, 0.1 is 10 %; `None`: no limit.
    limit: Option<f64>,
    cost_ns: f64,
    /// Nanoseconds of hits per nanosecond armed, as of late.
    burn: Option<f64>,
    /// Nanoseconds of credit per nanosecond, as of late.
    refill: f64,
    last: Seen,
}

/// What is known at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Seen {
    /// Nanoseconds of any clock.
    pub(crate) now: u64,
    /// Nanoseconds armed until now.
    pub(crate) armed: u64,
    /// Hits until now.
    pub(crate) hits: u64,
    /// CPU time of the target until now, nanoseconds.
    pub(crate) cpu: u64,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PaceStep {
    /// Points are to be armed.
    pub(crate) armed: bool,
    /// Look again after so long.
    pub(crate) wait: Duration,
}

impl Pace {
    pub(crate) fn new(limit: Option<f64>, cost_ns: f64) -> Self {
        Self { limit, cost_ns, burn: None, refill: 0.0, last: Seen::default() }
    }

    /// Nanoseconds that hits may still take.
    fn credit(&self, limit: f64, seen: &Seen) -> f64 {
        let spent = seen.hits as f64 * self.cost_ns;
        let work = (seen.cpu as f64 - spent).max(0.0);
        (limit / PRUDENCE * work).max(ALLOWANCE_NS) - spent
    }

    /// What to do now; `armed` says whether points are. `random` is from 0 to 1.
    pub(crate) fn step(&mut self, seen: Seen, armed: bool, random: f64) -> PaceStep {
        let Some(limit) = self.limit else { return PaceStep { armed: true, wait: LOOK } };
        self.learn(limit, &seen);
        let credit = self.credit(limit, &seen);
        let burn = self.burn.unwrap_or(0.0);
        if armed && credit > 0.0 {
            return PaceStep { armed: true, wait: slice(credit, burn) };
        }
        let wanted = burn * SLICE_NS;
        if !armed && credit >= wanted {
            return PaceStep { armed: true, wait: slice(credit, burn) };
        }
        let due = (wanted - credit) / self.refill.max(1e-6) * (0.5 + random);
        let due = Duration::from_nanos(due.min(LONGEST_PAUSE.as_nanos() as f64) as u64);
        PaceStep { armed: false, wait: due.clamp(SHORTEST_SLICE, LONGEST_PAUSE) }
    }

    /// What hits take while armed, and what the target's work gives, as of late.
    fn learn(&mut self, limit: f64, seen: &Seen) {
        let armed = seen.armed.saturating_sub(self.last.armed) as f64;
        if armed > 0.0 {
            let hits = seen.hits.saturating_sub(self.last.hits) as f64;
            let burn = hits * self.cost_ns / armed;
            self.burn = Some(self.burn.map_or(burn, |before| 0.5 * (before + burn)));
        }
        if seen.now > 0 {
            // Since the start: the target's work comes in larger steps than slices do.
            let work = (seen.cpu as f64 - seen.hits as f64 * self.cost_ns).max(0.0);
            self.refill = limit / PRUDENCE * work / seen.now as f64;
        }
        self.last = *seen;
    }

    /// Whether so many hits, whatever else was hit, take less than half of what the limit leaves in a second and in the
    /// time since the start, nanoseconds.
    pub(crate) fn affords(&self, hits: u64, since_start: u64) -> bool {
        let time = since_start as f64 + 1e9;
        self.limit.is_none_or(|limit| {
            hits as f64 * self.cost_ns <= limit / PRUDENCE * time * SHARE_OF_TURNS
        })
    }

    /// Hit time per time of work until now.
    pub(crate) fn slowdown(&self, seen: &Seen) -> Option<f64> {
        let spent = seen.hits as f64 * self.cost_ns;
        let work = seen.cpu as f64 - spent;
        (work > 0.0).then(|| spent / work)
    }
}

/// How long points stay armed before the next reading.
fn slice(credit: f64, burn: f64) -> Duration {
    if burn <= 0.0 {
        return LONGEST_SLICE;
    }
    let lasts = (credit / burn).min(LONGEST_SLICE.as_nanos() as f64);
    Duration::from_nanos(lasts as u64).clamp(SHORTEST_SLICE, LONGEST_SLICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A target that would hit so often per nanosecond of its work, on so many CPUs, for a time.
    struct Target {
        hits_per_ns: f64,
        cpus: f64,
        cost_ns: f64,
    }

    /// What came of it: CPU time, work, hits, time armed; all in nanoseconds.
    fn run(target: &Target, limit: Option<f64>, until: f64, seed: u64) -> (f64, f64, f64, f64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pace = Pace::new(limit, target.cost_ns);
        let (mut now, mut cpu, mut work, mut hits, mut armed_ns) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut armed = true;
        while now < until {
            let seen = Seen {
                now: now as u64,
                armed: armed_ns as u64,
                hits: hits as u64,
                cpu: cpu as u64,
            };
            let step = pace.step(seen, armed, random.f64());
            armed = step.armed;
            let time = step.wait.as_nanos() as f64;
            // A nanosecond of work takes so much longer with hits.
            let slower = if armed { 1.0 + target.hits_per_ns * target.cost_ns } else { 1.0 };
            now += time;
            cpu += time * target.cpus;
            work += time * target.cpus / slower;
            if armed {
                hits += time * target.cpus / slower * target.hits_per_ns;
                armed_ns += time;
            }
        }
        (cpu, work, hits, armed_ns)
    }

    #[test]
    fn without_a_limit_points_are_armed_all_the_time() {
        let mut pace = Pace::new(None, 1e6);
        let seen = Seen { now: 10, armed: 10, hits: 1 << 40, cpu: 1 };
        assert!(pace.step(seen, true, 0.5).armed);
    }

    #[test]
    fn turns_have_hits_for_sure_within_the_limit() {
        let pace = Pace::new(Some(0.1), 5_000.0);
        let allowed = (0..).find(|&hits| !pace.affords(hits, 0)).unwrap();
        assert_eq!(allowed, 8_001, "40 ms");
        assert!(pace.affords(8_001, 1_000_000_000) && !pace.affords(16_001, 1_000_000_000));
        assert!(Pace::new(None, 5_000.0).affords(u64::MAX, 0));
    }

    #[test]
    fn few_hits_are_seen_whole() {
        let target = Target { hits_per_ns: 1e4 / 1e9, cpus: 1.0, cost_ns: 2000.0 };
        let (cpu, _, _, armed) = run(&target, Some(0.1), 5e9, 1);
        assert_eq!(cpu, armed);
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_is_used(
            per_second in 1e2..1e8_f64,
            cpus in 1..64_u32,
            cost_ns in 200.0..12_000.0_f64,
            limit in 0.01..0.5_f64,
            seed: u64,
        ) {
            let target = Target { hits_per_ns: per_second / 1e9, cpus: f64::from(cpus), cost_ns };
            let until = 5e9;
            let (cpu, work, hits, armed) = run(&target, Some(limit), until, seed);
            let spent = hits * cost_ns;
            // The first reading comes after 10 ms, on all CPUs; from then on slices end in time.
            let slack = 20e6 * target.cpus;
            prop_assert!(spent <= (limit * work).max(ALLOWANCE_NS) + slack, "{spent} of {work}");
            // What would not reach the limit is not limited, what would gets close to it.
            let all = cpu * per_second / 1e9 * cost_ns;
            if all < limit * cpu * 0.5 {
                prop_assert!(armed > 0.99 * until, "armed {armed} of {until}");
            } else if all > limit * cpu * 2.0 {
                prop_assert!(spent > 0.5 * limit * work, "{spent} of {}", limit * work);
            }
        }
    }
}
