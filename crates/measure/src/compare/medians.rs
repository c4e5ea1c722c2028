//! Run files side by side by their medians, as guests of one command are: one row per figure, one
//! column per file, ratios to the first.

use pmuscope_stats::{LEVEL, median_interval, ratio_of_medians};
use serde::Serialize;

use crate::censored::Beyond;
use crate::compare::FileHead;
use crate::estimate::{Estimated, SEED};
use crate::run_file::{Labels, Origin, RunFile, Series};

/// Run files side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MedianComparison {
    /// The files, in the order of columns; ratios are to the first.
    pub files: Vec<FileHead>,
    /// Figures, in the order in which the files have them.
    pub rows: Vec<MedianRow>,
}

/// One figure in all files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MedianRow {
    /// What tells it apart.
    pub labels: Labels,
    /// Name of the figure.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// One per file; `None` where the file does not have the figure.
    pub columns: Vec<Option<MedianColumn>>,
}

/// One figure in one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MedianColumn {
    /// Where the numbers come from.
    pub origin: Origin,
    /// Median of all runs; `None` where none was measured.
    pub median: Option<Estimated>,
    /// Median over the first file's; absent for the first file itself, and where the first has
    /// none above 0.
    pub ratio: Option<Estimated>,
    /// Runs that are above a limit and have no number; then the median is that of the others, without an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Beyond>,
    /// Why the median is absent, as the first run without a number has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Sets files side by side. Runs of different files are independent: ratios are of medians, with
/// bootstrap intervals.
pub fn compare(files: &[(String, RunFile)]) -> MedianComparison {
    let mut rows: Vec<MedianRow> = Vec::new();
    for (_, file) in files {
        for series in &file.series {
            if !rows.iter().any(|row| row.is_of(series)) {
                rows.push(MedianRow {
                    labels: series.labels.clone(),
                    metric: series.metric.clone(),
                    unit: series.unit.clone(),
                    columns: Vec::new(),
                });
            }
        }
    }
    for row in &mut rows {
        let of = |file: &RunFile| file.series.iter().find(|s| row.is_of(s)).cloned();
        let series: Vec<Option<Series>> = files.iter().map(|(_, file)| of(file)).collect();
        // A ratio of those that got there to those that did says nothing of the others.
        let whole = |series: &&Series| Beyond::of(&series.values).is_none();
        let base = series.first().and_then(|s| s.as_ref()).filter(whole).map(Series::numbers);
        row.columns = series
            .iter()
            .enumerate()
            .map(|(i, s)| Some(column(s.as_ref()?, base.as_deref().filter(|_| i > 0))))
            .collect();
    }
    MedianComparison {
        files: files.iter().map(|(name, file)| FileHead::new(name, file)).collect(),
        rows,
    }
}

impl MedianRow {
    fn is_of(&self, series: &Series) -> bool {
        self.metric == series.metric && self.labels == series.labels && self.unit == series.unit
    }
}

fn column(series: &Series, base: Option<&[f64]>) -> MedianColumn {
    let numbers = series.numbers();
    let beyond = Beyond::of(&series.values);
    let median = median_interval(&numbers, LEVEL, SEED).map(Estimated::from);
    let survivors = |median: Estimated| Estimated { interval: None, ..median };
    MedianColumn {
        origin: series.origin,
        median: if beyond.is_some() { median.map(survivors) } else { median },
        beyond,
        ratio: base
            .filter(|_| beyond.is_none())
            .and_then(|base| ratio_of_medians(base, &numbers, LEVEL, SEED))
            .map(Estimated::from),
        why: if numbers.is_empty() {
            series.values.iter().find_map(|v| v.why.clone())
        } else {
            None
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Program, RunValue};
    use std::time::UNIX_EPOCH;

    fn file(series: &[(&str, &str, &[Option<f64>])]) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        for (arm, metric, values) in series {
            let labels = Labels::from([("arm".to_owned(), (*arm).to_owned())]);
            for (run, value) in values.iter().enumerate() {
                let value = value.ok_or_else(|| "broken".to_owned());
                file.add(run, &labels, metric, ("s", Origin::Clock), value);
            }
        }
        file
    }

    #[test]
    fn ratios_are_to_the_first_file() {
        let first = [1.0, 1.1, 0.9, 1.0, 1.0].map(Some);
        let second = [2.0, 2.2, 1.8, 2.0, 2.0].map(Some);
        let got = compare(&[
            ("a".into(), file(&[("BASE", "wall", &first), ("X", "wall", &[None])])),
            ("b".into(), file(&[("Y", "wall", &[Some(1.0)]), ("BASE", "wall", &second)])),
        ]);
        let arms: Vec<&str> = got.rows.iter().map(|r| r.labels["arm"].as_str()).collect();
        assert_eq!(arms, ["BASE", "X", "Y"]);
        let [Some(a), Some(b)] = &got.rows[0].columns[..] else { panic!("{got:?}") };
        assert_eq!((a.median.unwrap().value, a.ratio), (1.0, None));
        let ratio = b.ratio.unwrap();
        assert_eq!((ratio.value, ratio.n), (2.0, 5));
        assert!(ratio.interval.unwrap().low < 2.0 && ratio.interval.unwrap().high > 2.0);
        let [Some(x), None] = &got.rows[1].columns[..] else { panic!("{got:?}") };
        assert_eq!((x.median, x.why.as_deref()), (None, Some("broken")));
        let [None, Some(y)] = &got.rows[2].columns[..] else { panic!("{got:?}") };
        let few = "too few runs for a confidence interval";
        assert_eq!((y.ratio, y.median.unwrap().why), (None, Some(few)));
    }

    #[test]
    fn runs_above_a_limit_are_told_and_nothing_is_set_against_them() {
        let mut some = file(&[("BASE", "converged", &[Some(3.0), Some(4.0)])]);
        let series = &mut some.series[0];
        series.values.push(RunValue::beyond(2, 10.0, "not within the time".to_owned()));
        let all = file(&[("BASE", "converged", &[Some(2.0), Some(2.0), Some(2.0)])]);
        for files in [[&some, &all], [&all, &some]] {
            let got = compare(&files.map(|file| ("x".to_owned(), file.clone())));
            let columns: Vec<&MedianColumn> = got.rows[0].columns.iter().flatten().collect();
            let at = if std::ptr::eq(files[0], &some) { 0 } else { 1 };
            assert_eq!(columns[at].beyond, Some(Beyond { runs: 1, above: 10.0 }));
            let median = columns[at].median.unwrap();
            assert_eq!((median.value, median.interval), (3.5, None));
            assert_eq!((columns[1 - at].beyond, columns[1].ratio), (None, None));
        }
    }

    #[test]
    fn no_ratio_to_zero() {
        let zeros = [Some(0.0); 6];
        let got = compare(&[
            ("a".into(), file(&[("BASE", "major_faults", &zeros)])),
            ("b".into(), file(&[("BASE", "major_faults", &zeros)])),
        ]);
        assert_eq!(got.rows[0].columns[1].as_ref().unwrap().ratio, None);
    }
}
