//! `pmuscope report --by`, `--group`, `--call-tree`, `--peek` and `--annotate`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{Scratch, need_program, need_sampling, need_two_cpus, skip_unless};
use crate::json::is_documented;

/// Records the share mix with these flags.
#[track_caller]
fn record(scratch: &Scratch, flags: &[&str]) {
    let record = ["record", "-q", "-e", "cpu-clock:u", "-F", "2000", "-o", "x.data"];
    let mix = ["--", env!("CARGO_BIN_EXE_pmuscope"), "workload", "share-mix", "--threads=1"];
    let args = record.iter().chain(flags).chain(&mix).chain(&["--seconds=0.5"]);
    scratch.pmuscope(args).exits(0);
}

fn rows(scratch: &Scratch, by: &str) -> Vec<Value> {
    let outcome = scratch.pmuscope(["report", "-i", "x.data", "--json", "--by", by]);
    outcome.exits(0).is_silent();
    is_documented("rows", &outcome.stdout);
    let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
    value["events"][0]["rows"].as_array().unwrap().clone()
}

#[test]
fn rows_add_up_by_whatever_they_are_told_apart() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    record(&scratch, &[]);
    let samples =
        |rows: &[Value]| rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum::<u64>();
    let by_module = rows(&scratch, "module");
    assert!(by_module.iter().any(|row| row["module"].as_str().unwrap().ends_with("/pmuscope")));
    for by in ["cpu,node", "command,process,thread", "function", "dso,srcline", "address"] {
        let rows = rows(&scratch, by);
        assert_eq!(samples(&rows), samples(&by_module), "{by}");
        let shares: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{by}: {shares}");
    }
    let threads = rows(&scratch, "command,tid");
    assert!(threads.iter().any(|row| row["command"] == "mix-0" && row["thread"].is_u64()));
    let text = scratch.pmuscope(["report", "-i", "x.data", "--by", "cpu,command"]);
    text.exits(0).is_silent().prints("CPU  comm").prints("mix-0").prints("lost 0");
}

#[test]
fn calls_are_shown_from_both_ends_and_around_a_function() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    record(&scratch, &["-g"]);
    let report = |flag: &str| {
        let outcome = scratch.pmuscope(["report", "-i", "x.data", flag]);
        outcome.exits(0).is_silent().prints("integer_division");
        outcome.stdout
    };
    let (callees, callers) = (report("--call-tree"), report("--call-tree=callers"));
    assert!(callees.contains("callees indented"), "{callees}");
    assert!(callers.contains("callers indented"), "{callers}");
    let around = report("--peek=integer_division");
    assert!(around.contains("  from ") && around.contains("  to [self]"), "{around}");
    let rows = rows(&scratch, "function");
    let in_or_under = |row: &Value| row["children_samples"].as_u64().unwrap();
    assert!(rows.iter().all(|row| in_or_under(row) >= row["samples"].as_u64().unwrap()));
    assert!(rows.iter().any(|row| row["samples"] == 0 && in_or_under(row) > 0), "{rows:#?}");
}

