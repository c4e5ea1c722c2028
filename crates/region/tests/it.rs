//! Regions of this very process, over the real kernel.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

use std::thread;
use std::time::Duration;

use pmuscope_region::{
    CounterSet, Options, Region, RegionError, Unit, is_available, measure, report, setup,
    switch_off,
};

#[path = "../examples/sort.rs"]
mod sort;

/// Lets the thread wait: a context switch at least.
fn wait() {
    thread::sleep(Duration::from_micros(200));
}

fn total(set: &CounterSet, region: &str, event: &str) -> f64 {
    set.report(&[]).region(region).unwrap().row(event).unwrap().total.unwrap()
}

#[test]
fn the_example_tells_what_a_number_costs() {
    let report = sort::run(&["task-clock", "page-faults", "cycles:u"]).unwrap();
    let [block, fill, sort] = ["block", "fill", "sort"].map(|name| report.region(name).unwrap());
    for region in [block, fill, sort] {
        assert_eq!((region.entries, region.partly, region.unmeasured), (200, 0, 0), "{region:?}");
        assert_eq!(region.units[0].amount, Some(400_000.0));
        assert_eq!(region.measured, Some(1.0));
    }
    assert_eq!((block.inner, fill.inner), (400, 0));
    let per_number = |region: &pmuscope_region::RegionReport| {
        let row = region.row("task-clock").unwrap();
        assert_eq!((row.unit.as_str(), row.origin), ("ns", "software"));
        let [Some(per)] = row.per_unit[..] else { panic!("{row:?}") };
        assert_eq!(per.n, 200);
        // On a busy machine the time that others took looks like phases, too few of them for an interval.
        assert!(per.value > 0.0 && per.half.is_none_or(|half| half > 0.0), "{row:?}");
        per.value
    };
    // What is around holds what is within.
    assert!(per_number(block) > per_number(fill) + per_number(sort));
    let text = report.to_string();
    assert!(text.contains("3 regions in 1 thread, 600 entries"), "{text}");
    assert!(text.contains("per entry (empty region)"), "{text}");
    match is_available() {
        Ok(()) => assert!(sort.row("cycles:u").is_some()),
        Err(why) => {
            assert!(!why.to_string().is_empty());
            assert_eq!(report.refused[0].event, "cycles:u");
            assert!(text.contains("\ncycles:u is not counted: "), "{text}");
        }
    }
}

#[test]
fn each_thread_counts_for_itself() {
    let set = setup(&["context-switches"]).unwrap();
    let (wake, idle) = (set.region("waits"), set.region("idles"));
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..5 {
                    let mut entry = wake.enter();
                    wait();
                    wait();
                    entry.did(2.0);
                }
            });
        }
        let _entry = idle.enter();
    });
    let report = set.report(&[Unit::done("wait"), Unit::total("batch", 5.0)]);
    assert_eq!(report.threads, 4);
    let waits = report.region("waits").unwrap();
    assert_eq!(waits.entries, 15);
    let row = waits.row("context-switches").unwrap();
    // A busy machine switches more often.
    assert!(row.total.unwrap() >= 30.0, "{row:?}");
    let [Some(per_wait), Some(per_batch)] = row.per_unit[..] else { panic!("{row:?}") };
    assert!(per_wait.value >= 1.0);
    assert!((per_batch.value - row.total.unwrap() / 5.0).abs() < 1e-9);
    assert_eq!(report.region("idles").unwrap().entries, 1);
}

#[test]
fn a_region_within_itself_counts_once() {
    let set = setup(&["context-switches"]).unwrap();
    let region = set.region("recursive");
    let outer = region.enter();
    let inner = region.enter();
    wait();
    drop(inner);
    wait();
    drop(outer);
    let report = set.report(&[]);
    let region = report.region("recursive").unwrap();
    assert_eq!((region.entries, region.inner), (1, 1));
    assert!(total(&set, "recursive", "context-switches") >= 2.0);
}

fn levels(region: &Region, left: u32) {
    let mut entry = region.enter();
    entry.did(1.0);
    if left > 1 {
        levels(region, left - 1);
    }
    wait();
}

