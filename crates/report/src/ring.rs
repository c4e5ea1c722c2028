//! The table of `pmuscope bench ring`: packets in a second, and what each of them costs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pmuscope_events::metrics::Metrics;
use pmuscope_measure::summary::{RunSummary, summary};
use pmuscope_measure::{Estimated, Origin, RunFile};

use crate::capture::scaled;
use crate::escape::escape;
use crate::number;
use crate::runs::value;
use crate::style::Style;
use crate::table::{Cell, Column, Table};

const ARM: &str = "arm";
const MPPS: &str = "mpps";

/// Header, a row per arm, what was not counted.
pub fn ring_text(file: &RunFile, style: &Style) -> String {
    let arms: BTreeSet<&String> = file.runs.iter().filter_map(|run| run.labels.get(ARM)).collect();
    let parts: Vec<(&String, RunSummary)> = arms
        .into_iter()
        .map(|arm| (arm, summary(&file.part(ARM, arm), &Metrics::default())))
        .collect();
    let mut out = head(file);
    let events = events(&parts);
    let mut columns = vec![
        Column::text("ring"),
        Column::number("n"),
        Column::number("Mpps ±95 %"),
        Column::number("ns/packet"),
    ];
    columns.extend(events.iter().map(|(name, unit)| {
        let unit = match &unit[..] {
            "" => String::new(),
            "ms" => " ns".to_owned(),
            unit => format!(" {}", escape(unit)),
        };
        Column::number(format!("{}{unit}/packet", escape(name)))
    }));
    let mut table = Table::new(columns);
    for (arm, summary) in &parts {
        let rate = figure(summary, MPPS).and_then(|row| row.per_run);
        let mut cells = vec![
            Cell::new(escape(arm)),
            Cell::new(summary.runs.to_string()),
            Cell::measured(rate, |rate| value(&rate, "Mpps")),
            Cell::measured(rate, |rate| number::significant(1e3 / rate.value, 3)),
        ];
        cells.extend(events.iter().map(|(name, unit)| {
            let per = figure(summary, name).and_then(|row| *row.per_unit.first()?);
            let factor = if unit == "ms" { 1e6 } else { 1.0 };
            Cell::measured(per, |per: Estimated| value(&scaled(per, factor), "/"))
        }));
        table.row(cells);
    }
    out.push('\n');
    out += &table.render(style);
    for note in &file.notices {
        let _ = write!(out, "\n{}\n", escape(note));
    }
    style.text(&out).into_owned()
}

fn head(file: &RunFile) -> String {
    let parameter = |key: &str| file.parameters.get(key).map_or("-".into(), |text| escape(text));
    let packets = parameter("packets").parse().map_or("-".to_owned(), number::count);
    let failed = file.runs.iter().filter(|run| run.exit != Some(0)).count();
    format!(
        "{packets} packets through a ring of 1,024, {} B written and {} B read of each; name: what \
         tells that a slot is full, and processes\n{} runs · {failed} failed · means\n",
        parameter("bytes_written"),
        parameter("bytes_read"),
        file.runs.len()
    )
}

/// Events that were counted in any arm.
fn events(parts: &[(&String, RunSummary)]) -> Vec<(String, String)> {
    let mut events: Vec<(String, String)> = Vec::new();
    for row in parts.iter().flat_map(|(_, summary)| &summary.rows) {
        let is_event = matches!(row.origin, Origin::Hardware | Origin::Software | Origin::Emulated);
        if is_event && row.per_run.is_some() && !events.iter().any(|(name, _)| *name == row.metric)
        {
            events.push((row.metric.clone(), row.unit.clone()));
        }
    }
    events
}

fn figure<'s>(
    summary: &'s RunSummary,
    name: &str,
) -> Option<&'s pmuscope_measure::summary::SummaryRow> {
    summary.rows.iter().find(|row| row.metric == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_measure::{Labels, Program, Run};

    #[test]
    fn a_row_for_each_ring_with_what_a_packet_costs() {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let parameters = [("packets", "1000000"), ("bytes_written", "0"), ("bytes_read", "60")];
        file.parameters.extend(parameters.map(|(key, text)| (key.to_owned(), text.to_owned())));
        file.notices.push("cycles is not counted: no PMU".into());
        for index in 0..4 {
            let arm = if index % 2 == 0 { "basic-1" } else { "basic-2" };
            let labels = Labels::from([(ARM.to_owned(), arm.to_owned())]);
            file.runs.push(Run {
                index,
                order: index,
                round: Some(index / 2),
                labels: labels.clone(),
                started: "0".into(),
                duration_s: 1.0,
                exit: Some(0),
                why: None,
                units: [("packet".to_owned(), 1e6)].into(),
            });
            let slow = 1.0 + (index % 2) as f64 * 9.0 + index as f64 / 100.0;
            let mpps = ("Mpps", Origin::Program);
            file.add(index, &labels, MPPS, mpps, Ok(70.0 / slow));
            file.add(index, &labels, "task-clock", ("ms", Origin::Software), Ok(14.0 * slow));
            file.add(index, &labels, "page-faults", ("", Origin::Software), Ok(2000.0));
        }
        insta::assert_snapshot!(ring_text(&file, &Style::PLAIN), @r"
        1,000,000 packets through a ring of 1,024, 0 B written and 60 B read of each; name: what tells that a slot is full, and processes
        4 runs · 0 failed · means

        ring     n  Mpps ±95 %  ns/packet  task-clock ns/packet  page-faults/packet
        basic-1  2       69 ±9       14.4             14.1 ±1.8               0.002
        basic-2  2  6.99 ±0.09        143            140.3 ±1.8               0.002

        cycles is not counted: no PMU
        ");
    }
}
