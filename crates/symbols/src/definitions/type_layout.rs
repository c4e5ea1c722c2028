//! What a type consists of: its members with offsets, sizes and alignments, as its compiler placed them.
//!
//! ```text
//!  struct queue { long head; char tag; struct slot slots[4]; }       bytes 80, align 8
//!                 0: 8, of 8  8: 1, of 1  16: 64, of 8, elements of 16
//! ```
//! Debug information has offsets and sizes. Alignments it has only where a program asks for them (`DW_AT_alignment`; those
//! of Rust always); all others follow from the type: numbers and pointers are aligned to their size (on i386 to 4 at
//! most), an array as its elements, a structure as the member with the largest alignment. Offsets that contradict this
//! show a packed structure.

use std::cell::Cell;

use addr2line::gimli::{AttributeValue, constants};

use super::follow::Complete;
use super::layout::bit_range;
use super::types::{Shape, Types};
use super::units::{Damaged, Die, DieEntry, DwarfUnit};

/// Structures and arrays within each other.
const DEEPEST: usize = 64;
/// Members that are looked at for one layout, those of members included.
const MOST_MEMBERS: usize = 100_000;
/// No scalar has a larger alignment unless it is asked for, bytes.
const LARGEST_SCALAR: u64 = 16;

/// What kind of type a layout is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutKind {
    /// A structure or class.
    Record,
    /// All members begin at the same byte.
    Union,
    /// One of Rust's enums with fields: which ones it has depends on its value.
    Variants,
    /// A number, a pointer, an array.
    Other,
}

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRole {
    /// A member, or all members of a structure or union without a name.
    Member,
    /// A base class.
    Base,
    /// The pointer to a class's virtual functions.
    VirtualTable,
}

/// Elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayLayout {
    /// From the beginning of an element to that of the next one, bytes.
    pub stride: u64,
    /// Number of elements, those of all dimensions; `None` where the array has no known end.
    pub length: Option<u64>,
    /// The type of an element in the syntax of its language. Foreign text.
    pub element: String,
}

/// A member of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutField {
    /// Its name; empty of a structure or union without a name; of a base class that of the class. Foreign text.
    pub name: String,
    /// What it is.
    pub role: FieldRole,
    /// Its first byte in the type; of a bit-field, of the unit of its type's size that it is in.
    pub offset: u64,
    /// Bytes; 0 of a member without a size, as `int data[]` or an empty class.
    pub bytes: u64,
    /// Its offset is a multiple of this.
    pub align: u64,
    /// First bit from the beginning of the type, and number of bits, of a bit-field.
    pub bits: Option<(u64, u64)>,
    /// Its type in the syntax of its language. Foreign text.
    pub type_name: String,
    /// Its elements, where it is an array.
    pub array: Option<ArrayLayout>,
}

/// A type and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeLayout {
    /// The type in the syntax of its language. Foreign text.
    pub name: String,
    /// Size of an object, bytes.
    pub bytes: u64,
    /// Addresses of objects are multiples of this.
    pub align: u64,
    /// What kind of type it is.
    pub kind: LayoutKind,
    /// Some member is not where its alignment would have it: the structure is packed.
    pub is_packed: bool,
    /// Where parts of it are depends on the object: it has virtual base classes.
    pub has_virtual_bases: bool,
    /// The compiler chooses the order of its members, whatever the source says, as that of Rust does (unless `repr(C)`
    /// forbids it, which debug information does not show).
    pub is_ordered_by_compiler: bool,
    /// Members in the order of their offsets; none of a type that is no structure, class or union.
    pub fields: Vec<LayoutField>,
}

/// An array that holds an object, or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// From an element to the next one, bytes.
    pub stride: u64,
    /// Number of elements; `None`: not known.
    pub length: Option<u64>,
}

/// The innermost part of a variable that has all bytes that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartLayout {
    /// How to write it after the variable's name; elements without their numbers: `.slots[]`.
    pub path: String,
    /// Where it begins in the variable, bytes; of elements, where the first one does.
    pub offset: u64,
    /// The array that it is an element of, or a part of an element.
    pub repeated: Option<Repeated>,
    /// The bytes are in different elements of that array.
    pub has_several: bool,
    /// Its type; of elements, theirs.
    pub layout: TypeLayout,
}

