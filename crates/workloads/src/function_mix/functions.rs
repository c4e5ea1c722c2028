//! The functions, each by itself in a profile, and how much each does.

use std::io;

use super::chain::Chain;
use super::sys::{self, Pages};
use super::walk::Walk;

/// A function of the mix.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its symbol, as a profiler shows it, without the path in front.
    pub name: &'static str,
    /// Runs it within a walk.
    pub(super) call: fn(&mut Walk<'_>),
    /// Instructions of its loop's round.
    pub(super) per_round: u64,
    /// Rounds of each half of a call, at the usual length.
    rounds: u64,
    /// Pages touched in a round.
    pub(super) pages: u64,
    /// How often it is called in each round of all.
    pub(super) calls: usize,
}

impl Function {
    /// Rounds of half a call that is `length` times as long as usual.
    pub(super) fn half(&self, length: f64) -> u64 {
        ((self.rounds as f64 * length).round() as u64).max(1)
    }
}

/// A function: half of its loop, what the walk calls within it, the other half.
macro_rules! functions {
    ($($(#[$about:meta])* $name:ident: $per_round:expr, $rounds:expr, $pages:expr, $calls:expr, $half:expr;)*) => {
        $(
            $(#[$about])*
            #[inline(never)]
            pub(super) fn $name(walk: &mut Walk<'_>) {
                let half: fn(u64, &mut Work) = $half;
                // Its own number also keeps it apart: compilers make one of functions that are alike.
                const AT: usize = place(stringify!($name));
                let rounds = walk.half(AT);
                half(rounds, walk.work);
                walk.go_on();
                half(rounds, walk.work);
            }
        )*
        /// All functions.
        pub const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            call: $name,
            per_round: $per_round,
            rounds: $rounds,
            pages: $pages,
            calls: $calls,
        }),*];
    };
}

functions! {
    /// Floating-point divisions, each of what the one before left.
    fp_division: sys::FP_DIVISION, 1000, 0, 1, |rounds, _| sys::fp_division(rounds);
    /// Integer divisions, each of what the one before left.
    int_division: sys::INT_DIVISION, 1000, 0, 1, |rounds, _| sys::int_division(rounds);
    /// An instruction that waits for all before it.
    serialise: sys::SERIALISE, 400, 0, 1, |rounds, _| sys::serialise(rounds);
    /// Branches on random bits.
    random_branches: sys::RANDOM_BRANCHES, 800, 0, 1, |rounds, work| {
        work.random = sys::random_branches(rounds, work.random);
    };
    /// Numbers to integers and back.
    conversions: sys::CONVERSIONS, 1500, 0, 1, |rounds, _| sys::conversions(rounds);
    /// Instructions that do nothing.
    nops: sys::NOPS, 600, 0, 1, |rounds, _| sys::nops(rounds);
    /// Loads that miss the caches, each at the address that the one before found.
    pointer_chase: sys::POINTER_CHASE, 1000, 0, 1, |rounds, work| {
        work.at = sys::pointer_chase(rounds, &work.chain, work.at);
    };
    /// Pages touched for the first time: a fault each.
    fresh_pages: sys::FRESH_PAGES, 10, 1, 1, |rounds, work| {
        sys::fresh_pages(rounds, &mut work.pages);
    };
    /// As `int_division`, but shorter than any window.
    short_division: sys::INT_DIVISION, 5, 0, SHORT_CALLS, |rounds, _| sys::int_division(rounds);
    /// As `nops`, but shorter than any window.
    short_nops: sys::NOPS, 1, 0, SHORT_CALLS, |rounds, _| sys::nops(rounds);
}

/// The number of a function.
const fn place(name: &str) -> usize {
    let mut at = 0;
    while !same(FUNCTIONS[at].name.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    at
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Calls of each short function in a round: enough to be met.
const SHORT_CALLS: usize = 20;

/// Most pages that half a call touches.
const MOST_PAGES: u64 = 4096;

/// What the loops work on.
#[derive(Debug)]
pub(super) struct Work {
    random: u64,
    chain: Chain,
    at: usize,
    pages: Pages,
}

impl Work {
    /// Memory for the pointer chase, and pages.
    ///
    /// # Errors
    /// If there is no room for pages.
    pub(super) fn new(memory: usize, rng: &mut fastrand::Rng) -> io::Result<Self> {
        Ok(Self {
            random: rng.u64(1..),
            chain: Chain::new(memory, rng),
            at: 0,
            pages: Pages::new(MOST_PAGES)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_functions_are_longer_than_windows_and_short_ones_are_not() {
        for function in FUNCTIONS {
            let instructions = function.half(1.0) * function.per_round;
            // Windows of 300 cycles: 10 of them at 2 cycles an instruction, or at 1 for long ones.
            let is_short = function.name.starts_with("short");
            assert_eq!(instructions < 150, is_short, "{} {instructions}", function.name);
            assert!(is_short || instructions >= 3000, "{} {instructions}", function.name);
            assert!(function.pages * function.half(100.0) <= MOST_PAGES);
            assert_eq!(function.half(0.0), 1);
        }
    }

    #[test]
    fn each_function_is_code_of_its_own() {
        let addresses: std::collections::BTreeSet<usize> =
            FUNCTIONS.iter().map(|function| function.call as usize).collect();
        assert_eq!(addresses.len(), FUNCTIONS.len());
        assert_eq!(FUNCTIONS[place("nops")].name, "nops");
    }

    #[test]
    fn loops_change_what_they_work_on() {
        let mut work = Work::new(1 << 16, &mut fastrand::Rng::with_seed(3)).unwrap();
        let (random, at) = (work.random, work.at);
        work.random = sys::random_branches(1, work.random);
        work.at = sys::pointer_chase(1, &work.chain, work.at);
        assert!(work.random != random && work.at != at);
        // All loads of one way round lead back.
        let lines = (1 << 16) / 128;
        assert_eq!(sys::pointer_chase(lines / 4, &work.chain, at), at);
    }
}
