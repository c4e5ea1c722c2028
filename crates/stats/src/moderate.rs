//! Moderated tests: many metrics at once, from few runs per side.
//!
//! With five runs per side the spread of one metric is known so poorly that hardly any difference
//! stays significant among hundreds of tests; with ranks none can (2 of 252 orders is the rarest).
//! But hundreds of metrics show how spreads are distributed. Smyth (2004, Statistical Applications in
//! Genetics and Molecular Biology 3) treats each variance as a draw from a scaled inverse χ², fits
//! that to all, and shrinks each variance towards its center: the test gains the degrees of freedom
//! of the fit.
//!
//! Three things differ here, each since counters are not genes:
//! - Spreads of counters differ by orders of magnitude (instructions 0.001%, rare events 30%). A
//!   metric far quieter than the rest would lose power by shrinkage. So each is tested both ways, with
//!   its own spread (Welch 1947) and with the moderated one, and the smaller p is doubled
//!   (Bonferroni).
//! - A metric far noisier than the fit allows (F test at 1%) keeps its own spread, and the fit is
//!   made without it, after Phipson et al. (2016, Annals of Applied Statistics 10).
//! - What disturbs a run disturbs many metrics, so their variances are not independent. The center is
//!   given the weight of no more than (1/m + r²)⁻¹ of m metrics, with r² the mean squared correlation
//!   within sides.

use crate::dist::{f_upper, t_two_sided};
use crate::pairs::Pairs;
use crate::samples::{Moments, TwoSamples, each_shared};
use crate::serial::correlation_in_time;
use crate::special::{digamma, trigamma, trigamma_inverse};

/// Fewer figures do not tell how variances are distributed.
const MIN_FIGURES: usize = 20;
/// A variance that the fit makes rarer than this is not of it.
const STRANGE: f64 = 0.01;
/// Pairs of figures looked at for their correlation: enough that its mean is known to 0.002.
const PAIRS: usize = 10_000;

/// A test whether a metric is the same in two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Two-sided p-value: the smaller of the two, doubled.
    pub p: f64,
    /// From the metric's own spread (Welch).
    pub own: f64,
    /// From the spread shrunk towards that of other metrics; `None` where they give no information.
    pub moderated: Option<f64>,
}

/// How variances of figures are distributed: a scaled inverse χ².
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prior {
    variance: f64,
    /// May be infinite: all variances are one.
    freedom: f64,
}

/// What a test needs to know of one figure, whatever its runs were: two samples, or pairs.
#[derive(Debug, Clone)]
pub(crate) struct Contrast {
    /// Values that vary by chance only within each of the two lists, by number of the run.
    pub(crate) within: [Vec<(usize, f64)>; 2],
    /// Spreads of figures that may be 0 are of another kind.
    pub(crate) is_log: bool,
    /// What is tested to be 0.
    pub(crate) shift: f64,
    /// Variance of a value.
    pub(crate) variance: f64,
    /// Degrees of freedom of `variance`.
    pub(crate) freedom: f64,
    /// The variance of `shift` is this many times `variance`.
    pub(crate) scale: f64,
    /// p-value from the figure's own spread alone.
    pub(crate) own: f64,
}

/// Tests each metric, using what all of them show about spreads and about how much runs depend on
/// earlier ones. `None` with fewer than two values on a side, where all values are equal, and where no
/// side varies and the least step is not known.
pub fn change_tests(figures: &[TwoSamples]) -> Vec<Option<Change>> {
    let of_all = correlation_in_time(figures);
    tests(&figures.iter().map(|one| of_samples(one, of_all)).collect::<Vec<_>>())
}

/// As [`change_tests`], for metrics of paired runs: Student's test of the differences (Student
/// 1908), corrected for the order of the two runs ([`Pairs`]). `None` with fewer than three pairs,
/// too.
pub fn paired_tests(figures: &[Pairs]) -> Vec<Option<Change>> {
    tests(&figures.iter().map(Pairs::contrast).collect::<Vec<_>>())
}

