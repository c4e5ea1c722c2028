//! Registers, numbered as unwind tables number them.

/// The architecture that a program runs on, for unwinding its stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit x86; numbers of the System V psABI.
    X86_64,
    /// 64-bit Arm, little-endian; numbers of the AADWARF64 ABI.
    Aarch64,
}

impl Arch {
    /// The machine that uname(2) calls `name`; `None` where stacks cannot be unwound.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The machine that this program was made for.
    #[must_use]
    pub fn of_this_program() -> Option<Self> {
        Self::named(std::env::consts::ARCH)
    }

    pub(super) fn stack_pointer(self) -> u16 {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    fn program_counter(self) -> u16 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 32,
        }
    }

    /// Number in the tables of a register that the kernel calls `perf`; `asm/perf_regs.h`.
    fn number_of(self, perf: u32) -> Option<u16> {
        /// AX BX CX DX SI DI BP SP IP
        const X86: [u16; 9] = [0, 3, 2, 1, 4, 5, 6, 7, 16];
        match (self, perf) {
            (Self::X86_64, 0..=8) => Some(X86[perf as usize]),
            // R8 to R15, behind flags and segments.
            (Self::X86_64, 16..=23) => Some(perf as u16 - 8),
            // X0 to X30, SP, PC
            (Self::Aarch64, 0..=32) => Some(perf as u16),
            _ => None,
        }
    }

    /// A return address without the bits that sign it: pointer authentication puts them into the
    /// topmost 16 bits of an address of a program, whose addresses have 48.
    pub(super) fn unsigned(self, address: u64) -> u64 {
        const SELECTS_KERNEL: u64 = 1 << 55;
        match self {
            Self::Aarch64 if address & SELECTS_KERNEL == 0 => address & ((1 << 48) - 1),
            _ => address,
        }
    }
}

/// Registers of a thread, some of which are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    arch: Arch,
    values: [u64; 32],
    /// Bit n: `values[n]` is known.
    known: u32,
    pc: u64,
}

impl Registers {
    /// Registers as a sample has them, with the kernel's numbers; `None` without stack pointer and
    /// program counter.
    #[must_use]
    pub fn of_sample(arch: Arch, values: impl Iterator<Item = (u32, u64)>) -> Option<Self> {
        let mut registers = Self { arch, values: [0; 32], known: 0, pc: 0 };
        let mut has_pc = false;
        for (number, value) in values {
            let Some(number) = arch.number_of(number) else { continue };
            has_pc |= number == arch.program_counter();
            registers.set(number, Some(value));
        }
        (has_pc && registers.get(arch.stack_pointer()).is_some()).then_some(registers)
    }

    /// Machine they are of.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Address of the instruction.
    #[must_use]
    pub fn pc(&self) -> u64 {
        self.pc
    }

    /// Stack pointer.
    #[must_use]
    pub fn sp(&self) -> u64 {
        self.values[usize::from(self.arch.stack_pointer())]
    }

    pub(super) fn get(&self, number: u16) -> Option<u64> {
        if number == self.arch.program_counter() {
            return Some(self.pc);
        }
        let value = self.values.get(usize::from(number))?;
        (self.known >> number & 1 == 1).then_some(*value)
    }

    pub(super) fn set(&mut self, number: u16, value: Option<u64>) {
        if number == self.arch.program_counter() {
            self.pc = value.unwrap_or(0);
        } else if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = value.unwrap_or(0);
            self.known = self.known & !(1 << number) | u32::from(value.is_some()) << number;
        }
    }

    pub(super) fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_kernel_are_those_of_the_tables() {
        // Registers of perf_regs.h by their own numbers: AX is 0, BX 1, …
        let values = (0..24).map(|number| (number, u64::from(100 + number)));
        let found = Registers::of_sample(Arch::X86_64, values).unwrap();
        let (rdx, rcx, rbx, rsp, r8, r15) = (1, 2, 3, 7, 8, 15);
        let expected =
            [(rdx, 103), (rcx, 102), (rbx, 101), (rsp, 107), (r8, 116), (r15, 123), (16, 108)];
        for (number, value) in expected {
            assert_eq!(found.get(number), Some(value), "{number}");
        }
        assert_eq!((found.pc(), found.sp()), (108, 107));
        let values = (0..33).map(|number| (number, u64::from(number)));
        let found = Registers::of_sample(Arch::Aarch64, values).unwrap();
        assert_eq!((found.get(29), found.sp(), found.pc()), (Some(29), 31, 32));
    }

    #[test]
    fn without_stack_pointer_or_address_there_is_nothing_to_unwind() {
        let of = |values: &[(u32, u64)]| {
            Registers::of_sample(Arch::X86_64, values.iter().copied()).is_some()
        };
        assert!(of(&[(7, 1), (8, 2)]));
        assert!(!of(&[(7, 1)]) && !of(&[(8, 1)]) && !of(&[]) && !of(&[(7, 1), (63, 2)]));
    }

    #[test]
    fn signatures_are_taken_off_addresses_of_programs() {
        assert_eq!(Arch::Aarch64.unsigned(0x003a_aaaa_1234_5678), 0xaaaa_1234_5678);
        assert_eq!(Arch::Aarch64.unsigned(0xffff_8000_1234_5678), 0xffff_8000_1234_5678);
        assert_eq!(Arch::X86_64.unsigned(0x1234_5678_1234_5678), 0x1234_5678_1234_5678);
    }
}
