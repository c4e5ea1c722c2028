//! What a sample carries after its callchain: raw fields of a tracepoint, branches, registers,
//! stack, and what the hardware reports about the sampled memory access.
//!
//! Most reports need none of it, so it is decoded only when asked for: a [`Sample`](super::Sample)
//! keeps the bytes, [`Sample::details`](super::Sample::details) makes values of them.
//!
//! ```text
//!  │ RAW │ BRANCH_STACK │ REGS_USER │ STACK_USER │ WEIGHT │ DATA_SRC │ TRANSACTION │ REGS_INTR │
//!  │ PHYS_ADDR │ CGROUP │ DATA_PAGE_SIZE │ CODE_PAGE_SIZE │ AUX │
//! ```

use pmuscope_abi::{Attr, BranchSampleType, SampleType};

use super::bytes::{Endian, Fields};
use super::memory::{DataSource, Weight};

/// The undecoded end of a sample.
///
/// It is opaque: [`Sample::details`](super::Sample::details) decodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail<'a> {
    bytes: &'a [u8],
    endian: Endian,
    layout: TailLayout,
}

/// What the hardware reports about a memory access, besides its address.
const MEMORY: SampleType = SampleType::WEIGHT
    .union(SampleType::WEIGHT_STRUCT)
    .union(SampleType::DATA_SRC)
    .union(SampleType::PHYS_ADDR);

/// What an event's samples carry behind the call chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailLayout {
    sample_type: SampleType,
    branches: BranchSampleType,
    regs_user: u64,
    regs_intr: u64,
}

impl TailLayout {
    const EMPTY: Self = Self {
        sample_type: SampleType::empty(),
        branches: BranchSampleType::empty(),
        regs_user: 0,
        regs_intr: 0,
    };

    fn new(attr: &Attr) -> Self {
        Self {
            sample_type: attr.sample_type,
            branches: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
        }
    }

    /// `None` unless samples carry what stacks are unwound from.
    pub(super) fn with_stack(attr: &Attr) -> Option<Self> {
        let both = SampleType::REGS_USER | SampleType::STACK_USER;
        attr.sample_type.contains(both).then(|| Self::new(attr))
    }

    /// `None` unless samples carry what the hardware reports about a memory access.
    pub(super) fn with_memory(attr: &Attr) -> Option<Self> {
        attr.sample_type.intersects(MEMORY).then(|| Self::new(attr))
    }

    /// `None` unless samples carry a call stack that the CPU kept.
    pub(super) fn with_calls(attr: &Attr) -> Option<Self> {
        let layout = Self::new(attr);
        layout.keeps_calls().then_some(layout)
    }

    /// Whether the branches are calls that have not returned: then they are a call stack.
    fn keeps_calls(self) -> bool {
        self.sample_type.contains(SampleType::BRANCH_STACK)
            && self.branches.contains(BranchSampleType::CALL_STACK)
    }

    pub(super) fn tail(self, bytes: &[u8], endian: Endian) -> Tail<'_> {
        Tail { bytes, endian, layout: self }
    }
}

impl<'a> Tail<'a> {
    /// Nothing.
    pub const EMPTY: Self = Self { bytes: &[], endian: Endian::Little, layout: TailLayout::EMPTY };

    pub(super) fn new(bytes: &'a [u8], attr: &Attr, endian: Endian) -> Self {
        TailLayout::new(attr).tail(bytes, endian)
    }

    /// Itself, if it has the data for unwinding stacks.
    #[must_use]
    pub fn with_stack(self) -> Option<Self> {
        let both = SampleType::REGS_USER | SampleType::STACK_USER;
        self.layout.sample_type.contains(both).then_some(self)
    }

    /// Itself, if it has what the hardware reports about a memory access.
    #[must_use]
    pub fn with_memory(self) -> Option<Self> {
        self.layout.sample_type.intersects(MEMORY).then_some(self)
    }

