use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::run_file::{Program, Run};

/// A file of runs that did ten packets each; figures are of every run, or of its group only.
pub(super) struct Builder {
    file: RunFile,
}

impl Builder {
    pub(super) fn new(runs: usize, started: u64) -> Self {
        let tool = Program { name: "t".into(), version: "1".into() };
        let started = UNIX_EPOCH + Duration::from_secs(started);
        let mut file = RunFile::new(tool, vec!["pmuscope".into(), "sweep".into()], started);
        for index in 0..runs {
            file.runs.push(Run {
                index,
                order: index,
                round: None,
                labels: Labels::new(),
                started: "1".into(),
                duration_s: 1.0,
                exit: Some(0),
                why: None,
                units: BTreeMap::from([("packet".to_owned(), 10.0)]),
            });
        }
        file.finish(0);
        Self { file }
    }

    /// A hardware event: values per packet of runs from `first` on.
    pub(super) fn event(mut self, name: &str, first: usize, per_packet: &[f64]) -> Self {
        for (at, value) in per_packet.iter().enumerate() {
            let unit = ("", Origin::Hardware);
            self.file.add(first + at, &Labels::new(), name, unit, Ok(10.0 * value));
        }
        self
    }

    pub(super) fn done(self, name: &str) -> (String, RunFile) {
        (name.to_owned(), self.file)
    }
}

fn row<'a>(comparison: &'a Comparison, metric: &str) -> &'a ComparedMetric {
    comparison.rows.iter().find(|row| row.metric == metric).unwrap()
}

/// Six values round `level`, whose spread is `share` of it.
pub(super) fn around(level: f64, share: f64) -> [f64; 6] {
    [-1.0, 0.4, 1.1, -0.3, 0.6, -0.8].map(|step| level * (1.0 + share * step))
}

#[test]
fn counts_are_per_unit_of_work_and_rates_are_not() {
    let build = |cycles: f64, name: &str| {
        let (name, mut file) = Builder::new(6, 1)
            .event("misses", 0, &around(2.0, 0.01))
            .event("cycles", 0, &around(cycles, 0.01))
            .done(name);
        for run in 0..6 {
            file.add(run, &Labels::new(), "Mpps", ("", Origin::Program), Ok(5.0));
        }
        (name, file)
    };
    let files = [build(600.0, "a"), build(400.0, "b")];
    let got = compare(&files, &Options::default()).unwrap();
    let names: Vec<(&str, Option<&str>)> =
        got.rows.iter().map(|row| (&*row.metric, row.per.as_deref())).collect();
    assert_eq!(names, [("cycles", Some("packet")), ("misses", Some("packet")), ("Mpps", None)]);
    let cycles = &got.rows[0];
    let column = cycles.columns[0].as_ref().unwrap();
    assert!((column.mean.unwrap().value - 600.0).abs() < 1.0);
    assert!((column.total.unwrap() - 6000.0).abs() < 10.0);
    let pair = &cycles.pairs[0];
    assert_eq!((pair.base, pair.other, pair.verdict), (0, 1, Verdict::Less));
    assert!((pair.ratio.unwrap().value - 2.0 / 3.0).abs() < 1e-3 && pair.g.unwrap().value < -10.0);
    assert_eq!(row(&got, "misses").pairs[0].verdict, Verdict::CannotTell);
    assert_eq!(row(&got, "Mpps").pairs[0].verdict, Verdict::Equal);
    assert_eq!(got.tests, 2);

    let totals = Options { per: vec![TOTAL.to_owned()], ..Options::default() };
    let got = compare(&files, &totals).unwrap();
    assert!(
        (row(&got, "cycles").columns[0].as_ref().unwrap().mean.unwrap().value - 6000.0).abs()
            < 10.0
    );
    let wrong = Options { per: vec!["request".to_owned()], ..Options::default() };
    assert_eq!(
        compare(&files, &wrong).unwrap_err().to_string(),
        "not every run in a has a unit of work \"request\"; it has packet. Try: --per total"
    );
}

