//! What an instruction does, as far as types of pointers follow from it: the same for all architectures.
//!
//! Registers have the numbers of DWARF. Of x86-64 the general registers are followed, of AArch64 `x0` to `x30`
//! and `sp`; others hold no pointer that memory is accessed by (but for gathers, of which nothing is known).

/// General registers, by their DWARF number: 16 of x86-64, 32 of AArch64.
pub(super) const REGISTERS: usize = 32;

/// An address: base + index × scale + displacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Address {
    pub(super) base: Option<u8>,
    pub(super) index: Option<(u8, u64)>,
    pub(super) displacement: i64,
    /// The displacement is an address of the file, as code that runs at any address computes it from its own.
    pub(super) is_absolute: bool,
    /// Only the low 32 bits of the index count.
    pub(super) is_index_narrow: bool,
}

/// What can be known of the address of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Address(Address),
    /// Relative to a thread's or CPU's own area.
    Segment,
    /// Several addresses, or one that does not follow from general registers.
    Several,
}

/// A load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) operand: Operand,
    /// `None`: not known, as of repeated instructions.
    pub(super) bytes: Option<u64>,
}

/// What is put into a register, from what was in registers before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegisterValue {
    Unknown,
    Constant(i64),
    Register(u8),
    /// One of two registers.
    Either(u8, u8),
    /// The address itself.
    Address(Address),
    /// What is in memory there: as many bytes as a pointer has.
    Load(Address),
    /// Zero, or one register's value less another's.
    Difference(u8, u8),
    Multiple(u8, u64),
    /// The low 32 bits of a register.
    Low(u8),
    /// The low 32 bits of an address.
    LowAddress(Address),
    /// The low 32 bits of a multiple.
    LowMultiple(u8, u64),
}

/// Where execution goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Successor {
    Following,
    Jump(u64),
    Branch(u64),
    /// A call, and then what follows.
    Call,
    /// A jump whose target is in a register or in memory.
    Anywhere,
    /// Not on in this function.
    Nowhere,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) address: u64,
    pub(super) bytes: u8,
    pub(super) access: Option<Access>,
    /// Registers that it writes, all from values before it.
    pub(super) sets: Vec<(u8, RegisterValue)>,
    pub(super) next: Successor,
}

impl Instruction {
    pub(super) fn new(address: u64, bytes: u8) -> Self {
        Self { address, bytes, access: None, sets: Vec::new(), next: Successor::Following }
    }

    pub(super) fn end(&self) -> u64 {
        self.address.wrapping_add(self.bytes.into())
    }

    /// Says what is put into a register; the first word counts.
    pub(super) fn set(&mut self, register: u8, source: RegisterValue) {
        if !self.sets.iter().any(|(known, _)| *known == register) {
            self.sets.push((register, source));
        }
    }
}
