//! The true shares of functions in the mix: of instructions by their construction and the calls, of
//! cycles by what an instruction of each costs where it runs alone.

use pmuscope_measure::{Origin, RunFile};
use pmuscope_workloads::MixFacts;

use super::arms::{ARM, FUNCTION, PURE};
use super::figures::metric;

/// Share of each function of a whole, with half of its interval, in percent.
fn shares(parts: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let whole: f64 = parts.iter().map(|(part, _)| part).sum();
    let relative = |(part, half): &(f64, f64)| if *part > 0.0 { half / part } else { 0.0 };
    let share = |at: usize| {
        let own = parts[at].0 / whole;
        // d(share)/share = (1 - share) dp/p of its own part, -share_g dp_g/p_g of others.
        let squares: f64 = parts
            .iter()
            .enumerate()
            .map(|(other, part)| {
                let weight = if other == at { 1.0 - own } else { part.0 / whole };
                (weight * relative(part)).powi(2)
            })
            .sum();
        (100.0 * own, 100.0 * own * squares.sqrt())
    };
    (0..parts.len()).map(share).collect()
}

/// Adds the true shares of a round, whose runs of functions alone are in the file. `mix` is what was
/// called in it.
pub(super) fn add_shares(file: &mut RunFile, round: usize, mix: &MixFacts) {
    let runs: Vec<usize> =
        file.runs.iter().filter(|run| run.round == Some(round)).map(|run| run.index).collect();
    let alone = |function: &str| {
        let series = file.series.iter().find(|series| {
            series.metric == metric::CPI
                && series.labels.get(ARM).is_some_and(|arm| arm == PURE)
                && series.labels.get(FUNCTION).is_some_and(|of| of == function)
        })?;
        let value = series.values.iter().find(|value| runs.contains(&value.run))?;
        Some((series.labels.clone(), value.run, value.value?, value.half))
    };
    let Some(alone) = mix.functions.iter().map(|f| alone(&f.name)).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let instructions: Vec<(f64, f64)> =
        mix.functions.iter().map(|f| (f.instructions() as f64, 0.0)).collect();
    let cycles: Vec<(f64, f64)> = instructions
        .iter()
        .zip(&alone)
        .map(|((count, _), (_, _, cpi, half))| (count * cpi, count * half.unwrap_or(0.0)))
        .collect();
    let (instructions, cycles) = (shares(&instructions), shares(&cycles));
    for (((labels, run, ..), instructions), cycles) in alone.iter().zip(instructions).zip(cycles) {
        let mut add = |metric, origin, (share, half): (f64, f64)| {
            file.add_estimate(*run, labels, metric, ("%", origin), Ok((share, Some(half))));
        };
        add(metric::INSTRUCTIONS, Origin::Program, instructions);
        add(metric::CYCLES, Origin::Derived, cycles);
        add(metric::SAMPLED, Origin::Derived, cycles);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_shares_follow_from_their_parts() {
        let got = shares(&[(1.0, 0.0), (3.0, 0.0)]);
        assert_eq!(got, [(25.0, 0.0), (75.0, 0.0)]);
        // By hand: s = a/(a+b), ds = (b da)/(a+b)^2 = 3 * 0.1 / 16.
        let got = shares(&[(1.0, 0.1), (3.0, 0.0)]);
        assert!((got[0].1 - 100.0 * 0.3 / 16.0).abs() < 1e-9 && (got[1].1 - got[0].1).abs() < 1e-9);
        // Two parts that vary: squares add up.
        let got = shares(&[(1.0, 0.1), (3.0, 0.4)]);
        let by_hand = 100.0 * ((0.3f64 / 16.0).powi(2) + (0.4f64 / 16.0).powi(2)).sqrt();
        assert!((got[0].1 - by_hand).abs() < 1e-9);
    }
}
