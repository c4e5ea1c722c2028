//! `pmuscope diff`.

use serde_json::Value;

use std::collections::BTreeMap;

use crate::harness::{Scratch, need_c_compiler, need_full, need_sampling, skip_unless};
use crate::json::is_documented;
use crate::simulated;
use crate::webdriver::{Browser, need_browser};
use pmuscope_testkit::simulator::{Function, Run, write};

/// Records a mix of known shares.
#[track_caller]
fn record(scratch: &Scratch, file: &str, shares: &str) {
    let outcome = scratch.pmuscope([
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "-F",
        "2000",
        "-o",
        file,
        "--",
        env!("CARGO_BIN_EXE_pmuscope"),
        "workload",
        "share-mix",
        "--threads=1",
        "--seconds=1",
        "--shares",
        shares,
    ]);
    outcome.exits(0);
}

/// What is said of a function of the mix.
fn function<'a>(diff: &'a Value, name: &str) -> &'a Value {
    let rows = diff["events"][0]["functions"].as_array().unwrap();
    let is_it = |row: &&Value| row["function"].as_str().is_some_and(|full| full.ends_with(name));
    rows.iter().find(is_it).unwrap_or_else(|| panic!("{name} is not in {diff:#}"))
}

#[test]
fn a_function_that_got_more_of_the_time_is_found() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    record(&scratch, "a.data", "60,30,10");
    record(&scratch, "b.data", "20,70,10");
    let outcome = scratch.pmuscope(["diff", "--json", "--no-inline", "a.data", "b.data"]);
    outcome.exits(0).is_silent();
    let diff: Value = serde_json::from_str(&outcome.stdout).unwrap();
    is_documented("diff", &outcome.stdout);
    let cases = [("integer_division", 0.6, 0.2, "less"), ("polynomial", 0.3, 0.7, "more")];
    for (name, before, after, word) in cases {
        let row = function(&diff, name);
        assert_eq!(row["share_is"], word, "{row:#}");
        let share = |side: &str| row[side]["share"]["value"].as_f64().unwrap();
        for (side, is) in [("before", before), ("after", after)] {
            assert!((share(side) - is).abs() < 0.05, "{side}: {row:#}");
        }
        let change = row["share_change"]["value"].as_f64().unwrap();
        assert!((share("after") - share("before") - change).abs() < 1e-9, "{row:#}");
    }
    let text = scratch.pmuscope(["diff", "--no-inline", "a.data", "b.data"]);
    text.exits(0).is_silent().prints("polynomial").prints("more").prints("one recording per side");
    let sides = ["diff", "a.data", "a.data", "--", "b.data", "b.data"];
    scratch.pmuscope(sides).exits(0).prints("2 recordings").prints("all recordings of one side");
    let alternating = scratch.pmuscope(["diff", "a.data", "b.data", "--", "a.data", "b.data"]);
    assert!(!alternating.exits(0).stdout.contains("of one side"), "{alternating}");
}

#[test]
fn sides_that_are_not_two_are_told_what_to_type() {
    let scratch = Scratch::new();
    scratch.pmuscope(["diff", "a.data"]).exits(2).complains("pmuscope diff BEFORE AFTER");
    scratch.pmuscope(["diff", "a", "b", "c"]).exits(2).complains("BEFORE... -- AFTER...");
    scratch.pmuscope(["diff", "none", "none"]).exits(2).complains("cannot open none");
}

/// Windows of a simulated program of so many instructions per cycle. It is no file, so rows are of
/// modules.
fn windows(scratch: &Scratch, file: &str, ipc: f64, seed: u64) {
    let functions = vec![Function::plain("a", 50_000.0, ipc)];
    write(&Run { functions, cycles: 1e8, seed, ..Run::default() }, &scratch.path(file));
}

