//! Run files side by side, what explains a difference, and figures over time.

use serde_json::{Value, json};

use crate::harness::{Scratch, need_full, need_program, skip_unless};
use crate::json::is_documented;
use crate::webdriver::{Browser, need_browser};

/// What runs differ by, in a hundredth of a figure.
const STEPS: [f64; 6] = [-1.0, 0.4, 1.1, -0.3, 0.6, -0.8];

/// A run file of six runs that did 1000 packets each; counts per packet of hardware events.
fn run_file(started: u64, counts: &[(&str, f64)]) -> String {
    let runs: Vec<Value> = (0..6)
        .map(|index| {
            json!({"index": index, "order": index, "started": "1", "duration_s": 1, "exit": 0,
                   "units": {"packet": 1000}})
        })
        .collect();
    let series: Vec<Value> = counts
        .iter()
        .enumerate()
        .map(|(at, (metric, count))| {
            let values: Vec<Value> = (0..6)
                .map(|run| {
                    let step = STEPS[(run + at) % 6];
                    json!({"run": run, "value": 1000.0 * count * (1.0 + 0.01 * step)})
                })
                .collect();
            json!({"labels": {}, "metric": metric, "unit": "", "origin": "hardware", "values": values})
        })
        .collect();
    json!({
        "schema": "pmuscope/runs/1", "tool": {"name": "pmuscope", "version": "0"}, "machine": null,
        "command": ["pmuscope", "sweep"], "started": started.to_string(), "duration_s": 6,
        "status": 0, "runs": runs, "series": series,
    })
    .to_string()
}

/// The ring before and after: fewer cycles, hardly fewer HITM.
pub(crate) fn ring() -> Scratch {
    let scratch = Scratch::new();
    let write = |name: &str, started: u64, counts: &[(&str, f64)]| {
        std::fs::write(scratch.path(name), run_file(started, counts)).unwrap();
    };
    write("a.json", 1, &[("cycles", 665.16), ("hitm", 0.941), ("loads", 21.0)]);
    write("b.json", 2, &[("cycles", 421.6), ("hitm", 0.880), ("loads", 21.0)]);
    write("c.json", 3, &[("cycles", 665.0), ("hitm", 0.941), ("loads", 21.0)]);
    scratch
}

#[test]
fn what_differs_is_told_and_what_cannot_be_told_too() {
    let scratch = ring();
    let compare = scratch.pmuscope(["compare", "a.json", "b.json"]);
    compare.exits(0).is_silent().prints("/packet").prints("less");
    let compare = scratch.pmuscope(["compare", "--json", "a.json", "b.json"]);
    let value: Value = serde_json::from_str(&compare.exits(0).is_silent().stdout).unwrap();
    let pair = &value["rows"][0]["pairs"][0];
    assert_eq!((&value["rows"][0]["metric"], &pair["verdict"]), (&json!("cycles"), &json!("less")));
    let ratio = &pair["ratio"];
    assert!((ratio["value"].as_f64().unwrap() - 421.6 / 665.16).abs() < 1e-3);
    assert!(ratio["interval"]["low"].as_f64() < ratio["interval"]["high"].as_f64());
    let again = scratch.pmuscope(["compare", "a.json", "c.json", "--explain"]);
    again.exits(0).prints("inconclusive").prints("nothing to explain");
}

#[test]
fn hitm_alone_is_not_what_made_the_ring_faster() {
    let scratch = ring();
    let explain = ["compare", "a.json", "b.json", "--explain=cycles/packet", "--cost", "hitm=400"];
    let text = scratch.pmuscope(explain);
    text.exits(0).prints("a part at most").prints("unexplained").prints("known cost");
    let value = scratch.pmuscope(explain.iter().chain(&["--json"]));
    let value: Value = serde_json::from_str(&value.exits(0).stdout).unwrap();
    let explanation = &value["explanations"][0];
    assert_eq!(explanation["changed"], true);
    let rest = explanation["rest"]["value"].as_f64().unwrap();
    let whole = explanation["difference"]["value"].as_f64().unwrap();
    assert!(rest / whole > 0.85, "{explanation:#}");
}

