//! Which CPUs a list is for, by its own words.

use std::fmt;

use pmuscope_machine::Midr;
use serde::{Deserialize, Serialize};

/// The CPUs that a file is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MadeFor {
    /// It does not say.
    #[default]
    Any,
    /// CPUs of x86.
    X86 {
        /// The vendor as CPUID spells it, where the file names one.
        vendor: Option<String>,
    },
    /// Arm cores.
    Arm {
        /// In the vendor's words: `Cortex-R82`.
        name: Option<String>,
        /// The cores; none: any that has this architecture.
        products: Vec<Product>,
    },
}

/// An Arm core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// Implementer, as in `/proc/cpuinfo`.
    pub implementer: u64,
    /// Part number, as there.
    pub part: u64,
    /// Variant and revision that the file describes, the 3 and 1 of r3p1, where it says so.
    pub revision: Option<(u64, u64)>,
}

impl Product {
    /// Whether a core is one of this product.
    pub(super) fn is(&self, midr: Midr) -> bool {
        (self.implementer, self.part) == (midr.implementer, midr.part)
    }

    /// Of a CPU id as Arm's machine-readable lists have it: implementer and part (`0x41d0c`), with the
    /// variant between them (`0x413d0c`), or the whole register (`0x413fd0c1`).
    pub(super) fn of_cpu_id(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix("0x")?;
        let id = crate::terms::parse(digits, 16)?;
        match digits.len() {
            5 => Some(Self { implementer: id >> 12, part: id & 0xfff, revision: None }),
            6 => {
                let revision = Some((id >> 12 & 0xf, 0));
                Some(Self { implementer: id >> 16, part: id & 0xfff, revision })
            }
            8 => {
                let Midr { implementer, part, variant, revision } = Midr::of_register(id);
                Some(Self { implementer, part, revision: Some((variant, revision)) })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "implementer {:#x} part {:#x}", self.implementer, self.part)?;
        self.revision.map_or(Ok(()), |(variant, revision)| write!(f, " r{variant}p{revision}"))
    }
}

impl fmt::Display for MadeFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any CPU"),
            Self::X86 { vendor } => f.write_str(vendor.as_deref().unwrap_or("x86 CPUs")),
            Self::Arm { name, products } => {
                f.write_str(name.as_deref().unwrap_or("Arm cores"))?;
                match products.first() {
                    Some(first) => write!(f, " ({first})"),
                    None => Ok(()),
                }
            }
        }
    }
}
