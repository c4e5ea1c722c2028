//! Variables and types by name, in all units.
//!
//! Each unit is scanned once, entry by entry; names are compared where they can be meant: in the unit
//! itself and in its namespaces. The contents of functions are searched only if that finds nothing.

use addr2line::gimli::{
    self, AttributeValue, DebugTypeSignature, DwTag, UnitHeader, UnitOffset, constants,
};
use rustc_hash::FxHashMap;

use super::location::{self, Location};
use super::names::Nearest;
use super::units::{Damaged, Die, DieValue, Dwarf, DwarfUnit, Section, Units, target};
use crate::dwarf::Slice;
use crate::pool;

/// Scopes within each other.
const DEEPEST: usize = 128;
/// Entries of one name.
const MOST_FOUND: usize = 10_000;
/// Entries that say only which other one they belong to.
const MOST_PENDING: usize = 1 << 20;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'q> {
    /// Scopes and name.
    pub(super) parts: &'q [String],
    /// Types rather than variables.
    pub(super) types: bool,
    /// Within functions too.
    pub(super) deep: bool,
}

/// A variable or type of the name that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) die: Die,
    /// Scopes and name; names of functions too.
    pub(super) path: Vec<String>,
    /// The function that it is within.
    pub(super) function: Option<String>,
    /// `None`: the entry does not say, as a declaration.
    pub(super) location: Option<Location>,
    /// A constant stands in its place.
    pub(super) constant: bool,
    pub(super) declaration: bool,
    /// Known to other units.
    pub(super) external: bool,
    pub(super) kind: Option<Die>,
    /// Of its type, where a unit of its own tells that.
    signature: Option<DebugTypeSignature>,
    /// File and line that declare it.
    pub(super) declared: Option<(String, u32)>,
    /// The source that was compiled.
    pub(super) source: String,
}

/// What all units have.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) found: Vec<Candidate>,
    /// Names that are like it.
    pub(super) near: Vec<String>,
    /// Files of split debug information, which is not read.
    pub(super) split: Option<String>,
    /// The first unit that could not be read.
    pub(super) damaged: Option<Damaged>,
}

/// What one unit has.
#[derive(Default)]
struct Unfinished {
    found: Vec<Candidate>,
    /// Entries with the name of others, and where those are.
    pending: Vec<(Die, Candidate)>,
    near: Vec<String>,
    split: Option<String>,
    damaged: Option<Damaged>,
}

/// Asks all units, on `threads` threads.
pub(super) fn all(units: &Units<'_>, query: Query<'_>, threads: usize) -> Scanned {
    let dwarf = &units.dwarf;
    let parts = pool::run(units.main(), threads, |header| one(dwarf, header, query));
    let mut scanned = Scanned::default();
    let mut pending = Vec::new();
    let last = query.parts.last().map_or("", String::as_str);
    let mut nearest = Nearest::new(last);
    for part in parts {
        let Some(part) = part else {
            scanned.damaged.get_or_insert(Damaged("a unit cannot be read".into()));
            continue;
        };
        let left = MOST_FOUND.saturating_sub(scanned.found.len());
        scanned.found.extend(part.found.into_iter().take(left));
        let left = MOST_PENDING.saturating_sub(pending.len());
        pending.extend(part.pending.into_iter().take(left));
        part.near.iter().for_each(|name| nearest.offer(name));
        scanned.split = scanned.split.or(part.split);
        scanned.damaged = scanned.damaged.or(part.damaged);
    }
    complete(&mut scanned.found, pending);
    for candidate in &mut scanned.found {
        let signed = || units.type_unit(candidate.signature?);
        candidate.kind = candidate.kind.or_else(signed);
    }
    scanned.near = nearest.names();
    scanned
}

/// Gives entries that say which other one they belong to its name and type.
fn complete(found: &mut Vec<Candidate>, pending: Vec<(Die, Candidate)>) {
    let by_die: FxHashMap<Die, usize> =
        found.iter().enumerate().map(|(at, candidate)| (candidate.die, at)).collect();
    for (of, mut candidate) in pending {
        let Some(&at) = by_die.get(&of) else { continue };
        let of = &found[at];
        candidate.path.clone_from(&of.path);
        candidate.function = of.function.clone().or(candidate.function);
        candidate.kind = candidate.kind.or(of.kind);
        candidate.signature = candidate.signature.or(of.signature);
        candidate.external |= of.external;
        candidate.constant |= of.constant;
        candidate.declared = of.declared.clone().or(candidate.declared);
        found.push(candidate);
    }
}

