//! `pmuscope bench region`: what an entry into a region costs, by the way counters are read.

use pmuscope_measure::RunFile;

use super::{ARM, BenchArm, BenchText, counted, figure, name, parameter, per_unit, runs, what};
use crate::number;

/// Arms with what they are.
const ARMS: [(&str, &str); 6] = [
    ("nothing", "the loop itself"),
    ("read", "two read(2) of the group"),
    ("user", "two reads in user space"),
    ("region-read", "a region, by read(2)"),
    ("region-user", "a region, in user space"),
    ("nested", "a region in a region, each"),
];

/// A row per arm, also for those that did not run.
pub(super) fn show(file: &RunFile, text: &mut BenchText<'_>) {
    text.lines(&format!(
        "entry and exit of an empty region that counts {}\n{} runs of {} entries · means",
        parameter(file, "events"),
        file.runs.len(),
        counted(file, "entries"),
    ));
    let arms = ARMS.map(|(arm, _)| BenchArm::named(file, ARM, arm));
    let read = arms.iter().find(|arm| arm.label(ARM) == "read").and_then(BenchArm::per_unit);
    let of_read =
        move |arm: &BenchArm| Some(number::percent(arm.per_unit()?.value / read?.value, 0));
    let fields = vec![
        name("arm", |arm: &BenchArm| arm.label(ARM)),
        runs(),
        per_unit("µs (95% CI)", 1e6),
        figure("of read", of_read),
        what(&ARMS),
    ];
    text.table("", fields, &arms);
}

#[cfg(test)]
mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
    use pmuscope_measure::{Labels, Origin, Program, Run, metric};

    #[test]
    fn what_did_not_run_is_in_the_table_without_a_number() {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let parameters = [("events", "task-clock,page-faults"), ("entries", "100000")];
        file.parameters.extend(parameters.map(|(key, text)| (key.to_owned(), text.to_owned())));
        file.notices.push("Not read in user space: no PMU".into());
        let arms = ["nothing", "read", "region-read", "nested"];
        for index in 0..8 {
            let arm = arms[index % 4];
            let labels = Labels::from([(ARM.to_owned(), arm.to_owned())]);
            file.runs.push(Run {
                index,
                order: index,
                round: Some(index / 4),
                labels: labels.clone(),
                started: "0".into(),
                duration_s: 0.1,
                exit: Some(0),
                why: None,
                units: [("entry".to_owned(), 1e5)].into(),
            });
            let micro = [0.000_5, 0.8, 1.0, 1.05][index % 4] * (1.0 + (index / 4) as f64 / 100.0);
            file.add(index, &labels, metric::TIME, ("s", Origin::Clock), Ok(micro * 1e-6 * 1e5));
        }
        file.finish(0);
        crate::widths::fits("bench-region", |style| BenchKind::Region.text(&file, style));
        insta::assert_snapshot!(BenchKind::Region.text(&file, &Style::PLAIN), @r"
        entry and exit of an empty region that counts task-clock,page-faults
        8 runs of 100,000 entries · means

        arm          n        µs (95% CI)  of read  what
        nothing      2  0.00050 ± 0.00003       0%  the loop itself
        read         2        0.80 ± 0.05     100%  two read(2) of the group
        user         0                  -        -  two reads in user space
        region-read  2        1.00 ± 0.06     125%  a region, by read(2)
        region-user  0                  -        -  a region, in user space
        nested       2        1.06 ± 0.07     131%  a region in a region, each

        Not read in user space: no PMU
        ");
    }
}
