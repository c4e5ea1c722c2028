//! Instructions of AArch64: loads, stores, and what is computed of addresses.
//!
//! All instructions have four bytes; groups of bits say what they are (Arm Architecture Reference Manual, chapter C4).
//! Registers that an instruction may write stand in a few fixed fields, so of what is not known here nothing is
//! assumed: all registers in these fields are forgotten.

use super::flow::CallConvention;
use super::instruction::{Access, Address, Instruction, Operand, RegisterValue, Successor};

const STACK: u8 = 31;
const FRAME: u8 = 29;
const LINK: u8 = 30;
/// The caller's stack pointer is that at the first instruction.
pub(super) const MACHINE: CallConvention =
    CallConvention { stack: STACK, frame: FRAME, at_entry: 0 };
/// Registers below this may be changed by a called function; and the link register.
const CALLED: u8 = 19;

/// The instructions of `code`, which begins at `address`; `None` if it has parts of instructions.
pub(super) fn decode(code: &[u8], address: u64) -> Option<Vec<Instruction>> {
    if !code.len().is_multiple_of(4) {
        return None;
    }
    let words = code.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let addresses = (0_u64..).map(|number| address.wrapping_add(number * 4));
    Some(words.zip(addresses).map(|(word, address)| one(word, address)).collect())
}

/// Bits `first` to `first + number` of a word.
fn bits(word: u32, first: u32, number: u32) -> u32 {
    (word >> first) & ((1 << number) - 1)
}

fn bit(word: u32, at: u32) -> bool {
    bits(word, at, 1) == 1
}

/// A number in two's complement.
fn signed(word: u32, first: u32, number: u32) -> i64 {
    let value = i64::from(bits(word, first, number));
    if bit(word, first + number - 1) { value - (1 << number) } else { value }
}

/// A register of a field.
fn register(word: u32, first: u32) -> u8 {
    bits(word, first, 5) as u8
}

fn one(word: u32, address: u64) -> Instruction {
    let mut found = Instruction::new(address, 4);
    match bits(word, 25, 4) {
        0b1000 | 0b1001 => immediate(word, &mut found),
        0b1010 | 0b1011 => branch(word, &mut found),
        0b0101 | 0b1101 => registers(word, &mut found),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => memory(word, &mut found),
        0b0111 | 0b1111 => vectors(word, &mut found),
        _ => forget_all(word, &mut found),
    }
    found
}

/// Floating point and vectors: only conversions and copies of elements write a general register.
fn vectors(word: u32, found: &mut Instruction) {
    let is_scalar = bits(word, 24, 5) == 0b1_1110;
    let converts = is_scalar && (!bit(word, 21) || bits(word, 10, 6) == 0);
    let copies = bits(word, 21, 8) == 0b0111_0000;
    if converts || copies {
        forget(found, register(word, 0));
    }
}

/// Number 31 is no register there.
fn forget(found: &mut Instruction, register: u8) {
    put(found, register, RegisterValue::Unknown);
}

fn put(found: &mut Instruction, register: u8, source: RegisterValue) {
    if register != 31 {
        found.set(register, source);
    }
}

/// All that the instruction could write.
fn forget_all(word: u32, found: &mut Instruction) {
    for first in [0, 5, 10, 16] {
        let register = register(word, first);
        found.set(register, RegisterValue::Unknown);
        // Some write pairs.
        found.set((register + 1) % 32, RegisterValue::Unknown);
    }
}

fn plus(base: u8, displacement: i64) -> Address {
    Address { base: Some(base), displacement, ..Address::default() }
}

fn absolute(address: u64) -> Address {
    Address { displacement: address as i64, is_absolute: true, ..Address::default() }
}

