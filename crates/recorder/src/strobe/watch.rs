//! What the readers see of the phase, in the samples that pass by.
//!
//! A reader hands over each piece of a ring. Samples of no phase are taken out of it. Of the others
//! windows are put together as an analysis would, and only counted: right, of a wrong length, of a wrong
//! offset. The main thread asks what was seen and says which phase is the right one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pmuscope_abi::record::kind;
use pmuscope_counters::Pending;
use pmuscope_perfdata::strobe::Reason;

use super::gaps::{Gaps, TIME_AT};
use crate::tally::RingView;

/// A window is of a wrong length beyond this many times the offset …
const LONG: u64 = 4;
/// … and this many counts more: the interrupt's skid may be longer than the window.
const SKID: u64 = 2000;
/// Wrong windows in a row that mean that the phase is lost. One or two can be a switch or a stray
/// interrupt.
const IN_A_ROW: u32 = 3;

/// What was seen on each CPU; by ring.
#[derive(Debug)]
pub(crate) struct Watch {
    cpus: Vec<Mutex<CpuWatch>>,
}

/// What was seen on one CPU since its phase was set.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct CpuWatch {
    expected: Option<Expected>,
    gaps: Gaps,
    /// Which samples are of the next phase is not known yet.
    is_being_set: bool,
    /// Samples that were left out since the recording began.
    left_out: u64,
    /// `A.count` at the last A sample.
    opened: Option<u64>,
    wrong_offsets: u32,
    wrong_lengths: u32,
    throttled: u64,
    seen: PhaseReading,
}

/// Which phase is the right one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Samples before this are of the phase before, nanoseconds.
    pub(crate) from_ns: u64,
    /// Id of A.
    pub(crate) opens: u64,
    /// Id of B.
    pub(crate) closes: u64,
    /// Length of a window.
    pub(crate) offset: u64,
    /// `A.count − B.count`, in wrapping numbers.
    pub(crate) apart: u64,
    /// It may differ by so much.
    pub(crate) tolerance: u64,
}

/// What was seen of a phase.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PhaseReading {
    /// Samples of A and B.
    pub(crate) samples: u64,
    /// Windows.
    pub(crate) windows: u64,
    /// Why the phase is lost, if it is.
    pub(crate) lost: Option<Reason>,
}

impl Watch {
    pub(crate) fn new(rings: usize) -> Self {
        Self { cpus: (0..rings).map(|_| Mutex::default()).collect() }
    }

    fn cpu(&self, ring: usize) -> Option<MutexGuard<'_, CpuWatch>> {
        Some(self.cpus.get(ring)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The events of the ring are off since `now_ns`.
    pub(crate) fn turned_off(&self, ring: usize, now_ns: u64) {
        if let Some(mut cpu) = self.cpu(ring) {
            cpu.gaps.begin(now_ns);
            cpu.begin_anew(None);
        }
    }

    /// A phase is about to be tried for. Until [`Watch::expect`] or [`Watch::turned_off`] says what came
    /// of it, readers leave the ring alone.
    pub(crate) fn being_set(&self, ring: usize) {
        if let Some(mut cpu) = self.cpu(ring) {
            cpu.is_being_set = true;
        }
    }

    /// From now on this phase is the right one.
    pub(crate) fn expect(&self, ring: usize, expected: Expected) {
        if let Some(mut cpu) = self.cpu(ring) {
            cpu.gaps.end(expected.from_ns);
            cpu.begin_anew(Some(expected));
        }
    }

    /// Takes out of what is pending in a ring what was sampled in no phase, and looks at the rest, which
    /// comes back in runs of whole records. `None` while a phase is being set, unless this is the `last`
    /// look: what belongs to it shows when it is.
    pub(crate) fn sift<'a>(
        &self,
        ring: usize,
        pending: &Pending<'a>,
        last: bool,
    ) -> Option<Vec<Pending<'a>>> {
        let Some(mut cpu) = self.cpu(ring) else { return Some(vec![*pending]) };
        if cpu.is_being_set && !last {
            return None;
        }
        let (kept, left_out) = cpu.gaps.sift(pending);
        cpu.left_out += left_out;
        kept.iter().for_each(|run| cpu.update(run));
        Some(kept)
    }

    /// Samples of no phase that were left out since the recording began.
    pub(crate) fn left_out(&self, ring: usize) -> u64 {
        self.cpu(ring).map_or(0, |cpu| cpu.left_out)
    }

    /// Which phase is the right one now.
    pub(crate) fn expected(&self, ring: usize) -> Option<Expected> {
        self.cpu(ring)?.expected
    }

    /// What was seen since.
    pub(crate) fn seen(&self, ring: usize) -> PhaseReading {
        self.cpu(ring).map_or_else(PhaseReading::default, |cpu| cpu.seen)
    }

    /// THROTTLE records of the ring since the recording began.
    pub(crate) fn throttled(&self, ring: usize) -> u64 {
        self.cpu(ring).map_or(0, |cpu| cpu.throttled)
    }

    /// Looks at what is pending in a ring.
    pub(crate) fn update(&self, ring: usize, pending: &Pending<'_>) {
        if let Some(mut cpu) = self.cpu(ring) {
            cpu.update(pending);
        }
    }
}

