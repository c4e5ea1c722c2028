//! Comparisons of commands that are the same, and of ones that differ by a known effect, on machines that
//! drift, where runs depend on those before them: how often a difference is claimed where there is none,
//! and how often intervals hold the truth. Seeded, so a failure is a change of the method, not chance.
//!
//! A tenth of the seeds of docs/compare.md runs; `PMUSCOPE_SEEDS=1000` runs as many as it states.

use std::time::UNIX_EPOCH;

use super::*;
use crate::Plan;
use crate::arms::ARM;
use crate::run_file::{Arm, Program, Run};

const FIGURES: usize = 8;
/// Seeds of a case, unless `PMUSCOPE_SEEDS` gives another number.
const SEEDS: u64 = 100;

fn seeds() -> u64 {
    std::env::var("PMUSCOPE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// What a machine does to runs, in standard deviations of a run.
#[derive(Debug, Clone, Copy)]
struct MachineModel {
    /// Correlation of a run with the next one.
    memory: f64,
    /// Growth from a run to the next.
    drift: f64,
    /// Chance that a run is the first at another level.
    steps: f64,
}

const QUIET: MachineModel = MachineModel { memory: 0.0, drift: 0.0, steps: 0.0 };
const MACHINES: [(&str, MachineModel); 6] = [
    ("independent runs", QUIET),
    ("correlation 0.5", MachineModel { memory: 0.5, ..QUIET }),
    ("correlation 0.9", MachineModel { memory: 0.9, ..QUIET }),
    ("drift of 0.2 deviations per run", MachineModel { drift: 0.2, ..QUIET }),
    ("drift of 1 per run, correlation 0.5", MachineModel { drift: 1.0, memory: 0.5, ..QUIET }),
    ("a step of 3 in one run of ten", MachineModel { steps: 0.1, ..QUIET }),
];

/// Box & Muller 1958.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    let (u, v) = (1.0 - rng.f64(), rng.f64());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

impl MachineModel {
    /// What runs differ by, one after the other.
    fn runs(self, runs: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
        let (mut state, mut level) = (normal(rng), 0.0);
        let fresh = (1.0 - self.memory * self.memory).sqrt();
        (0..runs)
            .map(|run| {
                if rng.f64() < self.steps {
                    level = 3.0 * normal(rng);
                }
                let now = state + level + self.drift * run as f64;
                state = self.memory * state + fresh * normal(rng);
                now
            })
            .collect()
    }
}

/// A file of interleaved arms that all do the same, but for the last, which has `effect` times as much.
fn file(machine: MachineModel, (arms, rounds): (usize, usize), effect: f64, seed: u64) -> RunFile {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x7061_6972_6564);
    let tool = Program { name: "t".into(), version: "1".into() };
    let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
    file.arms = (0..arms)
        .map(|arm| Arm { name: crate::arms::name(arm), command: vec!["./a".into()] })
        .collect();
    let plan = Plan::interleaved(1, arms, rounds, seed);
    for planned in &plan.runs {
        let name = crate::arms::name(planned.arm);
        file.runs.push(run(planned.order, planned.round, Labels::from([(ARM.to_owned(), name)])));
    }
    fill(&mut file, machine, &mut rng, |run| {
        let last = crate::arms::name(arms - 1);
        if run.labels.get(ARM) == Some(&last) { effect } else { 1.0 }
    });
    file
}

fn run(order: usize, round: usize, labels: Labels) -> Run {
    Run {
        index: order,
        order,
        round: Some(round),
        labels,
        started: (1_000_000_000 * (order as u64 + 1)).to_string(),
        duration_s: 1.0,
        exit: Some(0),
        why: None,
        units: Default::default(),
    }
}

/// Figures of all runs: half of what varies is of the run, half of the figure.
fn fill(
    file: &mut RunFile,
    machine: MachineModel,
    rng: &mut fastrand::Rng,
    times: impl Fn(&Run) -> f64,
) {
    let runs = file.runs.clone();
    let shared = machine.runs(runs.len(), rng);
    for figure in 0..FIGURES {
        let (level, spread) = (1e6_f64.powf(rng.f64()), 0.001 * 50.0_f64.powf(rng.f64()));
        let own = machine.runs(runs.len(), rng);
        for (at, run) in runs.iter().enumerate() {
            let noise = (shared[at] + own[at]) / 2.0_f64.sqrt();
            let value = level * times(run) * (spread * noise).exp();
            let kind = ("s", Origin::Clock);
            // The first is the time of the work, which has half of the level.
            let name = if figure == 0 { "time".to_owned() } else { format!("f{figure}") };
            file.add(run.index, &run.labels, &name, kind, Ok(value));
        }
    }
}

/// Of `of` comparisons, those in which the interval of the time misses the truth, those that claim anything, and those
/// that claim that the time differs.
#[derive(Debug, Default)]
struct Rates {
    missed: usize,
    claimed: usize,
    time_claimed: usize,
    of: usize,
}

fn rates(machine: MachineModel, shape: (usize, usize), effect: f64) -> Rates {
    let mut rates = Rates::default();
    for seed in 0..seeds() {
        let file = file(machine, shape, effect, seed);
        let got = compare(&[("ab.json".into(), file)], &Options::default()).unwrap();
        assert_eq!(got.primary.as_deref(), Some("time"));
        let last = got.rows[0].pairs.last().unwrap();
        assert!(last.paired);
        let ratio = last.ratio.unwrap().interval.unwrap();
        rates.of += 1;
        rates.missed += usize::from(!(ratio.low..=ratio.high).contains(&effect));
        let claims = |pair: &Pair| matches!(pair.verdict, Verdict::More | Verdict::Less);
        rates.time_claimed += usize::from(claims(last));
        rates.claimed += usize::from(got.rows.iter().any(|row| row.pairs.iter().any(claims)));
    }
    rates
}

/// The most events of this chance, by three standard deviations: one case in a thousand is beyond.
fn most(chance: f64, of: usize) -> f64 {
    let expected = chance * of as f64;
    expected + 3.0 * (expected * (1.0 - chance)).sqrt()
}

#[test]
fn interleaved_arms_that_are_the_same_are_not_called_different_on_a_machine_that_drifts() {
    let alpha = Options::default().alpha;
    let mut all = Rates::default();
    for (name, machine) in MACHINES {
        for shape in [(2, 20), (2, 10), (3, 20), (2, 5)] {
            for effect in [1.0, 1.02] {
                let got = rates(machine, shape, effect);
                let covered = 100.0 * (1.0 - got.missed as f64 / got.of as f64);
                eprintln!(
                    "{name}, {shape:?} arms and rounds, {effect}: {covered:.1} % covered, {got:?}"
                );
                let (least, largest) = if got.of >= 1000 { (93.0, 97.0) } else { (88.0, 100.0) };
                assert!((least..=largest).contains(&covered), "{name}, {shape:?}: {covered} %");
                if effect == 1.0 {
                    assert!(
                        got.claimed as f64 <= most(alpha, got.of),
                        "{name}, {shape:?}: {got:?}"
                    );
                    all.claimed += got.claimed;
                    all.of += got.of;
                }
            }
        }
    }
    eprintln!("all: {} of {} A/A tables claim", all.claimed, all.of);
    assert!(all.claimed as f64 <= most(alpha, all.of), "{all:?}");
}

/// Two files of the same program, the second measured right after the first.
fn one_after_the_other(machine: MachineModel, runs: usize, seed: u64) -> [(String, RunFile); 2] {
    let mut rng = fastrand::Rng::with_seed(seed);
    let tool = Program { name: "t".into(), version: "1".into() };
    let mut both = RunFile::new(tool, vec![], UNIX_EPOCH);
    for order in 0..2 * runs {
        let name = if order < runs { "a" } else { "b" };
        let labels = Labels::from([(ARM.to_owned(), name.to_owned())]);
        both.runs.push(run(order, order % runs, labels));
    }
    fill(&mut both, machine, &mut rng, |_| 1.0);
    ["a", "b"].map(|name| (name.to_owned(), both.part(ARM, name)))
}

#[test]
fn files_of_runs_that_depend_on_those_before_them_are_not_called_different() {
    for (at, (name, machine)) in MACHINES.into_iter().enumerate() {
        for runs in [5, 10, 20] {
            let (mut claimed, mut missed) = (0, 0);
            for seed in 0..seeds() {
                let files = one_after_the_other(machine, runs, seed);
                let got = compare(&files, &Options::default()).unwrap();
                assert_eq!(got.not_interleaved.len(), 1);
                let claims = |pair: &Pair| matches!(pair.verdict, Verdict::More | Verdict::Less);
                claimed += usize::from(got.rows.iter().any(|row| row.pairs.iter().any(claims)));
                let ratio = got.rows[0].pairs[0].ratio.unwrap().interval;
                missed += usize::from(ratio.is_some_and(|i| !(i.low..=i.high).contains(&1.0)));
            }
            let of = seeds() as usize;
            eprintln!("{name}, {runs} runs: {claimed} claim, {missed} intervals miss, of {of}");
            // What drifts or steps in between is in neither file: that takes interleaved runs.
            if at < 3 && runs >= 10 {
                assert!(claimed as f64 <= most(0.01, of), "{name}, {runs} runs: {claimed} of {of}");
            }
        }
    }
}