/// Data processing with an immediate operand.
fn immediate(word: u32, found: &mut Instruction) {
    let (to, from, wide) = (register(word, 0), register(word, 5), bit(word, 31));
    match bits(word, 23, 3) {
        0b000 | 0b001 => {
            let value = (signed(word, 5, 19) << 2) | i64::from(bits(word, 29, 2));
            let target = if bit(word, 31) {
                (found.address & !0xfff).wrapping_add_signed(value << 12)
            } else {
                found.address.wrapping_add_signed(value)
            };
            put(found, to, RegisterValue::Address(absolute(target)));
        }
        0b010 => {
            let value = i64::from(bits(word, 10, 12)) << if bit(word, 22) { 12 } else { 0 };
            let value = if bit(word, 30) { -value } else { value };
            let source = match wide {
                true if value == 0 => RegisterValue::Register(from),
                true => RegisterValue::Address(plus(from, value)),
                false => RegisterValue::LowAddress(plus(from, value)),
            };
            // That of no flags can write the stack pointer.
            if bit(word, 29) {
                put(found, to, source);
            } else {
                found.set(to, source);
            }
        }
        // Logical: that which sets flags cannot write the stack pointer.
        0b100 if bits(word, 29, 2) == 0b11 => forget(found, to),
        0b100 => found.set(to, RegisterValue::Unknown),
        0b101 => {
            let value = i64::from(bits(word, 5, 16)) << (16 * bits(word, 21, 2));
            let source = match bits(word, 29, 2) {
                0b10 => RegisterValue::Constant(value),
                0b00 if wide => RegisterValue::Constant(!value),
                0b00 => RegisterValue::Constant(!value & 0xffff_ffff),
                _ => RegisterValue::Unknown,
            };
            put(found, to, source);
        }
        0b110 => put(found, to, bit_field(word, from, wide)),
        _ => put(found, to, RegisterValue::Unknown),
    }
}

/// `lsl`, `ubfiz`, `sbfiz` and `sxtw`: all are a kind of bit-field move.
fn bit_field(word: u32, from: u8, wide: bool) -> RegisterValue {
    let (rotate, last, kind) = (bits(word, 16, 6), bits(word, 10, 6), bits(word, 29, 2));
    let size = if wide { 64 } else { 32 };
    if kind == 0b01 {
        return RegisterValue::Unknown;
    }
    let shift = (size - rotate) % size;
    match (rotate, last) {
        (0, 31) => RegisterValue::Low(from),
        // Bits move up by `shift`; as many as there is room for, or some.
        _ if rotate > last && last + shift == size - 1 && wide => {
            RegisterValue::Multiple(from, 1 << shift)
        }
        _ if rotate > last && last == 31 && wide => RegisterValue::LowMultiple(from, 1 << shift),
        _ => RegisterValue::Unknown,
    }
}

/// Branches, calls and system instructions.
fn branch(word: u32, found: &mut Instruction) {
    let target = |offset: i64| found.address.wrapping_add_signed(offset << 2);
    found.next = match bits(word, 29, 3) {
        0b000 => Successor::Jump(target(signed(word, 0, 26))),
        0b100 => Successor::Call,
        0b001 | 0b101 if bit(word, 25) => Successor::Branch(target(signed(word, 5, 14))),
        0b001 | 0b101 => Successor::Branch(target(signed(word, 5, 19))),
        0b010 if !bit(word, 25) => Successor::Branch(target(signed(word, 5, 19))),
        0b110 if bit(word, 25) => match bits(word, 21, 4) {
            // With a check of the address, bit 24 is set; of link, as without.
            0b0000 | 0b1000 => Successor::Anywhere,
            0b0001 | 0b1001 => Successor::Call,
            _ => Successor::Nowhere,
        },
        // `brk` and `hlt` do not return; the others are calls of the system.
        0b110 if bits(word, 24, 2) == 0 => match bits(word, 21, 3) {
            0b000 => Successor::Call,
            _ => Successor::Nowhere,
        },
        0b110 => {
            // Only reads of system registers write one.
            forget(found, register(word, 0));
            Successor::Following
        }
        _ => Successor::Nowhere,
    };
    if found.next == Successor::Call {
        (0..CALLED).chain([LINK]).for_each(|register| found.set(register, RegisterValue::Unknown));
    }
}