#[test]
fn events_stand_side_by_side() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    let work =
        ["--", "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; ls / >/dev/null"];
    let how = ["record", "-q", "-e", "cpu-clock:u,page-faults:u", "-F", "2000", "-o", "x.data"];
    scratch.pmuscope(how.iter().chain(&work)).exits(0);
    let table = |args: &[&str]| {
        let outcome = scratch.pmuscope([&["report", "x.data", "--limit", "all"], args].concat());
        outcome.exits(0).is_silent();
        outcome.stdout
    };
    let text = table(&["--group", "--by", "module"]);
    let head = text.lines().find(|line| line.contains("95% CI")).unwrap();
    let columns: Vec<&str> =
        head.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    assert_eq!(columns, ["cpu-clock:u", "95% CI", "page-faults:u", "95% CI", "DSO"], "{text}");
    let json = scratch.pmuscope(["report", "x.data", "--json", "--by", "module"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    for (event, at) in [(0, 0), (1, 2)] {
        let rows = json["events"][event]["rows"].as_array().unwrap();
        assert!(!rows.is_empty(), "{json}");
        for row in rows {
            let name = row["module"].as_str().unwrap().rsplit('/').next().unwrap();
            let line = text.lines().find(|line| line.ends_with(&format!("  {name}"))).unwrap();
            let share = format!("{:.2}%", row["share"].as_f64().unwrap() * 100.0);
            let cells: Vec<&str> =
                line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
            // Where an event has no sample there is no interval either, hence no cell.
            assert!(cells[..cells.len().min(at + 2)].contains(&&*share), "{line}: {share}");
        }
    }
    assert!(table(&["--group"]).contains("comm"));
    let both = scratch.pmuscope(["report", "x.data", "--group", "--json"]);
    both.exits(2).complains("cannot be used with");
}

#[test]
fn the_balance_of_cpus_is_told() {
    skip_unless!(need_two_cpus());
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    let mix = ["--", env!("CARGO_BIN_EXE_pmuscope"), "workload", "share-mix", "--threads=4"];
    let how = ["record", "-q", "-e", "cpu-clock:u", "-F", "2000", "-o", "x.data"];
    // A busy machine may leave them one CPU for a while.
    let mut by_cpu = Vec::new();
    for seconds in ["--seconds=0.5", "--seconds=2", "--seconds=8"] {
        scratch.pmuscope(how.iter().chain(&mix).chain(&[seconds])).exits(0);
        by_cpu = rows(&scratch, "cpu");
        if by_cpu.len() > 1 {
            break;
        }
    }
    assert!(by_cpu.len() > 1, "four busy threads on one CPU: {by_cpu:#?}");
    let outcome = scratch.pmuscope(["report", "x.data", "--json", "--by", "cpu"]);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let balance = &json["events"][0]["balance"][0];
    assert_eq!((&balance["of"], &balance["units"]), (&"cpu".into(), &by_cpu.len().into()));
    assert_eq!(balance["busiest"], by_cpu[0]["cpu"], "{balance}");
    assert_eq!(balance["idlest_share"], by_cpu.last().unwrap()["share"], "{balance}");
    let text = scratch.pmuscope(["report", "x.data", "--by", "cpu,command"]);
    text.exits(0).prints("balance of ").prints("busiest / mean");
}

/// Samples of a list of objects by one of their fields.
fn by_field(rows: &Value, field: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for row in rows.as_array().unwrap().iter().filter(|row| row["samples"] != 0) {
        let key = row[field].to_string();
        *found.entry(key).or_default() += row["samples"].as_u64().unwrap();
    }
    found
}

/// Rows of comma-separated values by the names of their columns; no field here has a comma in it.
fn csv_rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let head: Vec<String> = lines.next().unwrap().collect();
    lines.map(|line| head.iter().cloned().zip(line).collect()).collect()
}

#[test]
fn tables_for_spreadsheets_have_the_numbers_of_the_views() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    record(&scratch, &[]);
    let csv = |args: &[&str]| {
        let args = [&["report", "x.data", "--format", "csv"], args].concat();
        csv_rows(&scratch.pmuscope(args).exits(0).is_silent().stdout)
    };
    let by_module = rows(&scratch, "module");
    let in_csv = csv(&["--by", "module"]);
    assert_eq!(in_csv.len(), by_module.len());
    for (row, json) in in_csv.iter().zip(&by_module) {
        assert_eq!(row["samples"], json["samples"].to_string());
        assert_eq!(row["module"], json["module"].as_str().unwrap_or_default());
    }
    let grouped = csv(&["--group", "--by", "module"]);
    let samples = |row: &BTreeMap<String, String>| {
        let column = row.keys().find(|name| name.ends_with(" samples")).unwrap();
        row[column].clone()
    };
    let grouped: BTreeMap<&str, String> =
        grouped.iter().map(|row| (&*row["module"], samples(row))).collect();
    let sampled = in_csv.iter().filter(|row| row["samples"] != "0");
    assert_eq!(grouped, sampled.map(|row| (&*row["module"], row["samples"].clone())).collect());
    // There is no head to say it in.
    for view in ["--by=module", "--by=data", "--annotate=integer_division"] {
        let args = ["report", "x.data", "--format", "csv", "--time", "0%-90%", view];
        scratch.pmuscope(args).complains("note: kept ").complains("--time 0%-90%");
    }
    let wrong = |view: &str| {
        let outcome = scratch.pmuscope(["report", "x.data", "--format", "csv", view]);
        outcome.exits(2).prints_nothing().complains("only");
    };
    wrong("--call-tree");
    for (view, cell) in [("--by=module,cpu", ">CPU</th>"), ("--group", ">Events side by side</h2>")]
    {
        scratch.pmuscope(["report", "x.data", view, "-o", "rows.html"]).exits(0);
        let page = std::fs::read_to_string(scratch.path("rows.html")).unwrap();
        assert!(page.contains(cell) && page.contains("class=\"sortable"), "{page}");
    }
    let nothing = |view: &str| {
        let outcome = scratch.pmuscope(["report", "x.data", "--format", "csv", view]);
        outcome.exits(1).prints("share,share_low,share_high,").complains("Try: pmuscope record");
    };
    nothing("--by=mem");
    nothing("--by=branch");
}

