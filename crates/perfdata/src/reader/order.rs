//! Records in time order out of rounds.
//!
//! A recorder goes round all rings and ends each round with a mark. Each ring is in order, rings among
//! each other are not, and while one is read another fills. So what is older than the youngest record
//! of the round *before* is complete at a mark:
//!
//! ```text
//!  round 1   ──────────────┤ youngest = 40
//!  round 2       ───────────────────┤ youngest = 70     mark: everything up to 40 goes out, sorted
//!  round 3                     ───────────────┤         mark: everything up to 70
//! ```
//! Without marks everything waits for the end of the file. So that this costs bounded memory, half of
//! what waits goes out when [`LARGEST`] is reached; what comes too late then is counted.

use super::kernel::Identified;

/// Bytes that wait at most.
const LARGEST: usize = 1 << 30;
/// Records that are worth being let go.
const LEAST: usize = 4096;

/// A record that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    time: u64,
    at: u32,
    length: u16,
    misc: u16,
    kind: u16,
    event: u16,
}

/// Collects records in the order of the file and hands them out in the order of time.
#[derive(Debug)]
pub(super) struct Order {
    bytes: Vec<u8>,
    /// Up to `ready` sorted and free to go, from `next` on not yet gone.
    waiting: Vec<Waiting>,
    next: usize,
    ready: usize,
    spare: Vec<u8>,
    /// Youngest record of the last round, and of this one.
    previous: u64,
    youngest: u64,
    /// Time of the last record that went out.
    released: u64,
    late: u64,
    largest: usize,
    /// Records that must wait before [`Order::release_up_to`] is worth its while.
    worth: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self::with_largest(LARGEST)
    }
}

impl Order {
    /// At most `largest` bytes wait.
    pub(super) fn with_largest(largest: usize) -> Self {
        Self {
            bytes: Vec::new(),
            waiting: Vec::new(),
            next: 0,
            ready: 0,
            spare: Vec::new(),
            previous: 0,
            youngest: 0,
            released: 0,
            late: 0,
            largest,
            worth: 0,
        }
    }

    /// Takes a record of the kernel's; one without a time goes out before all others.
    pub(super) fn push(&mut self, record: &Identified<'_>) {
        let Identified { kind, misc, event, time, body } = *record;
        // Kernel records have kinds below 64 and at most 65,535 bytes; events are counted in a u16.
        let (Ok(kind), Ok(length), Ok(event)) =
            (u16::try_from(kind), u16::try_from(body.len()), u16::try_from(event))
        else {
            return;
        };
        if self.cost() + body.len() > self.largest {
            self.compact();
            if self.cost() + body.len() > self.largest {
                self.release_half();
            }
        }
        let time = time.unwrap_or(0);
        self.late += u64::from(time != 0 && time < self.released);
        self.youngest = self.youngest.max(time);
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(body);
        self.waiting.push(Waiting { time, at, length, misc, kind, event });
    }

    /// A mark: every ring was read once since the last.
    pub(super) fn finish_round(&mut self) {
        self.release(self.previous);
        self.previous = self.youngest;
    }

    /// All records up to a time have come. To let go costs time by all that waits, so nothing happens
    /// before that many more have come.
    pub(super) fn release_up_to(&mut self, time: u64) {
        if self.waiting.len() - self.next >= self.worth {
            self.release(time);
            self.worth = 2 * (self.waiting.len() - self.ready) + LEAST;
        }
    }

    /// The end: everything may go.
    pub(super) fn finish(&mut self) {
        self.release(u64::MAX);
    }