/// Data processing of registers.
fn registers(word: u32, found: &mut Instruction) {
    let (to, from, second, wide) =
        (register(word, 0), register(word, 5), register(word, 16), bit(word, 31));
    let shift = bits(word, 10, 6);
    let times = |by: u32| 1_u64.checked_shl(by).unwrap_or(1);
    let source = match (bits(word, 28, 1), bits(word, 21, 4)) {
        // Logical: `mov` is `orr` with the register of zeros.
        (0, 0b0000..=0b0111) => match (bits(word, 29, 2), bit(word, 21), from, shift) {
            (0b01, false, 31, 0) if second == 31 => RegisterValue::Constant(0),
            (0b01, false, 31, 0) if wide => RegisterValue::Register(second),
            (0b01, false, 31, 0) => RegisterValue::Low(second),
            _ => RegisterValue::Unknown,
        },
        // `add` and `sub` of a shifted register; number 31 is zero.
        (0, 0b1000 | 0b1010 | 0b1100 | 0b1110) => {
            let address = Address {
                base: Some(from),
                index: Some((second, times(shift))),
                ..Address::default()
            };
            let is_shift_left = bits(word, 22, 2) == 0 && from != 31 && second != 31;
            match (bit(word, 30), wide) {
                (false, true) if is_shift_left => RegisterValue::Address(address),
                (false, false) if is_shift_left => RegisterValue::LowAddress(address),
                (true, true) if is_shift_left && shift == 0 => {
                    RegisterValue::Difference(from, second)
                }
                _ => RegisterValue::Unknown,
            }
        }
        // `add` of an extended register: `sxtw`, `uxtw`, or all of it.
        (0, 0b1001 | 0b1101 | 0b1011 | 0b1111) => {
            let scale = times(bits(word, 10, 3));
            let (is_narrow, is_known) = match bits(word, 13, 3) {
                0b010 | 0b110 => (true, true),
                0b011 | 0b111 => (false, true),
                _ => (false, false),
            };
            let address = Address {
                base: Some(from),
                index: Some((second, scale)),
                is_index_narrow: is_narrow,
                ..Address::default()
            };
            let is_add = !bit(word, 30) && wide && is_known && second != 31;
            let source =
                if is_add { RegisterValue::Address(address) } else { RegisterValue::Unknown };
            if bit(word, 29) {
                put(found, to, source);
            } else {
                found.set(to, source);
            }
            return;
        }
        // `csel`: one of two.
        (1, 0b0100) if bits(word, 29, 2) == 0 && bits(word, 10, 2) == 0 && wide => {
            if from == 31 || second == 31 {
                RegisterValue::Unknown
            } else {
                RegisterValue::Either(from, second)
            }
        }
        _ => RegisterValue::Unknown,
    };
    put(found, to, source);
}

/// Loads and stores.
fn memory(word: u32, found: &mut Instruction) {
    let is_vector = bit(word, 26);
    match (bits(word, 28, 2), bits(word, 23, 2)) {
        // Structures of vectors.
        (0b00, _) if is_vector => structures(word, found),
        (0b00, _) => exclusive(word, found),
        (0b01, _) if !bit(word, 24) => literal(word, is_vector, found),
        (0b01, _) => other(word, found),
        (0b10, kind) => pair(word, is_vector, kind, found),
        (_, 0b10 | 0b11) => {
            let scale = scale(word, is_vector);
            let displacement = i64::from(bits(word, 10, 12)) << scale;
            single(word, is_vector, plus(register(word, 5), displacement), found);
        }
        _ => unscaled(word, is_vector, found),
    }
}

/// The size of a single register's access is two to this, bytes.
fn scale(word: u32, is_vector: bool) -> u32 {
    let size = bits(word, 30, 2);
    if is_vector && bit(word, 23) { 4 } else { size }
}

