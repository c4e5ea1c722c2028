//! From an offset in a variable to the field that is there: the way back of `follow`.
//!
//! ```text
//!  offset 40 in `queue`   struct queue { head, lock; struct slot slots[4] { next, value } }
//!                          0             8     16                16: 24 bytes on ─► slots[1], offset 8 in it ─► .value
//!  field                  slots[1].value
//! ```

use addr2line::gimli::{AttributeValue, constants};

use super::follow::Complete;
use super::types::{Shape, Types};
use super::units::{Damaged, Die, DieEntry};

/// Structures and arrays within each other.
const DEEPEST: usize = 64;
/// Parts of a structure.
const MOST_PARTS: usize = 100_000;

/// A field of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldAt {
    /// How to write it after the variable's name: `.slots[1].value`, `[3]`; empty for the variable itself.
    pub path: String,
    /// Where it begins in the variable, bytes.
    pub offset: u64,
    /// Its size, bytes; of bit-fields that of the bytes that they touch.
    pub bytes: u64,
    /// There is no field: the compiler aligns the next one. `path` is that of the structure.
    pub is_padding: bool,
}

/// A part of a structure that has a byte.
struct StructMember {
    /// Its name; `None` of what is as if it belonged to the structure: a base class, a structure without a name.
    name: Option<String>,
    offset: u64,
    bytes: u64,
    kind: Option<Die>,
    is_bits: bool,
}

/// Finds fields by offset.
pub(super) struct FieldFinder<'t, 'u, 'a> {
    pub(super) types: &'t Types<'u, 'a>,
    pub(super) complete: &'t dyn Complete,
}

impl<'a> FieldFinder<'_, '_, 'a> {
    /// The innermost field at `offset` in an object of type `kind`, as far as it is one: of a union, and of an enum with
    /// fields, it is that whole. `None` if the type has no such byte.
    pub(super) fn find(&self, kind: Die, offset: u64) -> Result<Option<FieldAt>, Damaged> {
        Ok(self.levels(kind, offset)?.pop().map(|(at, _)| at))
    }

    /// The same with all that it is in and their types, from the whole object on; no type of bit-fields.
    pub(super) fn levels(
        &self,
        kind: Die,
        offset: u64,
    ) -> Result<Vec<(FieldAt, Option<Die>)>, Damaged> {
        let mut levels = Vec::new();
        let Some(bytes) = self.types.size(kind)?.filter(|&bytes| offset < bytes) else {
            return Ok(levels);
        };
        let mut at = FieldAt { path: String::new(), offset: 0, bytes, is_padding: false };
        let (mut kind, mut left) = (kind, offset);
        // Not a base class, whose only field has a name that says more.
        let mut is_named = true;
        for _ in 0..DEEPEST {
            levels.push((at.clone(), Some(kind)));
            let Some(mut die) = self.types.strip(kind)? else { return Ok(levels) };
            match self.types.shape(die)? {
                Shape::Array { of: Some(of), lengths, stride } => {
                    let element = match stride {
                        Some(stride) => stride,
                        None => self.types.size(of)?.unwrap_or(0),
                    };
                    if element == 0 {
                        return Ok(levels);
                    }
                    at.path.push_str(&indices(left / element, &lengths));
                    at.offset += left - left % element;
                    (at.bytes, left, kind) = (element, left % element, of);
                }
                Shape::Record { complete } => {
                    // An atomic is its number, a smart pointer its pointer, whatever a library calls what is in it.
                    if let Some(number) = self.types.number(die)?.filter(|_| is_named) {
                        levels.push((at, Some(number)));
                        return Ok(levels);
                    }
                    if !complete {
                        let Some(whole) = self.whole(die)? else { return Ok(levels) };
                        die = whole;
                    }
                    if self.types.has_variants(die)? {
                        return Ok(levels);
                    }
                    let mut parts = joined(self.parts_at(die, left)?);
                    let part = match (parts.len(), parts.pop()) {
                        (1, Some(part)) => part,
                        (0, _) => {
                            levels.push((FieldAt { is_padding: true, ..at }, None));
                            return Ok(levels);
                        }
                        _ => return Ok(levels),
                    };
                    is_named = part.name.is_some();
                    if let Some(name) = &part.name {
                        at.path.push('.');
                        at.path.push_str(name);
                    }
                    at.offset += part.offset;
                    (at.bytes, left) = (part.bytes, left - part.offset);
                    match part.kind.filter(|_| !part.is_bits) {
                        Some(next) => kind = next,
                        None => {
                            levels.push((at, None));
                            return Ok(levels);
                        }
                    }
                }
                _ => return Ok(levels),
            }
        }
        Err(Damaged("a structure that contains itself".into()))
    }

