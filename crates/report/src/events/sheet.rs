//! The fields of an event, for every form.

use std::collections::HashMap;

use pmuscope_events::inventory::Offer;
use pmuscope_events::lists::Precision;
use pmuscope_events::schedule::Constraint;
use serde_json::{Value as Json, json};

use super::{Here, kind_word};
use crate::Paint;
use crate::sheet::{Field, Sheet};

/// PMUs that are named in a table; of more only the first, and how many.
const UNITS: usize = 2;
/// Names of events say little below this width.
const NAME: usize = 32;

/// An event, and whether it can be counted here.
pub(super) type EventRow = (Offer, Here);

/// Numbers of reasons, in the order of their first event.
pub(super) struct Reasons<'a> {
    pub(super) all: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Reasons<'a> {
    /// Why events of these rows cannot be counted.
    pub(super) fn of(rows: impl Iterator<Item = &'a EventRow>) -> Self {
        let (mut all, mut numbers) = (Vec::new(), HashMap::new());
        for (_, here) in rows {
            let Here::No(why) = here else { continue };
            numbers.entry(why.as_str()).or_insert_with(|| {
                all.push(why.as_str());
                all.len()
            });
        }
        Self { all, numbers }
    }

    /// `yes`, `-`, or `no` with the number of the reason.
    fn answer(&self, here: &Here) -> String {
        match here {
            Here::Yes => "yes".to_owned(),
            Here::NotTried => "-".to_owned(),
            Here::No(why) => match self.numbers.get(why.as_str()) {
                Some(number) => format!("no [{number}]"),
                None => "no".to_owned(),
            },
        }
    }
}

/// Events as rows; people see reasons by their numbers.
pub(super) fn sheet<'a>(
    rows: impl IntoIterator<Item = &'a EventRow>,
    reasons: &'a Reasons<'a>,
) -> Sheet<'a> {
    let rows: Vec<&EventRow> = rows.into_iter().collect();
    let all = rows.len();
    Sheet::new([names(reasons), facts(), answers()].into_iter().flatten().collect(), rows, all)
        .by_another_order()
        .indented()
}

/// What the event is called, where it is counted, and how it is written.
fn names<'a>(reasons: &'a Reasons<'a>) -> Vec<Field<'a, EventRow>> {
    let is_refused = |row: &EventRow| matches!(row.1, Here::No(_));
    vec![
        Field::text("name", |row: &'a EventRow| Some(&*row.0.name))
            .shown_as(|row| match row.0.synonym {
                Some(synonym) => format!("{}, {synonym}", row.0.name).into(),
                None => row.0.name.as_str().into(),
            })
            .wanted(NAME),
        Field::text("synonym", |row: &EventRow| row.0.synonym).for_programs(),
        Field::text("kind", |row: &EventRow| Some(kind_word(row.0.group))).for_programs(),
        Field::lines("pmus", |row: &EventRow| row.0.units.clone()).for_programs(),
        Field::text("PMU", |row: &EventRow| units(&row.0)).for_people().wanted(8).optional(2),
        Field::text("here", |row: &EventRow| Some(reasons.answer(&row.1)))
            .for_people()
            .rigid()
            .painted(move |row| if is_refused(row) { Paint::Warn } else { Paint::Plain }),
        Field::text("encoding", |row: &'a EventRow| row.0.encoding.as_deref())
            .only_if_measured()
            .missing_as("")
            .sentence()
            .optional(3),
    ]
}

/// What it counts, and what it takes.
fn facts<'a>() -> Vec<Field<'a, EventRow>> {
    vec![
        Field::text("needs", |row: &EventRow| some(needs(&row.0)))
            .for_people()
            .only_if_measured()
            .missing_as("")
            .sentence()
            .optional(1),
        Field::text("description", |row: &'a EventRow| row.0.brief.as_deref()).for_programs(),
        Field::text("description", |row: &EventRow| some(described(&row.0)))
            .for_people()
            .only_if_measured()
            .missing_as("")
            .sentence(),
        Field::text("details", |row: &'a EventRow| row.0.long.as_deref()).for_programs(),
        Field::number("scale", |row: &EventRow| row.0.scale).for_programs(),
        Field::text("unit", |row: &'a EventRow| row.0.unit.as_deref()).for_programs(),
        Field::json("constraint", |row: &EventRow| {
            row.0.constraint.as_ref().map_or(Json::Null, constraint)
        }),
        Field::text("precise", |row: &EventRow| row.0.precision.map(precise)).for_programs(),
        Field::count("period", |row: &EventRow| row.0.period).for_programs(),
        Field::text("filter", |row: &'a EventRow| row.0.filter.as_deref()).for_programs(),
        Field::text("errata", |row: &'a EventRow| row.0.errata.as_deref()).for_programs(),
        Field::flag("deprecated", |row: &EventRow| row.0.deprecated).for_programs(),
    ]
}

/// Whether it can be counted here, and why not.
fn answers<'a>() -> Vec<Field<'a, EventRow>> {
    vec![
        Field::flag("countable", |row: &EventRow| match row.1 {
            Here::Yes => Some(true),
            Here::No(_) => Some(false),
            Here::NotTried => None,
        })
        .for_programs(),
        Field::text("why", |row: &'a EventRow| match &row.1 {
            Here::Yes => None,
            Here::No(why) => Some(why.as_str()),
            Here::NotTried => Some("not tried"),
        })
        .absent_if_missing()
        .for_programs(),
    ]
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn units(offer: &Offer) -> Option<String> {
    Some(match &offer.units[..] {
        [] => return None,
        few if few.len() <= UNITS => few.join(", "),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    })
}

/// Constraints, in words.
pub(super) fn needs(offer: &Offer) -> String {
    let mut words: Vec<String> = Vec::new();
    words
        .extend(offer.constraint.as_ref().map(ToString::to_string).filter(|text| !text.is_empty()));
    if offer.precision == Some(Precision::Must) {
        words.push("PEBS".to_owned());
    }
    words.extend(offer.filter.as_ref().map(|filter| format!("filter {filter}")));
    if offer.deprecated {
        words.push("deprecated".to_owned());
    }
    words.join(" · ")
}

fn described(offer: &Offer) -> String {
    let brief = offer.brief.clone().unwrap_or_default();
    match &offer.unit {
        Some(unit) if brief.is_empty() => format!("in {unit}"),
        Some(unit) => format!("{brief} (in {unit})"),
        None => brief,
    }
}

fn precise(precision: Precision) -> &'static str {
    match precision {
        Precision::No => "no",
        Precision::Can => "can",
        Precision::Must => "must",
    }
}

fn constraint(needs: &Constraint) -> Json {
    let set = |mask: u32| (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1).collect::<Vec<_>>();
    let extra = needs.extra.as_ref();
    let registers: Vec<String> = extra
        .map(|extra| extra.registers.iter().map(|register| format!("{register:#x}")).collect())
        .unwrap_or_default();
    json!({
        "counters": (needs.general != u32::MAX).then(|| set(needs.general)),
        "counters_smt": needs.general_smt.map(set),
        "fixed": set(needs.fixed),
        "alone": needs.alone,
        "registers": registers,
        "value": extra.map(|extra| format!("{:#x}", extra.value)),
    })
}
