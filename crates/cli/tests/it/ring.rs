//! Packets between processes: none is lost, and each is paid for.

use std::fs;

use crate::harness::Scratch;

#[test]
fn two_processes_pass_packets_in_both_ways() {
    let scratch = Scratch::new();
    for mode in ["basic", "fastforward"] {
        let flags = ["--packets", "200000", "--bytes-written", "64", "--bytes-read", "64"];
        let args = [&["workload", "ring", "--mode", mode], &flags[..]].concat();
        let outcome = scratch.pmuscope(args);
        outcome.exits(0).prints(&format!("Mode = {mode}\n")).prints("Packets = 200000\n");
        // Each has a CPU of its own, where there are two.
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix("CPUs = ")).unwrap();
        let (producer, consumer) = line.split_once(',').unwrap();
        let one = std::thread::available_parallelism().unwrap().get() == 1;
        assert_eq!(producer == consumer, one, "{line}");
    }
    let outcome = scratch.pmuscope(["workload", "ring", "--processes", "3"]);
    outcome.exits(2).complains("--processes: use 1 or 2");
}

#[test]
fn the_benchmark_tells_what_a_packet_costs_in_each_ring() {
    let scratch = Scratch::new();
    let flags = ["--packets", "100000", "-r", "2", "--json=r.json", "-e", "task-clock"];
    let outcome = scratch.pmuscope([&["bench", "ring"], &flags[..]].concat());
    outcome.exits(0);
    let rows = ["basic-1", "basic-2", "fastforward-1", "fastforward-2"];
    for row in rows {
        outcome.prints(&format!("\n{row} "));
    }
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(scratch.path("r.json")).unwrap()).unwrap();
    let runs = file["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|run| run["units"]["packet"] == 100_000.0 && run["exit"] == 0));
    let rates: Vec<&serde_json::Value> =
        file["series"].as_array().unwrap().iter().filter(|one| one["metric"] == "mpps").collect();
    assert_eq!(rates.len(), rows.len());
    let values = rates.iter().flat_map(|one| one["values"].as_array().unwrap());
    assert!(values.clone().all(|value| value["value"].as_f64().unwrap() > 0.0));
    scratch.pmuscope(["compare", "r.json", "r.json"]).exits(0).prints("mpps");
}
