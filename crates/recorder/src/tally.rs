//! Counts what is in a piece of a ring, one reading at each header, while the bytes pass by.

use std::collections::BTreeMap;

use pmuscope_abi::record::{HEADER_SIZE, Header, kind, misc};
use pmuscope_abi::{Attr, SampleType};
use pmuscope_counters::Pending;
use pmuscope_symbols::Inode;
use rustc_hash::FxHashMap;

use crate::keep::FileMapping;
use crate::mapped::{MappedFile, code_in};

/// Which event an id belongs to.
#[derive(Debug, Default, Clone)]
pub(crate) struct IdIndex {
    by_id: FxHashMap<u64, usize>,
    /// All ids belong to this event: no reading-up is needed.
    only: Option<usize>,
    events: usize,
    /// Where the time of a sample stands from the start of its record; `None` where not all events have
    /// it there.
    time_at: Option<usize>,
    /// Whether files with code are noted.
    notes_files: bool,
}

impl IdIndex {
    /// Index over pairs of id and event, and the events' attributes.
    pub(crate) fn new<'a>(
        ids: impl IntoIterator<Item = (u64, usize)>,
        attrs: impl IntoIterator<Item = &'a Attr>,
    ) -> Self {
        let attrs: Vec<&Attr> = attrs.into_iter().collect();
        let mut writing = attrs.iter().enumerate().filter(|(_, attr)| attr.sample > 0);
        let only = match (writing.next(), writing.next()) {
            (Some((event, _)), None) => Some(event),
            _ => None,
        };
        let mut times = attrs.iter().filter(|attr| attr.sample > 0).map(|attr| time_at(attr));
        let first = times.next().flatten();
        let time_at = first.filter(|_| times.all(|time| time == first));
        let by_id = ids.into_iter().collect();
        Self { by_id, only, events: attrs.len(), time_at, notes_files: false }
    }

    /// The same; files with code are noted.
    pub(crate) fn noting_files(self) -> Self {
        Self { notes_files: true, ..self }
    }

    /// The same with further ids.
    pub(crate) fn with(&self, ids: impl IntoIterator<Item = (u64, usize)>) -> Self {
        let mut index = self.clone();
        index.by_id.extend(ids);
        index
    }
}

/// `PERF_SAMPLE_TIME` stands behind these fields of 8 bytes (`perf_event_open(2)`, `PERF_RECORD_SAMPLE`).
fn time_at(attr: &Attr) -> Option<usize> {
    let before = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID;
    let fields = attr.sample_type.intersection(before).bits().count_ones() as usize;
    attr.sample_type.contains(SampleType::TIME).then_some(HEADER_SIZE + 8 * fields)
}

/// Paths and inodes of mapped files, each with a process that has it: as many as there are files, however
/// often and how long they are mapped.
pub(crate) type Unidentified = BTreeMap<(Vec<u8>, Inode), u32>;

/// What passed by.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RecordTally {
    /// Samples per event.
    pub(crate) samples: Vec<u64>,
    /// Samples whose id belongs to no event of ours.
    pub(crate) foreign: u64,
    /// The earliest and the latest sample, nanoseconds of the recording's clock.
    pub(crate) sample_time: Option<(u64, u64)>,
    /// Sum of the LOST records.
    pub(crate) lost_in_records: u64,
    /// THROTTLE records per event.
    pub(crate) throttled: Vec<u64>,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Bytes that were no records; never seen, never hidden.
    pub(crate) broken_bytes: u64,
    /// Files whose build id the kernel did not give.
    pub(crate) without_build_id: Unidentified,
    /// Mappings of files with code, if they are noted; whoever counts takes them away.
    pub(crate) code: Vec<FileMapping>,
}

impl RecordTally {
    pub(crate) fn new(index: &IdIndex) -> Self {
        let zero = vec![0; index.events];
        Self { samples: zero.clone(), throttled: zero, ..Self::default() }
    }

    /// Adds what another reader counted.
    pub(crate) fn add(&mut self, other: Self) {
        let sum = |into: &mut Vec<u64>, from: Vec<u64>| {
            into.resize(into.len().max(from.len()), 0);
            into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
        };
        sum(&mut self.samples, other.samples);
        sum(&mut self.throttled, other.throttled);
        self.foreign += other.foreign;
        if let Some((first, last)) = other.sample_time {
            self.see_times(first, last);
        }
        self.lost_in_records += other.lost_in_records;
        self.bytes += other.bytes;
        self.broken_bytes += other.broken_bytes;
        self.without_build_id.extend(other.without_build_id);
    }

