//! Figures of several columns by their medians.

use std::collections::BTreeMap;

use pmuscope_measure::compare::medians::{MedianColumn, MedianRow};
use pmuscope_measure::{Beyond, Estimated, Limits, Origin, RunFile};

use crate::escape::escape;
use crate::number;
use crate::sheet::Field;

/// The columns of each of `names`: how many runs, their median, its ratio to the first.
pub(crate) fn median_fields(names: &[String]) -> Vec<Field<'_, MedianRow>> {
    let fields = names.iter().enumerate().flat_map(|(at, name)| {
        let ratio = (at > 0).then(|| {
            Field::figure("ratio", move |row: &MedianRow| {
                Some(value(&row.columns[at].as_ref()?.ratio?, ""))
            })
        });
        let n = move |row: &MedianRow| row.columns[at].as_ref().map_or(0, runs_of) as u64;
        let median = move |row: &MedianRow| median_text(row.columns[at].as_ref()?, &row.unit);
        let rank = |first: usize| (first + at).try_into().unwrap_or(u8::MAX);
        let fields = [
            Field::count("n", n).optional(rank(100)),
            Field::figure(name.clone(), median).optional(if at == 0 { 0 } else { rank(1) }),
        ];
        fields.into_iter().chain(ratio.map(|ratio| ratio.optional(rank(1))))
    });
    fields.collect()
}

/// Runs that a figure has, those above a limit too.
fn runs_of(column: &MedianColumn) -> usize {
    column.median.map_or(0, |median| median.n) + column.beyond.map_or(0, |beyond| beyond.runs)
}

fn median_text(column: &MedianColumn, unit: &str) -> Option<String> {
    let median = column.median;
    match &column.beyond {
        Some(limit) => Some(beyond(limit, median.map(|of| of.value), median.map_or(0, |of| of.n))),
        None => Some(value(&median?, unit)),
    }
}

/// Of runs of which some are above a limit: `> 10.0`, or the median of those that are not and how many these are.
pub(crate) fn beyond(beyond: &Beyond, median: Option<f64>, reached: usize) -> String {
    let all = reached + beyond.runs;
    match median.filter(|_| reached > 0) {
        None => format!("> {}", number::fixed(beyond.above, 1)),
        Some(median) => format!("{} in {reached} of {all}", number::significant(median, 3)),
    }
}

/// The unit; with the mark of emulated machines if the figure depends on their speed.
pub(crate) fn unit(row: &MedianRow, emulated: bool) -> String {
    let origins = row.columns.iter().flatten().map(|column| column.origin);
    marked(&row.unit, origins, emulated)
}

/// The unit of a figure of these origins, with the mark of emulated machines if it depends on their
/// speed.
fn marked(unit: &str, origins: impl Iterator<Item = Origin>, emulated: bool) -> String {
    let mark = if emulated && depends_on_speed(unit, origins) { " (emu)" } else { "" };
    format!("{}{mark}", escape(unit)).trim().to_owned()
}

/// Whether a figure of this unit and these origins depends on how fast the machine is.
pub(crate) fn depends_on_speed(unit: &str, mut origins: impl Iterator<Item = Origin>) -> bool {
    let is_time = matches!(unit, "s" | "ms" | "µs" | "ns");
    let is_said = |origin| matches!(origin, Origin::Program | Origin::Clock);
    is_time || unit.ends_with("/s") || origins.any(is_said)
}

/// An estimate with its interval.
pub(crate) fn value(estimate: &Estimated, unit: &str) -> String {
    let ends = estimate.interval.filter(|of| of.high > of.low).map(|of| {
        // No more digits than anyone needs.
        let least = 1e-4 * estimate.value.abs();
        [of.low.min(estimate.value - least), of.high.max(estimate.value + least)]
    });
    match (unit, ends) {
        ("B", Some([low, high])) => {
            let size = bytes(estimate.value);
            match number::reach(estimate.value, low, high) {
                Some(half) => format!("{size} ± {}", bytes(half)),
                None => format!("{size} ({}–{})", bytes(low.max(0.0)), bytes(high)),
            }
        }
        ("B", None) => bytes(estimate.value),
        (_, Some([low, high])) => number::estimate(estimate.value, low, high),
        // Counts are exact where all runs agree.
        ("", None) if estimate.value.fract() == 0.0 => number::fixed(estimate.value, 0),
        // The same in all runs: three digits could make two of them look alike that are not.
        (_, None) if estimate.interval.is_some() => number::exact(estimate.value, 6),
        (_, None) => number::significant(estimate.value, 3),
    }
}