/// Reads layouts.
pub(super) struct LayoutReader<'t, 'u, 'a> {
    types: &'t Types<'u, 'a>,
    complete: &'t dyn Complete,
    /// The largest alignment of a scalar.
    largest: u64,
    /// Members left to look at.
    left: Cell<usize>,
}

/// A member as debug information has it.
struct LayoutPart {
    field: LayoutField,
    kind: Option<Die>,
}

impl<'t, 'u, 'a> LayoutReader<'t, 'u, 'a> {
    /// `is_i386`: a program for 32-bit x86.
    pub(super) fn new(types: &'t Types<'u, 'a>, complete: &'t dyn Complete, is_i386: bool) -> Self {
        let largest = if is_i386 { 4 } else { LARGEST_SCALAR };
        Self { types, complete, largest, left: Cell::new(MOST_MEMBERS) }
    }

    /// The layout of a type; `None` if its size is not known.
    pub(super) fn layout(&self, kind: Die) -> Result<Option<TypeLayout>, Damaged> {
        self.left.set(MOST_MEMBERS);
        let name = self.types.name(Some(kind));
        let Some(die) = self.whole(kind)? else { return Ok(None) };
        let Some(bytes) = self.types.size(die)? else { return Ok(None) };
        let align = self.align(kind, DEEPEST)?;
        let mut layout = TypeLayout {
            name,
            bytes,
            align,
            kind: self.kind(die)?,
            is_packed: false,
            has_virtual_bases: false,
            is_ordered_by_compiler: self.is_rust(die)?,
            fields: Vec::new(),
        };
        if matches!(layout.kind, LayoutKind::Record | LayoutKind::Union) {
            let (parts, has_virtual_bases) = self.parts(die, DEEPEST)?;
            layout.fields = parts.into_iter().map(|part| part.field).collect();
            layout.has_virtual_bases = has_virtual_bases;
        }
        settle(&mut layout);
        Ok(Some(layout))
    }

    /// The innermost part of a variable of type `kind` that has all of `offsets`; `None` if it has no structure or array
    /// that does.
    pub(super) fn part(&self, kind: Die, offsets: &[u64]) -> Result<Option<PartLayout>, Damaged> {
        let Some(bytes) = self.types.size(kind)? else { return Ok(None) };
        let Some(&first) = offsets.first() else { return Ok(None) };
        if offsets.iter().any(|&offset| offset >= bytes) {
            return Ok(None);
        }
        let (mut kind, mut start) = (kind, 0_u64);
        let mut at = FoundPart { path: String::new(), offset: 0, repeated: None };
        let mut innermost = None;
        for _ in 0..DEEPEST {
            let Some(die) = self.whole(kind)? else { break };
            match self.types.shape(die)? {
                Shape::Array { of: Some(of), lengths, stride } => {
                    let Some(array) = self.elements(of, &lengths, stride)? else { break };
                    let number = |offset: &u64| offset.saturating_sub(start) / array.stride;
                    at.path.push_str(&"[]".repeat(lengths.len()));
                    let repeated = Repeated { stride: array.stride, length: array.length };
                    (at.offset, at.repeated) = (start, Some(repeated));
                    if offsets.iter().any(|offset| number(offset) != number(&first)) {
                        return Ok(self.layout(of)?.map(|layout| at.with(true, layout)));
                    }
                    start = start.saturating_add(number(&first).saturating_mul(array.stride));
                    kind = of;
                }
                Shape::Record { .. } => {
                    innermost = Some((kind, at.clone()));
                    if self.kind(die)? != LayoutKind::Record {
                        break;
                    }
                    let Some(part) = self.part_of_all(die, start, offsets)? else { break };
                    if !part.field.name.is_empty() && part.field.role != FieldRole::Base {
                        at.path.push('.');
                        at.path.push_str(&part.field.name);
                    }
                    let Some(next) = part.kind else { break };
                    start = start.saturating_add(part.field.offset);
                    at.offset = at.offset.saturating_add(part.field.offset);
                    kind = next;
                }
                _ => break,
            }
        }
        let Some((kind, at)) = innermost else { return Ok(None) };
        Ok(self.layout(kind)?.map(|layout| at.with(false, layout)))
    }

