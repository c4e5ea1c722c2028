//! Where a variable is: `DW_AT_location`.

use addr2line::gimli::{self, AttributeValue, Expression, Operation};

use super::units::{Damaged, DieValue, Dwarf, DwarfUnit};
use crate::dwarf::Slice;

/// Longer expressions are no variable's.
const MOST_OPERATIONS: usize = 64;

/// Where a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// There, as symbols count.
    Address(u64),
    /// Each thread has its own.
    ThreadLocal,
    /// In the frame of a function's call, or in registers.
    Frame,
    /// Not at one address; where instead.
    NoOnePlace(&'static str),
    /// It was removed.
    Removed,
}

/// Reads the attribute.
pub(super) fn of<'a>(
    dwarf: &Dwarf<'a>,
    unit: &DwarfUnit<'a>,
    value: &DieValue<'a>,
) -> Result<Location, Damaged> {
    match value {
        AttributeValue::Exprloc(expression) => of_expression(dwarf, unit, *expression),
        AttributeValue::Block(bytes) => of_expression(dwarf, unit, Expression(*bytes)),
        AttributeValue::LocationListsRef(_)
        | AttributeValue::DebugLocListsIndex(_)
        | AttributeValue::SecOffset(_) => {
            Ok(Location::NoOnePlace("in different places at different times"))
        }
        _ => Err(Damaged("a location in an unknown form".into())),
    }
}

fn of_expression<'a>(
    dwarf: &Dwarf<'a>,
    unit: &DwarfUnit<'a>,
    expression: Expression<Slice<'a>>,
) -> Result<Location, Damaged> {
    let mut operations = expression.operations(unit.encoding());
    let mut address = None::<u64>;
    for index in 0..MOST_OPERATIONS {
        let Some(operation) = operations.next()? else {
            return Ok(address.map_or(Location::Removed, |address| placed(unit, address)));
        };
        match operation {
            Operation::Address { address: at } if index == 0 => address = Some(at),
            Operation::AddressIndex { index: at } if index == 0 => {
                address = Some(dwarf.address(unit, at)?);
            }
            Operation::PlusConstant { value } if address.is_some() => {
                address = address.map(|address| address.wrapping_add(value));
            }
            Operation::TLS => return Ok(Location::ThreadLocal),
            Operation::Piece { .. } => return Ok(Location::NoOnePlace("in several parts")),
            Operation::FrameOffset { .. }
            | Operation::Register { .. }
            | Operation::RegisterOffset { .. }
            | Operation::CallFrameCFA
            | Operation::EntryValue { .. } => return Ok(Location::Frame),
            Operation::StackValue
            | Operation::ImplicitValue { .. }
            | Operation::ImplicitPointer { .. } => {
                return Ok(Location::NoOnePlace("as a value computed where it is used"));
            }
            // The offset within a thread's area; what makes an address of it follows.
            Operation::UnsignedConstant { .. }
            | Operation::SignedConstant { .. }
            | Operation::ConstantIndex { .. } => {}
            _ => return Ok(Location::NoOnePlace("at a computed address")),
        }
    }
    Err(Damaged("an endless location expression".into()))
}

/// Linkers put 0, 1 or the largest address in place of those of what they removed.
fn placed(unit: &DwarfUnit<'_>, address: u64) -> Location {
    let largest = if unit.encoding().address_size == 4 { u64::from(u32::MAX) } else { u64::MAX };
    match address {
        0 | 1 => Location::Removed,
        address if address >= largest - 1 => Location::Removed,
        address => Location::Address(address),
    }
}

/// Bytes from the beginning of a structure, of `DW_AT_data_member_location`.
pub(super) fn member(unit: &DwarfUnit<'_>, value: &DieValue<'_>) -> Result<Option<u64>, Damaged> {
    if let Some(bytes) = value.udata_value() {
        return Ok(Some(bytes));
    }
    let expression = match value {
        AttributeValue::Exprloc(expression) => *expression,
        AttributeValue::Block(bytes) => Expression(*bytes),
        _ => return Ok(None),
    };
    let mut operations: gimli::OperationIter<Slice<'_>> = expression.operations(unit.encoding());
    match (operations.next()?, operations.next()?) {
        (Some(Operation::PlusConstant { value }), None) => Ok(Some(value)),
        _ => Ok(None),
    }
}