#[test]
fn failed_runs_are_left_out_and_runs_without_status_are_not() {
    let (name, mut file) = Builder::new(6, 1).event("cycles", 0, &around(600.0, 0.01)).done("a");
    file.runs[2].exit = Some(1);
    (file.runs[3].exit, file.runs[3].why) = (None, Some("killed".into()));
    file.runs[4].exit = None;
    let got = compare(&[(name, file)], &Options::default()).unwrap();
    assert_eq!((got.files[0].runs, got.files[0].failed), (6, 2));
    assert_eq!(got.rows[0].columns[0].as_ref().unwrap().mean.unwrap().n, 4);
}

#[test]
fn all_pairs_or_all_against_one() {
    let files: Vec<_> = [600.0, 500.0, 400.0]
        .iter()
        .map(|level| Builder::new(6, 1).event("cycles", 0, &around(*level, 0.01)).done("x"))
        .collect();
    let pairs = |base: Option<usize>| -> Vec<(usize, usize)> {
        let got = compare(&files, &Options { base, ..Options::default() }).unwrap();
        got.rows[0].pairs.iter().map(|pair| (pair.base, pair.other)).collect()
    };
    assert_eq!(pairs(None), [(0, 1), (0, 2), (1, 2)]);
    assert_eq!(pairs(Some(1)), [(1, 0), (1, 2)]);
}

#[test]
fn groups_of_a_sweep_are_one_figure_and_multiplexing_is_told() {
    let (name, mut file) = Builder::new(4, 1).event("cycles", 0, &[600.0, 601.0]).done("a");
    let group = |n: &str| Labels::from([("group".to_owned(), n.to_owned())]);
    file.series[0].labels = group("1");
    for run in [2, 3] {
        file.add(run, &group("2"), "cycles", ("", Origin::Hardware), Ok(6020.0));
    }
    let value = &mut file.series[1].values[0];
    (value.enabled_s, value.running_s) = (Some(2.0), Some(1.5));
    let got = compare(&[(name, file)], &Options::default()).unwrap();
    let cycles: Vec<&ComparedMetric> =
        got.rows.iter().filter(|row| row.metric == "cycles").collect();
    assert_eq!((cycles.len(), &cycles[0].labels), (1, &Labels::new()));
    let column = cycles[0].columns[0].as_ref().unwrap();
    assert_eq!((column.mean.unwrap().n, column.counted), (4, Some(0.75)));
}

/// The ring's story: 665.16 to 421.6 cycles per packet, 0.941 to 0.880 HITM per packet.
fn ring() -> [(String, RunFile); 2] {
    let side = |cycles: f64, hitm: f64, instructions: f64, name: &str| {
        Builder::new(18, 1)
            .event(
                "cycles",
                0,
                &[around(cycles, 0.003), around(cycles, 0.002), around(cycles, 0.004)].concat(),
            )
            .event("instructions", 0, &[around(instructions, 1e-4); 3].concat())
            .event("mem_load_uops_l3_hit_retired.xsnp_hitm", 6, &around(hitm, 0.004))
            .event("mem_load_uops_l3_hit_retired.xsnp_hit", 6, &around(0.043, 0.2))
            .event("l2_rqsts.code_rd_hit", 12, &around(0.077, 0.1))
            .done(name)
    };
    [side(665.16, 0.941, 59.329, "basic"), side(421.6, 0.880, 57.9, "fastforward")]
}

fn explained(costs: &[(&str, f64)]) -> Explanation {
    let costs = costs.iter().map(|(event, cost)| ((*event).to_owned(), *cost)).collect();
    let explain = Some(Explain { metric: None, costs });
    let got = compare(&ring(), &Options { explain, ..Options::default() }).unwrap();
    assert_eq!(got.explanations.len(), 1);
    got.explanations.into_iter().next().unwrap()
}

