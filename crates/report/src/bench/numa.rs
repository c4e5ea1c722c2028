//! `pmuscope bench numa`: placement, speed and cost of each test under each policy in one row; then policies side
//! by side.

use pmuscope_measure::versus::{Arm, ArmGroup, Figure, versus};
use pmuscope_measure::{Beyond, Origin, RunFile, Series, metric};
use pmuscope_stats::{holm, mean, welch_test};

use super::{BenchText, OfRounds, exact, figure, median, name, parameter, ratio, three_digits};
use crate::number;
use crate::runs::runs_per_arm;
use crate::sheet::Field;

const TEST: &str = "test";
const POLICY: &str = "policy";
const BEST: &str = "best";
/// Policies that bind everything: what others are measured against.
const BOUNDS: [&str; 2] = [BEST, "worst"];
/// What the workload tells of itself.
const OURS: [&str; 6] = ["speed", "speed_before", "speed_after", "speed_thread", "spread", "bytes"];
/// A difference that chance makes less often than this is one.
const SIGNIFICANT: f64 = 0.05;
/// Bytes of a mebibyte.
const MIB: f64 = 1_048_576.0;

/// A row for each test and policy, what the tests are, and policies side by side.
pub(super) fn show(file: &RunFile, text: &mut BenchText<'_>) {
    let mut groups = versus(file, POLICY, BEST);
    sort(&mut groups, file);
    text.lines(&head(file));
    let rows: Vec<PolicyRow<'_>> =
        groups.iter().flat_map(|group| PolicyRow::of(file, group)).collect();
    text.table("", fields(), &rows);
    let tests = file.parameters.iter().filter_map(|(key, words)| {
        key.strip_prefix("test.").map(|name| format!("{name}: {words}"))
    });
    text.sentences(&tests.collect::<Vec<_>>());
    let own = own_figures(file);
    let own = own.iter().map(|(name, unit)| (format!("{name} {unit}"), *name, Better::Unknown));
    let known = [
        ("Seconds to convergence", "converged", Better::Less),
        ("GB/s", "speed", Better::More),
        ("GB/s before convergence", "speed_before", Better::More),
        ("GB/s after convergence", "speed_after", Better::More),
        ("Wall seconds", metric::WALL, Better::Less),
        ("Locality or evenness, mean over the run", "placed_mean", Better::More),
        ("System seconds", metric::SYSTEM, Better::Less),
        ("Balancer CPU seconds (numad, numa balance)", "balancer", Better::Less),
    ];
    let known = known.map(|(title, name, better)| (title.to_owned(), name, better));
    for (title, name, better) in own.chain(known) {
        side_by_side(file, &groups, (title.trim(), name, better), text);
    }
    if text.out.contains('*') {
        text.lines(
            "\n* best of the row, different from all others (Welch's test, Holm, 5%); best and worst are bounds",
        );
    }
    text.notes.extend(failed(file));
}

/// Which of two numbers is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Less,
    More,
    /// The user's own figure: nobody has said.
    Unknown,
}

/// Figures that the user's program tells, with their units.
fn own_figures(file: &RunFile) -> Vec<(&str, &str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let is_own =
        |series: &&Series| series.origin == Origin::Program && !OURS.contains(&&*series.metric);
    for series in file.series.iter().filter(is_own) {
        if !found.iter().any(|(name, _)| *name == series.metric) {
            found.push((&series.metric, &series.unit));
        }
    }
    found
}

