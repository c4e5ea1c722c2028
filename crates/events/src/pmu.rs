//! Events of a unit: terms to configuration words, by what sysfs says about the unit.

use pmuscope_abi::{Attr, event_type};
use pmuscope_machine::Pmu;

use crate::catalog::Catalog;
use crate::error::{Fault, Reason};
use crate::event::{Event, Origin};
use crate::format::{Format, Word};
use crate::glob;
use crate::lists::{Listed, Lists, NotCountable};
use crate::names;
use crate::suggest::nearest;
use crate::syntax::{Term, TextPiece};
use crate::terms;

/// Bits of `attr.config` below the type of the unit, where several units count generic events.
const EXTENDED_TYPE_SHIFT: u32 = 32;

/// The units that `pattern` means: the one of that name, its copies (`uncore_imc` means
/// `uncore_imc_0` and `uncore_imc_1`; the prefix `uncore_` can be left out), or what a shell pattern
/// matches.
pub(crate) fn matching<'c>(catalog: &'c dyn Catalog, pattern: &str) -> Vec<&'c Pmu> {
    catalog.pmus().iter().filter(|pmu| is_meant(pmu, pattern)).collect()
}

/// Whether `pattern` means this unit.
pub(crate) fn is_meant(pmu: &Pmu, pattern: &str) -> bool {
    let short = pmu.name.strip_prefix("uncore_").unwrap_or(&pmu.name);
    [pmu.name.as_str(), short].into_iter().any(|name| {
        if glob::is_pattern(pattern) {
            glob::matches(pattern, name)
        } else {
            name.strip_prefix(pattern).is_some_and(is_copy_suffix)
        }
    })
}

/// Nothing, a number, or an address as Arm's memory-mapped units have.
fn is_copy_suffix(suffix: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let address = |text: &str| text.len() >= 4 && text.bytes().all(|b| b.is_ascii_hexdigit());
    suffix.is_empty()
        || digits(suffix)
        || suffix.strip_prefix('_').is_some_and(|rest| digits(rest) || address(rest))
}

/// An event of `pmu` that selects nothing yet.
pub(crate) fn blank(pmu: &Pmu) -> Event {
    let origin = match pmu.type_number {
        event_type::SOFTWARE => Origin::Software,
        event_type::TRACEPOINT => Origin::Tracepoint,
        event_type::BREAKPOINT => Origin::Breakpoint,
        _ if pmu.is_core() => Origin::Hardware,
        _ => Origin::Pmu,
    };
    let attr = Attr { event_type: pmu.type_number, ..Attr::default() };
    let mut event = Event::new(&pmu.name, attr, origin);
    event.cpus = pmu.cpumask.clone().or_else(|| pmu.cpus.clone());
    event
}

/// The generic event `name` of a core's unit, if it is one. Where `several` units count such events,
/// the kernel wants the type of the unit in the upper half of `config`.
pub(crate) fn generic(
    pmu: &Pmu,
    several: bool,
    name: TextPiece<'_>,
) -> Option<Result<(u32, u64), Fault>> {
    let extended = if several { u64::from(pmu.type_number) << EXTENDED_TYPE_SHIFT } else { 0 };
    if let Some(config) = names::hardware(name.text) {
        return Some(Ok((event_type::HARDWARE, extended | config)));
    }
    Some(match names::cache(name.text)? {
        Ok(config) => Ok((event_type::HW_CACHE, extended | config)),
        Err(names::NoSuchOperation { cache, operations }) => {
            Err(name.fault(Reason::NoCacheOperation { cache, operations }))
        }
    })
}

/// Refuses a code that `pmu` does not implement: the kernel would take it, and the count would stay 0.
pub(crate) fn implemented(event: &Event, pmu: &Pmu) -> Result<(), Reason> {
    let is_raw = event.attr.event_type == event_type::RAW;
    if !is_raw && event.attr.event_type != pmu.type_number {
        return Ok(());
    }
    match pmu.not_implemented(event.attr.config) {
        Some(code) => Err(Reason::NotImplemented { pmu: pmu.name.clone(), code }),
        None => Ok(()),
    }
}

/// `rNNN`: a raw code in hexadecimal.
pub(crate) fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    terms::parse(digits.strip_prefix("0x").unwrap_or(digits), 16)
}

