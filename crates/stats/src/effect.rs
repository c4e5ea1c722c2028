//! Effect size: a difference compared with the variation from run to run.

use crate::dist::{ln_gamma, normal_quantile};
use crate::interval::{Estimate, Interval};
use crate::mean::{mean, variance};

/// Hedges' g of `b` against `a`: the difference of means in standard deviations of a run, both sides
/// pooled, less the bias of small samples (Hedges 1981, Journal of Educational Statistics 6). The
/// interval is from its large-sample variance (Hedges & Olkin 1985, chapter 5). `None` with fewer than
/// two values on a side or without spread. `n` is the smaller of the two.
pub fn hedges_g(a: &[f64], b: &[f64], level: f64) -> Option<Estimate> {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let freedom = n + m - 2.0;
    let pooled = ((n - 1.0) * variance(a)? + (m - 1.0) * variance(b)?) / freedom;
    let plain = (mean(b)? - mean(a)?) / pooled.sqrt();
    let half = freedom / 2.0;
    let unbiased = (ln_gamma(half) - ln_gamma((freedom - 1.0) / 2.0)).exp() / half.sqrt();
    let value = unbiased * plain;
    let error = ((n + m) / (n * m) + value * value / (2.0 * (n + m))).sqrt();
    let reach = normal_quantile(0.5 + level / 2.0) * error;
    value.is_finite().then_some(Estimate {
        value,
        interval: Some(Interval { low: value - reach, high: value + reach, level }),
        n: a.len().min(b.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LEVEL;

    #[test]
    fn small_samples_count_less() {
        let g = hedges_g(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], LEVEL).unwrap();
        // d = 3, J(4) = Γ(2) / (√2 Γ(3/2)) = 0.797885.
        assert!((g.value - 3.0 * 0.797_884_560_8).abs() < 1e-9);
        assert!(g.interval.unwrap().contains(3.0));
        assert_eq!(hedges_g(&[1.0, 1.0], &[2.0, 2.0], LEVEL), None);
        assert_eq!(hedges_g(&[1.0], &[2.0, 3.0], LEVEL), None);
    }
}