#[test]
fn metrics_of_two_sides_are_told_apart() {
    let scratch = Scratch::new();
    for (at, ipc) in [0.5, 0.5, 0.8, 0.8].into_iter().enumerate() {
        windows(&scratch, &format!("{at}.data"), ipc, at as u64);
    }
    let diff = |args: &[&str]| {
        let args = ["diff", "--metrics=CPI,BM/KI", "--by", "module"].iter().chain(args);
        scratch.pmuscope(args)
    };
    let outcome = diff(&["0.data", "2.data", "--json"]);
    outcome.exits(0).is_silent();
    is_documented("metrics-diff", &outcome.stdout);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let row = |metric: usize| &result["metrics"][metric]["rows"][0];
    assert_eq!((&row(0)["is"], &row(1)["is"]), (&"less".into(), &"unclear".into()), "{result:#}");
    let relative = row(0)["change"]["relative"].as_f64().unwrap();
    assert!((relative - (0.5 / 0.8 - 1.0)).abs() < 0.03, "{result:#}");
    assert_eq!(row(0)["module"], "simulated");
    let text = diff(&["0.data", "1.data", "--", "2.data", "3.data"]);
    text.exits(0).is_silent().prints("2 recordings, windows of 300 cycles, 1 in 200,003 cycles");
    text.prints("CPI [cycles/instruction]: 1 of 1 rows changed").prints("hold for all rows");
    diff(&["0.data", "2.data"]).exits(0).prints("one recording per side");
    diff(&["0.data", "2.data", "-o", "x.csv"]).exits(0).is_silent();
    let csv = std::fs::read_to_string(scratch.path("x.csv")).unwrap();
    let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(widths, [20, 20, 20], "{csv}");
    assert!(csv.contains(",less,") && csv.contains(",unclear,"), "{csv}");
}

#[test]
fn what_is_of_metrics_only_is_told() {
    let scratch = Scratch::new();
    windows(&scratch, "a.data", 0.5, 1);
    let both = ["a.data", "a.data"];
    let run = |args: &[&str]| scratch.pmuscope(["diff"].iter().chain(&both).chain(args));
    run(&["-o", "x.csv"])
        .exits(2)
        .complains("CSV and TSV are of metrics and shared lines. Try: --metrics");
    run(&["--by", "module"]).exits(2).complains("Try: --metrics with them");
    run(&["--metrics=none"]).exits(2).complains("there is no metric or group \"none\"");
    run(&["--metrics=slots"]).exits(2).complains("no metric or group");
    let unmeasured = ["--metrics=%L1DA,stalls", "--by", "module"];
    run(&["-o", "x.pb.gz"])
        .exits(2)
        .complains("Try: one of .txt, .json, .csv, .tsv, .folded, .svg, .html");
    run(&["--metrics", "-o", "x.html"]).exits(2).complains("are not of metrics");
    run(&["--html"]).exits(2).complains("Try: --html=x.html");
    let stalls = run(&unmeasured);
    stalls.prints("not all recordings have the events");
    run(&["--metrics=stalls"]).exits(2).complains("has its events on both sides");
}

/// Writes `after.data`, the simulated program after a change: `chase` is called more often, `branches` is gone.
pub(crate) fn write_after(scratch: &Scratch, before: Run) {
    let mut functions = simulated::program();
    (functions[1].weight, functions[2].weight) = (0.0, 3.0);
    write(&Run { functions, seed: 7, ..before }, &scratch.path("after.data"));
}

/// A comparison of the simulated program before and after, written to a file with this name.
#[track_caller]
fn compared(file: &str) -> Scratch {
    let scratch = Scratch::new();
    let before =
        Run { functions: simulated::program(), chains: true, cycles: 1e8, ..Run::default() };
    assert_eq!(simulated::record(&scratch, &before), None);
    write_after(&scratch, before);
    let sides = ["diff", "--symfs", "root", "pmuscope.data", "after.data", "-o", file];
    scratch.pmuscope(sides).exits(0).prints_nothing();
    scratch
}

