//! `perf_event_attr`: what to count or sample, and what each record carries.

use bitflags::bitflags;

use crate::consts::{ATTR_SIZE_VER0, ATTR_SIZE_VER8, ATTR_SIZE_VER9};

bitflags! {
    /// `sample_type`: which fields a sample has.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct SampleType: u64 {
        /// Instruction pointer.
        const IP = 1 << 0;
        /// Process and thread id.
        const TID = 1 << 1;
        /// Time stamp, nanoseconds of `clockid`.
        const TIME = 1 << 2;
        /// Data address.
        const ADDR = 1 << 3;
        /// Counter values, as `read_format` says.
        const READ = 1 << 4;
        /// Call chain.
        const CALLCHAIN = 1 << 5;
        /// Id of the event (of the parent, for an inherited one).
        const ID = 1 << 6;
        /// CPU the sample was taken on.
        const CPU = 1 << 7;
        /// Period in force.
        const PERIOD = 1 << 8;
        /// Id of the very event that sampled.
        const STREAM_ID = 1 << 9;
        /// Raw data (tracepoint fields).
        const RAW = 1 << 10;
        /// Branch stack.
        const BRANCH_STACK = 1 << 11;
        /// User registers.
        const REGS_USER = 1 << 12;
        /// A copy of the top of the user stack.
        const STACK_USER = 1 << 13;
        /// Weight of the sampled access (`PERF_SAMPLE_WEIGHT`), one number.
        const WEIGHT = 1 << 14;
        /// Where the data came from.
        const DATA_SRC = 1 << 15;
        /// Id at a fixed place: first in a sample, last in every other record.
        const IDENTIFIER = 1 << 16;
        /// Transaction state.
        const TRANSACTION = 1 << 17;
        /// Registers at the interrupt.
        const REGS_INTR = 1 << 18;
        /// Physical data address.
        const PHYS_ADDR = 1 << 19;
        /// AUX data snapshot.
        const AUX = 1 << 20;
        /// Cgroup id.
        const CGROUP = 1 << 21;
        /// Page size of the data address.
        const DATA_PAGE_SIZE = 1 << 22;
        /// Page size of the instruction pointer.
        const CODE_PAGE_SIZE = 1 << 23;
        /// Weight of the sampled access (`PERF_SAMPLE_WEIGHT_STRUCT`), three numbers.
        const WEIGHT_STRUCT = 1 << 24;
        /// Bits this version does not know are kept.
        const _ = !0;
    }

    /// `read_format`: what `read(2)` and `PERF_SAMPLE_READ` return in addition to the value.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct ReadFormat: u64 {
        /// Nanoseconds the event was enabled.
        const TOTAL_TIME_ENABLED = 1 << 0;
        /// Nanoseconds the event was on a counter.
        const TOTAL_TIME_RUNNING = 1 << 1;
        /// Id of the event.
        const ID = 1 << 2;
        /// The whole group at once.
        const GROUP = 1 << 3;
        /// Records lost because the ring buffer was full (Linux 6.0).
        const LOST = 1 << 4;
        /// Bits this version does not know are kept.
        const _ = !0;
    }

    /// The bit field of `perf_event_attr`, as one word. `precise_ip` (bits 15 and 16) is
    /// [`Attr::precise_ip`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct AttrFlags: u64 {
        /// Off until enabled.
        const DISABLED = 1 << 0;
        /// Children get a copy of the event.
        const INHERIT = 1 << 1;
        /// Must always be on the PMU.
        const PINNED = 1 << 2;
        /// Must be the only group on the PMU.
        const EXCLUSIVE = 1 << 3;
        /// Do not count in user mode.
        const EXCLUDE_USER = 1 << 4;
        /// Do not count in the kernel.
        const EXCLUDE_KERNEL = 1 << 5;
        /// Do not count in the hypervisor.
        const EXCLUDE_HV = 1 << 6;
        /// Do not count when idle.
        const EXCLUDE_IDLE = 1 << 7;
        /// Write mmap records.
        const MMAP = 1 << 8;
        /// Write comm records.
        const COMM = 1 << 9;
        /// `sample` is a frequency in Hz, not a period.
        const FREQ = 1 << 10;
        /// Write counts at the exit of each inheriting task.
        const INHERIT_STAT = 1 << 11;
        /// Enable when the task calls exec.
        const ENABLE_ON_EXEC = 1 << 12;
        /// Write fork and exit records.
        const TASK = 1 << 13;
        /// `wakeup` is a watermark in bytes.
        const WATERMARK = 1 << 14;
        /// Data mappings too.
        const MMAP_DATA = 1 << 17;
        /// Every record carries the sample's identification fields.
        const SAMPLE_ID_ALL = 1 << 18;
        /// Do not count the host.
        const EXCLUDE_HOST = 1 << 19;
        /// Do not count guests.
        const EXCLUDE_GUEST = 1 << 20;
        /// No kernel part in callchains.
        const EXCLUDE_CALLCHAIN_KERNEL = 1 << 21;
        /// No user part in callchains.
        const EXCLUDE_CALLCHAIN_USER = 1 << 22;
        /// mmap records of the second form.
        const MMAP2 = 1 << 23;
        /// comm records distinguish exec from rename.
        const COMM_EXEC = 1 << 24;
        /// Time stamps are of `clockid`.
        const USE_CLOCKID = 1 << 25;
        /// Write context switch records.
        const CONTEXT_SWITCH = 1 << 26;
        /// Write the ring buffer backwards, from its end (flight recorder).
        const WRITE_BACKWARD = 1 << 27;
        /// Write namespace records.
        const NAMESPACES = 1 << 28;
        /// Write ksymbol records.
        const KSYMBOL = 1 << 29;
        /// Write records of BPF programs coming and going.
        const BPF_EVENT = 1 << 30;
        /// Send AUX data of this event to the group leader.
        const AUX_OUTPUT = 1 << 31;
        /// Write cgroup records.
        const CGROUP = 1 << 32;
        /// Write text poke records.
        const TEXT_POKE = 1 << 33;
        /// mmap2 records carry the build ID instead of device and inode.
        const BUILD_ID = 1 << 34;
        /// Only threads inherit, not processes.
        const INHERIT_THREAD = 1 << 35;
        /// Remove the event when the task calls exec.
        const REMOVE_ON_EXEC = 1 << 36;
        /// Synchronous SIGTRAP on overflow.
        const SIGTRAP = 1 << 37;
        /// Unwind the program's part of callchains when the task returns to the program.
        const DEFER_CALLCHAIN = 1 << 38;
        /// Write records of these parts.
        const DEFER_OUTPUT = 1 << 39;
        /// Bits this version does not know are kept.
        const _ = !0;
    }

    /// `branch_sample_type`: which branches, and what about each.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct BranchSampleType: u64 {
        /// User branches.
        const USER = 1 << 0;
        /// Kernel branches.
        const KERNEL = 1 << 1;
        /// Hypervisor branches.
        const HV = 1 << 2;
        /// Any branch.
        const ANY = 1 << 3;
        /// Any call.
        const ANY_CALL = 1 << 4;
        /// Any return.
        const ANY_RETURN = 1 << 5;
        /// Indirect calls.
        const IND_CALL = 1 << 6;
        /// Transaction aborts.
        const ABORT_TX = 1 << 7;
        /// Branches in a transaction.
        const IN_TX = 1 << 8;
        /// Branches outside a transaction.
        const NO_TX = 1 << 9;
        /// Conditional branches.
        const COND = 1 << 10;
        /// Call stack mode.
        const CALL_STACK = 1 << 11;
        /// Indirect jumps.
        const IND_JUMP = 1 << 12;
        /// Direct calls.
        const CALL = 1 << 13;
        /// No flags.
        const NO_FLAGS = 1 << 14;
        /// No cycles.
        const NO_CYCLES = 1 << 15;
        /// Save the branch type.
        const TYPE_SAVE = 1 << 16;
        /// Save the index of the most recent entry.
        const HW_INDEX = 1 << 17;
        /// Bits this version does not know are kept.
        const _ = !0;
    }
}