    /// The program's calls that have not returned, the newest first, as the CPU kept them (LBR in
    /// call-stack mode); `None` if the event's branches are of another type, or not all there.
    #[must_use]
    pub fn calls(&self) -> Option<BranchStack<'a>> {
        if !self.layout.keeps_calls() {
            return None;
        }
        self.front()?.0.branches
    }

    /// What stands before the registers, and the fields after that.
    fn front(&self) -> Option<(Details<'a>, Fields<'a>)> {
        let mut fields = Fields::new(self.bytes, self.endian);
        let has = |bits| self.layout.sample_type.intersects(bits);
        let mut details = Details::default();
        if has(SampleType::RAW) {
            let size = usize::try_from(fields.u32()?).ok()?;
            details.raw = Some(fields.take(size)?);
        }
        if has(SampleType::BRANCH_STACK) {
            details.branches = Some(self.branch_stack(&mut fields)?);
        }
        Some((details, fields))
    }

    /// Decodes it; `None` if there are fewer bytes than the event's attribute requires.
    #[must_use]
    pub fn decode(&self) -> Option<Details<'a>> {
        let (mut details, mut fields) = self.front()?;
        let has = |bits| self.layout.sample_type.intersects(bits);
        if has(SampleType::REGS_USER) {
            details.regs_user = registers(&mut fields, self.layout.regs_user)?;
        }
        if has(SampleType::STACK_USER) {
            details.stack_user = user_stack(&mut fields)?;
        }
        if has(SampleType::WEIGHT_STRUCT) {
            details.weight = Some(Weight::structured(fields.u64()?));
        } else if has(SampleType::WEIGHT) {
            details.weight = Some(Weight::single(fields.u64()?));
        }
        if has(SampleType::DATA_SRC) {
            details.data_source = Some(DataSource(fields.u64()?));
        }
        if has(SampleType::TRANSACTION) {
            details.transaction = Some(fields.u64()?);
        }
        if has(SampleType::REGS_INTR) {
            details.regs_intr = registers(&mut fields, self.layout.regs_intr)?;
        }
        let words = [
            (SampleType::PHYS_ADDR, &mut details.physical_address),
            (SampleType::CGROUP, &mut details.cgroup),
            (SampleType::DATA_PAGE_SIZE, &mut details.data_page_size),
            (SampleType::CODE_PAGE_SIZE, &mut details.code_page_size),
        ];
        for (bit, word) in words {
            if has(bit) {
                *word = Some(fields.u64()?);
            }
        }
        if has(SampleType::AUX) {
            let size = usize::try_from(fields.u64()?).ok()?;
            details.aux = Some(fields.take(size)?);
        }
        Some(details)
    }

    fn branch_stack(&self, fields: &mut Fields<'a>) -> Option<BranchStack<'a>> {
        let number = usize::try_from(fields.u64()?).ok()?;
        let hardware_index = self.layout.branches.contains(BranchSampleType::HW_INDEX);
        let hardware_index = if hardware_index { Some(fields.u64()?) } else { None };
        let entries = fields.take(number.checked_mul(BRANCH)?)?;
        if self.layout.branches.bits() & COUNTERS != 0 {
            fields.take(number.checked_mul(8)?)?;
        }
        Some(BranchStack { hardware_index, entries, endian: self.endian })
    }
}

/// Bytes of a branch: from, to, flags.
const BRANCH: usize = 24;
/// `branch_sample_type`: a word of event counts per branch behind the branches (Linux 6.8).
const COUNTERS: u64 = 1 << 19;

/// What a sample carries after its callchain. What the event does not record is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Details<'a> {
    /// Fields of a tracepoint, or what another event attaches; in the byte order of the file.
    pub raw: Option<&'a [u8]>,
    /// The last branches taken, the newest first.
    pub branches: Option<BranchStack<'a>>,
    /// Registers of the program; `None` too where the sample met a kernel thread.
    pub regs_user: Option<Registers<'a>>,
    /// A copy of the top of the program's stack; `None` too where there was none to copy.
    pub stack_user: Option<UserStack<'a>>,
    /// The weight (latency) of the sampled access or instruction.
    pub weight: Option<Weight>,
    /// Where the data of the sampled access came from.
    pub data_source: Option<DataSource>,
    /// State of the hardware transaction (`PERF_TXN_*`).
    pub transaction: Option<u64>,
    /// Registers at the interrupt.
    pub regs_intr: Option<Registers<'a>>,
    /// Physical address of the data.
    pub physical_address: Option<u64>,
    /// Id of the cgroup; CGROUP records have its path.
    pub cgroup: Option<u64>,
    /// Size of the page that holds the data, bytes.
    pub data_page_size: Option<u64>,
    /// Size of the page that holds the instruction, bytes.
    pub code_page_size: Option<u64>,
    /// Hardware trace that led to the sample.
    pub aux: Option<&'a [u8]>,
}

/// The last branches before a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// Index of the newest branch in the hardware's stack, if requested: it allows joining the
    /// stacks of consecutive samples.
    pub hardware_index: Option<u64>,
    entries: &'a [u8],
    endian: Endian,
}

impl<'a> BranchStack<'a> {
    /// Number of branches.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() / BRANCH
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The branches, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + 'a {
        let mut fields = Fields::new(self.entries, self.endian);
        let endian = self.endian;
        std::iter::from_fn(move || {
            let (from, to, flags) = (fields.u64()?, fields.u64()?, fields.u64()?);
            Some(Branch::new(from, to, Bits { word: flags, taken: 0, endian }))
        })
    }
}

