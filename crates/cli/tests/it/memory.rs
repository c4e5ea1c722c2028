//! `workload memory` as its users and those who watch it see it.

use std::time::Duration;

use pmuscope_workloads::WorkloadFacts;
use pmuscope_workloads::memory::control::{AreaKind, Control, State};

use crate::harness::{Scratch, skip_unless, wait_for};
use crate::lab::{lab, need_guests, write_script};

#[test]
fn processes_and_threads_tell_what_they_did() {
    let scratch = Scratch::new();
    let memory =
        ["--global", "1M", "--process", "2M", "--process-locked", "64K", "--thread", "512K"];
    let how = ["--processes", "2", "--threads", "2", "--rounds", "3", "--access", "both"];
    let args = [&["workload", "memory", "--json"], &memory[..], &how].concat();
    let outcome = scratch.pmuscope(args);
    outcome.exits(0);
    let facts: WorkloadFacts = serde_json::from_str(&outcome.stdout).unwrap();
    let memory = facts.memory.unwrap();
    let per_round = (1 << 20) + (2 << 20) + (512 << 10);
    assert_eq!((facts.threads, memory.rounds, memory.bytes), (Some(4), 12, 4 * 3 * 2 * per_round));
    assert_eq!((memory.by_process.len(), memory.by_thread.len()), (2, 4));
    let pids: Vec<u32> = memory.by_process.iter().map(|process| process.pid).collect();
    assert_ne!(pids[0], pids[1]);
    for thread in &memory.by_thread {
        assert_eq!((thread.rounds, thread.bytes), (3, 3 * 2 * per_round));
        assert!(thread.end_ns > thread.start_ns && thread.cpu.is_some());
        assert_eq!(thread.gb_per_s.is_some(), !memory.emulated);
    }
    assert_eq!(
        (memory.spread.is_some(), memory.gb_per_s.is_some()),
        (!memory.emulated, !memory.emulated)
    );
}

#[test]
fn text_has_speed_and_latency() {
    let scratch = Scratch::new();
    let args =
        ["workload", "memory", "--thread", "1M", "--rounds", "2", "--order", "chase", "--latency"];
    let outcome = scratch.pmuscope(args);
    outcome.exits(0).prints("Access = read, chase\n").prints("\nns per load = ").prints(" p99.9, ");
    outcome.prints("Memory = 1024 KiB per thread; policy default\nRounds = 2\nBytes = 2097152\n");
}

