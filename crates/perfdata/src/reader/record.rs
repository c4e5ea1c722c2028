//! Records as values that borrow from the reader's buffer.

use pmuscope_abi::record::{kind, misc};

use super::bytes::{Endian, Fields, until_zero};
use super::other::{
    Aux, AuxOutput, BpfEvent, Cgroup, DeferredCallchain, Namespaces, Switch, TextPoke,
};
use super::sample::{ReadValues, Sample};

/// Process id in records about the kernel itself.
pub const KERNEL_PID: i32 = -1;

/// A record of the kernel (or synthesized in its form), as far as a profile needs it.
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
    Fork(TaskRecord),
    /// A task ended.
    Exit(TaskRecord),
    /// Records dropped because a ring buffer was full; one such record can stand for many.
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
    /// Sampling continues. This and all below only from
    /// [`Reader::open_all`](super::Reader::open_all).
    Unthrottle {
        /// Event by its id, if the id belongs to one.
        event: Option<usize>,
    },
    /// Counts of a task at its end.
    Read {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// The counts.
        values: ReadValues<'a>,
    },
    /// Hardware trace was written.
    Aux(Aux),
    /// Hardware trace of a task began.
    ItraceStart {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
    },
    /// A task left a CPU, or came to it.
    Switch(Switch),
    /// The namespaces of a task.
    Namespaces(Namespaces<'a>),
    /// A BPF program came or went.
    BpfEvent(BpfEvent<'a>),
    /// A cgroup and its path.
    Cgroup(Cgroup<'a>),
    /// The kernel changed its own code.
    TextPoke(TextPoke<'a>),
    /// The hardware's number of an event that writes its output into the hardware trace.
    AuxOutput(AuxOutput),
    /// The user part of the callchain of an earlier sample (Linux 6.19).
    DeferredCallchain(DeferredCallchain<'a>),
    /// A record that is too short for its kind, or, from `Reader::open_all`, of a kind that is not known.
    Other {
        /// See [`pmuscope_abi::record::kind`].
        kind: u32,
    },
}

/// In what the CPU was when a sample was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// Not reported.
    #[default]
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
    pub(super) fn from_misc(misc: u16) -> Self {
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

/// A mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// Device and inode, if the record has them: the second form, without a build id.
    pub inode: Option<Inode>,
    /// Protection (`PROT_*`) and flags (`MAP_*`), if the record has them: the second form.
    pub protection: Option<(u32, u32)>,
    /// Can hold code.
    pub executable: bool,
    /// Of the kernel or one of its modules.
    pub kernel: bool,
}

/// The file of a mapping as the kernel knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Number of the inode.
    pub number: u64,
    /// Its generation: numbers are used again.
    pub generation: u64,
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
pub struct TaskRecord {
    /// Process.
    pub pid: i32,
    /// Process of the parent.
    pub parent_pid: i32,
    /// Thread.
    pub tid: i32,
    /// Thread of the parent.
    pub parent_tid: i32,
    /// Written by the recorder for a process that already existed, not by the kernel at a fork: the
    /// mappings of the child are listed completely, and none are inherited.
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

/// MMAP and MMAP2. `has_build_ids`: whether the record's event asked the kernel for build ids.
pub(super) fn mmap(
    body: &[u8],
    record_kind: u32,
    misc: u16,
    has_build_ids: bool,
    endian: Endian,
) -> Option<Mmap<'_>> {
    let mut fields = Fields::new(body, endian);
    let (pid, tid) = (fields.u32()? as i32, fields.u32()? as i32);
    let mut mmap = Mmap {
        pid,
        tid,
        start: fields.u64()?,
        length: fields.u64()?,
        offset: fields.u64()?,
        executable: misc & misc::MMAP_DATA == 0,
        kernel: pid == KERNEL_PID || misc & misc::CPUMODE_MASK == misc::KERNEL,
        ..Mmap::default()
    };
    if record_kind == kind::MMAP2 {
        let file = fields.take(24)?;
        if misc & misc::MMAP_BUILD_ID != 0 {
            mmap.build_id = build_id(file, has_build_ids);
        }
        if mmap.build_id.is_none() {
            mmap.inode = inode(file, endian);
        }
        let (protection, flags) = (fields.u32()?, fields.u32()?);
        mmap.executable = protection & PROT_EXEC != 0;
        mmap.protection = Some((protection, flags));
    }
    mmap.path = until_zero(fields.rest());
    Some(mmap)
}

/// The build id in the place of device and inode, `size, 0, 0, 0, id…`.
///
/// Linux 6.18 (others were not tried) marks such records for all sessions on a CPU as soon as one of
/// them asks for build ids, but gives the others device and inode still. Where the event did not ask,
/// only what cannot be a device and inode is taken for a build id, as tools put it into files
/// afterwards: no device in use has the major number 16 or 20.
fn build_id(file: &[u8], asked_for: bool) -> Option<&[u8]> {
    let (&length, rest) = file.split_first()?;
    let id = rest.get(3..3 + usize::from(length))?;
    let is_one = match length {
        16 | 20 => asked_for || rest.starts_with(&[0; 3]),
        1..20 => asked_for,
        _ => false,
    };
    is_one.then_some(id)
}

fn inode(file: &[u8], endian: Endian) -> Option<Inode> {
    let mut fields = Fields::new(file, endian);
    let (major, minor) = (fields.u32()?, fields.u32()?);
    Some(Inode { major, minor, number: fields.u64()?, generation: fields.u64()? })
}

pub(super) fn comm(body: &[u8], misc: u16, endian: Endian) -> Option<Comm<'_>> {
    let mut fields = Fields::new(body, endian);
    let (pid, tid) = (fields.u32()? as i32, fields.u32()? as i32);
    Some(Comm { pid, tid, name: until_zero(fields.rest()), exec: misc & misc::COMM_EXEC != 0 })
}

pub(super) fn task(body: &[u8], misc: u16, endian: Endian) -> Option<TaskRecord> {
    let mut fields = Fields::new(body, endian);
    let mut id = || fields.u32().map(|id| id as i32);
    let (pid, parent_pid, tid, parent_tid) = (id()?, id()?, id()?, id()?);
    Some(TaskRecord { pid, parent_pid, tid, parent_tid, synthesised: misc & MISC_FORK_EXEC != 0 })
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

    fn mapping(file: [u8; 24]) -> Vec<u8> {
        let mut body = words(&[5 << 32 | 5, 0x1000, 0x2000, 0x3000]);
        body.extend_from_slice(&file);
        body.extend_from_slice(&5_u32.to_be_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(b"/bin/x\0\0");
        body
    }

    #[test]
    fn a_build_id_that_cannot_be_is_none() {
        let mut file = [0xee; 24];
        file[..4].copy_from_slice(&[20, 0, 0, 0]);
        let body = mapping(file);
        let with = |body: &[u8], asked_for| {
            let bits = misc::MMAP_BUILD_ID | 2;
            let found = mmap(body, kind::MMAP2, bits, asked_for, Endian::Big).unwrap();
            assert_eq!((found.path, found.executable), (&b"/bin/x"[..], true));
            found.build_id.map(<[u8]>::to_vec)
        };
        assert_eq!(with(&body, true), Some(vec![0xee; 20]));
        file[0] = 21;
        assert_eq!(with(&mapping(file), true), None);
        // What tools put into files of events that did not ask for it.
        assert_eq!(with(&body, false), Some(vec![0xee; 20]));
    }

    /// Device 8:2, inode 77, generation 9, wrongly marked as a build id of 8 bytes (little-endian).
    #[test]
    fn device_and_inode_with_the_mark_of_a_build_id_are_no_build_id() {
        let mut file = [0; 24];
        for (at, value) in [(0, 8), (4, 2), (8, 77), (16, 9)] {
            file[at] = value;
        }
        let mut body = 5_u32.to_le_bytes().repeat(2);
        body.extend([0x1000_u64, 0x2000, 0].iter().flat_map(|word| word.to_le_bytes()));
        body.extend_from_slice(&file);
        body.extend_from_slice(&[0; 16]);
        let found = |asked_for| {
            mmap(&body, kind::MMAP2, misc::MMAP_BUILD_ID, asked_for, Endian::Little).unwrap()
        };
        assert_eq!(found(true).build_id, Some(&[2, 0, 0, 0, 77, 0, 0, 0][..]));
        assert_eq!(found(false).build_id, None);
        let inode = Inode { major: 8, minor: 2, number: 77, generation: 9 };
        assert_eq!(found(false).inode, Some(inode));
    }

    proptest! {
        #[test]
        fn no_body_can_harm(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            bits in any::<u16>(), asked_for in any::<bool>(),
        ) {
            mmap(&body, kind::MMAP2, bits, asked_for, Endian::Little);
            mmap(&body, kind::MMAP, bits, asked_for, Endian::Big);
            comm(&body, bits, Endian::Little);
            task(&body, bits, Endian::Little);
            ksymbol(&body, Endian::Little);
        }
    }
}
