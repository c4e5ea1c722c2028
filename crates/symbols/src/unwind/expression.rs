//! DWARF expressions: how frames are found where a register and an offset are not sufficient, as in
//! procedure linkage tables and signal handlers.

use addr2line::gimli::{
    Encoding, EndianSlice, Evaluation, EvaluationResult, Format, LittleEndian, Location, Value,
};

use super::rule::Code;
use super::{Lost, Registers, StackCopy};

/// Operations of an expression at most; real ones have some 10.
const MOST_OPERATIONS: u32 = 1000;
const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };

impl Code {
    /// The value of the expression, or the address it names; `cfa` is put on its stack first.
    pub(super) fn evaluate(
        &self,
        cfa: Option<u64>,
        registers: &Registers,
        stack: &StackCopy<'_>,
    ) -> Result<u64, Lost> {
        let mut evaluation = Evaluation::new(EndianSlice::new(&self.0, LittleEndian), ENCODING);
        evaluation.set_max_iterations(MOST_OPERATIONS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut state = evaluation.evaluate().map_err(|_| Lost::Unusable)?;
        loop {
            let next = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = registers.get(register.0).ok_or(Lost::Unusable)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size, space: None, .. } => {
                    let value = stack.read(address, usize::from(size))?;
                    evaluation.resume_with_memory(Value::Generic(value))
                }
                _ => return Err(Lost::Unusable),
            };
            state = next.map_err(|_| Lost::Unusable)?;
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Ok(address),
                Location::Value { value } => value.to_u64(u64::MAX).map_err(|_| Lost::Unusable),
                _ => Err(Lost::Unusable),
            },
            _ => Err(Lost::Unusable),
        }
    }
}
