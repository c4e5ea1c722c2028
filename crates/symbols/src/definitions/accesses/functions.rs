//! Functions of a unit with their variables, and where these are at each instruction.

use std::ops::Range;
use std::rc::Rc;

use addr2line::gimli::{
    AttributeValue, DebuggingInformationEntry, Expression, Operation, constants,
};

use super::super::units::{Damaged, Die, DieEntry, DieValue, DwarfUnit, Section, Units};
use crate::dwarf::Slice;

/// Scopes within each other.
const DEEPEST: usize = 256;
/// Variables of a function.
const MOST_VARIABLES: usize = 1 << 16;
/// Places of a variable, and ranges of a scope.
const MOST_RANGES: usize = 1 << 12;
/// The same of all in a unit.
const MOST_RANGES_OF_UNIT: usize = 1 << 22;
/// Longer expressions are no simple place.
const MOST_OPERATIONS: usize = 32;
/// Other entries that an entry refers to for its type.
const MOST_ORIGINS: usize = 4;

/// Where a variable is, or what is known of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VariablePlace {
    /// The register holds the value.
    Register(u8),
    /// The value is that of the register and this much more.
    Value(u8, i64),
    /// In memory, this far from where the register points.
    Memory(u8, i64),
    /// In memory, this far from the frame's base.
    Frame(i64),
    /// Parts of it are in registers: offsets in the variable, bytes.
    Pieces(Vec<(u64, u8)>),
}

/// What `DW_OP_fbreg` counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameBase {
    /// The stack pointer of the caller before the call.
    Cfa,
    Register(u8, i64),
    Unknown,
}

/// A variable or parameter.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) kind: Die,
    pub(super) places: Vec<(Range<u64>, VariablePlace)>,
}

/// A function with the variables of those that are inlined.
#[derive(Debug, Clone)]
pub(super) struct DebugFunction {
    pub(super) ranges: Rc<[Range<u64>]>,
    pub(super) frame_base: FrameBase,
    pub(super) variables: Vec<Variable>,
}

/// A variable at one address for as long as the program runs.
#[derive(Debug, Clone)]
pub(super) struct StaticVariable {
    pub(super) address: u64,
    /// What is there begins this far into the variable, bytes: compilers place parts of one apart.
    pub(super) offset: u64,
    /// The size of such a part.
    pub(super) bytes: Option<u64>,
    pub(super) kind: Die,
    pub(super) die: Die,
}

type StaticParts = Vec<(u64, Option<(u64, u64)>)>;

/// What a unit has.
#[derive(Debug, Clone, Default)]
pub(super) struct UnitContents {
    pub(super) functions: Vec<DebugFunction>,
    pub(super) statics: Vec<StaticVariable>,
    /// Variables of other units: names as the linker has them, types, and their entries.
    pub(super) declared: Vec<(String, Die, Die)>,
}

/// A scope that code is in.
struct Scope {
    depth: isize,
    ranges: Rc<[Range<u64>]>,
    /// The function that it is in, of those that are wanted.
    function: Option<usize>,
}

/// Functions with code at one of `wanted` (ascending), and all static variables.
pub(super) fn of_unit<'a>(
    units: &Units<'a>,
    unit: &DwarfUnit<'a>,
    wanted: &[u64],
) -> Result<UnitContents, Damaged> {
    let (contents, left) = (UnitContents::default(), MOST_RANGES_OF_UNIT);
    let mut reader = UnitReader { units, unit, wanted, contents, left };
    let result = reader.read();
    // What was read before it got damaged is what it is.
    if reader.contents.functions.is_empty() {
        result?;
    }
    Ok(reader.contents)
}

struct UnitReader<'r, 'a> {
    units: &'r Units<'a>,
    unit: &'r DwarfUnit<'a>,
    wanted: &'r [u64],
    contents: UnitContents,
    /// Ranges that may still be read.
    left: usize,
}

