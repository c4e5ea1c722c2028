//! Entries of Intel's lists (<https://github.com/intel/perfmon>), of the kernel's, which have the same
//! keys, and of `perf list -j`.

use serde::Deserialize;

use super::file::{limited, nonzero, number, text};
use super::listed::{FRONTEND, LOAD_LATENCY, Listed, OFFCORE, Precision, term_of};
use crate::schedule::{Constraint, Extra};

/// Longer names are no events, bytes.
const LONGEST_NAME: usize = 256;
/// Longer descriptions are cut, bytes.
const LONGEST_TEXT: usize = 16 << 10;
/// More registers than any event can choose from.
const MOST_REGISTERS: usize = 8;
/// Fixed counters are counted from here where all counters are in one list.
const FIRST_FIXED: u32 = 32;

/// What is looked at in an entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct IntelEntry {
    #[serde(deserialize_with = "text")]
    event_name: Option<String>,
    #[serde(deserialize_with = "text")]
    event_code: Option<String>,
    #[serde(deserialize_with = "text")]
    config_code: Option<String>,
    #[serde(rename = "UMask", deserialize_with = "text")]
    umask: Option<String>,
    #[serde(rename = "UMaskExt", deserialize_with = "text")]
    umask_ext: Option<String>,
    #[serde(deserialize_with = "text")]
    counter_mask: Option<String>,
    #[serde(deserialize_with = "text")]
    invert: Option<String>,
    #[serde(deserialize_with = "text")]
    edge_detect: Option<String>,
    #[serde(deserialize_with = "text")]
    any_thread: Option<String>,
    #[serde(deserialize_with = "text")]
    port_mask: Option<String>,
    #[serde(rename = "FCMask", deserialize_with = "text")]
    fc_mask: Option<String>,
    #[serde(deserialize_with = "text")]
    ext_sel: Option<String>,
    #[serde(deserialize_with = "text")]
    filter: Option<String>,
    #[serde(deserialize_with = "text")]
    counter: Option<String>,
    #[serde(rename = "CounterHTOff", deserialize_with = "text")]
    counter_ht_off: Option<String>,
    #[serde(rename = "PEBS", deserialize_with = "text")]
    pebs: Option<String>,
    #[serde(deserialize_with = "text")]
    precise: Option<String>,
    #[serde(deserialize_with = "text")]
    taken_alone: Option<String>,
    #[serde(rename = "MSRIndex", deserialize_with = "text")]
    msr_index: Option<String>,
    #[serde(rename = "MSRValue", deserialize_with = "text")]
    msr_value: Option<String>,
    #[serde(deserialize_with = "text")]
    sample_after_value: Option<String>,
    #[serde(deserialize_with = "text")]
    unit: Option<String>,
    #[serde(deserialize_with = "text")]
    deprecated: Option<String>,
    #[serde(deserialize_with = "text")]
    errata: Option<String>,
    #[serde(deserialize_with = "text")]
    brief_description: Option<String>,
    #[serde(deserialize_with = "text")]
    public_description: Option<String>,
    /// `perf list -j` only: `cpu/event=0x3c/`.
    #[serde(deserialize_with = "text")]
    encoding: Option<String>,
}

impl IntelEntry {
    /// Whether only CPUs of x86 have events like this one.
    pub(super) fn is_of_x86(&self) -> bool {
        let of_core = |encoding: &String| {
            encoding.starts_with("cpu") && encoding.contains("umask=") && encoding.contains('/')
        };
        let has_field = [&self.umask, &self.counter, &self.counter_ht_off, &self.msr_index];
        has_field.into_iter().any(Option::is_some) || self.encoding.as_ref().is_some_and(of_core)
    }