    /// The full definition of a type that is only declared.
    pub(super) fn whole(&self, die: Die) -> Result<Option<Die>, Damaged> {
        let (unit, entry) = self.types.units.entry(die)?;
        let name = self.types.units.text(die.section, &unit, &entry, constants::DW_AT_name);
        Ok(name.and_then(|name| self.complete.complete(&name)))
    }

    /// The parts of a structure that have the byte at `offset`: several in a union, and bit-fields of one byte.
    fn parts_at(&self, die: Die, offset: u64) -> Result<Vec<StructMember>, Damaged> {
        let (mut parts, mut seen) = (Vec::new(), 0);
        self.types.units.children(die, |unit, entry| {
            let is_base = entry.tag() == constants::DW_TAG_inheritance;
            let is_part = entry.tag() == constants::DW_TAG_member || is_base;
            if !is_part || entry.has_attr(constants::DW_AT_external) {
                return Ok(None);
            }
            seen += 1;
            if seen == MOST_PARTS {
                return Err(Damaged("a structure with endlessly many fields".into()));
            }
            let Some(field) = self.types.part(die.section, unit, entry)? else { return Ok(None) };
            let size = field.kind.map(|kind| self.types.size(kind)).transpose()?.flatten();
            let bits = bits(entry, field.offset, size);
            let (at, bytes) = bits.unwrap_or((field.offset, size.unwrap_or(0)));
            if !(at..at.saturating_add(bytes)).contains(&offset) {
                return Ok(None);
            }
            let name = self.types.units.text(die.section, unit, entry, constants::DW_AT_name);
            let name = name.filter(|name| !name.is_empty() && !is_base);
            let is_bits = bits.is_some();
            parts.push(StructMember { name, offset: at, bytes, kind: field.kind, is_bits });
            Ok(None::<()>)
        })?;
        // What has no fields takes no room in others, though an object of it alone has a byte.
        if parts.len() > 1 {
            let mut kept = Vec::with_capacity(parts.len());
            for part in parts {
                if part.bytes > 1 || part.is_bits || !self.is_empty(part.kind, DEEPEST)? {
                    kept.push(part);
                }
            }
            return Ok(kept);
        }
        Ok(parts)
    }

    /// Whether a class has no fields, nor has what it inherits from; one in the other, as `std::tuple` has them.
    fn is_empty(&self, kind: Option<Die>, left: usize) -> Result<bool, Damaged> {
        let Some(left) = left.checked_sub(1) else { return Ok(false) };
        let Some(die) = kind.map(|kind| self.types.strip(kind)).transpose()?.flatten() else {
            return Ok(false);
        };
        if self.types.shape(die)? != (Shape::Record { complete: true }) {
            return Ok(false);
        }
        let mut inner = Vec::new();
        self.types.units.children(die, |unit, entry| {
            let is_base = entry.tag() == constants::DW_TAG_inheritance;
            let is_part = entry.tag() == constants::DW_TAG_member || is_base;
            if is_part && !entry.has_attr(constants::DW_AT_external) {
                let units = self.types.units;
                inner.push(units.reference(die.section, unit, entry, constants::DW_AT_type));
            }
            Ok((inner.len() > 1).then_some(()))
        })?;
        match inner[..] {
            [] => Ok(!self.types.has_variants(die)?),
            [only] => self.is_empty(only, left),
            _ => Ok(false),
        }
    }
}

