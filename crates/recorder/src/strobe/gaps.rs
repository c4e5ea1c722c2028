//! Samples that belong to no epoch: those of tries that were not accepted. They are left out of the
//! file, since a reader that knows nothing of epochs would count them.
//!
//! ```text
//!   epoch ──┤ off    try   try   try ├── epoch ──────
//!           from_ns                  until_ns        time of the CPU's samples
//! ```
//!
//! Between two epochs nothing but tries is sampled: events are off when the first one ends, and from
//! the moment before the accepted try on a sample is the next one's.

use pmuscope_abi::record::{Header, kind};
use pmuscope_counters::Pending;

use crate::tally::RingView;

/// Position of the time in a sample: behind header, id, instruction pointer, process and thread.
pub(super) const TIME_AT: usize = 32;

/// The stretches of one CPU's time that are in no epoch, as far as samples of them can still come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gaps {
    list: Vec<Gap>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    from_ns: u64,
    /// `None` while there is no phase.
    until_ns: Option<u64>,
    /// A ring has been looked through since it ended: at the next time all of its samples have passed.
    is_old: bool,
}

/// Before the first phase there is none.
impl Default for Gaps {
    fn default() -> Self {
        Self { list: vec![Gap { from_ns: 0, until_ns: None, is_old: false }] }
    }
}

impl Gaps {
    /// Events are off from this moment on. Nothing changes where they were off already.
    pub(super) fn begin(&mut self, from_ns: u64) {
        if self.list.last().is_none_or(|gap| gap.until_ns.is_some()) {
            self.list.push(Gap { from_ns, until_ns: None, is_old: false });
        }
    }

    /// From this moment on samples are of a phase.
    pub(super) fn end(&mut self, until_ns: u64) {
        if let Some(gap) = self.list.last_mut() {
            gap.until_ns.get_or_insert(until_ns);
        }
    }

    fn has(&self, time_ns: u64) -> bool {
        let holds = |gap: &Gap| {
            gap.from_ns <= time_ns && gap.until_ns.is_none_or(|until_ns| time_ns < until_ns)
        };
        self.list.iter().any(holds)
    }

    /// Takes samples that lie in gaps out of what is pending in the CPU's ring: what is left, in runs of
    /// whole records, and how many samples went. The ring must have been looked at before this is
    /// called: a gap that has ended by now may have samples that only the next reading sees.
    pub(super) fn sift<'a>(&mut self, pending: &Pending<'a>) -> (Vec<Pending<'a>>, u64) {
        let view = RingView::of(pending);
        let is_in_gap = |at: usize, header: Header| {
            let time = view.word(at + TIME_AT);
            header.kind == kind::SAMPLE && time.is_some_and(|time| self.has(time))
        };
        let (mut kept, mut from, mut dropped) = (Vec::new(), 0, 0);
        view.for_each(|at, header| {
            if is_in_gap(at, header) {
                kept.push(pending.part(from..at));
                from = at + usize::from(header.size);
                dropped += 1;
            }
        });
        kept.push(pending.part(from..pending.len()));
        kept.retain(|run| !run.is_empty());
        self.list.retain(|gap| !gap.is_old);
        self.list.iter_mut().for_each(|gap| gap.is_old = gap.until_ns.is_some());
        (kept, dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;

    /// Samples of these times, and a record of another kind after each.
    fn records(times: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        for &time in times {
            let sample = RecordBuilder::new(&mut out, kind::SAMPLE, 2);
            sample.u64(1).u64(0x4000).u64(7).u64(time).u64(0).finish();
            RecordBuilder::new(&mut out, kind::COMM, 0).u64(7).u64(time).finish();
        }
        out
    }

    fn times(bytes: &[u8]) -> Vec<u64> {
        let view = Pending::of_copy(bytes);
        let (view, mut times) = (RingView::of(&view), Vec::new());
        view.for_each(|at, header| {
            if header.kind == kind::SAMPLE {
                times.extend(view.word(at + TIME_AT));
            }
        });
        times
    }

    fn bytes(runs: &[Pending<'_>]) -> Vec<u8> {
        runs.iter().flat_map(|run| [run.first, run.second]).flatten().copied().collect()
    }

    fn two_gaps() -> Gaps {
        let mut gaps = Gaps::default();
        gaps.end(100);
        gaps.begin(200);
        gaps.begin(250);
        gaps.end(300);
        gaps
    }

    #[test]
    fn samples_between_epochs_go_and_nothing_else() {
        let all = [50, 99, 100, 199, 200, 250, 299, 300, 400];
        let records = records(&all);
        for seam in (0..records.len()).step_by(8) {
            let (first, second) = records.split_at(seam);
            let (kept, dropped) = two_gaps().sift(&Pending::of_pieces(first, second));
            let kept = bytes(&kept);
            assert_eq!((times(&kept), dropped), (vec![100, 199, 300, 400], 5), "seam at {seam}");
            // 48 bytes each: samples only.
            assert_eq!(kept.len(), records.len() - 5 * 48, "seam at {seam}");
        }
    }

    #[test]
    fn nothing_is_taken_apart_where_nothing_goes() {
        let records = records(&[100, 150, 300]);
        let (kept, dropped) = two_gaps().sift(&Pending::of_copy(&records));
        assert_eq!((kept.len(), kept[0].len(), dropped), (1, records.len(), 0));
    }

    #[test]
    fn a_gap_is_known_until_all_of_its_samples_have_passed() {
        let mut gaps = two_gaps();
        let dropped = |gaps: &mut Gaps| gaps.sift(&Pending::of_copy(&records(&[250]))).1;
        // The first reading may have come before the last sample of the gap.
        assert_eq!([(); 3].map(|()| dropped(&mut gaps)), [1, 1, 0]);
        gaps.begin(400);
        let late = records(&[400, 500]);
        let open = |gaps: &mut Gaps| gaps.sift(&Pending::of_copy(&late)).1;
        assert_eq!([(); 4].map(|()| open(&mut gaps)), [2; 4], "while there is no phase");
    }
}