    /// The event; `None` for what is none: a metric, a row of a table of masks, a name of the kernel's.
    pub(super) fn event(self) -> Option<Listed> {
        let name = self.event_name.clone().filter(|name| is_name(name))?;
        let (unit, terms) = match &self.encoding {
            Some(encoding) => encoded(encoding)?,
            None => (self.unit.as_deref().map(unit_name), self.terms(&name)?),
        };
        let is_core = unit.is_none() || unit.as_deref().is_some_and(|unit| unit.starts_with("cpu"));
        let brief = self.brief_description.clone();
        let long = self.public_description.clone();
        let (brief, long) = match (brief, long) {
            (Some(brief), Some(long)) if brief != long => (brief, Some(long)),
            (Some(one), _) | (None, Some(one)) => (one, None),
            (None, None) => (String::new(), None),
        };
        Some(Listed {
            constraint: self.constraint(is_core, &terms),
            precision: self.precision(),
            period: nonzero(self.sample_after_value.as_ref()),
            filter: self.filter.filter(|filter| filter != "na" && filter != "0"),
            errata: self.errata.filter(|errata| errata != "0"),
            deprecated: nonzero(self.deprecated.as_ref()).is_some(),
            brief: limited(brief, LONGEST_TEXT),
            long: long.map(|long| limited(long, LONGEST_TEXT)),
            name,
            unit,
            terms,
        })
    }

    /// Terms as the kernel names them (`/sys/bus/event_source/devices/*/format`).
    fn terms(&self, name: &str) -> Option<String> {
        let code = number(self.event_code.as_ref().or(self.config_code.as_ref())?)?;
        let code = code | number_of(self.ext_sel.as_ref()) << 8;
        let umask = number_of(self.umask.as_ref())
            | number_of(self.umask_ext.as_ref()).checked_shl(8).unwrap_or(0);
        let (code, umask) = programmable(name, code, umask, self.fixed());
        let mut terms = format!("event={code:#x}");
        let mut push = |term: &str, value: Option<u64>| {
            if let Some(value) = value {
                terms.push_str(&format!(",{term}={value:#x}"));
            }
        };
        push("umask", Some(umask).filter(|&umask| umask != 0));
        push("cmask", nonzero(self.counter_mask.as_ref()));
        push("inv", nonzero(self.invert.as_ref()));
        push("edge", nonzero(self.edge_detect.as_ref()));
        push("any", nonzero(self.any_thread.as_ref()));
        push("ch_mask", nonzero(self.port_mask.as_ref()));
        push("fc_mask", nonzero(self.fc_mask.as_ref()));
        if let Some(extra) = self.extra()
            && let Some(term) = extra.registers.first().and_then(|&register| term_of(register))
        {
            push(term, Some(extra.value));
        }
        Some(terms)
    }

    /// The fixed counter, where it names one.
    fn fixed(&self) -> Option<u32> {
        let text = self.counter.as_ref()?.to_ascii_lowercase();
        text.strip_prefix("fixed counter")?.trim().parse().ok()
    }

    fn constraint(&self, is_core: bool, terms: &str) -> Constraint {
        let now = self.counter.as_deref().and_then(counters);
        let off = self.counter_ht_off.as_deref().and_then(counters).or(now);
        let (general, fixed) = off.unwrap_or((u32::MAX, 0));
        let shared = now.map(|(general, _)| general).filter(|&shared| shared != general);
        // Instructions and cycles have their fixed counter, and any general one counts them too.
        let (general, shared) = if is_core && matches!(fixed, 0b01 | 0b10) {
            (u32::MAX, None)
        } else {
            (general, shared)
        };
        Constraint {
            general,
            general_smt: shared,
            fixed,
            alone: nonzero(self.taken_alone.as_ref()).is_some(),
            extra: self.extra().or_else(|| extra_of(terms)),
        }
    }

    fn extra(&self) -> Option<Extra> {
        let registers: Vec<u32> = self
            .msr_index
            .as_ref()?
            .split(',')
            .take(MOST_REGISTERS)
            .filter_map(|text| u32::try_from(number(text)?).ok().filter(|&register| register != 0))
            .collect();
        let value = number_of(self.msr_value.as_ref());
        (!registers.is_empty()).then_some(Extra { registers, value })
    }

