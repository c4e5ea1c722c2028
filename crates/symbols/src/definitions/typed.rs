//! Finds the variable of a name by debug information; its address comes from symbol tables.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::follow::{self, Complete};
use super::layout::{FieldAt, FieldFinder};
use super::location::Location;
use super::names::{Nearest, few, is_file};
use super::scan::{self, Candidate, Query, Scanned};
use super::tables::{self, DefinitionKind};
use super::type_layout::{LayoutReader, PartLayout, TypeLayout};
use super::types::Types;
use super::units::{Damaged, Die, Units};
use super::{DataPlace, DefinitionError, Definitions, Expression};
use crate::dwarf::DebugInfo;

/// The object that `expression` leads to.
pub(super) fn data(
    of: &Definitions,
    debug: &DebugInfo,
    file: Option<&str>,
    expression: &Expression,
) -> Result<DataPlace, DefinitionError> {
    let found = with_object(of, debug, file, expression, |place, _| Ok(place))?;
    let found = found.map_or_else(|why| of.plain_because(file, expression, why), Ok)?;
    match found.is_thread_local {
        true => Err(DefinitionError::ThreadLocal { name: expression.name() }),
        false => Ok(found),
    }
}

/// The same of a thread-local variable.
pub(super) fn thread_data(
    of: &Definitions,
    debug: &DebugInfo,
    file: Option<&str>,
    expression: &Expression,
) -> Result<DataPlace, DefinitionError> {
    let found = with_object(of, debug, file, expression, |place, _| Ok(place))?;
    found.map_or_else(|why| of.plain_because(file, expression, why), Ok)
}

/// The fields at `offsets` in the object that `expression` leads to; none without a type.
pub(super) fn parts(
    of: &Definitions,
    debug: &DebugInfo,
    (file, expression): (Option<&str>, &Expression),
    offsets: &[u64],
) -> Option<Vec<Option<FieldAt>>> {
    let fields = |_, found: Option<(&FieldFinder<'_, '_, '_>, Die)>| {
        let (finder, kind) = match found {
            Some(found) => found,
            None => return Ok(vec![None; offsets.len()]),
        };
        let field = |&offset: &u64| finder.find(kind, offset).ok().flatten();
        Ok(offsets.iter().map(field).collect())
    };
    with_object(of, debug, file, expression, fields).ok()?.ok()
}

