//! Instructions of x86-64.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction as Decoded, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

use super::flow::CallConvention;
use super::instruction::{Access, Address, Instruction, Operand, RegisterValue, Successor};

/// DWARF numbers of the general registers in the order of the architecture.
const NUMBERS: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
/// `rsp` and `rbp`.
const STACK: u8 = 7;
const FRAME: u8 = 6;
/// A call has put the address of return on the stack.
pub(super) const MACHINE: CallConvention =
    CallConvention { stack: STACK, frame: FRAME, at_entry: -8 };
/// Registers that a called function may change, by the System V ABI.
const CALLED: [u8; 9] = [0, 1, 2, 4, 5, 8, 9, 10, 11];

/// The instructions of `code`, which begins at `address`; `None` where one is not valid.
pub(super) fn decode(code: &[u8], address: u64) -> Option<Vec<Instruction>> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut infos = InstructionInfoFactory::new();
    let (mut found, mut decoded) = (Vec::new(), Decoded::default());
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        if decoded.is_invalid() {
            return None;
        }
        found.push(one(&decoded, &mut infos));
    }
    Some(found)
}

fn one(decoded: &Decoded, infos: &mut InstructionInfoFactory) -> Instruction {
    // An instruction has 15 bytes at most.
    let mut found = Instruction::new(decoded.ip(), decoded.len() as u8);
    found.next = next(decoded);
    sets(decoded, &mut found);
    let info = infos.info(decoded);
    for used in info.used_registers() {
        let writes = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        if writes && let Some(number) = number(used.register().full_register()) {
            found.set(number, RegisterValue::Unknown);
        }
    }
    if found.next == Successor::Call {
        CALLED.iter().for_each(|&register| found.set(register, RegisterValue::Unknown));
        // It returns with the stack as it was.
        found.sets.retain(|(register, _)| *register != STACK);
    }
    let accesses = info.used_memory().iter().filter(|used| used.access() != OpAccess::NoMemAccess);
    found.access = access(decoded, accesses.count());
    found
}

fn number(register: Register) -> Option<u8> {
    register.is_gpr64().then(|| NUMBERS.get(register.number()).copied()).flatten()
}

fn next(decoded: &Decoded) -> Successor {
    let target = || match decoded.op0_kind() {
        OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16 => {
            Some(decoded.near_branch_target())
        }
        _ => None,
    };
    match decoded.flow_control() {
        FlowControl::Next | FlowControl::Interrupt => Successor::Following,
        FlowControl::UnconditionalBranch => target().map_or(Successor::Anywhere, Successor::Jump),
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
            target().map_or(Successor::Following, Successor::Branch)
        }
        FlowControl::Call | FlowControl::IndirectCall => Successor::Call,
        FlowControl::IndirectBranch => Successor::Anywhere,
        FlowControl::Return | FlowControl::Exception => Successor::Nowhere,
    }
}

/// The operand in memory; `accesses` loads and stores there are in all, also those of the stack.
fn access(decoded: &Decoded, accesses: usize) -> Option<Access> {
    if accesses == 0 {
        return None;
    }
    let (mut explicit, mut implied) = (0, 0);
    for operand in 0..decoded.op_count() {
        match decoded.op_kind(operand) {
            OpKind::Memory => explicit += 1,
            OpKind::MemorySegSI
            | OpKind::MemorySegESI
            | OpKind::MemorySegRSI
            | OpKind::MemorySegDI
            | OpKind::MemorySegEDI
            | OpKind::MemorySegRDI
            | OpKind::MemoryESDI
            | OpKind::MemoryESEDI
            | OpKind::MemoryESRDI => implied += 1,
            _ => {}
        }
    }
    let operand = match (explicit, implied) {
        (1, 0) => operand(decoded),
        // What push, pop, call and ret do.
        (0, 0) => {
            let displacement = i64::from(decoded.stack_pointer_increment()).min(0);
            Operand::Address(Address { base: Some(STACK), displacement, ..Address::default() })
        }
        _ => Operand::Several,
    };
    let repeats = decoded.has_rep_prefix() || decoded.has_repne_prefix();
    let bytes = decoded.memory_size().size() as u64;
    let bytes = Some(bytes).filter(|&bytes| bytes > 0 && !(repeats && implied > 0));
    Some(Access { operand, bytes })
}

fn operand(decoded: &Decoded) -> Operand {
    if matches!(decoded.segment_prefix(), Register::FS | Register::GS) {
        return Operand::Segment;
    }
    address(decoded).map_or(Operand::Several, Operand::Address)
}

