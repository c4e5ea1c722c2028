//! Run files side by side: one row per figure, one column per file, and what differs.
//!
//! A figure is compared per unit of work where runs have units ([`Options::per`]). Each pair of files
//! (each file with the base, or all pairs) gets a test per figure, with spreads moderated by those of
//! all figures ([`pmuscope_stats::change_tests`]); arms of one file, with interleaved runs, are
//! compared by pairs of runs ([`pmuscope_stats::paired_tests`]); p-values of all figures and pairs are corrected
//! together (Holm 1979), so that where nothing differs at all, a difference is claimed in at most
//! [`Options::alpha`] of all comparisons. Half of that level is for the time that the work took, the other half for all
//! other metrics. A difference that is not claimed is inconclusive, not zero.

mod columns;
mod explain;
mod figures;
mod head;
pub mod medians;
mod trend;
mod whole;

use pmuscope_stats::{
    Change, Estimate, LEVEL, Pairs, TwoSamples, change_tests, correlation_in_time, hedges_g,
    mean_interval, median, paired_tests, weighted_holm,
};
use regex::Regex;
use serde::Serialize;

pub use columns::{NotInterleaved, column_names};
pub use explain::{Bearing, ComparedCause, Contribution, Explanation, How};
pub use head::FileHead;
pub use trend::{Shift, Trend, TrendRow, trend};
pub use whole::whole_runs;

use crate::censored::Beyond;
use crate::estimate::{Estimated, Limits};
use crate::run_file::{Labels, Origin, RunFile};
use columns::Columns;
use figures::{Measured, MetricValues, figures};

/// The name for runs as a whole among units of work.
pub const TOTAL: &str = "total";

/// What to compare, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Units of work to divide by, or [`TOTAL`]; empty: all that every file has, else totals.
    pub per: Vec<String>,
    /// Compare each column with this one only; `None`: all pairs, of the arms of one file each with the
    /// first.
    pub base: Option<usize>,
    /// Only figures whose name matches.
    pub metric: Option<Regex>,
    /// Share of comparisons without any difference in which one is claimed, at most.
    pub alpha: f64,
    /// What to explain.
    pub explain: Option<Explain>,
}

impl Default for Options {
    fn default() -> Self {
        Self { per: Vec::new(), base: None, metric: None, alpha: 0.01, explain: None }
    }
}

impl Options {
    /// Keeps only figures whose name matches.
    ///
    /// # Errors
    /// If it is no regular expression.
    pub fn only(&mut self, pattern: &str) -> Result<(), CompareError> {
        let why = |error: regex::Error| CompareError::Pattern {
            pattern: pattern.to_owned(),
            why: error.to_string().lines().last().unwrap_or_default().to_owned(),
        };
        self.metric = Some(Regex::new(pattern).map_err(why)?);
        Ok(())
    }
}

/// Which change to explain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explain {
    /// Name of the figure; `None`: cycles, else time.
    pub metric: Option<String>,
    /// What one of an event costs, in the unit of the figure.
    pub costs: Vec<(String, f64)>,
}

/// What cannot be compared as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A file whose runs do not have the unit.
    #[error(
        "not every run in {file} has a unit of work {unit:?}; {}. Try: --per {TOTAL}",
        if known.is_empty() {
            "it has no units".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        }
    )]
    NoSuchUnit {
        /// Which file.
        file: String,
        /// The unit asked for.
        unit: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// Not a regular expression.
    #[error("{pattern:?} is not a regular expression: {why}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// No file has the figure to explain.
    #[error(
        "cannot explain {metric:?}: no file has such a metric. Try: {}",
        known.join(", ")
    )]
    NoSuchMetric {
        /// The figure asked for.
        metric: String,
        /// Some of those there are.
        known: Vec<String>,
    },
    /// A cost of something that was not measured.
    #[error("--cost: no file has event {event:?}. Try: {}", known.join(", "))]
    NoSuchEvent {
        /// The event named.
        event: String,
        /// Some of those there are.
        known: Vec<String>,
    },
}

