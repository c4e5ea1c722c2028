//! Sets the phase of two sampling events that count the same thing.
//!
//! ```text
//!   off, period, read     enable A ── spin ── enable B      read: A.count − B.count
//!                         │◄────────── offset ─────────►│   has grown by the offset, exactly
//! ```
//!
//! Setting a period forgets how much of it had passed, so both overflow at every multiple of the period
//! from their being enabled: B always so many counts
//! after A, a window. How long the spin must be is found by trial, since between the two calls there
//! are the halves of system calls that run in user mode too.
//!
//! All of it runs on the CPU of the events, in a process that they count. Nothing here allocates: it
//! also runs in a child that was forked while other threads ran.

use std::io;
use std::os::fd::BorrowedFd;

use pmuscope_counters::Kernel;

use crate::clock::clock_ns;

/// Sampling events of a group: one that opens a window and seven that close one.
pub(crate) const MOST_EDGES: usize = 8;
/// Tries before the phase is given up for now.
pub(crate) const MOST_TRIES: u32 = 40;
/// So many tries look for the very window, where counts come in steps, or one that is off by a hundredth.
const PICKY_TRIES: u32 = 8;
/// Words of a group read: the number of members, and a count and an id each.
const READ_WORDS: usize = 1 + 2 * 32;

/// `A.count − B.count` of each edge after the first, in wrapping numbers.
pub(crate) type EdgeDifferences = [u64; MOST_EDGES - 1];

/// What is to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PhaseOrder {
    /// Period of all edges.
    pub(crate) period: u64,
    /// Offset from one edge to the next.
    pub(crate) window: u64,
    /// An offset may be off by so much.
    pub(crate) tolerance: u64,
    /// What counts are multiples of.
    pub(crate) granule: u64,
    /// Turns of the spin that were right the last time; `None`: not known.
    pub(crate) turns: Option<u64>,
    /// Clock of the time stamps.
    pub(crate) clockid: i32,
}