    /// The one part of a structure at `start` that has all of `offsets`.
    fn part_of_all(
        &self,
        die: Die,
        start: u64,
        offsets: &[u64],
    ) -> Result<Option<LayoutPart>, Damaged> {
        let (parts, _) = self.parts(die, DEEPEST)?;
        let has = |part: &LayoutPart, offset: u64| {
            let from = start.saturating_add(part.field.offset);
            (from..from.saturating_add(part.field.bytes)).contains(&offset)
        };
        let mut all = parts.into_iter().filter(|part| offsets.iter().any(|&at| has(part, at)));
        let one = all.next().filter(|_| all.next().is_none());
        Ok(one.filter(|part| offsets.iter().all(|&at| has(part, at)) && part.field.bits.is_none()))
    }

    /// The type itself, whole where it is only declared.
    fn whole(&self, kind: Die) -> Result<Option<Die>, Damaged> {
        let Some(die) = self.types.strip(kind)? else { return Ok(None) };
        if self.types.shape(die)? != (Shape::Record { complete: false }) {
            return Ok(Some(die));
        }
        let (unit, entry) = self.types.units.entry(die)?;
        let name = self.types.units.text(die.section, &unit, &entry, constants::DW_AT_name);
        Ok(name.and_then(|name| self.complete.complete(&name)))
    }

    fn kind(&self, die: Die) -> Result<LayoutKind, Damaged> {
        if !matches!(self.types.shape(die)?, Shape::Record { .. }) {
            return Ok(LayoutKind::Other);
        }
        let (_, entry) = self.types.units.entry(die)?;
        Ok(match entry.tag() {
            constants::DW_TAG_union_type => LayoutKind::Union,
            _ if self.types.has_variants(die)? => LayoutKind::Variants,
            _ => LayoutKind::Record,
        })
    }

    fn is_rust(&self, die: Die) -> Result<bool, Damaged> {
        let (unit, _) = self.types.units.entry(die)?;
        let root = unit.entry(unit.header.root_offset())?;
        Ok(matches!(
            root.attr_value(constants::DW_AT_language),
            Some(AttributeValue::Language(constants::DW_LANG_Rust))
        ))
    }

    /// Elements of an array of `of`; `None` if they have no size.
    fn elements(
        &self,
        of: Die,
        lengths: &[Option<u64>],
        stride: Option<u64>,
    ) -> Result<Option<ArrayLayout>, Damaged> {
        let stride = match stride {
            Some(stride) => Some(stride),
            None => self.types.size(of)?,
        };
        let length = lengths.iter().try_fold(1_u64, |all, length| all.checked_mul((*length)?));
        let stride = stride.filter(|&stride| stride > 0);
        Ok(stride.map(|stride| ArrayLayout { stride, length, element: self.types.name(Some(of)) }))
    }

