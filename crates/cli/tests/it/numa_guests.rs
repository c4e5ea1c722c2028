//! Placement in guests with several nodes: what is read equals what the kernel's own tables say, and bindings
//! are seen as what they are.

use std::collections::BTreeMap;

use pmuscope_measure::RunFile;
use serde_json::Value;

use crate::harness::{Scratch, skip_unless};
use crate::lab::{lab, need_guests, write_script};

/// Starts a workload whose memory and threads are apart, stops it, and reads the kernel's tables.
const SCRIPT: &str = "#!/bin/sh
pmuscope workload memory --threads 4 --thread 8M --seconds 100 --init zero $1 &
child=
while [ -z \"$child\" ]; do read child rest </proc/$!/task/$!/children; done
# Until all memory is touched, and somewhat longer: then threads are where they will be.
until read size pages rest </proc/$child/statm && [ $pages -gt 8192 ]; do sleep 0.2; done
sleep 1
kill -STOP $child
pmuscope numa show -p $child --seconds 0.3 -I 100 --json >show.json
cat /proc/$child/maps >maps
cat /proc/$child/numa_maps >numa_maps
cat /proc/$child/task/*/stat >stat
kill -KILL $child $!
";

/// Pages on each node of memory that may be written to, by numa_maps.
fn pages(maps: &str, numa_maps: &str) -> BTreeMap<u32, f64> {
    let writable: Vec<&str> = maps
        .lines()
        .filter(|line| line.split(' ').nth(1).is_some_and(|flags| flags.contains('w')))
        .filter_map(|line| line.split('-').next())
        .collect();
    let mut pages = BTreeMap::new();
    for line in numa_maps.lines() {
        let mut words = line.split(' ');
        let start = words.next().unwrap();
        // One table fills up with zeroes, the other does not.
        if !writable.iter().any(|own| own.trim_start_matches('0') == start.trim_start_matches('0'))
        {
            continue;
        }
        for (node, count) in words.filter_map(|word| word.strip_prefix('N')?.split_once('=')) {
            *pages.entry(node.parse().unwrap()).or_default() += count.parse::<f64>().unwrap();
        }
    }
    pages
}

/// Locality by those tables: threads that stand still count alike, on the CPU that they ran on last.
fn locality(scratch: &Scratch, cpus_per_node: u32) -> f64 {
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap();
    let pages = pages(&read("maps"), &read("numa_maps"));
    let all: f64 = pages.values().sum();
    assert!(all > 8000.0, "{pages:?}");
    let cpu = |line: &str| -> u32 {
        let after_name = line.rsplit_once(')').unwrap().1;
        after_name.split_whitespace().nth(39 - 3).unwrap().parse().unwrap()
    };
    let stat = read("stat");
    let threads: Vec<u32> = stat.lines().map(|line| cpu(line) / cpus_per_node).collect();
    let share = |node: u32| {
        threads.iter().filter(|&&own| own == node).count() as f64 / threads.len() as f64
    };
    pages.iter().map(|(&node, pages)| pages / all * share(node)).sum()
}

fn compare(nodes: &str, cpus: &str, place: &str) -> (f64, f64) {
    let scratch = Scratch::new();
    write_script(&scratch, "look", SCRIPT);
    let files = ["--file", "look", "--file", "/bin/sleep", "--file", "/bin/cat"];
    let machine = ["run", "--nodes", nodes, "--cpus", cpus, "--memory", "1G"];
    let args = machine.iter().chain(&files);
    let command = ["--", "workload", "command", "--", "./look", place];
    lab(&scratch, args.chain(&command)).exits(0);
    let shown = std::fs::read_to_string(scratch.path("show.json")).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let last = shown["looks"].as_array().unwrap().last().unwrap();
    let own = last["locality"]["value"].as_f64().unwrap();
    let process = &last["processes"][0];
    assert!(process["asked"].as_u64().unwrap() < 8192, "not all pages were asked for: {process}");
    (own, locality(&scratch, 4))
}

#[test]
fn locality_is_what_numa_maps_says() {
    skip_unless!(need_guests("x86_64", "6.1"));
    // Three threads on node 0 and one on node 1, and memory the other way round.
    let (own, kernels) = compare("2", "8", "--cpus=0,1,2,4 --memory-nodes=0,1,1,1");
    assert!((own - kernels).abs() <= 0.02, "{own} and {kernels}");
    assert!((kernels - 0.375).abs() < 0.03, "{kernels}");
    let (own, kernels) = compare("4", "16", "--cpus=0,4,8,9 --memory-nodes=0,0,2,3");
    assert!((own - kernels).abs() <= 0.02, "{own} and {kernels}");
    assert!((kernels - 0.25).abs() < 0.03, "{kernels}");
}

#[test]
fn bindings_are_seen_as_what_they_are() {
    skip_unless!(need_guests("x86_64", "6.1"));
    for (nodes, cpus, even) in [("2", "8", 0.5), ("4", "16", 0.25)] {
        let scratch = Scratch::new();
        let machine = ["run", "--nodes", nodes, "--cpus", cpus, "--memory", "1G", "--"];
        let policies = ["--policies", "best,worst,interleave", "-r", "1", "--limit", "3"];
        let bench = ["bench", "numa", "--suite", "guest", "--tests", "2x3-convergence", "--json"];
        let args = machine.iter().chain(&bench).chain(&policies);
        let outcome = lab(&scratch, args);
        outcome.exits(0);
        let file: RunFile = serde_json::from_str(&outcome.stdout).unwrap();
        let locality = |policy: &str| {
            let series = file
                .series
                .iter()
                .find(|series| series.metric == "locality" && series.labels["policy"] == policy);
            series.unwrap().values[0].value.unwrap()
        };
        assert_eq!((locality("best"), locality("worst")), (1.0, 0.0), "{}", outcome.stdout);
        let interleaved = locality("interleave");
        assert!((interleaved - even).abs() <= 0.02, "{interleaved}");
        let speeds = file.series.iter().filter(|series| series.unit == "GB/s");
        assert!(speeds.flat_map(|series| &series.values).all(|value| value.value.is_none()));
    }
}

/// It waits for the program that is to place it.
#[test]
fn work_of_a_tenth_of_a_second_is_measured_under_balance() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let machine = ["run", "-q", "--nodes", "2", "--cpus", "4", "--memory", "512M", "--"];
    let tests = ["bench", "numa", "--suite", "guest", "--tests", "2x3-convergence"];
    let short = ["--seconds", "0.1", "--limit", "0.1", "-I", "50", "-r", "1", "--json=r.json"];
    let run = machine.iter().chain(&tests).chain(&["--policies", "balance"]).chain(&short);
    lab(&scratch, run).exits(0);
    let file: RunFile =
        serde_json::from_str(&std::fs::read_to_string(scratch.path("r.json")).unwrap()).unwrap();
    assert_eq!(file.runs.len(), 1);
    assert!(file.runs.iter().all(|run| run.exit == Some(0)), "{:?}", file.runs);
}
