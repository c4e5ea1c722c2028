//! What is said of processes that were followed.

use std::collections::BTreeMap;

use pmuscope_machine::NumaCounters;
use pmuscope_numa::timeline::{Observation, ProcessObservation, Share};

use super::followed::followed_text;
use super::followed_page::followed_page;
use super::*;
use crate::Style;
use crate::report::Report as _;
use crate::sheet::Separator;

use super::MIB;

fn process(
    pid: u32,
    name: &str,
    threads: &[u32],
    mib: &[f64],
    locality: f64,
) -> ProcessObservation {
    ProcessObservation {
        pid,
        name: name.to_owned(),
        threads: threads.to_vec(),
        running: None,
        bytes: mib.iter().map(|mib| mib * MIB).collect(),
        exact: false,
        asked: 2048,
        refused: 0,
        locality: Some(Share { value: locality, half: 0.015 }),
        moved: 0,
    }
}

fn observation(at_s: f64, processes: Vec<ProcessObservation>, locality: f64) -> Observation {
    let counters = NumaCounters {
        hint_faults: Some(120),
        hint_faults_local: Some(90),
        pages_migrated: Some(512),
        ..NumaCounters::default()
    };
    Observation {
        at_s,
        processes,
        locality: Some(Share { value: locality, half: 0.01 }),
        counters: (at_s > 0.0).then_some(counters),
        cost_ns: 1_500_000,
    }
}

fn moving(observations: usize) -> Vec<Observation> {
    let one = |step: usize| {
        let there = step as f64 / (observations - 1).max(1) as f64;
        let mib = [256.0 * (1.0 - there), 256.0 * there];
        let mut server = process(42, "ser\u{1b}ver", &[0, 4], &mib, there);
        server.moved = u32::from(step == 1);
        let helper = process(43, "helper", &[1, 0], &[1.5, 0.0], 1.0);
        observation(0.5 * step as f64, vec![server, helper], there)
    };
    (0..observations).map(one).collect()
}

fn text(observations: &[Observation], nodes: &[u32], refused: &BTreeMap<u32, String>) -> String {
    styled(observations, nodes, refused, &Style::PLAIN)
}

fn styled(
    observations: &[Observation],
    nodes: &[u32],
    refused: &BTreeMap<u32, String>,
    style: &Style,
) -> String {
    let followed = Followed::new((nodes, 0.5), observations, refused, None, None);
    followed_text(&followed, style)
}

#[test]
fn memory_that_follows_its_threads_is_seen_to() {
    crate::widths::fits("numa-followed", |style| {
        styled(&moving(4), &[0, 1], &BTreeMap::new(), style)
    });
    let shown = text(&moving(4), &[0, 1], &BTreeMap::new());
    insta::assert_snapshot!(shown, @r"
    ser\x1bver (42) and 1 more on 2 NUMA nodes, 1.50 s, 4 snapshots about 500 ms apart
    overhead: 0.30% of one CPU (1.50 ms per snapshot, 4,096 pages queried) · writable memory

    time s  locality  95% CI  threads by node  MiB by node  threads moved  hint faults  local  MiB migrated
       0.0      0.00   ±0.01              1 4        258 0              -            -      -             -
       0.5      0.33   ±0.01              1 4     172 85.3              1          120    75%          2.00
       1.0      0.67   ±0.01              1 4     86.8 171              0          120    75%          2.00
       1.5      1.00   ±0.01              1 4     1.50 256              0          120    75%          2.00

    process  comm        threads by node  MiB by node  locality initial  final  95% CI
         42  ser\x1bver              0 4        0 256              0.00   1.00   ±0.01
         43  helper                  1 0       1.50 0              1.00   1.00   ±0.01
    ");
}

#[test]
fn snapshots_are_rows_for_scripts() {
    let (observations, none) = (moving(3), BTreeMap::new());
    let followed = Followed::new((&[0, 1], 0.5), &observations, &none, None, None);
    insta::assert_snapshot!(followed.delimited(Separator::Comma).unwrap(), @"
    time_s,locality,locality_margin,threads_on_0,mib_on_0,threads_on_1,mib_on_1,threads_moved,hint_faults,hint_faults_local_share,mib_migrated
    0,0,0.01,1,257.5,4,0,,,,
    0.5,0.5,0.01,1,129.5,4,128,1,120,0.75,2
    1,1,0.01,1,1.5,4,256,0,120,0.75,2
    ");
}

#[test]
fn what_could_not_be_looked_at_is_said() {
    let refused = BTreeMap::from([(7, "EPERM".to_owned()), (8, "EPERM".to_owned())]);
    let mut observations = moving(2);
    observations[1].processes[0].refused = 3;
    observations[1].locality = None;
    let shown = text(&observations, &[0, 1], &refused);
    assert!(shown.contains("Process 7 could not be read (and 1 more): EPERM"), "{shown}");
    assert!(shown.contains("did not report the node of 3 pages"), "{shown}");
    assert!(text(&[], &[0], &refused).starts_with("no process on 1 NUMA node"), "{shown}");
}

#[test]
fn many_looks_are_thinned_out_and_nothing_counted_is_left_out() {
    let shown = text(&moving(200), &[0, 1], &BTreeMap::new());
    assert!(shown.contains("176 snapshots between these not shown"), "{shown}");
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains(" MiB")).collect();
    assert!(rows.len() <= 2, "{shown}");
    // The column of hint faults: 120 of each observation but the first.
    let faults = |line: &str| -> Option<u64> {
        let line = line.split_whitespace().rev().nth(2)?;
        line.replace(',', "").parse().ok()
    };
    let table = shown.lines().skip(3).take_while(|line| !line.is_empty());
    assert_eq!(table.filter_map(faults).sum::<u64>(), 199 * 120, "{shown}");
}

#[test]
fn the_page_has_maps_and_numbers_and_no_foreign_markup() {
    let mut observations = moving(5);
    observations[4].processes[0].name = "<script>alert(1)</script>".to_owned();
    let refused = BTreeMap::new();
    let followed = Followed::new((&[0, 1], 0.5), &observations, &refused, None, Some("QEMU"));
    let page = followed_page(&followed, "abc");
    let data = page.split("class=\"heat-data\">").nth(1).unwrap();
    let data = data.split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["rows"], serde_json::json!(["0", "1"]));
    assert_eq!(data["values"][1], serde_json::json!([0, 65536, 131_072, 196_608, 262_144]));
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(page.contains("emulated (QEMU)"), "{page}");
    let title = crate::title::tests::of_page(&page);
    assert!(
        title.starts_with("memory placement: ") && title.ends_with(", 2.00 s, 5 snapshots"),
        "{title}"
    );
    assert_eq!(page.matches("class=\"heat-part\"").count(), 2);
}
