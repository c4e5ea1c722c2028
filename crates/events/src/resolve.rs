//! Pieces to events: what a name means on this machine.

use pmuscope_abi::{Attr, event_type, software};
use pmuscope_machine::Pmu;

use crate::breakpoint;
use crate::catalog::{Catalog, core_pmus};
use crate::error::{EventError, Fault, Reason};
use crate::event::{Event, Group, Origin};
use crate::group::{Member, assemble};
use crate::list::list_known;
use crate::modifiers::Modifiers;
use crate::names;
use crate::naming::Naming;
use crate::pmu;
use crate::suggest::nearest;
use crate::syntax::{self, EventSyntax, SyntaxHead, SyntaxItem, Term, TextPiece};
use crate::terms;
use crate::tracepoint::{Tracepoint, Tracepoints};

/// How units of cores are called; a unit of such a name that is missing is the CPU's.
const CORE_UNITS: [&str; 3] = ["cpu", "armv", "apple_"];

/// Reads the text of one `-e`: events and groups separated by commas. In the order of the text; where
/// one event means several (hybrid cores, copies of an uncore unit, a pattern), they follow each other.
///
/// # Errors
/// [`EventError`], which names the piece of the text, the reason, and what to type.
pub fn parse(text: &str, catalog: &dyn Catalog) -> Result<Vec<Group>, EventError> {
    read(text, catalog, true)
}

/// The texts of the events and groups in the text of one `-e`, each to be read alone.
///
/// # Errors
/// [`EventError`] where the text has not the form of a list; names are not looked at.
pub fn split(text: &str) -> Result<Vec<&str>, EventError> {
    let items = syntax::items(text).map_err(|fault| EventError::new(text, fault))?;
    Ok(items.into_iter().map(|(text, _)| text).collect())
}

/// As [`parse`] of names that nobody typed: what may have been meant by one that is unknown is not looked
/// for, which would take all names of the machine, thousands of tracepoints among them.
///
/// # Errors
/// As [`parse`], without names to type instead.
pub(crate) fn parse_known(text: &str, catalog: &dyn Catalog) -> Result<Vec<Group>, EventError> {
    read(text, catalog, false)
}

fn read(text: &str, catalog: &dyn Catalog, offers: bool) -> Result<Vec<Group>, EventError> {
    let (cores, tracepoints) = (core_pmus(catalog), Tracepoints::new(catalog, offers));
    let resolver = Resolver { catalog, cores, tracepoints, offers };
    let groups = syntax::list(text).and_then(|items| {
        let groups: Result<Vec<_>, Fault> = items.iter().map(|item| resolver.item(item)).collect();
        Ok(groups?.into_iter().flatten().collect())
    });
    groups.map_err(|fault| EventError::new(text, fault))
}

/// Events that a text selects, before its modifiers. Their `name` is `name=` or empty; their `typed` is
/// the name of the tracepoint or empty.
struct Selected<'t> {
    events: Vec<Event>,
    /// Where these are one event on each of several units: what each of them counts.
    on_units: Option<String>,
    modifiers: Option<TextPiece<'t>>,
}

impl<'t> Selected<'t> {
    fn one(event: Event, modifiers: Option<TextPiece<'t>>) -> Self {
        Self { events: vec![event], on_units: None, modifiers }
    }
}

struct Resolver<'c> {
    catalog: &'c dyn Catalog,
    cores: Vec<&'c Pmu>,
    tracepoints: Tracepoints<'c>,
    /// Whether what may have been meant is looked for.
    offers: bool,
}

