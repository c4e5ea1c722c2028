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
        Self::interleaved(arms, 1, rounds, seed)
    }

    /// Plans `rounds` rounds of `groups`, in each of which all `arms` run one after the other, so that
    /// they can be paired. Arm `a` of group `g` is `g * arms + a`. The order of arms is drawn anew in each
    /// round; over all rounds each arm has each place equally often, as far as their number allows, so
    /// that a drift can be estimated and taken off.
    pub fn interleaved(groups: usize, arms: usize, rounds: usize, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut orders: Vec<std::vec::IntoIter<Vec<usize>>> =
            (0..groups).map(|_| balanced(arms, rounds, &mut rng).into_iter()).collect();
        let mut runs = Vec::new();
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..groups).collect();
            rng.shuffle(&mut order);
            for group in order {
                for arm in orders[group].next().unwrap_or_default() {
                    runs.push(Planned { order: runs.len(), round, arm: group * arms + arm });
                }
            }
        }
        Self { seed, runs }
    }

    /// A seed for one more plan.
    pub fn random_seed() -> u64 {
        fastrand::u64(..)
    }
}

/// An order of `arms` for each round: in every `arms` rounds each arm has each place once (a Latin square
/// of shifts), and these rounds are shuffled.
fn balanced(arms: usize, rounds: usize, rng: &mut fastrand::Rng) -> Vec<Vec<usize>> {
    if arms < 2 {
        return vec![(0..arms).collect(); rounds];
    }
    let mut orders = Vec::new();
    while orders.len() < rounds {
        let mut first: Vec<usize> = (0..arms).collect();
        rng.shuffle(&mut first);
        let mut shifts: Vec<usize> = (0..arms).collect();
        rng.shuffle(&mut shifts);
        orders.extend(shifts.into_iter().map(|shift| {
            let mut order = first.clone();
            order.rotate_left(shift);
            order
        }));
    }
    orders.truncate(rounds);
    rng.shuffle(&mut orders);
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arms_of_a_group_are_neighbors_and_have_each_place_equally_often(
            groups in 1..4usize,
            arms in 1..5usize,
            squares in 1..4usize,
            seed: u64,
        ) {
            let rounds = squares * arms;
            let plan = Plan::interleaved(groups, arms, rounds, seed);
            prop_assert_eq!(plan.runs.len(), groups * arms * rounds);
            let mut places = vec![0; groups * arms * arms];
            for (at, runs) in plan.runs.chunks(arms).enumerate() {
                let group = runs[0].arm / arms;
                prop_assert!(runs.iter().all(|run| run.arm / arms == group));
                prop_assert!(runs.iter().all(|run| run.round == at / groups));
                for (place, run) in runs.iter().enumerate() {
                    places[run.arm * arms + place] += 1;
                }
            }
            prop_assert!(places.iter().all(|often| *often == squares), "{:?}", places);
        }

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
