//! Samples. The fields that every report needs are decoded; what comes after the callchain is
//! [decoded on request](Sample::details).

use pmuscope_abi::{Attr, ReadFormat, SampleType};

use super::bytes::{Endian, Fields};
use super::details::{Details, Tail};
use super::record::CpuMode;

/// A sample. What the event does not record is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Index of the event.
    pub event: usize,
    /// In what the CPU was.
    pub mode: CpuMode,
    /// `misc` of the record: the mode and flags, see [`pmuscope_abi::record::misc`].
    pub misc: u16,
    /// Address of the instruction.
    pub ip: Option<u64>,
    /// Process.
    pub pid: Option<i32>,
    /// Thread.
    pub tid: Option<i32>,
    /// Time stamp, nanoseconds of the recording's clock.
    pub time: Option<u64>,
    /// Address of the data.
    pub address: Option<u64>,
    /// Id of the descriptor that the event was opened with.
    pub id: Option<u64>,
    /// Id of the very event that sampled: of the copy that a task inherited.
    pub stream_id: Option<u64>,
    /// CPU.
    pub cpu: Option<u32>,
    /// Units of the event this sample stands for.
    pub period: Option<u64>,
    /// Counts read with the sample.
    pub read: Option<ReadValues<'a>>,
    /// Return addresses, innermost first; empty if not recorded.
    pub callchain: Callchain<'a>,
    /// Most addresses that the kernel records of a callchain; 0 if none is recorded.
    pub deepest: u16,
    /// What comes after the callchain, undecoded; see [`Sample::details`].
    pub tail: Tail<'a>,
}

/// A sample of the first event without any field.
impl Default for Sample<'_> {
    fn default() -> Self {
        Self {
            event: 0,
            mode: CpuMode::Unknown,
            misc: 0,
            ip: None,
            pid: None,
            tid: None,
            time: None,
            address: None,
            id: None,
            stream_id: None,
            cpu: None,
            period: None,
            read: None,
            callchain: Callchain::EMPTY,
            deepest: 0,
            tail: Tail::EMPTY,
        }
    }
}

impl<'a> Sample<'a> {
    /// What comes after the callchain; `None` if the record is too short for it.
    #[must_use]
    pub fn details(&self) -> Option<Details<'a>> {
        self.tail.decode()
    }
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

    /// Entries as they stand in a record.
    pub(super) fn new(words: &'a [u8], endian: Endian) -> Self {
        Self { words, endian }
    }

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

/// Counts, of an event or of all events of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadValues<'a> {
    words: &'a [u8],
    endian: Endian,
    layout: ReadLayout,
}

/// Where counts stand among the words that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadLayout {
    format: ReadFormat,
    /// Words in front of the first count, and from each to the next.
    front: u8,
    stride: u8,
    /// Where in those of a count its id is.
    id: Option<u8>,
}

impl ReadLayout {
    pub(super) fn new(format: ReadFormat) -> Self {
        let words = |bits: ReadFormat| (format & bits).bits().count_ones() as u8;
        let times = words(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
        let per_value = 1 + words(ReadFormat::ID | ReadFormat::LOST);
        let is_group = format.contains(ReadFormat::GROUP);
        let (front, stride) =
            if is_group { (1 + times, per_value) } else { (0, times + per_value) };
        let id = if is_group { 1 } else { 1 + times };
        Self { format, front, stride, id: format.contains(ReadFormat::ID).then_some(id) }
    }

    /// Counts at the front of `bytes`, and what is behind them; `None` if they are not all there.
    #[inline]
    pub(super) fn split(self, bytes: &[u8], endian: Endian) -> Option<(ReadValues<'_>, &[u8])> {
        let values = if self.format.contains(ReadFormat::GROUP) {
            usize::try_from(endian.u64(*bytes.first_chunk()?)).ok()?
        } else {
            1
        };
        let words = values.checked_mul(self.stride.into())?.checked_add(self.front.into())?;
        let (words, rest) = bytes.split_at_checked(words.checked_mul(8)?)?;
        Some((ReadValues { words, endian, layout: self }, rest))
    }
}

/// A count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadValue {
    /// How often the event happened; where it was not always on a counter, only while it was.
    pub value: u64,
    /// Id of its descriptor.
    pub id: Option<u64>,
    /// Records of it lost because the ring buffer was full.
    pub lost: Option<u64>,
}