/// One register and one address.
fn single(word: u32, is_vector: bool, address: Address, found: &mut Instruction) {
    let operation = bits(word, 22, 2);
    let bytes = 1 << scale(word, is_vector);
    // `prfm` only hints.
    if bits(word, 30, 2) == 0b11 && operation == 0b10 && !is_vector {
        return;
    }
    found.access = Some(Access { operand: Operand::Address(address), bytes: Some(bytes) });
    if !is_vector && operation != 0 {
        let whole = bytes == 8 && operation == 0b01;
        let source = if whole { RegisterValue::Load(address) } else { RegisterValue::Unknown };
        put(found, register(word, 0), source);
    }
}

/// Unscaled offsets, writing back, indices of registers, and atomic operations.
fn unscaled(word: u32, is_vector: bool, found: &mut Instruction) {
    let base = register(word, 5);
    let offset = signed(word, 12, 9);
    match (bit(word, 21), bits(word, 10, 2)) {
        (false, 0b00 | 0b10) => single(word, is_vector, plus(base, offset), found),
        (false, 0b01) => {
            single(word, is_vector, plus(base, 0), found);
            found.set(base, RegisterValue::Address(plus(base, offset)));
        }
        (false, _) => {
            single(word, is_vector, plus(base, offset), found);
            found.set(base, RegisterValue::Address(plus(base, offset)));
        }
        (true, 0b10) => {
            let scale = if bit(word, 12) { scale(word, is_vector) } else { 0 };
            let index = register(word, 16);
            let address = Address {
                base: Some(base),
                index: (index != 31).then_some((index, 1 << scale)),
                is_index_narrow: !bit(word, 13),
                ..Address::default()
            };
            single(word, is_vector, address, found);
        }
        (true, 0b00) if !is_vector => {
            // `ldadd`, `swp` and the like load and store; `ldapr` loads.
            let bytes = Some(1 << bits(word, 30, 2));
            found.access = Some(Access { operand: Operand::Address(plus(base, 0)), bytes });
            let swaps_or_loads = bit(word, 15) && bits(word, 30, 2) == 3;
            let to = register(word, 0);
            let source = if swaps_or_loads {
                RegisterValue::Load(plus(base, 0))
            } else {
                RegisterValue::Unknown
            };
            put(found, to, source);
        }
        _ => {
            // Loads of authenticated pointers and others: written back, perhaps.
            found.access = Some(Access { operand: Operand::Several, bytes: None });
            forget_all(word, found);
        }
    }
}

/// Two registers.
fn pair(word: u32, is_vector: bool, kind: u32, found: &mut Instruction) {
    // A store with a tag.
    if !is_vector && bits(word, 30, 2) == 0b01 && !bit(word, 22) {
        found.access = Some(Access { operand: Operand::Several, bytes: None });
        return forget_all(word, found);
    }
    let (first, second, base) = (register(word, 0), register(word, 10), register(word, 5));
    let size = bits(word, 30, 2);
    let scale = match (is_vector, size) {
        (true, _) => 2 + size,
        (false, 0b10) => 3,
        (false, _) => 2,
    };
    let offset = signed(word, 15, 7) << scale;
    let (address, written) = match kind {
        0b01 => (plus(base, 0), true),
        0b11 => (plus(base, offset), true),
        _ => (plus(base, offset), false),
    };
    let bytes = 1_i64 << scale;
    let operand = Operand::Address(address);
    found.access = Some(Access { operand, bytes: Some(2 * bytes as u64) });
    if bit(word, 22) && !is_vector {
        let whole = size == 0b10;
        let load = |at: i64| {
            let address = Address { displacement: address.displacement + at, ..address };
            if whole { RegisterValue::Load(address) } else { RegisterValue::Unknown }
        };
        put(found, first, load(0));
        put(found, second, load(bytes));
    }
    if written {
        found.set(base, RegisterValue::Address(plus(base, offset)));
    }
}

