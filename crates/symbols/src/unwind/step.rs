//! One step outwards: the caller's registers from the callee's.

use super::rule::{Cfa, Recover};
use super::{Registers, Rule};

/// Beyond this nothing is of the same stack, bytes.
const LARGEST_STACK: u64 = 1 << 30;

/// The copy of a stack that a sample carries.
#[derive(Debug, Clone, Copy)]
pub struct StackCopy<'a> {
    start: u64,
    bytes: &'a [u8],
    /// The whole requested size was copied: the stack may continue after it.
    full: bool,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// The registers are those after a call: their address is a return address.
    Returned,
    /// The registers are those of an interrupted instruction, as below a signal handler.
    Interrupted,
    /// There is none: this was the outermost frame.
    None,
}

/// Why there was no step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lost {
    /// What is needed is past the end of the stack copy, which was cut at its maximum size.
    TooShort,
    /// What is needed is in memory that was not copied.
    NotReadable,
    /// The rule leads nowhere.
    Unusable,
}

impl<'a> StackCopy<'a> {
    /// `bytes` were copied from address `start`, `full` if no more were asked for.
    #[must_use]
    pub fn new(start: u64, bytes: &'a [u8], full: bool) -> Self {
        Self { start, bytes, full }
    }

    /// `size` bytes at an address, 8 at most, the lowest first.
    pub(super) fn read(&self, address: u64, size: usize) -> Result<u64, Lost> {
        let offset = address.checked_sub(self.start).ok_or(Lost::NotReadable)?;
        let from = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..));
        if let Some(bytes) = from.and_then(|bytes| bytes.get(..size)) {
            let low_first = |sum, (at, &byte): (usize, &u8)| sum | u64::from(byte) << (8 * at);
            return Ok(match bytes.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => bytes.iter().enumerate().fold(0, low_first),
            });
        }
        Err(if self.full && offset < LARGEST_STACK { Lost::TooShort } else { Lost::NotReadable })
    }
}

impl Rule {
    /// Makes the callee's registers the caller's.
    ///
    /// # Errors
    /// Why that is not possible; the registers are as they were.
    pub fn step(&self, registers: &mut Registers, stack: &StackCopy<'_>) -> Result<Caller, Lost> {
        if self.return_address == Recover::Undefined {
            return Ok(Caller::None);
        }
        let cfa = match &self.cfa {
            Cfa::Register(number, offset) => {
                let base = registers.get(*number).ok_or(Lost::Unusable)?;
                let cfa = base.wrapping_add_signed(*offset);
                // Frames lie one above the other.
                if cfa < registers.sp() && !self.signal_frame {
                    return Err(Lost::Unusable);
                }
                cfa
            }
            Cfa::Expression(code) => code.evaluate(None, registers, stack)?,
        };
        let arch = registers.arch();
        let pc = self.return_address.value(cfa, registers, stack)?.ok_or(Lost::Unusable)?;
        let pc = arch.unsigned(pc);
        if pc == 0 {
            return Ok(Caller::None);
        }
        let mut caller = *registers;
        caller.set(arch.stack_pointer(), Some(cfa));
        for (number, recover) in &self.registers {
            // A register that is lost is missed only if another rule needs it.
            let value = recover.value(cfa, registers, stack).unwrap_or(None);
            caller.set(*number, value);
        }
        caller.set_pc(pc);
        if caller.sp() == registers.sp() && pc == registers.pc() {
            return Err(Lost::Unusable);
        }
        *registers = caller;
        Ok(if self.signal_frame { Caller::Interrupted } else { Caller::Returned })
    }
}

