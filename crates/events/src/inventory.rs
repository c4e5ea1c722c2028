//! Every event that this machine can be asked for, with what is known of each; also what it cannot
//! count, with the reason.

use std::collections::BTreeMap;

use pmuscope_abi::event_type;

use crate::catalog::Catalog;
use crate::event::Event;
use crate::lists::{Listed, Precision};
use crate::names;
use crate::resolve::parse;
use crate::schedule::Constraint;

/// What kind of event, in the order that they are shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfferGroup {
    /// Counted by the CPU, the same name on every machine.
    Hardware,
    /// Counted by the kernel.
    Software,
    /// A cache of the CPU, the same name on every machine.
    Cache,
    /// Named by the kernel for one unit.
    Unit,
    /// Named by an event list.
    List,
    /// A tracepoint.
    Tracepoint,
    /// No event, but how events without a name are written.
    Syntax,
}

/// An event by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// What `-e` takes.
    pub name: String,
    /// Another name for the same.
    pub synonym: Option<&'static str>,
    /// Its kind.
    pub group: OfferGroup,
    /// Units that count it here; none where it cannot be counted.
    pub units: Vec<String>,
    /// Its terms or its type and code, where there is an encoding.
    pub encoding: Option<String>,
    /// What it counts, in a line.
    pub brief: Option<String>,
    /// The same at length.
    pub long: Option<String>,
    /// The count times this is in [`Offer::unit`].
    pub scale: Option<f64>,
    /// `Joules`, `MiB`; `None` counts events.
    pub unit: Option<String>,
    /// What it needs to be counted, where a list says so.
    pub constraint: Option<Constraint>,
    /// Whether samples can be precise, where a list says so.
    pub precision: Option<Precision>,
    /// The period that the vendor recommends for sampling, in events.
    pub period: Option<u64>,
    /// What it needs besides, in the vendor's words.
    pub filter: Option<String>,
    /// Known faults, in the vendor's words.
    pub errata: Option<String>,
    /// The vendor has another name for it by now.
    pub deprecated: bool,
    /// What would be opened.
    pub events: Vec<Event>,
    /// Why it cannot be counted here.
    pub refused: Option<String>,
}

impl Offer {
    /// An event of which nothing but its name is known.
    #[must_use]
    pub fn new(name: &str, group: OfferGroup) -> Self {
        Self {
            name: name.to_owned(),
            synonym: None,
            group,
            units: Vec::new(),
            encoding: None,
            brief: None,
            long: None,
            scale: None,
            unit: None,
            constraint: None,
            precision: None,
            period: None,
            filter: None,
            errata: None,
            deprecated: false,
            events: Vec::new(),
            refused: None,
        }
    }

    /// Fills in what the name means here.
    fn resolved(mut self, catalog: &dyn Catalog) -> Self {
        match parse(&self.name, catalog) {
            Ok(groups) => {
                self.events = groups.into_iter().flat_map(|group| group.events).collect();
                self.units = self.events.iter().map(|event| event.pmu.clone()).collect();
                let refused = self.events.iter().find_map(|event| event.not_countable.as_ref());
                self.refused = refused.map(ToString::to_string);
                if let Some(first) = self.events.first() {
                    self.scale = first.scale;
                    self.unit.clone_from(&first.unit);
                }
            }
            Err(error) => self.refused = Some(error.reason.to_string()),
        }
        self
    }
}

/// What there is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// By kind; within a kind by name, as far as the kernel or a list has no other order.
    pub offers: Vec<Offer>,
    /// Kinds that are missing as a whole, with the reason.
    pub notes: Vec<String>,
}

/// All events of `catalog` for whose name (or synonym) `wanted` says yes.
pub fn inventory(catalog: &dyn Catalog, wanted: &dyn Fn(&str) -> bool) -> Inventory {
    let mut found = Inventory::default();
    let offers = &mut found.offers;
    generic(catalog, wanted, offers);
    for pmu in catalog.pmus() {
        for (event, known) in &pmu.events {
            let name = format!("{}/{event}/", pmu.name);
            if wanted(&name) || wanted(event) {
                let encoding = Some(known.terms.clone());
                offers.push(
                    Offer { encoding, ..Offer::new(&name, OfferGroup::Unit) }.resolved(catalog),
                );
            }
        }
    }
    listed(catalog, wanted, offers);
    match catalog.tracepoints() {
        Ok(all) => {
            let names = all.into_iter().map(|(system, name)| format!("{system}:{name}"));
            let offer = |name: String| Offer::new(&name, OfferGroup::Tracepoint).resolved(catalog);
            offers.extend(names.filter(|name| wanted(name)).map(offer));
        }
        Err(error) => found.notes.push(format!("tracepoints: {error}")),
    }
    let forms = SYNTAX.iter().filter(|(form, _)| wanted(form));
    offers.extend(forms.map(|(form, brief)| Offer {
        brief: Some((*brief).to_owned()),
        ..Offer::new(form, OfferGroup::Syntax)
    }));
    found
}

