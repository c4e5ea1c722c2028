//! Common events of Arm's PMUv3: which of them a PMU implements.
//!
//! PMCEID, the PMU's own bitmap of common events, is read by the kernel alone. The driver names in sysfs the
//! common events that have their bit set, and takes a raw code without asking: a code that is not implemented
//! counts 0. So a code that the driver has a name for, and that it does not name here, is not implemented.

use std::ops::RangeInclusive;

use crate::Pmu;

/// Bits of `config` that are the code: `event` in `format`.
const EVENT_FORMAT: &str = "config:0-15";
const EVENT_MASK: u64 = 0xffff;
/// Codes that drivers have names for since they expose common events.
const NAMED: [RangeInclusive<u64>; 2] = [0..=0x1d, 0x1f..=0x30];
/// Codes that those of Linux 5.17 have names for besides.
const NAMED_LATER: [RangeInclusive<u64>; 5] =
    [0x31..=0x3f, 0x4004..=0x4006, 0x4009..=0x400b, 0x4020..=0x4022, 0x4024..=0x4026];
/// The term that drivers have from Linux 5.17 on.
const LATER: &str = "rdpmc";

impl Pmu {
    /// The code of the common event of Arm's PMUv3 that `config` selects, if this PMU does not implement
    /// it. `None`: it does, or the kernel does not say.
    #[must_use]
    pub fn not_implemented(&self, config: u64) -> Option<u64> {
        let is_pmuv3 = ["armv8_", "armv9_"].iter().any(|prefix| self.name.starts_with(prefix))
            && self.is_core()
            && self.format.get("event").is_some_and(|format| format == EVENT_FORMAT);
        // Without any name, the folder could not be read.
        if !is_pmuv3 || self.events.is_empty() {
            return None;
        }
        let code = config & EVENT_MASK;
        let later: &[_] = if self.format.contains_key(LATER) { &NAMED_LATER } else { &[] };
        let has_name = NAMED.iter().chain(later).any(|codes| codes.contains(&code));
        let is_named = self.events.values().any(|event| code_of(&event.terms) == Some(code));
        (has_name && !is_named).then_some(code)
    }
}

/// The code of `event=0x0011`.
fn code_of(terms: &str) -> Option<u64> {
    let value = terms.split(',').find_map(|term| term.trim().strip_prefix("event="))?;
    u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}