#[test]
fn folded_stacks_have_the_counts_of_both_sides() {
    skip_unless!(need_c_compiler());
    let scratch = compared("x.folded");
    let one = |file: &str| -> BTreeMap<String, u64> {
        let report = ["report", "--symfs", "root", "-i", file, "--format", "folded"];
        let outcome = scratch.pmuscope(report);
        let line = |line: &str| {
            let (stack, weight) = line.rsplit_once(' ').unwrap();
            (stack.to_owned(), weight.parse().unwrap())
        };
        outcome.exits(0).stdout.lines().map(line).collect()
    };
    let (before, after) = (one("pmuscope.data"), one("after.data"));
    let folded = std::fs::read_to_string(scratch.path("x.folded")).unwrap();
    let mut stacks = 0;
    for line in folded.lines() {
        let [after_count, before_count, stack] = line.rsplitn(3, ' ').collect::<Vec<_>>()[..]
        else {
            panic!("{line}");
        };
        let count =
            |side: &BTreeMap<String, u64>| side.get(stack).copied().unwrap_or(0).to_string();
        assert_eq!((before_count, after_count), (&*count(&before), &*count(&after)), "{line}");
        stacks += 1;
    }
    let all: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    assert_eq!(stacks, all.len(), "{folded}");
    assert!(before.keys().any(|stack| !after.contains_key(stack)), "nothing is gone: {folded}");
}

/// Texts of all boxes of the graph that is shown.
const TITLES: &str = "return [...document.querySelectorAll('.flame-part:not([hidden]) .b title')].map((one) => one.textContent)";

/// The text of the first box of that name in the graph that is shown; `None` without one.
fn shown_box(browser: &Browser, name: &str) -> Option<String> {
    let titles = browser.run(TITLES);
    let mut titles = titles.as_array().unwrap().iter().map(|title| title.as_str().unwrap());
    titles.find(|title| title.starts_with(&format!("{name}\n"))).map(str::to_owned)
}

#[test]
fn full_a_page_shows_what_changed_in_a_flame_graph_and_a_table() {
    skip_unless!(need_full().or_else(need_browser));
    skip_unless!(need_c_compiler());
    let scratch = compared("x.html");
    let browser = Browser::start(1400);
    browser.visit(&scratch.path("x.html"), |browser| {
        browser.show_as(1400, "light");
        let top = "const flame = document.querySelector('.flame').getBoundingClientRect();
            return [flame.top, document.documentElement.scrollWidth - document.documentElement.clientWidth]";
        let place = browser.run(top);
        // Below four warnings: the recorder's count, and stacks of one function, on either side.
        assert!(place[0].as_f64().unwrap() < 900.0 && place[1] == 0, "{place}");
        // As wide as after: what is gone is not there, what is more says by how much.
        assert_eq!(shown_box(browser, "branches"), None);
        let chase = shown_box(browser, "chase").unwrap();
        assert!(chase.contains("before ") && chase.contains("change +"), "{chase}");
        browser.type_into(".flame-part .tools input", "chase");
        browser.click(".switch input[value=before]");
        let gone = shown_box(browser, "branches").unwrap();
        assert!(gone.contains("after 0.00% (0 samples), change -"), "{gone}");
        // The search goes along, names have room, and keys work as in the first.
        let state = browser.run(
            "const part = document.querySelector('.flame-part:not([hidden])');
             return [document.querySelector('article').querySelectorAll('.flame-part:not([hidden])').length, part.dataset.width,
                part.querySelector('input').value, part.querySelectorAll('.b.hit').length > 0,
                [...part.querySelectorAll('.b text')].some((one) => one.textContent.length > 3)]",
        );
        assert_eq!(state, serde_json::json!([1, "before", "chase", true, true]));
        // A function of the table is found in the graph that is shown.
        browser.click("table.functions tbody td.name");
        let hits = "return document.querySelectorAll('.flame-part:not([hidden]) .b.hit').length";
        assert!(browser.run(hits).as_u64().unwrap() > 0);
        browser.show_as(400, "dark");
        let place = browser.run(top);
        assert_eq!(place[1], 0, "wider than a telephone");
    });
}