#[test]
fn six_percent_fewer_hitm_do_not_make_a_ring_1_58_times_faster() {
    let got = explained(&[]);
    assert!(got.changed && (got.ratio.unwrap().value - 421.6 / 665.16).abs() < 2e-3);
    let hitm = got.causes.iter().find(|cause| cause.metric.ends_with("hitm")).unwrap();
    // It did change, for sure, but cycles would have to grow with its seventh power.
    assert_eq!((hitm.verdict, hitm.bearing), (Verdict::Less, Bearing::Part));
    assert!(hitm.power.unwrap() > 6.0, "{hitm:?}");
    assert!((hitm.needs - 243.56 / 0.061).abs() < 0.02 * hitm.needs);
    // 0.061 of at most 421.6 / 0.880 cycles each.
    assert!((hitm.at_most.unwrap() - 0.12).abs() < 0.005);
    assert!(got.parts.is_empty(), "{:?}", got.parts);
    assert_eq!(got.rest.unwrap().value, got.difference.unwrap().value);
}

#[test]
fn a_known_cost_carries_its_part_and_the_rest_is_told() {
    // (665 - 50) / 0.941: what the change from one process to two comes to for each HITM.
    let got = explained(&[("mem_load_uops_l3_hit_retired.xsnp_hitm", 654.0)]);
    let [part] = &got.parts[..] else { panic!("{:?}", got.parts) };
    assert!((part.share - 0.061 * 654.0 / 243.56).abs() < 0.005, "{part:?}");
    assert_eq!((part.how, part.why.is_some()), (How::Known, true)); // 654 * 0.880 > 421.6
    let (rest, whole) = (got.rest.unwrap(), got.difference.unwrap());
    assert!((rest.value - (whole.value - part.amount.value)).abs() < 1e-9);
    let interval = rest.interval.unwrap();
    assert!(interval.high < -195.0 && interval.low > -212.0, "{interval:?}");
    assert!(rest.value / whole.value > 0.8);
}

#[test]
fn a_cost_is_fitted_from_run_to_run() {
    let misses = |level: f64| around(level, 0.05);
    let cycles = |misses: [f64; 6]| {
        let own = [0.3, -0.2, 0.1, -0.4, 0.2, 0.0];
        std::array::from_fn::<f64, 6, _>(|i| 100.0 + 50.0 * misses[i] + own[i])
    };
    let side = |level: f64, name: &str| {
        let misses = misses(level);
        Builder::new(6, 1)
            .event("cycles", 0, &cycles(misses))
            .event("misses", 0, &misses)
            .done(name)
    };
    let explain = Some(Explain::default());
    let files = [side(2.0, "a"), side(4.0, "b")];
    let got = compare(&files, &Options { explain, ..Options::default() }).unwrap();
    let explanation = &got.explanations[0];
    let [part] = &explanation.parts[..] else { panic!("{explanation:?}") };
    assert_eq!(part.how, How::Fitted);
    let cost = part.cost.interval.unwrap();
    assert!(cost.low < 50.0 && 50.0 < cost.high && cost.high - cost.low < 10.0, "{cost:?}");
    assert!((part.share - 1.0).abs() < 0.1);
    let rest = explanation.rest.unwrap().interval.unwrap();
    assert!(rest.low < 0.0 && rest.high > 0.0);
}

#[test]
fn the_same_twice_gives_nothing_to_explain() {
    let again = [1.2, -0.5, 0.3, -0.9, 0.7, -0.6].map(|step| 600.0 * (1.0 + 0.01 * step));
    let files = [
        Builder::new(6, 1).event("cycles", 0, &around(600.0, 0.01)).done("a"),
        Builder::new(6, 1).event("cycles", 0, &again).done("b"),
    ];
    let explain = Some(Explain::default());
    let got = compare(&files, &Options { explain, ..Options::default() }).unwrap();
    assert!(!got.explanations[0].changed && got.rows[0].pairs[0].verdict == Verdict::CannotTell);
}