#[test]
fn units_of_entries_within_an_entry_are_its_own() {
    let set = setup(&["context-switches"]).unwrap();
    let region = set.region("recursive");
    (0..3).for_each(|_| levels(&region, 4));
    let report = set.report(&[Unit::done("level")]);
    let region = report.region("recursive").unwrap();
    assert_eq!((region.entries, region.units[0].amount), (3, Some(12.0)), "{region:?}");
}

/// None of them is alone at any time, and all are one.
#[test]
fn entries_that_overlap_are_one_until_the_last_ends() {
    let set = setup(&["context-switches"]).unwrap();
    let region = set.region("chain");
    let mut latest = region.enter();
    for _ in 0..4 {
        let next = region.enter();
        wait();
        latest = next;
    }
    wait();
    drop(latest);
    drop(region.enter());
    let report = set.report(&[]);
    let chain = report.region("chain").unwrap();
    assert_eq!((chain.entries, chain.unmeasured, chain.inner), (2, 0, 4), "{chain:?}");
    assert!(total(&set, "chain", "context-switches") >= 5.0);
}

/// What an entry did that was not counted is in the amount, and so must it be in the entries.
#[test]
fn a_total_is_of_all_entries() {
    let (set, other) = (setup(&["context-switches"]).unwrap(), setup(&["page-faults"]).unwrap());
    let region = set.region("packets");
    other.switch_to().unwrap();
    (0..5).for_each(|_| drop(region.enter()));
    set.switch_to().unwrap();
    for _ in 0..5 {
        let _entry = region.enter();
        wait();
    }
    let report = set.report(&[Unit::total("packet", 10.0)]);
    let packets = report.region("packets").unwrap();
    assert_eq!((packets.entries, packets.unmeasured), (5, 5), "{packets:?}");
    let row = packets.row("context-switches").unwrap();
    let [per_packet, per_entry] =
        [row.per_unit[0], row.per_entry].map(|figure| figure.unwrap().value);
    assert!((per_packet - per_entry).abs() < 1e-9, "{row:?}");
}

/// Where there is no PMU, a name of the CPU's is none of its list's neighbors' concern.
#[test]
fn one_event_that_is_not_here_does_not_take_its_list_with_it() {
    let set = setup(&["context-switches,cycles:u"]).unwrap();
    drop(set.region("any").enter());
    let report = set.report(&[]);
    let refused = report.refused.iter().map(|refused| refused.event.as_str());
    let counted = report.regions[0].rows.iter().map(|row| row.event.as_str());
    let mut names: Vec<&str> = refused.chain(counted).collect();
    names.sort_unstable();
    assert_eq!(names, ["context-switches", "cycles:u"], "{report:?}");
}

#[test]
fn entries_may_end_in_any_order() {
    let set = setup(&["context-switches"]).unwrap();
    let (a, b) = (set.region("a"), set.region("b"));
    let (first, second) = (a.enter(), b.enter());
    wait();
    drop(first);
    wait();
    drop(second);
    assert!(total(&set, "a", "context-switches") >= 1.0);
    assert!(total(&set, "b", "context-switches") >= 2.0);
    set.switch_to().unwrap();
}

#[test]
fn sets_take_turns_when_they_are_told_to() {
    let faults = setup(&["page-faults"]).unwrap();
    let switches = setup(&["context-switches"]).unwrap();
    let (of_faults, of_switches) = (faults.region("work"), switches.region("work"));
    // The one that was set up last counts.
    assert_eq!(report(&[]).unwrap().regions[0].rows[0].event, "context-switches");
    drop(of_faults.enter());
    let missing = faults.report(&[]);
    let work = missing.region("work").unwrap();
    assert_eq!((work.entries, work.unmeasured, work.measured), (0, 1, Some(0.0)));
    assert!(missing.troubles[0].contains("switch_to"), "{missing:?}");
    assert!(missing.to_string().contains("1 not at all"), "{missing}");

    let open = of_switches.enter();
    let refused = faults.switch_to().unwrap_err();
    assert!(matches!(refused, RegionError::RegionOpen(1)), "{refused}");
    assert!(matches!(switch_off(), Err(RegionError::RegionOpen(1))));
    switches.switch_to().expect("it counts already");
    drop(open);

    faults.switch_to().unwrap();
    drop(of_faults.enter());
    assert_eq!(faults.report(&[]).region("work").unwrap().entries, 1);
    // Its counters stood still meanwhile.
    wait();
    switches.switch_to().unwrap();
    let entry = of_switches.enter();
    wait();
    drop(entry);
    let entries = switches.report(&[]).region("work").unwrap().entries;
    assert_eq!(entries, 2);
    switch_off().unwrap();
    assert!(matches!(report(&[]), Err(RegionError::NoSet)));
}