impl<'a> UnitReader<'_, 'a> {
    fn read(&mut self) -> Result<(), Damaged> {
        let mut scopes: Vec<Scope> = Vec::new();
        let unit = self.unit;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while scopes.last().is_some_and(|scope| scope.depth >= depth) {
                scopes.pop();
            }
            let (function, ranges) = match scopes.last() {
                Some(scope) => (scope.function, Rc::clone(&scope.ranges)),
                None => (None, Rc::from([])),
            };
            let scope = match entry.tag() {
                constants::DW_TAG_subprogram => {
                    let ranges = self.ranges(entry)?;
                    let function = self.is_wanted(&ranges).then_some(self.contents.functions.len());
                    if function.is_some() {
                        let frame_base = self.frame_base(entry)?;
                        let variables = Vec::new();
                        let ranges = Rc::clone(&ranges);
                        self.contents.functions.push(DebugFunction {
                            ranges,
                            frame_base,
                            variables,
                        });
                    }
                    Scope { depth, ranges, function }
                }
                constants::DW_TAG_inlined_subroutine | constants::DW_TAG_lexical_block
                    if function.is_some() =>
                {
                    let own = self.ranges(entry)?;
                    // A block without addresses is as long as what it is in.
                    Scope { depth, ranges: if own.is_empty() { ranges } else { own }, function }
                }
                constants::DW_TAG_variable | constants::DW_TAG_formal_parameter => {
                    self.variable(entry, function, &ranges)?;
                    continue;
                }
                _ => continue,
            };
            if scopes.len() == DEEPEST {
                return Err(Damaged("endlessly nested scopes".into()));
            }
            scopes.push(scope);
        }
        Ok(())
    }

    fn is_wanted(&self, ranges: &[Range<u64>]) -> bool {
        ranges.iter().any(|range| {
            let first = self.wanted.partition_point(|address| *address < range.start);
            self.wanted.get(first).is_some_and(|address| *address < range.end)
        })
    }

    fn ranges(&mut self, entry: &DieEntry<'a>) -> Result<Rc<[Range<u64>]>, Damaged> {
        let mut found = Vec::new();
        let mut ranges = self.units.dwarf.die_ranges(self.unit, entry)?;
        while let Some(range) = ranges.next()? {
            if range.begin < range.end {
                found.push(range.begin..range.end);
            }
            self.left = self.left.saturating_sub(1);
            if found.len() == MOST_RANGES || self.left == 0 {
                return Err(Damaged("a function in endlessly many parts".into()));
            }
        }
        Ok(found.into())
    }

    fn frame_base(&self, entry: &DieEntry<'a>) -> Result<FrameBase, Damaged> {
        let Some(value) = entry.attr_value(constants::DW_AT_frame_base) else {
            return Ok(FrameBase::Unknown);
        };
        let Some(expression) = expression(&value) else { return Ok(FrameBase::Unknown) };
        Ok(match self.operations(expression)?[..] {
            [Operation::CallFrameCFA] => FrameBase::Cfa,
            [Operation::Register { register }] => {
                number(register.0).map_or(FrameBase::Unknown, |one| FrameBase::Register(one, 0))
            }
            [Operation::RegisterOffset { register, offset, .. }] => {
                let register = number(register.0);
                register.map_or(FrameBase::Unknown, |one| FrameBase::Register(one, offset))
            }
            _ => FrameBase::Unknown,
        })
    }

    fn operations(
        &self,
        expression: Expression<Slice<'a>>,
    ) -> Result<Vec<Operation<Slice<'a>>>, Damaged> {
        let mut operations = expression.operations(self.unit.encoding());
        let mut found = Vec::new();
        while let Some(operation) = operations.next()? {
            if found.len() == MOST_OPERATIONS {
                return Ok(Vec::new());
            }
            found.push(operation);
        }
        Ok(found)
    }

    fn variable(
        &mut self,
        entry: &DieEntry<'a>,
        function: Option<usize>,
        scope: &Rc<[Range<u64>]>,
    ) -> Result<(), Damaged> {
        let Some(value) = entry.attr_value(constants::DW_AT_location) else {
            self.declaration(entry);
            return Ok(());
        };
        let Some(kind) = self.kind(entry) else { return Ok(()) };
        let mut places = Vec::new();
        match expression(&value) {
            Some(expression) => {
                let operations = self.operations(expression)?;
                let parts = self.static_parts(&operations)?;
                if !parts.is_empty() {
                    let die = self.die(entry);
                    self.contents.statics.extend(parts.into_iter().map(|(address, part)| {
                        let (offset, bytes) = part.map_or((0, None), |(at, size)| (at, Some(size)));
                        StaticVariable { address, offset, bytes, kind, die }
                    }));
                    return Ok(());
                }
                if let Some(place) = place(&operations) {
                    places.extend(scope.iter().map(|range| (range.clone(), place.clone())));
                }
            }
            None if function.is_some() => places = self.list(&value)?,
            None => {}
        }
        if let Some(function) = function.and_then(|number| self.contents.functions.get_mut(number))
            && !places.is_empty()
            && function.variables.len() < MOST_VARIABLES
        {
            function.variables.push(Variable { kind, places });
        }
        Ok(())
    }

    fn die(&self, entry: &DieEntry<'a>) -> Die {
        let offset = self.unit.header.offset().0.saturating_add(entry.offset().0);
        Die { section: Section::Main, offset }
    }

    /// A variable that another unit defines.
    fn declaration(&mut self, entry: &DieEntry<'a>) {
        if !entry.has_attr(constants::DW_AT_declaration)
            || !entry.has_attr(constants::DW_AT_external)
        {
            return;
        }
        let text = |name| self.units.text(Section::Main, self.unit, entry, name);
        let name = text(constants::DW_AT_linkage_name).or_else(|| text(constants::DW_AT_name));
        if let Some((name, kind)) = name.zip(self.kind(entry)) {
            let die = self.die(entry);
            self.contents.declared.push((name, kind, die));
        }
    }

    /// The type of a variable, which another entry may have.
    fn kind(&self, entry: &DieEntry<'a>) -> Option<Die> {
        let of = |unit: &DwarfUnit<'a>, entry: &DieEntry<'a>, name| {
            self.units.reference(Section::Main, unit, entry, name)
        };
        let next = |unit: &DwarfUnit<'a>, entry: &DebuggingInformationEntry<Slice<'a>>| {
            of(unit, entry, constants::DW_AT_abstract_origin)
                .or_else(|| of(unit, entry, constants::DW_AT_specification))
        };
        if let Some(kind) = of(self.unit, entry, constants::DW_AT_type) {
            return Some(kind);
        }
        let mut die = next(self.unit, entry)?;
        for _ in 0..MOST_ORIGINS {
            let (unit, entry) = self.units.entry(die).ok()?;
            let reference = |name| self.units.reference(die.section, &unit, &entry, name);
            if let Some(kind) = reference(constants::DW_AT_type) {
                return Some(kind);
            }
            die = reference(constants::DW_AT_abstract_origin)
                .or_else(|| reference(constants::DW_AT_specification))?;
        }
        None
    }

    /// Where it is always: addresses, and of parts their offsets and sizes in the variable, bytes.
    fn static_parts(&self, operations: &[Operation<Slice<'a>>]) -> Result<StaticParts, Damaged> {
        let is_piece = |one: &Operation<Slice<'a>>| matches!(one, Operation::Piece { .. });
        if !operations.iter().any(is_piece) {
            return Ok(self
                .address(operations)?
                .map(|address| (address, None))
                .into_iter()
                .collect());
        }
        let (mut found, mut offset, mut start) = (Vec::new(), 0_u64, 0);
        for (at, operation) in operations.iter().enumerate() {
            let Operation::Piece { size_in_bits, .. } = operation else { continue };
            if let Some(address) = self.address(operations.get(start..at).unwrap_or_default())? {
                found.push((address, Some((offset / 8, size_in_bits / 8))));
            }
            offset = offset.saturating_add(*size_in_bits);
            start = at + 1;
        }
        Ok(found)
    }

    /// The address, if that is where it is always.
    fn address(&self, operations: &[Operation<Slice<'a>>]) -> Result<Option<u64>, Damaged> {
        let (first, more) = match operations {
            [first] => (first, 0),
            [first, Operation::PlusConstant { value }] => (first, *value),
            _ => return Ok(None),
        };
        let address = match first {
            Operation::Address { address } => *address,
            Operation::AddressIndex { index } => self.units.dwarf.address(self.unit, *index)?,
            _ => return Ok(None),
        };
        // Linkers put 0, 1 or the largest address where they removed a variable.
        let is_there = address > 1 && address < u64::MAX - 1;
        Ok(is_there.then(|| address.wrapping_add(more)))
    }

    /// The places that a location list has.
    fn list(&mut self, value: &DieValue<'a>) -> Result<Vec<(Range<u64>, VariablePlace)>, Damaged> {
        let mut found = Vec::new();
        let Some(mut list) = self.units.dwarf.attr_locations(self.unit, *value)? else {
            return Ok(found);
        };
        for _ in 0..MOST_RANGES {
            let Some(entry) = list.next()? else { break };
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                return Err(Damaged("endlessly many places".into()));
            }
            let range = entry.range.begin..entry.range.end;
            if !range.is_empty()
                && let Some(place) = place(&self.operations(entry.data)?)
            {
                found.push((range, place));
            }
        }
        Ok(found)
    }
}