    fn precision(&self) -> Precision {
        let threshold = |extra: Extra| extra.registers.contains(&LOAD_LATENCY);
        match (number_of(self.pebs.as_ref()), nonzero(self.precise.as_ref())) {
            (2, _) => Precision::Must,
            _ if self.extra().is_some_and(threshold) => Precision::Must,
            (1, _) | (_, Some(_)) => Precision::Can,
            _ => Precision::No,
        }
    }
}

/// The register that is among the terms: `perf list -j` names no registers.
fn extra_of(terms: &str) -> Option<Extra> {
    let named = |name: &str, registers: &[u32]| {
        let mut values = terms.split(',').filter_map(|term| term.trim().split_once('='));
        let value = values.find_map(|(term, value)| (term == name).then(|| number(value))?)?;
        (value != 0).then(|| Extra { registers: registers.to_vec(), value })
    };
    named("offcore_rsp", &OFFCORE)
        .or_else(|| named("ldlat", &[LOAD_LATENCY]))
        .or_else(|| named("frontend", &[FRONTEND]))
}

fn number_of(text: Option<&String>) -> u64 {
    text.and_then(|text| number(text)).unwrap_or(0)
}

/// A name that can be typed: no white space, no separator of the grammar.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| !c.is_whitespace() && !c.is_control() && !",/{}=".contains(c);
    name.len() <= LONGEST_NAME && name.chars().all(fits) && !name.is_empty()
}

/// General and fixed counters of `0,1,2,3`, `Fixed counter 1`, `32`; `None` where it says nothing that
/// is known.
fn counters(text: &str) -> Option<(u32, u32)> {
    let text = text.to_ascii_lowercase();
    if let Some(fixed) = text.strip_prefix("fixed counter") {
        let number: u32 = fixed.trim().parse().ok()?;
        return Some((0, 1_u32.checked_shl(number)?));
    }
    let (mut general, mut fixed) = (0, 0);
    for number in text.split(',') {
        let number: u32 = number.trim().parse().ok()?;
        match number.checked_sub(FIRST_FIXED) {
            Some(number) => fixed |= 1_u32.checked_shl(number)?,
            None => general |= 1 << number,
        }
    }
    Some((general, fixed))
}

/// The code of a fixed counter's event as general counters have it, by which the kernel knows it:
/// lists have pseudo codes for instructions and cycles.
fn programmable(name: &str, code: u64, umask: u64, fixed: Option<u32>) -> (u64, u64) {
    let precise_distribution = name.to_ascii_lowercase().contains("prec_dist");
    match (code, umask, fixed) {
        (0, 1, Some(0)) if !precise_distribution => (0xc0, 0),
        (0, 2, Some(1)) => (0x3c, 0),
        _ => (code, umask),
    }
}

/// How the kernel calls the unit that a list calls `CBO`, `iMC`, `QPI LL`; a name of the kernel's stays. Messages have
/// it as it is, so it is one line.
fn unit_name(unit: &str) -> String {
    let unit = &unit.replace(char::is_control, "?");
    let lower = unit.trim().to_ascii_lowercase();
    let box_of = |name: &str| format!("uncore_{name}");
    match lower.as_str() {
        "cbo" => box_of("cbox"),
        "qpi ll" => box_of("qpi"),
        "sbo" => box_of("sbox"),
        "upi ll" => box_of("upi"),
        "imph-u" => box_of("arb"),
        "l3pmc" => "amd_l3".to_owned(),
        "dfpmc" => "amd_df".to_owned(),
        "umcpmc" => "amd_umc".to_owned(),
        _ if lower == unit.trim() && lower.contains('_') => lower,
        _ => box_of(&lower.replace(' ', "_")),
    }
}

/// Unit and terms of `uncore_imc_0/event=0x4,umask=0x3/`; an event that is no unit's has none.
fn encoded(encoding: &str) -> Option<(Option<String>, String)> {
    let (unit, rest) = encoding.split_once('/')?;
    let (terms, _) = rest.split_once('/')?;
    let unit = (unit != "cpu" && !unit.is_empty()).then(|| unit.replace(char::is_control, "?"));
    (!terms.is_empty()).then(|| (unit, terms.to_owned()))
}
