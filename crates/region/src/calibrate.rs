//! The overhead of regions, measured with empty ones.
//!
//! ```text
//!  outer ─► inner · inner · … · inner ─► exit      all empty
//!           └─ inside: what an empty region sees of its own reading
//!           └─ around: what the region outside sees of each
//! ```

use std::time::Instant;

use pmuscope_stats::{LEVEL, median, median_interval};

use crate::report::{Figure, Overhead};
use crate::set::CounterSet;

/// Rounds whose median is taken; one more comes before.
const ROUNDS: usize = 31;
/// Inner entries of a round.
const ENTRIES: u32 = 32;
/// Any number, always the same: equal rounds give equal intervals.
const SEED: u64 = 0x656d_7074_7900_0001;

/// Measures empty regions in the calling thread, whose current set this is, and forgets them again.
pub(crate) fn calibrate(set: &CounterSet) {
    let rounds: Vec<Round> = (0..=ROUNDS).filter_map(|_| round(set)).skip(1).collect();
    set.clear();
    let times: Vec<f64> = rounds.iter().map(|round| round.seconds).collect();
    let each = |of: fn(&Round) -> &Vec<f64>| {
        let events = set.events().len();
        let of_event = |event| rounds.iter().map(|round| of(round)[event]).collect::<Vec<f64>>();
        (0..events).map(|event| median(&of_event(event))).collect()
    };
    let overhead = Overhead {
        seconds: median_interval(&times, LEVEL, SEED).map(Figure::from),
        inside: each(|round| &round.inside),
        around: each(|round| &round.around),
    };
    // Only the one that sets it up calibrates it.
    let _ = set.inner().overhead.set(overhead);
}

/// What one round says of an entry.
struct Round {
    seconds: f64,
    inside: Vec<f64>,
    around: Vec<f64>,
}

/// `None` where not all of it was counted.
fn round(set: &CounterSet) -> Option<Round> {
    set.clear();
    let (outer, inner) = (set.region("outer"), set.region("inner"));
    let started = Instant::now();
    let entry = outer.enter();
    for _ in 0..ENTRIES {
        drop(inner.enter());
    }
    drop(entry);
    let seconds = started.elapsed().as_secs_f64() / f64::from(ENTRIES + 1);
    let shared = set.inner().shared();
    let of = |region: usize| {
        let tally = |tallies: &std::sync::Arc<crate::set::Tallies>| {
            tallies.locked().get(region).cloned().flatten()
        };
        shared.threads.iter().find_map(tally)
    };
    let (outer, inner) = (of(0)?, of(1)?);
    if outer.whole != 1 || inner.whole != u64::from(ENTRIES) {
        return None;
    }
    let inside: Vec<f64> =
        inner.totals.iter().map(|&total| total as f64 / f64::from(ENTRIES)).collect();
    let around = outer.totals.iter().zip(&inside);
    let around =
        around.map(|(&total, inside)| (total as f64 - inside) / f64::from(ENTRIES)).collect();
    Some(Round { seconds, inside, around })
}
