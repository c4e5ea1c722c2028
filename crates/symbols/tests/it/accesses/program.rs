//! Each line with a comment `// Type.field` accesses that field and nothing else in memory.
#![allow(dead_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Node {
    pub next: Option<Box<Node>>,
    pub value: u64,
    pub tag: u8,
}

pub struct Inner {
    pub first: u64,
    pub second: u64,
}

#[repr(C)]
pub struct Queue {
    pub head: Option<Box<Node>>,
    pub count: AtomicU64,
    pub inner: Inner,
    pub slots: [Slot; 8],
    pub total: u64,
}

#[repr(C)]
pub struct Slot {
    pub sequence: u64,
    pub value: u32,
    pub low: u16,
}

pub struct Pair {
    pub key: u64,
    pub datum: u64,
}

pub enum Shape {
    Circle { radius: u64 },
    Square { side: u64, name: u64 },
}

pub trait Work {
    fn work(&mut self, by: u64) -> u64;
}

static SHARED: AtomicU64 = AtomicU64::new(0);
static QUEUE: Counters = Counters { hits: AtomicU64::new(0), misses: AtomicU64::new(0) };

pub struct Counters {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn list_sum(node: &Node) -> u64 {
    let mut sum = 0u64;
    let mut at = Some(node);
    while let Some(node) = at {
        sum = sum.wrapping_add(node.value); // Node.value
        at = node.next.as_deref(); // Node.next
    }
    sum
}

impl Queue {
    #[inline(never)]
    pub fn change(&mut self, by: u64) -> u64 {
        self.inner.first = by; // Queue.inner.first
        self.total = self.total.wrapping_add(by); // Queue.total
        self.inner.second // Queue.inner.second
    }

    #[inline]
    fn bump(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst)
    }

    #[inline(never)]
    pub fn slot(&mut self, at: usize) -> u32 {
        let at = at & 7;
        self.slots[at].low = 3; // Queue.slots[].low
        let value = self.slots[at].value; // Queue.slots[].value
        value ^ 3
    }

    #[inline(never)]
    #[unsafe(no_mangle)]
    pub fn first(&mut self) -> u64 {
        let Some(node) = &mut self.head else { return 0 }; // Queue.head
        node.tag = 4; // Node.tag
        node.value // Node.value
    }
}

impl Work for Pair {
    #[inline(never)]
    fn work(&mut self, by: u64) -> u64 {
        self.key ^= by; // Pair.key
        self.datum // Pair.datum
    }
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn pairs(all: &mut [Pair]) -> u64 {
    let mut sum = 0u64;
    for pair in all {
        let key = pair.key; // Pair.key
        sum = black_box(sum ^ key);
        pair.datum = sum; // Pair.datum
    }
    sum
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn boxed(mut pair: Box<Pair>) -> Box<Pair> {
    pair.key = 3; // Pair.key
    black_box(&SHARED);
    pair.datum = pair.datum.wrapping_mul(5); // Pair.datum
    pair
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn vector(all: &Vec<Slot>) -> u64 {
    let mut sum = 0u64;
    for slot in all {
        sum = sum.wrapping_add(slot.sequence); // Slot.sequence
        sum ^= u64::from(slot.low); // Slot.low
    }
    sum
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn pick(a: &mut Slot, b: &mut Slot, which: bool) -> u32 {
    let slot = if which { a } else { b };
    slot.sequence = 7; // Slot.sequence
    slot.value // Slot.value
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn called(queue: &mut Queue, pair: &mut Pair) -> u64 {
    let first = black_box(queue.change(4));
    pair.key = first; // Pair.key
    let second = pair.work(first);
    queue.total = second; // Queue.total
    second
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn closure(pair: &mut Pair, by: u64) -> u64 {
    let mut add = |more: u64| {
        pair.key = pair.key.wrapping_add(more); // Pair.key
    };
    add(by);
    black_box(&by);
    add(by);
    pair.datum // Pair.datum
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn indexed(all: &[Slot], at: usize) -> u64 {
    let slot = &all[at];
    let value = u64::from(slot.value); // Slot.value
    value ^ slot.sequence // Slot.sequence
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn two(inner: &mut Inner, other: &Inner) -> u64 {
    let first = other.first; // Inner.first
    inner.second = first; // Inner.second
    first
}

fn main() {
    let mut queue = Queue {
        head: None,
        count: AtomicU64::new(0),
        inner: Inner { first: 1, second: 2 },
        slots: std::array::from_fn(|_| Slot { sequence: 0, value: 1, low: 2 }),
        total: 3,
    };
    let queue = black_box(&mut queue);
    let mut pair = Pair { key: 1, datum: 2 };
    let (mut a, mut b) = (Slot { sequence: 0, value: 1, low: 2 }, Slot { sequence: 0, value: 1, low: 2 });
    black_box(queue.change(3) + u64::from(queue.slot(2)) + queue.first() + queue.bump());
    black_box(called(queue, black_box(&mut pair)));
    black_box(closure(black_box(&mut pair), 3));
    black_box(pairs(black_box(&mut [Pair { key: 1, datum: 2 }])));
    black_box(boxed(black_box(Box::new(Pair { key: 1, datum: 2 }))));
    black_box(vector(black_box(&vec![Slot { sequence: 0, value: 1, low: 2 }])));
    black_box(pick(black_box(&mut a), black_box(&mut b), black_box(true)));
    black_box(indexed(black_box(&[Slot { sequence: 0, value: 1, low: 2 }]), black_box(0)));
    black_box(list_sum(black_box(&Node { next: None, value: 1, tag: 2 })));
    black_box(two(black_box(&mut Inner { first: 1, second: 2 }), black_box(&Inner { first: 1, second: 2 })));
    let work: &mut dyn Work = black_box(&mut pair);
    black_box(work.work(3));
    QUEUE.hits.fetch_add(1, Ordering::SeqCst);
}