const PRECISE_SHIFT: u32 = 15;
const PRECISE_MASK: u64 = 3 << PRECISE_SHIFT;

/// `perf_event_attr` with names for its unions. Zero always means "not requested".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attr {
    /// Which PMU; see [`crate::event_type`].
    pub event_type: u32,
    /// The event within the PMU.
    pub config: u64,
    /// Period in events, or frequency in Hz if [`AttrFlags::FREQ`]; 0 counts without sampling.
    pub sample: u64,
    /// Fields of each sample.
    pub sample_type: SampleType,
    /// Fields of each read.
    pub read_format: ReadFormat,
    /// The bit field.
    pub flags: AttrFlags,
    /// 0 (any skid) to 3 (none).
    pub precise_ip: u8,
    /// Number of samples after which the reader is woken; bytes if [`AttrFlags::WATERMARK`].
    pub wakeup: u32,
    /// Breakpoint type: 1 read, 2 write, 4 execute.
    pub bp_type: u32,
    /// Second configuration word, or a breakpoint's address.
    pub config1: u64,
    /// Third configuration word, or a breakpoint's length in bytes.
    pub config2: u64,
    /// Which branches a branch stack holds.
    pub branch_sample_type: BranchSampleType,
    /// Mask of user registers.
    pub sample_regs_user: u64,
    /// Bytes of user stack per sample.
    pub sample_stack_user: u32,
    /// Clock of the time stamps (`CLOCK_*`), if [`AttrFlags::USE_CLOCKID`].
    pub clockid: i32,
    /// Mask of registers at the interrupt.
    pub sample_regs_intr: u64,
    /// Watermark of the AUX area in bytes.
    pub aux_watermark: u32,
    /// Deepest call chain; 0 takes the system's limit.
    pub sample_max_stack: u16,
    /// Bytes of AUX data per sample.
    pub aux_sample_size: u32,
    /// User data handed to SIGTRAP.
    pub sig_data: u64,
    /// Fourth configuration word (Linux 6.3).
    pub config3: u64,
    /// Fifth configuration word (Linux 6.18).
    pub config4: u64,
}

