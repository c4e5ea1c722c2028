//! Machines to parse for. What sysfs of such machines says is abridged, not invented.

use std::collections::BTreeMap;

use pmuscope_events::lists::Lists;
use pmuscope_events::{Catalog, Event, Group, KnownCpu, parse};
use pmuscope_machine::{CpuSet, MachineError, Pmu, PmuEvent};

/// A machine that exists only here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fixture {
    pmus: Vec<Pmu>,
    /// `None`: tracefs is not mounted.
    tracepoints: Option<Vec<(&'static str, &'static str, u64)>>,
    lists: Option<Lists>,
}

impl Catalog for Fixture {
    fn pmus(&self) -> &[Pmu] {
        &self.pmus
    }

    fn tracepoint_id(&self, system: &str, name: &str) -> Result<u64, MachineError> {
        let all = self.tracepoints.as_ref().ok_or(MachineError::NoTracefs)?;
        let found = all.iter().find(|(s, n, _)| *s == system && *n == name);
        found.map(|(_, _, id)| *id).ok_or_else(|| MachineError::NoTracepoint {
            system: system.to_owned(),
            name: name.to_owned(),
        })
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        let all = self.tracepoints.as_ref().ok_or(MachineError::NoTracefs)?;
        Ok(all.iter().map(|(s, n, _)| ((*s).to_owned(), (*n).to_owned())).collect())
    }

    fn lists(&self) -> Option<&Lists> {
        self.lists.as_ref()
    }
}

impl Fixture {
    fn with(mut self, pmu: Pmu) -> Self {
        self.pmus.push(pmu);
        self
    }

    pub(crate) fn with_lists(self, lists: Lists) -> Self {
        Self { lists: Some(lists), ..self }
    }

    fn tracing(mut self) -> Self {
        self.tracepoints = Some(vec![
            ("sched", "sched_switch", 318),
            ("sched", "sched_wakeup", 320),
            ("sched", "sched_process_exec", 311),
            ("raw_syscalls", "sys_enter", 21),
            ("syscalls", "sys_enter_read", 700),
            ("syscalls", "sys_enter_write", 702),
        ]);
        self
    }
}

pub(crate) fn pmu(
    name: &str,
    type_number: u32,
    format: &[(&str, &str)],
    events: &[(&str, &str)],
) -> Pmu {
    let event = |terms: &str| PmuEvent {
        terms: terms.to_owned(),
        scale: None,
        unit: None,
        per_package: false,
        snapshot: false,
    };
    Pmu {
        name: name.to_owned(),
        type_number,
        cpus: None,
        cpumask: None,
        format: format.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        events: events.iter().map(|&(k, v)| (k.to_owned(), event(v))).collect(),
        caps: BTreeMap::new(),
    }
}

fn cpus(list: &str) -> Option<CpuSet> {
    Some(list.parse().unwrap())
}

