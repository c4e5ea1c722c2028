//! Which lists are for this CPU.

use std::fmt;

use pmuscope_machine::Processor;
use regex::Regex;

use super::read::Product;

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
    /// An Arm core.
    Arm(Product),
}

impl Identity {
    /// Of the processor that `/proc/cpuinfo` describes; `None` if it says too little.
    #[must_use]
    pub fn of(processor: &Processor) -> Option<Self> {
        let hex = |text: &Option<String>| {
            u64::from_str_radix(text.as_deref()?.strip_prefix("0x")?, 16).ok()
        };
        if let (Some(implementer), Some(part)) = (hex(&processor.vendor), hex(&processor.model)) {
            return Some(Self::Arm(Product { implementer, part }));
        }
        let decimal = |text: &Option<String>| text.as_deref()?.parse().ok();
        Some(Self::X86 {
            vendor: processor.vendor.clone()?,
            family: decimal(&processor.family)?,
            model: decimal(&processor.model)?,
            stepping: decimal(&processor.stepping),
        })
    }

    /// What patterns of `mapfile.csv` are held against: with the stepping, and without.
    fn names(&self) -> Vec<String> {
        match self {
            Self::X86 { vendor, family, model, stepping } => {
                let short = format!("{vendor}-{family}-{model:X}");
                let long = stepping.map(|stepping| format!("{short}-{stepping:X}"));
                long.into_iter().chain([short]).collect()
            }
            // MIDR_EL1 without variant and revision, as the kernel's own lists have it.
            Self::Arm(Product { implementer, part }) => {
                let midr = implementer << 24 | 0xf << 16 | part << 4;
                vec![format!("0x{midr:016x}")]
            }
        }
    }

    /// Whether the pattern of a `mapfile.csv` means this CPU.
    pub(super) fn matches(&self, pattern: &str) -> bool {
        let Ok(pattern) = Regex::new(&format!("(?i)^(?:{pattern})$")) else { return false };
        self.names().iter().any(|name| pattern.is_match(name))
    }

    /// Whether a list for `product` is for this CPU.
    pub(super) fn is(&self, product: &Product) -> bool {
        matches!(self, Self::Arm(own) if own == product)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86 { .. } => f.write_str(self.names().first().map_or("", String::as_str)),
            Self::Arm(product) => {
                write!(f, "implementer {:#x} part {:#x}", product.implementer, product.part)
            }
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