#[test]
fn what_is_not_there_is_named() {
    let asked = |metric: Option<&str>, cost: &str| {
        let explain =
            Explain { metric: metric.map(str::to_owned), costs: vec![(cost.to_owned(), 1.0)] };
        let options = Options { explain: Some(explain), ..Options::default() };
        compare(&ring(), &options).unwrap_err().to_string()
    };
    assert!(
        asked(Some("bananas"), "cycles")
            .starts_with("cannot explain \"bananas\": no file has such a metric")
    );
    assert!(asked(None, "apples").starts_with("--cost: no file has event \"apples\""));
}

#[test]
fn a_level_that_changed_is_marked_where_it_did() {
    let files: Vec<_> = (0..14_u64)
        .map(|day| {
            let level =
                if day < 9 { 600.0 } else { 660.0 } * (1.0 + 0.002 * ((day * 5 % 7) as f64 - 3.0));
            let steady = 5.0 * (1.0 + 0.01 * ((day * 3 % 7) as f64 - 3.0));
            let name = format!("{day}");
            Builder::new(6, 100 - day)
                .event("cycles", 0, &around(level, 0.01))
                .event("misses", 0, &around(steady, 0.01))
                .done(&name)
        })
        .collect();
    let got = trend(&files, &Options::default()).unwrap();
    assert_eq!(got.files[0].name, "13");
    assert_eq!(got.rows[0].shifts.iter().map(|shift| shift.at).collect::<Vec<_>>(), [5]);
    assert!((got.rows[0].shifts[0].before - 660.0).abs() < 5.0);
    assert_eq!(got.rows[1].shifts, []);
    assert_eq!(got.rows[1].points.len(), 14);
}

#[test]
fn slices_of_a_run_are_that_run_and_not_runs_of_their_own() {
    let build = |level: f64, name: &str| {
        let (name, mut file) =
            Builder::new(6, 1).event("cycles", 0, &around(level, 0.1)).done(name);
        for run in &mut file.runs {
            // Two runs of three slices.
            run.labels.insert(crate::counting::INTERVAL.to_owned(), run.index.to_string());
            run.order /= 3;
            run.units.clear();
        }
        (name, file)
    };
    let files = [build(100.0, "a"), build(130.0, "b")];
    let comparison = compare(&files, &Options::default()).unwrap();
    let cycles = row(&comparison, "cycles");
    let mean = cycles.columns[0].as_ref().unwrap().mean.unwrap();
    let sum: f64 = around(100.0, 0.1).iter().map(|value| 10.0 * value).sum();
    assert_eq!((mean.n, comparison.files[0].runs), (2, 2));
    assert!((mean.value - sum / 2.0).abs() < 1e-9, "{mean:?}");
}

#[test]
fn energy_and_traffic_are_of_the_work() {
    let build = |work: f64, name: &str| {
        let (name, mut file) = Builder::new(3, 1).done(name);
        for run in 0..3 {
            let done = 1.0 + run as f64;
            file.runs[run].units = BTreeMap::from([("packet".to_owned(), work * done)]);
            for (event, unit) in [("energy", "Joules"), ("read", "MiB")] {
                let kind = (unit, Origin::Hardware);
                file.add(run, &Labels::new(), event, kind, Ok(2.0 * work * done));
            }
        }
        (name, file)
    };
    let comparison = compare(&[build(10.0, "a"), build(1000.0, "b")], &Options::default()).unwrap();
    for event in ["energy", "read"] {
        let of = |column: usize| row(&comparison, event).columns[column].as_ref().unwrap().mean;
        assert_eq!((of(0).unwrap().value, of(1).unwrap().value), (2.0, 2.0), "{event}");
    }
}

#[test]
fn the_only_run_counts_however_it_ended() {
    let (name, mut file) = Builder::new(1, 1).event("cycles", 0, &[7.0]).done("a");
    file.runs[0].exit = Some(3);
    let comparison = compare(&[(name, file)], &Options::default()).unwrap();
    assert_eq!(row(&comparison, "cycles").columns[0].as_ref().unwrap().mean.unwrap().value, 7.0);
    assert_eq!(comparison.files[0].ended.as_deref(), Some("status 3"));
    assert_eq!(comparison.files[0].failed, 0);
}