impl<'a> ReadValues<'a> {
    /// Takes counts from the front of `fields`; `None` if they are not all there.
    pub(super) fn take(fields: &mut Fields<'a>, format: ReadFormat) -> Option<Self> {
        let (values, rest) = ReadLayout::new(format).split(fields.rest(), fields.endian())?;
        *fields = Fields::new(rest, fields.endian());
        Some(values)
    }

    fn word(&self, index: usize) -> Option<u64> {
        Fields::new(self.words.get(8 * index..)?, self.endian).u64()
    }

    /// The counts as words; each takes as many as `stride` says.
    #[inline]
    fn counts(&self) -> &'a [[u8; 8]] {
        let (words, _) = self.words.as_chunks();
        words.get(usize::from(self.layout.front)..).unwrap_or_default()
    }

    /// Whether there is no count.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts().is_empty()
    }

    /// Copies the counts to the front of `to`, as far as there is room; returns how many were
    /// copied. As [`ReadValues::iter`], but faster.
    #[inline]
    pub fn copy_to(&self, to: &mut [u64]) -> usize {
        let mut copied = 0;
        for (to, count) in to.iter_mut().zip(self.counts().chunks_exact(self.layout.stride.into()))
        {
            *to = self.endian.u64(count[0]);
            copied += 1;
        }
        copied
    }

    /// Id of the descriptor of the first count: of a group, the one that leads it.
    #[inline]
    #[must_use]
    pub fn leader(&self) -> Option<u64> {
        let at = self.layout.id?;
        self.counts().get(usize::from(at)).map(|word| self.endian.u64(*word))
    }

    /// What separates the streams of samples with counts: the descriptor that leads the group, else the CPU
    /// or the thread. `None` where there is no count.
    #[inline]
    #[must_use]
    pub fn stream(&self, cpu: Option<u32>, task: Option<(i32, i32)>) -> Option<u64> {
        const BY_CPU: u64 = 1 << 62;
        const BY_THREAD: u64 = 1 << 63;
        if self.is_empty() {
            return None;
        }
        Some(match (self.leader(), cpu, task) {
            (Some(id), _, _) => id,
            (None, Some(cpu), _) => BY_CPU | u64::from(cpu),
            (None, None, Some((_, tid))) => BY_THREAD | u64::from(tid as u32),
            (None, None, None) => BY_THREAD,
        })
    }

    /// Nanoseconds the event was enabled.
    #[must_use]
    pub fn enabled(&self) -> Option<u64> {
        // A group's number, or the value, stands in front.
        self.layout.format.contains(ReadFormat::TOTAL_TIME_ENABLED).then(|| self.word(1)).flatten()
    }

    /// Nanoseconds the event was on a counter.
    #[must_use]
    pub fn running(&self) -> Option<u64> {
        let index = 1 + usize::from(self.layout.format.contains(ReadFormat::TOTAL_TIME_ENABLED));
        self.layout
            .format
            .contains(ReadFormat::TOTAL_TIME_RUNNING)
            .then(|| self.word(index))
            .flatten()
    }

    /// The counts: one, or those of the group in the order in which it was opened.
    pub fn iter(&self) -> impl Iterator<Item = ReadValue> + use<'a> {
        let Self { words, endian, layout: ReadLayout { format, .. } } = *self;
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let times = 8 * (format & times).bits().count_ones() as usize;
        let is_group = format.contains(ReadFormat::GROUP);
        let mut fields = Fields::new(words, endian);
        if is_group {
            fields.take(8 + times);
        }
        std::iter::from_fn(move || {
            let value = fields.u64()?;
            if !is_group {
                fields.take(times)?;
            }
            let mut word = |bit| if format.contains(bit) { fields.u64() } else { None };
            Some(ReadValue { value, id: word(ReadFormat::ID), lost: word(ReadFormat::LOST) })
        })
    }
}

/// Default of `sysctl kernel.perf_event_max_stack` (`PERF_MAX_STACK_DEPTH` of `linux/perf_event.h`).
const DEFAULT_DEPTH: u16 = 127;

/// Most addresses that the kernel records of a callchain of an event: those of the kernel and of the program
/// together, without marks.
pub(super) fn deepest(attr: &Attr) -> u16 {
    if attr.sample_max_stack > 0 { attr.sample_max_stack } else { DEFAULT_DEPTH }
}