    /// Records that came after younger ones had gone out.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.waiting.len()
    }

    /// Whether a record is free to go.
    pub(super) fn is_ready(&self) -> bool {
        self.next < self.ready
    }

    /// The time of the record that goes next, 0 if it has none; `None` if none is free to go.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.is_ready().then(|| self.waiting[self.next].time)
    }

    pub(super) fn pop(&mut self) -> Option<Identified<'_>> {
        if !self.is_ready() {
            return None;
        }
        let record = self.waiting[self.next];
        self.next += 1;
        let start = record.at as usize;
        Some(Identified {
            kind: record.kind.into(),
            misc: record.misc,
            event: record.event.into(),
            time: (record.time != 0).then_some(record.time),
            body: &self.bytes[start..start + usize::from(record.length)],
        })
    }

    fn cost(&self) -> usize {
        self.bytes.len() + self.waiting.len() * size_of::<Waiting>()
    }

    fn release_half(&mut self) {
        self.waiting.sort_by_key(|record| record.time);
        if let Some(middle) = self.waiting.get(self.waiting.len() / 2) {
            self.release(middle.time);
        }
    }

    /// Lets go what is not younger than `limit`.
    pub(super) fn release(&mut self, limit: u64) {
        self.compact();
        self.waiting.sort_by_key(|record| record.time);
        self.ready = self.waiting.partition_point(|record| record.time <= limit);
        if let Some(last) = self.ready.checked_sub(1) {
            self.released = self.released.max(self.waiting[last].time);
        }
    }

    /// Drops what has gone out.
    fn compact(&mut self) {
        if self.next == 0 {
            return;
        }
        self.waiting.drain(..self.next);
        self.ready -= self.next;
        self.next = 0;
        self.spare.clear();
        for record in &mut self.waiting {
            let start = record.at as usize;
            record.at = self.spare.len() as u32;
            self.spare.extend_from_slice(&self.bytes[start..start + usize::from(record.length)]);
        }
        std::mem::swap(&mut self.bytes, &mut self.spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(order: &mut Order) -> Vec<u64> {
        std::iter::from_fn(|| order.pop().map(|record| record.time.unwrap_or(0))).collect()
    }

    fn push(order: &mut Order, time: u64) {
        push_of(order, 0, time, &time.to_ne_bytes());
    }

    fn push_of(order: &mut Order, event: usize, time: u64, body: &[u8]) {
        order.push(&Identified { kind: 9, misc: 0, event, time: Some(time), body });
    }

    /// The drawing at the top of this file.
    #[test]
    fn a_mark_frees_what_the_round_before_had_seen() {
        let mut order = Order::default();
        [10, 40, 20].iter().for_each(|&time| push(&mut order, time));
        order.finish_round();
        assert!(drain(&mut order).is_empty());
        [30, 70, 50].iter().for_each(|&time| push(&mut order, time));
        order.finish_round();
        assert_eq!(drain(&mut order), [10, 20, 30, 40]);
        [60, 90].iter().for_each(|&time| push(&mut order, time));
        order.finish_round();
        assert_eq!(drain(&mut order), [50, 60, 70]);
        order.finish();
        assert_eq!(drain(&mut order), [90]);
        assert_eq!(order.late(), 0);
    }

    #[test]
    fn without_marks_half_goes_out_when_full_and_late_ones_are_counted() {
        let mut order = Order::with_largest(400);
        let mut seen = Vec::new();
        for time in (1..=40).chain([2]) {
            push(&mut order, time);
            seen.extend(drain(&mut order));
        }
        assert!(seen.len() >= 20, "{seen:?}");
        assert_eq!(order.late(), 1);
        order.finish();
        seen.extend(drain(&mut order));
        assert_eq!(seen.len(), 41);
        seen.sort_unstable();
        assert_eq!(seen.iter().sum::<u64>(), 40 * 41 / 2 + 2);
    }

    #[test]
    fn records_without_a_body_also_cost() {
        let mut order = Order::with_largest(1000);
        for _ in 0..10_000 {
            push_of(&mut order, 0, 5, &[]);
            drain(&mut order);
        }
        assert!(order.waiting.capacity() < 200, "{}", order.waiting.capacity());
    }

    /// What comes out is the same whether it is worth its while or not.
    #[test]
    fn what_is_complete_goes_out_when_enough_of_it_waits() {
        let mut order = Order::default();
        let mut seen = Vec::new();
        for time in 1..=20_000 {
            push(&mut order, time);
            order.release_up_to(time.saturating_sub(100));
            seen.extend(drain(&mut order));
            assert!(order.waiting.len() - order.next <= LEAST + 300);
        }
        assert!(seen.len() > 10_000);
        order.finish();
        seen.extend(drain(&mut order));
        assert_eq!(seen, (1..=20_000).collect::<Vec<_>>());
    }

    proptest! {
        /// Rings with rising times, read in rounds: all go out, in order, bodies with their times.
        #[test]
        fn rounds_of_rings_come_out_sorted(
            steps in proptest::collection::vec((0_usize..3, 1_u64..20), 1..300),
            marks in proptest::collection::vec(1_usize..12, 1..80),
        ) {
            // The kernel writes in time order into several rings …
            let mut rings = vec![Vec::new(); 3];
            let mut clock = 0;
            let mut all = Vec::new();
            for (ring, step) in steps {
                clock += step;
                rings[ring].push(clock);
                all.push(clock);
            }
            // … and the recorder empties each up to the present, one present per ring and round.
            let mut order = Order::default();
            let mut seen = Vec::new();
            let mut read = [0; 3];
            let mut now = 0;
            for advance in marks.iter().cycle() {
                for (ring, times) in rings.iter().enumerate() {
                    now += *advance as u64;
                    while let Some(&time) = times.get(read[ring]).filter(|&&time| time <= now) {
                        push_of(&mut order, ring, time, &time.to_ne_bytes());
                        read[ring] += 1;
                    }
                }
                order.finish_round();
                while let Some(record) = order.pop() {
                    prop_assert_eq!(record.body, &record.time.unwrap().to_ne_bytes()[..]);
                    seen.push(record.time.unwrap());
                }
                if rings.iter().zip(read).all(|(times, read)| read == times.len()) {
                    break;
                }
            }
            order.finish();
            seen.extend(drain(&mut order));
            prop_assert_eq!(seen, all);
            prop_assert_eq!(order.late(), 0);
        }
    }
}