fn head(file: &RunFile) -> String {
    let within: Option<f64> = parameter(file, "within").parse().ok();
    let within = within.map(|share| number::percent(share, 0));
    let emulated = is_emulated(file);
    let monitor = numbers(file, "monitor");
    let seconds: f64 = file.runs.iter().map(|run| run.duration_s).sum();
    let of_one = if monitor.is_empty() || seconds <= 0.0 {
        "-".to_owned()
    } else {
        number::percent(monitor.iter().sum::<f64>() / seconds, 2)
    };
    let converged = within.map_or(String::new(), |within| {
        let hold = parameter(file, "hold_s");
        format!(
            "converged: within {within} of the best binding for {hold} s, threads and memory · "
        )
    });
    let nodes: Option<u64> = parameter(file, "nodes").parse().ok();
    format!(
        "placement on {}: {} runs, {} of each test and policy, {}{}\n\
         {converged}monitoring overhead: {of_one} of one CPU · counters are machine-wide",
        nodes.map_or("-".to_owned(), |nodes| number::counted(nodes, "NUMA node")),
        file.runs.len(),
        runs_per_arm(file),
        number::duration(file.duration_s),
        if emulated { " · emulated: speeds are meaningless, seconds are guest time" } else { "" },
    )
}

/// Runs that are missing above, and why.
fn failed(file: &RunFile) -> impl Iterator<Item = String> {
    file.runs.iter().filter(|run| run.exit != Some(0)).map(|run| {
        let label = |key: &str| run.labels.get(key).map_or("-", |name| name);
        let why = match (&run.why, run.exit) {
            (Some(why), _) => why.clone(),
            (None, Some(status)) => format!("exit status {status}"),
            (None, None) => "no exit status".to_owned(),
        };
        format!("{} under {} failed: {why}.", label(TEST), label(POLICY))
    })
}

fn is_emulated(file: &RunFile) -> bool {
    let machine = &file.machine["surroundings"]["emulator"];
    !machine.is_null() || file.guests.iter().any(pmuscope_measure::Guest::is_emulated)
}

fn numbers(file: &RunFile, name: &str) -> Vec<f64> {
    file.series.iter().filter(|s| s.metric == name).flat_map(Series::numbers).collect()
}

/// Tests and policies in the order they were asked for, not that of chance.
fn sort(groups: &mut [ArmGroup], file: &RunFile) {
    let policies = parameter(file, "policies");
    let order: Vec<&str> = policies.split(',').collect();
    let place = |name: &str| order.iter().position(|own| *own == name).unwrap_or(order.len());
    for group in groups.iter_mut() {
        group.arms.sort_by_key(|arm| place(&arm.name));
    }
    groups.sort_by(|a, b| a.labels.get(TEST).cmp(&b.labels.get(TEST)));
}

fn test_of(group: &ArmGroup) -> String {
    let labels = group.labels.iter().filter(|(key, _)| *key != TEST);
    let more: String = labels.map(|(_, value)| format!(" {value}")).collect();
    format!("{}{more}", group.labels.get(TEST).map_or("-", |test| test))
}

/// A test under a policy.
struct PolicyRow<'f> {
    /// Only in the first row of a test.
    test: String,
    arm: &'f Arm,
    converged: String,
}

impl<'f> PolicyRow<'f> {
    fn of(file: &'f RunFile, group: &'f ArmGroup) -> impl Iterator<Item = Self> {
        group.arms.iter().enumerate().map(move |(at, arm)| Self {
            test: if at == 0 { test_of(group) } else { String::new() },
            arm,
            converged: converged(file, group, arm),
        })
    }
}

impl OfRounds for PolicyRow<'_> {
    fn figure(&self, metric: &str) -> Option<&Figure> {
        self.arm.figure(metric)
    }
}