/// A sample's fields; `None` if the body is too short for what the attribute says up to and with the
/// call chain.
#[inline(always)] // a sample is large to move
pub(super) fn sample<'a>(
    body: &'a [u8],
    misc: u16,
    event: usize,
    attr: &Attr,
    endian: Endian,
) -> Option<Sample<'a>> {
    let mut fields = Fields::new(body, endian);
    let has = |bits| attr.sample_type.contains(bits);
    let mut sample = Sample { event, mode: CpuMode::from_misc(misc), misc, ..Sample::default() };
    if has(SampleType::IDENTIFIER) {
        sample.id = Some(fields.u64()?);
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
    if has(SampleType::ADDR) {
        sample.address = Some(fields.u64()?);
    }
    if has(SampleType::ID) {
        sample.id = Some(fields.u64()?);
    }
    if has(SampleType::STREAM_ID) {
        sample.stream_id = Some(fields.u64()?);
    }
    if has(SampleType::CPU) {
        sample.cpu = Some(fields.u32()?);
        fields.u32()?;
    }
    if has(SampleType::PERIOD) {
        sample.period = Some(fields.u64()?);
    }
    if has(SampleType::READ) {
        sample.read = Some(ReadValues::take(&mut fields, attr.read_format)?);
    }
    if has(SampleType::CALLCHAIN) {
        let entries = usize::try_from(fields.u64()?).ok()?;
        sample.callchain = Callchain::new(fields.take(entries.checked_mul(8)?)?, endian);
        sample.deepest = deepest(attr);
    }
    sample.tail = Tail::new(fields.rest(), attr, endian);
    Some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn fields_come_in_the_order_of_the_abi() {
        let attr = Attr {
            sample_type: SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::ADDR
                | SampleType::ID
                | SampleType::STREAM_ID
                | SampleType::CPU
                | SampleType::PERIOD
                | SampleType::READ
                | SampleType::CALLCHAIN
                | SampleType::PHYS_ADDR,
            read_format: ReadFormat::GROUP | ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED,
            ..Attr::default()
        };
        let mut body = words(&[0xabc, 7 << 32 | 8, 55, 0xdada, 99, 98, 3 << 32, 1000]);
        body.extend(words(&[2, 500, 1, 11, 2, 12])); // two values, enabled, {value, id} twice
        body.extend(words(&[2, 0xffff_ffff_ffff_fe00, 0xabc])); // chain
        body.extend(words(&[0x1234]));
        let found = sample(&body, 2, 4, &attr, Endian::Big).unwrap();
        assert_eq!((found.event, found.mode), (4, CpuMode::User));
        assert_eq!((found.ip, found.pid, found.tid), (Some(0xabc), Some(7), Some(8)));
        assert_eq!((found.time, found.cpu, found.period), (Some(55), Some(3), Some(1000)));
        assert_eq!((found.address, found.id, found.stream_id), (Some(0xdada), Some(99), Some(98)));
        assert_eq!(found.callchain.iter().collect::<Vec<_>>(), [0xffff_ffff_ffff_fe00, 0xabc]);
        let read = found.read.unwrap();
        let values: Vec<_> = read.iter().map(|one| (one.value, one.id, one.lost)).collect();
        assert_eq!((read.enabled(), read.running()), (Some(500), None));
        assert_eq!(values, [(1, Some(11), None), (2, Some(12), None)]);
        assert_eq!(found.details().unwrap().physical_address, Some(0x1234));
        // Too short for its end only: the sample is there, its details are not.
        let cut = sample(&body[..body.len() - 1], 2, 4, &attr, Endian::Big).unwrap();
        assert_eq!((cut.ip, cut.details()), (Some(0xabc), None));
        assert_eq!(sample(&body[..body.len() - 9], 2, 4, &attr, Endian::Big), None);
    }

    #[test]
    fn a_single_count_stands_before_its_times() {
        let format = ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID
            | ReadFormat::LOST;
        let body = words(&[5, 100, 90, 7, 2, 0xffff]);
        let mut fields = Fields::new(&body, Endian::Big);
        let read = ReadValues::take(&mut fields, format).unwrap();
        assert_eq!((read.enabled(), read.running()), (Some(100), Some(90)));
        let values: Vec<_> = read.iter().collect();
        assert_eq!(values, [ReadValue { value: 5, id: Some(7), lost: Some(2) }]);
        assert_eq!(fields.u64(), Some(0xffff));
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
                prop_assert_eq!(found.callchain.iter().count(), found.callchain.len());
                let _ = found.details();
                if let Some(read) = found.read {
                    let _ = (read.enabled(), read.running(), read.iter().count());
                }
            }
        }
    }
}
