//! What the same command measured in several guests: a column per guest.

use std::collections::BTreeSet;

use pmuscope_measure::compare::medians::{MedianRow, compare};
use pmuscope_measure::{Guest, RunFile};

use crate::compare::{label_fields, push_notes};
use crate::escape::escape;
use crate::number;
use crate::runs::{median_fields, unit};
use crate::sheet::{Field, Sheet};
use crate::style::{Style, wrap};

/// The label that distinguishes guests.
const CELL: &str = "cell";
/// Enough digits of a checksum to distinguish two.
const DIGITS: usize = 12;

/// The table of `pmuscope lab run` with several kernels or settings: which guests, then a row per
/// figure with a column for each guest; ratios are to the first.
pub fn guests_text(file: &RunFile, style: &Style) -> String {
    let names: Vec<String> =
        file.guests.iter().map(|guest| escape(&guest.cell).into_owned()).collect();
    let parts: Vec<(String, RunFile)> =
        file.guests.iter().map(|g| (g.cell.clone(), file.part(CELL, &g.cell))).collect();
    let mut out = format!("{}: median with 95% CI", number::counted(names.len(), "guest"));
    if let [first, _, ..] = names.as_slice() {
        out += &format!(", ratio of medians to {first}");
    }
    out.push('\n');
    for (guest, (_, part)) in file.guests.iter().zip(&parts) {
        out += &wrap(&head(guest, part), style.width, 2);
        out.push('\n');
    }
    let comparison = compare(&parts);
    let emulated = file.guests.iter().any(Guest::is_emulated);
    if comparison.rows.iter().all(|row| row.labels.is_empty()) {
        let mut fields = vec![
            Field::text("metric", |row: &MedianRow| Some(&*row.metric)).rigid(),
            Field::text("unit", |row: &MedianRow| Some(unit(row, emulated))).rigid(),
        ];
        fields.extend(median_fields(&names));
        let sheet = Sheet::new(fields, &comparison.rows, comparison.rows.len());
        out += &format!("\n{}", sheet.text(style));
    } else {
        // Of figures one metric at a time, which is said above the table.
        for (metric, rows) in by_metric(&comparison.rows) {
            let unit = rows.first().map_or(String::new(), |row| unit(row, emulated));
            let unit = if unit.is_empty() { unit } else { format!(", {unit}") };
            let mut fields = label_fields(&comparison.rows, |row: &MedianRow| &row.labels);
            fields.extend(median_fields(&names));
            let number = rows.len();
            let sheet = Sheet::new(fields, rows, number);
            out += &format!("\n{}{unit}\n{}", escape(metric), sheet.text(style));
        }
    }
    push_notes(&mut out, &notes(file, &parts), style);
    style.text(&out).into_owned()
}

/// What was asked for comes first: when placement was good, then how good it was.
const FIRST: [&str; 3] = ["converged", "locality_mean", "placed_mean"];

/// Figures of one metric together, else in their order; those of which no guest has a number are left out.
fn by_metric(rows: &[MedianRow]) -> Vec<(&str, Vec<&MedianRow>)> {
    let mut all: Vec<(&str, Vec<&MedianRow>)> = Vec::new();
    let has_some = |row: &&MedianRow| {
        row.columns
            .iter()
            .flatten()
            .any(|column| column.median.is_some() || column.beyond.is_some())
    };
    for row in rows.iter().filter(has_some) {
        match all.iter_mut().find(|(metric, of)| *metric == row.metric && of[0].unit == row.unit) {
            Some((_, of)) => of.push(row),
            None => all.push((&row.metric, Vec::from([row]))),
        }
    }
    let place = |metric: &str| FIRST.iter().position(|first| *first == metric);
    all.sort_by_key(|(metric, _)| place(metric).unwrap_or(FIRST.len()));
    all
}

/// `6.1 a=0: Linux 6.1.0-56-cloud-amd64, config 3f2a9c01d2e4, 8 CPUs, tcg; 3 runs. console=…`.
fn head(guest: &Guest, part: &RunFile) -> String {
    let or = |text: &Option<String>| text.as_deref().map_or("-".into(), escape).into_owned();
    let digits: String = or(&guest.config_sha256).chars().take(DIGITS).collect();
    format!(
        "{}: Linux {}, config {digits}, {}, {}; {}; {}",
        escape(&guest.cell),
        or(&guest.kernel),
        escape(&guest.topology),
        or(&guest.acceleration),
        number::counted(part.runs.len(), "run"),
        or(&guest.command_line),
    )
}

/// Of several lines the first: the others are those of a guest's console.
fn in_a_line(why: &str) -> String {
    escape(why.lines().next().unwrap_or_default().trim_end_matches(". The guest's last lines:"))
        .into_owned()
}

