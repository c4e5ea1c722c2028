//! The functions of the mix: different in what they keep busy, alike in that the optimiser can
//! neither drop them nor merge them, and that each spends its time in its own symbol. Hence `while`: an
//! unoptimized `for` calls the range's functions, whose part of the time drifts (from 20% to 37% within
//! 4 s on an AMD EPYC), and shares that drift have no interval.

use std::hint::black_box;

/// Chain of 64-bit integer divisions: bound by the divider's latency.
#[inline(never)]
pub fn integer_division(iterations: u64, mut state: u64) -> u64 {
    let numerator = black_box(u64::MAX);
    let mut i = 0;
    while i < iterations {
        state = (numerator / (state | 1)) ^ i;
        i += 1;
    }
    black_box(state)
}

/// Chain of multiply and subtract: the logistic map, which neither settles nor leaves 0..1. Bound
/// by floating-point latency.
#[inline(never)]
pub fn polynomial(iterations: u64, state: u64) -> u64 {
    let rate = black_box(3.9);
    let mut x = 0.1 + 0.8 * (state >> 12) as f64 / (1u64 << 52) as f64;
    let mut i = 0;
    while i < iterations {
        x *= rate - rate * x;
        i += 1;
    }
    black_box(x).to_bits()
}

/// Branches on random bits: bound by mispredictions.
#[inline(never)]
pub fn branches(iterations: u64, state: u64) -> u64 {
    let (mut random, mut sum) = (state | 1, 0u64);
    let mut i = 0;
    while i < iterations {
        i += 1;
        // Marsaglia's xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // The black boxes keep these jumps: without them both arms become one conditional move.
        match random & 3 {
            0 => sum = black_box(sum.wrapping_add(random)),
            1 => sum = black_box(sum ^ random),
            2 => sum = black_box(sum.rotate_left(7)),
            _ => {}
        }
    }
    black_box(sum ^ random)
}

/// Iterations to do and a state to go on from; the new state.
type MixLoop = fn(u64, u64) -> u64;

/// The mix, by symbol.
pub const FUNCTIONS: [(&str, MixLoop); 3] =
    [("integer_division", integer_division), ("polynomial", polynomial), ("branches", branches)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_function_does_depends_on_its_state() {
        for (name, function) in FUNCTIONS {
            assert_eq!(function(100, 5), function(100, 5), "{name}");
            assert_ne!(function(100, 5), function(101, 5), "{name}");
        }
    }

    #[test]
    fn the_polynomial_stays_finite() {
        for start in [0, 1, u64::MAX / 2, u64::MAX] {
            let x = f64::from_bits(polynomial(10_000, start));
            assert!((0.0..1.0).contains(&x), "{x}");
        }
    }
}
