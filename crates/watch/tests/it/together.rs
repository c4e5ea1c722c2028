//! All three answer alike, whatever comes, and many at once leave a whole account.

use std::sync::Barrier;

use pmuscope_watch::slots::{
    Accounting, Cached, Constant, Kind, Layout, Naive, Owner, SlotError, SlotRequest, SlotTask,
    Slots,
};

fn layouts() -> [Layout; 4] {
    [
        Layout { possible_cpus: 1, slots: Slots::Mixed(4) },
        Layout { possible_cpus: 5, slots: Slots::Mixed(4) },
        Layout { possible_cpus: 3, slots: Slots::Separate { data: 2, instruction: 3 } },
        Layout { possible_cpus: 7, slots: Slots::Separate { data: 16, instruction: 6 } },
    ]
}

/// Few tasks and CPUs, so that they meet.
fn request(random: &mut fastrand::Rng, layout: &Layout, tasks: u64) -> SlotRequest {
    // One of those CPUs does not exist.
    let cpu = random.u32(0..=layout.possible_cpus);
    let task = SlotTask(random.u64(0..tasks));
    let owner = match random.u32(0..5) {
        0 => Owner::Cpu(cpu),
        1 | 2 => Owner::TaskOnCpu(task, cpu),
        _ => Owner::Task(task),
    };
    let kind = if random.bool() { Kind::Data } else { Kind::Instruction };
    let weight = if random.u32(0..8) == 0 { random.u32(2..4) } else { 1 };
    SlotRequest { owner, kind, weight }
}

/// What becomes of one step in each account: all the same.
fn step(all: &[&dyn Accounting], act: impl Fn(&dyn Accounting) -> Result<(), SlotError>) -> bool {
    let results: Vec<_> = all.iter().map(|slots| act(*slots)).collect();
    let first = results[0];
    for (result, slots) in results.iter().zip(all) {
        assert_eq!(*result, first, "{} and {}", slots.name(), all[0].name());
    }
    first.is_ok()
}

/// A million steps in `make test`; errors too are equal, with the slots that were found taken.
#[test]
fn random_steps_end_alike() {
    const STEPS: usize = 250_000;
    for (layout, seed) in layouts().into_iter().zip(1..) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (naive, cached, constant) =
            (Naive::new(layout), Cached::new(layout), Constant::new(layout));
        let all: [&dyn Accounting; 3] = [&naive, &cached, &constant];
        let (mut held, mut refused): (Vec<SlotRequest>, u32) = (Vec::new(), 0);
        for _ in 0..STEPS {
            // Tides: mostly full, and empty now and then.
            let ebb = random.u32(0..100) == 0;
            for _ in 0..if ebb { held.len() } else { 0 } {
                let one = held.swap_remove(random.usize(0..held.len()));
                assert!(step(&all, |slots| slots.release(one)));
            }
            match random.u32(0..10) {
                0..6 => {
                    let one = request(&mut random, &layout, 4);
                    if step(&all, |slots| slots.reserve(one)) {
                        held.push(one);
                    } else {
                        refused += 1;
                    }
                }
                6..9 if !held.is_empty() => {
                    let one = held.swap_remove(random.usize(0..held.len()));
                    assert!(step(&all, |slots| slots.release(one)));
                }
                _ if !held.is_empty() => {
                    let at = random.usize(0..held.len());
                    let kind = if random.bool() { Kind::Data } else { Kind::Instruction };
                    if step(&all, |slots| slots.modify(held[at], kind)) {
                        held[at].kind = kind;
                    }
                }
                _ => {}
            }
        }
        assert!(refused > STEPS as u32 / 20, "{refused} refused: the machine was hardly ever full");
        for one in held {
            assert!(step(&all, |slots| slots.release(one)));
        }
        assert!(all.iter().all(|slots| slots.is_empty()));
    }
}

/// What all hold at the end was let in at some time: it fits one after another in the oracle too, and
/// whatever is asked then has the same answer.
#[test]
fn many_at_once_leave_a_whole_account() {
    const THREADS: u64 = 8;
    const STEPS: usize = 20_000;
    let layout = Layout { possible_cpus: 3, slots: Slots::Mixed(4) };
    let each: [Box<dyn Accounting>; 2] =
        [Box::new(Constant::new(layout)), Box::new(Cached::new(layout))];
    for slots in each {
        let barrier = Barrier::new(THREADS as usize);
        let work = |thread: u64| -> Vec<SlotRequest> {
            let mut random = fastrand::Rng::with_seed(thread);
            let mut held: Vec<SlotRequest> = Vec::new();
            barrier.wait();
            for _ in 0..STEPS {
                // Half of the tasks belong to several threads.
                let one = request(&mut random, &layout, 4);
                if random.u32(0..10) < 5 || held.is_empty() {
                    if slots.reserve(one).is_ok() {
                        held.push(one);
                    }
                } else {
                    let gone = held.swap_remove(random.usize(0..held.len()));
                    slots.release(gone).unwrap();
                }
            }
            held
        };
        let held: Vec<SlotRequest> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(!held.is_empty());
        let naive = Naive::new(layout);
        for one in &held {
            naive.reserve(*one).unwrap();
        }
        let mut random = fastrand::Rng::with_seed(99);
        for _ in 0..10_000 {
            let probe = request(&mut random, &layout, 4);
            if step(&[&naive, &*slots], |slots| slots.reserve(probe)) {
                assert!(step(&[&naive, &*slots], |slots| slots.release(probe)));
            }
        }
        for one in held {
            slots.release(one).unwrap();
        }
        assert!(slots.is_empty(), "{}", slots.name());
    }
}