#[test]
fn one_function_is_measured_at_once() {
    let (answer, report) =
        measure(|| (0..1000).map(wait_for).sum::<u64>(), &["task-clock"]).unwrap();
    assert_eq!(answer, 999 * 500);
    let row = report.region("measure").unwrap().row("task-clock").unwrap();
    assert!(row.total.unwrap() > 0.0);
    let once = row.per_entry.unwrap();
    assert_eq!((once.n, once.half), (1, None), "one entry has no interval");
}

fn wait_for(i: u64) -> u64 {
    std::hint::black_box(i)
}

#[test]
fn what_cannot_be_counted_is_an_error_that_says_why() {
    let error = |events: &[&str]| setup(events).unwrap_err().to_string();
    assert!(error(&[]).contains("no event"), "{}", error(&[]));
    assert!(error(&["tusk-clock"]).contains("tusk-clock"), "{}", error(&["tusk-clock"]));
    let many = ["task-clock"; 17];
    assert!(error(&many).contains("at most 16"), "{}", error(&many));
    if is_available().is_err() {
        let text = error(&["cycles:u", "instructions:u"]);
        assert!(text.starts_with("none of the events can be counted: cycles:u: "), "{text}");
    }
}

#[test]
fn empty_regions_are_what_the_calibration_says() {
    let set =
        CounterSet::new(&["task-clock", "page-faults"], Options { user_reads: false }).unwrap();
    let before = set.report(&[]);
    assert!(before.regions.is_empty(), "nothing of the calibration is left: {before:?}");
    let overhead = before.overhead.unwrap();
    let time = overhead.seconds.unwrap();
    assert_eq!(time.n, 31);
    assert!(time.value > 0.0 && time.half.is_some());
    let inside: Vec<f64> = overhead.inside.iter().map(|count| count.unwrap()).collect();
    let around: Vec<f64> = overhead.around.iter().map(|count| count.unwrap()).collect();
    // Faults are none; the clock goes on, and around an entry longer than within.
    assert!(around[0] >= inside[0] && inside[0] > 0.0, "{inside:?} {around:?}");
    assert!(inside[1] == 0.0 && around[1] == 0.0, "{inside:?} {around:?}");
    let region = set.region("empty");
    drop(region.enter());
    let report = set.report(&[]);
    assert_eq!(report.how.by_call, 2);
    assert_eq!(report.how.why.as_deref(), Some("requested"));
    let own = report.region("empty").unwrap().row("task-clock").unwrap().own.unwrap();
    assert!((own - inside[0]).abs() < 1e-9);
}

#[test]
fn programs_can_read_the_report() {
    let set = setup(&["task-clock"]).unwrap();
    drop(set.region("a").enter());
    let json: serde_json::Value =
        serde_json::from_str(&set.report(&[Unit::total("row", 10.0)]).to_json()).unwrap();
    assert_eq!(json["schema"], "pmuscope/region/1");
    let region = &json["regions"][0];
    assert_eq!((&region["name"], &region["entries"]), (&"a".into(), &1.into()));
    assert_eq!(region["units"][0]["name"], "row");
    let row = &region["rows"][0];
    assert!(row["total"].as_f64().unwrap() > 0.0);
    assert!(row["per_entry"]["half"].is_null(), "one entry");
    assert_eq!(row["per_unit"][0]["n"], 1);
}