fn fields<'r>() -> Vec<Field<'r, PolicyRow<'r>>> {
    let n = |row: &PolicyRow<'_>| row.arm.figures.iter().map(|figure| figure.n).max().unwrap_or(0);
    let share = |share: f64| number::fixed(share, 2);
    let percent = |share: f64| number::percent(share, 1);
    vec![
        name("test", |row: &PolicyRow<'_>| &row.test),
        name("policy", |row: &PolicyRow<'_>| &row.arm.name),
        figure("n", move |row| Some(n(row).to_string())),
        median("locality", "locality_mean", share),
        median("placed", "placed_mean", share),
        median("final", "placed", share),
        figure("converged s", |row: &PolicyRow<'_>| Some(row.converged.clone())),
        median("GB/s", "speed", three_digits),
        ratio("of best", "speed"),
        median("spread", "spread", percent),
        median("user s", metric::USER, three_digits),
        median("system s", metric::SYSTEM, three_digits),
        median("balancer s", "balancer", three_digits),
        median("minor faults", metric::MINOR_FAULTS, exact),
        median("PTE updates", "pte_updates", exact),
        median("hint faults", "hint_faults", exact),
        median("local", "hint_faults_local", percent),
        median("MiB moved", "bytes_moved", |bytes| three_digits(bytes / MIB)),
        median("moves/page", "moves_per_page", share),
        median("monitor s", "monitor", three_digits),
    ]
}

/// The median of those that converged, and of how many; `> 10` where none did.
fn converged(file: &RunFile, group: &ArmGroup, arm: &Arm) -> String {
    let series_of = |name: &str| series(file, group, &arm.name, name);
    let Some(series) = series_of("converged") else { return "-".to_owned() };
    let (reached, all) = (series.numbers(), series.values.len());
    let Some(median) = pmuscope_stats::median(&reached) else {
        return Beyond::of(&series.values)
            .map_or("-".to_owned(), |limit| crate::runs::beyond(&limit, None, 0));
    };
    let at_once =
        series_of("converged_at_once").map_or(0.0, |series| series.numbers().iter().sum());
    let is_lucky = at_once == reached.len() as f64;
    // Nobody had to move anything.
    let median = if is_lucky { "at once".to_owned() } else { number::significant(median, 3) };
    // Some did and some did not: by luck, or nearly.
    if reached.len() < all { format!("{median} in {} of {all}", reached.len()) } else { median }
}

fn series<'a>(file: &'a RunFile, group: &ArmGroup, policy: &str, name: &str) -> Option<&'a Series> {
    file.series.iter().find(|series| {
        let others = series.labels.iter().filter(|(key, _)| *key != POLICY);
        series.metric == name
            && series.labels.get(POLICY).is_some_and(|own| own == policy)
            && others.eq(group.labels.iter())
    })
}

/// A row for each test, a column for each policy; the best marked where chance does not explain it. Nothing where
/// nothing was measured.
fn side_by_side(
    file: &RunFile,
    groups: &[ArmGroup],
    (title, metric, better): (&str, &str, Better),
    text: &mut BenchText<'_>,
) {
    let policies = parameter(file, "policies").into_owned();
    let policies: Vec<&str> = policies.split(',').collect();
    let is_measured = |group: &ArmGroup, arm: &Arm| {
        let has_median = arm.figure(metric).is_some_and(|figure| figure.median.is_some());
        let series = || series(file, group, &arm.name, metric);
        has_median || series().is_some_and(|all| Beyond::of(&all.values).is_some())
    };
    let groups = groups.iter().filter(|group| group.arms.iter().any(|arm| is_measured(group, arm)));
    let rows: Vec<(String, Vec<String>)> = groups
        .map(|group| (test_of(group), cells(file, group, &policies, (metric, better))))
        .collect();
    if policies.len() < 2 {
        return;
    }
    let mut fields = vec![name("test", |row: &(String, Vec<String>)| &row.0)];
    fields.extend(policies.iter().enumerate().map(|(at, policy)| {
        figure((*policy).to_owned(), move |row: &(String, Vec<String>)| Some(row.1[at].clone()))
    }));
    text.table(title, fields, &rows);
}

/// What a test came to under each policy.
fn cells(
    file: &RunFile,
    group: &ArmGroup,
    policies: &[&str],
    (metric, better): (&str, Better),
) -> Vec<String> {
    let samples: Vec<(&str, Vec<f64>)> = policies
        .iter()
        .filter(|policy| !BOUNDS.contains(policy))
        .filter_map(|policy| Some((*policy, series(file, group, policy, metric)?.numbers())))
        .filter(|(_, numbers)| !numbers.is_empty())
        .collect();
    let whole = |policy: &&str| {
        series(file, group, policy, metric)
            .is_some_and(|s| s.values.iter().all(|v| v.value.is_some()))
    };
    let free: Vec<(&str, &[f64])> =
        samples.iter().map(|(policy, numbers)| (*policy, &numbers[..])).collect();
    let best = distinct_best(&free, better).filter(whole);
    let cell = |policy: &&str| {
        let shown = match group.arm(policy) {
            Some(arm) if metric == "converged" => converged(file, group, arm),
            Some(arm) => arm
                .figure(metric)
                .and_then(|figure| figure.median)
                .map_or("-".to_owned(), three_digits),
            None => "-".to_owned(),
        };
        if best == Some(*policy) { format!("*{shown}") } else { shown }
    };
    policies.iter().map(cell).collect()
}

