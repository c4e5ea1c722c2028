//! Loads and stores as each CPU samples them: what perf 6.12 opens there for `perf c2c record`.

use pmuscope_events::{Group, NoMemoryEvents, memory_event_texts, memory_events};

use crate::fixtures::{Fixture, alder_lake, amd, neoverse, sapphire_rapids, skylake, vm};

/// Type, config and config1 of the events of each group, and whether they are as precise as can be.
fn attributes(on: &Fixture) -> Vec<Vec<(u32, u64, u64, bool)>> {
    let group = |group: &Group| {
        let event = |event: &pmuscope_events::Event| {
            let attr = &event.attr;
            (attr.event_type, attr.config, attr.config1, event.max_precise)
        };
        group.events.iter().map(event).collect()
    };
    memory_events(on).unwrap().iter().map(group).collect()
}

/// perf has the latency of sysfs and its own together in `config1`: 3 | 30 = 0x1f. A latency of 30 is 0x1e.
#[test]
fn attributes_are_those_of_the_cpu() {
    let (loads, stores) = ((4, 0x1cd, 30, true), (4, 0x82d0, 0, true));
    assert_eq!(attributes(&skylake()), [vec![loads], vec![stores]]);
    let (aux, stores) = ((4, 0x8203, 0, true), (4, 0x2cd, 0, true));
    assert_eq!(attributes(&sapphire_rapids()), [vec![aux, loads], vec![stores]]);
    let (atom_loads, atom_stores) = ((10, 0x5d0, 30, true), (10, 0x6d0, 0, true));
    let hybrid = attributes(&alder_lake());
    assert_eq!(hybrid, [vec![atom_loads], vec![atom_stores], vec![aux, loads], vec![stores]]);
    assert_eq!(attributes(&amd()), [vec![(11, 0, 0, false)]]);
}

#[test]
fn texts_are_those_of_e() {
    let texts = memory_event_texts(&sapphire_rapids()).unwrap();
    let loads = "{cpu/mem-loads-aux/,cpu/mem-loads,ldlat=30/}:P";
    assert_eq!(texts, [loads, "cpu/mem-stores/P"]);
    assert_eq!(memory_event_texts(&amd()).unwrap(), ["ibs_op//"]);
}

#[test]
fn machines_without_say_what_else_there_is() {
    assert_eq!(memory_event_texts(&vm()), Err(NoMemoryEvents::NoUnit));
    assert!(memory_events(&vm()).unwrap_err().contains("pmuscope watch"));
    assert!(memory_events(&neoverse()).unwrap_err().contains("perf c2c record"));
}
