//! `pmuscope bench ring`: packets in a second, and what each of them costs.

use pmuscope_measure::{Origin, RunFile};

use super::{ARM, BenchArm, BenchText, arms, counted, failed, figure, mean, name, parameter, runs};
use crate::number;
use crate::runs::{scaled, value};
use crate::sheet::Field;

const MPPS: &str = "mpps";

/// A row per arm.
pub(super) fn show(file: &RunFile, text: &mut BenchText<'_>) {
    text.lines(&format!(
        "{} packets through a ring of 1,024, {} B written and {} B read of each; name: how a full slot is \
         marked, and processes\n{} runs · {} failed · means",
        counted(file, "packets"),
        parameter(file, "bytes_written"),
        parameter(file, "bytes_read"),
        file.runs.len(),
        failed(file),
    ));
    let mut arms = arms(file, &[ARM]);
    arms.sort_by(|a, b| a.labels.cmp(&b.labels));
    let ns = |arm: &BenchArm| Some(number::significant(1e3 / arm.mean(MPPS)?.value, 3));
    let mut fields = vec![
        name("ring", |arm: &BenchArm| arm.label(ARM)),
        runs(),
        mean("Mpps (95% CI)", MPPS),
        figure("ns/packet", ns),
    ];
    fields.extend(events(&arms));
    text.table("", fields, &arms);
}

/// Events that were counted in any arm, for each packet.
fn events<'a>(arms: &[BenchArm]) -> Vec<Field<'a, BenchArm>> {
    let mut events: Vec<(String, String)> = Vec::new();
    for row in arms.iter().flat_map(|arm| &arm.summary.rows) {
        let is_event = matches!(row.origin, Origin::Hardware | Origin::Software | Origin::Emulated);
        if is_event && row.per_run.is_some() && !events.iter().any(|(name, _)| *name == row.metric)
        {
            events.push((row.metric.clone(), row.unit.clone()));
        }
    }
    let field = |(event, unit): (String, String)| {
        let (unit, factor) = match &unit[..] {
            "" => (String::new(), 1.0),
            "ms" => (" ns".to_owned(), 1e6),
            unit => (format!(" {unit}"), 1.0),
        };
        figure(format!("{event}{unit}/packet"), move |arm: &BenchArm| {
            let per = (*arm.row(&event)?.per_unit.first()?)?;
            Some(value(&scaled(per, factor), "/"))
        })
    };
    events.into_iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
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
        file.finish(0);
        crate::widths::fits("bench-ring", |style| BenchKind::Ring.text(&file, style));
        insta::assert_snapshot!(BenchKind::Ring.text(&file, &Style::PLAIN), @r"
        1,000,000 packets through a ring of 1,024, 0 B written and 60 B read of each; name: how a full slot is marked, and processes
        4 runs · 0 failed · means

        ring     n  Mpps (95% CI)  ns/packet  task-clock ns/packet  page-faults/packet
        basic-1  2         69 ± 9       14.4            14.1 ± 1.8               0.002
        basic-2  2    6.99 ± 0.09        143           140.3 ± 1.8               0.002

        cycles is not counted: no PMU
        ");
    }
}
