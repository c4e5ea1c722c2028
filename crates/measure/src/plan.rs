//! The order of runs: every arm once per round, each round in its own random order, so that a
//! drift of the machine meets all arms alike and runs of a round can be paired.

/// One run to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When, from 0.
    pub order: usize,
    /// In which round.
    pub round: usize,
    /// Which arm.
    pub arm: usize,
}

/// Arms times rounds in random order, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the order comes from; goes into the run file.
    pub seed: u64,
    /// What to run, in this order.
    pub runs: Vec<Planned>,
}

impl Plan {
    /// Plans `rounds` rounds of `arms` arms.
    pub fn new(arms: usize, rounds: usize, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut runs = Vec::new();
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..arms).collect();
            rng.shuffle(&mut order);
            for arm in order {
                runs.push(Planned { order: runs.len(), round, arm });
            }
        }
        Self { seed, runs }
    }

    /// A seed for one more plan.
    pub fn random_seed() -> u64 {
        fastrand::u64(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_round_has_every_arm_once(arms in 0..20usize, rounds in 0..20usize, seed: u64) {
            let plan = Plan::new(arms, rounds, seed);
            prop_assert_eq!(plan.runs.len(), arms * rounds);
            for (i, round) in plan.runs.chunks(arms.max(1)).enumerate() {
                let mut seen: Vec<usize> = round.iter().map(|r| r.arm).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..arms).collect::<Vec<_>>());
                prop_assert!(round.iter().all(|r| r.round == i));
            }
            prop_assert!(plan.runs.iter().enumerate().all(|(i, r)| r.order == i));
            prop_assert_eq!(Plan::new(arms, rounds, seed).runs, plan.runs);
        }
    }

    #[test]
    fn rounds_differ_in_order() {
        let plan = Plan::new(8, 2, 1);
        let arms = |round: usize| plan.runs.iter().filter(move |r| r.round == round).map(|r| r.arm);
        assert_ne!(arms(0).collect::<Vec<_>>(), arms(1).collect::<Vec<_>>());
    }
}
