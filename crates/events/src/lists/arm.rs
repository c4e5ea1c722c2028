//! Entries of Arm's lists: the telemetry specification of a product
//! (<https://developer.arm.com/documentation/109542>), and the older machine-readable lists.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::file::{limited, number, text};
use super::intel::is_name;
use super::listed::{Listed, Precision};
use crate::schedule::Constraint;

/// Longer descriptions are cut, bytes.
const LONGEST_TEXT: usize = 16 << 10;
/// `CPU_CYCLES`, for which there is a counter of its own.
const CYCLES: u64 = 0x11;
/// Number of the counter of cycles, as for other vendors.
const CYCLE_COUNTER: u8 = 1;

/// `events`: by name, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Events {
    Named(BTreeMap<String, ArmEntry>),
    Listed(Vec<ArmEntry>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ArmEntry {
    #[serde(deserialize_with = "text")]
    name: Option<String>,
    #[serde(deserialize_with = "text")]
    code: Option<String>,
    #[serde(deserialize_with = "text")]
    title: Option<String>,
    #[serde(deserialize_with = "text")]
    description: Option<String>,
    accesses: Option<Vec<String>>,
}

impl Events {
    pub(super) fn events(self) -> Vec<Listed> {
        match self {
            Self::Named(named) => {
                named.into_iter().filter_map(|(name, entry)| entry.event(Some(name))).collect()
            }
            Self::Listed(list) => list.into_iter().filter_map(|entry| entry.event(None)).collect(),
        }
    }
}

impl ArmEntry {
    /// `None` for what no counter counts (trace only), or without a code.
    fn event(self, name: Option<String>) -> Option<Listed> {
        let name = name.or(self.name).filter(|name| is_name(name))?;
        let code = number(self.code.as_ref()?)?;
        if self.accesses.is_some_and(|ways| !ways.iter().any(|way| way == "PMU")) {
            return None;
        }
        let (brief, long) = match (self.title, self.description) {
            (Some(title), long) => (title, long),
            (None, Some(long)) => (long, None),
            (None, None) => (String::new(), None),
        };
        let any = Constraint::any();
        Some(Listed {
            name,
            unit: None,
            terms: format!("event={code:#x}"),
            brief: limited(brief, LONGEST_TEXT),
            long: long.map(|long| limited(long, LONGEST_TEXT)),
            constraint: if code == CYCLES { any.or_fixed(CYCLE_COUNTER) } else { any },
            precision: Precision::No,
            period: None,
            filter: None,
            errata: None,
            deprecated: false,
        })
    }
}
