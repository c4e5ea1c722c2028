//! The same in Rust: fields of statics, an array of atomics, a box.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::{sleep, spawn};
use std::time::Duration;

#[repr(C, align(64))]
pub struct Queue {
    head: AtomicU64,
    tail: AtomicU64,
}

#[repr(align(64))]
pub struct Slots([AtomicU32; 16]);

#[repr(align(64))]
pub struct Flag(AtomicBool);

pub static QUEUE: Queue = Queue { head: AtomicU64::new(0), tail: AtomicU64::new(0) };
pub static SLOTS: Slots = Slots([const { AtomicU32::new(0) }; 16]);
#[no_mangle]
pub static READY: Flag = Flag(AtomicBool::new(true));
pub static TOTAL: Slots = Slots([const { AtomicU32::new(0) }; 16]);
#[no_mangle]
pub static BOXED: AtomicPtr<Queue> = AtomicPtr::new(std::ptr::null_mut());

fn run(what: impl Fn() + Send + 'static) {
    spawn(move || loop {
        what();
        sleep(Duration::from_millis(1));
    });
}

fn boxed() -> &'static Queue {
    unsafe { &*BOXED.load(Relaxed) }
}

fn main() {
    let queue = Box::new(Queue { head: AtomicU64::new(0), tail: AtomicU64::new(0) });
    BOXED.store(Box::into_raw(queue), Relaxed);
    run(|| { let _ = QUEUE.head.fetch_add(1, Relaxed); });
    run(|| { QUEUE.tail.store(QUEUE.head.load(Relaxed), Relaxed); });
    run(|| { let _ = SLOTS.0[1].fetch_add(1, Relaxed); });
    run(|| { let _ = SLOTS.0[9].fetch_add(1, Relaxed); });
    run(|| { let _ = READY.0.load(Relaxed); });
    run(|| { let _ = READY.0.load(Relaxed); });
    run(|| { let _ = TOTAL.0[0].fetch_add(1, Relaxed); });
    run(|| { let _ = TOTAL.0[0].fetch_add(1, Relaxed); });
    run(|| { let _ = boxed().head.fetch_add(1, Relaxed); });
    run(|| { let _ = boxed().tail.fetch_add(1, Relaxed); });
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