impl Resolver<'_> {
    fn item(&self, item: &SyntaxItem<'_>) -> Result<Vec<Group>, Fault> {
        let around = Modifiers::parse(item.modifiers, false)?;
        let members: Vec<Member> = item
            .events
            .iter()
            .map(|event| self.event(event, item.braces.then_some(&around)))
            .collect::<Result<_, _>>()?;
        if item.braces {
            return assemble(members, item, &around);
        }
        Ok(members.into_iter().flat_map(Member::alone).collect())
    }

    /// One event as written; `around` are the modifiers of the braces it stands in.
    fn event(&self, event: &EventSyntax<'_>, around: Option<&Modifiers>) -> Result<Member, Fault> {
        let mut selected = match &event.head {
            SyntaxHead::Breakpoint { addr, len, access } => {
                let attr = breakpoint::attr(*addr, *len, *access)?;
                let mut found = Event::new("breakpoint", attr, Origin::Breakpoint);
                common_terms(&mut found, terms_of(event))?;
                Selected::one(found, event.modifiers)
            }
            SyntaxHead::Named { head, parts } => self.named(event, *head, parts)?,
        };
        let own = Modifiers::parse(selected.modifiers, around.is_some())?;
        let none = Modifiers::default();
        let around = around.unwrap_or(&none);
        let both = own.with(around);
        let naming = Naming { event, own: selected.modifiers, added: around.added_to(&own) };
        let copies = selected.on_units.as_deref().filter(|_| selected.events.len() > 1);
        for found in &mut selected.events {
            both.apply(found, event.whole)?;
            if found.name.is_empty() {
                found.name = match (found.typed.as_str(), copies) {
                    ("", Some(what)) => naming.of_unit(&found.pmu, what),
                    ("", None) => naming.as_typed(),
                    (tracepoint, _) => naming.behind(tracepoint),
                };
            }
            event.whole.text.clone_into(&mut found.typed);
        }
        Ok(Member { on_units: copies.is_some(), events: selected.events, own })
    }

    fn named<'t>(
        &self,
        event: &EventSyntax<'t>,
        head: TextPiece<'t>,
        parts: &[TextPiece<'t>],
    ) -> Result<Selected<'t>, Fault> {
        if let Some(selected) = self.numeric(event, head, parts)? {
            return Ok(selected);
        }
        if let (Some((inside, list)), []) = (&event.terms, parts)
            && let Some(events) = self.of_units(head, list)?
        {
            let on_units = Some(inside.text.to_owned());
            return Ok(Selected { events, on_units, modifiers: event.modifiers });
        }
        if let Some(mut events) = self.simple(head)? {
            for found in &mut events {
                common_terms(found, terms_of(event))?;
            }
            let modifiers = modifiers_of(event, parts)?;
            let what = match &event.terms {
                Some((inside, _)) => format!("{},{}", head.text, inside.text),
                None => head.text.to_owned(),
            };
            return Ok(Selected { events, on_units: Some(what), modifiers });
        }
        match parts {
            [] => Err(head.fault(self.unknown(event, head))),
            [name, rest @ ..] => self.tracepoint(event, head, *name, rest),
        }
    }

    /// `type:config`, both numbers.
    fn numeric<'t>(
        &self,
        event: &EventSyntax<'t>,
        head: TextPiece<'t>,
        parts: &[TextPiece<'t>],
    ) -> Result<Option<Selected<'t>>, Fault> {
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let (Some((config, rest)), true) = (parts.split_first(), is_number(head.text)) else {
            return Ok(None);
        };
        let event_type = u32::try_from(terms::number(head)?)
            .map_err(|_| head.fault(Reason::BadValue { expected: "a type below 2^32" }))?;
        let config = terms::number(*config)?;
        let of_cpu = [event_type::HARDWARE, event_type::HW_CACHE, event_type::RAW];
        let unit = self.catalog.pmus().iter().find(|pmu| pmu.type_number == event_type);
        let unit = match (unit, self.cores.first()) {
            (Some(unit), _) => unit,
            (None, Some(core)) if of_cpu.contains(&event_type) => core,
            (None, None) if of_cpu.contains(&event_type) => {
                return Err(head.fault(Reason::NoCpuPmu));
            }
            (None, _) => return Err(head.fault(self.unknown_pmu(head.text))),
        };
        let mut found = pmu::blank(unit);
        found.attr = Attr { event_type, config, ..Attr::default() };
        found.origin = origin_of(&found);
        common_terms(&mut found, terms_of(event))?;
        pmu::implemented(&found, unit).map_err(|reason| head.fault(reason))?;
        Ok(Some(Selected::one(found, modifiers_of(event, rest)?)))
    }

    /// `unit/terms/`; `None` if no unit is meant by `head`. Where several are, those without such an
    /// event are left out, as long as one has it.
    fn of_units(
        &self,
        head: TextPiece<'_>,
        list: &[Term<'_>],
    ) -> Result<Option<Vec<Event>>, Fault> {
        let units = pmu::matching(self.catalog, head.text);
        if units.is_empty() {
            return Ok(None);
        }
        let mut events = Vec::new();
        let mut refused = None;
        for unit in units {
            let mut event = pmu::blank(unit);
            let applied =
                pmu::apply(&mut event, unit, self.cores.len() > 1, list, self.catalog.lists());
            let applied = applied
                .and_then(|()| pmu::implemented(&event, unit).map_err(|reason| head.fault(reason)));
            match applied {
                Ok(()) => {
                    event.origin = origin_of(&event);
                    events.push(event);
                }
                Err(fault) => refused = refused.or(Some(fault)),
            }
        }
        match refused {
            Some(fault) if events.is_empty() => Err(fault),
            _ => Ok(Some(events)),
        }
    }

    /// A name that stands for itself: generic, named by some unit, or a raw code.
    fn simple(&self, head: TextPiece<'_>) -> Result<Option<Vec<Event>>, Fault> {
        if let Some(config) = names::software(head.text) {
            let attr = Attr { event_type: event_type::SOFTWARE, config, ..Attr::default() };
            let mut event = Event::new("software", attr, Origin::Software);
            event.origin = origin_of(&event);
            return Ok(Some(vec![event]));
        }
        if names::hardware(head.text).is_some() || names::cache(head.text).is_some() {
            return self.on_cores(head, |unit, several| {
                pmu::generic(unit, several, head).unwrap_or(Err(head.fault(Reason::NoCpuPmu)))
            });
        }
        let list = [Term { name: head, value: None }];
        let mut events = Vec::new();
        for unit in self.catalog.pmus().iter().filter(|p| p.events.contains_key(head.text)) {
            let mut event = pmu::blank(unit);
            pmu::apply(&mut event, unit, self.cores.len() > 1, &list, None)?;
            events.push(event);
        }
        if !events.is_empty() {
            return Ok(Some(events));
        }
        if let Some(events) = self.listed(head)? {
            return Ok(Some(events));
        }
        match pmu::raw(head.text) {
            None => Ok(None),
            Some(config) => self.on_cores(head, |unit, several| {
                Ok((if several { unit.type_number } else { event_type::RAW }, config))
            }),
        }
    }

    /// A name of the lists, on every unit that has it.
    fn listed(&self, head: TextPiece<'_>) -> Result<Option<Vec<Event>>, Fault> {
        let lists = self.catalog.lists();
        let Some(first) = lists.and_then(|lists| lists.named(head.text).first()) else {
            return Ok(None);
        };
        let mut events = Vec::new();
        let mut refused = None;
        for unit in self.catalog.pmus() {
            let mut event = pmu::blank(unit);
            if pmu::listed(&mut event, unit, head, lists)? {
                match pmu::implemented(&event, unit) {
                    Ok(()) => events.push(event),
                    Err(reason) => refused = refused.or(Some(head.fault(reason))),
                }
            }
        }
        match (&first.unit, events.is_empty()) {
            (_, false) => Ok(Some(events)),
            (_, true) if refused.is_some() => refused.map_or(Ok(None), Err),
            (None, true) => Err(head.fault(Reason::NoCpuPmu)),
            (Some(unit), true) => {
                let present = self.catalog.pmus().iter().map(|pmu| pmu.name.clone()).collect();
                Err(head.fault(Reason::NoSuchUnit { unit: unit.clone(), present }))
            }
        }
    }

    fn on_cores(
        &self,
        head: TextPiece<'_>,
        select: impl Fn(&Pmu, bool) -> Result<(u32, u64), Fault>,
    ) -> Result<Option<Vec<Event>>, Fault> {
        if self.cores.is_empty() {
            return Err(head.fault(Reason::NoCpuPmu));
        }
        let several = self.cores.len() > 1;
        let (mut events, mut refused) = (Vec::new(), None);
        for unit in &self.cores {
            let mut event = pmu::blank(unit);
            (event.attr.event_type, event.attr.config) = select(unit, several)?;
            match pmu::implemented(&event, unit) {
                Ok(()) => events.push(event),
                Err(reason) => refused = refused.or(Some(head.fault(reason))),
            }
        }
        match refused {
            Some(fault) if events.is_empty() => Err(fault),
            _ => Ok(Some(events)),
        }
    }

    fn tracepoint<'t>(
        &self,
        event: &EventSyntax<'t>,
        system: TextPiece<'t>,
        name: TextPiece<'t>,
        rest: &[TextPiece<'t>],
    ) -> Result<Selected<'t>, Fault> {
        let found = match self.tracepoints.find(system, name) {
            // `cylces:u` is a mistyped event, not a tracepoint.
            Err(_)
                if Modifiers::looks_like(name.text)
                    && !(self.offers && self.tracepoints.has_system(system.text)) =>
            {
                return Err(system.fault(self.unknown(event, system)));
            }
            found => found?,
        };
        let events: Result<Vec<Event>, Fault> = found
            .into_iter()
            .map(|Tracepoint { name, id }| {
                let attr =
                    Attr { event_type: event_type::TRACEPOINT, config: id, ..Attr::default() };
                let mut found = Event::new("tracepoint", attr, Origin::Tracepoint);
                found.typed = name;
                common_terms(&mut found, terms_of(event))?;
                Ok(found)
            })
            .collect();
        let modifiers = modifiers_of(event, rest)?;
        Ok(Selected { events: events?, on_units: None, modifiers })
    }

    fn unknown(&self, event: &EventSyntax<'_>, head: TextPiece<'_>) -> Reason {
        if let Some(why) = names::not_counted(head.text) {
            return Reason::NotCounted { why };
        }
        if event.terms.is_some() {
            return self.unknown_pmu(head.text);
        }
        if self.offers
            && let Some((made_for, identity)) =
                self.catalog.lists().and_then(|lists| lists.only_for(head.text))
        {
            return Reason::OfOtherCpus { made_for, identity };
        }
        let nearest = if self.offers { nearest(head.text, self.names()) } else { Vec::new() };
        Reason::UnknownEvent { nearest }
    }

    /// What may have been meant; also what this machine lacks, as asking for it tells more.
    fn names(&self) -> impl Iterator<Item = String> {
        let of_cpu = names::HARDWARE.iter().flat_map(|g| [Some(g.name), g.synonym]).flatten();
        list_known(self.catalog).map(|known| known.name).chain(of_cpu.map(str::to_owned))
    }

    fn unknown_pmu(&self, typed: &str) -> Reason {
        if self.cores.is_empty() && CORE_UNITS.iter().any(|core| typed.starts_with(core)) {
            return Reason::NoCpuPmu;
        }
        let present: Vec<String> = self.catalog.pmus().iter().map(|p| p.name.clone()).collect();
        let nearest = nearest(typed, present.iter().cloned().chain(self.names()));
        Reason::UnknownPmu { nearest, present }
    }
}

