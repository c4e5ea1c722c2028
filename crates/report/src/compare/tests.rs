use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use pmuscope_measure::compare::{Explain, Options, compare, trend};
use pmuscope_measure::{Labels, Origin, Program, Run, RunFile};

use super::page::{compare_page, trend_page};
use super::trend::trend_text;
use super::*;
use crate::title::tests::of_page;

/// A sweep of three groups over six runs each: the ring with `cycles` and `hitm` per packet.
fn ring(name: &str, started: u64, cycles: f64, hitm: f64) -> (String, RunFile) {
    let tool = Program { name: "pmuscope".into(), version: "1".into() };
    let command = ["pmuscope", "sweep", "--", "ring"].map(String::from).into();
    let mut file = RunFile::new(tool, command, UNIX_EPOCH + Duration::from_secs(started));
    file.machine = serde_json::json!({"processor": {"model_name": "Xeon"}});
    for index in 0..18 {
        file.runs.push(Run {
            index,
            order: index,
            round: None,
            labels: [("group".to_owned(), (index / 6).to_string())].into(),
            started: "1".into(),
            duration_s: 1.0,
            exit: Some(0),
            why: None,
            units: BTreeMap::from([("packet".to_owned(), 1e7)]),
        });
        let step = [-1.0, 0.4, 1.1, -0.3, 0.6, -0.8][index % 6] * (1.0 + (index / 6) as f64 / 4.0);
        let mut add = |metric: &str, level: f64, share: f64| {
            let total = (1e7 * level * (1.0 + share * step)).round();
            file.add(index, &Labels::new(), metric, ("", Origin::Hardware), Ok(total));
        };
        add("cycles", cycles, 0.003);
        add("instructions", 59.329, 1e-5);
        match index / 6 {
            0 => add("xsnp_hitm", hitm, 0.004),
            1 => add("xsnp_hit", 0.043, 0.2),
            _ => add("local_dram", 0.0, 0.0),
        }
    }
    file.finish(0);
    (name.to_owned(), file)
}

fn both() -> [(String, RunFile); 2] {
    [ring("a/basic.json", 1, 665.16, 0.941), ring("a/fastforward.json", 2, 421.6, 0.880)]
}

