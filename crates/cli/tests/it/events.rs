//! `-e` as a user types it; what each text means is tested in the crate `events`.

use crate::harness::{Scratch, need_root, skip_unless};

/// Whether this machine shows counters of its CPU.
fn has_counters() -> bool {
    let devices = std::path::Path::new("/sys/bus/event_source/devices");
    ["cpu", "cpu_core", "armv8_pmuv3", "armv8_pmuv3_0"].iter().any(|pmu| devices.join(pmu).exists())
}

#[test]
fn a_mistyped_event_is_bad_input() {
    let refused = Scratch::new().pmuscope(["record", "-e", "cs,cpu-clok:u", "--", "true"]);
    refused.exits(2).prints_nothing().complains("character 4, 'cpu-clok'").complains("cpu-clock");
}

#[test]
fn an_event_asked_for_by_name_is_never_replaced() {
    if has_counters() {
        return eprintln!("skipped: this machine counts cycles");
    }
    let scratch = Scratch::new();
    let refused = scratch.pmuscope(["record", "-e", "cycles", "--", "true"]);
    refused.exits(3).prints_nothing().complains("needs a hardware PMU").complains("cpu-clock");
    assert!(!scratch.path("pmuscope.data").exists(), "{refused}");
}

#[test]
fn dry_run_shows_what_would_be_opened() {
    skip_unless!(need_root());
    let event = "{task-clock/period=999700/,cs}:uS";
    let shown = Scratch::new().pmuscope(["record", "--dry-run", "-e", event, "--", "true"]);
    shown.exits(0);
    let said = format!("{}{}", shown.stdout, shown.stderr);
    for part in ["999700", "exclude_kernel", "cs:u"] {
        assert!(said.contains(part), "{part} is missing\n{shown}");
    }
}

/// Both ways to ask for windows, whose ends a clock of software would miss by more than their length.
#[test]
fn windows_of_events_that_no_pmu_counts_are_refused() {
    for asked in
        ["--strobe=300,event=cpu-clock:u", "-e{task-clock/period=999700,alt-period=300/,cs}:uS"]
    {
        let refused = Scratch::new().pmuscope(["record", asked, "--", "true"]);
        refused
            .exits(2)
            .prints_nothing()
            .complains("not by a PMU")
            .complains("record -e cpu-clock");
    }
}

/// Such a clock would take its CPU for good, or be slower than it says: nothing is started.
#[test]
fn a_clock_faster_than_the_kernel_takes_is_refused() {
    let scratch = Scratch::new();
    let args = ["record", "-e", "cpu-clock", "-c", "1000", "--", "touch", "was-there"];
    let refused = scratch.pmuscope(args);
    refused.exits(2).complains("no period below 10000 ns").complains("-c 100000");
    assert!(!scratch.path("was-there").exists(), "the command ran\n{refused}");
}