impl Recover {
    fn value(
        &self,
        cfa: u64,
        registers: &Registers,
        stack: &StackCopy<'_>,
    ) -> Result<Option<u64>, Lost> {
        let at = |address| stack.read(address, 8).map(Some);
        match self {
            Self::Undefined => Ok(None),
            Self::At(offset) => at(cfa.wrapping_add_signed(*offset)),
            Self::Frame(offset) => Ok(Some(cfa.wrapping_add_signed(*offset))),
            Self::Register(number) => Ok(registers.get(*number)),
            Self::AtExpression(code) => at(code.evaluate(Some(cfa), registers, stack)?),
            Self::Expression(code) => code.evaluate(Some(cfa), registers, stack).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Code;
    use super::super::{Arch, Rule};
    use super::*;
    use proptest::prelude::*;

    const SP: u64 = 0x7000;
    /// DWARF numbers.
    const RBX: u16 = 3;
    const RBP: u16 = 6;
    const RSP: u16 = 7;

    fn registers(pc: u64) -> Registers {
        // The kernel's numbers: BX 1, BP 6, SP 7, IP 8.
        let values = [(1, 11), (6, SP + 0x20), (7, SP), (8, pc)];
        Registers::of_sample(Arch::X86_64, values.into_iter()).unwrap()
    }

    fn rule(cfa: Cfa, registers: &[(u16, Recover)]) -> Rule {
        let return_address = Recover::At(-8);
        Rule { cfa, return_address, registers: registers.into(), signal_frame: false }
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn registers_come_back_from_where_the_rule_says() {
        let memory = bytes(&[0xb0b, 0x77, 0x401000, 5]);
        let stack = StackCopy::new(SP, &memory, true);
        let mut found = registers(0x400000);
        let saved = [(RBX, Recover::At(-24)), (RBP, Recover::At(-16))];
        let rule = rule(Cfa::Register(RSP, 24), &saved);
        assert_eq!(rule.step(&mut found, &stack), Ok(Caller::Returned));
        assert_eq!((found.pc(), found.sp()), (0x401000, SP + 24));
        assert_eq!((found.get(RBX), found.get(RBP)), (Some(0xb0b), Some(0x77)));
        // What was never known stays so.
        assert_eq!(found.get(12), None);
    }

    #[test]
    fn registers_that_were_popped_have_their_values_again() {
        // At `ret`, behind `pop %rbx; pop %rbp`: both were saved below what the copy begins with.
        let memory = bytes(&[0x401000, 5]);
        let stack = StackCopy::new(SP, &memory, true);
        let saved = [(RBX, Recover::At(-24)), (RBP, Recover::At(-16))];
        let rule = rule(Cfa::Register(RSP, 8), &saved);
        let mut found = registers(0x400000);
        assert_eq!(rule.clone().without_popped().step(&mut found, &stack), Ok(Caller::Returned));
        assert_eq!((found.get(RBX), found.get(RBP)), (Some(11), Some(SP + 0x20)));
        // At `pop %rbp`, only the first of them.
        let before = Rule { cfa: Cfa::Register(RSP, 16), ..rule };
        assert_eq!(before.without_popped().registers, [(RBP, Recover::At(-16))].into());
    }

    #[test]
    fn a_frame_pointer_leads_to_the_caller_if_it_points_into_the_stack() {
        let rule = Rule::by_frame_pointer(Arch::X86_64);
        let memory = bytes(&[1, 2, 3, 4, SP + 0x30, 0x401000, SP + 0x50, 0x402000]);
        let stack = StackCopy::new(SP, &memory, true);
        let mut found = registers(0x7fff_0000);
        assert_eq!(rule.step(&mut found, &stack), Ok(Caller::Returned));
        assert_eq!(
            (found.pc(), found.sp(), found.get(RBP)),
            (0x401000, SP + 0x30, Some(SP + 0x30))
        );
        assert_eq!(rule.step(&mut found, &stack), Ok(Caller::Returned));
        assert_eq!(found.pc(), 0x402000);
        // Below the stack pointer, and beyond the copy.
        found.set(RBP, Some(SP));
        assert_eq!(rule.step(&mut found, &stack), Err(Lost::Unusable));
        found.set(RBP, Some(SP + 0x1000));
        assert_eq!(rule.step(&mut found, &stack), Err(Lost::TooShort));
    }

    #[test]
    fn frames_end_where_the_tables_say_so() {
        let stack = StackCopy::new(SP, &[], true);
        let mut found = registers(1);
        assert_eq!(Rule::outermost().step(&mut found, &stack), Ok(Caller::None));
        let memory = bytes(&[0]);
        let stack = StackCopy::new(SP, &memory, true);
        assert_eq!(rule(Cfa::Register(RSP, 8), &[]).step(&mut found, &stack), Ok(Caller::None));
    }

    #[test]
    fn what_is_missing_is_told_and_changes_nothing() {
        let memory = bytes(&[1, 2]);
        let before = registers(0x400000);
        let after = |cfa, stack: StackCopy<'_>| {
            let mut found = before;
            let lost = rule(cfa, &[]).step(&mut found, &stack).unwrap_err();
            assert_eq!(found, before);
            lost
        };
        let full = StackCopy::new(SP, &memory, true);
        let cut = StackCopy::new(SP, &memory, false);
        assert_eq!(after(Cfa::Register(RSP, 24), full), Lost::TooShort);
        assert_eq!(after(Cfa::Register(RSP, 24), cut), Lost::NotReadable);
        assert_eq!(after(Cfa::Register(RSP, 20), full), Lost::TooShort, "half a word");
        assert_eq!(after(Cfa::Register(RSP, i64::MAX), full), Lost::NotReadable);
        assert_eq!(after(Cfa::Register(RSP, -16), full), Lost::Unusable, "downwards");
        assert_eq!(after(Cfa::Register(12, 8), full), Lost::Unusable, "a register not recorded");
        // A frame that is its own caller.
        let memory = bytes(&[0x400000]);
        let itself = StackCopy::new(SP - 8, &memory, true);
        assert_eq!(after(Cfa::Register(RSP, 0), itself), Lost::Unusable);
    }

    /// The linker's rule for a procedure linkage table: the frame is 8 bytes deeper in the second half
    /// of each 16 bytes.
    #[test]
    fn expressions_are_evaluated() {
        let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let memory = bytes(&[1, 0x401000, 0x402000]);
        let stack = StackCopy::new(SP, &memory, true);
        let cfa = |pc| {
            let rule = rule(Cfa::Expression(Code(plt.into())), &[]);
            let mut found = registers(pc);
            rule.step(&mut found, &stack).unwrap();
            found.sp()
        };
        assert_eq!((cfa(0x400016), cfa(0x40001b)), (SP + 8, SP + 16));
        // Two levels of memory, as below a signal handler: *(rsp + 8).
        let memory = bytes(&[0, SP + 0x10, 0x9999]);
        let stack = StackCopy::new(SP, &memory, true);
        let interrupted = Rule {
            cfa: Cfa::Expression(Code([0x77, 8, 0x06].into())),
            return_address: Recover::AtExpression(Code([0x77, 16].into())),
            registers: Box::default(),
            signal_frame: true,
        };
        let mut found = registers(1);
        assert_eq!(interrupted.step(&mut found, &stack), Ok(Caller::Interrupted));
        assert_eq!((found.pc(), found.sp()), (0x9999, SP + 0x10));
    }

    /// A leaf function on Arm keeps its return address in a register.
    #[test]
    fn return_addresses_in_registers() {
        let values = [(30, 0x002a_0000_0040_1234), (31, SP), (32, 0x400000)];
        let mut found = Registers::of_sample(Arch::Aarch64, values.into_iter()).unwrap();
        let rule = Rule {
            cfa: Cfa::Register(31, 0),
            return_address: Recover::Register(30),
            registers: Box::default(),
            signal_frame: false,
        };
        let stack = StackCopy::new(SP, &[], true);
        assert_eq!(rule.step(&mut found, &stack), Ok(Caller::Returned));
        assert_eq!((found.pc(), found.sp()), (0x40_1234, SP));
        // Once more it would be its own caller.
        assert_eq!(rule.step(&mut found, &stack), Err(Lost::Unusable));
    }

    fn code() -> impl Strategy<Value = Code> {
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| Code(bytes.into()))
    }

    fn recover() -> impl Strategy<Value = Recover> {
        prop_oneof![
            Just(Recover::Undefined),
            (-64_i64..64).prop_map(Recover::At),
            any::<i64>().prop_map(Recover::Frame),
            any::<u16>().prop_map(Recover::Register),
            code().prop_map(Recover::AtExpression),
            code().prop_map(Recover::Expression),
        ]
    }

    proptest! {
        #[test]
        fn no_rule_and_no_memory_can_harm(
            memory in proptest::collection::vec(any::<u8>(), 0..80), start in prop_oneof![Just(SP), any::<u64>()],
            full in any::<bool>(), signal_frame in any::<bool>(), arm in any::<bool>(),
            cfa in prop_oneof![
                (0_u16..40, any::<i64>()).prop_map(|(number, offset)| Cfa::Register(number, offset)),
                (0_u16..40, -64_i64..64).prop_map(|(number, offset)| Cfa::Register(number, offset)),
                code().prop_map(Cfa::Expression),
            ],
            return_address in recover(),
            saved in proptest::collection::vec((0_u16..40, recover()), 0..4),
            values in proptest::collection::vec(prop_oneof![any::<u64>(), SP..SP + 80], 33),
        ) {
            let arch = if arm { Arch::Aarch64 } else { Arch::X86_64 };
            let mut found = Registers::of_sample(arch, (0..).zip(values)).unwrap();
            let rule = Rule { cfa, return_address, registers: saved.into(), signal_frame };
            let stack = StackCopy::new(start, &memory, full);
            for _ in 0..4 {
                let before = found;
                match rule.step(&mut found, &stack) {
                    Ok(Caller::None) | Err(_) => {
                        prop_assert_eq!(found, before);
                        break;
                    }
                    Ok(_) => prop_assert!((found.sp(), found.pc()) != (before.sp(), before.pc())),
                }
            }
        }
    }
}