/// Why bytes are not a `perf_event_attr`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttrError {
    /// Fewer bytes than the first published size.
    #[error("perf_event_attr has {0} bytes; the smallest valid size is {ATTR_SIZE_VER0}")]
    TooShort(usize),
}

impl Attr {
    /// The bytes the kernel and `perf.data` want, `size` field included; always [`ATTR_SIZE_VER9`] long. The field says
    /// [`ATTR_SIZE_VER8`] where `config4` is not set.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ATTR_SIZE_VER9] {
        let mut out = [0_u8; ATTR_SIZE_VER9];
        let size = self.smallest_size().max(ATTR_SIZE_VER8);
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.event_type.to_ne_bytes());
        put(4, &(size as u32).to_ne_bytes());
        put(8, &self.config.to_ne_bytes());
        put(16, &self.sample.to_ne_bytes());
        put(24, &self.sample_type.bits().to_ne_bytes());
        put(32, &self.read_format.bits().to_ne_bytes());
        put(40, &self.flag_word().to_ne_bytes());
        put(48, &self.wakeup.to_ne_bytes());
        put(52, &self.bp_type.to_ne_bytes());
        put(56, &self.config1.to_ne_bytes());
        put(64, &self.config2.to_ne_bytes());
        put(72, &self.branch_sample_type.bits().to_ne_bytes());
        put(80, &self.sample_regs_user.to_ne_bytes());
        put(88, &self.sample_stack_user.to_ne_bytes());
        put(92, &self.clockid.to_ne_bytes());
        put(96, &self.sample_regs_intr.to_ne_bytes());
        put(104, &self.aux_watermark.to_ne_bytes());
        put(108, &self.sample_max_stack.to_ne_bytes());
        put(112, &self.aux_sample_size.to_ne_bytes());
        put(120, &self.sig_data.to_ne_bytes());
        put(128, &self.config3.to_ne_bytes());
        put(136, &self.config4.to_ne_bytes());
        out
    }

    /// Reads an attribute of any published size in native byte order; what is missing is zero, what
    /// is beyond [`ATTR_SIZE_VER9`] is ignored.
    ///
    /// # Errors
    /// [`AttrError::TooShort`] below 64 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AttrError> {
        if bytes.len() < ATTR_SIZE_VER0 {
            return Err(AttrError::TooShort(bytes.len()));
        }
        let mut full = [0_u8; ATTR_SIZE_VER9];
        let known = bytes.len().min(ATTR_SIZE_VER9);
        full[..known].copy_from_slice(&bytes[..known]);
        let u16_at = |at: usize| u16::from_ne_bytes([full[at], full[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let word = u64_at(40);
        Ok(Self {
            event_type: u32_at(0),
            config: u64_at(8),
            sample: u64_at(16),
            sample_type: SampleType::from_bits_retain(u64_at(24)),
            read_format: ReadFormat::from_bits_retain(u64_at(32)),
            flags: AttrFlags::from_bits_retain(word & !PRECISE_MASK),
            precise_ip: ((word & PRECISE_MASK) >> PRECISE_SHIFT) as u8,
            wakeup: u32_at(48),
            bp_type: u32_at(52),
            config1: u64_at(56),
            config2: u64_at(64),
            branch_sample_type: BranchSampleType::from_bits_retain(u64_at(72)),
            sample_regs_user: u64_at(80),
            sample_stack_user: u32_at(88),
            clockid: u32_at(92) as i32,
            sample_regs_intr: u64_at(96),
            aux_watermark: u32_at(104),
            sample_max_stack: u16_at(108),
            aux_sample_size: u32_at(112),
            sig_data: u64_at(120),
            config3: u64_at(128),
            config4: u64_at(136),
        })
    }

    /// The smallest published size in bytes, from 112 (Linux 4.8) on, that holds all fields that are
    /// set. Older tools reject files with attributes larger than those they know, even if the rest is
    /// zero.
    #[must_use]
    pub fn smallest_size(&self) -> usize {
        match self {
            Self { config4: 1.., .. } => ATTR_SIZE_VER9,
            Self { config3: 1.., .. } => ATTR_SIZE_VER8,
            Self { sig_data: 1.., .. } => 128,
            Self { aux_sample_size: 1.., .. } => 120,
            _ => 112,
        }
    }

    /// As [`Attr::to_bytes`], cut to a published size of at least [`Attr::smallest_size`] and saying so
    /// in its size field.
    #[must_use]
    pub fn to_sized_bytes(&self, size: usize) -> Vec<u8> {
        debug_assert!(size >= self.smallest_size() && size <= ATTR_SIZE_VER9);
        let mut bytes = self.to_bytes().to_vec();
        bytes.truncate(size);
        bytes[4..8].copy_from_slice(&(size as u32).to_ne_bytes());
        bytes
    }

    fn flag_word(&self) -> u64 {
        (self.flags.bits() & !PRECISE_MASK) | u64::from(self.precise_ip & 3) << PRECISE_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Offsets are promises to the kernel: each is checked against the header's layout by a value
    /// that no other field has.
    #[test]
    fn fields_lie_where_the_kernel_reads_them() {
        let attr = Attr {
            event_type: 1,
            config: 2,
            sample: 3,
            flags: AttrFlags::DISABLED | AttrFlags::BUILD_ID,
            precise_ip: 2,
            clockid: 1,
            sample_max_stack: 127,
            config3: 9,
            ..Attr::default()
        };
        let b = attr.to_bytes();
        assert_eq!(b.len(), 144);
        assert_eq!(b[0], 1);
        assert_eq!(b[4], 136);
        assert_eq!(b[8], 2);
        assert_eq!(b[16], 3);
        assert_eq!(u64::from_ne_bytes(b[40..48].try_into().unwrap()), 1 | 2 << 15 | 1 << 34);
        assert_eq!(b[92], 1);
        assert_eq!(b[108], 127);
        assert_eq!(b[128], 9);
        let b = Attr { config4: 11, ..attr }.to_bytes();
        assert_eq!((b[4], b[128], b[136]), (144, 9, 11));
    }

    #[test]
    fn short_attrs_are_refused_and_old_ones_filled_with_zero() {
        assert_eq!(Attr::from_bytes(&[0; 63]), Err(AttrError::TooShort(63)));
        let full = Attr { config: 7, config3: 5, ..Attr::default() }.to_bytes();
        let old = Attr::from_bytes(&full[..64]).unwrap();
        assert_eq!((old.config, old.config3), (7, 0));
    }

    #[test]
    fn a_file_holds_no_more_of_an_attr_than_is_set() {
        let plain = Attr { sample: 5, sample_max_stack: 127, ..Attr::default() };
        assert_eq!(plain.smallest_size(), 112);
        let bytes = plain.to_sized_bytes(112);
        assert_eq!((bytes.len(), bytes[4]), (112, 112));
        assert_eq!(Attr::from_bytes(&bytes).unwrap(), plain);
        assert_eq!(Attr { config3: 1, ..plain.clone() }.smallest_size(), 136);
        assert_eq!(Attr { config4: 1, ..plain.clone() }.smallest_size(), 144);
        assert_eq!(Attr { sig_data: 1, ..plain }.smallest_size(), 128);
    }

    proptest! {
        #[test]
        fn bytes_come_back_as_the_same_attr(words in proptest::collection::vec(any::<u64>(), 17)) {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
            let attr = Attr::from_bytes(&bytes).unwrap();
            prop_assert_eq!(Attr::from_bytes(&attr.to_bytes()).unwrap(), attr);
        }
    }
}
