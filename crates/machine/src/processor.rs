//! The processor: its name, caches, clock control and hardware threads.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{CpuSet, Machine, Topology};

const CPU: &str = "sys/devices/system/cpu";
/// More caches than any CPU lists.
const MAX_CACHE_INDEX: u32 = 16;

/// What the processor says about itself: the first entry of `/proc/cpuinfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// Who makes it: `AuthenticAMD`; on Arm the implementer's code.
    pub vendor: Option<String>,
    /// Its name in words; Arm has none.
    pub model_name: Option<String>,
    /// Family (x86).
    pub family: Option<String>,
    /// Model number; on Arm the part number.
    pub model: Option<String>,
    /// Stepping; on Arm variant and revision.
    pub stepping: Option<String>,
    /// Microcode (x86).
    pub microcode: Option<String>,
    /// The flag that a hypervisor sets (x86); `None` where there is no such flag.
    pub hypervisor_flag: Option<bool>,
}

/// Caches of one kind and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1 to 4.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Bytes of each.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: Option<u32>,
    /// Ways of associativity.
    pub ways: Option<u32>,
    /// How many CPUs share one (the most, where it differs).
    pub shared_by: usize,
    /// How many there are.
    pub count: usize,
}

/// How the clock frequency is controlled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Frequency {
    /// `scaling_driver`: `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`.
    pub driver: Option<String>,
    /// `scaling_governor`, with the CPUs that have it; more than one is unusual.
    pub governors: Vec<Governor>,
    /// Whether turbo or boost may raise the clock above the nominal one.
    pub boost: Option<bool>,
    /// Highest frequency in kHz, of the fastest CPU.
    pub max_khz: Option<u64>,
    /// Why the above is unknown.
    pub why: Option<String>,
}

/// CPUs under one frequency governor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Governor {
    /// Its name: `performance`, `powersave`, `schedutil`.
    pub name: String,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// Simultaneous multithreading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Smt {
    /// Whether any core has two threads online: `smt/active`, or by the lists of siblings.
    pub active: bool,
    /// `smt/control`: `on`, `off`, `forceoff`, `notsupported`.
    pub control: Option<String>,
    /// Most threads online in one core.
    pub threads_per_core: usize,
}

impl Machine {
    /// `/proc/cpuinfo`, its first entry.
    pub fn processor(&self) -> Processor {
        // 512 CPUs with long flag lists take about 1 MiB; the first entry comes first.
        let text = self.beginning("proc/cpuinfo", 1 << 16).unwrap_or_default();
        processor(&text)
    }

    /// `/sys/devices/system/cpu/cpu*/cache/index*`, equal ones counted.
    pub fn caches(&self, topology: &Topology) -> Vec<Cache> {
        let mut instances: BTreeSet<(u32, String, u32)> = BTreeSet::new();
        let mut found: BTreeMap<(u32, String, u64), Cache> = BTreeMap::new();
        for cpu in &topology.online {
            for index in 0..MAX_CACHE_INDEX {
                let folder = format!("{CPU}/cpu{cpu}/cache/index{index}");
                let Some((cache, sharers)) = self.one_cache(&folder) else { break };
                let first = sharers.intersection(&topology.online).first().unwrap_or(cpu);
                if instances.insert((cache.level, cache.kind.clone(), first)) {
                    let key = (cache.level, cache.kind.clone(), cache.bytes);
                    let known = found.entry(key).or_insert(Cache { count: 0, ..cache });
                    known.count += 1;
                    known.shared_by = known.shared_by.max(sharers.len());
                }
            }
        }
        found.into_values().collect()
    }

    fn one_cache(&self, folder: &str) -> Option<(Cache, CpuSet)> {
        let sharers = self.cpu_list(format!("{folder}/shared_cpu_list")).unwrap_or_default();
        let cache = Cache {
            level: self.number(format!("{folder}/level"))?,
            kind: self.text_if_any(format!("{folder}/type"))?.to_lowercase(),
            bytes: size(&self.text(format!("{folder}/size")).ok()?)?,
            line_bytes: self.number(format!("{folder}/coherency_line_size")),
            ways: self.number(format!("{folder}/ways_of_associativity")).filter(|&ways| ways > 0),
            shared_by: sharers.len(),
            count: 1,
        };
        Some((cache, sharers))
    }

