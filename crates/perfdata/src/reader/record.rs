//! Records as values that borrow from the reader's buffer.

use pmuscope_abi::record::{kind, misc};
use pmuscope_abi::{Attr, ReadFormat, SampleType};

use super::bytes::{Endian, Fields, until_zero};

/// Process id in records about the kernel itself.
pub const KERNEL_PID: i32 = -1;

/// A record of the kernel (or synthesised in its form), as far as a profile needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A mapping of memory.
    Mmap(Mmap<'a>),
    /// A thread's name.
    Comm(Comm<'a>),
    /// A task began.
    Fork(Task),
    /// A task ended.
    Exit(Task),
    /// Records dropped for want of space in a ring; one such record can stand for many.
    Lost {
        /// Event by its id, if the id belongs to one.
        event: Option<usize>,
        /// How many.
        count: u64,
    },
    /// Samples that were lost: by the hardware's buffer, or, written at the end of a recording by a
    /// recent recorder, exactly counted per event.
    LostSamples {
        /// Event.
        event: usize,
        /// How many.
        count: u64,
    },
    /// The kernel suspended sampling.
    Throttle {
        /// Event by its id, if the id belongs to one.
        event: Option<usize>,
    },
    /// A kernel function came (BPF programs, trampolines).
    Ksymbol(Ksymbol<'a>),
    /// A record that is too short for its kind.
    Other {
        /// See [`pmuscope_abi::record::kind`].
        kind: u32,
    },
}

/// In what the CPU was when a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// Not told.
    Unknown,
    /// The kernel.
    Kernel,
    /// A program.
    User,
    /// The hypervisor.
    Hypervisor,
    /// A guest's kernel.
    GuestKernel,
    /// A guest's program.
    GuestUser,
}

impl CpuMode {
    fn from_misc(misc: u16) -> Self {
        match misc & misc::CPUMODE_MASK {
            misc::KERNEL => Self::Kernel,
            misc::USER => Self::User,
            3 => Self::Hypervisor,
            4 => Self::GuestKernel,
            5 => Self::GuestUser,
            _ => Self::Unknown,
        }
    }
}

/// A sample. What the event does not record is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Index of the event.
    pub event: usize,
    /// In what the CPU was.
    pub mode: CpuMode,
    /// Address of the instruction.
    pub ip: Option<u64>,
    /// Process.
    pub pid: Option<i32>,
    /// Thread.
    pub tid: Option<i32>,
    /// Time stamp, nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// CPU.
    pub cpu: Option<u32>,
    /// Units of the event this sample stands for.
    pub period: Option<u64>,
    /// Return addresses, innermost first; empty if not recorded.
    pub callchain: Callchain<'a>,
}

/// Addresses of a call chain, with the kernel's marks between its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callchain<'a> {
    words: &'a [u8],
    endian: Endian,
}

impl<'a> Callchain<'a> {
    /// None.
    pub const EMPTY: Self = Self { words: &[], endian: Endian::Little };

    /// Number of entries, marks included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len() / 8
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The entries: addresses, and marks (`PERF_CONTEXT_*`, the topmost 4095 values).
    pub fn iter(&self) -> impl Iterator<Item = u64> + 'a {
        let mut fields = Fields::new(self.words, self.endian);
        std::iter::from_fn(move || fields.u64())
    }
}

/// A mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Process; [`KERNEL_PID`] for the kernel and its modules.
    pub pid: i32,
    /// Thread that mapped.
    pub tid: i32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Offset in the file of the first address, bytes.
    pub offset: u64,
    /// Path of the file, or a name in brackets.
    pub path: &'a [u8],
    /// Build id, if the kernel gave it.
    pub build_id: Option<&'a [u8]>,
    /// Can hold code.
    pub executable: bool,
    /// Of the kernel or one of its modules.
    pub kernel: bool,
}

/// A thread's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The name.
    pub name: &'a [u8],
    /// The process replaced its program.
    pub exec: bool,
}

