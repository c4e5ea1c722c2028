//! Puts records in order of time, from rounds.
//!
//! A recorder reads all ring buffers in turn and ends each round with a mark. Each buffer is in order,
//! but buffers are not ordered among each other, and while one is read another fills. So at a mark,
//! everything older than the newest record of the *previous* round is complete:
//!
//! ```text
//!  round 1   ──────────────┤ youngest = 40
//!  round 2       ───────────────────┤ youngest = 70     mark: everything up to 40 goes out, sorted
//!  round 3                     ───────────────┤         mark: everything up to 70
//! ```
//! Without marks everything waits for the end of the file. To bound memory, half of what waits is
//! released when the limit is reached; records that come too late for that are counted.
//!
//! Bodies are stored in blocks, which are reused once everything in them has been released. Records
//! that are far newer than others keep their blocks alive; when these dominate memory, bodies are
//! compacted.

use super::kernel::Identified;
use super::limit;

/// Records that are worth being let go.
const LEAST: usize = 4096;
/// Bytes of a block; more than the largest record.
const BLOCK: usize = 256 << 10;
/// Empty blocks that are kept.
const SPARE: usize = 16;

/// A record that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    time: u64,
    block: u32,
    at: u32,
    length: u16,
    misc: u16,
    kind: u16,
    event: u16,
}

/// Bytes that a record takes without its body: sorting takes half as much again.
const COST: usize = size_of::<Waiting>() + size_of::<Waiting>() / 2;

/// Bodies of records, one after another.
#[derive(Debug, Default)]
struct RecordBlock {
    bytes: Vec<u8>,
    /// Records that wait.
    waiting: u32,
}

/// Collects records in the order of the file and hands them out in the order of time.
#[derive(Debug)]
pub(super) struct Order {
    /// Numbers of blocks stay; one that is empty holds no memory, or is in `spare`.
    blocks: Vec<RecordBlock>,
    /// The block that is being filled.
    current: usize,
    /// Empty blocks, without and with memory.
    unused: Vec<u32>,
    spare: Vec<Vec<u8>>,
    /// Blocks that have memory.
    held: usize,
    /// Up to `ready` sorted and free to go, from `next` on not yet gone.
    waiting: Vec<Waiting>,
    next: usize,
    ready: usize,
    /// Youngest record of the last round, and of this one.
    previous: u64,
    youngest: u64,
    /// Time of the last record that went out.
    released: u64,
    late: u64,
    early: u64,
    largest: usize,
    /// Records that must wait before [`Order::release_up_to`] is worth its while.
    worth: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self::with_largest(limit::order_limit())
    }
}

impl Order {
    /// At most some `largest` bytes are held, a few blocks at least.
    pub(super) fn with_largest(largest: usize) -> Self {
        Self {
            blocks: vec![RecordBlock::default()],
            current: 0,
            unused: Vec::new(),
            spare: Vec::new(),
            held: 0,
            waiting: Vec::new(),
            next: 0,
            ready: 0,
            previous: 0,
            youngest: 0,
            released: 0,
            late: 0,
            early: 0,
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
        if self.cost_with(body.len()) > self.largest {
            self.make_room(body.len());
        }
        let time = time.unwrap_or(0);
        self.late += u64::from(time != 0 && time < self.released);
        self.youngest = self.youngest.max(time);
        let (block, at) = self.store(body);
        self.waiting.push(Waiting { time, block, at, length, misc, kind, event });
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

    /// The latest time of all records so far.
    pub(super) fn youngest(&self) -> u64 {
        self.youngest
    }

    /// Records that came after younger ones had gone out.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Records that went out before it was known that none older would come, as memory was at its limit.
    pub(super) fn early(&self) -> u64 {
        self.early
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
        // Its bytes are there until something is put into their place.
        self.blocks[record.block as usize].waiting -= 1;
        Some(Identified {
            kind: record.kind.into(),
            misc: record.misc,
            event: record.event.into(),
            time: (record.time != 0).then_some(record.time),
            body: self.body(&record),
        })
    }

    fn body(&self, record: &Waiting) -> &[u8] {
        let start = record.at as usize;
        &self.blocks[record.block as usize].bytes[start..start + usize::from(record.length)]
    }

    /// Appends a body to the current block; answers where it is.
    fn store(&mut self, body: &[u8]) -> (u32, u32) {
        if self.blocks[self.current].bytes.len() + body.len() > BLOCK {
            self.begin_block();
        }
        let block = &mut self.blocks[self.current];
        if block.bytes.capacity() == 0 && !body.is_empty() {
            block.bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK));
            self.held += 1;
        }
        let at = block.bytes.len() as u32;
        block.bytes.extend_from_slice(body);
        block.waiting += 1;
        (self.current as u32, at)
    }