/// Bit-fields of one byte as one part: an access to one of them is an access to all. Other parts of one byte (of a union)
/// stay apart.
fn joined(mut parts: Vec<StructMember>) -> Vec<StructMember> {
    if parts.len() < 2 || !parts.iter().all(|part| part.is_bits) {
        return parts;
    }
    parts.sort_by_key(|part| (part.offset, part.bytes));
    let names: Vec<&str> = parts.iter().filter_map(|part| part.name.as_deref()).collect();
    let name = Some(names.join("/"));
    let offset = parts[0].offset; // at least two
    let end = parts.iter().map(|part| part.offset.saturating_add(part.bytes)).max();
    let bytes = end.unwrap_or(offset) - offset;
    vec![StructMember { name, offset, bytes, kind: None, is_bits: true }]
}

/// First byte and number of bytes that a bit-field touches; `None` where it is none.
fn bits(entry: &DieEntry<'_>, offset: u64, size: Option<u64>) -> Option<(u64, u64)> {
    let (first, width) = bit_range(entry, offset, size)?;
    let end = first.checked_add(width)?;
    Some((first / 8, end.div_ceil(8) - first / 8))
}

/// First bit, from the beginning of the structure, and number of bits of a bit-field; `None` where it is none. DWARF 4
/// and 5 count bits from the beginning of the structure, or of `offset`; earlier ones from the end of a unit of `size`
/// bytes, the most significant bit first (on little-endian machines, which is all that is read here).
pub(super) fn bit_range(
    entry: &DieEntry<'_>,
    offset: u64,
    size: Option<u64>,
) -> Option<(u64, u64)> {
    let number = |name| entry.attr_value(name).and_then(|value| signed(&value));
    let width = number(constants::DW_AT_bit_size).filter(|&width| width > 0)?;
    let first = match number(constants::DW_AT_data_bit_offset) {
        Some(first) => first,
        None => {
            let unit = number(constants::DW_AT_byte_size).or(size.map(|size| size as i64))?;
            let from_end = number(constants::DW_AT_bit_offset).unwrap_or(0);
            let end = (offset as i64).checked_mul(8)?.checked_add(unit.checked_mul(8)?)?;
            end.checked_sub(from_end)?.checked_sub(width)?
        }
    };
    first.checked_add(width)?;
    Some((u64::try_from(first).ok()?, u64::try_from(width).ok()?))
}

fn signed<R: addr2line::gimli::Reader>(value: &AttributeValue<R>) -> Option<i64> {
    let unsigned = || value.udata_value().and_then(|value| i64::try_from(value).ok());
    match value {
        AttributeValue::Sdata(value) => Some(*value),
        _ => unsigned(),
    }
}

/// `[2][1]`: the element of number `index` in rows of these lengths.
fn indices(index: u64, lengths: &[Option<u64>]) -> String {
    let mut rest = index;
    let mut found: Vec<u64> = Vec::with_capacity(lengths.len());
    for (at, length) in lengths.iter().enumerate().rev() {
        let length = length.filter(|&length| at > 0 && length > 0);
        found.push(length.map_or(rest, |length| rest % length));
        rest = length.map_or(0, |length| rest / length);
    }
    found.iter().rev().map(|index| format!("[{index}]")).collect()
}

#[cfg(test)]
mod tests {
    use super::indices;

    #[test]
    fn elements_of_rows() {
        assert_eq!(indices(5, &[Some(10)]), "[5]");
        assert_eq!(indices(5, &[Some(3), Some(4)]), "[1][1]");
        assert_eq!(indices(23, &[Some(2), Some(3), Some(4)]), "[1][2][3]");
        assert_eq!(
            (indices(7, &[None]), indices(7, &[None, Some(4)])),
            ("[7]".into(), "[1][3]".into())
        );
    }
}
