//! The result of `pmuscope/list/1`.

use pmuscope_events::inventory::Offer;
use pmuscope_events::lists::Precision;
use pmuscope_events::schedule::Constraint;
use serde::Serialize;

use super::{Here, ListView, kind_word};

/// The schema of [`ListReport`] in its envelope.
pub const LIST_SCHEMA: &str = "pmuscope/list/1";

/// Events of a machine.
#[derive(Debug, Serialize)]
pub struct ListReport<'a> {
    pattern: Option<&'a str>,
    lists: Option<ListsOut<'a>>,
    events: Vec<EventOut<'a>>,
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct ListsOut<'a> {
    path: &'a str,
    events: usize,
}

#[derive(Debug, Serialize)]
struct EventOut<'a> {
    name: &'a str,
    synonym: Option<&'a str>,
    kind: &'static str,
    pmus: &'a [String],
    encoding: Option<&'a str>,
    description: Option<&'a str>,
    details: Option<&'a str>,
    scale: Option<f64>,
    unit: Option<&'a str>,
    constraint: Option<ConstraintOut>,
    precise: Option<&'static str>,
    period: Option<u64>,
    filter: Option<&'a str>,
    errata: Option<&'a str>,
    deprecated: bool,
    countable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct ConstraintOut {
    counters: Option<Vec<u32>>,
    counters_smt: Option<Vec<u32>>,
    fixed: Vec<u32>,
    alone: bool,
    registers: Vec<String>,
    value: Option<String>,
}

impl<'a> ListReport<'a> {
    /// The view as JSON has it.
    #[must_use]
    pub fn new(view: &'a ListView<'a>) -> Self {
        Self {
            pattern: view.pattern,
            lists: view.lists.as_ref().map(|(path, events)| ListsOut { path, events: *events }),
            events: view.rows.iter().map(event).collect(),
            notes: &view.notes,
        }
    }
}

fn event((offer, here): &(Offer, Here)) -> EventOut<'_> {
    let (countable, why) = match here {
        Here::Yes => (Some(true), None),
        Here::No(why) => (Some(false), Some(why.as_str())),
        Here::NotTried => (None, Some("not tried")),
    };
    EventOut {
        name: &offer.name,
        synonym: offer.synonym,
        kind: kind_word(offer.group),
        pmus: &offer.units,
        encoding: offer.encoding.as_deref(),
        description: offer.brief.as_deref(),
        details: offer.long.as_deref(),
        scale: offer.scale,
        unit: offer.unit.as_deref(),
        constraint: offer.constraint.as_ref().map(constraint),
        precise: offer.precision.map(|precision| match precision {
            Precision::No => "no",
            Precision::Can => "can",
            Precision::Must => "must",
        }),
        period: offer.period,
        filter: offer.filter.as_deref(),
        errata: offer.errata.as_deref(),
        deprecated: offer.deprecated,
        countable,
        why,
    }
}

fn constraint(needs: &Constraint) -> ConstraintOut {
    let set = |mask: u32| (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1).collect::<Vec<_>>();
    let extra = needs.extra.as_ref();
    ConstraintOut {
        counters: (needs.general != u32::MAX).then(|| set(needs.general)),
        counters_smt: needs.general_smt.map(set),
        fixed: set(needs.fixed),
        alone: needs.alone,
        registers: extra.map_or_else(Vec::new, |extra| {
            extra.registers.iter().map(|register| format!("{register:#x}")).collect()
        }),
        value: extra.map(|extra| format!("{:#x}", extra.value)),
    }
}