impl CpuWatch {
    /// With sums as they were.
    fn begin_anew(&mut self, expected: Option<Expected>) {
        let gaps = std::mem::take(&mut self.gaps);
        let (left_out, throttled) = (self.left_out, self.throttled);
        *self = Self { expected, gaps, left_out, throttled, ..Self::default() };
    }

    fn update(&mut self, pending: &Pending<'_>) {
        let view = RingView::of(pending);
        view.for_each(|at, header| match header.kind {
            kind::SAMPLE => self.take_sample(&view, at),
            kind::THROTTLE => self.take_throttle(&view, at),
            _ => {}
        });
    }

    /// Sample of an edge: header, id, ip, pid and tid, time, cpu, members, A's count and id, B's …
    fn take_sample(&mut self, view: &RingView<'_>, at: usize) {
        let word = |number: usize| view.word(at + 8 * number);
        let Some(expected) = self.expected else { return };
        let (Some(id), Some(time)) = (word(1), view.word(at + TIME_AT)) else { return };
        if time < expected.from_ns || id != expected.opens && id != expected.closes {
            return;
        }
        let (Some(a), Some(b)) = (word(7), word(9)) else { return };
        self.seen.samples += 1;
        let off = a.wrapping_sub(b).wrapping_sub(expected.apart) as i64;
        let right = off.unsigned_abs() <= expected.tolerance;
        self.wrong_offsets = if right { 0 } else { self.wrong_offsets + 1 };
        if self.wrong_offsets >= IN_A_ROW {
            self.lose(Reason::OffsetChanged);
        }
        if id == expected.opens {
            // A after A: a window that nobody closed.
            let unclosed = self.opened.replace(a).is_some();
            if unclosed {
                self.take_length(false);
            }
        } else if let Some(opened) = self.opened.take() {
            let length = a.wrapping_sub(opened);
            let offset = expected.offset;
            self.seen.windows += 1;
            self.take_length(length > 0 && length <= offset * LONG + SKID);
        }
    }

    fn take_length(&mut self, right: bool) {
        self.wrong_lengths = if right { 0 } else { self.wrong_lengths + 1 };
        if self.wrong_lengths >= IN_A_ROW {
            self.lose(Reason::LengthChanged);
        }
    }

    /// THROTTLE: header, time, id.
    fn take_throttle(&mut self, view: &RingView<'_>, at: usize) {
        self.throttled += 1;
        let time = view.word(at + 8);
        if self.expected.is_some_and(|expected| time.is_some_and(|time| time >= expected.from_ns)) {
            self.lose(Reason::Throttled);
        }
    }

