//! Run files side by side.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use pmuscope_measure::compare::{Comparison, Head, Row};
use pmuscope_measure::{Estimated, Origin};

use crate::escape::escape;
use crate::number;
use crate::style::{Style, wrap};
use crate::table::{Cell, Column, Table};

/// The table of `pmuscope compare`: a row per figure; per file its runs, median and, but for the
/// first, the ratio to the first.
pub fn compare_text(comparison: &Comparison, style: &Style) -> String {
    let names = short_names(&comparison.files);
    let mut out = head(comparison, &names);
    let keys: Vec<&str> = label_keys(&comparison.rows);
    let emulated = comparison.files.iter().any(|file| file.emulator.is_some());
    let mut table = Table::new(columns(&keys, &names));
    for row in &comparison.rows {
        table.row(cells(row, &keys, emulated));
    }
    out += "\n";
    out += &table.render(style);
    for note in notes(&comparison.files) {
        out += "\n";
        out += &wrap(&note, style.width, 0);
        out += "\n";
    }
    style.text(&out).into_owned()
}

fn head(comparison: &Comparison, names: &[String]) -> String {
    let figures = number::count(comparison.rows.len() as u64);
    let mut out = format!("{figures} figures: median ±95 %");
    if let [first, _, ..] = names {
        let _ = write!(out, ", ratio of medians to {first}");
    }
    out.push('\n');
    for (name, file) in names.iter().zip(&comparison.files) {
        let machine = file.processor.as_deref().map_or(String::new(), |p| format!(" on {p}"));
        let command: String = file.command.join(" ").chars().take(100).collect();
        let _ =
            writeln!(out, "{name}: {} runs{}, {}", file.runs, escape(&machine), escape(&command));
    }
    out
}

/// File names without folders, unless that makes two alike.
fn short_names(files: &[Head]) -> Vec<String> {
    let base = |file: &Head| {
        let name = Path::new(&file.name).file_name();
        escape(&name.unwrap_or_default().to_string_lossy()).into_owned()
    };
    let short: Vec<String> = files.iter().map(base).collect();
    let distinct: HashSet<&String> = short.iter().collect();
    if distinct.len() == short.len() {
        return short;
    }
    files.iter().map(|file| escape(&file.name).into_owned()).collect()
}

pub(crate) fn label_keys(rows: &[Row]) -> Vec<&str> {
    let keys: BTreeSet<&str> =
        rows.iter().flat_map(|r| r.labels.keys()).map(String::as_str).collect();
    keys.into_iter().collect()
}

pub(crate) fn columns(keys: &[&str], names: &[String]) -> Vec<Column> {
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(escape(key))).collect();
    columns.push(Column::text("metric"));
    columns.push(Column::text("unit"));
    for (i, name) in names.iter().enumerate() {
        columns.push(Column::number("n"));
        columns.push(Column::number(name));
        if i > 0 {
            columns.push(Column::number("ratio"));
        }
    }
    columns
}

pub(crate) fn cells(row: &Row, keys: &[&str], emulated: bool) -> Vec<Cell> {
    let label = |key: &&str| row.labels.get(*key).map_or(String::new(), |v| escape(v).into_owned());
    let mut cells: Vec<Cell> = keys.iter().map(|key| Cell::new(label(key))).collect();
    cells.push(Cell::new(escape(&row.metric)));
    cells.push(Cell::new(unit(row, emulated)));
    for (i, column) in row.columns.iter().enumerate() {
        let median = column.as_ref().and_then(|c| c.median);
        cells.push(Cell::new(median.map_or(0, |m| m.n).to_string()));
        cells.push(Cell::measured(median, |m| value(&m, &row.unit)));
        if i > 0 {
            let ratio = column.as_ref().and_then(|c| c.ratio);
            cells.push(Cell::measured(ratio, |r| value(&r, "")));
        }
    }
    cells
}

/// The unit; with the mark of emulated machines if the figure depends on their speed.
fn unit(row: &Row, emulated: bool) -> String {
    let unit = escape(&row.unit);
    let origins = || row.columns.iter().flatten().map(|column| column.origin);
    let said = origins().any(|origin| matches!(origin, Origin::Program | Origin::Clock));
    let is_time = matches!(&*unit, "s" | "ms" | "µs" | "ns");
    let is_speed = is_time || unit.ends_with("/s") || said;
    if emulated && is_speed { format!("{unit} (emu)").trim().to_owned() } else { unit.into_owned() }
}

/// An estimate with half the width of its interval; of an uneven interval, the wider side.
pub(crate) fn value(estimate: &Estimated, unit: &str) -> String {
    let half = estimate
        .interval
        .map(|i| (estimate.value - i.low).max(i.high - estimate.value))
        .filter(|half| *half > 0.0)
        // No more digits than anyone needs.
        .map(|half| half.max(1e-4 * estimate.value.abs()));
    match (unit, half) {
        ("B", Some(half)) => format!("{} ±{}", bytes(estimate.value), bytes(half)),
        ("B", None) => bytes(estimate.value),
        (_, Some(half)) => number::interval(estimate.value, half),
        // Counts are exact where all runs agree.
        ("", None) if estimate.value.fract() == 0.0 => number::fixed(estimate.value, 0),
        (_, None) => number::significant(estimate.value, 3),
    }
}