    /// All samples.
    pub(crate) fn all_samples(&self) -> u64 {
        self.samples.iter().sum::<u64>() + self.foreign
    }

    /// Counts the records of `pending`, which starts and ends at record boundaries as the kernel
    /// publishes them.
    pub(crate) fn count(&mut self, pending: &Pending<'_>, index: &IdIndex) {
        let view = RingView::of(pending);
        let end = view.for_each(|at, header| match header.kind {
            kind::SAMPLE => self.count_sample(&view, at, index),
            kind::LOST => self.lost_in_records += view.word(at + 16).unwrap_or(0),
            kind::THROTTLE => self.count_throttle(&view, at, index),
            kind::MMAP2 => self.see_mapping(&view, at, header, index),
            _ => {}
        });
        self.bytes += end as u64;
        self.broken_bytes += (view.len() - end) as u64;
    }

    fn see_mapping(&mut self, view: &RingView<'_>, at: usize, header: Header, index: &IdIndex) {
        let is_identified = header.misc & misc::MMAP_BUILD_ID != 0;
        if is_identified && !index.notes_files {
            return;
        }
        let record = view.copy(at, usize::from(header.size));
        if index.notes_files {
            self.code.extend(code_in(&record, header.misc));
        }
        if let Some(file) = MappedFile::of_record(&record).filter(|_| !is_identified) {
            self.without_build_id.insert((file.path.to_vec(), file.inode), file.pid);
        }
    }

    fn count_sample(&mut self, view: &RingView<'_>, at: usize, index: &IdIndex) {
        let event = index.only.or_else(|| index.by_id.get(&view.word(at + 8)?).copied());
        match event.and_then(|event| self.samples.get_mut(event)) {
            Some(count) => *count += 1,
            None => self.foreign += 1,
        }
        // Samples of one ring may be out of order: an interrupt's comes between a task's time and record.
        if let Some(time) = index.time_at.and_then(|time_at| view.word(at + time_at)) {
            self.see_times(time, time);
        }
    }

    fn see_times(&mut self, earliest: u64, latest: u64) {
        let (first, last) = self.sample_time.unwrap_or((earliest, latest));
        self.sample_time = Some((first.min(earliest), last.max(latest)));
    }

    /// THROTTLE: header, time, id, stream id.
    fn count_throttle(&mut self, view: &RingView<'_>, at: usize, index: &IdIndex) {
        let event = view.word(at + 16).and_then(|id| index.by_id.get(&id).copied());
        if let Some(count) = event.and_then(|event| self.throttled.get_mut(event)) {
            *count += 1;
        }
    }
}

