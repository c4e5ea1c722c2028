//! Types: their sizes, their parts, and how their languages write them.

use addr2line::gimli::{AttributeValue, DwLang, constants};

use super::ValueType;
use super::location;
use super::names::Nearest;
use super::units::{Damaged, Die, DieEntry, DwarfUnit, Section, Units};

/// Types of types, and anonymous structures and base classes within each other.
const DEEPEST: usize = 64;
/// Names of an enumeration.
const MOST_NAMES: usize = 4096;
/// Dimensions of an array.
const MOST_DIMENSIONS: usize = 16;
/// Parts of a structure.
const MOST_FIELDS: usize = 100_000;
/// Structures that are searched for a field: those without a name may be in others many times.
const MOST_SEARCHED: usize = 1000;
/// Longer names of types are cut, bytes.
const LONGEST_NAME: usize = 200;

/// What a type is, without qualifiers and other names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Numbers and the like.
    Scalar(ValueType),
    /// To nothing that has a type, as `void *`: `None`.
    Pointer { to: Option<Die>, reference: bool },
    /// Structure, class or union.
    Record { complete: bool },
    /// The lengths of the dimensions, the outermost first; `None`: not known.
    Array { of: Option<Die>, lengths: Vec<Option<u64>>, stride: Option<u64> },
    /// Functions, `void`, and other kinds that languages have.
    Other,
}

/// A field of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StructField {
    /// From the beginning of the structure, bytes.
    pub(super) offset: u64,
    pub(super) kind: Option<Die>,
    /// Bits, of a bit-field.
    pub(super) bits: Option<u64>,
}

/// What looking for a field finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldSearch {
    Found(StructField),
    /// Each object of the class says itself where this part of it is.
    Virtual,
    /// Names that are like it; else all.
    None(Vec<String>),
}

/// Types of a file.
pub(super) struct Types<'u, 'a> {
    pub(super) units: &'u Units<'a>,
}

