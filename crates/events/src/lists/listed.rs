//! An event as a list has it.

use pmuscope_machine::Pmu;
use serde::{Deserialize, Serialize};

use crate::pmu;
use crate::schedule::Constraint;

/// Intel's registers of offcore response, two with the same meaning.
pub(super) const OFFCORE: [u32; 2] = [0x1a6, 0x1a7];
/// The threshold of load latency, which only PEBS looks at.
pub(super) const LOAD_LATENCY: u32 = 0x3f6;
/// What frontend events are about.
pub(super) const FRONTEND: u32 = 0x3f7;

/// Whether samples of an event can name the very instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Precision {
    /// No.
    #[default]
    No,
    /// If asked for.
    Can,
    /// It exists with precise sampling only.
    Must,
}

/// An event of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The name, spelled as the vendor does.
    #[serde(rename = "n")]
    pub name: String,
    /// The unit without its number (`uncore_cbox`), or a kind of core (`cpu_atom`); `None`: any core.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Terms of the unit: `event=0x24,umask=0x21`.
    #[serde(rename = "t")]
    pub terms: String,
    /// What it counts, in a line; may be empty.
    #[serde(rename = "b", default, skip_serializing_if = "String::is_empty")]
    pub brief: String,
    /// The same at length, where there is more to say.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub long: Option<String>,
    /// What it needs to be counted.
    #[serde(rename = "c")]
    pub constraint: Constraint,
    /// Whether samples can be precise.
    #[serde(rename = "p", default)]
    pub precision: Precision,
    /// The period that the vendor recommends for sampling, in events.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
    /// Registers of a uncore box that select what is counted, in the vendor's words.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Known faults, in the vendor's words.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub errata: Option<String>,
    /// The vendor has another name for it by now.
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}

/// Why an event of a list cannot be counted on a unit that is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCountable {
    /// Its threshold is looked at by precise sampling only; a counter would stay at zero.
    #[error("needs a PEBS threshold: for sampling only (record -e {0}:pp), its count stays 0")]
    PebsThreshold(String),
    /// It needs a register for which the kernel has no term.
    #[error(
        "needs register {register:#x}, for which {unit} has no term{}",
        term.map_or_else(String::new, |term| format!(" (it would be {term})"))
    )]
    Register {
        /// The register.
        register: u32,
        /// The unit.
        unit: String,
        /// The term that other kernels have for it.
        term: Option<&'static str>,
    },
}

impl Listed {
    /// Whether `other` is the same event for counting.
    pub(super) fn counts_like(&self, other: &Self) -> bool {
        self.unit == other.unit && self.terms == other.terms
    }

    /// Whether it is an event of `pmu`.
    #[must_use]
    pub fn is_of(&self, pmu: &Pmu) -> bool {
        match &self.unit {
            Some(unit) => pmu::is_meant(pmu, unit),
            None => pmu.is_core(),
        }
    }

    /// Whether `pmu` counts it, as far as the list tells.
    ///
    /// # Errors
    /// [`NotCountable`], the reason.
    pub fn countable_on(&self, pmu: &Pmu) -> Result<(), NotCountable> {
        let Some(extra) = &self.constraint.extra else { return Ok(()) };
        let Some(&register) = extra.registers.first() else { return Ok(()) };
        if register == LOAD_LATENCY {
            return Err(NotCountable::PebsThreshold(self.name.clone()));
        }
        match term_of(register) {
            Some(term) if pmu.format.contains_key(term) => Ok(()),
            term => Err(NotCountable::Register { register, unit: pmu.name.clone(), term }),
        }
    }
}

/// The kernel's name for a register of an Intel core.
pub(super) fn term_of(register: u32) -> Option<&'static str> {
    match register {
        LOAD_LATENCY => Some("ldlat"),
        FRONTEND => Some("frontend"),
        _ if OFFCORE.contains(&register) => Some("offcore_rsp"),
        _ => None,
    }
}