    fn begin_block(&mut self) {
        let current = &mut self.blocks[self.current];
        if current.waiting == 0 {
            return current.bytes.clear();
        }
        if self.unused.is_empty() {
            self.sweep();
        }
        self.current = match self.unused.pop() {
            Some(block) => block as usize,
            None => {
                self.blocks.push(RecordBlock::default());
                self.blocks.len() - 1
            }
        };
    }

    /// Takes back blocks of which everything has gone. Every other block is new since the last time, so
    /// that costs little.
    fn sweep(&mut self) {
        for (number, block) in self.blocks.iter_mut().enumerate() {
            let is_gone = number != self.current && block.waiting == 0;
            if !is_gone || block.bytes.capacity() == 0 {
                continue;
            }
            let mut bytes = std::mem::take(&mut block.bytes);
            bytes.clear();
            self.held -= 1;
            if self.spare.len() < SPARE {
                self.spare.push(bytes);
            }
            self.unused.push(number as u32);
        }
    }

    /// Bytes held once a body of `more` bytes has come.
    fn cost_with(&self, more: usize) -> usize {
        let is_new = self.blocks[self.current].bytes.len() + more > BLOCK;
        let blocks = self.held + self.spare.len() + usize::from(is_new);
        blocks * BLOCK + (self.waiting.len() + 1) * COST
    }

    /// Does not let memory grow: gives back what has gone, moves bodies together, lets half go out.
    fn make_room(&mut self, more: usize) {
        self.drop_gone();
        self.sweep();
        self.spare.clear();
        if self.waiting.capacity() > 4 * (self.waiting.len() + LEAST) {
            self.waiting.shrink_to(2 * self.waiting.len());
        }
        if self.cost_with(more) <= self.largest {
            return;
        }
        let used: usize = self.waiting.iter().map(|record| usize::from(record.length)).sum();
        if self.held > 2 && used < self.held * BLOCK / 4 * 3 {
            self.compact();
        }
        // What may go already is for the caller to take.
        if self.cost_with(more) > self.largest && self.ready < self.waiting.len().div_ceil(2) {
            self.release_half();
        }
    }

    /// Moves all bodies together, in the order in which they lie.
    fn compact(&mut self) {
        let mut full = std::mem::replace(&mut self.blocks, vec![RecordBlock::default()]);
        (self.current, self.held) = (0, 0);
        self.unused.clear();
        let mut order: Vec<u32> = (0..self.waiting.len() as u32).collect();
        order.sort_unstable_by_key(|&index| {
            let Waiting { block, at, .. } = self.waiting[index as usize];
            (block, at)
        });
        let mut from = 0;
        for index in order {
            let Waiting { block, at, length, .. } = self.waiting[index as usize];
            while from < block as usize {
                // All is out of this one: it is filled next.
                let mut bytes = std::mem::take(&mut full[from].bytes);
                bytes.clear();
                if bytes.capacity() > 0 && self.spare.len() < 2 {
                    self.spare.push(bytes);
                }
                from += 1;
            }
            let start = at as usize;
            let body = &full[from].bytes[start..start + usize::from(length)];
            let (block, at) = self.store(body);
            let moved = &mut self.waiting[index as usize];
            (moved.block, moved.at) = (block, at);
        }
        self.spare.clear();
    }

    fn release_half(&mut self) {
        self.waiting.sort_by_key(|record| record.time);
        if let Some(middle) = self.waiting.get(self.waiting.len() / 2) {
            self.release(middle.time);
            self.early += self.ready as u64;
        }
    }