/// Begin or end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Process.
    pub pid: i32,
    /// Process of the parent.
    pub parent_pid: i32,
    /// Thread.
    pub tid: i32,
    /// Thread of the parent.
    pub parent_tid: i32,
    /// Written by the recorder for a process that was there before, not by the kernel at a fork: the
    /// child's mappings are told in full, none are inherited.
    pub synthesised: bool,
}

/// A function the kernel loaded at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u32,
    /// Its name.
    pub name: &'a [u8],
    /// It went instead of coming.
    pub unregistered: bool,
}

const PROT_EXEC: u32 = 4;
const MISC_FORK_EXEC: u16 = 1 << 13;
/// `flags` of a ksymbol record: the function goes.
const KSYMBOL_UNREGISTER: u16 = 1;

/// A sample's fields; `None` if the body is too short for what the attribute says.
pub(super) fn sample<'a>(
    body: &'a [u8],
    misc: u16,
    event: usize,
    attr: &Attr,
    endian: Endian,
) -> Option<Sample<'a>> {
    let mut fields = Fields::new(body, endian);
    let has = |bits| attr.sample_type.contains(bits);
    let mut sample = Sample {
        event,
        mode: CpuMode::from_misc(misc),
        ip: None,
        pid: None,
        tid: None,
        time: None,
        cpu: None,
        period: None,
        callchain: Callchain { words: &[], endian },
    };
    if has(SampleType::IDENTIFIER) {
        fields.u64()?;
    }
    if has(SampleType::IP) {
        sample.ip = Some(fields.u64()?);
    }
    if has(SampleType::TID) {
        sample.pid = Some(fields.u32()? as i32);
        sample.tid = Some(fields.u32()? as i32);
    }
    if has(SampleType::TIME) {
        sample.time = Some(fields.u64()?);
    }
    for unused in [SampleType::ADDR, SampleType::ID, SampleType::STREAM_ID] {
        if has(unused) {
            fields.u64()?;
        }
    }
    if has(SampleType::CPU) {
        sample.cpu = Some(fields.u32()?);
        fields.u32()?;
    }
    if has(SampleType::PERIOD) {
        sample.period = Some(fields.u64()?);
    }
    if has(SampleType::READ) {
        skip_read(&mut fields, attr.read_format)?;
    }
    if has(SampleType::CALLCHAIN) {
        let entries = usize::try_from(fields.u64()?).ok()?;
        sample.callchain.words = fields.take(entries.checked_mul(8)?)?;
    }
    Some(sample)
}

/// Steps over counter values: one, or those of a group.
fn skip_read(fields: &mut Fields<'_>, format: ReadFormat) -> Option<()> {
    let words = |bits: ReadFormat| (format & bits).bits().count_ones() as usize;
    let times = words(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    let per_value = 1 + words(ReadFormat::ID | ReadFormat::LOST);
    let total = if format.contains(ReadFormat::GROUP) {
        let values = usize::try_from(fields.u64()?).ok()?;
        times.checked_add(values.checked_mul(per_value)?)?
    } else {
        times + per_value
    };
    fields.take(total.checked_mul(8)?).map(|_| ())
}

/// MMAP and MMAP2.
pub(super) fn mmap(body: &[u8], record_kind: u32, misc: u16, endian: Endian) -> Option<Mmap<'_>> {
    let mut fields = Fields::new(body, endian);
    let (pid, tid) = (fields.u32()? as i32, fields.u32()? as i32);
    let (start, length, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let mut build_id = None;
    let mut executable = misc & misc::MMAP_DATA == 0;
    if record_kind == kind::MMAP2 {
        let file = fields.take(24)?;
        if misc & misc::MMAP_BUILD_ID != 0 {
            let length = usize::from(file[0]);
            build_id = (1..=20).contains(&length).then(|| &file[4..4 + length]);
        }
        executable = fields.u32()? & PROT_EXEC != 0;
        fields.u32()?;
    }
    let path = until_zero(fields.rest());
    let kernel = pid == KERNEL_PID || misc & misc::CPUMODE_MASK == misc::KERNEL;
    Some(Mmap { pid, tid, start, length, offset, path, build_id, executable, kernel })
}

pub(super) fn comm(body: &[u8], misc: u16, endian: Endian) -> Option<Comm<'_>> {
    let mut fields = Fields::new(body, endian);
    let (pid, tid) = (fields.u32()? as i32, fields.u32()? as i32);
    Some(Comm { pid, tid, name: until_zero(fields.rest()), exec: misc & misc::COMM_EXEC != 0 })
}

