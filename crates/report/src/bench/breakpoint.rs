//! `pmuscope bench breakpoint`: what breakpoints cost threads that inherit them, whoever switches them, and
//! what a hit costs.

use pmuscope_measure::versus::versus;
use pmuscope_measure::{RunFile, metric};

use super::{
    ARM, BenchArm, BenchText, arms, counted, figure, label, mean, name, parameter, per_unit, runs,
    three_digits, what,
};
use crate::number;
use crate::runs::{runs_per_arm, scaled, value};
use crate::sheet::Field;

const BREAKPOINTS: &str = "breakpoints";
const RECORD_BYTES: &str = "record_bytes";
/// Ways to treat a hit with what they are.
const WAYS: [(&str, &str); 5] = [
    ("nothing", "no breakpoint: the loop itself"),
    ("count", "counted"),
    ("program", "counted by a BPF program"),
    ("record", "a record with instruction, thread, time and address"),
    ("stack", "the same with the call stack"),
];

/// A row for each number of breakpoints, creators and threads.
pub(super) fn show_thread(file: &RunFile, text: &mut BenchText<'_>) {
    text.lines(&format!(
        "threads that inherit breakpoints are created, released and joined: time per thread\n\
         {} of {} batches of threads, by parallel creators · {}",
        number::counted(file.runs.len(), "run"),
        counted(file, "batches"),
        how(file),
    ));
    let each = |arm: &BenchArm| {
        let creators: f64 = arm.label("parallelism").parse().ok()?;
        Some(value(&scaled(arm.per_unit()?, 1e6 * creators), "µs"))
    };
    let fields = vec![
        label("breakpoints", BREAKPOINTS),
        label("parallelism", "parallelism"),
        label("threads", "threads"),
        runs(),
        per_unit("µs/op (95% CI)", 1e6),
        figure("µs/op/cpu", each),
        mean("total, s", metric::TIME),
        of_none(file),
    ];
    text.table("", fields, &arms(file, &["parallelism", "threads", BREAKPOINTS]));
}

/// A row for each number of threads that wait and that run, with a breakpoint and without.
pub(super) fn show_enable(file: &RunFile, text: &mut BenchText<'_>) {
    text.lines(&format!(
        "an inherited breakpoint is disabled and enabled: time for both; 0 breakpoints: an event that counts \
         nothing\n{} of {} times · {}",
        number::counted(file.runs.len(), "run"),
        counted(file, "switches"),
        how(file),
    ));
    let fields = vec![
        label("breakpoints", BREAKPOINTS),
        label("passive", "passive"),
        label("active", "active"),
        runs(),
        per_unit("µs/op (95% CI)", 1e6),
        mean("total, s", metric::TIME),
        of_none(file),
    ];
    text.table("", fields, &arms(file, &["passive", "active", BREAKPOINTS]));
}

/// A row for each way to treat a hit.
pub(super) fn show_hit(file: &RunFile, text: &mut BenchText<'_>) {
    text.lines(&format!(
        "a thread writes a word with a breakpoint on it: time per write\n\
         {} of {} writes · {}",
        number::counted(file.runs.len(), "run"),
        counted(file, "hits"),
        how(file),
    ));
    let has_run =
        |way: &&str| file.runs.iter().any(|run| run.labels.get(ARM).is_some_and(|of| of == way));
    let ways = WAYS.iter().map(|(way, _)| *way).filter(has_run);
    let arms: Vec<BenchArm> = ways.map(|way| BenchArm::named(file, ARM, way)).collect();
    let fields = vec![
        name("hit", |arm: &BenchArm| arm.label(ARM)),
        runs(),
        per_unit("µs/hit (95% CI)", 1e6),
        figure("B/record", |arm: &BenchArm| Some(three_digits(arm.mean(RECORD_BYTES)?.value))),
        what(&WAYS),
    ];
    text.table("", fields, &arms);
}

/// `means of n = 5 · 4 slots for breakpoints found`.
fn how(file: &RunFile) -> String {
    let n = runs_per_arm(file);
    match file.parameters.contains_key("slots") {
        true => {
            format!("means of n = {n} · {} debug registers found", parameter(file, "slots"))
        }
        false => format!("means of n = {n}"),
    }
}

/// How many times as long as without a breakpoint, by rounds.
fn of_none<'a>(file: &RunFile) -> Field<'a, BenchArm> {
    let groups = versus(file, BREAKPOINTS, "0");
    figure("vs no breakpoint", move |arm: &BenchArm| {
        let mut conditions = arm.labels.clone();
        let breakpoints = conditions.remove(BREAKPOINTS)?;
        let group = groups.iter().find(|group| group.labels == conditions)?;
        Some(value(&group.arm(&breakpoints)?.figure(metric::TIME)?.ratio?, ""))
    })
}