    /// Members of a structure or union in the order of their offsets, and whether there are parts at offsets that depend
    /// on the object.
    fn parts(&self, die: Die, depth: usize) -> Result<(Vec<LayoutPart>, bool), Damaged> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Damaged("a structure that contains itself".into()));
        };
        let (mut parts, mut has_virtual) = (Vec::new(), false);
        self.types.units.children(die, |unit, entry| {
            let is_base = entry.tag() == constants::DW_TAG_inheritance;
            let is_part = entry.tag() == constants::DW_TAG_member || is_base;
            let is_static = entry.has_attr(constants::DW_AT_external)
                || entry.has_attr(constants::DW_AT_declaration);
            if !is_part || is_static {
                return Ok(None);
            }
            let left = self.left.get().checked_sub(1);
            let left = left.ok_or_else(|| Damaged("a structure with too many fields".into()))?;
            self.left.set(left);
            match self.types.part(die.section, unit, entry)? {
                None => has_virtual = true,
                Some(found) => {
                    let field =
                        self.field((die, unit, entry), (found.offset, found.kind), depth)?;
                    parts.push(LayoutPart { field, kind: found.kind });
                }
            }
            Ok(None::<()>)
        })?;
        parts.sort_by_key(|part| (part.field.offset, part.field.bits, part.field.bytes > 0));
        Ok((parts, has_virtual))
    }

    fn field(
        &self,
        (die, unit, entry): (Die, &DwarfUnit<'a>, &DieEntry<'a>),
        (offset, kind): (u64, Option<Die>),
        depth: usize,
    ) -> Result<LayoutField, Damaged> {
        let size = kind.map(|kind| self.size(kind)).transpose()?.flatten();
        let own = self.types.units.text(die.section, unit, entry, constants::DW_AT_name);
        let is_base = entry.tag() == constants::DW_TAG_inheritance;
        let type_name = self.types.name(kind);
        let name = if is_base { type_name.clone() } else { own.unwrap_or_default() };
        let is_table = entry.has_attr(constants::DW_AT_artificial) && name.starts_with("_vptr");
        let role = match (is_base, is_table) {
            (true, _) => FieldRole::Base,
            (_, true) => FieldRole::VirtualTable,
            _ => FieldRole::Member,
        };
        let asked = alignment(entry);
        let align = match (asked, kind) {
            (Some(asked), _) => asked,
            (None, Some(kind)) => self.align(kind, depth)?,
            (None, None) => 1,
        };
        let bits = bit_range(entry, offset, size);
        // The unit that it is in, as an object of its type would be.
        let unit_offset = |first: u64| match size.filter(|&size| size > 0) {
            Some(size) => first / 8 - first / 8 % size,
            None => first / 8,
        };
        let offset = bits.map_or(offset, |(first, _)| unit_offset(first));
        let array = self.array(kind)?;
        let is_empty = is_base && kind.map(|kind| self.is_empty(kind, depth)) == Some(Ok(true));
        let bytes = size.filter(|_| !is_empty).unwrap_or(0);
        Ok(LayoutField { name, role, offset, bytes, align, bits, type_name, array })
    }

    /// Whether a class has no data: then it takes no room as a base class, though objects have a byte.
    fn is_empty(&self, kind: Die, depth: usize) -> Result<bool, Damaged> {
        let Some(die) = self.whole(kind)? else { return Ok(false) };
        let (parts, has_virtual) = self.parts(die, depth)?;
        Ok(!has_virtual && parts.iter().all(|part| part.field.bytes == 0))
    }

    fn array(&self, kind: Option<Die>) -> Result<Option<ArrayLayout>, Damaged> {
        let Some(die) = kind.map(|kind| self.types.strip(kind)).transpose()?.flatten() else {
            return Ok(None);
        };
        match self.types.shape(die)? {
            Shape::Array { of: Some(of), lengths, stride } => self.elements(of, &lengths, stride),
            _ => Ok(None),
        }
    }

    fn size(&self, kind: Die) -> Result<Option<u64>, Damaged> {
        let Some(die) = self.whole(kind)? else { return Ok(None) };
        let (unit, entry) = self.types.units.entry(die)?;
        if entry.tag() != constants::DW_TAG_ptr_to_member_type {
            return self.types.size(die);
        }
        // A pointer to a member function also says how to find the object that it is called for (Itanium C++ ABI).
        let to = self.types.units.reference(die.section, &unit, &entry, constants::DW_AT_type);
        let pointer = u64::from(unit.encoding().address_size);
        let Some(to) = to.map(|to| self.types.strip(to)).transpose()?.flatten() else {
            return Ok(Some(pointer));
        };
        let (_, to) = self.types.units.entry(to)?;
        let is_function = to.tag() == constants::DW_TAG_subroutine_type;
        Ok(Some(if is_function { 2 * pointer } else { pointer }))
    }

    /// What addresses of objects of the type are multiples of.
    fn align(&self, kind: Die, depth: usize) -> Result<u64, Damaged> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Damaged("a structure that contains itself".into()));
        };
        // Other names of a type may have an alignment of their own.
        let mut at = kind;
        for _ in 0..DEEPEST {
            let (unit, entry) = self.types.units.entry(at)?;
            if let Some(asked) = alignment(&entry) {
                return Ok(asked);
            }
            let next = match entry.tag() {
                constants::DW_TAG_typedef
                | constants::DW_TAG_const_type
                | constants::DW_TAG_volatile_type
                | constants::DW_TAG_atomic_type => {
                    self.types.units.reference(at.section, &unit, &entry, constants::DW_AT_type)
                }
                _ => None,
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        let Some(die) = self.whole(at)? else { return Ok(1) };
        let (_, entry) = self.types.units.entry(die)?;
        if let Some(asked) = alignment(&entry) {
            return Ok(asked);
        }
        let size = self.size(die)?.unwrap_or(1);
        Ok(match self.types.shape(die)? {
            Shape::Array { .. } if entry.has_attr(constants::DW_AT_GNU_vector) => {
                power_of_two_within(size)
            }
            Shape::Array { of: Some(of), .. } => self.align(of, depth)?,
            Shape::Record { .. } => {
                let (parts, has_virtual) = self.parts(die, depth)?;
                let largest = parts.iter().map(|part| part.field.align).max().unwrap_or(1);
                let natural = if has_virtual { largest.max(8) } else { largest };
                let offsets = parts.iter().filter(|part| part.field.bits.is_none());
                packed(natural, size, offsets.map(|part| (part.field.offset, part.field.align)))
            }
            _ => {
                let is_complex = matches!(
                    entry.attr_value(constants::DW_AT_encoding),
                    Some(AttributeValue::Encoding(constants::DW_ATE_complex_float))
                );
                let is_pair = entry.tag() == constants::DW_TAG_ptr_to_member_type && size == 16;
                let one = if is_complex || is_pair { size / 2 } else { size };
                power_of_two_within(one).min(self.largest)
            }
        })
    }
}

