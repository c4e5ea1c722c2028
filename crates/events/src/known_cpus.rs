//! CPU models that are described here, so that what would be opened on one can be shown without it.
//!
//! What sysfs has there (`/sys/bus/event_source/devices`, Linux 6.12), abridged to the units that sample memory accesses:
//! terms and events of cores, IBS and SPE. Types of units other than `cpu` and `cpu_core` are numbered as the kernel
//! finds them, and CPUs of a hybrid model depend on the chip: those here are of one such machine.

use std::collections::BTreeMap;

use pmuscope_machine::{MachineError, Pmu, PmuEvent};

use crate::catalog::Catalog;

/// Names with texts, as files of a folder.
type SysfsFiles = &'static [(&'static str, &'static str)];

/// A unit: a folder of sysfs.
#[derive(Debug, PartialEq, Eq)]
struct KnownUnit {
    name: &'static str,
    type_number: u32,
    /// Where not all CPUs have it.
    cpus: Option<&'static str>,
    format: &'static [SysfsFiles],
    events: SysfsFiles,
    caps: SysfsFiles,
}

/// A CPU model that is described.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownCpu {
    /// As users name it: `skylake-x`.
    pub name: &'static str,
    /// What it is called, with CPUs that are alike in this.
    pub title: &'static str,
    units: &'static [KnownUnit],
}

const INTEL: SysfsFiles = &[
    ("event", "config:0-7"),
    ("umask", "config:8-15"),
    ("edge", "config:18"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
    ("offcore_rsp", "config1:0-63"),
    ("ldlat", "config1:0-15"),
];
const FRONTEND: SysfsFiles = &[("frontend", "config1:0-23")];
const PRECISE: SysfsFiles = &[("max_precise", "3")];

const SKYLAKE_X: KnownUnit = KnownUnit {
    name: "cpu",
    type_number: 4,
    cpus: None,
    format: &[INTEL, FRONTEND],
    events: &[
        ("cpu-cycles", "event=0x3c"),
        ("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
        ("mem-stores", "event=0xd0,umask=0x82"),
    ],
    caps: PRECISE,
};

/// Golden Cove: loads need `mem-loads-aux` as their leader.
const GOLDEN_COVE: SysfsFiles = &[
    ("cpu-cycles", "event=0x3c"),
    ("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("mem-loads-aux", "event=0x03,umask=0x82"),
    ("mem-stores", "event=0xcd,umask=0x2"),
];

const SAPPHIRE_RAPIDS: KnownUnit =
    KnownUnit { name: "cpu", type_number: 4, cpus: None, events: GOLDEN_COVE, ..SKYLAKE_X };

/// Alder Lake: performance cores (Golden Cove), and efficient cores (Gracemont) with events for the same.
const ALDER_LAKE: [KnownUnit; 2] = [
    KnownUnit {
        name: "cpu_atom",
        type_number: 10,
        cpus: Some("8-15"),
        format: &[INTEL],
        events: &[
            ("cpu-cycles", "event=0x3c"),
            ("mem-loads", "event=0xd0,umask=0x5,ldlat=3"),
            ("mem-stores", "event=0xd0,umask=0x6"),
        ],
        caps: PRECISE,
    },
    KnownUnit { name: "cpu_core", cpus: Some("0-7"), events: GOLDEN_COVE, ..SKYLAKE_X },
];

const ZEN: KnownUnit = KnownUnit {
    name: "cpu",
    type_number: 4,
    cpus: None,
    format: &[&[
        ("event", "config:0-7,32-35"),
        ("umask", "config:8-15"),
        ("edge", "config:18"),
        ("inv", "config:23"),
        ("cmask", "config:24-31"),
    ]],
    events: &[("cpu-cycles", "event=0x76")],
    caps: &[],
};
const IBS: KnownUnit = KnownUnit {
    name: "ibs_op",
    type_number: 11,
    cpus: None,
    format: &[&[("cnt_ctl", "config:19")]],
    events: &[],
    caps: &[],
};
const IBS_ZEN4: KnownUnit = KnownUnit {
    format: &[&[("cnt_ctl", "config:19"), ("l3missonly", "config:16")]],
    caps: &[("zen4_ibs_extensions", "1")],
    ..IBS
};

const ARM: KnownUnit = KnownUnit {
    name: "armv8_pmuv3_0",
    type_number: 8,
    cpus: Some("0-63"),
    format: &[&[("event", "config:0-15"), ("long", "config1:0"), ("rdpmc", "config1:1")]],
    events: &[("cpu_cycles", "event=0x0011"), ("l1d_cache_refill", "event=0x0003")],
    caps: &[],
};
const SPE_TERMS: SysfsFiles = &[
    ("ts_enable", "config:0"),
    ("pa_enable", "config:1"),
    ("pct_enable", "config:2"),
    ("jitter", "config:16"),
    ("branch_filter", "config:32"),
    ("load_filter", "config:33"),
    ("store_filter", "config:34"),
    ("event_filter", "config1:0-63"),
    ("min_latency", "config2:0-11"),
];
const SPE: KnownUnit = KnownUnit {
    name: "arm_spe_0",
    type_number: 14,
    cpus: None,
    format: &[SPE_TERMS],
    events: &[],
    caps: &[],
};
/// SPE 1.2.
const SPE_1_2: KnownUnit =
    KnownUnit { format: &[SPE_TERMS, &[("inv_event_filter", "config3:0-63")]], ..SPE };

impl KnownCpu {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "skylake-x",
            title: "Intel Skylake-X, Cascade Lake, Ice Lake",
            units: &[SKYLAKE_X],
        },
        Self {
            name: "sapphire-rapids",
            title: "Intel Sapphire Rapids, Emerald Rapids",
            units: &[SAPPHIRE_RAPIDS],
        },
        Self { name: "alder-lake", title: "Intel Alder Lake, Raptor Lake", units: &ALDER_LAKE },
        Self { name: "zen2", title: "AMD Zen 2", units: &[ZEN, IBS] },
        Self { name: "zen4", title: "AMD Zen 4", units: &[ZEN, IBS_ZEN4] },
        Self { name: "zen5", title: "AMD Zen 5", units: &[ZEN, IBS_ZEN4] },
        Self { name: "neoverse-n1", title: "Arm Neoverse N1", units: &[ARM, SPE] },
        Self { name: "neoverse-v2", title: "Arm Neoverse V2", units: &[ARM, SPE_1_2] },
    ];

    /// The one with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|cpu| cpu.name == name)
    }

    /// Its units, as [`Machine::pmus`](pmuscope_machine::Machine::pmus) reads them.
    #[must_use]
    pub fn pmus(&self) -> Vec<Pmu> {
        self.units.iter().map(KnownUnit::pmu).collect()
    }

    /// Its units, to parse for.
    #[must_use]
    pub fn catalog(&self) -> KnownCatalog {
        KnownCatalog { pmus: self.pmus() }
    }
}