/// Looks up the object that `expression` leads to and hands it on, with its type where it has one. The inner error says
/// why only symbol tables can have it.
fn with_object<T>(
    of: &Definitions,
    debug: &DebugInfo,
    file: Option<&str>,
    expression: &Expression,
    then: impl Fn(DataPlace, Option<(&FieldFinder<'_, '_, '_>, Die)>) -> Result<T, DefinitionError>,
) -> Result<Result<T, String>, DefinitionError> {
    let units = Units::of(debug.dwarf());
    let complete = Completer { units: &units, threads: of.threads, known: RefCell::default() };
    let types = Types { units: &units };
    let finder = FieldFinder { types: &types, complete: &complete };
    let go = |variable: &Candidate, base: u64| {
        let bytes = of.pointer_bytes();
        let (place, kind) = follow::all(&types, &complete, variable, base, expression, bytes)?;
        then(place, kind.map(|kind| (&finder, kind))).map(Ok)
    };
    let name = expression.name();
    let shallow = Query { parts: &expression.name, types: false, deep: false };
    let outside = of_file(scan::all(&units, shallow, of.threads), file);
    if let Some(chosen) = choose(&name, &outside.found) {
        let (variable, base) = chosen?;
        return go(variable, base);
    }
    // Other modules' variables that were copied here, and what has no debug information of its own.
    let symbols = tables::find(of, &name, file, DefinitionKind::Data);
    let declaration = outside.found.iter().find(|one| one.external && one.kind.is_some());
    match (&symbols[..], declaration) {
        ([symbol], Some(variable)) => return go(variable, symbol.address),
        ([_, ..], _) if outside.found.is_empty() => {
            return Ok(Err(match outside.split {
                Some(split) => {
                    format!("its debug information is in {split}, and split files are not read")
                }
                None => of.lacking.clone(),
            }));
        }
        _ => {}
    }
    let deep = Query { deep: true, ..shallow };
    let inside = of_file(scan::all(&units, deep, of.threads), file);
    if let Some(chosen) = choose(&name, &inside.found) {
        let (variable, base) = chosen?;
        return go(variable, base);
    }
    let own = |one: &&Candidate| one.location == Some(Location::ThreadLocal);
    let variable = outside.found.iter().chain(&inside.found).find(own);
    let symbols = tables::find(of, &name, file, DefinitionKind::ThreadLocal);
    match (&symbols[..], variable) {
        ([symbol], Some(variable)) => {
            match tables::from_thread_pointer(&of.image, symbol.address) {
                Some(base) => go(variable, base),
                None => Err(lack(of, &name, inside)),
            }
        }
        _ => Err(lack(of, &name, inside)),
    }
}

/// The fields of the variable of that name and address.
pub(super) fn fields(
    of: &Definitions,
    debug: &DebugInfo,
    variable: (&Expression, u64),
    offsets: &[u64],
) -> Option<Vec<Option<FieldAt>>> {
    let units = Units::of(debug.dwarf());
    let complete = Completer::new(&units, of.threads);
    let types = Types { units: &units };
    let kind = type_of(&units, of.threads, variable)?;
    let finder = FieldFinder { types: &types, complete: &complete };
    let field = |&offset: &u64| finder.find(kind, offset).ok().flatten();
    Some(offsets.iter().map(field).collect())
}

/// The innermost parts of that variable with these offsets.
pub(super) fn part_layouts(
    of: &Definitions,
    debug: &DebugInfo,
    variable: (&Expression, u64),
    parts: &[Vec<u64>],
) -> Option<Vec<Option<PartLayout>>> {
    let units = Units::of(debug.dwarf());
    let complete = Completer { units: &units, threads: of.threads, known: RefCell::default() };
    let types = Types { units: &units };
    let kind = type_of(&units, of.threads, variable)?;
    let reader = LayoutReader::new(&types, &complete, of.is_i386());
    let part = |offsets: &Vec<u64>| reader.part(kind, offsets).ok().flatten();
    Some(parts.iter().map(part).collect())
}

/// The innermost parts with these offsets of an object of the structure, class or union of that name.
pub(super) fn type_part_layouts(
    of: &Definitions,
    debug: &DebugInfo,
    name: &Expression,
    parts: &[Vec<u64>],
) -> Option<Vec<Option<PartLayout>>> {
    let units = Units::of(debug.dwarf());
    let complete = Completer { units: &units, threads: of.threads, known: RefCell::default() };
    let types = Types { units: &units };
    let kind = type_named(&units, of.threads, name)?;
    let reader = LayoutReader::new(&types, &complete, of.is_i386());
    let part = |offsets: &Vec<u64>| reader.part(kind, offsets).ok().flatten();
    Some(parts.iter().map(part).collect())
}

/// The layout of the structure, class or union of that name.
pub(super) fn type_layout(
    of: &Definitions,
    debug: &DebugInfo,
    name: &Expression,
) -> Option<TypeLayout> {
    let units = Units::of(debug.dwarf());
    let complete = Completer { units: &units, threads: of.threads, known: RefCell::default() };
    let types = Types { units: &units };
    let die = type_named(&units, of.threads, name)?;
    LayoutReader::new(&types, &complete, of.is_i386()).layout(die).ok().flatten()
}

/// The structure, class or union of that name.
fn type_named(units: &Units<'_>, threads: usize, name: &Expression) -> Option<Die> {
    let query = |deep| Query { parts: &name.name, types: true, deep };
    let whole = |scanned: Scanned| Some(scanned.found.iter().find(|one| !one.declaration)?.die);
    whole(scan::all(units, query(false), threads))
        .or_else(|| whole(scan::all(units, query(true), threads)))
}

/// The type of the variable of that name and address.
fn type_of(units: &Units<'_>, threads: usize, (name, address): (&Expression, u64)) -> Option<Die> {
    let query = |deep| Query { parts: &name.name, types: false, deep };
    let is_there = |one: &&Candidate| one.location == Some(Location::Address(address));
    let kind = |scanned: Scanned| scanned.found.iter().find(is_there)?.kind;
    // Within functions last, as that takes longer.
    kind(scan::all(units, query(false), threads))
        .or_else(|| kind(scan::all(units, query(true), threads)))
}

/// Those that the source file `file` defines or declares.
fn of_file(mut scanned: Scanned, file: Option<&str>) -> Scanned {
    if let Some(file) = file {
        scanned.found.retain(|one| {
            let declared =
                one.declared.as_ref().is_some_and(|(declared, _)| is_file(declared, file));
            declared || is_file(&one.source, file)
        });
    }
    scanned
}

/// The one that has a place and is meant; `None` if none has one.
fn choose<'f>(
    name: &str,
    found: &'f [Candidate],
) -> Option<Result<(&'f Candidate, u64), DefinitionError>> {
    let place = |one: &'f Candidate| match one.location {
        Some(Location::Address(address)) => Some((one, address)),
        _ => None,
    };
    let mut placed: Vec<(&Candidate, u64)> = found.iter().filter_map(place).collect();
    // What is called so, before what only ends so; what every file sees, before what one does.
    prefer(&mut placed, |one| one.path.join("::") == name);
    prefer(&mut placed, |one| one.function.is_none());
    prefer(&mut placed, |one| one.external);
    placed.sort_by_key(|(one, address)| (*address, one.kind.is_none()));
    placed.dedup_by_key(|(_, address)| *address);
    match placed[..] {
        [] => None,
        [one] => Some(Ok(one)),
        _ => {
            let choices = few(choices(&placed));
            Some(Err(DefinitionError::Ambiguous { name: name.to_owned(), choices }))
        }
    }
}