/// How events without a name are written.
const SYNTAX: [(&str, &str); 4] = [
    ("rNNN", "a raw event code of the core, hexadecimal"),
    (
        "UNIT/TERM=N,…/",
        "any event of a PMU: terms are in /sys/bus/event_source/devices/UNIT/format",
    ),
    ("mem:ADDR/LEN:rwx", "accesses to an address: 1 to 8 bytes, read, write or execute"),
    ("TYPE:CONFIG", "attr.type and attr.config as numbers"),
];

fn generic(catalog: &dyn Catalog, wanted: &dyn Fn(&str) -> bool, offers: &mut Vec<Offer>) {
    let tables = [
        (&names::HARDWARE[..], OfferGroup::Hardware, event_type::HARDWARE),
        (&names::SOFTWARE[..], OfferGroup::Software, event_type::SOFTWARE),
    ];
    for (table, group, event_type) in tables {
        for one in table {
            if wanted(one.name) || one.synonym.is_some_and(wanted) {
                let offer = Offer {
                    synonym: one.synonym,
                    encoding: Some(format!("type={event_type},config={:#x}", one.config)),
                    ..Offer::new(one.name, group)
                };
                offers.push(offer.resolved(catalog));
            }
        }
    }
    for name in names::cache_names().filter(|name| wanted(name)) {
        let config = names::cache(&name).and_then(Result::ok).unwrap_or_default();
        let encoding = Some(format!("type={},config={config:#x}", event_type::HW_CACHE));
        offers.push(Offer { encoding, ..Offer::new(&name, OfferGroup::Cache) }.resolved(catalog));
    }
}

/// Events of lists: one line for each name and encoding.
fn listed(catalog: &dyn Catalog, wanted: &dyn Fn(&str) -> bool, offers: &mut Vec<Offer>) {
    let Some(lists) = catalog.lists() else { return };
    let mut by_name: BTreeMap<(String, &str), Vec<&Listed>> = BTreeMap::new();
    for one in lists.iter().filter(|one| wanted(&one.name)) {
        by_name.entry((one.name.to_ascii_lowercase(), &one.name)).or_default().push(one);
    }
    for ((_, name), all) in by_name {
        let resolved = Offer::new(name, OfferGroup::List).resolved(catalog);
        for one in all {
            let mut offer = of_list(one, &resolved);
            let here = |unit: &String| {
                catalog.pmus().iter().any(|pmu| pmu.name == *unit && one.is_of(pmu))
            };
            offer.units.retain(here);
            offer.events.retain(|event| here(&event.pmu));
            offers.push(offer);
        }
    }
}

/// Events that only lists for other CPUs have, where `wanted` says yes to the name; each with the CPUs that
/// it is for as the reason why it is not counted here.
pub fn of_other_cpus(catalog: &dyn Catalog, wanted: &dyn Fn(&str) -> bool) -> Vec<Offer> {
    let Some(lists) = catalog.lists() else { return Vec::new() };
    let here = lists.cpu().unwrap_or_default();
    let others = lists.of_other_cpus().into_iter().filter(|(one, _)| wanted(&one.name));
    let offer = |(one, cpus): (Listed, String)| {
        let unknown = Offer::new(&one.name, OfferGroup::List);
        let refused = Some(format!("for {cpus}; this CPU is {here}"));
        Offer { refused, ..of_list(&one, &unknown) }
    };
    others.map(offer).collect()
}

fn of_list(one: &Listed, resolved: &Offer) -> Offer {
    Offer {
        encoding: Some(one.terms.clone()),
        brief: (!one.brief.is_empty()).then(|| one.brief.clone()),
        long: one.long.clone(),
        constraint: Some(one.constraint.clone()),
        precision: Some(one.precision),
        period: one.period,
        filter: one.filter.clone(),
        errata: one.errata.clone(),
        deprecated: one.deprecated,
        ..resolved.clone()
    }
}