fn one<'a>(dwarf: &Dwarf<'a>, header: &UnitHeader<Slice<'a>>, query: Query<'_>) -> Unfinished {
    let mut found = Unfinished::default();
    let Ok(unit) = dwarf.unit(*header) else {
        found.damaged = Some(Damaged(format!("the unit at {:#x}", header.offset().0)));
        return found;
    };
    if let Ok(Some(name)) = unit.dwo_name() {
        let name = dwarf.attr_string(&unit, name).map(|name| name.to_string_lossy().into_owned());
        found.split = Some(name.unwrap_or_default());
        return found;
    }
    let source = unit.name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let last = query.parts.last().map_or("", String::as_str);
    let mut walk = Walk {
        dwarf,
        unit: &unit,
        query,
        last,
        source,
        scopes: Vec::new(),
        nearest: Nearest::new(last),
        found,
    };
    if let Err(error) = walk.walk() {
        walk.found.damaged = Some(error.into());
    }
    walk.found.near = walk.nearest.names();
    walk.found
}

/// An entry that has others inside.
struct EntryScope {
    depth: isize,
    /// `None`: has no name, as a block.
    name: Option<String>,
    is_function: bool,
    /// May be left out by who names something inside.
    optional: bool,
}

struct Walk<'w, 'a> {
    dwarf: &'w Dwarf<'a>,
    unit: &'w DwarfUnit<'a>,
    query: Query<'w>,
    last: &'w str,
    source: String,
    scopes: Vec<EntryScope>,
    nearest: Nearest<'w>,
    found: Unfinished,
}

/// Attributes that are looked at.
#[derive(Default)]
struct Attributes<'a> {
    name: Option<DieValue<'a>>,
    linkage: Option<DieValue<'a>>,
    location: Option<DieValue<'a>>,
    kind: Option<DieValue<'a>>,
    /// The entry whose name and type it has.
    of: Option<DieValue<'a>>,
    file: Option<u64>,
    line: Option<u64>,
    sibling: Option<UnitOffset>,
    constant: bool,
    declaration: bool,
    external: bool,
    exported: bool,
}

