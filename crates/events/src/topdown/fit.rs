//! Which method of top-down analysis a machine has the events for.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{CYCLES, Category, Meaning, Method, SLOTS_PER_CYCLE, SMT};
use crate::catalog::{Catalog, core_pmus};
use crate::event::Event;
use crate::metrics::Formula;
use crate::resolve::parse;

/// A method and what its variables are on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The method, with those formulas only whose events are all there; of level 2 a category may have none.
    pub method: Method,
    /// Events by their names in formulas.
    pub events: BTreeMap<String, Event>,
    /// Constants by their names.
    pub constants: BTreeMap<String, f64>,
    /// Events that are missing, by the category of level 2 that would need them.
    pub missing: BTreeMap<String, Vec<String>>,
}

/// Why a machine has no method.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unfit {
    /// There is no PMU of a core.
    #[error("no hardware PMU. Try: pmuscope doctor")]
    NoPmu,
    /// Its cores are of several kinds.
    #[error(
        "this CPU has cores of several kinds ({0}) with different slots, and no method covers all \
         of them"
    )]
    Hybrid(String),
    /// Events are missing.
    #[error(
        "{unit} lacks {}, which the closest method ({about}) needs. Try: pmuscope list topdown, or \
         event lists of the CPU's vendor (pmuscope events import)", .missing.join(", ")
    )]
    Missing {
        /// The core's unit.
        unit: String,
        /// The method that misses least, in words.
        about: String,
        /// What it misses for level 1.
        missing: Vec<String>,
    },
}

/// The first of `methods` whose events of level 1 the machine knows; whether the PMU counts them is for the
/// kernel to say. `smt`: cores run two threads.
///
/// # Errors
/// What is missing for the method that misses least.
pub fn fit(methods: &[Method], catalog: &dyn Catalog, smt: bool) -> Result<Fitted, Unfit> {
    let cores = core_pmus(catalog);
    let unit = match &cores[..] {
        [] => return Err(Unfit::NoPmu),
        [unit] => unit,
        several => {
            let names: Vec<&str> = several.iter().map(|unit| &unit.name[..]).collect();
            return Err(Unfit::Hybrid(names.join(", ")));
        }
    };
    let mut constants = BTreeMap::from([(SMT.to_owned(), f64::from(u8::from(smt)))]);
    if let Some(slots) = unit.caps.get("slots").and_then(|text| number(text)) {
        constants.insert(SLOTS_PER_CYCLE.to_owned(), slots);
    }
    let mut nearest: Option<Unfit> = None;
    for method in methods {
        let mut fitting =
            Fitting { method, catalog, constants: &constants, known: BTreeMap::new() };
        let mut missing: Vec<String> = Vec::new();
        for category in method.level_1() {
            missing.extend(fitting.missing(category));
        }
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            return Ok(fitting.fitted());
        }
        let fewer = match &nearest {
            Some(Unfit::Missing { missing: known, .. }) => missing.len() < known.len(),
            _ => true,
        };
        // What a method of another vendor misses tells nobody anything.
        if fewer && method.name.starts_with(vendor(&unit.name)) {
            let (unit, about) = (unit.name.clone(), method.about.clone());
            nearest = Some(Unfit::Missing { unit, about, missing });
        }
    }
    Err(nearest.unwrap_or_else(|| Unfit::Missing {
        unit: unit.name.clone(),
        about: "top-down analysis".to_owned(),
        missing: vec!["slots events".to_owned()],
    }))
}

/// How methods for units of that name begin.
fn vendor(unit: &str) -> &'static str {
    if unit.starts_with("arm") { "arm" } else { "intel" }
}

/// `8`, `0x0000000a`; 0 is no number of slots.
fn number(text: &str) -> Option<f64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.filter(|number| *number > 0).map(f64::from)
}

struct Fitting<'a> {
    method: &'a Method,
    catalog: &'a dyn Catalog,
    constants: &'a BTreeMap<String, f64>,
    /// Events that were looked up.
    known: BTreeMap<String, Option<Event>>,
}

impl Fitting<'_> {
    /// What the formula of a category that misses least does not find here.
    fn missing(&mut self, category: &Category) -> Vec<String> {
        let all: Vec<Vec<String>> =
            category.formulas.iter().map(|formula| self.missing_of(formula)).collect();
        all.into_iter().min_by_key(Vec::len).unwrap_or_default()
    }

    fn missing_of(&mut self, formula: &Formula) -> Vec<String> {
        let mut missing = Vec::new();
        for variable in formula.variables() {
            let name = &variable.event[..];
            match self.method.meaning(name) {
                Meaning::Constant if self.constants.contains_key(name) => {}
                Meaning::Constant => missing.push(format!("{name} (caps/slots in sysfs)")),
                Meaning::Event if self.event(name).is_some() => {}
                Meaning::Event => missing.push(name.to_owned()),
                // Parts follow their whole in the text, so there is an end.
                Meaning::Category(other) => missing.extend(self.missing(&other.clone())),
            }
        }
        missing
    }

    fn event(&mut self, name: &str) -> Option<&Event> {
        let catalog = self.catalog;
        let find = || {
            let mut events = parse(name, catalog).ok()?.into_iter().flat_map(|group| group.events);
            // What is on several units is none of the core's.
            events.next().filter(|_| events.next().is_none())
        };
        self.known.entry(name.to_owned()).or_insert_with(find).as_ref()
    }

    fn fitted(mut self) -> Fitted {
        let mut method = self.method.clone();
        let mut missing = BTreeMap::new();
        for category in &mut method.categories {
            let without = self.missing(category);
            category.formulas.retain(|formula| self.missing_of(formula).is_empty());
            if !without.is_empty() {
                missing.insert(category.name.clone(), without);
            }
        }
        self.event(CYCLES);
        let events = self.known.into_iter().filter_map(|(name, event)| Some((name, event?)));
        let (events, constants) = (events.collect(), self.constants.clone());
        Fitted { method, events, constants, missing }
    }
}

impl Fitted {
    /// Names of the events that a category is computed from, each once: those of other categories too.
    #[must_use]
    pub fn events_of(&self, category: &str) -> Vec<String> {
        let mut names = Vec::new();
        self.collect(category, &mut names);
        names
    }

    fn collect(&self, category: &str, names: &mut Vec<String>) {
        let formula = self.method.category(category).and_then(|one| one.formulas.first());
        for variable in formula.iter().flat_map(|formula| formula.variables()) {
            match self.method.meaning(&variable.event) {
                Meaning::Category(other) => self.collect(&other.name, names),
                Meaning::Event if !names.contains(&variable.event) => {
                    names.push(variable.event.clone());
                }
                Meaning::Event | Meaning::Constant => {}
            }
        }
    }
}