fn address(decoded: &Decoded) -> Option<Address> {
    let displacement = decoded.memory_displacement64() as i64;
    if decoded.is_ip_rel_memory_operand() {
        let displacement = decoded.ip_rel_memory_address() as i64;
        return Some(Address { displacement, is_absolute: true, ..Address::default() });
    }
    let base = match decoded.memory_base() {
        Register::None => None,
        base => Some(number(base)?),
    };
    let index = match decoded.memory_index() {
        Register::None => None,
        index => Some((number(index)?, u64::from(decoded.memory_index_scale()))),
    };
    Some(Address { base, index, displacement, ..Address::default() })
}

/// Operands of an instruction.
#[derive(Clone, Copy)]
enum InstructionOperand {
    Whole(u8),
    Low(u8),
    Constant(i64),
    Memory,
    Other,
}

fn part(decoded: &Decoded, operand: u32) -> InstructionOperand {
    match decoded.op_kind(operand) {
        OpKind::Register => {
            let register = decoded.op_register(operand);
            let Some(number) = number(register.full_register()) else {
                return InstructionOperand::Other;
            };
            if register.is_gpr64() {
                InstructionOperand::Whole(number)
            } else if register.is_gpr32() {
                InstructionOperand::Low(number)
            } else {
                InstructionOperand::Other
            }
        }
        OpKind::Immediate8to64 => InstructionOperand::Constant(decoded.immediate8to64()),
        OpKind::Immediate32to64 => InstructionOperand::Constant(decoded.immediate32to64()),
        OpKind::Immediate64 => InstructionOperand::Constant(decoded.immediate64() as i64),
        OpKind::Immediate8to32 => InstructionOperand::Constant(decoded.immediate8to32().into()),
        OpKind::Immediate32 => InstructionOperand::Constant(decoded.immediate32().into()),
        OpKind::Immediate8 => InstructionOperand::Constant(decoded.immediate8().into()),
        OpKind::Memory => InstructionOperand::Memory,
        _ => InstructionOperand::Other,
    }
}