    /// Only the first reason is kept, except that throttling explains all others.
    fn lose(&mut self, reason: Reason) {
        if self.seen.lost.is_none() || reason == Reason::Throttled {
            self.seen.lost = Some(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_abi::record::RecordBuilder;

    const A: u64 = 11;
    const B: u64 = 12;

    /// Samples as (id, time, A's count, B's).
    fn samples(list: &[(u64, u64, u64, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for &(id, time, a, b) in list {
            let mut record = RecordBuilder::new(&mut out, kind::SAMPLE, 2);
            for word in [id, 0x4000, 1, time, 0, 2, a, A, b, B] {
                record = record.u64(word);
            }
            record.finish();
        }
        out
    }

    fn window(time: u64, a: u64, length: u64, offset: u64) -> [(u64, u64, u64, u64); 2] {
        [(A, time, a, a - offset), (B, time + 1, a + length, a + length - offset)]
    }

    fn expected() -> Expected {
        Expected { from_ns: 100, opens: A, closes: B, offset: 300, apart: 300, tolerance: 3 }
    }

    fn watch(list: &[(u64, u64, u64, u64)]) -> PhaseReading {
        let watch = Watch::new(1);
        let expected = expected();
        watch.expect(0, expected);
        watch.update(0, &Pending::of_copy(&samples(list)));
        watch.seen(0)
    }

    #[test]
    fn right_windows_are_right_and_those_before_are_not_looked_at() {
        let list =
            [window(10, 5000, 0, 0), window(200, 9000, 300, 300), window(300, 19_000, 302, 298)];
        assert_eq!(watch(&list.concat()), PhaseReading { samples: 4, windows: 2, lost: None });
    }

    #[test]
    fn an_offset_that_changed_is_seen_though_lengths_are_right() {
        let list =
            [window(200, 9000, 300, 300), window(300, 19_000, 300, 0), window(400, 29_000, 300, 0)];
        assert_eq!(watch(&list.concat()).lost, Some(Reason::OffsetChanged));
    }

    #[test]
    fn lengths_are_seen_though_the_offset_is_right() {
        for length in [0, 120_000] {
            let list = [200, 300, 400].map(|time| window(time, time * 1000, length, 300));
            assert_eq!(watch(&list.concat()).lost, Some(Reason::LengthChanged), "{length}");
        }
        let opened_only = [200, 300, 400, 500].map(|time| window(time, time * 1000, 1, 300)[0]);
        assert_eq!(watch(&opened_only).lost, Some(Reason::LengthChanged));
    }

    #[test]
    fn one_window_that_went_wrong_is_no_loss() {
        let list = [
            window(200, 9000, 300, 300),
            window(300, 19_000, 90_000, 300),
            window(400, 199_000, 300, 300),
        ];
        assert_eq!(watch(&list.concat()).lost, None);
    }

    #[test]
    fn throttling_is_the_reason_of_what_it_brings() {
        let mut bytes = samples(&[200, 300, 400].map(|t| window(t, t * 1000, 0, 0)).concat());
        RecordBuilder::new(&mut bytes, kind::THROTTLE, 0).u64(500).u64(A).u64(A).finish();
        let watch = Watch::new(2);
        let expected = expected();
        watch.expect(1, expected);
        watch.update(1, &Pending::of_copy(&bytes));
        assert_eq!((watch.seen(1).lost, watch.throttled(1)), (Some(Reason::Throttled), 1));
        watch.expect(1, expected);
        assert_eq!(
            (watch.seen(1), watch.throttled(1)),
            (PhaseReading::default(), 1),
            "a new phase, old sums"
        );
        watch.update(7, &Pending::of_copy(&bytes));
    }

    #[test]
    fn what_is_sampled_while_a_phase_is_being_set_waits_and_is_left_out() {
        let watch = Watch::new(1);
        watch.being_set(0);
        // Two tries that were preempted for a period, then the one that counts.
        let list =
            [(A, 40, 900, 0), (A, 60, 1800, 900), (A, 110, 9000, 8700), (B, 111, 9300, 9000)];
        let bytes = samples(&list);
        let pending = Pending::of_copy(&bytes);
        assert!(watch.sift(0, &pending, false).is_none());
        watch.expect(0, expected());
        let kept = watch.sift(0, &pending, false).unwrap();
        let record = bytes.len() / list.len();
        assert_eq!((kept.len(), kept[0].len()), (1, 2 * record));
        assert_eq!((watch.left_out(0), watch.seen(0).windows), (2, 1));
        // Nobody waits for a phase that will never be set.
        watch.turned_off(0, 112);
        watch.being_set(0);
        assert!(watch.sift(0, &pending, true).is_some());
    }
}