fn tests(contrasts: &[Option<Contrast>]) -> Vec<Option<Change>> {
    let of_logs: Vec<&Contrast> = contrasts.iter().flatten().filter(|one| one.is_log).collect();
    let prior = fit_all(&of_logs);
    let test = |one: &Contrast| change(one, prior.filter(|_| one.is_log));
    contrasts.iter().map(|one| one.as_ref().map(test)).collect()
}

fn of_samples(figure: &TwoSamples, of_all: f64) -> Option<Contrast> {
    let scaled = figure.scaled().filter(|_| !figure.is_constant())?;
    let moments = scaled.moments(of_all)?;
    Some(Contrast {
        own: welch(&moments)?,
        is_log: scaled.is_log,
        shift: moments.shift,
        variance: moments.pooled(),
        freedom: moments.freedom(),
        scale: 1.0 / moments.n.0 + 1.0 / moments.n.1,
        within: [scaled.a, scaled.b],
    })
}

fn change(one: &Contrast, prior: Option<Prior>) -> Change {
    let own = one.own;
    let moderated = prior.filter(|prior| !is_strange(one, prior)).map(|prior| {
        let all = one.freedom + prior.freedom;
        let variance = (prior.freedom * prior.variance + one.freedom * one.variance) / all;
        t_two_sided(one.shift / (variance * one.scale).sqrt(), all)
    });
    // Two ways to look, so the better one counts half.
    let p = moderated.map_or(own, |moderated| (2.0 * own.min(moderated)).min(1.0));
    Change { p, own, moderated }
}

fn welch(moments: &Moments) -> Option<f64> {
    let (error, freedom) = moments.error();
    (error > 0.0).then(|| t_two_sided(moments.shift / error, freedom))
}

fn is_strange(one: &Contrast, prior: &Prior) -> bool {
    f_upper(one.variance / prior.variance, one.freedom, prior.freedom) < STRANGE
}

/// The distribution of the variances of these figures, believed as far as they are independent.
fn fit_all(figures: &[&Contrast]) -> Option<Prior> {
    let mut taken: Vec<&Contrast> =
        figures.iter().copied().filter(|one| one.variance > 0.0).collect();
    let mut prior = fit(&taken)?;
    for _ in 0..3 {
        let before = taken.len();
        taken.retain(|one| !is_strange(one, &prior));
        if taken.len() == before {
            break;
        }
        prior = fit(&taken)?;
    }
    let freedom = taken.iter().map(|one| one.freedom).sum::<f64>() / taken.len() as f64;
    let believed = freedom / (1.0 / taken.len() as f64 + mean_square_correlation(&taken));
    prior.freedom = prior.freedom.min(believed);
    Some(prior)
}

/// By the moments of ln s², Smyth 2004, section 6.2.
fn fit(figures: &[&Contrast]) -> Option<Prior> {
    if figures.len() < MIN_FIGURES {
        return None;
    }
    let n = figures.len() as f64;
    let half = |one: &Contrast| one.freedom / 2.0;
    let logs: Vec<f64> =
        figures.iter().map(|one| one.variance.ln() - digamma(half(one)) + half(one).ln()).collect();
    let center = logs.iter().sum::<f64>() / n;
    let spread = logs.iter().map(|e| (e - center).powi(2)).sum::<f64>() / (n - 1.0);
    let by_chance = figures.iter().map(|one| trigamma(half(one))).sum::<f64>() / n;
    if spread <= by_chance {
        return Some(Prior { variance: center.exp(), freedom: f64::INFINITY });
    }
    let half = trigamma_inverse(spread - by_chance);
    Some(Prior { variance: (center + digamma(half) - half.ln()).exp(), freedom: 2.0 * half })
}

