//! `pmuscope bench capture`: what each way of recording costs the recorded program.

use std::fmt::Write as _;

use pmuscope_measure::versus::{Arm, ArmGroup, Figure, Slope, ratio_difference, slopes, versus};
use pmuscope_measure::{Labels, Origin, RunFile, metric};

use super::{
    ARM, BenchText, bytes, counted, exact, failed, figure, median, name, parameter, ratio, rounds,
    three_digits,
};
use crate::Paint;
use crate::markup::cut;
use crate::number;
use crate::runs::{scaled, value};
use crate::sheet::Field;

const BASE: &str = "BASE";
/// Characters of a command line that are shown.
const LONGEST_COMMAND: usize = 60;
/// The arm that a user gets who gives no flags.
const OURS: &str = "DEFAULT";
/// What all arms of perf begin with.
const THEIRS: &str = "PERF-";
/// perf without flags.
const THEIR_DEFAULT: &str = "PERF-DEFAULT";

/// Per condition what the workload took and what the recorder took, and verdicts; cost per further sample.
pub(super) fn show(file: &RunFile, text: &mut BenchText<'_>) {
    let groups = versus(file, ARM, BASE);
    text.lines(&head(file, &groups));
    for group in &groups {
        text.table(&condition(&group.labels), of_workload(group), &group.arms);
        let recorders = group.arms.iter().filter(|arm| arm.name != BASE);
        text.table("", of_recorder(), recorders);
        text.sentences(&verdicts(file, group));
    }
    // Where runs of several lengths were made.
    let arm = |slope: &Slope| slope.labels.get(ARM).cloned();
    let others = |slope: &Slope| {
        let mut labels = slope.labels.clone();
        labels.remove(ARM);
        condition(&labels)
    };
    let fields = vec![
        Field::text("recorder", arm).rigid(),
        Field::text("condition", move |slope| Some(others(slope))).rigid(),
        figure("n", |slope: &Slope| Some(slope.estimate.n.to_string())),
        figure("µs per extra sample", |slope: &Slope| {
            Some(value(&scaled(slope.estimate, 1e6), "µs"))
        }),
    ];
    text.table("", fields, &slopes(file, "seconds", "tool_cpu", "samples"));
}

fn head(file: &RunFile, groups: &[ArmGroup]) -> String {
    let arms = groups.iter().map(|group| group.arms.len()).max().unwrap_or(0);
    let mut out = format!("{} at {}/s", parameter(file, "event"), counted(file, "rate"));
    if let Some(cpus) = file.environment.pointer("/cpus").and_then(serde_json::Value::as_u64) {
        let _ = write!(out, " on {}", number::counted(cpus, "CPU"));
    }
    let _ = write!(
        out,
        ", {}; {} in {}, {}\n{} · {} failed · medians; ratio to {BASE} of the same round, 95% CI",
        cut(&parameter(file, "workload"), LONGEST_COMMAND),
        number::counted(arms, "arm"),
        number::counted(rounds(file), "round"),
        number::duration(file.duration_s),
        number::counted(file.runs.len(), "run"),
        failed(file),
    );
    out
}

