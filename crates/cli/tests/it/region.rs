//! Regions of a program: what they cost, and that counters read in user space are those of `read(2)`.

use std::fs;

use serde_json::Value;

use crate::guest_script::{need_script, run_script};
use crate::harness::{Scratch, skip_unless};
use crate::json::is_documented;
use crate::lab::lab;
use crate::strobe::{need_pmu_guest, pmu_guest};

#[test]
fn the_benchmark_has_a_row_for_each_way_and_says_what_did_not_run() {
    let scratch = Scratch::new();
    let flags = ["--entries", "300", "-r", "3", "-e", "task-clock", "--json=r.json"];
    let outcome = scratch.pmuscope([&["bench", "region"], &flags[..]].concat());
    outcome
        .exits(0)
        .prints("that counts task-clock\n")
        .prints("task-clock is counted by the kernel");
    let file: Value = serde_json::from_slice(&fs::read(scratch.path("r.json")).unwrap()).unwrap();
    let runs = file["runs"].as_array().unwrap();
    let mut arms: Vec<&str> =
        runs.iter().map(|run| run["labels"]["arm"].as_str().unwrap()).collect();
    arms.sort_unstable();
    arms.dedup();
    // The kernel's own events are read by system calls only.
    assert_eq!(arms, ["nested", "nothing", "read", "region-read"]);
    assert_eq!(runs.len(), 3 * arms.len());
    assert!(runs.iter().all(|run| run["units"]["entry"] == 300.0));
    for series in file["series"].as_array().unwrap() {
        assert_eq!((&series["metric"], &series["unit"]), (&"time".into(), &"s".into()));
    }
    scratch.pmuscope(["compare", "r.json", "r.json"]).exits(0).prints("region-read");
    scratch.pmuscope(["bench", "region", "-e", "no_such"]).exits(2).complains("no_such");
    scratch.pmuscope(["bench", "region", "-r", "0"]).exits(2).complains("from 1");
}

#[test]
fn a_loop_in_regions_is_reported_by_round() {
    let scratch = Scratch::new();
    let flags = ["--count", "task-clock,page-faults", "--rounds", "100000", "--regions", "20"];
    let count = [&["workload", "exact-loop"], &flags[..]].concat();
    scratch.pmuscope(&count).exits(0).prints("/round (95% CI)").prints("loop").prints("read(2)");
    let json = scratch.pmuscope([&count[..], &["--json"]].concat());
    is_documented("region", &json.exits(0).stdout);
    let wrong = scratch.pmuscope(["workload", "exact-loop", "--count", "tusk-clock"]);
    wrong.exits(2).complains("tusk-clock");
    let many = ["workload", "exact-loop", "--count", "task-clock", "--regions", "0"];
    scratch.pmuscope(many).exits(2).complains("--regions");
    let threads = scratch.pmuscope([&count[..], &["--threads", "3", "--json"]].concat());
    let report: Value = serde_json::from_str(&threads.exits(0).stdout).unwrap();
    assert_eq!((&report["threads"], &report["regions"][0]["entries"]), (&3.into(), &60.into()));
}

/// The known loop in regions, its instructions counted.
fn counted_loop() -> String {
    format!(
        "pmuscope workload exact-loop --count instructions:u,cycles:u --rounds {ROUNDS} --regions {REGIONS}"
    )
}

const ROUNDS: u64 = 4_000_000;
const REGIONS: u64 = 400;

/// Instructions of a region, without what reading the counters adds, by the calibration.
fn instructions(report: &Value) -> f64 {
    let region = &report["regions"][0];
    let entries = report["threads"].as_u64().unwrap() * REGIONS;
    assert_eq!((&region["entries"], &region["partly"]), (&entries.into(), &0.into()), "{report}");
    assert_eq!(region["measured"], 1.0, "{report}");
    let row = &region["rows"][0];
    assert_eq!((&row["event"], &row["origin"]), (&"instructions:u".into(), &"emulated".into()));
    row["per_entry"]["value"].as_f64().unwrap() - row["own"].as_f64().unwrap()
}

/// Emulated: the guest's kernel has the real driver, its PMU is QEMU's.
#[test]
fn counters_read_in_user_space_are_those_of_read_also_of_threads_that_take_turns() {
    skip_unless!(need_pmu_guest());
    skip_unless!(need_script());
    let scratch = Scratch::new();
    let count = counted_loop();
    let access = |access: u8| format!("write /proc/sys/kernel/perf_user_access {access}\n");
    let script = format!(
        "{}{count} --json=user.json\n{count} --system-calls --json=by_call.json\n\
         {count} --threads 4 --json=threads.json\n{}{count} --json=off.json\n",
        access(1),
        access(0)
    );
    let outcome = run_script(&scratch, &script);
    outcome.exits(0);
    let [user, by_call, threads, off] =
        ["user", "by_call", "threads", "off"].map(|name| -> Value {
            let text = fs::read_to_string(scratch.path(&format!("{name}.json")));
            let text = text.unwrap_or_else(|error| panic!("{name}: {error}\n{outcome}"));
            serde_json::from_str(&text).unwrap()
        });
    let looks = |report: &Value| {
        let how = &report["how"];
        (how["in_user_space"].as_u64().unwrap(), how["by_call"].as_u64().unwrap())
    };
    assert_eq!(looks(&user), (2 * REGIONS, 0), "{user}");
    assert_eq!(looks(&by_call), (0, 2 * REGIONS), "{by_call}");
    assert_eq!(looks(&off), (0, 2 * REGIONS), "{off}");
    assert!(off["how"]["why"].as_str().unwrap().contains("perf_user_access=1"), "{off}");
    let expected = (2 * ROUNDS / REGIONS) as f64;
    for report in [&user, &by_call, &off] {
        // The loop stands between a handful of instructions.
        assert!((instructions(report) - expected).abs() < 20.0, "{report}");
    }
    // What reading adds is said.
    let own = |report: &Value| report["regions"][0]["rows"][0]["own"].as_f64().unwrap();
    assert!(own(&user) > 0.0 && own(&by_call) > 0.0, "{user} {by_call}");
    // They share the CPU, each with counters of its own: what the others do is in no count. An interrupt ends or
    // begins within user code now and then.
    assert_eq!(threads["threads"], 4);
    assert!((instructions(&threads) - expected).abs() < 20.0, "{threads}");
}

/// Counters go with a thread to other CPUs. Emulated CPUs take turns, and the PMU of one counts while the
/// other has its turn: what is counted is too much by some per cent, not by another CPU's counter.
#[test]
fn a_thread_that_moves_in_the_middle_of_a_region_takes_its_counts_along() {
    skip_unless!(need_pmu_guest());
    let access = ["--set", "kernel.perf_user_access=1", "--"].map(String::from);
    let count = counted_loop() + " --move --json";
    let count = count.split(' ').skip(1).map(String::from);
    let outcome = lab(&Scratch::new(), pmu_guest(2).into_iter().chain(access).chain(count));
    let report: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    assert!(report["how"]["in_user_space"].as_u64().unwrap() > REGIONS, "{report}");
    let ratio = instructions(&report) / (2 * ROUNDS / REGIONS) as f64;
    assert!((0.95..1.1).contains(&ratio), "{ratio} {report}");
}
