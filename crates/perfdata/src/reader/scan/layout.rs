//! The offsets of the fields in an event's samples, computed once instead of once per sample.

use pmuscope_abi::record::misc;
use pmuscope_abi::{Attr, SampleType};

use super::super::details::{BranchStack, Tail, TailLayout};
use super::super::record::CpuMode;
use super::super::sample::{ReadLayout, ReadValues, Sample, deepest};
use super::NATIVE;

/// No such field: no sample has as many words.
const ABSENT: u16 = u16::MAX;

/// A sample as far as counting it needs it. What the event does not record is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleFields<'a> {
    /// Index of the event.
    pub event: usize,
    /// In what the CPU was.
    pub mode: CpuMode,
    /// Whether [`ip`](Self::ip) is that of the very instruction, by `PERF_RECORD_MISC_EXACT_IP`.
    pub has_exact_ip: bool,
    /// Address of the instruction.
    pub ip: Option<u64>,
    /// Process and thread.
    pub task: Option<(i32, i32)>,
    /// Time stamp, nanoseconds of the recording's clock.
    pub time: u64,
    /// CPU.
    pub cpu: Option<u32>,
    /// Units of the event this sample stands for.
    pub period: Option<u64>,
    /// Counts read with the sample.
    pub read: Option<ReadValues<'a>>,
    /// Entries of the call chain, marks included, in the byte order of this machine.
    pub chain: &'a [[u8; 8]],
    /// Most addresses that the kernel records of a call chain; 0 if none is recorded.
    pub deepest: u16,
    /// The program's calls that have not returned, the newest first, where the CPU kept them.
    pub calls: Option<BranchStack<'a>>,
    /// Registers and stack of the program, to be decoded, where the event records both.
    pub user: Option<Tail<'a>>,
    /// Address of the data that were accessed.
    pub address: Option<u64>,
    /// What the hardware reports about the access, to be decoded, where the event records any of it.
    pub memory: Option<Tail<'a>>,
}

/// `PERF_RECORD_MISC_EXACT_IP`.
const EXACT_IP: u16 = 1 << 14;

impl<'a> SampleFields<'a> {
    /// The fields of `sample`, without its callchain and its stack.
    #[must_use]
    pub fn of(sample: &Sample<'a>) -> Self {
        Self {
            event: sample.event,
            mode: sample.mode,
            has_exact_ip: sample.misc & EXACT_IP != 0,
            ip: sample.ip,
            task: sample.pid.zip(sample.tid),
            time: sample.time.unwrap_or(0),
            cpu: sample.cpu,
            period: sample.period,
            read: sample.read,
            chain: &[],
            deepest: sample.deepest,
            calls: sample.tail.calls(),
            user: None,
            address: sample.address,
            memory: sample.tail.with_memory(),
        }
    }
}

/// Positions in the body of a sample, in words of 8 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleLayout {
    ip: u16,
    task: u16,
    time: u16,
    cpu: u16,
    period: u16,
    address: u16,
    /// After the fields that are always present.
    behind: u16,
    /// Whether nothing of use stands there.
    is_plain: bool,
    read: Option<ReadLayout>,
    chain: bool,
    deepest: u16,
    /// Where registers and stack of the program are recorded.
    tail: Option<TailLayout>,
    /// Where branches are a call stack.
    calls: Option<TailLayout>,
    /// Where accesses to memory are recorded.
    memory: Option<TailLayout>,
}

