//! Loads and stores as each CPU samples them: what perf 6.12 opens there for `perf c2c record`, and of which accesses samples
//! are.

use pmuscope_events::{
    Group, KnownCpu, NoMemoryEvents, memory_event_texts, memory_events, memory_population,
};

use crate::fixtures::{Fixture, known, vm};

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
    assert_eq!(attributes(&known("skylake-x")), [vec![loads], vec![stores]]);
    let (aux, stores) = ((4, 0x8203, 0, true), (4, 0x2cd, 0, true));
    assert_eq!(attributes(&known("sapphire-rapids")), [vec![aux, loads], vec![stores]]);
    let (atom_loads, atom_stores) = ((10, 0x5d0, 30, true), (10, 0x6d0, 0, true));
    let hybrid = attributes(&known("alder-lake"));
    assert_eq!(hybrid, [vec![atom_loads], vec![atom_stores], vec![aux, loads], vec![stores]]);
    for zen in ["zen2", "zen4", "zen5"] {
        assert_eq!(attributes(&known(zen)), [vec![(11, 0, 0, false)]], "{zen}");
    }
}

/// Events of a hybrid CPU are opened on the CPUs of their unit.
#[test]
fn each_kind_of_core_has_its_cpus() {
    let groups = memory_events(&known("alder-lake")).unwrap();
    let events = groups.iter().flat_map(|group| &group.events);
    let cpus: Vec<String> = events.map(|event| event.cpus.as_ref().unwrap().to_string()).collect();
    assert_eq!(cpus, ["8-15", "8-15", "0-7", "0-7", "0-7"]);
}

/// The texts that perf 6.12 hands to its own record, `%s` and `%u` filled in: `perf c2c record -v` shows them.
#[test]
fn texts_are_those_of_perf() {
    let group = |unit: &str| format!("{{{unit}/mem-loads-aux/,{unit}/mem-loads,ldlat=30/}}:P");
    let plain = |unit: &str| format!("{unit}/mem-loads,ldlat=30/P");
    let stores = |unit: &str| format!("{unit}/mem-stores/P");
    let of_perf = [
        ("skylake-x", vec![plain("cpu"), stores("cpu")]),
        ("sapphire-rapids", vec![group("cpu"), stores("cpu")]),
        (
            "alder-lake",
            vec![plain("cpu_atom"), stores("cpu_atom"), group("cpu_core"), stores("cpu_core")],
        ),
        ("zen2", vec!["ibs_op//".to_owned()]),
        ("zen4", vec!["ibs_op//".to_owned()]),
        ("zen5", vec!["ibs_op//".to_owned()]),
    ];
    for (cpu, texts) in of_perf {
        assert_eq!(memory_event_texts(&known(cpu)).unwrap(), texts, "{cpu}");
    }
}

/// A virtual machine has none; SPE is not read, on any core.
#[test]
fn machines_without_say_what_else_there_is() {
    assert_eq!(memory_event_texts(&vm()), Err(NoMemoryEvents::NoUnit));
    assert!(memory_events(&vm()).unwrap_err().contains("pmuscope sharing --watch"));
    for arm in ["neoverse-n1", "neoverse-v2"] {
        let refused = memory_events(&known(arm)).unwrap_err();
        assert_eq!(Err(refused), memory_population(&known(arm)).map_err(|why| why.to_string()));
        let refused = memory_events(&known(arm)).unwrap_err();
        for part in ["arm_spe_0", "AUX buffers", "Try: perf c2c record", "30 cycles or longer"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
}

#[test]
fn each_cpu_says_which_accesses_are_sampled_and_what_is_not_reported() {
    let shown = |cpu: &&KnownCpu| {
        let sentences = memory_population(&known(cpu.name)).ok()?;
        Some(format!("{}\n  {}", cpu.name, sentences.join("\n  ")))
    };
    let all: Vec<_> = KnownCpu::ALL.iter().collect();
    let all: Vec<String> = all.iter().filter_map(shown).collect();
    insta::assert_snapshot!(all.join("\n"), @r"
    skylake-x
      loads of 30 cycles or longer (PEBS, ldlat=30). Shares and latencies are of these, not of all loads
      stores of any duration, by another event at its own rate. Numbers of loads and of stores do not compare
    sapphire-rapids
      loads of 30 cycles or longer (PEBS, ldlat=30). Shares and latencies are of these, not of all loads
      stores of any duration, by another event at its own rate. Numbers of loads and of stores do not compare
      Not reported: stores that miss the L1 cache count as neither hit nor miss
    alder-lake
      loads of 30 cycles or longer (PEBS, ldlat=30). Shares and latencies are of these, not of all loads
      stores of any duration, by another event at its own rate. Numbers of loads and of stores do not compare
      Not reported: stores that miss the L1 cache count as neither hit nor miss
      each kind of core has its events (cpu_atom, cpu_core)
    zen2
      all operations (IBS), one every N cycles: loads and stores of any latency. Shares are of all loads; samples of other operations are only counted
      Not reported: HITM of caches of other NUMA nodes, whose loads count as loads from a remote cache; on Zen 3, all HITM
      Not reported: latencies of loads that hit the L1 cache; stores that miss it count as neither hit nor miss
    zen4
      all operations (IBS), one every N cycles: loads and stores of any latency. Shares are of all loads; samples of other operations are only counted
      HITM is reported of caches of this NUMA node and of others
      Not reported: latencies of loads that hit the L1 cache; stores that miss it count as neither hit nor miss
    zen5
      all operations (IBS), one every N cycles: loads and stores of any latency. Shares are of all loads; samples of other operations are only counted
      HITM is reported of caches of this NUMA node and of others
      Not reported: latencies of loads that hit the L1 cache; stores that miss it count as neither hit nor miss
    ");
}
