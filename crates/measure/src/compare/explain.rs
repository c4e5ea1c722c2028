//! What goes with a change of one figure, and how much of it known or fitted costs come to.
//!
//! The order is [`pmuscope_stats::rank_causes`]'s, which says what it rests on. Then the change is
//! apportioned: an event with a known cost carries its own change times that; of the first group, if
//! nothing is known of it, the event that goes best with the figure gets a cost fitted from run to run
//! within each file, where that is above 0 beyond doubt. What is left has its own interval. Events of
//! which nothing is known or fitted carry nothing: their part is in the rest.

use std::collections::BTreeSet;

use pmuscope_stats::{
    Candidate, Change, Estimate, Interval, LEVEL, TwoSamples, difference_of_estimates,
    difference_of_means, mean, mean_interval, product, rank_causes, slope_within,
};
use serde::Serialize;

use super::figures::{MetricValues, plain_name};
use super::{CompareError, ComparedMetric, Explain, Verdict};
use crate::estimate::Estimated;
use crate::run_file::Labels;

/// Figures that say how long something took, in other words: no causes of each other.
const TIMES: [&str; 26] = [
    "cycles",
    "cpu-cycles",
    "cpu_cycles",
    "ref-cycles",
    "ref_cycles",
    "bus-cycles",
    "bus_cycles",
    "cpu-clock",
    "cpu_clock",
    "task-clock",
    "task_clock",
    "duration",
    "duration_time",
    "elapsed",
    "user_time",
    "system_time",
    "user",
    "system",
    "wall",
    "time",
    "slots",
    "tsc",
    "cpu_time",
    "cpu_clk_unhalted.thread",
    "cpu_clk_unhalted.ref_tsc",
    "cpu_clk_unhalted.core",
];
/// What is explained if nothing else is asked for: the first that files have.
const DEFAULTS: [&str; 9] = [
    "cycles",
    "cpu-cycles",
    "cpu_cycles",
    "time",
    "duration_time",
    "wall",
    "elapsed",
    "task-clock",
    "duration",
];
/// A fitted cost may be this many times what an event can cost at most, were all alike: costs that
/// grow with the third power of their number are three times their mean at the margin.
const MARGIN: f64 = 3.0;
/// Names that an error lists.
const LISTED: usize = 12;

/// One change, and what goes with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Index of the file compared with.
    pub base: usize,
    /// Index of the other file.
    pub other: usize,
    /// What tells the figure apart.
    pub labels: Labels,
    /// Name of the figure.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Per which unit of work.
    pub per: Option<String>,
    /// Means of both files.
    pub means: [Option<Estimated>; 2],
    /// The change.
    pub difference: Option<Estimated>,
    /// Ratio of means.
    pub ratio: Option<Estimated>,
    /// That it did not change, if that were the only question.
    pub p: Option<f64>,
    /// The same among all figures, as the table has it.
    pub p_adjusted: Option<f64>,
    /// Whether it did: the verdict of the table, so that both say the same. If not, there is nothing to
    /// explain: the rest is what would go with a change if there was one.
    pub changed: bool,
    /// What goes with it, in groups, best first.
    pub causes: Vec<ComparedCause>,
    /// What known and fitted costs come to.
    pub parts: Vec<Contribution>,
    /// What they leave of the change.
    pub rest: Option<Estimated>,
    /// Figures left out, as they measure the same thing.
    pub same_thing: Vec<String>,
}

/// A figure that goes with the change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedCause {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// From 1 on; no order is claimed within a group.
    pub group: usize,
    /// How it bears on the change.
    pub bearing: Bearing,
    /// Means of both files.
    pub means: [Option<f64>; 2],
    /// Its own change.
    pub difference: Option<Estimated>,
    /// Ratio of means.
    pub ratio: Option<Estimated>,
    /// That it did not change, corrected for all tests of the comparison.
    pub p_adjusted: Option<f64>,
    /// Whether its own change is claimed.
    pub verdict: Verdict,
    /// Correlation with the figure over all runs that have both.
    pub correlation: Option<f64>,
    /// How many runs these are.
    pub runs: usize,
    /// The figure would have to grow with this power of it.
    pub power: Option<f64>,
    /// What each of it costs if it alone made the change.
    pub needs: f64,
    /// Share of the change that it carries at most, if each costs the same in both files: what it
    /// would be if nothing else cost anything.
    pub at_most: Option<f64>,
}