/// The name of an entry, which another one may have.
pub(super) fn name<'a>(
    units: &Units<'a>,
    section: Section,
    unit: &DwarfUnit<'a>,
    entry: &DieEntry<'a>,
) -> Option<String> {
    units.text(section, unit, entry, constants::DW_AT_name).or_else(|| {
        let of = units
            .reference(section, unit, entry, constants::DW_AT_specification)
            .or_else(|| units.reference(section, unit, entry, constants::DW_AT_abstract_origin))?;
        let (unit, entry) = units.entry(of).ok()?;
        units.text(of.section, &unit, &entry, constants::DW_AT_name)
    })
}

fn expression<'a>(value: &DieValue<'a>) -> Option<Expression<Slice<'a>>> {
    match value {
        AttributeValue::Exprloc(expression) => Some(*expression),
        AttributeValue::Block(bytes) => Some(Expression(*bytes)),
        _ => None,
    }
}

fn number(register: u16) -> Option<u8> {
    let number = u8::try_from(register).ok()?;
    (usize::from(number) < super::instruction::REGISTERS).then_some(number)
}

/// What a simple expression says.
fn place(operations: &[Operation<Slice<'_>>]) -> Option<VariablePlace> {
    match operations {
        [Operation::Register { register }] => Some(VariablePlace::Register(number(register.0)?)),
        [Operation::RegisterOffset { register, offset, base_type }] if base_type.0 == 0 => {
            Some(VariablePlace::Memory(number(register.0)?, *offset))
        }
        [Operation::RegisterOffset { register, offset, base_type }, Operation::StackValue]
            if base_type.0 == 0 =>
        {
            Some(VariablePlace::Value(number(register.0)?, *offset))
        }
        [Operation::FrameOffset { offset }] => Some(VariablePlace::Frame(*offset)),
        _ if operations.iter().any(|one| matches!(one, Operation::Piece { .. })) => {
            pieces(operations)
        }
        _ => None,
    }
}

/// Whole registers that hold parts.
fn pieces(operations: &[Operation<Slice<'_>>]) -> Option<VariablePlace> {
    let (mut found, mut offset, mut start) = (Vec::new(), 0_u64, 0);
    for (at, operation) in operations.iter().enumerate() {
        let Operation::Piece { size_in_bits, bit_offset } = operation else { continue };
        if let [Operation::Register { register }] = operations[start..at]
            && let Some(register) = number(register.0)
            && bit_offset.unwrap_or(0) == 0
            && offset.is_multiple_of(8)
        {
            found.push((offset / 8, register));
        }
        offset = offset.checked_add(*size_in_bits)?;
        start = at + 1;
    }
    Some(VariablePlace::Pieces(found))
}
