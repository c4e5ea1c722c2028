//! Which lists are for this CPU.

use std::fmt;

use pmuscope_machine::{Machine, Midr, Pmu, Processor};
use regex::Regex;

use super::made_for::{MadeFor, Product};

/// A CPU as lists name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// `GenuineIntel-6-3F-2`: vendor, family (decimal), model and stepping (hexadecimal).
    X86 {
        /// `GenuineIntel`.
        vendor: String,
        /// Family.
        family: u32,
        /// Model.
        model: u32,
        /// Stepping.
        stepping: Option<u32>,
    },
    /// Arm cores: every kind that the CPU has.
    Arm(Vec<ArmKind>),
    /// Any other: in the words of `/proc/cpuinfo`.
    Other(String),
}

/// A kind of Arm cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmKind {
    /// What they are.
    pub midr: Midr,
    /// The unit that counts on them, where a CPU has several.
    pub unit: Option<String>,
}

/// Cores of this CPU that a list is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fit {
    /// Their unit; `None`: all cores.
    pub(super) unit: Option<String>,
    /// The product of the list and what the cores are, where the list names products.
    pub(super) product: Option<(Product, Midr)>,
}

impl Identity {
    /// Of the CPU of `machine`.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let cores = machine.arm_cores();
        if cores.is_empty() {
            return Self::of_processor(&machine.processor());
        }
        let units: Vec<Pmu> = machine.pmus().unwrap_or_default();
        let units: Vec<&Pmu> = units.iter().filter(|pmu| pmu.is_core()).collect();
        let kinds = cores.into_iter().map(|core| {
            let has = |pmu: &&&Pmu| {
                let first = core.cpus.first();
                first.is_some_and(|cpu| pmu.cpus.as_ref().is_some_and(|cpus| cpus.contains(cpu)))
            };
            let unit = units.iter().filter(|_| units.len() > 1).find(has);
            ArmKind { midr: core.midr, unit: unit.map(|pmu| pmu.name.clone()) }
        });
        let mut found: Vec<ArmKind> = Vec::new();
        kinds.for_each(|kind| {
            if !found.contains(&kind) {
                found.push(kind);
            }
        });
        Self::Arm(found)
    }

    fn of_processor(processor: &Processor) -> Self {
        let decimal = |text: &Option<String>| text.as_deref()?.parse().ok();
        let x86 = || {
            Some(Self::X86 {
                vendor: processor.vendor.clone()?,
                family: decimal(&processor.family)?,
                model: decimal(&processor.model)?,
                stepping: decimal(&processor.stepping),
            })
        };
        let words = [&processor.vendor, &processor.model_name, &processor.model];
        x86().unwrap_or_else(|| {
            let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
            let unknown = || "of an unknown kind".to_owned();
            Self::Other(if words.is_empty() { unknown() } else { words.join(" ") })
        })
    }

    /// Whether the pattern of a `mapfile.csv` means this CPU; patterns of Arm cores are the least MIDR_EL1,
    /// as the kernel has it.
    pub(super) fn matches(&self, pattern: &str) -> bool {
        match self {
            Self::X86 { vendor, family, model, stepping } => {
                let Ok(pattern) = Regex::new(&format!("(?i)^(?:{pattern})$")) else { return false };
                let short = format!("{vendor}-{family}-{model:X}");
                let long = stepping.map(|stepping| format!("{short}-{stepping:X}"));
                long.into_iter().chain([short]).any(|name| pattern.is_match(&name))
            }
            Self::Arm(kinds) => {
                let least = pattern.strip_prefix("0x").and_then(|hex| crate::terms::parse(hex, 16));
                let Some(least) = least.map(Midr::of_register) else { return false };
                kinds.iter().any(|ArmKind { midr, .. }| {
                    (midr.implementer, midr.part) == (least.implementer, least.part)
                        && (midr.variant, midr.revision) >= (least.variant, least.revision)
                })
            }
            Self::Other(_) => false,
        }
    }

    /// The cores of this CPU that a list is for; none where it is for another CPU.
    pub(super) fn fits(&self, made_for: &MadeFor) -> Vec<Fit> {
        let any = || vec![Fit { unit: None, product: None }];
        match (self, made_for) {
            (_, MadeFor::Any) => any(),
            (Self::X86 { vendor, .. }, MadeFor::X86 { vendor: of }) => {
                if of.as_ref().is_none_or(|of| of == vendor) { any() } else { Vec::new() }
            }
            (Self::Arm(_), MadeFor::Arm { products, .. }) if products.is_empty() => any(),
            (Self::Arm(kinds), MadeFor::Arm { products, .. }) => {
                let fit = |kind: &ArmKind| {
                    let product = products.iter().find(|product| product.is(kind.midr))?;
                    let product = Some((product.clone(), kind.midr));
                    Some(Fit { unit: kind.unit.clone(), product })
                };
                kinds.iter().filter_map(fit).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86 { vendor, family, model, stepping } => {
                write!(f, "{vendor}-{family}-{model:X}")?;
                stepping.map_or(Ok(()), |stepping| write!(f, "-{stepping:X}"))
            }
            Self::Arm(kinds) => {
                for (at, ArmKind { midr, .. }) in kinds.iter().enumerate() {
                    let Midr { implementer, part, variant, revision } = midr;
                    let and = if at == 0 { "" } else { " and " };
                    write!(
                        f,
                        "{and}Arm implementer {implementer:#x} part {part:#x} r{variant}p{revision}"
                    )?;
                }
                Ok(())
            }
            Self::Other(words) => f.write_str(words),
        }
    }
}

/// One line of `mapfile.csv`: a pattern of CPUs, and the file (or the folder) that describes them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Mapped {
    pub(super) pattern: String,
    /// Below the folder of all lists, without a slash in front.
    pub(super) path: String,
    /// Folder of the `mapfile.csv`, with a slash behind, or nothing.
    pub(super) folder: String,
    /// `cpu_core` or `cpu_atom`, where a CPU has several kinds of cores.
    pub(super) unit: Option<String>,
}

/// Lines of a `mapfile.csv`: `Family-model,Version,Filename,EventType,Core Type,Native Model
/// ID,Core Role Name`, of which the last three may be missing. `folder` is where it lies, with a slash
/// behind, or nothing.
pub(super) fn mapfile(text: &str, folder: &str) -> Vec<Mapped> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("Family-model"))
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let (&pattern, &path) = (fields.first()?, fields.get(2)?);
            let unit = match fields.get(6).copied() {
                Some("Core") => Some("cpu_core".to_owned()),
                Some("Atom") => Some("cpu_atom".to_owned()),
                _ => None,
            };
            let path = path.trim_start_matches('/');
            (!pattern.is_empty() && !path.is_empty()).then(|| Mapped {
                pattern: pattern.to_owned(),
                path: format!("{folder}{path}"),
                folder: folder.to_owned(),
                unit,
            })
        })
        .collect()
}

impl Mapped {
    /// Whether this line is about the file at `path`.
    pub(super) fn is_about(&self, path: &str) -> bool {
        path == self.path || path.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('/'))
    }
}
