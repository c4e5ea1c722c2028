//! `list` and `events import`, on the machine that the tests run on.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Scratch, need_root, skip_unless};
use crate::json::is_documented;
use crate::strobe::{in_guest, need_pmu_guest};

/// Whether the kernel shows a unit.
fn has_unit(name: &str) -> bool {
    Path::new("/sys/bus/event_source/devices").join(name).exists()
}

/// As `perf list -j` prints events: one of a unit that virtual machines have too, one of none.
const LIST: &str = r#"[
  {"Unit": "msr", "EventName": "test.Ticks", "BriefDescription": "Ticks of the clock",
   "Encoding": "msr/event=0x0/"},
  {"Unit": "uncore_nowhere", "EventName": "test.nowhere", "Encoding": "uncore_nowhere/event=0x1/"}
]"#;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_generic_event_is_there_with_a_reason_where_it_cannot_be_counted() {
    let outcome = Scratch::new().pmuscope(["list", "--json", "^(cycles|page-faults|LLC-loads)$"]);
    outcome.exits(0);
    is_documented("list", &outcome.stdout);
    let value = parsed(&outcome.stdout);
    let events = value["events"].as_array().unwrap();
    let names: Vec<&str> = events.iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cycles", "page-faults", "LLC-loads"]);
    for event in events {
        let counted = event["countable"].as_bool().unwrap();
        assert!(counted || !event["why"].as_str().unwrap().is_empty(), "{event}");
    }
    if !["cpu", "cpu_core", "armv8_pmuv3_0", "armv8_pmuv3"].into_iter().any(has_unit) {
        let why = events[0]["why"].as_str().unwrap();
        assert!(why.contains("needs a hardware PMU"), "{why}");
    }
}

#[test]
fn names_match_in_any_case_and_tables_have_their_kinds() {
    let outcome = Scratch::new().pmuscope(["list", "PAGE-F|rNNN"]);
    outcome.exits(0);
    for part in ["Software events", "page-faults, faults", "type=1,config=0x2", "Events without"] {
        assert!(outcome.stdout.contains(part), "{part} is missing\n{outcome}");
    }
    assert!(!outcome.stdout.contains("context-switches"), "{outcome}");
    let details = Scratch::new().pmuscope(["list", "--details", "page-faults"]);
    details.exits(0);
    assert!(details.stdout.contains("encoding  type=1,config=0x2"), "{details}");
}

#[test]
fn what_matches_nothing_or_is_no_expression_says_so() {
    let nothing = Scratch::new().pmuscope(["list", "^no-such-event$"]);
    nothing.exits(1).complains("no event matches '^no-such-event$'").complains("events import");
    let wrong = Scratch::new().pmuscope(["list", "l2("]);
    wrong.exits(2).prints_nothing().complains("'l2(' is not a regular expression: unclosed group");
    let nowhere = Scratch::new().pmuscope(["list", "--events", "nowhere"]);
    nowhere.exits(2).prints_nothing().complains("event lists: nowhere: No such file");
}

#[test]
fn names_of_imported_lists_are_events() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("mine.json"), LIST).unwrap();
    let import = scratch.pmuscope(["events", "import", "--to", "lists", "mine.json"]);
    import.exits(0);
    assert!(import.stdout.contains("2 events in 1 file"), "{import}");
    let listed = scratch.pmuscope(["list", "--events", "lists", "--json", "^TEST"]);
    listed.exits(0);
    is_documented("list", &listed.stdout);
    let value = parsed(&listed.stdout);
    assert_eq!(value["lists"]["events"], 2);
    let nowhere = &value["events"][0];
    assert_eq!((&nowhere["name"], &nowhere["countable"]), (&"test.nowhere".into(), &false.into()));
    assert!(nowhere["why"].as_str().unwrap().contains("which this machine lacks"), "{nowhere}");
    if !has_unit("msr") {
        return eprintln!("skipped: no unit msr for the rest");
    }
    let ticks = &value["events"][1];
    assert_eq!((&ticks["name"], &ticks["pmus"][0]), (&"test.Ticks".into(), &"msr".into()));
    skip_unless!(need_root());
    assert_eq!(ticks["countable"], true, "{ticks}");
}

