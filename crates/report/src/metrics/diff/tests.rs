//! Comparisons made by hand.

use std::sync::Arc;

use pmuscope_events::metrics::{Metric, Metrics};
use pmuscope_profile::metrics::diff::{RowDiff, RowName, RowSide};
use pmuscope_stats::{Estimate, Interval, LEVEL};

use super::text::metrics_diff_text;
use super::*;

fn around(value: f64, half: f64) -> Interval {
    Interval { low: value - half, high: value + half, level: LEVEL }
}

fn row(function: Option<&str>, values: [f64; 2], half: Option<f64>, p: Option<f64>) -> RowDiff {
    let side = |value: f64| RowSide {
        value: Some(value),
        interval: half.map(|half| around(value, half)),
        windows: 1_200,
        kept: 1_100,
    };
    let change = values[1] - values[0];
    let interval = half.map(|half| around(change, half * 1.414));
    RowDiff {
        name: Some(RowName {
            module: Some("db\u{1b}[2J".into()),
            function: function.map(Arc::from),
            inlined_into: None,
            line: None,
            mode: None,
        }),
        sides: values.map(side),
        change: Some(Estimate { value: change, interval, n: 1_100 }),
        p,
    }
}

fn made(metric: &Metric) -> Vec<MetricDiff<'_>> {
    let gone = RowDiff {
        sides: [row(None, [1.0; 2], Some(0.1), None).sides[0], RowSide::default()],
        change: None,
        ..row(Some("gone"), [1.0; 2], None, None)
    };
    let rows = vec![
        row(Some("parse"), [1.5, 1.2], Some(0.05), Some(0.0001)),
        row(Some("hash"), [0.5, 0.51], Some(0.03), Some(1.0)),
        row(Some("tiny"), [0.5, 2.0], None, None),
        gone,
    ];
    let total = RowDiff { name: None, ..row(None, [1.0, 0.9], Some(0.01), Some(0.001)) };
    vec![MetricDiff { metric, measured: [true; 2], rows, total }]
}

fn view<'a>(diffs: &'a [MetricDiff<'a>], rows: Option<usize>) -> MetricsDiffView<'a> {
    // What the files say of themselves is tested with whole recordings.
    MetricsDiffView { diffs, by: By::Function, windows: [&[]; 2], files: [&[]; 2], rows }
}

#[test]
fn changes_stand_beside_what_chance_does() {
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&["CPI"]).unwrap();
    let diffs = made(chosen[0]);
    crate::widths::fits("metrics-diff", |style| metrics_diff_text(&view(&diffs, None), style));
    insta::assert_snapshot!(metrics_diff_text(&view(&diffs, None), &Style::PLAIN), @r#"
    before  0 recordings, 0 windows, kept 0.0%
    after   0 recordings, 0 windows, kept 0.0%

    CPI [cycles/instruction]: 1 of 4 rows changed (after minus before)
            change  change %  verdict              before          after  samples before  samples after  DSO        function
      -0.30 ± 0.07    -20.0%  less            1.50 ± 0.05    1.20 ± 0.05           1,200          1,200  db\x1b[2J  parse
      +0.01 ± 0.04     +2.0%  inconclusive    0.50 ± 0.03    0.51 ± 0.03           1,200          1,200  db\x1b[2J  hash
            ~+1.50   +300.0%  -                    ~0.500          ~2.00           1,200          1,200  db\x1b[2J  tiny
                 -         -  -               1.00 ± 0.10              -           1,200              0  db\x1b[2J  gone
    -0.100 ± 0.014    -10.0%  less          1.000 ± 0.010  0.900 ± 0.010           1,200          1,200             all 4 rows

    note: "more" and "less" hold for all rows of all metrics together (Holm, 5%); "inconclusive" is within chance.
    note: ~ marks values without a CI: functions shorter than ten windows, with fewer than 30 kept windows, or that ran in too few blocks of time on a side.
    "#);
}

#[test]
fn long_names_fit_the_terminal() {
    const LONG: &str = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_find(char)";
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&["CPI"]).unwrap();
    let mut diffs = made(chosen[0]);
    diffs[0].rows[1].name = Some(RowName {
        module: Some("libstdc++.so.6.0.30".into()),
        function: Some(LONG.into()),
        inlined_into: Some("main".into()),
        line: None,
        mode: None,
    });
    crate::widths::fits("metrics-diff-names", |style| {
        metrics_diff_text(&view(&diffs, None), style)
    });
}

#[test]
fn rows_have_all_digits_and_nothing_where_nothing_is_known() {
    let metrics = Metrics::builtin();
    let chosen = metrics.chosen(&["CPI"]).unwrap();
    let diffs = made(chosen[0]);
    insta::assert_snapshot!(view(&diffs, Some(3)).delimited(Separator::Comma).unwrap(), @r"
    metric,unit,function,module,change,change low,change high,relative change,p,is,before,before low,before high,samples before,windows before,after,after low,after high,samples after,windows after
    CPI,cycles/instruction,parse,db\x1b[2J,-0.30000000000000004,-0.37070000000000003,-0.22930000000000006,-0.20000000000000004,0.0001,less,1.5,1.45,1.55,1200,1100,1.2,1.15,1.25,1200,1100
    CPI,cycles/instruction,hash,db\x1b[2J,0.010000000000000009,-0.03241999999999999,0.05242000000000001,0.020000000000000018,1,unclear,0.5,0.47,0.53,1200,1100,0.51,0.48,0.54,1200,1100
    CPI,cycles/instruction,tiny,db\x1b[2J,1.5,,,3,,,0.5,,,1200,1100,2,,,1200,1100
    ");
}