/// Exclusive, ordered, and compare and swap.
fn exclusive(word: u32, found: &mut Instruction) {
    let (first, second, base) = (register(word, 0), register(word, 10), register(word, 5));
    let status = register(word, 16);
    let size = bits(word, 30, 2);
    let is_pair = bit(word, 21) && !bit(word, 23) && second != 31;
    let bytes = match (bit(word, 21), bit(word, 23)) {
        // `ldxp` and `stxp`, or `casp`.
        (true, false) if size >= 2 => 2 << size,
        (true, false) => 8 << size,
        _ => 1 << size,
    };
    found.access = Some(Access { operand: Operand::Address(plus(base, 0)), bytes: Some(bytes) });
    let is_load = bit(word, 22);
    let is_ordered = bit(word, 23) && !bit(word, 21);
    if is_ordered && is_load && size == 3 {
        return put(found, first, RegisterValue::Load(plus(base, 0)));
    }
    // A store exclusive writes whether it was done; compare and swap what was there.
    for register in [first, second, status] {
        put(found, register, RegisterValue::Unknown);
        if is_pair || bit(word, 21) {
            put(found, (register + 1) % 32, RegisterValue::Unknown);
        }
    }
}

/// From an address near the code.
fn literal(word: u32, is_vector: bool, found: &mut Instruction) {
    let address = absolute(found.address.wrapping_add_signed(signed(word, 5, 19) << 2));
    let size = bits(word, 30, 2);
    if size == 0b11 && !is_vector {
        return;
    }
    let bytes = match (is_vector, size) {
        (true, size) => 4 << size,
        (false, 0b01) => 8,
        (false, _) => 4,
    };
    found.access = Some(Access { operand: Operand::Address(address), bytes: Some(bytes) });
    if !is_vector {
        put(found, register(word, 0), RegisterValue::Unknown);
    }
}

/// `ldapur`, `stlur`, tags of memory, copies.
fn other(word: u32, found: &mut Instruction) {
    let base = register(word, 5);
    if bits(word, 24, 6) == 0b01_1001 && !bit(word, 21) && bits(word, 10, 2) == 0 {
        let address = plus(base, signed(word, 12, 9));
        let bytes = Some(1 << bits(word, 30, 2));
        found.access = Some(Access { operand: Operand::Address(address), bytes });
        return forget(found, register(word, 0));
    }
    found.access = Some(Access { operand: Operand::Several, bytes: None });
    forget_all(word, found);
}