impl PhaseOrder {
    /// How far off an offset may be at first: a second try costs microseconds.
    fn picky(&self) -> u64 {
        if self.granule > 1 { 0 } else { self.tolerance.min(self.window / 100) }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Achieved {
    /// No sample of the tries before is later, none of this phase earlier; nanoseconds.
    pub(crate) from_ns: u64,
    /// Offset of each edge after the first, as far as there are such.
    pub(crate) offsets: EdgeDifferences,
    /// What the counts were apart before.
    pub(crate) before: EdgeDifferences,
    /// Turns of the spin.
    pub(crate) turns: u64,
    /// Tries that were not accepted before.
    pub(crate) rejected: u32,
}

/// Why the phase could not be set.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A system call failed.
    Call(io::Error),
    /// The group is not on the PMU: it does not fit beside what others have there.
    NotScheduled,
    /// No try came near enough; the nearest offset.
    NeverNear {
        /// Of the first closing edge.
        offset: u64,
    },
}

/// Sets the phase of `edges`, the first of which leads the group. `spin` runs so many steps that
/// depend on each other.
pub(crate) fn set(
    kernel: &dyn Kernel,
    edges: &[BorrowedFd<'_>],
    order: &PhaseOrder,
    spin: &dyn Fn(u64),
) -> Result<Achieved, Failure> {
    let mut search = PhaseSearch::new(order);
    let mut nearest = u64::MAX;
    for rejected in 0..MOST_TRIES {
        let turns = search.turns;
        let Attempt { from_ns, before, offsets } = attempt(kernel, edges, order, turns, spin)?;
        let first = offsets[0];
        let due = |edge: usize| order.window.max(search.floor) * (edge as u64 + 1);
        let tolerance = if rejected < PICKY_TRIES { order.picky() } else { order.tolerance };
        let near = |(edge, offset): (usize, &u64)| offset.abs_diff(due(edge)) <= tolerance;
        if offsets[..edges.len() - 1].iter().enumerate().all(near) {
            return Ok(Achieved { from_ns, offsets, before, turns, rejected });
        }
        if first.abs_diff(order.window) < nearest.abs_diff(order.window) {
            nearest = first;
        }
        search.learn(first);
    }
    Err(Failure::NeverNear { offset: nearest })
}

/// One try.
struct Attempt {
    /// Both were off.
    from_ns: u64,
    /// What counts were apart before.
    before: EdgeDifferences,
    /// What they are apart more.
    offsets: EdgeDifferences,
}

fn attempt(
    kernel: &dyn Kernel,
    edges: &[BorrowedFd<'_>],
    order: &PhaseOrder,
    turns: u64,
    spin: &dyn Fn(u64),
) -> Result<Attempt, Failure> {
    let leader = edges[0];
    for &edge in edges {
        kernel.disable_alone(edge).map_err(Failure::Call)?;
    }
    for &edge in edges {
        // Also forgets how much of the period before had passed.
        kernel.set_period(edge, order.period).map_err(Failure::Call)?;
    }
    let before = match apart(kernel, leader, edges.len()) {
        Err(Failure::NotScheduled) => {
            // It did not fit the last time; the kernel tries again when it is enabled, and only then.
            kernel.enable_alone(leader).map_err(Failure::Call)?;
            kernel.disable_alone(leader).map_err(Failure::Call)?;
            apart(kernel, leader, edges.len())?
        }
        before => before?,
    };
    let from_ns = clock_ns(order.clockid);
    // Between two calls lies the same code each time, so the windows of a burst are of one length; what
    // comes behind the last call is for that alone.
    for &edge in edges {
        kernel.enable_alone(edge).map_err(Failure::Call)?;
        spin(turns);
    }
    let mut offsets = apart(kernel, leader, edges.len())?;
    for (offset, before) in offsets.iter_mut().zip(before) {
        *offset = offset.wrapping_sub(before);
    }
    Ok(Attempt { from_ns, before, offsets })
}

/// What counts are apart: edges are the first members of their group.
fn apart(
    kernel: &dyn Kernel,
    leader: BorrowedFd<'_>,
    edges: usize,
) -> Result<EdgeDifferences, Failure> {
    let mut words = [0; READ_WORDS];
    let filled = kernel.read(leader, &mut words).map_err(Failure::Call)?;
    if filled < 1 + 2 * edges {
        return Err(Failure::NotScheduled);
    }
    let mut apart = [0; MOST_EDGES - 1];
    for (edge, apart) in apart.iter_mut().enumerate().take(edges - 1) {
        *apart = words[1].wrapping_sub(words[3 + 2 * edge]);
    }
    Ok(apart)
}

/// Looks for the number of turns: the offset is a straight line over it, except where the CPU was taken
/// away between the two calls.
#[derive(Debug)]
struct PhaseSearch {
    window: u64,
    turns: u64,
    /// Shortest offset there is: without any turn. 0 until it is known.
    floor: u64,
    /// The last try that was not absurd.
    known: Option<(u64, u64)>,
}

impl PhaseSearch {
    fn new(order: &PhaseOrder) -> Self {
        let turns = order.turns.unwrap_or(0);
        Self { window: order.window, turns, floor: 0, known: None }
    }

    /// Takes in what the turns gave, and chooses the next.
    fn learn(&mut self, offset: u64) {
        if offset > self.window.saturating_mul(10).saturating_add(100_000) {
            return; // preempted: the same once more
        }
        if self.turns == 0 && (self.floor == 0 || offset < self.floor) {
            self.floor = offset;
        }
        let (turns, before) = (self.turns, self.known.replace((self.turns, offset)));
        let slope = match before {
            Some((other, at)) if other != turns => {
                (offset as f64 - at as f64) / (turns as f64 - other as f64)
            }
            _ => 0.0,
        };
        let missing = self.window as f64 - offset as f64;
        self.turns = if slope > 0.01 {
            (turns as f64 + missing / slope).round().clamp(0.0, 1e9) as u64
        } else if missing > 0.0 {
            turns + (missing / 2.0).max(1.0) as u64
        } else {
            turns / 2
        };
        if self.turns == turns && missing != 0.0 {
            // Nearer than a step, or a disturbed try gave a slope that leads nowhere.
            self.known = None;
            self.turns = if missing > 0.0 { turns + 1 } else { turns.saturating_sub(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{HALF_CALL, Pmu};
    use super::*;
    use pmuscope_abi::{Attr, AttrFlags, OpenFlags};
    use std::os::fd::{AsFd as _, OwnedFd};

    /// A group of so many edges, off.
    fn group(pmu: &Pmu, edges: usize) -> Vec<OwnedFd> {
        let attr = Attr { flags: AttrFlags::DISABLED, sample: 1, ..Attr::default() };
        let mut opened: Vec<OwnedFd> = Vec::new();
        for _ in 0..edges {
            let leader = opened.first().map(|fd| fd.as_fd());
            opened.push(pmu.open(&attr, -1, 0, leader, OpenFlags::empty()).unwrap());
        }
        opened
    }

    fn order(window: u64) -> PhaseOrder {
        PhaseOrder { period: 1_000_003, window, tolerance: 2, granule: 1, turns: None, clockid: 1 }
    }

    fn set_on(pmu: &Pmu, edges: usize, order: &PhaseOrder) -> Result<Achieved, Failure> {
        let group = group(pmu, edges);
        let fds: Vec<BorrowedFd<'_>> = group.iter().map(|fd| fd.as_fd()).collect();
        set(pmu, &fds, order, &|steps| pmu.spin(steps))
    }

    #[test]
    fn any_window_is_found_in_few_tries_and_at_once_the_next_time() {
        for window in [60, 80, 100, 152, 300, 1000, 3000, 30_000, 1_000_000] {
            let pmu = Pmu::default();
            let achieved = set_on(&pmu, 2, &order(window)).unwrap();
            assert!(achieved.offsets[0].abs_diff(window) <= 2, "{window}: {achieved:?}");
            assert!(achieved.rejected <= 4, "{window}: {achieved:?}");
            assert_eq!(pmu.periods(), [1_000_003, 1_000_003]);
            let again = PhaseOrder { turns: Some(achieved.turns), ..order(window) };
            assert_eq!(set_on(&Pmu::default(), 2, &again).unwrap().rejected, 0);
        }
    }

    #[test]
    fn a_window_between_two_steps_is_as_near_as_it_comes() {
        let achieved = set_on(&Pmu::default(), 2, &order(150)).unwrap();
        assert!(achieved.offsets[0].abs_diff(150) == 2, "{achieved:?}");
        assert_eq!(achieved.rejected, PICKY_TRIES);
    }

    #[test]
    fn a_window_shorter_than_the_calls_is_as_short_as_they_are() {
        let achieved = set_on(&Pmu::default(), 2, &order(5)).unwrap();
        assert_eq!(achieved.offsets[0], 2 * HALF_CALL);
    }

    #[test]
    fn a_try_that_was_preempted_is_made_again() {
        let pmu = Pmu::default();
        // A try is eight calls: off, off, period, period, read, A on, B on, read.
        for call in [6, 14, 22] {
            pmu.preempt(call, 40_000_000);
        }
        let achieved = set_on(&pmu, 2, &order(300)).unwrap();
        assert!(achieved.offsets[0].abs_diff(300) <= 2 && achieved.rejected >= 3, "{achieved:?}");
    }

    #[test]
    fn edges_of_a_burst_are_a_window_apart_each() {
        let achieved =
            set_on(&Pmu::default(), 4, &PhaseOrder { tolerance: 8, ..order(400) }).unwrap();
        for (edge, offset) in achieved.offsets[..3].iter().enumerate() {
            assert!(offset.abs_diff(400 * (edge as u64 + 1)) <= 8, "{achieved:?}");
        }
    }

    #[test]
    fn a_group_that_is_not_on_the_pmu_is_told_from_one_that_counts_nothing() {
        let pmu = Pmu::with_counters(1);
        assert!(matches!(set_on(&pmu, 2, &order(300)), Err(Failure::NotScheduled)));
        let pmu = Pmu::default();
        let group = group(&pmu, 2);
        pmu.unplug();
        let fds = [group[0].as_fd(), group[1].as_fd()];
        let failure = set(&pmu, &fds, &order(300), &|steps| pmu.spin(steps)).unwrap_err();
        assert!(matches!(failure, Failure::NeverNear { offset: 0 }), "{failure:?}");
    }
}
