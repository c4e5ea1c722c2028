//! Intervals of a program in phases, of which the recording has some sixty: enough, but not by much.

use crate::windows::{cells, row, simulated};
use pmuscope_testkit::simulator::{Function, PhaseLength, Phases, Run};

/// The second phase runs `common` less, and everything at half the speed.
const SECOND: [(f64, f64); 2] = [(0.2, 0.5), (0.8, 0.5)];
const RECORDINGS: u64 = 60;

fn run(seed: u64) -> Run {
    let function =
        |name, weight| Function { shape: 1, weight, ..Function::plain(name, 6000.0, 1.0) };
    Run {
        functions: vec![function("common", 0.6), function("other", 0.4)],
        phases: Some(Phases { mean: 5e6, length: PhaseLength::Exponential, second: &SECOND }),
        cycles: 3e8,
        cpus: 1,
        period: 50_000,
        counts: 1,
        seed,
        ..Run::default()
    }
}

/// If a metric's own phases withheld its interval, a third of the recordings would have one, and these would
/// be those whose variance came out too small.
#[test]
fn the_phases_of_large_functions_decide_about_intervals_of_their_metrics() {
    let truth = (0.6 + 0.2) / (0.6 + 0.2 * 0.5);
    let (mut all, mut held) = (0, 0);
    for seed in 0..RECORDINGS {
        let windows = simulated(&run(seed));
        if let Some(interval) = cells(&windows, row(&windows, "common"))[0].interval {
            all += 1;
            held += u64::from(interval.contains(truth));
        }
    }
    println!("{held} of {all} of {RECORDINGS}");
    assert!(4 * all > 3 * RECORDINGS, "{all} of {RECORDINGS} have an interval");
    assert!(held as f64 > 0.88 * all as f64, "{held} of {all}");
}