impl<'a> Types<'_, 'a> {
    /// The type itself, behind `typedef`, `const` and the like.
    pub(super) fn strip(&self, mut die: Die) -> Result<Option<Die>, Damaged> {
        for _ in 0..DEEPEST {
            let (unit, entry) = self.units.entry(die)?;
            let section = die.section;
            let of = |name| self.units.reference(section, &unit, &entry, name);
            let next = match entry.tag() {
                constants::DW_TAG_typedef
                | constants::DW_TAG_const_type
                | constants::DW_TAG_volatile_type
                | constants::DW_TAG_restrict_type
                | constants::DW_TAG_atomic_type
                | constants::DW_TAG_immutable_type
                | constants::DW_TAG_packed_type
                | constants::DW_TAG_shared_type
                | constants::DW_TAG_template_alias => of(constants::DW_AT_type),
                // A type unit has what this only names.
                _ => match of(constants::DW_AT_signature) {
                    Some(whole) if whole != die => Some(whole),
                    _ => return Ok(Some(die)),
                },
            };
            match next {
                Some(next) => die = next,
                None => return Ok(None),
            }
        }
        Err(Damaged("a type defined by itself".into()))
    }

    /// What a stripped type is.
    pub(super) fn shape(&self, die: Die) -> Result<Shape, Damaged> {
        let (unit, entry) = self.units.entry(die)?;
        let to = || self.units.reference(die.section, &unit, &entry, constants::DW_AT_type);
        Ok(match entry.tag() {
            constants::DW_TAG_base_type => Shape::Scalar(self.scalar(die, &unit, &entry)),
            constants::DW_TAG_enumeration_type => Shape::Scalar(ValueType::Enum(self.names(die)?)),
            constants::DW_TAG_pointer_type => Shape::Pointer { to: to(), reference: false },
            constants::DW_TAG_reference_type | constants::DW_TAG_rvalue_reference_type => {
                Shape::Pointer { to: to(), reference: true }
            }
            constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type => {
                Shape::Record { complete: !entry.has_attr(constants::DW_AT_declaration) }
            }
            constants::DW_TAG_array_type => self.array(die, to())?,
            _ => Shape::Other,
        })
    }

    fn scalar(&self, die: Die, unit: &DwarfUnit<'a>, entry: &DieEntry<'a>) -> ValueType {
        let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(constants::DW_AT_encoding)
        else {
            return ValueType::Other;
        };
        let is_char = || {
            let name = self.units.text(die.section, unit, entry, constants::DW_AT_name);
            name.is_some_and(|name| name == "char")
        };
        match encoding {
            constants::DW_ATE_boolean => ValueType::Bool,
            constants::DW_ATE_address => ValueType::Pointer,
            constants::DW_ATE_float => ValueType::Float,
            constants::DW_ATE_signed => ValueType::Signed,
            constants::DW_ATE_unsigned => ValueType::Unsigned,
            constants::DW_ATE_UTF | constants::DW_ATE_UCS | constants::DW_ATE_ASCII => {
                ValueType::Char
            }
            constants::DW_ATE_signed_char | constants::DW_ATE_unsigned_char if is_char() => {
                ValueType::Char
            }
            constants::DW_ATE_signed_char => ValueType::Signed,
            constants::DW_ATE_unsigned_char => ValueType::Unsigned,
            _ => ValueType::Other,
        }
    }

    fn names(&self, die: Die) -> Result<Vec<(i64, String)>, Damaged> {
        let mut names = Vec::new();
        self.units.children(die, |unit, entry| {
            if entry.tag() == constants::DW_TAG_enumerator
                && let Some(name) = self.units.text(die.section, unit, entry, constants::DW_AT_name)
                && let Some(value) = entry.attr_value(constants::DW_AT_const_value)
            {
                // Plain data have no sign: compilers write what is negative in another form.
                let value = match value {
                    AttributeValue::Sdata(value) => Some(value),
                    value => value.udata_value().map(|value| value as i64),
                };
                names.extend(value.map(|value| (value, name)));
            }
            Ok((names.len() == MOST_NAMES).then_some(()))
        })?;
        Ok(names)
    }

    fn array(&self, die: Die, of: Option<Die>) -> Result<Shape, Damaged> {
        let (_, entry) = self.units.entry(die)?;
        let number = |entry: &DieEntry<'a>, name| entry.attr_value(name)?.udata_value();
        let mut stride = number(&entry, constants::DW_AT_byte_stride);
        let mut lengths = Vec::new();
        self.units.children(die, |_, entry| {
            if entry.tag() == constants::DW_TAG_subrange_type {
                stride = stride.or_else(|| number(entry, constants::DW_AT_byte_stride));
                let count = number(entry, constants::DW_AT_count);
                let upper = || number(entry, constants::DW_AT_upper_bound)?.checked_add(1);
                let lower = number(entry, constants::DW_AT_lower_bound).unwrap_or(0);
                lengths.push(count.or_else(|| upper()?.checked_sub(lower)));
            }
            Ok((lengths.len() == MOST_DIMENSIONS).then_some(()))
        })?;
        if lengths.is_empty() {
            lengths.push(None);
        }
        Ok(Shape::Array { of, lengths, stride })
    }

    /// Size of an object of the type, bytes.
    pub(super) fn size(&self, die: Die) -> Result<Option<u64>, Damaged> {
        self.size_within(die, DEEPEST)
    }

    fn size_within(&self, die: Die, left: usize) -> Result<Option<u64>, Damaged> {
        let Some(left) = left.checked_sub(1) else {
            return Err(Damaged("endlessly nested arrays".into()));
        };
        let Some(die) = self.strip(die)? else { return Ok(None) };
        let (unit, entry) = self.units.entry(die)?;
        if let Some(size) = entry.attr_value(constants::DW_AT_byte_size) {
            return Ok(size.udata_value());
        }
        match self.shape(die)? {
            Shape::Pointer { .. } => Ok(Some(unit.encoding().address_size.into())),
            Shape::Array { of, lengths, stride } => {
                let element = match (stride, of) {
                    (Some(stride), _) => Some(stride),
                    (None, Some(of)) => self.size_within(of, left)?,
                    (None, None) => None,
                };
                Ok(lengths
                    .iter()
                    .try_fold(element, |size, length| {
                        Some(size.and_then(|size| size.checked_mul((*length)?)))
                    })
                    .flatten())
            }
            Shape::Scalar(ValueType::Enum(_)) => {
                match self.units.reference(die.section, &unit, &entry, constants::DW_AT_type) {
                    Some(of) => self.size_within(of, left),
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Whether a record is one of Rust's enums, whose fields depend on its value.
    pub(super) fn has_variants(&self, die: Die) -> Result<bool, Damaged> {
        let variants = self.units.children(die, |_, entry| {
            Ok((entry.tag() == constants::DW_TAG_variant_part).then_some(()))
        })?;
        Ok(variants.is_some())
    }

    /// The field `name` of a record, of structures without a name in it, and of its base classes.
    pub(super) fn field(&self, die: Die, name: &str) -> Result<FieldSearch, Damaged> {
        let mut names = Vec::new();
        match self.field_within(die, name, &mut names, &mut 0, DEEPEST)? {
            Some(found) => Ok(found),
            None => {
                let mut nearest = Nearest::new(name);
                names.iter().for_each(|name| nearest.offer(name));
                let near = nearest.names();
                let all = || super::names::few(names);
                Ok(FieldSearch::None(if near.is_empty() { all() } else { near }))
            }
        }
    }

    fn field_within(
        &self,
        die: Die,
        name: &str,
        names: &mut Vec<String>,
        searched: &mut usize,
        left: usize,
    ) -> Result<Option<FieldSearch>, Damaged> {
        *searched += 1;
        let Some(left) = left.checked_sub(1).filter(|_| *searched <= MOST_SEARCHED) else {
            return Err(Damaged("a structure that contains itself".into()));
        };
        let mut inner = Vec::new();
        let found = self.units.children(die, |unit, entry| {
            let is_base = entry.tag() == constants::DW_TAG_inheritance;
            if entry.tag() != constants::DW_TAG_member && !is_base {
                return Ok(None);
            }
            let own = self.units.text(die.section, unit, entry, constants::DW_AT_name);
            let own = own.filter(|own| !own.is_empty() && !is_base);
            if own.as_deref().is_none_or(|own| own == name) {
                let field = self.part(die.section, unit, entry)?;
                match (own, field) {
                    (Some(_), field) => {
                        return Ok(Some(field.map_or(FieldSearch::Virtual, FieldSearch::Found)));
                    }
                    (None, field) => {
                        let kind =
                            self.units.reference(die.section, unit, entry, constants::DW_AT_type);
                        inner.extend(kind.map(|kind| (kind, field)));
                    }
                }
            } else if let Some(own) = own {
                names.push(own);
            }
            match names.len() + inner.len() {
                MOST_FIELDS => Err(Damaged("a structure with endlessly many fields".into())),
                _ => Ok(None),
            }
        })?;
        if found.is_some() {
            return Ok(found);
        }
        for (kind, at) in inner {
            let Some(kind) = self.strip(kind)? else { continue };
            match (self.field_within(kind, name, names, searched, left)?, at) {
                (Some(FieldSearch::Found(field)), Some(at)) => {
                    let offset = at.offset.wrapping_add(field.offset);
                    return Ok(Some(FieldSearch::Found(StructField { offset, ..field })));
                }
                (Some(FieldSearch::Found(_)), None) => return Ok(Some(FieldSearch::Virtual)),
                (Some(other), _) => return Ok(Some(other)),
                (None, _) => {}
            }
        }
        Ok(None)
    }

    /// A member or base class; `None` if its place depends on the object.
    pub(super) fn part(
        &self,
        section: Section,
        unit: &DwarfUnit<'a>,
        entry: &DieEntry<'a>,
    ) -> Result<Option<StructField>, Damaged> {
        let bits = entry.attr_value(constants::DW_AT_bit_size).and_then(|bits| bits.udata_value());
        let kind = self.units.reference(section, unit, entry, constants::DW_AT_type);
        let offset = match entry.attr_value(constants::DW_AT_data_member_location) {
            Some(value) => location::member(unit, &value)?,
            // All parts of a union begin where it begins; DWARF 5 gives bits of bit-fields only.
            None => Some(0),
        };
        Ok(offset.map(|offset| StructField { offset, kind, bits }))
    }

    /// How to read an object of the type; a structure of one scalar and nothing else is read as that.
    pub(super) fn value(&self, die: Die) -> Result<ValueType, Damaged> {
        let Some(number) = self.number(die)? else { return Ok(ValueType::Other) };
        Ok(match self.shape(number)? {
            Shape::Scalar(value) => value,
            Shape::Pointer { .. } => ValueType::Pointer,
            _ => ValueType::Other,
        })
    }

    /// The number or pointer that an object is: itself, or all that is in it, as in an atomic or a `Box`. `None` where there
    /// is more.
    pub(super) fn number(&self, die: Die) -> Result<Option<Die>, Damaged> {
        let whole = self.size(die)?;
        let mut die = die;
        for _ in 0..DEEPEST {
            let Some(stripped) = self.strip(die)? else { return Ok(None) };
            match self.shape(stripped)? {
                Shape::Scalar(_) | Shape::Pointer { .. } => return Ok(Some(stripped)),
                Shape::Record { complete: true } => {
                    let mut parts = Vec::new();
                    self.units.children(stripped, |unit, entry| {
                        if matches!(
                            entry.tag(),
                            constants::DW_TAG_member | constants::DW_TAG_inheritance
                        ) && !entry.has_attr(constants::DW_AT_external)
                        {
                            parts.extend(self.part(stripped.section, unit, entry)?);
                        }
                        Ok((parts.len() > MOST_DIMENSIONS).then_some(()))
                    })?;
                    // Markers of no size, as Rust's PhantomData.
                    let mut sized = Vec::new();
                    for part in parts {
                        let Some(kind) = part.kind else { return Ok(None) };
                        let size = self.size(kind)?;
                        if size != Some(0) && size != Some(1) || size == whole {
                            sized.push((kind, size, part.bits));
                        }
                    }
                    match sized[..] {
                        [(kind, size, None)] if size == whole && whole.is_some() => die = kind,
                        _ => return Ok(None),
                    }
                }
                _ => return Ok(None),
            }
        }
        Err(Damaged("a structure that contains itself".into()))
    }

    /// How its language writes the type.
    pub(super) fn name(&self, die: Option<Die>) -> String {
        let mut name = self.name_within(die, 0).unwrap_or_else(|Damaged(_)| "?".into());
        if name.len() > LONGEST_NAME {
            let end = (0..=LONGEST_NAME).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
            name.truncate(end);
            name.push('…');
        }
        name
    }

    fn name_within(&self, die: Option<Die>, depth: usize) -> Result<String, Damaged> {
        let Some(die) = die else { return Ok("void".into()) };
        if depth == DEEPEST {
            return Ok("…".into());
        }
        let (unit, entry) = self.units.entry(die)?;
        let own = self.units.text(die.section, &unit, &entry, constants::DW_AT_name);
        let to = self.units.reference(die.section, &unit, &entry, constants::DW_AT_type);
        let inner = || self.name_within(to, depth + 1);
        let tagged = |word: &str| {
            let name = own.clone().unwrap_or_else(|| "{…}".into());
            if is_c(&unit) || own.is_none() { format!("{word} {name}") } else { name }
        };
        Ok(match entry.tag() {
            constants::DW_TAG_structure_type => tagged("struct"),
            constants::DW_TAG_class_type => tagged("class"),
            constants::DW_TAG_union_type => tagged("union"),
            constants::DW_TAG_enumeration_type => tagged("enum"),
            constants::DW_TAG_pointer_type if own.is_none() => starred(&inner()?, '*'),
            constants::DW_TAG_reference_type => starred(&inner()?, '&'),
            constants::DW_TAG_rvalue_reference_type => format!("{}&&", inner()?),
            constants::DW_TAG_const_type => qualified("const", &inner()?),
            constants::DW_TAG_volatile_type => qualified("volatile", &inner()?),
            constants::DW_TAG_restrict_type => qualified("restrict", &inner()?),
            constants::DW_TAG_atomic_type => qualified("_Atomic", &inner()?),
            constants::DW_TAG_array_type if own.is_none() => {
                let Shape::Array { lengths, .. } = self.array(die, to)? else { return inner() };
                let lengths = lengths.iter().map(|length| {
                    format!("[{}]", length.map_or(String::new(), |length| length.to_string()))
                });
                format!("{} {}", inner()?, lengths.collect::<String>())
            }
            constants::DW_TAG_subroutine_type => format!("{} (…)", inner()?),
            _ => own.unwrap_or_else(|| "?".into()),
        })
    }
}

/// Behind what it qualifies where that is a pointer, else in front; `const` is the first, as in gdb.
fn qualified(word: &str, name: &str) -> String {
    match name.strip_prefix("const ") {
        _ if name.ends_with(['*', '&']) => format!("{name} {word}"),
        Some(rest) if word != "const" => format!("const {word} {rest}"),
        _ => format!("{word} {name}"),
    }
}

fn starred(name: &str, star: char) -> String {
    let space = if name.ends_with(['*', '&']) { "" } else { " " };
    format!("{name}{space}{star}")
}

/// Languages in which `struct x` is no `x`.
pub(super) fn is_c(unit: &DwarfUnit<'_>) -> bool {
    let root = unit.entry(unit.header.root_offset());
    let language = root.ok().and_then(|root| root.attr_value(constants::DW_AT_language));
    let Some(AttributeValue::Language(language)) = language else { return false };
    const C: [DwLang; 5] = [
        constants::DW_LANG_C,
        constants::DW_LANG_C89,
        constants::DW_LANG_C99,
        constants::DW_LANG_C11,
        constants::DW_LANG_C17,
    ];
    C.contains(&language)
}