fn notes(file: &RunFile, parts: &[(String, RunFile)]) -> Vec<String> {
    let mut notes = Vec::new();
    if file.guests.iter().any(Guest::is_emulated) {
        notes.push(
            "Metrics marked (emu) depend, or may depend, on the speed of an emulator (QEMU TCG), not hardware; \
             counts and placement hold."
                .to_owned(),
        );
    }
    for (name, part) in parts {
        let failed: Vec<_> = part.runs.iter().filter(|run| run.exit != Some(0)).collect();
        let reasons: BTreeSet<&str> = failed.iter().filter_map(|run| run.why.as_deref()).collect();
        if !failed.is_empty() {
            let why = reasons.iter().map(|why| in_a_line(why)).collect::<Vec<_>>().join("; ");
            let (failed, all) = (failed.len(), number::counted(part.runs.len(), "run"));
            notes.push(format!("{}: {failed} of {all} failed: {why}", escape(name)));
        }
    }
    if let Some(why) = &file.why {
        notes.push(format!("Not all guests were run: {}.", escape(why)));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Labels, Origin, Program, Run, RunValue};

    fn add(file: &mut RunFile, cell: &str, wall: Result<f64, &str>) {
        let labels = Labels::from([(CELL.to_owned(), cell.to_owned())]);
        let index = file.runs.len();
        let why = wall.err().map(str::to_owned);
        file.runs.push(Run {
            index,
            order: index,
            round: Some(0),
            labels: labels.clone(),
            started: "0".into(),
            duration_s: 1.0,
            exit: why.is_none().then_some(0),
            why,
            units: Default::default(),
        });
        if let Ok(wall) = wall {
            file.add(index, &labels, "wall", ("s", Origin::Emulated), Ok(wall));
        }
    }

    /// As bench numa has them: tests as rows, kernels as columns, a metric at a time.
    #[test]
    fn tests_are_rows_and_what_never_converged_says_so() {
        let tool = Program { name: "pmuscope".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        for cell in ["6.1", "6.12"] {
            file.guests.push(Guest { cell: cell.into(), ..Guest::default() });
            for (test, seconds) in [("1x3", [10.0, 10.0, 10.0]), ("2x3", [1.5, 2.5, 10.0])] {
                let labels = [(CELL, cell), ("test", test)];
                let labels: Labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
                for (run, &seconds) in seconds.iter().enumerate() {
                    let never = cell == "6.1" && seconds >= 10.0;
                    let value = match never {
                        true => RunValue::beyond(run, seconds, "not within the time".into()),
                        false => RunValue::new(run, Ok(seconds)),
                    };
                    file.add(run, &labels, "locality_mean", ("", Origin::Estimate), Ok(0.5));
                    file.add_value(&labels, "converged", ("s", Origin::Clock), value);
                    file.add(run, &labels, "speed", ("GB/s", Origin::Program), Err("no".into()));
                }
            }
        }
        file.guests[0].acceleration = Some("tcg".into());
        crate::widths::fits("guests", |style| guests_text(&file, style));
        insta::assert_snapshot!(guests_text(&file, &Style::PLAIN), @r"
        2 guests: median with 95% CI, ratio of medians to 6.1
        6.1: Linux -, config -, , tcg; 0 runs; -
        6.12: Linux -, config -, , -; 0 runs; -

        converged, s (emu)
        test  n             6.1  n  6.12  ratio
        1x3   3          > 10.0  3  10.0      -
        2x3   3  2.00 in 2 of 3  3  2.50      -

        locality_mean
        test  n    6.1  n   6.12  ratio
        1x3   3  0.500  3  0.500      1
        2x3   3  0.500  3  0.500      1

        Metrics marked (emu) depend, or may depend, on the speed of an emulator (QEMU TCG), not hardware; counts and placement hold.

        Not all guests were run: not finished.
        ");
    }

    #[test]
    fn a_column_per_guest_and_a_failed_cell_is_a_failed_cell() {
        let tool = Program { name: "pmuscope".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        for (cell, ran) in [("6.1", true), ("6.12", true), ("6.x", false)] {
            file.guests.push(Guest {
                cell: cell.into(),
                kernel: ran.then(|| format!("{cell}.0")),
                config_sha256: Some("0123456789abcdef".into()),
                command_line: ran.then(|| "quiet".to_owned()),
                acceleration: ran.then(|| "tcg".to_owned()),
                topology: "2 CPUs, 1 nodes, 1024 MiB".into(),
                settings: Labels::new(),
            });
        }
        for round in 0..2 {
            add(&mut file, "6.1", Ok(1.0));
            add(&mut file, "6.12", Ok(2.0 + f64::from(round)));
            add(&mut file, "6.x", Err("the guest did not boot within 60 s"));
        }
        file.finish(1);
        crate::widths::fits("guests-2", |style| guests_text(&file, style));
        insta::assert_snapshot!(guests_text(&file, &Style::PLAIN), @r"
        3 guests: median with 95% CI, ratio of medians to 6.1
        6.1: Linux 6.1.0, config 0123456789ab, 2 CPUs, 1 nodes, 1024 MiB, tcg; 2 runs; quiet
        6.12: Linux 6.12.0, config 0123456789ab, 2 CPUs, 1 nodes, 1024 MiB, tcg; 2 runs; quiet
        6.x: Linux -, config 0123456789ab, 2 CPUs, 1 nodes, 1024 MiB, -; 2 runs; -

        metric  unit     n   6.1  n  6.12  ratio  n  6.x  ratio
        wall    s (emu)  2  1.00  2  2.50   2.50  0    -      -

        Metrics marked (emu) depend, or may depend, on the speed of an emulator (QEMU TCG), not hardware; counts and placement hold.

        6.x: 2 of 2 runs failed: the guest did not boot within 60 s
        ");
    }
}
