//! Whether and when runs were as good as the best binding: judged from what was seen, once the bound is known.
//!
//! Runs are made in random order, so a test's best binding may run after what is measured against it: all is judged
//! anew after each run.

use pmuscope_measure::{Labels, Origin, RunFile, RunValue, Timeline};
use pmuscope_numa::convergence::{Convergence, Criterion};
use pmuscope_stats::median;

use super::figures::{
    AT_ONCE, CONVERGED, CONVERGED_AGAIN, GOOD_SHARE, LOST, PLACED_MEAN, SPEED, SPEED_AFTER,
    SPEED_BEFORE,
};
use super::fit::Fitted;
use super::observations::Observations;
use super::policy::Policy;
use super::suite::Question;
use super::{POLICY, TEST};

/// What the best binding has by either judge if it was not measured: all local where everything fits a node, else
/// all nodes alike.
pub(super) const BEST: f64 = 1.0;

/// Figures that depend on the bound.
const JUDGED: [&str; 7] =
    [CONVERGED, AT_ONCE, GOOD_SHARE, LOST, CONVERGED_AGAIN, SPEED_BEFORE, SPEED_AFTER];

/// Judges all runs of a file anew.
pub(super) fn judge(file: &mut RunFile, tests: &[Fitted], criterion: &Criterion) {
    file.series.retain(|series| !JUDGED.contains(&&*series.metric));
    let timelines = std::mem::take(&mut file.timelines);
    for timeline in &timelines {
        let run = file.runs.iter().find(|run| run.index == timeline.run);
        let Some(labels) = run.map(|run| run.labels.clone()) else { continue };
        let label = |key: &str| labels.get(key).map_or("", |name| name);
        let test = tests.iter().find(|fitted| fitted.test.name == label(TEST));
        let policy = Policy::named(label(POLICY));
        let (Some(test), Some(policy)) = (test, policy) else { continue };
        // What is bound stays where it is: nothing can converge.
        if !policy.is_bound() && test.test.placed.is_none() {
            let best = best(file, label(TEST)).unwrap_or(BEST);
            judge_run(file, (timeline, &labels), test.test.kind, (best, criterion));
        }
    }
    file.timelines = timelines;
}

/// What the best binding of a test reached: the median of its runs; `None` if it was not measured.
fn best(file: &RunFile, test: &str) -> Option<f64> {
    let is_best = |labels: &Labels| {
        let is = |key: &str, value: &str| labels.get(key).is_some_and(|own| own == value);
        is(TEST, test) && is(POLICY, Policy::Best.name())
    };
    let series = file.series.iter().find(|s| s.metric == PLACED_MEAN && is_best(&s.labels))?;
    median(&series.numbers())
}

fn judge_run(
    file: &mut RunFile,
    (timeline, labels): (&Timeline, &Labels),
    kind: Question,
    (best, criterion): (f64, &Criterion),
) {
    let observations = Observations::from(timeline);
    let Some(found) = observations.convergence(best, criterion) else { return };
    let converged = match found.after_s {
        Some(seconds) => RunValue::new(timeline.run, Ok(seconds)),
        None => {
            let why = "it did not converge while it was observed".to_owned();
            RunValue::beyond(timeline.run, found.watched_s, why)
        }
    };
    file.add_value(labels, CONVERGED, ("s", Origin::Clock), converged);
    let mut add = |name: &str, kind: (&str, Origin), value: Result<f64, String>| {
        file.add(timeline.run, labels, name, kind, value);
    };
    let (clock, estimate) = (("s", Origin::Clock), ("", Origin::Estimate));
    add(AT_ONCE, estimate, Ok(f64::from(u8::from(found.from_the_start))));
    add(GOOD_SHARE, estimate, Ok(found.share));
    add(LOST, estimate, Ok(found.lost as f64));
    let again = observations.convergence_again(best, criterion);
    if !again.is_empty() {
        let times: Option<Vec<f64>> = again.iter().copied().collect();
        let mean = times.map(|times| times.iter().sum::<f64>() / times.len() as f64);
        let missed = again.iter().filter(|time| time.is_none()).count();
        let why =
            || format!("it did not converge again after {missed} of {} perturbations", again.len());
        add(CONVERGED_AGAIN, clock, mean.ok_or_else(why));
    }
    // In an emulator there is no speed.
    if kind == Question::Bandwidth && !timeline.column(SPEED).is_empty() {
        for (name, value) in speeds(&observations, found) {
            add(name, ("GB/s", Origin::Program), value);
        }
    }
}

fn speeds(
    observations: &Observations,
    found: Convergence,
) -> [(&'static str, Result<f64, String>); 2] {
    let (before, after) = observations.speeds_around(found.after_s.unwrap_or(f64::INFINITY));
    let gb = |speed: Option<f64>, why: &str| speed.map(|b| b / 1e9).ok_or_else(|| why.to_owned());
    [
        (SPEED_BEFORE, gb(before, "it was converged from the start")),
        (SPEED_AFTER, gb(after, "it did not converge")),
    ]
}
