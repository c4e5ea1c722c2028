//! What the same command measured in several guests: a column per guest.

use std::collections::BTreeSet;

use pmuscope_measure::compare::medians::compare;
use pmuscope_measure::{Guest, RunFile};

use crate::escape::escape;
use crate::runs::{cells, columns, label_keys};
use crate::style::{Style, wrap};
use crate::table::Table;

/// The label that tells guests apart.
const CELL: &str = "cell";
/// As many digits of a checksum as tell two apart.
const DIGITS: usize = 12;

/// The table of `pmuscope lab run` with several kernels or settings: which guests, then a row per
/// figure with a column for each guest; ratios are to the first.
pub fn guests_text(file: &RunFile, style: &Style) -> String {
    let names: Vec<String> =
        file.guests.iter().map(|guest| escape(&guest.cell).into_owned()).collect();
    let parts: Vec<(String, RunFile)> =
        file.guests.iter().map(|g| (g.cell.clone(), file.part(CELL, &g.cell))).collect();
    let mut out = format!("{} guests: median ±95 %", names.len());
    if let [first, _, ..] = names.as_slice() {
        out += &format!(", ratio of medians to {first}");
    }
    out.push('\n');
    for (guest, (_, part)) in file.guests.iter().zip(&parts) {
        out += &wrap(&head(guest, part), style.width, 2);
        out.push('\n');
    }
    let comparison = compare(&parts);
    let keys = label_keys(&comparison.rows);
    let emulated = file.guests.iter().any(Guest::is_emulated);
    let mut table = Table::new(columns(&keys, &names));
    for row in &comparison.rows {
        table.row(cells(row, &keys, emulated));
    }
    out.push('\n');
    out += &table.render(style);
    for note in notes(file, &parts) {
        out.push('\n');
        out += &wrap(&note, style.width, 0);
        out.push('\n');
    }
    style.text(&out).into_owned()
}

/// `6.1 a=0: Linux 6.1.0-56-cloud-amd64, config 3f2a9c01d2e4, 8 CPUs, tcg; 3 runs. console=…`.
fn head(guest: &Guest, part: &RunFile) -> String {
    let or = |text: &Option<String>| text.as_deref().map_or("-".into(), escape).into_owned();
    let digits: String = or(&guest.config_sha256).chars().take(DIGITS).collect();
    format!(
        "{}: Linux {}, config {digits}, {}, {}; {} runs; {}",
        escape(&guest.cell),
        or(&guest.kernel),
        escape(&guest.topology),
        or(&guest.acceleration),
        part.runs.len(),
        or(&guest.command_line),
    )
}

fn notes(file: &RunFile, parts: &[(String, RunFile)]) -> Vec<String> {
    let mut notes = Vec::new();
    if file.guests.iter().any(Guest::is_emulated) {
        notes.push(
            "Figures marked (emu) depend, or may depend, on the speed of an emulator (QEMU TCG), \
             not of a machine; counts and placement hold."
                .to_owned(),
        );
    }
    for (name, part) in parts {
        let failed: Vec<_> = part.runs.iter().filter(|run| run.exit != Some(0)).collect();
        let reasons: BTreeSet<&str> = failed.iter().filter_map(|run| run.why.as_deref()).collect();
        if !failed.is_empty() {
            let why = reasons.iter().map(|why| escape(why)).collect::<Vec<_>>().join("; ");
            let (failed, all) = (failed.len(), part.runs.len());
            notes.push(format!("{}: {failed} of {all} runs failed: {why}", escape(name)));
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
    use pmuscope_measure::{Labels, Origin, Program, Run};

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
        insta::assert_snapshot!(guests_text(&file, &Style::PLAIN), @r"
        3 guests: median ±95 %, ratio of medians to 6.1
        6.1: Linux 6.1.0, config 0123456789ab, 2 CPUs, 1 nodes, 1024 MiB, tcg; 2 runs; quiet
        6.12: Linux 6.12.0, config 0123456789ab, 2 CPUs, 1 nodes, 1024 MiB, tcg; 2 runs; quiet
        6.x: Linux -, config 0123456789ab, 2 CPUs, 1 nodes, 1024 MiB, -; 2 runs; -

        metric  unit     n   6.1  n  6.12  ratio  n  6.x  ratio
        wall    s (emu)  2  1.00  2  2.50   2.50  0    -      -

        Figures marked (emu) depend, or may depend, on the speed of an emulator (QEMU TCG), not of a machine; counts and placement hold.

        6.x: 2 of 2 runs failed: the guest did not boot within 60 s
        ");
    }
}