/// Modifiers stand behind the last colon or the last slash, not both.
fn modifiers_of<'t>(
    event: &EventSyntax<'t>,
    parts: &[TextPiece<'t>],
) -> Result<Option<TextPiece<'t>>, Fault> {
    match (parts, &event.terms) {
        ([], _) => Ok(event.modifiers),
        ([one], None) => Ok(Some(*one)),
        ([_, extra, ..], _) | ([extra], _) => Err(extra.fault(Reason::ModifierPlace)),
    }
}

fn terms_of<'e, 't>(event: &'e EventSyntax<'t>) -> &'e [Term<'t>] {
    event.terms.as_ref().map_or(&[], |(_, list)| list)
}

/// Applies terms to an event that is no unit's, where only those for any event mean something.
fn common_terms(event: &mut Event, list: &[Term<'_>]) -> Result<(), Fault> {
    for term in list {
        if !terms::apply(event, term)? {
            let nearest = nearest(term.name.text, terms::NAMES);
            return Err(term
                .name
                .fault(Reason::NotGeneric { nearest, known: terms::NAMES.join(", ") }));
        }
    }
    Ok(())
}

/// The origin by type and code alone.
fn origin_of(event: &Event) -> Origin {
    match (event.attr.event_type, event.attr.config) {
        (event_type::SOFTWARE, software::CPU_CLOCK | software::TASK_CLOCK) => Origin::SoftwareClock,
        (event_type::SOFTWARE, _) => Origin::Software,
        (event_type::HARDWARE | event_type::HW_CACHE | event_type::RAW, _) => Origin::Hardware,
        _ => event.origin,
    }
}