pub(super) fn task(body: &[u8], misc: u16, endian: Endian) -> Option<Task> {
    let mut fields = Fields::new(body, endian);
    let mut id = || fields.u32().map(|id| id as i32);
    let (pid, parent_pid, tid, parent_tid) = (id()?, id()?, id()?, id()?);
    Some(Task { pid, parent_pid, tid, parent_tid, synthesised: misc & MISC_FORK_EXEC != 0 })
}

pub(super) fn ksymbol(body: &[u8], endian: Endian) -> Option<Ksymbol<'_>> {
    let mut fields = Fields::new(body, endian);
    let (start, length) = (fields.u64()?, fields.u32()?);
    let (_type, flags) = (fields.u16()?, fields.u16()?);
    let unregistered = flags & KSYMBOL_UNREGISTER != 0;
    Some(Ksymbol { start, length, name: until_zero(fields.rest()), unregistered })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn fields_come_in_the_order_of_the_abi_and_a_group_read_is_stepped_over() {
        let attr = Attr {
            sample_type: SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::ID
                | SampleType::CPU
                | SampleType::PERIOD
                | SampleType::READ
                | SampleType::CALLCHAIN,
            read_format: ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED,
            ..Attr::default()
        };
        let body = words(&[
            0xabc,
            7 << 32 | 8,
            55,
            99,
            3 << 32,
            1000, // ip, pid+tid, time, id, cpu, period
            2,
            500,
            1,
            11,
            2,
            12, // values, enabled, {value, id} twice
            2,
            0xffff_ffff_ffff_fe00,
            0xabc, // chain
        ]);
        let found = sample(&body, 2, 4, &attr, Endian::Big).unwrap();
        assert_eq!((found.event, found.mode), (4, CpuMode::User));
        assert_eq!((found.ip, found.pid, found.tid), (Some(0xabc), Some(7), Some(8)));
        assert_eq!((found.time, found.cpu, found.period), (Some(55), Some(3), Some(1000)));
        assert_eq!(found.callchain.iter().collect::<Vec<_>>(), [0xffff_ffff_ffff_fe00, 0xabc]);
        assert_eq!(sample(&body[..body.len() - 1], 2, 4, &attr, Endian::Big), None);
    }

    #[test]
    fn a_build_id_that_cannot_be_is_none() {
        let mut body = words(&[5 << 32 | 5, 0x1000, 0x2000, 0x3000]);
        body.extend_from_slice(&[20, 0, 0, 0]);
        body.extend_from_slice(&[0xee; 20]);
        body.extend_from_slice(&5_u32.to_be_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(b"/bin/x\0\0");
        let with = |body: &[u8]| {
            let found = mmap(body, kind::MMAP2, misc::MMAP_BUILD_ID | 2, Endian::Big).unwrap();
            (found.build_id.map(<[u8]>::to_vec), found.path.to_vec(), found.executable)
        };
        assert_eq!(with(&body), (Some(vec![0xee; 20]), b"/bin/x".to_vec(), true));
        body[32] = 21;
        assert_eq!(with(&body).0, None);
    }

    proptest! {
        #[test]
        fn no_body_can_harm(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            sample_type in any::<u64>(), read_format in any::<u64>(), bits in any::<u16>(),
        ) {
            let attr = Attr {
                sample_type: SampleType::from_bits_retain(sample_type),
                read_format: ReadFormat::from_bits_retain(read_format),
                ..Attr::default()
            };
            if let Some(found) = sample(&body, bits, 0, &attr, Endian::Little) {
                prop_assert!(found.callchain.iter().count() == found.callchain.len());
            }
            mmap(&body, kind::MMAP2, bits, Endian::Little);
            mmap(&body, kind::MMAP, bits, Endian::Big);
            comm(&body, bits, Endian::Little);
            task(&body, bits, Endian::Little);
            ksymbol(&body, Endian::Little);
        }
    }
}