#[test]
fn it_is_watched_by_its_control_file_and_stopped() {
    let scratch = Scratch::new();
    let path = scratch.path("control");
    let memory = ["--process", "1M", "--thread", "1M", "--threads", "2"];
    let how = ["--seconds", "1000", "--control", path.to_str().unwrap()];
    let started = scratch.start([&["workload", "memory"], &memory[..], &how].concat());
    let control = loop {
        match Control::open(&path) {
            Ok(control) if control.state().unwrap() == State::Running => break control,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let bytes = || -> u64 { control.threads().unwrap().iter().map(|thread| thread.bytes).sum() };
    let before = bytes();
    while bytes() == before {
        std::thread::yield_now();
    }
    let kinds: Vec<AreaKind> = control.areas().unwrap().iter().map(|area| area.kind).collect();
    assert_eq!(kinds, [AreaKind::Process, AreaKind::Thread, AreaKind::Thread]);
    let pid = control.threads().unwrap()[0].pid;
    assert!(control.areas().unwrap().iter().all(|area| area.pid == pid));
    // One in use is nobody else's.
    let again = [
        "workload",
        "memory",
        "--thread",
        "1M",
        "--rounds",
        "1",
        "--control",
        path.to_str().unwrap(),
    ];
    scratch.pmuscope(again).exits(2).complains("is in use");
    Control::stop(&path).unwrap();
    started.ends().exits(0).prints("\nGB/s total = ");
    assert_eq!(control.state().unwrap(), State::Ended);
    scratch.pmuscope(again).exits(0);
}

#[test]
fn a_process_that_dies_ends_the_others_and_is_named() {
    let scratch = Scratch::new();
    let path = scratch.path("control");
    let flags = ["--processes", "3", "--thread", "1M", "--seconds", "1000", "--control"];
    let args = [&["workload", "memory"], &flags[..], &[path.to_str().unwrap()]].concat();
    let started = scratch.start(args);
    let threads = loop {
        match Control::open(&path) {
            Ok(control) if control.state().unwrap() == State::Running => {
                break control.threads().unwrap();
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let victim = rustix::process::Pid::from_raw(threads[1].pid as i32).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    let outcome = started.ends();
    outcome.exits(3).complains(&format!("process 1 of 3 (PID {})", threads[1].pid));
    outcome.complains("signal: 9");
    for thread in threads {
        assert!(!std::path::Path::new(&format!("/proc/{}", thread.pid)).exists());
    }
    assert_eq!(Control::open(&path).unwrap().state().unwrap(), State::Failed);
}

#[test]
fn processes_end_with_the_one_that_started_them_and_their_file_is_free() {
    let scratch = Scratch::new();
    let path = scratch.path("control");
    let flags = ["--processes", "2", "--thread", "1M", "--seconds", "1000", "--control", "control"];
    let started = scratch.start([&["workload", "memory"], &flags[..]].concat());
    let threads = loop {
        match Control::open(&path) {
            Ok(control) if control.state().unwrap() == State::Running => {
                break control.threads().unwrap();
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    started.signal(rustix::process::Signal::KILL);
    started.ends();
    // One that nobody waits for has no memory any more.
    let maps = |pid: u32| std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    wait_for("orphans to end", || threads.iter().all(|one| maps(one.pid).is_empty()));
    let again = ["workload", "memory", "--thread", "1M", "--rounds", "1", "--control", "control"];
    scratch.pmuscope(again).exits(0);
}

#[test]
fn what_cannot_be_is_told_with_what_can() {
    let scratch = Scratch::new();
    let refused = |flags: &[&str], part: &str| {
        scratch.pmuscope([&["workload", "memory"], flags].concat()).exits(2).complains(part);
    };
    refused(&[], "such as --thread 256M");
    refused(&["--thread", "0"], "Try: a number with B, K, M or G");
    refused(&["--thread", "1000G", "--threads", "1000"], "Try: --thread ");
    refused(&["--thread", "1M", "--cpus", "0,9999"], "--cpus names 2 tasks, but there are 1");
    refused(&["--thread", "1M", "--cpus", "9999"], "CPUs 9999 are not online");
    refused(&["--thread", "1M", "--policy", "bind:77"], "nodes 77 are not online");
    refused(&["--thread", "1M", "--policy", "bind"], "interleave:0-3");
    refused(&["--process", "1M", "--process-locked", "2M"], "use at most its 1048576 bytes");
    std::fs::write(scratch.path("other"), "my thesis").unwrap();
    refused(&["--thread", "1M", "--control", "other"], "is not a control file");
    assert_eq!(std::fs::read(scratch.path("other")).unwrap(), b"my thesis");
}

#[test]
fn the_benchmark_has_a_cell_for_each_pair_of_nodes_and_latency_by_load() {
    let scratch = Scratch::new();
    let flags = ["--size", "8M", "--seconds", "0.02", "-r", "2", "--pauses", "20000,0"];
    let outcome = scratch.pmuscope([&["bench", "memory", "--json=m.json"], &flags[..]].concat());
    if outcome.stderr.contains("would be the emulator's") {
        outcome.exits(3);
        return eprintln!("skipped: {}", outcome.stderr);
    }
    outcome.exits(0).prints("\nread, GB/s\n").prints("\nwrite, GB/s\n").prints("\ncopy, GB/s\n");
    outcome.prints("\ndependent loads, one thread, ns/load\n");
    let text = std::fs::read(scratch.path("m.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let numbers = |what: &str, metric: &str| -> Vec<f64> {
        let is =
            |one: &&serde_json::Value| one["labels"]["what"] == what && one["metric"] == metric;
        let series = file["series"].as_array().unwrap().iter().filter(is);
        let values = series.flat_map(|one| one["values"].as_array().unwrap());
        values.map(|value| value["value"].as_f64().unwrap()).collect()
    };
    let nodes = numbers("read", "bandwidth").len() / 2;
    assert!(nodes >= 1);
    for what in ["read", "write", "copy"] {
        let found = numbers(what, "bandwidth");
        assert!(found.len() == 2 * nodes && found.iter().all(|&speed| speed > 0.0), "{found:?}");
    }
    assert_eq!(numbers("latency", "load").len(), 2 * nodes);
    let loaded = numbers("loaded", "load");
    if std::thread::available_parallelism().unwrap().get() == 1 {
        assert!(loaded.is_empty());
        outcome.prints("latency under load is not measured");
    } else {
        assert!(loaded.len() == 4 && loaded.iter().all(|&ns| ns > 0.0), "{loaded:?}");
        outcome.prints("others, GB/s");
    }
    scratch.pmuscope(["compare", "m.json", "m.json"]).exits(0).prints("bandwidth");
}

#[test]
fn the_benchmark_refuses_what_has_no_sense() {
    let scratch = Scratch::new();
    let refused = |flags: &[&str], part: &str| {
        scratch.pmuscope([&["bench", "memory"], flags].concat()).exits(2).complains(part);
    };
    refused(&["-r", "0"], "-r and --threads from 1");
    refused(&["--size", "x"], "Try: a number with B, K, M or G");
    refused(&["--access", "chew"], "possible values: read, write");
    refused(&["--size", "900000G", "-r", "1"], "Try: --thread ");
    refused(&["--seconds", "0", "-r", "1"], "--seconds above 0");
}

/// Each in turn until all is touched, by the kernel's own list of pages; there is nothing but the shell.
const IN_GUEST: &str = r#"#!/bin/sh
p=/proc/1/exe
memory="$p workload memory --threads 2 --thread 16M --thp never"
look() {
    total=0
    for maps in /proc/[0-9]*/numa_maps; do
        while read -r line; do
            case $line in *\ anon=*) ;; *) continue ;; esac
            anon=${line#* anon=}
            anon=${anon%% *}
            [ $anon -ge 4096 ] || continue
            echo "$line"
            total=$((total + anon))
        done < $maps
    done
}
run() {
    name=$1
    shift
    $memory --init zero --seconds 1000 "$@" &
    total=0
    while [ $total -lt 8192 ]; do
        look > $name.maps
    done
    kill $!
    wait $!
    # The workers end after the one that started them, and would be taken for the next ones.
    while [ $total -gt 0 ]; do look >gone.maps; done
}
run bound --policy bind:1
run turns --policy interleave:0-1
run each --memory-nodes 0,1
run first --first-touch node0 --cpus 3,2
$memory --first-touch node0 --cpus 3,2 --rounds 1 --json=once.json
$memory --policy weighted-interleave:0-1 2> weighted
echo "weighted $?"
$memory --order chase --latency --rounds 1
$p bench memory 2> bench
echo "bench $?"
"#;

/// Pages on nodes 0 and 1 of mappings as large as the memory of a thread.
fn pages(maps: &str) -> [u64; 2] {
    let mut sum = [0, 0];
    for line in maps.lines() {
        let number = |key: &str| -> u64 {
            let word = line.split(' ').find_map(|word| word.strip_prefix(key));
            word.map_or(0, |number| number.parse().unwrap())
        };
        if number("anon=") >= 4096 {
            sum = [sum[0] + number("N0="), sum[1] + number("N1=")];
        }
    }
    sum
}

#[test]
fn memory_lies_where_it_was_asked_to_and_an_emulator_has_no_speed() {
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    write_script(&scratch, "all", IN_GUEST);
    let machine = ["run", "--nodes", "2", "--cpus", "4", "--memory", "1G"];
    let settings = ["--set", "kernel.numa_balancing=0", "--file", "all"];
    let command = ["--", "workload", "command", "--", "./all"];
    let outcome = lab(&scratch, machine.iter().chain(&settings).chain(&command));
    outcome.exits(0);
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap();
    // Two threads with 4,096 pages each.
    assert_eq!(pages(&read("bound.maps")), [0, 8192]);
    let turns = pages(&read("turns.maps"));
    assert!(turns[0] + turns[1] == 8192 && turns[0].abs_diff(turns[1]) <= 8, "{turns:?}");
    assert_eq!(pages(&read("each.maps")), [4096, 4096]);
    assert_eq!(pages(&read("first.maps")), [8192, 0]);
    let first: WorkloadFacts = serde_json::from_str(&read("once.json")).unwrap();
    let cpus: Vec<Option<u32>> = first.memory.unwrap().by_thread.iter().map(|t| t.cpu).collect();
    assert_eq!(cpus, [Some(3), Some(2)]);
    outcome.prints("weighted 3\n");
    assert!(read("weighted").contains("(needs Linux 6.9 or later)"), "{}", read("weighted"));
    if outcome.stderr.contains("emulated") {
        let once: WorkloadFacts = serde_json::from_str(&read("once.json")).unwrap();
        let once = once.memory.unwrap();
        assert!(once.emulated && once.gb_per_s.is_none() && once.spread.is_none());
        assert_eq!(once.bytes, 32 << 20);
        outcome.prints("GB/s total = - (emulated)\n").prints("ns per load = - (emulated)\n");
        outcome.prints("bench 3\n");
        assert!(read("bench").contains("would be the emulator's"), "{}", read("bench"));
    }
}
