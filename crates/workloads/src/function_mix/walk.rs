//! Which function calls which: a new order for each round, with calls nested as chance has it.

use super::functions::{FUNCTIONS, Work};

/// How deep calls of functions are nested at most.
pub const DEPTH: usize = 3;

/// A call to come.
#[derive(Debug, Clone, Copy)]
struct WalkStep {
    function: usize,
    /// 1 for one that nobody of the mix calls.
    depth: usize,
}

/// The way through one round after the other.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) work: &'a mut Work,
    /// Rounds of half a call, by function.
    halves: [u64; FUNCTIONS.len()],
    steps: Vec<WalkStep>,
    at: usize,
    depth: usize,
    /// Calls so far, by function.
    pub(super) calls: [u64; FUNCTIONS.len()],
    /// Deepest nesting so far.
    pub(super) deepest: usize,
}

impl<'a> Walk<'a> {
    /// Functions `length` times as long as usual; only one of them, or all.
    pub(super) fn new(work: &'a mut Work, length: f64, only: Option<usize>) -> Self {
        let step = |function| WalkStep { function, depth: 1 };
        let steps = match only {
            // Often enough that a reading of the clock between rounds does not count.
            Some(function) => vec![step(function); pure_calls(function, length)],
            None => {
                let calls = |function: usize| FUNCTIONS[function].calls;
                let each = |function| std::iter::repeat_n(step(function), calls(function));
                (0..FUNCTIONS.len()).flat_map(each).collect()
            }
        };
        Self {
            work,
            halves: std::array::from_fn(|function| FUNCTIONS[function].half(length)),
            steps,
            at: 0,
            depth: 0,
            calls: [0; FUNCTIONS.len()],
            deepest: 0,
        }
    }

    /// Makes all calls of a round, in an order of its own.
    pub(super) fn round(&mut self, rng: &mut fastrand::Rng) {
        rng.shuffle(&mut self.steps);
        if self.steps.iter().any(|step| step.function != self.steps[0].function) {
            let mut depth = 0;
            for step in &mut self.steps {
                depth = rng.usize(1..=(depth + 1).min(DEPTH));
                step.depth = depth;
            }
        }
        (self.at, self.depth) = (0, 0);
        self.go_on();
    }

    /// Makes the calls that come next, as far as they are nested in the one that runs.
    #[inline(never)]
    pub(super) fn go_on(&mut self) {
        while let Some(step) = self.steps.get(self.at).filter(|step| step.depth > self.depth) {
            let (function, outer) = (step.function, self.depth);
            self.at += 1;
            self.depth += 1;
            self.deepest = self.deepest.max(self.depth);
            (FUNCTIONS[function].call)(self);
            self.depth = outer;
        }
    }

    /// A function begins: how many rounds its halves have.
    #[inline(always)]
    pub(super) fn half(&mut self, function: usize) -> u64 {
        self.calls[function] += 1;
        self.halves[function]
    }
}

/// Calls of one function in a round of it alone, some hundred thousand instructions.
fn pure_calls(function: usize, length: f64) -> usize {
    const INSTRUCTIONS: u64 = 200_000;
    let function = &FUNCTIONS[function];
    let each = 2 * function.half(length).saturating_mul(function.per_round);
    (INSTRUCTIONS / each).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_all_calls_in_new_orders_and_nest_them() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut work = Work::new(1 << 12, &mut rng).unwrap();
        let mut walk = Walk::new(&mut work, 0.01, None);
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..20 {
            walk.round(&mut rng);
            orders.insert(walk.steps.iter().map(|s| (s.function, s.depth)).collect::<Vec<_>>());
            assert_eq!((walk.at, walk.depth), (walk.steps.len(), 0));
        }
        assert!(orders.len() == 20 && walk.deepest == DEPTH);
        for (calls, function) in walk.calls.iter().zip(FUNCTIONS) {
            assert_eq!(*calls, 20 * function.calls as u64, "{}", function.name);
        }
    }

    #[test]
    fn one_alone_is_not_nested() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut work = Work::new(1 << 12, &mut rng).unwrap();
        let nops = FUNCTIONS.iter().position(|function| function.name == "nops").unwrap();
        let mut walk = Walk::new(&mut work, 1.0, Some(nops));
        walk.round(&mut rng);
        assert_eq!((walk.deepest, walk.calls.iter().sum::<u64>()), (1, walk.calls[nops]));
        assert_eq!(walk.calls[nops], 200_000 / (2 * 600 * 66));
    }
}
