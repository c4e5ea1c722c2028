//! Figures over commits or days: run files in the order in which they were measured.

use pmuscope_stats::{LEVEL, change_points, mean_interval};
use serde::Serialize;

use super::figures::{MetricValues, figures};
use super::{CompareError, FileHead, Options, bases};
use crate::estimate::Estimated;
use crate::run_file::{Labels, Origin, RunFile};

/// Figures of many files in the order of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The files, the earliest first.
    pub files: Vec<FileHead>,
    /// Units of work that figures are divided by.
    pub per: Vec<Option<String>>,
    /// Share of trends without any change in which one is claimed, at most.
    pub alpha: f64,
    /// Figures.
    pub rows: Vec<TrendRow>,
}

/// One figure over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendRow {
    /// What tells it apart.
    pub labels: Labels,
    /// Name of the figure.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Per which unit of work.
    pub per: Option<String>,
    /// Where the numbers come from, as the first file with the figure has it.
    pub origin: Option<Origin>,
    /// Mean over the runs of each file; `None` where it does not have the figure.
    pub points: Vec<Option<Estimated>>,
    /// Where its level changed.
    pub shifts: Vec<Shift>,
}

/// A change of level that stands out from what varies from file to file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shift {
    /// Index of the first file after it.
    pub at: usize,
    /// That there is none, corrected for all figures.
    pub p_adjusted: f64,
    /// Level before, back to the shift before.
    pub before: f64,
    /// Level after, up to the next shift.
    pub after: f64,
}

/// Puts files in the order of time and finds where levels changed. Each file counts once, whatever its
/// runs: a day's runs share the day.
///
/// # Errors
/// If a file does not have a unit of work that was asked for.
pub fn trend(files: &[(String, RunFile)], options: &Options) -> Result<Trend, CompareError> {
    let mut files = files.to_vec();
    files.sort_by_key(|(_, file)| file.started.parse::<u128>().unwrap_or(0));
    let heads: Vec<FileHead> = files.iter().map(|(name, file)| FileHead::new(name, file)).collect();
    let per = bases(&heads, &options.per)?;
    let mut all = figures(&files, &per);
    all.retain(|f| options.metric.as_ref().is_none_or(|regex| regex.is_match(&f.metric)));
    let tests = all.len().max(1) as f64;
    let rows = all
        .iter()
        .map(|figure| {
            let points: Vec<Option<Estimated>> = figure
                .columns
                .iter()
                .map(|column| Some(mean_interval(&column.as_ref()?.numbers(), LEVEL)?.into()))
                .collect();
            TrendRow {
                labels: figure.labels.clone(),
                metric: figure.metric.clone(),
                unit: figure.unit.clone(),
                per: figure.per.clone(),
                origin: figure.columns.iter().flatten().map(|column| column.origin).next(),
                shifts: shifts(&points, resolution(figure), options.alpha, tests),
                points,
            }
        })
        .collect();
    Ok(Trend { files: heads, per, alpha: options.alpha, rows })
}

/// What no mean is known better than, relative to it: numbers that a file was written and read with.
const ROUNDING: f64 = 1e-9;

/// The coarsest step that a file's counts have.
fn resolution(figure: &MetricValues) -> f64 {
    figure.columns.iter().flatten().map(|column| column.resolution).fold(0.0, f64::max)
}

/// On logarithms where all values are positive: what a machine does to times, it does in proportion.
fn shifts(points: &[Option<Estimated>], resolution: f64, alpha: f64, tests: f64) -> Vec<Shift> {
    let present: Vec<(usize, f64)> =
        points.iter().enumerate().filter_map(|(i, p)| Some((i, (*p)?.value))).collect();
    let positive = present.iter().all(|&(_, value)| value > 0.0);
    let values: Vec<f64> =
        present.iter().map(|&(_, value)| if positive { value.ln() } else { value }).collect();
    let back = |value: f64| if positive { value.exp() } else { value };
    let largest = present.iter().map(|&(_, value)| value.abs()).fold(0.0, f64::max);
    let smallest = present.iter().map(|&(_, value)| value.abs()).fold(f64::INFINITY, f64::min);
    let step = resolution.max(ROUNDING * largest);
    let step = if positive { step / smallest } else { step };
    change_points(&values, step, alpha / tests)
        .into_iter()
        .map(|point| Shift {
            at: present[point.at].0,
            p_adjusted: (point.p * tests).min(1.0),
            before: back(point.before),
            after: back(point.after),
        })
        .collect()
}