/// Applies the terms between the slashes to an event of `pmu`. Later terms win over earlier ones. A name
/// that the kernel does not know for the unit may be one of `lists`.
pub(crate) fn apply(
    event: &mut Event,
    pmu: &Pmu,
    several: bool,
    list: &[Term<'_>],
    lists: Option<&Lists>,
) -> Result<(), Fault> {
    let mut named = None;
    let mut open: Vec<String> = Vec::new();
    for term in list {
        if term.value.is_none() && pmu.events.contains_key(term.name.text) {
            open.extend(expand(event, pmu, term.name)?);
            named = Some(term.name);
        } else if !terms::apply(event, term)? {
            if !pmu.format.contains_key(term.name.text)
                && term.value.is_none()
                && listed(event, pmu, term.name, lists)?
            {
                continue;
            }
            one(event, pmu, several, term)?;
            open.retain(|name| name != term.name.text);
        }
    }
    match named {
        Some(name) if !open.is_empty() => {
            let (pmu, event) = (pmu.name.clone(), name.text.to_owned());
            Err(name.fault(Reason::OpenTerms { pmu, event, open }))
        }
        _ => Ok(()),
    }
}

/// A term that selects: a configuration word, a field of the unit, a generic name or a raw code.
fn one(event: &mut Event, pmu: &Pmu, several: bool, term: &Term<'_>) -> Result<(), Fault> {
    if let Some(word) = Word::parse(term.name.text) {
        *word_of(&mut event.attr, word) = terms::number(terms::value(term, "0x3c")?)?;
        return Ok(());
    }
    if let Some(format) = pmu.format.get(term.name.text) {
        let (number, at) = match term.value {
            Some(value) => (terms::number(value)?, value),
            None => (1, term.name),
        };
        return set_field(&mut event.attr, pmu, (term.name.text, format), number)
            .map_err(|reason| at.fault(reason));
    }
    if term.value.is_none()
        && pmu.is_core()
        && let Some(found) = generic(pmu, several, term.name)
    {
        (event.attr.event_type, event.attr.config) = found?;
        return Ok(());
    }
    if let (None, Some(config)) = (term.value, raw(term.name.text)) {
        event.attr.config = config;
        return Ok(());
    }
    Err(term.name.fault(unknown(pmu, term.name.text)))
}

/// Applies an event of `lists` if one of this unit has the name.
pub(crate) fn listed(
    event: &mut Event,
    pmu: &Pmu,
    name: TextPiece<'_>,
    lists: Option<&Lists>,
) -> Result<bool, Fault> {
    let named = lists.map_or(&[][..], |lists| lists.named(name.text));
    let here: Vec<&Listed> = named.iter().filter(|one| one.is_of(pmu)).collect();
    let found = match here[..] {
        [] => return Ok(false),
        [found] => found,
        _ => {
            let choices = here.iter().map(|one| format!("{}/{}/", pmu.name, one.terms)).collect();
            return Err(name.fault(Reason::Ambiguous { choices }));
        }
    };
    let refused = |why: String| {
        let encoding = format!("{}/{}/", pmu.name, found.terms);
        name.fault(Reason::Listed { encoding, why })
    };
    let terms = found.terms.split(',').map(str::trim).filter(|term| !term.is_empty());
    for term in terms {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        let piece = |text| TextPiece { text, at: 0 };
        let term = Term { name: piece(field), value: Some(piece(value)) };
        one(event, pmu, false, &term).map_err(|fault| refused(fault.reason.to_string()))?;
    }
    match found.countable_on(pmu) {
        Err(why @ NotCountable::Register { .. }) => return Err(refused(why.to_string())),
        Err(why) => event.not_countable = Some(why),
        Ok(()) => {}
    }
    event.constraint = Some(found.constraint.clone());
    Ok(true)
}

/// Applies an event that sysfs names; returns the terms it leaves open (`name=?`).
fn expand(event: &mut Event, pmu: &Pmu, name: TextPiece<'_>) -> Result<Vec<String>, Fault> {
    let Some(known) = pmu.events.get(name.text) else { return Ok(Vec::new()) };
    let mut open = Vec::new();
    for term in known.terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        if value == "?" {
            open.push(field.to_owned());
            continue;
        }
        let unreadable = || Reason::UnreadableFormat {
            pmu: pmu.name.clone(),
            term: name.text.to_owned(),
            found: known.terms.clone(),
        };
        let number = terms::number(TextPiece { text: value, at: 0 })
            .map_err(|_| name.fault(unreadable()))?;
        if let Some(word) = Word::parse(field) {
            *word_of(&mut event.attr, word) = number;
        } else {
            let format = pmu.format.get(field).ok_or_else(|| name.fault(unreadable()))?;
            set_field(&mut event.attr, pmu, (field, format), number).map_err(|r| name.fault(r))?;
        }
    }
    event.scale = known.scale;
    event.unit.clone_from(&known.unit);
    Ok(open)
}

fn set_field(
    attr: &mut Attr,
    pmu: &Pmu,
    (term, format): (&str, &str),
    value: u64,
) -> Result<(), Reason> {
    let format = Format::parse(format).ok_or_else(|| Reason::UnreadableFormat {
        pmu: pmu.name.clone(),
        term: term.to_owned(),
        found: format.to_owned(),
    })?;
    let word = word_of(attr, format.word);
    *word = format.pack(*word, value).ok_or_else(|| Reason::TooLarge {
        term: term.to_owned(),
        bits: format.bits(),
        max: format.max(),
    })?;
    Ok(())
}

fn word_of(attr: &mut Attr, word: Word) -> &mut u64 {
    match word {
        Word::Config => &mut attr.config,
        Word::Config1 => &mut attr.config1,
        Word::Config2 => &mut attr.config2,
        Word::Config3 => &mut attr.config3,
        Word::Config4 => &mut attr.config4,
    }
}

fn unknown(pmu: &Pmu, typed: &str) -> Reason {
    let own = pmu.format.keys().chain(pmu.events.keys()).map(String::as_str);
    let nearest = nearest(typed, own.chain(terms::NAMES));
    let known = pmu.format.keys().cloned().collect();
    Reason::UnknownTerm { pmu: pmu.name.clone(), nearest, known }
}