/// Run files side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The files, in the order of columns; a file with several arms has a column for each.
    pub files: Vec<FileHead>,
    /// Pairs of columns that were measured one after the other: what changed on the machine in between
    /// counts as a difference.
    pub not_interleaved: Vec<NotInterleaved>,
    /// Units of work that figures are divided by; `null` for the run as a whole.
    pub per: Vec<Option<String>>,
    /// The file that all others are compared with; `None`: all pairs.
    pub base: Option<usize>,
    /// Share of comparisons without any difference in which one is claimed, at most.
    pub alpha: f64,
    /// Tests made, over all figures and pairs.
    pub tests: usize,
    /// The metric whose tests have half of `alpha`; `None` if all tests have equal weights.
    pub primary: Option<String>,
    /// Figures, cycles and instructions first, else in the order in which the files have them.
    pub rows: Vec<ComparedMetric>,
    /// What goes with the change that was asked about: one per pair of files and set of labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
}

/// One figure in all files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedMetric {
    /// What tells it apart.
    pub labels: Labels,
    /// Name of the figure.
    pub metric: String,
    /// Its unit, before it is divided by units of work.
    pub unit: String,
    /// Per which unit of work; `None`: per run.
    pub per: Option<String>,
    /// One per file; `None` where the file does not have the figure.
    pub columns: Vec<Option<Column>>,
    /// What differs.
    pub pairs: Vec<Pair>,
}

/// One figure in one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    /// Where the numbers come from.
    pub origin: Origin,
    /// Mean over runs; `None` where none was measured.
    pub mean: Option<Estimated>,
    /// Median over runs.
    pub median: Option<f64>,
    /// Mean of a run as a whole, not divided by units of work.
    pub total: Option<f64>,
    /// Least share of its time in which a counter was counting; below 1 the value is an estimate.
    pub counted: Option<f64>,
    /// Runs that are above a limit and have no number; then there is no mean, and the median is that of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Beyond>,
    /// Runs with a number.
    pub reached: usize,
    /// Why there is no mean, as the first run without a number has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One figure in two files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Index of the file compared with.
    pub base: usize,
    /// Index of the other file.
    pub other: usize,
    /// Whether runs are compared pair by pair, as those of the arms of one file: then `n` of `difference`
    /// and `ratio` is the number of pairs.
    pub paired: bool,
    /// Difference of means; of pairs, less what a drift made of it.
    pub difference: Option<Estimated>,
    /// Ratio of means; `None` where a run has nothing above 0.
    pub ratio: Option<Estimated>,
    /// Hedges' g: the difference in standard deviations of a run; without interval for pairs.
    pub g: Option<Estimated>,
    /// p-value of this test alone.
    pub p: Option<f64>,
    /// p-value corrected for all tests of the comparison.
    pub p_adjusted: Option<f64>,
    /// What can be said.
    pub verdict: Verdict,
    /// Why there is no test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// What can be said of two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The other file has more.
    More,
    /// The other file has less.
    Less,
    /// Every run of both has the very same value.
    Equal,
    /// The runs do not tell.
    CannotTell,
    /// One of them does not have the figure.
    Unmeasured,
}

/// Sets files side by side.
///
/// # Errors
/// If a unit of work, or what is to be explained, is not in the files.
pub fn compare(files: &[(String, RunFile)], options: &Options) -> Result<Comparison, CompareError> {
    let columns = Columns::new(files);
    let head = |((name, file), arm): (&(String, RunFile), &Option<Vec<String>>)| FileHead {
        arm: arm.clone(),
        ..FileHead::new(name, file)
    };
    let heads: Vec<FileHead> = columns.files.iter().zip(&columns.arms).map(head).collect();
    let per = bases(&heads, &options.per)?;
    let base = options.base.or_else(|| columns.are_arms().then_some(0));
    let mut all = figures(&columns.files, &per);
    all.retain(|f| options.metric.as_ref().is_none_or(|regex| regex.is_match(&f.metric)));
    let pairs = pairs(heads.len(), base);
    // Figures by pair: what all of them tell of spreads holds for one pair of files.
    let tests = |&(a, b): &(usize, usize)| {
        let paired: Option<Vec<Pairs>> = all.iter().map(|f| columns.pairs(f, (a, b))).collect();
        match paired {
            Some(paired) => paired_tests(&paired),
            None => change_tests(&all.iter().map(|f| f.two(a, b)).collect::<Vec<_>>()),
        }
    };
    let tested: Vec<Vec<Option<Change>>> = pairs.iter().map(tests).collect();
    let of_two = |&(a, b): &(usize, usize)| {
        correlation_in_time(&all.iter().map(|f| f.two(a, b)).collect::<Vec<_>>())
    };
    let in_time: Vec<f64> = pairs.iter().map(of_two).collect();
    let is_tested = |at: usize| tested.iter().any(|tests| tests[at].is_some());
    let names = all.iter().enumerate().filter(|(at, _)| is_tested(*at));
    let primary = primary(&names.map(|(_, figure)| &*figure.metric).collect::<Vec<_>>());
    let p_values: Vec<Option<f64>> = tested.iter().flatten().map(|t| t.map(|t| t.p)).collect();
    let is_primary: Vec<bool> = (pairs.iter().flat_map(|_| &all))
        .map(|figure| primary.as_ref() == Some(&figure.metric))
        .collect();
    let adjusted = weighted_holm(&p_values, &weights(&p_values, &is_primary));
    let row = |(at, figure): (usize, &MetricValues)| ComparedMetric {
        labels: figure.labels.clone(),
        metric: figure.metric.clone(),
        unit: figure.unit.clone(),
        per: figure.per.clone(),
        columns: figure.columns.iter().map(|c| c.as_ref().map(column)).collect(),
        pairs: pairs
            .iter()
            .enumerate()
            .map(|(i, &(base, other))| {
                let p = (tested[i][at].map(|t| t.p), adjusted[i * all.len() + at]);
                let sides = Sides::of(figure, (base, other), &columns, in_time[i]);
                pair(&sides, (base, other), p, options.alpha)
            })
            .collect(),
    };
    let rows: Vec<ComparedMetric> = all.iter().enumerate().map(row).collect();
    let explanations = match &options.explain {
        Some(asked) => explain::explain(&all, &rows, &tested, asked)?,
        None => Vec::new(),
    };
    Ok(Comparison {
        not_interleaved: columns.apart(&pairs),
        files: heads,
        per,
        base,
        alpha: options.alpha,
        tests: adjusted.iter().flatten().count(),
        primary,
        rows,
        explanations,
    })
}

