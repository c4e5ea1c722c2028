//! A comparison for spreadsheets and scripts: numbers with all digits.

use pmuscope_measure::Estimated;
use pmuscope_measure::compare::{ComparedMetric, Comparison, Pair};

use crate::sheet::{Lines, Separator};

/// Names of the columns.
const HEAD: [&str; 27] = [
    "metric",
    "labels",
    "unit",
    "per",
    "file",
    "origin",
    "n",
    "mean",
    "low",
    "high",
    "median",
    "total",
    "counted",
    "base",
    "difference",
    "difference_low",
    "difference_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "g",
    "g_low",
    "g_high",
    "p",
    "p_adjusted",
    "verdict",
    "pairs",
];

/// A head, a line per figure and file, and one per further pair of files: the file's values, then what
/// differs from `base`. What was not measured is empty.
#[must_use]
pub(super) fn compare_delimited(comparison: &Comparison, separator: Separator) -> String {
    let mut lines = Lines::new(separator);
    lines.push(HEAD);
    for row in &comparison.rows {
        for file in 0..comparison.files.len() {
            let pairs: Vec<&Pair> = row.pairs.iter().filter(|pair| pair.other == file).collect();
            if pairs.is_empty() {
                lines.push(line(comparison, row, file, None));
            }
            for pair in pairs {
                lines.push(line(comparison, row, file, Some(pair)));
            }
        }
    }
    lines.finish()
}

fn line(
    comparison: &Comparison,
    row: &ComparedMetric,
    file: usize,
    pair: Option<&Pair>,
) -> Vec<String> {
    let labels: Vec<String> = row.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let column = row.columns[file].as_ref();
    let mut fields = vec![
        row.metric.clone(),
        labels.join(";"),
        row.unit.clone(),
        row.per.clone().unwrap_or_default(),
        comparison.files[file].name.clone(),
        column.map_or(String::new(), |column| word(&column.origin)),
        column.and_then(|column| column.mean).map_or("0".to_owned(), |mean| mean.n.to_string()),
    ];
    fields.extend(three(column.and_then(|column| column.mean)));
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    fields.push(number(column.and_then(|column| column.median)));
    fields.push(number(column.and_then(|column| column.total)));
    fields.push(number(column.and_then(|column| column.counted)));
    fields.push(pair.map_or(String::new(), |pair| comparison.files[pair.base].name.clone()));
    for estimate in
        [pair.and_then(|p| p.difference), pair.and_then(|p| p.ratio), pair.and_then(|p| p.g)]
    {
        fields.extend(three(estimate));
    }
    fields.push(number(pair.and_then(|pair| pair.p)));
    fields.push(number(pair.and_then(|pair| pair.p_adjusted)));
    fields.push(pair.map_or(String::new(), |pair| word(&pair.verdict)));
    let pairs = pair.filter(|pair| pair.paired).and_then(|pair| pair.difference);
    fields.push(pairs.map_or(String::new(), |difference| difference.n.to_string()));
    fields
}

/// A value and the ends of its interval.
fn three(estimate: Option<Estimated>) -> [String; 3] {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let interval = estimate.and_then(|estimate| estimate.interval);
    [estimate.map(|e| e.value), interval.map(|i| i.low), interval.map(|i| i.high)].map(number)
}

/// As JSON has it.
fn word(of: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(of).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