/// Sizes are not negative and far below 2^64.
fn bytes(value: f64) -> String {
    number::bytes(value.max(0.0).round() as u64)
}

/// Runs of each arm: `5`, or `4 to 5` where some are missing.
pub(crate) fn runs_per_arm(file: &RunFile) -> String {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for run in &file.runs {
        *counts.entry(&run.labels).or_default() += 1;
    }
    match (counts.values().min(), counts.values().max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "0".to_owned(),
    }
}

/// Values of a label, numbers by size, names as they came.
pub(crate) fn distinct(file: &RunFile, key: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut runs: Vec<_> = file.runs.iter().collect();
    runs.sort_by_key(|run| run.order);
    for value in runs.iter().filter_map(|run| run.labels.get(key)) {
        if !found.contains(value) {
            found.push(value.clone());
        }
    }
    found.sort_by_key(|value| value.parse::<u64>().unwrap_or(0));
    found
}

/// The estimate in a unit of which it has `factor` times as many.
pub(crate) fn scaled(estimate: Estimated, factor: f64) -> Estimated {
    let interval = estimate.interval.map(|i| Limits {
        low: i.low * factor,
        high: i.high * factor,
        level: i.level,
    });
    Estimated { value: estimate.value * factor, interval, ..estimate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::label_fields;
    use crate::sheet::Sheet;
    use crate::style::Style;
    use pmuscope_measure::compare::medians::MedianColumn as Values;

    fn estimate(value: f64, half: f64) -> Estimated {
        let interval = (half > 0.0).then(|| Limits {
            low: value - half,
            high: value + half / 2.0,
            level: 0.95,
        });
        Estimated { value, interval, n: 15, why: None }
    }

    fn values(median: Option<Estimated>, ratio: Option<Estimated>) -> Option<Values> {
        Some(Values { origin: Origin::Clock, median, ratio, beyond: None, why: None })
    }

    fn row(arm: &str, metric: &str, unit: &str, columns: Vec<Option<Values>>) -> MedianRow {
        let labels = [("arm".to_owned(), arm.to_owned())].into();
        MedianRow { labels, metric: metric.to_owned(), unit: unit.to_owned(), columns }
    }

    #[test]
    fn a_row_per_figure_and_a_column_per_file() {
        let rows = [
            row(
                "BASE",
                "time",
                "s",
                vec![
                    values(Some(estimate(11.31, 0.04)), None),
                    values(Some(estimate(14.37, 0.21)), Some(estimate(1.2705, 0.019))),
                ],
            ),
            row(
                "BASE",
                "max_rss",
                "B",
                vec![values(Some(estimate(215_000_000.0, 1_000_000.0)), None), None],
            ),
            row(
                "BASE",
                "lost",
                "",
                vec![values(Some(estimate(0.0, 0.0)), None), values(None, None)],
            ),
        ];
        let names = ["6.1".to_owned(), "6.12".to_owned()];
        let mut fields = label_fields(&rows, |row: &MedianRow| &row.labels);
        fields.push(Field::text("metric", |row: &MedianRow| Some(&*row.metric)));
        fields.push(Field::text("unit", |row: &MedianRow| Some(unit(row, false))));
        fields.extend(median_fields(&names));
        let sheet = Sheet::new(fields, &rows, rows.len());
        crate::widths::fits("runs", |style| sheet.text(style));
        insta::assert_snapshot!(sheet.text(&Style::PLAIN), @r"
        arm   metric   unit   n                        6.1   n                 6.12                ratio
        BASE  time     s     15        11.31 (11.27–11.33)  15  14.37 (14.16–14.47)  1.270 (1.252–1.280)
        BASE  max_rss  B     15  205 MiB (204 MiB–206 MiB)   0                    -                    -
        BASE  lost           15                          0   0                    -                    -
        ");
    }

    #[test]
    fn times_and_rates_of_emulated_machines_are_marked_and_counts_are_not() {
        let of = |text: &str, emulated| unit(&row("BASE", "x", text, vec![None]), emulated);
        for text in ["s", "µs", "Mop/s"] {
            assert_eq!((of(text, true), of(text, false)), (format!("{text} (emu)"), text.into()));
        }
        assert_eq!((of("B", true), of("", true)), ("B".to_owned(), String::new()));
    }
}