/// Keeps those that are `better`, if any is.
fn prefer(placed: &mut Vec<(&Candidate, u64)>, better: impl Fn(&Candidate) -> bool) {
    if placed.iter().any(|(one, _)| better(one)) {
        placed.retain(|(one, _)| better(one));
    }
}

/// What to type for each: its path if that tells them apart, else its file too, as short as can be.
fn choices(placed: &[(&Candidate, u64)]) -> Vec<String> {
    let path = |one: &Candidate| one.path.join("::");
    let paths: Vec<String> = placed.iter().map(|(one, _)| path(one)).collect();
    let unique = |texts: &[String]| {
        let mut sorted = texts.to_vec();
        sorted.sort();
        sorted.dedup();
        sorted.len() == texts.len()
    };
    if unique(&paths) {
        return paths;
    }
    let with = |file: &dyn Fn(&Candidate) -> String| -> Vec<String> {
        placed.iter().map(|(one, _)| format!("{}:{}", file(one), path(one))).collect()
    };
    let short = with(&|one| one.source.rsplit('/').next().unwrap_or_default().to_owned());
    if unique(&short) { short } else { with(&|one| one.source.clone()) }
}

/// Why a name has no place.
fn lack(of: &Definitions, name: &str, scanned: Scanned) -> DefinitionError {
    let owned = || name.to_owned();
    let errors = scanned.found.iter().map(|one| match (one.location, &one.function) {
        (Some(Location::ThreadLocal), _) => (0, DefinitionError::ThreadLocal { name: owned() }),
        (Some(Location::Frame | Location::NoOnePlace(_)), Some(function)) => {
            (1, DefinitionError::Local { name: owned(), function: function.clone() })
        }
        (Some(Location::NoOnePlace(how)), None) => {
            (1, DefinitionError::NoOnePlace { name: owned(), how })
        }
        (None, _) if one.constant => (2, DefinitionError::Constant { name: owned() }),
        (None, _) if one.declaration => (4, DefinitionError::Declared { name: owned() }),
        _ => (3, DefinitionError::OptimizedOut { name: owned() }),
    });
    if let Some((_, error)) = errors.min_by_key(|(rank, _)| *rank) {
        return error;
    }
    if !tables::find(of, name, None, DefinitionKind::ThreadLocal).is_empty() {
        return DefinitionError::ThreadLocal { name: owned() };
    }
    let mut nearest = Nearest::new(name);
    scanned.near.iter().for_each(|near| nearest.offer(near));
    tables::offer(of, DefinitionKind::Data, &mut nearest);
    match (nearest.names(), scanned.damaged) {
        (near, Some(Damaged(what))) if near.is_empty() => {
            DefinitionError::Damaged { name: of.path().display().to_string(), what }
        }
        (near, _) => DefinitionError::NoVariable { name: owned(), near },
    }
}

/// Looks for whole types, each once.
pub(super) struct Completer<'c, 'a> {
    units: &'c Units<'a>,
    threads: usize,
    known: RefCell<FxHashMap<String, Option<Die>>>,
}

impl<'c, 'a> Completer<'c, 'a> {
    pub(super) fn new(units: &'c Units<'a>, threads: usize) -> Self {
        Self { units, threads, known: RefCell::default() }
    }
}

impl Complete for Completer<'_, '_> {
    fn complete(&self, name: &str) -> Option<Die> {
        if let Some(known) = self.known.borrow().get(name) {
            return *known;
        }
        let parts = [name.to_owned()];
        let query = Query { parts: &parts, types: true, deep: false };
        let scanned = scan::all(self.units, query, self.threads);
        let whole = scanned.found.iter().find(|one| !one.declaration).map(|one| one.die);
        self.known.borrow_mut().insert(name.to_owned(), whole);
        whole
    }
}
