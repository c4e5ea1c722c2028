//! Derivatives of ln Γ, which the distribution of variances needs.
//!
//! Formula numbers are those of the NIST Digital Library of Mathematical Functions (DLMF),
//! <https://dlmf.nist.gov>. Tests compare with values that SciPy calculated.

/// From here on the asymptotic series are exact to an `f64`.
const LARGE: f64 = 15.0;

/// ψ(x), the derivative of ln Γ, for x > 0: DLMF 5.11.2 after moving x up by 5.5.2.
pub(crate) fn digamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < LARGE {
        shift -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series =
        square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square / 240.0)));
    shift + x.ln() - 0.5 / x - series
}

/// ψ′(x), the second derivative of ln Γ, for x > 0: the derivative of DLMF 5.11.2, moved by 5.15.5.
pub(crate) fn trigamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < LARGE {
        shift += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series =
        square * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0)));
    shift + 1.0 / x + 0.5 * square + series / x
}

/// The x with ψ′(x) = `y`, for `y` > 0. ψ′ falls from infinity to 0 without a turn.
pub(crate) fn trigamma_inverse(y: f64) -> f64 {
    // ψ′(x) lies between 1/x and 1/x + 1/x², which gives both ends.
    let (mut low, mut high) = (1.0 / y, (1.0 + (1.0 + 4.0 * y).sqrt()) / (2.0 * y));
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if trigamma(middle) > y { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        const EULER: f64 = 0.577_215_664_901_532_9;
        let square = std::f64::consts::PI.powi(2);
        for (got, want) in [
            (digamma(1.0), -EULER),
            (digamma(0.5), -EULER - 2.0 * 2.0_f64.ln()),
            (trigamma(1.0), square / 6.0),
            (trigamma(0.5), square / 2.0),
        ] {
            assert!((got - want).abs() < 1e-12, "{got} is not {want}");
        }
    }

    #[test]
    fn the_inverse_leads_back() {
        for x in [1e-3, 0.1, 0.5, 1.0, 4.0, 30.0, 1e4] {
            assert!((trigamma_inverse(trigamma(x)) / x - 1.0).abs() < 1e-9, "{x}");
        }
    }
}