/// Two pieces of a ring as one. Headers and aligned words never lie across the seam: records start at
/// multiples of 8 and the pieces are cut at multiples of a page.
pub(crate) struct RingView<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> RingView<'a> {
    pub(crate) fn of(pending: &Pending<'a>) -> Self {
        Self { first: pending.first, second: pending.second }
    }

    /// Shows each record's position and header to `look`; where the records end.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, Header)) -> usize {
        let mut at = 0;
        while let Some(header) = self.header(at) {
            let size = usize::from(header.size);
            if size < HEADER_SIZE || at + size > self.len() {
                break;
            }
            visit(at, header);
            at += size;
        }
        at
    }

    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    pub(crate) fn word(&self, at: usize) -> Option<u64> {
        let bytes = match at.checked_sub(self.first.len()) {
            None => self.first.get(at..)?,
            Some(at) => self.second.get(at..)?,
        };
        bytes.first_chunk().map(|word| u64::from_ne_bytes(*word))
    }

    fn header(&self, at: usize) -> Option<Header> {
        match at.checked_sub(self.first.len()) {
            None => Header::read(&self.first[at..]),
            Some(at) => Header::read(self.second.get(at..)?),
        }
    }

    fn copy(&self, at: usize, size: usize) -> Vec<u8> {
        self.first.iter().chain(self.second).skip(at).take(size).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;

    fn records() -> Vec<u8> {
        let mut out = Vec::new();
        let mut sample =
            |id, time| RecordBuilder::new(&mut out, kind::SAMPLE, 2).u64(id).u64(time).finish();
        sample(10, 50);
        sample(20, 40);
        sample(20, 70);
        sample(99, 60);
        RecordBuilder::new(&mut out, kind::LOST, 0).u64(10).u64(7).finish();
        RecordBuilder::new(&mut out, kind::THROTTLE, 0).u64(1).u64(20).u64(20).finish();
        let mut mapped = |path: &str| {
            let record = RecordBuilder::new(&mut out, kind::MMAP2, 2);
            record.u32(5).u32(5).bytes(&[0; 32]).u64(77).bytes(&[0; 16]).text(path).finish();
        };
        mapped("/bin/xz");
        mapped("//anon");
        mapped("/bin/xz");
        RecordBuilder::new(&mut out, kind::MMAP2, 2 | misc::MMAP_BUILD_ID).u64(6).finish();
        out
    }

    /// An event that samples with these fields beside its id.
    fn sampling(fields: SampleType) -> Attr {
        Attr { sample: 1, sample_type: SampleType::IDENTIFIER | fields, ..Attr::default() }
    }

    fn count(first: &[u8], second: &[u8], index: &IdIndex) -> RecordTally {
        let mut tally = RecordTally::new(index);
        tally.count(&Pending::of_pieces(first, second), index);
        tally
    }

    #[test]
    fn the_seam_may_lie_at_any_word() {
        let events = [sampling(SampleType::TIME), sampling(SampleType::TIME)];
        let index = IdIndex::new([(10, 0), (20, 1)], &events);
        let bytes = records();
        let whole = count(&bytes, &[], &index);
        assert_eq!((whole.samples.as_slice(), whole.foreign), (&[1, 2][..], 1));
        assert_eq!((whole.lost_in_records, whole.throttled.as_slice()), (7, &[0, 1][..]));
        let inode = Inode { major: 0, minor: 0, number: 77 };
        assert_eq!(whole.without_build_id, [((b"/bin/xz".to_vec(), inode), 5)].into());
        assert_eq!(whole.sample_time, Some((40, 70)));
        for seam in (0..bytes.len()).step_by(8) {
            let (first, second) = bytes.split_at(seam);
            assert_eq!(count(first, second, &index), whole, "seam at {seam}");
        }
    }

    #[test]
    fn files_with_code_are_noted_if_that_is_asked_for() {
        let mut records = Vec::new();
        let mut mapped = |bits: u16, protection: u32, flags: u32, path: &str| {
            let record = RecordBuilder::new(&mut records, kind::MMAP2, 2 | bits);
            let record = record.u32(5).u32(5).bytes(&[0; 24]).u8(4).u8(0).u16(0).u32(9);
            let record = record.u64(77).u64(0).u32(protection).u32(flags);
            record.text(path).finish();
        };
        mapped(0, 5, 2, "/bin/xz");
        mapped(misc::MMAP_BUILD_ID, 5, 2, "/bin/ls");
        mapped(0, 5, 1, "/memfd:code");
        mapped(0, 1, 2, "/etc/passwd");
        mapped(0, 5, 2, "//anon");
        let index = IdIndex::default();
        let noted = |index: &IdIndex| count(&records, &[], index).code;
        assert_eq!(noted(&index), []);
        let inode = Inode { major: 4, minor: 9, number: 77 };
        let file =
            FileMapping { pid: 5, path: "/bin/xz".into(), build_id: None, inode: Some(inode) };
        let id = Some(vec![9, 0, 0, 0]);
        let with_id =
            FileMapping { path: "/bin/ls".into(), build_id: id, inode: None, ..file.clone() };
        assert_eq!(noted(&index.noting_files()), [file, with_id]);
    }

    #[test]
    fn a_single_sampling_event_needs_no_look_up() {
        let index = IdIndex::new([], &[Attr::default(), sampling(SampleType::empty())]);
        let tally = count(&records(), &[], &index);
        assert_eq!((tally.samples.as_slice(), tally.sample_time), (&[0, 4][..], None));
    }

    #[test]
    fn time_stands_where_all_events_have_it_or_is_not_told() {
        let plain = sampling(SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CPU);
        let other = sampling(SampleType::TIME);
        assert_eq!(IdIndex::new([], [&plain, &Attr::default()]).time_at, Some(32));
        assert_eq!(IdIndex::new([], [&plain, &other]).time_at, None);
    }

    #[test]
    fn the_first_and_last_sample_of_two_readers_are_those_of_both() {
        let seen = |first, last| RecordTally {
            sample_time: Some((first, last)),
            ..RecordTally::default()
        };
        let mut all = RecordTally::default();
        for tally in [seen(30, 40), RecordTally::default(), seen(10, 35)] {
            all.add(tally);
        }
        assert_eq!(all.sample_time, Some((10, 40)));
    }

    #[test]
    fn bytes_that_are_no_records_are_told() {
        let index = IdIndex::new([], &[sampling(SampleType::TIME)]);
        let tally = count(&[9, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1], &[], &index);
        assert_eq!((tally.bytes, tally.broken_bytes), (0, 16));
    }
}