/// Sizes are not negative and far below 2^64.
fn bytes(value: f64) -> String {
    number::bytes(value.max(0.0).round() as u64)
}

/// What makes the files less comparable than their numbers look.
fn notes(files: &[Head]) -> Vec<String> {
    let mut notes = Vec::new();
    let different = |of: fn(&Head) -> &Option<String>| {
        let values: BTreeSet<&str> = files.iter().filter_map(|f| of(f).as_deref()).collect();
        (values.len() > 1).then(|| values.into_iter().map(escape).collect::<Vec<_>>().join(", "))
    };
    if let Some(processors) = different(|f| &f.processor) {
        notes.push(format!("The files are of different processors: {processors}."));
    }
    if let Some(kernels) = different(|f| &f.kernel) {
        notes.push(format!("The files are of different kernels: {kernels}."));
    }
    let keys: BTreeSet<&String> = files.iter().flat_map(|f| f.parameters.keys()).collect();
    for key in keys {
        let value =
            |file: &Head| file.parameters.get(key).map_or("-".into(), |v| escape(v).into_owned());
        let values: BTreeSet<String> = files.iter().map(value).collect();
        if values.len() > 1 {
            let values: Vec<String> = values.into_iter().collect();
            notes.push(format!("The files differ in {}: {}.", escape(key), values.join(", ")));
        }
    }
    for file in files {
        let name = escape(&file.name);
        if let Some(emulator) = &file.emulator {
            notes.push(format!(
                "{name} is of an emulated machine ({}): what depends on speed is not a machine's.",
                escape(emulator)
            ));
        }
        if !file.finished {
            notes.push(format!("{name} was interrupted: it has the runs done until then."));
        }
        if file.failed > 0 {
            notes.push(format!(
                "{name}: {} of {} runs did not end with status 0.",
                file.failed, file.runs
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::Limits;
    use pmuscope_measure::compare::Column as Values;

    fn file(name: &str, processor: &str) -> Head {
        Head {
            name: name.to_owned(),
            command: vec!["pmuscope".into(), "bench".into(), "capture".into()],
            started: "0".into(),
            processor: Some(processor.to_owned()),
            kernel: Some("6.1.0".into()),
            emulator: None,
            parameters: [("rate".to_owned(), "25000".to_owned())].into(),
            runs: 15,
            failed: 0,
            finished: true,
        }
    }

    fn estimate(value: f64, half: f64) -> Estimated {
        let interval = (half > 0.0).then(|| Limits {
            low: value - half,
            high: value + half / 2.0,
            level: 0.95,
        });
        Estimated { value, interval, n: 15, why: None }
    }

    fn values(median: Option<Estimated>, ratio: Option<Estimated>) -> Option<Values> {
        Some(Values { origin: Origin::Clock, median, ratio, why: None })
    }

    fn row(arm: &str, metric: &str, unit: &str, columns: Vec<Option<Values>>) -> Row {
        let labels = [("arm".to_owned(), arm.to_owned())].into();
        Row { labels, metric: metric.to_owned(), unit: unit.to_owned(), columns }
    }

    #[test]
    fn a_row_per_figure_and_a_column_per_file() {
        let comparison = Comparison {
            files: vec![file("a/base.json", "A"), file("b/new.json", "A")],
            rows: vec![
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
            ],
        };
        insta::assert_snapshot!(compare_text(&comparison, &Style::PLAIN), @r"
        3 figures: median ±95 %, ratio of medians to base.json
        base.json: 15 runs on A, pmuscope bench capture
        new.json: 15 runs on A, pmuscope bench capture

        arm   metric   unit   n         base.json   n     new.json         ratio
        BASE  time     s     15       11.31 ±0.04  15  14.37 ±0.21  1.270 ±0.019
        BASE  max_rss  B     15  205 MiB ±977 KiB   0            -             -
        BASE  lost           15                 0   0            -             -
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

    #[test]
    fn what_makes_files_less_comparable_is_said() {
        let mut other = file("b\u{1b}.json", "B");
        (other.failed, other.finished) = (2, false);
        other.parameters = [("rate".to_owned(), "1000".to_owned())].into();
        insta::assert_snapshot!(notes(&[file("a.json", "A"), other]).join("\n"), @r"
        The files are of different processors: A, B.
        The files differ in rate: 1000, 25000.
        b\x1b.json was interrupted: it has the runs done until then.
        b\x1b.json: 2 of 15 runs did not end with status 0.
        ");
    }

    #[test]
    fn names_keep_their_folders_where_they_need_them() {
        let names = |a: &str, b: &str| short_names(&[file(a, "A"), file(b, "A")]);
        assert_eq!(names("x/a.json", "x/b.json"), ["a.json", "b.json"]);
        assert_eq!(names("x/a.json", "y/a.json"), ["x/a.json", "y/a.json"]);
    }
}