impl<'a> Walk<'_, 'a> {
    fn walk(&mut self) -> gimli::Result<()> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(None)?;
        // Depth of the entries that `entries` began with.
        let mut base = 0;
        // Everything deeper than this is passed over.
        let mut skipped: Option<isize> = None;
        while !entries.is_empty() {
            let depth = base + entries.next_depth();
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if skipped.is_some_and(|limit| depth > limit) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            skipped = None;
            while self.scopes.last().is_some_and(|scope| scope.depth >= depth) {
                self.scopes.pop();
            }
            let what = self.interest(abbreviation.tag());
            if what == Interest::None && !abbreviation.has_children() {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut attributes = Attributes::default();
            for specification in abbreviation.attributes() {
                attributes.take(&entries.read_attribute(*specification)?);
            }
            let is_field = abbreviation.tag() == constants::DW_TAG_member
                && !attributes.external
                && !attributes.declaration;
            if (what == Interest::Object && !is_field) || what == Interest::Type {
                self.object(offset, &attributes);
            }
            if !abbreviation.has_children() || what == Interest::Unit {
                continue;
            }
            if what.is_entered() && self.scopes.len() < DEEPEST {
                let scope = self.scope(depth, abbreviation.tag(), &attributes);
                self.scopes.push(scope);
            } else if let Some(next) =
                attributes.sibling.filter(|next| *next > entries.next_offset())
            {
                entries = unit.entries_raw(Some(next))?;
                base = depth;
            } else {
                skipped = Some(depth);
            }
        }
        Ok(())
    }

    /// What an entry is for, with this query.
    fn interest(&self, tag: DwTag) -> Interest {
        match tag {
            constants::DW_TAG_compile_unit
            | constants::DW_TAG_partial_unit
            | constants::DW_TAG_type_unit => Interest::Unit,
            constants::DW_TAG_variable | constants::DW_TAG_member if !self.query.types => {
                // Members are variables where they are static, which newer compilers say otherwise.
                Interest::Object
            }
            // Never at one address, but it is better to say so than not to know them.
            constants::DW_TAG_formal_parameter if self.query.deep && !self.query.types => {
                Interest::Object
            }
            constants::DW_TAG_namespace | constants::DW_TAG_module => Interest::Scope,
            constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type
            | constants::DW_TAG_enumeration_type => {
                let entered = self.query.parts.len() > 1 || self.query.deep;
                match (self.query.types, entered) {
                    (true, _) => Interest::Type,
                    (false, true) => Interest::Scope,
                    (false, false) => Interest::None,
                }
            }
            constants::DW_TAG_subprogram
            | constants::DW_TAG_lexical_block
            | constants::DW_TAG_inlined_subroutine
            | constants::DW_TAG_try_block
            | constants::DW_TAG_catch_block
                if self.query.deep =>
            {
                Interest::Scope
            }
            _ => Interest::None,
        }
    }

    fn scope(&self, depth: isize, tag: DwTag, attributes: &Attributes<'a>) -> EntryScope {
        let is_function = tag == constants::DW_TAG_subprogram;
        let mut name = self.text(attributes.name.as_ref());
        if name.is_none() && is_function {
            name = self.name_of(attributes.of.as_ref(), 2);
        }
        let nameless = name.is_none() && tag == constants::DW_TAG_namespace;
        if nameless {
            name = Some("(anonymous namespace)".into());
        }
        EntryScope { depth, name, is_function, optional: nameless || attributes.exported }
    }

    /// The name of another entry of this unit, through at most `steps` more.
    fn name_of(&self, of: Option<&DieValue<'a>>, steps: usize) -> Option<String> {
        let Some(AttributeValue::UnitRef(offset)) = of else { return None };
        let entry = self.unit.entry(*offset).ok()?;
        let name = self.text(entry.attr_value(constants::DW_AT_name).as_ref());
        name.or_else(|| {
            let of = entry
                .attr_value(constants::DW_AT_specification)
                .or_else(|| entry.attr_value(constants::DW_AT_abstract_origin));
            self.name_of(of.as_ref(), steps.checked_sub(1)?)
        })
    }

    fn text(&self, value: Option<&DieValue<'a>>) -> Option<String> {
        let text = self.dwarf.attr_string(self.unit, *value?).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    fn is(&self, value: Option<&DieValue<'a>>, name: &str) -> bool {
        value.is_some_and(|value| {
            let text = self.dwarf.attr_string(self.unit, *value);
            text.is_ok_and(|text| text.slice() == name.as_bytes())
        })
    }

    fn object(&mut self, offset: UnitOffset, attributes: &Attributes<'a>) {
        let start = self.unit.header.offset().0;
        if attributes.name.is_none() {
            // Which variable this is says another entry, maybe of another unit.
            let of = attributes.of.as_ref().and_then(|of| target(Section::Main, start, of));
            let is_place = attributes.location.is_some() || attributes.constant;
            if let Some(of) = of.filter(|_| is_place && self.found.pending.len() < MOST_PENDING) {
                let candidate = self.candidate(offset, Vec::new(), attributes);
                self.found.pending.push((of, candidate));
            }
            return;
        }
        let is_linkage =
            self.query.parts.len() == 1 && self.is(attributes.linkage.as_ref(), self.last);
        if !is_linkage && !self.is(attributes.name.as_ref(), self.last) {
            if self.query.deep && !self.scopes.iter().any(|scope| scope.is_function) {
                let name = self.text(attributes.name.as_ref()).unwrap_or_default();
                self.nearest.offer(&self.path(name).join("::"));
            }
            return;
        }
        if !is_linkage && !self.within() {
            return;
        }
        let path = self.path(self.text(attributes.name.as_ref()).unwrap_or_default());
        if self.found.found.len() < MOST_FOUND {
            let candidate = self.candidate(offset, path, attributes);
            self.found.found.push(candidate);
        }
    }

    fn candidate(
        &self,
        offset: UnitOffset,
        path: Vec<String>,
        attributes: &Attributes<'a>,
    ) -> Candidate {
        let start = self.unit.header.offset().0;
        let place = |value: &DieValue<'a>| {
            location::of(self.dwarf, self.unit, value).unwrap_or(Location::NoOnePlace(
                "at a location that the damaged debug information does not give",
            ))
        };
        let functions = self.scopes.iter().rev().filter(|scope| scope.is_function);
        Candidate {
            die: Die { section: Section::Main, offset: start.saturating_add(offset.0) },
            path,
            function: functions.into_iter().find_map(|scope| scope.name.clone()),
            location: attributes.location.as_ref().map(place),
            constant: attributes.constant,
            declaration: attributes.declaration,
            external: attributes.external,
            kind: attributes.kind.as_ref().and_then(|kind| target(Section::Main, start, kind)),
            signature: match attributes.kind {
                Some(AttributeValue::DebugTypesRef(signature)) => Some(signature),
                _ => None,
            },
            declared: self.declared(attributes),
            source: self.source.clone(),
        }
    }

    /// Whether the scopes asked for are the innermost ones here.
    fn within(&self) -> bool {
        let mut asked = self.query.parts.iter().rev().skip(1);
        let mut next = asked.next();
        for scope in self.scopes.iter().rev() {
            let Some(part) = next else { return true };
            let Some(name) = &scope.name else { continue };
            if same(name, part) {
                next = asked.next();
            } else if !scope.optional {
                return false;
            }
        }
        next.is_none()
    }

    fn path(&self, name: String) -> Vec<String> {
        let scopes = self.scopes.iter().filter_map(|scope| scope.name.clone());
        scopes.chain(std::iter::once(name)).collect()
    }

    fn declared(&self, attributes: &Attributes<'a>) -> Option<(String, u32)> {
        let line = u32::try_from(attributes.line?).ok()?;
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(attributes.file?)?;
        let name = self.text(Some(&file.path_name()))?;
        let directory = file.directory(header).filter(|_| file.directory_index() != 0);
        let directory = directory.and_then(|directory| self.text(Some(&directory)));
        Some((joined(directory.as_deref(), &name), line))
    }
}

