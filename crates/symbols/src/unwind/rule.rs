//! A row of an unwind table: where the registers of the caller are.

use addr2line::gimli::{
    CfaRule, Reader, Register, RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow,
};

use super::Arch;

/// Where the registers of the caller are, at an address in a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    pub(super) cfa: Cfa,
    pub(super) return_address: Recover,
    /// Others than the return address and those that stay as they are.
    pub(super) registers: Box<[(u16, Recover)]>,
    /// The caller was interrupted, it did not call.
    pub(super) signal_frame: bool,
}

/// Where the frame is (its canonical frame address: the stack pointer before the call).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Cfa {
    /// Value of the register plus the offset.
    Register(u16, i64),
    Expression(Code),
}

/// Where a register of the caller is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Recover {
    /// Nowhere. A return address of this kind marks the outermost frame.
    Undefined,
    /// In memory, so far from the frame.
    At(i64),
    /// It is the frame's address plus this.
    Frame(i64),
    /// In a register.
    Register(u16),
    /// In memory, where the expression says.
    AtExpression(Code),
    /// It is what the expression says.
    Expression(Code),
}

/// A DWARF expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Code(pub(super) Box<[u8]>);

/// Expressions of real tables have some 10 bytes.
const LONGEST_CODE: usize = 1024;

impl Rule {
    /// The rule of an instruction that pops a register or returns. What was popped before it has its value again, but tables
    /// still say that it was saved below the stack pointer, where a copy of the stack has nothing. Elsewhere a function
    /// without calls may really have saved registers there (the red zone).
    pub(super) fn without_popped(self) -> Self {
        /// DWARF's number of the stack pointer of x86-64.
        const RSP: u16 = 7;
        let Cfa::Register(RSP, height) = self.cfa else { return self };
        let is_popped = |recover: &Recover| match recover {
            Recover::At(offset) => height.checked_add(*offset).is_some_and(|above| above < 0),
            _ => false,
        };
        let registers = self.registers.iter().filter(|(_, recover)| !is_popped(recover));
        Self { registers: registers.cloned().collect(), ..self }
    }

    /// The rule of a function that keeps a frame pointer, as its calls have it: that points to the caller's frame pointer, and
    /// the return address is behind that.
    #[must_use]
    pub fn by_frame_pointer(arch: Arch) -> Self {
        // DWARF's numbers of %rbp and of x29.
        let pointer = match arch {
            Arch::X86_64 => 6,
            Arch::Aarch64 => 29,
        };
        Self {
            cfa: Cfa::Register(pointer, 16),
            return_address: Recover::At(-8),
            registers: [(pointer, Recover::At(-16))].into(),
            signal_frame: false,
        }
    }

    /// The rule of the first instruction of a function: the return address is where the call put it.
    pub(super) fn at_entry(arch: Arch) -> Self {
        // DWARF's numbers of %rsp; of sp and x30.
        let (cfa, return_address) = match arch {
            Arch::X86_64 => (Cfa::Register(7, 8), Recover::At(-8)),
            Arch::Aarch64 => (Cfa::Register(31, 0), Recover::Register(30)),
        };
        Self { cfa, return_address, registers: Box::default(), signal_frame: false }
    }

    /// The rule of code of x86-64 that has moved the stack pointer below its return address by so many bytes, and saved no
    /// register.
    pub(super) fn below_return_address(bytes: i64) -> Self {
        /// DWARF's number of the stack pointer.
        const RSP: u16 = 7;
        Self {
            cfa: Cfa::Register(RSP, bytes + 8),
            return_address: Recover::At(-8),
            registers: Box::default(),
            signal_frame: false,
        }
    }

    /// Whether the caller was interrupted by a signal.
    pub(super) fn is_of_signal(&self) -> bool {
        self.signal_frame
    }

    /// The rule of a place that nothing calls.
    pub(super) fn outermost() -> Self {
        Self {
            cfa: Cfa::Register(0, 0),
            return_address: Recover::Undefined,
            registers: Box::default(),
            signal_frame: false,
        }
    }

    /// `None` if the row says something that no compiler does.
    pub(super) fn of_row<R: Reader<Offset = usize>>(
        section: &impl UnwindSection<R>,
        row: &UnwindTableRow<usize>,
        return_address: Register,
        signal_frame: bool,
        arch: Arch,
    ) -> Option<Self> {
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(register.0, *offset),
            CfaRule::Expression(expression) => Cfa::Expression(code(section, expression)?),
        };
        let mut registers = Vec::new();
        for (register, rule) in row.registers() {
            let Register(number) = *register;
            // Vector registers hold no addresses; x86 has its return address in a column of its own.
            if number < 32
                && let Some(recover) = recover(section, rule)?
            {
                registers.push((number, recover));
            }
        }
        let found = match row.register(return_address) {
            Some(rule) => recover(section, &rule)?,
            None => None,
        };
        let return_address = match (found, arch) {
            (Some(found), _) => found,
            // Still in the link register.
            (None, Arch::Aarch64) => Recover::Register(return_address.0),
            (None, Arch::X86_64) => return None,
        };
        let registers = registers.into_boxed_slice();
        Some(Self { cfa, return_address, registers, signal_frame })
    }
}

/// Outer `None`: not understood; inner: the register stays as it is.
#[allow(clippy::option_option)]
fn recover<R: Reader<Offset = usize>>(
    section: &impl UnwindSection<R>,
    rule: &RegisterRule<usize>,
) -> Option<Option<Recover>> {
    Some(Some(match rule {
        RegisterRule::Undefined => Recover::Undefined,
        RegisterRule::SameValue => return Some(None),
        RegisterRule::Offset(offset) => Recover::At(*offset),
        RegisterRule::ValOffset(offset) => Recover::Frame(*offset),
        RegisterRule::Register(register) => Recover::Register(register.0),
        RegisterRule::Expression(expression) => Recover::AtExpression(code(section, expression)?),
        RegisterRule::ValExpression(expression) => Recover::Expression(code(section, expression)?),
        _ => return None,
    }))
}

fn code<R: Reader<Offset = usize>>(
    section: &impl UnwindSection<R>,
    expression: &UnwindExpression<usize>,
) -> Option<Code> {
    let bytes = expression.get(section).ok()?.0;
    let bytes = bytes.to_slice().ok().filter(|bytes| bytes.len() <= LONGEST_CODE)?;
    Some(Code(bytes.into()))
}