/// A branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Branch {
    /// Address of the branch.
    pub from: u64,
    /// Where it went.
    pub to: u64,
    /// Its target was mispredicted. Neither this nor [`Branch::predicted`]: not recorded.
    pub mispredicted: bool,
    /// Its target was predicted.
    pub predicted: bool,
    /// In a hardware transaction.
    pub in_transaction: bool,
    /// It aborted one.
    pub aborted: bool,
    /// Cycles since the branch before; 0: not recorded.
    pub cycles: u16,
    /// `PERF_BR_*`; 0: not known.
    pub kind: u8,
    /// `PERF_BR_SPEC_*`; 0: not recorded.
    pub speculation: u8,
    /// `PERF_BR_NEW_*`, where `kind` says so.
    pub new_kind: u8,
    /// Privilege level (`PERF_BR_PRIV_*`); 0: not recorded.
    pub privilege: u8,
}

impl Branch {
    fn new(from: u64, to: u64, mut bits: Bits) -> Self {
        Self {
            from,
            to,
            mispredicted: bits.take(1) == 1,
            predicted: bits.take(1) == 1,
            in_transaction: bits.take(1) == 1,
            aborted: bits.take(1) == 1,
            cycles: bits.take(16) as u16,
            kind: bits.take(4) as u8,
            speculation: bits.take(2) as u8,
            new_kind: bits.take(4) as u8,
            privilege: bits.take(3) as u8,
        }
    }

    /// What kind of branch it was, in perf's words; `None` where that was not recorded.
    #[must_use]
    pub fn kind_name(&self) -> Option<&'static str> {
        const KINDS: [&str; 14] = [
            "COND",
            "UNCOND",
            "IND",
            "CALL",
            "IND_CALL",
            "RET",
            "SYSCALL",
            "SYSRET",
            "COND_CALL",
            "COND_RET",
            "ERET",
            "IRQ",
            "SERROR",
            "NO_TX",
        ];
        KINDS.get(usize::from(self.kind).checked_sub(1)?).copied()
    }
}

/// Bit fields of a word in the order of their declaration: compilers fill a word from its least
/// significant bit on little-endian machines, from its most significant one on others.
struct Bits {
    word: u64,
    taken: u32,
    endian: Endian,
}

impl Bits {
    fn take(&mut self, width: u32) -> u64 {
        let shift = match self.endian {
            Endian::Little => self.taken,
            Endian::Big => 64 - self.taken - width,
        };
        self.taken += width;
        self.word >> shift & ((1 << width) - 1)
    }
}

/// Registers of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers<'a> {
    /// 1 for those of a 32-bit, 2 of a 64-bit program.
    pub abi: u64,
    /// Which registers: bit n is the register with that number in the kernel's `perf_regs.h`.
    pub mask: u64,
    words: &'a [u8],
    endian: Endian,
}

impl<'a> Registers<'a> {
    /// Numbers and values, by rising number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + 'a {
        let mut fields = Fields::new(self.words, self.endian);
        let mut mask = self.mask;
        std::iter::from_fn(move || {
            let number = (mask != 0).then(|| mask.trailing_zeros())?;
            mask &= mask - 1;
            Some((number, fields.u64()?))
        })
    }

    /// Value of the register with that number; `None` if it was not recorded.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<u64> {
        self.iter().find(|&(found, _)| found == number).map(|(_, value)| value)
    }
}

/// `abi, values…`, where abi 0 means that there are none.
#[allow(clippy::option_option)] // the bytes are too short; there are no registers
fn registers<'a>(fields: &mut Fields<'a>, mask: u64) -> Option<Option<Registers<'a>>> {
    let abi = fields.u64()?;
    if abi == 0 {
        return Some(None);
    }
    let words = fields.take(8 * mask.count_ones() as usize)?;
    Some(Some(Registers { abi, mask, words, endian: fields.endian() }))
}

/// The top of a program's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// What was copied, from the stack pointer upwards; only [`UserStack::valid`] of it is stack.
    pub bytes: &'a [u8],
    /// Bytes that could be copied.
    pub valid: u64,
}

impl<'a> UserStack<'a> {
    /// The part that is really stack.
    #[must_use]
    pub fn stack(&self) -> &'a [u8] {
        let valid = usize::try_from(self.valid).unwrap_or(usize::MAX);
        &self.bytes[..valid.min(self.bytes.len())]
    }
}