/// Mean of r² within sides over pairs of figures, less what chance makes of independent ones. Figures
/// of different runs are independent.
fn mean_square_correlation(figures: &[&Contrast]) -> f64 {
    let figures: Vec<[Vec<(usize, f64)>; 2]> =
        figures.iter().map(|one| one.within.each_ref().map(|list| centerd(list))).collect();
    let m = figures.len();
    let all = m * (m - 1) / 2;
    let of = |i: usize, j: usize| beyond_chance(&figures[i], &figures[j]).unwrap_or(0.0);
    let sum: f64 = if all <= PAIRS {
        (0..m).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| of(i, j)).sum()
    } else {
        let mut rng = fastrand::Rng::with_seed(PAIRS as u64);
        let mut pair = || {
            let i = rng.usize(..m);
            (i, (i + rng.usize(1..m)) % m)
        };
        (0..PAIRS).map(|_| pair()).map(|(i, j)| of(i, j)).sum()
    };
    (sum / all.min(PAIRS) as f64).max(0.0)
}

/// Large values that differ little keep their differences in the sums of squares that follow.
fn centerd(sample: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let center = sample.iter().map(|&(_, value)| value).sum::<f64>() / sample.len() as f64;
    sample.iter().map(|&(run, value)| (run, value - center)).collect()
}

/// r² within sides of the runs that both have, less what chance makes of it; `None` for few runs.
fn beyond_chance(x: &[Vec<(usize, f64)>; 2], y: &[Vec<(usize, f64)>; 2]) -> Option<f64> {
    let (mut xx, mut yy, mut xy, mut freedom) = (0.0, 0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let mut sums = [0.0; 6];
        each_shared(x, y, |x, y| {
            for (sum, add) in sums.iter_mut().zip([1.0, x, y, x * x, y * y, x * y]) {
                *sum += add;
            }
        });
        let [n, sx, sy, sxx, syy, sxy] = sums;
        if n >= 2.0 {
            xx += sxx - sx * sx / n;
            yy += syy - sy * sy / n;
            xy += sxy - sx * sy / n;
            freedom += n - 1.0;
        }
    }
    let by_chance = 1.0 / freedom;
    let square = xy * xy / (xx * yy);
    (freedom > 1.0 && square.is_finite()).then(|| (square - by_chance) / (1.0 - by_chance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(a: &[f64], b: &[f64], resolution: f64) -> TwoSamples {
        let number = |values: &[f64]| values.iter().copied().enumerate().collect();
        TwoSamples { a: number(a), b: number(b), resolution }
    }

    #[test]
    fn few_figures_have_their_own_spread_only() {
        let figure = two(&[10.0, 11.0, 12.0], &[20.0, 21.0, 23.0], 0.0);
        let tested = change_tests(&[figure])[0].unwrap();
        assert_eq!((tested.moderated, tested.p), (None, tested.own));
        assert!(tested.p < 0.01);
    }

    #[test]
    fn what_says_nothing_is_not_tested() {
        let figures = [
            two(&[5.0, 5.0, 5.0], &[5.0, 5.0, 5.0], 1.0),
            two(&[5.0, 5.0, 5.0], &[6.0, 6.0, 6.0], 0.0),
            two(&[5.0], &[6.0, 6.0, 6.0], 1.0),
            two(&[5.0, f64::NAN], &[6.0, 6.0, 6.0], 1.0),
        ];
        assert_eq!(change_tests(&figures), [None; 4]);
        // Counts that never vary do differ, the more the further apart.
        let far = change_tests(&[two(&[500.0; 4], &[600.0; 4], 1.0)])[0].unwrap();
        let near = change_tests(&[two(&[500.0; 4], &[501.0; 4], 1.0)])[0].unwrap();
        assert!(far.p < 1e-10 && near.p > 1e-4, "{far:?} {near:?}");
    }

    #[test]
    fn zeros_are_tested_without_logarithms() {
        let none = change_tests(&[two(&[0.0; 5], &[100.0, 104.0, 97.0, 99.0, 101.0], 1.0)]);
        assert!(none[0].unwrap().p < 1e-4);
    }
}
