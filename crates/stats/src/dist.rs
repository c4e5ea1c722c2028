//! The distributions that intervals and tests need: normal, Student's t, Fisher's F.
//!
//! Formula numbers are those of the NIST Digital Library of Mathematical Functions (DLMF),
//! <https://dlmf.nist.gov>. Tests compare with published tables.

use std::f64::consts::PI;

/// Beyond this, the terms of a convergent series no longer change an `f64`.
const MAX_TERMS: usize = 500;

/// P(Z <= x) for a standard normal Z. Absolute error below 1e-14.
pub fn normal_cdf(x: f64) -> f64 {
    if x < 0.0 {
        return upper_tail(-x);
    }
    1.0 - upper_tail(x)
}

/// P(Z > x) for x >= 0.
fn upper_tail(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    if x < 3.0 {
        // DLMF 7.6.2: the integral from 0 is the density times x + x^3/3 + x^5/(3*5) + ...
        let (mut term, mut sum) = (x, x);
        for k in 1..MAX_TERMS {
            term *= x * x / (2 * k + 1) as f64;
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        return 0.5 - density * sum;
    }
    // DLMF 7.9.2: 1/(x + 1/(x + 2/(x + 3/(x + ...)))), evaluated from the inside out.
    let tail = (1..=100).rev().fold(x, |below, k| x + f64::from(k) / below);
    density / tail
}

/// The x with P(Z <= x) = `p`; infinite at 0 and 1, NaN outside.
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    // Tails below the smallest f64 start beyond 39.
    -bisect(0.0, 39.0, |x| upper_tail(x) > p)
}

/// P(T <= x) for Student's t with `df` degrees of freedom (any real > 0).
pub fn t_cdf(x: f64, df: f64) -> f64 {
    let both_tails = incomplete_beta(df / 2.0, 0.5, df / (df + x * x));
    if x < 0.0 { both_tails / 2.0 } else { 1.0 - both_tails / 2.0 }
}

/// The x with P(T <= x) = `p` for Student's t with `df` degrees of freedom; NaN unless `df` > 0
/// and `p` lies in 0..=1.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    // There the two differ by less than 1e-6 of the quantile.
    if df > 1e6 {
        return normal_quantile(p);
    }
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    let mut high = 1.0;
    while t_cdf(high, df) < p && high < 1e300 {
        high *= 2.0;
    }
    bisect(0.0, high, |x| t_cdf(x, df) < p)
}

/// P(|T| >= |t|) for Student's t; `df` may be infinite. Exact in relative terms far out.
pub(crate) fn t_two_sided(t: f64, df: f64) -> f64 {
    if df > 1e6 {
        return 2.0 * upper_tail(t.abs());
    }
    incomplete_beta(df / 2.0, 0.5, df / (df + t * t))
}

/// P(F >= x) for Fisher's F with `d1` and `d2` degrees of freedom; `d2` may be infinite.
pub(crate) fn f_upper(x: f64, d1: f64, d2: f64) -> f64 {
    // There the denominator is 1 to six digits.
    let d2 = d2.min(1e6);
    incomplete_beta(d2 / 2.0, d1 / 2.0, d2 / (d2 + d1 * x))
}

/// The point where a test that is true below and false above changes.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if below(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// ln Γ(x) for x > 0: Stirling's series, DLMF 5.11.1, after moving x up to where it is exact.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut x = x;
    while x < 15.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series
}

/// The regularised incomplete beta function I_x(a, b), DLMF 8.17.22, by Lentz's method.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly only on this side; DLMF 8.17.4 gives the other.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    front * beta_fraction(a, b, x) / a
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    // Needs O(sqrt(max(a, b))) steps; a is at most 5e5 here.
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        fraction *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// The lower level at which a percentile bootstrap interval of `n` independent values covers
/// `level`: Φ(-sqrt(n / (n - 1)) t), with Student's t for n - 1 degrees of freedom (Hesterberg
/// 2015, The American Statistician 69, section 4). `n` may be a fraction (an effective number).
pub(crate) fn expanded_tail(level: f64, n: f64) -> f64 {
    let t = t_quantile(0.5 + level / 2.0, n - 1.0);
    normal_cdf(-(n / (n - 1.0)).sqrt() * t)
}

/// Factor that makes the median absolute deviation estimate a normal distribution's standard
/// deviation: 1 / Φ⁻¹(3/4).
pub(crate) const MAD_TO_SIGMA: f64 = 1.482_602_218_505_602;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance, "{got} is not {want} within {tolerance}");
    }

    #[test]
    fn normal_matches_published_values() {
        // Abramowitz & Stegun, table 26.1 and 26.2.
        close(normal_cdf(0.0), 0.5, 1e-15);
        close(normal_cdf(1.0), 0.841_344_746_068_543, 1e-14);
        close(normal_cdf(2.0), 0.977_249_868_051_821, 1e-14);
        close(normal_cdf(-3.0), 0.001_349_898_031_630, 1e-14);
        close(normal_cdf(5.0), 0.999_999_713_348_428, 1e-14);
        close(upper_tail(2.999_999_9) / upper_tail(3.000_000_1), 1.0, 1e-5);
        close(normal_quantile(0.975), 1.959_963_984_540_054, 1e-12);
        close(normal_quantile(0.005), -2.575_829_303_548_901, 1e-12);
        close(1.0 / normal_quantile(0.75), MAD_TO_SIGMA, 1e-12);
    }

    #[test]
    fn t_matches_published_values() {
        // Upper 2.5 % points, as in any table of the distribution.
        for (df, want) in [
            (1.0, 12.706_204_736),
            (2.0, 4.302_652_730),
            (4.0, 2.776_445_105),
            (10.0, 2.228_138_852),
            (30.0, 2.042_272_456),
            (120.0, 1.979_930_405),
        ] {
            close(t_quantile(0.975, df), want, 1e-8);
            close(t_quantile(0.025, df), -want, 1e-8);
        }
        // df = 1 is Cauchy, df = 2 has a closed form.
        close(t_cdf(1.0, 1.0), 0.75, 1e-13);
        close(t_cdf(1.0, 2.0), 0.5 + 0.5 / 3.0_f64.sqrt(), 1e-13);
        close(t_quantile(0.975, 1e6), 1.959_966, 1e-6);
    }

    #[test]
    fn arguments_outside_give_no_number() {
        assert!(normal_quantile(1.5).is_nan());
        assert!(normal_quantile(f64::NAN).is_nan());
        assert!(t_quantile(0.5, 0.0).is_nan());
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(t_quantile(1.0, 3.0), f64::INFINITY);
    }

    #[test]
    fn ln_gamma_matches_factorials() {
        close(ln_gamma(1.0), 0.0, 1e-13);
        close(ln_gamma(6.0), 120.0_f64.ln(), 1e-13);
        close(ln_gamma(0.5), PI.sqrt().ln(), 1e-13);
    }
}