/// How a figure bears on a change; see [`pmuscope_stats::Bearing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bearing {
    /// It changed enough to carry all of it.
    Enough,
    /// It changed too little to carry it alone.
    Part,
    /// It changed the other way.
    Against,
}

/// A part of the change that an event accounts for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contribution {
    /// The event.
    pub metric: String,
    /// Where its cost comes from.
    pub how: How,
    /// What one costs, in units of the figure.
    pub cost: Estimated,
    /// Its own change.
    pub change: Estimated,
    /// What that comes to.
    pub amount: Estimated,
    /// Of the whole change.
    pub share: f64,
    /// What is wrong with the cost, if something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The user knows it.
    Known,
    /// From run to run within each file, runs with more of it had more of the figure.
    Fitted,
}

/// All figures, with what is known of their changes, for one pair of files.
struct Scene<'a> {
    figures: &'a [MetricValues],
    rows: &'a [ComparedMetric],
    tested: &'a [Option<Change>],
    /// Which of each row's pairs.
    pair: usize,
    files: (usize, usize),
}

/// Explains the figure asked for, for each pair of files and each set of labels.
pub(super) fn explain(
    figures: &[MetricValues],
    rows: &[ComparedMetric],
    tested: &[Vec<Option<Change>>],
    asked: &Explain,
) -> Result<Vec<Explanation>, CompareError> {
    let targets = targets(figures, asked.metric.as_deref())?;
    for (event, _) in &asked.costs {
        if !figures.iter().any(|f| is_called(f, event)) {
            return Err(CompareError::NoSuchEvent { event: event.clone(), known: names(figures) });
        }
    }
    let pairs = rows.first().map_or(&[][..], |row| &row.pairs[..]);
    let scene = |pair: usize| Scene {
        figures,
        rows,
        tested: &tested[pair],
        pair,
        files: (pairs[pair].base, pairs[pair].other),
    };
    let each = (0..pairs.len()).flat_map(|pair| targets.iter().map(move |&at| (pair, at)));
    Ok(each.map(|(pair, at)| scene(pair).explain(at, &asked.costs)).collect())
}

/// Which figures to explain: those of the name, one per set of labels and unit of work.
fn targets(figures: &[MetricValues], metric: Option<&str>) -> Result<Vec<usize>, CompareError> {
    let called = |name: &str| -> Vec<usize> {
        (0..figures.len()).filter(|&at| is_called(&figures[at], name)).collect()
    };
    let found = match metric {
        Some(name) => called(name),
        None => {
            DEFAULTS.iter().map(|name| called(name)).find(|f| !f.is_empty()).unwrap_or_default()
        }
    };
    if found.is_empty() {
        let metric = metric.unwrap_or("cycles, or time").to_owned();
        return Err(CompareError::NoSuchMetric { metric, known: names(figures) });
    }
    Ok(found)
}

/// By its whole name, or without modifiers; letters of either size.
fn is_called(figure: &MetricValues, name: &str) -> bool {
    figure.metric.eq_ignore_ascii_case(name) || plain_name(&figure.metric) == name.to_lowercase()
}

fn names(figures: &[MetricValues]) -> Vec<String> {
    let names: BTreeSet<&str> = figures.iter().map(|f| f.metric.as_str()).collect();
    let mut listed: Vec<String> = names.iter().take(LISTED).map(|&name| name.to_owned()).collect();
    if names.len() > LISTED {
        listed.push("…".to_owned());
    }
    listed
}

