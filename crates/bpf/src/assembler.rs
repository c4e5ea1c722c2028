//! Instructions, and jumps to labels.
//!
//! An instruction is 8 bytes: `opcode u8 │ src:4 dst:4 │ offset i16 │ immediate i32`; the load of a 64-bit
//! immediate takes two. Offsets of jumps count instructions from the one after the jump.

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Registers: R0 has results, R1 to R5 arguments (lost by calls), R6 to R9 are kept, R10 is the frame, of
/// which 512 bytes below may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the text above tells all
#[repr(u8)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The second operand of arithmetic and comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// A number, sign-extended to 64 bits.
    Immediate(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(immediate: i32) -> Self {
        Self::Immediate(immediate)
    }
}

/// Bytes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 4 bytes.
    Word = 0x00,
    /// 2 bytes.
    Half = 0x08,
    /// 1 byte.
    Byte = 0x10,
    /// 8 bytes.
    Double = 0x18,
}

/// Arithmetic on 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the field's
#[repr(u8)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
    ShiftRightSigned = 0xc0,
}

/// Comparisons of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the field's
#[repr(u8)]
pub enum Compare {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    AnyBit = 0x40,
    NotEqual = 0x50,
    SignedGreater = 0x60,
    SignedGreaterOrEqual = 0x70,
    Less = 0xa0,
    LessOrEqual = 0xb0,
    SignedLess = 0xc0,
    SignedLessOrEqual = 0xd0,
}

/// Functions of the kernel that programs may call (`include/uapi/linux/bpf.h`, `enum bpf_func_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `(map, &key)` → pointer to the value or 0.
    MapLookup = 1,
    /// `(map, &key, &value, flags)` → 0 or an errno.
    MapUpdate = 2,
    /// `()` → nanoseconds of `CLOCK_MONOTONIC`.
    KtimeNs = 5,
    /// `()` → number of the CPU.
    CpuNumber = 8,
    /// `()` → process id in the upper half, thread id in the lower.
    PidTgid = 14,
    /// `(context, &buffer, bytes, flags)` → bytes of addresses or an errno.
    GetStack = 67,
    /// `(&buffer, bytes, address)` → 0 or an errno.
    ReadUser = 112,
    /// `(&buffer, bytes, address)` → 0 or an errno.
    ReadKernel = 113,
    /// `(ring, &data, bytes, flags)` → 0 or an errno.
    RingOutput = 130,
}

/// A jump target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

const JUMP_FAR: i32 = i16::MAX as i32;

