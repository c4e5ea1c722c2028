//! What has to be counted for a metric on a machine.

use pmuscope_events::Catalog;
use pmuscope_events::metrics::{Metrics, Need, NeededEvent};
use pmuscope_machine::{MachineError, Pmu};

use crate::fixtures::{Fixture, arm, hybrid, vm};

fn need(metric: &str, on: &Fixture) -> Need {
    let metrics = Metrics::builtin();
    metrics.need(metrics.chosen(&[metric]).unwrap()[0], on).unwrap()
}

fn names(way: &[NeededEvent]) -> Vec<&str> {
    way.iter().map(|counted| &counted.name[..]).collect()
}

#[test]
fn each_formula_is_a_way_and_each_event_has_all_its_names() {
    let Need { metric, ways } = need("L1D/KI", &arm());
    assert_eq!((&metric[..], ways.len()), ("L1D/KI", 2));
    assert_eq!(names(&ways[0]), ["l1-dcache-load-misses", "instructions"]);
    assert_eq!(names(&ways[1]), ["cache-misses", "instructions"]);
    let refills = &ways[1][0];
    assert_eq!(refills.names, ["l1d_cache_refill", "cache-misses"]);
    let pmus: Vec<&str> = refills.events.iter().map(|event| &event.pmu[..]).collect();
    assert_eq!(pmus.len(), 2, "its own name and the general one: {pmus:?}");
    assert!(refills.events.iter().all(|event| !event.attr.flags.is_empty()), "user mode");
    // A name that this machine does not know is none of its events.
    let retired = &need("CPuOp", &arm()).ways[0][1];
    assert_eq!((&retired.name[..], retired.events.len()), ("op_retired", 0));
}

/// A machine with so many tracepoints that nobody should list them.
struct Large(Fixture);

impl Catalog for Large {
    fn pmus(&self) -> &[Pmu] {
        self.0.pmus()
    }

    fn tracepoint_id(&self, system: &str, name: &str) -> Result<u64, MachineError> {
        self.0.tracepoint_id(system, name)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        panic!("a name that nobody typed was looked for among all tracepoints")
    }
}

#[test]
fn names_that_the_machine_does_not_know_cost_nothing() {
    let (metrics, large) = (Metrics::builtin(), Large(arm()));
    let mut unknown = 0;
    for metric in metrics.chosen(&["basic", "mix", "top-down", "tlb"]).unwrap() {
        let need = metrics.need(metric, &large).unwrap();
        unknown += need.ways.iter().flatten().filter(|event| event.events.is_empty()).count();
    }
    assert!(unknown > 5, "{unknown}");
}

#[test]
fn an_event_that_stands_twice_in_a_formula_is_counted_once() {
    let bad = need("%BAD", &arm());
    assert_eq!(
        names(&bad.ways[1]),
        ["op_retired", "op_spec", "stall_slot", "cycles", "branch-misses"]
    );
    let share = need("%CY", &arm());
    assert_eq!(names(&share.ways[0]), ["cycles"]);
}

#[test]
fn kinds_of_cores_are_all_offered() {
    let cpi = need("CPI", &hybrid());
    let cycles = &cpi.ways[0][0];
    let mut pmus: Vec<&str> = cycles.events.iter().map(|event| &event.pmu[..]).collect();
    pmus.sort_unstable();
    pmus.dedup();
    assert_eq!(pmus, ["cpu_atom", "cpu_core"]);
}

#[test]
fn a_machine_without_a_pmu_says_so() {
    let metrics = Metrics::builtin();
    let error = metrics.need(metrics.chosen(&["CPI"]).unwrap()[0], &vm()).unwrap_err();
    assert!(error.is_of_machine(), "{error}");
}

#[test]
fn names_that_are_none_are_near_some() {
    let metrics = Metrics::builtin();
    let nearest = |typed| metrics.nearest(typed);
    assert_eq!(nearest("cpi")[0], "CPI");
    assert!(nearest("stall").contains(&"stalls".to_owned()));
    assert!(nearest("BMKI").contains(&"BM/KI".to_owned()));
    assert!(nearest("nonsense").is_empty());
}
