//! Run files compared, a row per metric and pair of columns.

use std::collections::BTreeSet;
use std::path::Path;

use pmuscope_measure::compare::{
    Column, ComparedMetric, Options, Pair, Verdict, column_names, compare as compare_files,
};
use pmuscope_measure::{Estimated, RunFile, load};

use crate::columns::RowColumns;
use crate::error::TableError;
use crate::runs::origin;
use crate::table::ArrowTable;

/// How files are compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareOptions {
    /// Units of work to divide by, or `total`; empty: all that every file has.
    pub per: Vec<String>,
    /// Only metrics with names that match this regular expression.
    pub metric: Option<String>,
    /// Column that all others are compared with; `None`: all pairs.
    pub base: Option<String>,
    /// Share of comparisons without any difference in which one is claimed, at most.
    pub alpha: Option<f64>,
}

/// A metric in two columns.
struct PairRow<'a> {
    metric: &'a ComparedMetric,
    pair: &'a Pair,
}

impl PairRow<'_> {
    fn base(&self) -> Option<&Column> {
        self.metric.columns[self.pair.base].as_ref()
    }

    fn other(&self) -> Option<&Column> {
        self.metric.columns[self.pair.other].as_ref()
    }
}

/// What differs between run files, with p-values corrected for all of their metrics, as `pmuscope compare` has it.
///
/// # Errors
/// A file cannot be read, or there is no such base, unit or metric.
pub fn compare(paths: &[&Path], options: &CompareOptions) -> Result<ArrowTable, TableError> {
    let files = paths
        .iter()
        .map(|path| Ok((path.to_string_lossy().into_owned(), load(path)?)))
        .collect::<Result<Vec<(String, RunFile)>, TableError>>()?;
    let names = column_names(&files);
    let mut asked = Options { per: options.per.clone(), ..Options::default() };
    asked.alpha = options.alpha.unwrap_or(asked.alpha);
    if let Some(metric) = &options.metric {
        asked.only(metric)?;
    }
    asked.base = options.base.as_ref().map(|base| column(base, &names)).transpose()?;
    let comparison = compare_files(&files, &asked)?;
    let rows: Vec<PairRow<'_>> = comparison
        .rows
        .iter()
        .flat_map(|metric| metric.pairs.iter().map(move |pair| PairRow { metric, pair }))
        .collect();
    let keys: BTreeSet<&str> =
        comparison.rows.iter().flat_map(|row| row.labels.keys()).map(String::as_str).collect();
    let mut table = RowColumns::new(&rows).text("metric", |row| Some(&row.metric.metric));
    for key in keys {
        table = table.text(key, |row| row.metric.labels.get(key).map(String::as_str));
    }
    table = table
        .text("unit", |row| Some(&row.metric.unit))
        .text("per", |row| row.metric.per.as_deref())
        .text("base", |row| Some(&names[row.pair.base]))
        .text("other", |row| Some(&names[row.pair.other]))
        .text("origin", |row| Some(origin(row.other().or(row.base())?.origin)));
    table =
        estimate(table, ["base_mean", "base_low", "base_high"], |row| row.base()?.mean.as_ref())
            .u64("base_runs", "", |row| Some(row.base()?.reached as u64));
    table = estimate(table, ["other_mean", "other_low", "other_high"], |row| {
        row.other()?.mean.as_ref()
    })
    .u64("other_runs", "", |row| Some(row.other()?.reached as u64));
    table = estimate(table, ["difference", "difference_low", "difference_high"], |row| {
        row.pair.difference.as_ref()
    });
    table = estimate(table, ["ratio", "ratio_low", "ratio_high"], |row| row.pair.ratio.as_ref());
    Ok(table
        .f64("g", "", |row| Some(row.pair.g?.value))
        .f64("p", "", |row| row.pair.p)
        .f64("p_adjusted", "", |row| row.pair.p_adjusted)
        .text("verdict", |row| Some(verdict(row.pair.verdict)))
        .flag("paired", |row| Some(row.pair.paired))
        .text("why", |row| row.pair.why)
        .finish()?)
}

/// A number and its 95% CI.
fn estimate<'a, R>(
    rows: RowColumns<'a, R>,
    [value, low, high]: [&str; 3],
    of: impl Fn(&'a R) -> Option<&'a Estimated> + Copy,
) -> RowColumns<'a, R> {
    rows.f64(value, "as in unit", move |row| Some(of(row)?.value))
        .f64(low, "as in unit", move |row| Some(of(row)?.interval?.low))
        .f64(high, "as in unit", move |row| Some(of(row)?.interval?.high))
}

/// A column by its name, or by the name of its file without the folder.
fn column(base: &str, names: &[String]) -> Result<usize, TableError> {
    let is_called = |name: &String| {
        name == base || Path::new(name).file_name().is_some_and(|name| name == base)
    };
    names
        .iter()
        .position(is_called)
        .ok_or_else(|| TableError::NoSuchBase { base: base.to_owned(), known: names.to_vec() })
}

/// As JSON has it.
fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::More => "more",
        Verdict::Less => "less",
        Verdict::Equal => "equal",
        Verdict::CannotTell => "cannot_tell",
        Verdict::Unmeasured => "unmeasured",
    }
}