/// `ld1` to `ld4` and their stores.
fn structures(word: u32, found: &mut Instruction) {
    let base = register(word, 5);
    found.access = Some(Access { operand: Operand::Several, bytes: None });
    if bit(word, 23) {
        found.set(base, RegisterValue::Unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(word: u32) -> Instruction {
        decode(&word.to_le_bytes(), 0x1000).unwrap().pop().unwrap()
    }

    fn access(word: u32) -> (Address, Option<u64>) {
        let Some(Access { operand: Operand::Address(address), bytes }) = decoded(word).access
        else {
            panic!("{word:#x} is no access");
        };
        (address, bytes)
    }

    /// As `aarch64-linux-gnu-as` encodes them.
    #[test]
    fn operands_in_memory() {
        assert_eq!(access(0xf940_0801), (plus(0, 16), Some(8))); // ldr x1, [x0, #16]
        assert_eq!(access(0xb81f_c041), (plus(2, -4), Some(4))); // stur w1, [x2, #-4]
        assert_eq!(access(0xa940_0be1), (plus(31, 0), Some(16))); // ldp x1, x2, [sp]
        assert_eq!(access(0xf841_0c01), (plus(0, 16), Some(8))); // ldr x1, [x0, #16]!
        assert_eq!(access(0xf841_0401), (plus(0, 0), Some(8))); // ldr x1, [x0], #16
        assert_eq!(access(0x3dc0_0400), (plus(0, 16), Some(16))); // ldr q0, [x0, #16]
        assert_eq!(access(0xc85f_fc01), (plus(0, 0), Some(8))); // ldaxr x1, [x0]
        assert_eq!(access(0xf8e1_0002), (plus(0, 0), Some(8))); // ldaddal x1, x2, [x0]
        let indexed = Address { index: Some((2, 8)), ..plus(0, 0) };
        assert_eq!(access(0xf862_7801), (indexed, Some(8))); // ldr x1, [x0, x2, lsl #3]
        let narrow = Address { index: Some((2, 4)), is_index_narrow: true, ..plus(0, 0) };
        assert_eq!(access(0xb862_d801), (narrow, Some(4))); // ldr w1, [x0, w2, sxtw #2]
        assert_eq!(decoded(0xf980_0000).access, None); // prfm pldl1keep, [x0]
        assert_eq!(decoded(0x9100_4000).access, None); // add x0, x0, #16
    }

    #[test]
    fn values_of_registers() {
        let sets = |word| decoded(word).sets;
        assert_eq!(sets(0xaa01_03e0), [(0, RegisterValue::Register(1))]); // mov x0, x1
        assert_eq!(sets(0x2a01_03e0), [(0, RegisterValue::Low(1))]); // mov w0, w1
        assert_eq!(sets(0x9100_43e0), [(0, RegisterValue::Address(plus(31, 16)))]); // add x0, sp, #16
        assert_eq!(sets(0xd100_83ff), [(31, RegisterValue::Address(plus(31, -32)))]); // sub sp, sp, #32
        assert_eq!(sets(0x9000_0000), [(0, RegisterValue::Address(absolute(0x1000)))]); // adrp x0, .
        assert_eq!(sets(0xd37d_f020), [(0, RegisterValue::Multiple(1, 8))]); // lsl x0, x1, #3
        let sum = Address { index: Some((2, 8)), ..plus(1, 0) };
        assert_eq!(sets(0x8b02_0c20), [(0, RegisterValue::Address(sum))]); // add x0, x1, x2, lsl #3
        assert_eq!(sets(0x9a82_1020), [(0, RegisterValue::Either(1, 2))]); // csel x0, x1, x2, ne
        assert_eq!(sets(0xcb02_0020), [(0, RegisterValue::Difference(1, 2))]); // sub x0, x1, x2
        assert_eq!(sets(0xf100_041f), []); // cmp x0, #1
        let written =
            [(1, RegisterValue::Load(plus(0, 0))), (0, RegisterValue::Address(plus(0, 16)))];
        assert_eq!(sets(0xf841_0401), written); // ldr x1, [x0], #16
        // What is not known may write any of its registers.
        let forgotten = sets(0x9b02_0c20); // madd x0, x1, x2, x3
        assert!(forgotten.contains(&(0, RegisterValue::Unknown)), "{forgotten:?}");
    }

    #[test]
    fn ways_through_code() {
        let next = |word| decoded(word).next;
        assert_eq!(next(0x1400_0002), Successor::Jump(0x1008)); // b .+8
        assert_eq!(next(0x54ff_ffe0), Successor::Branch(0xffc)); // b.eq .-4
        assert_eq!(next(0xb400_0040), Successor::Branch(0x1008)); // cbz x0, .+8
        assert_eq!(next(0x3700_0040), Successor::Branch(0x1008)); // tbnz w0, #0, .+8
        assert_eq!(next(0xd65f_03c0), Successor::Nowhere); // ret
        assert_eq!(next(0xd61f_0000), Successor::Anywhere); // br x0
        assert_eq!(next(0xd63f_0000), Successor::Call); // blr x0
        assert_eq!(next(0x9400_0002), Successor::Call); // bl .+8
        assert_eq!(next(0xd420_0000), Successor::Nowhere); // brk #0
        assert!(decoded(0x9400_0002).sets.contains(&(18, RegisterValue::Unknown)));
        assert!(!decoded(0x9400_0002).sets.iter().any(|(to, _)| *to == 19));
    }
}