impl Scene<'_> {
    fn two(&self, at: usize) -> TwoSamples {
        self.figures[at].two(self.files.0, self.files.1)
    }

    fn explain(&self, at: usize, costs: &[(String, f64)]) -> Explanation {
        let target = &self.figures[at];
        let two = self.two(at);
        let (a, b) = two.values();
        let pair = &self.rows[at].pairs[self.pair];
        let change = pair.difference.map(estimate);
        let others: Vec<usize> = (0..self.figures.len())
            .filter(|&other| other != at && self.is_beside(other, target))
            .collect();
        let is_time = TIMES.contains(&&*plain_name(&target.metric));
        let (same, others): (Vec<usize>, Vec<usize>) = others.into_iter().partition(|&other| {
            is_time && TIMES.contains(&&*plain_name(&self.figures[other].metric))
        });
        let causes = self.causes(&two, &others);
        let parts = change.map_or_else(Vec::new, |c| self.parts(&two, c, &others, costs, &causes));
        let rest = change.map(|change| rest(change, &parts));
        let p = self.tested[at].map(|tested| tested.p);
        Explanation {
            base: self.files.0,
            other: self.files.1,
            labels: target.labels.clone(),
            metric: target.metric.clone(),
            unit: target.unit.clone(),
            per: target.per.clone(),
            means: [&a, &b].map(|side| mean_interval(side, LEVEL).map(Estimated::from)),
            difference: pair.difference,
            ratio: pair.ratio,
            p,
            p_adjusted: pair.p_adjusted,
            changed: matches!(pair.verdict, Verdict::More | Verdict::Less),
            causes,
            parts,
            rest: rest.map(Estimated::from),
            same_thing: same.iter().map(|&at| self.figures[at].metric.clone()).collect(),
        }
    }

    /// Whether this figure is a count of the same runs, per the same unit of work.
    fn is_beside(&self, at: usize, target: &MetricValues) -> bool {
        let figure = &self.figures[at];
        figure.labels == target.labels && figure.per == target.per && !figure.unit.contains('/')
    }

    fn causes(&self, target: &TwoSamples, others: &[usize]) -> Vec<ComparedCause> {
        let figures: Vec<TwoSamples> = others.iter().map(|&at| self.two(at)).collect();
        let candidates: Vec<Candidate<'_>> = figures
            .iter()
            .zip(others)
            .map(|(figure, &at)| Candidate { figure, change: self.tested[at] })
            .collect();
        let ranked = rank_causes(target, &candidates);
        let of = |cause: &pmuscope_stats::Cause| {
            let (row, figure) = (&self.rows[others[cause.index]], &figures[cause.index]);
            let pair = &row.pairs[self.pair];
            let (a, b) = figure.values();
            ComparedCause {
                metric: row.metric.clone(),
                unit: row.unit.clone(),
                group: cause.group,
                bearing: match cause.bearing {
                    pmuscope_stats::Bearing::Enough => Bearing::Enough,
                    pmuscope_stats::Bearing::Part => Bearing::Part,
                    pmuscope_stats::Bearing::Against => Bearing::Against,
                },
                means: [mean(&a), mean(&b)],
                difference: pair.difference,
                ratio: pair.ratio,
                p_adjusted: pair.p_adjusted,
                verdict: pair.verdict,
                correlation: cause.correlation.map(|(r, _)| r),
                runs: cause.correlation.map_or(0, |(_, runs)| runs),
                power: cause.power,
                needs: cause.needs,
                at_most: dearest(target, figure)
                    .filter(|_| cause.bearing != pmuscope_stats::Bearing::Against)
                    .map(|dearest| dearest / cause.needs),
            }
        };
        ranked.iter().map(of).collect()
    }

    fn parts(
        &self,
        target: &TwoSamples,
        change: Estimate,
        others: &[usize],
        costs: &[(String, f64)],
        causes: &[ComparedCause],
    ) -> Vec<Contribution> {
        let mut parts = Vec::new();
        let mut left = target.clone();
        for (event, cost) in costs {
            for &at in others.iter().filter(|&&at| is_called(&self.figures[at], event)) {
                let figure = self.two(at);
                let known = Estimate { value: *cost, interval: None, n: 0 };
                let Some(mut part) = part(&self.figures[at].metric, How::Known, known, &figure)
                else {
                    continue;
                };
                part.share = part.amount.value / change.value;
                let too_dear = dearest(target, &figure).is_some_and(|most| *cost > most);
                part.why = too_dear.then_some("that would exceed the total");
                subtract(&mut left, &figure, *cost);
                parts.push(part);
            }
        }
        let first = causes.iter().find(|cause| cause.group == 1).filter(|cause| {
            cause.bearing != Bearing::Against && !parts.iter().any(|p| p.metric == cause.metric)
        });
        let at = first.and_then(|first| {
            others.iter().copied().find(|&at| self.figures[at].metric == first.metric)
        });
        if let Some(at) = at {
            let figure = self.two(at);
            if let Some(mut part) = fitted(&self.figures[at].metric, target, &left, &figure) {
                part.share = part.amount.value / change.value;
                parts.push(part);
            }
        }
        parts
    }
}