/// Collects instructions.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<[u8; 8]>,
    /// Where each label is.
    labels: Vec<Option<usize>>,
    /// Jumps whose offset is not known yet: instruction and label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// No instructions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A label that is not placed yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Jumps to `label` come here.
    pub fn place(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.len());
        self
    }

    fn push(&mut self, opcode: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> &mut Self {
        let mut code = [0; 8];
        code[0] = opcode;
        code[1] = dst | src << 4;
        code[2..4].copy_from_slice(&offset.to_ne_bytes());
        code[4..].copy_from_slice(&immediate.to_ne_bytes());
        self.code.push(code);
        self
    }

    /// `to = to op with`; [`Alu::Move`]: `to = with`.
    pub fn alu(&mut self, op: Alu, to: Register, with: impl Into<Operand>) -> &mut Self {
        const ALU64: u8 = 0x07;
        match with.into() {
            Operand::Immediate(number) => self.push(op as u8 | ALU64, to as u8, 0, 0, number),
            Operand::Register(from) => {
                self.push(op as u8 | ALU64 | FROM_REGISTER, to as u8, from as u8, 0, 0)
            }
        }
    }

    /// `to = with`.
    pub fn mov(&mut self, to: Register, with: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Move, to, with)
    }

    /// `to = number`, of 64 bits.
    pub fn number(&mut self, to: Register, number: u64) -> &mut Self {
        self.wide(to, 0, number as u32 as i32, (number >> 32) as i32)
    }

    /// `to` = a map, as helpers take it. The map must be open when the program is loaded.
    pub fn map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        const MAP: u8 = 1;
        self.wide(to, MAP, map.as_raw_fd(), 0)
    }

    /// `to` = address of the value of an array's only entry, `offset` bytes into it.
    pub fn map_value(&mut self, to: Register, map: BorrowedFd<'_>, offset: u32) -> &mut Self {
        const MAP_VALUE: u8 = 2;
        self.wide(to, MAP_VALUE, map.as_raw_fd(), offset as i32)
    }

    fn wide(&mut self, to: Register, kind: u8, low: i32, high: i32) -> &mut Self {
        const LOAD_IMMEDIATE: u8 = 0x18;
        self.push(LOAD_IMMEDIATE, to as u8, kind, 0, low).push(0, 0, 0, 0, high)
    }

    /// `to = *(base + offset)`, zero-extended.
    pub fn load(&mut self, width: Width, to: Register, base: Register, offset: i16) -> &mut Self {
        const LOAD: u8 = 0x61;
        self.push(LOAD | width as u8, to as u8, base as u8, offset, 0)
    }

    /// `*(base + offset) = from`.
    pub fn store(
        &mut self,
        width: Width,
        base: Register,
        offset: i16,
        from: impl Into<Operand>,
    ) -> &mut Self {
        const STORE: u8 = 0x63;
        const STORE_IMMEDIATE: u8 = 0x62;
        match from.into() {
            Operand::Register(from) => {
                self.push(STORE | width as u8, base as u8, from as u8, offset, 0)
            }
            Operand::Immediate(number) => {
                self.push(STORE_IMMEDIATE | width as u8, base as u8, 0, offset, number)
            }
        }
    }

    /// `*(base + offset) += from`, of 8 bytes, as one.
    pub fn atomic_add(&mut self, base: Register, offset: i16, from: Register) -> &mut Self {
        self.atomic(base, offset, from, 0)
    }

    /// The same; `from` becomes what was there before (Linux 5.12).
    pub fn fetch_add(&mut self, base: Register, offset: i16, from: Register) -> &mut Self {
        const FETCH: i32 = 1;
        self.atomic(base, offset, from, FETCH)
    }

    /// `from` and `*(base + offset)`, of 8 bytes, are exchanged atomically (Linux 5.12).
    pub fn exchange(&mut self, base: Register, offset: i16, from: Register) -> &mut Self {
        const EXCHANGE: i32 = 0xe1;
        self.atomic(base, offset, from, EXCHANGE)
    }

    fn atomic(&mut self, base: Register, offset: i16, from: Register, op: i32) -> &mut Self {
        const ATOMIC_DOUBLE: u8 = 0xdb;
        self.push(ATOMIC_DOUBLE, base as u8, from as u8, offset, op)
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        const ALWAYS: u8 = 0x05;
        self.jumps.push((self.code.len(), label));
        self.push(ALWAYS, 0, 0, 0, 0)
    }

    /// Jumps to `label` if `left op right`.
    pub fn jump_if(
        &mut self,
        op: Compare,
        left: Register,
        right: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        const JUMP: u8 = 0x05;
        self.jumps.push((self.code.len(), label));
        match right.into() {
            Operand::Immediate(number) => self.push(op as u8 | JUMP, left as u8, 0, 0, number),
            Operand::Register(right) => {
                self.push(op as u8 | JUMP | FROM_REGISTER, left as u8, right as u8, 0, 0)
            }
        }
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        const CALL: u8 = 0x85;
        self.push(CALL, 0, 0, 0, helper as i32)
    }

    /// Ends the program with what R0 has.
    pub fn exit(&mut self) -> &mut Self {
        const EXIT: u8 = 0x95;
        self.push(EXIT, 0, 0, 0, 0)
    }

    /// The instructions, jumps resolved.
    ///
    /// # Panics
    /// If a label that is jumped to was not placed, or is too far: a defect of the caller.
    #[must_use]
    pub fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in &self.jumps {
            let to = self.labels[label.0].expect("every label that is jumped to is bound");
            let offset = to as i32 - *at as i32 - 1;
            assert!(offset.abs() <= JUMP_FAR, "a jump over {offset} instructions");
            self.code[*at][2..4].copy_from_slice(&(offset as i16).to_ne_bytes());
        }
        self.code
    }
}

const FROM_REGISTER: u8 = 0x08;

#[cfg(test)]
mod tests {
    use super::*;
    use Register::{R0, R1, R10};

    #[test]
    fn instructions_are_those_of_the_instruction_set() {
        let mut code = Assembler::new();
        code.mov(R0, 1).alu(Alu::Add, R0, R1).load(Width::Double, R0, R1, 128);
        code.store(Width::Word, R10, -4, 7).exchange(R1, 8, R0).exit();
        let code = code.finish();
        let expected: [[u8; 8]; 6] = [
            [0xb7, 0x00, 0, 0, 1, 0, 0, 0],
            [0x0f, 0x10, 0, 0, 0, 0, 0, 0],
            [0x79, 0x10, 0x80, 0, 0, 0, 0, 0],
            [0x62, 0x0a, 0xfc, 0xff, 7, 0, 0, 0],
            [0xdb, 0x01, 8, 0, 0xe1, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(code, expected);
    }

    #[test]
    fn a_number_of_64_bits_takes_two() {
        let mut code = Assembler::new();
        code.number(R1, 0x1122_3344_5566_7788);
        let expected =
            [[0x18, 1, 0, 0, 0x88, 0x77, 0x66, 0x55], [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]];
        assert_eq!(code.finish(), expected);
    }

    #[test]
    fn jumps_count_from_the_instruction_behind_them() {
        let mut code = Assembler::new();
        let (top, end) = (code.label(), code.label());
        code.place(top).jump_if(Compare::Equal, R0, 0, end).jump(top).place(end).exit();
        let code = code.finish();
        assert_eq!([code[0][2], code[1][2]], [1, 0xfe]);
        assert_eq!([code[0][0], code[1][0]], [0x15, 0x05]);
    }
}