/// `threads 2, seconds 5`.
fn condition(labels: &Labels) -> String {
    let text = |(key, value): (&String, &String)| format!("{key} {value}");
    labels.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn of_workload<'a>(group: &ArmGroup) -> Vec<Field<'a, Arm>> {
    let mut fields = vec![name("workload", |arm: &Arm| &arm.name)];
    for (clock, metric) in [("own clock s", metric::TIME), ("wall s", metric::WALL)] {
        let base = move |arm: &Arm| Some(seconds(arm.figure(metric)?.base?));
        fields.extend([
            figure("base s", base),
            median(clock, metric, seconds),
            ratio("ratio", metric),
        ]);
    }
    fields.extend([
        median("user s", metric::USER, seconds),
        median("system s", metric::SYSTEM, seconds),
        figure("faults", |arm: &Arm| Some(exact(faults(arm)?))),
        median("peak", metric::MAX_RSS, bytes),
    ]);
    let others = others(group).into_iter();
    fields.extend(others.map(|figure| {
        median(format!("{} {}", figure.metric, figure.unit), figure.metric, three_digits)
    }));
    fields
}

/// What the workload printed besides its time: `mops`.
fn others(group: &ArmGroup) -> Vec<Figure> {
    let is_other = |f: &&Figure| f.origin == Origin::Program && f.metric != metric::TIME;
    let of = |arm: &Arm| arm.figures.iter().filter(is_other).cloned().collect();
    group.arm(BASE).map(of).unwrap_or_default()
}

fn faults(arm: &Arm) -> Option<f64> {
    let minor = arm.figure(metric::MINOR_FAULTS)?.median?;
    Some(minor + arm.figure(metric::MAJOR_FAULTS)?.median?)
}

fn of_recorder<'a>() -> Vec<Field<'a, Arm>> {
    let has_lost =
        |arm: &Arm| arm.figure("lost").and_then(|f| f.median).is_some_and(|lost| lost > 0.0);
    let paint = move |arm: &Arm| if has_lost(arm) { Paint::Warn } else { Paint::Plain };
    vec![
        name("recorder", |arm: &Arm| &arm.name),
        median("samples", "samples", exact),
        median("lost", "lost", exact).painted(paint),
        median("throttled", "throttled", exact),
        median("CPU s", "tool_cpu", three_digits),
        median("edges s", "tool_edges", three_digits),
        median("µs/sample", "us_per_sample", three_digits),
        median("steady", "us_per_sample_steady", three_digits),
        median("file", "file_size", bytes),
        median("B/sample", "bytes_per_sample", |n| number::fixed(n, 1)),
    ]
}

/// What our default costs against perf's best and perf's default.
fn verdicts(file: &RunFile, group: &ArmGroup) -> Vec<String> {
    let mut lines = Vec::new();
    let time = |arm: &Arm| arm.figure(metric::TIME)?.ratio;
    let theirs = group.arms.iter().filter(|arm| arm.name.starts_with(THEIRS));
    let best = theirs
        .filter_map(|arm| Some((arm, time(arm)?.value)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(arm, _)| arm);
    let difference = best.and_then(|best| {
        let arms = (OURS, best.name.as_str(), BASE);
        let points = ratio_difference(file, (ARM, &group.labels), metric::TIME, arms)?;
        Some((&best.name, points))
    });
    if let Some((best, points)) = difference {
        lines.push(format!(
            "{OURS} minus {best}, perf's fastest by ratio: {} points of {BASE}'s time in {}.",
            value(&scaled(points, 100.0), "points"),
            number::counted(points.n, "round"),
        ));
    }
    let per_sample = versus(file, ARM, THEIR_DEFAULT);
    let ours = per_sample
        .iter()
        .find(|g| g.labels == group.labels)
        .and_then(|g| g.arm(OURS)?.figure("us_per_sample")?.ratio);
    if let Some(ratio) = ours {
        lines.push(format!(
            "{OURS} takes {} times the CPU time per sample of {THEIR_DEFAULT}, start and end included.",
            value(&ratio, "ratio")
        ));
    }
    lines
}

fn seconds(value: f64) -> String {
    number::fixed(value, 2)
}

#[cfg(test)]
mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
    use pmuscope_measure::{Concern, Program, Run};
    use std::time::UNIX_EPOCH;

    const ARMS: [(&str, f64, f64); 5] = [
        (BASE, 1.0, 0.0),
        ("SERIAL-SYS", 1.27, 0.5),
        (OURS, 1.001, 0.12),
        (THEIR_DEFAULT, 1.02, 0.48),
        ("PERF-SERIAL-CPU", 1.004, 2.9),
    ];

    /// Eight rounds, two lengths; a drift that rounds share, and half a percent of noise.
    fn file() -> RunFile {
        let tool = Program { name: "pmuscope".into(), version: "0.1.0".into() };
        let mut file = RunFile::new(tool, vec![], UNIX_EPOCH);
        for (key, value) in [("event", "cpu-clock"), ("rate", "25000"), ("workload", "./bt.B.x")] {
            file.parameters.insert(key.into(), value.into());
        }
        file.environment = serde_json::json!({"cpus": 88});
        file.duration_s = 2900.0;
        for round in 0..8 {
            for length in [10.0, 60.0] {
                for (arm, ratio, us) in ARMS {
                    add(&mut file, round, length, arm, (ratio, us));
                }
            }
        }
        file
    }

    fn add(file: &mut RunFile, round: usize, length: f64, arm: &str, (ratio, us): (f64, f64)) {
        let labels: Labels =
            [("arm".to_owned(), arm.to_owned()), ("seconds".to_owned(), length.to_string())].into();
        let run = file.runs.len();
        let noise = 0.01 * ((run * 7919 % 13) as f64 / 13.0 - 0.5);
        let time = length * ratio * (1.0 + 0.01 * round as f64 + noise);
        file.runs.push(Run {
            index: run,
            order: run,
            round: Some(round),
            labels: labels.clone(),
            started: "0".into(),
            duration_s: time + 0.38,
            exit: Some(i32::from(arm == BASE && round == 7)),
            why: (arm == BASE && round == 7).then(|| "exit status 1: no".to_owned()),
            units: [].into(),
        });
        let samples = 2_200_000.0 * length;
        let cpu = 0.3 + us * 1e-6 * samples * (1.0 + noise);
        let mut figure = |metric: &str, unit: &str, origin, value| {
            file.add(run, &labels, metric, (unit, origin), value);
        };
        figure("time", "s", Origin::Program, Ok(time));
        figure("mops", "Mop/s", Origin::Program, Ok(64_000.0 / ratio));
        figure("wall", "s", Origin::Clock, Ok(time + 0.38));
        figure("user", "s", Origin::Kernel, Ok(time * 87.0));
        figure("system", "s", Origin::Kernel, Ok(1.5));
        figure("max_rss", "B", Origin::Kernel, Ok(215e6));
        figure("minor_faults", "", Origin::Kernel, Ok(57_939.0));
        figure("major_faults", "", Origin::Kernel, Ok(0.0));
        if arm != BASE {
            figure("tool_cpu", "s", Origin::Derived, Ok(cpu));
            let edges = if arm.starts_with(THEIRS) {
                Err("perf does not report it".into())
            } else {
                Ok(0.3)
            };
            figure("tool_edges", "s", Origin::Recording, edges.clone());
            figure("us_per_sample", "µs", Origin::Derived, Ok(cpu / samples * 1e6));
            figure("us_per_sample_steady", "µs", Origin::Recording, edges.map(|_| us));
            figure("samples", "", Origin::Recording, Ok(samples));
            figure(
                "lost",
                "",
                Origin::Recording,
                Ok(if arm == THEIR_DEFAULT { 17.0 } else { 0.0 }),
            );
            figure("throttled", "", Origin::Recording, Ok(0.0));
            figure("file_size", "B", Origin::Kernel, Ok(samples * 48.0));
            figure("bytes_per_sample", "B/sample", Origin::Derived, Ok(48.0));
        }
    }

    #[test]
    fn the_whole_table() {
        let mut file = file();
        file.finish(1);
        file.notices.push("PERF-AIO1-CPU was left out: perf is not installed".into());
        file.concerns.push(Concern {
            effect: "times vary with the clock".into(),
            why: "the frequency governor of CPU 0-87 is powersave".into(),
            fix: Some("sudo cpupower frequency-set -g performance".into()),
        });
        crate::widths::fits("bench-capture", |style| BenchKind::Capture.text(&file, style));
        insta::assert_snapshot!(BenchKind::Capture.text(&file, &Style::PLAIN), @r"
        cpu-clock at 25,000/s on 88 CPUs, ./bt.B.x; 5 arms in 8 rounds, 48 min 20 s
        80 runs · 2 failed · medians; ratio to BASE of the same round, 95% CI

        seconds 10
        workload         base s  own clock s                   ratio  base s  wall s                   ratio    user s  system s  faults     peak  mops Mop/s
        BASE                  -        10.34                       -       -   10.72                       -    899.45      1.50  57,939  205 MiB      64,000
        SERIAL-SYS        10.34        13.15       1.27189 ± 0.00013   10.72   13.53       1.26225 ± 0.00017  1,144.00      1.50  57,939  205 MiB      50,400
        DEFAULT           10.34        10.38  1.0040 (0.9992–1.0041)   10.72   10.76  1.0038 (0.9992–1.0039)    903.03      1.50  57,939  205 MiB      63,900
        PERF-DEFAULT      10.34        10.54           1.020 ± 0.005   10.72   10.92           1.019 ± 0.005    917.09      1.50  57,939  205 MiB      62,700
        PERF-SERIAL-CPU   10.34        10.39           1.005 ± 0.005   10.72   10.77           1.005 ± 0.005    904.05      1.50  57,939  205 MiB      63,700

        recorder            samples  lost  throttled  CPU s  edges s  µs/sample  steady       file  B/sample
        SERIAL-SYS       22,000,000     0          0   11.3    0.300      0.514   0.500  1,010 MiB      48.0
        DEFAULT          22,000,000     0          0   2.94    0.300      0.134   0.120  1,010 MiB      48.0
        PERF-DEFAULT     22,000,000    17          0   10.8        -      0.493       -  1,010 MiB      48.0
        PERF-SERIAL-CPU  22,000,000     0          0   64.1        -       2.91       -  1,010 MiB      48.0

        DEFAULT minus PERF-SERIAL-CPU, perf's fastest by ratio: -0.59 (-0.61 to -0.10) points of BASE's time in 8 rounds.
        DEFAULT takes 0.2704 (0.2703–0.2716) times the CPU time per sample of PERF-DEFAULT, start and end included.

        seconds 60
        workload         base s  own clock s                   ratio  base s  wall s                   ratio    user s  system s  faults     peak  mops Mop/s
        BASE                  -        62.19                       -       -   62.57                       -  5,410.73      1.50  57,939  205 MiB      64,000
        SERIAL-SYS        62.19        78.72     1.272 (1.266–1.272)   62.57   79.10     1.270 (1.264–1.270)  6,848.68      1.50  57,939  205 MiB      50,400
        DEFAULT           62.19        62.14           0.999 ± 0.005   62.57   62.52           0.999 ± 0.005  5,406.09      1.50  57,939  205 MiB      63,900
        PERF-DEFAULT      62.19        63.41           1.020 ± 0.005   62.57   63.79           1.019 ± 0.005  5,516.90      1.50  57,939  205 MiB      62,700
        PERF-SERIAL-CPU   62.19        62.21  1.0003 (1.0002–1.0052)   62.57   62.59  1.0003 (1.0002–1.0052)  5,412.22      1.50  57,939  205 MiB      63,700

        recorder             samples  lost  throttled  CPU s  edges s  µs/sample  steady      file  B/sample
        SERIAL-SYS       132,000,000     0          0   66.3    0.300      0.502   0.500  5.90 GiB      48.0
        DEFAULT          132,000,000     0          0   16.1    0.300      0.122   0.120  5.90 GiB      48.0
        PERF-DEFAULT     132,000,000    17          0   63.6        -      0.482       -  5.90 GiB      48.0
        PERF-SERIAL-CPU  132,000,000     0          0    383        -       2.90       -  5.90 GiB      48.0

        DEFAULT minus PERF-SERIAL-CPU, perf's fastest by ratio: -0.1 ± 0.5 points of BASE's time in 8 rounds.
        DEFAULT takes 0.2532 (0.2531–0.2544) times the CPU time per sample of PERF-DEFAULT, start and end included.

        recorder         condition  n  µs per extra sample
        SERIAL-SYS                  8      0.4995 ± 0.0019
        DEFAULT                     8      0.1200 ± 0.0004
        PERF-DEFAULT                8      0.4802 ± 0.0022
        PERF-SERIAL-CPU             8        2.895 ± 0.012

        PERF-AIO1-CPU was left out: perf is not installed
        2 runs of BASE failed: exit status 1: no
        the frequency governor of CPU 0-87 is powersave: times vary with the clock. Try: sudo cpupower frequency-set -g performance
        ");
    }

    #[test]
    fn a_file_without_runs_is_no_table() {
        let tool = Program { name: "pmuscope".into(), version: "0.1.0".into() };
        let file = RunFile::new(tool, vec![], UNIX_EPOCH);
        crate::widths::fits("bench-capture-2", |style| BenchKind::Capture.text(&file, style));
        insta::assert_snapshot!(BenchKind::Capture.text(&file, &Style::PLAIN), @r"
        - at -/s, -; 0 arms in 0 rounds, 0 s
        0 runs · 0 failed · medians; ratio to BASE of the same round, 95% CI

        Some runs are missing: not finished.
        ");
    }
}