/// What is known of the values of registers that are written; all others are not.
fn sets(decoded: &Decoded, found: &mut Instruction) {
    let [first, second, third] = [0, 1, 2].map(|operand| {
        if operand < decoded.op_count() {
            part(decoded, operand)
        } else {
            InstructionOperand::Other
        }
    });
    let by = |register, displacement: i64| Address {
        base: Some(register),
        displacement,
        ..Address::default()
    };
    let moved = i64::from(decoded.stack_pointer_increment());
    let sum = |a, b| Address { base: Some(a), index: Some((b, 1)), ..Address::default() };
    match (decoded.mnemonic(), first, second, third) {
        (Mnemonic::Mov, InstructionOperand::Whole(to), InstructionOperand::Whole(from), _) => {
            found.set(to, RegisterValue::Register(from));
        }
        (
            Mnemonic::Mov | Mnemonic::Movsxd,
            InstructionOperand::Low(to) | InstructionOperand::Whole(to),
            InstructionOperand::Low(from),
            _,
        ) => {
            found.set(to, RegisterValue::Low(from));
        }
        (Mnemonic::Mov, InstructionOperand::Whole(to), InstructionOperand::Constant(value), _) => {
            found.set(to, RegisterValue::Constant(value));
        }
        (Mnemonic::Mov, InstructionOperand::Low(to), InstructionOperand::Constant(value), _) => {
            found.set(to, RegisterValue::Constant(value & 0xffff_ffff));
        }
        (Mnemonic::Mov, InstructionOperand::Whole(to), InstructionOperand::Memory, _) => {
            if let Operand::Address(address) = operand(decoded) {
                found.set(to, RegisterValue::Load(address));
            }
        }
        (Mnemonic::Lea, InstructionOperand::Whole(to), ..) => {
            found.set(to, address(decoded).map_or(RegisterValue::Unknown, RegisterValue::Address));
        }
        (Mnemonic::Lea, InstructionOperand::Low(to), ..) => {
            found.set(
                to,
                address(decoded).map_or(RegisterValue::Unknown, RegisterValue::LowAddress),
            );
        }
        (Mnemonic::Add, InstructionOperand::Whole(to), InstructionOperand::Constant(value), _) => {
            found.set(to, RegisterValue::Address(by(to, value)));
        }
        (Mnemonic::Sub, InstructionOperand::Whole(to), InstructionOperand::Constant(value), _) => {
            found.set(to, RegisterValue::Address(by(to, value.wrapping_neg())));
        }
        (Mnemonic::Inc, InstructionOperand::Whole(to), ..) => {
            found.set(to, RegisterValue::Address(by(to, 1)));
        }
        (Mnemonic::Dec, InstructionOperand::Whole(to), ..) => {
            found.set(to, RegisterValue::Address(by(to, -1)));
        }
        (Mnemonic::Add, InstructionOperand::Whole(to), InstructionOperand::Whole(other), _) => {
            found.set(to, RegisterValue::Address(sum(to, other)));
        }
        (Mnemonic::Add, InstructionOperand::Low(to), InstructionOperand::Low(other), _) => {
            found.set(to, RegisterValue::LowAddress(sum(to, other)));
        }
        (Mnemonic::Add, InstructionOperand::Low(to), InstructionOperand::Constant(value), _) => {
            found.set(to, RegisterValue::LowAddress(by(to, value)));
        }
        (Mnemonic::Sub, InstructionOperand::Whole(to), InstructionOperand::Whole(other), _) => {
            found.set(to, RegisterValue::Difference(to, other));
        }
        (
            Mnemonic::Xor | Mnemonic::Sub,
            InstructionOperand::Whole(to) | InstructionOperand::Low(to),
            InstructionOperand::Whole(other) | InstructionOperand::Low(other),
            _,
        ) if to == other => found.set(to, RegisterValue::Constant(0)),
        (
            Mnemonic::Shl,
            InstructionOperand::Whole(to),
            InstructionOperand::Constant(by @ 0..=63),
            _,
        ) => {
            found.set(to, RegisterValue::Multiple(to, 1 << by));
        }
        (
            Mnemonic::Shl,
            InstructionOperand::Low(to),
            InstructionOperand::Constant(by @ 0..=31),
            _,
        ) => {
            found.set(to, RegisterValue::LowMultiple(to, 1 << by));
        }
        (
            Mnemonic::Imul,
            InstructionOperand::Whole(to),
            InstructionOperand::Whole(from),
            InstructionOperand::Constant(by @ 1..),
        ) => {
            found.set(to, RegisterValue::Multiple(from, by as u64));
        }
        (
            Mnemonic::Imul,
            InstructionOperand::Low(to),
            InstructionOperand::Low(from),
            InstructionOperand::Constant(by @ 1..),
        ) => {
            found.set(to, RegisterValue::LowMultiple(from, by as u64));
        }
        (Mnemonic::Xchg, InstructionOperand::Whole(a), InstructionOperand::Whole(b), _) => {
            found.set(a, RegisterValue::Register(b));
            found.set(b, RegisterValue::Register(a));
        }
        (Mnemonic::Push, ..) => found.set(STACK, RegisterValue::Address(by(STACK, moved))),
        (Mnemonic::Pop, ..) => {
            if let InstructionOperand::Whole(to) = first {
                found.set(to, RegisterValue::Load(by(STACK, 0)));
            }
            found.set(STACK, RegisterValue::Address(by(STACK, moved)));
        }
        (Mnemonic::Leave, ..) if decoded.code() == Code::Leaveq => {
            found.set(FRAME, RegisterValue::Load(by(FRAME, 0)));
            found.set(STACK, RegisterValue::Address(by(FRAME, 8)));
        }
        _ if moves_on_condition(decoded) => {
            if let (InstructionOperand::Whole(to), InstructionOperand::Whole(from)) =
                (first, second)
            {
                found.set(to, RegisterValue::Either(to, from));
            }
        }
        _ => {}
    }
}