const INTEL_FORMAT: [(&str, &str); 8] = [
    ("event", "config:0-7"),
    ("umask", "config:8-15"),
    ("edge", "config:18"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
    ("offcore_rsp", "config1:0-63"),
    ("ldlat", "config1:0-15"),
    ("frontend", "config1:0-23"),
];

const INTEL_EVENTS: [(&str, &str); 3] = [
    ("cpu-cycles", "event=0x3c"),
    ("branch-misses", "event=0xc5"),
    ("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
];

/// What every kernel has, a virtual machine without a virtual PMU for example.
pub(crate) fn vm() -> Fixture {
    Fixture::default()
        .with(pmu("breakpoint", 5, &[], &[]))
        .with(pmu("msr", 9, &[("event", "config:0-63")], &[("tsc", "event=0x00")]))
        .with(pmu("software", 1, &[], &[]))
        .with(pmu("tracepoint", 2, &[], &[]))
        .tracing()
}

/// The same without tracefs.
pub(crate) fn vm_without_tracefs() -> Fixture {
    Fixture { tracepoints: None, ..vm() }
}

/// A CPU of the table that `record --as` shows attributes of.
pub(crate) fn known(name: &str) -> Fixture {
    let cpu = KnownCpu::named(name).unwrap();
    cpu.pmus().into_iter().fold(vm(), Fixture::with)
}

/// Two memory controllers and a package power meter.
pub(crate) fn intel() -> Fixture {
    let imc = |name, number| {
        let format = [("event", "config:0-7"), ("umask", "config:8-15")];
        let mut imc = pmu(name, number, &format, &[("cas_count_read", "event=0x04,umask=0x03")]);
        imc.cpumask = cpus("0,28");
        let read = imc.events.get_mut("cas_count_read").unwrap();
        read.scale = Some(6.103_515_625e-5);
        read.unit = Some("MiB".to_owned());
        imc
    };
    vm().with(pmu("cpu", 4, &INTEL_FORMAT, &INTEL_EVENTS))
        .with(imc("uncore_imc_0", 14))
        .with(imc("uncore_imc_1", 15))
        .with(pmu(
            "uncore_imc_free_running_0",
            16,
            &[("event", "config:0-7")],
            &[("read", "event=0x20")],
        ))
        .with(pmu("power", 17, &[("event", "config:0-7")], &[("energy-pkg", "event=0x02")]))
}

/// A server of Haswell's: all terms of its core, and the kernel's first events.
pub(crate) fn haswell() -> Fixture {
    let format = [
        ("event", "config:0-7"),
        ("umask", "config:8-15"),
        ("edge", "config:18"),
        ("pc", "config:19"),
        ("any", "config:21"),
        ("inv", "config:23"),
        ("cmask", "config:24-31"),
        ("in_tx", "config:32"),
        ("in_tx_cp", "config:33"),
        ("offcore_rsp", "config1:0-63"),
        ("ldlat", "config1:0-15"),
    ];
    vm().with(pmu("cpu", 4, &format, &INTEL_EVENTS))
}

pub(crate) fn amd() -> Fixture {
    let format = [
        ("event", "config:0-7,32-35"),
        ("umask", "config:8-15"),
        ("edge", "config:18"),
        ("inv", "config:23"),
        ("cmask", "config:24-31"),
    ];
    vm().with(pmu("cpu", 4, &format, &[("cpu-cycles", "event=0x76")])).with(pmu(
        "ibs_op",
        11,
        &[("cnt_ctl", "config:19"), ("swfilt", "config2:0")],
        &[],
    ))
}

/// Eight threads of performance cores, eight efficient cores.
pub(crate) fn hybrid() -> Fixture {
    let mut core = pmu("cpu_core", 4, &INTEL_FORMAT, &INTEL_EVENTS);
    core.cpus = cpus("0-7");
    core.events.insert(
        "slots".to_owned(),
        pmu("", 0, &[], &[("x", "event=0x00,umask=0x4")]).events["x"].clone(),
    );
    let mut atom = pmu("cpu_atom", 10, &INTEL_FORMAT, &INTEL_EVENTS[..2]);
    atom.cpus = cpus("8-15");
    vm().with(atom).with(core)
}

pub(crate) fn arm() -> Fixture {
    let format = [("event", "config:0-15"), ("long", "config1:0"), ("rdpmc", "config1:1")];
    let events = [("cpu_cycles", "event=0x0011"), ("l1d_cache_refill", "event=0x0003")];
    let mut cpu = pmu("armv8_pmuv3_0", 8, &format, &events);
    cpu.cpus = cpus("0-3");
    let mut smmu =
        pmu("arm_smmuv3_pmcg_2b62", 12, &[("event", "config:0-15")], &[("cycles", "event=0x0")]);
    smmu.cpumask = cpus("0");
    vm().with(cpu).with(smmu)
}

/// POWER: an event that leaves a term open.
pub(crate) fn power() -> Fixture {
    let format = [("domain", "config:0-3"), ("offset", "config:32-63"), ("core", "config:16-31")];
    let cycles = ("HPM_0THRD_NON_IDLE_CCYC__PHYS_CORE", "domain=0x2,offset=0xe0,core=?");
    vm().with(pmu("hv_24x7", 13, &format, &[cycles]))
}

/// All groups of a text that must be right.
#[track_caller]
pub(crate) fn groups(text: &str, on: &Fixture) -> Vec<Group> {
    parse(text, on).unwrap_or_else(|error| panic!("{error}"))
}

/// All events of a text that must be right.
#[track_caller]
pub(crate) fn events(text: &str, on: &Fixture) -> Vec<Event> {
    groups(text, on).into_iter().flat_map(|group| group.events).collect()
}

/// The only event of a text.
#[track_caller]
pub(crate) fn event(text: &str, on: &Fixture) -> Event {
    let mut all = events(text, on);
    assert_eq!(all.len(), 1, "{text} became {all:?}");
    all.remove(0)
}

/// What was wrong with a text.
#[track_caller]
pub(crate) fn error(text: &str, on: &Fixture) -> String {
    match parse(text, on) {
        Ok(groups) => panic!("{text} became {groups:?}"),
        Err(error) => error.to_string(),
    }
}