impl SampleLayout {
    pub(super) fn new(attr: &Attr) -> Self {
        let mut at = 0;
        let mut place = |bit| {
            let here = at;
            let there = attr.sample_type.contains(bit);
            at += u16::from(there);
            if there { here } else { ABSENT }
        };
        place(SampleType::IDENTIFIER);
        let ip = place(SampleType::IP);
        let task = place(SampleType::TID);
        let time = place(SampleType::TIME);
        let address = place(SampleType::ADDR);
        for unused in [SampleType::ID, SampleType::STREAM_ID] {
            place(unused);
        }
        let cpu = place(SampleType::CPU);
        let period = place(SampleType::PERIOD);
        let has_counts = attr.sample_type.contains(SampleType::READ);
        let read = has_counts.then(|| ReadLayout::new(attr.read_format));
        let chain = attr.sample_type.contains(SampleType::CALLCHAIN);
        let (tail, calls) = (TailLayout::with_stack(attr), TailLayout::with_calls(attr));
        let memory = TailLayout::with_memory(attr);
        let has_tail = tail.is_some() || calls.is_some() || memory.is_some();
        let is_plain = read.is_none() && !chain && !has_tail;
        Self {
            ip,
            task,
            time,
            cpu,
            period,
            address,
            behind: at,
            is_plain,
            read,
            chain,
            deepest: if chain { deepest(attr) } else { 0 },
            tail,
            calls,
            memory,
        }
    }

    /// Time stamp; `None` where there is none, or one that says so.
    #[inline]
    pub(super) fn time(&self, body: &[u8]) -> Option<u64> {
        word(body.as_chunks().0, self.time).filter(|&time| time != 0 && time != u64::MAX)
    }

    /// Whether all fields are there.
    #[inline]
    pub(super) fn fits(&self, body: &[u8]) -> bool {
        if self.is_plain { self.has_fixed(body) } else { self.varying(body).is_some() }
    }

    /// Hands on the fields, unless the body is too short for what the attribute promises. A hit is large:
    /// it is made where it is looked at, and never moved.
    #[inline]
    pub(super) fn hand_on<'a>(
        &self,
        event: usize,
        bits: u16,
        body: &'a [u8],
        take: impl FnOnce(&SampleFields<'a>),
    ) {
        if self.is_plain {
            if self.has_fixed(body) {
                take(&self.fixed(event, bits, body));
            }
            return;
        }
        let Some(Varying { read, chain, rest }) = self.varying(body) else { return };
        take(&SampleFields {
            read,
            chain,
            calls: self.calls.and_then(|layout| layout.tail(rest, NATIVE).calls()),
            user: self.tail.map(|layout| layout.tail(rest, NATIVE)),
            memory: self.memory.map(|layout| layout.tail(rest, NATIVE)),
            ..self.fixed(event, bits, body)
        });
    }

    /// Whether the fields that are always present are.
    #[inline]
    fn has_fixed(&self, body: &[u8]) -> bool {
        body.len() >= 8 * usize::from(self.behind)
    }

    /// The fields that are always present.
    #[inline]
    fn fixed<'a>(&self, event: usize, bits: u16, body: &'a [u8]) -> SampleFields<'a> {
        let (words, _) = body.as_chunks();
        SampleFields {
            event,
            mode: mode(bits),
            has_exact_ip: bits & EXACT_IP != 0,
            ip: word(words, self.ip),
            task: word(words, self.task).map(halves),
            time: word(words, self.time).unwrap_or(0),
            cpu: word(words, self.cpu).map(|both| halves(both).0 as u32),
            period: word(words, self.period),
            read: None,
            chain: &[],
            deepest: self.deepest,
            calls: None,
            user: None,
            address: word(words, self.address),
            memory: None,
        }
    }

    /// The fields whose length is told in them; `None` if the body is too short for what the attribute
    /// promises.
    #[inline]
    fn varying<'a>(&self, body: &'a [u8]) -> Option<Varying<'a>> {
        let mut rest = body.get(8 * usize::from(self.behind)..)?;
        let mut read = None;
        if let Some(layout) = self.read {
            let (values, behind) = layout.split(rest, NATIVE)?;
            (read, rest) = (Some(values), behind);
        }
        let mut chain: &[[u8; 8]] = &[];
        if self.chain {
            let (words, _) = rest.as_chunks();
            let (&number, words) = words.split_first()?;
            let length = usize::try_from(u64::from_ne_bytes(number)).ok()?;
            chain = words.get(..length)?;
            rest = rest.get(8 * (length + 1)..)?;
        }
        Some(Varying { read, chain, rest })
    }
}

/// What stands behind the fields that are always there.
#[derive(Default)]
struct Varying<'a> {
    read: Option<ReadValues<'a>>,
    chain: &'a [[u8; 8]],
    rest: &'a [u8],
}

