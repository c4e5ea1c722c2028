//! What Arm cores say of themselves, each kind of a CPU with several.

use serde::Serialize;

use crate::{CpuSet, Machine};

const CPUS: &str = "sys/devices/system/cpu";
/// `/proc/cpuinfo` of thousands of CPUs, bytes.
const LARGEST_CPUINFO: u64 = 8 << 20;

/// An Arm core's identity: its register MIDR_EL1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Midr {
    /// Who makes it: 0x41 is Arm.
    pub implementer: u64,
    /// Number of the part: 0xd0c is Neoverse N1.
    pub part: u64,
    /// The 3 of r3p1.
    pub variant: u64,
    /// The 1 of r3p1.
    pub revision: u64,
}

/// CPUs of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArmCore {
    /// What they are.
    pub midr: Midr,
    /// Which CPUs.
    pub cpus: CpuSet,
}

impl Midr {
    /// Of the register.
    #[must_use]
    pub fn of_register(value: u64) -> Self {
        Self {
            implementer: value >> 24 & 0xff,
            part: value >> 4 & 0xfff,
            variant: value >> 20 & 0xf,
            revision: value & 0xf,
        }
    }
}

impl Machine {
    /// Kinds of Arm cores, in the order of their first CPUs: `cpu*/regs/identification/midr_el1` in sysfs,
    /// else `/proc/cpuinfo`. None on other machines.
    #[must_use]
    pub fn arm_cores(&self) -> Vec<ArmCore> {
        let mut all = self.registers();
        if all.is_empty() {
            all = self.cpuinfo();
        }
        let mut cores: Vec<ArmCore> = Vec::new();
        for (cpu, midr) in all {
            match cores.iter_mut().find(|core| core.midr == midr) {
                Some(core) => {
                    core.cpus.insert(cpu);
                }
                None => cores.push(ArmCore { midr, cpus: [cpu].into_iter().collect() }),
            }
        }
        cores
    }

    fn registers(&self) -> Vec<(u32, Midr)> {
        let cpus = self.numbered(CPUS, "cpu").unwrap_or_default();
        let register = |cpu: u32| {
            let text = self.text(format!("{CPUS}/cpu{cpu}/regs/identification/midr_el1")).ok()?;
            Some((cpu, Midr::of_register(hexadecimal(&text)?)))
        };
        cpus.into_iter().filter_map(register).collect()
    }

    fn cpuinfo(&self) -> Vec<(u32, Midr)> {
        let text = self.beginning("proc/cpuinfo", LARGEST_CPUINFO).unwrap_or_default();
        text.split("\n\n").filter_map(of_entry).collect()
    }
}

fn of_entry(entry: &str) -> Option<(u32, Midr)> {
    let field = |name: &str| {
        let mut lines = entry.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let midr = Midr {
        implementer: hexadecimal(field("CPU implementer")?)?,
        part: hexadecimal(field("CPU part")?)?,
        variant: hexadecimal(field("CPU variant")?)?,
        revision: field("CPU revision")?.parse().ok()?,
    };
    Some((field("processor")?.parse().ok()?, midr))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