/// Names of metrics for the time that the work took; the first one that was tested is the primary metric.
const PRIMARY: [&str; 9] = [
    "duration_time",
    "wall",
    "elapsed",
    "time",
    "duration",
    "task-clock",
    "cycles",
    "cpu-cycles",
    "cpu_cycles",
];

/// The metric with half of the level; `None` where there is no time, or nothing else.
fn primary(tested: &[&str]) -> Option<String> {
    let found = PRIMARY.iter().find(|name| tested.contains(name))?;
    tested.iter().any(|name| name != found).then(|| (*found).to_owned())
}

/// Weights of tests: those of the primary metric together weigh as much as all others together.
fn weights(p_values: &[Option<f64>], is_primary: &[bool]) -> Vec<f64> {
    let number = |wanted: bool| {
        let tests = p_values.iter().zip(is_primary);
        tests.filter(|(p, is)| p.is_some() && **is == wanted).count().max(1) as f64
    };
    let (own, others) = (number(true), number(false));
    is_primary.iter().map(|&is| if is { 1.0 / own } else { 1.0 / others }).collect()
}

/// Units of work to divide by.
fn bases(heads: &[FileHead], asked: &[String]) -> Result<Vec<Option<String>>, CompareError> {
    if asked.is_empty() {
        let first = heads.first().map(|head| head.units.keys().cloned().collect::<Vec<_>>());
        let common = first.unwrap_or_default().into_iter();
        let common: Vec<Option<String>> = common
            .filter(|unit| heads.iter().all(|head| head.units.contains_key(unit)))
            .map(Some)
            .collect();
        return Ok(if common.is_empty() { vec![None] } else { common });
    }
    let base = |unit: &String| {
        if unit == TOTAL {
            return Ok(None);
        }
        match heads.iter().find(|head| !head.units.contains_key(unit)) {
            None => Ok(Some(unit.clone())),
            Some(head) => Err(CompareError::NoSuchUnit {
                file: head.name.clone(),
                unit: unit.clone(),
                known: head.units.keys().cloned().collect(),
            }),
        }
    };
    asked.iter().map(base).collect()
}

/// Pairs of files to compare.
fn pairs(files: usize, base: Option<usize>) -> Vec<(usize, usize)> {
    match base {
        Some(base) => (0..files).filter(|&i| i != base).map(|i| (base, i)).collect(),
        None => (0..files).flat_map(|a| (a + 1..files).map(move |b| (a, b))).collect(),
    }
}

fn column(measured: &Measured) -> Column {
    let numbers = measured.numbers();
    Column {
        origin: measured.origin,
        mean: exact(&numbers)
            .or_else(|| mean_interval(&numbers, LEVEL).map(Estimated::from))
            .filter(|_| measured.beyond.is_none()),
        beyond: measured.beyond,
        reached: numbers.len(),
        median: median(&numbers),
        total: pmuscope_stats::mean(&measured.totals),
        counted: measured.counted,
        why: if numbers.is_empty() { measured.why.clone() } else { None },
    }
}

