//! From a type and what is known of an offset to the field, and what a loaded pointer points to.

use std::cell::{Cell, RefCell};

use addr2line::gimli::constants;
use rustc_hash::FxHashMap;

use super::super::layout::{FieldAt, FieldFinder};
use super::super::types::{Shape, is_c};
use super::super::units::{Damaged, Die};
use super::UnknownAccess;
use super::facts::common;

/// Structures and arrays within each other.
const DEEPEST: usize = 16;
/// Arrays of a structure.
const MOST_ARRAYS: usize = 64;
/// Fields that are searched for arrays.
const MOST_FIELDS: usize = 10_000;
/// Types that are looked at for what one pointer points to.
const MOST_TARGETS: usize = 256;
/// Declared types that are looked for in all units: each time takes a walk over them.
const MOST_COMPLETED: usize = 64;
/// Answers that are kept.
const MOST_KEPT: usize = 1 << 16;

/// Part of an object that an access is within.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectPart {
    /// The type of the whole object.
    pub(super) owner: Die,
    /// Fields and indices; an index that is not known is `[]`.
    pub(super) path: String,
    /// Of the access in the object, bytes; `None`: depends on an index.
    pub(super) offset: Option<u64>,
    /// How far into the part the access begins, bytes.
    pub(super) within: u64,
    /// The type of the part, if the access begins where it begins.
    pub(super) kind: Option<Die>,
    /// What it points to then.
    pub(super) target: Option<Die>,
    pub(super) bytes: u64,
    /// The object has fields.
    pub(super) has_fields: bool,
}

/// An array in a structure, or what may have one: a union.
struct Elements {
    start: i64,
    end: i64,
    bytes: u64,
    /// `None`: of a union.
    kind: Option<Die>,
    path: String,
}

/// Types of a file, as code uses them.
pub(super) struct FieldResolver<'f, 'u, 'a> {
    finder: FieldFinder<'f, 'u, 'a>,
    whole: RefCell<FxHashMap<Die, Option<Die>>>,
    completed: Cell<usize>,
    /// Names of structures that have none but by `typedef`.
    names: RefCell<FxHashMap<Die, Die>>,
    targets: RefCell<FxHashMap<Die, Option<Die>>>,
    parts: RefCell<FxHashMap<PartKey, FieldResult<ObjectPart>>>,
}

type FieldResult<T> = Result<T, UnknownAccess>;
/// Type, offset, step and bytes.
type PartKey = (Die, i64, u64, u64);

impl From<Damaged> for UnknownAccess {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

impl<'f, 'u, 'a> FieldResolver<'f, 'u, 'a> {
    pub(super) fn new(finder: FieldFinder<'f, 'u, 'a>) -> Self {
        Self {
            finder,
            whole: RefCell::default(),
            completed: Cell::new(0),
            names: RefCell::default(),
            targets: RefCell::default(),
            parts: RefCell::default(),
        }
    }

    /// How the type is written.
    pub(super) fn name(&self, kind: Die) -> String {
        let named = self.names.borrow().get(&kind).copied();
        self.finder.types.name(Some(named.unwrap_or(kind)))
    }

    /// The type itself, in full.
    pub(super) fn whole(&self, kind: Die) -> Option<Die> {
        if let Some(known) = self.whole.borrow().get(&kind) {
            return *known;
        }
        let found = self.strip(kind).unwrap_or(None);
        self.whole.borrow_mut().insert(kind, found);
        found
    }

    fn strip(&self, kind: Die) -> Result<Option<Die>, Damaged> {
        let types = self.finder.types;
        let Some(die) = types.strip(kind)? else { return Ok(None) };
        let (unit, entry) = types.units.entry(die)?;
        if entry.attr_value(constants::DW_AT_name).is_none()
            && let Some(named) = self.last_typedef(kind, die)?
        {
            self.names.borrow_mut().entry(die).or_insert(named);
        }
        // In other languages a bare name is not enough to know which type it is.
        if types.shape(die)? == (Shape::Record { complete: false })
            && is_c(&unit)
            && self.completed.get() < MOST_COMPLETED
        {
            self.completed.set(self.completed.get() + 1);
            return Ok(Some(self.finder.whole(die)?.unwrap_or(die)));
        }
        Ok(Some(die))
    }

