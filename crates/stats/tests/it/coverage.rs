//! 2000 data sets with a known truth each; nominal 95 % has to cover 92 to 98 % of them, 93.5 to 97.5 % of shares. All
//! seeded, so a failure is a change of the method, not chance.

use std::ops::RangeInclusive;

use pmuscope_stats::{
    Estimate, Interval, LEVEL, Shares, difference_of_means, hodges_lehmann_ratio,
    hodges_lehmann_shift, mean_interval, median_interval, paired_difference, paired_ratio,
    ratio_of_means, ratio_of_medians, share_over_time, signed_rank_center,
};

const DATA_SETS: u64 = 2000;

#[track_caller]
fn covers(what: &str, truth: f64, interval: impl FnMut(u64) -> Option<Interval>) {
    covers_in(0.92..=0.98, 0.5, what, truth, interval);
}

/// Of shares over time, of which some have no interval.
#[track_caller]
fn share_covers(what: &str, truth: f64, interval: impl FnMut(u64) -> Option<Interval>) {
    covers_in(0.935..=0.975, 0.85, what, truth, interval);
}

#[track_caller]
fn covers_in(
    allowed: RangeInclusive<f64>,
    least: f64,
    what: &str,
    truth: f64,
    mut interval: impl FnMut(u64) -> Option<Interval>,
) {
    let made: Vec<Interval> = (0..DATA_SETS).filter_map(&mut interval).collect();
    let hits = made.iter().filter(|interval| interval.contains(truth)).count();
    let coverage = hits as f64 / made.len() as f64;
    eprintln!("{what}: covers {coverage:.4}, {} intervals", made.len());
    assert!(made.len() as f64 >= least * DATA_SETS as f64, "{what}: {} intervals", made.len());
    assert!(allowed.contains(&coverage), "{what}: covers {coverage}");
}

/// Box & Muller 1958.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    let (u, v) = (1.0 - rng.f64(), rng.f64());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A run time as machines produce them: a narrow body with 3 % spread.
fn quiet(rng: &mut fastrand::Rng) -> f64 {
    10.0 * (0.03 * normal(rng)).exp()
}

/// One in seven disturbed by up to 3 of 10 s.
fn disturbed(rng: &mut fastrand::Rng) -> f64 {
    let late = if rng.u32(..7) == 0 { 3.0 * rng.f64() } else { 0.0 };
    quiet(rng) + late
}

fn many(rng: &mut fastrand::Rng, n: usize, time: fn(&mut fastrand::Rng) -> f64) -> Vec<f64> {
    (0..n).map(|_| time(rng)).collect()
}

fn interval(estimate: Option<Estimate>) -> Option<Interval> {
    estimate?.interval
}

#[test]
fn of_one_sample() {
    for n in [5, 10, 20] {
        let mut rng = fastrand::Rng::with_seed(1);
        covers(&format!("median, n {n}"), 10.0, |seed| {
            interval(median_interval(&many(&mut rng, n, quiet), LEVEL, seed))
        });
        let mean = 10.0 * (0.03_f64.powi(2) / 2.0).exp();
        covers(&format!("mean, n {n}"), mean, |_| {
            interval(mean_interval(&many(&mut rng, n, quiet), LEVEL))
        });
    }
}

#[test]
fn of_two_independent_samples() {
    for (name, time) in [("quiet", quiet as fn(&mut _) -> _), ("disturbed", disturbed)] {
        for n in [5, 10, 15] {
            let mut rng = fastrand::Rng::with_seed(2);
            // Other sizes and a fourfold scale on the second side.
            let mut draw = move || {
                let base = many(&mut rng, n, time);
                let other = many(&mut rng, n + 2, time);
                (base, other.iter().map(|v| 4.0 * v).collect::<Vec<_>>())
            };
            covers(&format!("ratio of medians, {name} {n}"), 4.0, |seed| {
                let (base, other) = draw();
                interval(ratio_of_medians(&base, &other, LEVEL, seed))
            });
            covers(&format!("ratio of means, {name} {n}"), 4.0, |_| {
                let (base, other) = draw();
                interval(ratio_of_means(&base, &other, LEVEL))
            });
            covers(&format!("Hodges-Lehmann ratio, {name} {n}"), 4.0, |_| {
                let (base, other) = draw();
                interval(hodges_lehmann_ratio(&base, &other, LEVEL))
            });
            let shifted = |v: Vec<f64>| v.iter().map(|v| v / 4.0 + 1.0).collect::<Vec<_>>();
            covers(&format!("difference of means, {name} {n}"), 1.0, |_| {
                let (base, other) = draw();
                interval(difference_of_means(&base, &shifted(other), LEVEL))
            });
            covers(&format!("Hodges-Lehmann shift, {name} {n}"), 1.0, |_| {
                let (base, other) = draw();
                interval(hodges_lehmann_shift(&base, &shifted(other), LEVEL))
            });
        }
    }
}

