//! `report --children`: functions ranked by total.

use pmuscope_testkit::simulator::Run;

use crate::harness::{Scratch, skip_unless};
use crate::simulated::{program, record};

#[test]
fn children_ranks_functions_by_total_in_text_json_and_csv() {
    let scratch = Scratch::new();
    let run = Run { functions: program(), chains: true, cycles: 2e7, ..Run::default() };
    skip_unless!(record(&scratch, &run));
    let report = |more: &[&str]| {
        let args = [&["report", "--symfs", "root", "--children"], more].concat();
        scratch.pmuscope(args).exits(0).stdout.clone()
    };
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    let rows = json["events"][0]["functions"].as_array().unwrap();
    let totals: Vec<u64> = rows.iter().map(|row| row["total_samples"].as_u64().unwrap()).collect();
    assert!(totals.is_sorted_by(|a, b| a >= b) && totals.len() > 3, "{totals:?}");
    let is_caller =
        |row: &serde_json::Value| row["samples"].as_u64() < row["total_samples"].as_u64();
    assert!(rows.iter().any(is_caller), "{json:#}");
    let text = report(&["--limit", "1"]);
    let head = text.lines().find(|line| line.contains("self")).unwrap();
    assert!(head.trim_start().starts_with("total"), "{text}");
    let name = rows[0]["function"].as_str().unwrap();
    assert!(text.lines().any(|line| line.contains(name)), "{name}: {text}");
    let csv = report(&["--csv"]);
    let first = csv.lines().nth(1).unwrap();
    assert!(first.contains(name) && first.contains(&totals[0].to_string()), "{first}");
    scratch.pmuscope(["report", "--children", "--by", "comm"]).exits(2).complains("cannot be used");
}