    /// `/sys/devices/system/cpu/cpu*/cpufreq`, `cpufreq/boost` and `intel_pstate/no_turbo`.
    pub fn frequency(&self, topology: &Topology) -> Frequency {
        let mut governors: BTreeMap<String, CpuSet> = BTreeMap::new();
        let mut frequency = Frequency::default();
        for cpu in &topology.online {
            let folder = format!("{CPU}/cpu{cpu}/cpufreq");
            if let Some(name) = self.text_if_any(format!("{folder}/scaling_governor")) {
                governors.entry(name).or_default().insert(cpu);
            }
            let max: Option<u64> = self.number(format!("{folder}/cpuinfo_max_freq"));
            frequency.max_khz = frequency.max_khz.max(max);
            if frequency.driver.is_none() {
                frequency.driver = self.text_if_any(format!("{folder}/scaling_driver"));
            }
        }
        let no_turbo: Option<u32> = self.number(format!("{CPU}/intel_pstate/no_turbo"));
        let boost: Option<u32> = self.number(format!("{CPU}/cpufreq/boost"));
        frequency.boost = boost.map(|on| on != 0).or(no_turbo.map(|off| off == 0));
        frequency.governors =
            governors.into_iter().map(|(name, cpus)| Governor { name, cpus }).collect();
        if frequency.driver.is_none() {
            frequency.why = Some("no cpufreq driver".to_owned());
        }
        frequency
    }

    /// `/sys/devices/system/cpu/smt`.
    pub fn smt(&self, topology: &Topology) -> Smt {
        let threads = topology.cpus.iter().map(|cpu| cpu.siblings.len()).max().unwrap_or(1);
        let active: Option<u32> = self.number(format!("{CPU}/smt/active"));
        Smt {
            active: active.map_or(threads > 1, |active| active != 0),
            control: self.text_if_any(format!("{CPU}/smt/control")),
            threads_per_core: threads,
        }
    }
}

fn processor(cpuinfo: &str) -> Processor {
    let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
    // An empty line ends an entry; what only the last entry has (older Arm, POWER) is in none.
    for line in cpuinfo.lines().take_while(|line| !line.trim().is_empty()) {
        if let Some((key, value)) = line.split_once(':') {
            fields.entry(key.trim()).or_insert(value.trim());
        }
    }
    let field = |names: &[&str]| {
        let value =
            names.iter().find_map(|name| fields.get(name)).filter(|value| !value.is_empty());
        value.map(|&value| value.to_owned())
    };
    let arm_revision = match (field(&["CPU variant"]), field(&["CPU revision"])) {
        (Some(variant), Some(revision)) => Some(format!("variant {variant} revision {revision}")),
        _ => None,
    };
    Processor {
        vendor: field(&["vendor_id", "CPU implementer", "mvendorid", "vendor"]),
        model_name: field(&["model name", "cpu", "uarch", "Processor"]),
        family: field(&["cpu family"]),
        model: field(&["model", "CPU part", "marchid"]),
        stepping: field(&["stepping"]).or(arm_revision),
        microcode: field(&["microcode"]),
        hypervisor_flag: fields
            .get("flags")
            .map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor")),
    }
}

/// `32K`, `16M`.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match &text[digits..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_and_arm_name_themselves_differently() {
        let x86 = processor(
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
             model name\t: Intel(R) Xeon(R)\nstepping\t: 8\nmicrocode\t: 0x2b000590\n\
             flags\t\t: fpu hypervisor\n\nprocessor\t: 1\nvendor_id\t: other\n",
        );
        assert_eq!(x86.vendor.as_deref(), Some("GenuineIntel"));
        assert_eq!(x86.model_name.as_deref(), Some("Intel(R) Xeon(R)"));
        assert_eq!(x86.model.as_deref(), Some("143"));
        assert_eq!(x86.microcode.as_deref(), Some("0x2b000590"));
        assert_eq!(x86.hypervisor_flag, Some(true));
        let arm = processor(
            "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\n\
             CPU part\t: 0xd0c\nCPU revision\t: 1\n",
        );
        assert_eq!(arm.vendor.as_deref(), Some("0x41"));
        assert_eq!((arm.model_name, arm.model.as_deref()), (None, Some("0xd0c")));
        assert_eq!(arm.stepping.as_deref(), Some("variant 0x3 revision 1"));
        assert_eq!(arm.hypervisor_flag, None);
        assert_eq!(processor(""), Processor::default());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("32K"), Some(32 << 10));
        assert_eq!(size("16M"), Some(16 << 20));
        assert_eq!(size("512"), Some(512));
        assert_eq!(size("12X"), None);
        assert_eq!(size(""), None);
        assert_eq!(size("99999999999999999999K"), None);
    }
}