#[test]
fn of_pairs_that_share_a_disturbance() {
    for n in [6, 10, 15, 40, 120] {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut draw = move || -> Vec<(f64, f64)> {
            let pair = |rng: &mut fastrand::Rng| {
                let shared = (0.2 * normal(rng)).exp();
                (shared * quiet(rng), 1.1 * shared * quiet(rng))
            };
            (0..n).map(|_| pair(&mut rng)).collect()
        };
        covers(&format!("paired ratio, n {n}"), 1.1, |_| interval(paired_ratio(&draw(), LEVEL)));
        let log = |pairs: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
            pairs.iter().map(|(a, b)| (a.ln(), b.ln())).collect()
        };
        covers(&format!("paired difference, n {n}"), 1.1_f64.ln(), |_| {
            interval(paired_difference(&log(draw()), LEVEL))
        });
        covers(&format!("signed rank center, n {n}"), 1.1_f64.ln(), |_| {
            let differences: Vec<f64> = log(draw()).iter().map(|(a, b)| b - a).collect();
            interval(signed_rank_center(&differences, LEVEL))
        });
    }
}

/// Blocks whose share is 0.3 on average and drifts: an autoregression of first order with lag-1
/// correlation `rho`, as phases of a program make it.
fn drifting_parts(rng: &mut fastrand::Rng, totals: &[f64], rho: f64) -> Vec<f64> {
    let mut state = normal(rng);
    let mut part = |total: &f64| {
        state = rho * state + (1.0 - rho * rho).sqrt() * normal(rng);
        total * (0.3 + 0.05 * state)
    };
    totals.iter().map(&mut part).collect()
}

#[test]
fn of_a_share_whose_blocks_are_correlated() {
    for (blocks, rho) in
        [(30, 0.0), (30, 0.3), (60, 0.3), (100, 0.0), (150, 0.5), (200, 0.5), (250, 0.6)]
    {
        let mut rng = fastrand::Rng::with_seed(4);
        let totals: Vec<f64> = (0..blocks).map(|_| 1000.0 + 100.0 * rng.f64()).collect();
        let shares = Shares::new(&totals).unwrap();
        share_covers(&format!("share, {blocks} blocks, rho {rho}"), 0.3, |_| {
            shares.interval(&drifting_parts(&mut rng, &totals, rho))
        });
    }
}

#[test]
fn of_a_share_of_few_samples() {
    let totals = [1000.0; 100];
    let shares = Shares::new(&totals).unwrap();
    for expected in [5.0, 20.0, 100.0] {
        let mut rng = fastrand::Rng::with_seed(5);
        share_covers(&format!("share, {expected} samples"), expected / 1e5, |_| {
            // Arrivals of a Poisson process over the whole recording.
            let mut parts = [0.0; 100];
            let mut time = -(1.0 - rng.f64()).ln() / expected;
            while time < 1.0 {
                parts[(time * 100.0) as usize] += 1.0;
                time -= (1.0 - rng.f64()).ln() / expected;
            }
            shares.interval(&parts)
        });
    }
}

/// What blocks of time are for: the binomial interval of the same shares is far too narrow.
#[test]
fn a_binomial_interval_would_not_cover() {
    let mut rng = fastrand::Rng::with_seed(6);
    let totals = [1000.0; 100];
    let hits = (0..DATA_SETS).filter(|_| {
        let share = drifting_parts(&mut rng, &totals, 0.5).iter().sum::<f64>() / 1e5;
        (share - 0.3).abs() < 1.96 * (share * (1.0 - share) / 1e5).sqrt()
    });
    assert!((hits.count() as f64) < 0.5 * DATA_SETS as f64);
}

/// A program that alternates between two phases of random length: share of samples that hit, by block.
fn alternating(rng: &mut fastrand::Rng, phase: f64) -> Vec<(f64, f64)> {
    let length = |rng: &mut fastrand::Rng| -phase * (1.0 - rng.f64()).ln();
    let (mut is_first, mut left) = (rng.bool(), length(rng));
    let mut block = || {
        let (mut time, mut first) = (1.0_f64, 0.0);
        while time > 0.0 {
            let step = time.min(left);
            first += if is_first { step } else { 0.0 };
            (time, left) = (time - step, left - step);
            if left <= 0.0 {
                (is_first, left) = (!is_first, length(rng));
            }
        }
        let expected = 60.0 * first + 20.0 * (1.0 - first);
        ((expected + expected.sqrt() * normal(rng)).max(0.0), 100.0)
    };
    (0..200).map(|_| block()).collect()
}

/// 200 blocks; phases of 0.2 to 3 blocks have an interval, those of 20 blocks do not.
#[test]
fn of_a_program_in_phases() {
    for phase in [0.2, 1.0, 3.0] {
        let mut rng = fastrand::Rng::with_seed(8);
        share_covers(&format!("phases of {phase} blocks"), 0.4, |_| {
            share_over_time(&alternating(&mut rng, phase))
        });
    }
    let mut rng = fastrand::Rng::with_seed(9);
    let made = (0..300).filter_map(|_| share_over_time(&alternating(&mut rng, 20.0))).count();
    assert!(made < 15, "{made} of 300 have an interval");
}