/// What one can cost at most, were each as dear in both files: all there is, by one alone.
fn dearest(target: &TwoSamples, figure: &TwoSamples) -> Option<f64> {
    let ((ta, tb), (xa, xb)) = (target.values(), figure.values());
    let quotient = |t: &[f64], x: &[f64]| Some(mean(t)? / mean(x).filter(|x| *x > 0.0)?);
    let all = [quotient(&ta, &xa), quotient(&tb, &xb)].into_iter().flatten();
    all.reduce(f64::min).filter(|most| *most > 0.0)
}

fn part(metric: &str, how: How, cost: Estimate, figure: &TwoSamples) -> Option<Contribution> {
    let (a, b) = figure.values();
    let change = difference_of_means(&a, &b, LEVEL)?;
    // A cost that is known has no error; an event without spread has none either.
    let exact =
        |of: &Estimate| pmuscope_stats::Interval { low: of.value, high: of.value, level: LEVEL };
    let certain = Estimate { interval: cost.interval.or(Some(exact(&cost))), n: change.n, ..cost };
    Some(Contribution {
        metric: metric.to_owned(),
        how,
        cost: Estimated { why: None, ..cost.into() },
        change: change.into(),
        amount: product(&certain, &change).into(),
        share: f64::NAN,
        why: None,
    })
}

/// With a cost from run to run, if that is above 0 beyond doubt and not more than there can be.
fn fitted(
    metric: &str,
    all: &TwoSamples,
    left: &TwoSamples,
    figure: &TwoSamples,
) -> Option<Contribution> {
    let most = MARGIN * dearest(all, figure)?;
    let cost = slope_within(left, figure, LEVEL)?;
    let sure = cost.interval.is_some_and(|interval| interval.low > 0.0) && cost.value <= most;
    if sure { part(metric, How::Fitted, cost, figure) } else { None }
}

/// Takes what an event costs out of the runs that it was measured in; where it was not, its mean.
fn subtract(left: &mut TwoSamples, figure: &TwoSamples, cost: f64) {
    for (left, figure) in [(&mut left.a, &figure.a), (&mut left.b, &figure.b)] {
        let values: Vec<f64> = figure.iter().map(|&(_, value)| value).collect();
        let typical = mean(&values).unwrap_or(0.0);
        for (run, value) in left {
            let there = figure.iter().find(|(other, _)| other == run);
            *value -= cost * there.map_or(typical, |&(_, count)| count);
        }
    }
}

/// The change less all parts. Errors are taken for independent, which makes too much of them where
/// events were counted in the runs that were timed.
fn rest(change: Estimate, parts: &[Contribution]) -> Estimate {
    parts.iter().fold(change, |left, part| difference_of_estimates(&estimate(part.amount), &left))
}

fn estimate(of: Estimated) -> Estimate {
    let interval = |i: crate::Limits| Interval { low: i.low, high: i.high, level: i.level };
    Estimate { value: of.value, interval: of.interval.map(interval), n: of.n }
}
