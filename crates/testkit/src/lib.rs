//! What tests of several crates share. A dev-dependency only: no program contains it.
//!
//! - [`corpus`]: recordings that other tools made on other machines.
//! - [`simulator`], [`hit_file`], [`wait_file`], [`sharing_file`]: recordings of counter windows, watchpoints, context
//!   switches and memory accesses of simulated programs, whose truth is known.
//! - [`plain_file`], [`distinct_stacks`]: recordings made record by record, and one with hardly any two stacks alike.
//! - [`need`]: whether this machine has what a test takes. Each probe asks the kernel or the system directly,
//!   never through the code under test: a recorder that fails must fail its tests, not skip them.

// Tests fail by panicking; so does what they are built from.
#![allow(clippy::unwrap_used, clippy::panic)]

pub mod corpus;
pub mod distinct_stacks;
pub mod hit_file;
pub mod need;
pub mod plain_file;
pub mod sharing_file;
pub mod simulator;
mod sys;
pub mod wait_file;

use std::process::Command;

/// Stock perf. As root it mounts tracefs where nobody has, and leaves it: here it does so in a mount namespace
/// of its own, so that no other test finds a machine that perf has prepared.
///
/// Tests record side by side: `perf record` takes `-B` here. Where another recording asks the kernel for build ids in
/// mappings, those of perf's own have the mark of such a mapping, too, and perf 6.1 aborts over it without that flag.
#[must_use]
pub fn perf() -> Command {
    if need::root().is_some() || need::mount_namespaces().is_some() {
        return Command::new("perf");
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "perf"]);
    command
}

/// Returns from a test whose machine lacks something, and prints what.
///
/// ```
/// use pmuscope_testkit::{need, skip_unless};
///
/// fn needs_root() {
///     skip_unless!(need::root());
///     // ...
/// }
/// needs_root();
/// ```
#[macro_export]
macro_rules! skip_unless {
    ($need:expr) => {
        if let Some(reason) = $need {
            eprintln!("skipped: {reason}");
            return;
        }
    };
}