fn moves_on_condition(decoded: &Decoded) -> bool {
    matches!(
        decoded.mnemonic(),
        Mnemonic::Cmova
            | Mnemonic::Cmovae
            | Mnemonic::Cmovb
            | Mnemonic::Cmovbe
            | Mnemonic::Cmove
            | Mnemonic::Cmovg
            | Mnemonic::Cmovge
            | Mnemonic::Cmovl
            | Mnemonic::Cmovle
            | Mnemonic::Cmovne
            | Mnemonic::Cmovno
            | Mnemonic::Cmovnp
            | Mnemonic::Cmovns
            | Mnemonic::Cmovo
            | Mnemonic::Cmovp
            | Mnemonic::Cmovs
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(code: &[u8]) -> Instruction {
        let mut found = decode(code, 0x1000).unwrap();
        assert_eq!(found.len(), 1);
        found.pop().unwrap()
    }

    fn by(base: u8, displacement: i64) -> Address {
        Address { base: Some(base), displacement, ..Address::default() }
    }

    #[test]
    fn operands_in_memory() {
        let access = |code: &[u8]| decoded(code).access;
        let at = |address, bytes| {
            Some(Access { operand: Operand::Address(address), bytes: Some(bytes) })
        };
        assert_eq!(access(&[0x48, 0x8b, 0x47, 0x10]), at(by(5, 16), 8)); // mov 0x10(%rdi),%rax
        assert_eq!(access(&[0x83, 0x06, 0x01]), at(by(4, 0), 4)); // addl $1,(%rsi)
        let table = Address { index: Some((4, 8)), ..by(5, -8) };
        assert_eq!(access(&[0x4c, 0x8b, 0x4c, 0xf7, 0xf8]), at(table, 8)); // mov -8(%rdi,%rsi,8),%r9
        let own = Address { displacement: 0x1017, is_absolute: true, ..Address::default() };
        assert_eq!(access(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]), at(own, 8)); // mov 0x10(%rip),%rax
        let of_thread = access(&[0x64, 0x48, 0x8b, 0x00]); // mov %fs:(%rax),%rax
        assert_eq!(of_thread.unwrap().operand, Operand::Segment);
        assert_eq!(access(&[0xa4]).unwrap().operand, Operand::Several); // movsb
        assert_eq!(access(&[0x48, 0x8d, 0x47, 0x10]), None); // lea 0x10(%rdi),%rax
        assert_eq!(access(&[0x0f, 0x1f, 0x40, 0x00]), None); // nopl (%rax)
        assert_eq!(access(&[0x55]).unwrap().operand, Operand::Address(by(7, -8))); // push %rbp
    }

    #[test]
    fn values_of_registers() {
        let sets = |code: &[u8]| decoded(code).sets;
        assert_eq!(sets(&[0x48, 0x89, 0xf8]), [(0, RegisterValue::Register(5))]); // mov %rdi,%rax
        assert_eq!(sets(&[0x89, 0xf8]), [(0, RegisterValue::Low(5))]); // mov %edi,%eax
        assert_eq!(sets(&[0x31, 0xc0]), [(0, RegisterValue::Constant(0))]); // xor %eax,%eax
        assert_eq!(sets(&[0x48, 0x83, 0xc7, 0x18]), [(5, RegisterValue::Address(by(5, 24)))]); // add $24,%rdi
        assert_eq!(sets(&[0x48, 0xc1, 0xe0, 0x04]), [(0, RegisterValue::Multiple(0, 16))]); // shl $4,%rax
        assert_eq!(sets(&[0x48, 0x6b, 0xc7, 0x18]), [(0, RegisterValue::Multiple(5, 24))]); // imul $24,%rdi,%rax
        assert_eq!(sets(&[0x48, 0x0f, 0x44, 0xc7]), [(0, RegisterValue::Either(0, 5))]); // cmove %rdi,%rax
        assert_eq!(sets(&[0x55]), [(7, RegisterValue::Address(by(7, -8)))]); // push %rbp
        let popped = [(6, RegisterValue::Load(by(7, 0))), (7, RegisterValue::Address(by(7, 8)))];
        assert_eq!(sets(&[0x5d]), popped); // pop %rbp
        // A part of a register is not what it was.
        assert_eq!(sets(&[0xb0, 0x01]), [(0, RegisterValue::Unknown)]); // mov $1,%al
        let divided = sets(&[0x48, 0xf7, 0xf1]); // div %rcx
        assert!(
            divided.contains(&(0, RegisterValue::Unknown))
                && divided.contains(&(1, RegisterValue::Unknown))
        );
        assert_eq!(sets(&[0x48, 0x39, 0xc7]), []); // cmp %rax,%rdi
    }

    #[test]
    fn ways_through_code() {
        let next = |code: &[u8]| decoded(code).next;
        assert_eq!(next(&[0xeb, 0x02]), Successor::Jump(0x1004));
        assert_eq!(next(&[0x74, 0xfe]), Successor::Branch(0x1000));
        assert_eq!(next(&[0xc3]), Successor::Nowhere);
        assert_eq!(next(&[0x0f, 0x0b]), Successor::Nowhere);
        assert_eq!(next(&[0xff, 0xe0]), Successor::Anywhere);
        let call = decoded(&[0xe8, 0, 0, 0, 0]);
        assert_eq!(call.next, Successor::Call);
        assert!(call.sets.contains(&(0, RegisterValue::Unknown)));
        assert!(!call.sets.iter().any(|(to, _)| [3, 6, 7, 12].contains(to)));
        assert_eq!(decode(&[0x06], 0), None);
    }
}