/// `size, bytes…, bytes copied`, where size 0 ends it.
#[allow(clippy::option_option)] // the bytes are too short; there is no stack
fn user_stack<'a>(fields: &mut Fields<'a>) -> Option<Option<UserStack<'a>>> {
    let size = usize::try_from(fields.u64()?).ok()?;
    if size == 0 {
        return Some(None);
    }
    let bytes = fields.take(size)?;
    Some(Some(UserStack { bytes, valid: fields.u64()? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn everything() -> Attr {
        Attr {
            sample_type: SampleType::all(),
            branch_sample_type: BranchSampleType::HW_INDEX,
            sample_regs_user: 1 << 7 | 1 << 8,
            sample_regs_intr: 1,
            ..Attr::default()
        }
    }

    /// All fields, in the order of perf_event.h.
    fn example() -> Vec<u8> {
        let mut bytes = 4_u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"trac");
        bytes.extend(words(&[1, 5, 0x1000, 0x2000, 0b10 | 300 << 4 | 4 << 20])); // a branch
        bytes.extend(words(&[2, 70, 80])); // user registers
        bytes.extend(words(&[16, 11, 12, 8])); // stack
        bytes.extend(words(&[7 | 8 << 32 | 9 << 48, 0x42, 3])); // weight, source, transaction
        bytes.extend(words(&[1, 90])); // registers at the interrupt
        bytes.extend(words(&[100, 101, 4096, 2 << 20, 0])); // addresses, sizes, AUX
        bytes
    }

    #[test]
    fn all_fields_come_in_the_order_of_the_abi() {
        let bytes = example();
        let attr = everything();
        let found = Tail::new(&bytes, &attr, Endian::Little).decode().unwrap();
        assert_eq!(found.raw, Some(&b"trac"[..]));
        let branches = found.branches.unwrap();
        assert_eq!((branches.hardware_index, branches.len()), (Some(5), 1));
        let branch = branches.iter().next().unwrap();
        assert_eq!((branch.from, branch.to, branch.cycles), (0x1000, 0x2000, 300));
        assert!(branch.predicted && !branch.mispredicted);
        assert_eq!(branch.kind_name(), Some("CALL"));
        let registers: Vec<_> = found.regs_user.unwrap().iter().collect();
        assert_eq!(registers, [(7, 70), (8, 80)]);
        assert_eq!(found.regs_user.unwrap().get(8), Some(80));
        assert_eq!(found.stack_user.unwrap().stack(), words(&[11]));
        assert_eq!(found.weight, Some(Weight::structured(7 | 8 << 32 | 9 << 48)));
        assert_eq!(found.data_source, Some(DataSource(0x42)));
        assert_eq!((found.transaction, found.regs_intr.unwrap().get(0)), (Some(3), Some(90)));
        assert_eq!((found.physical_address, found.cgroup), (Some(100), Some(101)));
        assert_eq!((found.data_page_size, found.code_page_size), (Some(4096), Some(2 << 20)));
        assert_eq!(found.aux, Some(&[][..]));
    }

    #[test]
    fn cut_anywhere_there_is_nothing() {
        let bytes = example();
        for cut in 0..bytes.len() {
            assert_eq!(Tail::new(&bytes[..cut], &everything(), Endian::Little).decode(), None);
        }
    }

    #[test]
    fn no_registers_and_no_stack_are_shorter() {
        let attr = Attr {
            sample_type: SampleType::REGS_USER | SampleType::STACK_USER | SampleType::WEIGHT,
            sample_regs_user: u64::MAX,
            ..Attr::default()
        };
        let bytes = words(&[0, 0, 55]);
        let found = Tail::new(&bytes, &attr, Endian::Little).decode().unwrap();
        assert_eq!((found.regs_user, found.stack_user), (None, None));
        assert_eq!(found.weight, Some(Weight::single(55)));
    }

    /// The word as a big-endian compiler fills it: mispredicted is the topmost bit.
    #[test]
    fn bit_fields_of_the_other_byte_order() {
        let flags = 1 << 63 | 300 << 44 | 4 << 40;
        let bits = Bits { word: flags, taken: 0, endian: Endian::Big };
        let branch = Branch::new(0, 0, bits);
        assert!(branch.mispredicted && !branch.predicted);
        assert_eq!((branch.cycles, branch.kind), (300, 4));
    }

    proptest! {
        #[test]
        fn no_bytes_can_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), sample_type in any::<u64>(),
            branches in any::<u64>(), mask in any::<u64>(), big in any::<bool>(),
        ) {
            let attr = Attr {
                sample_type: SampleType::from_bits_retain(sample_type),
                branch_sample_type: BranchSampleType::from_bits_retain(branches),
                sample_regs_user: mask,
                sample_regs_intr: mask.rotate_left(7),
                ..Attr::default()
            };
            let endian = if big { Endian::Big } else { Endian::Little };
            if let Some(found) = Tail::new(&bytes, &attr, endian).decode() {
                for registers in [found.regs_user, found.regs_intr].into_iter().flatten() {
                    prop_assert_eq!(registers.iter().count() as u32, registers.mask.count_ones());
                }
                if let Some(branches) = found.branches {
                    prop_assert_eq!(branches.iter().count(), branches.len());
                }
                if let Some(stack) = found.stack_user {
                    prop_assert!(stack.stack().len() <= stack.bytes.len());
                }
            }
        }
    }
}