    /// Lets go what is not younger than `limit`.
    pub(super) fn release(&mut self, limit: u64) {
        self.drop_gone();
        self.waiting.sort_by_key(|record| record.time);
        self.ready = self.waiting.partition_point(|record| record.time <= limit);
        if let Some(last) = self.ready.checked_sub(1) {
            self.released = self.released.max(self.waiting[last].time);
        }
    }

    /// Forgets what has gone out.
    fn drop_gone(&mut self) {
        if self.next > 0 {
            self.waiting.drain(..self.next);
            self.ready -= self.next;
            self.next = 0;
        }
        if self.is_empty() {
            self.blocks[self.current].bytes.clear();
        }
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

    /// What is held, bytes.
    fn held(order: &Order) -> usize {
        let blocks = order.blocks.iter().map(|block| block.bytes.capacity());
        let spare = order.spare.iter().map(Vec::capacity);
        blocks.chain(spare).sum::<usize>() + order.waiting.len() * size_of::<Waiting>()
    }

    /// Large records and small ones, in any order, without a mark: all go out, and never is more held.
    #[test]
    fn without_marks_memory_is_bounded_by_what_is_held() {
        const LARGEST: usize = 8 << 20;
        let mut random = fastrand_like(7);
        for is_reversed in [false, true] {
            let mut order = Order::with_largest(LARGEST);
            let (mut sum, mut out, mut most) = (0_u64, 0_u64, 0);
            for number in 0..20_000_u64 {
                let value = random();
                let time = if is_reversed { 1_000_000 - number } else { 1 + value % 1_000_000 };
                let length = if value.is_multiple_of(7) { 60_000 } else { value as usize % 40 };
                let mut body = vec![number as u8; length];
                body.extend(time.to_ne_bytes());
                push_of(&mut order, 1, time, &body);
                sum += time;
                most = most.max(held(&order));
                while let Some(record) = order.pop() {
                    let (_, stamp) = record.body.split_at(record.body.len() - 8);
                    assert_eq!(Some(u64::from_ne_bytes(stamp.try_into().unwrap())), record.time);
                    out += record.time.unwrap();
                }
            }
            assert!(most <= LARGEST + 2 * BLOCK && most > LARGEST / 2, "{most}");
            assert!(order.early() > 0 && order.late() > 0);
            order.finish();
            let rest = drain(&mut order);
            assert!(rest.is_sorted());
            assert_eq!(out + rest.iter().sum::<u64>(), sum);
        }
    }

    /// A linear congruential generator: numbers without a crate.
    fn fastrand_like(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        }
    }

    /// Rounds of different sizes use the same memory again.
    #[test]
    fn blocks_are_used_again() {
        let mut order = Order::default();
        for round in 0..50_u64 {
            for record in 0..40 {
                push_of(&mut order, 0, round * 100 + record, &[0; 50_000]);
            }
            order.finish_round();
            drain(&mut order);
            assert!(held(&order) < 40 * 50_000 * 4 + 4 * BLOCK, "{}", held(&order));
        }
        assert_eq!((order.early(), order.late()), (0, 0));
    }

    #[test]
    fn records_of_one_time_stay_in_their_order_when_bodies_move() {
        let mut order = Order::with_largest(4 << 20);
        let mut seen = Vec::new();
        for number in 0..300_u64 {
            // Every other one is old and goes first.
            let time = if number % 2 == 0 { 1 } else { 1000 };
            push_of(&mut order, 0, time, &[&number.to_ne_bytes()[..], &[0; 30_000]].concat());
            seen.extend(numbers(&mut order));
        }
        order.finish();
        seen.extend(numbers(&mut order));
        for parity in [0, 1] {
            let of_time: Vec<u64> =
                seen.iter().copied().filter(|number| number % 2 == parity).collect();
            assert!(of_time.is_sorted() && of_time.len() == 150, "{of_time:?}");
        }
    }

    fn numbers(order: &mut Order) -> Vec<u64> {
        let number = |body: &[u8]| u64::from_ne_bytes(body[..8].try_into().unwrap());
        std::iter::from_fn(|| order.pop().map(|record| number(record.body))).collect()
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
