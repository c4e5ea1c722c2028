//! The rules against the kernel that runs here.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmuscope_counters::Host;
use pmuscope_machine::Machine;
use pmuscope_watch::kernel::{KernelCheck, KernelError, compare, slots};
use pmuscope_watch::slots::Layout;

/// Held by whoever uses breakpoints of this machine: slots of CPUs are missing for all others.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_kernel_lets_in_what_the_rules_do() {
    let _alone = alone();
    let found = match slots(&Host) {
        Ok(found) => found,
        Err(error @ (KernelError::Open { .. } | KernelError::None)) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let topology = Machine::host().topology().unwrap();
    let highest = topology.possible.iter().max().unwrap();
    let how = KernelCheck {
        layout: Layout { possible_cpus: highest + 1, slots: found },
        online: topology.online.iter().collect(),
        operations: 20_000,
        tasks: 4,
        seed: 1,
    };
    // A program that is being started has all our descriptors for a moment.
    let is_over = AtomicBool::new(false);
    let compared = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(Command::new("true").status().unwrap().success());
            }
        });
        let compared = compare(&Host, &how);
        is_over.store(true, Ordering::Relaxed);
        compared
    });
    let compared = match compared {
        Ok(compared) => compared,
        Err(error @ (KernelError::Held { .. } | KernelError::Open { .. })) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    println!("{found:?}: {compared:?}");
    assert_eq!(compared.disagreements, [""; 0]);
    assert!(compared.refused > 1000 && compared.opened > 1000, "{compared:?}");
}