/// Of values that are all the same: rounding errors are no spread. `None` where they are not.
fn exact(values: &[f64]) -> Option<Estimated> {
    let value = *values.first()?;
    let limits = Limits { low: value, high: value, level: LEVEL };
    let is_one = values.len() > 1 && values.iter().all(|other| *other == value);
    is_one.then_some(Estimated { value, interval: Some(limits), n: values.len(), why: None })
}

/// One figure in two columns.
struct Sides {
    two: TwoSamples,
    /// How much runs depend on those before them, by all figures.
    in_time: f64,
    /// Where runs are compared pair by pair.
    pairs: Option<Pairs>,
    is_constant: bool,
    /// Whether runs of a side are only known to be above a limit.
    is_beyond: bool,
}

impl Sides {
    fn of(
        figure: &MetricValues,
        (base, other): (usize, usize),
        columns: &Columns,
        in_time: f64,
    ) -> Self {
        let two = figure.two(base, other);
        let pairs = columns.pairs(figure, (base, other));
        let is_constant = match &pairs {
            Some(pairs) => pairs.list.len() > 1 && pairs.is_constant(),
            None => two.a.len() > 1 && two.b.len() > 1 && two.is_constant(),
        };
        let is_beyond = figure.is_beyond(base) || figure.is_beyond(other);
        Self { two, in_time, pairs, is_constant, is_beyond }
    }

    fn difference(&self) -> Option<Estimate> {
        match &self.pairs {
            Some(pairs) => pairs.difference(LEVEL),
            None => self.two.difference(self.in_time, LEVEL),
        }
    }

    fn ratio(&self) -> Option<Estimate> {
        match &self.pairs {
            Some(pairs) => pairs.ratio(LEVEL),
            None => self.two.ratio(self.in_time, LEVEL),
        }
    }

    /// Runs, or pairs of runs, of the side with fewer.
    fn n(&self) -> usize {
        let two = || self.two.a.len().min(self.two.b.len());
        self.pairs.as_ref().map_or_else(two, |pairs| pairs.list.len())
    }

    /// Why there is no test.
    fn untested(&self) -> &'static str {
        match &self.pairs {
            Some(pairs) if pairs.list.len() < 3 => {
                "fewer than three pairs cannot distinguish a difference from drift"
            }
            Some(pairs) if pairs.is_of_one_order() => {
                "all pairs ran in the same order, so drift would look like a difference"
            }
            None if self.n() < 2 => "one run shows no variation between runs",
            _ => {
                "all runs of a file are identical, and the resolution of the measurement is unknown"
            }
        }
    }
}

fn pair(
    sides: &Sides,
    (base, other): (usize, usize),
    (p, p_adjusted): (Option<f64>, Option<f64>),
    alpha: f64,
) -> Pair {
    let difference = sides.difference();
    let (verdict, why) = match (&difference, p_adjusted) {
        (None, _) if sides.is_beyond => (Verdict::CannotTell, Some(BEYOND)),
        (None, _) => (Verdict::Unmeasured, None),
        (Some(_), None) if sides.is_constant => (Verdict::Equal, None),
        (Some(_), None) => (Verdict::CannotTell, Some(sides.untested())),
        (Some(d), Some(p)) if p <= alpha && d.value > 0.0 => (Verdict::More, None),
        (Some(_), Some(p)) if p <= alpha => (Verdict::Less, None),
        _ => (Verdict::CannotTell, None),
    };
    let paired = sides.pairs.is_some();
    let (a, b) = sides.two.values();
    let g = hedges_g(&a, &b, LEVEL).map(|g| match paired {
        // Its interval is of independent samples.
        true => Estimate { interval: None, n: sides.n(), ..g },
        false => g,
    });
    Pair {
        base,
        other,
        paired,
        difference: match verdict {
            Verdict::Equal => exact(&vec![0.0; sides.n()]),
            _ => difference.map(Estimated::from),
        },
        ratio: sides.ratio().map(Estimated::from),
        g: g.map(|g| match paired {
            true => Estimated { why: None, ..g.into() },
            false => g.into(),
        }),
        p,
        p_adjusted,
        verdict,
        why,
    }
}

/// Why there is no test of runs that are above a limit.
const BEYOND: &str = "not all runs have a value within the limit, and those that do say nothing \
    about the others";

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
