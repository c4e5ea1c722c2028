//! Records that reports skip and that are only shown one by one: switches, namespaces, BPF programs,
//! changes of the kernel's code, hardware trace.

use pmuscope_abi::record::kind;

use super::bytes::{Endian, Fields, until_zero};
use super::sample::Callchain;

/// A piece of hardware trace was written to its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aux {
    /// Where it begins, bytes since the start of the trace.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// `PERF_AUX_FLAG_*`: 1 truncated because the buffer was full, 2 from overwrite mode, 4 with
    /// gaps.
    pub flags: u64,
}

/// A task left a CPU, or came to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// It left.
    pub out: bool,
    /// It left while it could run on.
    pub preempted: bool,
    /// Process and thread that comes after or went before; only in recordings of whole CPUs.
    pub other: Option<(i32, i32)>,
}

const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// SWITCH and SWITCH_CPU_WIDE.
pub(super) fn switch(body: &[u8], record_kind: u32, misc: u16, endian: Endian) -> Option<Switch> {
    let mut fields = Fields::new(body, endian);
    let other = if record_kind == kind::SWITCH {
        None
    } else {
        Some((fields.u32()? as i32, fields.u32()? as i32))
    };
    let out = misc & MISC_SWITCH_OUT != 0;
    Some(Switch { out, preempted: out && misc & MISC_SWITCH_OUT_PREEMPT != 0, other })
}

/// The namespaces of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    entries: &'a [u8],
    endian: Endian,
}

/// A namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// "net", "uts", …; `None` for one that this version does not know.
    pub name: Option<&'static str>,
    /// Device of its file in `/proc/PID/ns`.
    pub device: u64,
    /// Inode of that file.
    pub inode: u64,
}

impl<'a> Namespaces<'a> {
    /// All of them, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = Namespace> + 'a {
        const NAMES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
        let mut fields = Fields::new(self.entries, self.endian);
        (0..).map_while(move |index| {
            let (device, inode) = (fields.u64()?, fields.u64()?);
            Some(Namespace { name: NAMES.get::<usize>(index).copied(), device, inode })
        })
    }
}

pub(super) fn namespaces(body: &[u8], endian: Endian) -> Option<Namespaces<'_>> {
    let mut fields = Fields::new(body, endian);
    let (pid, tid) = (fields.u32()? as i32, fields.u32()? as i32);
    let number = usize::try_from(fields.u64()?).ok()?;
    let entries = fields.take(number.checked_mul(16)?)?;
    Some(Namespaces { pid, tid, entries, endian })
}

/// A BPF program came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfEvent<'a> {
    /// 1: it was loaded; 2: it was unloaded.
    pub what: u16,
    /// Flags, none as yet.
    pub flags: u16,
    /// Id of the program.
    pub id: u32,
    /// Hash of its instructions, 8 bytes.
    pub tag: &'a [u8],
}

pub(super) fn bpf_event(body: &[u8], endian: Endian) -> Option<BpfEvent<'_>> {
    let mut fields = Fields::new(body, endian);
    let (what, flags, id) = (fields.u16()?, fields.u16()?, fields.u32()?);
    Some(BpfEvent { what, flags, id, tag: fields.take(8)? })
}

/// A cgroup came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// Its id, as in samples.
    pub id: u64,
    /// Its path below the mount point.
    pub path: &'a [u8],
}

pub(super) fn cgroup(body: &[u8], endian: Endian) -> Option<Cgroup<'_>> {
    let mut fields = Fields::new(body, endian);
    Some(Cgroup { id: fields.u64()?, path: until_zero(fields.rest()) })
}

/// The kernel changed its own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// Where.
    pub address: u64,
    /// What was there.
    pub old: &'a [u8],
    /// What is there now.
    pub new: &'a [u8],
}

pub(super) fn text_poke(body: &[u8], endian: Endian) -> Option<TextPoke<'_>> {
    let mut fields = Fields::new(body, endian);
    let address = fields.u64()?;
    let (old, new) = (fields.u16()?, fields.u16()?);
    let old = fields.take(old.into())?;
    Some(TextPoke { address, old, new: fields.take(new.into())? })
}

/// The hardware's number of an event that writes its output into the hardware trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuxOutput {
    /// The number.
    pub id: u64,
}

/// The program's part of a call chain, unwound when its task went back to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeferredCallchain<'a> {
    /// Number that the samples it belongs to have in their chains.
    pub cookie: u64,
    /// The addresses.
    pub callchain: Callchain<'a>,
}

pub(super) fn deferred_callchain(body: &[u8], endian: Endian) -> Option<DeferredCallchain<'_>> {
    let mut fields = Fields::new(body, endian);
    let (cookie, entries) = (fields.u64()?, usize::try_from(fields.u64()?).ok()?);
    let words = fields.take(entries.checked_mul(8)?)?;
    Some(DeferredCallchain { cookie, callchain: Callchain::new(words, endian) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_task_that_is_preempted_and_one_that_comes_back() {
        let away = MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT;
        let body = words(&[8 << 32 | 7]);
        let found = switch(&body, 15, away, Endian::Little).unwrap();
        assert_eq!(found, Switch { out: true, preempted: true, other: Some((7, 8)) });
        let found = switch(&[], kind::SWITCH, 0, Endian::Little).unwrap();
        assert_eq!(found, Switch { out: false, preempted: false, other: None });
    }

    #[test]
    fn namespaces_have_names_as_far_as_they_are_known() {
        let mut body = words(&[2 << 32 | 1, 8]);
        body.extend((0..8_u64).flat_map(|index| words(&[3, 100 + index])));
        let found = namespaces(&body, Endian::Little).unwrap();
        let all: Vec<_> = found.iter().map(|one| (one.name, one.inode)).collect();
        assert_eq!((found.pid, found.tid, all.len()), (1, 2, 8));
        assert_eq!((all[0], all[7]), ((Some("net"), 100), (None, 107)));
        assert_eq!(namespaces(&body[..body.len() - 1], Endian::Little), None);
    }

    #[test]
    fn changed_code_has_both_versions() {
        let mut body = words(&[0xffff_ffff_8100_0000]);
        body.extend_from_slice(&[2, 0, 1, 0, 0xeb, 0x05, 0x90, 0]);
        let found = text_poke(&body, Endian::Little).unwrap();
        assert_eq!((found.old, found.new), (&[0xeb, 5][..], &[0x90][..]));
    }

    proptest! {
        #[test]
        fn no_body_can_harm(
            body in proptest::collection::vec(any::<u8>(), 0..100), bits in any::<u16>(),
        ) {
            for endian in [Endian::Little, Endian::Big] {
                switch(&body, 15, bits, endian);
                if let Some(found) = namespaces(&body, endian) {
                    prop_assert!(found.iter().count() <= body.len() / 16);
                }
                bpf_event(&body, endian);
                cgroup(&body, endian);
                text_poke(&body, endian);
                deferred_callchain(&body, endian);
            }
        }
    }
}