/// A file's path.
pub(super) fn joined(directory: Option<&str>, name: &str) -> String {
    match directory {
        Some(directory) if !name.starts_with('/') && !directory.is_empty() => {
            format!("{}/{name}", directory.trim_end_matches('/'))
        }
        _ => name.to_owned(),
    }
}

/// Whether a scope is what was asked for: spaces do not count, nor do a template's arguments that were
/// not asked for.
fn same(name: &str, asked: &str) -> bool {
    if name == asked {
        return true;
    }
    let bare = |text: &str| text.replace(' ', "");
    match (name.split_once('<'), asked.contains('<')) {
        (Some((before, _)), false) => before == asked,
        (Some(_), true) => bare(name) == bare(asked),
        (None, _) => false,
    }
}

/// What is done with an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interest {
    /// Passed over, with all in it.
    None,
    /// The root of all.
    Unit,
    /// Entered.
    Scope,
    /// A type, entered too.
    Type,
    /// Maybe what is looked for.
    Object,
}

impl Interest {
    fn is_entered(self) -> bool {
        matches!(self, Self::Scope | Self::Type)
    }
}

impl<'a> Attributes<'a> {
    fn take(&mut self, attribute: &gimli::Attribute<Slice<'a>>) {
        let value = attribute.value();
        match attribute.name() {
            constants::DW_AT_name => self.name = Some(value),
            constants::DW_AT_linkage_name | constants::DW_AT_MIPS_linkage_name => {
                self.linkage = Some(value);
            }
            constants::DW_AT_location => self.location = Some(value),
            constants::DW_AT_type => self.kind = Some(value),
            constants::DW_AT_specification | constants::DW_AT_abstract_origin => {
                self.of = Some(value);
            }
            constants::DW_AT_decl_file => {
                self.file = match value {
                    AttributeValue::FileIndex(index) => Some(index),
                    other => other.udata_value(),
                }
            }
            constants::DW_AT_decl_line => self.line = value.udata_value(),
            constants::DW_AT_sibling => {
                if let AttributeValue::UnitRef(offset) = value {
                    self.sibling = Some(offset);
                }
            }
            constants::DW_AT_const_value => self.constant = true,
            constants::DW_AT_declaration => self.declaration = value == AttributeValue::Flag(true),
            constants::DW_AT_external => self.external = value == AttributeValue::Flag(true),
            constants::DW_AT_export_symbols => self.exported = true,
            _ => {}
        }
    }
}