#[test]
fn a_function_from_inside_has_the_samples_of_its_addresses_and_lines() {
    skip_unless!(need_program("objdump", "--version"));
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    record(&scratch, &[]);
    let annotate = |args: &[&str]| {
        let args = [&["report", "x.data", "--annotate"], args].concat();
        scratch.pmuscope(args)
    };
    let json = annotate(&["integer_division", "--json"]);
    is_documented("annotate", &json.exits(0).is_silent().stdout);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let event = &json["events"][0];
    let here = by_field(&event["instructions"], "sampled_address");
    let all: BTreeMap<String, u64> = rows(&scratch, "address")
        .iter()
        .map(|row| (row["address"].to_string(), row["samples"].as_u64().unwrap()))
        .collect();
    assert!(here.iter().all(|(address, samples)| all[address] == *samples), "{here:?} {all:?}");
    assert_eq!(Some(here.values().sum::<u64>()), event["samples"].as_u64());
    assert!(event["samples"].as_u64() > Some(50), "{event}");
    let texts: Vec<&str> = event["instructions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["text"].as_str().unwrap())
        .collect();
    assert!(texts.iter().any(|text| text.contains("div")), "{texts:?}");
    // The tests' program has debug information, and its source is here.
    let lines = by_field(&event["lines"], "line");
    assert!(lines.values().sum::<u64>() <= here.values().sum(), "{lines:?}");
    // The compiler gives some instructions no line.
    let mut of_lines = event["lines"].as_array().unwrap().iter();
    assert!(of_lines.any(|line| line["text"].is_string()), "{event}");

    let csv = annotate(&["integer_division", "--format", "csv"]);
    let csv = csv_rows(&csv.exits(0).is_silent().stdout);
    let of = |row: &BTreeMap<String, String>| row["samples"].parse::<u64>().unwrap();
    let in_csv: BTreeMap<String, u64> = csv
        .iter()
        .filter(|row| of(row) > 0)
        .map(|row| (format!("\"{}\"", row["sampled_address"]), of(row)))
        .collect();
    assert_eq!(in_csv, here);

    let text = annotate(&["integer_divis"]);
    text.exits(0).is_silent().prints("of function").prints("instruction").prints("div");
    let none = annotate(&["integer_division", "--objdump", "no-such-program"]);
    none.exits(1).prints("no-such-program is not installed").prints("apt install binutils");

    scratch.pmuscope(["report", "x.data", "-o", "x.html", "--annotate-top", "2"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("x.html")).unwrap();
    for part in [r#"<h2>Code</h2>"#, r##"<a href="#code-0-1">show</a>"##, r#"id="code-0-1""#] {
        assert!(page.contains(part), "no {part}");
    }
    assert!(!page.contains("code-0-2"), "more functions than asked for");
    scratch
        .pmuscope(["report", "x.data", "-o", "y.html", "--annotate", "integer_division"])
        .exits(0);
    let page = std::fs::read_to_string(scratch.path("y.html")).unwrap();
    let code = page.split("<h2>Code</h2>").nth(1).unwrap();
    assert!(code.contains("integer_division in ") && code.contains("div"), "{code}");
}

#[test]
fn a_function_that_is_not_the_only_one_or_none_is_told() {
    skip_unless!(need_sampling());
    let scratch = Scratch::new();
    record(&scratch, &[]);
    let wrong = |args: &[&str], why: &str| {
        let args = [&["report", "x.data", "--annotate"], args].concat();
        scratch.pmuscope(args).exits(2).prints_nothing().complains(why);
    };
    wrong(&["integer_divison"], "Similar: pmuscope");
    wrong(&["i"], "sampled functions have i in their names");
    wrong(&["integer_division", "--dso", "libc.so.6"], "Try: --dso pmuscope");
    wrong(&["integer_division", "--format", "svg"], "for text, JSON, CSV, TSV and HTML only");
    let top = scratch.pmuscope(["report", "x.data", "--annotate-top", "2"]);
    top.exits(2).complains("Try: -o FILE.html");
    wrong(&["integer_division", "--by", "cpu"], "cannot be used with");
    scratch.pmuscope(["report", "x.data", "--dso", "x"]).exits(2).complains("--annotate");
}

#[test]
fn what_cannot_be_shown_is_told() {
    let scratch = Scratch::new();
    scratch.pmuscope(["report", "--by", "color"]).exits(2).complains("one of command, process");
    skip_unless!(need_sampling());
    record(&scratch, &[]);
    let report = |flag| scratch.pmuscope(["report", "-i", "x.data", flag]);
    report("--peek=no_such_function").exits(2).complains("--by function --limit all");
    report("--call-tree").exits(0).prints("Try: pmuscope record -g");
}