    /// The name that a type without one has on the way to it.
    fn last_typedef(&self, kind: Die, stripped: Die) -> Result<Option<Die>, Damaged> {
        let units = self.finder.types.units;
        let (mut at, mut found) = (kind, None);
        for _ in 0..MOST_ARRAYS {
            if at == stripped {
                break;
            }
            let (unit, entry) = units.entry(at)?;
            if entry.tag() == constants::DW_TAG_typedef {
                found = Some(at);
            }
            match units.reference(at.section, &unit, &entry, constants::DW_AT_type) {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(found)
    }

    /// Size of an object, bytes.
    pub(super) fn size(&self, kind: Die) -> Option<u64> {
        self.finder.types.size(kind).ok().flatten()
    }

    /// What a value of the type points to, also where it is a structure of one pointer.
    pub(super) fn target(&self, kind: Die) -> Option<Die> {
        if let Some(known) = self.targets.borrow().get(&kind) {
            return *known;
        }
        let found = self.find_target(kind, &mut 0).unwrap_or(None);
        self.targets.borrow_mut().insert(kind, found);
        found
    }

    /// What the pointer `offset` bytes into a value of the type points to.
    pub(super) fn target_at(&self, kind: Die, offset: u64) -> Option<Die> {
        let levels = self.finder.levels(self.whole(kind)?, offset).ok()?;
        let (at, kind) = levels.last()?;
        (at.offset == offset && !at.is_padding).then_some(())?;
        self.target((*kind)?)
    }

    fn find_target(&self, kind: Die, seen: &mut usize) -> Result<Option<Die>, Damaged> {
        let types = self.finder.types;
        *seen += 1;
        if *seen > MOST_TARGETS {
            return Ok(None);
        }
        let Some(die) = self.whole(kind) else { return Ok(None) };
        match types.shape(die)? {
            Shape::Pointer { to, .. } => Ok(to.and_then(|to| self.whole(to))),
            Shape::Record { complete: true } if types.has_variants(die)? => {
                self.only_target(die, seen)
            }
            Shape::Record { complete: true } => {
                let levels = self.finder.levels(die, 0)?;
                let Some((at, Some(inner))) = levels.last() else { return Ok(None) };
                let whole = at.bytes == self.size(die).unwrap_or(0) && !at.is_padding;
                if whole && levels.len() > 1 { self.find_target(*inner, seen) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }

    /// The one target that a Rust enum like `Option<Box<T>>` has: null stands for all others.
    fn only_target(&self, die: Die, seen: &mut usize) -> Result<Option<Die>, Damaged> {
        let units = self.finder.types.units;
        let bytes = self.size(die);
        let mut below = vec![die];
        let mut payloads = Vec::new();
        for tag in [constants::DW_TAG_variant_part, constants::DW_TAG_variant] {
            let mut next = Vec::new();
            for die in below {
                units.children(die, |unit, entry| {
                    if entry.tag() == tag {
                        let offset = unit.header.offset().0.saturating_add(entry.offset().0);
                        next.push(Die { section: die.section, offset });
                    }
                    Ok((next.len() == MOST_ARRAYS).then_some(()))
                })?;
            }
            below = next;
        }
        for die in below {
            units.children(die, |unit, entry| {
                let name = constants::DW_AT_type;
                payloads.extend(units.reference(die.section, unit, entry, name));
                Ok((payloads.len() == MOST_ARRAYS).then_some(()))
            })?;
        }
        let mut found = None;
        for payload in payloads {
            // A variant that is as large as a pointer and the whole: no tag is apart from it.
            let levels = self.finder.levels(payload, 0)?;
            let Some((at, Some(inner))) = levels.last() else { continue };
            if Some(at.bytes) != bytes {
                continue;
            }
            let target = self.find_target(*inner, seen)?;
            if found.is_some_and(|found| Some(found) != target) {
                return Ok(None);
            }
            found = target;
        }
        Ok(found)
    }

    /// The part of an object of type `kind` that `bytes` bytes at `offset + k × step` are within, for any `k`.
    pub(super) fn part(
        &self,
        kind: Die,
        offset: i64,
        step: u64,
        bytes: u64,
    ) -> FieldResult<ObjectPart> {
        let key = (kind, offset, step, bytes);
        if let Some(known) = self.parts.borrow().get(&key) {
            return known.clone();
        }
        let found = self.find(kind, offset, step, bytes, DEEPEST);
        let mut parts = self.parts.borrow_mut();
        if parts.len() == MOST_KEPT {
            parts.clear();
        }
        parts.insert(key, found.clone());
        found
    }

    fn find(
        &self,
        kind: Die,
        offset: i64,
        step: u64,
        bytes: u64,
        left: usize,
    ) -> FieldResult<ObjectPart> {
        let left = left.checked_sub(1).ok_or(UnknownAccess::Damaged)?;
        let types = self.finder.types;
        let die = self.whole(kind).ok_or(UnknownAccess::NoType)?;
        let shape = types.shape(die)?;
        if let Shape::Array { of, lengths, stride } = &shape {
            let of = of.ok_or(UnknownAccess::NoType)?;
            let element = stride.map_or_else(|| types.size(of), |stride| Ok(Some(stride)))?;
            let element = element.filter(|&element| element > 0).ok_or(UnknownAccess::NoType)?;
            let known = lengths.iter().all(Option::is_some);
            let end = types.size(die)?.filter(|_| known);
            let inside = |at: i64| at >= 0 && end.is_none_or(|end| (at as u64) < end);
            if step == 0 && !inside(offset) {
                return Err(UnknownAccess::Outside);
            }
            if !step.is_multiple_of(element) && self.has_fields(of) {
                return Err(UnknownAccess::Index);
            }
            let within = modulo(offset, element);
            return self.find(of, within as i64, 0, bytes, left);
        }
        if shape == (Shape::Record { complete: false }) {
            return Err(UnknownAccess::NoType);
        }
        let size = types.size(die)?.filter(|&size| size > 0).ok_or(UnknownAccess::Outside)?;
        let inside = offset >= 0 && (offset as u64) < size;
        let is_outside = step == 0 && (!inside || offset as u64 + bytes > size);
        if is_outside && !self.has_fields(die) {
            return Err(UnknownAccess::Number);
        }
        match step {
            0 if !inside => Err(UnknownAccess::Outside),
            0 => self.exact(die, offset as u64, bytes),
            step if step.is_multiple_of(size) && !self.is_open(die)? => {
                self.exact(die, modulo(offset, size), bytes)
            }
            _ => self.indexed(die, offset, step, bytes, left),
        }
    }

    /// What the pointer in Rust's `RawVec<T>` points to, whose type is that of a byte.
    fn elements(&self, kind: Die) -> Option<Die> {
        let die = self.whole(kind)?;
        let units = self.finder.types.units;
        let (unit, entry) = units.entry(die).ok()?;
        let name = units.text(die.section, &unit, &entry, constants::DW_AT_name)?;
        if !name.starts_with("RawVec<") {
            return None;
        }
        let element = units.children(die, |unit, entry| {
            let is_parameter = entry.tag() == constants::DW_TAG_template_type_parameter;
            let name = || units.text(die.section, unit, entry, constants::DW_AT_name);
            let is_element = is_parameter && name().is_some_and(|name| name == "T");
            let of = || units.reference(die.section, unit, entry, constants::DW_AT_type);
            Ok(is_element.then(of).flatten())
        });
        self.whole(element.ok()??)
    }

    /// Whether a variable of the type may be accessed by an index.
    pub(super) fn has_elements(&self, kind: Die) -> bool {
        let Some(die) = self.whole(kind) else { return true };
        match self.finder.types.shape(die) {
            Ok(Shape::Scalar(_) | Shape::Pointer { .. }) => false,
            Ok(Shape::Record { complete: true }) => {
                let mut arrays = Vec::new();
                let result = self.arrays(die, 0, "", &mut arrays, &mut 0, DEEPEST);
                result.is_err() || !arrays.is_empty()
            }
            _ => true,
        }
    }

    fn has_fields(&self, kind: Die) -> bool {
        let shape = self.whole(kind).map(|die| self.finder.types.shape(die));
        !matches!(shape, Some(Ok(Shape::Scalar(_) | Shape::Pointer { .. })))
    }

    /// The innermost field at an offset of an object.
    pub(super) fn at(&self, owner: Die, offset: u64) -> Option<FieldAt> {
        self.finder.find(owner, offset).ok().flatten().filter(|field| !field.is_padding)
    }

    /// Whether a structure may go on behind its end: with an array of no, one or any number of elements. Then a
    /// multiple of its size may be an index of that.
    fn is_open(&self, die: Die) -> FieldResult<bool> {
        let mut arrays = Vec::new();
        self.arrays(die, 0, "", &mut arrays, &mut 0, DEEPEST)?;
        let open = |one: &Elements| one.end.abs_diff(one.start) <= one.bytes || one.end == i64::MAX;
        Ok(arrays.iter().any(|one| one.kind.is_some() && open(one)))
    }

    /// The innermost part that has all these bytes.
    fn exact(&self, die: Die, offset: u64, bytes: u64) -> FieldResult<ObjectPart> {
        let mut levels = self.finder.levels(die, offset)?;
        if levels.last().is_some_and(|(at, _)| at.is_padding) {
            return Err(UnknownAccess::Outside);
        }
        let end = offset.checked_add(bytes).ok_or(UnknownAccess::Damaged)?;
        levels.retain(|(at, _)| at.offset.saturating_add(at.bytes) >= end);
        let elements = levels.iter().rev().filter_map(|(_, kind)| self.elements((*kind)?)).next();
        let (at, kind) = levels.pop().ok_or(UnknownAccess::Outside)?;
        let within = offset - at.offset;
        let kind = kind.filter(|_| within == 0);
        let target = kind.and_then(|kind| self.target(kind));
        Ok(ObjectPart {
            target: target.map(|target| elements.unwrap_or(target)),
            owner: die,
            path: at.path,
            offset: Some(offset),
            within,
            kind,
            bytes: at.bytes,
            has_fields: self.has_fields(die),
        })
    }

    /// The element of an array in a structure. An array is the only one in it, or the offset is that of its first
    /// element, and no other array ends there: then a loop cannot count down to it from its end.
    fn indexed(
        &self,
        die: Die,
        offset: i64,
        step: u64,
        bytes: u64,
        left: usize,
    ) -> FieldResult<ObjectPart> {
        let mut arrays = Vec::new();
        self.arrays(die, 0, "", &mut arrays, &mut 0, DEEPEST)?;
        let only = arrays.len() == 1;
        let inside = |one: &&Elements| {
            let first = if only { one.end } else { one.start.saturating_add(one.bytes as i64) };
            (one.start..first).contains(&offset)
        };
        let found = arrays.iter().find(inside).ok_or(UnknownAccess::Index)?;
        if arrays.iter().any(|other| other.end == found.start && !std::ptr::eq(other, found)) {
            return Err(UnknownAccess::Index);
        }
        let whole = |kind| ObjectPart {
            owner: die,
            path: found.path.clone(),
            offset: None,
            within: offset.abs_diff(found.start),
            kind,
            target: None,
            bytes: found.end.abs_diff(found.start),
            has_fields: true,
        };
        let Some(kind) = found.kind else { return Ok(whole(None)) };
        if common(step, found.bytes) != found.bytes {
            return Err(UnknownAccess::Index);
        }
        let within = modulo(offset.wrapping_sub(found.start), found.bytes);
        let part = self.find(kind, within as i64, 0, bytes, left)?;
        Ok(ObjectPart { path: format!("{}[]{}", found.path, part.path), ..part.clone() }.of(die))
    }

    /// The arrays of a structure, also those of structures in it.
    fn arrays(
        &self,
        die: Die,
        start: i64,
        path: &str,
        found: &mut Vec<Elements>,
        seen: &mut usize,
        left: usize,
    ) -> FieldResult<()> {
        let left = left.checked_sub(1).ok_or(UnknownAccess::Damaged)?;
        let types = self.finder.types;
        let mut fields = Vec::new();
        types.units.children(die, |unit, entry| {
            *seen += 1;
            let is_base = entry.tag() == constants::DW_TAG_inheritance;
            let is_part = entry.tag() == constants::DW_TAG_member || is_base;
            if *seen > MOST_FIELDS {
                return Err(Damaged("a structure with endlessly many fields".into()));
            }
            if is_part
                && !entry.has_attr(constants::DW_AT_external)
                && let Some(field) = types.part(die.section, unit, entry)?
            {
                let name = types.units.text(die.section, unit, entry, constants::DW_AT_name);
                let name = name.filter(|name| !name.is_empty() && !is_base);
                fields.push((name, field));
            }
            Ok(None::<()>)
        })?;
        for (name, field) in fields {
            let Some(kind) = field.kind.and_then(|kind| self.whole(kind)) else { continue };
            let at = start.wrapping_add(field.offset as i64);
            let path = name.map_or_else(|| path.to_owned(), |name| format!("{path}.{name}"));
            let bytes = types.size(kind)?;
            match types.shape(kind)? {
                Shape::Array { of: Some(of), stride, .. } => {
                    let element = stride.map_or_else(|| types.size(of), |one| Ok(Some(one)))?;
                    // An array without a length reaches on behind the structure.
                    let end = bytes.filter(|&bytes| bytes > 0);
                    let end = end.map_or(i64::MAX, |bytes| at.saturating_add(bytes as i64));
                    let bytes = element.unwrap_or(0);
                    found.push(Elements { start: at, end, bytes, kind: Some(of), path });
                }
                Shape::Record { .. } => {
                    let (_, entry) = types.units.entry(kind)?;
                    let before = found.len();
                    let is_union = entry.tag() == constants::DW_TAG_union_type;
                    let has_variants = types.has_variants(kind)?;
                    if !has_variants {
                        self.arrays(kind, at, &path, found, seen, left)?;
                    }
                    if has_variants || (is_union && found.len() > before) {
                        found.truncate(before);
                        let bytes = bytes.unwrap_or(0);
                        let end = at.saturating_add(bytes as i64);
                        found.push(Elements { start: at, end, bytes, kind: None, path });
                    }
                }
                _ => {}
            }
            if found.len() > MOST_ARRAYS {
                return Err(UnknownAccess::Index);
            }
        }
        Ok(())
    }
}

impl ObjectPart {
    /// The same as a part of the structure that has it.
    fn of(self, owner: Die) -> Self {
        Self { owner, offset: None, has_fields: true, ..self }
    }
}

fn modulo(offset: i64, by: u64) -> u64 {
    let by = i128::from(by.max(1));
    i128::from(offset).rem_euclid(by) as u64
}