#[test]
fn two_files_stand_side_by_side() {
    let comparison = compare(&both(), &Options::default()).unwrap();
    crate::widths::fits("compare", |style| compare_text(&comparison, style));
    insta::assert_snapshot!(compare_text(&comparison, &Style::PLAIN), @r"
    fastforward.json vs basic.json: 2 of 6 metrics differ: cycles ×0.6338 ± 0.0014 (less), xsnp_hitm ×0.935 ± 0.004 (less)
    6 metrics per packet: mean with 95% CI, differences claimed at 1% for 4 tests together (Holm, half of it for cycles)
    basic.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring
    fastforward.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring

    metric        unit       verdict                   ratio      basic.json   n          total  fastforward.json   n          total       difference        p     g
    cycles        /packet    less            0.6338 ± 0.0014     665.2 ± 1.0  18  6,651,600,000       421.6 ± 0.6  18  4,216,000,000     -243.6 ± 1.2  <0.0001  -140
    instructions  /packet    inconclusive  1.00000 ± 0.00010  59.329 ± 0.006  18    593,290,000    59.329 ± 0.006  18    593,290,000  0.0000 ± 0.0004      1.0     0
    xsnp_hitm     /packet    less              0.935 ± 0.004   0.941 ± 0.003   6      9,410,000     0.880 ± 0.003   6      8,800,000   -0.061 ± 0.004  <0.0001   -19
    xsnp_hit      /packet    inconclusive          1.0 ± 0.3   0.043 ± 0.009   6        430,000     0.043 ± 0.009   6        430,000    0.000 ± 0.013      1.0     0
    local_dram    /packet    identical                     -               0   6              0                 0   6              0                0        -     -
    duration      ns/packet  identical                     1             100  18         1.00 s               100  18         1.00 s                0        -     0
    ");
}

#[test]
fn what_explains_a_change_is_told_with_what_is_left() {
    let costs = vec![("xsnp_hitm".to_owned(), 400.0)];
    let explain = Some(Explain { metric: None, costs });
    let comparison = compare(&both(), &Options { explain, ..Options::default() }).unwrap();
    let mut text = String::new();
    let names = short_names(&comparison.files);
    explain::section(&comparison.explanations[0], &names).push_text(&mut text, &Style::PLAIN);
    insta::assert_snapshot!(text.trim_start(), @r"
    What changed along with it
    cycles/packet, fastforward.json vs basic.json: 665.2 ± 1.0 to 421.6 ± 0.6, -243.6 ± 1.2, ratio 0.6338 ± 0.0014

    group  metric     basic.json  fastforward.json          ratio        p           r  needs  power  at most
        1  xsnp_hitm       0.941             0.880  0.935 ± 0.004  <0.0001  less  1.00  3,990    6.8      12%  explains a part at most

    explained by                      change  each        amount  share
    xsnp_hitm     known cost  -0.061 ± 0.004   400   -24.4 ± 1.6    10%
    unexplained                                     -219.2 ± 2.0    90%

    Metrics of one group cannot be separated. Correlation is not causation: change one thing and measure again. needs: cost of each event if it alone caused the change. power: exponent with which the change would have to grow; beyond 3 it explains a part at most. at most: the part it explains if each event costs the same in both.
    ");
}

#[test]
fn the_same_twice_has_nothing_to_explain() {
    let mut files = both();
    files[1] = ring("a/again.json", 3, 665.2, 0.941);
    let explain = Some(Explain::default());
    let comparison = compare(&files, &Options { explain, ..Options::default() }).unwrap();
    let text = compare_text(&comparison, &Style::PLAIN);
    assert!(text.contains("nothing to explain"), "{text}");
    assert!(!text.contains("unexplained"), "{text}");
}

fn three() -> [(String, RunFile); 3] {
    let [a, b] = both();
    [a, b, ring("a/third.json", 3, 500.0, 0.941)]
}

#[test]
fn more_files_have_percentages_of_one_or_all_pairs() {
    let options = Options { base: Some(0), ..Options::default() };
    let only = |mut options: Options| {
        options.only("cycles|hitm").unwrap();
        compare_text(&compare(&three(), &options).unwrap(), &Style::PLAIN)
    };
    insta::assert_snapshot!(only(options), @r"
    2 metrics per packet: mean with 95% CI, differences claimed at 1% for 4 tests together (Holm, half of it for cycles)
    basic.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring
    fastforward.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring
    third.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring

    metric     unit        basic.json   n          total  verdict          change  fastforward.json   n          total  verdict               change     third.json   n          total
    cycles     /packet    665.2 ± 1.0  18  6,651,600,000  less     -36.62 ± 0.13%       421.6 ± 0.6  18  4,216,000,000  less          -24.83 ± 0.15%    500.0 ± 0.7  18  5,000,000,000
    xsnp_hitm  /packet  0.941 ± 0.003   6      9,410,000  less        -6.5 ± 0.4%     0.880 ± 0.003   6      8,800,000  inconclusive      0.0 ± 0.4%  0.941 ± 0.003   6      9,410,000
    ");
    insta::assert_snapshot!(only(Options::default()), @r"
    2 metrics per packet: mean with 95% CI, differences claimed at 1% for 6 tests together (Holm, half of it for cycles)
    basic.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring
    fastforward.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring
    third.json: 18 runs of 10,000,000 packet on Xeon, pmuscope sweep -- ring

    metric     unit        basic.json   n          total  fastforward.json   n          total     third.json   n          total
    cycles     /packet    665.2 ± 1.0  18  6,651,600,000       421.6 ± 0.6  18  4,216,000,000    500.0 ± 0.7  18  5,000,000,000
    xsnp_hitm  /packet  0.941 ± 0.003   6      9,410,000     0.880 ± 0.003   6      8,800,000  0.941 ± 0.003   6      9,410,000

    fastforward.json vs basic.json: 2 metrics differ, 0 inconclusive
    metric     unit     verdict            ratio      difference        p     g
    cycles     /packet  less     0.6338 ± 0.0013    -243.6 ± 1.1  <0.0001  -140
    xsnp_hitm  /packet  less       0.935 ± 0.004  -0.061 ± 0.004  <0.0001   -19

    third.json vs basic.json: 1 metric differs, 1 inconclusive
    metric  unit     verdict            ratio    difference        p    g
    cycles  /packet  less     0.7517 ± 0.0015  -165.2 ± 1.2  <0.0001  -92

    third.json vs fastforward.json: 2 metrics differ, 0 inconclusive
    metric     unit     verdict            ratio      difference        p   g
    cycles     /packet  more     1.1860 ± 0.0024     +78.4 ± 0.9  <0.0001  56
    xsnp_hitm  /packet  more       1.069 ± 0.005  +0.061 ± 0.004  <0.0001  19
    ");
}

#[test]
fn what_makes_files_less_comparable_is_said() {
    let mut files = both();
    let second = &mut files[1].1;
    second.machine = serde_json::json!({"processor": {"model_name": "EPYC"}});
    second.parameters = [("rate".to_owned(), "1000".to_owned())].into();
    (second.status, second.runs[1].exit) = (None, Some(1));
    for run in &mut second.runs {
        run.units = [("request".to_owned(), 5.0)].into();
    }
    let value = &mut second.series[0].values[2];
    (value.enabled_s, value.running_s) = (Some(1.0), Some(0.4));
    files[0].0 = "b\u{1b}.json".into();
    let comparison = compare(&files, &Options::default()).unwrap();
    let notes = notes::of_comparison(&comparison);
    insta::assert_snapshot!(notes.join("\n"), @r"
    The files are from different processors: EPYC, Xeon.
    The files differ in rate: -, 1000.
    a/fastforward.json was interrupted: it has the runs completed before that.
    a/fastforward.json: 1 of 18 runs failed or was aborted and is left out.
    The files have different units of work: b\x1b.json packet; a/fastforward.json request.
    a/fastforward.json: 1 of 6 metrics (~) were multiplexed (enabled 40.0% or more): values are scaled estimates, and their CI does not include that error. Try: pmuscope sweep, which reruns instead of multiplexing.
    ");
    assert!(compare_text(&comparison, &Style::PLAIN).contains("~4"));
}

#[test]
fn names_keep_their_folders_where_they_need_them() {
    let names = |a: &str, b: &str| {
        let files = [ring(a, 1, 1.0, 1.0), ring(b, 1, 1.0, 1.0)];
        short_names(&compare(&files, &Options::default()).unwrap().files)
    };
    assert_eq!(names("x/a.json", "x/b.json"), ["a.json", "b.json"]);
    assert_eq!(names("x/a.json", "y/a.json"), ["x/a.json", "y/a.json"]);
}

#[test]
fn lines_have_as_many_fields_as_the_head() {
    let mut files = three();
    files[0].0 = "=a,\"b\".json".into();
    let comparison = compare(&files, &Options::default()).unwrap();
    let text = sheet::delimited(&comparison, Separator::Tab);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    // Six figures (the time of a run is one): the first file, then three pairs.
    assert_eq!(lines.len(), 1 + 6 * 4);
    let at = |name: &str| lines[0].iter().position(|head| *head == name).unwrap();
    let cycles = &lines[2];
    assert_eq!((cycles[at("metric")], cycles[at("per")]), ("cycles", "packet"));
    assert_eq!((cycles[at("base")], cycles[at("verdict")]), ("\"'=a,\"\"b\"\".json\"", "less"));
    assert!(cycles[at("difference")].parse::<f64>().unwrap() < -240.0);
    assert!(
        sheet::delimited(&comparison, Separator::Comma).starts_with("metric,labels,unit,per,file,")
    );
}

#[test]
fn levels_over_time_are_marked_where_they_changed() {
    let files: Vec<_> = (0..12_u64)
        .map(|day| {
            let level = if day < 7 { 600.0 } else { 700.0 } + (day * 5 % 7) as f64;
            ring(&format!("{day}.json"), day, level, 0.9)
        })
        .collect();
    let mut options = Options::default();
    options.only("cycles|hitm").unwrap();
    let trend = trend(&files, &options).unwrap();
    crate::widths::fits("compare-2", |style| trend_text(&trend, style));
    insta::assert_snapshot!(trend_text(&trend, &Style::PLAIN), @r"
    2 metrics over 12 files, earliest first: mean with 95% CI, level changes claimed at 1%
    0.json, 1.json, 2.json, 3.json, 4.json, 5.json, 6.json, 7.json, 8.json, 9.json, 10.json, 11.json

    metric     unit     files          first           last  changed at
    cycles     /packet     12    600.0 ± 0.9    706.0 ± 1.0  7.json: 603.0 to 703.0 (p <0.0001)
    xsnp_hitm  /packet     12  0.900 ± 0.003  0.900 ± 0.003  -
    ");
    let page = trend_page(&trend, "abc");
    assert_eq!(of_page(&page), "sweep: ring, 12 files over time");
    assert_eq!(page.matches("class=\"shift\"").count(), 1);
    assert_eq!(page.matches("<circle").count(), 24);
}

#[test]
fn a_title_says_what_ran_and_what_is_compared() {
    let title = |files: &[(String, RunFile)]| {
        let comparison = compare(files, &Options::default()).unwrap();
        of_page(&compare_page(&comparison, (Vec::new(), crate::markup::Markup::default()), "abc"))
            .to_owned()
    };
    let mut files = both();
    assert_eq!(
        title(&files),
        "sweep: ring, basic.json vs fastforward.json, cycles and 5 more metrics"
    );
    assert_eq!(title(&files[..1]), "sweep: ring, 18 runs, cycles and 5 more metrics");
    files[1].1.command = ["pmuscope", "stat", "--", "other"].map(String::from).into();
    assert_eq!(title(&files), "compare: basic.json vs fastforward.json, cycles and 5 more metrics");
    // Commands that were interleaved are what their columns are of.
    assert!(title(&[interleaved(None)]).contains(" vs "), "{}", title(&[interleaved(None)]));
}

#[test]
fn a_page_has_a_dot_per_value_and_no_name_acts_in_it() {
    let mut files = both();
    files[0].1.series[0].metric = "<script>alert(1)</script>".into();
    let comparison = compare(&files, &Options::default()).unwrap();
    let page = compare_page(&comparison, (Vec::new(), html! {}), "abc");
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    let measured: usize = comparison
        .rows
        .iter()
        .map(|row| {
            let values = row.columns.iter().flatten().filter(|c| c.mean.is_some()).count();
            let ratios = row.pairs.iter().filter(|pair| pair.ratio.is_some()).count();
            values + ratios
        })
        .sum();
    assert!(measured > 10);
    assert_eq!(page.matches("<circle").count(), measured);
    assert!(!page.contains("http://") && !page.contains("https://"));
}

/// Two commands in six rounds of which the second takes 10 % longer, on a machine that gets slower; `lost` is
/// a run that failed.
fn interleaved(lost: Option<usize>) -> (String, RunFile) {
    let (name, mut file) = ring("ab.json", 1, 600.0, 0.9);
    (file.runs, file.series) = (Vec::new(), Vec::new());
    let arm = |name: &str, command: &str| pmuscope_measure::Arm {
        name: name.into(),
        command: command.split(' ').map(str::to_owned).collect(),
    };
    file.arms = vec![arm("A", "./old 5"), arm("B", "./new 5")];
    for planned in &pmuscope_measure::Plan::interleaved(1, 2, 6, 3).runs {
        let labels: Labels = [("arm".to_owned(), file.arms[planned.arm].name.clone())].into();
        let index = planned.order;
        file.runs.push(Run {
            index,
            order: index,
            round: Some(planned.round),
            labels: labels.clone(),
            started: "1".into(),
            duration_s: 1.0,
            exit: Some(i32::from(lost == Some(index))),
            why: None,
            units: BTreeMap::new(),
        });
        let step = [0.3, -0.4, 0.1][index % 3];
        let time = (100.0 + index as f64 + step) * if planned.arm == 1 { 1.1 } else { 1.0 };
        file.add(index, &labels, "task-clock", ("ms", Origin::Software), Ok(time));
    }
    (name, file)
}

#[test]
fn arms_of_a_file_are_compared_in_pairs() {
    let comparison = compare(&[interleaved(None)], &Options::default()).unwrap();
    crate::widths::fits("compare-3", |style| compare_text(&comparison, style));
    insta::assert_snapshot!(compare_text(&comparison, &Style::PLAIN), @r"
    B vs A: 1 of 2 metrics differs: task-clock ×1.097 ± 0.006 (more)
    2 metrics per run: mean with 95% CI, differences of pairs claimed at 1% for 1 test together (Holm)
    A: 6 runs on Xeon, ./old 5
    B: 6 runs on Xeon, ./new 5

    metric      unit  verdict            ratio        A  n        B  n   difference        p    g  pairs
    task-clock  ms    more       1.097 ± 0.006  106 ± 4  6  116 ± 5  6  +10.2 ± 1.0  <0.0001  2.4      6
    duration    s     identical              1        1  6        1  6            0        -    -      6
    ");
    let comparison = compare(&[interleaved(Some(4))], &Options::default()).unwrap();
    let text = compare_text(&comparison, &Style::PLAIN);
    assert!(text.contains("Differences are of 5 of 6 pairs"), "{text}");
    let csv = sheet::delimited(&comparison, Separator::Comma);
    let lines: Vec<&str> = csv.lines().filter(|line| line.starts_with("task-clock")).collect();
    assert!(lines[1].ends_with(",more,5"), "{lines:?}");
}

#[test]
fn files_measured_one_after_the_other_say_what_to_type_instead() {
    let note = |a: (&str, &str), b: (&str, &str)| {
        let mut files = both();
        for (at, (_, file)) in files.iter_mut().enumerate() {
            let (command, program) = if at == 0 { a } else { b };
            let words = format!("pmuscope {command} -r 5 -- {program}");
            file.command = words.split(' ').map(str::to_owned).collect();
            for run in &mut file.runs {
                let second = 1_000 + 100 * at + run.index;
                run.started = format!("{second}000000000");
            }
        }
        let comparison = compare(&files, &Options::default()).unwrap();
        let notes = notes::of_comparison(&comparison);
        notes.into_iter().find(|note| note.contains("one after the other")).unwrap()
    };
    let said = note(("stat", "./old 1"), ("stat", "./new 1"));
    assert!(said.contains("basic.json and a/fastforward.json were measured"), "{said}");
    assert!(said.contains("(1 min 22 s apart)"), "{said}");
    assert!(said.ends_with("Try: pmuscope stat -r 20 --vs './new 1' -- ./old 1"), "{said}");
    let same = note(("sweep", "./a"), ("sweep", "./a"));
    assert!(same.ends_with("Try: pmuscope sweep -e EVENTS --vs COMMAND-B -- COMMAND-A"), "{same}");
    let other = note(("stat", "./a"), ("bench", "./b"));
    assert!(!other.contains("Try:"), "{other}");
}
