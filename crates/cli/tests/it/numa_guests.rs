//! Placement in guests with several nodes: what is read equals what the kernel's own tables say, and bindings
//! are seen as what they are.

use std::collections::BTreeMap;

use pmuscope_measure::RunFile;
use serde_json::Value;

use crate::harness::{Scratch, skip_unless};
use crate::lab::{lab, need_guests, write_script};

/// Starts a workload whose memory and threads are apart, stops it, and reads the kernel's tables.
///
/// Small pages only: a huge page at the edge of two threads' memory would lie on the node of one of them.
const SCRIPT: &str = "#!/bin/sh
pmuscope workload memory --threads 4 --thread 8M --seconds 100 --init zero --thp never $1 &
child=
while [ -z \"$child\" ]; do read child rest </proc/$!/task/$!/children; done
# Until all memory is touched, and somewhat longer: then threads are where they will be. Pages of files count apart.
until read size pages shared rest </proc/$child/statm && [ $((pages - shared)) -gt 8192 ]; do sleep 0.2; done
sleep 1
kill -STOP $child
pmuscope numa show -p $child --seconds 0.3 -I 100 --json >show.json
cat /proc/$child/maps >maps
cat /proc/$child/numa_maps >numa_maps
cat /proc/$child/task/*/stat >stat
kill -KILL $child $!
";

/// Pages of one thread's memory.
const AREA: f64 = 2048.0;

/// Pages on each node of memory that may be written to, by numa_maps: of areas with at least so many pages in all.
fn pages(maps: &str, numa_maps: &str, at_least: f64) -> BTreeMap<u32, f64> {
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
        let of_area: Vec<(u32, f64)> = words
            .filter_map(|word| word.strip_prefix('N')?.split_once('='))
            .map(|(node, count)| (node.parse().unwrap(), count.parse().unwrap()))
            .collect();
        if of_area.iter().map(|(_, count)| count).sum::<f64>() < at_least {
            continue;
        }
        for (node, count) in of_area {
            *pages.entry(node).or_default() += count;
        }
    }
    pages
}

/// Locality of those pages: threads that stand still count alike, on the CPU that they ran on last.
fn locality(scratch: &Scratch, pages: &BTreeMap<u32, f64>, cpus_per_node: u32) -> f64 {
    let all: f64 = pages.values().sum();
    assert!(all > 8000.0, "{pages:?}");
    let cpu = |line: &str| -> u32 {
        let after_name = line.rsplit_once(')').unwrap().1;
        after_name.split_whitespace().nth(39 - 3).unwrap().parse().unwrap()
    };
    let stat = read(scratch, "stat");
    let threads: Vec<u32> = stat.lines().map(|line| cpu(line) / cpus_per_node).collect();
    let share = |node: u32| {
        threads.iter().filter(|&&own| own == node).count() as f64 / threads.len() as f64
    };
    pages.iter().map(|(&node, pages)| pages / all * share(node)).sum()
}

/// A small test; its policies and its time are to follow.
const BENCH: &str = "pmuscope bench numa --suite guest --tests 2x3-convergence -r 1";

/// Boots a machine once for all that is asked of it: a workload at `place`, that under fixed bindings, and `more`.
fn ask(nodes: &str, cpus: &str, place: &str, more: &str) -> Scratch {
    let scratch = Scratch::new();
    write_script(&scratch, "look", SCRIPT);
    // A busy host emulates so slowly that a second of the guest can pass without a look at its pages.
    let bindings = "--policies best,worst,interleave --time-limit 3 --json=bench.json";
    let all = format!("#!/bin/sh\nset -e\n./look '{place}'\n{BENCH} {bindings}\n{more}");
    write_script(&scratch, "all", &all);
    let files = ["look", "all", "/bin/sleep", "/bin/cat"].into_iter().flat_map(|it| ["--file", it]);
    let machine = ["run", "--nodes", nodes, "--cpus", cpus, "--memory", "1G"];
    let command = ["--", "workload", "command", "--", "./all"];
    lab(&scratch, machine.into_iter().chain(files).chain(command)).exits(0);
    scratch
}

fn read(scratch: &Scratch, file: &str) -> String {
    std::fs::read_to_string(scratch.path(file)).unwrap()
}

/// What is read of the workload is what the kernel's tables say; what was placed has the `expected` locality.
///
/// Only what was placed: a stack of 2 MiB that happens to be aligned is one huge page, and moves the whole by 0.02.
#[track_caller]
fn locality_is_numa_maps(scratch: &Scratch, expected: f64) {
    let shown: Value = serde_json::from_str(&read(scratch, "show.json")).unwrap();
    let last = shown["looks"].as_array().unwrap().last().unwrap();
    let process = &last["processes"][0];
    assert!(process["asked"].as_u64().unwrap() < 8192, "not all pages were asked for: {process}");
    let (maps, numa_maps) = (read(scratch, "maps"), read(scratch, "numa_maps"));
    let all = pages(&maps, &numa_maps, 0.0);
    let (own, kernels) = (last["locality"]["value"].as_f64().unwrap(), locality(scratch, &all, 4));
    assert!((own - kernels).abs() <= 0.02, "{own} and {kernels}");
    let placed = pages(&maps, &numa_maps, AREA);
    let locality = locality(scratch, &placed, 4);
    assert!((locality - expected).abs() < 0.005, "{locality} of {placed:?}");
}

/// Locality under each binding is what it has to be; `even` where memory is spread over all nodes.
#[track_caller]
fn bindings_are_seen(scratch: &Scratch, even: f64) {
    let text = read(scratch, "bench.json");
    let file: RunFile = serde_json::from_str(&text).unwrap();
    let locality = |policy: &str| {
        let series = file
            .series
            .iter()
            .find(|series| series.metric == "locality" && series.labels["policy"] == policy);
        series.unwrap().values[0].value.unwrap_or_else(|| panic!("{policy}: {text}"))
    };
    assert_eq!((locality("best"), locality("worst")), (1.0, 0.0), "{text}");
    let interleaved = locality("interleave");
    assert!((interleaved - even).abs() <= 0.02, "{interleaved}");
    let speeds = file.series.iter().filter(|series| series.unit == "GB/s");
    assert!(speeds.flat_map(|series| &series.values).all(|value| value.value.is_none()));
}

/// It waits for the program that is to place it.
#[track_caller]
fn a_tenth_of_a_second_is_measured_under_balance(scratch: &Scratch) {
    let file: RunFile = serde_json::from_str(&read(scratch, "short.json")).unwrap();
    assert_eq!(file.runs.len(), 1);
    assert!(file.runs.iter().all(|run| run.exit == Some(0)), "{:?}", file.runs);
}

#[test]
fn on_two_nodes_locality_is_what_numa_maps_says_and_bindings_and_short_work_are_seen() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let short = "--policies balance --seconds 0.1 --limit 0.1 -I 50 --json=short.json";
    let short = format!("{BENCH} {short}\n");
    // Three threads on node 0 and one on node 1, and memory the other way round.
    let scratch = ask("2", "8", "--cpus=0,1,2,4 --memory-nodes=0,1,1,1", &short);
    locality_is_numa_maps(&scratch, 0.375);
    bindings_are_seen(&scratch, 0.5);
    a_tenth_of_a_second_is_measured_under_balance(&scratch);
}

#[test]
fn on_four_nodes_locality_is_what_numa_maps_says_and_bindings_are_seen() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = ask("4", "16", "--cpus=0,4,8,9 --memory-nodes=0,0,2,3", "");
    locality_is_numa_maps(&scratch, 0.25);
    bindings_are_seen(&scratch, 0.25);
}