/// `None` where the sample has no such field, by the same comparison that checks its length.
#[inline]
fn word(words: &[[u8; 8]], at: u16) -> Option<u64> {
    words.get(usize::from(at)).map(|word| u64::from_ne_bytes(*word))
}

/// The two `u32` in 8 bytes, the first one first whatever the byte order.
#[inline]
fn halves(word: u64) -> (i32, i32) {
    let bytes = word.to_ne_bytes();
    let half =
        |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (half(0), half(4))
}

#[inline]
fn mode(bits: u16) -> CpuMode {
    match bits & misc::CPUMODE_MASK {
        misc::KERNEL => CpuMode::Kernel,
        misc::USER => CpuMode::User,
        3 => CpuMode::Hypervisor,
        4 => CpuMode::GuestKernel,
        5 => CpuMode::GuestUser,
        _ => CpuMode::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::sample;
    use pmuscope_abi::{BranchSampleType, ReadFormat};
    use proptest::prelude::*;

    proptest! {
        /// The same fields as the reader finds one after another, or neither finds any.
        #[test]
        fn fields_are_those_of_the_reader(
            words in proptest::collection::vec(prop_oneof![0_u64..6, any::<u64>()], 0..30),
            cut in 0_usize..9,
            types in any::<u32>(), identifier in any::<bool>(), format in 0_u64..32, bits in any::<u16>(),
        ) {
            let mut sample_type = SampleType::from_bits_retain(types.into());
            // What stands after the callchain is not for us, but for a call stack.
            sample_type &= SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::ADDR
                | SampleType::READ | SampleType::CALLCHAIN | SampleType::ID | SampleType::CPU
                | SampleType::PERIOD | SampleType::STREAM_ID | SampleType::BRANCH_STACK
                | SampleType::WEIGHT | SampleType::DATA_SRC | SampleType::PHYS_ADDR
                | SampleType::WEIGHT_STRUCT;
            sample_type.set(SampleType::IDENTIFIER, identifier);
            let read_format = ReadFormat::from_bits_retain(format);
            let branch_sample_type = BranchSampleType::CALL_STACK;
            let attr = Attr { sample_type, read_format, branch_sample_type, ..Attr::default() };
            let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            body.truncate(body.len().saturating_sub(cut));
            let mut ours = None;
            SampleLayout::new(&attr).hand_on(3, bits, &body, |hit| ours = Some(*hit));
            let theirs = sample::sample(&body, bits, 3, &attr, NATIVE);
            prop_assert_eq!(ours.is_some(), theirs.is_some());
            prop_assert_eq!(SampleLayout::new(&attr).fits(&body), ours.is_some());
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                prop_assert_eq!(ours.user, None);
                prop_assert_eq!(ours.calls, theirs.tail.calls());
                prop_assert_eq!(ours.mode, theirs.mode);
                prop_assert_eq!((ours.ip, ours.cpu, ours.period), (theirs.ip, theirs.cpu, theirs.period));
                prop_assert_eq!(ours.task, theirs.pid.zip(theirs.tid));
                prop_assert_eq!(ours.time, theirs.time.unwrap_or(0));
                prop_assert_eq!(ours.address, theirs.address);
                prop_assert_eq!(ours.memory, theirs.tail.with_memory());
                prop_assert_eq!(ours.read, theirs.read);
                if let Some(read) = ours.read {
                    let counts: Vec<_> = read.iter().collect();
                    let mut copied = [0; 4];
                    let number = read.copy_to(&mut copied);
                    let values: Vec<u64> = counts.iter().map(|one| one.value).take(4).collect();
                    prop_assert_eq!(&copied[..number], &values[..]);
                    prop_assert_eq!(read.leader(), counts.first().and_then(|one| one.id));
                    prop_assert_eq!(read.is_empty(), counts.is_empty());
                }
                let chain: Vec<u64> = ours.chain.iter().map(|word| u64::from_ne_bytes(*word)).collect();
                prop_assert_eq!(chain, theirs.callchain.iter().collect::<Vec<_>>());
            }
        }
    }
}