/// A part of a variable on the way to a smaller one.
#[derive(Debug, Clone)]
struct FoundPart {
    path: String,
    offset: u64,
    repeated: Option<Repeated>,
}

impl FoundPart {
    fn with(self, has_several: bool, layout: TypeLayout) -> PartLayout {
        let Self { path, offset, repeated } = self;
        PartLayout { path, offset, repeated, has_several, layout }
    }
}

/// The alignment that an entry gives.
fn alignment(entry: &DieEntry<'_>) -> Option<u64> {
    let asked = entry.attr_value(constants::DW_AT_alignment)?.udata_value()?;
    Some(asked).filter(|asked| asked.is_power_of_two())
}

/// The largest power of two that divides `bytes`: 4 of the 12 bytes of an i386's `long double`.
fn power_of_two_within(bytes: u64) -> u64 {
    1 << bytes.trailing_zeros().min(63)
}

/// The alignment of a structure of `size` bytes, which is at most `natural`: of one of which all members are where they
/// would be anyway, only its size can show that it is packed.
fn packed(natural: u64, size: u64, fields: impl Iterator<Item = (u64, u64)>) -> u64 {
    let limit = limit(fields).unwrap_or(natural).min(natural);
    if size == 0 { limit } else { limit.min(power_of_two_within(size)) }
}

/// What the alignments of members are limited to where some of them (offset, alignment) contradict their offsets:
/// `packed` is 1, `#pragma pack(2)` 2.
fn limit(fields: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
    let off = fields.filter(|&(offset, align)| !offset.is_multiple_of(align));
    off.map(|(offset, _)| power_of_two_within(offset)).min()
}

/// What follows from members as a whole: which ones are packed, and how much of a base class is used.
fn settle(layout: &mut TypeLayout) {
    if layout.kind == LayoutKind::Union {
        return;
    }
    let mut next = layout.bytes;
    for field in layout.fields.iter_mut().rev() {
        if field.bits.is_none() {
            // What comes after a base class may begin in its padding, and an empty one has no bytes.
            field.bytes = field.bytes.min(next.saturating_sub(field.offset));
        }
        next = next.min(field.bits.map_or(field.offset, |(first, _)| first / 8));
    }
    let whole = layout.fields.iter().filter(|field| field.bits.is_none());
    if let Some(limit) = limit(whole.map(|field| (field.offset, field.align))) {
        layout.is_packed = true;
        layout.fields.iter_mut().for_each(|field| field.align = field.align.min(limit));
    }
    let largest = layout.fields.iter().map(|field| field.align).max().unwrap_or(1);
    layout.is_packed |= !layout.bytes.is_multiple_of(largest);
}