/// The policy whose mean is best, if it differs from that of every other one beyond chance.
fn distinct_best<'a>(samples: &[(&'a str, &[f64])], better: Better) -> Option<&'a str> {
    let sign = match better {
        Better::Less => -1.0,
        Better::More => 1.0,
        Better::Unknown => return None,
    };
    let score = |numbers: &[f64]| mean(numbers).map_or(f64::NEG_INFINITY, |mean| sign * mean);
    let (best, own) = samples.iter().max_by(|a, b| score(a.1).total_cmp(&score(b.1)))?;
    let others: Vec<&(&str, &[f64])> =
        samples.iter().filter(|(policy, _)| policy != best).collect();
    let p_values: Vec<Option<f64>> =
        others.iter().map(|(_, other)| welch_test(own, other)).collect();
    let adjusted = holm(&p_values);
    let is_distinct = |p: &Option<f64>| p.is_some_and(|p| p < SIGNIFICANT);
    (!others.is_empty() && adjusted.iter().all(is_distinct)).then_some(*best)
}

#[cfg(test)]
mod tests {
    use super::super::BenchKind;
    use super::*;
    use crate::style::Style;
    use pmuscope_measure::{Labels, Program, Run, RunValue};

    fn file() -> RunFile {
        let tool = Program { name: "pmuscope".into(), version: "1".into() };
        let mut file = RunFile::new(tool, vec![], std::time::UNIX_EPOCH);
        for (key, value) in [
            ("within", "0.05"),
            ("hold_s", "2"),
            ("nodes", "2"),
            ("policies", "best,off,on"),
            ("test.2x3-convergence", "2 x 3 threads, 32 MiB per process, both; fits one node"),
        ] {
            file.parameters.insert(key.to_owned(), value.to_owned());
        }
        let mut order = 0;
        for round in 0..3_usize {
            let later = (round < 2).then_some(3.5);
            for (policy, locality, converged, moved) in [
                ("best", 1.0, None, 0.0),
                ("off", 0.5, Some(None), 0.0),
                ("on", 0.98, Some(later), 4096.0),
            ] {
                let labels = [("test", "2x3-convergence"), ("policy", policy)];
                let labels: Labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
                let mut add = |name: &str, unit: &str, value: Result<f64, String>| {
                    file.add(order, &labels, name, (unit, Origin::Estimate), value);
                };
                let wobble = 0.01 * round as f64;
                add("locality", "", Ok(locality - wobble));
                add("placed", "", Ok(locality - wobble));
                add("placed_mean", "", Ok(locality - wobble));
                add("locality_mean", "", Ok(locality - 2.0 * wobble));
                if policy == "on" {
                    add("balancer", "s", Ok(1.5));
                }
                add("speed", "GB/s", Err("emulated".to_owned()));
                add("system", "s", Ok(0.1 + wobble + moved / 8192.0));
                add("bytes_moved", "B", Ok(moved * 4096.0));
                add("moves_per_page", "", Ok(moved / 16384.0));
                add("monitor", "s", Ok(0.02));
                if let Some(converged) = converged {
                    let never = || RunValue::beyond(order, 10.0, "not within the time".to_owned());
                    let value = converged.map_or_else(never, |s| RunValue::new(order, Ok(s)));
                    file.add_value(&labels, "converged", ("s", Origin::Clock), value);
                }
                file.runs.push(Run {
                    index: order,
                    order,
                    round: Some(round),
                    labels,
                    started: "0".into(),
                    duration_s: 10.0,
                    exit: Some(0),
                    why: None,
                    units: Default::default(),
                });
                order += 1;
            }
        }
        file.duration_s = 95.0;
        file.finish(0);
        file.notices.push("one thing was left out".to_owned());
        file
    }