impl KnownUnit {
    fn pmu(&self) -> Pmu {
        let pair = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        let event = |&(name, terms): &(&str, &str)| {
            let terms = terms.to_owned();
            let plain =
                PmuEvent { terms, scale: None, unit: None, per_package: false, snapshot: false };
            (name.to_owned(), plain)
        };
        Pmu {
            name: self.name.to_owned(),
            type_number: self.type_number,
            cpus: self.cpus.and_then(|list| list.parse().ok()),
            cpumask: None,
            format: self.format.iter().flat_map(|files| files.iter().map(pair)).collect(),
            events: self.events.iter().map(event).collect(),
            caps: self.caps.iter().map(pair).collect::<BTreeMap<_, _>>(),
        }
    }
}

/// Units of a CPU model that is described. It has no tracepoints.
#[derive(Debug)]
pub struct KnownCatalog {
    pmus: Vec<Pmu>,
}

impl Catalog for KnownCatalog {
    fn pmus(&self) -> &[Pmu] {
        &self.pmus
    }

    fn tracepoint_id(&self, _: &str, _: &str) -> Result<u64, MachineError> {
        Err(MachineError::NoTracefs)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, MachineError> {
        Err(MachineError::NoTracefs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of CPUs that does not parse would be lost without a word.
    #[test]
    fn descriptions_are_whole() {
        for cpu in KnownCpu::ALL {
            assert_eq!(KnownCpu::named(cpu.name), Some(cpu));
            let pmus = cpu.pmus();
            assert!(pmus.iter().any(Pmu::is_core), "{}", cpu.name);
            for (pmu, unit) in pmus.iter().zip(cpu.units) {
                assert_eq!(pmu.cpus.is_some(), unit.cpus.is_some(), "{} {}", cpu.name, pmu.name);
                let terms = pmu.format.values();
                assert!(terms.into_iter().all(|text| crate::Format::parse(text).is_some()));
            }
        }
    }
}