#[cfg(test)]
mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
    use pmuscope_measure::{Labels, Origin, Plan, Program};

    /// Three rounds of arms with these labels, which take so many seconds for 1000 units.
    fn file(arms: &[(&[(&str, &str)], f64)], parameters: &[(&str, &str)]) -> RunFile {
        let tool = Program { name: "t".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        let owned = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
        file.parameters.extend(parameters.iter().map(owned));
        for planned in Plan::new(arms.len(), 3, 1).runs {
            let (labels, seconds) = arms[planned.arm];
            let labels: Labels = labels.iter().map(owned).collect();
            let seconds = seconds * (1.0 + planned.round as f64 / 100.0);
            if seconds > 2e-3 && labels.contains_key("arm") {
                let kind = ("B", Origin::Recording);
                file.add(file.runs.len(), &labels, RECORD_BYTES, kind, Ok(48.0));
            }
            let took = (std::time::UNIX_EPOCH, seconds);
            file.add_timed(&planned, labels, took, ("thread", 1000.0));
        }
        file.finish(0);
        file
    }

    #[test]
    fn threads_have_a_row_for_each_combination_beside_that_without_breakpoints() {
        let labels = |breakpoints, parallelism, threads| {
            [("breakpoints", breakpoints), ("parallelism", parallelism), ("threads", threads)]
        };
        let arms = [
            (&labels("4", "2", "16")[..], 0.083),
            (&labels("0", "2", "16")[..], 0.055),
            (&labels("4", "64", "512")[..], 0.09),
            (&labels("0", "64", "512")[..], 0.06),
            (&labels("0", "64", "64")[..], 0.06),
        ];
        let mut file = file(&arms, &[("batches", "1000"), ("slots", "4")]);
        file.notices.push("-p 64 -t 512: at most 57 of 64 batches at the same time".into());
        crate::widths::fits("bench-breakpoint", |style| {
            BenchKind::BreakpointThread.text(&file, style)
        });
        insta::assert_snapshot!(BenchKind::BreakpointThread.text(&file, &Style::PLAIN), @r"
        threads that inherit breakpoints are created, released and joined: time per thread
        15 runs of 1,000 batches of threads, by parallel creators · means of n = 3 · 4 debug registers found

        breakpoints  parallelism  threads  n  µs/op (95% CI)    µs/op/cpu         total, s  vs no breakpoint
                  0            2       16  3      55.6 ± 1.4  111.1 ± 2.7  0.0556 ± 0.0014                 -
                  4            2       16  3      83.8 ± 2.1      168 ± 4  0.0838 ± 0.0021              1.51
                  0           64       64  3      60.6 ± 1.5   3,878 ± 95  0.0606 ± 0.0015                 -
                  0           64      512  3      60.6 ± 1.5   3,878 ± 95  0.0606 ± 0.0015                 -
                  4           64      512  3      90.9 ± 2.2  5,818 ± 143  0.0909 ± 0.0022              1.50

        -p 64 -t 512: at most 57 of 64 batches at the same time
        ");
    }

    #[test]
    fn switching_has_a_row_with_a_breakpoint_and_one_without() {
        let labels =
            |breakpoints| [("breakpoints", breakpoints), ("passive", "8"), ("active", "1")];
        let arms = [(&labels("1")[..], 0.2), (&labels("0")[..], 0.15)];
        let file = file(&arms, &[("switches", "1000"), ("slots", "4")]);
        crate::widths::fits("bench-breakpoint-2", |style| {
            BenchKind::BreakpointEnable.text(&file, style)
        });
        insta::assert_snapshot!(BenchKind::BreakpointEnable.text(&file, &Style::PLAIN), @r"
        an inherited breakpoint is disabled and enabled: time for both; 0 breakpoints: an event that counts nothing
        6 runs of 1,000 times · means of n = 3 · 4 debug registers found

        breakpoints  passive  active  n  µs/op (95% CI)       total, s  vs no breakpoint
                  0        8       1  3         152 ± 4  0.151 ± 0.004                 -
                  1        8       1  3         202 ± 5  0.202 ± 0.005              1.33
        ");
    }

    #[test]
    fn hits_have_a_row_for_each_way_and_runs_with_missing_hits_do_not_count() {
        let arm = |arm| [("arm", arm)];
        let arms = [
            (&arm("nothing")[..], 1e-6),
            (&arm("count")[..], 1.2e-3),
            (&arm("program")[..], 1.4e-3),
            (&arm("record")[..], 2.5e-3),
            (&arm("stack")[..], 3.5e-3),
        ];
        let mut file = file(&arms, &[("hits", "1000"), ("slots", "4")]);
        let counted = file.runs.iter_mut().find(|run| run.labels["arm"] == "count").unwrap();
        counted.why = Some("the breakpoint counted 999 of 1000 hits".into());
        crate::widths::fits("bench-breakpoint-3", |style| {
            BenchKind::BreakpointHit.text(&file, style)
        });
        insta::assert_snapshot!(BenchKind::BreakpointHit.text(&file, &Style::PLAIN), @r"
        a thread writes a word with a breakpoint on it: time per write
        15 runs of 1,000 writes · means of n = 3 · 4 debug registers found

        hit      n      µs/hit (95% CI)  B/record  what
        nothing  3  0.001010 ± 0.000025         -  no breakpoint: the loop itself
        count    2          1.22 ± 0.08         -  counted
        program  3          1.41 ± 0.03         -  counted by a BPF program
        record   3          2.52 ± 0.06      48.0  a record with instruction, thread, time and address
        stack    3          3.53 ± 0.09      48.0  the same with the call stack

        1 run of count failed: the breakpoint counted 999 of 1000 hits
        ");
    }
}
