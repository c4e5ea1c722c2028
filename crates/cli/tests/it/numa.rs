//! `pmuscope numa`: what the machine tells of nodes.

use serde_json::{Value, json};

use crate::harness::{Scratch, skip_unless};
use crate::json::is_documented;
use crate::lab::{lab, need_guests};

#[test]
fn this_machine_is_shown() {
    let scratch = Scratch::new();
    let shown = scratch.pmuscope(["numa", "show"]);
    shown
        .exits(0)
        .prints("NUMA nodes")
        .prints("NUMA balancing")
        .prints("Kernel counters since boot");
    let json = scratch.pmuscope(["numa", "show", "--json"]);
    is_documented("numa", &json.exits(0).stdout);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), json["machine"]["topology"]["nodes"].as_array().unwrap().len());
    assert_eq!(shown.stdout.contains("nothing to place"), nodes.len() == 1, "{shown}");
}

#[test]
fn a_guest_shows_the_nodes_and_settings_it_was_given() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let balancing = "/sys/kernel/debug/sched/numa_balancing";
    let mut args: Vec<String> = ["run", "--nodes", "4", "--cpus", "16", "--hmat", "--memory", "2G"]
        .map(String::from)
        .into();
    // Two pairs of near nodes.
    for (pair, distance) in
        [("0,1", 16), ("2,3", 17), ("0,2", 31), ("0,3", 32), ("1,2", 33), ("1,3", 34)]
    {
        args.extend(["--distance".to_owned(), format!("{pair}={distance}")]);
    }
    let settings = [
        ("kernel.numa_balancing".to_owned(), 1),
        (format!("{balancing}/scan_delay_ms"), 101),
        (format!("{balancing}/scan_period_min_ms"), 102),
        (format!("{balancing}/scan_period_max_ms"), 1003),
        (format!("{balancing}/scan_size_mb"), 64),
        ("vm.zone_reclaim_mode".to_owned(), 1),
        ("/sys/kernel/mm/numa/demotion_enabled".to_owned(), 1),
    ];
    for (name, value) in settings {
        args.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    args.extend(["--", "numa", "show", "--json"].map(String::from));
    let outcome = lab(&scratch, args);
    is_documented("numa", &outcome.exits(0).stdout);
    let shown: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let nodes = shown["nodes"].as_array().unwrap();
    let of = |name: &str| nodes.iter().map(|node| node[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("cpus"), ["0-3", "4-7", "8-11", "12-15"]);
    let distances = json!([[10, 16, 31, 32], [16, 10, 33, 34], [31, 33, 10, 17], [32, 34, 17, 10]]);
    assert_eq!(Value::Array(of("distances")), distances);
    assert!(nodes.iter().all(|node| node["has_cpus"] == true && node["has_memory"] == true));
    // What the lab makes up for the distance of a node to itself.
    let access = &nodes[2]["access"][0];
    assert_eq!((access["class"].as_u64(), access["initiators"].as_str()), (Some(0), Some("2")));
    assert_eq!(access["read_latency_ns"], 10);
    assert_eq!(access["read_bandwidth_mb_s"].as_u64(), access["write_bandwidth_mb_s"].as_u64());
    let set = &shown["balancing"];
    assert_eq!((set["mode"].as_u64(), set["scan_delay_ms"].as_u64()), (Some(1), Some(101)));
    assert_eq!(
        (set["scan_period_min_ms"].as_u64(), set["scan_size_mb"].as_u64()),
        (Some(102), Some(64))
    );
    assert_eq!(set["scan_period_max_ms"], 1003);
    assert_eq!(shown["balancing_why"], Value::Null);
    assert_eq!(
        (&shown["settings"]["zone_reclaim_mode"], &shown["settings"]["demotion"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(shown["settings"]["allowed_nodes"], "0-3");
    assert!(shown["counters"]["local"].as_u64().unwrap() > 0);
    let taken: u64 = nodes.iter().map(|node| node["counters"]["local"].as_u64().unwrap()).sum();
    assert!(taken > 0 && shown["allocated_locally"].as_f64().unwrap() > 0.0);
}
