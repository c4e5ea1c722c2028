//! A machine that exists only here, for event syntax.

use std::collections::BTreeMap;

use pmuscope_events::Catalog;
use pmuscope_machine::{MachineError, Pmu, PmuEvent};

const FORMAT: [(&str, &str); 6] = [
    ("event", "config:0-7"),
    ("umask", "config:8-15"),
    ("edge", "config:18"),
    ("cmask", "config:24-31"),
    ("ldlat", "config1:0-15"),
    ("split", "config2:0-3,8,16-31"),
];
const EVENTS: [(&str, &str); 3] = [
    ("cpu-cycles", "event=0x3c"),
    ("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cas_count_read", "event=0x04,umask=0x03"),
];
const TRACEPOINTS: [(&str, &str, u64); 3] = [
    ("sched", "sched_switch", 318),
    ("sched", "sched_wakeup", 320),
    ("syscalls", "sys_enter_read", 700),
];

/// Units and tracepoints that never change.
#[derive(Debug)]
pub struct Fixed {
    pmus: Vec<Pmu>,
}

impl Fixed {
    /// Units of a hybrid CPU, memory controllers, and what every kernel has.
    #[must_use]
    pub fn new() -> Self {
        let names = ["cpu_core", "cpu_atom", "uncore_imc_0", "uncore_imc_1", "msr", "breakpoint"];
        let units = (4..).zip(names).map(|(number, name)| unit(name, number, &FORMAT));
        Self { pmus: units.chain([unit("software", 1, &[]), unit("tracepoint", 2, &[])]).collect() }
    }

    /// The same with one more unit, `odd`, whose format is `format`.
    #[must_use]
    pub fn with_odd_unit(format: &str, event: &str) -> Self {
        let mut fixed = Self::new();
        let mut odd = unit("odd", 77, &[("a", format), ("b", "config1:1-62")]);
        odd.events.insert("e".into(), described(event));
        fixed.pmus.push(odd);
        fixed
    }
}

impl Default for Fixed {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalog for Fixed {
    fn pmus(&self) -> &[Pmu] {
        &self.pmus
    }

    fn tracepoint_id(&self, system: &str, name: &str) -> Result<u64, MachineError> {
        let found = TRACEPOINTS.iter().find(|(s, n, _)| *s == system && *n == name);
        found.map(|(_, _, id)| *id).ok_or_else(|| MachineError::NoTracepoint {
            system: system.to_owned(),
            name: name.to_owned(),
        })
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        Ok(TRACEPOINTS.iter().map(|(s, n, _)| ((*s).to_owned(), (*n).to_owned())).collect())
    }
}

fn described(terms: &str) -> PmuEvent {
    let terms = terms.to_owned();
    PmuEvent { terms, scale: None, unit: None, per_package: false, snapshot: false }
}

fn unit(name: &str, type_number: u32, format: &[(&str, &str)]) -> Pmu {
    Pmu {
        name: name.to_owned(),
        type_number,
        cpus: None,
        cpumask: None,
        format: format.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        events: EVENTS.iter().map(|&(k, v)| (k.to_owned(), described(v))).collect(),
        caps: BTreeMap::new(),
    }
}