#[test]
fn bad_input_is_named_with_what_to_type() {
    let scratch = ring();
    let refused = |args: &[&str], why: &str| {
        scratch
            .pmuscope(["compare", "a.json", "b.json"].iter().chain(args))
            .exits(2)
            .complains(why);
    };
    refused(&["--per", "request"], "has a unit of work \"request\"");
    refused(&["--base", "d.json"], "Try: --base 1");
    refused(&["-m", "("], "is not a regular expression");
    refused(&["--explain=bananas"], "cannot explain \"bananas\"");
    refused(&["--explain", "--cost", "x"], "--cost page-faults=2500");
    refused(&["--explain", "--cost", "x=1"], "--cost: no file has event");
    // A file after the flag is a file.
    scratch.pmuscope(["compare", "--explain", "a.json", "b.json"]).exits(0);
    scratch
        .pmuscope(["compare", "--explain", "cycles", "a.json", "b.json"])
        .exits(2)
        .complains("Try: --explain=cycles");
    scratch.pmuscope(["compare", "a.json", "--explain"]).exits(2).complains("needs two files");
    scratch.pmuscope(["compare"]).exits(2);
    std::fs::create_dir(scratch.path("empty")).unwrap();
    scratch.pmuscope(["compare", "--trend", "empty"]).exits(2).complains("has no run files");
    scratch.pmuscope(["compare", "--trend", "none"]).exits(2).complains("cannot read none");
}

/// Estimates and names that are the user's are documented as a whole.
pub(crate) fn without_estimates(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("value") && fields.contains_key("interval") {
                *value = Value::Null;
                return;
            }
            for (name, value) in fields {
                match name.as_str() {
                    "units" | "labels" | "parameters" => *value = Value::Null,
                    _ => without_estimates(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(without_estimates),
        _ => {}
    }
}

#[test]
fn fields_are_documented() {
    let scratch = ring();
    let checked = |args: &[&str], kind: &str| {
        let out = scratch.pmuscope(["compare", "--json"].iter().chain(args));
        let mut value: Value = serde_json::from_str(&out.exits(0).stdout).unwrap();
        without_estimates(&mut value);
        is_documented(kind, &value.to_string());
    };
    checked(&["a.json", "b.json", "--explain", "--cost", "hitm=400"], "compare/2");
    let days = scratch.path("days");
    std::fs::create_dir(&days).unwrap();
    for day in 0..12_u64 {
        let level = if day < 7 { 600.0 } else { 700.0 } + (day * 5 % 7) as f64;
        let file = run_file(day, &[("cycles", level)]);
        std::fs::write(days.join(format!("{day}.json")), file).unwrap();
    }
    checked(&["--trend", "days"], "trend/1");
    scratch.pmuscope(["compare", "--trend", "days"]).exits(0).prints("7.json: 6");
}

#[test]
fn pages_and_tables_are_written() {
    let scratch = ring();
    let files = ["compare", "a.json", "b.json", "c.json", "--base", "a.json"];
    scratch.pmuscope(files).exits(0).prints("change").prints("%");
    scratch.pmuscope(files.iter().chain(&["--html", "x.html"])).exits(0).prints_nothing();
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    assert!(page.contains("<circle") && page.ends_with("</html>\n"));
    let csv = scratch.pmuscope(files.iter().chain(&["--csv"]));
    // Three events and the time of a run, in three files.
    assert_eq!(csv.exits(0).stdout.lines().count(), 1 + 4 * 3);
    scratch
        .pmuscope(files.iter().chain(&["--html", "no/x.html"]))
        .exits(2)
        .complains("cannot write");
}

#[test]
fn full_a_page_opens_without_complaint() {
    skip_unless!(need_full().or_else(need_browser));
    let scratch = ring();
    let args = ["compare", "a.json", "b.json", "--explain", "--html", "x.html"];
    scratch.pmuscope(args).exits(0);
    let browser = Browser::start(1200);
    browser.open(&scratch.path("x.html"));
    assert_eq!(browser.run("return document.querySelectorAll('circle').length"), json!(4 * 3));
    browser.click("th.num button");
    assert_eq!(browser.run("return document.querySelectorAll('[aria-sort]').length"), json!(1));
    let wide = "return document.documentElement.scrollWidth - innerWidth";
    assert!(browser.run(wide).as_i64().unwrap() <= 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The block of docs/compare.md in this language.
fn example(language: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compare.md");
    let text = std::fs::read_to_string(path).unwrap();
    let block = text.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn the_example_in_pandas_runs() {
    skip_unless!(need_program("python3", "--version"));
    let scratch = ring();
    let pandas = scratch.run("python3", ["-c", "import pandas"]);
    skip_unless!((pandas.code() != 0).then(|| "python3 has no pandas".to_owned()));
    std::fs::write(scratch.path("x.py"), example("python")).unwrap();
    let out = scratch.run("python3", ["x.py"]);
    out.exits(0).prints("cycles").prints("a.json").prints("mean");
}

#[test]
fn the_example_in_r_runs() {
    skip_unless!(need_program("Rscript", "--version"));
    let scratch = ring();
    let csv = scratch.pmuscope(["compare", "a.json", "b.json", "--csv"]);
    std::fs::write(scratch.path("ab.csv"), &csv.exits(0).stdout).unwrap();
    std::fs::write(scratch.path("x.R"), example("r")).unwrap();
    scratch.run("Rscript", ["x.R"]).exits(0).prints("cycles");
}
