//! Units of debug information, and references between their entries.

use std::cell::RefCell;
use std::rc::Rc;

use addr2line::gimli::{
    self, AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwAt, UnitHeader, UnitOffset,
    UnitType,
};
use rustc_hash::FxHashMap;

use crate::dwarf::Slice;

pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
pub(super) type DwarfUnit<'a> = gimli::Unit<Slice<'a>>;
pub(super) type DieEntry<'a> = DebuggingInformationEntry<Slice<'a>>;
pub(super) type DieValue<'a> = AttributeValue<Slice<'a>>;

/// Units that are kept parsed; types refer to few others.
const MOST_KEPT: usize = 256;

/// Where units lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Section {
    /// `.debug_info`.
    Main,
    /// That of the file that dwz(1) moved shared entries to.
    Supplementary,
    /// `.debug_types`.
    Types,
}

/// An entry, by its offset in its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Die {
    pub(super) section: Section,
    pub(super) offset: usize,
}

/// What is wrong with debug information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Damaged(pub(super) String);

impl From<gimli::Error> for Damaged {
    fn from(error: gimli::Error) -> Self {
        Self(error.to_string())
    }
}

/// The units of a file.
pub(super) struct Units<'a> {
    pub(super) dwarf: Dwarf<'a>,
    main: Vec<UnitHeader<Slice<'a>>>,
    supplementary: Vec<UnitHeader<Slice<'a>>>,
    types: Vec<UnitHeader<Slice<'a>>>,
    parsed: RefCell<FxHashMap<Die, Rc<DwarfUnit<'a>>>>,
}

impl<'a> Units<'a> {
    /// Reads headers until the first that is damaged.
    pub(super) fn of(dwarf: Dwarf<'a>) -> Self {
        let all = |dwarf: &Dwarf<'a>| {
            let mut units = dwarf.units();
            std::iter::from_fn(|| units.next().ok().flatten()).collect::<Vec<_>>()
        };
        let main = all(&dwarf);
        let supplementary = dwarf.sup().map(all).unwrap_or_default();
        let mut type_units = dwarf.type_units();
        let types = std::iter::from_fn(|| type_units.next().ok().flatten()).collect();
        Self { dwarf, main, supplementary, types, parsed: RefCell::default() }
    }

    /// Headers of the units that may define variables.
    pub(super) fn main(&self) -> &[UnitHeader<Slice<'a>>] {
        &self.main
    }

    fn headers(&self, section: Section) -> &[UnitHeader<Slice<'a>>] {
        match section {
            Section::Main => &self.main,
            Section::Supplementary => &self.supplementary,
            Section::Types => &self.types,
        }
    }

    /// The strings and tables that units of `section` refer to.
    pub(super) fn dwarf_of(&self, section: Section) -> &Dwarf<'a> {
        match section {
            Section::Supplementary => self.dwarf.sup().unwrap_or(&self.dwarf),
            Section::Main | Section::Types => &self.dwarf,
        }
    }

    /// The entry at `die`, with its unit.
    pub(super) fn entry(&self, die: Die) -> Result<(Rc<DwarfUnit<'a>>, DieEntry<'a>), Damaged> {
        let headers = self.headers(die.section);
        let after = headers.partition_point(|header| header.offset().0 <= die.offset);
        let header = after.checked_sub(1).and_then(|at| headers.get(at));
        let header = header.ok_or_else(|| Damaged(format!("nothing is at {:#x}", die.offset)))?;
        let start = header.offset().0;
        let unit = self.unit(die.section, header)?;
        let entry = unit.entry(UnitOffset(die.offset - start))?;
        Ok((unit, entry))
    }

    fn unit(
        &self,
        section: Section,
        header: &UnitHeader<Slice<'a>>,
    ) -> Result<Rc<DwarfUnit<'a>>, Damaged> {
        let key = Die { section, offset: header.offset().0 };
        if let Some(unit) = self.parsed.borrow().get(&key) {
            return Ok(Rc::clone(unit));
        }
        let unit = Rc::new(self.dwarf_of(section).unit(*header)?);
        let mut parsed = self.parsed.borrow_mut();
        if parsed.len() == MOST_KEPT {
            parsed.clear();
        }
        parsed.insert(key, Rc::clone(&unit));
        Ok(unit)
    }

    /// What an attribute of an entry in `section` refers to.
    pub(super) fn target(
        &self,
        section: Section,
        start: usize,
        value: &DieValue<'a>,
    ) -> Option<Die> {
        target(section, start, value).or_else(|| match value {
            AttributeValue::DebugTypesRef(signature) => self.type_unit(*signature),
            _ => None,
        })
    }

    /// The type that attribute `name` of `entry` refers to.
    pub(super) fn reference(
        &self,
        section: Section,
        unit: &DwarfUnit<'a>,
        entry: &DieEntry<'a>,
        name: DwAt,
    ) -> Option<Die> {
        self.target(section, unit.header.offset().0, &entry.attr_value(name)?)
    }

    /// The type of that signature, which a unit of its own tells.
    pub(super) fn type_unit(&self, signature: gimli::DebugTypeSignature) -> Option<Die> {
        let within = |section| {
            self.headers(section).iter().find_map(move |header| match header.type_() {
                UnitType::Type { type_signature, type_offset } if type_signature == signature => {
                    Some(Die { section, offset: header.offset().0.checked_add(type_offset.0)? })
                }
                _ => None,
            })
        };
        within(Section::Main).or_else(|| within(Section::Types))
    }

    /// A text of an entry of `section`; bytes that are no UTF-8 are replaced.
    pub(super) fn text(
        &self,
        section: Section,
        unit: &DwarfUnit<'a>,
        entry: &DieEntry<'a>,
        name: DwAt,
    ) -> Option<String> {
        let value = entry.attr_value(name)?;
        let text = self.dwarf_of(section).attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The entries right below `die`, in order, until `take` says that it is enough.
    pub(super) fn children<T>(
        &self,
        die: Die,
        mut take: impl FnMut(&DwarfUnit<'a>, &DieEntry<'a>) -> Result<Option<T>, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        let (unit, entry) = self.entry(die)?;
        let mut tree = unit.entries_tree(Some(entry.offset()))?;
        let root = tree.root()?;
        let mut children = root.children();
        while let Some(child) = children.next()? {
            if let Some(found) = take(&unit, child.entry())? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// What an attribute of an entry refers to, `start` being the offset of its unit; not by signature.
pub(super) fn target(section: Section, start: usize, value: &DieValue<'_>) -> Option<Die> {
    match value {
        AttributeValue::UnitRef(offset) => {
            Some(Die { section, offset: start.checked_add(offset.0)? })
        }
        AttributeValue::DebugInfoRef(DebugInfoOffset(offset)) => {
            let section = if section == Section::Types { Section::Main } else { section };
            Some(Die { section, offset: *offset })
        }
        AttributeValue::DebugInfoRefSup(DebugInfoOffset(offset)) => {
            Some(Die { section: Section::Supplementary, offset: *offset })
        }
        _ => None,
    }
}