#[test]
fn import_refuses_what_is_no_list() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("odd.json"), "{\"a\": 1}").unwrap();
    let refused = scratch.pmuscope(["events", "import", "--to", "lists", "odd.json"]);
    refused
        .exits(2)
        .prints_nothing()
        .complains("odd.json: it contains no events")
        .complains("perf list -j");
    assert!(!scratch.path("lists").exists(), "{refused}");
}

#[test]
fn events_of_a_pmu_are_there_with_their_encodings_and_what_it_lacks_with_the_reason() {
    skip_unless!(need_pmu_guest());
    let scratch = Scratch::new();
    let list = ["list", "--json", "^(armv8|cycles$|instructions$|LLC-loads$|dTLB)"];
    let outcome = in_guest(&scratch, 1, &list);
    outcome.exits(0);
    let value = parsed(&outcome.stdout);
    let events = value["events"].as_array().unwrap();
    let named = |name: &str| {
        let is = |event: &&Value| event["name"].as_str().unwrap().ends_with(name);
        events.iter().find(is).unwrap_or_else(|| panic!("{name}: {value}"))
    };
    let cycles = named("/cpu_cycles/");
    assert_eq!(cycles["countable"], true, "{cycles}");
    // The architecture's number of the event (Arm DDI 0487, "Common event numbers").
    assert!(cycles["encoding"].as_str().unwrap().contains("event=0x0011"), "{cycles}");
    assert!(named("/inst_retired/")["encoding"].as_str().unwrap().contains("0x0008"));
    assert_eq!(named("instructions")["countable"], true);
    for name in ["LLC-loads", "dTLB-load-misses"] {
        let lacking = named(name);
        assert_eq!(lacking["countable"], false, "{lacking}");
        assert!(lacking["why"].as_str().unwrap().contains("ENOENT"), "{lacking}");
    }
}

/// As Arm's machine-readable lists have it.
fn arm_list(cpu: &str, id: &str, events: &[(&str, u32)]) -> String {
    let events: Vec<Value> =
        events.iter().map(|(name, code)| serde_json::json!({"name": name, "code": code})).collect();
    serde_json::json!({"_type": "Events", "cpu": cpu, "cpuid": id, "events": events}).to_string()
}

#[test]
fn a_list_for_another_cpu_is_refused_and_its_events_are_not_counted_here() {
    let scratch = Scratch::new();
    // No core has this number.
    let list = arm_list("Test-R1", "0x42fff", &[("TEST_KITE", 0xc0)]);
    std::fs::write(scratch.path("r1.json"), list).unwrap();
    let refused = scratch.pmuscope(["events", "import", "--to", "lists", "r1.json"]);
    refused.exits(2).prints_nothing().complains("not for this CPU");
    refused.complains("for Test-R1 (implementer 0x42 part 0xfff)").complains("--all to keep it");
    assert!(!scratch.path("lists").exists(), "{refused}");
    scratch.pmuscope(["events", "import", "--all", "--to", "lists", "r1.json"]).exits(0);
    let listed = scratch.pmuscope(["list", "--events", "lists", "--json", "^test_kite"]);
    listed.exits(0);
    let value = parsed(&listed.stdout);
    let kite = &value["events"][0];
    assert_eq!((&kite["name"], &kite["countable"]), (&"TEST_KITE".into(), &false.into()));
    let why = kite["why"].as_str().unwrap();
    assert!(why.starts_with("for Test-R1") && why.contains("this CPU is"), "{why}");
}

#[test]
fn codes_that_the_pmu_does_not_implement_are_not_counted_with_the_reason() {
    skip_unless!(need_pmu_guest());
    let scratch = Scratch::new();
    let program = ["--", "pmuscope", "workload", "exact-loop", "--rounds", "1000"];
    let events = ["stat", "-e", "r3,armv8_pmuv3/event=0x4/,r11"];
    let outcome = in_guest(&scratch, 1, &[&events[..], &program].concat());
    let cells = |name: &str| -> Vec<String> {
        let line = outcome.stdout.lines().find(|line| line.starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} is missing\n{outcome}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert!(!cells("r11").contains(&"-".to_owned()), "{outcome}");
    for name in ["r3", "armv8_pmuv3/event=0x4/"] {
        assert!(cells(name).contains(&"-".to_owned()), "{outcome}");
    }
    assert!(outcome.stdout.contains("does not implement it"), "{outcome}");
}
