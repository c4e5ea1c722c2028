//! One text, several units.

use pmuscope_events::{Event, parse};
use pmuscope_machine::Machine;

use crate::fixtures::{arm, event, events, groups, hybrid, intel};

/// Name, unit, type, config and CPUs.
fn summary(events: &[Event]) -> Vec<String> {
    let one = |event: &Event| {
        let cpus = event.cpus.as_ref().map_or("all".to_owned(), ToString::to_string);
        let attr = &event.attr;
        format!("{} {} {} {:#x} {cpus}", event.name, event.pmu, attr.event_type, attr.config)
    };
    events.iter().map(one).collect()
}

#[test]
fn generic_events_mean_each_kind_of_core() {
    for (text, expected) in [
        (
            "cycles:u",
            [
                "cpu_atom/cycles/u cpu_atom 0 0xa00000000 8-15",
                "cpu_core/cycles/u cpu_core 0 0x400000000 0-7",
            ],
        ),
        (
            "LLC-load-misses",
            [
                "cpu_atom/LLC-load-misses/ cpu_atom 3 0xa00010002 8-15",
                "cpu_core/LLC-load-misses/ cpu_core 3 0x400010002 0-7",
            ],
        ),
        ("r1a8", ["cpu_atom/r1a8/ cpu_atom 10 0x1a8 8-15", "cpu_core/r1a8/ cpu_core 4 0x1a8 0-7"]),
        (
            "cycles/period=7/u",
            [
                "cpu_atom/cycles,period=7/u cpu_atom 0 0xa00000000 8-15",
                "cpu_core/cycles,period=7/u cpu_core 0 0x400000000 0-7",
            ],
        ),
        (
            "cpu_*/event=0xc0/u",
            [
                "cpu_atom/event=0xc0/u cpu_atom 10 0xc0 8-15",
                "cpu_core/event=0xc0/u cpu_core 4 0xc0 0-7",
            ],
        ),
        ("cycles/name=c/", ["c cpu_atom 0 0xa00000000 8-15", "c cpu_core 0 0x400000000 0-7"]),
    ] {
        assert_eq!(summary(&events(text, &hybrid())), expected, "{text}");
    }
    assert_eq!(groups("cycles", &hybrid()).len(), 2);
}

#[test]
fn one_kind_of_core_can_be_asked_for() {
    let found = event("cpu_atom/cycles/", &hybrid());
    assert_eq!(summary(&[found]), ["cpu_atom/cycles/ cpu_atom 0 0xa00000000 8-15"]);
    // Only one of them has this event.
    assert_eq!(event("slots", &hybrid()).pmu, "cpu_core");
    assert_eq!(event("cpu_*/mem-loads/", &hybrid()).pmu, "cpu_core");
}

#[test]
fn a_group_is_made_for_each_kind_of_core() {
    let all = groups("{cycles,instructions,cs}:S", &hybrid());
    let names: Vec<Vec<&str>> =
        all.iter().map(|g| g.events.iter().map(|e| e.name.as_str()).collect()).collect();
    assert_eq!(
        names,
        [
            ["cpu_atom/cycles/", "cpu_atom/instructions/", "cs"],
            ["cpu_core/cycles/", "cpu_core/instructions/", "cs"],
        ]
    );
    assert!(all.iter().all(|group| group.leader_sampling && group.braces));
    // A member that only one kind of core has decides for all.
    let all = groups("{cpu_core/slots/,cycles}", &hybrid());
    assert_eq!(all.len(), 1);
    assert!(all[0].events.iter().all(|event| event.pmu == "cpu_core"));
}

#[test]
fn uncore_units_come_with_their_cpus() {
    let expected = [
        "uncore_imc_0/cas_count_read/ uncore_imc_0 14 0x304 0,28",
        "uncore_imc_1/cas_count_read/ uncore_imc_1 15 0x304 0,28",
    ];
    for text in ["uncore_imc/cas_count_read/", "imc/cas_count_read/", "*imc*/cas_count_read/"] {
        let found = events(text, &intel());
        assert_eq!(summary(&found), expected, "{text}");
        assert!(found.iter().all(|event| event.unit.as_deref() == Some("MiB")), "{text}");
        assert!(found.iter().all(|event| event.scale == Some(6.103_515_625e-5)), "{text}");
        assert!(found.iter().all(|event| event.typed == text));
    }
    let all = groups("{imc/cas_count_read/,imc/event=1/}", &intel());
    assert_eq!(all.len(), 2);
    assert_eq!(summary(&all[1].events)[1], "uncore_imc_1/event=1/ uncore_imc_1 15 0x1 0,28");
}

#[test]
fn arm_names_its_core_unit_differently() {
    let found = event("cycles", &arm());
    assert_eq!(summary(&[found]), ["cycles armv8_pmuv3_0 0 0x0 0-3"]);
}

/// The way from sysfs through `machine`, on a tree that only this test has.
#[test]
fn units_are_read_from_sysfs() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join("sys/bus/event_source/devices").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("cpu/type", "4\n");
    put("cpu/format/event", "config:0-7,32-35\n");
    put("cpu/format/umask", "config:8-15\n");
    put("cpu/events/cpu-cycles", "event=0x76\n");
    put("power/type", "12\n");
    put("power/cpumask", "0\n");
    put("power/format/event", "config:0-7\n");
    put("power/events/energy-pkg", "event=0x02\n");
    put("power/events/energy-pkg.scale", "2.3283064365386962890625e-10\n");
    put("power/events/energy-pkg.unit", "Joules\n");
    let machine = Machine::at(root.path());
    let catalog = pmuscope_events::MachineCatalog::new(&machine).unwrap();
    let groups =
        parse("cpu/event=0x28f,umask=0x3/,power/energy-pkg/,cpu-cycles", &catalog).unwrap();
    let events: Vec<Event> = groups.into_iter().flat_map(|group| group.events).collect();
    assert_eq!(
        summary(&events),
        [
            "cpu/event=0x28f,umask=0x3/ cpu 4 0x20000038f all",
            "power/energy-pkg/ power 12 0x2 0",
            "cpu-cycles cpu 0 0x0 all"
        ]
    );
    assert_eq!(events[1].unit.as_deref(), Some("Joules"));
}
