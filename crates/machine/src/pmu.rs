//! Performance monitoring units as sysfs shows them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{CpuSet, Machine, MachineError};

const DEVICES: &str = "sys/bus/event_source/devices";

/// A performance monitoring unit: `/sys/bus/event_source/devices/NAME`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pmu {
    /// Name of the folder: `cpu`, `cpu_core`, `uncore_imc_0`, `software`.
    pub name: String,
    /// `attr.type` of its events.
    #[serde(rename = "type")]
    pub type_number: u32,
    /// `cpus`: the CPUs that have this unit (hybrid cores, Arm clusters). `None`: all of them.
    pub cpus: Option<CpuSet>,
    /// `cpumask`: the CPUs to open an event on, one for each part of the machine that the unit counts
    /// for (uncore). `None`: the unit counts per CPU.
    pub cpumask: Option<CpuSet>,
    /// `format/*`: name of a term to where it goes, as in `config:0-7,32-35`.
    pub format: BTreeMap<String, String>,
    /// `events/*`: name to terms.
    pub events: BTreeMap<String, PmuEvent>,
    /// `caps/*`: capabilities, such as `branches` (depth of the branch stack) or `max_precise`.
    pub caps: BTreeMap<String, String>,
}

/// An event that the kernel knows by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PmuEvent {
    /// Terms: `event=0x3c,umask=0x1`.
    pub terms: String,
    /// `NAME.scale`: the count times this is in `unit`.
    pub scale: Option<f64>,
    /// `NAME.unit`: `Joules`, `MiB`.
    pub unit: Option<String>,
    /// `NAME.per-pkg`: one count for a whole package.
    pub per_package: bool,
    /// `NAME.snapshot`: the value is a state, not a count: no difference may be taken.
    pub snapshot: bool,
}

impl Pmu {
    /// Whether this counts instructions and cycles of a core: `cpu`, the parts of a hybrid CPU, or an
    /// Arm core's.
    pub fn is_core(&self) -> bool {
        self.name == "cpu" || (self.cpus.is_some() && self.cpumask.is_none())
    }
}

impl Machine {
    /// The performance monitoring units, by name: `/sys/bus/event_source/devices`.
    ///
    /// # Errors
    /// If that folder cannot be read (no sysfs, or a kernel without performance events).
    pub fn pmus(&self) -> Result<Vec<Pmu>, MachineError> {
        let names = self.names(DEVICES)?;
        Ok(names.into_iter().filter_map(|name| self.one_pmu(name)).collect())
    }

    /// `None` for a device without a type number: it went away meanwhile.
    fn one_pmu(&self, name: String) -> Option<Pmu> {
        let folder = format!("{DEVICES}/{name}");
        Some(Pmu {
            type_number: self.number(format!("{folder}/type"))?,
            cpus: self.cpu_list(format!("{folder}/cpus")),
            cpumask: self.cpu_list(format!("{folder}/cpumask")),
            format: self.strings(&format!("{folder}/format")),
            events: events(&self.strings(&format!("{folder}/events"))),
            caps: self.strings(&format!("{folder}/caps")),
            name,
        })
    }

    /// Every file of a folder with its text.
    fn strings(&self, folder: &str) -> BTreeMap<String, String> {
        let names = self.names(folder).unwrap_or_default();
        names
            .into_iter()
            .filter_map(|name| {
                let text = self.text(format!("{folder}/{name}")).ok()?;
                Some((name, text))
            })
            .collect()
    }
}

/// Joins the files that belong to one event: `NAME`, `NAME.scale`, `NAME.unit`, …
fn events(files: &BTreeMap<String, String>) -> BTreeMap<String, PmuEvent> {
    let attribute = |name: &str, suffix: &str| files.get(&format!("{name}.{suffix}"));
    let is_one = |text: Option<&String>| text.is_some_and(|text| text == "1");
    let suffixes = [".scale", ".unit", ".per-pkg", ".snapshot"];
    files
        .iter()
        .filter(|(name, _)| !suffixes.iter().any(|suffix| name.ends_with(suffix)))
        .map(|(name, terms)| {
            let event = PmuEvent {
                terms: terms.clone(),
                scale: attribute(name, "scale").and_then(|text| text.parse().ok()),
                unit: attribute(name, "unit").cloned(),
                per_package: is_one(attribute(name, "per-pkg")),
                snapshot: is_one(attribute(name, "snapshot")),
            };
            (name.clone(), event)
        })
        .collect()
}