    #[test]
    fn placement_and_cost_stand_in_one_row() {
        crate::widths::fits("bench-numa", |style| BenchKind::Numa.text(&file(), style));
        insta::assert_snapshot!(BenchKind::Numa.text(&file(), &Style::PLAIN), @r"
        placement on 2 NUMA nodes: 9 runs, 3 of each test and policy, 1 min 35 s
        converged: within 5% of the best binding for 2 s, threads and memory · monitoring overhead: 0.20% of one CPU · counters are machine-wide

        test             policy  n  locality  placed  final     converged s  GB/s  of best  spread  user s  system s  balancer s  minor faults  PTE updates  hint faults  local  MiB moved  moves/page  monitor s
        2x3-convergence  best    3      0.98    0.99   0.99               -     -        -       -       -     0.110           -             -            -            -      -          0        0.00     0.0200
                         off     3      0.48    0.49   0.49          > 10.0     -        -       -       -     0.110           -             -            -            -      -          0        0.00     0.0200
                         on      3      0.96    0.97   0.97  3.50 in 2 of 3     -        -       -       -     0.610        1.50             -            -            -      -       16.0        0.25     0.0200

        2x3-convergence: 2 x 3 threads, 32 MiB per process, both; fits one node

        Seconds to convergence
        test             best     off              on
        2x3-convergence     -  > 10.0  3.50 in 2 of 3

        Locality or evenness, mean over the run
        test              best    off      on
        2x3-convergence  0.990  0.490  *0.970

        System seconds
        test              best     off     on
        2x3-convergence  0.110  *0.110  0.610

        Balancer CPU seconds (numad, numa balance)
        test             best  off    on
        2x3-convergence     -    -  1.50

        * best of the row, different from all others (Welch's test, Holm, 5%); best and worst are bounds

        one thing was left out
        ");
    }

    #[test]
    fn a_test_that_never_converged_has_its_row() {
        let mut file = file();
        for series in file.series.iter_mut().filter(|series| series.metric == "converged") {
            let never = |run| RunValue::beyond(run, 10.0, "not within the time".to_owned());
            series.values = series.values.iter().map(|value| never(value.run)).collect();
        }
        let text = BenchKind::Numa.text(&file, &Style::PLAIN);
        let table = text.split("Seconds to convergence\n").nth(1).unwrap();
        let row = table.lines().nth(1).unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>().join(" "),
            "2x3-convergence - > 10.0 > 10.0"
        );
    }

    #[test]
    fn a_run_that_failed_is_told_of() {
        let mut file = file();
        file.runs[4].exit = None;
        file.runs[4].why = Some("process 2 of 8: SIGKILL".to_owned());
        let text = BenchKind::Numa.text(&file, &Style::PLAIN);
        assert!(
            text.contains("2x3-convergence under off failed: process 2 of 8: SIGKILL."),
            "{text}"
        );
    }

    #[test]
    fn the_best_is_marked_only_where_chance_does_not_make_it() {
        let of = |a: &[f64], b: &[f64]| {
            distinct_best(&[("a", a), ("b", b)], Better::More).map(str::to_owned)
        };
        assert_eq!(of(&[1.0, 1.1, 0.9], &[2.0, 2.1, 1.9]), Some("b".to_owned()));
        assert_eq!(of(&[1.0, 3.0, 2.0], &[2.0, 3.1, 1.9]), None);
        assert_eq!(of(&[1.0], &[2.0]), None, "one run tells nothing");
        assert_eq!(distinct_best(&[("a", &[1.0, 1.1][..])], Better::More), None);
        let three = [("a", &[5.0, 5.1, 5.2][..]), ("b", &[3.0, 3.1, 3.2]), ("c", &[3.0, 3.1, 3.3])];
        assert_eq!(distinct_best(&three, Better::Less), None, "two are alike");
        assert_eq!(distinct_best(&three, Better::More), Some("a"));
    }
}
